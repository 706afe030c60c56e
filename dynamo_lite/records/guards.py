"""The assumptions of one translation, gathered on the tree of sources and handed to C++ as a `GuardTree`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Set, Sized
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

import torch

from dynamo_lite import _C
from dynamo_lite.shapes.facts import SymbolicGuard

from .abstract_class_checks import AbstractClassChecks
from .constant_identity import Constants
from .source import Source, name_of


@dataclass(frozen=True)
class GuardReason:
    """What a check says, for people. Holds text only: a guard must not keep the program's objects alive."""

    place: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.place} {self.text}".strip()


@dataclass(frozen=True)
class RegistrationsReason(GuardReason):
    """Of answers that can be asked for again."""

    answers: AbstractClassChecks


class Assumed(NamedTuple):
    """Checks of one place, apart from the tree."""

    path: tuple[tuple[str, Any], ...]
    checks: list[tuple[str, Any, Any]]


class _Words(dict[str, Any]):
    """What a text of `_C.CHECK_KINDS` may say: ``arg``, and words that are made of it."""

    def __missing__(self, word: str) -> Any:
        return _WORDS[word](self["arg"])


def _named(value: Any) -> str:
    name = value.co_name if isinstance(value, CodeType) else name_of(value)
    return type(value).__name__ + (f" {name}" if name is not None else "")


_WORDS: dict[str, Callable[[Any], Any]] = {
    "class": lambda cls: f"{cls.__module__}.{cls.__qualname__}",
    "type": lambda value: type(value).__name__,
    "named": _named,
    "each": lambda keys: ", ".join(map(repr, keys)),
    "list": lambda value: list(dict.keys(value) if isinstance(value, dict) else value),
    "length": lambda value: len(value) if isinstance(value, Sized) else "none",
    "shape": lambda tensor: tuple(tensor.shape),
    "free_shape": lambda arg: f"({', '.join('any' if at in arg[1] else str(n) for at, n in enumerate(arg[0].shape))})",
    "grad": lambda tensor: ", requires_grad" if tensor.requires_grad else "",
    "offset": lambda tensor: tensor.storage_offset(),
}


def in_words(text: str, arg: Any) -> str:
    """A text of `_C.CHECK_KINDS` about an argument, or a value."""
    return text.format_map(_Words(arg=arg))


def _describe(kind: str, arg: Any = None) -> str:
    return in_words(_C.CHECK_KINDS[kind], arg)


class Held:
    """An entry holds while this object, which a guard refers to weakly, lives."""


def reason_for(source: Source, kind: str, arg: Any) -> GuardReason:
    """Of one check of what is in a place."""
    return GuardReason(str(source), kind, _describe(kind, arg))


