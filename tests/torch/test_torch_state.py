"""Programs about torch's classes, state and tracers."""

from __future__ import annotations

import operator
import typing

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import Recorder, check, checked, tensor, with_gradients

# -- what a backend makes of a graph -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.ones(3, requires_grad=True),
        lambda x: torch.zeros_like(x, requires_grad=True),
        lambda x: torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
        lambda x: x.new_full((3,), 2.0, requires_grad=True),
    ],
    ids=["ones", "zeros_like", "tensor", "new_full"],
)
@pytest.mark.parametrize("with_gradient", [False, True])
def test_leaves_created_by_factories_receive_gradients(make, with_gradient):
    def fn(x, make):
        leaf = make(x)
        return leaf, leaf * 2 + x

    x = tensor(3, grad=with_gradient)
    compiled = dl.compile(fn, backend="aot_eager")
    for _ in range(2):
        leaf, out = compiled(x, make)
        out.sum().backward()
        assert leaf.is_leaf and torch.equal(leaf.grad, torch.full((3,), 2.0))


@checked(tensor(3, grad=True), operators=2)
@with_gradients
def test_a_leaf_that_stays_inside_does_not_break(x):
    return x * torch.ones(3, requires_grad=True)


def _assigned(x, mask, y):
    x = x.clone()
    x[mask] = y
    return x


def _put(x, mask, y):
    return x.index_put((mask,), y)


@pytest.mark.parametrize("fn", [_assigned, _put])
@pytest.mark.parametrize("takes_gradient", [False, True])
def test_values_written_by_a_mask_receive_gradients(fn, takes_gradient):
    x, y = tensor(4, grad=True), tensor(2, seed=1, grad=takes_gradient)
    mask = torch.tensor([True, False, True, False])
    compiled, before = dl.compile(fn, backend="aot_eager"), dl.counters.graph_breaks
    for _ in range(2):
        given = [x, y] if takes_gradient else [x]
        found = torch.autograd.grad(compiled(x, mask, y).sin().sum(), given)
        expected = torch.autograd.grad(fn(x, mask, y).sin().sum(), given)
        assert all(map(torch.equal, found, expected))
    assert dl.counters.graph_breaks - before == int(takes_gradient)
    check(with_gradients(fn), tensor(4, grad=True), mask, tensor(2, grad=takes_gradient), graphs=1)


def test_a_backend_that_fails_on_the_gradient_of_what_a_mask_writes():
    def derives(gm, inputs):
        if any(node.target is operator.setitem for node in gm.graph.nodes):
            raise RuntimeError("aten.nonzero.default")
        return gm.forward

    x, y = tensor(4, grad=True), tensor(2, seed=1, grad=True)
    mask = torch.tensor([True, False, True, False])
    before = dl.counters.graph_breaks
    assert torch.equal(dl.compile(_assigned, backend=derives)(x, mask, y), _assigned(x, mask, y))
    assert dl.counters.graph_breaks - before == 1


@checked(tensor(3))
def test_python_types_are_types_of_data(x):
    made = torch.zeros(2, dtype=int), torch.ones(2, dtype=float), torch.full((2,), 1, dtype=complex)
    return made, (x * 5).to(bool).to(float).to(int) + 8, x.new_zeros(2, dtype=bool), x.sum(dtype=float)


@pytest.mark.on_cpu
@checked(tensor(3))
def test_old_tensor_types_are_types_of_data(x):
    half = x.type(torch.HalfTensor)
    return half, x.type(half.type()), x.type(torch.LongTensor).type(torch.float64)


# -- what is asked ----------------------------------------------------------------------------------------------------


def test_isinstance_by_hooks_of_torchs_metaclasses():
    storages = torch.FloatStorage(3), torch.LongStorage(3)
    marked = torch.ones(3)
    marked._is_param = True

    def fn(x, marked):
        kinds = [isinstance(each, torch.FloatStorage) for each in storages]
        return x + 1, kinds, isinstance(marked, nn.Parameter), isinstance(x, nn.Parameter), isinstance(x, nn.Buffer)

    check(fn, tensor(3), marked, graphs=(1, 2), breaks=None)
    check(lambda x: x + isinstance(x, nn.Parameter), marked, others=[(tensor(3),)], all_graphs=2)


def test_profiler_state_is_checked_at_every_call():
    def fn(x):
        return x + 1 if torch.autograd._profiler_enabled() else x - 1

    x = tensor(3)
    compiled = dl.compile(fn, backend="eager")
    assert torch.equal(compiled(x), x - 1)
    with torch.autograd.profiler.profile():
        assert torch.equal(compiled(x), x + 1)
    assert torch.equal(compiled(x), x - 1)


