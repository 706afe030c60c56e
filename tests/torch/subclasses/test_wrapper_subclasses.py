"""Wrapper subclasses: `__tensor_flatten__` and `__torch_dispatch__`."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from changing_modules import check_changes
from programs import Program, check, checked, compiled_by, tensor, with_gradients, without_breaks
from training_checks import check_training
from wrapper_tensors import Holder, Kind, Pair, Quantised, pair, quantised


@checked(pair(3, 4), others=[(pair(3, 4, seed=7),)], all_graphs=1)
def test_operators_on_a_wrapper_argument(x):
    y = (x * 2 + 1).relu()
    return y, y.sum(0), y.shape, y.dtype, type(y), isinstance(y, Pair)


def test_other_sizes_types_and_classes_recompile():
    others = [(pair(5, 2),), (pair(3, 4, dtype=torch.float64),), (tensor(3, 4),), (pair(3, 4, grad=True),)]
    check(lambda x: x * 2 + 1, pair(3, 4), others=[*others, (pair(3, 4, seed=3),)], all_graphs=5)


@checked(pair(3))
def test_inner_tensors_are_read(x):
    y = x + 1
    return x.a * 2 + x.b, y.a, x.both(), y.both(), x.first is x.a, x.a


@checked(pair(3, 4), graphs=None)
def test_views_of_a_wrapper(x):
    y = x.view(-1)
    return y * 2, x.t(), x[0], x[1] + 1


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[1:], lambda x: x.view(-1)])
def test_views_of_a_wrapper_as_arguments(view):
    def fn(x):
        return x * 2, x.t() if x.dim() == 2 else x + 1

    for backend in ("eager", "aot_eager"):
        compiled = dl.compile(fn, backend=backend)
        for grad in (False, True, False):
            wanted, found = (each(view(pair(3, 4, grad=grad))) for each in (fn, compiled))
            for one, other in zip(wanted, found):
                assert torch.equal(one.a, other.a) and torch.equal(one.b, other.b)
                assert one.requires_grad is other.requires_grad is grad and other.stride() == one.stride()


def test_writes_into_a_view_argument():
    def fn(x, y):
        x.mul_(2)
        return y + 1

    for backend in ("eager", "aot_eager"):
        compiled = dl.compile(fn, backend=backend)
        for shares in (True, False, True):
            x, y = pair(3, 4), pair(3, 4)
            wanted = fn(x[1:], x if shares else pair(3, 4))
            found = compiled(y[1:], y if shares else pair(3, 4))
            assert torch.equal(found.a, wanted.a) and torch.equal(y.a, x.a) and torch.equal(y.b, x.b)


@checked(pair(3, 4))
def test_writes_into_a_wrapper(x):
    x.add_(1)
    x[0].mul_(3)
    return x * 2


@checked(pair(3), graphs=None, breaks=None)
def test_writes_into_a_wrapper_are_visible_in_inner_tensors(x):
    before = x.a + 0
    x.add_(1)
    return before, x.a + x.b


@checked(pair(3), graphs=None, breaks=None)
def test_writes_into_inner_tensors(x):
    x.a.add_(1)
    return x * 2


def test_wrapper_and_one_inner_tensor_as_arguments():
    def fn(x, part):
        x.mul_(2)
        return part + 1, x + part

    x = pair(3)
    check(compiled_by("aot_eager")(fn), x, x.a, graphs=None)


def test_inner_tensor_is_an_argument_in_some_calls():
    def fn(x, part):
        x.mul_(2)
        return part + 1

    x = pair(3)
    others = [(x, x.b), (x, tensor(3))]
    check(compiled_by("aot_eager")(fn), x, tensor(3), others=others, graphs=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_wrapper_with_the_same_inner_tensor_twice(backend):
    def fn(x):
        x.add_(1)
        return x * 2

    part = tensor(3)
    check(compiled_by(backend)(fn), Pair(part, part), graphs=None)


def test_two_wrappers_share_an_inner_tensor():
    def fn(x, y):
        x.add_(1)
        return x + y

    x, y = pair(3), pair(3, seed=4)
    others = [(x, Pair(x.a, y.b)), (x, y), (x, Pair(x.a, y.b))]
    check(compiled_by("aot_eager")(fn), x, y, others=others, graphs=None)


def test_identity_of_wrappers_and_inner_tensors():
    x = pair(3)
    check(lambda x, y: (x is y, x, [x, y]), x, x, others=[(x, pair(3)), (x, x)], graphs=None)


@checked(pair(3, grad=True), tensor(3))
@with_gradients
def test_gradients_of_a_wrapper(x, y):
    z = x * 2 + y
    return z.relu() * x.detach(), x.requires_grad, z.requires_grad


@checked(tensor(2, 3), quantised(4, 3), others=[(tensor(2, 3, seed=4), quantised(4, 3, seed=5))], all_graphs=1)
def test_weight_in_integers(x, w):
    return F.linear(x, w) + x @ w.t(), x @ w.dequantised().t()


def test_context_changed_between_calls():
    steps = [lambda m, shift=shift: setattr(m.weight.kind, "shift", shift) for shift in (0, 1, 2, 1)]
    check_changes(lambda: Holder(quantised(4, 3)), *steps)


def test_inner_tensors_replaced_between_calls():
    layer, x = Holder(quantised(4, 3)), tensor(2, 3)
    compiled = dl.compile(layer, backend="eager")
    for seed in range(3):
        other = quantised(4, 3, seed=seed)
        layer.weight.ints, layer.weight.scale = other.ints, other.scale
        assert torch.equal(compiled(x), layer(x))
    layer.weight.scale = layer.weight.scale.double()
    layer.weight.kind = Kind(torch.float64, 0)
    with pytest.raises(RuntimeError):
        layer(x)
    with pytest.raises(RuntimeError):
        compiled(x)


class Unclear(Pair):
    """A wrapper whose context can't be compared."""

    def __tensor_flatten__(self):
        return ["a", "b"], torch.Generator()


