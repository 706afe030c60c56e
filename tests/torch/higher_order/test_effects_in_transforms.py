"""Side effects of functions under torch.func's transforms, which run them once, where the program calls them; and
exceptions that such functions and checkpointed ones raise."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

from programs import Program, check, checked, leaf, recompiling, repeated, tensor, watching, with_gradients
from weights import seeded

CALLS = 0
BACKENDS = pytest.mark.parametrize("backend", [None, "aot_eager"])


def pulled_back(fn, x):
    value, pull = vjp(fn, x)
    return pull(torch.ones_like(value))[0]


TRANSFORMS = {
    "vmap": lambda fn, x: vmap(fn)(x),
    "grad": lambda fn, x: grad(lambda a: fn(a).sum())(x),
    "grad_and_value": lambda fn, x: grad_and_value(lambda a: fn(a).sum())(x),
    "jacrev": lambda fn, x: jacrev(fn)(x),
    "jacrev in chunks": lambda fn, x: jacrev(fn, chunk_size=2)(x),
    "jacfwd": lambda fn, x: jacfwd(fn)(x),
    "hessian": lambda fn, x: hessian(fn)(x),
    "vjp": pulled_back,
    "jvp": lambda fn, x: jvp(fn, (x,), (x * 2,)),
    "vmap of grad": lambda fn, x: vmap(grad(lambda a: fn(a).sum()))(x),
    "grad of vmap": lambda fn, x: grad(lambda a: vmap(fn)(a).sum())(x),
}


class Counter:
    def __init__(self):
        self.count = 0
        self.sizes = {}


@BACKENDS
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=list(TRANSFORMS))
@pytest.mark.parametrize("gradients", [False, True])
def test_function_appends_other_objects_to_a_list(transform, gradients, backend):
    def fn(x, counter, seen):
        count = 0
        outer = x * 2

        def noting(a):
            nonlocal count
            count += 1
            counter.count = 3
            counter.sizes["last"] = a.shape
            seen.append(a.dim())
            seen.append(outer)
            return a**3 * count

        return transform(noting, x), count, counter.count, counter.sizes, seen

    arguments = tensor(3, 2, grad=gradients), Counter(), []
    check(Program(fn, calls=1, has_gradients=gradients, is_exact=False, backend=backend), *arguments)


def test_module_that_counts_its_calls():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return self.linear(x).tanh()

    def fn(model, x):
        parameters = {name: each.detach() for name, each in model.named_parameters()}

        def loss(parameters, row):
            return functional_call(model, parameters, (row[None],)).pow(2).sum()

        return vmap(grad(loss), in_dims=(None, 0))(parameters, x), model.calls

    check(Program(fn, calls=4, is_exact=False, recompiles=True), seeded(Counting()), tensor(4, 3), all_graphs=(2, 3))


@checked(tensor(3, 2), all_graphs=(2, 3))
@watching("CALLS")
@repeated(4)
@recompiling
def test_function_writes_a_global(x):
    def inner(row):
        global CALLS
        CALLS += 1
        return row * CALLS

    return vmap(inner)(x) + CALLS


@checked(tensor(4, 2), graphs=None, breaks=1)
def test_function_that_runs_in_chunks(x):
    seen = []
    y = vmap(lambda row: seen.append(1) or row * 2, chunk_size=2)(x)
    return y, seen


class Kept:
    value = None


@pytest.mark.parametrize("store", ["list", "attribute", "closure"])
def test_function_that_stores_its_tensors(store):
    def fn(x, kept, seen):
        def inner(a):
            y = a * 2
            if store == "list":
                seen.append([y])
            elif store == "attribute":
                kept.value = y
            else:
                kept.value = lambda: y
            return y.sum()

        y = grad(inner)(x)
        kept.value = None
        return y, [seen.pop() is not None for _ in seen]

    check(fn, tensor(3), Kept(), [], graphs=None, breaks=1)


@checked(leaf(3), graphs=None, breaks=None)
@with_gradients
def test_effects_in_what_a_checkpoint_runs_again(x):
    seen = []
    y = checkpoint(lambda a: grad(lambda b: seen.append(1) or (b**2).sum())(a), x, use_reentrant=False)
    return y * x, len(seen)


RUNS = TRANSFORMS | {
    "checkpoint": lambda fn, x: checkpoint(fn, x, use_reentrant=False),
    "vmap in chunks": lambda fn, x: vmap(fn, chunk_size=2)(x),
}


@BACKENDS
@pytest.mark.parametrize("run", RUNS.values(), ids=list(RUNS))
def test_exception_of_the_function_is_caught(run, backend):
    def fn(x, seen):
        def raising(a):
            seen.append(a.dim())
            y = a.sin()
            if seen:
                raise ValueError(f"of {len(y.shape)} dimensions")
            return y

        y = x * 2
        with torch.no_grad():
            z = y + 1
        try:
            return run(raising, y)
        except ValueError as error:
            return y * 3 + z, str(error), torch.is_grad_enabled()

    check(Program(fn, calls=1, has_gradients=True, backend=backend), leaf(3, 2), [])


def test_exception_after_random_numbers():
    def fn(x):
        def raising(a):
            if torch.rand(2).sum() is not None:
                raise ValueError("too late")
            return a

        try:
            return vmap(raising, randomness="different")(x)
        except ValueError:
            return x + torch.rand(2)

    check(fn, tensor(3, 2), graphs=None, breaks=1)


@pytest.mark.parametrize("run", RUNS.values(), ids=list(RUNS))
def test_exception_of_the_function_leaves_the_frame(run):
    def raising(a):
        raise ValueError("not today")

    check(lambda x: run(raising, x * 2) + 1, tensor(3, 2), graphs=None)
