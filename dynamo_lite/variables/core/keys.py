"""Keys of dicts and items of sets: hashables that represent traced values and hash and compare as they do."""

from __future__ import annotations

import enum
import sys
import types
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import FailsInPython, UnsupportedKey
from dynamo_lite.records.code_origin import is_library

from .base import Attempt, NotConstant, ObservedException, Translator, VariableTracker, unsupported
from .class_lookup import class_compares_by_identity, class_lookup, full_type_name, is_user_defined, type_name
from .constant import ConstantVariable
from .interfaces import Effects
from .reachable import reachable

PLAIN_KEYS = (str, int, bool, float, type(None), bytes)
"""Types whose constants represent themselves."""
AS_DICT_KEY, AS_SET_ITEM = "a dict key", "a set element"
"""What a value is to be, in CPython's texts from 3.14 on."""
_STABLE_HASH = (*PLAIN_KEYS, complex, range, type, enum.Enum, torch.dtype, torch.device, torch.layout)


class ObjectKey:
    """Represents an object whose ``__hash__`` and ``__eq__`` are written in Python. They are traced when a real dict
    compares keys."""

    __slots__ = ("attempt", "variable", "hash", "hashed_at")

    def __init__(self, attempt: Attempt, variable: VariableTracker, hash_: int) -> None:
        self.attempt = attempt
        self.variable = variable
        self.hash = hash_
        self.hashed_at = attempt.effects.count

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        kind = type(other)  # not `isinstance`, see `has_stable_hash`
        if issubclass(kind, ObjectKey):
            theirs: VariableTracker = other.variable  # type: ignore[attr-defined]
        elif issubclass(kind, VariableTracker):
            theirs = other  # type: ignore[assignment]
        elif type(other) in PLAIN_KEYS:
            theirs = ConstantVariable(other)
        else:
            unsupported(UnsupportedKey(self.variable.describe(), "its __eq__ compares it with a key of another kind"))
        tx = _running(self.attempt, self.variable)
        before = tx.effects.count
        same = tx.same_or_equal(self.variable, theirs)
        _check_no_effects(tx.effects, before, self.variable)
        return same


def _running(attempt: Attempt, variable: VariableTracker) -> Translator:
    """The translator that traces the methods of a key."""
    if attempt.innermost is None:
        unsupported(UnsupportedKey(variable.describe(), "its __hash__ and __eq__ run where nothing is traced"))
    return attempt.innermost


def _check_no_effects(effects: Effects[VariableTracker], before: int, variable: VariableTracker) -> None:
    """Generated code hashes and compares again when it creates the container, so neither may have side effects."""
    if effects.count != before:
        unsupported(UnsupportedKey(variable.describe(), "its __hash__ or __eq__ has side effects"))


def key_of(tx: Translator, variable: VariableTracker, role: str = "", outer: VariableTracker | None = None) -> Any:
    """A hashable that represents the value as a key. Raises CPython's TypeError in the traced program for an unhashable
    value; breaks the graph if the hash or the equality isn't known.

    ``role``: what the value is to be, for the error's text; ``outer``: the tuple that it is an item of."""
    variable = variable.realize()
    if type(variable) is ConstantVariable:
        value = variable.value
        if value != value:
            unsupported(UnsupportedKey(variable.describe(), "NaN compares by identity"))
        if type(value) not in PLAIN_KEYS:
            _check_hashable(tx, variable, role, outer)
        elif type(value) is int:
            tx.attempt.values.addresses.note(value)
        return value
    number = variable.number_as_key(tx)
    if number is not None:
        return key_of(tx, number, role, outer)
    try:
        key = variable.key()
        hash(key)
    except (NotConstant, TypeError):
        return _key_by_methods(tx, variable, role, outer)
    variable.guard_key(tx)
    tx.attempt.values.addresses.note(key)
    return key


def _slot_hash(value: int) -> int:
    """The result of ``hash()`` for the number that a ``__hash__`` returned."""
    if -(2**63) <= value < 2**63:
        return -2 if value == -1 else int(value)
    return hash(value)


def _check_hashable(tx: Translator, variable: VariableTracker, role: str, outer: VariableTracker | None) -> None:
    kind = variable.python_type()
    if tx.lookup(kind, "__hash__") is None:
        text = f"unhashable type: '{type_name(kind)}'"
        if role and sys.version_info >= (3, 14):
            given = (variable if outer is None else outer).python_type()
            text = f"cannot use '{full_type_name(given)}' as {role} ({text})"
        tx.raise_error(TypeError, text)


def _key_by_methods(tx: Translator, variable: VariableTracker, role: str, outer: VariableTracker | None) -> Any:
    items = variable.structure_items() if variable.python_type() is tuple else None
    if items is not None:
        return tuple([key_of(tx, item, role, variable if outer is None else outer) for item in items])
    _check_hashable(tx, variable, role, outer)
    method = variable.find_special(tx, "__hash__")
    if method is None:
        return _key_by_builtin_hash(tx, variable)
    before = tx.effects.count
    try:
        value = tx.index_value(tx.call(method, [], {}).realize(), "__hash__ method should return an integer")
    except ObservedException as observed:
        if role and sys.version_info >= (3, 14) and observed.error.python_type() is TypeError:
            unsupported(FailsInPython(f"the hash of {variable.describe()}", "it raises TypeError"))
        raise
    _check_no_effects(tx.effects, before, variable)
    hash_ = _slot_hash(value)
    if tx.attempt.state(KnownHashes).setdefault(variable, hash_) != hash_:
        unsupported(UnsupportedKey(variable.describe(), "its hash has changed since it was a key before"))
    return ObjectKey(tx.attempt, variable, hash_)


