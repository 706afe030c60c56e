"""The frame hook by itself: callbacks written by hand, without the translator."""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import threading
import types
import weakref

import pytest
import torch

from dynamo_lite import _C, exc


def owner_of(callback):
    return _C.Owner(callback, "test")


def replacing(new_code):
    """A callback that gives every frame of a function named ``fn`` this code."""

    def callback(view):
        if view.code.co_name != "fn":
            return _C.SKIP
        return _C.GuardTree(view.code), new_code

    return callback


def test_pass_asks_again_and_skip_does_not():
    asked = []

    def callback(view):
        asked.append(view.code.co_name)
        return _C.PASS if view.code.co_name == "often" else _C.SKIP

    def often():
        return 1

    def once():
        return 2

    owner = owner_of(callback)
    for fn in (often, once):
        wrapped = _C.Wrapped(fn, owner)
        assert [wrapped(), wrapped(), wrapped()] == [fn()] * 3
    assert asked == ["often"] * 3 + ["once"]
    assert owner.codes() == [once.__code__]


def test_view_shows_arguments_of_all_kinds():
    seen = {}

    def outer():
        free = 5

        def fn(a, /, b, *rest, c=3, **named):
            return free, a, b, rest, c, named

        return fn

    fn = outer()

    def callback(view):
        seen.update(view.locals, free=view.closure[0].cell_contents, code=view.code, func=view.func, kept=view)
        assert view.globals is globals() and view.entries == 0 and view.misses() == []
        return _C.SKIP

    assert _C.Wrapped(fn, owner_of(callback))(1, 2, 4, d=6) == (5, 1, 2, (4,), 3, {"d": 6})
    assert (seen["a"], seen["b"], seen["rest"], seen["c"], seen["named"], seen["free"]) == (1, 2, (4,), 3, {"d": 6}, 5)
    assert seen["code"] is fn.__code__ and seen["func"] is fn
    with pytest.raises(RuntimeError, match="callback has returned"):
        _ = seen["kept"].locals


def test_new_code_runs_in_place():
    def fn(x):
        return x + 1

    def other(x):
        a, b, c = x, x * 2, [x] * 3
        return [a, b, *c], sys._getframe().f_code.co_name, sys._getframe().f_back.f_code.co_name

    owner = owner_of(replacing(other.__code__))
    result = _C.Wrapped(fn, owner)(4)
    assert result == ([4, 8, 4, 4, 4], "other", "test_new_code_runs_in_place")
    (entry,) = owner.entries(fn.__code__)
    assert entry.hits == 1 and entry.valid and entry.owner is owner and entry.code is other.__code__
    owner.reset()
    assert not entry.valid and entry.owner is None and owner.entries(fn.__code__) == []


def made(source):
    """A function of no closure, from its source."""
    scope = {}
    exec(source, scope)
    return next(value for value in scope.values() if isinstance(value, types.FunctionType))


def test_new_code_larger_than_any_room_on_the_data_stack():
    """At each depth the frame may lie at the end of a chunk: the larger code must run there as well."""
    fn = made("def fn(x):\n    return down(x - 1) if x else 0\n")
    many = "".join(f"    v{n} = x\n" for n in range(150))
    large = made(f"def fn(x):\n{many}    return 1 + down(x - 1) + v149 - x if x else 0\n")
    wrapped = _C.Wrapped(fn, owner_of(replacing(large.__code__)))
    fn.__globals__["down"] = wrapped
    assert wrapped(120) == 120


def test_guard_that_fails_at_once_is_an_internal_error():
    def fn(x):
        return x

    def callback(view):
        tree = _C.GuardTree(view.code)
        tree.check(tree.child(0, "local", "x"), "equals", 7, "x == 7")
        return tree, view.code

    with pytest.raises(exc.InternalError, match="x == 7"):
        _C.Wrapped(fn, owner_of(callback))(6)


def test_last_hit_is_tried_first():
    def fn(x):
        return x

    def callback(view):
        value = view.locals["x"]
        tree = _C.GuardTree(view.code)
        tree.check(tree.child(0, "local", "x"), "equals", value, f"x == {value}")

        def fn(x):
            return "new", x

        return tree, fn.__code__

    owner = owner_of(callback)
    wrapped = _C.Wrapped(fn, owner)
    for value in (1, 2, 3, 1, 1):
        assert wrapped(value) == ("new", value)
    assert [entry.hits for entry in owner.entries(fn.__code__)] == [3, 1, 1]


def test_freeze_runs_below_without_the_hook():
    asked = []

    def inner():
        return 1

    def fn():
        return inner()

    def callback(view):
        asked.append(view.code.co_name)
        return _C.FREEZE

    wrapped = _C.Wrapped(fn, owner_of(callback))
    assert wrapped() == wrapped() == 1
    assert asked == ["fn"]


