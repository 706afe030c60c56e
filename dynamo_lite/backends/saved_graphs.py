"""A graph as bytes, of which any process makes an equal graph, with fake inputs.

Only graphs of torch's own operators can be saved, on plain tensors of static sizes that share no memory. What only
people read (the program's lines) isn't saved.
"""

from __future__ import annotations

import importlib
import io
import operator
import pickle
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.shared_memory import memory_of

_MODULES = frozenset({"torch", "math", "builtins", operator.add.__module__, "operator"})
"""Packages whose functions mean the same in each process."""


class NotPortable(Exception):
    """A graph has something that other processes don't have. Its text says what."""


@dataclass(frozen=True)
class _Input:
    """What a compiler sees of a plain tensor."""

    dtype: torch.dtype
    device: torch.device
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage_bytes: int
    requires_grad: bool
    is_parameter: bool

    @classmethod
    def of(cls, value: object) -> _Input:
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise NotPortable(f"an input is of type {type(value).__name__}")
        assert isinstance(value, torch.Tensor)
        if value.layout != torch.strided or value.is_conj() or value.is_neg() or value.is_inference():
            raise NotPortable("an input is no plain tensor")
        if not value.is_leaf:
            raise NotPortable("an input has a history in autograd")
        return cls(
            value.dtype,
            value.device,
            tuple(value.shape),
            value.stride(),
            int(value.storage_offset()),
            value.untyped_storage().nbytes(),
            value.requires_grad,
            isinstance(value, torch.nn.Parameter),
        )

    def fake(self, mode: FakeTensorMode) -> torch.Tensor:
        meta = torch.empty(0, dtype=self.dtype, device="meta")
        meta.set_(torch.UntypedStorage(self.storage_bytes, device="meta"), self.offset, self.size, self.stride)
        made: Any = FakeTensor(mode, meta, self.device)
        made.requires_grad_(self.requires_grad)
        if self.is_parameter:
            made._is_param = True
        return made


@dataclass(frozen=True)
class _Node:
    """A node of a graph. In its arguments, nodes are written as their positions."""

    op: str
    name: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class _At:
    """A node, in what is saved of another's arguments."""

    position: int


@dataclass(frozen=True)
class _Graph:
    nodes: list[_Node]
    bodies: dict[str, _Graph]
    """Functions that higher-order operators run, by the name of the graph's attribute."""


@dataclass(frozen=True)
class _Saved:
    graph: _Graph
    inputs: list[_Input]


def saved(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> bytes:
    """A graph and what is known of its inputs.

    Raises:
        NotPortable: another process can't make the graph of bytes.
    """
    inputs = [_Input.of(each) for each in example_inputs]
    if len(set(map(memory_of, example_inputs))) < len(inputs):
        raise NotPortable("inputs share memory")
    written = io.BytesIO()
    try:
        _Pickler(written, protocol=pickle.HIGHEST_PROTOCOL).dump(_Saved(_written(gm), inputs))
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # what pickle raises of objects it can't write
        raise NotPortable(f"the graph can't be pickled: {error}") from error
    return written.getvalue()


def restored(data: bytes) -> tuple[torch.fx.GraphModule, list[torch.Tensor], FakeTensorMode]:
    """The graph, fakes of its inputs, and their mode."""
    found: _Saved = pickle.loads(data)
    mode = FakeTensorMode(shape_env=importlib.import_module("torch.fx.experimental.symbolic_shapes").ShapeEnv())
    fakes = [each.fake(mode) for each in found.inputs]
    gm = _read(found.graph)
    for node, fake in zip(gm.graph.find_nodes(op="placeholder"), fakes, strict=True):
        node.meta["example_value"] = fake
    return gm, fakes, mode


def _written(gm: torch.fx.GraphModule) -> _Graph:
    at: dict[torch.fx.Node, Any] = {node: _At(position) for position, node in enumerate(gm.graph.nodes)}
    nodes, bodies = [], {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            body = getattr(gm, node.target, None)
            if not isinstance(body, torch.fx.GraphModule) or "_checkpoint_context_fn" in body.meta:
                raise NotPortable(f"the graph has an object of type {type(body).__name__}")
            bodies[node.target] = _written(body)
        args, kwargs = (torch.fx.map_arg(each, lambda node: at[node]) for each in (node.args, node.kwargs))
        nodes.append(_Node(node.op, node.name, node.target, args, kwargs))
    return _Graph(nodes, bodies)


def _read(saved_graph: _Graph) -> torch.fx.GraphModule:
    graph, made = torch.fx.Graph(), list[torch.fx.Node]()

    def argument(value: Any) -> Any:
        if isinstance(value, _At):
            return made[value.position]
        if isinstance(value, slice):
            return slice(argument(value.start), argument(value.stop), argument(value.step))
        if isinstance(value, dict):
            return {name: argument(each) for name, each in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(argument, value))
        return type(value)(map(argument, value)) if isinstance(value, (tuple, list)) else value

    for each in saved_graph.nodes:
        node = graph.create_node(each.op, each.target, argument(each.args), argument(each.kwargs), each.name)
        node.meta["example_value"] = None
        made.append(node)
    return torch.fx.GraphModule({name: _read(body) for name, body in saved_graph.bodies.items()}, graph)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        if isinstance(value, torch._ops.OpOverload):
            packet = value._schema.name.partition("::")
            return _operator, (packet[0], packet[2], value._overloadname)
        if isinstance(value, torch._ops.HigherOrderOperator):
            if value not in (torch.ops.higher_order.tag_activation_checkpoint,):
                raise NotPortable(f"the graph has the operator {value.name()}")
            return getattr, (torch.ops.higher_order, value.name())
        if isinstance(value, torch._ops.OpOverloadPacket):
            return _packet, tuple(value._qualified_op_name.split("::"))
        if isinstance(value, torch.Tensor) or isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise NotPortable(f"the graph has a value of type {type(value).__name__}")
        if callable(value) and not isinstance(value, type):
            module = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
            if module.partition(".")[0] not in _MODULES and module not in (graph_functions.__name__, __name__):
                raise NotPortable(f"the graph has a function of {module}")
        return NotImplemented


def _packet(namespace: str, name: str) -> Any:
    return getattr(getattr(torch.ops, namespace), name)


def _operator(namespace: str, name: str, overload: str) -> Any:
    return getattr(_packet(namespace, name), overload or "default")
