"""Direct calls of Inductor's code in inference: which of torch's wrappers are skipped, and which are kept."""

from __future__ import annotations

import gc
import inspect
import weakref

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite import _C
from processes import run_program
from small_models import InTuple


class Compiled:
    """The backend "inductor". It keeps its results."""

    def __init__(self, **settings):
        self.settings = settings
        self.found = []

    def __call__(self, gm, example_inputs):
        made = dl.lookup_backend("inductor")(gm, example_inputs, **self.settings)
        self.found.append(made)
        return made


def launches(backend):
    """Tells for each graph whether its calls go to the generated code."""
    return [isinstance(made, _C.Launch) and made.inner is not None for made in backend.found]


def results(fn, make, backend, calls=3):
    """Calls a function ``calls`` times, eagerly and compiled. Returns the results and the inputs afterwards."""
    compiled = dl.compile(fn, backend=backend)
    for _ in range(calls):
        theirs, mine = make(), make()
        expected, found = fn(*theirs), compiled(*mine)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(mine, theirs)
    return found, mine


def inputs():
    torch.manual_seed(0)
    return [torch.randn(4, 8), torch.randn(4, 8)]


DIRECT = {
    "pointwise": lambda x, y: torch.sin(x) * y + 1,
    "several results": lambda x, y: (x + y, x * y, (x - y).sum()),
    "one result twice": lambda x, y: (lambda z: [z, z, {"z": z}])(x + y),
    "constants and inputs beside": lambda x, y: (x, 3, x + y, None),
    "views made inside": lambda x, y: (x @ y.t()).softmax(-1).clone(),
    "kernels of aten": lambda x, y: torch.linalg.svdvals(x @ y.t()).cumsum(0),
    "no input": lambda x, y: torch.arange(8) * 2.0,
    "writes into what is made inside": lambda x, y: (x * 2).add_(y).mul_(3),
}


@pytest.mark.parametrize(("name", "grad"), [*((name, False) for name in DIRECT), ("pointwise", True)])
def test_programs_without_need_of_wrappers(name, grad):
    backend = Compiled()
    with torch.set_grad_enabled(grad):
        found, _ = results(DIRECT[name], inputs, backend)
        assert torch.is_grad_enabled() == grad
    assert launches(backend) == [True]


WRITING = {
    "writes into an input": lambda x, y: x.add_(y) * 2,
    "writes into inputs twice": lambda x, y: (x.add_(y), y.mul_(2), x.mul_(y))[2].sum(),
    "writes into a view of an input": lambda x, y: x[1:].add_(y[1:]).sum(),
    "only writes": lambda x, y: (x.copy_(y), None)[1],
}
WRAPPED = {
    "changes an input's shape": lambda x, y: x.t_() * 2 + y.sum(),
    "a view of an input": lambda x, y: (x[1:], x * y),
    "an input and its view": lambda x, y: (x.view(-1), y.t(), x + y),
    "views of one memory": lambda x, y: (lambda z: (z[0], z[1:]))(x + y),
}


@pytest.mark.parametrize(("name", "grad"), [*((name, True) for name in WRAPPED), ("views of one memory", False)])
def test_programs_that_need_them(name, grad):
    with torch.set_grad_enabled(grad):
        backend = Compiled()
        found, mine = results(WRAPPED[name], inputs, backend)
        expected = WRAPPED[name](*(theirs := inputs()))
    found, expected = (each if isinstance(each, tuple) else (each,) for each in (found, expected))
    for at, one in enumerate(found):
        for other, theirs_other in zip((*mine, *found[:at]), (*theirs, *expected[:at]), strict=True):
            shared = expected[at].untyped_storage()._cdata == theirs_other.untyped_storage()._cdata
            assert (one.untyped_storage()._cdata == other.untyped_storage()._cdata) == shared


@pytest.mark.parametrize(("name", "grad"), [*((name, False) for name in WRITING), ("only writes", True)])
def test_versions_of_what_is_written_to_go_up(name, grad):
    backend = Compiled()
    with torch.set_grad_enabled(grad):
        results(WRITING[name], inputs, backend)
        compiled = dl.compile(WRITING[name], backend=backend)
        x, y = inputs()
        for _ in range(3):
            before = x._version, y._version
            compiled(x, y)
            assert x._version > before[0] and (y._version > before[1]) == ("inputs" in name)
    assert launches(backend) == [True, True]


