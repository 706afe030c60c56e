"""Guard checks with other code in between, and calls that CPython refuses: no stale value, no error left set."""

from __future__ import annotations

import gc
import io
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from dynamo_lite import _C
from frames import Token
from guard_probe import Probe, check_holds, probe, probed, takes
from processes import run_program


class File(io.BytesIO):
    """A raw file under a TextIOWrapper. The wrapper's C getter of ``name`` calls the one of this class."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self.then = then

    @property
    def name(self) -> str:
        self.then()
        return "file"


def frame_of(code: types.CodeType) -> tuple[Any, ...]:
    return (None,) * (code.co_nlocals + len(code.co_freevars))


def test_numbers_are_compared_at_the_recursion_limit() -> None:
    number, depths = 10**20, []

    def look(p: Probe) -> None:
        p.demand(p.argument, "equals", number + 0)

        def descend() -> None:
            depths.append(p.tree.lookup(p.view))
            descend()

        with pytest.raises(RecursionError):
            descend()

    probe(number, look)
    assert len(depths) > 100 and None not in depths


def test_class_changed_by_a_getter_during_its_check() -> None:
    class Changing:
        shared = 1

    def change() -> None:
        if Changing.shared == 1:
            Changing.shared = 2
        assert Changing.shared == 2  # gives the class a new version

    Changing.file = io.TextIOWrapper(File(change))

    def look(p: Probe) -> None:
        p.demand(p.at(("type_attr", "shared")), "equals", 1)
        p.demand(p.at(("type_attr", "file"), ("c_attr", "name")), "present")
        assert p.tree.lookup(p.view) is not None
        assert p.tree.lookup(p.view) is None

    assert Changing.shared == 1
    probe(Changing, look)


def test_tree_checked_by_a_getter_that_it_calls() -> None:
    inner: list[Any] = []

    def ask() -> None:
        inner.append((p.tree.test(p.view), p.tree.lookup(p.view)))

    def look(made: Probe) -> None:
        nonlocal p
        p = made
        p.demand(p.at(("c_attr", "name")), "equals", "file")
        assert p.tree.lookup(p.view) is not None

    p: Any = None
    probe(io.TextIOWrapper(File(ask)), look)
    ((failure, captured),) = inner
    assert (failure.kind, failure.words, captured) == ("present", "the guards are at work", None)


FIRST_GUARD = """
import builtins, itertools
from dynamo_lite import _C

real, asked = builtins.__import__, []
def replaced(name, *rest):
    asked.append(name)
    return real(name, *rest)

tree = _C.GuardTree((lambda numbers: numbers).__code__)
tree.check(tree.child(tree.child(0, "local", "numbers"), "next_number", None), "equals", 3, "numbers")
builtins.__import__ = replaced
assert tree.lookup((itertools.count(3),)) == () and not asked, asked
"""


def test_the_first_guard_of_a_kind_imports_nothing() -> None:
    """What is looked up once and for all lets no other code in: a thread that came to it then would wait for it."""
    done = run_program(FIRST_GUARD, "torch")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("asked_before", [False, True])
def test_object_in_deallocation_is_not_captured(asked_before: bool) -> None:
    token, seen = Token(), []
    tree = _C.GuardTree(takes.__code__)
    tree.capture(tree.child(0, "const", token))
    if asked_before:
        assert [tree.lookup((None,)) for _ in range(4)] == [(token,)] * 4
    later = weakref.ref(token, lambda _: seen.append(tree.lookup((None,))))  # is called before the tree's
    del token
    assert seen == [None] and later() is None and not tree.valid


class Plain(TorchFunctionMode):
    pass


def test_modes_changed_while_the_check_reads_them() -> None:
    outer, inner = Plain(), Plain()
    popped: list[Any] = []

    def pop(phase: str, _: Any) -> None:
        if phase == "start" and not popped:
            popped.append(torch._C._pop_torch_function_stack())

    changed = 0
    with outer, inner:
        threshold = gc.get_threshold()
        for ahead in range(1, 12):  # allocations before the one that collects garbage
            gc.collect()
            gc.set_threshold(ahead)
            gc.callbacks.append(pop)
            try:
                state = _C.GlobalState()
            finally:
                gc.callbacks.remove(pop)
                gc.set_threshold(*threshold)
            changed += len(popped)
            while popped:
                torch._C._push_on_torch_function_stack(popped.pop())
            tree = _C.GuardTree(takes.__code__)
            tree.check(0, "global_state", state, "torch")
            failure = tree.test((None,))
            assert failure is None or any("torch function" in what for what, *_ in failure.differences)
    assert torch._C._len_torch_function_stack() == 0 and changed


def test_tuple_of_locals_has_no_closure_globals_or_function() -> None:
    def with_closure() -> Any:
        return with_closure

    for kind, arg in [("closure", 0), ("globals", None), ("builtins", None), ("function", None)]:
        tree = _C.GuardTree(with_closure.__code__)
        tree.check(tree.child(0, kind, arg), "present", None, "there")
        failure = tree.test(frame_of(with_closure.__code__))
        assert failure is not None and failure.words == "nothing there"


def test_reading_a_gradient_warns_of_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    no_leaf = torch.ones(2, requires_grad=True) * 2
    check_holds(no_leaf, "id", None, ("c_attr", "grad"))
    assert capfd.readouterr().err == ""


class Unready(io.BytesIO):
    @property
    def name(self) -> str:
        raise MemoryError


@probed(io.TextIOWrapper(Unready()))
def test_failing_getter_differs_from_a_missing_attribute(p: Probe, _: Any) -> None:
    p.demand(p.at(("c_attr", "name")), "unbound")
    assert p.failure().words == "a value that cannot be read that way"
