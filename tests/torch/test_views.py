"""Views and in-place operators on arguments, aliasing between arguments and results, strides, resizing."""

from __future__ import annotations

import warnings

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, compiled_by, ints, leaf, recompiling, tensor, with_gradients

FOUR, SIX = tensor(4), tensor(6)
VIEWS = {
    "view": lambda x: x.view(6, 2),
    "reshape": lambda x: x.reshape(2, 6),
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(0, 1),
    "index": lambda x: x[1],
    "slice": lambda x: x[:, ::2],
    "ellipsis": lambda x: x[..., -1],
    "none": lambda x: x[:, None],
    "squeeze": lambda x: x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "expand": lambda x: x[:, :1].expand(3, 2),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "unbind": lambda x: x.unbind(0)[2],
    "split": lambda x: x.split(2, 1)[1],
    "chunk": lambda x: torch.chunk(x, 2, 1)[0],
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), 1),
    "view_dtype": lambda x: x.view(torch.int32),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "real": lambda x: x.real,
    "to_same": lambda x: x.to(torch.float32),
    "contiguous": lambda x: x.contiguous(),
    "positive": lambda x: +x,
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_is_returned_beside_its_base_and_written_through(view):
    def fn(x):
        y = view(x)
        z = x + 1
        return y, z

    check(fn, tensor(3, 4), others=[(tensor(3, 4, seed=1),)])


@pytest.mark.parametrize("name", sorted(set(VIEWS) - {"expand", "unfold"}))
def test_writing_into_a_view_of_an_argument(name):
    view = VIEWS[name]

    def fn(x):
        y = view(x)
        y.mul_(2)
        return x.sum(), y

    check(fn, tensor(3, 4), others=[(tensor(3, 4, seed=1),)])


@pytest.mark.parametrize("name", sorted(set(VIEWS) - {"expand", "unfold", "detach", "data", "view_dtype"}))
def test_gradients_through_a_view_of_a_result_that_is_written(name):
    view = VIEWS[name]

    def fn(x):
        base = x * 1
        part = view(base)
        part *= 3
        return base

    split = name in ("chunk", "split", "unbind")  # autograd refuses to write into these
    check(with_gradients(fn), tensor(3, 4, grad=True), breaks=int(split))


@checked(tensor(2, 2), graphs=(1, 2), breaks=None)
def test_write_after_break_into_a_view_made_before(x):
    y = x.view(-1)
    print("between")
    y[0] = 5
    return x + 1, y


@checked(tensor(2), FOUR, FOUR[1:3], others=[(FOUR[2:], FOUR, tensor(2)), (SIX[:2], SIX[2:], tensor(2))])
def test_memory_that_is_shared_but_only_read(x, y, z):
    x.add_(y.sum() - z.sum())
    return y[0] * z


@checked([SIX[:3], SIX[1:4], SIX[3:]], graphs=(0, 3))
def test_overlapping_views_in_a_list(parts):
    for part in parts:
        part.add_(1)
    return parts[0] + parts[-1]


@checked(tensor(3, 4), graphs=(0, 2), breaks=None)
def test_result_is_the_argument_where_nothing_changes(x):
    return x.to(torch.float32), x.contiguous(), x.requires_grad_(False) is x, x.float(), x.expand(3, 4)


@checked(tensor(3, 4), others=[(tensor(4, 3).t(),), (tensor(3, 8)[:, ::2],)], all_graphs=3)
def test_contiguous_copies_only_where_it_must(x):
    y = x.contiguous()
    y.add_(1)
    return x, y


@checked(tensor(3, 4), others=[(tensor(4, 3).t(),), (tensor(3, 1).expand(3, 4),)], all_graphs=3)
def test_strides_change_between_calls(x):
    return x.is_contiguous(), x.stride(), x + 1, x.reshape(-1)


@checked(SIX[:3], others=[(SIX[2:5],), (SIX[:3],)], all_graphs=(1, 2))
def test_storage_offset_changes_between_calls(x):
    return x.storage_offset(), x * 2


@checked(SIX[1:4], others=[(SIX[2:5],)], all_graphs=(1, 2))
def test_as_strided_depends_on_the_offset(x):
    return x.as_strided((2,), (1,), 0) + x.as_strided((2,), (1,))


