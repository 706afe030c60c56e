"""Profilers see compiled programs. Under tracers and modes of torch's programs run in eager, said once, unless a
setting or a promise (``fullgraph``, `explain`, `export`) wants graphs."""

from __future__ import annotations

import contextlib
import cProfile
import os
import sys
import threading
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

import dynamo_lite as dl
from dynamo_lite.compiler import observers
from dynamo_lite.insight import notices
from modes import Noted

PACKAGE = os.path.dirname(dl.__file__)
LATER = sys.version_info >= (3, 12)


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    """Resets the record of warnings that are given once, before each test."""
    before = set(notices.said)
    notices.said.clear()
    observers.tell_of_tracers()
    yield
    notices.said.update(before)


def inner(x):
    return x * 2


def program(x):
    y = inner(x) + 1
    print(end="")
    return inner(y)


def raises(x):
    y = inner(x)
    print(end="")
    raise ValueError(y.shape)


def helper():
    pass


def backend(gm, example_inputs):
    helper()
    return gm.forward


def x():
    return torch.tensor([1.0, 2.0])


def watched(install: Callable[[Any], None], call: Callable[[], Any]) -> list[tuple[str, types.CodeType]]:
    """Returns (event, code) of the calls and returns that a trace or profile function gets while a call runs."""
    events = []

    def watch(frame, event, arg):
        if event in ("call", "return"):
            events.append((event, frame.f_code))
        return watch

    install(watch)
    try:
        call()
    finally:
        install(None)
    return events


def here(events: list[tuple[str, types.CodeType]]) -> list[tuple[str, str]]:
    """Returns the functions of this file that are in the program, by name."""
    names = ("inner", "program", "raises", "helper", "backend")
    return [(event, code.co_name) for event, code in events if code.co_filename == __file__ and code.co_name in names]


def both(*names: str) -> list[tuple[str, str]]:
    """Returns the events of several calls in order."""
    return [(event, name) for name in names for event in ("call", "return")]


def check_balanced(events: list[tuple[str, types.CodeType]]) -> None:
    """Checks that calls return in reverse order, and that no event is from the compiler's own code."""
    open_calls: list[types.CodeType] = []
    for event, code in events:
        assert not code.co_filename.startswith(PACKAGE), code
        if event == "call":
            open_calls.append(code)
        elif event == "return" and open_calls:  # the function that installs it returns, too
            assert open_calls.pop() is code
    assert open_calls == []


def quiet(call: Callable[[], Any]) -> Callable[[], Any]:
    """Calls a function with warnings turned into errors."""

    def calls():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return call()

    return calls


# -- profilers -----------------------------------------------------------------------------------------------------


def test_a_profile_function_sees_compiled_code():
    compiled = dl.compile(program, backend=backend)
    first = watched(sys.setprofile, quiet(lambda: compiled(x())))
    assert dl.counters.graphs == 2
    in_backend = [("call", "backend"), *both("helper"), ("return", "backend")]
    assert here(first) == [*in_backend, *both("program"), *in_backend, *both("program")]
    check_balanced(first)
    hits = watched(sys.setprofile, lambda: compiled(x()))
    assert here(hits) == both("program", "program")
    check_balanced(hits)
    for _, code in hits:
        if code.co_name == "program":
            assert (code.co_filename, code.co_firstlineno) == (__file__, program.__code__.co_firstlineno)
            assert code is not program.__code__ and code.co_qualname == "program"
    assert torch.equal(compiled(x()), program(x()))


def test_exceptions_under_a_profile_function():
    compiled = dl.compile(raises, backend=backend)

    def call():
        with pytest.raises(ValueError, match="2"):
            compiled(x())

    for _ in range(2):
        events = watched(sys.setprofile, call)
        assert here(events)[-4:] == both("raises", "raises")
        check_balanced(events)
    assert dl.counters.graphs == 1


def test_a_compiler_that_raises_under_a_profile_function():
    def broken(gm, example_inputs):
        raise KeyError("mine")

    compiled = dl.compile(program, backend=broken)

    def call():
        with pytest.raises(dl.exc.BackendCompilerFailed):
            compiled(x())

    for _ in range(2):
        check_balanced(watched(sys.setprofile, call))


