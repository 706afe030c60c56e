"""Guards on aliases: a trace that mutates an object assumes that no other source leads to it.

Sources that lead to one object have one tracker, so a write through one is seen through the others. That two sources
lead to two objects, of which one is mutated, holds for this call only and is guarded. The ``__dict__`` of an object is
an object too, which the program may hold beside its owner; so is what an iterator iterates over.
"""

from __future__ import annotations

from collections import Counter

from dynamo_lite.exc import SkipFrame
from dynamo_lite.records.source import Source
from dynamo_lite.translator.attempt import Attempt
from dynamo_lite.variables.python.objects.user_object import instance_dict

Known = tuple[object, Source]
"""A pre-existing object, and the first source that led to it."""


def guard_aliases(attempt: Attempt) -> None:
    """Guard that each mutated object is reached through no other source.

    Raises:
        SkipFrame: an object and its ``__dict__``, or two objects that share one, are known, and one is mutated.
    """
    written = set(attempt.effects.written)
    known: dict[int, Known] = {}
    changed: list[Known] = []
    for value, tracker in attempt.values.memo.values():
        if tracker.source is not None:
            known[id(value)] = value, tracker.source
            has_new_data = tracker.source in attempt.graph.replaced
            if has_new_data or tracker in written or tracker.payload in written:
                changed.append((value, tracker.source))
    kinds = {id(type(value)) for value, _ in changed}  # a metaclass may compare classes
    for value, source in attempt.guards.iterated_objects:
        if id(type(value)) in kinds:
            first = known.setdefault(id(value), (value, source))[1]
            if first is not source:
                attempt.guards.same(source, first)
    objects = [*known.values()]
    of_written_kinds = [each for each in objects if id(type(each[0])) in kinds]
    first_sources: dict[int, Source] = {}
    for value, source in [*of_written_kinds, *_namespaces(attempt, objects, changed), *_shared(objects, changed)]:
        first = first_sources.setdefault(id(value), source)
        if first is source:
            attempt.guards.distinct(source)
        else:  # a dict, and an object that it is the ``__dict__`` of, neither of which is mutated
            attempt.guards.same(source, first)


def _namespaces(attempt: Attempt, known: list[Known], changed: list[Known]) -> list[Known]:
    """Dicts, and the ``__dict__`` of objects, if one of either was mutated: a known dict may be an object's own."""
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
    return [*dicts, *_dicts_of(owners)]


def _shared(known: list[Known], changed: list[Known]) -> list[Known]:
    """The ``__dict__`` of each object, if an object was mutated: two objects may share one."""
    written = [each for value, _ in changed if (each := _own_dict(value)) is not None]
    if not written:
        return []
    own = Counter(id(_own_dict(value)) for value, _ in known)
    if any(own[id(each)] > 1 for each in written):
        raise SkipFrame("it has two objects with one __dict__, and writes into one of them")
    return _dicts_of(known)


def _own_dict(value: object) -> dict[str, object] | None:
    """An object's ``__dict__``, if that is a dict; a class's is a view."""
    found = None if type(value) is dict else instance_dict(value)
    return found if type(found) is dict else None


def _dicts_of(owners: list[Known]) -> list[Known]:
    return [
        (own, each)
        for value, source in owners
        for each in source.children.values()
        if each.kind == "instance_dict" and (own := _own_dict(value)) is not None
    ]
