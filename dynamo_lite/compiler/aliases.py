"""One object at two places: what a trace that wrote into an object assumes of the others that it knows.

Two places that hold one object have one tracker: what is written at one is seen at the other. That they hold two, where
one is written to, is a fact of this call. The dict of an object's attributes is an object too, which a program may have
beside the object; and what an iterator goes over has a place that nobody looked at.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from dynamo_lite.exc import SkipFrame
from dynamo_lite.records.source import Source
from dynamo_lite.variables.python.objects.user_object import instance_dict


def guard_aliases(attempt: Any) -> None:
    """Guard that what was written to is nothing else that is known. Leaves the frame alone where an object and its
    ``__dict__``, or two objects with one, are known, one of them written to."""
    written = set(attempt.effects.written)
    known: dict[int, tuple[Any, Source]] = {}
    changed: list[tuple[Any, Source]] = []
    for value, tracker in attempt.values.memo.values():
        if tracker.source is not None:
            known[id(value)] = value, tracker.source
            gets_data = tracker.source in attempt.graph.replaced
            if gets_data or tracker in written or getattr(tracker, "payload", None) in written:
                changed.append((value, tracker.source))
    kinds = {id(type(value)) for value, _ in changed}  # a metaclass may compare classes
    for value, source in attempt.guards.gone_over:
        if id(type(value)) in kinds:
            first = known.setdefault(id(value), (value, source))[1]
            if first is not source:
                attempt.guards.same(source, first)
    places = [source for value, source in known.values() if id(type(value)) in kinds]
    found = [*known.values()]
    for place in [*places, *_namespaces(attempt, found, changed), *_shared(found, changed)]:
        attempt.guards.distinct(place)


def _namespaces(attempt: Any, known: list[tuple[Any, Source]], changed: list[tuple[Any, Source]]) -> list[Source]:
    """Dicts, and objects' dicts, of which some were written to."""
    dicts = [(value, source) for value, source in known if type(value) is dict]
    wrote_dict = any(type(value) is dict for value, _ in changed)
    owners = known if wrote_dict else changed
    scopes = [scope for scope in attempt.values.scopes if scope.writes or wrote_dict]
    if not dicts or not (owners or scopes):
        return []
    own = [_own_dict(value) for value, _ in owners]
    own += [scope.namespace for scope in scopes]
    ids = {id(value) for value, _ in (changed if wrote_dict else dicts)}
    if not ids.isdisjoint(map(id, own)):
        raise SkipFrame("it has an object and its __dict__, and writes into one of them")
    return [*(source for _, source in dicts), *_dicts_of(owners)]


def _shared(known: list[tuple[Any, Source]], changed: list[tuple[Any, Source]]) -> list[Source]:
    """Objects' dicts, where an object was written to: two objects may have one."""
    written = [each for value, _ in changed if (each := _own_dict(value)) is not None]
    if not written:
        return []
    own = Counter(id(_own_dict(value)) for value, _ in known)
    if any(own[id(each)] > 1 for each in written):
        raise SkipFrame("it has two objects with one __dict__, and writes into one of them")
    return _dicts_of(known)


def _own_dict(value: Any) -> dict[str, Any] | None:
    """An object's ``__dict__``, if that is one; a class's is a view."""
    found = None if type(value) is dict else instance_dict(value)
    return found if type(found) is dict else None


def _dicts_of(owners: list[tuple[Any, Source]]) -> list[Source]:
    return [each for _, source in owners for each in source.children.values() if each.kind == "instance_dict"]
