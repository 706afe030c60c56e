"""The guards of one attempt: checks on the tree of sources, from which the `GuardTree` in C++ is built."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence, Set, Sized
from dataclasses import dataclass, field
from functools import partial, reduce
from types import CodeType
from typing import Any, NamedTuple, TypeVar

import torch

from dynamo_lite import _C
from dynamo_lite.insight.value_text import class_name, fill, keys_text, with_article
from dynamo_lite.shapes.number_guards import SymbolicGuard
from dynamo_lite.sources.source import Source, name_of

from .abstract_class_checks import AbstractClassChecks

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class GuardReason:
    """The text of a check, for people. It refers to no user object, which a guard must not keep alive."""

    place: str
    kind: str
    text: str
    is_expression: bool = False
    """Whether the program can write the place."""

    @property
    def subject(self) -> str:
        """What has changed if the check fails."""
        return self.place

    def __str__(self) -> str:
        return f"{self.place} {self.text}".strip()


@dataclass(frozen=True)
class CodeReason(GuardReason):
    """For a guard on a function's code."""

    function: str = ""
    """The place of the function."""

    @property
    def subject(self) -> str:
        return self.function


@dataclass(frozen=True)
class RegistrationsReason(GuardReason):
    """For the guard on registrations. It may still hold after one: `AbstractClassChecks.renew`."""

    checks: AbstractClassChecks = field(kw_only=True)


Path = tuple[tuple[str, Any], ...]
"""A place, independent of a tree of sources."""


class Assumed(NamedTuple):
    """The checks of one place."""

    path: Path
    checks: list[tuple[str, Any]]


class AllAssumed(NamedTuple):
    """All guards of an attempt."""

    checks: tuple[Assumed, ...]
    numbers: tuple[tuple[tuple[Path, ...], SymbolicGuard], ...]
    """With the places that each reads."""
    same: tuple[tuple[Path, Path], ...]
    distinct: tuple[Path, ...]


def path_to(place: Source) -> Path:
    return tuple((each.kind, each.arg) for each in place.way())


def _identity(value: object) -> str:
    if value is None:
        return "None"
    name = value.co_name if type(value) is CodeType else name_of(value)
    return f"the same {type(value).__name__}" + (f" {name}" if name is not None else "")


_WORDS: dict[str, Callable[[Any], Any]] = {
    "arg": lambda arg: arg,
    "class": class_name,
    "a_class": lambda cls: with_article(class_name(cls)),
    "type": lambda value: type(value).__name__,
    "identity": _identity,
    "keys": keys_text,
    "list": lambda value: list(dict.keys(value) if isinstance(value, dict) else value),
    "length": lambda value: len(value) if isinstance(value, Sized) else "none",
    "shape": lambda tensor: tuple(tensor.shape),
    "free_shape": lambda arg: f"({', '.join('any' if at in arg[1] else str(n) for at, n in enumerate(arg[0].shape))})",
    "grad": lambda tensor: ", requires_grad" if tensor.requires_grad else "",
    "offset": lambda tensor: tensor.storage_offset(),
}
"""The fields in `_C.CheckKind`'s texts of one value."""


def in_words(text: str, arg: object) -> str:
    """A text of `_C.CHECK_KINDS`, for the argument of the check or for a value that fails it."""
    return fill(text, _WORDS, arg)


def _describe(kind: str, arg: object = None) -> str:
    return in_words(_C.CHECK_KINDS[kind].text, arg)


class Guard(NamedTuple):
    """One guard of an attempt that can be dropped by itself."""

    source: Source | None
    """None: a fact of no single place."""
    kind: str
    text: str
    drop: Callable[[], object]


def _reason(place: object, kind: str, arg: object = None) -> GuardReason:
    """The text of a check. ``place``: what is checked."""
    if type(arg) is CodeType and isinstance(place, Source) and place.kind == "c_attr":
        return CodeReason(str(place), kind, _describe(kind, arg), function=str(place.parent))
    return GuardReason(str(place), kind, _describe(kind, arg), isinstance(place, Source) and place.is_expression)