@checked(torch.zeros(4), graphs=(0, 1), breaks=None)
def test_argument_resized_inside(x):
    x.resize_(2, 2)
    return x.shape


@checked(tensor(3), graphs=2, breaks=1)
@compiled_by("aot_eager")
def test_view_is_resized(x):
    y = x + 1
    view = y.view(-1)
    view.resize_(12)
    return y + 1, view.shape


@checked(tensor(3), graphs=2, breaks=1)
@compiled_by("aot_eager")
def test_created_tensor_with_a_view_is_resized(x):
    y = x + 1
    view = y[1:]
    y.resize_as_(torch.ones(8))
    return y.shape, view + 1


@checked(tensor(3))
def test_created_tensor_without_views_is_resized(x):
    return torch.empty(0).resize_(3).copy_(x)


@checked(tensor(3), graphs=2, breaks=1)
@compiled_by("aot_eager")
def test_created_tensor_is_resized_with_a_compiler(x):
    y = x + 1
    return torch.empty(0).resize_(3).copy_(y)


@checked(tensor(2, 2), tensor(2, 2, seed=1), graphs=None)
@compiled_by("aot_eager")
def test_out_of_an_operator_is_a_view_that_it_resizes(x, y):
    flat = x.view(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.add(y, 1, out=flat)
    return flat, x


@checked(tensor(2, 2), graphs=None)
@compiled_by("aot_eager")
def test_out_of_an_operator_is_expanded(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.add(x, 1, out=x.expand(2, -1, -1))
    return x


@checked(tensor(2, 2))
@compiled_by("aot_eager")
def test_out_of_an_operator_is_resized(x):
    out = torch.empty(0)
    torch.add(x, 1, out=out)
    return out * 2


@pytest.mark.parametrize("views", [lambda x: x.chunk(2), lambda x: x.split(1), torch.unbind])
def test_several_views_of_a_written_argument(views):
    def fn(x):
        x.mul_(2)
        return views(x)[1]

    x = leaf(2, 2) * 1
    view = dl.compile(fn, backend="aot_eager")(x)
    assert view.requires_grad and torch.equal(view.flatten(), x[1])
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    with pytest.raises(dl.exc.Unsupported, match="DL0424"):
        dl.compile(fn, backend="aot_eager", fullgraph=True)(leaf(2, 2) * 1)


def _squared(view, other):
    view.mul_(view)


def _multiplied_then_written(view, other):
    view.mul_(other)
    other[0] = 0.5


def _rectified_then_filled(view, other):
    torch.relu_(view)
    view.fill_(3)
    view.add_(other)


@pytest.mark.parametrize("write", [_squared, _multiplied_then_written, _rectified_then_filled])
def test_what_an_operator_on_a_view_has_saved_is_overwritten(write):
    def results(fn):
        view, other = (leaf(8) * 1.5)[:4].view(2, 2), tensor(2, 2, seed=1)
        fn(view, other)
        return view, other

    for one, two in zip(results(write), results(dl.compile(write, backend="aot_eager"))):
        assert torch.equal(one, two) and one.requires_grad == two.requires_grad


def _view_of_a_leaf(x):
    return x.view(-1)


def _one_of_several_views(x):
    return x.split(1)[0]


@pytest.mark.parametrize("view", [_view_of_a_leaf, _one_of_several_views])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_write_that_autograd_does_not_know_of_into_a_view_of_a_leaf(backend, view):
    def fn(x):
        x.detach().add_(1)
        return 3

    eager, given = leaf(2, 2), leaf(2, 2)
    compiled = dl.compile(fn, backend=backend)
    assert fn(view(eager)) == compiled(view(given)) == compiled((given * 2).view(-1)) == 3
    assert torch.equal(eager, given)
    if backend != "eager":
        with pytest.raises(dl.exc.Unsupported, match="DL0423"):
            dl.compile(fn, backend=backend, fullgraph=True)(view(given))


@checked(tensor(2, 3), graphs=2, breaks=1)
@recompiling
def test_argument_transposed_in_place(x):
    y = x + 1
    x.t_()
    return y, x * 2, x.shape


@checked(tensor(2, 3))
def test_intermediate_transposed_squeezed_and_unsqueezed_in_place(x):
    y = x * 2
    y.t_()
    y.unsqueeze_(0).squeeze_()
    y.transpose_(0, 1).swapdims_(0, 1)
    return y, y.shape, y.stride()


@checked(tensor(3), torch.empty(3))
def test_out_argument(x, out):
    found = torch.add(x, 1, out=out)
    return found is out, found


@checked(tensor(2, 3), tensor(2, 3, seed=1))
def test_out_is_a_view_of_an_argument(x, y):
    torch.mul(x[0], 2, out=y[1])
    return y.sum()


@checked(tensor(3), graphs=(0, 1), breaks=None)
def test_out_that_is_resized(x):
    out = torch.empty(0)
    torch.exp(x, out=out)
    return out, out.shape


@checked(tensor(3), torch.empty(0), graphs=(0, 2), breaks=None)
@recompiling
def test_out_argument_that_is_resized(x, out):
    torch.exp(x, out=out)
    return out + 1


@checked(tensor(2, 3), torch.empty(2), torch.empty(2, dtype=torch.int64))
def test_out_of_several_results(x, values, indices):
    torch.max(x, 1, out=(values, indices))
    return torch.sort(x, out=(torch.empty(2, 3), torch.empty(2, 3, dtype=torch.int64)))


@checked(tensor(4))
def test_out_aliases_the_input(x):
    torch.add(x, 1, out=x)
    torch.cumsum(x, 0, out=x)
    return x * 2


@checked(tensor(4, 4), ints(4, 4) > 5, torch.tensor([0, 3]))
def test_setitem_with_all_kinds_of_keys(x, mask, index):
    x[0] = 1
    x[:, 1] = x[:, 2]
    x[1, 1:] += 3
    x[mask] = 0
    x[index] = -x[index]
    x[..., -1] = torch.arange(4.0)
    x[index, 0] *= 2
    x[None, 2] = 7
    return x.sum()


@checked(tensor(3))
def test_inplace_results_are_the_objects(x):
    y = x.add_(1)
    z = torch.relu_(y)
    w = z.copy_(torch.ones(3)).fill_(2).zero_()
    return x is y, y is z, w is x, w


@checked(ints(3), graphs=None, breaks=None)
def test_inplace_promotes_nothing(x):
    x += 1.5


@checked(tensor(1, 2), graphs=None, breaks=None)
def test_writing_into_an_expanded_tensor_is_refused(x):
    y = x.expand(3, 2)
    y.add_(1)
    return y


@checked(tensor(3, grad=True))
@with_gradients
def test_writing_into_a_leaf_that_needs_gradients(x):
    with torch.no_grad():
        x.add_(1)
        x[0] = 0
    return x * 2


@checked(tensor(3, 2, grad=True), graphs=None, breaks=None)
def test_writing_into_a_view_of_a_leaf_that_needs_gradients(x):
    x[0].mul_(2)
    return x


@checked(tensor(2, 2, grad=True), graphs=None, breaks=None)
def test_views_made_without_gradients_and_written_with(x):
    y = x * 1
    with torch.no_grad():
        v = y.view(-1)
    try:
        v.mul_(2)
    except RuntimeError:
        return y + 1
    return y


@checked(tensor(3), graphs=(1, 2), breaks=None)
def test_data_is_written_past_the_version_counter(x):
    version = x._version
    x.data.add_(1)
    x.data[0] = 3
    return x * 2, version


@checked(torch.nn.Parameter(tensor(3)), tensor(3, seed=1), graphs=(1, 3), breaks=None)
def test_data_of_a_parameter(p, g):
    p.data.add_(g, alpha=-0.1)
    p.data = p.data * 2
    return p.sum()


@checked(tensor(3), tensor(3, seed=1), graphs=(1, 3), breaks=None)
@compiled_by("aot_eager")
def test_view_keeps_its_memory_where_data_of_its_base_are_replaced(x, y):
    view = x[:]
    x.data = y * 2
    view.add_(1)
    return x + view, view


@checked(tensor(4), tensor(2), others=[(FOUR, FOUR[1:3])], graphs=(1, 2))
def test_data_written_where_arguments_share_memory(x, y):
    x.data.add_(1)
    return y * 2


@checked(tensor(4), tensor(2), others=[(FOUR, FOUR[1:3])])
def test_detached_written_where_arguments_share_memory(x, y):
    x.detach()[1:].add_(1)
    return y * 2


@checked(tensor(3), graphs=(0, 2), breaks=None)
def test_version_counter_is_read(x):
    before = x._version
    x.add_(1)
    return before, x._version


@checked(tensor(3, 1), graphs=(1, 2), breaks=None)
def test_identity_of_views(x):
    return x.view(3, 1) is x, x[:] is x, x.T is x.T, x._base is None, x[:] + 0


@checked(FOUR, FOUR, graphs=(1, 2), others=[(FOUR, tensor(4))])
def test_is_set_to_and_storage_sharing(x, y):
    z = x + 1
    return x.is_set_to(y), x.is_same_size(y), z


@checked(tensor(3), graphs=(0, 9), breaks=None)
@recompiling
def test_data_pointers(x):
    y = x.view(-1)
    return x.data_ptr() == y.data_ptr(), (x + 1).data_ptr() == x.data_ptr(), x + 1


@checked(tensor(3, 4))
def test_nested_views_written_at_every_level(x):
    a = x[1:]
    b = a.t()
    c = b[0]
    c += 1
    a *= 2
    x -= 1
    b.zero_()
    return c, b, a


@checked(tensor(2, 2), graphs=(0, 2), breaks=None)
def test_a_view_outlives_a_write_to_its_base_after_a_break(x):
    a = (x + 1).view(-1)
    base = a._base is not None
    print(base)
    a.add_(1)
    return a


@checked(tensor(5), others=[(tensor(3),)])
def test_chain_of_writes_with_a_branch_on_the_shape(x):
    for i in range(x.shape[0]):
        x[i] = x[i - 1] * 2 if i % 2 else x[i]
    return x


@checked(tensor(4, 4), ints(4, 4) > 4, ints(4, 4, high=4))
def test_masked_and_scattered_writes(x, m, i):
    x.masked_fill_(m, 0).masked_scatter_(m, torch.ones(16))
    x.scatter_(1, i, 2.0).scatter_add_(1, i, torch.ones(4, 4))
    x.index_add_(0, torch.tensor([0, 1]), torch.ones(2, 4))
    x.index_copy_(1, torch.tensor([2]), torch.zeros(4, 1))
    x.index_fill_(0, torch.tensor([3]), 9)
    x.put_(torch.tensor([0]), torch.tensor([4.0]))
    return x.take(torch.tensor([0, 5])), x.index_put_((torch.tensor([1]),), torch.tensor(8.0))


@checked([tensor(2), tensor(3)], [tensor(2, seed=1), tensor(3, seed=1)])
def test_foreach_writes_lists_of_tensors(xs, ys):
    torch._foreach_add_(xs, ys, alpha=2)
    torch._foreach_mul_(xs, 3.0)
    return torch._foreach_norm(xs)


def of_the_argument(x):
    with torch.no_grad():
        y = x.unsqueeze(0)[0]
    return y


def of_a_result(x):
    y = x * 2
    with torch.no_grad():
        z = y.view(1, -1)[0]
    return z, y


def asked_inside(x):
    with torch.no_grad():
        y = x.view(1, -1)[0]
    return y.is_leaf, y.requires_grad, y._is_view(), (y * 2).requires_grad


def asked(value):
    if isinstance(value, tuple):
        return [asked(each) for each in value]
    if not isinstance(value, torch.Tensor):
        return value
    value.sum().backward(retain_graph=True)
    base = None if value._base is None else value._base.shape
    return value.is_leaf, value.requires_grad, base, None if value.grad is None else value.grad.tolist()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [of_the_argument, of_a_result, asked_inside])
def test_view_of_a_leaf_without_gradients(fn, backend):
    """The view is a leaf that requires gradients."""
    compiled = dl.compile(fn, backend=backend)
    for call in range(2):
        x, y = leaf(3), leaf(3)
        assert asked(compiled(x)) == asked(fn(y)), call
        assert (x.grad is None) == (y.grad is None)
