"""torch.compile over what dl.compile returns, and the other way round: the outer one captures all of it. And tracers of
torch's over compiled functions: they get what they get of the program as it was written."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import threading
import types

import pytest
import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

import dynamo_lite as dl
from dynamo_lite import _C
from programs import Recorder, tensor
from weights import seeded

pytest.importorskip("torch._dynamo")

COMPILERS = {"dl": dl.compile, "torch": torch.compile}
OTHER = {"dl": torch.compile, "torch": dl.compile}
"""The inner one, by the name of the outer one."""


def waves(x):
    return torch.sin(x) * 2 + 1


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1


class Scales:
    def __init__(self, by=3.0):
        self.weight = torch.ones(3) * by

    def step(self, x):
        return waves(x) * self.weight

    __call__ = step


# What is compiled by `inner`, and the same without.


def function(inner):
    return inner(waves), waves


def closure(inner):
    weight = torch.ones(3) * 2

    def scaled(x):
        return waves(x) * weight

    return inner(scaled), scaled


def bound_method(inner):
    scales = Scales()
    return inner(scales.step), scales.step


def decorated_method(inner):
    class Decorated(Scales):
        compiled = inner(Scales.step)

    scales = Decorated()
    return scales.compiled, scales.step


def callable_object(inner):
    scales = Scales()
    return inner(scales), scales


def operator(inner):
    return inner(torch.sin), torch.sin


def module(inner):
    layer = seeded(Layer())
    return inner(layer), layer


def library_module(inner):
    linear = seeded(nn.Linear(3, 3))
    return inner(linear), linear


def child(inner):
    layer = seeded(Layer())
    return nn.Sequential(inner(layer), nn.ReLU()), nn.Sequential(layer, nn.ReLU())


def replaced_forward(inner):
    layer = seeded(Layer())
    compiled = copy.copy(layer)
    compiled.forward = inner(layer.forward)
    return compiled, layer


def decorated_forward(inner):
    class Decorated(Layer):
        @inner
        def forward(self, x):
            return super().forward(x)

    layer = seeded(Decorated())
    return layer, functools.partial(Layer.forward, layer)


def with_hooks(inner):
    layer = seeded(Layer())
    layer.register_forward_hook(lambda module, args, result: result * 3)
    return inner(layer), layer


def twice(inner):
    both = torch.compile(dl.compile(waves, backend="eager"), backend="eager")
    return inner(both), waves


SUBJECTS = (
    *(function, closure, bound_method, decorated_method, callable_object, operator),
    *(module, library_module, child, replaced_forward, decorated_forward, with_hooks, twice),
)


@pytest.fixture(autouse=True)
def nobody_is_left():
    torch._dynamo.reset()
    yield
    assert torch._C._dynamo.eval_frame.set_eval_frame(None) is None
    assert not _C.hook_installed() and _C.current_owner() is None
    torch._dynamo.reset()


def check_whole(outer, program, expected, x, fullgraph, graphs=1):
    """Checks that the outer compiler's graphs contain all operators."""
    recorder = Recorder()
    compiled = COMPILERS[outer](program, backend=recorder, fullgraph=fullgraph)
    for _ in range(2):
        assert torch.equal(compiled(x), expected)
    assert len(recorder.graphs) == graphs and recorder.runs == 2 * graphs


@pytest.mark.parametrize("where, warm", [("outside", False), ("inside", False), ("inside", True)])
@pytest.mark.parametrize("outer", COMPILERS)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_the_outer_one_captures_all(subject, outer, where, warm):
    for fullgraph in (False, True):
        torch._dynamo.reset()
        inner, eager = subject(functools.partial(OTHER[outer], backend="eager"))
        x = tensor(2, 3)
        if warm:
            inner(x)
        if where == "outside":
            graphs = 2 if (subject, outer) == (with_hooks, "torch") else 1  # it calls a module's own hooks itself
            check_whole(outer, inner, eager(x), x, fullgraph, graphs)
        else:
            check_whole(outer, lambda x: inner(x + 1) - 1, eager(x + 1) - 1, x, fullgraph)  # noqa: B023


