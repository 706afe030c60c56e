"""Wrapper subclasses (``__tensor_flatten__`` and ``__torch_dispatch__``) and their inner tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .torch_names import is_custom_class


def is_wrapper_class(cls: type) -> bool:
    """Whether a class is a traceable wrapper subclass: it has ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    has_parts = hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")
    return has_parts and getattr(cls, _DISPATCH) is not getattr(torch.Tensor, _DISPATCH)


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether a tensor is an instance of a wrapper subclass."""
    return is_wrapper_class(type(tensor))


def has_user_subclass(tensor: torch.Tensor) -> bool:
    """Whether a tensor, or an inner one, is of a wrapper subclass that is not torch's."""
    if not is_wrapper(tensor):
        return False
    return not type(tensor).__module__.startswith("torch.") or any(has_user_subclass(part) for _, part in parts(tensor))


def overrides_torch_function(cls: type) -> bool:
    """Whether the program defines the class's ``__torch_function__``, which is traced then."""
    raw = next((vars(base)[_FUNCTION] for base in cls.__mro__ if _FUNCTION in vars(base)), None)
    if not isinstance(raw, classmethod) or raw is vars(torch.Tensor)[_FUNCTION]:
        return False
    return not getattr(raw.__func__, "__module__", "").startswith("torch.")


_FUNCTION = "__torch_function__"
_DISPATCH = "__torch_dispatch__"


def parts(tensor: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The names and inner tensors of a wrapper, without objects of custom classes that it lists, such as a mesh."""
    for name in tensor.__tensor_flatten__()[0]:
        value = getattr(tensor, name)
        if isinstance(value, torch.Tensor) or not is_custom_class(type(value)):
            yield name, value


def leaves(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The plain tensors at the leaves of nested wrappers; the tensor itself if it is no wrapper.

    Raises:
        AttributeError: a wrapper lacks one of its inner tensors.
    """
    if not is_wrapper(tensor):
        yield tensor
        return
    for _, part in parts(tensor):
        yield from leaves(part)


def rebuilt(tensor: Any) -> torch.Tensor:
    """Another wrapper of the same inner tensors."""
    cls: Any = type(tensor)
    names, context = tensor.__tensor_flatten__()
    inner = {name: getattr(tensor, name) for name in names}
    return cls.__tensor_unflatten__(inner, context, tensor.size(), tensor.stride())
