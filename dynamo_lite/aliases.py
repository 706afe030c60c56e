"""One object at two places: what a trace that wrote into an object assumes of the others that it knows.

Two places that hold one object have one tracker: what is written at one is seen at the other. That they hold two, where
one is written to, is a fact of this call. The dict of an object's attributes is an object too, which a program may have
beside the object.
"""

from __future__ import annotations

from typing import Any

from .exc import SkipFrame
from .source import Source
from .variables.user_object import instance_dict


def guard_aliases(attempt: Any) -> None:
    """Guard that what was written to is nothing else that is known. Leaves the frame alone where an object and its
    ``__dict__`` are known as two, one of them written to."""
    written = set(attempt.effects.written)
    known: list[tuple[Any, Source]] = []
    changed: list[tuple[Any, Source]] = []
    for value, tracker in attempt.memo.values():
        if tracker.source is not None:
            known.append((value, tracker.source))
            if tracker in written or getattr(tracker, "payload", None) in written:
                changed.append((value, tracker.source))
    kinds = {id(type(value)) for value, _ in changed}  # a metaclass may compare classes
    dicts = [(value, source) for value, source in known if type(value) is dict]
    wrote_dict = id(dict) in kinds
    owners = known if wrote_dict else changed
    namespaces = [instance_dict(value) for value, _ in owners if type(value) is not dict]
    namespaces += [scope.namespace for scope in attempt.scopes if scope.writes or wrote_dict]
    ids = {id(value) for value, _ in (changed if wrote_dict else dicts)}
    if dicts and not ids.isdisjoint(map(id, namespaces)):
        raise SkipFrame("it has an object and its __dict__, and writes into one of them")
    places = [source for value, source in known if id(type(value)) in kinds]
    if dicts and kinds:
        places += [source for _, source in dicts]
        places += [each for _, source in owners for each in source.children.values() if each.kind == "instance_dict"]
    for place in places:
        attempt.guards.distinct(place)
