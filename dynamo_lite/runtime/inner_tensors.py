"""Tensors made of others by their class (``__tensor_flatten__``, ``__torch_dispatch__``): what they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def is_wrapper_class(cls: type) -> bool:
    """Whether instances say what they are made of, and can be made of such again."""
    has_parts = hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")
    return has_parts and cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__  # type: ignore[attr-defined]


def is_wrapper(tensor: torch.Tensor) -> bool:
    return is_wrapper_class(type(tensor))


def has_user_subclass(tensor: torch.Tensor) -> bool:
    """Whether code that torch doesn't know says what its operators do."""
    if not is_wrapper(tensor):
        return False
    return not type(tensor).__module__.startswith("torch.") or any(has_user_subclass(part) for _, part in parts(tensor))


def has_user_torch_function(cls: type) -> bool:
    """Whether torch's functions ask a ``__torch_function__`` of the program's, which is traced."""
    raw = next((vars(base)[_FUNCTION] for base in cls.__mro__ if _FUNCTION in vars(base)), None)
    if not isinstance(raw, classmethod) or raw is vars(torch.Tensor)[_FUNCTION]:
        return False
    return not getattr(raw.__func__, "__module__", "").startswith("torch.")


_FUNCTION = "__torch_function__"


def parts(tensor: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """What a tensor is made of, by name."""
    for name in tensor.__tensor_flatten__()[0]:
        yield name, getattr(tensor, name)


def leaves(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The plain tensors that one is made of in the end; itself, if it is one.

    Raises:
        AttributeError: it lacks one of its parts.
    """
    if not is_wrapper(tensor):
        yield tensor
        return
    for _, part in parts(tensor):
        yield from leaves(part)


def rebuilt(tensor: Any) -> torch.Tensor:
    """Another one made of the same."""
    made: Any = type(tensor)
    names, context = tensor.__tensor_flatten__()
    inner = {name: getattr(tensor, name) for name in names}
    return made.__tensor_unflatten__(inner, context, tensor.size(), tensor.stride())  # type: ignore[no-any-return]


def storages(tensor: torch.Tensor) -> set[int]:
    """All memory that a tensor has: its own, if only in name, and that of what it is made of."""
    found = {tensor.untyped_storage()._cdata}
    return found | {each.untyped_storage()._cdata for each in leaves(tensor)} if is_wrapper(tensor) else found
