"""State of the process and its surroundings: random numbers, time, environment, files, identifiers."""

from __future__ import annotations

import datetime
import os
import secrets
import sys
import tempfile
import threading
import time
import uuid

import numpy

from collector import Programs
from processes import run_program
from programs import check, checked, recompiling, tensor

programs = Programs()


@programs(tensor(2), graphs=None)
@recompiling
def random_numbers_of_numpy(x):
    numpy.random.seed(3)
    a = numpy.random.rand()
    rng = numpy.random.default_rng(1)
    return x * a, rng.integers(5), numpy.random.randint(0, 9)


@programs(tensor(2), graphs=None)
def time_goes_on(x):
    start = time.perf_counter()
    y = x + 1
    took = time.perf_counter() - start
    return y, took >= 0, time.time() > 0, time.monotonic() > 0


@programs(tensor(2), graphs=None)
def dates(x):
    day = datetime.date(2024, 2, 28) + datetime.timedelta(days=2)
    now = datetime.datetime.now()
    return x + day.day, day.isoformat(), now.year > 2000


@programs(tensor(2), graphs=None)
def identifiers(x):
    a, b = uuid.uuid4(), secrets.token_hex(4)
    return x + 1, a != uuid.uuid4(), len(b), str(uuid.UUID(int=5))


def test_reads_of_the_environment_are_guarded():
    def fn(x):
        scale = int(os.environ.get("DL_TEST_SCALE", "2"))
        return x * scale, "DL_TEST_SCALE" in os.environ, os.getenv("DL_TEST_OTHER")

    def program(x, value):
        if value:
            os.environ["DL_TEST_SCALE"] = value
        try:
            return fn(x)
        finally:
            os.environ.pop("DL_TEST_SCALE", None)

    check(program, tensor(2), "3", graphs=None, others=[(tensor(2), ""), (tensor(2), "5"), (tensor(2), "3")])


@checked(tensor(2), graphs=1)
def test_the_environment_is_read_in_a_graph(x):
    return x * int(os.environ.get("DL_TEST_SCALE", "2"))


@programs(tensor(2), graphs=None)
def files(x):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        with open(path, "w") as file:
            file.write("12")
        y = x + 1
        with open(path) as file:
            n = int(file.read())
        there = os.path.exists(path)
    return y * n, there, os.path.exists(path)


@programs(tensor(2))
def facts_of_the_interpreter(x):
    newer = sys.version_info >= (3, 8)
    facts = sys.maxsize > 2**31, sys.platform, sys.byteorder, sys.version_info[:2], sys.version_info.major, os.name
    return x + 1, newer, facts


def test_the_types_of_the_interpreters_facts_are_not_kept():
    """A debug build of CPython asserts at exit that these types have no other references. Torch keeps arguments of
    its operators.
    """
    program = """
import sys, torch
kinds = [type(getattr(sys, name)) for name in ("version_info", "flags", "float_info", "int_info", "hash_info")]
before = [*map(sys.getrefcount, kinds)]
import dynamo_lite
assert [*map(sys.getrefcount, kinds)] == before
"""
    done = run_program(program)
    assert done.returncode == 0, done.stderr


@programs(tensor(2))
def modules_by_name(x):
    return x + 1, "torch" in sys.modules, sys.modules["math"].pi, sys.modules[__name__].tensor is tensor


@programs(tensor(2), graphs=None)
def threads(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(x + 1))
    thread.start()
    thread.join()
    return found[0] * 2, threading.current_thread() is threading.main_thread()


@programs(tensor(2), graphs=None)
def a_lock_is_held(x):
    lock = threading.Lock()
    with lock:
        y = x + 1
        held = lock.locked()
    return y * 2, held, lock.locked()


@programs(tensor(2), graphs=None)
def an_exit_is_an_exception(x):
    try:
        sys.exit(3)
    except SystemExit as stop:
        return x + stop.code


test_process = programs.test()
