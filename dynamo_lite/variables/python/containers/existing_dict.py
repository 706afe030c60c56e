"""Dicts that existed before the call, guarded by single keys: a cache may grow without recompiling the frame."""

from __future__ import annotations

from typing import Any

from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, Planner, Translator, VariableTracker
from dynamo_lite.variables.core.class_lookup import class_compares_by_identity
from dynamo_lite.variables.core.keys import AS_DICT_KEY, LEAST_ADDRESS, PLAIN_KEYS, key_of
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type

from .mappings import DictVariable, wrap_dict_items


class ExistingDictVariable(DictVariable):
    """A dict that existed before the call. While the frame only looks up and stores keys, the other keys have no
    guards.

    `describe`, `find`, `assign` and `replay` get by with the keys in question. Every other method reads `items` or
    `keys`, whose first read guards and wraps the whole dict (`wrap_whole`).
    """

    __slots__ = ("attempt", "value", "looked_up", "stored", "is_whole")

    def __init__(self, attempt: Attempt, value: dict[Any, Any], source: Source) -> None:
        self.source: Source = source
        self.cls = dict
        self.attempt = attempt
        self.value = value
        self.looked_up: dict[Any, VariableTracker | None] = {}
        """The original value of each key that was looked up; None if the dict lacks it."""
        self.stored: dict[Any, tuple[VariableTracker, VariableTracker]] = {}
        """The key and the value of each item that was stored."""
        self.is_whole = False

    def __getattr__(self, name: str) -> Any:
        if name not in ("items", "keys"):
            raise AttributeError(name)
        self.wrap_whole()
        return getattr(self, name)

    def wrap_whole(self) -> None:
        """Guard and wrap all original items, then store what was stored since."""
        stored, self.stored, self.is_whole = self.stored, {}, True
        self.items, self.keys = wrap_dict_items(self.attempt, self.value, self.source)
        self.items.update((raw, value) for raw, value in self.looked_up.items() if value is not None)
        self.looked_up = {}
        self.attempt.effects.restate(self)
        for raw, (key, value) in stored.items():
            self.store(raw, key, value)

    def describe(self) -> str:
        return super().describe() if self.is_whole else "a dict"

    def find(self, tx: Translator, key: VariableTracker) -> VariableTracker | None:
        if self.is_whole:
            return super().find(tx, key)
        raw = key_of(tx, key, AS_DICT_KEY)
        if raw in self.stored:
            return self.stored[raw][1]
        if raw not in self.looked_up:
            if not _can_guard(raw):
                self.wrap_whole()
                return super().find(tx, key)
            if raw in self.value:
                self.source.check("dict_has", raw)
                self.looked_up[raw] = LazyVariable(self.attempt, self.value[raw], self.source.child("dict_item", raw))
            else:
                self.source.check("dict_lacks", raw)
                self.looked_up[raw] = None
                tx.guards.missing_key_dicts[self.source] = None
        return self.looked_up[raw]

    def assign(self, tx: Translator, raw: object, key: VariableTracker, value: VariableTracker) -> None:
        if not self.is_whole and tx.effects.in_body:
            self.wrap_whole()  # a body's effects are undone, which needs the items
        if not self.is_whole:
            self.find(tx, key)  # guards whether it has the key; may wrap it whole
        if self.is_whole:
            return super().assign(tx, raw, key, value)
        tx.effects.mutate(self)
        self.stored[raw] = (self.stored[raw][0] if raw in self.stored else key, value)

    def replay(self, plan: Planner) -> None:
        if self.is_whole:
            return super().replay(plan)
        existing = plan.reload(self.source)
        for pair in self.stored.values():
            plan.do(dict.__setitem__, existing, *pair)


def _can_guard(key: object) -> bool:
    """Whether a guard can look up a key without running user code."""
    if type(key) is tuple:
        return all(type(each) is type or _is_plain(each) for each in key)
    return _is_plain(key)


def _is_plain(key: object) -> bool:
    """Whether a key is a constant, and can't be a result of ``id()``: `AddressKeys` has to know of those."""
    return type(key) in PLAIN_KEYS and not (type(key) is int and key >= LEAST_ADDRESS)


@wraps_type(dict)
def _wrap_dict(attempt: Attempt, value: dict[Any, Any], source: Source) -> VariableTracker:
    source.check("type", dict)
    if all(class_compares_by_identity(type(key)) and _can_guard(key) for key in value):
        return ExistingDictVariable(attempt, value, source)
    return DictVariable(*wrap_dict_items(attempt, value, source), source)
