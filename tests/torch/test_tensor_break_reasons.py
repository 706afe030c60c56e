"""Graph breaks at tensors, operators over functions and autograd: the reason's code, and the results of eager."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dynamo_lite as dl
from programs import check, leaf, tensor, without_breaks

AUTOCAST = torch.autocast("cpu", enabled=False)
SCALES = [2.0]


class Double(torch.autograd.Function):
    """A Function whose forward returns a list beside a tensor."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, [x * 3]

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * 2


def resized_argument(x):
    y = x * 2
    x.resize_(2, 2)
    return y


def strided_array(x):
    array = np.arange(4.0)
    return torch.from_numpy(array).as_strided((2,), (2,)) + x.sum()


def reentrant_checkpoint_of_a_view(x):
    return torch.utils.checkpoint.checkpoint(lambda x: x[0], x, use_reentrant=True) * 2


def pulled_back_with_an_option(x):
    output, pull = torch.func.vjp(torch.sin, x)
    return output + pull(x, retain_graph=False)[0]


def autocast_entered_by_hand(x):
    AUTOCAST.__enter__()
    y = x @ x
    AUTOCAST.__exit__(None, None, None)
    return y


def backward_in_the_function(x, weight):
    (x * weight).sum().backward()
    return weight.grad * 2


def data_from_a_row(x, weight):
    weight.data = (x * 2)[0]
    return weight + 1


def requires_grad_after_a_view(x):
    y = x[0]
    x.requires_grad_()
    return y + x.sum()


def hook_that_reads_a_list(x, weight):
    y = weight * x
    y.register_hook(lambda gradient: gradient * SCALES[0])
    return y.sum()


def function_that_returns_a_list(x, weight):
    y, _ = Double.apply(weight)
    return y * x


def gradient_of_an_argument(y, weight):
    return torch.autograd.grad(y.sum(), weight)[0] * 2


def name_of_an_autograd_node(x, weight):
    y = x * weight
    return y * len(type(y.grad_fn).__name__)


def parameter_of_a_conjugate(x):
    return torch.nn.Parameter(x.to(torch.complex64).conj()).real


def parameter_that_leaves(x):
    return torch.nn.Parameter(x * 2)


def weight_by_name(x, at):
    weights = {"w0": 2, "w1": 3}
    return x * weights[f"w{at}"]


def result_and_leaf():
    weight = leaf(3)
    return weight * 2, weight


def hook_with_the_grad_mode(x, weight):
    y = x * weight
    y.register_hook(lambda gradient: gradient * (2 if torch.is_grad_enabled() else 3))
    return y


def write_into_an_expanded_tensor(x):
    y = x.expand(2, 3)
    try:
        y += 1
    except RuntimeError:
        return x * 2
    return y


def sparse_result(x):
    return torch.sparse_coo_tensor(torch.tensor([[0, 1, 2]]), x, (3,)).to_dense() + x


def quotient_under_another_default(x):
    torch.set_default_dtype(torch.float64)
    y = x.argsort() / 2
    torch.set_default_dtype(torch.float32)
    return y


def default_device(x):
    torch.set_default_device("cpu")
    y = torch.ones(3) + x
    torch.set_default_device(None)
    return y


@pytest.mark.parametrize(
    "code, fn, make_args",
    [
        ("DL0266", default_device, lambda: (tensor(3),)),
        ("DL0266", quotient_under_another_default, lambda: (tensor(3),)),
        ("DL0302", lambda x: x * torch.equal(x, x + 1), lambda: (tensor(3),)),
        ("DL0302", lambda x: x * torch.allclose(x, x + 1), lambda: (tensor(3),)),
        ("DL0302", lambda x: x * torch.is_nonzero(x.sum()), lambda: (tensor(3),)),
        ("DL0466", sparse_result, lambda: (tensor(3),)),
        ("DL0410", resized_argument, lambda: (tensor(4),)),
        ("DL0411", strided_array, lambda: (tensor(3),)),
        ("DL0413", reentrant_checkpoint_of_a_view, lambda: (leaf(3, 2),)),
        ("DL0412", pulled_back_with_an_option, lambda: (tensor(3),)),
        ("DL0415", autocast_entered_by_hand, lambda: (tensor(3, 3),)),
        ("DL0419", write_into_an_expanded_tensor, lambda: (tensor(3),)),
        ("DL0716", hook_with_the_grad_mode, lambda: (tensor(3), leaf(3))),
        ("DL0710", backward_in_the_function, lambda: (tensor(3), leaf(3))),
        ("DL0711", data_from_a_row, lambda: (tensor(2, 3), leaf(3))),
        ("DL0712", requires_grad_after_a_view, lambda: (tensor(2, 3),)),
        ("DL0716", hook_that_reads_a_list, lambda: (tensor(3), leaf(3))),
        ("DL0714", function_that_returns_a_list, lambda: (tensor(3), leaf(3))),
        ("DL0715", gradient_of_an_argument, result_and_leaf),
        ("DL0770", name_of_an_autograd_node, lambda: (tensor(3), leaf(3))),
        ("DL0771", parameter_of_a_conjugate, lambda: (tensor(2, 3),)),
        ("DL0772", parameter_that_leaves, lambda: (tensor(2, 3),)),
        ("DL0302", weight_by_name, lambda: (tensor(3), torch.tensor(1))),
    ],
)
def test_reason(code, fn, make_args):
    expected = fn(*make_args())
    torch.testing.assert_close(dl.compile(fn, backend="eager")(*make_args()), expected, rtol=0, atol=0)
    dl.reset()
    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(*make_args())
    assert caught.value.reason.code == code, str(caught.value)


def test_reason_of_branches_that_differ():
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x[:1] + 1, (x,))

    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))
    assert caught.value.reason.code == "DL0412", str(caught.value)


@pytest.mark.parametrize("fn", [lambda x, i: x[i] + 1, lambda x, i: x[:, i] + 1, lambda x, i: (x * 2)[i, 0]])
def test_a_number_in_a_tensor_as_an_index(fn):
    others = [(tensor(4, 4), torch.tensor(3))]
    check(fn, tensor(3, 3), torch.tensor(1), graphs=None, others=others)
    assert [each.reason.code for each in dl.explain(fn)(tensor(3, 3), torch.tensor(1)).breaks] == ["DL0307"]
    check(without_breaks(fn), tensor(3, 3), torch.tensor(1), graphs=None, others=others)


def test_an_assignment_at_a_number_in_a_tensor():
    def fn(x, i):
        x[i] = 0
        return x + 1

    check(fn, tensor(3, 3), torch.tensor(1), graphs=1, breaks=1)
    assert "an assignment by a tensor of no dimension" in str(dl.counters.break_reasons)
