"""Functions under `checkpoint` that read what is different when they are called again in the backward."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import types
import weakref

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl
from dynamo_lite.insight.break_reasons import CheckpointCall, UnknownInBackward
from programs import leaf
from small_functions import with_backward

FACTOR = 2.0


def set_factor(value):
    global FACTOR
    FACTOR = value


def outcome(fn, differentiate):
    """The result, and the gradient or the error."""
    set_factor(2.0)
    x = leaf(3)
    y = fn(x)
    set_factor(3.0)
    try:
        return y.tolist(), differentiate(y, x).tolist()
    except RuntimeError as error:
        return y.tolist(), str(error)


def backward(y, x):
    y.sum().backward()
    return x.grad


def grad(y, x):
    return torch.autograd.grad(y.sum(), x)[0]


def check(function, reentrant, backend="eager", how=(backward, grad)):
    def fn(x):
        return checkpoint(function, x * 1, use_reentrant=reentrant)

    compiled = dl.compile(fn, backend=backend)
    for differentiate in how:
        expected = outcome(fn, differentiate)
        assert [outcome(compiled, differentiate) for _ in range(2)] == [expected] * 2
    return [type(each.reason) for each in dl.explain(fn)(leaf(3)).breaks]


def by_grad_mode(x):
    return x.sin() * (2 if torch.is_grad_enabled() else 3)


def by_requires_grad(x):
    y = x.sin()
    return y * (2 if y.requires_grad else 3)


def by_is_leaf(x):
    return x.sin() * (2 if x.is_leaf else 3)


def by_global(x):
    return (x * FACTOR).sin()


@pytest.mark.parametrize("function", [by_grad_mode, by_requires_grad, by_is_leaf])
def test_reentrant_one_that_reads_the_history(function):
    """It runs without gradients first."""
    assert check(function, True) == [UnknownInBackward]
    assert check(function, False) == []


def test_reentrant_one_that_asks_what_is_always_the_same():
    assert check(lambda x: x.sin() * (2 if x.requires_grad else 3), True) == []


def test_reentrant_one_in_a_compiler():
    assert check(by_requires_grad, True, "aot_eager", [backward]) == [UnknownInBackward]


def test_reentrant_one_with_a_parameter_of_its_own():
    weight = leaf(3, seed=1)

    def fn(x):
        return checkpoint(lambda x: x.sin() * weight, x * 2, use_reentrant=True)

    found = []
    for called in (fn, dl.compile(fn, backend="eager", fullgraph=True)):
        x, weight.grad = leaf(3), None
        called(x).sum().backward()
        found.append((x.grad, weight.grad))
    assert all(map(torch.equal, *found))


def test_reentrant_one_by_another_thing_than_backward():
    """Torch refuses it."""
    assert check(lambda x: x.sin(), True) == []


@pytest.mark.parametrize("reentrant", [False, True])
def test_global_that_is_assigned_before_the_backward(reentrant):
    assert check(by_global, reentrant) == [CheckpointCall]


class Block(torch.nn.Module):
    kind_factor = 2.0

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5, 1.0, 2.0]))
        self.factor, self.settings, self.parts = 2.0, {"factor": 2.0}, [1.0, 2.0]
        self.inner = torch.nn.Tanh()

    def forward(self, x, mask=None):
        if self.training:
            x = self.inner(x * self.weight)
        if mask is not None:
            x = x * mask
        return (x * self.factor * self.settings["factor"] * self.parts[-1] * self.kind_factor).sin()


def of_module(model, x):
    return checkpoint(model, x * 2, use_reentrant=False)


def of_method(model, x):
    return checkpoint(model.forward, x * 2, mask=x.cos(), use_reentrant=False)


def of_partial(model, x):
    return checkpoint(functools.partial(model.forward, mask=x + 1), x * 2, use_reentrant=False)


def of_lambda(model, x):
    mask, both = x + 1, (2, 3)
    return checkpoint(lambda h, scale=2.0, *, power=1: model(h, mask) * scale * both[power], x * 2, use_reentrant=False)


def of_containers(model, x):
    def run(pairs, *, options):
        return model(pairs[0][0] * options["scale"]) + pairs[1]

    return checkpoint(run, [(x * 2,), x], options={"scale": 2, "others": (model,)}, use_reentrant=False)


def of_reentrant(model, x):
    return checkpoint(model, x * 2, use_reentrant=True)


def of_nested(model, x):
    return checkpoint(lambda h: checkpoint(model, h.cos(), use_reentrant=False).exp(), x * 2, use_reentrant=False)


def of_reentrant_in_another(model, x):
    return checkpoint(lambda h: checkpoint(model, h.cos(), use_reentrant=True).exp(), x * 2, use_reentrant=False)


def double(model, name):
    setattr(model, name, getattr(model, name) * 2)


def replace_weight(model):
    model.weight = torch.nn.Parameter(model.weight.detach() * 2)


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x.sin() * 2


def set_kind_factor(value):
    Block.kind_factor = value


CHANGES = {
    "nothing": lambda model: None,
    "an attribute": lambda model: double(model, "factor"),
    "an item of a dict": lambda model: model.settings.update(factor=3.0),
    "an item of a list": lambda model: model.parts.append(3.0),
    "a parameter": replace_weight,
    "a module": lambda model: setattr(model, "inner", Doubled()),
    "an attribute of the class": lambda model: set_kind_factor(3.0),
    "what isn't read": lambda model: double(model, "parts"),
    "training, so that other tensors are saved": lambda model: model.eval(),
}


def recomputed(fn, change):
    """The result and gradients, or the error, of a program that changes something before the backward."""
    Block.kind_factor = 2.0
    model, x = Block(), leaf(3)
    y = fn(model, x)
    change(model)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return y.tolist(), str(error).split("\n")[0]
    return y.tolist(), x.grad.tolist(), None if model.weight.grad is None else model.weight.grad.tolist()


FORMS = [of_module, of_method, of_partial, of_lambda, of_containers, of_reentrant, of_nested, of_reentrant_in_another]


@pytest.mark.parametrize("fn", FORMS)
@pytest.mark.parametrize("what", CHANGES)
def test_recomputation_after_a_change(fn, what):
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    expected = recomputed(fn, CHANGES[what])
    assert [recomputed(compiled, CHANGES[what]) for _ in range(2)] == [expected] * 2


@dataclasses.dataclass
class Inputs:
    hidden: torch.Tensor
    factor: float = 2.0
    more: object = None


class Scaled:
    def __init__(self, model, factor):
        self.model, self.factor = model, factor

    def run(self, x):
        return self.model(x) * self.factor


Pair = collections.namedtuple("Pair", "hidden factor")


def of_dataclass(model, x):
    return checkpoint(
        lambda given: model(given.hidden) * given.more.factor, Inputs(x, 1.0, Inputs(x)), use_reentrant=False
    )


def of_named_tuple(model, x):
    return checkpoint(lambda given: model(given.hidden) * given.factor, Pair(x * 2, 2.0), use_reentrant=False)


def of_created_method(model, x):
    return checkpoint(Scaled(model, 2.0).run, x * 2, use_reentrant=False)


def of_unused_tensors(model, x):
    return checkpoint(lambda h, mask, more: model(h), x, x.cos(), {"more": [x + 1]}, use_reentrant=False)


def of_sizes(model, x):
    return checkpoint(
        lambda h, shape, sizes, where: model(h).reshape(shape)[where],
        x,
        x.shape,
        {1, 2},
        slice(0, 2),
        use_reentrant=False,
    )


def of_ordered_dict(model, x):
    return checkpoint(
        lambda given: model(given["hidden"]), collections.OrderedDict(hidden=x.sin(), mask=x.cos()), use_reentrant=False
    )


def of_vmap(model, x):
    return checkpoint(torch.vmap(lambda row: row * model.factor), x.sin(), use_reentrant=False)


def of_attribute_that_is_an_argument(model, x):
    """The argument is what the attribute was."""
    return checkpoint(lambda h, factor: model(h) * factor, x * 2, model.factor, use_reentrant=False)


CREATED = [of_dataclass, of_named_tuple, of_created_method, of_unused_tensors, of_sizes, of_ordered_dict, of_vmap]


@pytest.mark.parametrize("fn", [*CREATED, of_attribute_that_is_an_argument])
@pytest.mark.parametrize("what", ["nothing", "an attribute", "a parameter", "a module"])
def test_recomputation_with_objects_that_are_created_in_the_call(fn, what):
    test_recomputation_after_a_change(fn, what)


def test_object_of_the_call_that_the_program_gets():
    """It may change it before the backward."""

    def fn(x):
        factors = [2.0]
        return checkpoint(lambda h, factors: (h * factors[0]).sin(), x, factors, use_reentrant=False), factors

    def outcome(called):
        x = leaf(3)
        y, factors = called(x)
        factors[0] = 5.0
        y.sum().backward()
        return x.grad.tolist()

    assert outcome(dl.compile(fn, backend="eager")) == outcome(fn)
    assert {type(each.reason) for each in dl.explain(fn)(leaf(3)).breaks} == {CheckpointCall}


def test_recomputation_after_a_change_of_a_number_that_differs_from_call_to_call():
    """It is symbolic, so that guards don't compare it."""
    compiled = dl.compile(of_module, backend="eager", fullgraph=True)

    def outcome(fn, before):
        model, x = Block(), leaf(3)
        model.factor = before
        y = fn(model, x)
        model.factor += 1
        y.sum().backward()
        return y.tolist(), x.grad.tolist()

    for before in (2, 3, 4, 5):
        assert outcome(compiled, before) == outcome(of_module, before)


