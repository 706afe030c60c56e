"""The protocol of a traced value, lazy wrapping, and the registry of kinds.

A `VariableTracker` stands for one Python value. The operations that bytecode can do on a value are its methods; each
takes ``tx``, the translator that asks, through which the graph, the guards, the side effects and inlining are reached.
What a kind doesn't model it refuses with `unsupported`, which breaks the graph there.
"""

from __future__ import annotations

import inspect
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedOperation, UnsupportedValue
from dynamo_lite.records.source import Source

from .lookup import class_lookup, is_heap_type, is_user_defined
from .protocols import Attempt, Codegen, Translator

TEXTS: dict[str, Callable[..., str]] = {"__str__": str, "__repr__": repr}
"""What asks for a value's text, by the special method's name."""

_EMPTY = frozenset({list, tuple, dict, set, frozenset, deque, OrderedDict})
"""Types whose empty instance stands for any in errors that depend on the type."""

Args = list["VariableTracker"]
Kwargs = dict[str, "VariableTracker"]


class UnpackedKwargs(Kwargs):
    """Arguments with names that a call gives by ``**``: there may be none, which C can tell from no dict."""


_MRO = type.__dict__["__mro__"].__get__
_NAMESPACE = type.__dict__["__dict__"].__get__


def mro(cls: type) -> tuple[type, ...]:
    """The MRO as it is, whatever the metaclass says of it; of a class under construction, itself."""
    return _MRO(cls) or (cls,)


def own_namespace(cls: type) -> Mapping[str, Any]:
    """A class's ``__dict__``, whatever the metaclass says of it."""
    return _NAMESPACE(cls)


class NotConstant(Exception):
    """Asked for the Python value of something whose value isn't known."""


class Exhausted(Exception):
    """A traced iterator has no further item. ``value``: what a generator returned."""

    def __init__(self, value: VariableTracker | None = None) -> None:
        self.value = value


class ObservedException(Exception):
    """The traced program raises ``error`` (an ExceptionVariable)."""

    def __init__(self, error: Any) -> None:
        self.error = error


def has_plain_equality(meta: type) -> bool:
    """Whether classes of this metaclass may be held against others and be keys of tables."""
    return meta is type or not any(_EQUALITY.intersection(own_namespace(each)) for each in mro(meta)[:-1])


_EQUALITY = frozenset({"__eq__", "__ne__", "__hash__"})


def class_compares_by_identity(cls: type) -> bool:
    """Whether a class is told from others without running code of its metaclass."""
    return has_plain_equality(type(cls))


def unsupported(reason: BreakReason) -> NoReturn:
    """Break the graph here."""
    raise Unsupported(reason)


class CreatingCall(NamedTuple):
    """``make(*first, *of)``, of constants and of what trackers stand for."""

    make: Callable[..., Any]
    first: tuple[Any, ...]
    of: list[VariableTracker]