def test_a_write_spoils_what_a_backward_needs():
    def fn(x, y):
        return x.add_(y).sum()

    backend = Compiled()
    compiled = dl.compile(fn, backend=backend)
    x, y = inputs()
    weight = torch.randn(4, 8, requires_grad=True)
    for _ in range(2):
        compiled(x, y)
    assert launches(backend) == [True]
    product = weight * x
    compiled(x, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_tensors_of_inference_mode_have_no_versions():
    backend = Compiled()
    with torch.inference_mode():
        results(WRITING["writes into an input"], inputs, backend)
    assert launches(backend) == [True]


def test_training_goes_its_way():
    backend = Compiled()
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    compiled = dl.compile(module, backend=backend)
    x = torch.randn(4, 8)
    for _ in range(2):
        compiled(x).sum().backward()
    assert launches(backend) == [False]
    grads = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    for _ in range(2):
        module(x).sum().backward()
    for one, other in zip(grads, [p.grad for p in module.parameters()]):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_inference_of_a_module_and_training_of_it():
    backend = Compiled()
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU())
    compiled = dl.compile(module, backend=backend)
    x = torch.randn(4, 8)
    module.eval()
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), module(x))
    assert launches(backend) == [True]
    found = compiled(x)
    assert found.requires_grad and launches(backend) == [True, False]


def test_results_do_not_require_grad_where_inputs_do():
    """An inference graph may be compiled while grad mode is on and inputs require grad."""

    def fn(x, y):
        return (x.detach() @ y.detach().t()).relu()

    backend = Compiled()
    compiled = dl.compile(fn, backend=backend)
    x, y = (each.requires_grad_() for each in inputs())
    for _ in range(3):
        found = compiled(x, y)
        torch.testing.assert_close(found, fn(x, y))
        assert not found.requires_grad and torch.is_grad_enabled()
    assert launches(backend) == [True]


def test_autocast_is_off_within():
    backend = Compiled()

    def fn(x, y):
        return torch.linalg.solve(x @ x.t(), y) + x @ y.t() @ x

    x, y = inputs()
    compiled = dl.compile(fn, backend=backend)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        for _ in range(3):
            try:
                expected = fn(x, y)
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    compiled(x, y)
            else:
                torch.testing.assert_close(compiled(x, y), expected, rtol=0.1, atol=0.1)
    assert True not in launches(backend)


def test_random_numbers_are_drawn_from_torchs_state():
    backend = Compiled(options={"fallback_random": True})

    def fn(x, y):
        return x + torch.rand_like(y)

    compiled = dl.compile(fn, backend=backend)
    compiled(*inputs())
    seen = []
    for seed in (1, 1, 2):
        x, y = inputs()
        torch.manual_seed(seed)
        seen.append(compiled(x, y))
        torch.manual_seed(seed)
        torch.testing.assert_close(seen[-1], fn(x, y))
    assert torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[2])
    assert launches(backend) == [True]


def test_subclasses_of_tensor():
    class Doubled(torch.Tensor):
        pass

    def fn(x, y):
        return x * 2 + y

    backend = Compiled()
    x, y = inputs()
    compiled = dl.compile(fn, backend=backend)
    for _ in range(3):
        found, expected = compiled(x.as_subclass(Doubled), y), fn(x.as_subclass(Doubled), y)
        assert type(found) is type(expected)
        torch.testing.assert_close(found.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))
    found = compiled(torch.nn.Parameter(x, requires_grad=False), y)
    torch.testing.assert_close(found, fn(x, y))


def test_profilers_see_what_they_saw():
    backend = Compiled()
    compiled = dl.compile(DIRECT["pointwise"], backend=backend)
    x, y = inputs()
    for _ in range(2):
        compiled(x, y)
    assert launches(backend) == [True]
    with torch.profiler.profile() as profile:
        found = compiled(x, y)
    assert any("Call CompiledFxGraph" in event.name for event in profile.events())
    torch.testing.assert_close(found, DIRECT["pointwise"](x, y))


