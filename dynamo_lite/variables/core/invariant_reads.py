"""Checks what a traced backward reads: only invariant variables, since it runs later than it is traced.

A traced backward has the values of the time at which the forward is called. In eager it reads them when it runs. So it
may read its arguments, ``ctx``, variables of its own run (those of functions in it too), and variables that no code
assigns to again and that hold immutable objects. Any other read breaks the graph, and the autograd Function runs in
eager. A tensor's hook, which is created in the call, may also read tensors from its closure: it gets the tensors
themselves, with the data of the time when it runs.

Programs that need it: RecurrentGemma's ``SqrtBoundDerivative``, whose backward reads a constant of its module; BLOOM's
``GeLUFunction`` and Triton Functions, whose backward calls functions and kernels of theirs. RWKV and YOSO assign the
kernel that theirs calls in a ``global`` statement, as it is loaded: that is no constant.

These variables are invariant:

- a global, unless a function of its module assigns to it in a ``global`` statement or calls ``globals()``. (An
  assignment by another module, to the module's attribute, isn't detected: as in torch.compile, the value at the call
  is used.)
- mutable objects that only torch, Triton and the standard library read, except ``os.environ``, and callable ones;
- a variable of an enclosing function, unless that function may still assign to it, or a function inside of it does.

Attributes of classes (except methods), of functions and of other objects, and items of containers are not invariant.
"""

from __future__ import annotations

import enum
import functools
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from dynamo_lite.bytecode import Instruction, decode, reachable_from, roles
from dynamo_lite.bytecode.stack_depth import reachable_after
from dynamo_lite.insight.break_reasons import BackwardReads
from dynamo_lite.records.code_origin import is_library, is_polyfill
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.subgraphs import Runs, Scope
from dynamo_lite.runtime import triton_kernels

from .base import Translator, VariableTracker, unsupported
from .constant import CONSTANT_TYPES
from .interfaces import Cell, Globals

_INVARIANT = (
    *CONSTANT_TYPES,
    enum.Enum,
    type,
    types.FunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ModuleType,
    types.CodeType,
    functools._lru_cache_wrapper,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    dist.DeviceMesh,
    dist.ProcessGroup,
    dist.ReduceOp.RedOpType,
)
"""Classes whose instances count as immutable. Reads of their attributes are checked separately."""
_METHODS_IN_C = (types.BuiltinFunctionType, types.MethodWrapperType)
_OWNERS_IN_C = (type(None), type, types.ModuleType)
"""Types of ``__self__`` of functions in C that aren't methods of an object."""
_RECOMPUTED: tuple[Runs, ...] = ("recomputed", "reentrant")
_LIBRARY = sys.stdlib_module_names | {torch.__name__, "triton"}


def is_read_later(tx: Translator) -> bool:
    """Whether the frame is user code of a backward."""
    return tx.graph.scope.in_backward and not (is_library(tx.code) or is_polyfill(tx.code))


def check_global(tx: Translator, scope: Globals[VariableTracker], name: str, value: VariableTracker) -> None:
    """Break the graph if a global, or attribute of a module, that a backward reads isn't invariant. A checkpoint's
    function, which is called again in the backward, may read all that its module doesn't assign to."""
    namespace = scope.namespace
    if not tx.graph.scope.in_backward:
        if tx.graph.scope.later(*_RECOMPUTED) and name in _assigned_names(scope):
            refuse_read(f"the global {name}, which is assigned to")
        return
    if is_polyfill(tx.code):
        return
    of_library = is_of_library(namespace.get("__name__"))
    if not of_library and is_library(tx.code):
        return
    is_assigned = name in scope.writes or name in _assigned_names(scope)
    if is_assigned or not of_library and _calls_globals(namespace):
        refuse_read(f"the global {name}, which is assigned to")
    if not of_library or value.value is os.environ or not (is_library(tx.code) or callable(value.value)):
        check_value(value, f"the global {name}")


