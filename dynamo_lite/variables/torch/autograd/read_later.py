"""What the backward of a Function reads of the program, which may be another thing once it runs.

It is traced with what there is at the call. What of that the program can change from outside is looked at again when
the backward runs (`BackwardReads`). Where the call itself of the compiled function changes it, the Function is left to
CPython from then on.
"""

from __future__ import annotations

import itertools
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from dynamo_lite.records.backward_reads import BackwardReads
from dynamo_lite.records.code_origin import is_library
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.backward_calls import Again
from dynamo_lite.variables.core.attributes import class_lookup
from dynamo_lite.variables.core.base import KnowMore
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.lookup import is_heap_type
from dynamo_lite.variables.python.objects.user_object import instance_dict
from dynamo_lite.variables.torch.higher_order.bodies import reachable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

Check = tuple[str, Any]
"""Kind and argument."""

left_alone: weakref.WeakSet[type[torch.autograd.Function]] = weakref.WeakSet()
"""Functions whose backward was seen to read what changes."""
_MOST = 1000
"""Of objects that are looked at, so that no data set is walked through."""
_OF_MODULES = frozenset({"_parameters", "_buffers", "_modules"})
"""Dicts in which a module finds what is no attribute of its own."""
_BY_NAME = frozenset({"dict_has", "dict_lacks", "lacks_instance_dict_item", "type_lacks"})
"""Checks of whether there is something of a name."""
_OF_DICTS = frozenset({"dict_has", "dict_lacks"})
_OF_TENSORS = frozenset({"tensor", "tensor_of_any_size", "tensor_without_size", "storage_offset"})
"""Checks of what can't make a difference in a graph that is there: which tensor it is may."""


class TracedCall(NamedTuple):
    """A call of a Function. ``writes``: how many there were before it; ``context``: what its ``ctx`` has; ``again``:
    how to run its backward as the program has it, where that can be."""

    number: int
    writes: int
    context: list[Any]
    again: Again | None


