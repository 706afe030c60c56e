"""numpy: arrays as tensors of the graph whose operations are those of ``torch._numpy``.

What torch computes for an array is taken where numpy's own function, called on an array of ones of the same shape and
type, gives a result of the same type, shape and layout that shares memory with the same arguments, and torch's can be
computed of ones as well. Else the graph breaks, and numpy computes it. What writes into an array is tried likewise:
both are to write the same items. Values may differ in their last bits, as sums may be taken in another order.
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch._numpy

from dynamo_lite.insight.break_reasons import DataDependentValue, UnsupportedOperation
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Exhausted,
    Kwargs,
    VariableTracker,
    call_handler,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE
from dynamo_lite.variables.core.registry import Model, models_raw
from dynamo_lite.variables.python.containers.iterator import GetItemIterator
from dynamo_lite.variables.python.containers.sequence import ListVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.functions.c_callable import BuiltinVariable
from dynamo_lite.variables.python.numbers.symbolic import ShapeNumber
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .arrays import ArrayVariable, turned
from .flips import backwards, flipped_of, forwards, reversal
from .indices import (
    known_numbers,
    numpy_is_in_range,
    numpy_item_at,
    numpy_set_at,
    numpy_set_where,
    picks_each_once,
    split,
)
from .scalars import SCALARS, NumpyScalarVariable, has_array, is_cast, known_result
from .targets import (
    BY_OPERATOR,
    KINDS,
    SET_FLIPPED,
    SETITEM,
    STACK,
    attribute,
    call_method,
    function_of_torch,
    laid_out,
    method,
    numpy_dtype,
    of_its_own,
    read,
    same_memory,
)
from .trials import Tried, adds_zero, in_another_form, try_call, try_write, try_write_at
from .usual import QUOTIENTS, are_usual
from .values import is_of_items
from .warnings import calm, is_quiet
from .zeros import zeros_of

# -- arrays ------------------------------------------------------------------------------------------------------------


class NdarrayVariable(ArrayVariable):
    """What arrays do."""

    __slots__ = ()

    def beside(self, tx: Any, tensor: VariableTracker, symbol: str, reflected: bool = False) -> VariableTracker:
        """Of the tensor's type, which the number is cast to by arithmetic of single and double precision."""
        assert isinstance(tensor, TensorVariable)
        other = tensor.fake.dtype
        if not self.scalar or not is_cast(numpy_dtype(self.fake.dtype), other, symbol, reflected):
            return self
        return record(tx, "call_method", "to", [self.memory, ConstantVariable(other)], {})

    def truth(self, tx: Any) -> bool:
        unsupported(DataDependentValue("the truth of a numpy array"))

    def length(self, tx: Any) -> int:
        if not self.fake.ndim:
            tx.raise_error(TypeError, "len() of unsized object")
        return self.fake.shape[0]

    def iterate(self, tx: Any) -> VariableTracker:
        self.length(tx)
        return ArrayIterator(self)

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        fake = self.fake
        facts = {
            "shape": tuple(fake.shape),
            "ndim": fake.ndim,
            "size": fake.numel(),
            "itemsize": fake.itemsize,
            "nbytes": fake.numel() * fake.itemsize,
            "dtype": numpy_dtype(fake.dtype),
        }
        if name in facts:
            return tx.make(facts[name])
        if name == "strides" and min(fake.shape, default=2) > 1:  # of others they may be anything
            sizes = (-fake.itemsize if axis in self.flips else fake.itemsize for axis in range(fake.ndim))
            return tx.make(tuple(map(operator.mul, fake.stride(), sizes)))
        if name in ("T", "real", "imag"):
            return call(tx, attribute(name), functools.partial(read, name), [self], {})
        if callable(class_lookup(numpy.ndarray, name)) and not name.startswith("__"):
            return BuiltinMethodVariable(self, name)
        return super().getattr(tx, name)

    def call_method(self, tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ON_ARRAYS:
            return call_handler(ON_ARRAYS[name], (tx, self, *args), kwargs, name)
        if name not in _METHODS:
            unsupported(DataDependentValue(f"numpy.ndarray.{name}()"))
        return call(tx, method(name), functools.partial(call_method, name), [self, *args], kwargs)

    def getitem(self, tx: Any, key: VariableTracker) -> VariableTracker:
        key = key.realize()
        inside = forwards(tx, key, self.fake.shape, self.flips)
        if inside is None and _picks_one(key):
            return _item_at(tx, self, key)
        if inside is None:
            if _holds_array(key) and tx.graph.can_put_back():
                tx.graph.fails_handled = True  # of what is out of range backends say other things than numpy
            return call(tx, BY_OPERATOR["getitem"], operator.getitem, [self, key], {})
        return backwards_along(inside.axes, NdarrayVariable(self.memory).getitem(tx, TupleVariable(inside.key)))

    def binary(self, tx: Any, symbol: str, other: VariableTracker, reflected: bool = False) -> VariableTracker | None:
        return self._with(tx, BINARY[symbol], other, reflected)

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self._with(tx, COMPARE[symbol], other, False)

    def _with(self, tx: Any, function: Any, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if self.scalar and isinstance(other, TensorVariable):
            return None
        if not isinstance(other, (NdarrayVariable, ConstantVariable, NumpyScalarVariable)):
            unsupported(UnsupportedOperation(f"{function.__name__}()", f"an array and {other.describe()}"))
        args: Args = [other, self] if reflected else [self, other]
        return call(tx, BY_OPERATOR[function.__name__], function, args, {})

    def unary(self, tx: Any, function: Any) -> VariableTracker:
        return call(tx, BY_OPERATOR[function.__name__], function, [self], {})

    def inplace(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if self.scalar:
            return None
        return self.hold(tx, self.binary(tx, symbol, other))

    def hold(self, tx: Any, found: VariableTracker | None) -> VariableTracker:
        """Write a result of this array's shape into it."""
        if not isinstance(found, NdarrayVariable) or found.fake.shape != self.fake.shape or not _can_cast(found, self):
            unsupported(UnsupportedOperation("a write", "a numpy array, which can't hold the result"))
        _check_writable(tx, self)
        new = turned(tx, _apart(tx, found, self), self.flips)
        record(tx, "call_method", "copy_", [self.memory, new], {})
        return self

    def setitem(self, tx: Any, key: VariableTracker, value: VariableTracker) -> None:
        key, value = key.realize(), value.realize()
        if _is_mask(key) and not _is_number(value):
            return write_where(tx, self, key, value)  # type: ignore[arg-type]
        if not _is_mask(key) and _picks(key):
            return write_at(tx, self, key, value)
        inside = forwards(tx, key, self.fake.shape, self.flips)
        if inside is None:
            write(tx, self, key, value)
        elif inside.axes:
            part = NdarrayVariable(self.memory).getitem(tx, TupleVariable(inside.key))
            write(tx, backwards_along(inside.axes, part), ConstantVariable(...), value)
        else:
            write(tx, NdarrayVariable(self.memory), TupleVariable(inside.key), value)

    def reconstruct(self, cg: Any) -> None:
        parts = [lambda: cg.load(self.memory)]
        if self.flips:
            cg.call(flipped_of, [*parts, lambda: cg.load_const(self.flips)])
        else:
            cg.call(_scalar_of if self.scalar else _array_of, parts)


def backwards_along(axes: tuple[int, ...], found: VariableTracker) -> VariableTracker:
    """A view whose memory was found, and the axes of which are these."""
    assert isinstance(found, NdarrayVariable)
    if axes and found.fake.numel() == 0:  # torch's strides of nothing have no sign
        unsupported(UnsupportedOperation("a view that goes backwards", "an array without items"))
    return NdarrayVariable(found.memory, False, None, axes) if axes else found


class ArrayIterator(GetItemIterator):
    """It sees what is written into the array meanwhile."""

    __slots__ = ()

    def next(self, tx: Any) -> VariableTracker:
        if self.at >= self.of.length(tx):
            raise Exhausted
        return super().next(tx)

    def reconstruct(self, cg: Any) -> None:
        cg.call(_iterator_from, [lambda: cg.load(self.of), lambda: cg.load_const(self.at)])


def _iterator_from(array: Any, at: int) -> Any:
    iterator = iter(array)
    iterator.__setstate__(at)
    return iterator


def _array_of(tensor: torch.Tensor) -> Any:
    return tensor.numpy()


def _scalar_of(tensor: torch.Tensor) -> Any:
    return tensor.numpy()[()]


_METHODS = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "astype", "clip", "conj", "copy", "cumprod", "cumsum", "diagonal"}
    | {"dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape", "round", "squeeze", "std", "sum"}
    | {"swapaxes", "take", "trace", "transpose", "var"}
)
"""Methods that compute a new array or a view."""


# -- recording ---------------------------------------------------------------------------------------------------------


def call(tx: Any, target: Any, real: Callable[..., Any], args: Args, kwargs: Kwargs) -> VariableTracker:
    """Record ``target``, which stands for numpy's ``real``, if a trial shows that it is the same."""
    out = kwargs.get("out")
    if isinstance(real, numpy.ufunc) and isinstance(out, NdarrayVariable):
        return out.hold(tx, call(tx, target, real, args, {name: kwargs[name] for name in kwargs if name != "out"}))
    if out is not None or "where" in kwargs:
        unsupported(UnsupportedOperation("a numpy function with out= or where=", "arrays"))
    expected, tried = try_call(tx, target, real, args, kwargs, 1)
    if isinstance(expected, SCALARS):
        target = of_its_own(target)
    for each, ones in tried.arrays:
        if expected is ones and not isinstance(ones, numpy.bool_):  # of which there are two objects in all
            return each
    if tried.may_fail(target, args):
        unsupported(UnsupportedOperation("a numpy function", "integers, of which torch's version may raise"))
    if tried.is_view_of_flipped(expected):
        return _view_of_flipped(tx, target, real, args, kwargs)
    given = [_for_graph(tx, arg) for arg in args]
    found = record(tx, "call_function", target, given, {name: _for_graph(tx, value) for name, value in kwargs.items()})
    if adds_zero(tx, target, real, args, kwargs):
        found = record(tx, "call_function", operator.add, [found, ConstantVariable(0.0)], {})
    paired = _paired(tx, expected, found, tried)
    _expect_no_warning(tx, target, real, args, given, found)
    _expect_zeros(tx, target, args, kwargs, given, found)
    if tried.asks or _speaks_of_least(real, args):
        expect(tx, are_usual(real), given)
    if tx.graph.symbols.there_are:  # numpy is to do the same at other sizes
        other, tried = try_call(tx, target, real, args, kwargs, 2)
        _paired(tx, other, found, tried)
    return paired


def _view_of_flipped(tx: Any, target: Any, real: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """What numpy makes of arrays that go backwards is a view: it is one of their memory, if a trial shows that."""
    plain = [NdarrayVariable(arg.memory) if isinstance(arg, NdarrayVariable) else arg for arg in _realized(args)]
    found = call(tx, target, real, plain, kwargs)
    axes = set()
    for factor in (1, 2) if tx.graph.symbols.there_are else (1,):
        expected, tried = try_call(tx, target, real, args, kwargs, factor)
        other, tried_plain = try_call(tx, target, real, plain, kwargs, factor)
        axes.add(backwards(expected))
        if not isinstance(other, numpy.ndarray) or other.ndim != expected.ndim or len(axes) > 1:
            in_another_form("another view")
        if _form_beside(other[reversal(backwards(expected))], tried_plain) != _form_beside(expected, tried):
            in_another_form("another view")
    return backwards_along(axes.pop(), found)


def _form_beside(view: Any, tried: Tried) -> tuple[Any, ...]:
    """How a view lies in the memory of what was given."""
    if len(tried.arrays) > 1:
        in_another_form("a view, perhaps of another array,")
    trial = tried.arrays[0][1]
    return view.shape, view.strides, view.ctypes.data - trial[reversal(backwards(trial))].ctypes.data


def _expect_no_warning(tx: Any, target: Any, real: Any, args: Args, values: Args, found: VariableTracker) -> None:
    """Go on as if numpy warned of nothing in the items. ``values``: the arguments in the graph."""
    of_arrays = [(arg, value) for arg, value in zip(_realized(args), values) if isinstance(arg, NdarrayVariable)]
    given = [arg for arg, _ in of_arrays]
    kinds = [each.fake.dtype for each in _tensors_in(found)]
    inexact = [kind.is_floating_point or kind.is_complex for kind in kinds]
    scalars = real in _PLAIN_OPERATORS and not any(inexact) and all(each.scalar for each in given)
    if torch.bool in kinds or not given or not (any(inexact) or scalars or target.__name__ == "numpy_astype"):
        return
    safe = target.__name__ == "numpy_astype" and numpy.can_cast(*map(numpy_dtype, (given[0].fake.dtype, kinds[0])))
    if (is_quiet(target) or safe) and not scalars:
        return
    told: Args = values if scalars else [value for _, value in of_arrays]
    expect(tx, calm(real, is_of_items(real), scalars), [found, *told])


def _expect_zeros(tx: Any, target: Any, args: Args, kwargs: Kwargs, values: Args, found: VariableTracker) -> None:
    """Go on as if each zero had the sign that numpy gives it."""
    named = [kwargs["axis"]] if "axis" in kwargs else args[1:2]
    axis = named[0].realize() if named else ConstantVariable(None)
    says = zeros_of(target, axis.value if isinstance(axis, ConstantVariable) else None)
    if says is None or not isinstance(found, TensorVariable) or not found.fake.is_floating_point():
        return
    items = next((each for each in values if isinstance(each, TensorVariable)), None)
    if items is None:
        unsupported(UnsupportedOperation("a numpy function", "an array that is given by its name"))
    if found.fake.numel() and items.fake.is_floating_point():
        expect(tx, says, [found, items])


def expect(tx: Any, target: Callable[..., Any], args: Args) -> None:
    """Record what returns a condition, and go on as if it were true. Where another one is the last that was expected it
    says that too."""
    expected = tx.attempt.expected
    node = expected[-1].tensor.node.args[0] if expected else None
    before = expected[-1] if getattr(getattr(node, "target", None), "__name__", None) in _CONDITIONS else None
    if tx.attempt.settlings.apart:
        before = None
    condition = record(tx, "call_function", target, args, {} if before is None else {"before": before.tensor})
    if not (isinstance(condition, TensorVariable) and condition.expect(tx, True)):
        unsupported(UnsupportedOperation("a numpy function", "arrays, here where nobody could tell of its data,"))
    if before is not None:
        expected.remove(before)
        expected[-1] = expected[-1]._replace(places=(*before.places, *expected[-1].places))


_CONDITIONS = frozenset(
    {"numpy_is_calm", "numpy_is_in_range", "numpy_is_one_order", "numpy_set_at", "numpy_set_where"}
    | {"numpy_has_one_zero", "numpy_begins_with_zero", "numpy_is_usual"}
)


def _speaks_of_least(real: Any, args: Args) -> bool:
    """Whether numpy warns of a quotient that has no opposite."""
    array, by = _realized(args) if real in QUOTIENTS and len(args) == 2 else (None, None)
    if not isinstance(array, NdarrayVariable) or not isinstance(by, (ConstantVariable, NumpyScalarVariable)):
        return False
    return bool(array.fake.dtype in _SIGNED and by.value == -1)


_SIGNED = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})