@pytest.mark.parametrize("outer", COMPILERS)
def test_compiled_modules_of_torchs_and_ours_inside(outer):
    layer = seeded(Layer())
    itself = copy.deepcopy(layer)
    itself.compile(backend="eager")
    ours, theirs = dl.compile(layer, backend="eager"), torch.compile(layer, backend="eager")
    theirs_with_hook = torch.compile(layer, backend="eager")
    theirs_with_hook.register_forward_hook(lambda module, args, result: result * 3)

    def program(x):
        y = itself(ours(theirs(x))) * theirs.linear.weight.sum() + (1 if theirs.training and ours.training else 0)
        return y + ours.forward(x) + theirs_with_hook(x) if outer == "dl" else y + ours.forward(x)

    def expected(x):
        y = layer(layer(layer(x))) * layer.linear.weight.sum() + 1
        return y + layer(x) + layer(x) * 3 if outer == "dl" else y + layer(x)

    x = tensor(2, 3)
    check_whole(outer, program, expected(x), x, fullgraph=True)


def test_which_function_torch_compiled_is_guarded():
    def scaled_by(k):
        return torch.compile(lambda x: x * k, backend="eager")

    twice, thrice = scaled_by(2), scaled_by(3)
    first, second = torch.compile(nn.Linear(3, 3), backend="eager"), torch.compile(nn.Linear(3, 3), backend="eager")
    compiled = dl.compile(lambda x, inner: inner(x) + 1, backend="eager", fullgraph=True)
    x = tensor(2, 3)
    for inner in (twice, thrice, first, second, twice, first):
        eager = getattr(inner, "_orig_mod", inner)
        assert torch.equal(compiled(x, inner), eager(x) + 1)


def test_a_module_that_compiles_itself_later():
    layer = seeded(Layer())
    compiled, x = dl.compile(layer, backend="eager", fullgraph=True), tensor(2, 3)
    expected = layer(x)
    assert torch.equal(compiled(x), expected)
    layer.compile(backend="eager")
    assert torch.equal(compiled(x), expected) and torch.equal(layer(x), expected)


@pytest.mark.parametrize("inner", COMPILERS)
def test_a_wrapper_of_a_compiled_function_is_its_own(inner):
    """``functools.wraps`` copies attributes, so the wrapper must not be mistaken for the wrapped function."""
    compiled = COMPILERS[inner](waves, backend="eager")

    @functools.wraps(compiled)
    def wrapper(x):
        return compiled(x) * 3

    x = tensor(3)
    outer = "torch" if inner == "dl" else "dl"
    check_whole(outer, lambda x: wrapper(x) + 1, waves(x) * 3 + 1, x, fullgraph=True)


def test_disabled_by_torch_stays_disabled():
    for recursive, marked in itertools.product((False, True), (waves, Layer())):
        if not recursive and isinstance(marked, nn.Module):
            continue
        disabled = torch.compiler.disable(marked, recursive=recursive)
        x, recorder = tensor(2, 3), Recorder()
        compiled = dl.compile(lambda x: disabled(x + 1) - 1, backend=recorder)  # noqa: B023
        assert torch.equal(compiled(x), marked(x + 1) - 1)
        assert len(recorder.graphs) == (2 if recursive else 3)
        with pytest.raises(dl.exc.Unsupported, match="left out of graphs"):
            dl.compile(disabled, backend="eager", fullgraph=True)(x)


def disabled_function():
    return dl.disable(looks)


def disabled_method():
    class Looks:
        look = dl.disable(lambda self, x: looks(x))

        @dl.disable
        @staticmethod
        def look_as_well(x):
            return looks(x)

    return lambda x: Looks().look(x) if x.requires_grad else Looks().look_as_well(x)


def disabled_bound_method():
    return dl.disable(Looks().forward)


def disabled_partial():
    return dl.disable(functools.partial(looks))


def disabled_module():
    return dl.disable(Looks())


def method_of_a_module():
    class Half(Looks):
        forward = dl.disable(Looks.forward)

    return Half()


def looks(x):
    return leaf(x) + 2


def leaf(x):
    return torch.cos(x)


class Looks(nn.Module):
    def forward(self, x):
        return looks(x)


DISABLED = (disabled_function, disabled_method, disabled_bound_method, disabled_partial, disabled_module)