class Chatty(Pair):
    """A wrapper that counts calls of its ``__tensor_flatten__``."""

    asked = 0

    def __tensor_flatten__(self):
        Chatty.asked += 1
        return ["a", "b"], None


@pytest.mark.parametrize("cls", [Unclear, Chatty])
def test_context_that_cannot_be_compared_breaks(cls):
    check(lambda x, y: (x + 1, y * 2), cls(tensor(3), tensor(3, seed=1)), tensor(3), graphs=None, breaks=None)


@checked(pair(3), graphs=None, breaks=None)
def test_attributes_of_a_wrapper_are_mutated(x):
    x.note = 3
    return x * x.note


@checked(pair(3), graphs=None, breaks=None)
def test_data_attribute_of_a_wrapper_is_read(x):
    y = x * 2
    return y + 1 if x.sum().item() > 0 else y - 1


@checked(tensor(2, 3, grad=True), quantised(4, 3), graphs=None, breaks=None)
@with_gradients
def test_in_a_checkpointed_function(x, w):
    return torch.utils.checkpoint.checkpoint(lambda y: F.linear(y, w).sin(), x, use_reentrant=False)


@checked(Pair(pair(3), pair(3, seed=5)), others=[(Pair(pair(3, seed=1), pair(3, seed=5)),)], all_graphs=1)
def test_nested_wrappers(x):
    y = x * 2
    return y, y.a.b, x.a.a + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training_with_a_wrapper_parameter(backend):
    def body(wrap):
        layer, losses = Holder(pair(4, 3), True), []
        run = wrap(layer)
        for _ in range(3):
            layer.zero_grad()
            loss = run(tensor(2, 3)).square().sum()
            loss.backward()
            with torch.no_grad():
                for each in layer.parameters():
                    each.sub_(each.grad * 0.1)
            losses.append(loss)
        return [(each.a, each.b) for each in (*losses, *layer.parameters(), layer.weight.grad)]

    check_training(body, backend=backend, rtol=1e-4, atol=1e-5)


def test_results_of_compilers():
    def fn(x, y):
        z = x * 2 + y
        x.add_(1)
        return z, z.t(), x.view(-1), z.a + 1, x

    compiled = dl.compile(fn, backend="aot_eager")
    for seed in range(2):
        one, other = pair(3, 4, seed=seed), pair(3, 4, seed=seed)
        wanted, found = fn(one, tensor(3, 4)), compiled(other, tensor(3, 4))
        assert found[4] is other and type(found[2]) is Pair
        for each, wanted_each in zip(found, wanted):
            assert type(each) is type(wanted_each)
            parts = (each.a, each.b) if isinstance(each, Pair) else each
            torch.testing.assert_close(parts, (wanted_each.a, wanted_each.b) if isinstance(each, Pair) else wanted_each)
        found[2].mul_(0)
        assert not other.a.any()