@pytest.mark.skipif(
    torch.__version__ < (2, 12), reason="there Inductor's own code for a CPU crashes at an index out of range"
)
def test_errors_leave_grad_mode_as_it_was():
    def fn(x, index):
        return x[index].sin()

    backend = Compiled()
    compiled = dl.compile(fn, backend=backend)
    x = torch.randn(4)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, torch.tensor([1, 3])), fn(x, torch.tensor([1, 3])))
    assert launches(backend) == [True]
    for wrong in (torch.tensor([0, 7]), torch.tensor([0, -9])):
        with pytest.raises((IndexError, RuntimeError)):
            compiled(x, wrong)
        assert torch.is_grad_enabled()
    torch.testing.assert_close(compiled(x, torch.tensor([1, 3])), fn(x, torch.tensor([1, 3])))


def test_another_compilers_hook_does_not_see_the_generated_code():
    seen = []

    def spy(gm, example_inputs):
        seen.append(gm)
        return gm.forward

    backend = Compiled()
    inner = dl.compile(DIRECT["pointwise"], backend=backend)
    x, y = inputs()
    for _ in range(2):
        inner(x, y)

    def outer(x, y):
        torch._dynamo.graph_break()
        return inner(x, y)

    theirs = torch.compile(outer, backend=spy)
    for _ in range(2):
        torch.testing.assert_close(theirs(x, y), DIRECT["pointwise"](x, y))
    assert len(seen) <= 1  # of the program's own frame, at most; none of the code that Inductor wrote
    assert not any("empty_strided" in str(node.target) for gm in seen for node in gm.graph.nodes)


def test_a_graph_with_parameters_of_its_own():
    """Users of Inductor may pass such a graph. Graphs that we capture have no parameters."""
    module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(8, 8)).eval().requires_grad_(False))

    x, _ = inputs()
    gm = torch.fx.symbolic_trace(InTuple(module))
    with torch.no_grad():
        compiled = dl.lookup_backend("inductor")(gm, [x])
        for _ in range(3):
            torch.testing.assert_close(compiled(x)[0], module(x))


def test_compiled_code_dies_with_its_entry():
    backend = Compiled()
    compiled = dl.compile(lambda x, y: x * y + 3, backend=backend)
    for _ in range(2):
        compiled(*inputs())
    gone = weakref.ref(backend.found[0].whole)
    backend.found.clear()
    dl.reset()
    del compiled
    gc.collect()
    assert gone() is None


def launch_itself():
    calls = []

    def whole(*given):
        calls.append(("whole", given, torch.is_grad_enabled()))
        return sum(given)

    def inner(given):
        calls.append(("inner", tuple(given), torch.is_grad_enabled()))
        result = sum(given)
        given.clear()
        return result

    launch = _C.Launch(whole, lambda: inner)
    assert launch.inner is None and [launch(1, 2), launch(3, 4)] == [3, 7]
    assert calls == [("whole", (1, 2), True), ("inner", (3, 4), False)] and launch.inner is inner
    assert torch.is_grad_enabled()

    never = _C.Launch(whole, lambda: None)
    assert [never(1), never(2)] == [1, 2] and calls[-1] == ("whole", (2,), True)

    def fails(*given):
        raise KeyError(given)

    asked = []
    late = _C.Launch(fails, lambda: asked.append(1))
    for _ in range(2):
        with pytest.raises(KeyError):
            late(1)
    assert asked == [], "only a call that came through says that the code is ready"
    failing = _C.Launch(whole, lambda: lambda given: given.missing)
    failing(1)
    with pytest.raises(AttributeError):
        failing(1)
    assert torch.is_grad_enabled()
    for wrong in ((3, whole), (whole, 3)):
        with pytest.raises(TypeError, match="int can't be called"):
            _C.Launch(*wrong)
    writing = _C.Launch(whole, lambda: inner, (1,))
    assert writing(1, 2) == 3
    for given in ((1, 2), (1,)):
        with pytest.raises(TypeError, match="input 1 must be a tensor"):
            writing(*given)


def test_launch_calls_whole_then_inner():
    """The test runs in its own process: if another compiler has left its hook installed, every call runs the whole
    callable.
    """
    imports = "import pytest, torch\nfrom dynamo_lite import _C\n"
    done = run_program(f"{imports}\n{inspect.getsource(launch_itself)}\nlaunch_itself()\n")
    assert done.returncode == 0, done.stderr
