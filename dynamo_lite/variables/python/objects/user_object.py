"""Instances of classes in Python, pre-existing or created during tracing; objects that are only passed along.

An instance of a class that derives from a builtin container, number or string has a `payload`: the tracker of its
items or value as an instance of the builtin type.
"""

from __future__ import annotations

import copyreg
import functools
import itertools
import math
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import is_namedtuple_class

from dynamo_lite.insight.break_reasons import (
    FailsInPython,
    TextWithAddress,
    UnsupportedAttribute,
    UnsupportedOperation,
    UnsupportedValue,
)
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import (
    MISSING,
    attribute_name,
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
    Attempt,
    CreatingCall,
    KnownMapping,
    Kwargs,
    NotConstant,
    ObservedException,
    Planner,
    Translator,
    VariableTracker,
    remaining_items,
    unsupported,
)
from dynamo_lite.variables.core.base_kinds import ContainerVariable
from dynamo_lite.variables.core.c_arguments import call_handler, fits_signature, raise_argument_error
from dynamo_lite.variables.core.class_lookup import (
    c_lookup,
    has_finalizer,
    is_immutable,
    is_instantiable,
    is_user_defined,
    mro,
    own_namespace,
    wrong_result_text,
)
from dynamo_lite.variables.core.constant import ConstantVariable, unless_refused
from dynamo_lite.variables.core.formatting import bracketed, call_class_text_method, call_text_method
from dynamo_lite.variables.core.namespaces import check_lookup
from dynamo_lite.variables.core.operator_symbols import method_of
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.polyfills import derived
from dynamo_lite.variables.polyfills.recreation import create_object
from dynamo_lite.variables.python.containers.instance_dict import InstanceDictVariable
from dynamo_lite.variables.python.containers.iterators import GetitemIterator
from dynamo_lite.variables.python.containers.mappings import DictVariable, wrap_dict_items
from dynamo_lite.variables.python.containers.sequences import (
    SequenceVariable,
    TupleVariable,
)

SCALAR_CONVERSIONS: dict[type, Any] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
}
"""Immutable builtin types that classes derive from -> how to get an instance's value of the builtin type."""
_CONTAINERS = (defaultdict, OrderedDict, dict, list, tuple, set, frozenset, deque)
PAYLOAD_TYPES: tuple[type, ...] = (*_CONTAINERS, *SCALAR_CONVERSIONS)


def payload_base(cls: type) -> type | None:
    """The builtin container, number or string that a class derives from, None if it doesn't."""
    return next((base for base in mro(cls) if base in PAYLOAD_TYPES), None)


def unmodeled_c_base(cls: type) -> type | None:
    """The base implemented in C whose instance state isn't modelled; None for ``object`` and `PAYLOAD_TYPES`."""
    in_c = next((base for base in mro(cls) if is_immutable(base)), object)
    if in_c is not object and in_c not in PAYLOAD_TYPES:
        return in_c
    if not is_instantiable(cls):
        return cls
    new = class_lookup(cls, "__new__")
    owner = new.__self__ if isinstance(new, types.BuiltinFunctionType) else object
    return owner if isinstance(owner, type) and owner is not object and owner not in PAYLOAD_TYPES else None


def compare_as(cls: type, base: type) -> bool:
    """Whether instances of a class are hashed and compared as those of a builtin base."""
    return class_lookup(cls, "__hash__") is base.__hash__ and class_lookup(cls, "__eq__") is base.__eq__


@functools.cache
def _method_in_c(base: type, name: str) -> tuple[Any, Any]:
    """A method of a builtin type, and the function that is inlined instead of it, or None."""
    return class_lookup(base, name), derived.OF_DERIVED.get(base, {}).get(name)


def has_torch_function(cls: type) -> bool:
    """Whether torch functions dispatch to the class's ``__torch_function__`` for an instance among their arguments."""
    raw = class_lookup(cls, "__torch_function__")
    return raw is not MISSING and raw is not torch._C._disabled_torch_function_impl


