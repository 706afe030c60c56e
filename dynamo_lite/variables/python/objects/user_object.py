"""Instances of the program's classes: real ones and ones made inside, with a container's items or without."""

from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedOperation, UnsupportedValue
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import (
    MISSING,
    BuiltinMethodVariable,
    bind,
    class_lookup,
    generic_getattr,
    guard_class_attribute,
    is_data_descriptor,
    object_delattr,
    object_setattr,
)
from dynamo_lite.variables.core.base import (
    TEXTS,
    Args,
    CreatingCall,
    Kwargs,
    LazyVariable,
    NotConstant,
    ObservedException,
    VariableTracker,
    call_handler,
    mro,
    own_namespace,
    remaining_items,
    unsupported,
    wraps_if,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable, unless_refused
from dynamo_lite.variables.core.lookup import (
    has_finalizer,
    is_heap_type,
    is_immutable,
    is_instantiable,
    is_user_defined,
)
from dynamo_lite.variables.core.mutated_attributes import guard_overwritten, overwritten_attribute, slot_is_bound
from dynamo_lite.variables.core.operator_symbols import method_of
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.text import call_text_method
from dynamo_lite.variables.polyfills.carried import create_object
from dynamo_lite.variables.python.containers.instance_dict import InstanceDictVariable
from dynamo_lite.variables.python.containers.mapping import DictVariable, wrap_dict_items
from dynamo_lite.variables.python.containers.sequence import ListVariable, SequenceVariable, TupleVariable, wrap_items

from .object_methods import OBJECT_METHODS

PLAIN: dict[type, Any] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
}
"""Immutable built-in types that the program derives from -> what gives the plain value of an instance."""
PAYLOAD_TYPES: tuple[type, ...] = (defaultdict, OrderedDict, dict, list, tuple, set, frozenset, deque, *PLAIN)


def payload_base(cls: type) -> type | None:
    """The builtin container, number or string that a class derives from, None if it doesn't."""
    return next((base for base in mro(cls) if base in PAYLOAD_TYPES), None)


def unmodeled_c_base(cls: type) -> type | None:
    """The class in C whose state the instances have, where that is not ``object`` or a builtin container."""
    static = next((base for base in mro(cls) if not is_heap_type(base)), object)
    if static is not object and static not in PAYLOAD_TYPES:
        return static
    if not is_instantiable(cls):
        return cls
    new = class_lookup(cls, "__new__")
    maker = new.__self__ if isinstance(new, types.BuiltinFunctionType) else object
    return maker if maker is not object and maker not in PAYLOAD_TYPES else None  # type: ignore[return-value]


def overrides_torch_function(cls: type) -> bool:
    """Whether torch's functions that are given an instance ask its class."""
    raw = class_lookup(cls, "__torch_function__")
    return raw is not MISSING and raw is not torch._C._disabled_torch_function_impl


