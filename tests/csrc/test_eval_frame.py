"""The frame hook: it runs new code in place of a frame, and nothing else differs from a run without the hook."""

from __future__ import annotations

import asyncio
import builtins
import gc
import sys
import threading
import time
import traceback
import weakref

import pytest
import torch

from dynamo_lite import _C, exc
from frames import By, Token, calls_down, define, on_process, on_thread, other, owned, plain, tree

# -- hits ----------------------------------------------------------------------------------------------------------


def test_hit_runs_the_new_code_without_calling_the_callback_again():
    owner, asked = owned({plain: other})
    call = _C.Wrapped(plain, owner)
    assert [call(2), call(3)] == [200, 300]
    assert plain(2) == 3
    assert asked.seen == ["plain"]
    (entry,) = owner.entries(plain.__code__)
    assert entry.hits == 2 and entry.code is other.__code__ and entry.owner is owner


def test_every_kind_of_argument_arrives():
    p = define(
        """
def fn(a, /, b, c=3, *args, d, e=5, **kwargs):
    return None
def new(a, /, b, c=3, *args, d, e=5, **kwargs):
    one = two = three = four = five = six = seven = 7
    return [a, b, c, args, d, e, kwargs, one + two + three + four + five + six + seven]
"""
    )
    call = _C.Wrapped(p.fn, owned({p.fn: p.new})[0])
    for _ in range(3):
        assert call(1, 2, d=4) == [1, 2, 3, (), 4, 5, {}, 49]
        assert call(1, c=0, b=9, d=4, z=8) == [1, 9, 0, (), 4, 5, {"z": 8}, 49]
        assert call(1, 2, 3, 4, 5, d=6, e=7) == [1, 2, 3, (4, 5), 6, 7, {}, 49]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'd'"):
        call(1, 2)


def test_new_code_reads_the_free_variables_of_its_function():
    p = define(
        """
def make(n):
    def fn(x):
        return x + n
    def new(x):
        held = [x, n]
        return held, lambda: (x, n)
    return fn, new
"""
    )
    (fn, new), (again, _) = p.make(1), p.make(2)
    owner, asked = owned({fn: new})
    held, closure = _C.Wrapped(fn, owner)(5)
    assert (held, closure()) == ([5, 1], (5, 1))
    held, closure = _C.Wrapped(again, owner)(6)
    assert (held, closure()) == ([6, 2], (6, 2))
    assert asked.seen == ["fn"]


def test_entry_of_the_last_hit_is_tried_first():
    owner, _ = owned({plain: By(lambda view: (tree(view, "x", view.locals["x"]), other.__code__))})
    call = _C.Wrapped(plain, owner)
    for x in (1, 2, 3):
        assert call(x) == x * 100
    entries = owner.entries(plain.__code__)
    assert [entry.tree.checks()[0][0] for entry in entries] == ["x == 3", "x == 2", "x == 1"]
    call(2)
    assert owner.entries(plain.__code__) == [entries[1], entries[0], entries[2]]
    assert [entry.hits for entry in owner.entries(plain.__code__)] == [2, 1, 1]


def test_captured_values_are_stored_in_their_local_variable():
    p = define(
        """
def fn(x):
    return x
def new(x):
    if x is new:
        ___captured = None
    return x, ___captured
"""
    )

    def answer(view):
        made = tree(view)
        made.capture(made.child(made.child(0, "local", "x"), "list_item", 1))
        made.capture(made.child(0, "local", "x"))
        return made, p.new.__code__

    call = _C.Wrapped(p.fn, owned({p.fn: By(answer)})[0])
    for _ in range(3):
        x = [object(), object()]
        assert call(x) == (x, (x[1], x))


DEEPER = """
def fn(x, y):
    return "eager"
def new(x, y):
    if x is new:
        ___captured = None
    a, b, c, d, e, f, g, h = range(8)
    i, j, k, l, m, n, o, p = range(8)
    return [[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p], x, y, ___captured]
def down(depth, x, y, call):
    return call(x, y) if depth == 0 else down(depth - 1, x, y, call)
"""


