"""Optimizers: ``step`` compiled alone and within a training step; parameters and states are eager's afterwards."""

from __future__ import annotations

import functools
import sys

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from dynamo_lite.insight.break_reasons import DisabledByCompiler
from programs import Recorder, built, check, checked, recompiling, repeated, tensor
from weights import seeded

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
MAKERS = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "sgd_one_by_one": lambda p: SGD(p, lr=0.1, momentum=0.9, dampening=0.1, foreach=False),
    "sgd_momentum": lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "sgd_maximize": lambda p: SGD(p, lr=0.01, maximize=True),
    "adam": lambda p: ADAM(p, lr=0.05, foreach=False),
    "adam_foreach": lambda p: ADAM(p, lr=0.05, foreach=True, weight_decay=0.1),
    "adam_amsgrad": lambda p: ADAM(p, lr=0.05, amsgrad=True),
    "adam_fused": lambda p: ADAM(p, lr=0.05, fused=True),
    "adamw": lambda p: ADAMW(p, lr=0.05, foreach=False, betas=(0.8, 0.9)),
    "adamw_foreach": lambda p: ADAMW(p, lr=0.05, foreach=True, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.05),
    "adamax_foreach": lambda p: torch.optim.Adamax(p, lr=0.05, foreach=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.05),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "radam_foreach": lambda p: torch.optim.RAdam(p, lr=0.05, foreach=True),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.05),
    "rprop_foreach": lambda p: torch.optim.Rprop(p, lr=0.05, foreach=True),
    "muon": lambda p: torch.optim.Muon([each for each in p if each.ndim == 2], lr=0.05),
    "adagrad_fused": lambda p: torch.optim.Adagrad(p, lr=0.05, fused=True),
    "sgd_fused": lambda p: SGD(p, lr=0.05, momentum=0.9, fused=True),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.05, t0=2),
    "asgd_foreach": lambda p: torch.optim.ASGD(p, lr=0.05, t0=2, weight_decay=0.1, foreach=True),
}
FEW = ["sgd_nesterov", "adam", "adamw_foreach"]


class Training:
    """A model, its optimizer and some data."""

    def __init__(self, make, groups=False):
        self.model = seeded(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
        parameters = self.model.parameters()
        if groups:
            parameters = [
                {"params": [*self.model[0].parameters()]},
                {"params": [*self.model[2].parameters()], "lr": 0.02},
            ]
        self.optimizer = make(parameters)
        self.x = tensor(5, 3)

    def loss(self):
        return self.model(self.x).pow(2).mean()

    def backward(self):
        self.optimizer.zero_grad()
        self.loss().backward()

    def state(self):
        """Parameters, and what the optimizer keeps."""
        return [*self.model.parameters()], self.optimizer.state_dict()


def use_torch_compile():
    """From its first use on, functions of ``torch.optim`` are disabled for torch.compile in the whole process."""
    torch.compile(lambda x: x + 1, backend="eager")(tensor(2))
    assert hasattr(sys.modules["torch.optim.adam"]._fused_adam, "_torchdynamo_disable")


def compare(eager, compiled):
    torch.testing.assert_close(compiled.state(), eager.state(), rtol=1e-4, atol=1e-5)


def trained(training, step, count=4, before=lambda training, index: None):
    for index in range(count):
        training.backward()
        before(training, index)
        step()
    return training


def check_steps(make, graphs=None, groups=False, **settings):
    """Train with a step that is compiled, beside eager. ``graphs``: at the most, in all."""
    eager, compiled = Training(make, groups), Training(make, groups)
    trained(eager, eager.optimizer.step, **settings)
    recorder = Recorder()
    trained(compiled, dl.compile(compiled.optimizer.step, backend=recorder), **settings)
    compare(eager, compiled)
    if graphs is not None:
        assert len(recorder.graphs) <= graphs and dl.counters.graph_breaks == 0, dl.counters.break_reasons


@pytest.mark.parametrize("name", MAKERS)
def test_step(name):
    check_steps(MAKERS[name], graphs=2)  # one graph makes the state, one goes on with it


@pytest.mark.parametrize("name", MAKERS)
def test_step_after_torch_compile_was_used(name):
    use_torch_compile()
    check_steps(MAKERS[name], graphs=2)


@pytest.mark.parametrize("name", MAKERS)
def test_step_in_one_graph_after_torch_compile_was_used(name):
    """The step itself, without the wrappers in which ``torch.optim`` breaks the graph."""
    use_torch_compile()

    eager, compiled = Training(MAKERS[name]), Training(MAKERS[name])
    trained(eager, eager.optimizer.step)
    step = dl.compile(compiled.optimizer.step.__wrapped__.__wrapped__, backend="eager", fullgraph=True)
    trained(compiled, torch.no_grad()(functools.partial(step, compiled.optimizer)))
    compare(eager, compiled)


def test_first_use_of_torch_compile_between_two_steps():
    def compile_another(training, index):
        if index == 2:
            use_torch_compile()

    check_steps(MAKERS["adamw_foreach"], graphs=3, before=compile_another)


def test_step_that_torch_compile_disables_says_why_it_runs_in_eager():
    use_torch_compile()
    training = Training(lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3))

    def closure():
        training.optimizer.zero_grad()
        loss = training.loss()
        loss.backward()
        return loss

    reasons = [each.reason for each in dl.explain(lambda: training.optimizer.step(closure))().breaks]
    assert reasons and all(isinstance(each.cause, DisabledByCompiler) for each in reasons)


