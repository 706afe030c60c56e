"""The FX graph of one translation and the fake tensors that its operators are computed on."""

from __future__ import annotations

import linecache
import operator
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp import autocast_mode
from torch.autograd import grad_mode

from .source import Source

_STATE_CHANGERS = frozenset(
    {torch._C._set_grad_enabled, autocast_mode._enter_autocast, grad_mode._enter_inference_mode}
)


@dataclass
class GraphInput:
    """A placeholder: where the call finds its value, the value it was traced with, and what stands for it."""

    source: Source
    value: torch.Tensor
    node: torch.fx.Node
    fake: torch.Tensor
    convert: Callable[[Any], torch.Tensor] | None = None
    """Makes the tensor of what is found at the source; None: that is the tensor."""

    @property
    def captured(self) -> bool:
        """Whether the call takes it as the guard check captured it."""
        return self.source.kind != "local" and self.convert is None


class GraphBuilder:
    """Records operators. Its fake mode is entered for the length of a translation."""

    def __init__(self) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv  # brings sympy, which is slow to import

        shape_env = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        self.fake_mode = FakeTensorMode(shape_env=shape_env)
        self.graph = torch.fx.Graph()
        self.inputs: list[GraphInput] = []
        self._last_placeholder: torch.fx.Node | None = None
        self.operators = 0
        """Nodes that are calls."""
        self.mutates_inputs = False
        """Whether an operator wrote, or may have written, into an input."""
        self._initial_grad_mode = self._grad_mode = torch.is_grad_enabled()

    def input(
        self, source: Source, value: torch.Tensor, convert: Callable[[Any], torch.Tensor] | None = None
    ) -> GraphInput:
        """A new placeholder. Its fake has the value's class, metadata and ``requires_grad``."""
        fake = self._fake(value)
        node = self._placeholder(f"arg{len(self.inputs)}")
        node.meta["example_value"] = fake
        found = GraphInput(source, value, node, fake, convert)
        self.inputs.append(found)
        return found

    def _fake(self, value: torch.Tensor) -> torch.Tensor:
        if not value.requires_grad or value.is_leaf:
            return self.fake_mode.from_tensor(value, static_shapes=True)
        with warnings.catch_warnings():  # the converter reads .grad, of which torch warns where it is no leaf's
            warnings.simplefilter("ignore")
            return self.fake_mode.from_tensor(value, static_shapes=True)

    def _placeholder(self, name: str) -> torch.fx.Node:
        graph = self.graph
        if self._last_placeholder is None:
            with graph.inserting_before(next(iter(graph.nodes), None)):  # type: ignore[arg-type]
                node = graph.placeholder(name)
        else:
            with graph.inserting_after(self._last_placeholder):
                node = graph.placeholder(name)
        self._last_placeholder = node
        return node

    def call(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fake: Any) -> torch.fx.Node:
        """Record one operator whose result on fakes was ``fake``, in the thread's grad mode."""
        self._follow_grad_mode(torch.is_grad_enabled())
        node = self.graph.create_node(kind, target, args, kwargs)
        node.meta["example_value"] = fake
        self.operators += 1
        return node

    def _follow_grad_mode(self, mode: bool) -> None:
        if mode != self._grad_mode:
            self.graph.create_node("call_function", torch._C._set_grad_enabled, (mode,))
            self._grad_mode = mode

    def item(self, node: torch.fx.Node, index: int, fake: Any) -> torch.fx.Node:
        """One of several results."""
        found = self.graph.create_node("call_function", operator.getitem, (node, index))
        found.meta["example_value"] = fake
        return found

    def inputs_in_storage(self, fake: torch.Tensor) -> list[GraphInput]:
        """The inputs that share a tensor's memory."""
        storage = fake.untyped_storage()._cdata
        return [each for each in self.inputs if each.fake.untyped_storage()._cdata == storage]

    def note_writes(self, fakes: list[torch.Tensor]) -> None:
        """These were written into, or may have been."""
        if not self.mutates_inputs:
            self.mutates_inputs = any(self.inputs_in_storage(fake) for fake in fakes)

    @property
    def changes_state(self) -> bool:
        """Whether the graph changes grad mode, inference mode or autocast on its way."""
        return any(node.target in _STATE_CHANGERS for node in self.graph.nodes if node.op == "call_function")

    def inputs_share_memory(self) -> bool:
        """Whether two inputs are views of one storage, or may be, where one is converted."""
        if len(self.inputs) > 1 and any(each.convert is not None for each in self.inputs):
            return True
        storages = [each.value.untyped_storage()._cdata for each in self.inputs]
        return len(set(storages)) < len(storages)

    def drop_unused_inputs(self) -> None:
        """Forget the inputs that no operator takes: of those only facts were asked."""
        for each in self.inputs:
            if not each.node.users:
                self.graph.erase_node(each.node)
        self.inputs = [each for each in self.inputs if each.node.users]

    def order_inputs(self, key: Callable[[GraphInput], Any]) -> None:
        """Sort the placeholders (and the list of inputs) by ``key``, stably."""
        self.inputs.sort(key=key)
        first = next(iter(self.graph.nodes), None)
        for each in self.inputs:
            if first is not None and each.node is not first:
                first.prepend(each.node)
            elif first is not None:
                first = first.next

    def finish(self, outputs: list[torch.fx.Node]) -> torch.fx.GraphModule:
        """Close the graph. It returns a tuple of ``outputs`` and leaves the grad mode as it found it."""
        self._follow_grad_mode(self._initial_grad_mode)
        self.graph.output(tuple(outputs))
        made = torch.fx.GraphModule(torch.nn.Module(), self.graph, "GraphModule")
        _forget_source_with(made)
        return made


def _forget_source_with(made: torch.fx.GraphModule) -> None:
    """torch keeps the source of every graph for tracebacks, for ever; this one's goes with it."""
    filename = type(made).forward.__code__.co_filename
    for kept in (linecache.cache, torch.fx.graph_module._loader.eval_cache):
        weakref.finalize(made, kept.pop, filename, None).atexit = False