def test_larger_frame_at_every_depth_of_the_data_stack():
    """At some depths the chunk has room for the frame, but not for a larger one."""
    p = define(DEEPER)

    def answer(view):
        made = tree(view)
        made.capture(made.child(0, "local", "y"))
        return made, p.new.__code__

    owner, asked = owned({p.fn: By(answer)})
    call = _C.Wrapped(p.fn, owner)
    x, y = object(), object()
    before = sys.getrefcount(x), sys.getrefcount(y)
    for depth in range(600):
        assert p.down(depth, x, y, call) == [[*range(8), *range(8)], x, y, (y,)], depth
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before
    assert asked.seen == ["fn"]


def test_larger_frame_raises_at_every_depth_of_the_data_stack():
    p = define(
        DEEPER
        + "\ndef raises(x, y):\n    a, b, c, d, e, f, g, h = range(8)\n    raise KeyError(x, [a, [b, [c, [d, [e]]]]])"
    )
    call = _C.Wrapped(p.fn, owned({p.fn: p.raises})[0])
    x = object()
    before = sys.getrefcount(x)
    for depth in range(600):
        with pytest.raises(KeyError):
            p.down(depth, x, None, call)
    gc.collect()
    assert sys.getrefcount(x) == before


def test_a_larger_frame_has_the_functions_builtins_at_every_depth_of_the_data_stack():
    """A function uses the builtins with which it was created, and doesn't look them up in its globals."""
    p = define(DEEPER.replace("x, y, ___captured]", "marker]"), __builtins__={**vars(builtins), "marker": "mine"})
    p.fn.__globals__["__builtins__"] = builtins
    call = _C.Wrapped(p.fn, owned({p.fn: p.new})[0])
    for depth in range(600):
        assert p.down(depth, 1, 2, call)[1:] == ["mine"], depth


def test_an_error_is_raised_with_the_functions_builtins():
    p = define(
        """
def fn(x):
    return "eager"
def raising(x, error):
    raise error from TypeError(marker)
""",
        __builtins__={**vars(builtins), "marker": "mine"},
    )
    p.fn.__globals__["__builtins__"] = builtins
    call = _C.Wrapped(p.fn, owned({p.fn: By(lambda view: (p.raising.__code__, KeyError(1)))})[0])
    with pytest.raises(KeyError) as raised:
        call(1)
    assert raised.value.__cause__.args == ("mine",)


def test_incompatible_code_is_refused():
    p = define(
        "def fn(x): return x\ndef two(x, y): return x\ndef gen(x): yield x\n"
        "def free():\n    v = 1\n    return lambda x: v"
    )
    for wrong in (p.two, p.gen, p.free()):
        with pytest.raises(ValueError, match="can't replace"):
            _C.Wrapped(p.fn, owned({p.fn: wrong})[0])(1)
    assert p.fn(1) == 1


# -- misses and verdicts -------------------------------------------------------------------------------------------


INITS = """
class Kind:
    def __init__(self, x):
        self.x = x
class Derived(Kind):
    pass
def new(self, x):
    self.x = -x
def build(x):
    return Kind(x).x, Derived(x).x
def usual(x):
    return Kind(x).x, Derived(x).x
"""


def test_hook_sees_init_at_every_call_of_a_class():
    """CPython 3.13 enters an ``__init__`` without the hook at calls that it has specialized."""
    p = define(INITS)
    for _ in range(50):
        assert p.usual(1) == (1, 1)

    def answer(view):
        made, self = tree(view), view.locals["self"]
        made.check(made.child(0, "local", "self"), "type", type(self), "self is of a class")
        return made, p.new.__code__

    owner, asked = owned({p.Kind.__init__: By(answer)})
    call, usual = _C.Wrapped(p.build, owner), _C.Wrapped(p.usual, owner)
    for _ in range(50):
        assert call(1) == (-1, -1)
    assert asked.seen == ["build", "__init__", "__init__"]
    assert usual(1) == (-1, -1)
    assert p.usual(1) == (1, 1)
    assert type(p.Kind(2)) is p.Kind and p.Derived(2).__dict__ == {"x": 2}


