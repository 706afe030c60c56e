"""Classes that the traced program makes: ``class`` statements and ``type(name, bases, namespace)``.

Such a class has a real class beside it, its stand-in, so that lookups along its MRO are Python's own. Under each name
the stand-in has a value of the right type, by which the descriptor protocol decides; what the program sees is the
tracker in ``namespace``. No code of the program's runs for a stand-in: it is made behind a base that hides
``__init_subclass__``, its names are set one by one, and what ``type.__new__`` would call is traced instead.
"""

from __future__ import annotations

import _abc
import abc
import builtins
import functools
import types
from collections.abc import Callable
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.variables.core.attributes import is_data_descriptor
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    NotConstant,
    VariableTracker,
    has_plain_equality,
    mro,
    own_namespace,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.lookup import MISSING, class_lookup, is_heap_type
from dynamo_lite.variables.core.registry import models, models_class_method
from dynamo_lite.variables.polyfills.classes import set_name
from dynamo_lite.variables.python.containers.mapping import DictVariable, MappingProxyVariable
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.functions.function import CellVariable, NestedFunctionVariable
from dynamo_lite.variables.python.objects.property_object import PropertyVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable, c_maker

from .classes import ClassVariable
from .super_object import SuperVariable

_AT_CREATION = ("__module__", "__qualname__", "__doc__", "__slots__")
"""Names of the namespace that a class is made with; the others have None until they are set."""
_SAID = (*_AT_CREATION, "__abstractmethods__")
"""Of which a stand-in has what the real class has."""


def _hide(cls: type, **kwargs: Any) -> None:
    """In place of anybody's ``__init_subclass__``."""


_HIDING = {"__init_subclass__": classmethod(_hide)}
_SHIELDS = {True: type("_Shield", (), _HIDING), False: type("_Shield", (), {**_HIDING, "__slots__": ()})}
"""First bases while a class is made, so that no ``__init_subclass__`` runs: of instances with a dict, and without."""


def make_empty_class(meta: type, name: str, bases: tuple[type, ...], facts: dict[str, Any]) -> Any:
    """A class with nothing under its names, made without running code of its bases or metaclass. They are there for
    their order: what `type.__new__` adds comes after them."""
    if all(class_lookup(base, "__init_subclass__") is object.__dict__["__init_subclass__"] for base in bases):
        return type.__new__(meta, name, bases, facts)
    shield = _SHIELDS[any(base.__dictoffset__ for base in bases)]
    made: Any = type.__new__(meta, name, (shield, *bases), facts)
    made.__bases__ = bases
    return made


def set_class_item(cls: type, name: str, value: Any) -> None:
    type.__setattr__(cls, name, value)
    if type(value) is functools.cached_property and value.attrname is None:
        value.__set_name__(cls, name)


def finish_class(cls: type) -> None:
    if isinstance(cls, abc.ABCMeta):
        _abc._abc_init(cls)


class _StandIn:
    """Stands for a value that is no descriptor."""


class DescriptorVariable(VariableTracker):
    """A property, classmethod, staticmethod or cached_property made inside. ``parts``: its functions by name."""

    __slots__ = ("kind", "parts")

    def __init__(self, kind: Any, parts: dict[str, VariableTracker]) -> None:
        self.source = None
        self.kind = kind
        self.parts = parts

    def python_type(self) -> type:
        return self.kind

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name in self.parts:
            return self.parts[name]
        if self.kind is property and name in _PROPERTY_PARTS:
            return ConstantVariable(None)
        return super().getattr(tx, name)

    def _with(self, name: str, function: VariableTracker) -> VariableTracker:
        return DescriptorVariable(self.kind, {**self.parts, name: function})

    def method_getter(self, tx: Any, function: VariableTracker) -> VariableTracker:
        return self._with("fget", function)

    def method_setter(self, tx: Any, function: VariableTracker) -> VariableTracker:
        return self._with("fset", function)

    def method_deleter(self, tx: Any, function: VariableTracker) -> VariableTracker:
        return self._with("fdel", function)

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.kind is staticmethod:
            return tx.call(self.parts["__func__"], args, kwargs)
        return super().call(tx, args, kwargs)

    def reconstruct(self, cg: Any) -> None:
        if self.kind is property:
            none = ConstantVariable(None)
            cg.call(property, [lambda n=n: cg.load(self.parts.get(n, none)) for n in ("fget", "fset", "fdel")])
        else:
            cg.call(self.kind, [lambda: cg.load(next(iter(self.parts.values())))])


