"""Polyfills of ``copy``. What they don't know is copied by methods of its class, or breaks the graph there."""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import Parameter

_MISSING = object()


def is_atomic(x: Any) -> bool:
    """Whether a copy of this kind of value is the value itself. The trace knows."""
    return False


def copy_tensor(x: Any) -> Any:
    """A deep copy of a tensor, which the trace makes."""
    return x


def copy_(x: Any) -> Any:
    cls = type(x)
    if is_atomic(x) or cls is tuple or cls is frozenset:
        return x
    if cls in (list, dict, set, deque, defaultdict) or cls is OrderedDict and not x.__dict__:
        return x.copy()
    copier = getattr(cls, "__copy__", None)
    return _recreate(x, None) if copier is None else copier(x)


def deepcopy(x: Any, memo: Any = None) -> Any:
    if is_atomic(x):
        return x
    if memo is None:
        memo = {}
    copied = memo.get(id(x), _MISSING)
    if copied is _MISSING:
        copied = _deepcopy(x, memo)
        if copied is not x:
            memo[id(x)] = copied
            memo.setdefault(id(memo), []).append(x)  # keeps it alive
    return copied


def _deepcopy(x: Any, memo: Any) -> Any:
    cls = type(x)
    copied: Any
    if cls is list:
        memo[id(x)] = copied = []
        for item in x:
            copied.append(deepcopy(item, memo))
    elif cls is dict or cls is defaultdict or cls is OrderedDict and not x.__dict__:
        memo[id(x)] = copied = cls(deepcopy(x.default_factory, memo)) if cls is defaultdict else cls()
        for key, value in x.items():
            copied[deepcopy(key, memo)] = deepcopy(value, memo)
    elif cls is tuple:
        items: list[Any] = []
        is_same = True
        for item in x:
            items.append(deepcopy(item, memo))
            is_same = is_same and items[-1] is item
        copied = memo.get(id(x), x if is_same else tuple(items))  # an item that contains it may have copied it
    elif cls is set or cls is frozenset:
        copied = cls(deepcopy([*x], memo))
    elif cls is Tensor:
        copied = copy_tensor(x)
    elif cls is Parameter:
        copied = Parameter.__deepcopy__(x, memo)
    else:
        copier = getattr(x, "__deepcopy__", None)
        copied = _recreate(x, memo) if copier is None else copier(memo)
    return copied


def _recreate(x: Any, memo: Any) -> Any:
    reductor = copyreg.dispatch_table.get(type(x))
    reduced = x.__reduce_ex__(4) if reductor is None else reductor(x)
    if isinstance(reduced, str):
        return x
    return copy._reconstruct(x, memo, *reduced)  # type: ignore[attr-defined]


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {copy.copy: copy_, copy.deepcopy: deepcopy}
