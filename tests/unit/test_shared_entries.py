"""Entries of one ``dl.compile`` that serve others with equal settings, each with its own guards."""

import gc
import weakref

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite import _C, config, counters


class Recorder:
    """A backend that counts its graphs and runs them unchanged."""

    def __init__(self):
        self.count = 0

    def __call__(self, gm, example_inputs, **options):
        self.count += 1
        return gm.forward


@pytest.fixture
def backend():
    counters.reset()
    return Recorder()


class Layer(torch.nn.Module):
    def __init__(self, number=0):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.number = number

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.number


class Net(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def each_compiled(net, backend):
    return Net([dl.compile(layer, backend=backend) for layer in net.layers])


def test_layers_are_compiled_once(backend):
    net = Net([Layer() for _ in range(6)])
    compiled = each_compiled(net, backend)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(compiled(x), net(x))
    assert backend.count == 1 and counters.shared == 5


def test_layers_are_trained_each_with_its_own_parameters(backend):
    net, x = Net([Layer() for _ in range(4)]), torch.randn(2, 4, requires_grad=True)
    compiled = each_compiled(net, backend)
    wanted = torch.autograd.grad(net(x).sum(), list(net.parameters()))
    for _ in range(2):
        found = torch.autograd.grad(compiled(x).sum(), list(net.parameters()))
        assert all(map(torch.equal, wanted, found))
    assert backend.count == 1


def test_different_layers_are_compiled_separately(backend):
    net, x = Net([Layer(at % 2) for at in range(6)]), torch.randn(2, 4)
    compiled = each_compiled(net, backend)
    with torch.no_grad():
        assert torch.equal(compiled(x), net(x)) and torch.equal(compiled(x), net(x))
    assert backend.count == 2


def make(scale):
    def scaled(x, y):
        return x * scale + y

    return scaled


def test_functions_of_one_code(backend):
    x, y = torch.randn(3), torch.randn(3)
    functions = [make(scale) for scale in (2, 3, 2, torch.ones(3), torch.zeros(3))]
    compiled = [dl.compile(each, backend=backend) for each in functions]
    for _ in range(2):
        for one, other in zip(functions, compiled, strict=True):
            assert torch.equal(one(x, y), other(x, y))
    assert backend.count == 3  # of 2, of a number and of a tensor


@pytest.mark.parametrize(
    "settings",
    [{"fullgraph": True}, {"dynamic": True}, {"dynamic": False}, {"backend": Recorder()}, {"options": {"level": 1}}],
    ids=lambda settings: next(iter(settings)),
)
def test_other_settings_compile_for_themselves(backend, settings):
    module, x = Layer(), torch.randn(2, 4)
    first = dl.compile(module, backend=backend)
    second = dl.compile(module, **{"backend": backend, **settings})
    first(x), second(x)
    assert counters.graphs == 2 and counters.shared == 0


def test_another_configuration_compiles_for_itself(backend):
    def total(x):
        return x + x.sum().item()

    x = torch.randn(3)
    first = dl.compile(total, backend=backend)
    first(x)
    with config.patch(capture_scalar_outputs=True):
        second = dl.compile(total, backend=backend, fullgraph=False)
        assert torch.equal(second(x), total(x))
    assert counters.graph_breaks == 1 and counters.shared == 0


def test_options_that_can_not_be_hashed(backend):
    compiled = [dl.compile(Layer(), backend=backend, options={"sizes": [1, 2]}) for _ in range(2)]
    for each in compiled:
        each(torch.randn(2, 4))
    assert backend.count == 2


def test_code_after_a_break_is_shared(backend):
    def broken(scale):
        def run(x):
            y = x * scale
            dl.graph_break()
            return y + 1

        return run

    x = torch.randn(3)
    compiled = [dl.compile(broken(2), backend=backend) for _ in range(3)]
    for each in compiled:
        assert torch.equal(each(x), x * 2 + 1)
    assert backend.count == 2 and counters.shared == 4


def test_what_is_shared_between_arguments(backend):
    def write(x, y):
        x.add_(1)
        return y * 2

    for compiled in [dl.compile(write, backend=backend) for _ in range(3)]:
        x, y = torch.randn(3), torch.randn(3)
        assert torch.equal(compiled(x, y), y * 2)
        assert torch.equal(compiled(x, x), x * 2)
        whole = torch.randn(4)
        assert torch.equal(compiled(whole[:3], whole[1:]), whole[1:] * 2)
        assert torch.equal(compiled(x, y), y * 2)


def test_sharing_owners_hold_no_reference_to_the_first(backend):
    first, second, x = dl.compile(Layer(), backend=backend), dl.compile(Layer(), backend=backend), torch.randn(2, 4)
    first(x), second(x)
    gone = weakref.ref(first._dl_original)
    del first
    gc.collect()
    assert gone() is None
    assert torch.equal(second(x), second._dl_original(x))
    third = dl.compile(Layer(), backend=backend)
    assert torch.equal(third(x), third._dl_original(x))
    assert backend.count == 1


class Scale:
    pass


def test_what_dies_ends_it_for_all(backend):
    scales = {"now": Scale()}

    def scaled(x):
        return x * (2 if isinstance(scales["now"], Scale) else 3)

    x = torch.randn(3)
    first, second = dl.compile(scaled, backend=backend), dl.compile(scaled, backend=backend)
    assert torch.equal(first(x), x * 2) and torch.equal(second(x), x * 2)
    scales["now"] = None
    assert torch.equal(first(x), x * 3) and torch.equal(second(x), x * 3)
    scales["now"] = Scale()
    assert torch.equal(second(x), x * 2) and torch.equal(first(x), x * 2)


def test_reset_forgets_all(backend):
    first, second, x = dl.compile(Layer(), backend=backend), dl.compile(Layer(), backend=backend), torch.randn(2, 4)
    first(x)
    dl.reset()
    second(x)
    assert backend.count == 2


def test_run_only_owners_share_entries(backend):
    first, second, x = dl.compile(Layer(), backend=backend), dl.compile(Layer(), backend=backend), torch.randn(2, 4)
    first(x)
    assert torch.equal(dl.run(second)(x), second._dl_original(x))
    assert backend.count == 1


def test_numbers_that_differ_between_them(backend):
    x = torch.randn(3)
    compiled = [dl.compile(make(scale), backend=backend) for scale in range(2, 14)]
    for scale, each in enumerate(compiled, 2):
        assert torch.equal(each(x, x), x * scale + x)
    assert backend.count == 2


def compiled_each_time(x, scale, backend):
    @dl.compile(backend=backend)
    def inner(y):
        return y * scale + x

    return inner(x)


def backend_of_this_module(gm, example_inputs):
    return gm.forward


THERE_FOR_GOOD = pytest.mark.parametrize("backend", ["eager", backend_of_this_module])


@THERE_FOR_GOOD
def test_a_function_that_is_compiled_in_each_call(backend):
    x = torch.randn(3)
    for _ in range(5):
        assert torch.equal(compiled_each_time(x, 2, backend), x * 2 + x)
        gc.collect()
    assert counters.graphs == 1 and counters.shared == 4
    for scale in (3, 4, 5):
        assert torch.equal(compiled_each_time(x, scale, backend), x * scale + x)
    assert counters.graphs == 2
    dl.reset()
    compiled_each_time(x, 2, backend)
    assert counters.graphs == 3


def evaluated(model, x, backend):
    return dl.compile(model, backend=backend)(x)


def evaluated_in_a_function(model, x, backend):
    return dl.compile(lambda x: model(x) + 1, backend=backend)(x) - 1


@THERE_FOR_GOOD
@pytest.mark.parametrize("evaluate", [evaluated, evaluated_in_a_function])
def test_a_model_that_is_compiled_in_each_call(evaluate, backend):
    models, x = [Layer(), Layer()], torch.randn(2, 4)
    for model in models * 3:
        torch.testing.assert_close(evaluate(model, x, backend), model(x))
        gc.collect()
    assert counters.graphs == 1 and counters.shared == 5
    gone = weakref.ref(models.pop(0))
    del model
    gc.collect()
    assert gone() is None
    torch.testing.assert_close(evaluate(models[0], x, backend), models[0](x))
    evaluate(models[0], x, backend)
    assert counters.graphs == 2  # what was compiled of the first went with it


def test_number_of_shared_entries_is_limited():
    x = torch.randn(3)
    with config.patch(recompile_limit=3):
        for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.bool, torch.float32, torch.int64):
            assert torch.equal(compiled_each_time(x.to(dtype), 2, "eager"), x.to(dtype) * 2 + x.to(dtype))
    assert counters.graphs == 6  # the last, which there was no room for, once more


def test_backend_of_a_dropped_compiled_function_is_freed():
    x, own = torch.randn(3), Recorder()
    compiled_each_time(x, 2, own)
    gone = weakref.ref(own)
    del own
    gc.collect()
    assert gone() is None


def used_and_dropped(backend):
    model = Layer()

    def step(x):
        return model(x) * 2

    dl.compile(step, backend=backend)(torch.randn(2, 4))
    return weakref.ref(model), step.__code__


@THERE_FOR_GOOD
def test_shared_entries_hold_no_part_of_a_model(backend):
    model, code = used_and_dropped(backend)
    gc.collect()
    assert model() is None and _C.entries(code) == []