def _realized(args: Args) -> Args:
    return [arg.realize() for arg in args]


_PLAIN_OPERATORS = frozenset({operator.add, operator.sub, operator.mul, operator.pow, operator.neg, operator.abs})


def _tensors_in(found: VariableTracker) -> list[Any]:
    found = found.realize()
    if isinstance(found, TensorVariable):
        return [found]
    return [each for part in found.contained() or () for each in _tensors_in(part)]


def write(tx: Any, array: NdarrayVariable, key: VariableTracker, value: VariableTracker) -> None:
    """``array[key] = value``, if a trial shows that torch's version writes the same."""
    _check_write(tx, array, value)
    for factor in (1, 2) if tx.graph.symbols.there_are else (1,):
        try_write(tx, [array, key, value], factor)
    given = [array.memory, _for_graph(tx, key), _apart(tx, value, array)]
    if array.flips:
        record(tx, "call_function", SET_FLIPPED, [*given, tx.make(array.flips)], {})
    else:
        record(tx, "call_function", SETITEM, given, {})


def write_at(tx: Any, array: NdarrayVariable, key: VariableTracker, value: VariableTracker) -> None:
    """``array[key] = value`` by arrays and lists of integers."""
    _check_write(tx, array, value)
    picked = split(key, array.fake.ndim)
    if picked is None or not all(map(_is_index, picked.indices)):
        unsupported(UnsupportedOperation("a write", "items of an array that something else picks"))
    view = array.getitem(tx, TupleVariable(picked.view))
    assert isinstance(view, NdarrayVariable)
    for factor in (1, 2) if tx.graph.symbols.there_are else (1,):
        try_write_at(tx, [array, key, value], picked, factor)
    indices = ListVariable([_for_graph(tx, each) for each in picked.indices])
    given = [tx.make(picked.axes), indices, _apart(tx, value, array)]
    known = not tx.graph.symbols.there_are and not any(map(_holds_array, picked.indices))
    is_sure = known and (_is_number(value) or picks_each_once(picked.indices))
    _write_if(tx, numpy_set_at, view, given, is_sure)


