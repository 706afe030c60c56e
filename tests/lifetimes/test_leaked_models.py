"""A model that was captured, called and dropped leaves nothing: no module, parameter, input or graph."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import tensor


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """What torch logs of operators that fail while tracing would be kept by pytest, with all it refers to."""
    monkeypatch.setattr(logging.getLogger("torch._subclasses.fake_tensor"), "disabled", True)


class Keeper:
    """A backend with weak references to its graphs and example inputs."""

    def __init__(self) -> None:
        self.graphs: list[weakref.ref[Any]] = []
        self.inputs: list[weakref.ref[Any]] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(weakref.ref(gm))
        self.inputs.extend(weakref.ref(each) for each in example_inputs)
        return gm.forward


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.norm = nn.BatchNorm1d(4)
        self.log = []

    def forward(self, x):
        return self.norm(self.two(self.one(x).relu()) * self.scale)


class Breaks(Plain):
    def forward(self, x):
        y = self.one(x)
        for _ in range(3):
            dl.graph_break()
            y = self.two(y)
        with torch.no_grad():
            if y.sum() > 0:
                y = y + 1
        return super().forward(y)


class Generates(Plain):
    def layers(self, x):
        for layer in (self.one, self.two):
            x = layer(x)
            yield x

    def forward(self, x):
        kept = self.layers(x)
        first = next(kept)
        return sum(kept, first) + sum(y for y in self.layers(x))


class Closes(Plain):
    def forward(self, x):
        def scaled(layer):
            return lambda: layer(x) * self.scale

        calls = [scaled(self.one), scaled(self.two)]
        dl.graph_break()
        self.last = calls[0]
        return sum(call() for call in calls)


class Raises(Plain):
    def fail(self, x):
        raise ValueError(self, x)

    def forward(self, x):
        y = self.one(x)
        try:
            self.fail(y)
        except ValueError as error:
            y = y + len(error.args)
        try:
            self.two(y[:, :1])
        except RuntimeError as error:
            self.log.append(error.args)
        try:
            dl.graph_break()
            raise KeyError(x)
        except KeyError as error:
            return y + error.args[0]


class Mutates(Plain):
    def forward(self, x):
        self.seen = [x, {"y": self.one(x)}]
        self.scale.add_(1)
        self.log.append(self)
        return self.seen[1]["y"] * self.scale


class Hooked(Plain):
    def __init__(self):
        super().__init__()
        self.one.register_forward_hook(lambda module, args, out: self.log.append(out) or out * 2)
        self.two.register_forward_pre_hook(lambda module, args: (args[0] + self.scale,))


MODELS = [Plain, Breaks, Generates, Closes, Raises, Mutates, Hooked]


def check_dropped(use: Callable[[Keeper], list[Any]]) -> None:
    """Calls ``use``, which captures something and returns the object that must be freed with it."""
    keeper = Keeper()
    refs = [weakref.ref(each) for each in use(keeper)]
    for _ in range(3):  # what C++ refers to is found once what C++ holds it by is gone
        gc.collect()
    alive = [type(ref()).__name__ for ref in refs if ref() is not None]
    assert alive == [], f"alive though dropped: {alive}"
    assert keeper.graphs, "nothing was captured"
    assert [ref() for ref in keeper.inputs if ref() is not None] == []
    assert sum(ref() is not None for ref in keeper.graphs) == 0, "graphs are alive"


def parts(model: nn.Module) -> list[Any]:
    grads = [each.grad for each in model.parameters() if each.grad is not None]
    return [*model.modules(), *model.parameters(), *model.buffers(), *grads]


@pytest.mark.parametrize("kind", MODELS)
def test_model_is_freed_after_a_forward_call(kind):
    def use(keeper):
        model = kind()
        ways = dl.compile(model, backend=keeper), dl.compile(model.forward, backend=keeper)
        inputs = [tensor(2, 4), tensor(3, 4), tensor(2, 4)]
        outputs = [compiled(each) for compiled in ways for each in inputs]
        return [*parts(model), *inputs, *outputs]

    check_dropped(use)


@pytest.mark.parametrize("kind", [Plain, Breaks, Closes, Hooked])
def test_model_is_freed_after_training(kind):
    def use(keeper):
        model = kind()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = tensor(2, 4)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss

        compiled = dl.compile(step, backend=keeper)
        for _ in range(3):
            compiled(x)
        return [*parts(model), optimizer, x]

    check_dropped(use)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_model_is_freed_after_optimizer_steps(kind):
    def use(keeper):
        model = Plain()
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1)
        forward = dl.compile(model, backend=keeper)
        step = dl.compile(optimizer.step, backend=keeper)
        for _ in range(3):
            forward(tensor(2, 4)).sum().backward()
            step()
        return [*parts(model), optimizer]

    check_dropped(use)


@pytest.mark.parametrize("kind", [Plain, Breaks, Raises])
def test_model_passed_to_a_longer_lived_function_is_freed(kind):
    keeper = Keeper()
    compiled = dl.compile(lambda model, x: model(x) + 1, backend=keeper)

    def use(_):
        model = kind()
        x = tensor(2, 4)
        out = [compiled(model, x) for _ in range(2)]
        return [*parts(model), x, *out]

    refs = [weakref.ref(each) for each in use(keeper)]
    gc.collect()
    assert [type(ref()).__name__ for ref in refs if ref() is not None] == []
    assert keeper.graphs


def test_model_is_freed_after_an_exception_left_it():
    def use(keeper):
        class Fails(Plain):
            def forward(self, x):
                y = super().forward(x)
                dl.graph_break()
                raise ValueError(y)

        model = Fails()
        compiled = dl.compile(model, backend=keeper)
        x = tensor(2, 4)
        for _ in range(2):
            with pytest.raises(ValueError):
                compiled(x)
        return [*parts(model), x, Fails]

    check_dropped(use)


def test_model_is_freed_after_its_generator_is_dropped():
    def use(keeper):
        model = Plain()

        def produce(x):
            for layer in (model.one, model.two):
                x = layer(x)
                yield x

        @dl.compile(backend=keeper)
        def fn(x):
            kept = produce(x)
            y = next(kept) + 1
            dl.graph_break()
            return y * 2, kept

        x = tensor(2, 4)
        out, kept = fn(x)
        return [*parts(model), x, out, kept]

    check_dropped(use)
