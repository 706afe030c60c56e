"""``torch.nn.attention.flex_attention``: its functions become graphs inside the graph."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import dynamo_lite as dl
from backend_reference import same_as_backend
from programs import check, checked, tensor, without_breaks

pytestmark = pytest.mark.filterwarnings("ignore")

BIAS = tensor(2, seed=5)
DOCUMENTS = torch.tensor([0] * 8 + [1] * 8)


def heads(count=2, length=16, grad=False):
    return [tensor(1, count, length, 8, seed=seed, grad=grad) for seed in range(3)]


@checked(*heads(), tensor(1)[0])
@without_breaks
def test_function_of_scores(q, k, v, slope):
    def score_mod(score, b, h, i, j):
        return score * slope + (i - j) * 0.5

    return flex_attention(q, k, v, score_mod=score_mod)


def test_indexing_by_what_it_is_given():
    table = tensor(2, 32)

    def fn(q, k, v):
        def score_mod(score, b, h, i, j):
            return score + BIAS[h] + table[h, i - j + 16] + table[0, j]

        return flex_attention(q, k, v, score_mod=score_mod)

    check(without_breaks(fn), *heads())


def test_mask_made_outside():
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)

    check(without_breaks(lambda q, k, v: flex_attention(q, k, v, block_mask=mask)), *heads())


@checked(*heads(), DOCUMENTS, others=[(*heads(), DOCUMENTS.flip(0))])
@without_breaks
def test_mask_made_inside(q, k, v, documents):
    def mask_mod(b, h, i, j):
        return (i >= j) & (documents[i] == documents[j])

    mask = create_block_mask(mask_mod, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
    return flex_attention(q, k, v, block_mask=mask), mask.kv_num_blocks


def test_fewer_heads_of_keys():
    q, k, v = heads(4)
    check(without_breaks(lambda q, k, v: flex_attention(q, k, v, enable_gqa=True, scale=0.3)), q, k[:, :2], v[:, :2])


@checked(*heads())
@without_breaks
def test_more_results(q, k, v):
    out, more = flex_attention(q, k, v, return_aux=AuxRequest(lse=True))
    return out, more.lse


@checked(*heads(), others=[heads(length=12), heads(length=20)], all_graphs=2)
@without_breaks
def test_lengths_that_differ(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i >= j))


def test_effect_in_a_function_of_scores():
    seen = []

    def fn(q, k, v):
        def score_mod(score, b, h, i, j):
            seen.append(1)
            return score

        return flex_attention(q, k, v, score_mod=score_mod)

    with pytest.raises(dl.exc.Unsupported, match="side effect"):
        dl.compile(fn, backend="eager", fullgraph=True)(*heads())
    assert not seen


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compilers(backend):
    """With blocks of 8, some of them masked, Inductor's kernel without AVX-512 reads uninitialized memory."""
    documents = torch.tensor([0] * 16 + [1] * 16)

    def fn(q, k, v, documents):
        def score_mod(score, b, h, i, j):
            return score * 0.5 + BIAS[h] * (i - j)

        def mask_mod(b, h, i, j):
            return (i >= j) & (documents[i] == documents[j])

        mask = create_block_mask(mask_mod, None, None, 32, 32, device="cpu", BLOCK_SIZE=16)
        return flex_attention(q, k, v, score_mod=score_mod, block_mask=mask)

    same_as_backend(lambda wrap: wrap(fn)(*heads(length=32), documents), backend, fullgraph=True)