def _picks_one(key: VariableTracker) -> bool:
    """Whether numpy's scalars are among its parts."""
    parts = key.items if isinstance(key, TupleVariable) else [key]
    return any(isinstance(each, NdarrayVariable) and each.scalar for each in _realized(parts))


def _item_at(tx: Any, array: NdarrayVariable, key: VariableTracker) -> VariableTracker:
    """``array[key]`` where integers that are not known pick an item."""
    picked = split(key, array.fake.ndim)
    parts = () if picked is None else picked.indices
    one = all(isinstance(each, ConstantVariable) or isinstance(each, NdarrayVariable) and each.scalar for each in parts)
    if picked is None or len(parts) != array.fake.ndim or not one or not all(map(_is_index, parts)):
        unsupported(UnsupportedOperation("indexing", "an array with a numpy scalar, which gives a view,"))
    given = [array.items(tx), tx.make(picked.axes), ListVariable([_for_graph(tx, each) for each in picked.indices])]
    found = record(tx, "call_function", numpy_item_at, given, {})
    expect(tx, numpy_is_in_range, given)
    assert isinstance(found, TensorVariable)
    return NdarrayVariable(found, True)


def write_where(tx: Any, array: NdarrayVariable, mask: NdarrayVariable, value: VariableTracker) -> None:
    """``array[mask] = value``: a value for each item, or one for all."""
    _check_write(tx, array, value)
    ndim = value.fake.ndim if isinstance(value, NdarrayVariable) else numpy.ndim(value.python_value(tx))
    one = ndim == 0 or value.python_type() is list and len(value.python_value(tx)) == 1
    if ndim > 1 or not array.fake.numel() or mask.fake.shape != array.fake.shape:
        unsupported(UnsupportedOperation("a write", "items of an array that a mask of another shape picks"))
    _write_if(tx, numpy_set_where, array, [mask.items(tx), _apart(tx, value, array)], one)


