"""Cached functions whose cache lacks the result, called after side effects: they run while tracing if they can't see
what was written, as a library's cache of parsed patterns can't."""

from __future__ import annotations

import functools
import itertools
import sys
import types

import pytest
import torch

import dynamo_lite as dl

REGISTRY: dict[str, int] = {}
SETTINGS = types.SimpleNamespace(factor=2)
NESTED = types.SimpleNamespace(inner=[SETTINGS])
FACTOR = 2
HERE = sys.modules[__name__]


class Parsed:
    """What a pattern says."""

    def __init__(self, text: str) -> None:
        self.count = len([*itertools.chain(text.split())])


class Reads:
    def factor(self) -> int:
        return SETTINGS.factor


@functools.lru_cache(None)
def parsed(text):
    return Parsed(text)


def reads_global():
    return FACTOR


def reads_object():
    return SETTINGS.factor


def reads_item():
    return NESTED.inner[0].factor


def reads_method():
    return Reads().factor()


def reads_called():
    return reads_object() + 1


def reads_by_module():
    return HERE.FACTOR


def reads_all():
    return globals()["FACTOR"]


def reads_default(given=SETTINGS):
    return given.factor


def made_reading(given):
    def reads_cell():
        return given.factor

    return reads_cell


def reads_inside():
    return [each.factor for each in (lambda: [SETTINGS])()]


READERS = (
    *(reads_global, reads_object, reads_item, reads_method, reads_called, reads_by_module, reads_all, reads_default),
    *(made_reading(SETTINGS), reads_inside),
)


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    monkeypatch.setattr(HERE, "FACTOR", 2)
    monkeypatch.setattr(SETTINGS, "factor", 2)
    REGISTRY.clear()
    parsed.cache_clear()


def test_function_that_cannot_see_the_effect():
    def fn(x, text):
        REGISTRY[text] = 1
        return x * parsed(text).count

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2), "a b c"), torch.full((2,), 3.0))
    assert REGISTRY == {"a b c": 1} and parsed.cache_info().currsize == 1


@pytest.mark.parametrize("reads", READERS, ids=lambda fn: fn.__name__)
def test_function_that_sees_the_effect(reads):
    cached = functools.lru_cache(None)(reads)

    def fn(x):
        global FACTOR
        SETTINGS.factor = FACTOR = 5
        y = x + 1
        return y, cached()

    expected = fn(torch.ones(2))[1]
    cached.cache_clear()
    HERE.FACTOR = SETTINGS.factor = 2
    found = dl.explain(fn)(torch.ones(2))
    assert found.result[1] == expected
    assert [each.reason.code for each in found.breaks] == ["DL0210"]


def test_argument_that_was_written():
    class Key:
        factor = 2

    cached, key = functools.lru_cache(None)(lambda key: key.factor), Key()

    def fn(x):
        key.factor = 5
        return x + 1, cached(key)

    assert dl.compile(fn, backend="eager")(torch.ones(2))[1] == 5