def test_a_profile_function_that_keeps_frames():
    compiled = dl.compile(program, backend="eager")
    kept = []

    def keep(frame, event, arg):
        kept.append((frame, arg))

    for _ in range(3):
        sys.setprofile(keep)
        try:
            compiled(x())
        finally:
            sys.setprofile(None)
    for frame, _ in kept:
        assert frame.f_code.co_name and isinstance(frame.f_locals, Mapping)
        if frame.f_code.co_name != "keep":
            frame.clear() if frame.f_back is None else None
    assert torch.equal(compiled(x()), program(x()))


def test_a_profile_function_that_compiles_nothing_itself():
    """Calls made by the profile function run in eager, because a profiler isn't part of the program."""
    compiled = dl.compile(inner, backend="eager")
    results = []

    def profile(frame, event, arg):
        if frame.f_code.co_name == "helper" and event == "call":
            results.append(compiled(x()))

    sys.setprofile(profile)
    try:
        helper()
    finally:
        sys.setprofile(None)
    assert torch.equal(results[0], inner(x())) and dl.counters.graphs == 0


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_fullgraph_is_kept_in_a_trace_function(install):
    whole = dl.compile(inner, backend="eager", fullgraph=True)
    broken = dl.compile(program, backend="eager", fullgraph=True)
    found = []

    def watch(frame, event, arg):
        if frame.f_code.co_name == "helper" and event == "call":
            found.append(whole(x()))
            with pytest.raises(dl.exc.Unsupported, match="print"):
                broken(x())
            found.append(dl.explain(program)(x()))
            found.append(dl.export(inner, x())[0])

    install(watch)
    try:
        helper()
    finally:
        install(None)
    result, explanation, gm = found
    assert torch.equal(result, inner(x())) and len(whole.owner.entries(inner.__code__)) == 1
    assert (explanation.graph_count, explanation.break_count) == (2, 1)
    assert isinstance(gm, torch.fx.GraphModule) and torch.equal(gm(x()), inner(x()))


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("promise", ["fullgraph", "explain", "export"])
@pytest.mark.on_cpu
def test_promises_deep_in_recursion(promise, warm):
    """There the hook leaves frames alone, as the C stack might end in a call of it."""
    whole = dl.compile(inner, backend="eager", fullgraph=True)
    call = {"fullgraph": whole, "explain": dl.explain(inner), "export": lambda x: dl.export(inner, x)}[promise]
    ended = []

    def down(depth):
        if depth % 50 == 0:
            try:
                call(x()) if warm or depth > 300 else None
            except Exception as error:
                return error
        return next(map(down, [depth + 1]))  # on the C stack

    before, limit = threading.stack_size(512 * 1024), sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        worker = threading.Thread(target=lambda: ended.append(down(0)))
        worker.start()
        worker.join()
    finally:
        threading.stack_size(before)
        sys.setrecursionlimit(limit)
    (error,) = ended
    assert isinstance(error, dl.exc.Unsupported) and error.reason.code == "DL0805"
    assert "inner can't be compiled where it is called: it is called so deep in recursion" in str(error)
    if promise == "fullgraph":
        assert torch.equal(whole(x()), inner(x())) and len(whole.owner.entries(inner.__code__)) == 1


def test_cprofile_measures_the_compiled_program():
    compiled = dl.compile(program, backend=backend)
    profile = cProfile.Profile()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile.enable()
        try:
            compiled(x())
            compiled(x())
        finally:
            profile.disable()
    assert dl.counters.graphs == 2
    codes = [entry for entry in profile.getstats() if isinstance(entry.code, types.CodeType)]
    calls = Counter({name: 0 for name in ("program", "backend", "inner")})
    for entry in codes:
        assert not entry.code.co_filename.startswith(PACKAGE), entry.code
        if entry.code.co_filename == __file__:
            calls[entry.code.co_name] += entry.callcount
    # A function that breaks has two parts, which are called one after the other.
    assert (calls["program"], calls["backend"], calls["inner"]) == (4, 2, 0)


# -- tracers -------------------------------------------------------------------------------------------------------


def settrace(call: Callable[[], Any]) -> list[tuple[str, types.CodeType]]:
    return watched(sys.settrace, call)


