"""Functions of torch: results, queries of the program's state, and those that only Python can run."""

from __future__ import annotations

import importlib
import sys
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import built, check, checked, ints, tensor, with_gradients


@checked(tensor(3, 3), operators=9)
def test_functions_with_several_results(x):
    values, indices = torch.max(x, dim=1)
    a, b, c = torch.split(x, 1, dim=0)
    u, s, v = torch.linalg.svd(x)
    std, mean = torch.std_mean(x)
    return values, indices, a + b + c, s, std, mean, torch.unbind(x)[1], torch.where(x > 0, x, 0)


@checked(tensor(2), graphs=1, operators=1)
def test_questions_about_types_and_tensors(x):
    facts = (
        torch.is_tensor(x),
        torch.is_floating_point(x),
        torch.is_complex(x),
        torch.numel(x),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_storage(x),
        torch.overrides.is_tensor_like(x),
        torch.can_cast(torch.int64, torch.float32),
        torch.result_type(x, 1),
        torch.jit.is_scripting(),
        torch.jit.is_tracing(),
        torch.cuda.is_available() in (True, False),
    )
    return x + 1, facts


def test_dl_disable():
    @dl.disable
    def inner(x):
        return x * 2

    check(lambda x: inner(x + 1) - 3, tensor(2), graphs=2, breaks=1, operators=2)


@checked(tensor(5), graphs=None, others=[(tensor(5, seed=3),)])
def test_data_dependent_shapes(x):
    y = x + 1
    z = y.nonzero()
    w = y[y > 0]
    return z.shape[0] + y, w, torch.unique(w).numel()


@checked(tensor(3, 4), graphs=(1, 2))
def test_functional_zoo(x):
    a = F.gelu(x) + F.silu(x) + F.softmax(x, dim=-1) + F.log_softmax(x, -1) + F.elu(x) + F.leaky_relu(x, 0.1)
    b = F.layer_norm(x, (4,)) + F.normalize(x, dim=-1) + F.hardtanh(x)
    c = F.pad(x, (1, 1)), F.one_hot(torch.tensor([1, 0]), 3), F.interpolate(x[None, None], scale_factor=2.0)
    return a, b, c, F.max_pool1d(x, 2), F.avg_pool1d(x, 2), F.dropout(x, 0.0), F.dropout(x, 0.5, training=False)


def test_pytree_utilities():
    from torch.utils import _pytree as pytree

    def fn(x):
        leaves, spec = pytree.tree_flatten({"a": [x, 1], "b": (x * 2,)})
        return pytree.tree_map(lambda v: v * 3, pytree.tree_unflatten(leaves, spec))

    check(fn, tensor(2), graphs=(0, 4))


def test_scripted_function_is_called():
    scripted = torch.jit.trace(lambda x: x * 2, (torch.ones(2),), check_trace=False)

    def fn(x):
        y = x + 1
        return scripted(y) - 1

    check(fn, tensor(2), graphs=None)


@checked(tensor(3), operators=3)
def test_names_of_torchs_operators_that_a_module_computes(x):
    return torch._VF.threshold(x, 0.5, 3.0) + torch._C._VariableFunctions.relu(x)


def test_c_functions_under_names_that_torch_has_for_others():
    def fn(x):
        return torch._VF.cdist(x, x, 2.0, None), torch._VF.norm(x, 2.0), torch._VF.einsum("ij,kj->ik", [x, x])

    recorder = check(fn, tensor(3, 2), operators=3)
    assert "functional" not in recorder.graphs[0].code


def test_function_of_torch_that_calls_back():
    def distance(a, b):
        return (a - b).abs().sum(-1)

    def fn(a, b, c):
        return torch.nn.functional.triplet_margin_with_distance_loss(a, b, c, distance_function=distance)

    check(fn, tensor(3, 2), tensor(3, 2, seed=1), tensor(3, 2, seed=2), graphs=1, operators=(6, 14))


@checked(tensor(3), graphs=1, breaks=(0, 1), operators=2)
@built
def test_names_that_a_module_computes():
    module = types.ModuleType("computed")
    module.one = 1
    module.__getattr__ = lambda name: len(name)

    def fn(x):
        return x * module.four + module.one, module.__class__.__name__, module.__name__

    return fn


@checked(tensor(2), 3, others=[(tensor(2), 4), (tensor(2), 5)], all_graphs=2)
@checked(tensor(2), 3.0, others=[(tensor(2), 4.0), (tensor(2), 5.0)], all_graphs=2)
def test_as_tensor(x, scale):
    same = torch.as_tensor(x) is x
    return same, torch.as_tensor(scale) * x, torch.as_tensor([1, 2.0]), torch.as_tensor(x, dtype=torch.float64)


@checked(np.ones(3), graphs=None)
def test_as_tensor_shares_memory_with_an_array(array):
    made = torch.as_tensor(array)
    made += 1
    return made


@checked(torch.ones(3), others=[(-torch.ones(3),)], operators=7)
def test_assertion_about_data(x):
    torch._assert_async((x > -9).all(), "below")
    try:
        torch._assert_async((x > 0).all(), "not positive")
    except RuntimeError as error:
        return str(error)
    return x + 1


