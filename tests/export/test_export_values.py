"""Inputs and results of exported programs: containers, objects, constants, views, modes."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy
import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight.break_reasons import NotExportable
from exports import Affine, check_export, exported, refusal
from programs import tensor

SCALE = torch.full((3,), 3.0)
TABLE = [1, 2, 3]


# -- containers, constants and identity --------------------------------------------------------------------------------


class Point(NamedTuple):
    x: torch.Tensor
    y: Any


@dataclass
class Pair:
    one: torch.Tensor
    other: Any = None
    more: list[Any] = field(default_factory=list)

    def __post_init__(self):
        self.one = self.one * 2


class Named(collections.OrderedDict):
    """A mapping with attributes, as models return them."""

    def __init__(self, **values):
        super().__init__(values)
        self.__dict__.update(values)


class Slotted:
    __slots__ = ("value", "__dict__")

    def __init__(self, value):
        self.value = value
        self.twice = value * 2


def test_nested_containers_in():
    def fn(data, extra):
        (x, y), z = data["pair"], data["more"][0]["z"]
        return x + y * z + extra.x * extra.y

    data = {"pair": (tensor(3), tensor(3, seed=1)), "more": [{"z": tensor(3, seed=2)}, 5]}
    gm = check_export(fn, data, Point(tensor(3, seed=3), 2.0))
    with pytest.raises(dl.exc.InvalidInput, match=r"data\['pair'\] was of length 2 .*, and is of length 1"):
        gm({"pair": (tensor(3),), "more": data["more"]}, Point(tensor(3), 2.0))
    with pytest.raises(dl.exc.InvalidInput, match=r"data was a dict with the key 'more' .* the keys \['pair'\]"):
        gm({"pair": data["pair"]}, Point(tensor(3), 2.0))
    with pytest.raises(dl.exc.InvalidInput, match=r"extra.* was 2.0 .*, and is 3.0"):
        gm(data, Point(tensor(3), 3.0))


def test_objects_in():
    class Config:
        def __init__(self):
            self.weight, self.scale = tensor(3), 2

    def fn(config, slotted, x):
        return x * config.weight * config.scale + slotted.value

    gm = check_export(fn, Config(), Slotted(tensor(3, seed=1)), tensor(3, seed=2), pickled=False)
    changed = Config()
    changed.scale = 3
    with pytest.raises(dl.exc.InvalidInput, match="config.scale was 2 when this was exported, and is 3"):
        gm(changed, Slotted(tensor(3)), tensor(3))
    del changed.weight
    changed.scale = 2
    with pytest.raises(dl.exc.InvalidInput, match="config.weight is missing"):
        gm(changed, Slotted(tensor(3)), tensor(3))


@exported(tensor(3))
def test_nested_containers_out(x):
    y = x + 1
    return {"a": [x.sin(), (x.cos(), {"b": y})], "c": None, 3: "text", (1, 2): slice(1, None)}, 2.5, True


@exported(tensor(3))
def test_containers_of_the_library_out(x):
    y = x + 1
    counts = collections.defaultdict(list)
    counts["y"].append(y)
    ordered = collections.OrderedDict(first=y, second=x)
    return counts, ordered, collections.deque([x, y], 3), {1, 2}, frozenset((3,)), x.max(0), x.shape, range(3)


def test_objects_out():
    def fn(x):
        return Point(x + 1, [x]), Pair(x, 3, [x * 2]), Named(logits=x * 3, loss=None), Slotted(x - 1)

    gm = check_export(fn, tensor(3))
    point, pair, named, slotted = gm(tensor(3))
    assert type(point) is Point and type(pair) is Pair and torch.equal(pair.one, tensor(3) * 2)
    assert named["logits"] is named.logits and slotted.twice is not None


def test_classes_made_in_a_function():
    class Result(NamedTuple):
        x: torch.Tensor

    check_export(lambda x: Result(x + 1), tensor(3), pickled=False)


def test_inputs_and_constants_are_returned_as_they_are():
    def fn(x, xs, n, d):
        return x, xs, n, d, TABLE, SCALE, len, d["k"], x + 1

    gm, _ = dl.export(fn, tensor(3), [1, 2], 5, {"k": [3]})
    x, xs, d = tensor(3, seed=1), [1, 2], {"k": [3]}
    found = gm(x, xs, 5, d)
    for one, other in zip(found, (x, xs, 5, d, TABLE, SCALE, len, d["k"])):
        assert one is other
    check_export(fn, tensor(3), [1, 2], 5, {"k": [3]}, pickled=False, copied=False)


def test_the_dict_of_an_argument_is_returned_itself():
    gm, _ = dl.export(lambda x, pair: (x + 1, vars(pair)), tensor(3), Pair(tensor(3)))
    pair = Pair(tensor(3))
    assert gm(tensor(3), pair)[1] is vars(pair)


def test_objects_created_in_tracing_are_created_at_every_call():
    def fn(x):
        found = [x + 1]
        return found, found, {"found": found}, [found]

    gm = check_export(fn, tensor(3))
    one, other, mapping, nested = gm(tensor(3))
    assert one is other is mapping["found"] is nested[0] and gm(tensor(3))[0] is not one
    assert dl.export(lambda: [1])[0]() is not dl.export(lambda: [1])[0]()
    gm, _ = dl.export(lambda: [1])
    assert gm() is not gm()


def test_programs_without_operators():
    check_export(lambda x: x, tensor(3))
    check_export(lambda: 3)
    check_export(lambda a, b: (b, a), 1, "two")
    check_export(lambda x: [x, None], tensor(3))


def test_unused_inputs_are_kept():
    def fn(x, unused, flag=True):
        return x * 2

    gm = check_export(fn, tensor(3), tensor(2))
    assert [node.target for node in gm.graph.nodes if node.op == "placeholder"] == ["x", "unused", "flag"]


def test_one_tensor_twice():
    def fn(x, y):
        return (x * 2, True) if x is y else (x + y, False)

    x = tensor(3)
    gm = check_export(fn, x, x)
    with pytest.raises(dl.exc.InvalidInput, match="were one object when this was exported, and are two"):
        gm(tensor(3), tensor(3))
    gm = check_export(fn, tensor(3), tensor(3))
    with pytest.raises(dl.exc.InvalidInput, match="were two objects when this was exported, and are one"):
        gm(x, x)


def test_an_argument_that_is_a_global_too():
    refusal(NotExportable, lambda x: x is SCALE and x * SCALE, SCALE)


@exported(tensor(2, 3), tensor(3, 3, seed=1))
def test_views_and_writes_of_inputs(x, y):
    x[0] = 5.0
    y.mul_(2)
    return x.view(3, 2), x[1:], y.t(), x


def test_views_of_results_share_memory():
    gm, _ = dl.export(lambda x: (x.view(-1), x.detach()), tensor(2, 3))
    x = tensor(2, 3)
    flat, detached = gm(x)
    assert flat.data_ptr() == x.data_ptr() == detached.data_ptr() and flat._base is x


def test_numpy():
    check_export(lambda a: (a * 2).sum(), numpy.arange(3.0), pickled=False, aten=False)
    check_export(lambda a: (a * 2 + a[0]).sum(), numpy.arange(3.0)[::-1].copy(), pickled=False, aten=False)


def test_control_flow_operators():
    def fn(x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))

    check_export(fn, tensor(3))
    gm, _ = dl.export(fn, torch.ones(3))
    assert torch.equal(gm(-torch.ones(3)), -torch.ones(3) - 1)


def test_grad_mode_and_autocast_inside():
    def fn(x, w):
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ w
        return y * w, z

    gm = check_export(fn, tensor(3, 3, grad=True), tensor(3, 3, seed=1, grad=True), backward=True)
    with torch.no_grad(), pytest.raises(dl.exc.InvalidInput, match="grad mode was on when .*, and is off"):
        gm(tensor(3, 3, grad=True), tensor(3, 3, grad=True))
    assert torch.is_grad_enabled()


def test_a_graph_that_leaves_grad_mode_alone_runs_in_either():
    gm, _ = dl.export(Affine(), tensor(3))
    with torch.no_grad():
        assert not gm(tensor(3)).requires_grad
    assert gm(tensor(3)).requires_grad


def test_autograd_functions_and_checkpoint():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3 * ctx.saved_tensors[0] ** 2

    def fn(x):
        y = Cube.apply(x)
        return torch.utils.checkpoint.checkpoint(lambda v: v.sin() * 2, y, use_reentrant=False)

    check_export(fn, tensor(3, grad=True), backward=True, aten=False, pickled=False)
