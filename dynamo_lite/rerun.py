"""What generated code does where its graph raises: run the frame as it is, from its beginning.

An operator that fails on the data (an index out of range, a singular matrix) raises in the graph's call, before any
side effect of the frame is replayed and outside of the program's ``try``. So where the program may tell the difference
the frame is run again by CPython: it raises at its own line, after its own effects, into its own handlers. The same is
done where a condition on data, of which one outcome only raises, is not as the trace took it to be.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any

import torch

from . import _C, logs
from .bytecode import emit
from .bytecode.instructions import Instruction
from .exc import WrongBackendResult

_ERROR = "___error"
_VARIADIC = CO_VARARGS | CO_VARKEYWORDS


class Unexpected(Exception):
    """A condition is not what the trace took it to be."""


def as_expected(compiled: Callable[..., Any], expected: list[bool]) -> Callable[..., Any]:
    """A compiled graph whose last results are to have these truth values; it returns those before."""
    count = len(expected)

    def call(*inputs: Any) -> Any:
        before = [(each, each.get_state()) for each in _generators()]
        results = compiled(*inputs)
        for condition, truth in zip(results[-count:], expected, strict=True):
            if bool(condition) is not truth:
                for generator, state in before:
                    generator.set_state(state)
                raise Unexpected
        return results[:-count]

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


def _note(error: BaseException, name: str) -> None:
    """Said aloud: if the program doesn't raise it as well, the fault is the graph's or its backend's."""
    if not isinstance(error, Exception) or isinstance(error, WrongBackendResult) or _is_of_a_hook(error):
        raise error
    if isinstance(error, Unexpected):
        return
    logs.breaks.warning("the graph of %s raised %s: %s; running it as it is", name, type(error).__name__, error)


_NOTE = _C.GraphCall(_note)  # nothing that it calls is compiled


def rerun(code: types.CodeType) -> list[Instruction]:
    """Where the graph's call raises to: calls ``code`` in the frame's place, with the arguments it was given."""
    count = code.co_argcount + code.co_kwonlyargcount + (code.co_flags & _VARIADIC).bit_count()
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~_VARIADIC
    )
    _C.mark_code(plain, _C.MARK_SKIP_RECURSIVE)
    block = [emit.store_fast(_ERROR), emit.push_null(), emit.load_const(_NOTE), emit.load_fast(_ERROR)]
    block += [emit.load_const(code.co_qualname), *emit.call(2), emit.pop_top(), emit.make("DELETE_FAST", _ERROR)]
    block += [emit.push_null(), emit.load_const(_C.Resume(plain))]
    if code.co_freevars:
        block += [*map(emit.load_closure, code.co_freevars), emit.make("BUILD_TUPLE", len(code.co_freevars))]
    else:
        block.append(emit.load_const(None))
    block += map(emit.load_fast, code.co_varnames[:count])
    return [*block, *emit.call(count + 1), emit.return_value()]
