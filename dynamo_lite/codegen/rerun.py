"""What generated code does where its graph raises: run the frame as it is, from its beginning.

An operator that fails on the data (an index out of range, a singular matrix) raises in the graph's call, before any
side effect of the frame is replayed, outside of the program's ``try`` and at another line. So the frame is run again by
CPython: it raises at its own line, after its own effects, into its own handlers. The same is done where a condition on
data, of which one outcome only raises, is not as the trace took it to be.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from dynamo_lite import _C, logs
from dynamo_lite.bytecode import emit
from dynamo_lite.bytecode.instructions import Instruction
from dynamo_lite.exc import WrongBackendResult
from dynamo_lite.records.runtime_assertions import AssertionFailures
from dynamo_lite.runtime.interrupts import is_from_signal_handler

_ERROR = "___failure"
"""Not the name of what a resume function raises, which is an argument of its frame."""
_VARIADIC = CO_VARARGS | CO_VARKEYWORDS


class Unexpected(Exception):
    """A condition is not what the trace took it to be."""


def checking_assertions(
    compiled: Callable[..., Any], expected: list[bool], unmet: AssertionFailures | None
) -> Callable[..., Any]:
    """A compiled graph whose last results are to have these truth values; it returns those before. ``unmet`` counts
    where they don't."""
    count = len(expected)

    def call(*inputs: Any) -> Any:
        before = [(each, each.get_state()) for each in _generators()]
        results = compiled(*inputs)
        for at, (condition, truth) in enumerate(zip(results[-count:], expected, strict=True)):
            if bool(condition) is not truth:
                for generator, state in before:
                    generator.set_state(state)
                if unmet is not None:
                    unmet.add(at)
                raise Unexpected
        if unmet is not None:
            unmet.count = 0
        return results[:-count]

    return call


def restoring_inputs(compiled: Callable[..., Any], written: Sequence[int]) -> Callable[..., Any]:
    """A compiled graph that leaves the inputs that it writes into as they were where the frame is run again.
    ``written``: which of its inputs, as `GraphBuilder.can_restore_inputs` allows."""

    def call(*inputs: Any) -> Any:
        tensors = tuple(inputs[at] for at in written)
        copies = [each.clone() for each in tensors]
        versions = _unsafe_preserve_version_counter(tensors)
        try:
            return compiled(*inputs)
        except Exception as error:
            if not _is_raised(error):
                with versions:  # what was saved for a backward is as it was
                    for tensor, copy in zip(tensors, copies):
                        tensor.copy_(copy)
            raise

    return call


def _generators() -> Iterable[torch.Generator]:
    """Where graphs draw random numbers from."""
    yield torch.default_generator
    if torch.cuda.is_initialized():
        yield from torch.cuda.default_generators


_OF_OPERATORS = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError)


def _is_of_a_hook(error: Exception) -> bool:
    """Whether a hook on what autograd saves stopped the graph, as that of a checkpoint does when it recomputes and has
    what it needs: it may be run no second time."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return hooks is not None and not isinstance(error, _OF_OPERATORS)


def _is_raised(error: BaseException) -> bool:
    """Whether a graph's error is raised; else the frame is run again."""
    ours = not isinstance(error, Exception) or isinstance(error, WrongBackendResult)
    return ours or _is_of_a_hook(error) or is_from_signal_handler(error)  # type: ignore[arg-type]


def _to_raise(error: BaseException, name: str) -> BaseException | None:
    """The error if it is to be raised; None if the frame is run again. That is said aloud: if the program doesn't raise
    it as well, the fault is the graph's or its backend's."""
    if _is_raised(error):
        return error
    if not isinstance(error, Unexpected):
        logs.breaks.warning("the graph of %s raised %s: %s; running it as it is", name, type(error).__name__, error)
    return None


_TO_RAISE = _C.GraphCall(_to_raise)  # nothing that it calls is compiled


def graph_failure_handler(
    code: types.CodeType,
    again: bool,
    inside: types.CodeType | None,
    restores: Iterable[Instruction],
    put_back: Sequence[Instruction] = (),
) -> list[Instruction]:
    """Where the graph's call raises to; nothing if that is out of the frame. ``again``: ``code`` is run as it is, with
    the frame's arguments, after ``restores``. ``inside``: what raises an error where the frame goes on
    (`raising_code`). ``put_back``: undoes what was done before the call, in any case."""
    if not again and inside is None and not put_back:
        return []
    block = [emit.store_fast(_ERROR), *put_back]
    if inside is None:
        raises = [*_take(_ERROR), emit.make("RAISE_VARARGS", 1)]
    else:
        raises = _continue(inside, [*inside.co_varnames[: inside.co_argcount - 1], _ERROR])
    if again:
        asked = [[emit.load_fast(_ERROR)], [emit.load_const(code.co_qualname)]]
        block += emit.call_function([emit.load_const(_TO_RAISE)], asked)
        block += [emit.store_fast(_ERROR), emit.load_fast(_ERROR), emit.jump_if_not_none(raises[0])]
        count = code.co_argcount + code.co_kwonlyargcount + (code.co_flags & _VARIADIC).bit_count()
        block += [*restores, *_continue(_as_it_is(code, count), code.co_varnames[:count])]
    return [*block, *raises]


def _take(name: str) -> list[Instruction]:
    """Load it and let go of it: an error's traceback holds this frame."""
    return [emit.load_fast(name), emit.make("DELETE_FAST", name)]


def _as_it_is(code: types.CodeType, count: int) -> types.CodeType:
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~_VARIADIC
    )
    _C.mark_code(plain, _C.MARK_SKIP_RECURSIVE)
    return plain


def _continue(code: types.CodeType, names: Sequence[str]) -> list[Instruction]:
    """Return a continuation that calls ``code``, whose closure is the frame's, with these locals."""
    block = [emit.push_null(), emit.load_const(_C.Resume(code))]
    if code.co_freevars:
        block += [*map(emit.load_closure, code.co_freevars), emit.make("BUILD_TUPLE", len(code.co_freevars))]
    else:
        block.append(emit.load_const(None))
    for name in names:
        block += _take(name) if name == _ERROR else [emit.load_fast(name)]
    return [*block, *emit.call(len(names) + 1), emit.return_value()]