class UserObjectVariable(VariableTracker):
    """An object. ``attrs``: what was written inside, None for deleted; ``payload``: its items as a container."""

    __slots__ = ("value", "cls", "attrs", "payload", "deleted")
    implements_equality = True

    def __init__(
        self, value: Any, cls: type, source: Source | None = None, payload: VariableTracker | None = None
    ) -> None:
        self.source = source
        self.value = value
        self.cls = cls
        self.attrs: dict[str, VariableTracker | None] = {}
        self.deleted: dict[str, None] = {}
        """Names of the real object that were deleted inside, perhaps written again after."""
        self.payload = payload

    @property
    def is_new(self) -> bool:
        return self.value is None

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"a {self.cls.__qualname__} object"

    def key(self) -> Any:
        hash_, equal = class_lookup(self.cls, "__hash__"), class_lookup(self.cls, "__eq__")
        if hash_ is object.__hash__ and equal is object.__eq__:
            return self.value if self.value is not None else self
        base = payload_base(self.cls)
        if base is None or hash_ is not base.__hash__ or equal is not base.__eq__ or self.payload is None:
            raise NotConstant(self.describe())
        return self.payload.key()

    def holds_items_in(self, container: VariableTracker) -> bool:
        return self.payload is container

    def guard_key(self, tx: Translator) -> None:
        for name in ("__hash__", "__eq__"):
            tx.lookup(self.cls, name)
        (super() if self.payload is None else self.payload).guard_key(tx)

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        return (self,) if overrides_torch_function(self.cls) else ()

    def as_fx(self) -> tuple[Any, Any]:
        """A number or sequence of the program's own class is a number or sequence to an operator, whatever the class
        says of it."""
        if isinstance(self.payload, (ConstantVariable, SequenceVariable)):
            return self.payload.as_fx()
        return super().as_fx()

    def python_value(self, tx: Translator) -> Any:
        try:
            return self.plain_value(tx)
        except NotConstant:
            return super().python_value(tx)

    def plain(self) -> Any:
        """The number or string that it is to C code that asks nothing of its class; None: it is none."""
        return self.payload.value if isinstance(self.payload, ConstantVariable) else None

    def constant_number(self, tx: Translator, methods: Iterable[str], drain: bool = False) -> Any:
        """A number of the program's own class is what the built-in type has, unless one of these methods says else.
        (An ``__index__`` is not asked of integers, nor a ``__float__`` of floats.)"""
        value = self.plain()
        if not isinstance(value, (int, float, complex)):
            return super().constant_number(tx, methods, drain)
        own = "__index__" if isinstance(value, int) else "__float__"
        for name in methods:
            found = None if name == own else self.call_special(tx, name)
            if found is not None:
                return tx.python_value(found)
            if class_lookup(self.cls, name) is not MISSING:
                return value
        return value

    def converted(self, tx: Translator, function: Callable[..., Any], methods: Iterable[str]) -> VariableTracker:
        asked = next((name for name in methods if tx.lookup(self.cls, name) is not MISSING), None)
        found = None if asked is None or function not in (int, float, complex) else self.call_special(tx, asked)
        if found is None or asked == "__index__" and isinstance(self.payload, ConstantVariable):
            return super().converted(tx, function, methods)
        return tx.make(tx.fold(function, (tx.python_value(found),)))  # type: ignore[no-any-return]

    def plain_value(self, tx: Translator) -> Any:
        """The number or string that this is to C code, where its class leaves what C code asks to the built-in type.

        Raises:
            NotConstant: it is none, or has methods of its own for that."""
        if not isinstance(self.payload, ConstantVariable):
            raise NotConstant(self.describe())
        base = type(self.payload.value)
        for name in _ASKED_BY_C:
            raw = class_lookup(self.cls, name)
            if raw is not class_lookup(base, name):
                raise NotConstant(self.describe())
            guard_class_attribute(tx, self.cls, name, raw)
        return self.payload.value

    def cache_key(self, tx: Translator) -> Any:
        by_identity = class_lookup(self.cls, "__hash__") is object.__hash__ and (
            class_lookup(self.cls, "__eq__") is object.__eq__
        )
        if self.is_new or self.source is None or not by_identity:
            return super().cache_key(tx)
        self.source.check("id", self.value)
        return self.value

    def index(self, tx: Translator, message: str) -> Any:
        is_integer = isinstance(self.payload, ConstantVariable) and isinstance(self.payload.value, int)
        found = None if is_integer else self.call_special(tx, "__index__")
        if found is not None:
            if not issubclass(found.python_type(), int):
                tx.raise_error(TypeError, f"__index__ returned non-int (type {found.python_type().__name__})")
            return tx.python_value(found)
        if is_integer:
            return self.payload.value  # type: ignore[union-attr]
        return super().index(tx, message)

    def sample_value(self) -> Any:
        """One of a class of that name without its methods in Python, which were asked before."""
        if class_lookup(self.cls, "__getitem__") is not MISSING and self.payload is None:
            raise NotConstant("`%` takes it for a mapping")
        empty = type(self.cls.__name__, (object if self.payload is None else self.payload.python_type(),), {})
        return empty() if self.payload is None else empty(self.payload.sample_value())

    def instance_names(self, tx: Translator) -> Iterable[str]:
        return self.namespace(tx).items if self.cls.__dictoffset__ else ()

    def mapping_items(self, tx: Translator) -> VariableTracker | None:
        """Of one that derives from dict by its items, whatever its other methods say."""
        if isinstance(self.payload, DictVariable) and self.payload.cls is dict:
            if tx.lookup(self.cls, "__iter__") is dict.__iter__:
                return self.payload
        return super().mapping_items(tx)

    # -- the instance's own attributes -----------------------------------------------------------------------------

    def existing_namespace(self) -> dict[str, Any] | None:
        """The real object's ``__dict__``."""
        return instance_dict(self.value)

    def own_attribute_source(self, name: str) -> Source | None:
        """Where the real object has an attribute of its own; None, which is guarded: it has none of that name."""
        assert self.source is not None
        if name in (self.existing_namespace() or ()):
            return self.source.instance_item(name)
        self.source.check("lacks_instance_dict_item", name)
        return None

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if name in self.attrs:
            return self.attrs[name]
        if self.value is None:
            return None
        place, namespace = self.own_attribute_source(name), self.existing_namespace()
        return None if place is None or namespace is None else LazyVariable(tx.attempt, namespace[name], place)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if name == "__dict__":
            return InstanceDictVariable(self)
        if name in self.attrs:
            return self.attrs[name]
        if self.value is None:
            return None
        assert self.source is not None
        place = self.source.child("slot", raw)
        try:
            value = raw.__get__(self.value)
        except AttributeError:
            place.check("unbound")
            return None
        return LazyVariable(tx.attempt, value, place.expect())

    def _let_go(self, tx: Translator, name: str) -> None:
        """The real object's attribute is written or deleted."""
        if self.value is not None and name not in self.attrs:
            tx.effects.let_go(overwritten_attribute(self, name).values)

    def guard_deallocations(self) -> None:
        if self.value is not None:
            guard_overwritten(self)

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        self._let_go(tx, name)
        tx.effects.mutate(self)
        if name in self.deleted:
            self.attrs.pop(name, None)  # it comes back behind the others
        self.attrs[name] = value

    def instance_delete(self, tx: Translator, name: str) -> None:
        self._let_go(tx, name)
        tx.effects.mutate(self)
        self.attrs.pop(name, None)
        if self.value is not None and self._is_real(name):
            self.deleted[name] = None
            self.attrs[name] = None

    def _is_real(self, name: str) -> bool:
        """Whether the real object has it as an attribute of its own, which is guarded."""
        assert self.source is not None
        raw = class_lookup(self.cls, name)
        if issubclass(type(raw), types.MemberDescriptorType):
            place, bound = self.source.child("slot", raw), slot_is_bound(raw, self.value)
            place.expect() if bound else place.check("unbound")
            return bound
        return self.own_attribute_source(name) is not None

    def namespace(self, tx: Translator) -> DictVariable:
        """A copy of ``__dict__`` with its keys guarded."""
        items: dict[Any, VariableTracker] = {}
        if self.value is not None:
            assert self.source is not None
            real = self.existing_namespace()
            if real is None:
                unsupported(UnsupportedAttribute(self.describe(), "__dict__"))
            items = wrap_dict_items(tx.attempt, real, self.source.child("instance_dict"))[0]
        for name in self.deleted:
            items.pop(name, None)  # where it was written again it is behind the others
        for name, value in self.attrs.items():
            if value is None:
                items.pop(name, None)
            else:
                items[name] = value
        return DictVariable(items)

    # -- operations ------------------------------------------------------------------------------------------------

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        hook = tx.lookup(self.cls, "__getattribute__")
        if is_user_defined(hook):
            return tx.getattr_by_hook(self, bind(tx, hook, "__getattribute__", self, self.cls), name)
        return generic_getattr(tx, self, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        hook = tx.lookup(self.cls, "__setattr__")
        if is_user_defined(hook):
            tx.call(bind(tx, hook, "__setattr__", self, self.cls), [ConstantVariable(name), value], {})
        else:
            object_setattr(tx, self, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        hook = tx.lookup(self.cls, "__delattr__")
        if is_user_defined(hook):
            tx.call(bind(tx, hook, "__delattr__", self, self.cls), [ConstantVariable(name)], {})
        else:
            object_delattr(tx, self, name)

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__dict__":
            return InstanceDictVariable(self)
        if isinstance(self.payload, ConstantVariable) and name != "__class__":
            return self.payload.getattr(tx, name)
        return super().c_attribute(tx, name)

    def set_c_attribute(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """Another class may only be one whose instances look alike to C."""
        kind = value.realize()
        made = getattr(kind, "value", None)
        if name != "__class__" or not issubclass(kind.python_type(), type) or self.payload is not None:
            super().set_c_attribute(tx, name, value)
        if self.value is None or not _are_laid_out_alike(self.cls, made):
            super().set_c_attribute(tx, name, value)
        tx.effects.mutate(self)
        self.cls = made
        tx.attempt.torch_state.note_class(made)

    def find_special(self, tx: Translator, name: str) -> VariableTracker | None:
        """The bound special method that the class was given; None where it is the type's own in C, or absent."""
        raw = class_lookup(self.cls, name)
        if is_user_defined(raw):
            return bind(tx, raw, name, self, self.cls)
        guard_class_attribute(tx, self.cls, name, raw)
        if raw is None:
            tx.raise_error(
                TypeError, _REFUSALS.get(name, "'NoneType' object is not callable").format(self.cls.__name__)
            )
        return None

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        method = self.find_special(tx, "__call__")
        if method is None:
            return super().call(tx, args, kwargs)
        tx.delegate(self, method)
        return tx.call(method, args, kwargs)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method in C: ``object``'s own, or the container's."""
        handler = OBJECT_METHODS.get(name)
        if isinstance(self.payload, ConstantVariable) and name == "__init__":
            return ConstantVariable(None)
        if self.payload is not None and name == "__str__" and not args and not kwargs:
            if class_lookup(self.payload.python_type(), name) is object.__str__:
                return tx.string(self, "__repr__")
        if self.payload is not None and (handler is None or name in ("__init__", "__eq__", "__ne__")):
            if name == "__getitem__" and len(args) == 1 and not kwargs:
                return self._payload_item(tx, args[0])
            if self.payload.source is None and self.value is not None:
                tx.effects.mutate(self)
            return self.payload.call_method(tx, name, args, kwargs)
        if handler is None:
            unsupported(UnsupportedAttribute(self.describe(), name, "the method is not modelled"))
        return call_handler(handler, (tx, self, *args), kwargs, f"{self.cls.__qualname__}.{name}")

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        found = self.call_special(tx, "__getitem__", key)
        if found is not None:
            return found
        return super().getitem(tx, key) if self.payload is None else self._payload_item(tx, key)

    def _payload_item(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        """The built-in type's own ``__getitem__``, which asks a dict's class for ``__missing__``."""
        assert self.payload is not None
        if isinstance(self.payload, DictVariable) and not self.payload.contains(tx, key):
            missing = self.call_special(tx, "__missing__", key)
            if missing is not None:
                return missing
        return self.payload.getitem(tx, key)

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        if self.call_special(tx, "__setitem__", key, value) is None:
            (super() if self.payload is None else self.payload).setitem(tx, key, value)

    def delitem(self, tx: Translator, key: VariableTracker) -> None:
        if self.call_special(tx, "__delitem__", key) is None:
            (super() if self.payload is None else self.payload).delitem(tx, key)

    def iterate(self, tx: Translator) -> VariableTracker:
        found = self.call_special(tx, "__iter__")
        if found is not None:
            return tx.checked_iterator(found)  # type: ignore[no-any-return]
        if self.payload is not None:
            return self.payload.iterate(tx)
        if tx.lookup(self.cls, "__iter__") is not MISSING:
            return super().iterate(tx)
        return tx.iterate_by_getitem(self)

    def each_with_length_hint(self, tx: Translator) -> Iterator[VariableTracker]:
        iterator = self.iterate(tx)
        self._ask_length(tx)
        yield from remaining_items(tx, iterator)

    def _ask_length(self, tx: Translator) -> None:
        """``operator.length_hint(self)``, of which nothing is used but what it raises."""
        for name in ("__len__", "__length_hint__"):
            try:
                found = self.call_special(tx, name)
            except ObservedException as observed:
                if not issubclass(observed.error.python_type(), TypeError):
                    raise
                continue
            if found is None or isinstance(found, ConstantVariable) and found.value is NotImplemented:
                continue
            if found.python_type() is not int or isinstance(found, ConstantVariable) and found.value < 0:
                unsupported(UnsupportedOperation(name, f"{self.describe()}, which gives no length"))
            return

    def reverse(self, tx: Translator) -> VariableTracker:
        found = self.call_special(tx, "__reversed__")
        if found is not None:
            return found
        if self.payload is not None and tx.lookup(self.cls, "__reversed__") is not MISSING:
            return self.payload.reverse(tx)
        if tx.lookup(self.cls, "__getitem__") is MISSING:
            return super().reverse(tx)
        places = reversed(range(tx.python_value(tx.length(self))))
        return TupleVariable([self.getitem(tx, ConstantVariable(at)) for at in places]).iterate(tx)

    def next(self, tx: Translator) -> VariableTracker:
        method = self.find_special(tx, "__next__")
        if method is None:
            return super().next(tx)
        return tx.next_by_call(method)

    def length(self, tx: Translator) -> Any:
        found = self.call_special(tx, "__len__")
        if found is not None:
            is_number = found.python_type() is int and found.operand is not None
            count = found.operand if is_number else tx.index_value(found)
            if tx.truth(tx.compare("<", tx.make(count), ConstantVariable(0))):
                tx.raise_error(ValueError, "__len__() should return >= 0")
            if type(count) is int and count > sys.maxsize:
                tx.raise_error(OverflowError, "cannot fit 'int' into an index-sized integer")
            return count
        return self.payload.length(tx) if self.payload is not None else super().length(tx)

    def truth(self, tx: Translator) -> bool:
        found = self.call_special(tx, "__bool__")
        if found is not None:
            if found.python_type() is not bool:
                name = found.python_type().__name__
                tx.raise_error(TypeError, f"__bool__ should return bool, returned {name}")
            return tx.truth(found)
        if isinstance(self.payload, ConstantVariable):
            return bool(self.payload.value)
        if tx.lookup(self.cls, "__len__") is not MISSING:
            return tx.truth(tx.length(self))
        if tx.lookup(self.cls, "__bool__") is not MISSING:
            return super().truth(tx)
        return True

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        found = self.call_special(tx, "__contains__", item)
        if found is not None:
            return tx.truth(found)
        if self.payload is not None:
            return self.payload.contains(tx, item)
        return tx.contains_by_iteration(self, item)  # type: ignore[no-any-return]

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        name = method_of(symbol, "r" if reflected else "")
        found = self.call_special(tx, name, other)
        if found is None and isinstance(self.payload, ConstantVariable):
            theirs = builtin_value(other)
            if not isinstance(theirs, ConstantVariable):
                return None
            pair = (theirs, self.payload) if reflected else (self.payload, theirs)
            return tx.binary(symbol, *pair)
        if found is None and self.payload is not None:
            if (
                symbol == "|"
                and isinstance(self.payload, DictVariable)
                and is_user_defined(tx.lookup(self.cls, "__iter__"))
            ):
                unsupported(UnsupportedOperation("`|`", f"{self.describe()}, whose __iter__ decides what is copied"))
            return self.payload.binary(tx, symbol, other, reflected)
        return unless_refused(found)

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        found = self.call_special(tx, f"__{function.__name__}__")
        if found is None and isinstance(self.payload, ConstantVariable):
            return tx.make(tx.fold(function, (self.payload.value,)))
        return found

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        found = self.call_special(tx, method_of(symbol, "i"), other)
        if found is None and self.payload is not None:
            result = self.payload.inplace(tx, symbol, other)
            return self if result is self.payload else result
        return unless_refused(found)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        found = self.call_special(tx, method_of(symbol), other)
        if found is None and symbol == "!=" and tx.lookup(self.cls, "__ne__") is object.__ne__:
            equal = unless_refused(self.call_special(tx, "__eq__", other))
            return None if equal is None else ConstantVariable(not tx.truth(equal))
        if found is None and self.payload is not None:
            theirs = builtin_value(other)
            if not isinstance(self.payload, ConstantVariable):
                return self.payload.compare(tx, symbol, theirs)
            return tx.compare(symbol, self.payload, theirs) if isinstance(theirs, ConstantVariable) else None
        return unless_refused(found)

    def is_plain(self, tx: Translator) -> bool:
        return False

    def text(self, tx: Translator, name: str) -> VariableTracker:
        method = self.find_special(tx, name)
        if method is None and name == "__str__" and tx.lookup(self.cls, "__str__") is object.__str__:
            method = self.find_special(tx, "__repr__")
        return self._text_in_c(tx, name) if method is None else call_text_method(tx, method, name)

    def _text_in_c(self, tx: Translator, name: str) -> VariableTracker:
        if self.payload is not None and class_lookup(self.cls, name) is class_lookup(self.payload.python_type(), name):
            return self.payload.text(tx, name)
        unsupported(UnsupportedOperation(f"{TEXTS[name].__name__}()", self.describe()))

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        method = self.find_special(tx, "__format__")
        if method is not None:
            return call_text_method(tx, method, "__format__", spec)
        if isinstance(self.payload, ConstantVariable) and tx.truth(spec):
            return tx.make(tx.fold(format, (self.payload.value, tx.python_value(spec))))
        return tx.plain_format(self, spec)

    # -- code ------------------------------------------------------------------------------------------------------

    def creating_call(self) -> CreatingCall | None:
        attributes = {name: value for name, value in self.attrs.items() if value is not None}
        plain = self.is_new and self.payload is None and not has_finalizer(self.cls)
        if not plain or any(map(self._is_hidden, attributes)):
            return None
        return CreatingCall(create_object, (self.cls, tuple(attributes)), [*attributes.values()])

    def reconstruct(self, cg: Codegen) -> None:
        if self.value is not None:
            raise NotConstant(self.describe())
        base = payload_base(self.cls) or object

        def new() -> None:
            make = super(UserObjectVariable, self) if self.payload is None else self.payload
            make.new_instance(cg, base, lambda: cg.load_const(self.cls))

        def fill(cg: Codegen) -> None:
            if self.payload is not None:
                self.payload.fill_instance(cg, base)
            self.store_attributes(cg)

        cg.make_then_fill(self, new, fill)

    def store_attributes(self, cg: Codegen) -> None:
        """Object on the stack: give it the class and the attributes written inside; leave it there."""
        if self.value is not None and type(self.value) is not self.cls:
            load = functools.partial(cg.load_const, self.cls)
            cg.call_with_top(object.__setattr__, [functools.partial(cg.load_const, "__class__"), load])
        for name in self.deleted:
            cg.call_with_top(object.__delattr__, [functools.partial(cg.load_const, name)])
        for name, value in self.attrs.items():
            if value is not None:
                loads = [functools.partial(cg.load_const, name), functools.partial(cg.load, value)]
                cg.call_with_top(_set_item if self._is_hidden(name) else object.__setattr__, loads)

    def _is_hidden(self, name: str) -> bool:
        """Whether what ``__dict__`` has under a name is not what setting the attribute sets."""
        raw = class_lookup(self.cls, name)
        return is_data_descriptor(raw) and not issubclass(type(raw), types.MemberDescriptorType)

    def replay(self, cg: Codegen) -> None:
        cg.load_source(self.source)
        self.store_attributes(cg)
        cg.pop_top()


def _are_laid_out_alike(one: type, other: Any) -> bool:
    """Whether instances of two classes consist of a dict, weak references and nothing else."""
    plain = all(is_heap_type(each) and payload_base(each) is unmodeled_c_base(each) is None for each in (one, other))
    slots = any(own_namespace(base).get("__slots__") for cls in (one, other) for base in mro(cls))
    layouts = [(each.__basicsize__, each.__dictoffset__, each.__weakrefoffset__) for each in (one, other)]
    return plain and not slots and layouts[0] == layouts[1]


def _set_item(obj: Any, name: str, value: Any) -> None:
    object.__getattribute__(obj, "__dict__")[name] = value


_REFUSALS = {
    "__hash__": "unhashable type: '{}'",
    "__iter__": "'{}' object is not iterable",
    "__contains__": "'{}' object is not a container",
    "__reversed__": "'{}' object is not reversible",
}
"""What a special method that the class sets to None says."""


_ASKED_BY_C = (
    *("__str__", "__repr__", "__format__", "__eq__", "__hash__", "__index__", "__int__", "__float__", "__bool__"),
    *("__len__", "__iter__", "__getitem__", "__contains__", "__lt__", "__getattribute__", "__complex__", "__trunc__"),
)
"""Methods by which functions in C look at a number or string."""


def builtin_value(variable: VariableTracker) -> VariableTracker:
    """The built-in value of an object whose class derives from a built-in type."""
    if isinstance(variable, UserObjectVariable) and variable.payload is not None:
        return variable.payload
    return variable


def instance_dict(value: Any) -> dict[str, Any] | None:
    """The instance's real ``__dict__``, whatever its class says of attribute access."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


class OpaqueVariable(VariableTracker):
    """A value that is only carried: it is never looked into."""

    __slots__ = ("value", "why")

    def __init__(self, value: Any, source: Source, why: str) -> None:
        self.source = source
        self.value = value
        self.why = why

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"a {type(self.value).__qualname__} ({self.why})"

    def key(self) -> Any:
        raise NotConstant(self.why)

    def sample_value(self) -> Any:
        raise NotConstant(self.why)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        kind = type(self.value)
        if name == "__class__":
            return tx.make(kind)
        method = is_immutable(kind) and type(class_lookup(kind, name)) is types.MethodDescriptorType
        if method and not name.startswith("_"):  # CPython looks it up again for the call, which breaks the graph
            return BuiltinMethodVariable(self, name)
        unsupported(UnsupportedValue(self.describe(), self.why))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


class ExistingExceptionVariable(UserObjectVariable):
    """An exception that was raised outside of the trace."""

    __slots__ = ()

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        if name in self.attrs:
            return self.attrs[name]  # type: ignore[return-value]
        if name in ("args", "__context__", "__cause__", "__traceback__"):
            assert self.source is not None
            return tx.attempt.values.wrap(getattr(self.value, name), self.source.child("c_attr", name))
        return super().c_attribute(tx, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        kind = value.realize().python_type()
        if name in ("__context__", "__cause__") and issubclass(kind, (BaseException, type(None))):
            self.instance_set(tx, name, value)
            if name == "__cause__":  # setting it sets this too, and so it comes before it
                self.attrs.pop("__suppress_context__", None)
                self.instance_set(tx, "__suppress_context__", ConstantVariable(True))
        elif name != "__traceback__" or value.realize() is not self.c_attribute(tx, name):
            super().setattr(tx, name, value)

    def _is_hidden(self, name: str) -> bool:
        return name not in ("__context__", "__cause__") and super()._is_hidden(name)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if name in self.attrs or is_heap_type(raw.__objclass__):
            return super().slot_get(tx, name, raw)
        assert self.source is not None
        return tx.attempt.values.wrap(getattr(self.value, name), self.source.child("c_attr", name))

    def _text_in_c(self, tx: Translator, name: str) -> VariableTracker:
        """Where that is BaseException's: a matter of the arguments."""
        if class_lookup(self.cls, name) not in (BaseException.__str__, BaseException.__repr__, KeyError.__str__):
            unsupported(UnsupportedOperation(f"{TEXTS[name].__name__}()", self.describe()))
        tx.python_value(self.c_attribute(tx, "args"))
        return tx.make(tx.fold(TEXTS[name], (self.value,)))


@wraps_if(lambda value: issubclass(type(value), BaseException), order=6)
def _wrap_exception(attempt: Attempt, value: BaseException, source: Source) -> VariableTracker:
    if source.kind != "const":
        source.check("type", type(value))
    return ExistingExceptionVariable(value, type(value), source)


def wrap_opaque(attempt: Attempt, value: Any, source: Source, why: str) -> VariableTracker:
    """Carry a value by its type alone."""
    if source.kind != "const":
        source.check("type", type(value))
    return OpaqueVariable(value, source, why)


wraps_type(types.UnionType, types.GenericAlias)(ConstantVariable.by_identity)


def _wrap_payload(attempt: Attempt, value: Any, source: Source) -> VariableTracker | None:
    base = payload_base(type(value))
    if base is None:
        return None
    if issubclass(base, dict):
        if base is defaultdict:
            return None
        return DictVariable(*wrap_dict_items(attempt, value, source), source, base)
    if base in (list, tuple):
        kind, accessor = (ListVariable, "list_item") if base is list else (TupleVariable, "tuple_item")
        made: SequenceVariable = kind(wrap_items(attempt, [*base.__iter__(value)], source, accessor), source)
        return made
    if base in PLAIN:
        plain = PLAIN[base](value)
        source.check("payload", plain)
        return ConstantVariable(plain)
    return None


@wraps_if(lambda value: is_heap_type(type(value)), order=90)
def _wrap_user_object(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    cls = type(value)
    if source.kind != "const":
        source.check("type", cls)
    maker = unmodeled_c_base(cls)
    if maker is not None:
        return OpaqueVariable(value, source, f"an object of {maker.__name__}, which is written in C")
    if type(class_lookup(cls, "__dict__")) not in (types.GetSetDescriptorType, object):
        return OpaqueVariable(value, source, "its class has a __dict__ of its own")
    payload = _wrap_payload(attempt, value, source)
    if payload is None and payload_base(cls) is not None:
        return OpaqueVariable(value, source, f"derives from {payload_base(cls).__name__}")  # type: ignore[union-attr]
    attempt.torch_state.note_class(cls)
    return UserObjectVariable(value, cls, source, payload)


@wraps_if(lambda value: True, order=100)
def _wrap_rest(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    return wrap_opaque(attempt, value, source, "a type that is not modelled")
