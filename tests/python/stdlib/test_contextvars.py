"""``contextvars.ContextVar``: reads that are guarded, values that the program sets, and tokens."""

from __future__ import annotations

import asyncio
import contextvars
from contextvars import ContextVar

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight import break_reasons as reasons
from programs import check, checked, tensor

SCALE: ContextVar[float] = ContextVar("scale", default=2.0)
COLLECTED: ContextVar[dict[str, list[torch.Tensor]] | None] = ContextVar("collected", default=None)
UNSET: ContextVar[int] = ContextVar("unset")


@pytest.fixture(autouse=True)
def fresh_context():
    """Starts each test with the default values of the variables."""
    tokens = SCALE.set(2.0), COLLECTED.set(None)
    yield
    SCALE.reset(tokens[0])
    COLLECTED.reset(tokens[1])


def reads(x):
    return x * SCALE.get()


def reads_with_a_default(x):
    return x * UNSET.get(3)


def has_none(x):
    try:
        return x * UNSET.get()
    except LookupError as error:
        return x, error.args[0] is UNSET


def sets(x):
    token = SCALE.set(5.0)
    y = x * SCALE.get()
    SCALE.reset(token)
    return y, SCALE.get()


def sets_twice(x):
    outer = SCALE.set(3.0)
    inner = SCALE.set(4.0)
    y = x * SCALE.get()
    SCALE.reset(inner)
    z = y * SCALE.get()
    SCALE.reset(outer)
    return y, z, SCALE.get()


def collects(x):
    """Collects results in a context variable, as transformers does for the hidden states of layers."""
    token = COLLECTED.set({"hidden": []})
    try:
        y = x + 1
        found = COLLECTED.get()
        if found is not None:
            found["hidden"].append(y)
    finally:
        COLLECTED.reset(token)
    return y * 2, found


@pytest.mark.parametrize("fn", [reads, reads_with_a_default, has_none, sets, sets_twice, collects])
def test_in_one_graph(fn):
    check(fn, tensor(3), graphs=(0, 1), breaks=0)


def test_read_variables_are_guarded():
    compiled = dl.compile(reads, backend="eager", fullgraph=True)
    for scale in (2.0, 3.0, 2.0):
        SCALE.set(scale)
        assert torch.equal(compiled(tensor(3)), tensor(3) * scale)
    own = contextvars.Context()
    assert torch.equal(own.run(compiled, tensor(3)), tensor(3) * 2)
    assert torch.equal(own.run(lambda: SCALE.set(7.0) and compiled(tensor(3))), tensor(3) * 7)


def test_unset_then_set():
    compiled = dl.compile(reads_with_a_default, backend="eager", fullgraph=True)
    assert torch.equal(compiled(tensor(3)), tensor(3) * 3)

    def with_a_value():
        UNSET.set(4)
        return compiled(tensor(3))

    assert torch.equal(contextvars.copy_context().run(with_a_value), tensor(3) * 4)
    assert torch.equal(compiled(tensor(3)), tensor(3) * 3)


def test_set_variables_stay_set_after_the_call():
    def fn(x):
        y = x + SCALE.get()
        SCALE.set(6.0)
        return y, SCALE.set(7.0)

    compiled = dl.compile(fn, backend="eager", fullgraph=True)

    def run(call):
        y, token = call(tensor(3))
        found = SCALE.get(), token.old_value, token.var is SCALE
        SCALE.reset(token)
        return y, found, SCALE.get()

    expected = contextvars.copy_context().run(run, fn)
    for _ in range(2):
        found = contextvars.copy_context().run(run, compiled)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:] == ((7.0, 6.0, True), 6.0)


@checked(tensor(3), graphs=2, breaks=2)
def test_a_break_between_set_and_reset(x):
    token = COLLECTED.set({"hidden": []})
    try:
        y = x + 1
        dl.graph_break()
        COLLECTED.get()["hidden"].append(y)
        found = COLLECTED.get()
    finally:
        COLLECTED.reset(token)
    return y * 2, found, COLLECTED.get()


def test_overwritten_value_with_a_finalizer():
    class Noisy:
        def __init__(self, log):
            self.log = log

        def __del__(self):
            self.log.append(COLLECTED.get())

    def fn(x):
        y = x + 1
        COLLECTED.set("new")
        return y * 2

    def run(call):
        log = []
        COLLECTED.set(Noisy(log))
        return call(tensor(3)), log

    compiled = dl.compile(fn, backend="eager")
    contextvars.copy_context().run(compiled, tensor(3))
    expected, found = (contextvars.copy_context().run(run, each) for each in (fn, compiled))
    assert torch.equal(expected[0], found[0]) and expected[1] == found[1] == ["new"]


def test_a_reset_out_of_order():
    def fn(x):
        first = SCALE.set(3.0)
        SCALE.set(4.0)
        SCALE.reset(first)
        return x * SCALE.get()

    compiled = dl.compile(fn, backend="eager")
    assert torch.equal(compiled(tensor(3)), tensor(3) * 2)
    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))
    assert isinstance(caught.value.reason, reasons.ContextReset)


def test_each_task_has_its_own():
    compiled = dl.compile(reads, backend="eager")

    async def one(scale):
        SCALE.set(scale)
        await asyncio.sleep(0)
        return compiled(tensor(3))

    async def all_of_them():
        return await asyncio.gather(*map(one, (2.0, 3.0, 4.0)))

    for scale, found in zip((2.0, 3.0, 4.0), asyncio.run(all_of_them()), strict=True):
        assert torch.equal(found, tensor(3) * scale)
