"""Self-tests of torch's data structures, which the extension reads at the places that torch's headers named when it was
built. No linker checks these: a torch that has them elsewhere is refused on import."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes


def find_misplaced(extension: ModuleType) -> str | None:
    """What the extension would read at a wrong place, in words; None if it reads all as torch itself does."""
    for name, size in extension.sizes_of_torch_objects().items():
        kind = getattr(torch, name, None) or getattr(torch._C, name)
        if kind.__basicsize__ != size:
            return f"{kind.__module__}.{name}"
    for tensor in _samples():
        read, expected = extension.tensor_layout(tensor), _as_torch_says(tensor)
        for field, value in expected.items():
            if read.get(field) != value:
                return f"the {field} of a tensor"
    return None if extension.state_layout_fits() else "torch's global state"


def _samples() -> Iterator[torch.Tensor]:
    """Tensors of which each field is somewhere unlike its default, whatever modes the program has on."""
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.enable_grad():
        leaf = torch.zeros(2, 3, 5, dtype=torch.float64, device="cpu", requires_grad=True)
        plain = torch.zeros(4, 7, dtype=torch.int16, device="cpu")
        plain[1:].zero_()
        many = torch.zeros(1, 2, 1, 2, 1, 2, 1, 2, dtype=torch.bool, device="cpu")  # more sizes than lie in a tensor
        samples = leaf, leaf.transpose(0, 2), leaf + 1, plain[1:, 2:], many.permute(7, 6, 5, 4, 3, 2, 1, 0)
        yield from samples
        yield torch.zeros(3, device="meta")


def _as_torch_says(tensor: torch.Tensor) -> dict[str, Any]:
    storage = tensor.untyped_storage()
    return {
        "address": tensor._cdata,
        "keys": torch._C._dispatch_keys(tensor).raw_repr(),
        "dtype": tensor.type().rpartition(".")[2].removesuffix("Tensor"),
        "device": str(tensor.device),
        "sizes": tuple(tensor.size()),
        "strides": tensor.stride(),
        "offset": tensor.storage_offset(),
        "version": tensor._version,
        "memory": storage.data_ptr(),
        "bytes": storage.nbytes(),
        "requires_grad": tensor.is_leaf and tensor.requires_grad,
        "has_node": tensor.grad_fn is not None,
        "is_view": tensor._is_view(),
    }