_PROPERTY_PARTS = ("fget", "fset", "fdel")


@models(property)
def _property(tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    parts = {**dict(zip(_PROPERTY_PARTS, args)), **kwargs}
    if len(args) > 3 or not set(parts) <= set(_PROPERTY_PARTS):
        unsupported(UnknownCall("property()", "it is given a text"))
    return DescriptorVariable(property, {name: part for name, part in parts.items() if not tx.is_none(part)})


@models(classmethod)
def _classmethod(tx: Any, function: VariableTracker) -> VariableTracker:
    return DescriptorVariable(classmethod, {"__func__": function})


@models(staticmethod)
def _staticmethod(tx: Any, function: VariableTracker) -> VariableTracker:
    return DescriptorVariable(staticmethod, {"__func__": function})


@models(functools.cached_property)
def _cached_property(tx: Any, function: VariableTracker) -> VariableTracker:
    return DescriptorVariable(functools.cached_property, {"func": function})


def _stand_in(tx: Any, value: VariableTracker) -> Any:
    """A real value of the right type for what a class has under a name."""
    value = value.realize()
    make = _STAND_INS.get(type(value))
    made = None if make is None else make(tx, value)
    if made is None:
        try:
            return value.as_constant()
        except NotConstant:
            made = _StandIn()
    tx.attempt.memo[id(made)] = (made, value)
    return made


def _function_stand_in(tx: Any, value: NestedFunctionVariable) -> Any:
    cells = tuple(types.CellType() for _ in value.code.co_freevars)
    made = types.FunctionType(value.code, value.scope(tx).namespace, value.code.co_name, None, cells or None)
    for name, attribute in value.attrs.items():
        if attribute.realize().is_constant():
            setattr(made, name, attribute.realize().as_constant())
    return made


def _descriptor_stand_in(tx: Any, value: DescriptorVariable) -> Any:
    parts = {name: _stand_in(tx, part) for name, part in value.parts.items()}
    return value.kind(**parts) if value.kind is property else value.kind(*parts.values())


def _object_stand_in(tx: Any, value: UserObjectVariable) -> Any:
    plain = value.payload is None and c_maker(value.cls) is None
    return object.__new__(value.cls) if plain else None


def _property_stand_in(tx: Any, value: PropertyVariable) -> Any:
    made = property.__new__(value.cls)
    if value.parts is not None:
        property.__init__(made, *(_stand_in(tx, part) for part in value.parts.values()))
    return made


_STAND_INS: dict[type, Callable[[Any, Any], Any]] = {
    NestedFunctionVariable: _function_stand_in,
    DescriptorVariable: _descriptor_stand_in,
    UserObjectVariable: _object_stand_in,
    PropertyVariable: _property_stand_in,
}
"""A kind of value -> what makes a real one; None: it makes none of this value."""


class MadeClassVariable(ClassVariable):
    """A class made inside. ``value``: its stand-in; ``namespace``: what it has under its names."""

    __slots__ = ("meta", "bases", "namespace", "facts", "shown")
    immortal = False

    @property
    def registered(self) -> bool:  # type: ignore[override]
        return any(is_heap_type(base.value) and not isinstance(base, MadeClassVariable) for base in self.bases)

    def __init__(self, value: type, meta: VariableTracker, bases: list[VariableTracker], facts: dict[str, Any]) -> None:
        super().__init__(value, None)
        self.meta = meta
        self.bases = bases
        self.facts = facts
        """What the class is made with."""
        self.namespace: dict[str, VariableTracker] = {}
        self.shown: NamespaceVariable | None = None
        """Its ``__dict__``, if that was asked for."""

    def as_constant(self) -> Any:
        raise NotConstant("a class that was made inside")

    def key(self) -> Any:
        return self

    def own(self, name: str) -> VariableTracker | None:
        return self.namespace.get(name)

    def write(self, tx: Any, name: str, value: VariableTracker) -> None:
        """``type.__setattr__``."""
        tx.effects.mutate(self)
        self.namespace[name] = value
        set_class_item(self.value, name, _stand_in(tx, value))
        if self.shown is not None:
            self.shown.of.items[name] = value

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name in self.namespace and name in ("__name__", "__qualname__", "__module__"):
            return self.namespace[name]
        return super().getattr(tx, name)

    def c_attribute(self, tx: Any, name: str) -> VariableTracker:
        if name == "__annotations__":
            return self.namespace.setdefault(name, DictVariable({}))
        if name in _SAID:
            return tx.make(tx.fold(getattr, (self.value, name)))
        if name == "__dict__":
            if self.shown is None:
                self.shown = NamespaceVariable(tx, self)
            return self.shown
        return super().c_attribute(tx, name)

    def setattr(self, tx: Any, name: str, value: VariableTracker) -> None:
        hook = class_lookup(type(self.value), "__setattr__")
        if hook is type.__setattr__ and (name == "__annotations__" or not _is_data(type(self.value), name)):
            self.write(tx, name, value)
        elif isinstance(hook, types.FunctionType):
            tx.call(self.special(tx, "__setattr__"), [ConstantVariable(name), value], {})
        else:
            super().setattr(tx, name, value)

    def delattr(self, tx: Any, name: str) -> None:
        if name not in self.namespace or class_lookup(type(self.value), "__delattr__") is not type.__delattr__:
            super().delattr(tx, name)
        tx.effects.mutate(self)
        del self.namespace[name]
        self.facts.pop(name, None)
        type.__delattr__(self.value, name)
        if self.shown is not None:
            del self.shown.of.items[name]

    def reconstruct(self, cg: Any) -> None:
        def fill(cg: Any) -> None:
            later = {name: value for name, value in self.namespace.items() if name not in self.facts}
            self._load_items(cg, {name: value for name, value in self.namespace.items() if name in self.facts})
            if isinstance(self.value, abc.ABCMeta):
                cg.call_with_top(finish_class, [])
            self._load_items(cg, later)

        cg.make_then_fill(
            self,
            lambda: cg.call(
                make_empty_class,
                [
                    lambda: cg.load(self.meta),
                    lambda: cg.load_const(self.value.__name__),
                    lambda: cg.load_tuple(self.bases),
                    lambda: cg.call(dict, [lambda: cg.load_const(tuple(self.facts.items()))]),
                ],
            ),
            fill,
        )

    def _load_items(self, cg: Any, items: dict[str, VariableTracker]) -> None:
        for name, value in items.items():
            cg.call_with_top(set_class_item, [lambda n=name: cg.load_const(n), lambda v=value: cg.load(v)])


class NamespaceVariable(MappingProxyVariable):
    """Its ``__dict__``, which sees later changes."""

    __slots__ = ("cls",)

    def __init__(self, tx: Any, cls: MadeClassVariable) -> None:
        self.cls = cls
        found = {name: cls.namespace.get(name) for name in own_namespace(cls.value)}
        super().__init__(DictVariable({name: each or self._part(tx, name) for name, each in found.items()}))

    def _part(self, tx: Any, name: str) -> VariableTracker:
        value = own_namespace(self.cls.value)[name]
        return tx.make(value) if name in _SAID else _PartVariable(value)  # type: ignore[no-any-return]

    def reconstruct(self, cg: Any) -> None:
        cg.call(own_namespace, [lambda: cg.load(self.cls)])


class _PartVariable(VariableTracker):
    """What `type.__new__` puts into a namespace: only of what type it is can be said of the real class's."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.source = None
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def reconstruct(self, cg: Any) -> None:
        raise NotConstant("what a class made inside has of its own")


# -- making one --------------------------------------------------------------------------------------------------------


def _refuse(name: str, why: str) -> NoReturn:
    unsupported(UnknownCall(f"class {name}", why))


def _real_bases(name: str, bases: list[VariableTracker]) -> tuple[type, ...]:
    for base in bases:
        if not isinstance(base, ClassVariable):
            _refuse(name, f"a base of it is {base.describe()}")
        if c_maker(base.value) is not None and not issubclass(base.value, BaseException):  # type: ignore[attr-defined]
            _refuse(name, f"{base.describe()} is written in C")
    return tuple(base.value for base in bases)  # type: ignore[attr-defined]


@models(builtins.__build_class__)
def _build_class(
    tx: Any, function: VariableTracker, name: VariableTracker, /, *bases: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    text = name.as_constant()
    real = _real_bases(text, list(bases))
    metaclass = kwargs.pop("metaclass", None)
    if metaclass is not None and not isinstance(metaclass, ClassVariable):
        _refuse(text, "its metaclass is no class")
    meta = _most_derived(tx, metaclass.value if metaclass is not None else type, real)  # type: ignore[attr-defined]
    if not isinstance(function, NestedFunctionVariable) or not _is_traceable(meta):
        _refuse(text, f"its metaclass {meta.__name__} makes it")
    maker = tx.make(meta)
    parts = [name, TupleVariable(list(bases))]
    namespace: VariableTracker = DictVariable({})
    if class_lookup(meta, "__prepare__") is not type.__dict__["__prepare__"]:
        namespace = tx.call(maker.getattr(tx, "__prepare__"), parts, kwargs).realize()
        if not isinstance(namespace, DictVariable):
            _refuse(text, "its namespace is no dict")
    cell = tx.run_class_body(function, namespace)
    made = tx.call(maker, [*parts, namespace], kwargs).realize()
    if isinstance(cell, CellVariable) and isinstance(made, MadeClassVariable) and cell.content is not made:
        _refuse(text, "its metaclass does not pass the namespace on")
    return made


def _most_derived(tx: Any, meta: type, bases: tuple[type, ...]) -> type:
    for base in bases:
        kind = type(base)
        if meta in mro(kind):
            meta = kind
        elif kind not in mro(meta):
            what = "the metaclass of a derived class must be a (non-strict) subclass of the metaclasses of all its"
            tx.raise_error(TypeError, f"metaclass conflict: {what} bases")
    return meta


def _is_traceable(meta: type) -> bool:
    """Whether all that a metaclass does is ``type``'s, ABCMeta's, or the program's own to be traced."""
    new = class_lookup(meta, "__new__")
    plain = new is type.__new__ or isinstance(new, staticmethod)
    return plain and _is_quiet(meta)


def _is_quiet(meta: type) -> bool:
    """Whether ``type.__new__`` runs no code of the metaclass."""
    library = any(base.__module__ in ("enum", "typing", "ctypes") for base in mro(meta))
    return not library and class_lookup(meta, "mro") is type.__dict__["mro"] and has_plain_equality(meta)


_SETTABLE = (*_AT_CREATION, "__annotations__")


def _is_data(meta: type, name: str) -> bool:
    """Whether a metaclass keeps this attribute of its classes elsewhere, or runs code to set it."""
    raw = class_lookup(meta, name)
    return raw is not MISSING and is_data_descriptor(raw)


def _make_stand_in(meta: type, name: str, bases: tuple[type, ...], facts: dict[str, Any]) -> Any:
    try:
        return make_empty_class(meta, name, bases, facts)
    except (TypeError, ValueError) as error:  # of the program, or of a layout that the shield does not fit
        _refuse(name, str(error))


@models(type.__new__)
def make_class(
    tx: Any,
    meta: VariableTracker,
    name: VariableTracker,
    bases: VariableTracker,
    namespace: VariableTracker,
    /,
    **kwargs: VariableTracker,
) -> VariableTracker:
    """``type.__new__(meta, name, bases, namespace, **kwargs)``."""
    text = name.as_constant()
    parts = [base.realize() for base in bases.elements(tx)]
    real = _real_bases(text, parts)
    if not isinstance(namespace, DictVariable) or not isinstance(meta, ClassVariable):
        _refuse(text, "its namespace is no dict")
    items = {key: value.realize() for key, value in namespace.items.items()}  # type: ignore[attr-defined]
    if any(not isinstance(key, str) for key in items):
        _refuse(text, "a name in it is no string")
    cell = items.pop("__classcell__", None)
    for key in items:
        if key not in _SETTABLE and _is_data(meta.value, key):  # type: ignore[attr-defined]
            _refuse(text, f"its metaclass has a descriptor for {key!r}")
    facts = {key: tx.python_value(items.pop(key)) if key in _AT_CREATION else None for key in list(items)}
    facts.setdefault("__module__", tx.python_value(tx.scope.load("__name__") or ConstantVariable(None)))
    kind = _most_derived(tx, meta.value, real)  # type: ignore[attr-defined]
    if not _is_quiet(kind):
        _refuse(text, f"its metaclass {kind.__name__} says what its MRO is")
    stand_in = _make_stand_in(kind, text, real, facts)
    made = MadeClassVariable(stand_in, tx.make(kind), parts, facts)
    tx.attempt.add_class(made)
    if "__eq__" in items and "__hash__" not in items:
        items["__hash__"] = ConstantVariable(None)
    for key, value in items.items():
        if key in _IMPLICIT and isinstance(value, NestedFunctionVariable):
            value = DescriptorVariable(_IMPLICIT[key], {"__func__": value})
        made.write(tx, key, value)
    if isinstance(cell, CellVariable):
        cell.set(tx, made)
    for key, value in items.items():
        if isinstance(value, UserObjectVariable):
            hook = value.special(tx, "__set_name__")
            if hook is not None:
                error = f"Error calling __set_name__ on {value.cls.__name__!r} instance {key!r} in {text!r}"
                tx.call(tx.make(set_name), [hook, made, *map(ConstantVariable, (key, error))], {})
    _init_subclass(tx, made, kwargs)
    return made


_IMPLICIT: dict[str, Callable[..., Any]] = {
    "__new__": staticmethod,
    "__init_subclass__": classmethod,
    "__class_getitem__": classmethod,
}
"""Functions that ``type.__new__`` wraps."""


def _init_subclass(tx: Any, made: MadeClassVariable, kwargs: Kwargs) -> None:
    hook = SuperVariable(made.value, made).getattr(tx, "__init_subclass__")
    tx.call(hook, [], kwargs)


@models_class_method(object, "__init_subclass__")
def _object_init_subclass(tx: Any, cls: ClassVariable, /, **kwargs: VariableTracker) -> VariableTracker:
    if kwargs:
        tx.raise_error(TypeError, f"{cls.value.__name__}.__init_subclass__() takes no keyword arguments")
    return ConstantVariable(None)


@models_class_method(type, "__init__")
def _type_init(tx: Any, cls: ClassVariable, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if not isinstance(cls, MadeClassVariable):
        unsupported(UnknownCall("type.__init__()", "it makes a class"))
    return ConstantVariable(None)


@models_class_method(type, "__setattr__")
def _type_setattr(tx: Any, cls: ClassVariable, name: VariableTracker, value: VariableTracker) -> VariableTracker:
    if not isinstance(cls, MadeClassVariable) or _is_data(type(cls.value), name.as_constant()):
        unsupported(UnknownCall("type.__setattr__()", "it changes a class"))
    cls.write(tx, name.as_constant(), value)
    return ConstantVariable(None)


@models(_abc._abc_init)
def _abc_init(tx: Any, cls: VariableTracker) -> VariableTracker:
    if not isinstance(cls, MadeClassVariable):
        unsupported(UnknownCall("_abc_init()", "it changes a class"))
    tx.fold(_abc._abc_init, (cls.value,))
    return ConstantVariable(None)