def _write_if(tx: Any, target: Any, array: NdarrayVariable, args: Args, is_sure: bool) -> None:
    """Write, and go on as if it were what numpy writes. ``is_sure``: it is known to be."""
    given: Args = [array.memory, tx.make(array.flips), *args]
    if is_sure:
        record(tx, "call_function", target, given, {})
    else:
        expect(tx, target, given)


def _check_write(tx: Any, array: NdarrayVariable, value: VariableTracker) -> None:
    _check_writable(tx, array)
    if not _can_cast(value, array):
        unsupported(UnsupportedOperation("a write", f"a numpy array, which can't hold {value.describe()}"))


def _is_number(value: VariableTracker) -> bool:
    return value.is_constant() and not isinstance(value, (ListVariable, TupleVariable))


def _is_mask(key: VariableTracker) -> bool:
    return isinstance(key, NdarrayVariable) and key.fake.dtype is torch.bool and not key.scalar


def _picks(key: VariableTracker) -> bool:
    """Whether it is an index by arrays or lists of integers."""
    parts = key.items if isinstance(key, TupleVariable) else [key]
    return any(isinstance(part, (NdarrayVariable, ListVariable)) for part in _realized(parts))


def _is_index(part: VariableTracker) -> bool:
    if isinstance(part, NdarrayVariable):
        return numpy_dtype(part.fake.dtype).kind in "iu" and part.fake.dtype is not torch.uint64
    known = known_numbers(part)
    return known is not None and all(type(each) is int for each in known)