def check_cell(tx: Translator, cell: Cell[VariableTracker], name: str, value: VariableTracker) -> None:
    """Break the graph if a variable of an enclosing function that a backward reads isn't invariant. Recomputations of
    checkpoints check what pre-existing variables hold."""
    in_backward = tx.graph.scope.in_backward
    if is_created_by_reader(tx.graph, cell.body) or is_library(tx.code) or is_polyfill(tx.code):
        return
    if not in_backward and (cell.source is not None or not tx.graph.scope.later(*_RECOMPUTED)):
        return
    if not is_assigned_once(tx, cell, name):
        refuse_read(f"the variable {name} of an enclosing function, which may be assigned to")
    if in_backward:
        check_value(value, f"the variable {name} of an enclosing function", is_in_hook(tx.graph))


def is_created_by_reader(graph: GraphBuilder, body: Scope | None) -> bool:
    """Whether what was created while this body was traced is of the same run of a backward, or of a checkpoint's
    function, as what reads it."""
    nesting = graph.scope.nesting
    return body in nesting and not any(each.runs_later for each in nesting[nesting.index(body) + 1 :])


def check_class_attribute(tx: Translator, cls: type, name: str, value: object) -> None:
    """Break the graph if an attribute of a class, not a method, that a backward reads isn't invariant."""
    if is_of_library(cls.__module__):
        is_invariant = name not in _assigned_attributes(cls)
    else:
        is_invariant = isinstance(value, enum.Enum) or is_library(tx.code) or is_polyfill(tx.code)
    if not is_invariant:
        refuse_read(f"the class attribute {cls.__qualname__}.{name}")


def check_written_class_attribute(graph: GraphBuilder, cls: type, name: str) -> None:
    """Break the graph if a backward, or a checkpoint's function, reads an attribute that the program assigns."""
    if graph.scope.in_backward or graph.scope.later(*_RECOMPUTED):
        refuse_read(f"the class attribute {cls.__qualname__}.{name}, which is assigned to")


@functools.lru_cache(maxsize=256)
def _assigned_attributes(cls: type) -> frozenset[str]:
    """Attributes that a class's static and class methods assign to."""
    functions = [each.__func__ for each in vars(cls).values() if isinstance(each, (classmethod, staticmethod))]
    codes = [each.__code__ for each in functions if isinstance(each, types.FunctionType)]
    return frozenset(each.argval for code in codes for each in decode(code) if roles.assigns_attribute(each))


def check_value(value: VariableTracker, what: str, in_hook: bool = False) -> None:
    """Break the graph if the value that a backward reads from an invariant variable is mutable or symbolic. A hook
    (``in_hook``) may read plain tensors, whose attributes are checked separately, and numbers."""
    value = value.realize()
    mutable = [each for each in mutable_objects(value) if not in_hook or not _is_plain_tensor(each)]
    if mutable or value.is_symbolic and value.source is not None and not in_hook:
        refuse_read(what)


def _is_plain_tensor(value: VariableTracker) -> bool:
    return value.is_tensor and not value.overloaded_arguments()


def is_in_hook(graph: GraphBuilder) -> bool:
    """Whether the frame is a tensor's hook, or is called by one."""
    return graph.scope.later("hook") is not None


def refuse_read(what: str) -> NoReturn:
    """Break the graph: a backward reads ``what``, which may change before it runs."""
    unsupported(BackwardReads(what))


def mutable_objects(value: VariableTracker) -> Iterator[VariableTracker]:
    """The mutable objects of a value: itself, or items of an immutable container."""
    value = value.realize()
    kind = value.python_type()
    items = value.structure_items() if issubclass(kind, tuple) else None
    if kind is types.MethodType and value.receiver is not None:
        items = [value.receiver]
    if items is not None:
        for each in items:
            yield from mutable_objects(each)
    elif kind in (frozenset, slice, *_METHODS_IN_C):
        if not value.is_constant() or not isinstance(getattr(value.as_constant(), "__self__", None), _OWNERS_IN_C):
            yield value
    elif not issubclass(kind, _INVARIANT) and not triton_kernels.is_kernel(value.value):
        yield value


