"""Under ``dl.enable``, past the allowance, a frame is translated when it has run for as long as that may take."""

from __future__ import annotations

import gc
import logging
import math

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.compiler.budget import TranslationBudget
from dynamo_lite.compiler.frame_compiler import FrameCompiler
from frames import define
from processes import run_program
from shared_programs import breaks


def scale(x, by):
    return x * by + 1


def functions(count):
    """Returns so many functions, each with its own code."""
    return [define(f"def fn(x): return x * {number} + 1").fn for number in range(count)]


def test_within_the_allowance_frames_are_translated_at_their_first_call():
    for allowance in (60.0, math.inf):
        dl.counters.reset()
        fns = functions(5)
        with dl.config.patch(enable_allowance=allowance), dl.enable("eager"):
            for number, fn in enumerate(fns):
                assert torch.equal(fn(torch.ones(2)), torch.ones(2) * number + 1)
        assert dl.counters.graphs == 5 and dl.counters.waits == 0


def test_past_the_allowance_frames_that_run_once_are_skipped():
    fns = functions(50)
    with dl.config.patch(enable_allowance=0.0), dl.enable("eager"):
        for _ in range(2):  # what nothing is known of yet is expected to cost nothing
            scale(torch.ones(2), 2)
        assert (dl.counters.graphs, dl.counters.waits) == (1, 1)
        for number, fn in enumerate(fns):
            assert torch.equal(fn(torch.ones(2)), torch.ones(2) * number + 1)
    assert (dl.counters.graphs, dl.counters.waits) == (1, 51)


def without_tensors(count):
    """Returns so many functions without tensor operations, each with its own code."""
    return [define(f"def fn(a, b={number}): return [a + b, a]").fn for number in range(count)]


def test_frames_that_capture_nothing_use_up_the_allowance():
    fns = without_tensors(50)
    with dl.config.patch(enable_allowance=1e-9), dl.enable("eager"):
        for number, fn in enumerate(fns):
            assert fn(1) == [1 + number, 1]
    assert (dl.counters.graphs, dl.counters.waits) == (0, 49)  # the first uses it up


def asked_of(fns, allowance):
    """Returns the code objects for which a block's callback is called when each function runs once."""
    asked, compiler_type = [], FrameCompiler

    class Asked(compiler_type):
        def __call__(self, view):
            asked.append(view.code)
            return super().__call__(view)

    with pytest.MonkeyPatch.context() as patch, dl.config.patch(enable_allowance=allowance):
        patch.setattr("dynamo_lite.api.FrameCompiler", Asked)
        with dl.enable("eager"):
            for fn in fns:
                fn(1)
    return [code for code in asked if any(code is fn.__code__ for fn in fns)]


def test_past_the_allowance_new_code_is_delayed_without_a_callback():
    fns = without_tensors(50)
    assert len(asked_of(fns, math.inf)) == 50
    fns = without_tensors(50)
    assert len(asked_of(fns, 1e-9)) == 2  # what uses it up, and what notices that
    assert dl.counters.waits == 49


KINDS = {
    "functions": "exec(f'def fn(a): return [a, {number}]', names := {}); names['fn'](1)",
    "classes": "exec(f'class C:\\n  def b(self): return [self, {number}]', names := {}); names['C']().b()",
    "named tuples": "collections.namedtuple('T', f'a{number} b')(1, 2)",
    "typed named tuples": "typing.NamedTuple('T', [(f'a{number}', int), ('b', int)])(1, 2)",
    "data classes": "dataclasses.make_dataclass('D', [(f'a{number}', int), ('b', int)])(1, 2)",
}


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_code_is_made_its_misses_cost_no_more_than_the_allowance(kind):
    """In processor time, beyond what it costs without `dl.enable`. An owner that spends as it likes takes many times as
    long for any of these."""
    program = f"""
import collections, dataclasses, time, typing
import torch
import dynamo_lite as dl

def run(count):
    began = time.process_time()
    for number in range(count):
        {KINDS[kind]}
    return time.process_time() - began

run(1000)
plain = run(1000)
with dl.enable("eager"):
    run(1)
    dl.reset()
    with dl.config.patch(enable_allowance=0.1):
        enabled = run(1000)
print(enabled - plain, dl.counters.waits)
"""
    done = run_program(program, "torch")
    more, waits = map(float, done.stdout.split())
    assert waits > 500 and more < 0.2, done.stderr


def test_functions_of_equal_code_wait_each():
    fns = [define("def fn(a): return [a, a]").fn for _ in range(20)]
    assert fns[0].__code__ == fns[1].__code__
    with dl.config.patch(enable_allowance=0.0), dl.enable("eager"):
        for fn in fns:
            assert fn(1) == [1, 1]
    assert dl.counters.waits == 20


def test_records_of_deallocated_code_are_dropped():
    with dl.config.patch(enable_allowance=0.0), dl.enable("eager"):
        owner, fns = dl._C.current_owner(), without_tensors(20)
        for fn in fns:
            fn(1)
        codes = {id(fn.__code__) for fn in fns}
        assert codes <= {*map(id, owner.codes())}
        del fn, fns
        gc.collect()
        assert codes.isdisjoint(map(id, owner.codes()))


def test_frames_without_tensors_dont_import_what_graphs_need():
    """A process without tensors pays for the translation only."""
    program = """
import sys
import torch
import dynamo_lite as dl

def fn(a, b=2):
    return [a + b, a]

with dl.enable("eager"):
    assert fn(1) == [3, 1]
    print("sympy" in sys.modules, "torch._dynamo" in sys.modules, dl.counters.skips > 0)
    assert torch.equal(torch.nn.ReLU()(torch.ones(2)), torch.ones(2))
    print(dl.counters.graphs)
"""
    done = run_program(program, "torch")
    assert done.stdout.split() == ["False", "False", "True", "1"], done.stderr