class KnownHashes(dict[VariableTracker, int]):
    """The hashes of objects that were keys. Whether a dict finds such an object once it has another hash depends on
    where the table has put it: keys are compared by identity first, whatever their hashes are."""


def is_hashed_in_python(key: Any) -> bool:
    """Whether hashing or comparing a real key runs user code of its class: then what its methods read is guarded.
    (Those of libraries' classes, such as Tensor, are known to compare by identity.)"""
    kind = type(key)
    if kind is tuple:
        return any(map(is_hashed_in_python, key))
    if not class_compares_by_identity(kind) or issubclass(kind, (type, enum.Enum)):
        return False
    return _is_of_user(kind, "__hash__") or _is_of_user(kind, "__eq__")


def stored_key(attempt: Attempt, variable: VariableTracker, stored: int) -> Any:
    """`key_of` for a key that `is_hashed_in_python` of an existing container. ``stored``: the hash that it had when it
    was stored; of a key that was mutated since, a lookup doesn't find it, or finds another."""
    raw = key_of(_running(attempt, variable), variable)
    if hash(raw) != stored:
        unsupported(UnsupportedKey(variable.describe(), "its hash has changed since it was stored"))
    return raw


def check_hash_is_current(attempt: Attempt, key: Any) -> None:
    """Break the graph if a key may have been mutated after it was hashed: generated code would store it under another
    hash than the program did."""
    if type(key) is tuple:
        for each in key:
            check_hash_is_current(attempt, each)
    elif type(key) is ObjectKey:
        if any(attempt.effects.last(each) > key.hashed_at for each in reachable([key.variable])):
            unsupported(UnsupportedKey(key.variable.describe(), "it is mutated after it was stored"))


def _key_by_builtin_hash(tx: Translator, variable: VariableTracker) -> Any:
    """The key of an object whose class overrides ``__eq__`` and has a builtin type's ``__hash__``."""
    payload = variable.payload
    if payload is not None and tx.lookup(variable.python_type(), "__hash__") is payload.python_type().__hash__:
        key = key_of(tx, payload)
        if has_stable_hash(key):
            return ObjectKey(tx.attempt, variable, hash(key))
    unsupported(UnsupportedKey(variable.describe()))


def has_stable_hash(key: Any) -> bool:
    """Whether a key has the same hash in every call, as it has while tracing."""
    if type(key) in (tuple, frozenset):
        return all(map(has_stable_hash, key))
    kind = type(key)  # `isinstance` would read the key's `__class__`, which may be a property
    if issubclass(kind, ObjectKey):  # its `hash` is a constant
        return True
    if any(kind is each for each in _IN_C):
        return issubclass(type(getattr(key, "__self__", None)), (type, types.ModuleType, type(None)))
    return issubclass(kind, _STABLE_HASH) and not (_is_of_user(kind, "__hash__") or _is_of_user(kind, "__eq__"))


def _is_of_user(kind: type, name: str) -> bool:
    """Whether a class's method is one that the program defines, or None."""
    raw = class_lookup(kind, name)
    if type(raw) is types.FunctionType:
        return not is_library(raw.__code__)
    return raw is None or is_user_defined(raw)


LEAST_ADDRESS = 1 << 20
"""Integers from here on may be addresses."""


class AddressKey:
    """Represents ``id()`` of an object as a key. The number may differ from call to call.
    ``is_existing``: the object existed before the call."""

    __slots__ = ("identity", "is_existing")

    def __init__(self, identity: Any, is_existing: bool) -> None:
        self.identity = identity
        self.is_existing = is_existing

    def __hash__(self) -> int:
        return hash((AddressKey, self.identity))

    def __eq__(self, other: object) -> bool:
        return type(other) is AddressKey and self.identity == other.identity


class AddressKeys:
    """Which representations of addresses the keys of a trace have: an `AddressKey`, or a large number that
    may be an address in this call. The two can't be compared while tracing, unless the object was created during it."""

    __slots__ = ("as_objects", "as_numbers")

    def __init__(self) -> None:
        self.as_objects = self.as_numbers = False

    def note(self, key: Any) -> None:
        """Record a key; break the graph if both representations occur."""
        if type(key) is int:
            self.as_numbers |= key >= LEAST_ADDRESS
        elif type(key) in (tuple, frozenset):
            for each in key:
                self.note(each)
            return
        else:
            self.as_objects |= type(key) is AddressKey and key.is_existing
        if self.as_objects and self.as_numbers:
            unsupported(UnsupportedKey("a result of id()", "other keys are numbers that it may equal"))


_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType)
"""Functions that live as long as the process, if they aren't bound to an object."""
