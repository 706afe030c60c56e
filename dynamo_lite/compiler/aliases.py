"""Guards on aliases: a trace that mutates an object assumes that no other source leads to it.

Sources that lead to one object have one tracker, so a write through one is seen through the others. That two sources
lead to two objects, of which one is mutated, holds for this call only and is guarded. The ``__dict__`` of an object is
an object too, which the program may hold beside its owner; so is what an iterator iterates over.
"""

from __future__ import annotations

from collections import Counter

from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.exc import SkipFrame
from dynamo_lite.sources.source import Source
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
            if tracker in written or tracker.payload in written:
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
    for value, source in [*of_written_kinds, *_namespaces(attempt, objects, changed)]:
        first = first_sources.setdefault(id(value), source)
        if first is source:
            attempt.guards.distinct(source)
        else:  # a dict, and an object that it is the ``__dict__`` of, neither of which is mutated
            attempt.guards.same(source, first)


def _namespaces(attempt: Attempt, known: list[Known], changed: list[Known]) -> list[Known]:
    """Dicts, the ``__dict__`` of objects, and globals, if one of them was mutated: a known dict may be an object's own,
    or a module's, and two objects may share one."""
    scopes = attempt.values.scopes
    written = {id(own) for value, _ in changed if (own := _namespace(value)) is not None}
    written_globals = {id(scope.namespace) for scope in scopes if scope.writes}
    if not written | written_globals:
        return []
    dicts = [each for each in known if type(each[0]) is dict]
    holders = Counter(id(_namespace(value)) for value, _ in known)
    holders.update(id(value) for value, _ in dicts if any(value is scope.namespace for scope in scopes))
    if any(holders[each] > 1 for each in written | written_globals):
        raise SkipFrame("it has an object and its __dict__, or two objects with one, and writes into one of them")
    own_dicts: list[Known] = [
        (own, each)
        for value, source in known
        for each in source.children.values()
        if each.kind == "instance_dict" and (own := _namespace(value)) is not None
    ]
    if not dicts:
        return own_dicts if written else []
    return [*dicts, *own_dicts, *((scope.namespace, scope.source) for scope in scopes)]


def _namespace(value: object) -> dict[str, object] | None:
    """A dict itself, or an object's ``__dict__`` if that is a dict; a class's is a view."""
    found = value if type(value) is dict else instance_dict(value)
    return found if type(found) is dict else None
