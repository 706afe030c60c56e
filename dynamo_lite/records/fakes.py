"""A fake tensor mode with a fast cache of operators' results.

The cache of `FakeTensorMode` covers every kind of tensor, but a lookup in it is most of the cost of tracing an
operator. The result of a functional aten operator on dense tensors follows from a few numbers of its arguments, which
are the key of the cache here. Where some are symbolic, the key has their expressions and the cache is the mode's own:
what the operator has to assume of the symbols, it has assumed in the same shape environment before.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch._C import DispatchKey
from torch._subclasses.fake_tensor import (
    _DISPATCH_HANDLE_DIRECTLY,
    _DISPATCH_META_HANDLERS,
    FakeTensor,
    FakeTensorMode,
    disable_fake_tensor_cache,
    unset_fake_temporarily,
)
from torch.utils._pytree import tree_leaves

from dynamo_lite import _C
from dynamo_lite.runtime.shared_memory import memory_of

from .uncounted_writes import may_be_uncounted, written

_aten = torch.ops.aten

_LIMIT = 20_000
"""How many calls are cached; then the cache is cleared."""

_PLAIN = frozenset(
    {int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
)
"""Types of arguments that are part of the key, with their type."""

_SPECIAL = frozenset(
    {*_DISPATCH_HANDLE_DIRECTLY, *FakeTensorMode.lift_fns, _aten.as_strided.default, _aten._reshape_alias.default}
)
"""Operators that take real or sparse tensors, or that depend on the size of the storage."""


Sizes = tuple[int | torch.SymInt, ...]


class _Result(NamedTuple):
    """A tensor that an operator returned. ``of``: the argument that it is a view of; None: it has its own memory."""

    meta: torch.Tensor
    """A tensor on the meta device with its metadata."""
    device: torch.device
    of: int | None


class _Symbolic(NamedTuple):
    """A symbolic number in a key. Symbols have names that are their environment's own."""

    expression: Any


class _Results(NamedTuple):
    """The results of an operator. ``sequence``: makes the returned sequence of them; None: there is just one."""

    tensors: tuple[_Result | None, ...]
    sequence: Callable[[list[Any]], Any] | None


_cache: dict[tuple[Any, ...], _Results] = {}


@functools.lru_cache(maxsize=4096)
def _is_cacheable(func: object) -> bool:
    """Whether the result of an operator follows from the metadata of its arguments."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten" or func._schema.is_mutable:
        return False
    return func not in _SPECIAL and _DEPENDS_ON_DATA.isdisjoint(func.tags)


@functools.lru_cache(maxsize=4096)
def _is_composite_in_python_too(func: object) -> bool:
    """Whether an operator calls others, by a kernel in C++ and by one in Python. Out of inference mode the first runs
    before the mode is asked; it may return its argument where the other copies that (dropout in evaluation)."""
    if not isinstance(func, torch._ops.OpOverload) or DispatchKey.CompositeImplicitAutograd not in func.py_kernels:
        return False
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


_DEPENDS_ON_DATA = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})


def fake_mode(shape_env: Any) -> FakeTensorMode:
    """A mode with the cache. (Not a subclass: higher-order operators have rules for the type `FakeTensorMode` only.)"""
    mode = FakeTensorMode(shape_env=shape_env)
    cached = _CachedDispatch(mode)
    mode.dispatch = cached.dispatch  # type: ignore[method-assign]
    # Without torch's wrappers, which count calls and turn off a hook that is off here.
    mode.__torch_dispatch__ = MethodType(cached.as_method(), mode)  # type: ignore[method-assign]
    return mode


def uncounted_writes(mode: FakeTensorMode) -> list[torch.Tensor]:
    """The fakes of a mode that operators wrote into without a version counter that shows it, since the caller cleared
    the list."""
    return _dispatch_of(mode).uncounted_writes


def fake_of(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A fake of a tensor with its sizes, as ``mode.from_tensor`` creates it: one for each tensor."""
    fake = _dispatch_of(mode).fake_of(tensor)
    return mode.from_tensor(tensor, static_shapes=True) if fake is None else fake


def _dispatch_of(mode: FakeTensorMode) -> _CachedDispatch:
    dispatch: _CachedDispatch = mode.dispatch.__self__  # type: ignore[attr-defined]
    return dispatch


