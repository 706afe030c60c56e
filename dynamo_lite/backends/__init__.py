"""FX graph to callable: backends by name, those that come with dynamo_lite, and those of other packages."""

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