def test_callback_is_called_again_after_pass_but_not_after_skip():
    for verdict, times in ((_C.PASS, 3), (_C.SKIP, 1)):
        owner, asked = owned({calls_down: verdict, plain: other})
        call = _C.Wrapped(calls_down, owner)
        assert [call(1) for _ in range(3)] == [100, 100, 100]
        assert asked.seen.count("calls_down") == times


def test_skip_without_tensors_ends_at_a_call_with_a_tensor():
    def takes(value):
        return 1

    owner, asked = owned({takes: _C.SKIP_WITHOUT_TENSORS})
    call = _C.Wrapped(takes, owner)
    x = torch.ones(2)
    for times, value in ((1, 1), (1, "a"), (1, [1] * 9), (1, [[[x]]]), (1, object()), (2, [[x]]), (2, x), (2, 1)):
        assert call(value) == 1  # the answer to a call with a tensor is final
        assert asked.seen.count("takes") == times, value


def test_float_delays_the_next_callback_by_run_time_in_eager():
    for seconds, times in ((1e9, 1), (1e-9, 3), (0.0, 3)):
        owner, asked = owned({calls_down: By(lambda view, seconds=seconds: seconds), plain: other})
        call = _C.Wrapped(calls_down, owner)
        assert [call(1) for _ in range(3)] == [100, 100, 100]
        assert asked.seen.count("calls_down") == times


def test_entries_run_while_compilation_is_delayed():
    p = define("def fn(x): return x\ndef new(x): return [x]")

    def answer(view):
        return 1e9 if view.entries else (tree(view, "x", 1), p.new.__code__)

    owner, asked = owned({p.fn: By(answer)})
    call = _C.Wrapped(p.fn, owner)
    assert [call(x) for x in (1, 2, 1, 3, 2)] == [[1], 2, [1], 3, 2] and asked.seen == ["fn", "fn"]
    owner.reset()
    assert call(1) == [1] and asked.seen == ["fn"] * 3  # reset forgets what was waited for


def test_delayed_frame_may_raise_and_reset_its_owner():
    p = define("def fn(x): reset(); return 1 / x", reset=lambda: owner.reset())
    owner, asked = owned({p.fn: By(lambda view: 1e9)})
    call = _C.Wrapped(p.fn, owner)
    assert call(1) == 1
    with pytest.raises(ZeroDivisionError):
        call(0)
    assert asked.seen.count("fn") == 2


def test_delay_excludes_the_time_in_callbacks():
    def slow(view):
        until = time.perf_counter() + 0.05
        while time.perf_counter() < until:
            pass
        return _C.SKIP

    owner, asked = owned({calls_down: By(lambda view: 0.04), plain: By(slow)})
    call = _C.Wrapped(calls_down, owner)
    call(1), call(1)
    assert asked.seen == ["calls_down", "plain"]


def test_freeze_keeps_entries_and_skips_callees():
    p = define("def leaf(x): return x\ndef fn(x): return leaf(x), 'eager'\ndef new(x): return leaf(x), 'new'")
    answers = []

    def answer(view):
        answers.append(view.locals["x"])
        return (tree(view, "x", 1), p.new.__code__) if view.locals["x"] == 1 else _C.FREEZE

    owner, asked = owned({p.fn: By(answer)})
    call = _C.Wrapped(p.fn, owner)
    assert call(2) == (2, "eager")
    assert asked.seen == ["fn"]
    owner.reset()
    assert [call(1), call(2), call(3), call(1)] == [(1, "new"), (2, "eager"), (3, "eager"), (1, "new")]
    assert answers == [2, 1, 2]
    assert asked.seen.count("leaf") == 1


