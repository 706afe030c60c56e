"""Objects of ``threading.local``: each thread has attributes of its own."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict

import pytest
import torch

import dynamo_lite as dl
from collector import Programs
from equality import Pairing
from outcomes import outcomes
from programs import Recorder, tensor

programs = Programs()
STATE = threading.local()
STATE.scale = 2
UNTOUCHED = threading.local()
STACKS = defaultdict(list)


class Depth(threading.local):
    kind = "depth"

    def __init__(self, depth=0):
        self.depth = depth

    @property
    def twice(self):
        return self.depth * 2

    @twice.setter
    def twice(self, value):
        self.depth = value // 2


DEPTH = Depth(3)


@programs(tensor(2))
def what_is_there_is_read(x):
    return x + STATE.scale, hasattr(STATE, "other"), getattr(STATE, "other", 5)


@programs(tensor(2))
def attributes_are_written_and_deleted(x):
    before = STATE.scale
    STATE.scale = 5
    y = x * STATE.scale
    STATE.scale = before
    STATE.other = x + 1
    z = STATE.other * 2
    del STATE.other
    return y, z, STATE.scale, hasattr(STATE, "other")


@programs(tensor(2))
def what_a_class_derived(x):
    DEPTH.depth += 1
    try:
        return x * DEPTH.depth, DEPTH.twice, DEPTH.kind
    finally:
        DEPTH.depth -= 1


@programs(tensor(2), graphs=(0, 2))
def one_that_this_thread_did_not_touch(x):
    return x + hasattr(UNTOUCHED, "anything")


@programs(tensor(2), graphs=1, breaks=(0, 3), cut=False)
def what_it_has_not(x):
    return x + 1, outcomes(
        lambda: STATE.nothing,
        lambda: delattr(STATE, "nothing"),
        lambda: DEPTH.nothing,
        lambda: setattr(STATE, "__dict__", {}),
    )


@programs(tensor(2), graphs=2)
def a_stack_of_each_thread_over_a_break(x):
    STACKS[threading.get_ident()].append(x)
    y = x + 1
    dl.graph_break()
    known = threading.get_ident() in STACKS, len(STACKS[threading.get_ident()])
    y = y * STACKS[threading.get_ident()].pop()
    if not STACKS[threading.get_ident()]:
        del STACKS[threading.get_ident()]
    return y, known, len(STACKS)


@programs(tensor(2))
def a_thread_as_a_number(x):
    me = threading.get_ident()
    return x + 1, f"{me}", me % 7, me > 5, me == "me", me == threading.get_ident(), me in [me + 1, me]


test_threading = programs.test()


def test_attribute_writes_are_visible_after_the_call():
    def fn(x, value):
        STATE.scale = value
        STATE.kept = x * 2
        return x + 1

    def program(x, value):
        result = fn(x, value)
        return result, STATE.scale, STATE.kept

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    for value in (7, 8, 7):
        eager = program(tensor(2), value)
        assert (compiled(tensor(2), value) == eager[0]).all()
        Pairing().compare(eager[1:], (STATE.scale, STATE.kept), "state")
    STATE.scale = 2
    del STATE.kept


@pytest.mark.parametrize("first", [True, False])
def test_each_thread_has_its_own(first):
    """One thread first uses the object inside the compiled code, the other has used it before."""
    begun = []

    class Begun(threading.local):
        def __init__(self):
            begun.append(threading.current_thread().name)
            self.n = len(begun)

    state = Begun()

    def fn(x):
        state.n += 10
        return x * state.n, state.n

    compiled, results, errors = dl.compile(fn, backend="eager"), [], []

    def run(times):
        try:
            if not first:
                state.n = 5
            for _ in range(times):
                results.append(compiled(tensor(2)))
        except Exception as error:
            errors.append(error)

    run(2)
    for _ in range(2):
        thread = threading.Thread(target=run, args=(3,))
        thread.start()
        thread.join()
    run(1)
    begins = [1, 2, 3] if first else [5, 5, 5]
    wanted = [begins[0] + 10, begins[0] + 20]
    wanted += [begin + 10 * step for begin in begins[1:] for step in (1, 2, 3)]
    wanted += [begins[0] + 30] if first else [15]
    assert not errors and [n for _, n in results] == wanted and len(begun) == 3
    assert all((result == tensor(2) * n).all() for result, n in results)


def test_threads_as_keys():
    """Entries of other threads stay beside that of this thread."""
    table, sides = {}, {}

    def fn(x, table):
        me = threading.get_ident()
        table.setdefault(me, []).append(x)
        return x * len(table[me]), [each == me for each in table], len(table)

    compiled, errors = dl.compile(fn, backend="eager"), []

    def run():
        try:
            for seed in range(2):
                x = tensor(2, seed=seed)
                Pairing().compare(fn(x, sides), compiled(x, table), "result")
        except BaseException as error:
            errors.append(error)

    def go():
        with turn:
            run()
        barrier.wait()  # so that each has a number of its own

    run()
    turn, barrier = threading.Lock(), threading.Barrier(2)
    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run()
    assert not errors and len(table) == 3 and list(map(len, table.values())) == [4, 2, 2]


# -- locks -------------------------------------------------------------------------------------------------------------


class Buffer:
    def __init__(self, lock):
        self.lock = lock
        self.data = torch.zeros(4, 3)
        self.added = []

    def add(self, x):
        with self.lock:
            self.data[1] = x
            self.added.append(len(self.added))
        return self.data.sum()


@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
def test_a_method_with_a_lock(kind):
    def fn(x, buffer):
        return buffer.add(x.sin()) + buffer.add(x.cos()) + x

    buffer, plain = Buffer(kind()), Buffer(kind())
    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(tensor(3), buffer), fn(tensor(3), plain))
    assert torch.equal(buffer.data, plain.data) and buffer.added == plain.added


@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
def test_a_with_block_of_a_lock_breaks_once(kind):
    def fn(x, buffer):
        y = x.sin()
        with buffer.lock:
            buffer.data[1] = y
            buffer.added.append(len(buffer.added))
        return buffer.data.sum() + y.cos()

    buffer, plain = Buffer(kind()), Buffer(kind())
    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    before = dl.counters.graph_breaks
    assert torch.equal(compiled(tensor(3), buffer), fn(tensor(3), plain))
    assert dl.counters.graph_breaks - before == 1
    assert len(recorder.graphs) == 2
    assert torch.equal(buffer.data, plain.data) and buffer.added == plain.added
    assert buffer.lock.acquire(blocking=False)


def test_a_lock_is_released_after_what_it_protects_and_before_what_follows():
    lock, held = threading.Lock(), []

    class Seen(list):
        def append(self, item):
            held.append((item, lock.locked()))

    def fn(x, seen):
        with lock:
            y = x + 1
            seen.append("inside")
        z = y * 2
        seen.append("after")
        print(end="")
        return z

    for call in (fn, dl.compile(fn, backend="eager")):
        call(tensor(3), Seen())
    assert held[:2] == held[2:] == [("inside", True), ("after", False)]


@pytest.mark.parametrize("catches", [True, False])
def test_a_lock_is_released_where_the_block_fails(catches):
    lock = threading.Lock()

    def fn(x, i):
        try:
            with lock:
                y = x.index_select(0, i)
        except IndexError:
            if not catches:
                raise
            return x
        return y + 1

    compiled = dl.compile(fn, backend="eager")
    assert torch.equal(compiled(tensor(3), torch.tensor([1])), fn(tensor(3), torch.tensor([1])))
    if catches:
        assert torch.equal(compiled(tensor(3), torch.tensor([5])), tensor(3))
    else:
        with pytest.raises(IndexError):
            compiled(tensor(3), torch.tensor([5]))
    assert not lock.locked()


def test_a_lock_is_released_where_the_program_raises():
    lock = threading.Lock()

    def fn(x, fails):
        with lock:
            if fails:
                raise KeyError("inside")
            y = x + 1
        return y * 2

    compiled = dl.compile(fn, backend="eager")
    for fails in (False, True, False):
        if fails:
            with pytest.raises(KeyError, match="inside"):
                compiled(tensor(3), fails)
        else:
            assert torch.equal(compiled(tensor(3), fails), fn(tensor(3), fails))
        assert not lock.locked()


class Shared:
    def __init__(self, lock):
        self.lock = lock
        self.items = []

    def add(self, x):
        with self.lock:
            self.items.append(x)

    def latest(self):
        with self.lock:
            return torch.stack(self.items[-2:])

    def fail(self):
        with self.lock:
            raise ValueError("no")


KINDS = [threading.Lock, threading.RLock, threading.Condition, threading.Semaphore, threading.BoundedSemaphore]


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_callees_share_the_graphs_of_the_caller(kind):
    def fn(x, shared):
        shared.add(x.relu() + 1)
        return shared.latest().sin() + x

    shared, plain = Shared(kind()), Shared(kind())
    recorder = Recorder()
    dl.reset()
    before = dl.counters.broken_translations
    assert torch.equal(dl.compile(fn, backend=recorder)(tensor(3), shared), fn(tensor(3), plain))
    wanted = (2, 2) if sys.version_info < (3, 14) else (3, 4)  # there the graph breaks at the call
    assert (len(recorder.graphs), dl.counters.broken_translations - before) == wanted
    assert torch.equal(shared.items[0], plain.items[0]) and len(shared.items) == 1
    assert shared.lock.acquire(blocking=False)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_in_the_block_of_a_callee_releases(kind):
    def fn(x, shared):
        y = x * 2
        try:
            shared.fail()
        except ValueError as error:
            y = y + len(str(error))
        return y

    shared = Shared(kind())
    assert torch.equal(dl.compile(fn, backend="eager")(tensor(3), shared), fn(tensor(3), Shared(kind())))
    assert shared.lock.acquire(blocking=False)