class Wrapped(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_subclass_of_tensor_gets_a_method_of_its_own_later():
    x = torch.ones(3).as_subclass(Wrapped)
    compiled = dl.compile(lambda x: x.sigmoid(), backend="eager")
    assert torch.equal(compiled(x), torch.ones(3).sigmoid())
    Wrapped.sigmoid = lambda self: 7
    try:
        assert compiled(x) == 7
    finally:
        del Wrapped.sigmoid
    assert torch.equal(compiled(x), torch.ones(3).sigmoid())


class Odd(torch.Tensor):
    """Has its own special methods, which Python calls before torch consults the class."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})

    def __add__(self, other):
        return "add", other

    def __radd__(self, other):
        return "radd", other

    def __iadd__(self, other):
        return "iadd", other

    def __lt__(self, other):
        return "lt", other

    def __neg__(self):
        return "neg"

    def __getitem__(self, key):
        return "item", key

    def __len__(self):
        return 17

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(["one", "other"])

    def __contains__(self, item):
        return item == "this"

    def exp(self):
        return "exp"


def test_special_methods_of_a_subclass_of_tensor():
    def fn(x, plain):
        y = x
        y += 1
        asked = [x + 1, 2 + x, y, x < 3, x > 3, -x, x[1, 2], len(x), not x, list(x), "this" in x, "that" in x, x.exp()]
        with torch._C.DisableTorchFunctionSubclass():
            asked += [x + 1, -x, x.exp(), x * 2]
        return asked, x * 2, plain + 1

    x, plain = tensor(3).as_subclass(Odd), tensor(3)
    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        expected, found = fn(x, plain), compiled(x, plain)
        assert torch.equal(torch.Tensor.as_subclass(found[0].pop(), torch.Tensor), plain * 2)
        expected[0].pop()
        assert found[0][4].tolist() == expected[0].pop(4).tolist() and found[0].pop(4) is not None
        assert found[0] == expected[0] and type(found[1]) is Odd
        assert found[1].tolist() == expected[1].tolist() and torch.equal(found[2], expected[2])


class Asking(torch.Tensor):
    """A tensor that selects results by comparing the function with torch's."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func == torch.Tensor.ndim.__get__:
            return 10
        if func in (torch.Tensor.shape.__get__, torch.Tensor.dtype.__get__):
            return "shape or type"
        if func != torch.Tensor.device.__get__ and func in ANSWERS:
            return ANSWERS[func]
        return super().__torch_function__(func, types, args, kwargs or {})


ANSWERS = {torch.Tensor.is_leaf.__get__: "leaf", torch.Tensor.neg: "negated"}


def test_torch_compares_functions_by_identity():
    def fn(w):
        return w.ndim + torch.ones(2), w.shape, w.dtype, w.device, w.is_leaf, w.neg()

    w = torch.ones(2).as_subclass(Asking)
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        expected, found = fn(w), compiled(w)
        assert torch.equal(expected[0], found[0]) and torch.equal(found[0], torch.full((2,), 11.0))
        assert expected[1:] == found[1:]


def test_torch_jit_traces_what_is_compiled_as_it_is():
    compiled = dl.compile(lambda x: (x + 1).relu(), backend="eager")
    traced = torch.jit.trace(compiled, tensor(3))
    x = tensor(5)
    assert torch.equal(traced(x), (x + 1).relu())
    assert torch.equal(compiled(x), (x + 1).relu())
    traced = torch.jit.trace(compiled, x)  # there is an entry for it now
    assert torch.equal(traced(tensor(7)), (tensor(7) + 1).relu())


def test_sizes_are_added_to_tuples():
    class Pair(typing.NamedTuple):
        a: int
        b: int

    def fn(x, pair):
        size = x.shape
        longer = (3,)
        longer += size
        found = [(1,) + size, size + (1,), size + size, () + size, longer, pair + size, size + pair, size[:1] + (4, 5)]
        return x + 1, found, [type(each) for each in found]

    check(fn, tensor(2, 3), Pair(1, 2), others=[(tensor(4, 3), Pair(1, 2))])


@pytest.mark.parametrize("item", ["a", 1.5])
def test_sizes_plus_a_tuple_of_other_items(item):
    check(lambda x: (x + 1).shape + (item,), tensor(2), graphs=None)
    check(lambda x: (item,) + (x + 1).shape, tensor(2), graphs=None)


@checked(tensor(4), graphs=None)
def test_views_whose_metadata_torch_refuses(x):
    y = x.clone().requires_grad_()
    with torch.no_grad():
        view = y[:2]
        view.mul_(3)
    return y.detach(), view.requires_grad, view.is_leaf


def test_view_with_refused_metadata_as_an_argument():
    y = tensor(4, grad=True).clone()
    with torch.no_grad():
        view = y[:2]
        view.mul_(3)

    def fn(x, view):
        y = x + 1
        try:
            return y, view * 2
        except RuntimeError as error:
            return y, str(error)

    compiled = dl.compile(fn, backend="eager")
    for one, other in zip(fn(tensor(2), view), compiled(tensor(2), view), strict=True):
        assert one == other if isinstance(one, str) else torch.equal(one, other)


# -- a list extended by itself ----------------------------------------------------------------------------------------


class Items(list):
    def twice(self):
        self.extend(self)
        return self


@checked(tensor(3), Items([tensor(3), tensor(3, seed=1)]))
def test_a_list_of_the_programs_class_extended_by_itself(x, items):
    items.twice()
    made = Items([x])
    made.twice().twice()
    made += made
    return len(items), len(made), sum(items), made[-1] + 1


def test_a_gradient_of_another_shape():
    def fn(net, x):
        return net(x).detach(), net.weight.shape, net.weight.grad is None

    def replaced():
        net = nn.Linear(4, 4, bias=False)
        net.weight.grad = torch.ones(4, 4)
        net.weight.data = torch.ones(2, 4)
        return net

    net, x = replaced(), tensor(4)
    assert torch.equal(dl.compile(fn, backend="eager")(net, x)[0], fn(net, x)[0])


# -- torch.distributed -------------------------------------------------------------------------------------------------


def test_process_group_state_is_guarded():
    def fn(x):
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return x * torch.distributed.get_world_size() + torch.distributed.get_rank() + 10
        return x - 1

    x = tensor(3)
    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    assert torch.equal(compiled(x), x - 1)
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    try:
        assert torch.equal(compiled(x), x + 10)
    finally:
        torch.distributed.destroy_process_group()
    before = len(recorder.graphs)
    assert torch.equal(compiled(x), x - 1)
    assert len(recorder.graphs) == before