@pytest.mark.parametrize("reason", [None, "it is slow"])
def test_mark_of_the_program_on_an_optimizer_is_kept(reason, monkeypatch):
    use_torch_compile()
    monkeypatch.setattr(ADAM, "_init_group", torch.compiler.disable(ADAM._init_group, reason=reason))
    training = Training(MAKERS["adam"])
    training.backward()
    step = dl.compile(training.optimizer.step.__wrapped__.__wrapped__, backend="eager", fullgraph=True)
    with pytest.raises(dl.exc.Unsupported, match="DL0102"), torch.no_grad():
        step(training.optimizer)


RATES = ["sgd", "sgd_one_by_one", "sgd_momentum", "adam_foreach", "adamw_foreach", "rmsprop", "adadelta"]


@pytest.mark.parametrize("name", RATES)
def test_learning_rate_that_each_step_changes(name):
    def change(training, index):
        training.optimizer.param_groups[0]["lr"] = 0.1 / (index + 1)

    check_steps(MAKERS[name], graphs=3, count=7, before=change)


@pytest.mark.parametrize("name", ["sgd_one_by_one", "adam", "adamw"])
def test_learning_rate_in_a_tensor(name):
    def make(parameters):
        made = MAKERS[name](parameters)
        for group in made.param_groups:
            group["lr"] = torch.tensor(0.05)
        return made

    def change(training, index):
        training.optimizer.param_groups[0]["lr"].fill_(0.1 / (index + 1))

    check_steps(make, graphs=3, before=change)


@pytest.mark.parametrize("name", FEW)
def test_groups_of_parameters(name):
    check_steps(MAKERS[name], graphs=2, groups=True)


@pytest.mark.parametrize("name", FEW)
def test_parameters_without_gradients(name):
    def freeze(training, index):
        training.model[0].weight.requires_grad_(index != 1)
        if index == 1:
            training.model[0].weight.grad = None

    check_steps(MAKERS[name], before=freeze)


def check_losses(make, step, count):
    """The losses of a function that is compiled, which ``step`` makes of a training, beside eager."""
    rows = []
    for transform in (lambda fn: fn, lambda fn: dl.compile(fn, backend="eager")):
        training = Training(make)
        run = transform(step(training))
        rows.append((torch.stack([run().detach() for _ in range(count)]), training.state()))
    torch.testing.assert_close(*rows, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FEW)
def test_whole_step_of_training(name):
    def step(training):
        def run():
            training.optimizer.zero_grad()
            loss = training.loss()
            loss.backward()
            training.optimizer.step()
            return loss

        return run

    check_losses(MAKERS[name], step, count=4)


def test_step_with_a_closure():
    def step(training):
        def closure():
            training.optimizer.zero_grad()
            loss = training.loss()
            loss.backward()
            return loss

        return lambda: training.optimizer.step(closure)

    check_losses(MAKERS["sgd"], step, count=3)


@checked(tensor(2, 3), operators=5)
@built
def test_moving_average_of_weights():
    model, average = (seeded(nn.Linear(3, 3)) for _ in range(2))

    @torch.no_grad()
    def follow(rate):
        for mine, theirs in zip(average.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - rate)

    def fn(x):
        y = model(x) - average(x)
        follow(0.9)
        return y, average.weight

    return fn


@checked(tensor(2, 3), graphs=None)
@built
@repeated(3)
@recompiling
def test_averaged_model_and_swa():
    model = seeded(nn.Linear(3, 3))
    average = torch.optim.swa_utils.AveragedModel(model)

    def fn(x):
        y = average(model(x))
        average.update_parameters(model)
        return y

    return fn


NUMBERS = {
    "addcdiv_": lambda x, n: x.clone().addcdiv_(x, x.abs() + 1, value=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "add": lambda x, n: torch.add(x, x, alpha=n),
    "sub_": lambda x, n: x.clone().sub_(x, alpha=n),
    "zero_dimensional": lambda x, n: torch.add(x.sum(), x.mean(), alpha=n),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("number", [torch.tensor(0.1), torch.tensor(0.7, dtype=torch.float64), torch.tensor(3)])
def test_number_that_is_kept_in_a_tensor(name, number):
    # In eager it is read: a number has no dtype of its own.
    check(lambda x, n: NUMBERS[name](x, n), tensor(101), number)


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "ASGD", "RAdam"])
def test_a_step_is_eager_while_compiling(name, monkeypatch):
    """Optimizers compute step counts in tensors while compiling: with that choice, the bits are eager's."""

    def train(is_compiled):
        parameter = nn.Parameter(tensor(7, 5))
        optimizer = getattr(torch.optim, name)([parameter])
        step = dl.compile(optimizer.step, backend="eager") if is_compiled else optimizer.step
        for count in range(1, 20):
            parameter.grad = tensor(7, 5) / count
            step()
        return parameter.detach()

    found = train(True)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert torch.equal(found, train(False))


@checked(torch.arange(3), torch.tensor(0.5), graphs=(0, 1), breaks=None)
def test_number_kept_in_a_tensor_that_does_not_fit(x, n):
    try:
        return torch.add(x, x, alpha=n)
    except RuntimeError as error:
        return str(error)