class Reader:
    """A Function whose backward was traced: what that may come to."""

    def __init__(self, cls: type[torch.autograd.Function]) -> None:
        self.cls = cls
        self.calls: list[TracedCall] = []
        self._own = (cls, class_lookup(cls, "backward"), cls.backward, getattr(cls.backward, "__code__", None))
        """What is taken to stay: the Function itself."""
        self._objects: dict[int, Any] = {}
        self._globals: set[tuple[int, str]] = set()
        """With the id of their dict."""
        self._names: set[str] = set()
        """In code: of attributes, and other texts."""
        self._starts: set[Source] = set()
        """Where the objects are."""
        self._owners: dict[int, dict[str, Any]] = {}
        """By id the dicts of classes and of objects, of which code comes to what it names."""
        self._look([cls, cls.backward])

    def add_contexts(self, attempt: Any) -> None:
        """Go on from what the calls have on their ``ctx``."""
        found = _parts(each for call in self.calls for each in call.context)
        self._look([value for value, tracker in attempt.memo.values() if tracker in found])
        known = [attempt.memo[each][1] for each in self._objects if each in attempt.memo]
        self._starts = {each.source for each in (*known, *found)} - {None}

    def reads_program(self, context: list[Any]) -> bool:
        """Whether it comes to anything of the program's but itself, where ``ctx`` has this."""
        values = (each for each in _parts(context) if not isinstance(each, (TensorVariable, ConstantVariable)))
        if any(each.source is not None for each in values):
            return True
        others = (each for each in self._objects.values() if type(each) is not types.ModuleType)
        return not all(_is_of_library(each) or self._is_own(each) for each in others)

    def _is_own(self, value: Any) -> bool:
        return any(value is each for each in self._own)

    def _look(self, values: Iterable[Any]) -> None:
        """Go on from these."""
        waiting = deque(values)
        while waiting and len(self._objects) < _MOST:
            value = waiting.popleft()
            if id(value) not in self._objects:
                self._objects[id(value)] = value
                waiting.extend(itertools.islice(self._next(value), _MOST))
            if not waiting:
                waiting.extend(each for each in self._named_parts() if id(each) not in self._objects)

    def _next(self, value: Any) -> Iterator[Any]:
        kind = type(value)
        if kind is types.FunctionType:
            return iter(value.__closure__ or ()) if is_library(value.__code__) else self._of_function(value)
        if kind is types.MethodType:
            return iter((value.__func__, value.__self__))
        if kind is staticmethod or kind is classmethod:
            return iter((value.__func__,))
        if kind is property:
            return iter((value.fget,))
        if kind is types.CellType:
            return _content(value)
        if issubclass(kind, (list, tuple, set, frozenset, deque, dict)):
            return _items(value)
        if issubclass(kind, type):
            self._owners.update((id(each), vars(each)) for each in value.__mro__ if _is_of_program(each))
        elif _is_of_program(kind) and not issubclass(kind, (torch.Tensor, types.ModuleType)):
            self._owners[id(value)] = instance_dict(value) or {}
            return iter((kind,))
        return iter(())

    def _named_parts(self) -> Iterator[Any]:
        """What the code so far may come to in classes and objects."""
        for attributes in self._owners.values():
            for name, value in attributes.items():
                if self._is_named(name):
                    yield value

    def _is_named(self, name: Any) -> bool:
        """Whether code comes to what has this name, if it is one: a ``__dict__`` may have other keys."""
        return type(name) is str and (name in self._names or name in _OF_MODULES or _is_special(name))

    def _of_function(self, function: types.FunctionType) -> Iterator[Any]:
        """What is in its cells, and in the globals that it and the functions inside of it name."""
        yield from function.__closure__ or ()
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
        namespace = function.__globals__
        codes = deque([function.__code__])
        while codes:
            code = codes.popleft()
            codes.extend(each for each in code.co_consts if type(each) is types.CodeType)
            self._names.update(code.co_names, (each for each in code.co_consts if type(each) is str))
            for name in code.co_names:
                self._globals.add((id(namespace), name))
                if name in namespace:
                    yield namespace[name]

    def may_see(self, attempt: Any, changed: set[Any], remade: Callable[[Any], bool]) -> bool:
        """Whether it may come to what the call of the compiled function changes: of what was found anything, of what it
        made what is written to later, or is left to the program. ``changed``: the trackers of what is."""
        if len(self._objects) >= _MOST:  # it was not looked through
            return True
        for call in self.calls:
            for tracker in reachable(call.context):
                if tracker.source is None and (attempt.effects.last(tracker) > call.writes or remade(tracker)):
                    return True
        if any((id(scope.namespace), name) in self._globals for scope, name in attempt.effects.written_globals):
            return True
        return any(attempt.memo[each][1] in changed for each in self._objects if each in attempt.memo)

    def sources(self, attempt: Any) -> dict[Source, list[Check]]:
        """Where the program can change what the backward reads, parents first, with the checks of that."""
        namespaces = {scope.source: scope.namespace for scope in attempt.scopes}
        found: dict[Source, list[Check]] = {}
        waiting = [(base, self._is_reached(base)) for base in attempt.guards.root.children.values()]
        while waiting:
            source, inside = waiting.pop()
            children = source.children.values()
            if source in namespaces:
                named = self._named(namespaces[source], inside)
                checks = [
                    (kind, arg) for kind, arg, _ in source.checks.values() if kind == "dict_lacks" and arg in named
                ]
                waiting += [(each, each.arg in named or each in self._starts) for each in children]
                inside = False
            else:
                checks = [
                    (kind, arg)
                    for kind, arg, _ in source.checks.values()
                    if inside and self._matters(source, kind, arg)
                ]
                waiting += [(each, each in self._starts or inside and self._follows(each)) for each in children]
            if checks or inside and source.depth > 1 and (source.captured or source.related):
                found[source] = checks
        return found

    def _is_reached(self, base: Source) -> bool:
        if base.kind != "const":
            return base in self._starts
        return id(base.arg) in self._objects and not _is_of_library(base.arg)

    def _named(self, namespace: dict[str, Any], is_reached: bool) -> set[str]:
        """The globals that are read, those that are read as a module's attributes among them."""
        mine = {name for holder, name in self._globals if holder == id(namespace)}
        return mine | self._names if is_reached else mine

    def _follows(self, step: Source) -> bool:
        """Whether code may take this step from what it has come to: attributes are those that it names."""
        parent = step.parent
        if step.kind in ("type_attr", "slot") or parent is not None and parent.kind == "instance_dict":
            name = step.arg.__name__ if step.kind == "slot" else step.arg
            return self._is_named(name)
        return True

    def _matters(self, source: Source, kind: str, arg: Any) -> bool:
        if kind in _BY_NAME and (source.depth == 1 or source.kind == "instance_dict" or kind not in _OF_DICTS):
            return type(arg) is str and arg in self._names
        if source.depth == 1 or kind in _OF_TENSORS:
            return False
        return kind != "id" or not (_is_of_library(arg) or self._is_own(arg))


