"""Python's operations on traced values, as CPython's abstract object layer has them (``PyObject_GetAttr`` …).

Opcode handlers, models of builtins and the kinds of values all build on these. `InstructionTranslator` derives from
`Operations`, so ``self`` is the translator here.
"""

from __future__ import annotations

import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dynamo_lite.insight.break_reasons import (
    ComparisonNotTraced,
    DisabledCall,
    FailsInPython,
    FileAccess,
    IdentityOfConstants,
    UnknownCall,
    UnsupportedAttribute,
    UnsupportedContext,
    UnsupportedOperation,
)
from dynamo_lite.records import code_origin
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous
from dynamo_lite.variables.core import attributes, formatting, registry
from dynamo_lite.variables.core.attributes import MISSING, bind, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Exhausted,
    Kwargs,
    NotConstant,
    ObservedException,
    Translator,
    VariableTracker,
    remaining_items,
    unsupported,
)
from dynamo_lite.variables.core.c_arguments import call_handler, refuse_arguments
from dynamo_lite.variables.core.class_lookup import (
    class_compares_by_identity,
    full_type_name,
    is_immutable,
    is_user_defined,
    type_name,
    wrong_result_text,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.inert import CODERS, INERT_TYPE_IDS, why_not_folded
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, INPLACE, SWAPPED, UNARY, method_of
from dynamo_lite.variables.python.classes import construct
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.classes.isinstance_checks import derives
from dynamo_lite.variables.python.containers import sets
from dynamo_lite.variables.python.containers.instance_dict import InstanceDictVariable
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import SequenceVariable, SliceVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable, PythonFunctionVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicFloat, SymbolicNumber
from dynamo_lite.variables.python.objects.exception import ExceptionVariable, ExistingExceptionVariable
from dynamo_lite.variables.python.objects.opaque import OpaqueVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.functions import torch_function
from dynamo_lite.variables.torch.subclasses import wrapper_subclass
from dynamo_lite.variables.torch.tensors.later_states import certain
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    _Base = Translator
else:
    _Base = object

_CONTAINER = "a container or iterable" if sys.version_info >= (3, 14) else "iterable"
_NUMBERS_TAKEN: dict[int, tuple[type, ...]] = {
    id(bool): (int,),
    id(int): (int,),
    id(float): (int, float),
    id(complex): (int, float, complex),
}
"""By id of a class of numbers: the bases of instances that its operators take."""
_SEQUENCES = (list, tuple, deque, str, bytes)
"""Classes without number slots in C, by id: a metaclass may compare classes."""
_FOLDING_ERRORS: tuple[type[Exception], ...] = (Warning, *code_origin.FOLDED_ERRORS)
_NO_SAMPLE: tuple[type[Exception], ...] = (NotConstant, *code_origin.FOLDED_ERRORS)
"""Errors of an operation on sample operands: an operand has no sample value, or an empty one."""
_NO_INTEGER = "'{}' object cannot be interpreted as an integer"


class Operations(_Base):
    """The part of the translator that is the same in every frame."""

    generic_getattr = attributes.generic_getattr
    percent = formatting.percent
    format_text = formatting.format_text
    format_by_mapping = formatting.format_by_mapping
    join_texts = formatting.join_texts
    combine_views = sets.combine_views
    construct = construct.construct
    wrapper_result = wrapper_subclass.wrapper_result
    call_torch_function = torch_function.call_torch_function

    # -- making and reading values ---------------------------------------------------------------------------------

    def make(self, value: object) -> VariableTracker:
        return self.attempt.values.make(value)

    def fold(
        self, function: Callable[..., Any], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> Any:
        """Call a function on constants. Break the graph unless they are inert: user code that the function calls would
        run while tracing, and never again."""
        if kwargs or id(function) in CODERS or not all(id(type(arg)) in INERT_TYPE_IDS for arg in args):
            why = why_not_folded(function, args, kwargs or {})
            if why is not None:
                unsupported(UnknownCall(f"{getattr(function, '__qualname__', type(function).__name__)}()", why))
        return self.evaluate(function, args, kwargs)

    def evaluate(
        self, function: Callable[..., Any], args: Iterable[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> Any:
        """Call a function of which the caller knows that it runs no user code on these arguments. The traced program
        raises what it raises."""
        try:
            return function(*args, **(kwargs or {}))
        except _FOLDING_ERRORS as error:
            reraise_if_asynchronous(error)
            if isinstance(error, Warning) or type(error).__module__ != "builtins":
                unsupported(FailsInPython("a call with constants", f"it raises {type(error).__name__}"))
            self.raise_error(type(error), *error.args)

    def python_values(self, args: Sequence[VariableTracker], kwargs: Kwargs) -> tuple[list[Any], dict[str, Any]]:
        return [self.python_value(arg) for arg in args], {name: self.python_value(kwargs[name]) for name in kwargs}

    def fold_call(
        self, function: Callable[..., Any], args: Sequence[VariableTracker], kwargs: Kwargs
    ) -> VariableTracker:
        return self.make(self.fold(function, *self.python_values(args, kwargs)))

    def raise_error(self, cls: type[BaseException], *args: object) -> NoReturn:
        """Raise in the traced program."""
        self.raise_with(cls, [self.make(arg) for arg in args])

    def raise_with(self, cls: type[BaseException], args: Args) -> NoReturn:
        """Raise in the traced program, with trackers as arguments."""
        error = ExceptionVariable(cls, args)
        error.context = self.handled
        raise ObservedException(error)

    def raise_stop_iteration(self, value: VariableTracker | None) -> NoReturn:
        self.raise_with(StopIteration, [] if value is None or self.is_none(value) else [value])

    def python_value(self, variable: VariableTracker) -> Any:
        """The Python value of a constant, or of a container of constants (a copy).

        Raises:
            Unsupported: something in it is not constant.
        """
        return variable.realize().python_value(self)

    def is_plain(self, variable: VariableTracker) -> bool:
        """Whether it is a constant on which functions in C run no user code, or a builtin container of only such
        values."""
        return variable.realize().is_plain(self)

    def is_none(self, variable: VariableTracker) -> bool:
        variable = variable.realize()
        return isinstance(variable, ConstantVariable) and variable.value is None

    def index_value(self, variable: VariableTracker, message: str = _NO_INTEGER) -> Any:
        """The result of ``__index__``. ``message``: of the TypeError if there is no such method."""
        return variable.index(self, message)

    def is_index(self, variable: VariableTracker) -> bool:
        """Whether it is an integer or has ``__index__``."""
        return self.lookup(variable.python_type(), "__index__") is not MISSING

    def is_iterable(self, variable: VariableTracker) -> bool:
        kind = variable.python_type()
        return any(self.lookup(kind, name) not in (MISSING, None) for name in ("__iter__", "__getitem__"))

    def check_iterable(self, variable: VariableTracker, message: str) -> None:
        if not self.is_iterable(variable):
            self.raise_error(TypeError, message)

    def subscript_value(self, key: VariableTracker, message: str) -> Any:
        """The integer or slice that indexes a sequence."""
        return key.real_slice(self) if isinstance(key, SliceVariable) else self.index_value(key, message)

    # -- identity, truth, comparison -------------------------------------------------------------------------------

    def identical(self, one: VariableTracker, other: VariableTracker) -> bool:
        """``one is other``."""
        if one is other:
            return True
        if (one.is_symbolic or other.is_symbolic) and one.python_type() is not other.python_type():
            return False
        if self.graph.scope.is_nested and isinstance(one, TensorVariable) and isinstance(other, TensorVariable):
            certain(self, "whether two tensors are one object", operator.is_, one, other)
        first, second = one.identity(), other.identity()
        if type(first) is type(second) is ConstantVariable:
            return self._identical_constants(first.value, second.value)
        if first is second or (type(first) is tuple and first == second):
            return True
        if one.python_type() is other.python_type():
            are_namespaces = isinstance(one, InstanceDictVariable), isinstance(other, InstanceDictVariable)
            if one.source is not None and other.source is not None and any(are_namespaces) and not all(are_namespaces):
                unsupported(UnsupportedOperation("`is`", "an object's __dict__ and another dict"))
            for each in (one, other, *_owners(first), *_owners(second)):
                self.guard_distinct(each)
        return False

    def _identical_constants(self, one: object, other: object) -> bool:
        """Whether two constants are one object. Break the graph for equal ones: only small integers are always one."""
        if type(one) is not type(other) or (one != other and (one == one or other == other)):
            return False
        if type(one) is not int or not -5 <= one <= 256:
            unsupported(IdentityOfConstants(repr(one)))
        return True

    def guard_distinct(self, variable: VariableTracker) -> None:
        """Guard that this object differs from the other distinct ones, unless its kind is compared by value."""
        if variable.source is not None and not isinstance(variable, _COMPARED_BY_VALUE):
            self.guards.distinct(variable.source)

    def truth(self, variable: VariableTracker) -> bool:
        """``bool(variable)``."""
        if type(variable) is ConstantVariable and variable.value is not NotImplemented:
            return bool(variable.value)
        return variable.realize().truth(self)

    def same_or_equal(self, one: VariableTracker, other: VariableTracker) -> bool:
        """``one is other or one == other``, as containers compare."""
        one, other = one.realize(), other.realize()
        if one is other:
            return True
        if one.is_symbolic or other.is_symbolic:
            return self._equal_numbers(one, other)
        if isinstance(one, ConstantVariable) and isinstance(other, ConstantVariable):
            return self.identical(one, other) if one.value != one.value else bool(one.value == other.value)
        return self.identical(one, other) or self.truth(self.compare("==", one, other).realize())

    def _equal_numbers(self, one: VariableTracker, other: VariableTracker) -> bool:
        """`same_or_equal` for symbolic numbers. Unequal ones are different objects, but for NaN: guard against that."""
        if self.truth(self.compare("==", one, other).realize()):
            return True
        for each in (one, other):
            if isinstance(each, SymbolicFloat):
                self.truth(self.compare("==", each, each).realize())
        return False

    def compare(self, symbol: str, one: VariableTracker, other: VariableTracker) -> VariableTracker:
        """A rich comparison. The right operand's method comes first if its class derives from the left's."""
        if isinstance(one, ConstantVariable) and isinstance(other, ConstantVariable):
            return self.make(self.fold(COMPARE[symbol], (one.value, other.value)))
        derived, base = other.python_type(), one.python_type()
        pairs = [(one, symbol, other), (other, SWAPPED[symbol], one)]
        if derived is not base and derives(derived, base):
            pairs.reverse()
        for left, sign, right in pairs:
            if not isinstance(left, UserObjectVariable):
                right = right.builtin_part()  # a comparison in C reads the value of an instance of a derived class
            found = left.compare(self, sign, right)
            if found is not None:
                return found
        if symbol in ("==", "!="):
            self._check_default_equality(one, other)
            return ConstantVariable(self.identical(one, other) == (symbol == "=="))
        self.refuse_operands(f"`{symbol}`", COMPARE[symbol], one, other)

    def _check_default_equality(self, one: VariableTracker, other: VariableTracker) -> None:
        """Break the graph unless ``==`` falls back on identity for both operands."""
        for left, right in ((one, other), (other, one)):
            kind = left.python_type()
            is_known = left.implements_equality or left.is_constant() or class_lookup(kind, "__eq__") is object.__eq__
            if not is_known and not (class_compares_by_identity(kind) and kind in _COMPARED_BY_IDENTITY):
                unsupported(ComparisonNotTraced("==", left.describe(), right.describe()))

    def _reflected_comes_first(self, symbol: str, left: type, right: type) -> bool:
        """Whether the right operand's method comes first. Its class derives from the left's and overrides the reflected
        method; or it has number slots, and the left one is a sequence, whose slots come after all number slots."""
        name = method_of(symbol, "r")
        if self._is_sequence_slot(symbol, left):
            raw = self.lookup(right, name)
            has_number_slot = is_user_defined(raw) or not issubclass(right, (*_SEQUENCES, int))
            return raw is not MISSING and has_number_slot
        if not derives(right, left):
            return False
        return self.lookup(right, name) not in (MISSING, self.lookup(left, name))

    def _is_sequence_slot(self, symbol: str, left: type) -> bool:
        """Whether an operator of instances of a class is the concatenation or repetition of a sequence in C. A class
        that defines the method, or the reflected one, has a number's slot too."""
        if symbol not in "+*" or not issubclass(left, _SEQUENCES):
            return False
        return not any(is_user_defined(self.lookup(left, method_of(symbol, prefix))) for prefix in ("", "r"))

    def refuse_operands(self, operation: str, function: Callable[..., Any], *operands: VariableTracker) -> NoReturn:
        """Raise the TypeError that CPython raises for operands of these types, or break the graph if there is none."""
        try:
            function(*[operand.sample_value() for operand in operands])
        except TypeError as refused:
            self.raise_error(TypeError, *refused.args)
        except _NO_SAMPLE:
            pass
        for operand in operands:
            if isinstance(operand, OpaqueVariable):
                operand.refuse()
        unsupported(UnsupportedOperation(operation, " and ".join(operand.describe() for operand in operands)))

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def binary(
        self,
        symbol: str,
        left: VariableTracker,
        right: VariableTracker,
        inplace: Callable[[Any, Any], Any] | None = None,
    ) -> VariableTracker:
        """``left symbol right``, with reflected methods."""
        if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
            return self.make(self.fold(inplace or BINARY[symbol], (left.value, right.value)))
        kinds = left.python_type(), right.python_type()
        order = [(left, right, False)]
        if kinds[0] is not kinds[1] or right.is_symbolic:
            order.insert(0 if self._reflected_comes_first(symbol, *kinds) else 1, (right, left, True))
        for one, other, reflected in order:
            is_read_by_c = not reflected and other.payload is not None and self._reads_payload(symbol, kinds[0], other)
            found = (
                self.binary(symbol, one, other.builtin_part())
                if is_read_by_c
                else one.binary(self, symbol, other, reflected)
            )
            if found is not None:
                return found
            if not reflected and self._refuses_by_itself(symbol, kinds[0]):
                break
        self.refuse_operands(f"`{symbol}`", BINARY[symbol] if inplace is None else inplace, left, right)

    def _refuses_by_itself(self, symbol: str, left: type) -> bool:
        """Whether the left operand's method raises TypeError, instead of returning NotImplemented, for an operand that
        it doesn't take. So do the inherited ``__add__`` and ``__mul__`` of a sequence class that defines the reflected
        method: that alone gives the class a number slot, which calls them."""
        if symbol not in "+*" or not issubclass(left, _SEQUENCES):
            return False
        method, reflected = (self.lookup(left, method_of(symbol, prefix)) for prefix in ("", "r"))
        return is_user_defined(reflected) and not is_user_defined(method)

    def _reads_payload(self, symbol: str, left: type, right: VariableTracker) -> bool:
        """Whether the left operand's operator, which is C code, takes the right one for the number that it derives
        from, whatever its class defines."""
        kind = right.python_type()
        if id(left) in _NUMBERS_TAKEN:
            return issubclass(kind, _NUMBERS_TAKEN[id(left)])
        if issubclass(kind, (int, float)) and is_immutable(left) and left.__module__ != "builtins":
            unsupported(UnsupportedOperation(f"`{symbol}`", f"a {type_name(left)} and {right.describe()}"))
        return False

    def inplace(self, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """``left symbol= right``: the value that is assigned to the left side."""
        kinds = left.python_type(), right.python_type()
        found = None
        if self._is_inplace_last(symbol, kinds[0]):
            if not self._is_sequence_slot(symbol, kinds[0]):
                found = left.binary(self, symbol, right, False)
            if found is None and self._reflected_comes_first(symbol, *kinds):
                found = right.binary(self, symbol, left, True)
        if found is None:
            found = left.inplace(self, symbol, right)
        return found if found is not None else self.binary(symbol, left, right, INPLACE[symbol])

    def _is_inplace_last(self, symbol: str, left: type) -> bool:
        """Whether an operator in place is a sequence's slot, which comes after the methods of numbers. Classes derived
        from list and deque have ``+=`` as a number's."""
        if any(left is each for each in _SEQUENCES):
            return True
        return symbol == "*" and issubclass(left, _SEQUENCES) and not is_user_defined(self.lookup(left, "__imul__"))

    def unary(self, symbol: str, operand: VariableTracker) -> VariableTracker:
        function = UNARY[symbol]
        found = operand.unary(self, function)
        if found is not None:
            return found
        if operand.is_constant():
            return self.make(self.fold(function, (operand.as_constant(),)))
        self.refuse_operands(f"`{symbol}`", function, operand)

    # -- items and iteration ---------------------------------------------------------------------------------------

    def iterate(self, variable: VariableTracker) -> VariableTracker:
        """``iter(variable)``."""
        return variable.realize().iterate(self).realize()

    def contains_by_iteration(self, variable: VariableTracker, item: VariableTracker) -> bool:
        """``item in variable`` without ``__contains__``: iterate up to the first equal item."""
        try:
            iterator = self.iterate(variable)
        except ObservedException as observed:
            if not issubclass(observed.error.python_type(), TypeError):
                raise
            kind = variable.python_type().__name__
            self.raise_error(TypeError, f"argument of type {kind!r} is not {_CONTAINER}")
        return any(self.same_or_equal(each, item) for each in remaining_items(self, iterator))

    def checked_iterator(self, iterable: VariableTracker, found: VariableTracker) -> VariableTracker:
        """The result of a user-defined ``__iter__``; TypeError if it is no iterator."""
        kind = found.python_type()
        if self.lookup(kind, "__next__") is MISSING:
            before = f"iter() returned non-iterator of type {kind.__name__!r}"
            text = wrong_result_text(iterable.python_type(), "__iter__", "an iterator", kind, before)
            self.raise_error(TypeError, text)
        return found

    def next(self, iterator: VariableTracker) -> VariableTracker:
        """``next(iterator)`` in the traced program: StopIteration at the end."""
        try:
            return iterator.next(self)
        except Exhausted as end:
            self.raise_stop_iteration(end.value)

    def next_by_call(self, method: VariableTracker, args: Args | None = None) -> VariableTracker:
        """The next item of an iterator whose ``__next__`` is ``method``. Its StopIteration becomes `Exhausted`."""
        try:
            return self.call(method, args or [], {}).realize()
        except ObservedException as observed:
            if not issubclass(observed.error.python_type(), StopIteration):
                raise
            raise Exhausted(observed.error.getattr(self, "value")) from None

    def exception_to_raise(
        self, value: VariableTracker, message: str = "exceptions must derive from BaseException"
    ) -> VariableTracker:
        """The exception that ``raise value`` raises: the value, or an instance if it is a class. ``message``: of the
        TypeError for other values."""
        if isinstance(value, ClassVariable) and issubclass(value.value, BaseException):
            value = self.call(value, [], {}).realize()
        if not issubclass(value.python_type(), BaseException):
            self.raise_error(TypeError, message)
        return value

    def thrown(self, kind: VariableTracker, value: VariableTracker | None) -> VariableTracker:
        """The exception that ``throw(kind, value)`` raises. contextlib passes a class and its instance."""
        if value is None or self.is_none(value):
            name = kind.python_type().__name__
            message = f"exceptions must be classes or instances deriving from BaseException, not {name}"
            return self.exception_to_raise(kind, message)
        if not isinstance(kind, ClassVariable) or not isinstance(value, (ExceptionVariable, ExistingExceptionVariable)):
            refuse_arguments("generator.throw")
        return value

    def unpack(self, variable: VariableTracker, limit: int | None = None) -> list[VariableTracker]:
        """The items for an assignment to several targets, at most ``limit`` of an iterator."""
        if isinstance(variable, SequenceVariable):
            return list(variable.items)
        self.check_iterable(variable, f"cannot unpack non-iterable {variable.python_type().__name__} object")
        iterator = self.iterate(variable)
        items: list[VariableTracker] = []
        while limit is None or len(items) < limit:
            try:
                items.append(iterator.next(self))
            except Exhausted:
                break
        return items

    def collected_items(self, variable: VariableTracker) -> DictVariable | None:
        """The items of a mapping by its ``keys`` and ``__getitem__``; None if it has no ``keys``."""
        if self.lookup(variable.python_type(), "keys") is MISSING:
            return None
        items = DictVariable({})
        for key in self.call(variable.getattr(self, "keys").realize(), [], {}).realize().elements(self):
            items.put(self, key, variable.getitem(self, key))
        return items

    def sort(self, items: list[VariableTracker], key: VariableTracker | None, reverse: bool) -> None:
        """``list.sort`` in place: CPython's sort decides which items to compare. If a comparison raises, the items stay
        partly sorted, as in CPython."""
        keys = items if key is None or self.is_none(key) else [self.call(key, [each], {}).realize() for each in items]
        rows = [_Row(self, one, item) for one, item in zip(keys, items)]
        try:
            rows.sort(reverse=reverse)
        finally:
            items[:] = [row.item for row in rows]

    def length(self, of: VariableTracker) -> VariableTracker:
        """``len(of)``."""
        return self.make(of.length(self))

    # -- attributes ------------------------------------------------------------------------------------------------

    def lookup(self, cls: type, name: str) -> Any:
        """The attribute that the class's MRO has under a name, guarded; ``MISSING`` if there is none."""
        return attributes.guarded_lookup(self, cls, name)

    def has_attribute(self, variable: VariableTracker, name: str) -> bool:
        """``hasattr``."""
        return self.attribute_or_none(variable, name) is not None

    def attribute_or_none(self, variable: VariableTracker, name: str) -> VariableTracker | None:
        """The attribute, read once; None if that raises AttributeError."""
        try:
            return variable.getattr(self, name)
        except ObservedException as observed:
            if issubclass(observed.error.python_type(), AttributeError):
                return None
            raise

    def method_of_manager(self, variable: VariableTracker, name: str, missed: str = "") -> VariableTracker:
        """The bound ``__enter__`` or ``__exit__``, looked up on the class. ``missed``: ends the TypeError's message."""
        cls = variable.python_type()
        raw = self.lookup(cls, name)
        if raw is MISSING:
            is_qualified = sys.version_info >= (3, 14)
            owner = full_type_name(cls) if is_qualified else cls.__name__
            message = f"'{owner}' object does not support the context manager protocol{missed}"
            if is_qualified and MISSING not in (self.lookup(cls, "__aenter__"), self.lookup(cls, "__aexit__")):
                message += (
                    " but it supports the asynchronous context manager protocol. Did you mean to use 'async with'?"
                )
            self.raise_error(TypeError, message)
        if not isinstance(variable, UserObjectVariable):
            unsupported(UnsupportedContext(variable.describe()))
        return bind(self, raw, name, variable, cls)

    # -- calls -----------------------------------------------------------------------------------------------------

    def call(self, function: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call any object."""
        return function.realize().call(self, args, kwargs)

    def find_model(self, function: PythonFunctionVariable) -> Callable[..., VariableTracker] | None:
        """The model that replaces a Python function; None if the function is inlined."""
        if not isinstance(function, FunctionVariable):
            return None
        closure = registry.find_closure_model(function)
        if closure is not None:
            return closure
        model = registry.find_model(function.value)
        if model is not None and function.source is not None:
            function.source.check("id", function.value)  # other functions with this code have no model
        return model

    def check_inlinable(self, function: PythonFunctionVariable) -> None:
        """Break the graph if a Python function may not be inlined."""
        code = function.code
        why = code_origin.why_not_inlined(code, function.value if isinstance(function, FunctionVariable) else None)
        if (
            isinstance(function, FunctionVariable)
            and function.value.__builtins__ is not self.attempt.values.builtins_namespace
            and not function.value.__globals__.keys() >= set(code.co_names)
        ):
            why = "its builtins module is not the frame's"
        if why == code_origin.DISABLED:
            unsupported(DisabledCall(function.describe()))
        if why == code_origin.FILES:
            unsupported(FileAccess(f"{function.describe()}()"))
        if why is not None:
            unsupported(UnknownCall(function.describe(), why))

    def class_method(self, cls: VariableTracker, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method in C called on a class: ``type``'s own, or a builtin's class method."""
        if not class_compares_by_identity(cls.value):
            unsupported(UnsupportedAttribute(cls.describe(), name, "its metaclass overrides the comparison of classes"))
        handler = registry.class_method(cls.value, name)
        if handler is not None:
            return call_handler(handler, (self, cls, *args), kwargs, f"{cls.value.__name__}.{name}")
        raw = class_lookup(cls.value, name)
        if raw is not MISSING and args and not isinstance(raw, types.ClassMethodDescriptorType):
            return args[0].call_method(self, name, args[1:], kwargs)
        if cls.value in _NUMBERS_AND_TEXT:
            return self.fold_call(getattr(cls.value, name), args, kwargs)
        unsupported(UnsupportedAttribute(cls.describe(), name, "the class method is not modelled"))


def _owners(identity: object) -> tuple[VariableTracker, ...]:
    """The objects that an identity depends on, if it is derived from other objects' identities."""
    return identity[1:] if type(identity) is tuple else ()


_NUMBERS_AND_TEXT = frozenset({int, float, complex, bool, str, bytes})
"""Classes whose class methods are pure."""


_COMPARED_BY_VALUE = (ConstantVariable, SymbolicNumber, ClassVariable)
"""Kinds that are guarded by value, or by identity already."""
_COMPARED_BY_IDENTITY = frozenset({types.FunctionType, types.BuiltinFunctionType, types.ModuleType})


class _Row:
    """An item and its sort key."""

    __slots__ = ("tx", "key", "item")

    def __init__(self, tx: Translator, key: VariableTracker, item: VariableTracker) -> None:
        self.tx = tx
        self.key = key
        self.item = item

    def __lt__(self, other: _Row) -> bool:
        return self.tx.truth(self.tx.compare("<", self.key, other.key).realize())
