"""Programs whose backward, hook or recomputation reads something: all of the process's state, and a sample of the rest.
``make fuzz`` runs all of them."""

from __future__ import annotations

import random

import pytest

from backward_programs import ORDERS, Program, difference, drawn, is_excepted
from backward_states import STATES


@pytest.mark.changes_what_is_guarded
@pytest.mark.parametrize("place", ["a backward", "a tensor's hook"])
@pytest.mark.parametrize("state", STATES)
def test_state(state, place):
    """It changes between the call and the backward."""
    assert not difference(Program("contiguous", state, place, "a factor", ORDERS[1]))[0]


@pytest.mark.changes_what_is_guarded
@pytest.mark.parametrize("seed", range(80))
def test_sample(seed):
    program = drawn(random.Random(seed))
    backend = "aot_eager" if seed % 3 == 2 and not is_excepted(program) else "eager"
    found, *_ = difference(program, backend)
    assert not found, f"{program}, {backend}: {found}\n{program.source()}"


OTHERS = (
    "of a subclass",
    "that is a parameter",
    "with an attribute",
    "that is negated",
    "of inference mode",
    "that is sparse",
)
ABOUT_THEM = "type(g) is torch.Tensor", "getattr(g, 'tag', 0)", "g.is_neg()", "g.layout is torch.strided", "g.numel()"


@pytest.mark.parametrize("place", ["a backward", "a tensor's hook", "a callable object"])
@pytest.mark.parametrize("gradient", OTHERS)
def test_gradient_that_is_no_plain_tensor(gradient, place):
    for read in ABOUT_THEM:
        found, graphs, breaks = difference(Program(gradient, read, place, "a factor", "backward"))
        assert not found, read
        assert graphs == 1 and not breaks
