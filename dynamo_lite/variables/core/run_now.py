"""When code of the program may run while tracing: before the graph, which computes what precedes it in the program."""

from __future__ import annotations

import gc
import itertools
import types
from collections import deque
from collections.abc import Iterable, Set

from dynamo_lite.bytecode import references
from dynamo_lite.records.code_origin import is_library
from dynamo_lite.records.random_operators import draws_nothing

from .base import Translator
from .class_lookup import is_immutable


def why_not_now(tx: Translator, function: types.FunctionType | None = None, args: Iterable[object] = ()) -> str | None:
    """Why code that the program runs at this point can't run now, with the same effect; None if it can.

    What precedes it must not wait for the graph, or for what generated code replays after it: unless the code is a
    function, given these arguments, that can't see it.
    """
    if tx.graph.scope.is_nested:
        return "an operator runs its caller"
    if tx.graph.communicates:
        return "it comes after a collective"
    if tx.graph.written or not tx.effects.empty and (function is None or _may_see_effects(tx, function, args)):
        return "it comes after side effects"
    return None


def is_first_to_draw(tx: Translator) -> bool:
    """Whether the program has drawn no random numbers before this point."""
    drew = not all(draws_nothing(node.op, node.target) for node in tx.graph.graph.nodes)
    return not drew and not tx.attempt.before_graph.calls


def _may_see_effects(tx: Translator, function: types.FunctionType, args: Iterable[object]) -> bool:
    """Whether a function may read an object or a global that the program has written."""
    written = {tracker: value for value, tracker in tx.attempt.values.memo.values() if tracker in tx.effects.written}
    if written.keys() != tx.effects.written.keys():
        return True  # of some of them only the trackers are known
    globals_ = {(id(scope.namespace), name) for scope, name in tx.effects.written_globals}
    return _Search({*map(id, written.values())}, globals_).finds(function, args)


_SEARCHED_AT_MOST = 2000
_ANYTHING = {"__import__", "eval", "exec", "globals", "locals", "open", "vars"}
"""Builtins with which code may read what it doesn't name."""
_UNKNOWN = (types.ModuleType, types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class _Search:
    """A search for some objects and globals through all that a function may read: what it names, parts of that, and
    what their methods name. Code of the standard library is taken to read nothing but its arguments."""

    def __init__(self, objects: Set[int], globals_: Set[tuple[int, str]]) -> None:
        self._objects = objects
        self._globals = globals_

    def finds(self, function: types.FunctionType, args: Iterable[object]) -> bool:
        """Whether it finds one, or can't tell."""
        left: deque[object] = deque([function, *args])
        seen: dict[int, object] = {}
        while left:
            value = left.popleft()
            if id(value) in seen:
                continue
            seen[id(value)] = value
            parts = self._named_by(value) if isinstance(value, types.FunctionType) else _parts_of(value)
            if id(value) in self._objects or parts is None or isinstance(value, _UNKNOWN):
                return True
            if len(seen) > _SEARCHED_AT_MOST:
                return True
            left.extend(parts)
        return False

    def _named_by(self, function: types.FunctionType) -> list[object] | None:
        """What a function's code names; None if that can't be told, or is one of the globals."""
        if is_library(function.__code__):
            return []
        used = references(function.__code__)
        if used.imports or any(path.names[0] in _ANYTHING for path in used.globals):
            return None
        found = [*itertools.chain.from_iterable(map(gc.get_referents, function.__closure__ or ()))]
        found += [function.__defaults__, function.__kwdefaults__, function.__dict__]
        for path in used.globals:
            value = self._at_end_of(function.__globals__, path.names)
            if value is None:
                return None
            found += value
        return found

    def _at_end_of(self, namespace: dict[str, object], names: Iterable[str]) -> list[object] | None:
        """Follow ``a.b.c`` from a global through modules, up to the first object that isn't one: that object, or
        nothing if the name is a builtin's. None if there is no such object, or a written global is on the way."""
        for at, name in enumerate(names):
            if (id(namespace), name) in self._globals:
                return None
            if name not in namespace:
                return [] if at == 0 else None
            value = namespace[name]
            if not isinstance(value, types.ModuleType):
                return [value]
            namespace = vars(value)
        return None


def _parts_of(value: object) -> list[object]:
    """What an object refers to. Functions and classes in C have no state of the program's."""
    is_of_module = isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, types.ModuleType)
    return [] if is_of_module or isinstance(value, type) and is_immutable(value) else gc.get_referents(value)
