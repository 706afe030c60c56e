"""Compilers of FX graphs: the registry of backends by name, and the backends that come with dynamo_lite."""

from . import aot, cudagraphs, eager, inductor
from .registry import list_backends, lookup_backend, register_backend

for _name, _backend in (
    ("eager", eager.eager),
    ("aot_eager", aot.aot_eager),
    ("aot_eager_decomp_partition", aot.aot_eager_decomp_partition),
    ("cudagraphs", cudagraphs.cudagraphs),
    ("inductor", inductor.inductor),
):
    register_backend(_backend, name=_name)

__all__ = ["list_backends", "lookup_backend", "register_backend"]
