"""einops, traced through its own Python and its caches."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from collector import Programs
from programs import check, tensor

einops = pytest.importorskip("einops")
from einops import pack, parse_shape, rearrange, reduce, repeat, unpack  # noqa: E402
from einops.layers.torch import EinMix, Rearrange, Reduce  # noqa: E402

programs = Programs()
images = tensor(2, 3, 4, 6)


@programs(images, 2, others=[(images, 3)])
def axes_are_split_and_merged(x, p):
    a = rearrange(x, "b c h (w p) -> b (c p) h w", p=p)
    b = rearrange(x, "b c h w -> (b h) (w c)")
    return a * 2, b


@programs(images)
def reductions(x):
    return (
        reduce(x, "b c h w -> b c", "mean"),
        reduce(x, "b c (h 2) (w 2) -> b c h w", "max"),
        reduce(x, "b c h w -> () c () ()", "sum"),
    )


@programs(images)
def repetitions(x):
    return repeat(x, "b c h w -> b c (h 2) (w 2)"), repeat(x, "b c h w -> b c k h w", k=3).sum(2)


@programs(images)
def an_ellipsis(x):
    return rearrange(x, "b ... -> b (...)"), rearrange(x, "... h w -> ... w h") + 1


@programs(images)
def a_list_is_stacked(x):
    return rearrange([x, x + 1], "n b c h w -> b (n c) h w")


@programs(tensor(2, 3, 4), tensor(2, 5, 4, seed=1))
def heads_of_attention(x, y):
    q = rearrange(x, "b n (h d) -> b h n d", h=2)
    k = rearrange(y, "b n (h d) -> b h n d", h=2)
    weights = (q @ k.transpose(-1, -2)).softmax(-1)
    return rearrange(weights @ k, "b h n d -> b n (h d)")


@programs(images)
def a_shape_is_parsed(x):
    return x * parse_shape(x, "b _ h w")["h"], parse_shape(x, "b c h w")


@programs(tensor(2, 3), tensor(2, 4, 5, seed=1))
def packed_and_unpacked(x, y):
    packed, shapes = pack([x, y], "b *")
    a, b = unpack(packed * 2, shapes, "b *")
    return a, b, shapes


@programs(tensor(2, 3), tensor(3, 4, seed=1))
def a_product(x, y):
    return einops.einsum(x, y, "i j, j k -> i k") + 1


@programs(images, graphs=None)
def a_wrong_pattern(x):
    try:
        rearrange(x, "b c -> c b")
    except einops.EinopsError as error:
        return x + 1, "Expected" in str(error)


def test_layers_of_einops_are_traced():
    model = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2),
        torch.nn.Linear(12, 4),
        Reduce("b n d -> b d", "mean"),
    )
    check(model, images, graphs=1)


def test_mix_layer_is_traced():
    check(EinMix("b c h w -> b h w o", weight_shape="c o", bias_shape="o", c=3, o=5), images, graphs=1)


def test_caches_filled_before_the_call():
    def fn(x):
        return rearrange(x, "b c h w -> w (b c) h")

    fn(images)
    check(fn, images, graphs=1)


@pytest.mark.parametrize("case", programs.parameters())
def test_functions_of_einops_are_traced(case):
    case.run()


def test_the_first_call_of_a_process():
    """einops looks for its backend, imports what it needs of torch, and fills its caches."""
    program = """
import einops, torch
import dynamo_lite as dl

def split(x):
    return einops.rearrange(x, "b c (h p) w -> b h (p w c)", p=2) + 1

compiled, graphs = dl.compile(split, backend="eager", fullgraph=True), []
for size in (4, 6, 8):
    x = torch.randn(2, 3, size, size + 1)
    assert torch.equal(compiled(x), split(x))
print(dl.counters.graphs)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr
