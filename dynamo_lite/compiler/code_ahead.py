"""Whether the rest of a frame may compute with tensors or arrays, if the frame breaks before its first operator.

Only then is the frame compiled. (If it were always skipped, operators after the break would never be captured.) The
result follows from the names in the rest of its code, and from what their values refer to. No code of the program runs.

Programs that need it: training steps and generation loops that print, read the time or look into a file before they
compute, and, beside them, the many functions of a program under ``dl.enable`` that never compute.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections import deque
from collections.abc import Iterable

import torch
import torch.distributions

from dynamo_lite.bytecode import References, references, references_after
from dynamo_lite.bytecode.references import Path
from dynamo_lite.records.code_origin import is_library
from dynamo_lite.translator.core import RootTranslator
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.class_lookup import MISSING, class_lookup, mro
from dynamo_lite.variables.python.functions.function import NestedFunctionVariable
from dynamo_lite.variables.python.objects.user_object import instance_items
from dynamo_lite.variables.torch.functions.legacy_constructors import TYPES
from dynamo_lite.variables.torch.functions.torch_functions import is_recorded

_SEARCHED_AT_MOST = 500
_TENSORS_AND_MODULES = (torch.Tensor, torch.nn.Module)
_CREATE = (torch.from_numpy, torch.frombuffer, torch.from_dlpack, torch.load, torch.get_rng_state)
"""Functions that return tensors, and aren't operators of a graph."""
_CREATORS = frozenset(map(id, (*_CREATE, *TYPES, torch.Tensor)))
_CREATING = (*_TENSORS_AND_MODULES, torch.distributions.Distribution)
_CALLED_BY_SYNTAX = ("__call__", "__getitem__", "__iter__", "__next__", "__enter__")
_CALLED_BY_CLASS = ("__init__", "__new__", "__post_init__")


def may_compute_with_tensors(root: RootTranslator) -> bool:
    """Whether the instructions after the one at which the frame breaks name tensors, modules or torch's operators, or
    compute with the results of functions that do."""
    left = references_after(root.instructions, root.current.index)
    if not left.computes:
        return False
    search = _Search(root)
    for value in root.stack:
        search.add_tracker(value, Path((), True))
    for path in left.variables:
        search.add_tracker(_content(root, path.names[0]), path)
    search.follow_globals(left, root.scope.namespace)
    if _imports_torch(left) or search.finds_tensors():
        return True
    return (left.operates or not left.attributes.isdisjoint(_METHODS)) and search.finds_tensors_in_functions()


def _content(root: RootTranslator, name: str) -> VariableTracker | None:
    found = root.locals.get(name)
    return root.cells[name].content if found is None and name in root.cells else found


_PYTHON_METHODS = {name for kind in (str, bytes, list, dict, set, int, float) for name in dir(kind)}
_METHODS = frozenset(
    name
    for name in dir(torch.Tensor)
    if name not in _PYTHON_METHODS and type(class_lookup(torch.Tensor, name)) is types.MethodDescriptorType
)
"""Methods that tensors have and Python's own types don't."""


