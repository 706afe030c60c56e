"""Operators over functions: torch.func's transforms, functional_call, cond and while_loop, custom operators."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops.associative_scan import associative_scan
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vmap,
)
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl
from programs import (
    Program,
    approximate,
    check,
    checked,
    compiled_by,
    ints,
    leaf,
    recompiling,
    tensor,
    with_gradients,
    without_breaks,
)

# -- vmap --------------------------------------------------------------------------------------------------------------


@checked(tensor(3, 4), tensor(4, 3), tensor(4))
def test_vmap_over_several_arguments_and_dimensions(x, y, z):
    return vmap(torch.dot, in_dims=(0, 1))(x, y), vmap(lambda a, b: a + b, (None, 0), 1)(z, x)


@checked(tensor(3, 4))
def test_vmap_sees_the_shape_without_the_batch(x):
    def inner(a):
        assert a.dim() == 1
        return a.view(2, -1).sum(0) * a.shape[0] if a.ndim == 1 else a

    return vmap(inner)(x)


def test_vmap_captures_outer_tensors_and_constants():
    scale = tensor(4)

    def fn(x, n):
        y = x * 2
        return vmap(lambda row: row * scale + y.sum() * n)(x)

    check(fn, tensor(3, 4), 2, others=[(tensor(3, 4), 3)])


@checked({"a": tensor(3, 2), "b": [tensor(3, 2, seed=1)]})
def test_vmap_with_structures(d):
    def inner(each):
        return {"sum": each["a"] + each["b"][0], "parts": (each["a"], each["b"][0].sin())}

    found = vmap(inner)(d)
    return found["sum"] * 2, found["parts"]


@checked(tensor(3, 2))
def test_vmap_with_random_numbers(x):
    same = vmap(lambda row: row + torch.rand(2), randomness="same")(x)
    return same, vmap(lambda row: F.dropout(row, 0.5), randomness="different")(x)


@checked(tensor(3, 2))
def test_vmap_whose_function_writes(x):
    def inner(row):
        y = row * 1
        y[0] = 0
        y.add_(1)
        return y

    return vmap(inner)(x)


@checked(tensor(3, 2), graphs=2, breaks=None)
def test_vmap_whose_function_prints(x):
    def inner(row):
        print("row")
        return row * 2

    return vmap(inner)(x + 1) - 1


@checked(tensor(3), tensor(4), graphs=None, breaks=None)
def test_vmap_that_is_refused(x, y):
    return vmap(torch.add)(x, y)


OUT_DIMS = {
    "dict": (lambda row: {"a": row, "b": row * 2}, {"a": 0, "b": 1}),
    "nested": (lambda row: (row, (row * 2, row.sum())), (1, (0, 0))),
    "list": (lambda row: [row, row * 2], [0, 1]),
    "prefix": (lambda row: (row, [row * 2, {"a": row * 3}]), (0, 1)),
    "one for one": (lambda row: row, (1,)),
    "negative": (lambda row: (row, row[:1]), -1),
    "not mapped": (lambda row: (row, torch.ones(2)), (0, None)),
    "no tensor": (lambda row: (row, (3, None)), (0, None)),
    "too many": (lambda row: (row, row), (0, 0, 1)),
    "of a number": (lambda row: (row, 3), 0),
}


@pytest.mark.parametrize("name", OUT_DIMS)
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_vmap_with_structures_of_out_dims(name, backend):
    fn, out_dims = OUT_DIMS[name]
    fits = name not in ("too many", "of a number")
    program = lambda x: vmap(fn, out_dims=out_dims)(x * 2)  # noqa: E731
    check(Program(program, has_gradients=fits, backend=backend), tensor(3, 2, grad=True), graphs=1, breaks=not fits)


@checked(tensor(4, 3), tensor(4, 3, seed=1))
def test_vmap_over_places_in_structures(x, y):
    def inner(pair, named):
        return pair[0] + pair[1] * named["a"]["b"]

    in_dims = ((0, None), {"a": {"b": 1}})
    return vmap(inner, in_dims)((x, y[0]), {"a": {"b": x.T}})


@checked(tensor(4, 3), graphs=None, breaks=None)
def test_vmap_over_places_that_are_not_there(x):
    return vmap(lambda pair: pair[0] + pair[1], in_dims=((0, 0, 0),))((x, x))


@checked(tensor(2, 0, 3), tensor(0, 3), others=[(tensor(3, 0, 2).transpose(0, 2), tensor(2, 3))])
def test_vmap_over_nothing(x, y):
    return vmap(lambda row: (row * 2).t() @ row, 1)(x), vmap(lambda row: row + torch.rand(3), randomness="same")(y)


# -- associative_scan --------------------------------------------------------------------------------------------------


@checked(leaf(2, 7, 3), leaf(2, 7, 3, seed=1))
@with_gradients
def test_associative_scan_of_a_pair(x, y):
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return associative_scan(combine, (x, y), dim=1, combine_mode="generic")


@checked(tensor(8, 3), others=[(tensor(2, 3),), (tensor(1),)])
def test_associative_scan_backwards(x):
    return associative_scan(lambda a, b: a + b, x, 0, reverse=True, combine_mode="generic").relu()


# -- gradients ---------------------------------------------------------------------------------------------------------


@checked(tensor(3), tensor(3, seed=1))
def test_grad_by_several_arguments_with_aux(x, y):
    def inner(a, b, flag):
        loss = (a * b).sum() if flag else a.sum()
        return loss, {"product": a * b}

    (ga, gb), aux = grad(inner, argnums=(0, 1), has_aux=True)(x, y, True)
    return ga, gb, aux["product"]


@checked({"w": tensor(3, 2), "b": tensor(2)}, tensor(4, 3))
def test_grad_and_value_of_a_structure(params, x):
    def loss(p):
        return ((x @ p["w"] + p["b"]) ** 2).mean()

    gradients, value = grad_and_value(loss)(params)
    return {name: params[name] - 0.1 * gradients[name] for name in params}, value


@checked(leaf(3))
@with_gradients
def test_grad_under_no_grad_and_of_what_needs_gradients(x):
    with torch.no_grad():
        a = grad(lambda a: (a**2).sum())(x)
    return a, grad(lambda a: (a**2).sum())(x)


@checked(tensor(3, 2), tensor(5, 3), tensor(5, 2))
def test_per_sample_gradients(w, x, y):
    def loss(w, a, b):
        return F.mse_loss(a @ w, b)

    return vmap(grad(loss), in_dims=(None, 0, 0))(w, x, y)


def _is_whole(transform):
    """Torch before 2.13 reads values in forward mode."""
    return transform is jacrev or torch.__version__ >= "2.13"


@pytest.mark.parametrize("transform", [jacrev, jacfwd, hessian])
def test_jacobians(transform):
    def fn(x, y):
        def inner(a, b):
            return (a**2 * b).sum() if transform is hessian else a**2 * b

        return transform(inner)(x, y), transform(inner, argnums=(0, 1))(x, y)

    check(approximate(fn), tensor(3), tensor(3, seed=1), graphs=1 if _is_whole(transform) else None)


@checked(tensor(3), tensor(3, seed=1))
def test_jvp(x, t):
    value, tangent = jvp(lambda a: a.sin() * a, (x,), (t,))
    return value + 1, tangent * 2


@checked(tensor(3), tensor(3, seed=1))
def test_dot_product_of_gradients(w, x):
    hvp = jvp(grad(lambda a: (a**3).sum()), (w,), (x,))[1]
    return hvp


# -- functional_call ---------------------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.scale = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x, factor=1):
        return torch.relu(self.inner(x)) * self.scale * factor + self.shift


def test_functional_call():
    def fn(net, params, x):
        return functional_call(net, params, (x,), {"factor": 2}) + net(x)

    params = {"inner.weight": tensor(3, 3), "scale": tensor(3, seed=1), "shift": tensor(3, seed=2)}
    check(fn, Net(), params, tensor(2, 3))


def test_ensemble_of_stacked_modules():
    nets = [Net() for _ in range(3)]
    params, buffers = stack_module_state(nets)
    params = {name: p.detach() for name, p in params.items()}

    def fn(params, buffers, x):
        return vmap(lambda p, b, a: functional_call(nets[0], (p, b), (a,)), in_dims=(0, 0, None))(params, buffers, x)

    check(approximate(fn), params, buffers, tensor(2, 3))


@checked(Net(), tensor(2, 3), graphs=None, breaks=None)
def test_functional_call_with_a_missing_name(net, x):
    return functional_call(net, {"nothing": x}, (x,), strict=True)


# -- cond and while_loop -----------------------------------------------------------------------------------------------


@checked(torch.ones(3), tensor(3), others=[(-torch.ones(3), tensor(3))], all_graphs=1)
def test_cond_with_closures_and_structures(x, y):
    z = x * 3

    def one(a):
        return {"a": a + z, "b": (a.sum(),)}

    def other(a):
        return {"a": a - y, "b": (y.sum(),)}

    found = torch.cond(x.sum() > 0, one, other, (x,))
    return found["a"] * 2, found["b"][0]


def test_cond_on_what_is_known():
    noted = []

    def long(a):
        noted.append("long")
        return a[:2] * 2

    def fn(x, flag):
        y = torch.cond(x.shape[0] > 2, long, lambda a: a.sin(), (x,))
        return y, torch.cond(flag, lambda: (x, 1), lambda: x.cos()), len(noted)

    def run(x, flag):
        noted.clear()
        return fn(x, flag), list(noted)

    others = [(tensor(2), True), (tensor(5), 0), (tensor(4), 1.5), (tensor(7), False)]
    check(recompiling(run), tensor(4), True, others=others)


def test_cond_with_gradients():
    def fn(x, w):
        return torch.cond(x.sum() > 0, lambda a: (a * w).sin(), lambda a: (a - w).cos(), (x,)) - 1

    def by_hand(x, w):
        return ((x * w).sin() if x.sum() > 0 else (x - w).cos()) - 1

    for sign in (1, -1):
        given = [(tensor(3).abs() * sign).requires_grad_(), leaf(3, seed=1)]
        again = [each.detach().clone().requires_grad_() for each in given]
        for backend in ("eager", "aot_eager"):
            out, want = dl.compile(fn, backend=backend)(*given), by_hand(*again)
            torch.testing.assert_close(out, want)
            for one, other in zip(torch.autograd.grad(out.sum(), given), torch.autograd.grad(want.sum(), again)):
                torch.testing.assert_close(one, other)


def looped(x, w):
    def step(i, a):
        return i + 1, a * 2 + x

    return torch._higher_order_ops.while_loop(lambda i, a: i < 3, step, (torch.tensor(0), x))[1] @ w


def mapped(x, w):
    return vmap(lambda row: (row @ w).sum())(x) + grad(lambda a: (a**3).sum())(w).sum()


def recomputed(x, w):
    return checkpoint(lambda a: (a @ w).relu().sin(), x, use_reentrant=False)


@pytest.mark.parametrize("fn", [looped, mapped, recomputed])
def test_bodies_under_a_compiler_that_traces_them(fn):
    check(compiled_by("aot_eager")(approximate(fn)), tensor(3, 3), tensor(3, 3, seed=1))


# -- custom operators --------------------------------------------------------------------------------------------------


@torch.library.custom_op("dl_tests::scale_by", mutates_args=())
def scale_by(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * factor)


@scale_by.register_fake
def _(x, factor):
    return torch.empty_like(x)


scale_by.register_autograd(
    lambda ctx, grad: (grad * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


@torch.library.custom_op("dl_tests::fill_with", mutates_args=("out",))
def fill_with(out: torch.Tensor, value: float) -> None:
    out.fill_(value)


@torch.library.custom_op("dl_tests::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone() + x.sum().item()


@checked(leaf(3), operators=4)
@with_gradients
def test_custom_operator_with_gradients(x):
    return scale_by(x * 2, 3.0) + torch.ops.dl_tests.scale_by(x, 2.0)


@checked(tensor(3))
def test_custom_operator_that_writes(x):
    y = x * 2
    fill_with(y, 4.0)
    fill_with(x, 5.0)
    return y + x


@checked(tensor(3), graphs=2, breaks=1)
def test_custom_operator_without_a_fake(x):
    return no_fake(x + 1) * 2


def _silu_into(out, x):
    out.copy_(torch.nn.functional.silu(x))


def _add_into(x, out):
    for each in out:
        each.add_(x)


def _double_and_add(x, y):
    x.mul_(2)
    return x + y


@pytest.fixture
def writing_operators():
    """Creates operators whose fake implementations mutate nothing."""
    rows = [
        ("silu_into(Tensor(a!) out, Tensor x) -> ()", _silu_into, lambda out, x: None),
        ("add_into(Tensor x, *, Tensor(a!)[] out) -> ()", _add_into, lambda x, out: None),
        ("double_and_add(Tensor(a!) x, Tensor y) -> Tensor", _double_and_add, lambda x, y: torch.empty_like(x)),
    ]
    with torch.library._scoped_library("dl_tests_writing", "FRAGMENT") as library:
        for schema, real, fake in rows:
            library.define(schema)
            library.impl(schema.partition("(")[0], real, "CPU")
            torch.library.register_fake("dl_tests_writing::" + schema.partition("(")[0], fake, lib=library)
        yield torch.ops.dl_tests_writing


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_operators_that_write_by_schema(writing_operators, backend):
    ops = writing_operators

    def fn(x, kept):
        out = torch.empty_like(x)
        ops.silu_into(out, x)
        a, b = torch.zeros(3), torch.zeros(4)
        ops.add_into.default(x, out=[a, b[1:]])
        c = ops.double_and_add(x, out)
        ops.silu_into(x=x, out=kept)
        return out, a, b, c, x + 1, kept * 2

    check(compiled_by(backend)(fn), tensor(3), tensor(3, seed=1), operators=10)
    check(compiled_by(backend)(lambda x: (fn(x, x[:]), x)), tensor(3), graphs=None)


@checked(tensor(4), others=[(ints(4),)])
def test_aten_overloads(x):
    a = torch.ops.aten.add.Tensor(x, x, alpha=2)
    b = torch.ops.aten.sum.dim_IntList(a, [0], True)
    return b, torch.ops.aten.topk(x, 2), torch.ops.aten.max.dim(x, 0)


# -- vjp ---------------------------------------------------------------------------------------------------------------


@checked(tensor(3), others=[(tensor(3, seed=1),)])
@without_breaks
def test_vjp(x):
    y, pull = torch.func.vjp(torch.sin, x)
    return y, pull(y), pull(torch.ones_like(y) * 2)[0], callable(pull)


@checked(tensor(3, 4))
@without_breaks
def test_vjp_of_structures(x):
    w = x * 2

    def inner(a, b):
        return {"product": a @ b["b"].T, "sum": (a * w).sum()}

    y, pull = torch.func.vjp(inner, x, {"b": x + 1})
    return y, pull({"product": torch.ones(3, 3), "sum": torch.tensor(2.0)})


@checked(tensor(3))
@without_breaks
def test_vjp_with_more_results(x):
    y, pull, rest = torch.func.vjp(lambda a: (a.sin(), {"rest": a.cos(), "n": a + 3}), x, has_aux=True)
    return y, pull(y), rest


@checked(tensor(3), graphs=None)
def test_vjp_with_what_is_no_tensor(x):
    try:
        return torch.func.vjp(lambda a: (a.sin(), 3), x, has_aux=True)
    except RuntimeError as error:
        return str(error)


@checked(tensor(3, grad=True))
@with_gradients
@without_breaks
def test_vjp_is_differentiable(x):
    y, pull = torch.func.vjp(lambda a: a.sin() * a, x)
    return y.sum() + (pull(y)[0] ** 2).sum()


@checked(tensor(3), graphs=None)
def test_vjp_of_wrong_cotangents(x):
    y, pull = torch.func.vjp(torch.sin, x)
    try:
        return pull((y, y))
    except RuntimeError as error:
        return str(error)


@checked(tensor(3), graphs=(1, 2), breaks=(1, 3))
def test_vjp_and_a_break(x):
    y, pull = torch.func.vjp(torch.sin, x)
    print("between")
    return y * 2, pull(y)[0]


def test_vjp_whose_function_is_returned():
    def fn(x):
        return torch.func.vjp(torch.sin, x)

    compiled = dl.compile(fn, backend="eager")
    (y, pull), (z, other) = compiled(tensor(3)), fn(tensor(3))
    assert torch.equal(pull(y)[0], other(z)[0])