class UserObjectVariable(VariableTracker):
    """An instance. ``value``: the pre-existing object, None for one created during tracing. ``attrs``: attributes
    written during tracing, None for deleted ones."""

    __slots__ = ("value", "cls", "attrs", "payload", "deleted", "own_dict", "is_dict_read")
    implements_equality = True
    namespace_kind = "instance_dict"
    """The accessor by which guards reach ``__dict__``."""
    accessors: type = object
    """The class in C whose ``__setattr__`` and ``__delattr__`` generated code calls."""

    def __init__(
        self, value: Any, cls: type, source: Source | None = None, payload: VariableTracker | None = None
    ) -> None:
        self.source = source
        self.value = value
        self.cls = cls
        self.attrs: dict[str, VariableTracker | None] = {}
        self.deleted: dict[str, None] = {}
        """Attributes of the pre-existing object that were deleted, perhaps written again after."""
        self.payload = payload
        if value is None and isinstance(payload, ContainerVariable):
            payload.instance = self
        self.own_dict: DictVariable | None = None
        """The dict that became its ``__dict__``, which the payload may be: attributes are items."""
        self.is_dict_read = False
        """Whether its first ``__dict__`` was read, so that other variables may hold it."""

    @classmethod
    def by_type(cls, attempt: Attempt, value: object, source: Source) -> VariableTracker:
        """Wrap an object and guard its type."""
        source.check_type(value)
        return cls(value, type(value), source)

    @classmethod
    def by_identity(cls, attempt: Attempt, value: object, source: Source) -> VariableTracker:
        """Wrap an object and guard its identity."""
        source.check("id", value)
        return cls(value, type(value), source)

    @property
    def is_new(self) -> bool:
        return self.value is None

    @property
    def _is_builtin(self) -> bool:
        """Whether its class is a builtin one, whose instances have attributes (``OrderedDict``, ``defaultdict``)."""
        return self.payload is not None and self.cls is self.payload.python_type()

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"a {self.cls.__qualname__} object"

    def key(self) -> Any:
        if compare_as(self.cls, object):
            return self.value if self.value is not None else self
        base = payload_base(self.cls)
        if base is None or self.payload is None or not compare_as(self.cls, base):
            raise NotConstant(self.describe())
        return self.payload.key()

    def guard_key(self, tx: Translator) -> None:
        for name in ("__hash__", "__eq__"):
            tx.lookup(self.cls, name)
        if self.payload is None:
            super().guard_key(tx)
        else:
            self.payload.guard_key(tx)

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        return (self,) if has_torch_function(self.cls) else ()

    def as_fx(self) -> tuple[Any, Any]:
        """Operators take an instance of a class derived from a number or sequence as that number or sequence."""
        if isinstance(self.payload, (ConstantVariable, SequenceVariable)):
            return self.payload.as_fx()
        return super().as_fx()

    def python_value(self, tx: Translator) -> Any:
        """Its number or string, if its class overrides no method that C functions call."""
        if isinstance(self.payload, ConstantVariable):
            base = type(self.payload.value)
            if all(tx.lookup(self.cls, name) is class_lookup(base, name) for name in _CALLED_BY_C):
                return self.payload.value
        if not self._is_builtin or self.payload is None:
            return super().python_value(tx)
        found = self.payload.python_value(tx)
        if self.cls is defaultdict:
            found.default_factory = tx.python_value(self.getattr(tx, "default_factory"))
        return found

    def cache_key(self, tx: Translator) -> Any:
        if self.is_new or self.source is None or not compare_as(self.cls, object):
            return super().cache_key(tx)
        self.source.check("id", self.value)
        return self.value

    def converted(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker:
        """A function of numbers calls the first of its methods that the class has, or reads the value in C."""
        for at, name in enumerate(_METHODS_OF_FUNCTIONS.get(function, ())):
            result = self.call_special(tx, name)
            if result is not None:
                kind = result.python_type()
                if kind is not _RESULTS.get(name, kind) or name == "__trunc__" and function is int:
                    unsupported(FailsInPython(f"{name}() of {self.describe()}", "its result is of another type"))
                return result.converted(tx, function) if at else result
            if self.payload is not None and class_lookup(self.payload.python_type(), name) is not MISSING:
                return self.payload.converted(tx, function)
        if self.payload is not None and function in (int, float):
            return self.payload.converted(tx, function)  # of a string
        return super().converted(tx, function)

    def index(self, tx: Translator, message: str) -> Any:
        if isinstance(self.payload, ConstantVariable) and isinstance(self.payload.value, int):
            return self.payload.value
        result = self.call_special(tx, "__index__")
        if result is None:
            return super().index(tx, message)
        if not issubclass(result.python_type(), int):
            kind = result.python_type()
            before = f"__index__ returned non-int (type {kind.__name__})"
            tx.raise_error(TypeError, wrong_result_text(self.cls, "__index__", "an int", kind, before))
        return tx.python_value(result)

    def sample_value(self) -> Any:
        """An instance of an empty class of the same name: the methods in Python have been tried before."""
        if class_lookup(self.cls, "__getitem__") is not MISSING and self.payload is None:
            raise NotConstant("`%` treats it as a mapping")
        empty = type(self.cls.__name__, (object if self.payload is None else self.payload.python_type(),), {})
        return empty() if self.payload is None else empty(self.payload.sample_value())

    def mapping_items(self, tx: Translator) -> KnownMapping | None:
        """``dict(obj)`` reads the items of an instance of dict, unless its class overrides ``__iter__``."""
        if isinstance(self.payload, DictVariable) and tx.lookup(self.cls, "__iter__") is dict.__iter__:
            return self.payload
        return super().mapping_items(tx)

    def structure_items(self) -> Iterable[VariableTracker] | None:
        """Named tuples, OrderedDicts and defaultdicts are nodes of pytrees; instances of other classes are leaves."""
        is_node = self._is_builtin or is_namedtuple_class(self.cls)
        return self.payload.structure_items() if self.payload is not None and is_node else None

    def with_structure_items(self, tx: Translator, new: Iterator[VariableTracker]) -> VariableTracker:
        if not self._is_builtin or self.payload is None:
            return tx.call(tx.make(self.cls), list(new), {}).realize()
        if self.cls is OrderedDict and self.attrs:
            unsupported(UnsupportedValue(self.describe(), "an operator's result would lose its attributes"))
        made = UserObjectVariable(None, self.cls, None, self.payload.with_structure_items(tx, new))
        if self.cls is defaultdict:
            made.attrs["default_factory"] = self.getattr(tx, "default_factory")
        return made

    # -- attributes of the instance itself -------------------------------------------------------------------------

    def existing_namespace(self) -> dict[str, Any]:
        """The items of ``__dict__`` of the pre-existing object."""
        return instance_items(self.value)

    def guard_lacks(self, name: str) -> None:
        """Guard that ``__dict__`` lacks a name."""
        assert self.source is not None
        self.source.check("lacks_instance_dict_item", name)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if self.own_dict is not None:
            return self.own_dict.find(tx, ConstantVariable(name))
        if name in self.attrs or self.value is None:
            return self.attrs.get(name)
        namespace = self.existing_namespace()
        check_lookup(namespace, name, self.describe)
        if name not in namespace:
            self.guard_lacks(name)
            return None
        assert self.source is not None
        source = self.source.child(self.namespace_kind).child("dict_item", name).expect()
        return LazyVariable(tx.attempt, namespace[name], source)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if name == "__dict__":
            return self._dict(tx)
        if name in self.attrs or self.is_new and not is_immutable(raw.__objclass__):
            return self.attrs.get(name)
        if self.value is None:  # the parts of a complex number; ``default_factory`` is None at first
            payload = self.payload
            return ConstantVariable(raw.__get__(payload.value) if isinstance(payload, ConstantVariable) else None)
        assert self.source is not None
        source = self.source.child("slot", raw)
        try:
            value = raw.__get__(self.value)
        except AttributeError:
            source.check("unbound")
            return None
        return LazyVariable(tx.attempt, value, source.expect())

    def _dict(self, tx: Translator) -> VariableTracker:
        """``__dict__``."""
        if self.own_dict is None:
            self.is_dict_read = True
            return InstanceDictVariable(self, tx.attempt)
        return self if self.own_dict is self.payload else self.own_dict

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if self.own_dict is not None and not self._is_slot(name):
            self.own_dict.setitem(tx, ConstantVariable(name), value)
            return
        tx.effects.mutate(self)
        if name in self.deleted:
            self.attrs.pop(name, None)  # ``__dict__`` has it last then
        self.attrs[name] = value

    def instance_delete(self, tx: Translator, name: str) -> None:
        if self.own_dict is not None and not self._is_slot(name):
            self.own_dict.delitem(tx, ConstantVariable(name))
            return
        tx.effects.mutate(self)
        self.attrs.pop(name, None)
        slot = class_lookup(self.cls, name) if self._is_slot(name) else None
        original = self.instance_get(tx, name) if slot is None else self.slot_get(tx, name, slot)
        if self.value is not None and original is not None:
            self.attrs[name] = self.deleted[name] = None

    def namespace(self, attempt: Attempt) -> DictVariable:
        """A copy of ``__dict__``, whose keys are guarded."""
        if self.own_dict is not None:
            return self.own_dict.copied()
        items: dict[Any, VariableTracker] = {}
        if self.value is not None:
            assert self.source is not None
            items = wrap_dict_items(attempt, self.existing_namespace(), self.source.child("instance_dict"))[0]
        for name in itertools.filterfalse(self._is_slot, self.deleted):
            items.pop(name, None)  # if it was written again, it comes last
        written = {name: value for name, value in self.attrs.items() if value is not None and not self._is_slot(name)}
        return DictVariable(items | written)

    # -- operations ------------------------------------------------------------------------------------------------

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        hook = self.find_special(tx, "__getattribute__")
        return generic_getattr(tx, self, name, getter=hook)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if self.call_special(tx, "__setattr__", ConstantVariable(name), value) is None:
            object_setattr(tx, self, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        if self.call_special(tx, "__delattr__", ConstantVariable(name)) is None:
            object_delattr(tx, self, name)

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__dict__":
            return self._dict(tx)
        if name != "__class__" and self.payload is not None:
            if class_lookup(self.payload.python_type(), name) is not MISSING:
                return self.payload.getattr(tx, name)
        return super().c_attribute(tx, name)

    def set_c_attribute(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """``__dict__`` of a new object can be assigned: a dict, or the object itself. Other descriptors in C break the
        graph."""
        value = value.realize()
        if name == "__dict__" and isinstance(value, InstanceDictVariable) and value.of is self:
            return  # after ``obj.__dict__ |= other``
        items = self.payload if value is self else value if value.python_type() is dict else None
        is_first = self.is_new and not self.is_dict_read and not isinstance(items, InstanceDictVariable)
        if name == "__dict__" and is_first and isinstance(items, DictVariable):
            tx.effects.mutate(self)
            self.attrs = {each: old for each, old in self.attrs.items() if self._is_slot(each)}
            self.own_dict = items
            return
        super().set_c_attribute(tx, name, value)

    def find_special(self, tx: Translator, name: str) -> VariableTracker | None:
        """The bound special method, if the class has one in Python, or another method in C under this name."""
        if is_immutable(self.cls):
            return None
        raw = class_lookup(self.cls, name)
        if is_user_defined(raw) or getattr(raw, "__name__", name) != name:
            return bind(tx, raw, name, self, self.cls)
        guard_class_attribute(tx.guards, self.cls, name, raw)
        if raw is None:
            unsupported(FailsInPython(f"{name}() of {self.describe()}", "its class sets the method to None"))
        return None

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        method = self.find_special(tx, "__call__")
        if method is None:
            return super().call(tx, args, kwargs)
        tx.delegate(self, method)
        return tx.call(method, args, kwargs)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method implemented in C: ``object``'s, or the payload type's."""
        handler = getattr(self, f"method_{name}") if f"method_{name}" in vars(UserObjectVariable) else None
        if self.payload is not None and (handler is None or name in ("__init__", "__eq__", "__ne__")):
            return self._call_inherited(tx, name, args, kwargs)
        if handler is None:
            unsupported(UnsupportedAttribute(self.describe(), name, "the method is not modelled"))
        raw, count = class_lookup(self.cls, name), 1 + len(args)
        return call_handler(handler, (tx, *args), kwargs, f"{self.cls.__qualname__}.{name}", raw, count)

    def method___getattribute__(self, tx: Translator, name: VariableTracker) -> VariableTracker:
        return generic_getattr(tx, self, attribute_name(tx, name), hook=False)

    def method___setattr__(self, tx: Translator, name: VariableTracker, value: VariableTracker) -> VariableTracker:
        object_setattr(tx, self, attribute_name(tx, name), value)
        return ConstantVariable(None)

    def method___delattr__(self, tx: Translator, name: VariableTracker) -> VariableTracker:
        object_delattr(tx, self, attribute_name(tx, name))
        return ConstantVariable(None)

    def method___init__(self, tx: Translator, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if (args or kwargs) and tx.lookup(self.cls, "__new__") is object.__new__:
            tx.raise_error(TypeError, f"{self.cls.__name__}() takes no arguments")
        return ConstantVariable(None)

    def method___init_subclass__(self, tx: Translator) -> VariableTracker:
        return ConstantVariable(None)

    def method___eq__(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(True if self is other else NotImplemented)

    def method___getstate__(self, tx: Translator) -> VariableTracker:
        """``__dict__``, or a pair of it and the slots."""
        state: VariableTracker = self.c_attribute(tx, "__dict__") if self.cls.__dictoffset__ else ConstantVariable(None)
        if isinstance(state, DictVariable) and not state.items:
            state = ConstantVariable(None)
        cached = own_namespace(self.cls).get("__slotnames__", [])  # copyreg's cache, unless the class defines it
        if type(cached) is not list or any(type(name) is not str for name in cached):
            unsupported(UnsupportedAttribute(self.describe(), "__getstate__", "its class defines __slotnames__"))
        meta, getters = type(self.cls), ("__getattr__", "__getattribute__")
        if meta is not type and any(is_user_defined(tx.lookup(meta, name)) for name in getters):
            unsupported(UnsupportedAttribute(self.describe(), "__getstate__", "its metaclass defines how it is read"))
        slots = DictVariable({})
        for name in copyreg._slotnames(self.cls):  # type: ignore[attr-defined]
            value = self.slot_get(tx, name, class_lookup(self.cls, name))
            if value is not None:
                slots.put(tx, ConstantVariable(name), value)
        return TupleVariable([state, slots]) if slots.items else state

    def method___reduce_ex__(self, tx: Translator, protocol: VariableTracker) -> VariableTracker:
        names = ("__getnewargs_ex__", "__getnewargs__")
        found = next((name for name in names if tx.lookup(self.cls, name) is not MISSING), "")
        return tx.call(tx.make(derived.reduce_to_parts), [self, tx.make(found)], {})

    def _call_inherited(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method of the payload's type."""
        assert self.payload is not None
        if isinstance(self.payload, ConstantVariable) and name == "__init__":
            return ConstantVariable(None)
        raw = _method_in_c(self.payload.python_type(), name)[0]
        function = self._replacement(name) or raw
        if not fits_signature(function, 1 + len(args), tuple(kwargs)):
            raise_argument_error(tx, raw, 1 + len(args), kwargs, self.cls)
        if name in TEXTS and not args and not kwargs:
            is_objects = class_lookup(self.payload.python_type(), name) is object.__str__
            return self.text(tx, "__repr__") if is_objects else self._builtin_text(tx, name)
        if function is not raw and tx.code is not function.__code__:  # there, it is called for what it does in C
            return tx.call(tx.make(function), [self, *args], kwargs).realize()
        if name == "__getitem__" and len(args) == 1 and not kwargs:
            return self._payload_item(tx, args[0])
        if name == "__format__" and len(args) == 1 and not kwargs:
            return self._builtin_format(tx, args[0])
        return self._unless_payload(self.payload.call_method(tx, name, args, kwargs))

    def _replacement(self, name: str) -> Any:
        """The function that is inlined instead of a method of the payload's type, or None."""
        return None if self.payload is None else _method_in_c(self.payload.python_type(), name)[1]

    def _call_slot(self, tx: Translator, name: str, *args: VariableTracker) -> VariableTracker | None:
        """The result of the special method that is found on the class's MRO: one in Python is inlined, the payload
        type's in C works on the payload. None if the class has neither, so that errors name the class."""
        found = self.call_special(tx, name, *args)
        if found is not None or self.payload is None:
            return found
        is_inherited = _method_in_c(self.payload.python_type(), name)[0] not in (MISSING, None)
        return self._call_inherited(tx, name, [*args], {}) if is_inherited else None

    def _operator(
        self,
        tx: Translator,
        name: str,
        other: VariableTracker,
        inherited: Callable[[VariableTracker], VariableTracker | None],
    ) -> VariableTracker | None:
        """`_call_slot` for an operator. ``inherited``: the payload's, which leaves other types to the other operand."""
        found = self.call_special(tx, name, other)
        if found is None and self.payload is not None:
            function = self._replacement(name)
            found = inherited(self.payload) if function is None else tx.call(tx.make(function), [self, other], {})
            found = None if found is None else self._unless_payload(found.realize())
        return unless_refused(found)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return self._call_slot(tx, "__getitem__", key) or super().getitem(tx, key)

    def _payload_item(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        """The builtin type's ``__getitem__``. ``dict.__getitem__`` calls ``__missing__`` of the class."""
        assert self.payload is not None
        found = self.payload.find(tx, key) if isinstance(self.payload, DictVariable) else None
        if found is None and isinstance(self.payload, DictVariable):
            found = self.call_special(tx, "__missing__", key)
            if found is None and self._replacement("__missing__") is not None:
                found = self.call_method(tx, "__missing__", [key], {})
        return found or self._unless_payload(self.payload.getitem(tx, key))

    def _unless_payload(self, result: VariableTracker) -> VariableTracker:
        """A method of a mutable type that returns its object returns the instance. Those of tuples, which may return
        the object itself, return a new one of their type."""
        if result is not self.payload:
            return result
        return result.like(result.items) if isinstance(result, TupleVariable) else self

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        if self._call_slot(tx, "__setitem__", key, value) is None:
            super().setitem(tx, key, value)

    def delitem(self, tx: Translator, key: VariableTracker) -> None:
        if self._call_slot(tx, "__delitem__", key) is None:
            super().delitem(tx, key)

    def iterate(self, tx: Translator) -> VariableTracker:
        iterator = self._call_slot(tx, "__iter__")
        if iterator is not None:
            return iterator if iterator.is_iterator else tx.checked_iterator(self, iterator)
        if tx.lookup(self.cls, "__iter__") is not MISSING or tx.lookup(self.cls, "__getitem__") is MISSING:
            return super().iterate(tx)
        return GetitemIterator(self)

    def each_with_length_hint(self, tx: Translator) -> Iterator[VariableTracker]:
        iterator = self.iterate(tx)
        name = "__length_hint__" if tx.lookup(self.cls, "__len__") in (MISSING, None) else "__len__"
        if is_user_defined(tx.lookup(self.cls, name)):
            try:  # for its side effects
                hint = self.call_special(tx, name)
            except ObservedException:
                hint = None
            if hint is None or hint.python_type() is not int or tx.truth(tx.compare("<", hint, ConstantVariable(0))):
                unsupported(FailsInPython(f"{name}() of {self.describe()}", "it returns no length"))
        yield from remaining_items(tx, iterator)

    def reverse(self, tx: Translator) -> VariableTracker:
        iterator = self._call_slot(tx, "__reversed__")
        if iterator is not None:
            return iterator
        if tx.lookup(self.cls, "__getitem__") is MISSING:
            return super().reverse(tx)
        return GetitemIterator(self, tx.index_value(tx.length(self)) - 1, -1)

    def next(self, tx: Translator) -> VariableTracker:
        method = self.find_special(tx, "__next__")
        if method is None:
            return super().next(tx)
        return tx.next_by_call(method)

    def length(self, tx: Translator) -> Any:
        result = self._call_slot(tx, "__len__")
        if result is None:
            return super().length(tx)
        is_number = result.python_type() is int and result.operand is not None
        length = result.operand if is_number else tx.index_value(result)
        if tx.truth(tx.compare("<", tx.make(length), ConstantVariable(0))):
            tx.raise_error(ValueError, "__len__() should return >= 0")
        if type(length) is int and length > sys.maxsize:
            tx.raise_error(OverflowError, "cannot fit 'int' into an index-sized integer")
        return length

    def truth(self, tx: Translator) -> bool:
        result = self._call_slot(tx, "__bool__")
        if result is None:
            return super().truth(tx)
        kind = result.python_type()
        if kind is not bool:
            before = f"__bool__ should return bool, returned {kind.__name__}"
            tx.raise_error(TypeError, wrong_result_text(self.cls, "__bool__", "a bool", kind, before))
        return tx.truth(result)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        result = self._call_slot(tx, "__contains__", item)
        return tx.contains_by_iteration(self, item) if result is None else tx.truth(result)

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        name = method_of(symbol, "r" if reflected else "")
        return self._operator(tx, name, other, lambda payload: payload.binary(tx, symbol, other, reflected))

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        name = method_of(symbol, "i")
        return self._operator(tx, name, other, lambda payload: payload.inplace(tx, symbol, other))

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol == "!=" and tx.lookup(self.cls, "__ne__") is object.__ne__:
            equal = unless_refused(self.call_special(tx, "__eq__", other))
            return None if equal is None else ConstantVariable(not tx.truth(equal))
        name, theirs = method_of(symbol), other.builtin_part()
        return self._operator(tx, name, other, lambda payload: payload.compare(tx, symbol, theirs))

    def unary(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker | None:
        return self._call_slot(tx, f"__{function.__name__}__")

    def is_plain(self, tx: Translator) -> bool:
        adds_items = self.cls is defaultdict and not tx.is_none(self.getattr(tx, "default_factory"))
        return self._is_builtin and not adds_items and self.builtin_part().is_plain(tx)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return call_class_text_method(tx, self, name) or self._builtin_text(tx, name)

    def _builtin_text(self, tx: Translator, name: str) -> VariableTracker:
        """The result of ``__str__`` or ``__repr__`` implemented in C. ``object``'s contains the address."""
        base = object if self.payload is None else self.payload.python_type()
        if self.payload is None or c_lookup(self.cls, name) is not class_lookup(base, name):
            unsupported(TextWithAddress(TEXTS[name].__name__, self.describe()))
        function = self._replacement("__repr__")
        if function is None:
            return self.payload.text(tx, name)
        if any(each is self for each in tx.attempt.reprs):
            unsupported(UnsupportedOperation("repr()", f"{self.describe()}, which contains itself,"))
        return bracketed(tx, self, ("", ""), lambda tx: [tx.call(tx.make(function), [self], {}).realize()])

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        method = self.find_special(tx, "__format__")
        if method is not None:
            return call_text_method(tx, method, "__format__", spec)
        return self._builtin_format(tx, spec)

    def _builtin_format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        if isinstance(self.payload, ConstantVariable) and tx.truth(spec):
            return tx.make(tx.evaluate(format, (self.sample_value(), tx.python_value(spec))))
        return self.plain_format(tx, spec)

    # -- generated code --------------------------------------------------------------------------------------------

    def creating_call(self) -> CreatingCall | None:
        attributes = {name: value for name, value in self.attrs.items() if value is not None}
        has_parts = self.payload is not None or self.own_dict is not None
        can_recreate = self.is_new and not has_parts and not has_finalizer(self.cls)
        if not can_recreate or any(map(self._is_shadowed, attributes)):
            return None
        return CreatingCall(create_object, (self.cls, tuple(attributes)), [*attributes.values()])

    def construct(self, plan: Planner) -> Value:
        if self.value is not None:
            raise NotConstant(self.describe())
        base, payload = payload_base(self.cls) or object, self.payload
        if payload is None:
            new = super().new_instance(plan, base, self.cls)
        else:
            new = payload.new_instance(plan, base, self.cls)

        def fill(instance: Value) -> None:
            if payload is not None:
                payload.fill_instance(plan, instance)
            self.store_attributes(plan, instance)

        return plan.create(self, new, fill)

    def store_attributes(self, plan: Planner, of: Value) -> None:
        """Set the attributes of the object."""
        if self.is_new and self.own_dict is not None:
            owner = self if self.own_dict is self.payload else self.own_dict
            plan.do(object.__setattr__, of, plan.constant("__dict__"), owner)
        for name in self.deleted:
            delete = _delete_item if self._is_shadowed(name) else self.accessors.__delattr__
            plan.do(delete, of, plan.constant(name))
        for name, value in self.attrs.items():
            if value is not None:
                store = _set_item if self._is_shadowed(name) else self.accessors.__setattr__
                plan.do(store, of, plan.constant(name), value)

    def _is_shadowed(self, name: str) -> bool:
        """Whether a data descriptor of the class shadows an item of ``__dict__``: setattr and delattr would call it."""
        raw = class_lookup(self.cls, name)
        return is_data_descriptor(raw) and not self._is_slot(name)

    def _is_slot(self, name: str) -> bool:
        return issubclass(type(class_lookup(self.cls, name)), types.MemberDescriptorType)

    def replay(self, plan: Planner) -> None:
        self.store_attributes(plan, plan.reload(self.source))


def _set_item(obj: object, name: str, value: object) -> None:
    object.__getattribute__(obj, "__dict__")[name] = value


def _delete_item(obj: object, name: str) -> None:
    del object.__getattribute__(obj, "__dict__")[name]


OPERATIONS_OF_C = (
    *("__eq__", "__hash__", "__index__", "__int__", "__float__", "__bool__", "__len__", "__iter__", "__getitem__"),
    *("__contains__", "__lt__", "__complex__", "__trunc__", "__floor__", "__ceil__", "__round__", "__bytes__"),
    "__pow__",
)
"""Methods that C functions call on their arguments, apart from those for texts and attributes."""
_METHODS_OF_FUNCTIONS: dict[Callable[..., Any], tuple[str, ...]] = {
    int: ("__int__", "__index__", "__trunc__"),
    float: ("__float__", "__index__"),
    complex: ("__complex__", "__float__", "__index__"),
    round: ("__round__",),
    math.trunc: ("__trunc__",),
    math.floor: ("__floor__", "__float__", "__index__"),
    math.ceil: ("__ceil__", "__float__", "__index__"),
}
"""The methods that a function of one number looks for, in order."""
_RESULTS = {"__int__": int, "__index__": int, "__float__": float, "__complex__": complex}
_CALLED_BY_C = (*OPERATIONS_OF_C, "__str__", "__repr__", "__format__", "__getattribute__")


def instance_dict(value: object) -> dict[str, Any] | None:
    """``__dict__`` of an object, without running ``__getattribute__`` of its class."""
    try:
        namespace: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return namespace


def instance_items(value: object) -> dict[str, Any]:
    """The items of ``__dict__`` of an object as a plain dict, empty if it has none.

    After ``self.__dict__ = self`` it is an instance of the program's class, whose methods must not run.
    """
    namespace = instance_dict(value)
    if namespace is None:
        return {}
    return namespace if type(namespace) is dict else dict.copy(namespace)