def test_under_a_tracer_frames_run_in_eager_with_one_warning():
    compiled = dl.compile(program, backend=backend)
    with pytest.warns(RuntimeWarning, match="run in eager here: a tracer.*compile_when_observed = True") as caught:
        events = settrace(lambda: compiled(x()))
    assert here(events) == here(settrace(lambda: program(x()))) and dl.counters.frames == 0
    assert [each.filename for each in caught] == [__file__]
    check_balanced([each for each in events if not each[1].co_filename.startswith(os.path.dirname(pytest.__file__))])
    again = settrace(quiet(lambda: compiled(x())))
    assert here(again) == here(events)
    compiled(x())
    assert dl.counters.graphs == 2
    assert here(settrace(lambda: compiled(x()))) == here(events)


def test_filter_turns_the_warning_about_a_tracer_into_an_error():
    compiled = dl.compile(program, backend="eager")

    def call():
        with warnings.catch_warnings(), pytest.raises(RuntimeWarning, match="a tracer"):
            warnings.simplefilter("error")
            compiled(x())
        assert torch.equal(compiled(x()), program(x()))

    settrace(call)
    assert dl.counters.graphs == 0


def test_the_setting_compiles_under_a_tracer():
    compiled = dl.compile(program, backend=backend)
    with dl.config.patch(compile_when_observed=True):
        events = settrace(quiet(lambda: compiled(x())))
    assert dl.counters.graphs == 2
    check_balanced(events)
    calls = [each for each in here(events) if each[0] == "call"]
    assert calls == [("call", name) for name in ("backend", "helper", "program") * 2]
    assert dl.config.compile_when_observed is False
    with pytest.warns(RuntimeWarning, match="a tracer"):
        assert ("call", "inner") in here(settrace(lambda: compiled(x())))


def test_fullgraph_is_kept_under_a_tracer():
    whole = dl.compile(inner, backend=backend, fullgraph=True)
    broken = dl.compile(program, backend=backend, fullgraph=True)
    found = []

    def call():
        assert torch.equal(whole(x()), inner(x()))
        with pytest.raises(dl.exc.Unsupported, match="print"):
            broken(x())
        with pytest.raises(dl.exc.Unsupported, match="print"):
            dl.export(program, x())
        found.append(dl.explain(program)(x()))
        found.append(dl.export(inner, x())[0])

    before = dl.counters.graphs
    events = settrace(quiet(call))
    explanation, gm = found
    assert (explanation.graph_count, explanation.break_count) == (2, 1)
    assert isinstance(gm, torch.fx.GraphModule) and torch.equal(gm(x()), inner(x()))
    assert dl.counters.graphs > before
    seen = {code.co_filename for _, code in events}
    for unseen in ("translator", "codegen"):  # others have callbacks of weak references, which run at any time
        assert not any(each.startswith(os.path.join(PACKAGE, unseen)) for each in seen)


def test_a_tracer_that_is_set_by_the_program_itself():
    """`sys.settrace` breaks the graph, and the rest runs in eager."""

    def fn(x):
        y = x * 2
        sys.settrace(trace)
        z = inner(y)
        sys.settrace(None)
        return z + 1

    def trace(frame, event, arg):
        if event in ("call", "return"):
            seen.append((event, frame.f_code.co_name))
        return trace

    seen: list[tuple[str, str]] = []
    with pytest.warns(RuntimeWarning, match="a tracer"):
        assert torch.equal(dl.compile(fn, backend="eager")(x()), x() * 4 + 1)
    assert [each for each in seen if each[1] == "inner"] == both("inner")


# -- modes of torch's and the like ---------------------------------------------------------------------------------


class Pass(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Noted, lambda: FlopCounterMode(display=False), FakeTensorMode])
def test_under_a_mode_frames_run_in_eager_with_one_warning(mode):
    compiled = dl.compile(program, backend="eager")
    with mode(), pytest.warns(RuntimeWarning, match="run in eager here: a TorchDispatchMode") as caught:
        compiled(torch.ones(2))
    assert [each.filename for each in caught] == [__file__]
    with mode():
        quiet(lambda: compiled(torch.ones(2)))()
    assert not compiled.owner.entries(program.__code__)
    compiled(x())
    assert compiled.owner.entries(program.__code__)