def test_recomputation_after_the_frame_itself_wrote_an_attribute():
    def fn(model, x):
        model.calls += 1
        return of_module(model, x) * model.calls

    def outcome(fn):
        model, x = Block(), leaf(3)
        model.calls = 0
        for _ in range(3):
            fn(model, x).sum().backward()
        return model.calls, x.grad.tolist(), model.weight.grad.tolist()

    assert outcome(dl.compile(fn, backend="eager", fullgraph=True)) == outcome(fn)


def test_global_of_another_module_that_is_assigned_before_the_backward():
    """The module's own functions don't assign to it."""
    other = types.ModuleType("other")
    exec("FACTOR = 2.0\ndef scaled(x):\n    return (x * FACTOR).sin()", vars(other))

    def fn(x):
        return checkpoint(other.scaled, x * 1, use_reentrant=False)

    def outcome(called):
        other.FACTOR, x = 2.0, leaf(3)
        y = called(x)
        other.FACTOR = 3.0
        y.sum().backward()
        return y.tolist(), x.grad.tolist()

    assert outcome(dl.compile(fn, backend="eager", fullgraph=True)) == outcome(fn)


def test_two_calls_before_one_backward():
    """Each recomputation is checked against its own call's objects."""

    def outcome(fn):
        models, x = [Block(), Block()], leaf(3)
        results = [fn(model, x) for model in models]
        models[0].factor = 5.0
        sum(results).sum().backward()
        return x.grad.tolist(), [model.weight.grad.tolist() for model in models]

    assert outcome(dl.compile(of_lambda, backend="eager", fullgraph=True)) == outcome(of_lambda)


