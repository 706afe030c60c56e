"""``Function.apply``: which arguments the forward, ``setup_context`` and the gradients see, and which attributes of the
class a graph depends on."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.function import once_differentiable

import dynamo_lite as dl
from programs import check, compiled_by, leaf, tensor, with_gradients


class SetUp(torch.autograd.Function):
    """Has gradients that show how many inputs there are."""

    @staticmethod
    def forward(x, factor=2, other=3):
        return x * factor * other

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.inputs, ctx.needs = inputs[1:], len(ctx.needs_input_grad)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.inputs[0] * ctx.inputs[1] * ctx.needs, None, None


class WithDefaults(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=2, other=3):
        ctx.count = len(ctx.needs_input_grad)
        return x * factor * other

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * ctx.count, *[None] * (ctx.count - 1))


class TakesMore(torch.autograd.Function):
    @staticmethod
    def forward(x, *factors):
        return x * sum(factors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.count = len(inputs)

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * ctx.count, *[None] * (ctx.count - 1))


class KeywordOnly(torch.autograd.Function):
    @staticmethod
    def forward(x, *, factor=2):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y, gradient * x * 2


CALLS = {
    "defaults": lambda x: SetUp.apply(x),
    "one default": lambda x: SetUp.apply(x, 5),
    "no default": lambda x: SetUp.apply(x, 5, 7),
    "a keyword": lambda x: SetUp.apply(x, other=7),
    "keywords in another order": lambda x: SetUp.apply(other=7, x=x),
    "defaults that are no inputs": lambda x: WithDefaults.apply(x),
    "keyword, no setup_context": lambda x: WithDefaults.apply(x, factor=6),
    "keywords, no setup_context": lambda x: WithDefaults.apply(other=1, factor=6, x=x),
    "any number": lambda x: TakesMore.apply(x, 1) + TakesMore.apply(x, 2, 3),
    "a tensor twice": lambda x: Product.apply(x, x),
    "a computed tensor twice": lambda x: Product.apply(y := x * 2, y) + y,
}


@pytest.fixture(scope="module")
def takes_keywords():
    """Whether this torch passes keyword arguments on to forward."""
    try:
        WithDefaults.apply(torch.ones(2), factor=6)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("call", CALLS)
def test_arguments_are_bound_as_by_torch(call, backend, takes_keywords):
    refused = {} if takes_keywords or "keyword" not in call else {"graphs": None}
    check(compiled_by(backend)(with_gradients(lambda x: CALLS[call](x))), leaf(), **refused)
    check(compiled_by(backend)(lambda x: CALLS[call](x)), tensor(3), **refused)


REFUSED = {
    "a gap": lambda x: WithDefaults.apply(x, other=3),
    "no parameter": lambda x: WithDefaults.apply(x, scale=3),
    "given twice": lambda x: WithDefaults.apply(x, x=x),
    "keyword-only": lambda x: KeywordOnly.apply(x),
    "keyword-only, given": lambda x: KeywordOnly.apply(x, factor=3),
}


@pytest.mark.parametrize("call", REFUSED)
def test_calls_that_torch_refuses_raise_its_error(call):
    check(lambda x: REFUSED[call](x), leaf(), graphs=None)


def test_default_is_guarded():
    def forward(x, factor=2):
        return x * factor

    function = type("Scales", (SetUp,), {"forward": staticmethod(forward), "setup_context": TakesMore.setup_context})
    function.backward = staticmethod(lambda ctx, gradient: (gradient, None))
    compiled = dl.compile(lambda x: function.apply(x), backend="eager")
    for factor in (2, 3, 4):
        forward.__defaults__ = (factor,)
        assert torch.equal(compiled(torch.ones(3, requires_grad=True)), torch.full((3,), float(factor)))


def setup_context(ctx, inputs, output):
    ctx.scale = 3


CHANGES = {
    "setup_context": staticmethod(setup_context),
    "forward": staticmethod(lambda *args: args[-1] * 5),
    "backward": staticmethod(lambda ctx, gradient: gradient * 7),
    "vjp": staticmethod(lambda ctx, gradient: gradient * 7),
    "jvp": staticmethod(lambda ctx, tangent: tangent * 7),
    "vmap": staticmethod(lambda info, in_dims, x: (x, 0)),
    "generate_vmap_rule": True,
    "boxed_grads_call": True,
    "clear_saved_tensors_on_access": True,
    "apply": classmethod(lambda cls, x: x * 11),
}
CHANGES["once"] = staticmethod(once_differentiable(CHANGES["backward"].__func__))


def outcome(fn):
    x = tensor(3, grad=True)
    try:
        fn(x).sum().backward()
    except RuntimeError as error:  # torch's: both `backward` and `vjp`, saved tensors read twice
        return str(error)
    return x.grad.tolist()


@pytest.mark.parametrize("on_base", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_attributes_of_the_class_are_guarded(change, on_base):
    name = "backward" if change == "once" else change

    def outcomes(compile):
        class Base(torch.autograd.Function):
            @staticmethod
            def forward(*args):
                return args[-1] * 2 * len(args)

            @staticmethod
            def backward(ctx, gradient):
                if isinstance(gradient, list):
                    return gradient[0] * 13
                return gradient * 2 * getattr(ctx, "scale", 5)

        class Derived(Base):
            pass

        changed = Base if on_base else Derived
        fn = compile(lambda x: Derived.apply(x))
        found = [outcome(fn)]
        before = vars(changed).get(name)
        setattr(changed, name, CHANGES[change])
        found.append(outcome(fn))
        if before is None:
            delattr(changed, name)
        else:
            setattr(changed, name, before)
        return [*found, outcome(fn)]

    assert outcomes(lambda fn: dl.compile(fn, backend="eager")) == outcomes(lambda fn: fn)
