"""Compares the states that two runs of a program left: values, types, aliasing, identity."""

from __future__ import annotations

import enum
import functools
import itertools
import operator
import struct
import sys
import types
from collections import OrderedDict, deque
from typing import Any

import torch
from torch.nn.parameter import is_lazy

try:
    import numpy
except ImportError:
    ARRAYS: tuple[type, ...] = ()
else:
    ARRAYS = numpy.ndarray, numpy.generic

ATOMS = (int, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), slice, range)
BY_IDENTITY = (
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    torch.dtype,
    torch.layout,
    torch.memory_format,
    enum.Enum,
)
ITERATORS = (
    type(iter([])),
    type(iter(())),
    type(iter({})),
    type(iter({}.values())),
    type(iter({}.items())),
    type(iter(set())),
    type(iter(range(0))),
    type(reversed([])),
    zip,
    map,
    filter,
    enumerate,
    itertools.chain,
    itertools.count,
    types.GeneratorType,
)
# Left on the program's objects by torch.compile.
TORCHS = ("_dynamo_", "_is_torch_compile")


class Difference(AssertionError):
    """Raised for a difference between two runs."""


def drain(iterator: Any) -> list[Any]:
    """Returns the items of an iterator, and the exception that it raises."""
    items: list[Any] = []
    try:
        items.extend(itertools.islice(iterator, 1000))
    except Exception as error:  # whatever the program's iterator raises is what it gives
        items.append(error)
    return items


def drain_all(values: Any) -> dict[int, list[Any]]:
    """Returns the items of the iterators among some values, by the iterator's id."""
    found: dict[int, list[Any]] = {}
    for each in values if isinstance(values, (tuple, list)) else (values,):
        if isinstance(each, ITERATORS) and id(each) not in found:
            found[id(each)] = drain(each)
    return found