def test_callback_that_raises_and_one_that_returns_nonsense():
    def fn():
        return 1

    class Mine(Exception):
        pass

    def raising(view):
        raise Mine("here")

    with pytest.raises(Mine, match="here"):
        _C.Wrapped(fn, owner_of(raising))()
    with pytest.raises(TypeError, match="verdict or"):
        _C.Wrapped(fn, owner_of(lambda view: 3))()
    assert not _C.hook_installed()
    assert fn() == 1


def test_exceptions_of_new_code_leave_as_they_are():
    def fn(x):
        return x

    def other(x):
        raise KeyError(x)

    wrapped = _C.Wrapped(fn, owner_of(replacing(other.__code__)))
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            wrapped(5)
        assert caught.value.args == (5,)
        assert [frame.name for frame in caught.traceback][-1:] == ["other"]


def test_generators_and_coroutines_are_not_asked_about():
    asked = []

    def numbers():
        yield 1
        yield 2

    async def later():
        return 3

    def fn():
        coroutine = later()
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return list(numbers()), stop.value

    def callback(view):
        asked.append(view.code.co_name)
        return _C.PASS

    assert _C.Wrapped(fn, owner_of(callback))() == ([1, 2], 3)
    assert asked == ["fn"]


def test_hook_is_there_only_while_needed():
    seen = []

    def fn():
        seen.append(_C.hook_installed())

    assert not _C.hook_installed()
    _C.Wrapped(fn, owner_of(lambda view: _C.SKIP))()
    assert seen == [True] and not _C.hook_installed()
    owner = owner_of(lambda view: _C.SKIP)
    before = _C.set_process_owner(owner)
    try:
        assert _C.hook_installed() and _C.current_owner() is owner
        inside = []
        thread = threading.Thread(target=lambda: inside.append(_C.current_owner()))
        thread.start()
        thread.join()
        assert inside == [owner]
        assert _C.set_thread_owner(_C.OFF) is None and _C.current_owner() is _C.OFF
        assert _C.set_thread_owner(None) is _C.OFF
    finally:
        _C.set_process_owner(before)
    assert not _C.hook_installed()


def test_deep_recursion_ends_where_it_does_without_us():
    def depth(n):
        try:
            return depth(n + 1)
        except RecursionError:
            return n

    limit = sys.getrecursionlimit()
    try:
        for new in (1000, 20000):
            sys.setrecursionlimit(new)
            without = depth(0)
            with_hook = _C.Wrapped(depth, owner_of(lambda view: _C.PASS))(0)
            assert abs(with_hook - without) <= 0.05 * without + 30, (new, without, with_hook)
    finally:
        sys.setrecursionlimit(limit)


def test_continuations_do_not_nest_and_keep_the_callers_frame():
    def loop(n, total):
        return total

    loop_code = loop.__code__

    def step(n, total):
        if n == 0:
            return total, len(inspect.stack(0)), sys._getframe(1).f_code.co_name
        return RESUME(None, n - 1, total + n)  # noqa: F821

    resume = _C.Resume(loop_code)
    step = types.FunctionType(step.__code__, {**globals(), "RESUME": resume})

    def callback(view):
        return (_C.GuardTree(view.code), step.__code__) if view.code is loop_code else _C.SKIP

    function = types.FunctionType(loop_code, step.__globals__)
    total, depth, caller = _C.Wrapped(function, owner_of(callback))(20000, 0)
    assert total == 20000 * 20001 // 2
    assert depth == len(inspect.stack(0)) + 1 and caller == "test_continuations_do_not_nest_and_keep_the_callers_frame"


def test_continuation_lets_go_of_its_arguments():
    died = []

    class Loud:
        def __del__(self):
            died.append(True)

    fn = made("def fn(x):\n    return x\n")
    first = made("def fn(x):\n    return RESUME(None, [Loud()])\n")
    rest = made("def rest(x):\n    x.clear()\n    return list(died)\n")
    fn.__globals__.update(RESUME=_C.Resume(rest.__code__), Loud=Loud, died=died)
    assert _C.Wrapped(fn, owner_of(replacing(first.__code__)))(1) == [True]


@pytest.mark.parametrize("torch_first", [True, False])
def test_beside_torchs_hook(torch_first):
    calls = []

    def fn(x):
        calls.append(_C.current_owner() is not None)
        return x + 1

    ours = owner_of(lambda view: _C.PASS)
    x = torch.ones(2)
    if torch_first:
        compiled = torch.compile(_C.Wrapped(fn, ours), backend="eager")
    else:
        compiled = _C.Wrapped(torch.compile(fn, backend="eager"), ours)
    for _ in range(3):
        assert torch.equal(compiled(x), x + 1)
    assert not _C.hook_installed()
    torch._dynamo.reset()