class VariableTracker:
    """A traced value. ``source``: where it can be reloaded from, None if it was made inside."""

    __slots__ = ("source",)
    operand: Any = None
    """The number, known or symbolic, that arithmetic with symbols takes it as; None: it is none."""
    is_loaded_anew = False
    """Loading it in generated code makes a new value (or has an effect) each time: it is not kept in a local."""
    implements_equality = False
    """Was asked for an answer of its own when ``==`` falls back on identity."""
    is_symbolic = False
    """Whether it is a number that may be another in the next call."""
    is_guarded_by_identity = False
    """Whatever second place it is found at holds this very object in every call."""
    is_replayed_first = False
    """What was done to it is done in generated code before what was done to others."""
    is_loaded_as_constant = False
    """Loaded in generated code as a constant, wherever it came from."""
    is_tensor = False
    """Whether it is a tensor."""
    is_wrapper = False
    """Whether it is a tensor that is made of others by code of its class."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    # -- what is known ----------------------------------------------------------------------------------------

    def realize(self) -> VariableTracker:
        """This value, looked at (and so guarded)."""
        return self

    def python_type(self) -> type:
        """The value's exact type."""
        raise NotImplementedError(type(self).__name__)

    def as_constant(self) -> Any:
        """The value itself, where it is known and can't differ from call to call.

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
        """The value itself, of containers a fresh one, where all its parts are known. Breaks the graph where they
        aren't."""
        try:
            return self.as_constant()
        except NotConstant:
            unsupported(UnsupportedValue(self.describe(), "its value would have to be known here"))

    def drained_value(self, tx: Translator) -> Any:
        """The same for what goes over the items of an iterator and does nothing else with it."""
        return self.python_value(tx)

    def is_plain(self, tx: Translator) -> bool:
        """Whether it is known, and C code that asks for its text runs no code of the program's."""
        return self.is_constant()

    def real_argument(self, leaf: Callable[[VariableTracker], Any]) -> Any:
        """What stands for this value in a call of real Python: of sequences one of what stands for their items, of
        everything else what ``leaf`` says."""
        return leaf(self)

    def constant_number(self, tx: Translator, methods: Iterable[str], drain: bool = False) -> Any:
        """The known value as a function of numbers looks at it: by the first of these methods that the program wrote
        for it. ``drain``: as in `drained_value`."""
        for name in methods:
            found = self.call_special(tx, name)
            if found is not None:
                return tx.python_value(found)
        return self.drained_value(tx) if drain else self.python_value(tx)

    def as_tensor_operand(
        self, tx: Translator, tensor: VariableTracker, symbol: str, reflected: bool = False
    ) -> VariableTracker:
        """What stands for it as the other operand of a tensor's arithmetic and comparisons."""
        return self

    def sample_value(self) -> Any:
        """A real value of the type, for the errors of operations that depend on the type alone.

        Raises:
            NotConstant: no such value can be had.
        """
        try:
            return self.as_constant()
        except NotConstant:
            kind = self.python_type()
            if not class_compares_by_identity(kind) or kind not in _EMPTY:
                raise
            return kind()

    def structure_items(self) -> Iterable[VariableTracker] | None:
        """What a structure of values is made of; None for what is no structure."""
        return None

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        """The instances of subclasses of Tensor where torch looks for them: the value, or items of a sequence."""
        return ()

    def holds_items_in(self, container: VariableTracker) -> bool:
        """Whether this is an instance of a class of the program's that keeps its items there."""
        return False

    def with_structure_items(self, tx: Translator, new: Iterator[VariableTracker]) -> VariableTracker:
        """A structure like this of others."""
        raise NotImplementedError(type(self).__name__)

    def as_fx(self) -> tuple[Any, Any]:
        """The value as an argument of a graph node, and as an argument of the call on fakes."""
        try:
            value = self.as_constant()
        except NotConstant:
            unsupported(UnsupportedValue(self.describe(), "an operator can't take it as an argument"))
        return value, value

    def as_index(self, tx: Translator) -> VariableTracker:
        """What indexes a tensor as this does."""
        return self

    def key(self) -> Any:
        """What stands for this value among a dict's keys.

        Raises:
            NotConstant: its hash or equality isn't known.
        """
        return self.as_constant()

    def number_as_key(self, tx: Translator) -> VariableTracker | None:
        """The number that it is as a key, where that is guarded to be the same in each call; None: it is none."""
        return None

    def guard_key(self, tx: Translator) -> None:
        """That it isn't another key is a fact of this call, where keys of its type are told apart by identity."""
        if self.python_type().__hash__ is object.__hash__:
            tx.guard_distinct(self)

    def identity(self) -> Any:
        """What ``is`` compares: equal identities are one object."""
        return self

    def describe(self) -> str:
        return f"a value of type {self.python_type().__name__}"

    # -- operations --------------------------------------------------------------------------------------------

    def index(self, tx: Translator, message: str) -> Any:
        """What ``__index__`` gives. ``message``: of the TypeError where there is none."""
        if self.is_constant():
            value = self.as_constant()
            if hasattr(type(value), "__index__"):
                return operator.index(value)
        tx.raise_error(TypeError, message.format(self.python_type().__name__))

    def converted(self, tx: Translator, function: Callable[..., Any], methods: Iterable[str]) -> VariableTracker:
        """``function(self)``, which makes another number of one; ``methods``: by which it looks at it."""
        return tx.make(tx.fold(function, (self.constant_number(tx, methods),)))

    def cache_key(self, tx: Translator) -> Any:
        """The value, where C code may hash and compare it: it runs no code of the program's, and is guarded."""
        unsupported(UnsupportedOperation("a cached function's call with an argument", self.describe()))

    def instance_names(self, tx: Translator) -> Iterable[str]:
        """What ``dir`` finds beside what the classes have."""
        unsupported(UnsupportedOperation("dir()", self.describe()))

    def mapping_items(self, tx: Translator) -> VariableTracker | None:
        """A mapping's items as a dict, by its ``keys`` and ``__getitem__``; None for what has none."""
        return tx.collected_items(self)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return tx.generic_getattr(self, name)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        """What the instance itself (not its class) has under ``name``."""
        return None

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        """What the instance has in a slot of its class; None: nothing."""
        unsupported(UnsupportedAttribute(self.describe(), name))

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        """An attribute that the type computes in C."""
        if name == "__class__":
            return tx.make(self.python_type())
        unsupported(UnsupportedAttribute(self.describe(), name))

    def set_c_attribute(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """Write an attribute whose descriptor is in C."""
        unsupported(UnsupportedAttribute(self.describe(), name, "writing a descriptor in C is not modelled"))

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        unsupported(UnsupportedAttribute(self.describe(), name, "writing it is not modelled"))

    def delattr(self, tx: Translator, name: str) -> None:
        unsupported(UnsupportedAttribute(self.describe(), name, "deleting it is not modelled"))

    def find_special(self, tx: Translator, name: str) -> VariableTracker | None:
        """The special method that a class of the program's has for the value, bound; None where it is C's or absent."""
        return None

    def call_special(self, tx: Translator, name: str, *args: VariableTracker) -> VariableTracker | None:
        """What that method returns."""
        method = self.find_special(tx, name)
        return None if method is None else tx.call(method, list(args), {}).realize()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        tx.refuse_operands("a call", operator.call, self)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call the method that the value's type has under ``name`` (never an instance attribute)."""
        handler = getattr(self, "method_" + name, None)
        if handler is None:
            if name in ("__repr__", "__str__") and not args and not kwargs:
                return tx.string(self, name)
            unsupported(UnsupportedAttribute(self.describe(), name, "the method is not modelled"))
        if kwargs:
            owner = next((base for base in mro(self.python_type()) if name in own_namespace(base)), object)
            signature = signature_in_c(own_namespace(owner).get(name), bound=1)
            if signature is not None and not signature.takes(len(args), kwargs):
                refuse_arguments(f"{owner.__name__}.{name}")
        return call_handler(handler, (tx, *args), kwargs, f"{self.python_type().__name__}.{name}")

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        tx.refuse_operands("indexing", operator.getitem, self, key)

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        tx.refuse_operands("item assignment", operator.setitem, self, key, key)

    def delitem(self, tx: Translator, key: VariableTracker) -> None:
        tx.refuse_operands("item deletion", operator.delitem, self, key)

    def iterate(self, tx: Translator) -> VariableTracker:
        """``iter(self)``: something with `next`."""
        tx.refuse_operands("iteration", iter, self)

    def reverse(self, tx: Translator) -> VariableTracker:
        """``reversed(self)``."""
        tx.refuse_operands("reversed()", reversed, self)

    def next(self, tx: Translator) -> VariableTracker:
        """``next(self)``. Raises `Exhausted` at the end."""
        tx.refuse_operands("next()", next, self)

    def throw(self, tx: Translator, error: VariableTracker) -> VariableTracker:
        """Raise in what ``yield from`` waits for; its next item."""
        return tx.next_by_call(self.getattr(tx, "throw"), [error])  # type: ignore[no-any-return]

    def close(self, tx: Translator) -> None:
        """What closing a generator does to what it delegates to."""
        if tx.has_attribute(self, "close"):
            tx.call(self.getattr(tx, "close"), [], {})

    def next_lazily(self, tx: Translator) -> VariableTracker:
        """``next(self)``, which nobody has looked at yet."""
        return self.next(tx)

    def elements(self, tx: Translator) -> list[VariableTracker]:
        """All that iteration gives, now."""
        return list(self.each(tx))

    def each(self, tx: Translator) -> Iterator[VariableTracker]:
        """What iteration gives, one by one: the program may see what is done with one before there is another."""
        yield from remaining_items(tx, self.iterate(tx))

    def each_with_length_hint(self, tx: Translator) -> Iterator[VariableTracker]:
        """The same, as what makes a list or tuple takes them: objects are asked how many there may be."""
        return self.each(tx)

    def length(self, tx: Translator) -> Any:
        """``len(self)``: an int, or one of torch's that may differ from call to call."""
        tx.refuse_operands("len()", len, self)

    def truth(self, tx: Translator) -> bool:
        return tx.plain_truth(self)

    def deferred_truth(self, tx: Translator) -> VariableTracker | None:
        """What ``bool`` gives where that hangs on data, and nothing branches on it yet; None: it is known."""
        return None

    def text(self, tx: Translator, name: str) -> VariableTracker:
        """``str`` or ``repr``, by the special method's name."""
        return tx.make(tx.fold(TEXTS[name], (self.python_value(tx),)))

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        """``format(self, spec)``."""
        if self.is_constant():
            return tx.make(tx.fold(format, (self.python_value(tx), tx.python_value(spec))))
        return tx.plain_format(self, spec)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        tx.refuse_operands("`in`", operator.contains, self, item)

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        """``self symbol other`` (or ``other symbol self``); None where this kind leaves it to the other operand."""
        return None

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        """One of ``operator.neg``, ``pos``, ``invert`` and ``abs``; None: as for a constant."""
        return None

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """``self symbol= other``; None: like the plain operator."""
        return None

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """One of ``== != < <= > >=``; None where this kind leaves it to the other operand."""
        return None

    def method___iter__(self, tx: Translator) -> VariableTracker:
        return self.iterate(tx)

    def method___next__(self, tx: Translator) -> VariableTracker:
        return tx.next(self)

    # -- code generation ---------------------------------------------------------------------------------------

    def creating_call(self) -> CreatingCall | None:
        """What makes another one like this, which was made inside; None where nothing does, or needs to."""
        return None

    def guard_deallocations(self) -> None:
        """Of an object that was written to: assume that nobody sees die what it loses without having been looked at."""

    def reconstruct(self, cg: Codegen) -> None:
        """Emit code that leaves the value on the stack. Called once a value; `PyCodegen.load` keeps it in a local."""
        unsupported(UnsupportedValue(self.describe(), "it can't be made outside of the trace"))

    def new_instance(self, cg: Codegen, base: type, load_class: Callable[[], None]) -> None:
        """Emit code that makes an object of a class that derives from ``base``, whose value or items these are."""
        cg.call(base.__new__, [load_class])

    def fill_instance(self, cg: Codegen, base: type) -> None:
        """Such an object on the stack: give it the items that it was not made with, leave it there."""


class IteratorVariable(VariableTracker):
    """Base of iterators: iterates as itself."""

    __slots__ = ()

    def iterate(self, tx: Translator) -> VariableTracker:
        return self

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        while True:
            try:
                if tx.same_or_equal(self.next(tx), item):
                    return True
            except Exhausted:
                return False

    def drained_value(self, tx: Translator) -> Any:
        return iter([tx.python_value(item) for item in self.elements(tx)])


class InvariantVariable(VariableTracker):
    """A value that is known, and the same in every call that the guards let through."""

    __slots__ = ("value",)

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.source = source
        self.value = value

    @classmethod
    def by_identity(cls, attempt: Attempt, value: Any, source: Source) -> VariableTracker:
        """Wrap a value as one of this kind: it is this very object in every call."""
        source.check("id", value)
        return cls(value, source)

    def python_type(self) -> type:
        return type(self.value)

    def as_constant(self) -> Any:
        return self.value

    def cache_key(self, tx: Translator) -> Any:
        kind = type(self.value)
        runs_python = any(is_user_defined(class_lookup(kind, name)) for name in ("__eq__", "__hash__"))
        return super().cache_key(tx) if runs_python else self.value

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


class LazyVariable(VariableTracker):
    """A value with a source that nobody has looked at: costs nothing, guards nothing."""

    __slots__ = ("value", "attempt", "_real")

    def __init__(self, attempt: Attempt, value: Any, source: Source) -> None:
        self.source = source
        self.value = value
        self.attempt = attempt
        self._real: VariableTracker | None = None

    def realize(self) -> VariableTracker:
        real = self._real
        if real is None:
            real = self._real = wrap(self.attempt, self.value, self.source)
        return real

    def rewrap(self) -> None:
        """More is known of it now."""
        self._real = self.realize().realize()

    @property
    def is_realized(self) -> bool:
        return self._real is not None


_SIMPLE = (int, float, bool, str, bytes, type(None))

WrapFn = Callable[[Any, Any, Source], VariableTracker]
_BY_TYPE: dict[type, WrapFn] = {}
_BY_VALUE: dict[int, tuple[Any, WrapFn]] = {}
_PREDICATES: list[tuple[int, Callable[[Any], bool], WrapFn]] = []


def wraps_type(*types: type) -> Callable[[WrapFn], WrapFn]:
    """Register how values of exactly these types are wrapped."""

    def register(fn: WrapFn) -> WrapFn:
        for each in types:
            _BY_TYPE[each] = fn
        return fn

    return register


def wraps_if(predicate: Callable[[Any], bool], order: int = 50) -> Callable[[WrapFn], WrapFn]:
    """Register how values are wrapped for which ``predicate`` holds, lower ``order`` asked first."""

    def register(fn: WrapFn) -> WrapFn:
        _PREDICATES.append((order, predicate, fn))
        _PREDICATES.sort(key=lambda row: row[0])
        return fn

    return register


def wraps_value(value: Any, fn: WrapFn) -> None:
    """Register how one particular object is wrapped (a known function or class)."""
    _BY_VALUE[id(value)] = (value, fn)


def wrap(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    """The tracker of a real value found at ``source``. One object has one tracker in an attempt."""
    kind = type(value)
    comparable = class_compares_by_identity(kind)
    if comparable and kind in _SIMPLE:
        return _BY_TYPE[kind](attempt, value, source)
    known = attempt.values.memo.get(id(value))
    if known is not None:
        return attempt.values.add_alias(known[1], value, source)
    by_value = _BY_VALUE.get(id(value))
    if not comparable:
        found = attempt.values.opaque(value, source, "its metaclass compares classes")
    elif by_value is not None:
        found = by_value[1](attempt, value, source)
    else:
        fn = _BY_TYPE.get(kind)
        if fn is None:
            fn = next(row[2] for row in _PREDICATES if row[1](value))
        found = fn(attempt, value, source)
    attempt.values.memo[id(value)] = (value, found)
    return found


def remaining_items(tx: Translator, iterator: VariableTracker) -> Iterator[VariableTracker]:
    """What is left of an iterator, one by one."""
    while True:
        try:
            item = iterator.next(tx)
        except Exhausted:
            return
        yield item


class SignatureInC:
    """How many arguments a callable in C takes by position, and which by name."""

    def __init__(self, signature: inspect.Signature, bound: int) -> None:
        self._signature = signature
        kinds = [each.kind for each in signature.parameters.values()]
        positional = [each for each in signature.parameters.values() if each.kind in _BY_POSITION][bound:]
        self._least = sum(each.default is inspect.Parameter.empty for each in positional)
        self._most = 1000 if inspect.Parameter.VAR_POSITIONAL in kinds else len(positional)
        self._bound = (None,) * bound

    def takes(self, count: int, named: Mapping[str, Any]) -> bool:
        if not named:
            return self._least <= count <= self._most
        try:
            self._signature.bind(*self._bound, *(None,) * count, **named)
        except TypeError:
            return False
        return True


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def signature_in_c(value: Any, bound: int = 0) -> SignatureInC | None:
    """None where it is not in C, or doesn't say. ``bound``: how many arguments it has already."""
    if type(value) is type and is_heap_type(value) or type(value) not in (type, *_IN_C):
        return None
    try:
        return SignatureInC(inspect.signature(value), bound)
    except ValueError:
        return None


def refuse_arguments(name: str) -> NoReturn:
    """A builtin is given what it doesn't take: CPython says what is wrong."""
    unsupported(UnsupportedOperation(f"{name}()", "these arguments"))


def call_handler(handler: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """Call a model of a builtin; arguments that it doesn't take break the graph."""
    try:
        return handler(*args, **kwargs)
    except TypeError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is None:
            refuse_arguments(name)
        raise
