"""Inert values: functions in C can be called on them while tracing, since no such call reaches user code.

What a function in C calls in turn (methods of its arguments, callables that it is given or that they hold, codecs)
would run once, while tracing, and not when the graph runs. So the types are a closed set, compared exactly: a class
that derives from one of them may override its methods.
"""

from __future__ import annotations

import codecs
import encodings.aliases
import enum
import functools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynamo_lite.records.code_origin import is_library

from .class_lookup import MISSING, class_lookup, is_immutable, is_user_defined, mro, own_namespace, type_name

_TYPES: dict[int, type] = {}
"""Types whose values are inert whatever they hold, by id: a metaclass may define hashing of its classes."""
INERT_TYPE_IDS = _TYPES.keys()


def register_inert_types(*kinds: type) -> None:
    """Declare that no function in C which is given a value of one of these exact types reaches user code by it."""
    _TYPES.update((id(each), each) for each in kinds)


register_inert_types(
    *(int, float, complex, bool, str, bytes, range, type(None), type(Ellipsis), type(NotImplemented)),
    types.CodeType,
    type(getattr(functools, "Placeholder", None)),  # of partials, from CPython 3.14 on
    *(torch.dtype, torch.layout, torch.memory_format, torch.device, torch.finfo, torch.iinfo, torch.Size),
)

_SEQUENCES = frozenset(map(id, (tuple, list, set, frozenset, deque)))
_MAPPINGS = frozenset(map(id, (dict, OrderedDict)))
_CLASSES = frozenset(map(id, (tuple, list, dict, set, frozenset, slice, object)))
"""Classes in C whose instances, made of inert values, are inert."""


def why_not_folded(function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]) -> str | None:
    """How the call of a function in C may reach user code; None if it can't."""
    reads_attributes = id(function) in _ATTRIBUTE_READERS
    for value in (*args, *kwargs.values()):
        if not is_inert(value, not reads_attributes):
            return f"user code may run by its argument of type {type_name(type(value))}"
    return "its codec or error handler may be the program's" if _uses_unknown_codec(function, args, kwargs) else None


def is_inert(value: object, with_classes: bool = True) -> bool:
    """Whether no function in C that is given the value, and may call it or methods of it, reaches user code.

    ``with_classes``: whether members of enums and named tuples may be, whose classes may have properties.
    """
    kind = type(value)
    key = id(kind)
    if key in INERT_TYPE_IDS:
        return True
    if key in _SEQUENCES:
        return all(is_inert(each, with_classes) for each in value)  # type: ignore[attr-defined]
    if key in _MAPPINGS or kind is defaultdict and value.default_factory is None:  # type: ignore[attr-defined]
        items = (each for item in value.items() for each in item)  # type: ignore[attr-defined]
        return all(is_inert(each, with_classes) for each in items)
    if kind is types.UnionType:
        return all(is_inert(each, with_classes) for each in value.__args__)  # type: ignore[attr-defined]
    if kind is slice:
        return is_inert((value.start, value.stop, value.step))  # type: ignore[attr-defined]
    if kind is type:
        return id(value) in _CLASSES or id(value) in INERT_TYPE_IDS
    if with_classes and issubclass(kind, enum.Enum):
        return not defines_special_methods(kind) and is_inert(own_enum_value(value))
    if with_classes and issubclass(kind, tuple):  # named tuples
        return not defines_special_methods(kind) and all(map(is_inert, tuple.__iter__(value)))  # type: ignore[arg-type]
    return False


def own_enum_value(member: object) -> object:
    """The value of an enum member, whatever its class has under that name."""
    return object.__getattribute__(member, "__dict__").get("_value_", MISSING)


_NOT_OF_INSTANCES = frozenset(
    {"__new__", "__init__", "__init_subclass__", "__class_getitem__", "__annotations__", "__annotate__"}
    | {"__annotate_func__", "__annotations_cache__", "__orig_bases__", "__parameters__", "__signature__"}
)
"""Names of a class's namespace that operations on existing instances don't read."""


def defines_special_methods(cls: type) -> bool:
    """Whether user code defines special methods of a class's instances (the standard library's and torch's count as
    known)."""
    return any(
        name[:2] == "__" and name not in _NOT_OF_INSTANCES and is_user_defined(raw) and not _is_known(raw)
        for base in mro(cls)
        if not is_immutable(base)
        for name, raw in own_namespace(base).items()
    )


def _is_known(raw: object) -> bool:
    return is_library(raw.__code__) if type(raw) is types.FunctionType else is_inert(raw)


_ATTRIBUTE_READERS = frozenset(map(id, (getattr, hasattr, str.format, str.format_map)))

_TEXTS_IN_C = frozenset(
    id(getattr(types, f"{name}Type"))
    for name in (
        *("Function", "BuiltinFunction", "MethodDescriptor", "WrapperDescriptor", "MethodWrapper"),
        *("ClassMethodDescriptor", "GetSetDescriptor", "MemberDescriptor", "Module"),
    )
)


def has_known_text(value: object) -> bool:
    """Whether ``str`` and ``repr`` of an object that isn't inert run no user code either."""
    kind = type(value)
    if kind is defaultdict:
        return is_inert(value.default_factory) and is_inert(dict(value))  # type: ignore[attr-defined, call-overload]
    raw = class_lookup(kind, "__repr__")
    return id(kind) in _TEXTS_IN_C or type(raw) is types.FunctionType and is_library(raw.__code__)


# -- codecs ------------------------------------------------------------------------------------------------------------

CODERS = {id(function): at for function, at in ((str, 1), (bytes, 1), (str.encode, 1), (bytes.decode, 1))}
"""Functions that look for a codec and an error handler in registries: the position of the codec's name, by id."""
_ENCODINGS = frozenset({*encodings.aliases.aliases, *encodings.aliases.aliases.values()}) | {
    *("unicode_escape", "raw_unicode_escape", "utf_8_sig", "idna", "punycode", "undefined")
}
"""Codecs of the standard library. It is searched before what programs register."""
_HANDLERS = {
    name: codecs.lookup_error(name)
    for name in (
        *("strict", "ignore", "replace", "xmlcharrefreplace", "backslashreplace", "namereplace"),
        *("surrogateescape", "surrogatepass"),
    )
}


def _uses_unknown_codec(function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether a call, with inert arguments, may run a codec or an error handler that the program registered."""
    at = CODERS.get(id(function))
    if at is None:
        return False
    encoding = args[at] if len(args) > at else kwargs.get("encoding", "utf-8")
    errors = args[at + 1] if len(args) > at + 1 else kwargs.get("errors", "strict")
    return not (_is_known_encoding(encoding) and _is_known_handler(errors))


def _is_known_encoding(encoding: object) -> bool:
    """Whether it names a codec of the standard library, or isn't a name, which raises."""
    return type(encoding) is not str or encodings.normalize_encoding(encoding).lower() in _ENCODINGS


def _is_known_handler(errors: object) -> bool:
    """Whether it names an error handler that no program has replaced, or isn't a name, which raises."""
    return type(errors) is not str or errors in _HANDLERS and codecs.lookup_error(errors) is _HANDLERS[errors]
