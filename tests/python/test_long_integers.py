"""Integers with more digits than Python converts to decimal: in guards and in messages."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl

LONG = 10**5000
KEYS = {LONG: 2, "a": 1}
NESTED = (1, (LONG, 2))


class Settings:
    limit = LONG


settings = Settings()


def of_global(x):
    return x + (1 if LONG > 3 else 0)


def of_attribute(x):
    return x + (1 if settings.limit > 3 else 0)


def of_tuple(x):
    return x + (1 if NESTED[1][0] > 3 else 0)


def of_keys(x):
    return x + KEYS[LONG] + len([each for each in KEYS if each != "a"])


def of_set(x):
    return x + (1 if LONG in {LONG, 3} else 0)


def of_default(x, n=LONG):
    return x + n % 7


def with_break(x):
    doubled = LONG * 2
    dl.graph_break()
    return x + (1 if doubled > LONG else 0)


@pytest.mark.parametrize(
    "program", [of_global, of_attribute, of_tuple, of_keys, of_set, of_default, with_break], ids=lambda fn: fn.__name__
)
def test_guard_on_long_integer(program):
    compiled = dl.compile(program, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), program(torch.ones(2)))
    assert dl.counters.graphs >= 1
    entries = dl.entries(compiled)
    assert all(each.guards and each.code_text() for each in entries)
    assert str(dl.explain(program)(torch.ones(2)))


def test_long_integer_that_changes_is_reported(caplog):
    caplog.set_level("INFO", "dynamo_lite.recompiles")
    compiled = dl.compile(lambda x, n: x + (1 if n > LONG else 0), backend="eager", dynamic=False)
    assert compiled(torch.zeros(1), LONG).item() == 0
    assert compiled(torch.zeros(1), LONG + 1).item() == 1
    assert compiled(torch.zeros(1), LONG).item() == 0
    assert len(compiled.entries()) == 2 and hex(LONG)[:20] in caplog.text


def test_exception_with_a_long_integer_is_raised():
    def program(x, n):
        raise KeyError(n)

    with pytest.raises(KeyError) as caught:
        dl.compile(program, backend="eager")(torch.ones(2), LONG)
    assert caught.value.args == (LONG,)


def test_text_of_a_long_integer_raises_as_in_eager():
    def program(x, n):
        try:
            return x, str(n)
        except ValueError:
            return x + 1, "too long"

    assert dl.compile(program, backend="eager")(torch.ones(2), LONG)[1] == "too long"