def _can_cast(value: Any, array: NdarrayVariable) -> bool:
    """Whether an array takes these items as numbers of its own kind."""
    dtype = numpy_dtype(array.fake.dtype)
    if isinstance(value, NdarrayVariable):
        return numpy.can_cast(numpy_dtype(value.fake.dtype), dtype, "same_kind")
    if isinstance(value, (ListVariable, TupleVariable)):
        numbers = known_numbers(value)
        return bool(numbers) and numpy.can_cast(numpy.result_type(*map(type, numbers or ())), dtype, "same_kind")
    known = value.as_constant() if value.is_constant() else None
    if isinstance(known, SCALARS):
        return numpy.can_cast(known.dtype, dtype, "same_kind")
    return type(known) in KINDS and numpy.result_type(dtype, known) == dtype


def _check_writable(tx: Any, array: NdarrayVariable) -> None:
    """Torch counts writes into tensors, and looks at the count in backward passes; numpy tells it of none."""
    found = tx.graph.all_in_storage(array.fake)
    of_tensors = not all(each.is_array for each in found)
    if of_tensors or any(each.fake.requires_grad for each in tx.attempt.fakes.values()):
        unsupported(UnsupportedOperation("a write", "a numpy array, beside tensors that tell of writes"))
    if array.scalar:
        unsupported(UnsupportedOperation("a write", "a numpy scalar"))