def is_of_library(module: object) -> bool:
    """Whether a module is torch's, Triton's or the standard library's, which user code doesn't change."""
    return type(module) is str and module.partition(".")[0] in _LIBRARY


# -- who assigns to a variable -----------------------------------------------------------------------------------------


def _assigned_names(scope: Globals[VariableTracker]) -> frozenset[str]:
    """The globals that functions of their module assign to."""
    if scope.assigned_names is None:
        stores = [
            each.argval
            for *_, code in _codes(scope.namespace)
            if roles.may_assign_global(code)
            for each in decode(code)
            if roles.assigns_global(each)
        ]
        scope.assigned_names = frozenset(stores)
    return scope.assigned_names


def _calls_globals(namespace: Mapping[str, object]) -> bool:
    return any("globals" in code.co_names for *_, code in _codes(namespace))


def _stores(instructions: Iterable[Instruction], name: str) -> list[Instruction]:
    """The instructions that assign to a cell."""
    return [each for each in instructions if roles.assigns_cell(each) and each.argval == name]


def _codes(namespace: Mapping[str, Any]) -> Iterator[tuple[types.CodeType, ...]]:
    """The code of a module's functions and methods, and of functions inside of them, each with those around it:
    outermost first."""
    seen: set[int] = set()
    waiting = list(namespace.values())
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        if kind is types.FunctionType:
            if value.__globals__ is namespace:
                yield from _nested_codes((value.__code__,))
            waiting.append(value.__dict__.get("__wrapped__"))
        elif kind in (staticmethod, classmethod, functools._lru_cache_wrapper):
            waiting.append(value.__wrapped__)
        elif kind is property:
            waiting += [value.fget, value.fset, value.fdel]
        elif issubclass(kind, type) and value.__module__ == namespace.get("__name__"):
            waiting += vars(value).values()


def _nested_codes(path: tuple[types.CodeType, ...]) -> Iterator[tuple[types.CodeType, ...]]:
    yield path
    for const in path[-1].co_consts:
        if type(const) is types.CodeType:
            yield from _nested_codes((*path, const))


def is_assigned_once(tx: Translator, cell: Cell[VariableTracker], name: str) -> bool:
    """Whether no code that may yet run assigns to a cell, which the running function knows by this name."""
    frame, own_name = cell.creator or find_in_root(tx, cell)
    if frame is not None:
        remaining = reachable_from(frame.instructions, [frame.current])
        return not _stores(remaining, own_name) and not _inner_stores(frame.original, own_name)
    owner = _owner(tx.scope.namespace, tx.original, name)
    return owner is not None and not _inner_stores(owner, name) and not _assigns_again(owner, name)


def find_in_root(tx: Translator, cell: Cell[VariableTracker]) -> tuple[Translator | None, str]:
    """The root frame and the cell's name in it, if the frame created the cell before an earlier graph break."""
    root: Translator = tx
    while root.parent is not None:
        root = root.parent
    return next(((root, name) for name in root.original.co_cellvars if root.cells.get(name) is cell), (None, ""))


def _owner(namespace: Mapping[str, object], code: types.CodeType, name: str) -> types.CodeType | None:
    """The code of the enclosing function whose variable a free variable is."""
    around = (each for *path, last in _codes(namespace) if last is code for each in reversed(path))
    return next((each for each in around if name in each.co_cellvars), None)


def _inner_stores(owner: types.CodeType, name: str) -> bool:
    """Whether a function inside of ``owner`` assigns to a variable of it."""
    inner = [const for const in owner.co_consts if type(const) is types.CodeType and name in const.co_freevars]
    return any(_stores(decode(each), name) or _inner_stores(each, name) for each in inner)


def _assigns_again(owner: types.CodeType, name: str) -> bool:
    """Whether a function may assign to its own variable twice."""
    stores = _stores(decode(owner), name)
    arguments = owner.co_argcount + owner.co_kwonlyargcount + bool(owner.co_flags & 4) + bool(owner.co_flags & 8)
    if len(stores) + (name in owner.co_varnames[:arguments]) > 1:
        return True
    return any(each in reachable_after(decode(owner), each.index) for each in stores)