class _Search:
    """A breadth-first search through values, bounded in all."""

    def __init__(self, root: RootTranslator) -> None:
        self.root = root
        self.values: deque[object] = deque()
        self.functions: deque[tuple[types.CodeType, dict[str, object], dict[str, object]]] = deque()
        """Functions of the program that the search has reached: the code, the variables that are known, the globals."""
        self.seen: set[int] = set()
        self.left = _SEARCHED_AT_MOST

    def add_tracker(self, tracker: VariableTracker | None, path: Path) -> None:
        """Add the value at the end of a path that begins with a traced value."""
        if isinstance(tracker, NestedFunctionVariable):
            self.functions.append((tracker.code, {}, tracker.scope(self.root).namespace))
        elif tracker is not None:
            self.follow(tracker.value, path.names[1:], path.called)

    def add_function(self, function: types.FunctionType, owner: object) -> None:
        """Add a function of the program. ``owner``: its first argument, if that is known."""
        code = function.__code__
        known = dict(zip(code.co_freevars, map(_cell_contents, function.__closure__ or ())))
        if owner is not None and code.co_argcount:
            known[code.co_varnames[0]] = owner
        self.functions.append((code, known, function.__globals__))

    def follow(self, value: object, attributes: Iterable[str], is_called: bool) -> None:
        """Add the value at the end of a path."""
        owner: object = None
        for name in attributes:
            found = _attribute(value, name)
            if found is MISSING:
                if issubclass(type(value), types.ModuleType):
                    return
                break
            owner, value = value, found
        if not issubclass(type(value), type):
            function = _function_of(value)
            if function is not None:
                self.add_function(function, owner)
            self.values.append(value)
        elif is_called:  # otherwise it is only compared, as in `isinstance(x, torch.Tensor)`
            if _creates_by_call(value):  # type: ignore[arg-type]
                self.values.append(torch)  # for its instances
            self._add_methods(value, value, _CALLED_BY_CLASS)  # type: ignore[arg-type]

    def follow_globals(self, used: References, namespace: dict[str, object]) -> None:
        for path in used.globals:
            if path.names[0] in namespace:
                self.follow(namespace[path.names[0]], path.names[1:], path.called)

    def finds_tensors(self) -> bool:
        """Whether a value that was added is or leads to a tensor or module, or creates them."""
        while self.values and self.left:
            value = self.values.popleft()
            kind = type(value)
            if id(value) in self.seen or issubclass(kind, type):
                continue
            self.seen.add(id(value))
            self.left -= 1
            if _is_or_creates(value):
                return True
            self.values.extend(itertools.islice(items_of(value), self.left))
            if not issubclass(kind, (types.ModuleType, types.FunctionType)):
                self.values.extend(itertools.islice(instance_items(value).values(), self.left))
                self._add_methods(kind, value, _CALLED_BY_SYNTAX)
        return False

    def _add_methods(self, cls: type, owner: object, names: Iterable[str]) -> None:
        for name in names:
            raw = class_lookup(cls, name)
            if type(raw) is types.FunctionType:
                self.add_function(raw, owner)

    def finds_tensors_in_functions(self) -> bool:
        """Whether functions that the search has reached name tensors, modules or torch's operators."""
        while self.functions and self.left:
            code, known, namespace = self.functions.popleft()
            if id(code) in self.seen or is_library(code):
                continue
            self.seen.add(id(code))
            self.left -= 1
            used = references(code)
            for path in used.variables:
                self.follow(known.get(path.names[0]), path.names[1:], path.called)
            self.follow_globals(used, namespace)
            if _imports_torch(used) or self.finds_tensors():
                return True
        return False


def _imports_torch(used: References) -> bool:
    return any(each.partition(".")[0] == torch.__name__ for each in used.imports)


def _cell_contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _attribute(value: object, name: str) -> object:
    """The attribute of a value or its class, without running descriptors; `MISSING` if there is none."""
    if issubclass(type(value), type):
        return class_lookup(value, name)  # type: ignore[arg-type]
    own = instance_items(value).get(name, MISSING)
    return class_lookup(type(value), name) if own is MISSING else own


def _function_of(value: object) -> types.FunctionType | None:
    """The Python function that a callable or descriptor calls."""
    for name in ("__func__", "fget", "func", "__wrapped__"):
        if type(value) in _WRAPPERS:
            value = getattr(value, name, value)
    return value if type(value) is types.FunctionType else None


_WRAPPERS: tuple[type, ...] = (
    *(staticmethod, classmethod, property, types.MethodType),
    *(functools.partial, functools.cached_property, functools._lru_cache_wrapper),
)


def _is_or_creates(value: object) -> bool:
    """Whether a value is a tensor, module or array, or a function that creates tensors or arrays."""
    kind = type(value)
    is_of_torch = issubclass(kind, _TENSORS_AND_MODULES) or value is torch or id(value) in _CREATORS
    return is_of_torch or is_recorded(value) or _is_or_creates_array(value)


def _is_or_creates_array(value: object) -> bool:
    """Whether a value is a numpy array, or a function of numpy's other than an operator for numbers too (a ufunc)."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    if type(value) in (types.BuiltinFunctionType, types.FunctionType, type(numpy.sum)):
        return str(value.__module__).partition(".")[0] == numpy.__name__
    return type(value) is numpy.ndarray


def _creates_by_call(cls: type) -> bool:
    """Whether instances of a class are tensors, modules or distributions."""
    return id(cls) in _CREATORS or any(base in _CREATING for base in mro(cls))


def holds_tensors(value: object, depth: int = 2, modules: bool = True) -> bool:
    """Whether a real value is, or contains, a tensor or (unless ``modules`` is False) a module."""
    if issubclass(type(value), _TENSORS_AND_MODULES if modules else torch.Tensor):
        return True
    return bool(depth) and any(holds_tensors(item, depth - 1, modules) for item in items_of(value))


def items_of(value: object) -> Iterable[object]:
    """The items of a container, read without its class's overrides."""
    kind = type(value)
    if issubclass(kind, dict):
        return dict.values(value)  # type: ignore[arg-type]
    if issubclass(kind, list):
        return list.__iter__(value)  # type: ignore[arg-type]
    return tuple.__iter__(value) if issubclass(kind, tuple) else ()  # type: ignore[arg-type]
