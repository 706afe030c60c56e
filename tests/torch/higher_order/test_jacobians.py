"""jacrev, jacfwd and hessian of functions that take and return structures of tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap

from programs import Program, check, compiled_by, tensor, with_gradients
from weights import seeded

pytestmark = pytest.mark.skipif(torch.__version__ < "2.12", reason="torch reads the places in a basis from a tensor")
ALL = pytest.mark.parametrize("transform", [jacrev, jacfwd, hessian])


@ALL
@pytest.mark.parametrize("argnums", [0, 1, (1,), (0, 1), (1, 0)])
def test_jacobian_by_several_arguments(transform, argnums):
    def program(named, listed):
        return (named["u"] * listed[0] * named["v"].sin() + listed[1]).sum()

    def fn(x):
        return transform(program, argnums=argnums)({"u": x[0], "v": x[1]}, [x[2], (x[3] ** 2).clone()])

    check(fn, tensor(4, 3), graphs=1)


@ALL
def test_jacobian_of_several_results(transform):
    def program(given):
        return {"all": given**3, "some": (given.sin().sum(), [given[:2] * 2])}

    check(lambda x: transform(program)(x), tensor(3), graphs=1)
    check(lambda x: transform(lambda given: (given * given,))(x), tensor(3), graphs=1)


def test_tangent_kernel():
    model = seeded(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))

    def single(parameters, row):
        return functional_call(model, parameters, (row[None],))[0]

    def fn(x, other):
        parameters = {name: each.detach() for name, each in model.named_parameters()}
        jacobians = [
            [each.flatten(2) for each in vmap(jacrev(single), (None, 0))(parameters, rows).values()]
            for rows in (x, other)
        ]
        return sum(torch.einsum("Naf,Maf->NM", one, two) for one, two in zip(*jacobians))

    check(fn, tensor(4, 3), tensor(2, 3, seed=1), graphs=1)


@ALL
@pytest.mark.parametrize("result", [None, 2])
def test_jacobian_of_a_result_that_is_not_a_tensor(transform, result):
    check(lambda x: transform(lambda given: (given * 2, result))(x), tensor(3), graphs=None)
    check(lambda x: transform(lambda given: x.sum())({}), tensor(3), graphs=None)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize(
    "options", [{"chunk_size": 2}, {"chunk_size": 1}, {"chunk_size": 2, "_preallocate_and_copy": True}]
)
def test_backward_in_chunks(options, backend):
    def fn(x):
        jacobian, aux = jacrev(lambda a: (a**3, a.sum()), has_aux=True, **options)(x)
        return jacobian, aux, vmap(jacrev(lambda a: a**2, **options))(x[None])

    check(Program(fn, has_gradients=True, is_exact=False, backend=backend), tensor(3, grad=True))


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers_in_forward_mode(randomness):
    check(lambda x: jacfwd(lambda a: a**2 * torch.rand(3), randomness=randomness)(x), tensor(3))


TANGENTS = {
    "aux": lambda x: jvp(lambda a: (a**2, a.sin()), (x,), (x + 1,), has_aux=True),
    "structure of aux": lambda x: jvp(lambda a: ({"y": a**2}, (a.sin(), [a])), (x,), (x,), has_aux=True),
    "structures": lambda x: jvp(lambda d, e: d["a"] * d["b"] * e, ({"a": x, "b": x + 1}, x), ({"a": x, "b": x}, x)),
    "strict": lambda x: jvp(lambda a: a**2, (x,), (x,), strict=True),
    "vmap": lambda x: vmap(lambda a: jvp(lambda b: (b**2, b), (a,), (a,), has_aux=True))(x),
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", TANGENTS)
def test_jacobian_by_forward_mode(name, backend):
    check(with_gradients(compiled_by(backend)(TANGENTS[name])), tensor(3, grad=True))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jvp(lambda a: (a**2, 3), (x,), (x,), has_aux=True),
        lambda x: jvp(lambda a: a**2, [x], [x]),
        lambda x: jvp(lambda a: a**2, ((x,),), (x,)),
        lambda x: jvp(lambda a: torch.ones(3), (x,), (x,), strict=True),
        lambda x: grad(lambda a: (a.sum(), 3), has_aux=True)(x),
        lambda x: grad(lambda a: (a.sum(), {"a": a, "name": "a"}), has_aux=True)(x),
    ],
)
def test_what_torch_refuses(fn):
    check(fn, tensor(3), graphs=None)