def _parts(values: Iterable[Any]) -> set[Any]:
    """Trackers, and those of what they contain."""
    waiting, found = list(values), set()
    while waiting:
        tracker = waiting.pop().realize()
        if tracker not in found:
            found.add(tracker)
            waiting.extend(tracker.contained() or ())
    return found


def _is_special(name: str) -> bool:
    """Whether code comes to a method without its name."""
    return name.startswith("__") and name.endswith("__") and name not in _NEVER


_NEVER = frozenset(("__init__", "__new__", "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"))


def backward_reads(attempt: Any) -> BackwardReads | None:
    """What the backwards in the graph read that the program can change until they run. Where the call itself changes
    it, another attempt leaves their Functions alone."""
    sources: dict[Source, list[Check]] = {}
    reading: dict[Any, bool] = {}
    again: dict[int, Again | None] = {}
    for cls, reader in attempt.readers.items():
        reader.add_contexts(attempt)
        found = reader.sources(attempt)
        reading[cls] = bool(found)
        again.update((call.number, call.again) for call in reader.calls if found)
        for source, checks in found.items():
            sources[source] = [*dict.fromkeys((*sources.get(source, ()), *checks))]
    return BackwardReads(sources, reading, again, left_alone.update) if sources else None


def check_readers(attempt: Any, remade: Callable[[Any], bool]) -> None:
    """``remade``: whether the new code makes what the trace made, so that the program may have it."""
    changed = set(attempt.effects.left) if attempt.readers else set()
    seeing = [cls for cls, each in attempt.readers.items() if each.may_see(attempt, changed, remade)]
    if seeing:
        left_alone.update(seeing)
        raise KnowMore


def _is_of_library(value: Any) -> bool:
    """Whether it is code of the standard library or of torch, which programs leave as it is."""
    kind = type(value)
    if kind is types.FunctionType:
        return is_library(value.__code__)
    if kind is types.CodeType:
        return is_library(value)
    if not issubclass(kind, (type, types.ModuleType, types.BuiltinFunctionType)):
        return False
    name = value.__name__ if kind is types.ModuleType else value.__module__
    return type(name) is str and name.partition(".")[0] in _LIBRARY


def _is_of_program(cls: type) -> bool:
    return is_heap_type(cls) and not _is_of_library(cls)


_LIBRARY = sys.stdlib_module_names | {torch.__name__}


def _items(value: Any) -> Iterator[Any]:
    """Those of a container, whatever its class says of them."""
    base = next(each for each in (dict, list, tuple, set, frozenset, deque) if issubclass(type(value), each))
    return iter(dict.values(value)) if base is dict else base.__iter__(value)  # type: ignore[no-any-return]


def _content(cell: types.CellType) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # it is empty
        return
