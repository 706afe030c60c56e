"""The tests' harness itself: it detects each way in which a compiled program can be wrong."""

from __future__ import annotations

import sys
import types
import warnings

import pytest
import torch

import programs
from equality import Difference, Pairing
from programs import check, recompiling, tensor, watching


class Thing:
    def __init__(self, **values):
        self.__dict__.update(values)


STATE = 0


def write_state(value):
    sys.modules[__name__].STATE = value


def with_view(x):
    y = x + 1
    return y, y[0:2]


def with_no_grad_left(x):
    torch.set_grad_enabled(False)
    return x


def raising(x):
    raise ValueError(1)


def raising_elsewhere(x):
    x.dim()
    raise ValueError(1)


def raising_in_handler(x):
    try:
        raise KeyError
    except KeyError:
        raise ValueError(1)  # noqa: B904


WRONG = {
    "value": (lambda x: x + 1, lambda x: x + 2),
    "last bit": (lambda x: x + 1, lambda x: torch.nextafter(x + 1, x + 2)),
    "sign of zero": (lambda x: x * 0.0, lambda x: x * -0.0),
    "dtype": (lambda x: x.sum(), lambda x: x.sum().double()),
    "stride": (lambda x: torch.ones(2, 2), lambda x: torch.ones(2, 2).t()),
    "requires_grad": (lambda x: x + 1, lambda x: (x + 1).requires_grad_()),
    "type of a number": (lambda x: 1, lambda x: True),
    "negative zero": (lambda x: 0.0, lambda x: -0.0),
    "nan": (lambda x: float("nan"), lambda x: 1.0),
    "list for tuple": (lambda x: [1], lambda x: (1,)),
    "order of keys": (lambda x: {"a": 1, "b": 2}, lambda x: {"b": 2, "a": 1}),
    "items of a set": (lambda x: {1, 2}, lambda x: {1, 3}),
    "attribute": (lambda x: Thing(a=1), lambda x: Thing(a=2)),
    "order of attributes": (lambda x: Thing(a=1, b=2), lambda x: Thing(b=2, a=1)),
    "argument returned": (lambda x: x, lambda x: x.clone()),
    "alias among results": (lambda x: [x + 1] * 2, lambda x: [x + 1, x + 1]),
    "alias that should not be": (lambda x: [[], []], lambda x: [[]] * 2),
    "memory shared": (with_view, lambda x: (x + 1, (x + 1)[0:2])),
    "mutation": (lambda x: x.add_(1) and None if x.numel() == 1 else x.add_(1).sum(), lambda x: (x + 1).sum()),
    "output": (lambda x: print("a"), lambda x: print("b")),
    "warning": (lambda x: warnings.warn("a", stacklevel=1), lambda x: None),
    "exception missing": (raising, lambda x: x),
    "exception's args": (raising, lambda x: (_ for _ in ()).throw(ValueError(2))),
    "exception's line": (raising, raising_elsewhere),
    "exception's context": (raising_in_handler, raising),
    "random state": (lambda x: torch.rand(1).sum() * 0, lambda x: torch.zeros(())),
    "grad mode": (lambda x: x, with_no_grad_left),
    "global": (lambda x: write_state(1), lambda x: write_state(2)),
    "iterator": (lambda x: iter([1, 2]), lambda x: iter([1])),
    "function": (lambda x: lambda: x, lambda x: lambda: 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_harness_detects_a_wrong_program(name, monkeypatch):
    right, wrong = WRONG[name]
    wrong = types.FunctionType(wrong.__code__, wrong.__globals__, right.__name__, wrong.__defaults__, wrong.__closure__)
    monkeypatch.setattr(programs.dl, "compile", lambda fn, **settings: wrong)
    try:
        with pytest.raises(Difference):
            check(watching((sys.modules[__name__], "STATE"))(right), tensor(2), graphs=None)
    finally:
        torch.set_grad_enabled(True)


def test_harness_accepts_a_right_program(monkeypatch):
    monkeypatch.setattr(programs.dl, "compile", lambda fn, **settings: fn)
    for right, _ in WRONG.values():
        if right is not with_no_grad_left:
            check(right, tensor(2), graphs=None)


@pytest.mark.parametrize(
    "wanted",
    [{"graphs": 2}, {"graphs": 0}, {"graphs": (2, 3)}, {"operators": 1}, {"operators": 3}, {"breaks": 1}],
    ids=str,
)
def test_harness_detects_wrong_numbers(wanted):
    check(lambda x: x * 2 + 1, tensor(2), graphs=1, operators=2, breaks=0)
    with pytest.raises(AssertionError, match="wanted"):
        check(lambda x: x * 2 + 1, tensor(2), **wanted)


def test_harness_detects_a_compilation_at_every_call():
    def fn(x):
        global STATE
        STATE += 1
        return x + STATE

    check(watching("STATE")(recompiling(fn)), tensor(2))
    with pytest.raises(AssertionError, match="compiled again"):
        check(watching("STATE")(fn), tensor(2))


def test_pairing_sees_nested_paths():
    with pytest.raises(Difference, match=r"where\['a'\]\[1\]"):
        Pairing().compare({"a": [1, 2]}, {"a": [1, 3]}, "where")
