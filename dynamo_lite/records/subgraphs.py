"""Where operators are recorded: a frame's graph, or the graph of a function that an operator runs (``cond`` …)."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.fx

from dynamo_lite.runtime.later_calls import Called
from dynamo_lite.runtime.shared_memory import share_memory

Runs = Literal["now", "backward", "hook", "recomputed", "reentrant"]
"""When a body runs: where the operator is called; in a backward, as that of a Function or as a tensor's hook; or in the
call and once more in the backward, as a checkpoint's function. A reentrant checkpoint runs it without gradients first.
"""
BACKWARD: tuple[Runs, ...] = ("backward", "hook")
"""Those that only run in a backward."""
_PRECEDENCE: tuple[tuple[Runs, ...], ...] = (BACKWARD, ("reentrant",), ("recomputed",))


class Scope:
    """A graph that is being recorded: the root, or one nested in ``outer``, the body of a function that an operator
    runs. It is consulted where an operator is recorded, a tensor mutated, and a global or cell read."""

    def __init__(self, grad_mode: bool, outer: Scope | None = None, runs: Runs = "now") -> None:
        self.outer = outer
        self.nesting: tuple[Scope, ...] = () if outer is None else (*outer.nesting, self)
        """The nested scopes from the root to this one, outermost first: empty for the root."""
        self.runs = runs
        self._later = next((each for kinds in _PRECEDENCE for each in self.nesting if each.runs in kinds), None)
        self.in_backward = self.later(*BACKWARD) is not None
        """Whether it runs in a backward only."""
        self.graph = torch.fx.Graph()
        self.lifted: dict[torch.fx.Node, torch.fx.Node] = {}
        """Node of an enclosing graph -> the placeholder for it here."""
        self.initial_grad_mode = self.grad_mode = grad_mode
        self.transform = ""
        """The transform of torch.func that runs it, if one does."""
        self.differentiates = False
        """Whether it differentiates: by a transform, or by a Function without inputs that have a history."""
        self.opened_by: object = None
        """The frame that calls the function."""
        self.takes_wrappers = False
        """Whether it may compute with wrapper subclasses."""
        self.reads_grad_mode = False
        """Whether its operators depend on the grad mode that it is called in, apart from recording history."""
        self.overwritten: list[torch.Tensor] | None = None
        """The outside tensors that it wrote into; None if it may not write into any."""
        self.called = Called()
        """The functions and methods of the program that it calls."""
        self.uncertain_writes: list[tuple[torch.fx.Node, torch.Tensor]] = []
        """What it wrote into, if that may be memory of a gradient, or a copy."""
        self.parameters: list[torch.fx.Node] = []
        """The placeholders for arguments of the function."""

    @property
    def is_nested(self) -> bool:
        """Whether an operator runs it."""
        return self.outer is not None

    def later(self, *kinds: Runs) -> Scope | None:
        """The scope that decides what this one may read, since it runs later than it is traced; None if all run now, or
        if it runs in another way than these. It is the outermost backward: less is certain there than in a function
        that is recomputed.
        """
        return self._later if self._later is not None and self._later.runs in kinds else None

    @property
    def runs_later(self) -> bool:
        """Whether it also runs after the compiled call, in a backward."""
        return self.runs != "now"

    @property
    def is_backward(self) -> bool:
        """Whether it only runs in a backward: it is that of a Function, or a tensor's hook."""
        return self.runs in BACKWARD

    def lift(self, outer: torch.fx.Node) -> torch.fx.Node:
        """The placeholder for a value from outside."""
        found = self.lifted.get(outer)
        if found is None:
            first = next((node for node in self.graph.nodes if node.op != "placeholder"), self.graph._root)
            with self.graph.inserting_before(first):
                found = self.lifted[outer] = self.graph.placeholder(f"arg{len(self.lifted)}")
            found.meta["example_value"] = outer.meta["example_value"]
        return found

    def placeholder(self, fake: object) -> torch.fx.Node:
        """A placeholder for an argument of the function."""
        node = self.graph.placeholder(f"given{len(self.parameters)}")
        node.meta["example_value"] = fake
        self.parameters.append(node)
        return node

    @property
    def has_operators(self) -> bool:
        return any(node.op in ("call_function", "call_method") for node in self.graph.nodes)

    def maps_over(self, fake: torch.Tensor) -> bool:
        """Whether a tensor is the slice of one that ``vmap`` maps over: a write into it is visible outside."""
        is_given = any(share_memory(fake, each) for each in self._given())
        is_lifted = any(share_memory(fake, node.meta["example_value"]) for node in self.lifted)
        return self.transform == "vmap" and is_given and not is_lifted and not fake.requires_grad

    def _given(self) -> list[Any]:
        return [node.meta["example_value"] for node in self.parameters]

    def existing(self) -> list[torch.Tensor]:
        """The tensors that exist when it runs. A backward may write into its gradients."""
        fakes = [*(() if self.is_backward else self._given()), *(node.meta["example_value"] for node in self.lifted)]
        return [fake for fake in fakes if isinstance(fake, torch.Tensor)]


def is_mapped(node: torch.fx.Node, bodies: Sequence[Scope]) -> bool:
    """Whether a ``vmap`` that runs the last of the bodies, or one around it, maps over what a node's value is computed
    from, with no other transform in between: that would wrap the value again."""
    depth = next((at for at, each in enumerate(bodies) if each.graph is node.graph), len(bodies))
    if not all(each.transform == "vmap" for each in bodies[depth:]) or depth == len(bodies):
        return False
    outer = {inner: of for of, inner in bodies[depth].lifted.items()}
    seen, left = set[torch.fx.Node](), [node]
    while left:
        each = left.pop()
        if each not in seen:
            seen.add(each)
            left += each.all_input_nodes
    return any(is_mapped(outer[each], bodies) if each in outer else True for each in seen if each.op == "placeholder")


def forget_source_with(made: torch.fx.GraphModule) -> None:
    """Drop the graph's source together with the graph. torch keeps that of every graph for ever, for tracebacks."""
    filename = type(made).forward.__code__.co_filename
    for kept in (linecache.cache, torch.fx.graph_module._loader.eval_cache):
        weakref.finalize(made, kept.pop, filename, None).atexit = False
