"""Whether the program could see when a value dies."""

from __future__ import annotations

import functools
import gc
import itertools
import types
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch

from .. import _C
from .base import own_namespace
from .function import trusted_module
from .lookup import class_lookup, finalizes, is_heap_type
from .user_object import instance_dict

_MOST = 200
"""Values that are looked at."""
_CALLBACK = weakref.ReferenceType.__dict__["__callback__"].__get__
_TRACEBACK, _CAUSE, _CONTEXT, _FIELDS, _ARGS = (
    BaseException.__dict__[name].__get__ for name in ("__traceback__", "__cause__", "__context__", "__dict__", "args")
)
_OF_PROGRESS = (types.TracebackType, types.FrameType)
_SEQUENCES = (list, tuple, set, frozenset, deque)


def is_seen_to_die(value: Any) -> bool:
    """By a finalizer or the callback of a weak reference, its own or that of something which it may alone hold."""
    waiting, seen = [value], set()
    while waiting and len(seen) < _MOST:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if _is_finalized(each) or _is_watched(each):
            return True
        waiting += itertools.islice(_held_by(each), _MOST)
    return False


def _is_finalized(value: Any) -> bool:
    """A generator that waits nowhere has nothing to leave."""
    return finalizes(type(value)) and (type(value) is not types.GeneratorType or value.gi_suspended)


def _held_by(value: Any) -> Iterable[Any]:
    kind = type(value)
    for base in _SEQUENCES:
        if issubclass(kind, base):
            return base.__iter__(value)  # type: ignore[no-any-return, attr-defined]
    if issubclass(kind, dict):
        return itertools.chain(dict.keys(value), dict.values(value))
    if issubclass(kind, _OF_PROGRESS):
        return gc.get_referents(value)  # looking at a frame's variables as a dict would keep them
    if issubclass(kind, BaseException):
        return (_TRACEBACK(value), _CAUSE(value), _CONTEXT(value), *_FIELDS(value).values(), *_ARGS(value))
    if kind is types.FunctionType:
        return (value.__defaults__, value.__kwdefaults__, value.__closure__)
    if any(kind is each for each in (types.MethodType, types.CellType, functools.partial)):
        return gc.get_referents(value)
    if not is_heap_type(kind) or issubclass(kind, (type, torch.Tensor, torch.nn.Module)):
        return ()
    if type(class_lookup(kind, "__dict__")) is not types.GetSetDescriptorType:
        return ()  # what the class makes up
    return (instance_dict(value) or {}).values()


def _is_watched(value: Any) -> bool:
    """Classes, of which the interpreter has weak references, modules and functions in C are watched by libraries."""
    kind = type(value)
    unheard = issubclass(kind, (type, types.ModuleType, types.BuiltinFunctionType))
    if unheard or not kind.__weakrefoffset__ or not weakref.getweakrefcount(value):
        return False
    found = (each for each in weakref.getweakrefs(value) if issubclass(type(each), weakref.ReferenceType))
    return any(map(_is_heard, map(_CALLBACK, found)))


def _is_heard(callback: Any) -> bool:
    """Whether it may be the program's. Weak containers tidy up by functions of their modules, guards by objects."""
    if callback is None or own_namespace(type(callback)).get("__module__") == _C.__name__:
        return False
    return type(callback) is not types.FunctionType or not trusted_module(callback.__module__)