class Pairing:
    """Walks two structures side by side. Objects that one run shares must be shared in the other, and only those."""

    def __init__(self, exact: bool = True, drained: dict[int, list[Any]] | None = None) -> None:
        self.exact = exact
        self.drained = drained or {}
        self.there: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.storages_back: dict[int, int] = {}
        self.arrays: list[tuple[_Extent, _Extent]] = []
        self.alive: list[Any] = []

    def compare(self, one: Any, other: Any, where: str) -> None:
        """Raise `Difference` with the path to the first thing that differs."""
        if type(one) is not type(other) and not self._same_class_made_twice(type(one), type(other)):
            raise Difference(f"{where}: {type(one)} {one!r} in eager, {type(other)} {other!r} compiled")
        if isinstance(one, float):
            if struct.pack("d", one) != struct.pack("d", other) and not (not self.exact and abs(one - other) < 1e-5):
                raise Difference(f"{where}: {one!r} in eager, {other!r} compiled")
        elif isinstance(one, complex):
            self.compare((one.real, one.imag), (other.real, other.imag), where)
        elif type(one) in ATOMS:
            if one != other:
                raise Difference(f"{where}: {one!r} in eager, {other!r} compiled")
        elif isinstance(one, BY_IDENTITY) and not self._same_class_made_twice(one, other):
            if one is not other:
                raise Difference(f"{where}: {one!r} in eager, another object, {other!r}, compiled")
        elif self._pair(one, other, where):
            if isinstance(one, (int, str, bytes)) and one != other:
                raise Difference(f"{where}: {one!r} in eager, {other!r} compiled")
            self._inside(one, other, where)

    @staticmethod
    def _same_class_made_twice(one: Any, other: Any) -> bool:
        """A ``class`` statement or ``namedtuple`` inside of the program makes a new class each run."""
        if not (isinstance(one, type) and isinstance(other, type)) or one is other:
            return False
        name = one.__qualname__
        inside = "<locals>" in name or not hasattr(sys.modules[one.__module__], name.partition(".")[0])
        return inside and name == other.__qualname__

    def _pair(self, one: Any, other: Any, where: str) -> bool:
        """Note that two objects correspond to each other. False if that was known."""
        self.alive += [one, other]
        found = self.there.get(id(one))
        if found is not None:
            if found != id(other):
                raise Difference(f"{where}: one object in eager, two compiled: {one!r}")
            return False
        if not isinstance(one, (tuple, frozenset)) and id(other) in self.back:
            raise Difference(f"{where}: two objects in eager, one compiled: {one!r}")
        self.there[id(one)] = id(other)
        self.back[id(other)] = id(one)
        return True

    def _inside(self, one: Any, other: Any, where: str) -> None:
        if isinstance(one, torch.Tensor):
            self._tensors(one, other, where)
        elif isinstance(one, (types.FunctionType, types.MethodType, functools.partial, types.CellType)):
            self._callables(one, other, where)
        elif isinstance(one, BaseException):
            # The tuple itself is made anew by pickling and by some constructors; its items are the program's.
            self.compare([*one.args], [*other.args], f"{where}.args")
        elif isinstance(one, ITERATORS):
            self.compare(
                *(self.drained.get(id(each), None) or drain(each) for each in (one, other)), f"{where} (items)"
            )
        else:
            self._containers(one, other, where)
        self._attributes(one, other, where)

    def _containers(self, one: Any, other: Any, where: str) -> None:
        if isinstance(one, (list, tuple, deque)):
            if len(one) != len(other):
                raise Difference(f"{where}: {one!r} in eager, {other!r} compiled")
            for index, (a, b) in enumerate(zip(one, other, strict=True)):
                self.compare(a, b, f"{where}[{index}]")
            if isinstance(one, deque):
                self.compare(one.maxlen, other.maxlen, f"{where}.maxlen")
        elif isinstance(one, (dict, OrderedDict, types.MappingProxyType)):
            self.compare(list(one.keys()), list(other.keys()), f"{where}.keys()")
            for key, a, b in zip(one.keys(), one.values(), other.values(), strict=True):
                self.compare(a, b, f"{where}[{key!r}]")
            self.compare(getattr(one, "default_factory", None), getattr(other, "default_factory", None), where)
        elif isinstance(one, (set, frozenset)):
            self._sets(one, other, where)
        elif isinstance(one, (type({}.keys()), type({}.values()), type({}.items()))):
            self.compare(list(one), list(other), f"{where} (items)")
        elif isinstance(one, ARRAYS):
            self._arrays(one, other, where)
        elif isinstance(one, torch.Generator):
            self.compare(one.get_state(), other.get_state(), f"{where}.get_state()")
        elif isinstance(one, torch.device) and one != other:
            raise Difference(f"{where}: {one!r} in eager, {other!r} compiled")

    def _sets(self, one: Any, other: Any, where: str) -> None:
        def known(items: Any, pairs: dict[int, int]) -> set[Any]:
            return {pairs.get(id(each), each) if type(each) not in ATOMS else (type(each), each) for each in items}

        if len(one) != len(other) or known(one, self.there) != {
            (type(each), each) if type(each) in ATOMS else id(each) if id(each) in self.back else each for each in other
        }:
            raise Difference(f"{where}: {one!r} in eager, {other!r} compiled")

    def _callables(self, one: Any, other: Any, where: str) -> None:
        if isinstance(one, functools.partial):
            self.compare((one.func, one.args, one.keywords), (other.func, other.args, other.keywords), where)
        elif isinstance(one, types.MethodType):
            self.compare((one.__func__, one.__self__), (other.__func__, other.__self__), where)
        elif isinstance(one, types.CellType):
            empty = [not _has_contents(each) for each in (one, other)]
            self.compare(*empty, f"{where} is empty")
            if not empty[0]:
                self.compare(one.cell_contents, other.cell_contents, f"{where}.cell_contents")
        else:
            for name in (
                "__code__",
                "__name__",
                "__qualname__",
                "__module__",
                "__doc__",
                "__defaults__",
                "__kwdefaults__",
            ):
                self.compare(getattr(one, name), getattr(other, name), f"{where}.{name}")
            if one.__globals__ is not other.__globals__:
                raise Difference(f"{where}.__globals__ differ")
            self.compare(one.__closure__, other.__closure__, f"{where}.__closure__")

    def _attributes(self, one: Any, other: Any, where: str) -> None:
        if isinstance(one, BY_IDENTITY) or isinstance(one, type):
            return
        values = getattr(one, "__dict__", None)
        if type(values) is dict:
            values = {name: value for name, value in values.items() if not str(name).startswith(TORCHS)}
            theirs = {name: value for name, value in other.__dict__.items() if not str(name).startswith(TORCHS)}
            self.compare(list(values), list(theirs), f"{where}.__dict__ (names)")
            for name, value in list(values.items()):
                self.compare(value, theirs[name], f"{where}.{name}")
        for cls in type(one).__mro__:
            for name in getattr(cls, "__slots__", ()):
                if isinstance(cls.__dict__.get(name), types.MemberDescriptorType) and hasattr(one, name):
                    if not hasattr(other, name):
                        raise Difference(f"{where}.{name} is set in eager, not compiled")
                    self.compare(getattr(one, name), getattr(other, name), f"{where}.{name}")

    def _tensors(self, one: torch.Tensor, other: torch.Tensor, where: str) -> None:
        if is_lazy(one):  # it has no data, and says so where it is asked
            return
        is_wrapper = hasattr(one, "__tensor_flatten__")  # what it is made of is among its attributes
        shape = () if one.layout is torch.jagged else ("shape",)  # which is told apart by object
        for name in ("dtype", "device", "layout", "requires_grad", "is_leaf", *shape):
            if getattr(one, name) != getattr(other, name):
                raise Difference(f"{where}.{name}: {getattr(one, name)} in eager, {getattr(other, name)} compiled")
        strided = ("stride", "storage_offset") if one.layout is torch.strided else ()
        for call in (*strided, "is_inference", "is_neg", "is_conj"):
            a, b = getattr(one, call)(), getattr(other, call)()
            if a != b:
                raise Difference(f"{where}.{call}(): {a} in eager, {b} compiled")
        if (one.grad_fn is None) != (other.grad_fn is None):
            raise Difference(f"{where}.grad_fn: {one.grad_fn} in eager, {other.grad_fn} compiled")
        if not is_wrapper and not self._values(one.detach(), other.detach()):
            raise Difference(f"{where}: {one} in eager, {other} compiled")
        if one.numel() and one.layout is torch.strided:
            self._storage(one, other, where)
        if one.is_leaf:
            self.compare(one.grad, other.grad, f"{where}.grad")

    def _values(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        if one.is_meta:
            return True
        if one.layout is not torch.strided:
            one, other = one.to_dense(), other.to_dense()
        if self.exact:
            is_equal = torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)
            if is_equal or one.device.type == "cpu" or not torch.allclose(one, other, equal_nan=True):
                return is_equal and torch.equal(_signs(one), _signs(other))
            raise Difference("last bits: a kernel gives them in another order")
        return torch.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)

    def _arrays(self, one: Any, other: Any, where: str) -> None:
        for name in ("dtype", "shape", "flags.writeable"):
            a, b = (operator.attrgetter(name)(each) for each in (one, other))
            if a != b:
                raise Difference(f"{where}.{name}: {a} in eager, {b} compiled")
        if one.dtype == object:
            return self.compare(one.tolist(), other.tolist(), where)
        a, b = ([step for size, step in zip(each.shape, each.strides) if size > 1] for each in (one, other))
        if one.size and a != b:
            raise Difference(f"{where}.strides: {a} in eager, {b} compiled")
        if not self._items(one, other):
            raise Difference(f"{where}: {one!r} in eager, {other!r} compiled")
        if one.size and isinstance(one, numpy.ndarray):
            self._extents(_extent(one), _extent(other), where)

    def _items(self, one: Any, other: Any) -> bool:
        if one.dtype.kind == "c":
            return self._items(one.real, other.real) and self._items(one.imag, other.imag)
        if one.dtype.kind != "f":
            return numpy.array_equal(one, other)
        bits = 0.0 if self.exact else 1.0
        near = numpy.isclose(one, other, rtol=1e-4 * bits, atol=1e-5 * bits, equal_nan=True)
        if not self.exact:
            return bool(near.all())
        signs = (numpy.signbit(one) == numpy.signbit(other)) | (one != 0) | (other != 0)
        return bool((near & signs).all())

    def _extents(self, one: _Extent, other: _Extent, where: str) -> None:
        """Two arrays of one memory block must have the same distance in both runs."""
        for a, b in self.arrays:
            apart = [here[0] - there[0] if _meet(here, there) else None for here, there in ((one, a), (other, b))]
            if apart[0] != apart[1]:
                raise Difference(f"{where}: bytes from another array: {apart[0]} in eager, {apart[1]} compiled")
        self.arrays.append((one, other))

    def _storage(self, one: torch.Tensor, other: torch.Tensor, where: str) -> None:
        if hasattr(one, "__tensor_flatten__"):  # it has no memory of its own, but views of it have the same
            a, b = one.untyped_storage()._cdata, other.untyped_storage()._cdata
        else:
            a, b = one.untyped_storage().data_ptr(), other.untyped_storage().data_ptr()
        if self.storages.setdefault(a, b) != b:
            raise Difference(f"{where}: shares memory in eager, not compiled")
        if self.storages_back.setdefault(b, a) != a:
            raise Difference(f"{where}: shares memory compiled, not in eager")


_Extent = tuple[int, int]


def _extent(array: Any) -> _Extent:
    """Returns the addresses at which an array's memory begins and ends."""
    reach = [(size - 1) * step for size, step in zip(array.shape, array.strides)]
    first = array.__array_interface__["data"][0]
    return first + sum(min(each, 0) for each in reach), first + sum(max(each, 0) for each in reach) + array.itemsize


def _meet(one: _Extent, other: _Extent) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _signs(value: torch.Tensor) -> torch.Tensor:
    return torch.signbit(value) if value.dtype.is_floating_point else torch.zeros(())


def _has_contents(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
