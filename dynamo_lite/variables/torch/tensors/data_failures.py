"""Operators that may fail on the data, where fakes don't, and what such a failure may not be mixed with.

A graph that raises is run again by CPython, so that the program's own handlers see the error (`rerun`), and that those
don't which a frame that goes on in them has left by then. That needs the inputs as they were. So where a graph has an
operator that may fail so as well as writes into inputs, these are copied before each call; where they are large, or
gradients hang on them, the second of the two is left to CPython.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import FailureAndWrite, OperatorFailed
from dynamo_lite.records.graph import DENSE
from dynamo_lite.variables.core.attributes import MethodVariable
from dynamo_lite.variables.core.base import unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.containers.iterator import GeneratorVariable

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
_INDEXING = frozenset({"getitem", "setitem", "__getitem__", "__setitem__"})
_DIVISIONS = frozenset(
    """floordiv ifloordiv mod imod __floordiv__ __ifloordiv__ __mod__ __imod__ floor_divide floor_divide_ remainder
    remainder_ fmod fmod_ div div_ divide divide_""".split()
)


def may_fail(target: Any, name: str, given: list[torch.Tensor]) -> bool:
    """Whether an operator that went well on fakes may raise on numbers."""
    name = name.removeprefix("numpy_")
    if name in _INDEXING:
        return len(given) > 1 and any(not each.dtype.is_floating_point for each in given[1:])
    if name in _DIVISIONS:
        return not any(each.dtype.is_floating_point or each.dtype.is_complex for each in given)
    if isinstance(target, OPERATORS):
        overload = target if isinstance(target, torch._ops.OpOverload) else getattr(target, target.overloads()[0])
        namespace, _, name = overload._schema.name.partition("::")
        if namespace not in ("aten", "prims"):
            return True
    return name.removeprefix("linalg_") in _NAMES


def check_failure(tx: Translator, name: str) -> None:
    """An operator that may fail is about to be recorded."""
    tx.graph.may_fail = True
    frame = tx
    while not tx.graph.handled_failure and frame is not None:
        if _handles(frame) or frame.parent is None and tx.attempt.begins_in_block:
            if not tx.graph.can_restore_inputs():
                unsupported(FailureAndWrite(name))
            tx.graph.fails_handled = True
            tx.graph.handled_failure = name
        frame = frame.parent


def check_write(tx: Translator, name: str, written: list[torch.Tensor]) -> None:
    """An operator that writes is about to be recorded."""
    if tx.graph.fails_handled and not tx.graph.can_restore_inputs(written):
        unsupported(FailureAndWrite(name))
    if any(map(tx.graph.is_write_protected, written)):
        unsupported(OperatorFailed(name, "it writes into memory that a leaf shares with what it was made of"))
    known = [tx.attempt.values.fakes[id(fake)] for fake in written if id(fake) in tx.attempt.values.fakes]
    if not all(tx.graph.allows_writes(each.node) for each in known):
        unsupported(OperatorFailed(name, "it writes into another view of what became a parameter's memory"))


def _handles(frame: Any) -> bool:
    """Whether a handler that may end an error covers what a frame does now. (``finally`` only puts things back.)"""
    handler = frame.current.handler
    while handler is not None:
        start = handler.target
        if start.opname == "PUSH_EXC_INFO":
            if frame.instructions[start.index + 1].opname == "WITH_EXCEPT_START":
                if _swallows(frame.stack[handler.depth - 1].realize()):
                    return True
            elif _catches(frame, start.index + 1):
                return True
        handler = start.handler
    return False


_ERRORS = (RuntimeError, IndexError, ValueError, torch.linalg.LinAlgError)
"""What operators raise of data."""
_EXPRESSION = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "LOAD_ATTR", "BUILD_TUPLE"})


def _catches(frame: Any, at: int) -> bool:
    """Whether a handler has an ``except`` clause for what operators raise."""
    instructions = frame.instructions
    if instructions[at].opname == "POP_TOP":
        return True
    while True:
        first = instructions[at]
        while instructions[at].opname in _EXPRESSION:
            at += 1
        if instructions[at].opname not in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
            return bool(instructions[at].opname == "POP_TOP")
        if first.opname != "LOAD_GLOBAL" or instructions[at - 1] is not first:
            return True
        cls = frame.scope.load(first.argval) or frame.attempt.values.builtin(first.argval)
        cls = None if cls is None else cls.realize()
        if not isinstance(cls, ClassVariable) or any(issubclass(error, cls.value) for error in _ERRORS):
            return True
        at = instructions[at + 1].target.index


def _swallows(leave: Any) -> bool:
    """Whether an ``__exit__`` may end an error: where a generator waits in a ``try`` for it, or ``suppress``."""
    if not isinstance(leave, MethodVariable):
        return False
    if getattr(leave.function.realize(), "value", None) is contextlib.suppress.__exit__:
        return True
    generator = getattr(leave.receiver, "attrs", {}).get("gen")
    return isinstance(generator, GeneratorVariable) and not generator.finished and _handles(generator.frame)


def check_index(index: Any) -> None:
    """Of what an assignment goes to. Kernels refuse numbers that are no integers; fakes don't."""
    parts = index if isinstance(index, (tuple, list)) else (index,)
    if any(isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex()) for each in parts):
        unsupported(OperatorFailed("setitem", "what it goes to are no integers"))


