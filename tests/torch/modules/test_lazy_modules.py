"""Lazy modules: the first call, which creates their parameters, runs in eager; later calls are one graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

import dynamo_lite as dl
from dynamo_lite.insight import break_reasons as reasons
from equality import Pairing
from programs import Recorder, built, check, checked, recompiling, repeated, tensor, with_gradients
from weights import seeded

NETS = {
    "linear": (lambda: nn.LazyLinear(4), tensor(2, 3)),
    "without_bias": (lambda: nn.LazyLinear(4, bias=False), tensor(2, 3)),
    "mlp": (lambda: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Dropout(0.5), nn.LazyLinear(2)), tensor(2, 3)),
    "conv": (lambda: nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU()), tensor(2, 3, 5, 5)),
    "conv_transpose": (lambda: nn.LazyConvTranspose1d(2, 2), tensor(1, 2, 3)),
    "instance_norm": (lambda: nn.LazyInstanceNorm1d(affine=True, track_running_stats=True), tensor(2, 3, 4)),
    "of_doubles": (lambda: nn.LazyLinear(4, dtype=torch.float64), tensor(2, 3, dtype=torch.float64)),
}


@pytest.mark.parametrize("make, x", NETS.values(), ids=NETS)
def test_what_becomes_of_them(make, x):
    found = []
    for transform in (lambda f: f, lambda f: dl.compile(f, backend="aot_eager", fullgraph=True)):
        torch.manual_seed(5)
        m = make()
        before = [*m.parameters(), *m.buffers()]
        compiled = transform(m)
        for _ in range(2):
            compiled(x).square().sum().backward()
        after = [*m.parameters(), *m.buffers()]
        assert all(one is other for one, other in zip(before, after, strict=True))
        kinds = [(type(each), each._forward_pre_hooks, each._load_state_dict_pre_hooks) for each in m.modules()]
        found.append((after, kinds, m.state_dict(), str(m)))
    Pairing(exact=False).compare(*found, "modules")


@pytest.mark.parametrize("make, x", NETS.values(), ids=NETS)
def test_one_graph_after_the_first_call(make, x):
    m, recorder = make(), Recorder()
    compiled = dl.compile(m, backend=recorder, fullgraph=True)
    compiled(x)
    assert not recorder.graphs and not any(map(torch.nn.parameter.is_lazy, m.parameters()))
    for _ in range(2):
        compiled(x)
    assert len(recorder.graphs) == 1


def test_the_first_call_is_told():
    explanation = dl.explain(nn.Sequential(nn.LazyLinear(4)))(tensor(2, 3))
    assert not explanation.graphs and not explanation.breaks
    (told,) = explanation.given_up
    assert "Sequential.forward" in told and "is called for the first time, and creates its parameters" in told


def test_the_rest_of_a_broken_frame_runs_in_eager_too():
    def fn(m, x):
        y = x + 1
        print("here")
        return m(y).relu()

    check(repeated(3)(recompiling(fn)), nn.LazyLinear(4), tensor(2, 3), graphs=None)


def test_export_says_what_to_do():
    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.export(nn.LazyLinear(4), tensor(2, 3))
    assert isinstance(caught.value.reason, reasons.LazyModuleCalled)


class Own(LazyModuleMixin, nn.Linear):
    cls_to_become = nn.Linear

    def __init__(self, out):
        super().__init__(0, 0, bias=False)
        self.weight = UninitializedParameter()
        self.register_buffer("mean", UninitializedBuffer())
        self.out_features = out

    def reset_parameters(self):
        pass

    def initialize_parameters(self, x):
        if self.has_uninitialized_params():
            with torch.no_grad():
                self.in_features = x.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                self.mean.materialize((self.in_features,))
                self.weight.copy_(torch.randn_like(self.weight) + x.mean())  # it looks at the data
                self.mean.copy_(x.mean(0))


@checked(tensor(2, 3), graphs=None, breaks=None)
@built
@repeated(3)
@recompiling
@with_gradients
def test_a_lazy_module_of_the_programs_own():
    return nn.Sequential(seeded(nn.Linear(3, 3)), Own(2))


@checked(nn.LazyLinear(2), tensor(2, 3), graphs=None)
@recompiling
def test_draws_come_in_the_programs_order(m, x):
    before = torch.rand(2)
    y = m(torch.dropout(x, 0.5, True))
    return before, y, torch.rand(2)


@checked(nn.LazyLinear(2), tensor(3))
def test_a_part_of_a_lazy_module_is_there(m, x):
    return m.has_uninitialized_params(), torch.nn.parameter.is_lazy(m.bias), x + 1


@checked(nn.LazyLinear(2), tensor(3), graphs=None)
def test_sizes_of_a_tensor_without_data(m, x):
    try:
        return m.weight.shape
    except RuntimeError as error:
        return str(error)[:20], x + 1


def _called_where_it_is_read(read):
    def fn(m, x):
        before = read(m)
        return before, m(x), read(m)

    return fn


READS = {
    "type": lambda m: type(m).__name__,
    "class": lambda m: isinstance(m, nn.LazyLinear),
    "mixin": lambda m: isinstance(m, LazyModuleMixin),
    "size": lambda m: m.in_features,
    "question": lambda m: m.has_uninitialized_params(),
    "weight": lambda m: type(m.weight).__name__,
    "weights": lambda m: [type(each).__name__ for each in m.parameters()],
    "hooks": lambda m: hasattr(m, "_initialize_hook"),
    "text": lambda m: m.extra_repr(),
    "vars": lambda m: sorted(vars(m)),
}


@pytest.mark.parametrize("name", READS)
def test_what_the_program_sees_before(name):
    check(recompiling(_called_where_it_is_read(READS[name])), nn.LazyLinear(4), tensor(2, 3), graphs=None)


@pytest.mark.parametrize("change", [lambda m: setattr(m, "out_features", 7), lambda m: m.bias.requires_grad_(False)])
def test_what_the_program_changes_before(change):
    def fn(m, x):
        change(m)
        return m(x), m.out_features

    check(recompiling(fn), nn.LazyLinear(4), tensor(2, 3), graphs=None)
