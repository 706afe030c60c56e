"""Origins of graph nodes in their metadata, in torch.compile's form."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo_lite as dl


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])
        self.act = nn.ReLU()

    def forward(self, x):
        for layer in self.layers:
            x = self.act(layer(x))
        return scaled(x)


def scaled(y):
    return F.softmax(y, -1) + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2))

    def forward(self, x):
        return self.head(self.block(x).view(-1, 4)).mul(2)


def nodes_of(compiler, model):
    found = []

    def backend(gm, example_inputs):
        found.extend(node for node in gm.graph.nodes if node.op.startswith("call_"))
        return gm.forward

    compiler(model, backend=backend)(torch.ones(2, 4))
    return found


@pytest.mark.parametrize("key", ["nn_module_stack", "source_fn_stack"])
def test_module_and_function_stacks_are_those_of_torch_compile(key):
    torch.compiler.reset()

    def seen(compiler):
        rows = []
        for node in nodes_of(compiler, Model()):
            stack = node.meta.get(key)
            if key == "nn_module_stack":
                rows.append(None if stack is None else list(stack.values()))
            else:
                rows.append([fn for _, fn in stack])
        return rows

    ours, theirs = seen(dl.compile), seen(torch.compile)
    assert ours == theirs and any(ours)


def test_stack_traces_are_the_programs_lines():
    add = next(node for node in nodes_of(dl.compile, Model()) if node.name == "add")
    lines = add.stack_trace.splitlines()
    assert [each.split(", in ")[1] for each in lines if ", in " in each] == ["forward", "forward", "scaled"]
    assert "return F.softmax(y, -1) + 1" in add.stack_trace


def test_a_function_that_calls_a_module():
    model = nn.Linear(4, 4)
    nodes = nodes_of(dl.compile, lambda x: model(x) + 1)
    assert [len(node.meta.get("nn_module_stack", ())) for node in nodes] == [1, 0]


def test_meta_is_a_plain_dict():
    def fresh():
        return next(node for node in nodes_of(dl.compile, Model()) if node.name == "add").meta

    keys = {"example_value", "stack_trace", "source_fn_stack", "nn_module_stack"}
    assert set(fresh()) == keys and {**fresh()}.keys() == keys and dict(fresh()).keys() == keys
    assert len(fresh()) == 4 and "stack_trace" in fresh() and fresh()["stack_trace"]
    assert copy.copy(fresh()).keys() == keys and fresh().copy().keys() == keys
    meta = fresh()
    meta["example_value"] = None
    assert pickle.loads(pickle.dumps(meta)).keys() == keys
    with pytest.raises(KeyError):
        fresh()["other"]
    meta = fresh()
    meta["stack_trace"] = "mine"
    assert meta.get("stack_trace") == "mine" and meta.setdefault("nn_module_stack", None)


def test_origins_survive_other_passes():
    seen = []

    def inner(gm, example_inputs):
        seen.extend(node.stack_trace or "" for node in gm.graph.nodes if node.op == "call_function")
        return gm.forward

    from torch._dynamo.backends.common import aot_autograd

    dl.compile(Model().requires_grad_(False), backend=aot_autograd(fw_compiler=inner))(torch.ones(2, 4))
    assert any("F.softmax(y, -1)" in each for each in seen)


def test_nodes_have_the_names_that_fx_gives():
    def fn(x, y):
        z = torch.relu(x).relu().__mul__(2) + torch.rsqrt(y)[0]
        return torch.nn.functional.scaled_dot_product_attention(x, y, x).T, torch.ops.aten.relu(z), -z

    (gm,) = dl.explain(fn)(torch.ones(2, 3), torch.ones(2, 3)).graphs
    new = torch.fx.Graph()
    assert [new.create_node(node.op, node.target).name for node in gm.graph.nodes] == [n.name for n in gm.graph.nodes]
