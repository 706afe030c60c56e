"""`VariableTracker`: what is known of a traced value, and what each operation on it does by default.

A tracker stands for one Python value while a frame is traced. Each operation that bytecode can do on a value is a
method of its tracker. A method takes ``tx``, the translator of the running frame, through which it records operators in
the graph, adds guards, logs side effects and inlines calls (`interfaces` has its members).

Every kind of value is a subclass, which overrides the operations that it models. Others do by default, theme by theme
in the order of the class:

    what is known of the value   its type alone: `as_constant` raises `NotConstant`, `python_value` breaks the graph
    numbers                      a constant's own; ``operator.index`` raises CPython's TypeError for other values
    arguments of operators       a constant is one, as it is; other values break the graph
    keys of dicts                a constant is one; `key` of other values raises `NotConstant`
    attributes                   are read by the descriptor protocol; writes break the graph
    calls                        raise CPython's TypeError, or break the graph if the type has the operation
    containers, iteration        the same
    operators                    return None, which leaves them to the other operand
    texts                        the text of a known value; otherwise the graph breaks
    the plan                     generated code can't create the value: the graph breaks before what creates it
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn, TypeAlias

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.insight.break_reasons import (
    AttributeChange,
    UnknownValue,
    UnsupportedAttribute,
    UnsupportedKey,
    UnsupportedMethod,
    UnsupportedOperation,
    UnsupportedValue,
)
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source

from . import interfaces
from .c_arguments import EMPTY_SAMPLES, call_handler, raise_argument_error, refuse_arguments, takes_arguments
from .class_lookup import MISSING, class_compares_by_identity, class_lookup
from .inert import has_known_text, is_inert

TEXTS: dict[str, Callable[..., str]] = {"__str__": str, "__repr__": repr}
"""The builtin that calls each special method which returns a value's text."""

Args = list["VariableTracker"]
Kwargs = dict[str, "VariableTracker"]


class UnpackedKwargs(Kwargs):
    """Keyword arguments of a call with ``**``: C code can tell an empty dict of them from none."""


class NotConstant(Exception):
    """The Python value of a tracker isn't known while tracing."""


class Exhausted(Exception):
    """A traced iterator has no further item. ``value``: what a generator returned."""

    def __init__(self, value: VariableTracker | None = None) -> None:
        self.value = value


class ObservedException(Exception):
    """The traced program raises ``error`` (an `ExceptionVariable`)."""

    def __init__(self, error: Any) -> None:
        self.error = error


def unsupported(reason: BreakReason) -> NoReturn:
    """Break the graph here."""
    raise Unsupported(reason)


class CreatingCall(NamedTuple):
    """The call ``make(*constants, *operands)``, which creates an object like a traced one."""

    make: Callable[..., Any]
    constants: tuple[Any, ...]
    operands: list[VariableTracker]