def _apart(tx: Any, value: Any, array: NdarrayVariable) -> VariableTracker:
    """What is written into an array, which may be a part of it. Numbers may be out of the range of its type."""
    dtype = numpy_dtype(array.fake.dtype)
    if isinstance(value, NdarrayVariable) and not numpy.can_cast(numpy_dtype(value.fake.dtype), dtype):
        value = call(tx, method("astype"), functools.partial(call_method, "astype"), [value, tx.make(dtype)], {})
    value = _for_graph(tx, value)
    is_part = isinstance(value, TensorVariable) and same_memory(value.fake, array.fake)
    return record(tx, "call_method", "clone", [value], {}) if is_part else value


def _fill(tx: Any, array: NdarrayVariable, value: VariableTracker) -> VariableTracker:
    write(tx, array, ConstantVariable(...), value)
    return ConstantVariable(None)


def _sort(tx: Any, array: NdarrayVariable, axis: VariableTracker | None = None) -> VariableTracker:
    target = function_of_torch(numpy.sort)
    assert target is not None
    array.hold(tx, call(tx, target, numpy.sort, [array], {} if axis is None else {"axis": axis}))
    return ConstantVariable(None)


def _put(tx: Any, array: NdarrayVariable, ind: VariableTracker, v: VariableTracker) -> VariableTracker:
    ind, v = ind.realize(), v.realize()
    one_each = isinstance(ind, NdarrayVariable) and isinstance(v, NdarrayVariable) and v.fake.shape == ind.fake.shape
    if array.flips or not array.fake.is_contiguous() or not (_is_number(v) or one_each):
        unsupported(UnsupportedOperation("numpy.put()", "these arguments"))
    items = call(tx, method("reshape"), functools.partial(call_method, "reshape"), [array, ConstantVariable(-1)], {})
    assert isinstance(items, NdarrayVariable)
    write_at(tx, items, ind, v)
    return ConstantVariable(None)