def test_marks_skip_frames_of_every_owner():
    p = define("def leaf(x): return x\ndef fn(x): return leaf(x)")
    for mark, seen in ((_C.Mark.SKIP, ["leaf"]), (_C.Mark.SKIP_RECURSIVE, []), (_C.Mark.NONE, ["fn", "leaf"])):
        _C.mark_code(p.fn.__code__, mark)
        assert _C.get_mark(p.fn.__code__) == mark
        owner, asked = owned()
        assert _C.Wrapped(p.fn, owner)(4) == 4
        assert asked.seen == seen
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _C.mark_code(p.fn.__code__, 7)


def test_owner_without_callback_runs_existing_entries():
    owner, _ = owned({plain: By(lambda view: (tree(view, "x", 1), other.__code__))})
    call = _C.Wrapped(plain, owner)
    assert call(1) == 100
    owner.callback = None
    assert [call(1), call(2)] == [100, 3]


def test_frame_view_is_valid_only_during_its_callback():
    views = []

    def fn(a, *args, k=2, **rest):
        return cell

    cell = []

    def answer(view):
        views.append(view)
        assert view.code is fn.__code__ and view.func is fn and view.globals is globals()
        assert view.builtins is __builtins__ or view.builtins is __builtins__.__dict__
        assert view.locals == {"a": 1, "args": (2, 3), "k": 2, "rest": {"z": 0}}
        assert [c.cell_contents for c in view.closure] == [cell]
        assert view.owner is owner and view.entries == 0 and view.misses() == []
        return _C.PASS

    owner, _ = owned({fn: By(answer)})
    assert _C.Wrapped(fn, owner)(1, 2, 3, z=0) is cell
    for name in ("code", "func", "globals", "builtins", "closure", "locals", "owner", "entries"):
        with pytest.raises(RuntimeError, match="callback has returned"):
            getattr(views[0], name)
    with pytest.raises(RuntimeError, match="callback has returned"):
        views[0].misses()


def test_misses_give_the_failures_of_all_entries():
    found = []

    def answer(view):
        found.append([(view.entries, str(miss.reason)) for miss in view.misses()])
        return tree(view, "x", view.locals["x"]), other.__code__

    call = _C.Wrapped(plain, owned({plain: By(answer)})[0])
    for x in (1, 2, 3):
        call(x)
    assert found == [[], [(1, "x == 1")], [(2, "x == 2"), (2, "x == 1")]]


def test_callback_is_not_called_for_its_own_frames():
    def answer(view):
        assert plain(1) == 2
        assert inner(1) == 2, "an owner inside of a callback has no frames either"
        return _C.PASS

    owner, asked = owned({calls_down: By(answer)}, _C.PASS)
    inner = _C.Wrapped(plain, owned({plain: other})[0])
    assert _C.Wrapped(calls_down, owner)(1) == 2
    assert asked.seen == ["calls_down", "plain"]


@pytest.mark.parametrize("raised", [KeyError("mine"), KeyboardInterrupt(), exc.InternalError("x")])
def test_error_of_a_callback_is_raised_by_the_call(raised):
    def answer(view):
        raise raised

    def caller(call):
        token = Token()
        held.append(weakref.ref(token))
        call(token)

    held = []
    owner, asked = owned({plain: By(answer)})
    for _ in range(3):
        with pytest.raises(type(raised)) as info:
            caller(_C.Wrapped(plain, owner))
        assert info.value is raised
        names = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
        assert "caller" in names and names[-1] == "answer" and "plain" not in names
        raised.__traceback__ = None
        del info
    gc.collect()
    assert [ref() for ref in held] == [None] * 3
    assert asked.seen == ["plain"] * 3 and plain(1) == 2