@pytest.mark.fails_on_data
def test_assertion_about_data_that_nobody_handles():
    def fn(x):
        torch._assert_async((x > 0).all(), "not positive")
        return x + 1

    recorder = check(fn, torch.ones(3), operators=4)
    with pytest.raises(RuntimeError, match="not positive"):
        dl.compile(fn, backend=recorder)(-torch.ones(3))


def test_parts_of_a_dual_tensor():
    def fn(x):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, x + 1)
            return torch.autograd.forward_ad.unpack_dual(dual * 2).tangent

    check(fn, tensor(3), graphs=None)

    def twice_or_thrice(x):
        return x * 2 if torch.autograd.forward_ad.unpack_dual(x).tangent is None else x * 3

    check(lambda x: torch.func.jvp(twice_or_thrice, (x,), (x,)), tensor(3), graphs=None)


@pytest.mark.parametrize("parts", [torch.autograd.forward_ad.unpack_dual, lambda x: torch._unpack_dual(x, 0)])
def test_parts_of_a_dual_tensor_that_was_found(parts):
    compiled = dl.compile(lambda x: parts(x)[1] * 2, backend="eager")
    with torch.autograd.forward_ad.dual_level():
        found = compiled(torch.autograd.forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0)))
    assert torch.equal(found, torch.full((2,), 6.0))


def test_whether_a_transform_is_active():
    def twice_or_thrice(x):
        return x * 3 if torch._C._are_functorch_transforms_active() else x * 2

    check(twice_or_thrice, tensor(3), operators=1)
    check(lambda x: torch.func.vmap(twice_or_thrice)(x), tensor(3), graphs=None)


class Computing(types.ModuleType):
    """A module whose class computes attributes."""

    @property
    def doubled(self):
        return self.number * 2

    def times(self, x):
        return x * self.doubled

    def __getattr__(self, name):
        if name == "lazy":
            return self.number + self.__getattribute__("number")
        raise AttributeError(name)


def test_names_that_the_class_of_a_module_computes(monkeypatch):
    module = Computing("computing")
    module.number = 3
    monkeypatch.setitem(sys.modules, "computing", module)

    def fn(x):
        from computing import doubled, lazy, number

        return module.times(x) + doubled, lazy, number

    check(fn, tensor(3), operators=2)


def test_name_that_a_module_lacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "computing", Computing("computing"))

    def fn(x):
        try:
            from computing import missing
        except ImportError as error:
            return x + 1, str(error)
        return x, missing

    check(fn, tensor(3), graphs=None)


@checked(tensor(3), operators=2)
def test_questions_about_backends(x):
    return x * torch.backends.mkldnn.is_available() + torch.backends.cudnn.is_available()


def test_questions_about_how_backends_are_set():
    def fn(x):
        return x * torch.backends.mkldnn.enabled + torch.backends.cudnn.benchmark

    recorder = check(fn, tensor(3), operators=2)
    compiled = dl.compile(fn, backend=recorder)
    with torch.backends.mkldnn.flags(enabled=False):
        assert torch.equal(compiled(tensor(3)), torch.zeros(3))
    assert torch.equal(compiled(tensor(3)), tensor(3))


@torch.jit.script_if_tracing
def scripted_if_tracing(x, n: int):
    return x * n


@checked(tensor(3), operators=2)
def test_what_scripting_leaves_alone_in_eager(x):
    made = torch.jit.annotate(torch.Tensor, scripted_if_tracing(x, 2))
    return made + 1, torch.jit.isinstance([made], list[torch.Tensor])


@checked(tensor(3), operators=1)
def test_module_that_is_loaded_under_its_name(x):
    return x * importlib.import_module("math").sqrt(4.0), importlib.import_module("collections.abc").Sized


@pytest.mark.on_cpu  # its kernel on a GPU adds in no fixed order
@pytest.mark.parametrize("center", [True, False])
def test_the_inverse_of_stft_checks_its_window(center):
    def fn(x, window):
        found = torch.stft(x, 8, 2, window=window, return_complex=True)
        return torch.istft(found, 8, 2, window=window, center=center) * 2

    check(with_gradients(fn), tensor(64, grad=True), torch.hann_window(8) + int(not center))
    zeros = torch.zeros(8)
    with pytest.raises(RuntimeError, match="window overlap add min: 1") as expected:
        fn(tensor(64), zeros)
    with pytest.raises(RuntimeError, match="window overlap add min: 1") as found:
        dl.compile(fn, backend="eager")(tensor(64), zeros)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("name", ["set_", "set_data", "shallow_copy_data_"])
def test_operator_that_replaces_the_data_of_a_tensor(name):
    operator = getattr(torch.ops.aten, name, None)
    if operator is None:
        pytest.skip("torch 2.15 added it")

    def fn(x):
        y, z = x * 1, x + 1
        operator(y, z)
        operator(x, y + 1)
        return y * 3, z, x * 2

    check(fn, tensor(2))


def dataset(rows):
    data = torch.utils.data
    return data.ConcatDataset([data.TensorDataset(tensor(rows, 3), ints(rows)), data.TensorDataset(*[ints(2, 3)] * 2)])


@checked(tensor(3), dataset(4), graphs=1, others=[(tensor(3), dataset(5))])
def test_datasets_of_tensors_are_read_in_the_graph(x, rows):
    subset = torch.utils.data.Subset(rows, [0, len(rows) - 1])
    return sum(x * one.sum() for one, _ in (rows[1], subset[1])) / len(subset), len(rows)
