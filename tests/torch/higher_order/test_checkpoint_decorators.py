"""``checkpoint(use_reentrant=False)`` as a decorator, and the options that torch 2.14 added."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import dynamo_lite as dl
from programs import Program, check, leaf, with_gradients, without_breaks
from weights import seeded

if torch.__version__ < "2.14":
    pytest.skip("checkpoint() wants a function", allow_module_level=True)

BACKENDS = pytest.mark.parametrize("backend", [None, "aot_eager"])
REENTRANT = pytest.mark.parametrize("reentrant", [False, True])


def waves(x, factor=1.0):
    return x.sin().cos() * factor


@BACKENDS
@REENTRANT
def test_decorated_function_is_captured(reentrant, backend):
    decorated = checkpoint(use_reentrant=reentrant, preserve_rng_state=False)(waves)
    check(Program(lambda x: decorated(x * 2) + 1, has_gradients=True, fullgraph=True, backend=backend), leaf(3))


def test_decorated_function_is_given_keywords():
    decorated = checkpoint(use_reentrant=False)(waves)
    check(with_gradients(without_breaks(lambda x: decorated(x, factor=3.0))), leaf(3))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @checkpoint(use_reentrant=False)
    def hidden(self, x):
        return self.linear(x).relu()

    def forward(self, x):
        return self.hidden(x).sum(0)


@BACKENDS
def test_decorated_method_is_captured(backend):
    check(
        Program(lambda block, x: block(x), has_gradients=True, fullgraph=True, backend=backend),
        seeded(Block()),
        leaf(3, 4),
    )


def test_function_is_wrapped_in_the_compiled_function():
    check(with_gradients(lambda x: checkpoint(use_reentrant=False)(waves)(x)), leaf(3), graphs=1, breaks=1)


@REENTRANT
def test_options_that_change_nothing(reentrant):
    options = dict(early_stop=True, debug=False, determinism_check="default", respect_saved_tensors_hooks=None)
    check(with_gradients(without_breaks(lambda x: checkpoint(waves, x, use_reentrant=reentrant, **options))), leaf(3))


def test_option_of_saved_tensors_hooks_without_selection():
    fn = functools.partial(checkpoint, waves, use_reentrant=False, respect_saved_tensors_hooks=True)
    check(with_gradients(without_breaks(lambda x: fn(x))), leaf(3))


def test_option_of_saved_tensors_hooks_with_selection_breaks():
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.sin.default])
    options = dict(use_reentrant=False, respect_saved_tensors_hooks=True, context_fn=contexts)
    recorder = check(with_gradients(lambda x: checkpoint(waves, x * 2, **options) + 1), leaf(3), graphs=2, breaks=1)
    assert len(recorder.graphs) == 2
    assert any("respect_saved_tensors_hooks" in str(reason) for reason in dl.counters.break_reasons)


def test_option_that_torch_refuses_raises_its_error():
    def fn(x):
        try:
            return checkpoint(waves, x, use_reentrant=True, respect_saved_tensors_hooks=True)
        except ValueError as error:
            return x * len(str(error))

    check(with_gradients(fn), leaf(3), graphs=None)