def pack(value):
    return value


PLACES = {
    "a dispatch mode": (Noted, "a TorchDispatchMode"),
    "flops": (lambda: FlopCounterMode(display=False), "a TorchDispatchMode"),
    "fakes": (FakeTensorMode, "a TorchDispatchMode"),
    "a function mode": (Pass, "a TorchFunctionMode"),
    "hooks": (lambda: torch.autograd.graph.saved_tensors_hooks(pack, pack), "saved_tensors_hooks"),
}
if hasattr(torch.autograd.graph, "node_creation_hook"):  # torch 2.15
    PLACES["hooks on nodes"] = (lambda: torch.autograd.graph.node_creation_hook(pack), "a node_creation_hook")


@pytest.mark.parametrize("place, named", PLACES.values(), ids=PLACES)
def test_promises_raise_where_nothing_can_be_captured(place, named):
    whole = dl.compile(inner, backend="eager", fullgraph=True)
    for promise in (whole, dl.explain(inner), lambda x: dl.export(inner, x)):
        with place(), pytest.raises(dl.exc.Unsupported, match=f"inner can't be compiled.*{named}") as caught:
            promise(torch.ones(2))
        assert caught.value.reason.code == "DL0805"
    assert torch.equal(whole(x()), inner(x()))
    with place(), pytest.raises(dl.exc.Unsupported, match=named):  # warm or not
        whole(torch.ones(2))


def test_promises_raise_in_a_torch_jit_trace():
    whole = dl.compile(inner, backend="eager", fullgraph=True)
    with pytest.raises(dl.exc.Unsupported, match="torch.jit.trace is at work"):
        torch.jit.trace(whole, x())


def test_eager_runs_that_no_setting_changes_are_logged(caplog):
    compiled = dl.compile(inner, backend="eager")
    with caplog.at_level("DEBUG", "dynamo_lite.breaks"), Pass():
        for _ in range(2):
            quiet(lambda: compiled(x()))()
    said = [each.message for each in caplog.records if "a TorchFunctionMode is in force" in each.message]
    assert len(said) == 1 and not compiled.owner.entries(inner.__code__)


def test_the_setting_compiles_under_dispatch_modes():
    def fn(x):
        return torch.relu(x @ x) + 1

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    with Noted() as wanted:
        expected = fn(torch.ones(2, 2))
    with dl.config.patch(compile_when_observed=True):
        for _ in range(3):  # each time with another mode
            with Noted() as mode:
                found = compiled(torch.ones(2, 2))
            assert torch.equal(found, expected) and mode.seen == wanted.seen
            with FlopCounterMode(display=False) as flops:
                compiled(torch.ones(2, 2))
            assert flops.get_total_flops() == 16
    assert dl.counters.graphs == 1


def affine(x):
    return x * 2 + 1


def affine_under_a_hook(x):
    with torch.autograd.graph.node_creation_hook(lambda node: NODES.append(node.name())):
        return x * 2 + 1


NODES = []


def nodes_seen(call):
    """Returns the names of the nodes that a hook around the call, or inside it, receives."""
    NODES.clear()
    with torch.autograd.graph.node_creation_hook(lambda node: NODES.append(node.name())):
        call(torch.ones(2, requires_grad=True))
    return [*NODES]


@pytest.mark.skipif(not hasattr(torch.autograd.graph, "node_creation_hook"), reason="torch 2.15 added it")
@pytest.mark.parametrize("fn", [affine, affine_under_a_hook])
def test_a_hook_on_nodes_sees_those_of_the_program(fn):
    compiled = dl.compile(fn, backend="aot_eager")
    wanted = nodes_seen(fn)
    assert nodes_seen(compiled) == wanted
    compiled(torch.ones(2, requires_grad=True))  # from now on there is an entry
    NODES.clear()
    compiled(torch.ones(2, requires_grad=True))
    assert len(NODES) == (3 if fn is affine_under_a_hook else 0)
    assert nodes_seen(compiled) == wanted


