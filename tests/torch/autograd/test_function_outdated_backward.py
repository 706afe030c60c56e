"""Functions whose backward reads state that is changed after the compiled function has returned."""

from __future__ import annotations

import enum
import gc
import sys
import types
import weakref

import pytest
import torch
from torch.autograd.function import once_differentiable

import backward_reads as reads
import dynamo_lite as dl
from programs import tensor
from small_functions import Doubled

FACTOR = 2.0
WEIGHT = tensor(3)
TABLE = {"factors": [1.0, 2.0]}
SETTINGS = types.SimpleNamespace(factor=2.0, others=0)
LATER: dict[str, float] = {}


def helper(gradient):
    return gradient * FACTOR


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.factor, self.calls = torch.nn.Parameter(tensor(3)), 3.0, 0

    def scale(self, gradient):
        return gradient * self.factor + self.weight.detach()


def setter(name, value):
    def change():
        globals()[name] = value

    return change


def of_a_function_called():
    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return helper(gradient)

    return Function.apply, setter("FACTOR", 5.0)


def of_the_function_called():
    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return helper(gradient) * x

    return Function.apply, setter("helper", lambda gradient: gradient * 10)


def of_a_container():
    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * sum(TABLE["factors"])

    return Function.apply, lambda: TABLE["factors"].append(3.0)


def of_a_tensor():
    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * WEIGHT

    return Function.apply, setter("WEIGHT", tensor(3, seed=1))


def of_what_is_not_there():
    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * LATER.get("factor", 1.0) * getattr(SETTINGS, "more", 1.0)

    def change():
        LATER["factor"] = 3.0
        SETTINGS.more = 5.0

    return Function.apply, change


def of_a_module_on_ctx():
    layer = Layer()

    class Function(Doubled):
        @staticmethod
        def forward(ctx, x, layer, factors):
            ctx.layer, ctx.x, ctx.factors = layer, x, factors
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return ctx.layer.scale(gradient) * ctx.x * ctx.factors[1][0], None, None

    def change():
        layer.factor = 7.0
        layer.weight = torch.nn.Parameter(tensor(3, seed=1))

    return lambda x: Function.apply(x, layer, (1.0, [2.0])), change


def of_a_list_on_ctx():
    factors = [2.0, (3.0, [4.0])]

    class Function(Doubled):
        @staticmethod
        def forward(ctx, x, factors):
            ctx.factors, ctx.inner = factors, (factors[1], 2)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.factors[0] * ctx.inner[0][1][0], None

    def change():
        factors[0] += 1.0
        factors[1][1][0] += 1.0

    return lambda x: Function.apply(x, factors), change


def of_one_that_saves_little():
    class Function(Doubled):
        @staticmethod
        def forward(ctx, x, y=None):
            ctx.save_for_backward(None, x)
            ctx.mark_non_differentiable(largest := x.argmax())
            return x * 2, largest

        @staticmethod
        def backward(ctx, gradient, _):
            none, x = ctx.saved_tensors
            return gradient * FACTOR * x if none is None else None, None

    return lambda x: Function.apply(x)[0], setter("FACTOR", 5.0)


def under_a_decorator():
    class Function(Doubled):
        @staticmethod
        @once_differentiable
        def backward(ctx, gradient):
            return gradient * FACTOR

    return Function.apply, setter("FACTOR", 5.0)


def of_a_cache_of_modules():
    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * (2 if "a_module" in sys.modules else 3)

    return Function.apply, lambda: sys.modules.update(a_module=torch)


def of_a_setting_of_torch():
    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * (2 if torch.__future__.get_overwrite_module_params_on_conversion() else 3)

    return Function.apply, lambda: torch.__future__.set_overwrite_module_params_on_conversion(True)


def of_a_setting_on_a_class_of_torch():
    device = torch.utils.checkpoint.DefaultDeviceType

    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * (2 if device.get_device_type() == "cuda" else 3)

    return Function.apply, lambda: device.set_device_type("cpu")