def rebound_in_a_loop(x):
    for factor in (1.0, 2.0, 3.0):
        x = checkpoint(lambda h: (h * factor).sin(), x, use_reentrant=False)  # noqa: B023
    return x


def rebound_afterwards(x):
    factor = 2.0
    x = checkpoint(lambda h: (h * factor).sin(), x, use_reentrant=False)
    factor = 5.0
    return x


def changed_afterwards(x):
    factors = [2.0]
    x = checkpoint(lambda h: (h * factors[0]).sin(), x, use_reentrant=False)
    factors[0] = 5.0
    return x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [rebound_in_a_loop, rebound_afterwards, changed_afterwards])
def test_variable_or_object_of_the_call_that_is_changed_afterwards(fn, backend):
    """The recomputation has what it is then."""
    found = []
    for called in (fn, dl.compile(fn, backend=backend)):
        x = leaf(3)
        called(x).sum().backward()
        found.append(x.grad)
    assert torch.allclose(*found)
    assert {type(each.reason) for each in dl.explain(fn)(leaf(3)).breaks} == {CheckpointCall}


def test_variable_that_each_function_has_for_itself():
    def fn(x):
        for factor in (1.0, 2.0, 3.0):
            x = checkpoint(lambda h, factor=factor: (h * factor).sin(), x, use_reentrant=False)
        return x

    assert not dl.explain(fn)(leaf(3)).breaks


def test_model_that_is_dropped_after_its_backward():
    compiled, model = dl.compile(of_lambda, backend="eager"), Block()
    compiled(model, leaf(3)).sum().backward()
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


LAYOUT = with_backward(lambda gradient, x: gradient * (3 if gradient.is_contiguous() else 5))


@pytest.mark.parametrize("reentrant", [False, True])
def test_function_in_a_checkpoint_whose_backward_reads_the_layout(reentrant):
    def fn(x):
        return checkpoint(lambda x: LAYOUT.apply(x * 1), x * 1, use_reentrant=reentrant)

    for given in (torch.ones(2, 3), torch.ones(()).expand(2, 3)):
        found = []
        for called in (fn, dl.compile(fn, backend="eager")):
            x = leaf(2, 3)
            called(x).backward(given)
            found.append(x.grad)
        assert torch.equal(*found)


def by_default_dtype(x):
    return (x * (2 if torch.get_default_dtype() is torch.float32 else 3)).sin()


def by_determinism(x):
    return (x * (2 if torch.are_deterministic_algorithms_enabled() else 3)).sin()


def by_created_dtype(x):
    return (x * (2 if torch.ones(1).dtype is torch.float32 else 3)).sin()


STATES = {
    by_default_dtype: (torch.set_default_dtype, torch.float64, torch.float32),
    by_created_dtype: (torch.set_default_dtype, torch.float64, torch.float32),
    by_determinism: (torch.use_deterministic_algorithms, True, False),
}


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("function", STATES)
def test_state_of_the_process_that_is_changed_before_the_backward(function, reentrant):
    change, new, old = STATES[function]

    def fn(x):
        return checkpoint(function, x * 1, use_reentrant=reentrant)

    found = []
    for called in (fn, dl.compile(fn, backend="eager", fullgraph=True)):
        x = leaf(3)
        y = called(x).sum()
        change(new)
        try:
            y.backward()
        finally:
            change(old)
        found.append(x.grad)
    assert torch.equal(*found)


def test_buffer_that_is_written_into_before_the_backward():
    """The function reads it from outside, so that torch doesn't save it for the backward."""

    def outcome(called):
        x, buffer = leaf(3), torch.ones(())
        y = called(x, buffer).sum()
        buffer.mul_(3)
        y.backward()
        return y.item(), x.grad.tolist()

    def fn(x, buffer):
        return checkpoint(lambda h: (h * (buffer + 1)).sin(), x * 1, use_reentrant=False)

    assert outcome(dl.compile(fn, backend="eager", fullgraph=True)) == outcome(fn)
