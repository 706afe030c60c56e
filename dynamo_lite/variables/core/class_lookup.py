"""Reads attributes and flags of classes without calling descriptors or code of a metaclass."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Mapping
from typing import Any

from dynamo_lite.sources.identity import identity

_DESCRIPTORS_IN_C = frozenset(
    identity(getattr(types, f"{kind}DescriptorType"))  # a metaclass may define equality of its classes
    for kind in ("Wrapper", "Method", "ClassMethod", "GetSet", "Member")
)
_MRO = type.__dict__["__mro__"].__get__
_NAMESPACE = type.__dict__["__dict__"].__get__
_FLAGS = type.__dict__["__flags__"].__get__
MISSING = object()
_DISALLOW_INSTANTIATION, _IMMUTABLE_TYPE, _BASE_TYPE = 1 << 7, 1 << 8, 1 << 10


def mro(cls: type) -> tuple[type, ...]:
    """The MRO, whatever the metaclass returns for ``__mro__``; of a class under construction, the class alone."""
    return _MRO(cls) or (cls,)


def own_namespace(cls: type) -> Mapping[str, Any]:
    """A class's ``__dict__``, whatever the metaclass returns for it."""
    return _NAMESPACE(cls)


def namespace_dict(cls: type) -> object:
    """The dict behind a class's ``__dict__``, which is a proxy."""
    (found,) = gc.get_referents(own_namespace(cls))
    return found


def is_immutable(cls: type) -> bool:
    """Whether no attribute of the class can be set: it is in C. Classes that class statements create are mutable."""
    return bool(_FLAGS(cls) & _IMMUTABLE_TYPE)


def is_instantiable(cls: type) -> bool:
    """Whether a call of the class may create an instance."""
    return not _FLAGS(cls) & _DISALLOW_INSTANTIATION


def is_final(cls: type) -> bool:
    """Whether no class can derive from this one, which is in C."""
    return not _FLAGS(cls) & _BASE_TYPE


def class_lookup(cls: type, name: str) -> Any:
    """The raw attribute along the MRO; `MISSING` if there is none."""
    for base in _MRO(cls) or (cls,):  # `mro` and `own_namespace` inlined: no function is called more often
        found = _NAMESPACE(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def owner_of(cls: type, name: str) -> type:
    """The first class in the MRO that defines the attribute; ``cls`` if none does."""
    return next((base for base in mro(cls) if name in own_namespace(base)), cls)


def is_user_defined(raw: object) -> bool:
    """Whether a raw special method (a function or any other object) was set in Python, and isn't a type's own in C."""
    return raw is not MISSING and raw is not None and identity(type(raw)) not in _DESCRIPTORS_IN_C


def c_lookup(cls: type, name: str) -> Any:
    """`class_lookup` in the types in C of the MRO alone: the attribute that user code's classes inherit from C."""
    for base in mro(cls):
        if is_immutable(base) and name in own_namespace(base):
            return own_namespace(base)[name]
    return MISSING


def type_name(cls: type) -> str:
    """The name that CPython's attribute errors have for a class: types in C are qualified by their module."""
    return (
        f"{cls.__module__}.{cls.__qualname__}" if is_immutable(cls) and cls.__module__ != "builtins" else cls.__name__
    )


def full_type_name(cls: type) -> str:
    """The name that CPython's newer errors have for a class: qualified by its module if it is imported."""
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


def wrong_result_text(owner: type, method: str, wanted: str, result: type, before: str) -> str:
    """CPython's text where a special method returned something else than ``wanted``. ``before``: that up to 3.14."""
    if sys.version_info < (3, 15):
        return before
    return f"{_full_name(owner)}.{method}() must return {wanted}, not {_full_name(result)}"


def _full_name(cls: type) -> str:
    """With the module, except of builtins and the program."""
    module = cls.__module__
    return cls.__qualname__ if module in ("builtins", "__main__") else f"{module}.{cls.__qualname__}"


def has_finalizer(cls: type) -> bool:
    """Whether the class has a ``__del__``, so that user code observes the deallocation of an instance."""
    return class_lookup(cls, "__del__") is not MISSING


def class_compares_by_identity(cls: type) -> bool:
    """Whether comparing and hashing this class runs no code of its metaclass."""
    meta = type(cls)
    return meta is type or not any(_EQUALITY.intersection(own_namespace(each)) for each in mro(meta)[:-1])


_EQUALITY = frozenset({"__eq__", "__ne__", "__hash__"})