ON_ARRAYS: dict[Any, Callable[..., VariableTracker]] = {
    **{"fill": _fill, "sort": _sort, "put": _put},
    **{numpy.copyto: _fill, numpy.put: _put},
}
"""Methods and functions whose first argument is an array, and how they are traced then."""


def _for_graph(tx: Any, variable: VariableTracker) -> VariableTracker:
    """Types of items by name, scalars as tensors."""
    variable = variable.realize()
    if isinstance(variable, NdarrayVariable):
        return variable.items(tx)
    parts = variable.contained()
    if parts is not None and _holds_array(variable):
        return variable.with_contained(tx, iter([_for_graph(tx, part) for part in parts]))
    if parts is not None or isinstance(variable, (ShapeNumber, SliceVariable)):  # to ask what is known settles numbers
        return variable
    known = variable.as_constant() if variable.is_constant() else None
    if isinstance(known, numpy.dtype) or any(known is each for each in KINDS):
        return ConstantVariable(numpy.dtype(known).name)
    return variable


def _paired(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    """What was recorded as what numpy returns."""
    return _PAIRED.get(type(expected), _paired_constant)(tx, expected, found.realize(), tried)


def _paired_scalar(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    _check_form(expected, found, tried)
    return NdarrayVariable(found, True)  # type: ignore[arg-type]


def _paired_items(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    items = found.contained()
    if items is None or len([*items]) != len(expected):
        in_another_form(f"{found.describe()} for {type(expected).__name__}")
    paired = [_paired(tx, one, item, tried) for one, item in zip(expected, items)]
    return ListVariable(paired) if type(expected) is list else TupleVariable(paired)


def _paired_constant(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    known = found.as_constant() if found.is_constant() else None
    if type(expected) is not type(known) or expected != known:
        in_another_form(f"{found.describe()} for {type(expected).__name__}")
    return found


def _paired_array(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    _check_form(expected, found, tried)
    assert isinstance(found, TensorVariable)
    sources = [(variable.fake, trial) for variable, trial in tried.arrays if isinstance(trial, numpy.ndarray)]
    storage = found.fake.untyped_storage()._cdata
    shared = [
        (numpy.shares_memory(expected, trial), fake.untyped_storage()._cdata == storage) for fake, trial in sources
    ]
    if any(theirs and not ours for ours, theirs in shared):
        found = record(tx, "call_method", "clone", [found], {})  # type: ignore[assignment]
    if any(ours and not theirs for ours, theirs in shared):
        in_another_form("a copy for a view")
    shares = any(ours for ours, _ in shared)
    if not (shares or tx.graph.symbols.there_are or _is_laid_out(expected, found, tried)):
        axes = sorted(range(expected.ndim), key=lambda axis: -expected.strides[axis])
        found = record(tx, "call_function", laid_out, [found, tx.make(axes)], {})  # type: ignore[assignment]
    if not _is_laid_out(expected, found, tried):
        steps = [stride * found.fake.itemsize for stride in found.fake.stride()]
        in_another_form(f"strides {steps} for {[*expected.strides]}")
    return NdarrayVariable(found)


def _is_laid_out(expected: Any, found: TensorVariable, tried: Tried) -> bool:
    sizes, strides = (tried.sizes(numbers) for numbers in (found.fake.shape, found.fake.stride()))
    layout = [stride * found.fake.itemsize for size, stride in zip(sizes, strides) if size > 1]
    wanted = [stride for size, stride in zip(expected.shape, expected.strides) if size > 1]
    return layout == wanted or not math.prod(sizes)


_PAIRED: dict[type, Callable[..., VariableTracker]] = {
    numpy.ndarray: _paired_array,
    **dict.fromkeys((list, tuple), _paired_items),
    **dict.fromkeys(SCALARS, _paired_scalar),
}
"""By the type of what numpy returned."""


def _check_form(expected: Any, found: VariableTracker, tried: Tried) -> None:
    if not isinstance(found, TensorVariable):
        in_another_form(f"{found.describe()} for {type(expected).__name__}")
    fake = found.fake
    shape = tried.sizes(fake.shape)
    if numpy_dtype(fake.dtype) != expected.dtype or shape != expected.shape:
        in_another_form(f"{fake.dtype} of {shape} for {expected.dtype} of {expected.shape}")


# -- functions ---------------------------------------------------------------------------------------------------------


class NumpyFunctionVariable(BuiltinVariable):
    """A function of numpy's."""

    __slots__ = ()

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        return call_function(tx, self.value, args, kwargs)


def call_function(tx: Any, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """One of numpy's functions: on known values numpy's own, on arrays torch's."""
    array = args[0].realize() if args else None
    if function in ON_ARRAYS and isinstance(array, NdarrayVariable) and not array.scalar:
        return call_handler(ON_ARRAYS[function], (tx, *args), kwargs, function.__name__)
    everything = [*args, *kwargs.values()]
    arrays = any(map(_holds_array, everything))
    creates = function in _CREATORS
    if not arrays and not creates and all(map(tx.is_plain, everything)):
        named = {name: tx.python_value(value) for name, value in kwargs.items()}
        found = known_result(tx, function, [tx.python_value(arg) for arg in args], named)
        if not has_array(found):
            return tx.make(found)
        creates = True
    target = function_of_torch(function)
    if function in (numpy.array, numpy.asarray) and len(everything) == 1 and _is_row_of_arrays(args[0]):
        target = STACK
    if target is None or not (arrays or creates):
        unsupported(UnsupportedOperation(f"numpy.{function.__name__}()", "these arguments"))
    return call(tx, target, function, args, kwargs)


_CREATORS = frozenset(
    {numpy.array, numpy.asarray, numpy.zeros, numpy.ones, numpy.full, numpy.arange, numpy.linspace, numpy.eye}
)


def _holds_array(variable: VariableTracker) -> bool:
    variable = variable.realize()
    return isinstance(variable, NdarrayVariable) or any(map(_holds_array, variable.contained() or ()))


def _is_row_of_arrays(variable: VariableTracker) -> bool:
    parts = variable.realize().contained()
    return bool(parts) and all(isinstance(part.realize(), NdarrayVariable) for part in parts)


wraps_type(numpy.ufunc, type(numpy.sum))(NumpyFunctionVariable.by_identity)


def _model(function: Any) -> Model:
    return lambda tx, args, kwargs: call_function(tx, function, args, kwargs)


_IN_PYTHON = (
    getattr(numpy, name)
    for name, theirs in vars(torch._numpy).items()
    if isinstance(theirs, types.FunctionType) and isinstance(getattr(numpy, name, None), types.FunctionType)
)
for _function in (*_CREATORS, *SCALARS, *_IN_PYTHON, numpy.dtype, numpy.ascontiguousarray):
    models_raw(_function, _model(_function))