class Kind(enum.Enum):
    A = 1

    def __init__(self, value):
        self.factor = value


def of_an_enumeration():
    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * Kind.A.factor

    return Function.apply, lambda: setattr(Kind.A, "factor", 5)


KINDS = [
    of_a_function_called,
    of_the_function_called,
    of_a_container,
    of_a_tensor,
    of_what_is_not_there,
    of_a_module_on_ctx,
    of_a_list_on_ctx,
    of_one_that_saves_little,
    under_a_decorator,
    of_a_cache_of_modules,
    of_a_setting_of_torch,
    of_a_setting_on_a_class_of_torch,
    of_an_enumeration,
    *reads.KINDS,
]


HELPER = helper


@pytest.fixture(autouse=True)
def fresh():
    begin()
    yield
    begin()


def begin():
    """All is as it was when the module was imported."""
    globals().update(FACTOR=2.0, WEIGHT=tensor(3), helper=HELPER)
    TABLE["factors"], reads.SCALE, reads.SETTINGS["scale"] = [1.0, 2.0], 2.0, 2.0
    LATER.clear()
    Kind.A.factor = 1
    sys.modules.pop("a_module", None)
    torch.__future__.set_overwrite_module_params_on_conversion(False)
    torch.utils.checkpoint.DefaultDeviceType.set_device_type("cuda")
    vars(SETTINGS).pop("more", None)


def gradient(fn, change):
    x = tensor(3, grad=True)
    loss = fn(x * 1).sum()
    change()
    loss.backward()
    return x.grad


def gradients(kind, compile, calls=3):
    """Of calls each of which is followed by a change, and then by the backward."""
    begin()
    apply, change = kind()
    fn = compile(lambda x: apply(x).sin())
    return [gradient(fn, change) for _ in range(calls)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_backward_reads_what_is_there_when_it_runs(kind, backend):
    found = gradients(kind, lambda fn: dl.compile(fn, backend=backend))
    assert all(map(torch.equal, found, gradients(kind, lambda fn: fn)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_breaks_and_says_why(kind):
    begin()
    apply, _ = kind()
    with pytest.raises(dl.exc.Unsupported, match="that may change before it runs"):
        dl.compile(lambda x: apply(x).sin(), backend="eager", fullgraph=True)(tensor(3, grad=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_the_backward_does_not_read_may_change(backend):
    layer = Layer()

    class Function(Doubled):
        @staticmethod
        def forward(ctx, x, layer):
            ctx.layer = layer
            layer.calls
            return x * FACTOR

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.layer.factor * SETTINGS.factor, None

    def change():
        layer.calls += 1
        SETTINGS.others += 1
        globals()["FACTOR"] += 1

    compiled = dl.compile(lambda x: Function.apply(x, layer), backend=backend)
    for _ in range(3):
        assert torch.equal(gradient(compiled, change), torch.full((3,), 6.0))


def test_made_inside_and_kept_by_the_program():
    kept = []

    class Function(Doubled):
        @staticmethod
        def forward(ctx, x):
            ctx.factors = {"one": 2.0}
            kept.append(ctx.factors)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.factors["one"]

    compiled = dl.compile(lambda x: Function.apply(x), backend="eager")
    for _ in range(2):
        found = gradient(compiled, lambda: kept[-1].update(one=5.0))
        assert torch.equal(found, torch.full((3,), 5.0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nothing_is_held(backend):
    def watched():
        layer, x = Layer(), tensor(3, grad=True)

        class Function(Doubled):
            @staticmethod
            def forward(ctx, x, weight):
                ctx.weight = weight
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                return gradient * ctx.weight.detach(), None

        compiled = dl.compile(lambda x: Function.apply(x, layer.weight).sin(), backend=backend, fullgraph=True)
        compiled(x).sum().backward()
        return [weakref.ref(each) for each in (layer, layer.weight, x, Function)]

    references = watched()
    gc.collect()
    assert [each() for each in references] == [None] * 4
