"""Exported programs: signatures, what can be exported, the names of its state."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from exports import Affine, check_export
from programs import ints, tensor

SCALE = torch.full((3,), 3.0)
TABLE = [1, 2, 3]


# -- signatures --------------------------------------------------------------------------------------------------------


def test_one_argument():
    gm = check_export(lambda x: x.sin() + 1, tensor(3), backward=True)
    assert [node.target for node in gm.graph.nodes if node.op == "call_method"] == ["sin"]


def test_defaults_that_are_not_given():
    def fn(x, scale=2.0, y=None, name="a"):
        return x * scale if y is None else x * y, name

    gm = check_export(fn, tensor(3))
    assert str(inspect.signature(gm.forward)) == "(x, scale=2.0, y=None, name='a')"
    gm(tensor(3), 2.0)
    gm(tensor(3), scale=2.0, y=None)
    with pytest.raises(dl.exc.InvalidInput, match=r"fn: y was left at its default None .*, and is 3"):
        gm(tensor(3), y=3)


def test_arguments_by_name():
    def fn(x, y, *, scale):
        return x - y * scale

    gm = check_export(fn, tensor(3), kwargs={"scale": 2, "y": tensor(3, seed=1)})
    x, y = tensor(3), tensor(3, seed=1)
    assert torch.equal(gm(x, y, scale=2), fn(x, y, scale=2)) and torch.equal(gm(y=y, x=x, scale=2), fn(x, y, scale=2))
    with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
        gm(x, y, 2)


def test_positional_only_parameters():
    def fn(x, /, y):
        return x / y

    gm = check_export(fn, tensor(3), tensor(3, seed=1))
    with pytest.raises(TypeError, match="positional-only"):
        gm(x=tensor(3), y=tensor(3))


def test_more_positional_arguments():
    def fn(x, *rest, last=1):
        return sum(rest, x) * last, rest

    gm = check_export(fn, tensor(3), tensor(3, seed=1), tensor(3, seed=2))
    with pytest.raises(dl.exc.InvalidInput, match="rest was of length 2 .*, and is of length 1"):
        gm(tensor(3), tensor(3))


def test_more_arguments_by_name():
    def fn(x, **more):
        return x * more["a"] + more["b"], more

    gm = check_export(fn, tensor(3), kwargs={"b": 2.0, "a": tensor(3, seed=1)})
    x, a = tensor(3), tensor(3, seed=1)
    assert list(gm(x, a=a, b=2.0)[1]) == ["b", "a"], "in the order of the exported call"
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        gm(x, a=a, b=2.0, c=1)


def test_defaults_that_are_tensors_and_objects():
    def fn(x, y=SCALE, table=TABLE):
        return x * y + table[0], y, table

    gm, _ = dl.export(fn, tensor(3))
    found = gm(tensor(3))
    assert torch.equal(found[0], fn(tensor(3))[0]) and found[1] is SCALE and found[2] is TABLE
    assert inspect.signature(gm.forward).parameters["y"].default is SCALE


def test_a_parameter_named_self():
    class Scaled:
        by = 3.0

        def run(self, x):
            return x * self.by

    gm, _ = dl.export(Scaled.run, Scaled(), tensor(3))
    assert torch.equal(gm(Scaled(), tensor(3)), tensor(3) * 3)


def test_parameters_named_as_torchs_names_are():
    def fn(input, torch, device, getattr, forward):
        return input + torch * device - getattr / forward

    inputs = [tensor(3, seed=seed) for seed in range(5)]
    check_export(fn, *inputs, aten=False)
    with pytest.raises(dl.exc.Unsupported, match="the name of the parameter torch"):
        dl.export(fn, *inputs, aten_graph=True)
    with pytest.raises(dl.exc.Unsupported, match="the name of the parameter _signature"):
        dl.export(lambda _signature: _signature + 1, tensor(3))


def test_c_functions_whose_signature_is_not_known():
    check_export(torch.relu, tensor(3))
    check_export(torch.cat, [tensor(3), tensor(3, seed=1)], kwargs={"dim": 0})


def test_no_arguments():
    gm = check_export(lambda: torch.ones(3) * 2)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        gm(1)


# -- what is called ----------------------------------------------------------------------------------------------------


def test_modules_have_their_names():
    module = Affine()
    gm = check_export(module, tensor(3), kwargs={"scale": 2.0}, backward=True)
    gm, _ = dl.export(module, tensor(3))
    assert list(gm.state_dict()) == list(module.state_dict())
    assert dict(gm.named_parameters()) == dict(module.named_parameters())
    assert gm.weight is module.weight and gm.shift is module.shift and gm.secret is module.secret
    gm.load_state_dict({name: torch.zeros_like(value) for name, value in module.state_dict().items()})
    assert torch.equal(gm(tensor(3)), module(tensor(3)))


def test_state_survives_copies():
    gm, _ = dl.export(Affine(), tensor(3))
    for copied in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        assert list(copied.state_dict()) == list(gm.state_dict()) and copied.training
        assert copied.weight is not gm.weight and torch.equal(copied.secret, gm.secret)
        assert str(inspect.signature(copied.forward)) == "(x, scale=1.0)"
        with pytest.raises(dl.exc.InvalidInput, match="Affine.forward: x was .*shape"):
            copied(tensor(4))


def test_bound_methods_of_modules():
    module = Affine()
    gm = check_export(module.only_shift, tensor(3))
    gm, _ = dl.export(module.only_shift, tensor(3))
    assert list(gm.state_dict()) == list(module.state_dict())


def test_static_and_class_methods():
    check_export(Affine.twice, tensor(3))
    check_export(Affine.of, tensor(3))


def test_nested_modules_and_shared_parameters():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
            self.layers[1].weight = self.layers[0].weight
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x = torch.relu(layer(x))
            return self.head(x)

    module = Tied()
    gm, _ = dl.export(module, ints(2, 3, high=7))
    assert list(gm.state_dict()) == list(module.state_dict())
    assert gm.head.weight is gm.embed.weight is module.embed.weight and len(list(gm.parameters())) == 4
    copied = copy.deepcopy(gm)
    assert copied.head.weight is copied.embed.weight
    assert copied.get_parameter("layers.1.weight") is copied.get_parameter("layers.0.weight")
    check_export(module, ints(2, 3, high=7), backward=True, pickled=False)


def test_batch_norm_writes_its_buffers():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    check_export(module, tensor(2, 3, 8, 8))
    gm, _ = dl.export(module, tensor(2, 3, 8, 8))
    expected = copy.deepcopy(module)
    expected(tensor(2, 3, 8, 8)), gm(tensor(2, 3, 8, 8))
    torch.testing.assert_close(dict(module.named_buffers()), dict(expected.named_buffers()))


def test_dropout_draws_as_eager():
    check_export(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), tensor(4, 3), backward=True)
    check_export(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).eval(), tensor(4, 3))


def test_a_deprecated_call_warns_at_export():
    def fn(x):
        with torch.cpu.amp.autocast():
            return x @ x

    with pytest.warns(FutureWarning, match="autocast"):
        gm, _ = dl.export(fn, tensor(3, 3))
    with pytest.warns(FutureWarning, match="autocast"):
        expected = fn(tensor(3, 3))
    assert torch.equal(gm(tensor(3, 3)), expected)


def test_decorated_functions():
    def twice(fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return call

    @twice
    def fn(x, shift=1):
        return x + shift

    gm = check_export(fn, tensor(3))
    assert str(inspect.signature(gm.forward)) == "(x, shift=1)"


def test_partials():
    def fn(x, y, *, scale):
        return (x - y) * scale

    check_export(functools.partial(fn, tensor(3), scale=2), tensor(3, seed=1))
    module = Affine()
    gm, _ = dl.export(functools.partial(module, scale=2.0), tensor(3))
    assert torch.equal(gm(tensor(3)), module(tensor(3), 2.0)) and len(gm.state_dict()) == 4


def test_callable_objects_with_state():
    class Call:
        def __init__(self):
            self.net = nn.Linear(3, 2)
            self.count = 3

        def __call__(self, x):
            return self.net(x) * self.count

    check_export(Call(), tensor(3), backward=True, pickled=False)
    gm, _ = dl.export(Call(), tensor(3))
    assert list(gm.state_dict()) == ["Call.net.weight", "Call.net.bias"]


def test_closures_and_globals_give_names():
    weight = nn.Parameter(tensor(3))
    layer = nn.Linear(3, 3)

    gm = check_export(lambda x: layer(x * weight) + SCALE, tensor(3))
    assert set(gm.state_dict()) == {"weight", "layer.weight", "layer.bias", "SCALE"}
    assert gm.SCALE is SCALE and gm.layer.weight is layer.weight


def test_modules_as_arguments_are_asked_in_each_call():
    def fn(module, x):
        return module(x) + 1

    one, other = nn.Linear(3, 3), nn.Linear(3, 3)
    gm, _ = dl.export(fn, one, tensor(3))
    assert torch.equal(gm(other, tensor(3)), fn(other, tensor(3))) and not gm.state_dict()
    with pytest.raises(dl.exc.InvalidInput, match="module was of type Linear .*, and is of type Sequential"):
        gm(nn.Sequential(), tensor(3))


def test_compiled_functions_and_modules():
    gm, _ = dl.export(dl.compile(lambda x: x + 1, backend="eager"), tensor(3))
    assert torch.equal(gm(tensor(3)), tensor(3) + 1)
    module = Affine()
    gm, _ = dl.export(dl.compile(module, backend="eager"), tensor(3))
    assert torch.equal(gm(tensor(3)), module(tensor(3))) and list(gm.state_dict()) == list(module.state_dict())


def test_nothing_is_run():
    seen = []

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    def fn(x):
        return x.add_(1)

    x = tensor(3)
    before, state = x.clone(), torch.get_rng_state()
    dl.export(fn, x)
    dl.export(lambda x: torch.nn.functional.dropout(x), x)
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), state)
