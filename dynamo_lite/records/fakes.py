"""Fake tensors, with a memory of what torch's operators give that is quick to ask.

`FakeTensorMode` has one too, which knows symbols and every kind of tensor; to ask it is most of what an operator costs
a translation. What an operator of aten's gives of dense tensors without symbols, where it writes nothing and reads no
data, follows from a few numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import (
    _DISPATCH_HANDLE_DIRECTLY,
    _DISPATCH_META_HANDLERS,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._pytree import tree_leaves

_aten = torch.ops.aten

_LIMIT = 20_000
"""Calls that are remembered; beyond them all are forgotten."""

_PLAIN = frozenset(
    {int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
)
"""Of arguments: what is equal gives the same, if it is of the same type."""

_OF_OTHERS = frozenset({*_DISPATCH_HANDLE_DIRECTLY, *FakeTensorMode.lift_fns})
"""What takes in a tensor that is no fake, or one that is not dense."""

_OF_MEMORY = frozenset({_aten.as_strided.default, _aten._reshape_alias.default})
"""What asks how large the memory is."""


class _Part(NamedTuple):
    """A tensor that an operator gave. ``of``: the argument that it is a view of; None: its memory is its own."""

    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    of: int | None


class _Given(NamedTuple):
    """What an operator gave. ``together``: makes a sequence of the parts; None: it is one tensor."""

    parts: tuple[_Part | None, ...]
    together: Callable[[list[Any]], Any] | None


_given: dict[tuple[Any, ...], _Given] = {}


@functools.lru_cache(maxsize=4096)
def _follows_from_numbers(func: Any) -> bool:
    """Whether what an operator gives follows from the numbers of its arguments."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten" or func._schema.is_mutable:
        return False
    return not (func in _OF_OTHERS or func in _OF_MEMORY or torch.Tag.data_dependent_output in func.tags)


def fake_mode(shape_env: Any) -> FakeTensorMode:
    """One that remembers. (Not of a class of its own: operators over functions have rules for torch's alone.)"""
    mode = FakeTensorMode(shape_env=shape_env)
    if mode.cache_enabled:
        mode.dispatch = _Remembering(mode).dispatch  # type: ignore[method-assign]
    return mode


class _Remembering:
    """The dispatch of a mode. What is remembered is the process's."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._dispatch = mode.dispatch
        self._fresh: dict[torch.device, dict[str, Any]] = {}
        """Device -> the attributes of a fake on it."""

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        answer = _DISPATCH_META_HANDLERS.get(func)
        if answer is not None:
            return answer(args)
        key = [func, torch.get_default_dtype(), torch._C._get_default_device(), torch.is_inference_mode_enabled()]
        follows = _follows_from_numbers(func) and self._describe(args, key)
        if not follows or (kwargs and not self._describe_named(kwargs, key)):
            return self._dispatch(func, types, args, kwargs or {})
        call = tuple(key)
        given = _given.get(call)
        if given is not None:
            return self._make(given, args)
        result = self._dispatch(func, types, args, kwargs or {})
        seen = self._remember(result, args, func.is_view)
        if seen is not None:
            if len(_given) >= _LIMIT:
                _given.clear()
            _given[call] = seen
        return result

    def _describe(self, args: Iterable[Any], key: list[Any]) -> bool:
        """Add to ``key`` what a result follows from. False: something of it may follow from more."""
        for arg in args:
            kind = type(arg)
            if kind is FakeTensor:
                if arg.fake_mode is not self._mode or arg.constant is not None or arg._has_symbolic_sizes_strides:
                    return False
                if arg.layout is not torch.strided or arg.is_conj() or arg.is_neg() or arg._is_zerotensor():
                    return False
                key += arg.shape, arg.stride(), arg.storage_offset(), arg.dtype, arg.fake_device
                key += arg.requires_grad, arg.is_inference()
            elif kind in _PLAIN:
                key += kind, arg
            elif kind is list or kind is tuple:
                key += kind, len(arg)
                if not self._describe(arg, key):
                    return False
            else:
                return False
        return True

    def _describe_named(self, kwargs: Mapping[str, Any], key: list[Any]) -> bool:
        key += kwargs
        return self._describe(kwargs.values(), key)

    def _make(self, given: _Given, args: Sequence[Any]) -> Any:
        made = [None if part is None else self._fake(part, args) for part in given.parts]
        return made[0] if given.together is None else given.together(made)

    def _fake(self, part: _Part, args: Sequence[Any]) -> FakeTensor:
        """A new one, as its class makes it, which checks and normalises what is as it should be here."""
        if part.of is None:
            meta = torch.empty_strided(part.size, part.stride, dtype=part.dtype, device="meta")
        else:
            meta = torch.empty(0, dtype=part.dtype, device="meta")
            meta.set_(args[part.of].untyped_storage(), part.offset, part.size, part.stride)
        attributes = self._fresh.get(part.device)
        if attributes is None:
            attributes = self._fresh[part.device] = dict(vars(FakeTensor(self._mode, meta, part.device)))
        fake = torch.Tensor._make_subclass(
            FakeTensor, meta, False, dispatch_device=True, device_for_backend_keys=part.device
        )
        torch._C._set_warn_deprecated_on_mutable_data_ptr(fake)
        vars(fake).update(attributes)
        return fake

    def _remember(self, result: Any, args: Sequence[Any], is_view: bool) -> _Given | None:
        """What can be made again of it; None: it is something else."""
        kind = type(result)
        together = kind if kind in (list, tuple) else getattr(kind, "_make", None)
        found = [result] if together is None else list(result)
        memory = [_memory_of(arg) for arg in args]
        parts: list[_Part | None] = []
        for each in found:
            if each is None:
                parts.append(None)
                continue
            if type(each) is not FakeTensor or each.constant is not None or each.layout is not torch.strided:
                return None
            if each.requires_grad or each._has_symbolic_sizes_strides or any(each is arg for arg in args):
                return None
            where = _memory_of(each)
            of = memory.index(where) if where in memory else None
            if memory.count(where) > 1 or (is_view and of is None):
                return None
            parts.append(_Part(each.shape, each.stride(), each.storage_offset(), each.dtype, each.fake_device, of))
        given = _Given(tuple(parts), together)
        again = self._make(given, args)
        made = [again] if together is None else list(again)
        return given if all(map(_alike, found, made)) and _sharing(args, found) == _sharing(args, made) else None


def _memory_of(value: Any) -> int | None:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _sharing(args: Sequence[Any], found: list[Any]) -> list[int]:
    """Who has the same memory: of each tensor the first that has."""
    memory = [_memory_of(each) for each in (*tree_leaves(args), *found)]
    return [memory.index(each) for each in memory]


def _alike(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    same_keys = torch._C._dispatch_key_set(one) == torch._C._dispatch_key_set(other)
    return same_keys and one.untyped_storage().nbytes() == other.untyped_storage().nbytes()