def test_marks():
    asked = []

    def inner():
        return 1

    def fn():
        return inner()

    def callback(view):
        asked.append(view.code.co_name)
        return _C.PASS

    wrapped = _C.Wrapped(fn, owner_of(callback))
    _C.mark_code(fn.__code__, _C.MARK_SKIP)
    assert _C.get_mark(fn.__code__) == _C.MARK_SKIP
    assert wrapped() == 1 and asked == ["inner"]
    _C.mark_code(fn.__code__, _C.MARK_SKIP_RECURSIVE)
    assert wrapped() == 1 and asked == ["inner"]
    with pytest.raises(ValueError):
        _C.mark_code(fn.__code__, 9)


def test_wrapped_is_like_its_function():
    def fn(a, b=2):
        """What it does."""
        return a + b

    owner = owner_of(lambda view: _C.SKIP)
    wrapped = _C.Wrapped(fn, owner)
    assert wrapped.__name__ == "fn" and wrapped.__doc__ == "What it does." and wrapped.__wrapped__ is fn
    assert wrapped.__module__ == __name__ and wrapped.__qualname__ == fn.__qualname__ and wrapped.owner is owner
    assert str(inspect.signature(wrapped)) == "(a, b=2)" and wrapped.__defaults__ == (2,)
    wrapped.mine = 5
    assert wrapped.mine == 5 and weakref.ref(wrapped)() is wrapped

    class Holder:
        method = wrapped

    assert Holder().method.__self__.__class__ is Holder
    assert _C.Wrapped(lambda self: self, owner).__get__(7)() == 7
    with pytest.raises(TypeError, match="can't be called"):
        _C.Wrapped(3, owner)
    with pytest.raises(TypeError, match="must be an Owner"):
        _C.Wrapped(fn, 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        wrapped()
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        pickle.dumps(wrapped)


def test_graph_call_hides_what_is_below_and_splices():
    asked = []

    def inner(*args):
        return _C.current_owner() is _C.OFF, args

    def callback(view):
        asked.append(view.code.co_name)
        return _C.PASS

    call = _C.GraphCall(inner, 2)
    assert call.fn is inner and call.captured == 2

    def fn():
        return call((1, 2, 3), 4)

    assert _C.Wrapped(fn, owner_of(callback))() == (True, (1, 2, 4))
    assert asked == ["fn"]
    assert _C.GraphCall(inner)(1, 2)[1] == (1, 2)
    assert _C.GraphCall(inner, 100)(tuple(range(100)), 7)[1] == (*range(100), 7)
    with pytest.raises(TypeError, match="tuple of them first"):
        call(3)


def test_instance_call():
    class Slots:
        __slots__ = ("target",)

    class Called(Slots):
        __call__ = _C.InstanceCall(Slots.__dict__["target"])

    made = Called()
    with pytest.raises(AttributeError):
        made(1)
    made.target = lambda *args, **kwargs: (args, kwargs)
    assert made(1, 2, key=3) == ((1, 2), {"key": 3})
    assert Called.__call__(made, 1) == ((1,), {})


def test_trace_functions_see_the_program():
    events = []

    def fn(x):
        return x + 1

    def other(x):
        return "new"

    wrapped = _C.Wrapped(fn, owner_of(replacing(other.__code__)))
    assert wrapped(1) == "new"

    def trace(frame, event, arg):
        if frame.f_code is fn.__code__:
            events.append(event)
        return trace

    sys.settrace(trace)
    try:
        assert wrapped(1) == 2
    finally:
        sys.settrace(None)
    assert events == ["call", "line", "return"]
    assert wrapped(1) == "new"


def test_code_dies_with_its_entries_and_owner():
    fn = made("def fn(x):\n    return x\n")
    owner = owner_of(replacing(fn.__code__))
    wrapped = _C.Wrapped(fn, owner)
    assert wrapped(3) == 3
    code = weakref.ref(fn.__code__)
    (entry,) = owner.entries(fn.__code__)
    owner.reset()
    del wrapped, fn, entry
    owner.callback = None
    gc.collect()
    assert code() is None and owner.codes() == []

    fn = made("def fn(x):\n    return x\n")
    owner = owner_of(replacing(fn.__code__.replace(co_name="other")))
    assert _C.Wrapped(fn, owner)(3) == 3
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None and _C.entries(fn.__code__) == []