@pytest.mark.parametrize("takes_it", [False, True])
def test_callback_may_have_an_error_raised_by_given_code(takes_it):
    def make(token):
        def fn(x):
            return token, x, takes_it

        def again(x, error):
            try:
                raise error
            except KeyError:
                if takes_it:
                    return token, x
                raise

        return fn, again

    token = Token()
    fn, again = make(token)
    error = KeyError("mine")
    owner, _ = owned({fn: By(lambda view: (again.__code__, error))})
    argument = Token()
    for _ in range(3):
        if takes_it:
            assert _C.Wrapped(fn, owner)(argument) == (token, argument)
            continue
        with pytest.raises(KeyError) as caught:
            _C.Wrapped(fn, owner)(argument)
        assert caught.value is error
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert names[-1] == "again" and "fn" not in names
        del caught
    dead = weakref.ref(argument)
    error.__traceback__ = None
    del argument
    gc.collect()
    assert dead() is None
    assert owner.entries(fn.__code__) == []


def test_code_that_cannot_raise_in_place_of_the_frame_is_refused():
    def three(x, y, error):
        raise error

    def free():
        return dead

    dead = None
    for code in (other.__code__.replace(co_argcount=0, co_nlocals=0, co_varnames=()), three.__code__, free.__code__):
        owner, _ = owned({plain: By(lambda view, code=code: (code, KeyError("mine")))})
        with pytest.raises(ValueError, match="can't raise in place of"):
            _C.Wrapped(plain, owner)(1)
    owner, _ = owned({plain: By(lambda view: (3, KeyError("mine")))})
    with pytest.raises(ValueError, match="can't raise in place of"):
        _C.Wrapped(plain, owner)(1)


@pytest.mark.parametrize("answer", [None, 3, (), (1, 2), ("a", plain.__code__)])
def test_invalid_results_of_callbacks_raise_type_error(answer):
    with pytest.raises(TypeError, match="a verdict or"):
        _C.Wrapped(plain, owned({plain: By(lambda view: answer)})[0])(1)
    assert plain(1) == 2


@pytest.mark.changes_what_is_guarded
def test_entry_whose_guards_fail_at_once_is_dropped(caplog):
    caplog.set_level("INFO", "dynamo_lite.recompiles")
    owner, asked = owned({plain: By(lambda view: (tree(view, "x", 5), other.__code__))})
    call = _C.Wrapped(plain, owner)
    assert (call(1), call(5), call(5)) == (2, 500, 500)
    assert "'x == 5' no longer holds (x == 5: 1, was 5)" in caplog.text
    assert asked.seen == ["plain"] * 2
    assert len(owner.entries(plain.__code__)) == 1


# -- owners --------------------------------------------------------------------------------------------------------


def test_owners_do_not_share_entries():
    (one, _), (two, asked) = owned({plain: other}), owned({plain: _C.SKIP})
    assert _C.Wrapped(plain, one)(1) == 100
    assert _C.Wrapped(plain, two)(1) == 2
    assert _C.Wrapped(plain, one)(1) == 100
    assert [entry.owner for entry in _C.entries(plain.__code__)] == [one]
    assert asked.seen == ["plain"]


def test_owner_of_the_thread_precedes_that_of_the_process():
    (thread, _), (process, seen) = owned({plain: other}), owned()
    assert _C.current_owner() is None and not _C.hook_installed()
    with on_process(process):
        assert _C.current_owner() is process and _C.hook_installed()
        with on_thread(thread):
            assert _C.current_owner() is thread
            assert plain(1) == 100
            assert _C.Wrapped(lambda: (plain(1), _C.current_owner()), _C.OFF)() == (2, _C.OFF)
        with on_thread(_C.OFF):
            assert plain(1) == 2
        assert "plain" not in seen.seen
        assert plain(1) == 2 and "plain" in seen.seen
    assert not _C.hook_installed()


def test_owner_of_the_process_compiles_on_every_thread():
    process, _ = owned({plain: other})
    found = []
    with on_process(process):
        worker = threading.Thread(target=lambda: found.append(plain(1)))
        worker.start()
        worker.join()
    assert found == [100]