class Guards:
    """Sources with their checks, and the checks which relate several."""

    def __init__(self) -> None:
        self.root = Source()
        self._distinct: dict[Source, None] = {}
        self._same: dict[tuple[Source, Source], None] = {}
        self._captures: dict[Source, int] = {}
        """With their indices."""
        self.answers = AbstractClassChecks()
        self.written: Set[Source] = frozenset()
        """Places of tensors that the graph writes into: no other may share their memory."""
        self._tensors: dict[Source, None] = {}
        self._facts: list[SymbolicGuard] = []
        self.constants = Constants()
        self.iterated_objects: list[tuple[Any, Source]] = []
        """What iterators that were found go over, and where."""
        self.missing_key_dicts: dict[Source, None] = {}
        """Dicts in which the program found nothing under a key."""
        self.cache_misses: dict[tuple[int, int], Assumed] = {}
        """The same of caches of functions, by the cache and the key's hash."""

    def close(self) -> None:
        """Take the tree of sources apart."""
        for source in list(self.root.walk()):
            source.children = {}
            source.checks = {}
        self._distinct.clear()
        self._same.clear()
        self._tensors.clear()
        self._captures.clear()
        self.constants.close()
        self.iterated_objects.clear()
        self.missing_key_dicts.clear()
        self.cache_misses.clear()

    def const(self, value: Any) -> Source:
        """An object that the new code may refer to directly."""
        return self.root.child("const", value)

    def held(self) -> Held:
        """Something to keep for as long as the entry is to hold."""
        made = Held()
        source = self.const(made)
        source.name = "the compiled code"
        source.expect()
        return made

    def tensor(
        self,
        source: Source,
        value: torch.Tensor,
        cls: type,
        free: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    ) -> None:
        """``free``: the dimensions whose sizes, and those whose strides, are left to `facts`."""
        source.check("type", cls)
        if _C.computes_sizes(value):  # they follow from what it is made of
            source.check("tensor_without_size", value)
        elif any(free):
            source.check("tensor_of_any_size", (value, *free))
        else:
            source.check("tensor", value)
        self._tensors[source] = None
        self.distinct(source)

    def array(self, source: Source) -> None:
        """An array of numpy's, which may be written to, or share memory with what is."""
        self._tensors[source] = None

    def of_tensors(self) -> list[Assumed]:
        """What is assumed of the tensors, and of what they were found in."""
        return self.of(self._tensors)

    @staticmethod
    def of(places: Iterable[Source]) -> list[Assumed]:
        """What is assumed of these places, and of what they were found in."""
        found = {place: None for source in places for place in source.way()}
        return [
            Assumed(tuple((each.kind, each.arg) for each in place.way()), [*place.checks.values()]) for place in found
        ]

    def adopt(self, assumed: Iterable[Assumed]) -> None:
        """Assume what another attempt at the frame did."""
        for path, checks in assumed:
            source = functools.reduce(lambda place, step: place.child(*step), path, self.root)
            if source not in self._tensors:
                for kind, arg, _ in checks:
                    source.check(kind, arg)

    def facts(self, facts: list[SymbolicGuard]) -> None:
        """What must be true of symbolic sizes and numbers."""
        self._facts = facts
        for fact in facts:
            for source in fact.sources:
                source.related = True

    @property
    def captured(self) -> list[Source]:
        """The places that are captured, in order."""
        return list(self._captures)

    @property
    def same_places(self) -> list[tuple[Source, Source]]:
        return list(self._same)

    @property
    def distinct_places(self) -> list[Source]:
        return list(self._distinct)

    def same(self, one: Source, other: Source) -> None:
        """Two places hold one object."""
        one.related = other.related = True
        self._same[one, other] = None

    def distinct(self, source: Source) -> None:
        """The object here is none of the other distinct ones."""
        source.related = True
        self._distinct[source] = None

    def capture(self, source: Source) -> int:
        """The place's index in the tuple of captured values."""
        source.captured = True
        return self._captures.setdefault(source, len(self._captures))

    def capture_all(self, sources: Iterable[Source]) -> None:
        """Like `capture` in order, for the first ones."""
        for source in sources:
            self.capture(source)

    def build(self, code: CodeType, state: _C.GlobalState) -> _C.GuardTree:
        """The tree for a frame of ``code``: accessors and checks parents first, relations last."""
        tree = _C.GuardTree(code)
        self.root.number = 0
        tree.check(0, "global_state", state, GuardReason("torch:", "global_state", _describe("global_state")))
        if self.answers.token:
            reason = RegistrationsReason("abstract classes", "registrations", _describe("registrations"), self.answers)
            tree.check(0, "registrations", self.answers.token, reason)
        for source in self._needed():
            self._build(tree, source)
        for source in self._captures:
            tree.capture(source.number)
        self._build_relations(tree)
        return tree

    def _needed(self) -> list[Source]:
        """The sources with checks and those on the way to them, parents first."""
        everywhere = list(self.root.walk())[1:]
        needed: set[Source] = set()
        for source in reversed(everywhere):
            if source in needed or source.needed:
                assert source.parent is not None
                needed.update((source, source.parent))
        return [source for source in everywhere if source in needed]

    def _build(self, tree: _C.GuardTree, source: Source) -> None:
        """Add a source, whose parent is there, and its checks."""
        assert source.parent is not None
        source.number = tree.child(source.parent.number, source.kind, source.arg)
        if source.expected and not source.checks:
            source.check("present")
        if source.checks:
            for kind, arg, _ in source.checks.values():
                tree.check(source.number, kind, arg, reason_for(source, kind, arg))

    def _build_relations(self, tree: _C.GuardTree) -> None:
        for one, other in self._same:
            reason = GuardReason(str(one), "same_as", _describe("same_as", other))
            tree.check(one.number, "same_as", other.number, reason)
        for fact in self._facts:
            nodes = [source.number for source in fact.sources]
            tree.check(0, "symbolic", (nodes, fact.program), GuardReason("", "symbolic", fact.text))
        distinct = [source.number for source in self._distinct]
        if len(distinct) > 1:
            text = _describe("distinct")
            tree.check(0, "distinct", distinct, GuardReason("the inputs", "distinct", text))
        written = [source.number for source in self._tensors if source in self.written]
        others = [source.number for source in self._tensors if source not in self.written]
        if written and len(self._tensors) > 1:
            text = _describe("storages_distinct")
            reason = GuardReason("the inputs", "storages_distinct", text)
            tree.check(0, "storages_distinct", (written, others), reason)
