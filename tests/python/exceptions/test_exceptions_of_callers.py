"""The exception that a caller of the compiled function is handling: it is read at each call, and guarded."""

from __future__ import annotations

import contextlib
import sys

import pytest
import torch

import dynamo_lite as dl
from programs import tensor


def kinds_handled(x):
    return x + 1, sys.exc_info()[0]


def raises_again(x):
    x += 1
    raise


def leaves_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.callback(list)
        return x * 2


def in_a_handler(fn, x, *, of=KeyError):
    try:
        raise of("outside")
    except of:
        return fn(x)


@pytest.mark.parametrize("is_handled_first", [False, True])
def test_the_exception_that_a_caller_handles_is_read_at_each_call(is_handled_first):
    compiled, x = dl.compile(kinds_handled, backend="eager"), tensor(2)
    for is_handled in (is_handled_first, not is_handled_first, True, False):
        for error in (KeyError, ValueError):
            found = in_a_handler(compiled, x, of=error) if is_handled else compiled(x)
            assert torch.equal(found[0], x + 1) and found[1] is (error if is_handled else None)
    assert len(dl.entries(compiled)) <= 3  # a resume function reads it after a break


def test_a_bare_raise_raises_what_a_caller_handles():
    compiled, x = dl.compile(raises_again, backend="eager"), tensor(2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="No active exception to reraise"):
            compiled(x)
        with pytest.raises(KeyError, match="outside"):
            in_a_handler(compiled, x)


def test_an_exit_stack_outside_of_handlers_is_one_graph():
    compiled, x = dl.compile(leaves_a_stack, backend="eager"), tensor(2)
    with dl.config.patch(recompile_limit=2):
        assert torch.equal(compiled(x), x * 2) and len(dl.entries(compiled)) == 1
        assert torch.equal(in_a_handler(compiled, x), x * 2) and torch.equal(compiled(x), x * 2)
