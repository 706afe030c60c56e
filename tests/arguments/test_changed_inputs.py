"""Calls with other inputs than those before: another device, type, layout or sharing of memory. Each is one sound
recompile or eager's own error, and what was compiled before stays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo_lite as dl
from equality import Pairing
from outcomes import outcome
from programs import Recorder, checked, ints, tensor

BACKENDS = ["eager", "aot_eager"]
DEVICES = ["meta", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]


def graphs_of(fn: Callable[..., Any], backend: Any, *calls: tuple[Any, ...]) -> list[int]:
    """Returns how many graphs each call compiles. Results, strides, errors and mutations must be eager's."""
    compiled = dl.compile(fn, backend=backend)
    found = []
    for args in calls:
        before = dl.counters.graphs
        ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
        expected = outcome(fn, *theirs)
        result = outcome(compiled, *ours)
        Pairing(exact=backend != "inductor").compare((expected, theirs), (result, ours), f"call {len(found)}")
        found.append(dl.counters.graphs - before)
    return found


def pointwise(x):
    return torch.relu(x * 2) + 1, x.sum(-1)


def turned(x: torch.Tensor) -> torch.Tensor:
    """Returns a tensor of the same shape with another order in memory."""
    return x.t().contiguous().t()


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])  # whose kernels depend on strides
def test_non_contiguous_where_contiguous_was_compiled(backend):
    x = tensor(4, 6)
    columns = tensor(4, 12)[:, ::2]
    assert (
        graphs_of(pointwise, backend, (x,), (turned(x),), (columns,), (x,), (turned(x),), (columns,))
        == [1] * 3 + [0] * 3
    )


def test_another_storage_offset_keeps_the_entry():
    rows = tensor(5, 6)
    assert graphs_of(pointwise, "eager", (tensor(4, 6),), (rows[1:],), (rows[:4],)) == [1, 0, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_that_share_memory(backend):
    expanded = tensor(1, 6).expand(4, 6)
    overlapping = torch.as_strided(tensor(20), (4, 6), (1, 2))
    assert graphs_of(pointwise, backend, (tensor(4, 6),), (expanded,), (overlapping,), (expanded,)) == [1, 1, 1, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_mutating_elements_that_share_memory_raises_eagers_error(backend):
    def fn(x):
        x.add_(1)
        return x * 2

    x = tensor(4, 6)
    found = graphs_of(fn, backend, (x,), (tensor(1, 6).expand(4, 6),), (x,))
    assert found[0] == 1 and found[2] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_share_memory_in_a_later_call(backend):
    def fn(x, y):
        x.add_(1)
        return x + y

    both = tensor(8)
    apart, together = (both[:5].clone(), tensor(5, seed=1)), (both[:5], both[3:])
    assert graphs_of(fn, backend, apart, together, apart, together)[0::2] == [1, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_channels_last_in_turns(backend):
    conv = torch.nn.Conv2d(3, 4, 3)
    x = tensor(2, 3, 8, 8)
    last = x.to(memory_format=torch.channels_last)
    compiled = dl.compile(conv, backend=backend)
    for given, graphs in ((x, 1), (last, 1), (x, 0), (last, 0)):
        before = dl.counters.graphs
        found, expected = compiled(given), conv(given)
        assert found.stride() == expected.stride() and dl.counters.graphs - before == graphs
        torch.testing.assert_close(found, expected)


def test_changed_argument_types_recompile():
    x = tensor(4, 6)
    calls = [(x,), (x.double(),), (x.bfloat16(),), (ints(4, 6),), (x.to(torch.complex64),), (x,), (x.double(),)]
    graphs = graphs_of(lambda x: x * 2 + x.sum(), "aot_eager", *calls)
    assert graphs == [1, 1, 1, 1, 1, 0, 0]


@pytest.mark.on_cpu
def test_arguments_other_than_dense_tensors_recompile():
    x = tensor(4, 6)
    calls = [(x,), (x.to_sparse(),), (2.5,), (None,), ("text",), (x.numpy(),), (x,)]
    assert graphs_of(lambda x: (x * 2,), "aot_eager", *calls)[::6] == [1, 0]


# -- devices -----------------------------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("scale", torch.full((3,), 2.0))
        self.shift = torch.ones(3)

    def forward(self, x):
        return self.norm(self.linear(x)) * self.scale + self.shift.to(x.device)


def move(net: torch.nn.Module, device: str) -> torch.nn.Module:
    there = "meta" in (device, next(net.parameters()).device.type)
    return net.to_empty(device=device) if there else net.to(device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_that_changes_device_between_calls(device):
    net = Net().eval()
    compiled = dl.compile(net, backend="aot_eager")
    x = tensor(4, 6)
    for there, graphs in (("cpu", 1), (device, 1), ("cpu", 0), (device, 0)):
        move(net, there)
        before = dl.counters.graphs
        found, expected = compiled(x.to(there)), net(x.to(there))
        assert found.device.type == expected.device.type == there and found.shape == expected.shape
        assert dl.counters.graphs - before == graphs
        if device != "meta":
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.on_cpu
def test_a_failed_call_before_the_model_is_moved_adds_no_graph(device):
    net = Net().eval()
    compiled = dl.compile(net, backend="aot_eager")
    x = tensor(4, 6)
    for given, place in ((x.to(device), "cpu"), (x, device)):
        move(net, place)
        expected = outcome(net, given)
        assert expected[0] == "RuntimeError" and outcome(compiled, given) == expected
        before = dl.counters.graphs
        move(net, given.device.type)
        assert compiled(given).device == given.device
        assert dl.counters.graphs - before == 1, "one graph, as if the wrong call had not been"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.on_cpu
def test_inputs_on_two_devices(device):
    def fn(x, y):
        return x * 2, y.sum(0)

    x = tensor(4, 6)
    pairs = [(x, x), (x, x.to(device)), (x.to(device), x), (x.to(device), x.to(device)), (x, x)]
    compiled = dl.compile(fn, backend="aot_eager")
    before = dl.counters.graphs
    for pair in pairs:
        found, expected = compiled(*pair), fn(*pair)
        assert [each.device for each in found] == [each.device for each in expected]
    assert dl.counters.graphs - before == 4


def test_a_model_that_changes_type_between_calls():
    net = Net().eval()
    compiled = dl.compile(net, backend="aot_eager")
    x = tensor(4, 6)
    for dtype, graphs in ((torch.float32, 1), (torch.float64, 1), (torch.float32, 0), (torch.float64, 0)):
        net.to(dtype)
        wrong = x.to(torch.float64 if dtype is torch.float32 else torch.float32)
        net.shift = net.shift.to(dtype)
        before = dl.counters.graphs
        torch.testing.assert_close(compiled(x.to(dtype)), net(x.to(dtype)))
        assert dl.counters.graphs - before == graphs
        assert outcome(compiled, wrong) == outcome(net, wrong)


@pytest.mark.on_cpu
def test_recompilation_names_the_change(caplog):
    compiled = dl.compile(pointwise, backend=Recorder())
    x = tensor(4, 6)
    with caplog.at_level("INFO", logger="dynamo_lite.recompiles"):
        for given in (x, x.to("meta"), turned(x), x.double()):
            compiled(given)
    told = [record.getMessage() for record in caplog.records]
    assert "device meta instead of cpu" in told[0]
    assert "stride" in told[1] and "float64" in told[2]


@checked(tensor(2), {"a": 1, "b": 2}, operators=4, others=[(tensor(2), {"b": 2, "a": 1})])
def test_order_of_a_dict_is_guarded(x, table):
    for v in table.values():
        x = x * 2 + v
    return x