def test_a_loop_gets_its_third_shape():
    """Each frame is eventually translated for its own shape: on a busy machine after many calls."""
    with dl.config.patch(enable_allowance=0.0), dl.enable("eager"):
        for rows, graphs in ((3, 1), (4, 2), (1, 3)):
            while dl.counters.graphs < graphs:
                assert torch.equal(scale(torch.ones(rows), 2), torch.ones(rows) * 3)
        assert dl.counters.graphs == 3
        waits = dl.counters.waits
        for rows in (3, 4, 1, 5):
            scale(torch.ones(rows), 2)
    assert dl.counters.waits == waits  # all have their entries


@pytest.mark.parametrize("fullgraph", [False, True])
def test_explicitly_compiled_functions_are_translated_at_once(fullgraph):
    fns = [dl.compile(fn, backend="eager", fullgraph=fullgraph) for fn in functions(3)]
    with dl.config.patch(enable_allowance=0.0), dl.enable("eager"):
        for number, fn in enumerate(fns):
            assert torch.equal(fn(torch.ones(2)), torch.ones(2) * number + 1)
    assert dl.counters.graphs == 3


def test_log_names_delayed_frames(caplog):
    caplog.set_level(logging.INFO, "dynamo_lite.perf")
    with dl.config.patch(enable_allowance=0.0), dl.enable("eager"):
        scale(torch.ones(2), 2)
    assert "scale (" in caplog.text and "runs in eager until that took 0.000 s" in caplog.text


def test_reset_gives_the_allowance_back():
    fns = functions(4)
    with dl.config.patch(enable_allowance=1e-9), dl.enable("eager"):
        owner = dl._C.current_owner()
        for fn in fns:
            fn(torch.ones(2))
        assert dl.counters.graphs == 1 and owner.has_spent_allowance  # the first uses it up
        spent = owner.spent
        dl.reset()
        assert owner.spent < spent and owner.wait_of_new == 0.0


def works(x):
    for _ in range(300):
        x = x + 1
    return x


def calls(x):
    return works(x) * 2


def operators_of_first():
    """Returns how many operators are translated first."""
    with dl.enable("eager"):
        for fn in functions(10):
            fn(torch.ones(2))
        dl.counters.reset()
        with dl.config.patch(enable_allowance=0.0):
            while not dl.counters.graphs:
                assert torch.equal(calls(torch.ones(2)), torch.ones(2) * 602)
    return dl.counters.operators


def test_a_second_of_eager_counts_for_one_frame():
    """The frame in which it passes, rather than all of its callers: else each of them is translated for it. (The caller
    comes first where the machine stops in its own few instructions for long, which is not so three times.)"""
    found = []
    while len(found) < 3 and 300 not in found:
        found.append(operators_of_first())
        dl.reset()
    assert found[-1] == 300, found


def test_translation_that_exceeds_its_expected_cost_is_abandoned(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "dynamo_lite.perf")
    right, limits = torch.ones(2) * 4, iter([0.0])
    monkeypatch.setattr(TranslationBudget, "limit", lambda self, view: next(limits, math.inf))
    found, graphs = [], []
    with dl.config.patch(enable_allowance=0.0), dl.enable("eager"):
        for _ in range(2):  # it waits for nothing, and is given up after the attempt that finds the break
            found.append(breaks(torch.ones(2)))
        graphs.append(dl.counters.graphs)
        while dl.counters.graphs < 2:
            found.append(breaks(torch.ones(2)))
    assert graphs == [0] and dl.counters.graphs == 2  # before the break, and after it
    assert all(torch.equal(each, right) for each in found)
    assert "translating breaks was given up after" in caplog.text


class Owner:
    """Stands in for the hook's owner."""

    spent = wait_of_new = 0.0

    @property
    def has_spent_allowance(self):
        return self.spent >= dl.config.enable_allowance


class View:
    """Stands in for the hook's view of a frame."""

    def __init__(self, code, owner):
        self.code, self.owner, self.entries, self.cost, self._has_waited = code, owner, 0, 0.0, False

    def set_cost(self, seconds):
        self.cost = seconds

    def asks(self, budget):
        """Returns the budget's decision about the frame. A delay is applied."""
        seconds = budget.wait(self)
        self._has_waited = seconds is not None
        return seconds

    def end_wait(self):
        return self._has_waited


def test_expected_cost_of_a_frame():
    """It is the time of the last translation of its code, or the average of all translations."""
    owner, budget = Owner(), TranslationBudget()
    view, other = View(scale.__code__, owner), View(functions.__code__, owner)

    def note(seconds):
        owner.spent += seconds
        budget.note(view, seconds, made_entry=True)

    with dl.config.patch(enable_allowance=1.0):
        note(60.0)  # it imports what translating needs
        note(0.5)
        assert view.asks(budget) is None
        assert budget.limit(view) == math.inf and owner.wait_of_new == 0.0
        note(1.5)
        assert view.asks(budget) == 1.5 and other.asks(budget) == 1.0 == owner.wait_of_new
        assert view.asks(budget) is None and view.asks(budget) == 1.5
        assert budget.limit(view) == 6.0 and budget.limit(other) == 4.0
        assert view.asks(budget) is None and budget.give_up(view, 7.0) == 14.0
