"""Pre-existing classes and modules."""

from __future__ import annotations

import enum
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import LazyImport, UnsupportedAttribute, UnsupportedOperation, UnsupportedValue
from dynamo_lite.records import code_origin
from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import (
    MISSING,
    bind,
    class_lookup,
    guard_behind_instance,
    guard_class_lacks,
    overrides_instance,
    written_attribute,
)
from dynamo_lite.variables.core.base import (
    TEXTS,
    Args,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.class_lookup import (
    class_compares_by_identity,
    is_immutable,
    is_user_defined,
    namespace_dict,
    type_name,
)
from dynamo_lite.variables.core.constant import ConstantVariable, unless_refused
from dynamo_lite.variables.core.formatting import call_class_text_method, call_text_method
from dynamo_lite.variables.core.inert import defines_special_methods, is_inert
from dynamo_lite.variables.core.invariant_reads import check_global, is_read_later, refuse_read
from dynamo_lite.variables.core.operator_symbols import method_of
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_if
from dynamo_lite.variables.python.containers.instance_dict import globals_of
from dynamo_lite.variables.python.functions.function import is_trusted_module, read_annotations

LAZY_MODULES: set[str] | None = getattr(sys, "lazy_modules", None)
"""What CPython 3.15 imports when it is first read as an attribute of its package."""


class ModuleVariable(InvariantVariable):
    """An imported module."""

    __slots__ = ()
    is_guarded_by_identity = True
    is_loaded_as_constant = True

    def describe(self) -> str:
        return f"module {self.name}"

    @property
    def name(self) -> str | None:
        return self.value.__dict__.get("__name__")

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        raw = class_lookup(type(self.value), name)
        tx.guards.const(self.value).check("type", type(self.value))
        if raw is not MISSING and overrides_instance(raw):
            return bind(tx, raw, name, self, type(self.value))
        scope = tx.attempt.values.scope(self.value.__dict__)
        variable = scope.load(name)
        if variable is not None:
            guard_behind_instance(tx.guards, type(self.value), name, raw)
            if tx.graph.scope.is_nested:
                check_global(tx, scope, name, variable)
            return variable
        if raw is not MISSING:
            return bind(tx, raw, name, self, type(self.value))
        if LAZY_MODULES is not None:
            self._check_no_lazy_import(tx, LAZY_MODULES, name, scope.source)
        hook = scope.load("__getattr__")
        class_hook = class_lookup(type(self.value), "__getattr__")
        if hook is None and is_user_defined(class_hook):
            hook = bind(tx, class_hook, "__getattr__", self, type(self.value))
        if hook is not None:
            return tx.call(hook, [ConstantVariable(name)], {})
        tx.raise_error(AttributeError, f"module {self.name!r} has no attribute {name!r}")

    def _check_no_lazy_import(self, tx: Translator, pending: set[str], name: str, namespace: Source) -> None:
        """Break where CPython imports a submodule, since an attribute is read that the module lacks."""
        submodule = f"{self.name}.{name}"
        if submodule in pending:
            tx.guards.missing_key_dicts[namespace] = None
            unsupported(LazyImport(submodule))
        tx.guards.const(pending).check("set_lacks", submodule)

    def slot_get(self, tx: Translator, name: str, raw: object) -> VariableTracker | None:
        if name != "__dict__":
            return super().slot_get(tx, name, raw)
        if is_read_later(tx):
            refuse_read(f"the __dict__ of {self.describe()}")
        return globals_of(tx, tx.attempt.values.scope(self.value.__dict__))

    def method___getattribute__(self, tx: Translator, name: VariableTracker) -> VariableTracker:
        return self.getattr(tx, tx.python_value(name))

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if type(self.value) is not types.ModuleType:
            return super().setattr(tx, name, value)
        tx.attempt.values.scope(self.value.__dict__).store(name, value)


_OF_BEHAVIOUR = ("__get__", "__set__", "__delete__", "__call__")
"""Special methods of descriptors and callables. A class attribute that has none of them is plain data."""
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


class ClassVariable(InvariantVariable):
    """A pre-existing class. ``attrs``: its attributes that were assigned during tracing."""

    __slots__ = ("attrs",)
    is_guarded_by_identity = True
    is_loaded_as_constant = True

    def __init__(self, value: type, source: Source | None = None) -> None:
        super().__init__(value, source)
        self.attrs: dict[str, VariableTracker] = {}

    def as_fx(self) -> tuple[Any, Any]:
        """Operators take ``float`` and its like as a dtype. A graph's code has no names for other classes."""
        dtype = _DTYPES.get(self.value) if class_compares_by_identity(self.value) else None
        if dtype is None:
            unsupported(UnsupportedValue(self.describe(), "an operator can't take it as an argument"))
        return dtype, dtype

    def key(self) -> Any:
        if not class_compares_by_identity(self.value):
            raise NotConstant("its metaclass overrides hashing or equality")
        return super().key()

    def cache_key(self, tx: Translator) -> Any:
        return self.value if class_compares_by_identity(self.value) else super().cache_key(tx)

    def sample_value(self) -> Any:
        """Error messages contain the name of the class."""
        if type(self.value) is not type:
            raise NotConstant("its metaclass may have the operator")
        return type(self.value.__name__, (), {})

    def converted(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker:
        if type(self.value) is not type:
            unsupported(UnsupportedOperation(f"{function.__name__}()", f"{self.describe()}, which has a metaclass,"))
        return super().converted(tx, function)

    def find_special(self, tx: Translator, name: str) -> VariableTracker | None:
        """A special method of the metaclass that ``type`` doesn't have, bound to the class."""
        meta = type(self.value)
        raw = tx.lookup(meta, name)
        if raw is MISSING or raw is class_lookup(type, name):
            return None
        return bind(tx, raw, name, self, meta)

    def truth(self, tx: Translator) -> bool:
        result = self.call_special(tx, "__bool__")
        return super().truth(tx) if result is None else tx.truth(result)

    def length(self, tx: Translator) -> int:
        result = self.call_special(tx, "__len__")
        return int(tx.index_value(result) if result is not None else super().length(tx))

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        result = self.call_special(tx, "__contains__", item)
        return tx.contains_by_iteration(self, item) if result is None else tx.truth(result)

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        result = unless_refused(self.call_special(tx, method_of(symbol, "r" if reflected else ""), other))
        if result is None and symbol == "|" and isinstance(other, (ClassVariable, ConstantVariable)):
            operands = (other.value, self.value) if reflected else (self.value, other.value)
            return tx.make(self._evaluate_type(tx, operator.or_, *operands))
        return result

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return unless_refused(self.call_special(tx, method_of(symbol, "i"), other))

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        method = self.find_special(tx, "__getitem__")
        if method is not None and not issubclass(self.value, enum.Enum):
            return tx.call(method, [key], {})
        hook = tx.lookup(self.value, "__class_getitem__")
        if isinstance(hook, (classmethod, types.FunctionType)) and not _makes_generic_alias(hook):
            return tx.call(self.getattr(tx, "__class_getitem__"), [key], {})
        if key.is_constant() or method is None:
            return tx.make(self._evaluate_type(tx, operator.getitem, self.value, tx.python_value(key)))
        unsupported(UnsupportedOperation("indexing" if method is not None else "subscripting", self.describe()))

    def _evaluate_type(self, tx: Translator, function: Callable[..., Any], one: object, other: object) -> Any:
        """A union or generic alias: classes in it are compared, and used as keys of caches."""
        return (tx.evaluate if _is_compared_in_c((one, other)) else tx.fold)(function, (one, other))

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        result = unless_refused(self.call_special(tx, method_of(symbol), other))
        if result is None and symbol == "!=":
            equal = unless_refused(self.call_special(tx, "__eq__", other))
            return None if equal is None else ConstantVariable(not tx.truth(equal))
        return result

    def is_plain(self, tx: Translator) -> bool:
        return is_inert(self.value)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return call_class_text_method(tx, self, name) or tx.make(tx.evaluate(TEXTS[name], (self.value,)))

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        method = self.find_special(tx, "__format__")
        return self.plain_format(tx, spec) if method is None else call_text_method(tx, method, "__format__", spec)

    def describe(self) -> str:
        return f"class {self.value.__qualname__}"

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.construct(self, args, kwargs)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        meta = type(self.value)
        hook = type.__getattribute__
        if meta is not type:
            tx.guards.const(self.value).check("type", meta)
            hook = tx.lookup(meta, "__getattribute__")
        if is_user_defined(hook):
            return tx.generic_getattr(self, name, getter=bind(tx, hook, "__getattribute__", self, meta))
        return self.plain_getattr(tx, name)

    def plain_getattr(self, tx: Translator, name: str) -> VariableTracker:
        """``type.__getattribute__``, then ``__getattr__`` of the metaclass."""
        cls = self.value
        meta = type(cls)
        if name == "__class__":
            return tx.make(meta)
        meta_raw = class_lookup(meta, name)
        if meta_raw is not MISSING and overrides_instance(meta_raw):
            return bind(tx, meta_raw, name, self, meta)
        raw, written = class_lookup(cls, name), written_attribute(tx, cls, name)
        if written is not None:
            return written
        if raw is not MISSING:
            guard_behind_instance(tx.guards, meta, name, meta_raw)
            return bind(tx, raw, name, None, cls)
        guard_class_lacks(tx.guards, cls, name)
        if tx.lookup(meta, name) is not MISSING:
            return bind(tx, meta_raw, name, self, meta)
        hook = tx.lookup(meta, "__getattr__")
        if hook is not MISSING:
            return tx.call(bind(tx, hook, "__getattr__", self, meta), [ConstantVariable(name)], {})
        tx.raise_error(AttributeError, f"type object {type_name(cls)!r} has no attribute {name!r}")

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        if is_immutable(self.value):
            return tx.make(tx.evaluate(type.__getattribute__, (self.value, name)))
        if name == "__dict__":
            if self.attrs:
                unsupported(UnsupportedAttribute(self.describe(), name, "attributes are assigned in the same graph"))
        is_computed = name == "__annotations__"
        value = read_annotations(self) if is_computed else tx.evaluate(type.__getattribute__, (self.value, name))
        if name == "__flags__":
            unsupported(UnsupportedAttribute(self.describe(), name, "the interpreter's caches change it"))
        return LazyVariable(tx.attempt, value, tx.guards.const(self.value).child("c_attr", name)).realize()

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.attrs.get(name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """``type.__setattr__`` of plain data in the place of plain data, or of none. All else may change what
        operations on the class and its instances do."""
        value, cls = value.realize(), self.value
        if not self._may_assign(tx, name):
            return super().setattr(tx, name, value)
        raw, kind = class_lookup(cls, name), value.python_type()
        kinds = [kind] if raw is MISSING or name in self.attrs else [kind, type(raw)]
        if any(class_lookup(each, method) is not MISSING for each in kinds for method in _OF_BEHAVIOUR):
            return super().setattr(tx, name, value)
        for method in _OF_BEHAVIOUR:
            guard_class_lacks(tx.guards, kind, method)
        tx.effects.mutate(self)
        self.attrs[name] = value
        tx.attempt.values.written_classes[identity(cls)] = self

    def _may_assign(self, tx: Translator, name: str) -> bool:
        """Whether ``type.__setattr__`` assigns the attribute, of a class that the next call most likely has too: an
        argument, as of a decorator or ``__init_subclass__``, is another class in each call."""
        cls, meta = self.value, type(self.value)
        if name.startswith("__") or is_immutable(cls) or tx.lookup(meta, name) is not MISSING:
            return False
        if self.source is not None and self.source.way()[0].kind == "local":
            return False
        is_read = identity(namespace_dict(cls)) in tx.attempt.values.memo  # by a ``__dict__`` that would show the write
        return not is_read and tx.lookup(meta, "__setattr__") is type.__setattr__

    def replay(self, plan: Planner) -> None:
        for name, value in self.attrs.items():
            plan.do(type.__setattr__, plan.constant(self.value), plan.constant(name), value)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        return self.c_attribute(tx, name)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.class_method(self, name, args, kwargs)

    def iterate(self, tx: Translator) -> VariableTracker:
        iterator = self.call_special(tx, "__iter__")
        if iterator is not None:
            return tx.checked_iterator(self, iterator)
        tx.check_iterable(self, f"'{type(self.value).__name__}' object is not iterable")
        return super().iterate(tx)


def _is_compared_in_c(part: object) -> bool:
    """Whether hashing and comparing a part of a type runs no user code."""
    if type(part) in (tuple, list):
        return all(map(_is_compared_in_c, part))  # type: ignore[call-overload]
    return class_compares_by_identity(part) if isinstance(part, type) else not defines_special_methods(type(part))


def _makes_generic_alias(method: object) -> bool:
    """Whether it is a ``__class_getitem__`` of a library, as ``typing.Generic`` has, and not of the user."""
    function = getattr(method, "__func__", method)
    if not isinstance(function, types.FunctionType):
        return isinstance(function, type) and is_trusted_module(function.__module__)
    return code_origin.is_library(function.__code__)


def _is_module(value: object) -> bool:
    """Whether it is a module whose class doesn't override ``__getattribute__``."""
    default = types.ModuleType.__getattribute__
    return issubclass(type(value), types.ModuleType) and class_lookup(type(value), "__getattribute__") is default


wraps_if(_is_module, order=20)(ModuleVariable.by_identity)


wraps_if(lambda value: issubclass(type(value), type), order=5)(ClassVariable.by_identity)


def module_of(namespace: dict[str, Any]) -> types.ModuleType | None:
    """The module that has these globals."""
    module = sys.modules.get(namespace.get("__name__", ""))
    return module if module is not None and getattr(module, "__dict__", None) is namespace else None
