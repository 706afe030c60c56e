"""Full backward hooks of modules."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import check, decorator_for, tensor, with_gradients


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 5)
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        return self.last(self.first(x).relu())


def gradients_of(build, *args, backend="eager", steps=2):
    """What a module that is built twice, eager and compiled, gives; gradients and what its hooks noted among it."""
    found = []
    for compiled in (False, True):
        module, noted = build()
        run = dl.compile(module, backend=backend) if compiled else module
        seen = []
        for _ in range(steps):
            mine = [each.detach().clone().requires_grad_(each.requires_grad) for each in args]
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                result = run(*mine)
                results = result if isinstance(result, tuple) else (result,)
                sum(each.sum() for each in results if each.requires_grad).backward()
            kept = [*mine, *module.parameters()]
            seen.append([*results, *(each.grad for each in kept), list(noted), [str(each.message) for each in warned]])
            module.zero_grad()
        found.append(seen)
    alike(*found)


def alike(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other)
    elif isinstance(one, list):
        assert len(one) == len(other)
        for each, its in zip(one, other, strict=True):
            alike(each, its)
    else:
        assert one == other


def doubles(module, inputs, outputs):
    return (inputs[0] * 2,)


def clamps(module, inputs, outputs):
    return tuple(None if each is None else each.clamp(-0.1, 0.1) for each in inputs)


def by_output(module, inputs, outputs):
    return (inputs[0] * outputs[0].norm(),)


def looks(module, inputs, outputs):
    inputs[0].norm()


hooked = decorator_for(gradients_of)
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@BACKENDS
@pytest.mark.parametrize("hook", [doubles, clamps, by_output, looks])
def test_of_gradients_alone(hook, backend):
    def build():
        module = Network()
        module.last.register_full_backward_hook(hook)
        return module, []

    gradients_of(build, tensor(2, 4), backend=backend)


def test_a_break_names_them():
    module = Network()
    module.last.register_full_backward_hook(doubles)
    with pytest.raises(dl.exc.Unsupported, match="DL0766"):
        dl.compile(module, backend="eager", fullgraph=True)(tensor(2, 4))


@BACKENDS
def test_modules_in_modules(backend):
    def build():
        inner = Network()
        inner.last.register_full_backward_hook(clamps)
        inner.register_full_backward_hook(doubles)
        return nn.Sequential(nn.Linear(4, 4), inner, nn.Tanh()), []

    gradients_of(build, tensor(2, 4), backend=backend)


class Several(nn.Module):
    """Arguments that are no tensors or have no gradient, and results of both kinds."""

    def forward(self, x, factor, index, *, shift=0):
        return x[index] * factor + shift, x.argmax(0), 3


class Around(nn.Module):
    def __init__(self, hook):
        super().__init__()
        torch.manual_seed(0)
        self.before = nn.Linear(4, 4)
        self.several = Several()
        self.several.register_full_backward_hook(hook)

    def forward(self, x):
        result, index, number = self.several(self.before(x), 2.0, torch.tensor([1, 0]), shift=1)
        return result * number, index


@BACKENDS
def test_arguments_without_gradients(backend):
    def scales(module, inputs, outputs):
        known = [each is None for each in (*inputs, *outputs)]
        return inputs[0] * (2 if known == [False, True, False, False, True, True] else 5), None, None

    gradients_of(lambda: (Around(scales), []), tensor(2, 4), backend=backend)


def test_several_results_with_gradients():
    """Which of them get one is known in the backward."""

    class Two(nn.Module):
        def forward(self, x):
            return x * 2, x * 3

    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.before, self.two, self.seen = nn.Linear(4, 4), Two(), []
            self.two.register_full_backward_hook(self.note)

        def note(self, module, inputs, outputs):
            self.seen.append([each is None for each in outputs])

        def forward(self, x):
            return self.two(self.before(x))[0].sin()

    def build():
        module = Uses()
        return module, module.seen

    gradients_of(build, tensor(2, 4))


@hooked(tensor(2, 4, grad=True))
def test_with_effects():
    module, noted = Network(), []
    module.last.register_full_backward_hook(lambda of, inputs, outputs: noted.append(inputs[0].norm().item()))
    module.first.register_full_backward_hook(lambda of, inputs, outputs: noted.append(type(of).__name__))
    return module, noted


@hooked(tensor(2, 4, grad=True), steps=3)
def test_that_reads_what_may_change():
    module, scale = Network(), [1.0]
    module.last.scale = 2.0

    def by_cell(of, inputs, outputs):
        scale[0] += 1
        return (inputs[0] * scale[0],)

    def by_module(of, inputs, outputs):
        of.scale += 1
        return (inputs[0] * of.scale,)

    module.first.register_full_backward_hook(by_cell)
    module.last.register_full_backward_hook(by_module)
    return module, []


def test_no_argument_with_gradients():
    """Torch warns of it in each backward."""

    def build():
        module = Network()
        module.first.register_full_backward_hook(looks_at_outputs)
        return module, []

    gradients_of(build, tensor(2, 4))


def looks_at_outputs(module, inputs, outputs):
    outputs[0].norm()


class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        y = self.layer(x)
        torch._dynamo.graph_break()
        self.calls += 1
        return y * self.calls


@BACKENDS
@pytest.mark.parametrize("hook", [doubles, looks_at_outputs])
def test_a_break_inside(hook, backend):
    def build():
        torch.manual_seed(1)
        module = nn.Sequential(nn.Linear(4, 4), Breaks(), nn.Tanh())
        module[1].register_full_backward_hook(hook)
        module[1].layer.register_full_backward_hook(doubles)
        return module, []

    gradients_of(build, tensor(2, 4), backend=backend)


def test_too_many_gradients():
    def too_many(module, inputs, outputs):
        return inputs[0], inputs[0]

    def fn(x):
        return module(x)

    module = Network()
    module.last.register_full_backward_hook(too_many)
    result = dl.compile(fn, backend="eager")(tensor(2, 4))
    with pytest.raises(RuntimeError, match="invalid number of grad_input"):
        result.sum().backward()


def test_a_write_into_the_result():
    module = Network()
    module.last.register_full_backward_hook(doubles)

    def fn(x):
        result = module(x)
        result.add_(1)
        return result

    for run in (fn, dl.compile(fn, backend="eager")):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            run(tensor(2, 4))


def test_without_gradients():
    noted = []
    module = Network()
    for each in (module, module.first, module.last):
        each.register_full_backward_hook(lambda *gradients: noted.append(gradients))
        each.register_full_backward_pre_hook(lambda *gradients: noted.append(gradients))

    def fn(x):
        with torch.no_grad():
            return module(x)

    check(fn, tensor(2, 4), graphs=3, breaks=4)
    assert not noted


@pytest.mark.parametrize("pre", [False, True])
def test_for_all_modules(pre):
    names = nn.modules.module
    noted = []
    if pre:
        handle = names.register_module_full_backward_pre_hook(lambda of, outputs: noted.append(type(of).__name__))
    else:
        handle = names.register_module_full_backward_hook(lambda of, i, o: noted.append(type(of).__name__))
    try:
        found = []
        for backend in (None, "eager"):
            noted.clear()
            module = Network()
            run = module if backend is None else dl.compile(module, backend=backend)
            run(tensor(2, 4, grad=True)).sum().backward()
            found.append([list(noted), module.first.weight.grad])
        alike(*found)
    finally:
        handle.remove()
        names._global_is_full_backward_hook = None


@hooked(tensor(2, 4))
def test_in_a_checkpoint():
    module = Network()
    module.last.register_full_backward_hook(doubles)
    return Checkpointed(module), []


class Checkpointed(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.module, x * 1, use_reentrant=False)


def test_kept_frozen():
    """No gradient goes through it."""
    module = Network().requires_grad_(False)
    module.last.register_full_backward_hook(doubles)

    check(with_gradients(lambda x, y: module(x) * y), tensor(2, 4), tensor(2, 3, grad=True), graphs=None)
