"""Calls of classes: ``type.__call__`` for classes in Python, and the constructors of builtin containers."""

from __future__ import annotations

import enum
import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import (
    ClassCreation,
    ExceptionState,
    NotCreated,
)
from dynamo_lite.variables.core.attributes import MISSING, MethodVariable, attribute_name, bind, is_callable, owner_of
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.class_lookup import (
    class_compares_by_identity,
    class_lookup,
    is_immutable,
    is_user_defined,
    mro,
    own_namespace,
    type_name,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.inert import is_inert, own_enum_value
from dynamo_lite.variables.core.registry import find_model, models, models_class_method
from dynamo_lite.variables.polyfills.enum import find_missing_member
from dynamo_lite.variables.python.containers.deques import DequeVariable
from dynamo_lite.variables.python.containers.mappings import DictVariable, MappingProxyVariable
from dynamo_lite.variables.python.containers.sequences import (
    ListVariable,
    TupleVariable,
    is_struct_sequence,
)
from dynamo_lite.variables.python.containers.sets import SetVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber
from dynamo_lite.variables.python.objects.exception import WITH_FIELDS, ExceptionVariable, overrides_creation
from dynamo_lite.variables.python.objects.property_object import CreatedPropertyVariable
from dynamo_lite.variables.python.objects.user_object import (
    SCALAR_CONVERSIONS,
    UserObjectVariable,
    payload_base,
    unmodeled_c_base,
)

from .classes import ClassVariable
from .isinstance_checks import derives, plain_is_instance


def construct(tx: Translator, cls: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``cls(...)``: the model of a known class, otherwise ``__call__`` of its metaclass."""
    assert isinstance(cls, ClassVariable)
    value = cls.value
    if not class_compares_by_identity(value):
        unsupported(NotCreated(cls.describe(), "its metaclass overrides equality or hashing of classes"))
    model = find_model(value)
    if model is not None:
        return model(tx, args, kwargs)
    meta_call = tx.lookup(type(value), "__call__")
    if meta_call is not type.__call__:
        return _construct_by_metaclass(tx, cls, meta_call, args, kwargs)
    return construct_plain(tx, cls, args, kwargs)


def _construct_by_metaclass(
    tx: Translator, cls: ClassVariable, call: object, args: Args, kwargs: Kwargs
) -> VariableTracker:
    if issubclass(cls.value, enum.Enum) and call is class_lookup(enum.EnumMeta, "__call__"):
        if len(args) == 1 and not kwargs and (args[0].is_constant() or isinstance(args[0], SymbolicNumber)):
            return _find_member(tx, cls, args[0].as_constant())
        if not cls.value.__members__:  # the functional API
            unsupported(ClassCreation(f"of {cls.describe().removeprefix('class ')}()"))
        unsupported(NotCreated(cls.describe(), "its member is looked up by a value that is not a constant"))
    if isinstance(call, (types.FunctionType, staticmethod, classmethod, type)):
        return tx.call(bind(tx, call, "__call__", cls, type(cls.value)), args, kwargs)
    unsupported(NotCreated(cls.describe(), f"{type(cls.value).__qualname__}.__call__ is implemented in C"))


def _find_member(tx: Translator, cls: ClassVariable, value: object) -> VariableTracker:
    """The enum member with a value. A user's ``_missing_`` is inlined."""
    missing = tx.lookup(cls.value, "_missing_")
    members = type.__getattribute__(cls.value, "_member_map_").values()
    values = [own_enum_value(each) for each in members]
    if not all(map(is_inert, (value, *values))) and not any(each is value for each in members):
        unsupported(NotCreated(cls.describe(), "its members' values are compared by user code"))
    is_default = any(each is missing for each in _DEFAULT_MISSING)
    if is_default or any(each is value for each in members) or value in values:
        member = tx.evaluate(cls.value, (value,))
        if tx.evaluate(cls.value, (value,)) is member:
            return tx.make(member)
        unsupported(NotCreated(cls.describe(), "each call makes a new member"))  # bits without a name
    if issubclass(cls.value, enum.Flag):
        unsupported(NotCreated(cls.describe(), "its _missing_ is called"))
    return tx.call(tx.make(find_missing_member), [cls, tx.make(value)], {}).realize()


_DEFAULT_MISSING = tuple(each.__dict__["_missing_"] for each in (enum.Enum, enum.Flag))


def construct_plain(tx: Translator, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``type.__call__``."""
    value = cls.value
    if issubclass(value, BaseException):
        return _construct_exception(tx, cls, args, kwargs)
    if is_struct_sequence(value):
        unsupported(NotCreated(f"class {value.__qualname__}", "struct sequences are created by torch's operators"))
    instance = _call_new(tx, cls, args, kwargs)
    kind = instance.python_type()  # `__new__` may return an instance of another class
    if value not in mro(kind):
        return instance
    init = tx.lookup(kind, "__init__")
    if is_user_defined(init):
        _initialize(tx, bind(tx, init, "__init__", instance, kind), args, kwargs)
    elif instance.payload is not None or not isinstance(tx.lookup(value, "__new__"), _PYTHON_METHODS):
        if not isinstance(instance.payload, TupleVariable) and not issubclass(value, torch.Tensor):
            instance.call_method(tx, "__init__", args, kwargs)
    return instance


def _initialize(tx: Translator, method: VariableTracker, args: Args, kwargs: Kwargs) -> None:
    result = tx.call(method, args, kwargs)
    if not tx.is_none(result):
        tx.raise_error(TypeError, f"__init__() should return None, not '{result.realize().python_type().__name__}'")


def _construct_exception(tx: Translator, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    value = cls.value
    if overrides_creation(value):
        unsupported(ExceptionState(f"{cls.describe()}()", "the exception class has a metaclass or its own __new__"))
    if issubclass(value, BaseExceptionGroup):
        unsupported(ExceptionState(f"{cls.describe()}()", "it creates an exception group"))
    if issubclass(value, OSError) and len(args) > 1:
        unsupported(ExceptionState(f"{cls.describe()}()", "its arguments decide its class and attributes"))
    error = ExceptionVariable(value, args)
    init = tx.lookup(value, "__init__")
    if is_user_defined(init):
        if issubclass(value, WITH_FIELDS):
            unsupported(ExceptionState(f"{cls.describe()}()", "it has an __init__, and its base stores its arguments"))
        _initialize(tx, bind(tx, init, "__init__", error, value), args, kwargs)
    elif not is_immutable(owner_of(value, "__init__")):
        unsupported(ExceptionState(f"{cls.describe()}()", "its __init__ is implemented in C"))
    elif kwargs and not issubclass(value, WITH_FIELDS):
        tx.raise_error(TypeError, f"{value.__name__}() takes no keyword arguments")
    elif kwargs:
        refuse_arguments(value.__name__)
    return error


_PYTHON_METHODS = (staticmethod, classmethod, types.FunctionType)
"""Types of ``__new__`` in Python: a class statement wraps it in a staticmethod, an assignment to the class doesn't."""


def _call_new(tx: Translator, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    value = cls.value
    raw = tx.lookup(value, "__new__")
    if isinstance(raw, _PYTHON_METHODS):
        return tx.call(bind(tx, raw, "__new__", None, value), [cls, *args], kwargs).realize()
    if any(raw is each for each in _MODELED_NEW):
        return tx.call(tx.make(raw), [cls, *args], kwargs).realize()
    return new_instance(tx, value, args, kwargs)


_MODELED_NEW = (torch._C.TensorBase.__new__, torch._C._FunctionBase.__new__)


def new_instance(tx: Translator, cls: type, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``object.__new__(cls)``, or ``__new__`` of the builtin type that ``cls`` derives from."""
    base = payload_base(cls)
    c_base = unmodeled_c_base(cls)
    if c_base is property:
        return CreatedPropertyVariable(None, cls)
    if c_base is not None:
        unsupported(NotCreated(f"class {cls.__qualname__}", f"its base {c_base.__name__} is implemented in C"))
    if tx.lookup(cls, "__del__") is not MISSING:
        unsupported(NotCreated(f"class {cls.__qualname__}", "it has a __del__, which runs at a time of its own"))
    if own_namespace(cls).get("__abstractmethods__"):
        tx.evaluate(object.__new__, (cls,))  # raises the TypeError for abstract classes
    has_init = is_user_defined(tx.lookup(cls, "__init__"))
    if base in (tuple, frozenset) and (len(args) > 1 or kwargs and not has_init):
        same_name = type(cls.__name__, (base,), {})
        tx.evaluate(same_name, [None] * len(args), {} if has_init else dict.fromkeys(kwargs))  # it raises
    if base in SCALAR_CONVERSIONS:
        payload: VariableTracker | None = ConstantVariable(tx.fold(base, *tx.python_values(args, kwargs)))
    else:
        payload = _empty_payload(tx, base, args)
    tx.attempt.torch_state.note_class(cls)
    return UserObjectVariable(None, cls, None, payload)


def _empty_payload(tx: Translator, base: type | None, args: Args) -> VariableTracker | None:
    if base is None:
        return None
    if base in (dict, OrderedDict, defaultdict):
        return DictVariable({}, None, None, base)
    if base is tuple:
        return TupleVariable(list(args[0].each_for_tuple(tx)) if args else [])
    if base is frozenset:
        return SetVariable.of(tx, args[0] if args else [], frozenset).of_derived_class()
    if base is list:
        return ListVariable([])
    return SetVariable.empty() if base is set else DequeVariable([])


# -- builtin containers ------------------------------------------------------------------------------------------------


@models(object)
def _object(tx: Translator) -> VariableTracker:
    return UserObjectVariable(None, object)


@models(list)
def _list(tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
    return ListVariable([] if items is None else list(items.each_with_length_hint(tx)))


@models(tuple)
def _tuple(tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
    if isinstance(items, TupleVariable) and items.python_type() is tuple:
        return items
    return TupleVariable([] if items is None else list(items.each_for_tuple(tx)))


def _class_to_create(tx: Translator, base: Any, cls: VariableTracker) -> type:
    """The first argument of ``base.__new__``, which must be a class that derives from ``base``."""
    name = base.__new__.__self__.__name__
    if not isinstance(cls, ClassVariable):
        given = cls.python_type().__name__
        tx.raise_error(TypeError, f"{name}.__new__(X): X is not a type object ({given})")
    kind: type = cls.value
    if not derives(kind, base):
        given = type_name(kind)
        tx.raise_error(TypeError, f"{name}.__new__({given}): {given} is not a subtype of {name}")
    if is_immutable(kind) and kind is not base:
        unsupported(NotCreated(cls.describe(), f"{name}.__new__() is called, which may not create it"))
    return kind


@models(tuple.__new__)
def _tuple_new(tx: Translator, cls: VariableTracker, items: VariableTracker | None = None) -> VariableTracker:
    kind = _class_to_create(tx, tuple, cls)
    made = TupleVariable([] if items is None else list(items.each_for_tuple(tx)))
    return made if kind is tuple else new_instance(tx, kind, [made], {})


@models(object.__new__)
def _object_new(
    tx: Translator, cls: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    kind = _class_to_create(tx, object, cls)
    if payload_base(kind) is not None:
        unsupported(NotCreated(cls.describe(), "it derives from a builtin type, and object.__new__() is called"))
    if args or kwargs:
        if tx.lookup(kind, "__new__") is not object.__new__:
            tx.raise_error(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
        if tx.lookup(kind, "__init__") is object.__init__:
            tx.raise_error(TypeError, f"{kind.__name__}() takes no arguments")
    return new_instance(tx, kind, [], {})


def _model_new(base: type) -> None:
    @models(base.__new__)
    def new(
        tx: Translator, cls: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        kind = _class_to_create(tx, base, cls)
        return DictVariable({}) if kind is dict else new_instance(tx, kind, list(args), kwargs)


for _base in (OrderedDict, dict, list, set, frozenset, *SCALAR_CONVERSIONS):
    _model_new(_base)


@models(dict)
def _dict(tx: Translator, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    items = DictVariable({})
    items.call_method(tx, "__init__", [*args], kwargs)
    return items


@models(types.MappingProxyType)
def _mapping_proxy(tx: Translator, mapping: VariableTracker) -> VariableTracker:
    kind = mapping.python_type()
    is_mapping = issubclass(kind, dict) or not is_immutable(kind) and tx.lookup(kind, "__getitem__") is not MISSING
    if not is_mapping or issubclass(kind, (list, tuple)):
        unsupported(NotCreated("class types.MappingProxyType", f"it gets {mapping.describe()}, not a mapping"))
    return MappingProxyVariable(mapping)


@models(set)
def _set(tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
    return SetVariable.empty() if items is None else SetVariable.of(tx, items)


@models(frozenset)
def _frozenset(tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
    return tx.make(frozenset()) if items is None else SetVariable.of(tx, items, frozenset)


@models(deque)
def _deque(
    tx: Translator, items: VariableTracker | None = None, maxlen: VariableTracker | None = None
) -> VariableTracker:
    queue = DequeVariable([])
    queue.method___init__(tx, items, maxlen)
    return queue


@models(types.MethodType)
def _method(tx: Translator, function: VariableTracker, receiver: VariableTracker) -> VariableTracker:
    if tx.is_none(receiver) or not is_callable(tx, function.realize()):
        tx.evaluate(types.MethodType, (len if is_callable(tx, function.realize()) else None, None))  # it raises
    return MethodVariable(function, receiver)


# -- class methods implemented in C ------------------------------------------------------------------------------------


@models_class_method(type, "mro")
def _mro(tx: Translator, cls: ClassVariable) -> VariableTracker:
    return tx.make(tx.evaluate(type.mro, (cls.value,)))


@models_class_method(type, "__subclasses__")
def _subclasses(tx: Translator, cls: ClassVariable) -> VariableTracker:
    """The list, in the order of the classes' creation: libraries find plugins in it."""
    found = type.__subclasses__(cls.value)
    source = tx.guards.const(cls.value).child("subclasses")
    source.check("length", len(found))
    for at, each in enumerate(found):
        source.child("list_item", at).check("id", each)
    return tx.make(found)


@models_class_method(type, "__getattribute__")
def _type_getattribute(tx: Translator, cls: ClassVariable, name: VariableTracker) -> VariableTracker:
    return cls.plain_getattr(tx, attribute_name(tx, name))


@models_class_method(dict, "fromkeys")
def _fromkeys(
    tx: Translator, cls: ClassVariable, keys: VariableTracker, value: VariableTracker | None = None
) -> VariableTracker:
    items = tx.call(cls, [], {}).realize()
    for key in keys.each(tx):
        items.setitem(tx, key, value or ConstantVariable(None))
    return items


@models_class_method(type, "__subclasscheck__")
def _subclasscheck(tx: Translator, cls: ClassVariable, other: VariableTracker) -> VariableTracker:
    if not isinstance(other, ClassVariable):
        tx.raise_error(TypeError, "issubclass() arg 1 must be a class")
    return ConstantVariable(derives(other.value, cls.value))


@models_class_method(type, "__instancecheck__")
def _instancecheck(tx: Translator, cls: ClassVariable, other: VariableTracker) -> VariableTracker:
    return ConstantVariable(plain_is_instance(tx, other, cls.value))


@models_class_method(type, "__call__")
def _type_call(
    tx: Translator, cls: ClassVariable, /, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    return construct_plain(tx, cls, list(args), kwargs)
