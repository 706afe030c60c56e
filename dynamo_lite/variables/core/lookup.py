"""Looking into classes without calling a descriptor."""

from __future__ import annotations

import types
from typing import Any

_OF_C_TYPES = frozenset(
    map(
        id,  # a metaclass may compare classes
        (
            *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
            *(types.GetSetDescriptorType, types.MemberDescriptorType),
        ),
    )
)
_MRO = type.__dict__["__mro__"].__get__
_NAMESPACE = type.__dict__["__dict__"].__get__
MISSING = object()
_DISALLOW_INSTANTIATION, _IMMUTABLE_TYPE, _HEAP_TYPE, _BASE_TYPE = 1 << 7, 1 << 8, 1 << 9, 1 << 10


def is_heap_type(cls: type) -> bool:
    """Made by a class statement (and so mutable), not a static C type."""
    return bool(cls.__flags__ & _HEAP_TYPE)


def is_immutable(cls: type) -> bool:
    """No attribute of it can be set."""
    return bool(cls.__flags__ & _IMMUTABLE_TYPE)


def is_instantiable(cls: type) -> bool:
    """Calling it may make an instance."""
    return not cls.__flags__ & _DISALLOW_INSTANTIATION


def is_final(cls: type) -> bool:
    """In C, and no class may derive from it."""
    return not cls.__flags__ & _BASE_TYPE


def class_lookup(cls: type, name: str) -> Any:
    """The raw attribute along the MRO, no descriptor called; `MISSING` if there is none."""
    for base in _MRO(cls) or (cls,):  # `mro` and `own_namespace`, without the calls: nothing is asked more often
        found = _NAMESPACE(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def is_user_defined(raw: Any) -> bool:
    """Whether a class was given this as a special method: a function as a rule, but it may be any object. What types in
    C have is none."""
    return raw is not MISSING and raw is not None and id(type(raw)) not in _OF_C_TYPES


def c_lookup(cls: type, name: str) -> Any:
    """The same, of the classes in C alone: what is behind all that the program derived."""
    for base in _MRO(cls) or (cls,):
        if not is_heap_type(base) and name in _NAMESPACE(base):
            return _NAMESPACE(base)[name]
    return MISSING


def type_name(cls: type) -> str:
    """The name by which errors of attribute access call a class: with its module for one in C."""
    in_c = cls.__flags__ & _IMMUTABLE_TYPE or not is_heap_type(cls)
    return f"{cls.__module__}.{cls.__qualname__}" if in_c and cls.__module__ != "builtins" else cls.__name__


def has_finalizer(cls: type) -> bool:
    """Whether the program could see when an instance dies."""
    return class_lookup(cls, "__del__") is not MISSING
