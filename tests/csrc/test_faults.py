"""Every allocation and every call of CPython's that can fail, failing one after the other.

Whatever fails, the process goes on, a result is the right one or the error is the one that was made, nothing is lost or
freed twice, and the next call is right. ``make faults`` lets each of them fail, in a build whose calls can (see
``faulty_calls.cpp``); a usual run takes a sample of those of Python's allocators.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import random
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest

from dynamo_lite import _C
from fault_scenarios import SCENARIOS, Scenario, a_program_that_is_compiled, an_error_inside

testcapi = pytest.importorskip("_testcapi")
EXTENSION = ctypes.PyDLL(_C.__file__)
CAN_FAIL = hasattr(EXTENSION, "dl_faults_arm")
EVERY = os.environ.get("DL_FAULTS") == "every"
SEED = int(os.environ.get("DL_FAULTS_SEED", "7"))
SAMPLE = 20  # of a scenario's calls
MANY = 2000  # of a scenario with more calls there is a sample always
DEBUG = hasattr(sys, "gettotalrefcount")  # a CPython that asserts that nothing succeeds with an exception set
QUIET = 120  # runs without an error, one after the other: the allocations are behind


def _loses_code() -> bool:
    """Whether this CPython drops a reference too many to a function's code if the function can't be allocated. 3.12.1
    does: after some failures the code is freed while it is used.
    """

    def makes_function() -> object:
        return lambda: None

    (code,) = (each for each in makes_function.__code__.co_consts if isinstance(each, CodeType))
    before = sys.getrefcount(code)
    try:
        testcapi.set_nomemory(0, 1)
        makes_function()
    except MemoryError:
        pass
    finally:
        testcapi.remove_mem_hooks()
    loses = sys.getrefcount(code) < before
    if loses:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return loses


LOSES_CODE = _loses_code()

if CAN_FAIL:
    EXTENSION.dl_faults_last.restype = ctypes.c_char_p
    EXTENSION.dl_faults_arm.argtypes = [ctypes.c_long]


def is_made(error: BaseException | None) -> bool:
    """Whether an error was injected, or is a consequence of an injected one."""
    if isinstance(error, RuntimeError) and str(error) == "can't allocate lock":
        return True  # by CPython
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


def run(make: Callable[[], Scenario], begin: Callable[[], Any], end: Callable[[], Any]) -> tuple[bool, list[int]]:
    """Runs a scenario with failing calls, then without. Returns whether an error was raised, and the reference counts
    afterwards.
    """
    scenario = make()
    raised = False
    begin()
    try:
        found = scenario.run()
        end()
    except BaseException as error:
        end()
        assert is_made(error), error
        raised = True
    else:
        assert found == scenario.gives
        del found
    assert scenario.run() == scenario.gives, "afterwards"
    kept = scenario.inputs
    del scenario
    gc.collect()
    return raised, [sys.getrefcount(each) for each in kept]


def nothing() -> None:
    pass


def counts_of(make: Callable[[], Scenario]) -> list[int]:
    for _ in range(3):
        _, counts = run(make, nothing, nothing)
    return counts


def problem_of(
    make: Callable[[], Scenario], counts: list[int], begin: Callable[[], Any], end: Callable[[], Any]
) -> Any:
    """Whether the scenario raised while a call failed, and a description of what went wrong."""
    try:
        raised, left = run(make, begin, end)
    except Exception as error:
        end()
        return True, repr(error)
    return raised, "" if left == counts else f"references {left} instead of {counts}"


@pytest.mark.skipif(not CAN_FAIL, reason="the extension was built without -DDL_FAULTS")
@pytest.mark.parametrize("make", SCENARIOS)
def test_failing_calls_of_cpython_are_handled(make: Callable[[], Scenario], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # of a lock whose release fails; pytest's keeps frames
    counts = counts_of(make)
    run(make, lambda: EXTENSION.dl_faults_arm(10**9), nothing)
    total = EXTENSION.dl_faults_disarm()
    takes_all = EVERY and total < MANY
    places = range(total) if takes_all else random.Random(SEED).sample(range(total), min(SAMPLE, total))
    wrong = []
    for place in places:
        begin = functools.partial(EXTENSION.dl_faults_arm, place)
        _, problem = problem_of(make, counts, begin, EXTENSION.dl_faults_disarm)
        if problem:
            wrong.append((place, EXTENSION.dl_faults_last().decode(), problem))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("make", [each for each in SCENARIOS if each is not an_error_inside])
def test_failing_allocations_are_handled(make: Callable[[], Scenario], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the one in which CPython itself forgets an error: ``raise`` of an object, without memory. Of a whole
    compilation, most of which is CPython's, which may keep an argument then, references aren't counted."""
    if DEBUG and make is a_program_that_is_compiled:
        pytest.skip("CPython's os.stat(), which formats tracebacks, succeeds with a MemoryError set")
    if LOSES_CODE and make is a_program_that_is_compiled:
        pytest.skip("CPython loses a reference to the code of each function that it fails to make")
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # of a callback that fails; pytest's keeps frames
    counts = counts_of(make)
    counted = make is not a_program_that_is_compiled
    places = iter(range(MANY) if EVERY else random.Random(SEED).sample(range(600), SAMPLE))
    wrong, quiet = [], 0
    for place in places:
        begin = functools.partial(testcapi.set_nomemory, place, place + 1)
        raised, problem = problem_of(make, counts, begin, testcapi.remove_mem_hooks)
        if problem and (counted or not problem.startswith("references")):
            wrong.append((place, problem))
        quiet = 0 if raised else quiet + 1
        if quiet == QUIET:
            break
    assert not wrong, "\n".join(map(str, wrong))