class VariableTracker:
    """A traced value. ``source``: where it can be reloaded from; None if it was created during tracing."""

    __slots__ = ("source",)

    # -- facts about a kind: a class overrides these by another constant, or by a property ----------------------------

    exact_type: type
    """The type of all its values; a kind whose values differ in type overrides `python_type`."""
    value: Any = None
    """The real object that it stands for, if tracing has it: a constant, or an object that existed before the call."""
    payload: VariableTracker | None = None
    """The builtin part (items, a number or a string) of an instance of a user's class derived from a builtin one."""
    receiver: VariableTracker | None = None
    """What a method is bound to."""
    operand: Any = None
    """The number (a constant or one of torch's symbols) that arithmetic with symbols uses for it; None for other
    values."""
    is_symbolic = False
    """Whether it is a number that may differ from call to call."""
    is_iterator = False
    is_tensor = False
    is_taken_as_number = False
    """Whether a tensor's operators take it for a number, though its type isn't one of Python's."""
    is_wrapper = False
    """Whether it is a tensor of a wrapper subclass, whose Python code holds inner tensors."""
    implements_equality = False
    """Whether `compare` models the type's own ``==``. If it returns None for both operands, identity decides; for other
    kinds the graph breaks."""
    is_guarded_by_identity = False
    """Whether a guard fixes the object itself, so that aliases of it hold this very object in every call."""
    is_loaded_as_constant = False
    """Whether generated code loads it as a constant even if it has a source: it lives as long as the process."""
    is_created_per_load = False
    """Whether each load in generated code creates a new value or has an effect, so that no local may keep it."""
    replay_rank = 2
    """Its mutations are replayed before those of objects of a higher rank."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    # -- what is known of the value ------------------------------------------------------------------------------------

    def realize(self) -> VariableTracker:
        """The tracker of the value's kind. For a `LazyVariable` this wraps the value, which adds guards."""
        return self

    def known(self) -> VariableTracker:
        """The tracker of the value's kind, if that is known already: `realize` without adding guards."""
        return self

    def builtin_part(self) -> VariableTracker:
        """The payload; the value itself if it has none. Functions in C read this instead of calling methods."""
        return self if self.payload is None else self.payload

    def children(self) -> Iterable[object]:
        """What it refers to: trackers, frames, and lists, tuples, deques and dicts of those. Other objects among them
        don't count. `reachable.reachable` follows it."""
        return slot_values(self, ("source", "value"))

    def python_type(self) -> type:
        """The value's exact type."""
        return self.exact_type

    def describe(self) -> str:
        """The value as a noun phrase, for messages."""
        return f"a value of type {self.python_type().__name__}"

    def identity(self) -> Any:
        """What ``is`` compares: two trackers with equal identities stand for one object."""
        return self

    def as_constant(self) -> Any:
        """The value itself, if it is known and is the same in every call.

        Raises:
            NotConstant: it isn't.
        """
        raise NotConstant(type(self).__name__)

    def is_constant(self) -> bool:
        try:
            self.as_constant()
        except NotConstant:
            return False
        return True

    def python_value(self, tx: Translator) -> Any:
        """The value itself; for a container of known items, a new one. Breaks the graph if an item isn't known."""
        try:
            return self.as_constant()
        except NotConstant:
            unsupported(UnknownValue(self.describe()))

    def is_plain(self, tx: Translator) -> bool:
        """Whether it is a constant on which functions in C run no user code."""
        return self.is_constant() and is_inert(self.as_constant())

    def sample_value(self) -> Any:
        """A real value of the type. Operations on it raise the errors that depend on the type alone.

        Raises:
            NotConstant: no such value can be created.
        """
        try:
            return self.as_constant()
        except NotConstant:
            kind = self.python_type()
            if not class_compares_by_identity(kind) or kind not in EMPTY_SAMPLES:
                raise
            return kind()

    def real_argument(self, leaf: Callable[[VariableTracker], Any]) -> Any:
        """The value as an argument of a real call: a sequence becomes a real one, everything else ``leaf(self)``."""
        return leaf(self)

    # -- numbers -------------------------------------------------------------------------------------------------------

    def converted(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker:
        """``function(self)``, which converts a number."""
        return tx.fold_call(function, [self], {})

    def index(self, tx: Translator, message: str) -> Any:
        """``operator.index(self)``. ``message``: of the TypeError for types without ``__index__``; ``{}``: the type."""
        if self.is_constant():
            value = self.as_constant()
            if hasattr(type(value), "__index__"):
                return operator.index(value)
        tx.raise_error(TypeError, message.format(self.python_type().__name__))

    # -- arguments of operators ----------------------------------------------------------------------------------------

    def as_fx(self) -> tuple[Any, Any]:
        """The value as an argument of a graph node, and as an argument of the call on fake tensors."""
        try:
            value = self.as_constant()
        except NotConstant:
            unsupported(UnsupportedValue(self.describe(), "an operator can't take it as an argument"))
        return value, value

    def as_index(self, tx: Translator) -> VariableTracker:
        """The value as an index of a tensor."""
        return self

    def as_tensor_operand(
        self, tx: Translator, tensor: VariableTracker, symbol: str, reflected: bool = False
    ) -> VariableTracker:
        """The value as the other operand of a tensor's arithmetic or comparison ``symbol``."""
        return self

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        """The instances of Tensor subclasses in it that torch checks for a ``__torch_function__``: the value itself, or
        items of a sequence."""
        return ()

    def structure_items(self) -> Iterable[VariableTracker] | None:
        """The items of a list, tuple or dict, as pytrees have them; None for a leaf."""
        return None

    def with_structure_items(self, tx: Translator, new: Iterator[VariableTracker]) -> VariableTracker:
        """A container like this one, with other items."""
        raise NotImplementedError(type(self).__name__)

    # -- keys of dicts, sets and caches --------------------------------------------------------------------------------

    def key(self) -> Any:
        """A hashable that represents the value among a dict's keys.

        Raises:
            NotConstant: its hash or equality isn't known.
        """
        return self.as_constant()

    def number_as_key(self, tx: Translator) -> VariableTracker | None:
        """The constant number that it equals as a key, guarded to be the same in every call; None for other values."""
        return None

    def guard_key(self, tx: Translator) -> None:
        """Guard that it and the other keys are distinct objects, if its type compares by identity."""
        if self.python_type().__hash__ is object.__hash__:
            tx.guard_distinct(self)

    def cache_key(self, tx: Translator) -> Any:
        """The guarded value as an argument of a cache in C: hashing and comparing it runs no user code."""
        unsupported(UnsupportedKey(self.describe(), "no guard covers how the cache compares it"))

    # -- attributes ----------------------------------------------------------------------------------------------------

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return tx.generic_getattr(self, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        unsupported(AttributeChange(self.describe(), name, "written"))

    def delattr(self, tx: Translator, name: str) -> None:
        unsupported(AttributeChange(self.describe(), name, "deleted"))

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        """What the instance's ``__dict__`` (not its class) has under ``name``."""
        return None

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """Write to the instance's ``__dict__`` or slot."""
        unsupported(AttributeChange(self.describe(), name, "written"))

    def instance_delete(self, tx: Translator, name: str) -> None:
        """Delete from the instance's ``__dict__`` or slot, which has it."""
        unsupported(AttributeChange(self.describe(), name, "deleted"))

    def slot_get(self, tx: Translator, name: str, raw: object) -> VariableTracker | None:
        """The value in a slot, by its member descriptor ``raw``; None if the slot is empty."""
        unsupported(UnsupportedAttribute(self.describe(), name))

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        """An attribute that the type computes in C (a getset descriptor)."""
        if name == "__class__":
            return tx.make(self.python_type())
        unsupported(UnsupportedAttribute(self.describe(), name))

    def set_c_attribute(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """Write an attribute by its descriptor in C."""
        unsupported(AttributeChange(self.describe(), name, "written"))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        tx.refuse_operands("a call", operator.call, self)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call the method that the type (never the instance) has under ``name``, by its model ``method_<name>``."""
        handler = getattr(self, "method_" + name, None)
        if handler is None and name in TEXTS and not args and not kwargs:
            return self.text(tx, name)
        function, count = class_lookup(self.python_type(), name), 1 + len(args)
        if handler is None:
            raise_argument_error(tx, function, count, kwargs)
            unsupported(UnsupportedMethod(self.describe(), name))
        full_name = f"{self.python_type().__name__}.{name}"
        if kwargs and not takes_arguments(function, count, kwargs):
            raise_argument_error(tx, function, count, kwargs)
            refuse_arguments(full_name)
        return call_handler(handler, (tx, *args), kwargs, full_name, function, count)

    def find_special(self, tx: Translator, name: str) -> VariableTracker | None:
        """The special method that user code defines for the value, bound; None if the type's own is in C, or absent."""
        return None

    def call_special(self, tx: Translator, name: str, *args: VariableTracker) -> VariableTracker | None:
        """Call the method that `find_special` finds. None if there is none."""
        method = self.find_special(tx, name)
        return None if method is None else tx.call(method, list(args), {}).realize()

    # -- containers ----------------------------------------------------------------------------------------------------

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        tx.refuse_operands("indexing", operator.getitem, self, key)

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        tx.refuse_operands("item assignment", operator.setitem, self, key, key)

    def delitem(self, tx: Translator, key: VariableTracker) -> None:
        tx.refuse_operands("item deletion", operator.delitem, self, key)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        tx.refuse_operands("`in`", operator.contains, self, item)

    def length(self, tx: Translator) -> Any:
        """``len(self)``: an int, or a ``torch.SymInt``."""
        tx.refuse_operands("len()", len, self)

    def mapping_items(self, tx: Translator) -> KnownMapping | None:
        """A mapping's items as a dict, read by ``keys`` and ``__getitem__``; None for other values."""
        return tx.collected_items(self)

    # -- iteration -----------------------------------------------------------------------------------------------------

    def iterate(self, tx: Translator) -> VariableTracker:
        """``iter(self)``: a tracker with `next`."""
        tx.refuse_operands("iteration", iter, self)

    def reverse(self, tx: Translator) -> VariableTracker:
        """``reversed(self)``."""
        tx.refuse_operands("reversed()", reversed, self)

    def next(self, tx: Translator) -> VariableTracker:
        """``next(self)``. Raises `Exhausted` at the end."""
        tx.refuse_operands("next()", next, self)

    def next_lazily(self, tx: Translator) -> VariableTracker:
        """`next` without realizing the item."""
        return self.next(tx)

    def each(self, tx: Translator) -> Iterator[VariableTracker]:
        """The items one by one. The iterator may observe what its consumer does between two items."""
        yield from remaining_items(tx, self.iterate(tx))

    def each_with_length_hint(self, tx: Translator) -> Iterator[VariableTracker]:
        """`each` for ``list()`` and ``tuple()``, which call ``__len__`` or ``__length_hint__`` first."""
        return self.each(tx)

    def each_for_tuple(self, tx: Translator) -> Iterator[VariableTracker]:
        """`each` for ``tuple()`` and ``f(*iterable)``, which ask for no length from CPython 3.14 on."""
        return self.each(tx) if sys.version_info >= (3, 14) else self.each_with_length_hint(tx)

    def elements(self, tx: Translator) -> list[VariableTracker]:
        """All items at once."""
        return list(self.each(tx))

    def in_any_order(self, tx: Translator) -> Iterable[VariableTracker]:
        """The items, where their order makes no difference."""
        return self.each(tx)

    def method___iter__(self, tx: Translator) -> VariableTracker:
        return self.iterate(tx)

    def method___next__(self, tx: Translator) -> VariableTracker:
        return tx.next(self)

    # -- operators -----------------------------------------------------------------------------------------------------

    def truth(self, tx: Translator) -> bool:
        """``bool(self)``, known while tracing, of a class without ``__bool__``: by its length, True if it has none."""
        cls = self.python_type()
        if tx.lookup(cls, "__bool__") is not MISSING:
            unsupported(UnsupportedOperation("truth", self.describe()))
        return tx.lookup(cls, "__len__") is MISSING or tx.truth(tx.length(self))

    def deferred_truth(self, tx: Translator) -> VariableTracker | None:
        """``bool(self)`` as a symbolic bool, if it depends on tensor data; None if `truth` knows it."""
        return None

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """One of ``== != < <= > >=``; None (``NotImplemented``) leaves it to the other operand."""
        return None

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        """``self symbol other`` (``reflected``: ``other symbol self``); None leaves it to the other operand."""
        return None

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """``self symbol= other``; None falls back on the binary operator."""
        return None

    def unary(self, tx: Translator, function: Callable[[Any], Any]) -> VariableTracker | None:
        """One of ``operator.neg``, ``pos``, ``invert`` and ``abs``; None: fold it if the value is a constant."""
        return None

    # -- texts ---------------------------------------------------------------------------------------------------------

    def text(self, tx: Translator, name: str) -> VariableTracker:
        """The result of the special method ``name``, which is ``__str__`` or ``__repr__``."""
        value = self.python_value(tx)
        return tx.make((tx.evaluate if has_known_text(value) else tx.fold)(TEXTS[name], (value,)))

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        """``format(self, spec)``."""
        if tx.is_plain(self):
            return tx.make(tx.fold(format, (self.python_value(tx), tx.python_value(spec))))
        return self.plain_format(tx, spec)

    def plain_format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        """``object.__format__``."""
        if tx.truth(spec):
            if tx.lookup(self.python_type(), "__format__") is object.__format__:
                kind = self.python_type().__name__
                tx.raise_error(TypeError, f"unsupported format string passed to {kind}.__format__")
            unsupported(UnsupportedOperation("format() with a specification", self.describe()))
        return self.text(tx, "__str__")

    # -- the plan ------------------------------------------------------------------------------------------------------

    def construct(self, plan: Planner) -> Value:
        """How generated code creates the value. Called once for a value: `Planner.value` keeps it in a local."""
        unsupported(UnsupportedValue(self.describe(), "generated code can't create it"))

    def creating_call(self) -> CreatingCall | None:
        """The call that creates another object like this one, which was created during tracing; None if there is no
        such call."""
        return None

    def new_instance(self, plan: Planner, base: type, cls: type) -> Value:
        """How an instance of a user's class that derives from ``base`` is created. This tracker is the instance's
        payload: its value, if ``base`` is immutable, or its items."""
        return plan.call(base.__new__, plan.constant(cls))

    def fill_instance(self, plan: Planner, instance: Value) -> None:
        """Plan how the items that `new_instance` didn't add get into the instance."""

    def replay(self, plan: Planner) -> None:
        """For a mutated object that existed before the call: plan the writes that give it its final state."""
        raise NotImplementedError(type(self).__name__)


def same_value(one: VariableTracker, other: VariableTracker) -> bool:
    """Whether two trackers are known to stand for one value, without adding guards. `Translator.identical` decides
    what ``is`` does in the program instead, and guards it."""
    return one.known() is other.known()


def slot_values(tracker: VariableTracker, without: tuple[str, ...] = ()) -> list[Any]:
    """The values of a tracker's slots; None for slots that are empty so far."""
    found = []
    cls: type = type(tracker)
    for read in _slot_readers(cls, without):
        try:
            found.append(read(tracker))
        except AttributeError:
            found.append(None)
    return found


@functools.cache
def _slot_readers(cls: type, without: tuple[str, ...]) -> list[Callable[[object], Any]]:
    names = [(base, name) for base in cls.__mro__ for name in vars(base).get("__slots__", ())]
    return [vars(base)[name].__get__ for base, name in names if name not in without]


def remaining_items(tx: Translator, iterator: VariableTracker) -> Iterator[VariableTracker]:
    """The items that an iterator has left, one by one."""
    while True:
        try:
            item = iterator.next(tx)
        except Exhausted:
            return
        yield item


# -- what the methods of trackers are handed ---------------------------------------------------------------------------

Translator: TypeAlias = interfaces.Translator[VariableTracker]
Attempt: TypeAlias = interfaces.Attempt[VariableTracker]
Planner: TypeAlias = interfaces.Planner[VariableTracker]
KnownMapping: TypeAlias = interfaces.KnownMapping[VariableTracker]
Part: TypeAlias = interfaces.Part[VariableTracker]