class Guards:
    """The tree of sources with their checks, and the checks that involve several sources."""

    def __init__(self) -> None:
        self.root = Source()
        self.distinct_places: dict[Source, None] = {}
        self.same_places: dict[tuple[Source, Source], None] = {}
        self.captured: dict[Source, int] = {}
        """Source -> its index in the tuple of captured values."""
        self.abstract_class_checks = AbstractClassChecks()
        self.written: Set[Source] = frozenset()
        """Sources of tensors that the graph writes into: no other tensor may share their memory."""
        self._tensors: dict[Source, None] = {}
        self.facts: list[SymbolicGuard] = []
        """On symbolic sizes and numbers."""
        self.nothing_is_handled = False
        """Whether the program read which exception is being handled, and there was none, in its callers either."""
        self._of_process = {"global_state", "registrations", "no_handled_exception"}
        self.iterated_objects: list[tuple[Any, Source]] = []
        """The objects that pre-existing iterators iterate over, and their sources."""
        self.missing_key_dicts: dict[Source, None] = {}
        """Dicts that lacked a key which the program looked up, and globals that stand for an import still to run."""
        self.cache_misses: dict[tuple[int, int], Assumed] = {}
        """Misses in caches of functions, by the cache and the key's hash."""

    def close(self) -> None:
        """Take the tree of sources apart, which has reference cycles."""
        for source in list(self.root.walk()):
            source.children = {}
            source.checks = {}
        self.distinct_places.clear()
        self.same_places.clear()
        self._tensors.clear()
        self.captured.clear()
        self.iterated_objects.clear()
        self.missing_key_dicts.clear()
        self.cache_misses.clear()

    def const(self, value: object) -> Source:
        """The source of an object that generated code refers to as a constant."""
        return self.root.child("const", value)

    def query(self, function: Callable[[], _Result]) -> _Result:
        """The result of a C function without arguments that queries the process's state, guarded."""
        result = function()
        self.const(function).child("result").check("equals", result)
        return result

    def tensor(
        self,
        source: Source,
        value: torch.Tensor,
        cls: type,
        free: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    ) -> None:
        """Guard a tensor's metadata. ``free``: the dimensions whose sizes and strides are symbolic (see `facts`)."""
        source.check("type", cls)
        if _C.computes_sizes(value):  # they follow from its inner tensors
            source.check("tensor_without_size", value)
        elif any(free):
            source.check("tensor_of_any_size", (value, *free))
        else:
            source.check("tensor", value)
        self._tensors[source] = None
        self.distinct(source)

    def array(self, source: Source) -> None:
        """Include a numpy array among the objects whose memory must not overlap with that of a mutated input."""
        self._tensors[source] = None

    def of_tensors(self) -> list[Assumed]:
        """The checks of all tensors, and of the places on the path to them."""
        return self.of(self._tensors)

    @staticmethod
    def of(places: Iterable[Source]) -> list[Assumed]:
        """The checks of these places, and of those on the path to them."""
        found = {place: None for source in places for place in source.way()}
        return [Assumed(path_to(place), [*place.checks.values()]) for place in found]

    def all(self, facts: Iterable[SymbolicGuard]) -> AllAssumed:
        """All guards so far, and these on symbolic numbers."""
        places = [place for place in self.root.walk() if place.checks or place.expected]
        checks = [
            Assumed(path_to(place), [*place.checks.values()] or [("present", None)]) for place in places if place.parent
        ]
        numbers = [(tuple(map(path_to, fact.sources)), fact) for fact in facts]
        same = [(path_to(one), path_to(other)) for one, other in self.same_places]
        return AllAssumed(tuple(checks), tuple(numbers), tuple(same), tuple(map(path_to, self.distinct_places)))

    def adopt(self, assumed: Iterable[Assumed]) -> None:
        """Add checks of another attempt at the frame."""
        for path, checks in assumed:
            source = self._at(path)
            if source not in self._tensors:
                for kind, arg in checks:
                    source.check(kind, arg)

    def adopt_all(self, assumed: AllAssumed) -> None:
        """Add the guards of another attempt at the frame."""
        self.adopt(assumed.checks)
        for one, other in assumed.same:
            self.same(self._at(one), self._at(other))
        for path in assumed.distinct:
            self.distinct(self._at(path))
        self.add_facts(fact._replace(sources=[*map(self._at, paths)]) for paths, fact in assumed.numbers)

    def add_facts(self, facts: Iterable[SymbolicGuard]) -> None:
        """Add guards on symbolic numbers, but for those that are there."""
        known = [(fact.sources, fact.program) for fact in self.facts]
        self.facts += [fact for fact in facts if (fact.sources, fact.program) not in known]

    def _at(self, path: Path) -> Source:
        return reduce(lambda place, step: place.child(*step), path, self.root)

    def same(self, one: Source, other: Source) -> None:
        """Guard that two sources reach one object."""
        self.same_places[one, other] = None

    def distinct(self, source: Source) -> None:
        """Guard that the object here is none of the other distinct ones."""
        self.distinct_places[source] = None

    def capture(self, source: Source) -> int:
        """Let the guard check capture the value. Returns its index in the tuple of captured values."""
        return self.captured.setdefault(source, len(self.captured))

    def each(self) -> list[Guard]:
        """The guards, but for those that compare several places at once (see `drop`)."""
        forget = self._of_process.discard
        found = [Guard(None, kind, _describe(kind), partial(forget, kind)) for kind in self._checked()]
        for source in self._needed():
            for key, (kind, arg) in source.checks.items():
                found.append(Guard(source, kind, _describe(kind, arg), partial(source.checks.pop, key)))
            if source.expected and not source.checks:
                found.append(Guard(source, "present", _describe("present"), lambda: None))
        for pair in self.same_places:
            found.append(Guard(pair[0], "same_as", _describe("same_as", pair[1]), partial(self.same_places.pop, pair)))
        found += [Guard(None, "symbolic", fact.text, partial(self.facts.remove, fact)) for fact in self.facts]
        return found

    def drop(self, guards: Iterable[Guard]) -> None:
        """Drop some of `each`. Places without a check are no longer compared with others."""
        for guard in guards:
            guard.drop()
            if guard.source is not None and not guard.source.checks:
                guard.source.expected = False
        self.distinct_places = {source: None for source in self.distinct_places if source.checks}
        self._tensors = {source: None for source in self._tensors if source.checks}

    def is_tensor(self, source: Source | None) -> bool:
        """Whether a tensor or array was found there."""
        return source in self._tensors

    def values(self, code: CodeType, state: _C.GlobalState, view: _C.FrameView) -> dict[Source, object]:
        """What lies at each place in a frame; nothing if the guards don't hold for it."""
        tree = self.build(code, state)
        found = [each for each in self._needed() if not any(kind == "unbound" for kind, _ in each.checks.values())]
        at = [tree.capture(each.number) for each in found]
        values = tree.lookup(view)
        return {} if values is None else {each: values[index] for each, index in zip(found, at)}

    def _checked(self) -> list[str]:
        """The guards on the process that are to be checked."""
        of_process = ["global_state"]
        if self.abstract_class_checks.token:
            of_process.append("registrations")
        if self.nothing_is_handled:
            of_process.append("no_handled_exception")
        return [kind for kind in of_process if kind in self._of_process]

    def build(self, code: CodeType, state: _C.GlobalState) -> _C.GuardTree:
        """Build the tree for frames of ``code``: accessors and checks, parents first; then checks of several places."""
        tree = _C.GuardTree(code)
        self.root.number = 0
        checked = self._checked()
        if "global_state" in checked:
            tree.check(0, "global_state", state, _reason("torch:", "global_state"))
        if "registrations" in checked:
            text = _describe("registrations")
            reason = RegistrationsReason("abstract classes", "registrations", text, checks=self.abstract_class_checks)
            tree.check(0, "registrations", self.abstract_class_checks.token, reason)
        if "no_handled_exception" in checked:
            tree.check(0, "no_handled_exception", None, _reason("the caller", "no_handled_exception"))
        for source in self._needed():
            self._build(tree, source)
        for source in self.captured:
            tree.capture(source.number)
        self._build_relations(tree)
        return tree

    def _needed(self) -> list[Source]:
        """The sources that are checked or captured and those on the path to them, parents first."""
        sources = list(self.root.walk())[1:]
        needed = {*self.captured, *self.distinct_places, *self._tensors, *itertools.chain(*self.same_places)}
        needed.update(source for fact in self.facts for source in fact.sources)
        for source in reversed(sources):
            if source in needed or source.checks or source.expected:
                assert source.parent is not None
                needed.update((source, source.parent))
        return [source for source in sources if source in needed]

    def below(self, roots: Sequence[Source], captured: Iterable[Source], skipped: Set[Source]) -> _C.GuardTree:
        """Build a tree of the guards at these places, below them, and at constants, for a frame whose locals are what
        lies at the roots.

        Args:
            captured: the places whose values it captures, if it reaches them.
            skipped: places that aren't checked.
        """
        names = [f"root{at}" for at in range(len(roots))]
        tree = _C.GuardTree(eval(f"lambda {', '.join(names)}: None").__code__)
        numbers = dict[Source, int]()
        needed, locals_ = {*self._needed(), *roots}, dict(zip(roots, names, strict=True))
        for source in self.root.walk():
            if source in locals_:
                numbers[source] = tree.child(0, "local", locals_[source])
                if source.parent in numbers and source not in skipped:  # another root reaches it, too
                    number = tree.child(numbers[source.parent], source.kind, source.arg)
                    tree.check(number, "same_as", numbers[source], _reason(source, "same_as", source))
            elif source.kind == "const" and source in needed:
                numbers[source] = tree.child(0, source.kind, source.arg)
            elif source in needed and source.parent in numbers and source not in skipped:
                numbers[source] = tree.child(numbers[source.parent], source.kind, source.arg)
        for source, number in numbers.items():
            for kind, arg in [*source.checks.values()] or [("present", None)]:
                tree.check(number, kind, arg, _reason(source, kind, arg))
        for source in captured:
            if source in numbers:
                tree.capture(numbers[source])
        return tree

    def _build(self, tree: _C.GuardTree, source: Source) -> None:
        """Add a source and its checks. Its parent must have been added."""
        assert source.parent is not None
        source.number = tree.child(source.parent.number, source.kind, source.arg)
        if source.expected and not source.checks:
            source.check("present")
        for kind, arg in source.checks.values():
            tree.check(source.number, kind, arg, _reason(source, kind, arg))

    def _build_relations(self, tree: _C.GuardTree) -> None:
        for one, other in self.same_places:
            tree.check(one.number, "same_as", other.number, _reason(one, "same_as", other))
        for fact in self.facts:
            nodes = [source.number for source in fact.sources]
            tree.check(0, "symbolic", (nodes, fact.program), GuardReason("", "symbolic", fact.text))
        distinct = [source.number for source in self.distinct_places]
        if len(distinct) > 1:
            tree.check(0, "distinct", distinct, _reason("the inputs", "distinct"))
        written = [source.number for source in self._tensors if source in self.written]
        others = [source.number for source in self._tensors if source not in self.written]
        if written and len(self._tensors) > 1:
            tree.check(0, "storages_distinct", (written, others), _reason("the inputs", "storages_distinct"))