@pytest.mark.parametrize("disabled", (*DISABLED, method_of_a_module), ids=lambda disabled: disabled.__name__)
@pytest.mark.parametrize("outer", COMPILERS)
def test_what_is_disabled_stays_so_for_both(disabled, outer):
    """All callees of the disabled function run in eager, and the outer compiler continues after it."""
    fn, x = disabled(), tensor(3)
    recorder = Recorder()

    def program(x):
        return torch.sin(fn(torch.tan(x)))

    compiled = COMPILERS[outer](program, backend=recorder)
    for _ in range(2):
        assert torch.equal(compiled(x), torch.sin(torch.cos(torch.tan(x)) + 2))
    called = [node.target for gm in recorder.graphs for node in gm.graph.nodes if node.op == "call_function"]
    assert called == [torch.tan, torch.sin]
    torch._dynamo.reset()
    if outer == "dl":  # torch.compile raises as well, and leaves its hook in the process for good
        with pytest.raises(dl.exc.Unsupported, match="left out|disable"):
            dl.compile(program, backend="eager", fullgraph=True)(x)


# -- programs that break -----------------------------------------------------------------------------------------------


def breaks(x, seen, fail=False):
    y = torch.sin(x)
    seen.append(float(y.sum()))
    if fail:
        raise KeyError("a key")
    try:
        print(end="")
        return (y * 2).cos()
    finally:
        seen.append(2)


def around(inner):
    def program(x, seen, fail=False):
        y = x + 1
        print(end="")
        y = inner(y, seen, fail)
        print(end="")
        return y - 1

    return program


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("outer", COMPILERS)
def test_outer_hook_is_restored_after_breaks_and_errors(outer, backend):
    """The outer hook is restored after each call, also after one that raises."""
    for warm, train in itertools.product((False, True), repeat=2):
        torch._dynamo.reset()
        inner = OTHER[outer](breaks, backend=backend)
        x = tensor(3, grad=train)
        if warm:
            inner(x, [])
        compiled, eager = COMPILERS[outer](around(inner), backend=backend), around(breaks)
        for _ in range(3):
            found, wanted = [], []
            result, expected = compiled(x, found), eager(x, wanted)
            torch.testing.assert_close(result, expected)
            assert found == wanted
            if train:
                (grad,), (of_eager,) = torch.autograd.grad(result.sum(), x), torch.autograd.grad(expected.sum(), x)
                torch.testing.assert_close(grad, of_eager)
            with pytest.raises(KeyError, match="a key"):
                compiled(x, [], True)
            assert not _C.hook_installed() and _C.current_owner() is None
            assert torch._C._dynamo.eval_frame.set_eval_frame(None) is None


def test_compilers_on_different_threads():
    """torch.compile on one thread doesn't affect another thread."""
    recorder = Recorder()
    ours = dl.compile(waves, backend=recorder, fullgraph=True)
    x, inside, done = tensor(3), threading.Event(), threading.Event()

    @torch.compiler.disable
    def wait():
        inside.set()
        assert done.wait(60)

    def theirs(x):
        y = x + 1
        wait()
        return y * 2

    results = []
    worker = threading.Thread(target=lambda: results.append(torch.compile(theirs, backend="eager")(x)))
    worker.start()
    assert inside.wait(60)
    for _ in range(2):
        assert torch.equal(ours(x), waves(x))
    done.set()
    worker.join()
    assert torch.equal(results[0], (x + 1) * 2)
    assert recorder.runs == 2


def test_compiling_inside_of_a_program_of_torchs():
    def compiles(x):
        return dl.compile(waves, backend="eager")(x) + 1

    def optimizes(x):
        with dl.optimize("eager"):
            y = waves(x)
        with dl.enable("eager", threads="current"):
            return waves(y) + 1

    def explains(x):
        found = dl.explain(breaks)(x, [])
        return found.result * found.graph_count + found.break_count

    def exports(x):
        gm, guards = dl.export(waves, x)
        return gm(x) + len(guards)

    x = tensor(3)
    for program in (compiles, optimizes, explains, exports):
        torch._dynamo.reset()
        compiled = torch.compile(program, backend="eager")
        for _ in range(2):
            assert torch.equal(compiled(x), program(x))