class _CachedDispatch:
    """The dispatch of a mode. All modes share the cache of calls without symbols."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._dispatch = mode.dispatch
        self._fresh: dict[torch.device, dict[str, Any]] = {}
        """Device -> the Python attributes of a new fake there."""
        self._symbolic: dict[tuple[Any, ...], _Results] = {}
        """The cache of calls whose key has symbols."""
        self.uncounted_writes: list[torch.Tensor] = []

    def as_method(self) -> Callable[..., Any]:
        """`dispatch`, as a method of the mode's."""
        dispatch = self.dispatch

        def method(
            _: FakeTensorMode, func: Any, kinds: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            return dispatch(func, kinds, args, kwargs)

        return method

    def fake_of(self, tensor: torch.Tensor) -> FakeTensor | None:
        """The fake of a dense leaf that is alone in its memory; None: torch's converter knows more kinds of tensors."""
        if torch.is_inference_mode_enabled():  # it would be an inference tensor
            return None
        converter = self._mode.fake_tensor_converter.meta_converter
        tensors, storages = converter.describer.lookup_tensor, converter.describer.lookup_storage
        if tensor in tensors or not _is_plain(tensor) or tensor.untyped_storage() in storages:
            return None
        size, stride = tensor.shape, tensor.stride()
        with torch._C._DisableTorchDispatch():
            meta = torch.empty_strided(size, stride, dtype=tensor.dtype, device="meta")
            fake = self._wrapped(meta, tensor.device, tensor.requires_grad)
        if type(tensor) is torch.nn.Parameter:
            fake._is_param = True
        converter.tensor_memo[converter.describer.get_tensor_id(tensor)] = fake
        converter.storage_memo[converter.describer.get_storage_id(tensor.untyped_storage())] = fake.untyped_storage()
        return fake

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        handler = _DISPATCH_META_HANDLERS.get(func)
        if handler is not None:
            return handler(args)
        in_inference_mode = torch.is_inference_mode_enabled()
        if in_inference_mode and _is_composite_in_python_too(func):
            with self._mode:
                return func._op_dk(DispatchKey.CompositeImplicitAutograd, *args, **(kwargs or {}))
        if may_be_uncounted(func):
            self.uncounted_writes += written(func, args, kwargs or {})
        if not self._mode.cache_enabled:  # the operator that runs this one will be cached
            return self._dispatch(func, types, args, kwargs or {})
        key = [func, torch.get_default_dtype(), torch._C._get_default_device(), in_inference_mode]
        cacheable = _is_cacheable(func) and self._add_to_key(args, key)
        if not cacheable or (kwargs and not self._add_named_to_key(kwargs, key)):
            return self._dispatch(func, types, args, kwargs or {})
        call = tuple(key)
        is_symbolic = any(type(each) is _Symbolic for each in key)
        cache = self._symbolic if is_symbolic else _cache
        cached = cache.get(call)
        if cached is not None:
            return self._recreate(cached, args)
        with disable_fake_tensor_cache(self._mode):  # it would describe the result, too
            result = self._dispatch(func, types, args, kwargs or {})
        described = self._described(result, args, func.is_view, is_symbolic)
        if described is not None:
            if len(cache) >= _LIMIT:
                cache.clear()
            cache[call] = described
        return result

    def _add_to_key(self, args: Iterable[Any], key: list[Any]) -> bool:
        """Add the metadata of the arguments to ``key``. False: the result may depend on more than that."""
        for arg in args:
            kind = type(arg)
            if kind is FakeTensor:
                if arg.fake_mode is not self._mode or arg.constant is not None:
                    return False
                if arg.layout is not torch.strided or arg.is_conj() or arg.is_neg() or arg._is_zerotensor():
                    return False
                if not arg._has_symbolic_sizes_strides:
                    key += arg.shape, arg.stride(), arg.storage_offset()
                elif not self._add_symbolic((len(arg.shape), *arg.shape, *arg.stride(), arg.storage_offset()), key):
                    return False
                key += arg.dtype, arg.fake_device, arg.requires_grad, arg.is_inference()
            elif kind is torch.SymInt:
                if not self._add_symbolic((arg,), key):
                    return False
            elif kind in _PLAIN:
                key += kind, arg
            elif kind is list or kind is tuple:
                key += kind, len(arg)
                if not self._add_to_key(arg, key):
                    return False
            else:
                return False
        return True

    def _add_symbolic(self, numbers: Sizes, key: list[Any]) -> bool:
        """Add numbers, of which some are symbolic, to ``key``. False: one is of another environment, or depends on
        data."""
        for number in numbers:
            if not isinstance(number, torch.SymInt):
                key.append(number)
            elif number.node.shape_env is self._mode.shape_env and number.node.has_hint():
                key.append(_Symbolic(number.node.expr))
            else:
                return False
        return True

    def _add_named_to_key(self, kwargs: Mapping[str, object], key: list[Any]) -> bool:
        key += kwargs
        return self._add_to_key(kwargs.values(), key)

    def _recreate(self, results: _Results, args: Sequence[object]) -> Any:
        fakes = [None if each is None else self._fake(each, args) for each in results.tensors]
        return fakes[0] if results.sequence is None else results.sequence(fakes)

    def _fake(self, result: _Result, args: Sequence[Any]) -> FakeTensor:
        """A new fake, as `FakeTensor` creates it, without the checks and normalisation there."""
        base = None if result.of is None else args[result.of]
        return self._wrapped(_C.copy_metadata(result.meta, base), result.device)

    def _wrapped(self, meta: torch.Tensor, device: torch.device, requires_grad: bool = False) -> FakeTensor:
        attributes = self._fresh.get(device)
        if attributes is None:
            attributes = self._fresh[device] = dict(vars(FakeTensor(self._mode, meta, device)))
        fake = torch.Tensor._make_subclass(
            FakeTensor, meta, requires_grad, dispatch_device=True, device_for_backend_keys=device
        )
        torch._C._set_warn_deprecated_on_mutable_data_ptr(fake)
        vars(fake).update(attributes)
        return fake

    def _meta(self, fake: FakeTensor, of: int | None) -> torch.Tensor:
        """A tensor with a result's metadata. Its symbolic layout is computed without adding guards."""
        size, stride, offset = fake.shape, fake.stride(), fake.storage_offset()
        env = self._mode.shape_env
        with contextlib.nullcontext() if env is None else env.suppress_guards():
            if of is None and not offset:
                return torch.empty_strided(size, stride, dtype=fake.dtype, device="meta")
            meta = torch.empty(0, dtype=fake.dtype, device="meta")
            return meta.set_(fake.untyped_storage(), offset, size, stride)

    def _described(self, result: Any, args: Sequence[object], is_view: bool, is_symbolic: bool) -> _Results | None:
        """The description of a result from which it can be recreated; None if it can't."""
        kind = type(result)
        sequence = kind if kind in (list, tuple) else getattr(kind, "_make", None)
        found = [result] if sequence is None else list(result)
        memory = [memory_of(arg) for arg in args]
        tensors: list[_Result | None] = []
        for each in found:
            if each is None:
                tensors.append(None)
                continue
            if type(each) is not FakeTensor or each.constant is not None or each.layout is not torch.strided:
                return None
            if each.requires_grad or any(each is arg for arg in args):
                return None
            if each._has_symbolic_sizes_strides and not is_symbolic:
                return None
            where = memory_of(each)
            of = memory.index(where) if where in memory else None
            if memory.count(where) > 1 or (is_view and of is None):
                return None
            if any(isinstance(n, torch.SymInt) and not n.node.has_hint() for n in (*each.shape, *each.stride())):
                return None
            tensors.append(_Result(self._meta(each, of), each.fake_device, of))
        results = _Results(tuple(tensors), sequence)
        again = self._recreate(results, args)
        recreated = [again] if sequence is None else list(again)
        alike = all(map(_are_alike, found, recreated)) and _aliasing(args, found) == _aliasing(args, recreated)
        return results if alike else None


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a parameter, or like one: floating, dense, no view, a leaf without a gradient."""
    if type(tensor) not in (torch.nn.Parameter, torch.Tensor) or tensor.layout is not torch.strided:
        return False
    if not (tensor.is_leaf and tensor.is_floating_point()) or tensor._is_view() or tensor.storage_offset():
        return False
    if tensor.grad is not None or vars(tensor):
        return False
    if tensor.requires_grad and getattr(tensor, "grad_dtype", tensor.dtype) != tensor.dtype:
        return False
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    return tensor.device.type != "meta" and keys == _plain_keys(tensor.device, tensor.dtype)


@functools.cache
def _plain_keys(device: torch.device, dtype: torch.dtype) -> int:
    """The dispatch keys of a new tensor."""
    with unset_fake_temporarily(), torch.inference_mode(False):
        return torch._C._dispatch_keys(torch.empty(0, dtype=dtype, device=device)).raw_repr()


def _aliasing(args: Sequence[object], found: list[Any]) -> list[int]:
    """For each tensor the index of the first one with the same memory."""
    memory = [memory_of(each) for each in (*tree_leaves(args), *found)]
    return [memory.index(each) for each in memory]


def _are_alike(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    same_keys = torch._C._dispatch_key_set(one) == torch._C._dispatch_key_set(other)
    return same_keys and _is_same_number(one.untyped_storage().nbytes(), other.untyped_storage().nbytes())


def _is_same_number(one: Any, other: Any) -> bool:
    """Whether two numbers are equal, of which either may be symbolic, without assuming anything of the symbols."""
    ones, others = (each.node.expr if isinstance(each, torch.SymInt) else each for each in (one, other))
    return bool(ones == others or isinstance(one, torch.SymInt) and (ones - others).expand() == 0)
