"""Re-runs a frame in eager, from its beginning, when its graph raises.

An operator that fails on the data (an index out of range, a singular matrix) raises in the call of the graph: before
any side effect of the frame is replayed, outside the user's ``try`` and at another line. So CPython runs the frame
again, which raises at its own line, after its own side effects, into its own handlers. The same happens when a runtime
assertion fails, that is, when tensor data would take the frame to another branch than the one traced.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from dynamo_lite import _C, logs
from dynamo_lite.bytecode import emit
from dynamo_lite.bytecode.instructions import Instruction
from dynamo_lite.exc import WrongBackendResult
from dynamo_lite.plan.rows import Plan
from dynamo_lite.runtime.interrupts import is_asynchronous

from .emitter import run

_ERROR = "___failure"
"""Differs from the name of the error that a resume function raises, an argument of the same frame."""
_VARIADIC = CO_VARARGS | CO_VARKEYWORDS


class AssertionFailed(Exception):
    """A runtime assertion on tensor data failed."""


def checking_assertions(compiled: Callable[..., Any], expected: list[bool]) -> Callable[..., Any]:
    """A compiled graph whose last results must have these truth values; it returns the results before them."""
    count = len(expected)

    def call(*inputs: torch.Tensor) -> Any:
        results = compiled(*inputs)
        for condition, truth in zip(results[-count:], expected, strict=True):
            if bool(condition) is not truth:
                raise AssertionFailed
        return results[:-count]

    return call


def restoring_inputs(compiled: Callable[..., Any], written: Sequence[int]) -> Callable[..., Any]:
    """A compiled graph that restores the inputs it writes into if it fails and the frame runs again. ``written``: the
    positions of these inputs (see `GraphBuilder.can_restore_inputs`)."""

    def call(*inputs: torch.Tensor) -> Any:
        tensors = tuple(inputs[at] for at in written)
        copies = [each.clone() for each in tensors]
        versions = _unsafe_preserve_version_counter(tensors)
        try:
            return compiled(*inputs)
        except Exception as error:
            if not _propagates(error):
                with versions:  # tensors saved for a backward stay valid
                    for tensor, copy in zip(tensors, copies):
                        tensor.copy_(copy)
            raise

    return call


_OF_OPERATORS = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError)


def _is_from_saved_tensors_hook(error: BaseException) -> bool:
    """Whether a hook on saved tensors stopped the graph. A checkpoint's hook stops a recomputation early, and that must
    not run a second time."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return hooks is not None and not isinstance(error, _OF_OPERATORS)


def _propagates(error: BaseException) -> bool:
    """Whether an error of the graph propagates. For any other, the frame runs again."""
    ours = not isinstance(error, Exception) or isinstance(error, WrongBackendResult)
    return ours or _is_from_saved_tensors_hook(error) or is_asynchronous(error)


def _error_to_raise(error: BaseException, name: str) -> BaseException | None:
    """The error if it propagates; None if the frame runs again. That is logged as a warning: if eager doesn't raise the
    error too, the graph or its backend is wrong."""
    if _propagates(error):
        return error
    if not isinstance(error, AssertionFailed):
        logs.breaks.warning(
            "the graph of %s raised %s: %s; running the function in eager", name, type(error).__name__, error
        )
    return None


_ERROR_TO_RAISE = _C.GraphCall(_error_to_raise)  # frames that it calls are not compiled


def graph_failure_handler(
    plan: Plan, reruns: types.CodeType | None, raiser: types.CodeType | None
) -> list[Instruction]:
    """The handler of the graph call; empty if its errors just leave the frame.

    ``reruns``: what is run in eager with the frame's arguments; None: an error leaves the frame. ``raiser``: the resume
    function that raises it inside the frame's block (`raising_code`)."""
    if reruns is None and raiser is None and not plan.undone:
        return []
    block = [emit.store_fast(_ERROR), *run(plan.undone)]
    if raiser is None:
        raises = [*emit.take_fast(_ERROR), emit.raise_top()]
    else:
        raises = _continue(raiser, [*raiser.co_varnames[: raiser.co_argcount - 1], _ERROR])
    if reruns is not None:
        args = [[emit.load_fast(_ERROR)], [emit.load_const(reruns.co_qualname)]]
        block += emit.call_function(_ERROR_TO_RAISE, args)
        block += [emit.store_fast(_ERROR), emit.load_fast(_ERROR), emit.jump_if_not_none(raises[0])]
        count = reruns.co_argcount + reruns.co_kwonlyargcount + (reruns.co_flags & _VARIADIC).bit_count()
        block += [*run(plan.rewound), *_continue(_eager_code(reruns, count), reruns.co_varnames[:count])]
    return [*block, *raises]


def _eager_code(code: types.CodeType, count: int) -> types.CodeType:
    """The same code, to be called with all arguments by position. It and its callees are never compiled."""
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~_VARIADIC
    )
    _C.mark_code(plain, _C.Mark.SKIP_RECURSIVE)
    return plain


def _continue(code: types.CodeType, names: Sequence[str]) -> list[Instruction]:
    """Return a continuation that calls ``code`` with the frame's closure and these locals."""
    block = emit.callee([emit.load_const(_C.Resume(code))])
    if code.co_freevars:
        block += [*map(emit.load_closure, code.co_freevars), emit.build("TUPLE", len(code.co_freevars))]
    else:
        block.append(emit.load_const(None))
    for name in names:  # the error's traceback refers to this frame
        block += emit.take_fast(name) if name == _ERROR else [emit.load_fast(name)]
    return [*block, *emit.call(len(names) + 1), emit.return_value()]
