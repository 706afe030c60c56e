"""Operators that may fail on the data of real tensors although they succeed on fake ones.

If a graph raises, its frame is run again in eager (`rerun`), so that the program's exception handlers see the error.
That needs the inputs as they were before the call. So if a graph both mutates inputs and has an operator that may fail
inside a handler, the mutated inputs are copied before each call. If the copies would be large, or the inputs require
gradients, the graph breaks before the second of the two.
"""

from __future__ import annotations

import contextlib
import itertools
import types
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from dynamo_lite.bytecode import enclosing_handlers, roles
from dynamo_lite.bytecode.instructions import EXIT_SIZE
from dynamo_lite.insight.break_reasons import (
    CollectiveAndFailure,
    FailureAndWrite,
    OperatorFailed,
    OverlappingWrite,
    UnknownInBackward,
)
from dynamo_lite.records.code_origin import is_module_call
from dynamo_lite.records.graph import DENSE, GraphBuilder
from dynamo_lite.records.subgraphs import BACKWARD
from dynamo_lite.runtime.shared_memory import memory_of, share_memory
from dynamo_lite.variables.core.attributes import MethodVariable
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.python.containers.iterators import GeneratorVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.contexts.torch_contexts import ExitVariable

from .mutated_arguments import OPERATORS

_NAMES = frozenset(
    """gather scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ take take_along_dim put put_
    index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ index_reduce
    index_reduce_ masked_scatter masked_scatter_ embedding embedding_bag cross_entropy nll_loss multi_margin_loss
    multilabel_margin_loss ctc_loss one_hot binary_cross_entropy inv inverse solve cholesky cholesky_inverse lstsq
    cholesky_solve eig eigh eigvals eigvalsh svd svdvals det slogdet logdet pinv lu_factor lu_solve ldl_factor qr
    matrix_rank tensorinv tensorsolve bernoulli bernoulli_ multinomial normal normal_ poisson binomial histc
    repeat_interleave grid_sample unpool max_unpool1d max_unpool2d max_unpool3d searchsorted bucketize
    _assert_async""".split()
)
_INDEXING = frozenset({"getitem", "setitem", "__getitem__", "__setitem__", "getitem_mapped", "setitem_mapped"})
_DIVISIONS = frozenset(
    """floordiv ifloordiv mod imod __floordiv__ __ifloordiv__ __mod__ __imod__ floor_divide floor_divide_ remainder
    remainder_ fmod fmod_ div div_ divide divide_""".split()
)


def may_fail(target: object, name: str, operands: Sequence[torch.Tensor]) -> bool:
    """Whether an operator that succeeded on fake tensors may raise on real data."""
    name = name.removeprefix("numpy_")
    if name in _INDEXING:
        return any(not each.dtype.is_floating_point for each in operands[1:])
    if name in _DIVISIONS:
        return not any(each.dtype.is_floating_point or each.dtype.is_complex for each in operands)
    if isinstance(target, OPERATORS):
        overload = target if isinstance(target, torch._ops.OpOverload) else getattr(target, target.overloads()[0])
        namespace, _, name = overload._schema.name.partition("::")
        if namespace not in ("aten", "prims"):
            return True
    return name.removeprefix("linalg_") in _NAMES


def check_failure(tx: Translator, name: str) -> None:
    """Note an operator that may fail, before it is recorded. Breaks the graph if inputs can't be restored."""
    tx.graph.may_fail = True
    if is_handled_later(tx):
        unsupported(UnknownInBackward(f"whether {name} raises"))
    if not tx.graph.handled_failure and _is_handled(tx):
        if not tx.graph.can_restore_inputs():
            unsupported(FailureAndWrite(name))
        tx.graph.fails_handled = True
        tx.graph.handled_failure = name


def _is_handled(tx: Translator, caller: object = None) -> bool:
    """Whether a handler, in this frame or in a caller (up to this one), may swallow an error of the current
    instruction."""
    frame: Translator | None = tx
    while frame is not caller and frame is not None:
        if _handles(frame) or (frame.parent is None and tx.attempt.surroundings.begins_handled):
            return True
        frame = frame.parent
    return False


def is_handled_later(tx: Translator) -> bool:
    """Whether a body that runs later has a handler for errors of the current instruction."""
    body = tx.graph.scope.later(*BACKWARD)
    return body is not None and _is_handled(tx, body.opened_by)


def check_collective(tx: Translator, name: str) -> None:
    """Note an operator that communicates, before it is recorded. Other processes wouldn't take part a second time, so
    the graph breaks if the frame may be run again in eager."""
    if tx.graph.fails_handled:
        unsupported(CollectiveAndFailure(name, tx.graph.handled_failure or "a runtime assertion"))
    if _is_handled(tx):
        unsupported(CollectiveAndFailure(name, "an exception handler may swallow its error"))
    tx.graph.communicates = True


def check_write(graph: GraphBuilder, name: str, mutated: Sequence[torch.Tensor]) -> None:
    """Break the graph before an operator that mutates these tensors, if the graph can't have it."""
    if graph.fails_handled and not graph.can_restore_inputs(mutated):
        unsupported(FailureAndWrite(name))