class Doubles(TorchFunctionMode):
    """Doubles results, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        result = func(*args, **(kwargs or {}))
        return result * 2 if func.__name__ == "sin" else result


def in_a_block(x, mode):
    with mode:
        y = sine(x * 2)
        print(end="")
        y = sine(y) + 1
    return sine(y)


def by_calls(x, mode):
    y = x * 2
    mode.__enter__()
    y = sine(y)
    mode.__exit__(None, None, None)
    return sine(y)


def in_a_callee(x, mode):
    def callee(x):
        with mode:
            return sine(x)

    return sine(callee(x * 2)) + 1


def in_a_generators_block(x, mode):
    @contextlib.contextmanager
    def entered():
        with mode:
            yield

    with entered():
        y = sine(x * 2)
    return sine(y)


def sine(x):
    return torch.sin(x)


@pytest.mark.parametrize("mode", [Doubles, Noted])
@pytest.mark.parametrize("entering", [in_a_block, by_calls, in_a_callee, in_a_generators_block])
@pytest.mark.filterwarnings("ignore:compiled functions run in eager")
def test_a_mode_that_is_entered_inside(entering, mode):
    """The mode receives the functions of eager. Functions under it run in eager, but its own handler and later code
    may be compiled.
    """
    compiled = dl.compile(entering, backend="eager")
    warm = dl.compile(sine, backend="eager", dynamic=False)
    warm(x())
    for _ in range(3):
        found, wanted = mode(), mode()
        assert torch.equal(compiled(x(), found), entering(x(), wanted)) and found.seen == wanted.seen != []
    assert compiled.owner.entries(entering.__code__)
    given, found, wanted = x(), mode(), mode()
    with found:
        result = warm(given)
    with wanted:
        expected = sine(given)
    assert torch.equal(result, expected) and found.seen == wanted.seen != []


def test_a_program_that_enters_a_mode_can_be_explained():
    def fn(x):
        y = x * 2
        with Noted() as mode:
            z = inner(y)
        return z, len(mode.seen)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dl.explain(fn)(x())
    assert found.result[1] == 1 and found.break_count


# -- sys.monitoring ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not LATER, reason="sys.monitoring is there from 3.12 on")
@pytest.mark.parametrize("tool", ["PROFILER_ID", "4"])
def test_a_profiler_by_monitoring_sees_compiled_code(tool):
    monitoring = sys.monitoring
    tool = getattr(monitoring, tool, 4)
    compiled = dl.compile(program, backend=backend)
    events: list[tuple[str, types.CodeType]] = []
    on, here_only = monitoring.events, threading.get_ident()

    def note(name, code):
        if threading.get_ident() == here_only:  # others, as tqdm's, are in the middle of calls
            events.append((name, code))

    monitoring.use_tool_id(tool, "test")
    try:
        for event, name in ((on.PY_START, "call"), (on.PY_RETURN, "return"), (on.PY_UNWIND, "return")):
            monitoring.register_callback(tool, event, lambda code, *_, name=name: note(name, code))
        monitoring.set_events(tool, on.PY_START | on.PY_RETURN | on.PY_UNWIND | on.CALL)
        quiet(lambda: compiled(x()))()
        compiled(x())
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    assert dl.counters.graphs == 2
    in_backend = [("call", "backend"), *both("helper"), ("return", "backend")]
    first = [*in_backend, *both("program"), *in_backend, *both("program")]
    assert here(events) == first + both("program", "program")
    check_balanced(events)


@pytest.mark.skipif(not LATER, reason="sys.monitoring is there from 3.12 on")
@pytest.mark.parametrize("tool, event", [("COVERAGE_ID", "PY_START"), ("DEBUGGER_ID", "PY_START"), ("4", "LINE")])
def test_a_tracer_by_monitoring_sees_the_program_in_eager(tool, event):
    monitoring = sys.monitoring
    tool = getattr(monitoring, tool, 4)
    compiled = dl.compile(program, backend=backend)
    seen = []
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, getattr(monitoring.events, event), lambda code, _: seen.append(code))
        monitoring.set_events(tool, getattr(monitoring.events, event))
        with pytest.warns(RuntimeWarning, match="a tracer"):
            compiled(x())
        assert dl.counters.graphs == 0 and {program.__code__, inner.__code__} <= {*seen}
        assert dl.explain(program)(x()).graph_count == 2
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
