"""``torch.utils.checkpoint``: selective checkpoints (``context_fn``), what a checkpointed function may return, modules
of ``checkpoint_wrapper``."""

from __future__ import annotations

import functools
from collections import defaultdict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    noop_context_fn,
)

import dynamo_lite as dl
from programs import Program, check, checked, leaf, repeated, tensor, with_gradients
from weights import seeded

MM = torch.ops.aten.mm.default
BACKENDS = pytest.mark.parametrize("backend", [None, "aot_eager"])
checkpointed = functools.partial(checkpoint, use_reentrant=False)
selective = functools.partial(functools.partial, create_selective_checkpoint_contexts)


def policy(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op == MM else CheckpointPolicy.PREFER_RECOMPUTE


def contexts():
    return create_selective_checkpoint_contexts(policy)


def every_second_product():
    seen = defaultdict(int)

    def counting(ctx, op, *args, **kwargs):
        if op == MM:
            seen[ctx.is_recompute] += 1
        is_saved = op == MM and seen[ctx.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(counting)


def products(x):
    return ((x.sin() @ x.t()).cos() @ x).sin() @ x.t()


EXISTING = selective(policy)
CONTEXTS = {
    "partial": lambda x: checkpointed(products, x, context_fn=selective(policy)),
    "existing partial": lambda x: checkpointed(products, x, context_fn=EXISTING),
    "list of operators": lambda x: checkpointed(products, x, context_fn=selective([MM])),
    "function": lambda x: checkpointed(products, x, context_fn=contexts),
    "lambda": lambda x: checkpointed(products, x, context_fn=lambda: create_selective_checkpoint_contexts(policy)),
    "bool": lambda x: checkpointed(products, x, context_fn=selective(lambda ctx, op, *args, **kwargs: op == MM)),
    "counter": lambda x: checkpointed(products, x, context_fn=every_second_product),
    "none": lambda x: checkpointed(products, x, context_fn=noop_context_fn),
    "early_stop": lambda x: checkpointed(products, x, early_stop=False),
    "debug": lambda x: checkpointed(products, x, debug=False),
    "dropout": lambda x: checkpointed(lambda a: nn.functional.dropout(products(a)), x, context_fn=selective(policy)),
}


@BACKENDS
@pytest.mark.parametrize("name", CONTEXTS)
def test_context_fn_selects_the_saved_results(name, backend):
    exact = backend is None
    check(
        Program(CONTEXTS[name], calls=3, has_gradients=True, fullgraph=True, backend=backend, is_exact=exact),
        leaf(3, 4),
    )


def test_policy_is_asked_as_in_eager():
    decided = []

    def noting(ctx, op, *args, **kwargs):
        decided.append(op)
        return policy(ctx, op)

    fn = functools.partial(checkpoint, products, use_reentrant=False, context_fn=selective(noting))
    found = []
    for run in (fn, dl.compile(fn, backend="eager")):
        decided.clear()
        run(leaf(3, 4)).sum().backward()
        found.append(list(decided))
    assert found[0] == found[1] and found[0].count(MM) > 2


SEEN: list[object] = []


def noting_policy(ctx, op, *args, **kwargs):
    SEEN.append(op)
    return CheckpointPolicy.PREFER_RECOMPUTE


class Noting:
    def __enter__(self):
        SEEN.append(1)

    def __exit__(self, *raised):
        pass


@pytest.mark.parametrize("context_fn", [selective(noting_policy), lambda: (Noting(), Noting())])
def test_contexts_with_effects(context_fn):
    def fn(x):
        before = len(SEEN)
        y = checkpointed(products, x, context_fn=context_fn)
        return y, len(SEEN) - before

    check(repeated(1)(with_gradients(fn)), leaf(3, 4), graphs=None, breaks=1)


@dataclass
class Parts:
    main: torch.Tensor
    scale: int = 2
    rest: object = None


@dataclass(frozen=True)
class Frozen:
    main: torch.Tensor


class Plain:
    def __init__(self, main):
        self.main = main


Pair = namedtuple("Pair", "one other")


def of_parts(x):
    found = checkpointed(lambda given: Parts(given.main.sin() * given.scale, 3, given.main), Parts(x))
    return found.main * found.scale + found.rest, type(found), found.rest is x


def returned(x):
    return checkpointed(lambda a: Parts(a.sin(), rest=[a.cos(), (a.exp(),)]), x)


def shared(x):
    def inner(a):
        y = a.sin()
        return {"one": Plain(y), "other": [y, y[0]]}

    found = checkpointed(inner, x)
    return found["one"].main * 2, found["one"].main is found["other"][0], found["other"][1]


def of_a_closure(x):
    def inner(a):
        y = a.sin()
        return lambda b: b * y

    return checkpointed(inner, x)(x + 1)


RESULTS = {
    "dataclasses": of_parts,
    "returned": returned,
    "frozen": lambda x: checkpointed(lambda a: Frozen(a.sin()), x).main * 2,
    "shared": shared,
    "closure": of_a_closure,
    "namedtuple": lambda x: checkpointed(lambda a: Pair(a.sin(), a), x).one * 2,
    "function": lambda x: (lambda y, fn: fn(y))(*checkpointed(lambda a: (a.sin(), torch.cos), x)),
    "set": lambda x: sum(checkpointed(lambda a: {a.sin()}, x)),
    "nested": lambda x: checkpointed(lambda a: checkpointed(lambda b: Plain(b.sin()), a.cos()).main * 2, x),
    "nested result": lambda x: checkpointed(lambda a: checkpointed(lambda b: Plain(b.sin()), a.cos()), x).main * 2,
}


@BACKENDS
@pytest.mark.parametrize("name", RESULTS)
def test_results_of_a_checkpointed_function(name, backend):
    check(
        Program(RESULTS[name], calls=3, has_gradients=True, fullgraph=True, backend=backend, is_exact=backend is None),
        leaf(3, 4),
    )


def wrapped(**options):
    return seeded(checkpoint_wrapper(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Dropout(0.5)), **options))


def all_linear():
    model = seeded(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)))
    apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, nn.Linear))
    return model


WRAPPED = {
    "by default": lambda: wrapped(),
    "without the random state": lambda: wrapped(preserve_rng_state=False).eval(),
    "reentrant": lambda: wrapped(checkpoint_impl=CheckpointImpl.REENTRANT),
    "selective": lambda: wrapped(context_fn=contexts),
    "all of a kind": all_linear,
}


@BACKENDS
@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_modules(name, backend):
    check(
        Program(
            WRAPPED[name](), calls=3, has_gradients=True, fullgraph=True, backend=backend, is_exact=backend is None
        ),
        leaf(3, 4),
    )


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_checkpoint_sequential_is_captured(segments, use_reentrant):
    model = seeded(nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)]))
    check(with_gradients(lambda model, x: checkpoint_sequential(model, segments, x, use_reentrant)), model, leaf(3, 4))


@checked(tensor(3), graphs=None, breaks=None)
def test_options_that_torch_refuses(x):
    try:
        return checkpoint(products, x, use_reentrant=True, context_fn=contexts)
    except ValueError as error:
        return str(error)
