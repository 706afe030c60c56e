"""Exported programs with symbolic sizes and integers."""

from __future__ import annotations

import copy
import functools
import pickle

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import ints, tensor


def check_dynamic(fn, *args, others, exact=True):
    """Exports with the first arguments. Compares the graph with eager on each of the others."""
    gm, guards = dl.export(fn, *args, dynamic=True)
    aten, _ = dl.export(fn, *args, dynamic=True, aten_graph=True)
    for each in (gm, aten, pickle.loads(pickle.dumps(gm))):
        for given in (args, *others):
            expected, found = fn(*copy.deepcopy(given)), each(*copy.deepcopy(given))
            tolerances = {"rtol": 0, "atol": 0} if exact else {}
            torch.testing.assert_close(found, expected, **tolerances)
    return gm, guards


def test_batches_of_any_size():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    gm, guards = check_dynamic(net, tensor(3, 4), others=[(tensor(8, 4),), (tensor(2, 4),)], exact=False)
    assert "input.size(1) == 4" in guards
    with pytest.raises(dl.exc.InvalidInput, match=r"don't satisfy input.size\(1\) == 4"):
        gm(tensor(3, 5))
    for size in (0, 1):
        with pytest.raises(dl.exc.InvalidInput, match=r"don't satisfy input.size\(0\) >= 2"):
            gm(tensor(size, 4))


def test_sizes_that_must_agree():
    def fn(x, y):
        return x * 2 + y

    gm, _ = check_dynamic(fn, tensor(3, 4), tensor(3, 4), others=[(tensor(5, 6), tensor(5, 6))])
    with pytest.raises(dl.exc.InvalidInput, match=r"x.size\(0\) == y.size\(0\)"):
        gm(tensor(3, 4), tensor(2, 4))
    with pytest.raises(dl.exc.InvalidInput, match=r"x was .* of shape \(any, any\) .* of shape \(3, 4, 2\)"):
        gm(tensor(3, 4, 2), tensor(3, 4))


def test_sizes_and_integers_in_results():
    def fn(x, n):
        return x.shape[0] * 2 + n, x.sum(0) * n, x.shape, x.view(-1), [x.size(1), n]

    gm, _ = check_dynamic(fn, tensor(3, 4), 5, others=[(tensor(6, 2), 7)])
    assert type(gm(tensor(6, 2), 7)[2]) is torch.Size


def test_branches_on_sizes():
    def fn(x):
        return x * 2 if x.size(0) > 4 else x - 1

    gm, _ = check_dynamic(fn, tensor(3, 4), others=[(tensor(2, 4),), (tensor(4, 7),)])
    with pytest.raises(dl.exc.InvalidInput, match=r"don't satisfy .*x.size\(0\)"):
        gm(tensor(5, 4))


def test_containers_views_and_ranges():
    def fn(xs, more):
        x = torch.cat(xs)
        halves = x.view(x.shape[0] // 2, 2, -1)
        return halves, x[torch.arange(x.shape[0] - 1)], x + more["y"][: x.shape[0]]

    def given(size, width):
        return [tensor(size, width), tensor(size, width, seed=1)], {"y": tensor(2 * size + 3, width)}

    check_dynamic(fn, *given(3, 4), others=[given(5, 6), given(2, 3)])


def test_strides_are_checked():
    gm, _ = dl.export(lambda x: x.view(-1), tensor(3, 4), dynamic=True)
    with pytest.raises(dl.exc.InvalidInput, match=r"x.stride\(0\) == x.size\(1\)"):
        gm(tensor(4, 6)[:, :3])


def test_a_language_model():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    module = transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes)).eval()
    fn = functools.partial(module, return_dict=False)
    with torch.no_grad():
        others = [(ints(rows, length, high=50),) for rows, length in ((3, 9), (5, 17))]
        check_dynamic(fn, ints(2, 8, high=50), others=others, exact=False)


def test_marks_of_dimensions():
    x = tensor(3, 4)
    dl.mark_dynamic(x, 0)
    with pytest.raises(dl.exc.ConstraintViolation):
        dl.export(lambda x: x.view(3, 2, 2), x, dynamic=True)
    dl.mark_static(x, 1)
    gm, _ = dl.export(lambda x: x * 2, x, dynamic=True)
    with pytest.raises(dl.exc.InvalidInput, match=r"of shape \(any, 4\)"):
        gm(tensor(3, 5))


def test_ranges_and_places_of_marks():
    x, y = tensor(3, 4), tensor(3, 4)
    dl.mark_dynamic(x, 0, min=2, max=9)
    dl.mark_dynamic(y, 0)
    gm, guards = dl.export(lambda x, y: x + y, x, y)
    assert "y.size(0) <= 9" in guards and torch.equal(gm(tensor(9, 4), tensor(9, 4)), tensor(9, 4) * 2)
    with pytest.raises(dl.exc.InvalidInput, match=r"size\(0\) <= 9"):
        gm(tensor(10, 4), tensor(10, 4))
    with pytest.raises(dl.exc.ConstraintViolation, match="must be 3") as raised:
        dl.export(lambda x: x.view(3, 2, 2), x)
    assert [frame.filename for frame in raised.value.user_stack] == [__file__]


BIAS = tensor(4)


def test_tensors_that_are_no_arguments_keep_their_shapes():
    def fn(x, scale=tensor(4, seed=1)):  # noqa: B008 - the same in each call
        return x * scale + BIAS

    check_dynamic(fn, tensor(3, 4), others=[(tensor(5, 4),)])


def test_torch_export_takes_it():
    gm, _ = dl.export(nn.Linear(4, 2), tensor(3, 4), dynamic=True)
    program = torch.export.export(gm, (tensor(3, 4),), dynamic_shapes=({0: torch.export.Dim("rows")},))
    for rows in (2, 7):
        torch.testing.assert_close(program.module()(tensor(rows, 4)), gm(tensor(rows, 4)))