def _handles(frame: Translator) -> bool:
    """Whether the frame's current instruction is covered by a handler that may swallow an error (not ``finally``)."""
    for handler in enclosing_handlers(frame.current):
        at = handler.target.index + 1
        if roles.leaves_with(frame.instructions[at]):
            if _swallows(frame.stack[handler.depth - EXIT_SIZE].realize()):
                return True
        elif _catches(frame, at) and not _only_raises_again(frame):
            return True
    return False


def _only_raises_again(frame: Translator) -> bool:
    """Whether the handler is that of ``Module.__call__``, and there are no hooks with ``always_call=True`` for it to
    run; guarded."""
    if not is_module_call(frame.code.co_filename) or "self" not in frame.cells:
        return False
    module = frame.cells["self"].load()
    assert module is not None
    hooks = module.realize().getattr(frame, "_forward_hooks_always_called"), frame.scope.load(_GLOBAL_HOOKS)
    return all(each is not None and not frame.truth(each.realize()) for each in hooks)


_GLOBAL_HOOKS = "_global_forward_hooks_always_called"


def _catches(frame: Translator, at: int) -> bool:
    """Whether the handler that begins at this instruction does more than run a ``finally`` block and raise again."""
    handler = itertools.islice(frame.instructions, at, None)
    return not roles.reraises(next(filter(roles.decides_handler, handler)))


def _swallows(leave: VariableTracker) -> bool:
    """Whether an ``__exit__`` may swallow an error."""
    if not isinstance(leave, MethodVariable):
        return not isinstance(leave, ExitVariable)
    function = leave.function.realize().value
    if function is not contextlib._GeneratorContextManager.__exit__:
        return not isinstance(function, types.FunctionType) or not roles.returns_only(function.__code__, (None, False))
    generator = leave.receiver.attrs.get("gen") if isinstance(leave.receiver, UserObjectVariable) else None
    return isinstance(generator, GeneratorVariable) and not generator.finished and _handles(generator.frame)


def check_index(index: object) -> None:
    """Break the graph for an assignment at an index of floats. Kernels refuse it, fake tensors don't."""
    indices = index if isinstance(index, (tuple, list)) else (index,)
    if any(isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex()) for each in indices):
        unsupported(OperatorFailed("setitem", "the index is a tensor of floats"))


def check_overlap(
    name: str, mutated: Sequence[torch.Tensor], operands: Sequence[torch.Tensor], fakes: Sequence[Any]
) -> None:
    """Break the graph for a write into memory that partly overlaps another operand. Kernels refuse it, fakes don't.

    ``fakes``: the operator's arguments; ``operands``: the tensors among them.
    """
    if len(operands) < 2:
        return
    if name.endswith("setitem"):  # it writes into the indexed view
        value = operands[-1]
        if value is not fakes[-1] or not share_memory(value, operands[0]):
            return
        mutated = [operands[0].detach()[fakes[1]]]
        operands = [*mutated, value]
    by_memory: dict[int, list[torch.Tensor]] = {}
    for fake in operands:
        by_memory.setdefault(memory_of(fake), []).append(fake)
    for fake in mutated:
        others = by_memory[memory_of(fake)]
        if any(_overlaps_partly(fake, other) for other in others if other is not fake):
            unsupported(OverlappingWrite(name, "another operand uses, too"))


_PRODUCTS = frozenset({"imul", "__imul__", "mul_", "multiply_", "addcmul_", "addcdiv_"})


def check_cast(name: str, mutated: Sequence[torch.Tensor], operands: Iterable[object]) -> None:
    """Break the graph for an in-place result whose dtype can't be cast to the tensor's. Kernels refuse it, fakes don't.

    These are complex results for real tensors, and products of a higher category (bool, int, float) than the tensor's.
    """
    highest = max(map(_category, operands))
    if highest == _COMPLEX or name in _PRODUCTS:
        if any(_category(each) < highest for each in mutated):
            unsupported(OperatorFailed(name, "its result can't be cast to the dtype of the tensor that it writes into"))


_COMPLEX = 3
_CATEGORIES = {bool: 0, int: 1, float: 2, complex: _COMPLEX}


def _category(operand: object) -> int:
    """The rank of a tensor's or a number's category in type promotion."""
    if not isinstance(operand, torch.Tensor):
        return _CATEGORIES.get(type(operand), 0)
    dtype = operand.dtype
    return _COMPLEX if dtype.is_complex else 2 if dtype.is_floating_point else dtype is not torch.bool


def _overlaps_partly(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not one.numel() or not other.numel() or one.is_inference():
        return False
    if any(torch._debug_has_internal_overlap(each) != DENSE for each in (one, other)):
        return False
    starts = [each.storage_offset() * each.element_size() for each in (one, other)]
    ends = [start + each.numel() * each.element_size() for start, each in zip(starts, (one, other))]
    if starts[0] == starts[1] and ends[0] == ends[1]:
        return one.stride() != other.stride()
    return bool(starts[0] < ends[1] and starts[1] < ends[0])
