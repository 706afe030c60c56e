"""Cached results of operators on fakes equal torch's own, at the first call and later, in all metadata."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves

from dynamo_lite.records import fakes


def _functional(x, w, i):
    yield x + 1
    yield x + w[0]
    yield F.linear(x, w, w[0])
    yield F.layer_norm(x, (4,), w[0], w[1])
    yield F.scaled_dot_product_attention(x, x, x, is_causal=True)
    yield torch.cat([x, x * 2], 1)
    yield x.softmax(-1), x.mean((0, 1)), x.sum(), x.argmax(), x.sort(), x.topk(2), torch.var_mean(x)
    yield x.to(torch.float16), x.to(torch.float32), x.to("meta"), x.contiguous(), x.clone(), x.mT.contiguous()
    yield x[i], x[i, None], x[..., i, :], torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, 2)
    yield F.conv1d(x, x[:, :, :2]), F.max_pool1d(x, 2), F.embedding(i, w), F.one_hot(i, 4), F.dropout(x, 0.5)
    yield torch.fft.rfft(x), torch.linalg.qr(w), torch.linalg.inv(w), torch.einsum("abc,dc->abd", x, w)


def _views(x, w, i):
    yield (
        x.view(6, 4),
        x.reshape(-1),
        x.transpose(0, 1),
        x.permute(2, 0, 1),
        x.unsqueeze(0),
        x[0],
        x[:, 1:],
        x[..., ::2],
    )
    yield x.split(1), x.chunk(2, -1), x.unbind(), x.expand(2, 3, 4), x[None].expand(5, -1, -1, -1), x.flatten(1)
    yield (
        x.diagonal(),
        w.t(),
        w.T.contiguous().t(),
        x.detach(),
        x.view_as(x),
        x.unfold(1, 2, 1),
        x.squeeze(),
        w[1].view(2, 2),
    )
    yield x.as_strided((2, 2), (1, 2)), x.as_strided((2, 2), (4, 1), 3), x.view(torch.int32), x.mT.reshape(-1)
    yield x[0].add(1).view(-1), x.matmul(w), x.matmul(w).view(-1), x @ x.mT


def _writes(x, w, i):
    y = x.clone()
    yield y.add_(1), y
    yield y[0].zero_(), y.transpose_(0, 1), y, y[1:].mul_(2)
    z = torch.zeros_like(w)
    yield z.index_add_(0, i, w[i]), z.copy_(w), torch.add(w.detach(), 1, out=torch.empty_like(w)), z
    yield z.detach().requires_grad_() + 1, z.detach().view(-1)[1:].resize_(3)


def _complex(x, w, i):
    c = torch.complex(x, x)
    yield (
        c,
        c.conj(),
        c.conj().imag,
        c.real,
        c.conj() * 2,
        c.conj().view(-1),
        torch.view_as_real(c),
        c.mH,
        c.conj().clone(),
    )
    yield torch._neg_view(x) + 1, torch._neg_view(x).view(-1)


def _constants(x, w, i):
    c = torch.tensor([1.0, 2.0])
    yield c, c + 1, c[0], c.view(2, 1), c * x[0, 0, :2], torch.full((2,), 3.0), torch.arange(4), torch.ones(2, 2).tril()
    yield (
        torch.scalar_tensor(2.0),
        torch.empty(3, 2),
        torch.zeros_like(x),
        x.new_ones(3),
        torch.rand(3),
        c.to(torch.int64),
    )


def _facts(results: list[Any], given: list[torch.Tensor]) -> list[Any]:
    memory = [each.untyped_storage()._cdata for each in given]
    facts: list[Any] = []
    for each in results:
        if not isinstance(each, torch.Tensor):
            facts.append(each)
            continue
        where = each.untyped_storage()._cdata
        memory += [where] if where not in memory else []
        facts += [each.shape, each.stride(), each.storage_offset(), each.dtype, each.device, type(each)]
        facts += [each.requires_grad, each.grad_fn and each.grad_fn.name(), each.is_leaf, each._is_view()]
        facts += [memory.index(where), each.untyped_storage().nbytes(), str(torch._C._dispatch_key_set(each))]
        facts += [each.is_inference() or each._version, each.constant is None, [each is one for one in given]]
    return [*facts, [each.is_inference() or each._version for each in given]]


def _run(mode: FakeTensorMode, program: Any, grads: bool, guard: Any) -> list[Any]:
    real = torch.rand(2, 3, 4), torch.rand(4, 4), torch.tensor([1, 0])
    with guard():
        given = [mode.from_tensor(each.requires_grad_(grads and each.is_floating_point())) for each in real]
        with mode:
            return [_facts(tree_leaves(results), given) for results in program(*given)]


@pytest.mark.parametrize(
    "program", [_functional, _views, _writes, _complex, _constants], ids=lambda each: each.__name__[1:]
)
@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode, contextlib.nullcontext])
@pytest.mark.parametrize("grads", [False, True])
def test_cached_fakes_equal_torchs(program, guard, grads):
    plain = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False), static_shapes=True)
    plain.cache_enabled = False
    expected = _run(plain, program, grads, guard)
    for _ in range(2):
        mode = fakes.fake_mode(ShapeEnv(duck_shape=False))
        mode.static_shapes = True
        for _ in range(2):
            assert _run(mode, program, grads, guard) == expected


def test_operators_run_once_on_equal_fakes(monkeypatch):
    asked = []
    real = FakeTensorMode._dispatch_impl
    monkeypatch.setattr(FakeTensorMode, "_dispatch_impl", lambda *args: asked.append(args[1]) or real(*args))
    fakes._cache.clear()
    for _ in range(3):
        mode = fakes.fake_mode(None)
        x = mode.from_tensor(torch.rand(3, 4))
        asked.append("now")
        with mode:
            assert x.mul(x).view(4, 3).sum(0).shape == (3,)
    assert asked[-2:] == ["now", "now"] and torch.ops.aten.mul.Tensor in asked[1:-2]


def test_other_numbers_give_another_cached_result(monkeypatch):
    mode = fakes.fake_mode(None)
    x = mode.from_tensor(torch.rand(3, 4))
    with mode:
        assert (x * 1).dtype == (x * 1.0).dtype == torch.float32
        of_integers = x.to(torch.int64)
        assert (of_integers * 1).dtype == torch.int64
        assert (of_integers * 1.0).dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert (of_integers * 1.0).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)
        assert (of_integers * True).dtype == torch.int64
        assert x.T.contiguous().stride() == (3, 1) and x.contiguous() is x


def test_cache_of_fakes_is_limited(monkeypatch):
    monkeypatch.setattr(fakes, "_LIMIT", 10)
    mode = fakes.fake_mode(None)
    x = mode.from_tensor(torch.rand(50))
    with mode:
        for size in range(1, 50):
            assert x[:size].shape == (size,)
            assert len(fakes._cache) <= 10 or size == 1


def _symbolic(x, w, i):
    """Returns the operators of two equal layers."""
    for _ in range(2):
        h = F.layer_norm(x, (4,), w[0], w[1])
        q, k, v = (F.linear(h, w).view(*x.shape[:2], 2, -1).transpose(1, 2) for _ in range(3))
        yield q, k.mT, v[..., 1:], torch.cat([q, k], -1), q.chunk(2, -1)
        yield F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape) + h
        yield x.mean((0, 1)), x.sum(-1, keepdim=True), x.softmax(-1), x[:, None].expand(-1, 5, -1, -1), x * x.shape[1]
        yield x.new_zeros(x.shape[0], 3), torch.arange(x.shape[1]), x.flatten(1), x.mul(2).contiguous().view(-1), w.t()
        yield x[:, : x.shape[1] - 1], torch.where(x > 0, x, 0.0), x.to(torch.float16), F.embedding(i, w), x.unbind(-1)


def _run_symbolic(mode: FakeTensorMode) -> list[Any]:
    assert mode.shape_env is not None
    real = {"x": torch.rand(6, 3, 4), "w": torch.rand(4, 4), "i": torch.tensor([1, 0, 2, 3, 1])}
    facts: list[Any] = []
    with torch.no_grad():
        given = [
            mode.from_tensor(each, source=ConstantSource(name), static_shapes=name == "w")
            for name, each in real.items()
        ]
        with mode:
            for results in _symbolic(*given):
                facts += [
                    str(each.node.expr.expand() if isinstance(each, torch.SymInt) else each)
                    for each in _facts(tree_leaves(results), given)
                ]
    return [*facts, *(str(each.expr) for each in mode.shape_env.guards)]


def test_cached_symbolic_fakes_equal_torchs():
    plain = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))
    plain.cache_enabled = False
    found = _run_symbolic(fakes.fake_mode(ShapeEnv(duck_shape=False)))
    assert found == _run_symbolic(plain) and any("s" in each for each in found)


def test_operators_run_once_on_equal_symbolic_fakes(monkeypatch):
    asked = []
    real = FakeTensorMode._dispatch_impl
    monkeypatch.setattr(FakeTensorMode, "_dispatch_impl", lambda *args: asked.append(args[1]) or real(*args))
    mode = fakes.fake_mode(ShapeEnv(duck_shape=False))
    x = mode.from_tensor(torch.rand(3, 4), source=ConstantSource("x"))
    with mode:
        for _ in range(3):
            asked.append("now")
            assert x.mul(x).sum(0).shape == (x.shape[1],)
    assert asked[-2:] == ["now", "now"] and torch.ops.aten.mul.Tensor in asked
    assert not mode.shape_env.fake_tensor_cache  # torch's own would be filled for nothing


def test_results_whose_sizes_depend_on_data_are_others_each_time():
    mode = fakes.fake_mode(ShapeEnv(duck_shape=False, allow_dynamic_output_shape_ops=True))
    x = mode.from_tensor(torch.rand(3, 4), source=ConstantSource("x"))
    with mode:
        one, other = x.nonzero(), (x + 1).nonzero()
        assert one.shape[0].node.expr != other.shape[0].node.expr
        assert (one + 1).shape[0].node.expr == one.shape[0].node.expr


def _tensors():
    weight = torch.nn.Parameter(torch.randn(4, 3))
    with_gradient = torch.nn.Parameter(torch.randn(3))
    with_gradient.grad = torch.ones(3)
    shared = torch.randn(6)
    with torch.inference_mode():
        inference = torch.randn(3)
    yield weight
    yield torch.nn.Parameter(torch.randn(2, 2, dtype=torch.float16), requires_grad=False)
    yield from (torch.randn(3, requires_grad=True), torch.randn(2, 3, dtype=torch.complex64), torch.randn(()))
    yield from (torch.randn(4, 3).t().contiguous(), torch.empty(0, 3), torch.empty_strided((2, 3), (1, 2)).fill_(1))
    yield from (weight.detach().view(-1), weight.data, with_gradient, shared[1:], shared, shared.view(2, 3), inference)
    yield from (torch.arange(3), torch.randn(3).conj(), torch.randn(3, dtype=torch.complex64).conj())
    yield from (
        torch.nn.Buffer(torch.randn(3)),
        torch.nn.Buffer(torch.randn(3), persistent=False),
        torch.eye(2).to_sparse(),
    )
    yield from (torch.empty(3, device="meta"), torch.empty(2, 3)[:, :1], torch.empty(2).expand(3, 2), weight * 2)


def _known(fake: torch.Tensor) -> dict[str, Any]:
    known = {name: value for name, value in vars(fake).items() if not isinstance(value, FakeTensorMode)}
    for read in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf", "__class__"):
        known[read] = getattr(fake, read)
    if fake.layout is torch.strided:
        known |= {"stride": fake.stride(), "offset": fake.storage_offset(), "bytes": fake.untyped_storage().nbytes()}
    known["keys"] = torch._C._dispatch_keys(fake).raw_repr()
    known["is"] = (
        fake.is_conj(),
        fake.is_neg(),
        fake.is_inference(),
        isinstance(fake, torch.nn.Parameter),
        fake._is_view(),
    )
    known["grad"] = None if not fake.is_leaf or fake.grad is None else _known(fake.grad)
    return known


@pytest.mark.filterwarnings("ignore:.*Sparse")
def test_fakes_of_tensors_equal_torchs():
    tensors = list(_tensors())
    torchs, ours = FakeTensorMode(shape_env=ShapeEnv()), fakes.fake_mode(ShapeEnv())
    wanted = [torchs.from_tensor(each, static_shapes=True) for each in tensors]
    with ours:
        found = [fakes.fake_of(ours, each) for each in tensors]
    for one, other in zip(wanted, found, strict=True):
        assert _known(one) == _known(other)
    dense = [at for at, each in enumerate(tensors) if each.layout is torch.strided]
    memory = [[many[at].untyped_storage()._cdata for at in dense] for many in (wanted, found)]
    assert [memory[0].index(each) for each in memory[0]] == [memory[1].index(each) for each in memory[1]]
    again = [ours.from_tensor(each, static_shapes=True) for each in tensors]
    assert all(map(operator.is_, again, found))