def test_compiling_all_threads_inside_of_a_program_of_torchs():
    """The owner applies to the other threads. torch.compile handles the frames of this one."""
    ours, theirs, x = Recorder(), Recorder(), tensor(3)

    def program(x):
        with dl.enable(ours):
            found = []
            worker = threading.Thread(target=lambda: found.append(waves(x)))
            worker.start()
            worker.join()
            y = waves(x) + 1
            print(end="")
            return waves(y) + found[0]

    compiled = torch.compile(program, backend=theirs)
    expected = waves(waves(x) + 1) + waves(x)
    for _ in range(2):
        assert torch.equal(compiled(x), expected)
    assert len(theirs.graphs) == 1 and theirs.runs == 4
    assert ours.runs >= 2  # what torch.compile's backend returned may be compiled as well


def test_compiling_all_threads_beside_a_program_of_torchs():
    """Whoever names an owner for the process, on any thread, has ours put on top of torch.compile's hook."""
    ours, theirs, x = Recorder(), Recorder(), tensor(3)
    enabled = dl.enable(ours)

    @torch.compiler.disable
    def elsewhere(change):
        worker = threading.Thread(target=change)
        worker.start()
        worker.join()

    def program(x):
        y = x + 1
        elsewhere(enabled.__enter__)
        y = waves(y)
        elsewhere(lambda: enabled.__exit__(None, None, None))
        return y * 2

    assert torch.equal(torch.compile(program, backend=theirs)(x), waves(x + 1) * 2)
    assert ours.graphs == [] and theirs.runs == 3


# -- what a compiled function is to a program --------------------------------------------------------------------------


def test_compiled_function_is_a_function_in_tracing():
    compiled, disabled = dl.compile(waves, backend="eager"), dl.disable(waves)
    compiled.note = 3

    def of_type(x):
        kinds = [isinstance(each, types.FunctionType) for each in (compiled, disabled)]
        return x + kinds[0] + 2 * kinds[1] + 4 * inspect.isfunction(compiled)

    def of_attributes(x):
        return x + hasattr(compiled, "note") + getattr(compiled, "nothing", 5) + hasattr(waves, "nothing")

    x = tensor(3)
    assert isinstance(compiled, types.FunctionType) and isinstance(disabled, types.FunctionType)
    assert isinstance(compiled, _C.Wrapped) and _C.Wrapped.__module__ == "dynamo_lite._C"
    for program in (of_type, of_attributes):
        assert torch.equal(dl.compile(program, backend="eager")(x), program(x))


# -- tracers -----------------------------------------------------------------------------------------------------------


class Holds(nn.Module):
    """A module with a callable attribute that isn't a submodule."""

    def __init__(self, inner):
        super().__init__()
        self.__dict__["inner"] = inner

    def forward(self, x):
        return self.inner(x)


def as_module(fn):
    return fn if isinstance(fn, nn.Module) else Holds(fn)


def exported(fn, x, strict):
    return torch.export.export(as_module(fn), (x,), strict=strict).module()


TRACERS = {
    "symbolic_trace": lambda fn, x: fx.symbolic_trace(fn),
    "make_fx": lambda fn, x: make_fx(fn)(x),
    "export": functools.partial(exported, strict=False),
    "strict export": functools.partial(exported, strict=True),
    "jit.trace": lambda fn, x: torch.jit.trace(fn, (x,)),
    "jit.script": lambda fn, x: torch.jit.script(fn),
}


def size(traced):
    if isinstance(traced, fx.GraphModule):
        return [node.op.startswith("call_") for node in traced.graph.nodes].count(True)
    return len(list(traced.graph.nodes()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("subject", [function, module, child, replaced_forward])
@pytest.mark.parametrize("tracer", TRACERS)
def test_tracers_see_the_program(tracer, subject, warm):
    compiled, eager = subject(functools.partial(dl.compile, backend="aot_eager"))
    x, trace = tensor(2, 3), TRACERS[tracer]
    if warm:
        compiled(x)
    traced = trace(compiled, x)
    other = tensor(2, 3, seed=1)
    torch.testing.assert_close(traced(other), eager(other))
    if not (tracer == "jit.trace" and subject is child):  # it doesn't know a compiled module for a child
        assert size(traced) == size(trace(eager, x))