TABLE = {}


class Tabled(Quantised):
    """A table has implementations of some functions of torch. The other functions run as usual."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in TABLE:
            return TABLE[func](*args, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


def _linear(x, weight, bias=None):
    found = (x @ weight.ints.to(x.dtype).t() + x.sum(-1, keepdim=True) * weight.kind.shift) * weight.scale.t()
    return found if bias is None else found + bias


TABLE[F.linear] = _linear


def tabled(*shape, seed=0, shift=0):
    made = quantised(*shape, seed=seed, shift=shift)
    return Tabled(made.ints, made.scale, made.kind)


@checked(tensor(2, 3), tabled(4, 3), others=[(tensor(2, 3, seed=3), tabled(4, 3, shift=1))], all_graphs=2)
def test_torch_function_handles_some_functions(x, w):
    return F.linear(x, w), x @ w.t() + 1, w.detach().ints + 1, torch.mul(w, 2), type(w.t())


def test_table_changed_between_calls(monkeypatch):
    layer, x = Holder(tabled(4, 3)), tensor(2, 3)
    compiled = dl.compile(layer, backend="eager")
    first = compiled(x)
    assert torch.equal(first, layer(x))
    monkeypatch.setitem(TABLE, F.linear, lambda x, weight, bias=None: x.sum() + weight.scale.t())
    assert torch.equal(compiled(x), layer(x)) and not torch.equal(compiled(x), first)


@checked(pair(3, 4), tensor(4), tabled(4, 3), graphs=None, breaks=None)
def test_operators_on_wrappers_of_two_classes(x, y, w):
    return w.t() * x, x + 1, y * 2


class Packed(Quantised):
    """Two integers of four bits to a byte: half as many columns as the tensor has."""

    by_parts = torch.ops.aten.detach.default, torch.ops.aten.clone.default

    @staticmethod
    def __new__(cls, data, scale, kind):
        size = data.shape[0], data.shape[1] * 2
        return torch.Tensor._make_wrapper_subclass(cls, size, dtype=kind.dtype, device=data.device)

    def dequantised(self):
        both = torch.stack([self.ints & 15, self.ints >> 4], -1).flatten(1)
        return (both - 8).to(self.kind.dtype) * self.scale


def packed(rows, columns, seed=0):
    data = torch.randint(0, 256, (rows, columns // 2), generator=torch.Generator().manual_seed(seed))
    return Packed(data.to(torch.uint8), tensor(rows, 1, seed=seed), Kind(torch.float32, 0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_of_a_wrapper_change(backend):
    def fn(x, w):
        return F.linear(x, w).relu() * x.shape[0], x.reshape(-1) + w.shape[1]

    given = [(tensor(9, columns), packed(rows, columns)) for rows, columns in ((3, 4), (5, 8), (7, 6), (2, 16))]
    check(Program(fn, fullgraph=True, backend=backend, is_exact=False), *given[0], others=given[1:], all_graphs=2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_class_changed_between_calls(monkeypatch, backend):
    def fn(x):
        return x * 2

    compiled = dl.compile(fn, backend=backend)
    first = compiled(pair(3))
    plain = Pair.__torch_dispatch__.__func__

    def dispatch(cls, func, types, args, kwargs=None):
        return plain(cls, torch.ops.aten.add.Tensor if func is torch.ops.aten.mul.Tensor else func, types, args, kwargs)

    monkeypatch.setattr(Pair, "__torch_dispatch__", classmethod(dispatch))
    assert torch.equal(compiled(pair(3)).a, fn(pair(3)).a) and not torch.equal(compiled(pair(3)).a, first.a)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradient_attribute_is_read_in_tracing(backend):
    def fn(x):
        return x * 2 if x.grad is None else x.grad * 3

    x = pair(3, grad=True)
    (x * 2).sum().backward()
    check(without_breaks(compiled_by(backend)(fn)), pair(3, grad=True), others=[(x,)])


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_optimizer_step(optimizer):
    def body(wrap):
        layer = Holder(pair(4, 3), True)
        opt = optimizer(layer.parameters(), lr=0.1)
        step = wrap(opt.step)
        for seed in range(3):
            opt.zero_grad()
            layer(tensor(2, 3, seed=seed)).sum().backward()
            step()
        return layer.weight.a, layer.weight.b

    check_training(body, backend="eager", graphs=None, breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_detached_wrapper(backend):
    def fn(x, w):
        return x.detach(), w.detach(), w.detach().ints, x.detach() * 2, w.t()

    compiled = dl.compile(fn, backend=backend)
    for _ in range(2):
        x, w = pair(3, grad=True), quantised(4, 3)
        found = compiled(x, w)
        assert [type(each) for each in found] == [Pair, Quantised, torch.Tensor, Pair, Quantised]
        found[0].a.add_(1)
        assert torch.equal(found[0].a, x.a) and found[1].ints.data_ptr() == w.ints.data_ptr()
        assert found[1].kind == w.kind and not found[0].requires_grad
        assert found[4].ints.data_ptr() == w.ints.data_ptr() and found[4].shape == (3, 4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_are_computed_in_tracing(backend):
    def fn(x):
        y = (x * x).sum()
        return torch.autograd.grad(y, x)[0] + 1

    check(compiled_by(backend)(fn), pair(3, grad=True), graphs=None)


@checked(pair(3, grad=True), pair(3), graphs=None)
def test_requires_grad_of_wrappers(x, y):
    return x.requires_grad_() * 2, y.requires_grad_(False) + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_results_have_the_context_of_their_operand(backend):
    def fn(w):
        return w.clone(), w.clone().kind is w.kind, w.clone().kind.shift + 1

    compiled = dl.compile(fn, backend=backend)
    for _ in range(3):
        w = quantised(4, 3)
        found, same, shift = compiled(w)
        assert same and found.kind is w.kind and shift == 1
        found.kind.shift = 5


class Fresh(Quantised):
    """A wrapper whose operators create results with their own context."""

    def mapped(self, function):
        return type(self)(function(self.ints), function(self.scale), Kind(self.kind.dtype, self.kind.shift))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_context_created_by_an_operator(backend):
    def fn(w, x):
        return w.clone(), F.linear(x, w.clone())

    compiled = dl.compile(fn, backend=backend)
    for _ in range(3):
        made = quantised(4, 3)
        w, x = Fresh(made.ints, made.scale, made.kind), tensor(2, 3)
        found, product = compiled(w, x)
        assert found.kind is not w.kind and found.kind.shift == 0
        torch.testing.assert_close(product, fn(w, x)[1])
        found.kind.shift = 5


class Told(Pair):
    """A wrapper that keeps the arguments of its operators."""

    seen: list[str] = []

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        cls.seen.append(f"{func}: {[type(each).__name__ for each in args]}")
        return super().__torch_dispatch__(func, types, args, kwargs)


def test_operators_receive_the_arguments_of_eager():
    def fn(x, f):
        return x * f, x.clamp(max=f), x**f, torch.add(x, x, alpha=f), x[int(f)]

    x, compiled = Told(tensor(3, 4).abs(), tensor(3, 4).abs()), dl.compile(fn, backend="eager")
    for factor in (0.5, 1.5, 1.25, 2.5):
        Told.seen.clear()
        wanted = fn(x, factor)
        expected = Told.seen[:]
        compiled(x, factor)
        Told.seen.clear()
        found = compiled(x, factor)
        assert Told.seen == expected
        assert all(torch.equal(one.a, other.a) for one, other in zip(wanted, found, strict=True))


class Asking(Pair):
    """A wrapper whose ``__tensor_flatten__`` reads its own metadata."""

    def __tensor_flatten__(self):
        return ["a", "b"], (len(self), self.dim(), self.ndim, self.nbytes, self.T is None, self.dtype)


def test_tensor_flatten_reads_the_wrappers_metadata():
    given = [(Asking(tensor(rows, 2), tensor(rows, 2)),) for rows in (3, 4, 5, 3)]
    check(lambda x: x + 1, *given[0], others=given[1:], graphs=None)