def test_owner_is_restored_after_return_and_exception():
    def fails(n):
        raise ValueError(_C.current_owner())

    owner, _ = owned()
    with on_thread(_C.OFF):
        with pytest.raises(ValueError) as info:
            _C.Wrapped(fails, owner)(1)
        assert info.value.args == (owner,)
        assert _C.current_owner() is _C.OFF
        with pytest.raises(TypeError):
            _C.Wrapped(fails, owner)()
        assert _C.current_owner() is _C.OFF
    assert _C.current_owner() is None and not _C.hook_installed()


def test_owner_set_inside_a_call_is_dropped_with_the_call():
    owner, inner = owned()[0], owned()[0]
    held = weakref.ref(inner)
    references = sys.getrefcount(_C.OFF)
    for call in (_C.GraphCall(_C.enter_block), _C.Wrapped(_C.enter_block, owner)):
        call(inner, False)
        assert _C.current_owner() is None and not _C.hook_installed()
        _C.leave_block(inner, process=False)
    after = sys.getrefcount(_C.OFF)
    assert after == references
    del inner, call
    gc.collect()
    assert held() is None


def test_thread_drops_its_owner_when_it_ends():
    owner, _ = owned()
    held = weakref.ref(owner)
    worker = threading.Thread(target=_C.enter_block, args=(owner, False))
    worker.start()
    worker.join()
    assert not _C.hook_installed()
    del owner, worker
    gc.collect()
    assert held() is None


def test_invalid_owners_and_callables_are_refused():
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _C.enter_block(3, process=True)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _C.Wrapped(plain, None)
    with pytest.raises(TypeError, match="can't be called"):
        _C.Wrapped(3, _C.OFF)


def test_reset_while_the_new_code_runs():
    p = define("def fn(x): return 0\ndef new(x):\n    owner.reset()\n    gc.collect()\n    return [x, x], x", gc=gc)
    p.new.__globals__["owner"] = owner = owned({p.fn: p.new})[0]
    call = _C.Wrapped(p.fn, owner)
    for _ in range(3):
        assert call(1) == ([1, 1], 1)


def test_reset_while_the_callback_runs():
    def answer(view):
        owner.reset()
        return tree(view), other.__code__

    owner, _ = owned({plain: By(answer)})
    call = _C.Wrapped(plain, owner)
    assert [call(1), call(2)] == [100, 200]


# -- what is never taken -------------------------------------------------------------------------------------------


def test_generators_coroutines_and_class_bodies_are_skipped():
    p = define(
        """
def gen(x):
    got = yield x
    yield got
async def co(x):
    return x
async def agen(x):
    yield x
def body(x):
    class C:
        y = x
    exec("z = 1", {})
    return C.y
"""
    )
    owner, asked = owned()

    def program():
        made = p.gen(1)
        found = [next(made), made.send(2), p.body(3)]
        with pytest.raises(KeyError):
            made.throw(KeyError)

        async def all_of():
            return [await p.co(4), [each async for each in p.agen(5)]]

        return found, asyncio.run(all_of())

    with on_thread(owner):
        assert program() == ([1, 2, 3], [4, [5]])
    assert {"gen", "co", "agen", "C", "<module>"}.isdisjoint(asked.seen)
    assert "body" in asked.seen


# -- continuations -------------------------------------------------------------------------------------------------


BREAKS = """
def fn(x):
    return "eager", x
def new(x):
    return RESUME(None, x, 1)
def rest(x, n):
    return "rest", x, n
"""


def test_continuation_replaces_the_frame_that_returned_it():
    p = define(BREAKS)
    p.new.__globals__["RESUME"] = _C.Resume(p.rest.__code__)
    owner, asked = owned({p.fn: p.new})
    call = _C.Wrapped(p.fn, owner)
    assert [call(1), call(2)] == [("rest", 1, 1), ("rest", 2, 1)]
    assert asked.seen == ["fn", "rest"]


