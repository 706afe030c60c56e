"""Processes that are forked inside compiled calls, or beside threads that are in one."""

from __future__ import annotations

import pytest

from processes import run_program

BEGIN = """
import contextlib, gc, os, sys, threading, warnings
import torch
from torch._subclasses import FakeTensorMode
import dynamo_lite as dl
from dynamo_lite import _C

with FakeTensorMode():  # torch 2.11 for CUDA, without a GPU, crashes if the first thread that enters one has ended
    pass
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # from CPython 3.12 on

def backend(gm, example_inputs):
    return gm.forward

def wait_for(child):
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, status

def check_at_rest():
    assert _C.current_owner() is None and not _C.hook_installed() and gc.isenabled()
    before = dl.counters.frames
    again = dl.compile(eval("lambda x: x * 3"), backend=backend, fullgraph=True)  # a code object that has no entries
    assert again(torch.ones(2)).tolist() == [3, 3] and dl.counters.frames == before + 1
    assert _C.current_owner() is None and not _C.hook_installed() and gc.isenabled()

inside, go_on = threading.Event(), threading.Event()

@contextlib.contextmanager
def forked_beside(call):
    thread = threading.Thread(target=call)
    thread.start()
    inside.wait()
    child = os.fork()
    if child:
        wait_for(child)
    else:
        go_on.set()
        check_at_rest()
    yield child
    if not child:
        check_at_rest()
        os._exit(0)
    go_on.set()
    thread.join()
    check_at_rest()
"""


def check(program):
    done = run_program(BEGIN + program)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_fork_inside_a_call_at_a_graph_break():
    check("""
@dl.compile(backend=backend)
def program(x):
    y = x + 1
    child = os.fork()
    y = y * (2 if child else 3)
    return child, y + 1

child, y = program(torch.ones(2))
assert y.tolist() == ([5, 5] if child else [7, 7])
assert dl.counters.frames == 2
check_at_rest()
if child:
    wait_for(child)
""")


def test_fork_while_a_graph_runs():
    check("""
forked = []

def forking(gm, example_inputs):
    def call(*inputs):
        if not forked:
            forked.append(os.fork())
        return gm.forward(*inputs)
    return call

@dl.compile(backend=forking)
def program(x):
    y = x + 1
    dl.graph_break()
    return y * 2

assert program(torch.ones(2)).tolist() == [4, 4]
assert dl.counters.frames == 2
check_at_rest()
if forked[0]:
    wait_for(forked[0])
""")


def test_fork_while_a_graph_is_compiled():
    check("""
def forking(gm, example_inputs):
    global child
    child = os.fork()
    return gm.forward

program = dl.compile(lambda x: x + 1, backend=forking)
assert program(torch.ones(2)).tolist() == [2, 2] and dl.counters.frames == 1
check_at_rest()
if child:
    wait_for(child)
""")


def test_fork_while_another_thread_is_inside_a_call():
    check("""
@dl.compile(backend=backend)
def program(x):
    y = x + 1
    inside.set()
    go_on.wait()
    return y * 2

def work():
    with dl.optimize(backend):
        program(torch.ones(2))

with forked_beside(work) as child:
    if child:
        assert _C.hook_installed() and _C.current_owner() is None
    else:
        assert program(torch.ones(2)).tolist() == [4, 4]
""")


def test_fork_while_another_thread_compiles():
    check("""
def slow(gm, example_inputs):
    inside.set()
    go_on.wait()
    return gm.forward

@dl.compile(backend=slow)
def program(x):
    return x + 1

with forked_beside(lambda: program(torch.ones(2))) as child:
    if not child:
        assert program(torch.ones(2)).tolist() == [2, 2]
        assert len(program.owner.entries(program.__wrapped__.__code__)) == 1
assert len(program.owner.entries(program.__wrapped__.__code__)) == 1
""")


def test_fork_while_another_thread_runs_an_operator_on_fakes():
    """The garbage collector is off at that time, and warnings are captured."""
    check("""
@torch.library.custom_op("forks::slow", mutates_args=())
def slow(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@slow.register_fake
def _(x):
    inside.set()
    go_on.wait()
    return torch.empty_like(x)

@dl.compile(backend=backend)
def program(x):
    return slow(x) + 1

filters, show = warnings.filters, warnings.showwarning
with forked_beside(lambda: program(torch.ones(2))) as child:
    if child:
        assert not gc.isenabled() and warnings.filters is not filters
    else:
        assert warnings.filters is filters and warnings.showwarning is show
        assert program(torch.ones(2)).tolist() == [2, 2]
        assert warnings.filters is filters and warnings.showwarning is show
assert warnings.filters is filters and warnings.showwarning is show
""")


def test_fork_inside_a_process_wide_block():
    """The child continues inside the block and leaves it."""
    check("""
def program(x):
    return x + 1

with dl.enable(backend):
    child = os.fork()
    before = dl.counters.frames
    assert program(torch.ones(2)).tolist() == [2, 2] and dl.counters.frames == before + 1
check_at_rest()
if child:
    wait_for(child)
""")


@pytest.mark.full
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_data_loader_workers_begin_without_an_owner(method):
    """They make items by compiled code, and nothing else of theirs is compiled, however they are started."""
    check(f"""
import multiprocessing
import worker_data
from torch.utils.data import DataLoader

method = {method!r}
worker_data.item(1)  # a forked worker has the entry
loader = DataLoader(worker_data.Items(), batch_size=2, num_workers=1, multiprocessing_context=method)

def check_workers(found):
    total, seen = found
    assert total.item() == 73 and seen == [[0, 0, 0, 1, 1]] * 8, (total, seen)

before = dl.counters.frames
with dl.enable(backend):
    check_workers(dl.compile(worker_data.totals, backend=backend)(loader, torch.ones(1)))
assert dl.counters.frames > before
check_at_rest()

def pooled(x):
    y = x + 1
    with multiprocessing.get_context(method).Pool(1) as pool:
        made = pool.map(worker_data.make_item, range(6))
    return y * 2, made

total, made = dl.compile(pooled, backend=backend)(torch.ones(2))
assert total.tolist() == [4, 4] and made == [[n + 1.0] * 2 for n in range(6)]
check_at_rest()
""")


def test_a_worker_may_compile_all_that_it_runs():
    check("""
import multiprocessing

def leaf(x):
    return x + 1

def work(results):
    before = dl.counters.frames
    with dl.enable(backend):
        found = leaf(torch.ones(2)).tolist()
    results.send((found, dl.counters.frames - before, _C.hook_installed()))

@dl.compile(backend=backend)
def program(x):
    y = x + 1
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=work, args=(theirs,))
    child.start()
    found = ours.recv()
    child.join()
    return y, found

y, found = program(torch.ones(2))
assert y.tolist() == [2, 2] and found == ([2, 2], 1, False), found
check_at_rest()
""")
