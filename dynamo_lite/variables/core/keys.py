"""What stands for a traced value among a dict's keys or a set's items: it hashes and compares as the value does."""

from __future__ import annotations

import enum
import types
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import UnsupportedOperation

from .base import NotConstant, VariableTracker, unsupported
from .constant import ConstantVariable
from .lookup import type_name
from .protocols import Translator

PLAIN_KEYS = (str, int, bool, float, type(None), bytes)
"""Keys of these types stand for themselves: the tracker is a constant."""
_SAME_IN_EVERY_CALL = (*PLAIN_KEYS, complex, range, type, enum.Enum, torch.dtype, torch.device, torch.layout)


class ObjectKey:
    """Stands for an object whose hash and equality are the program's methods: they are traced when a real dict asks."""

    __slots__ = ("tx", "variable", "hash")

    def __init__(self, tx: Translator, variable: VariableTracker, hash_: int) -> None:
        self.tx = tx
        self.variable = variable
        self.hash = hash_

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ObjectKey):
            theirs: VariableTracker = other.variable
        elif isinstance(other, VariableTracker):
            theirs = other
        elif type(other) in PLAIN_KEYS:
            theirs = ConstantVariable(other)
        else:
            unsupported(UnsupportedOperation("comparison as a key", self.variable.describe()))
        before = self.tx.effects.count
        same = self.tx.same_or_equal(self.variable, theirs)
        _check_quiet(self.tx, before, self.variable)
        return same


def _check_quiet(tx: Translator, before: int, variable: VariableTracker) -> None:
    """Making the container again hashes and compares again, so that must leave nothing behind."""
    if tx.effects.count != before:
        unsupported(UnsupportedOperation("use as a key, which has side effects,", variable.describe()))


def key_of(tx: Translator, variable: VariableTracker) -> Any:
    """A hashable that stands for the value as a key. Raises the program's TypeError for what can't be hashed; breaks
    the graph where hash or equality aren't known."""
    variable = variable.realize()
    if type(variable) is ConstantVariable:
        value = variable.value
        if value != value:
            unsupported(UnsupportedOperation("use as a dict's or set's key", variable.describe()))
        if type(value) not in PLAIN_KEYS:
            _check_hashable(tx, variable)
        elif type(value) is int:
            tx.attempt.values.addresses.note(value)
        return value
    number = variable.number_as_key(tx)
    if number is not None:
        return key_of(tx, number)
    try:
        key = variable.key()
        hash(key)
    except (NotConstant, TypeError):
        return _key_by_methods(tx, variable)
    variable.guard_key(tx)
    tx.attempt.values.addresses.note(key)
    return key


def slot_hash(value: int) -> int:
    """What ``hash`` makes of the number that a ``__hash__`` returned."""
    if -(2**63) <= value < 2**63:
        return -2 if value == -1 else int(value)
    return hash(value)


def _check_hashable(tx: Translator, variable: VariableTracker) -> None:
    kind = variable.python_type()
    if tx.lookup(kind, "__hash__") is None:
        tx.raise_error(TypeError, f"unhashable type: '{type_name(kind)}'")


def _key_by_methods(tx: Translator, variable: VariableTracker) -> Any:
    items = getattr(variable, "items", None)
    if variable.python_type() is tuple and isinstance(items, list):
        return tuple([key_of(tx, item) for item in items])
    _check_hashable(tx, variable)
    method = variable.find_special(tx, "__hash__")
    if method is None:
        unsupported(UnsupportedOperation("use as a dict's or set's key", variable.describe()))
    before = tx.effects.count
    value = tx.index_value(tx.call(method, [], {}).realize(), "__hash__ method should return an integer")
    _check_quiet(tx, before, variable)
    return ObjectKey(tx, variable, slot_hash(value))


def has_stable_hash(key: Any) -> bool:
    """Whether a key hashes in each call of the generated code as it does now."""
    if type(key) in (tuple, frozenset):
        return all(map(has_stable_hash, key))
    if isinstance(key, ObjectKey):  # of known numbers, or it would not be here
        return True
    if type(key) in _IN_C:
        return isinstance(getattr(key, "__self__", None), (type, types.ModuleType, type(None)))
    return isinstance(key, _SAME_IN_EVERY_CALL) and type(key).__hash__ is not None


LEAST_ADDRESS = 1 << 20


class AddressKey:
    """Stands for ``id()`` of an object, or a thread's number, as a key, whatever that is in each call. ``found``: what
    it is of is older than the trace."""

    __slots__ = ("identity", "found")

    def __init__(self, identity: Any, found: bool) -> None:
        self.identity = identity
        self.found = found

    def __hash__(self) -> int:
        return hash((AddressKey, self.identity))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddressKey) and self.identity == other.identity


class AddressKeys:
    """As what addresses are known among the keys of a trace: as objects, or as the numbers that they are in this call.
    Nobody can say of one of the first whether it is one of the others, unless the object was made inside."""

    __slots__ = ("as_objects", "as_numbers")

    def __init__(self) -> None:
        self.as_objects = self.as_numbers = False

    def note(self, key: Any) -> None:
        if type(key) is int:
            self.as_numbers |= key >= LEAST_ADDRESS
        elif type(key) in (tuple, frozenset):
            for each in key:
                self.note(each)
            return
        else:
            self.as_objects |= type(key) is AddressKey and key.found
        if self.as_objects and self.as_numbers:
            unsupported(UnsupportedOperation("use as a key beside large numbers", "what id() or get_ident() returned"))


_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType)
"""Functions that live as long as the process, where they are no methods of an object's."""