def test_continuation_runs_entries_and_further_continuations():
    p = define(BREAKS + "\ndef again(x, n):\n    return END(None, x, n + 1)\ndef end(x, n):\n    return 'end', x, n")
    p.fn.__globals__.update(RESUME=_C.Resume(p.rest.__code__), END=_C.Resume(p.end.__code__))
    owner, asked = owned({p.fn: p.new, p.rest: p.again})
    call = _C.Wrapped(p.fn, owner)
    assert [call(1), call(2)] == [("end", 1, 2), ("end", 2, 2)]
    assert asked.seen == ["fn", "rest", "end"]
    assert [e.hits for e in owner.entries(p.rest.__code__)] == [2]


def test_a_loop_of_continuations_does_not_nest():
    p = define(
        """
def fn(x): return 0
def new(x): return RESUME(None, x, 50_000)
def rest(x, n): return 0
def again(x, n):
    x.add(len(stack()))
    return x if n == 0 else RESUME(None, x, n - 1)
"""
    )
    p.fn.__globals__.update(RESUME=_C.Resume(p.rest.__code__), stack=lambda: traceback.extract_stack(limit=3))
    call = _C.Wrapped(p.fn, owned({p.fn: p.new, p.rest: p.again})[0])
    depth = []
    p.fn.__globals__["stack"] = lambda: depth
    assert call(set()) == {0}


def test_continuation_has_the_namespaces_and_caller_of_its_frame():
    p = define(
        """
def fn(): return 0
def make(v):
    def new(): return RESUME((fn_cell,))
    def rest(): return v, sys._getframe().f_back.f_code.co_name, len([])
    return new, rest
""",
        sys=sys,
        __builtins__={"len": lambda of: "my len", "__build_class__": __build_class__},
    )
    new, rest = p.make("v")
    p.fn.__globals__.update(RESUME=_C.Resume(rest.__code__), fn_cell=rest.__closure__[0])

    def caller(call):
        return call()

    assert caller(_C.Wrapped(p.fn, owned({p.fn: new})[0])) == ("v", "caller", "my len")


def test_traceback_of_a_continuation_shows_one_frame():
    p = define(BREAKS + "\ndef fails(x, n):\n    raise KeyError(x)")
    p.fn.__globals__["RESUME"] = _C.Resume(p.fails.__code__.replace(co_name="fn"))
    call = _C.Wrapped(p.fn, owned({p.fn: p.new})[0])

    def caller(token):
        return call(token)

    for _ in range(3):
        token = Token()
        held = weakref.ref(token)
        with pytest.raises(KeyError) as info:
            caller(token)
        names = [frame.name for frame in traceback.extract_tb(info.tb)][1:]
        assert names == ["caller", "fn"]
        del token, info
        gc.collect()
        assert held() is None


def test_continuation_drops_arguments_as_soon_as_its_frame_does():
    p = define(
        BREAKS
        + """
def makes(x):
    made = make()
    return RESUME(None, made, 1)
def drops(x, n):
    del x
    return held()
"""
    )

    def make():
        token = Token()
        p.fn.__globals__["held"] = weakref.ref(token)
        return token

    p.fn.__globals__.update(RESUME=_C.Resume(p.drops.__code__), make=make)
    call = _C.Wrapped(p.fn, owned({p.fn: p.makes})[0])
    assert [call(0), call(0)] == [None, None]


def test_resume_called_from_python_returns_a_continuation_object():
    resume = _C.Resume(plain.__code__)
    assert resume.code is plain.__code__
    with pytest.raises(TypeError, match=r"\(closure, \*values\)"):
        resume()
    made = resume(None, 1)
    assert type(made).__name__ == "Continuation"
    with pytest.raises(TypeError):
        type(made)()
    with pytest.raises(TypeError):
        _C.Resume(3)
