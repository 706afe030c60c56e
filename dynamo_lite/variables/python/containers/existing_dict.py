"""Dicts of the program's in which it only looks for keys: a cache may grow without its code being compiled again."""

from __future__ import annotations

from typing import Any

from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import LazyVariable, VariableTracker, class_compares_by_identity, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import LEAST_ADDRESS, PLAIN_KEYS, key_of
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator

from .mapping import DictVariable, wrap_dict_items


class _Found:
    """The dict, and the attempt that found it."""

    __slots__ = ("attempt", "value")

    def __init__(self, attempt: Attempt, value: dict[Any, Any]) -> None:
        self.attempt = attempt
        self.value = value


class _OfWholeDict:
    """``items`` and ``keys``: a method that reads one of them looks at the whole dict, if none has before."""

    def __init__(self, slot: Any) -> None:
        self._get, self._set = slot.__get__, slot.__set__

    def __get__(self, found: Any, cls: type | None = None) -> Any:
        if not found.seen:
            found.look()
        return self._get(found)

    def __set__(self, found: Any, value: Any) -> None:
        self._set(found, value)


class ExistingDictVariable(DictVariable):
    """One that may have any keys beside those that were looked for, and be given others, until something asks for all
    of them. ``asked``: what is there under these keys, None for nothing; ``added``: what was stored, with its keys.

    What does without the rest of it is here: `describe`, `find`, `setitem` and `replay`."""

    __slots__ = ("found", "asked", "added", "seen")

    def __init__(self, attempt: Attempt, value: dict[Any, Any], source: Source) -> None:
        self.source: Source = source
        self.cls = dict
        self.factory = None
        self.found = _Found(attempt, value)
        self.asked: dict[Any, VariableTracker | None] = {}
        self.added: dict[Any, tuple[VariableTracker, VariableTracker]] = {}
        self.seen = False

    items = _OfWholeDict(DictVariable.items)
    keys = _OfWholeDict(DictVariable.keys)

    def look(self) -> None:
        """All of it, as it was found; then what was stored since."""
        added, self.added, self.seen = self.added, {}, True
        self.items, self.keys = wrap_dict_items(self.found.attempt, self.found.value, self.source)
        self.items.update((raw, value) for raw, value in self.asked.items() if value is not None)
        self.asked = {}
        self.found.attempt.effects.restate(self)
        for raw, (key, value) in added.items():
            if raw not in self.items and not _stands_for_itself(raw, key):
                self.keys[raw] = key
            self.items[raw] = value

    def describe(self) -> str:
        return super().describe() if self.seen else "a dict"

    def find(self, tx: Translator, key: VariableTracker) -> VariableTracker | None:
        if self.seen:
            return super().find(tx, key)
        raw = key_of(tx, key)
        if raw in self.added:
            return self.added[raw][1]
        if raw not in self.asked:
            if not _is_quiet(raw):
                self.look()
                return super().find(tx, key)
            is_there = raw in self.found.value
            self.source.check("dict_has" if is_there else "dict_lacks", raw)
            self.asked[raw] = self._item(raw) if is_there else None
            if not is_there:
                tx.guards.lacking[self.source] = None
        return self.asked[raw]

    def _item(self, raw: Any) -> VariableTracker:
        return LazyVariable(self.found.attempt, self.found.value[raw], self.source.child("dict_item", raw))

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        if not self.seen and tx.effects.in_body:
            self.look()  # by which is told that it is put back
        before = None if self.seen else self.find(tx, key)
        if self.seen:
            return super().setitem(tx, key, value)
        tx.effects.mutate(self)
        if before is not None and hasattr(before, "value"):
            tx.effects.let_go([before.value])
        raw = key_of(tx, key)
        self.added[raw] = (self.added[raw][0] if raw in self.added else key, value)

    def guard_deallocations(self) -> None:
        for raw, (_, value) in self.added.items():
            before = self.asked.get(raw)
            if before is not None and before.source is not value.source:
                before.source.check("dies_unseen")

    def replay(self, cg: Codegen) -> None:
        if self.seen:
            return super().replay(cg)
        for key, value in self.added.values():
            loads = [lambda: cg.load_source(self.source), *(lambda each=each: cg.load(each) for each in (key, value))]
            cg.call(dict.__setitem__, loads)
            cg.pop_top()


def _stands_for_itself(raw: Any, key: VariableTracker) -> bool:
    return type(raw) in PLAIN_KEYS and isinstance(key.realize(), ConstantVariable)


def _is_quiet(key: Any) -> bool:
    """Whether a guard can look for a key, and compare it, without running the program's code."""
    if type(key) is tuple:
        return all(type(each) is type or _is_plain(each) for each in key)
    return _is_plain(key)


def _is_plain(key: Any) -> bool:
    """A constant, and no number that may be what ``id()`` returned: how the program's own such keys are taken hangs on
    whether there is one."""
    return type(key) in PLAIN_KEYS and not (type(key) is int and key >= LEAST_ADDRESS)


@wraps_type(dict)
def _wrap_dict(attempt: Attempt, value: dict[Any, Any], source: Source) -> VariableTracker:
    source.check("type", dict)
    if all(class_compares_by_identity(type(key)) and _is_quiet(key) for key in value):
        return ExistingDictVariable(attempt, value, source)
    return DictVariable(*wrap_dict_items(attempt, value, source), source)