def check_overlap(name: str, written: list[torch.Tensor], given: list[torch.Tensor], fakes: list[Any]) -> None:
    """Kernels refuse to write into memory of which another operand is another view; fakes don't. ``fakes``: the
    operator's arguments."""
    if len(given) < 2:
        return
    if name.endswith("setitem"):  # it writes into what indexing gives, if that is a view
        value = given[-1]
        if value is not fakes[-1] or value.untyped_storage()._cdata != given[0].untyped_storage()._cdata:
            return
        written = [given[0].detach()[fakes[1]]]
        given = [*written, value]
    by_storage: dict[int, list[torch.Tensor]] = {}
    for fake in given:
        by_storage.setdefault(fake.untyped_storage()._cdata, []).append(fake)
    for fake in written:
        others = by_storage[fake.untyped_storage()._cdata]
        if len(others) > 1 and any(_overlaps_in_part(fake, other) for other in others if other is not fake):
            unsupported(OperatorFailed(name, "it writes into memory of which it reads another view"))


_PRODUCTS = frozenset({"imul", "__imul__", "mul_", "multiply_", "addcmul_", "addcdiv_"})


def check_cast(name: str, written: list[torch.Tensor], operands: list[Any]) -> None:
    """Kernels refuse to write complex numbers into real ones, and products into less than they are; fakes don't."""
    kinds = [_KINDS_OF_NUMBERS.get(type(each), 0) for each in operands]
    kinds += [_kind_of_numbers(each.dtype) for each in operands if isinstance(each, torch.Tensor)]
    highest = max(kinds)
    if highest == _COMPLEX or name in _PRODUCTS:
        if any(_kind_of_numbers(each.dtype) < highest for each in written):
            unsupported(OperatorFailed(name, "it writes numbers into what does not take them"))


_COMPLEX = 3
_KINDS_OF_NUMBERS = {bool: 0, int: 1, float: 2, complex: _COMPLEX}


def _kind_of_numbers(dtype: torch.dtype) -> int:
    return _COMPLEX if dtype.is_complex else 2 if dtype.is_floating_point else dtype is not torch.bool


def _overlaps_in_part(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not one.numel() or not other.numel() or one.is_inference():
        return False
    if any(torch._debug_has_internal_overlap(each) != DENSE for each in (one, other)):
        return False
    starts = [each.storage_offset() * each.element_size() for each in (one, other)]
    ends = [start + each.numel() * each.element_size() for start, each in zip(starts, (one, other))]
    if starts[0] == starts[1] and ends[0] == ends[1]:
        return one.stride() != other.stride()
    return starts[0] < ends[1] and starts[1] < ends[0]
