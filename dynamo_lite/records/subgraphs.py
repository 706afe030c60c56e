"""Graphs inside of a graph: of functions that its operators call."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from dynamo_lite.runtime.inner_tensors import storages


class Body:
    """A graph under way inside of another: that of a function which an operator of the outer graph calls."""

    def __init__(self, grad_mode: bool) -> None:
        self.graph = torch.fx.Graph()
        self.lifted: dict[torch.fx.Node, torch.fx.Node] = {}
        """Node of a graph around it -> the placeholder that stands for it."""
        self.numbers: dict[Any, torch.fx.Node] = {}
        """Expression of symbols of which some are known inside alone -> the node that computes it."""
        self.initial_grad_mode = self.grad_mode = grad_mode
        self.transform = ""
        """The transform of torch.func that runs it."""
        self.differentiates = False
        """Whether something in it does: a transform, or a Function that was given nothing with a history."""
        self.runs_later = False  # in the backward
        self.is_backward = False
        """Whether it is the backward of a Function."""
        self.reads_grad_mode = False
        """Whether what it does hangs on the grad mode that it is called in, beyond what autograd makes of it."""
        self.overwritten: list[torch.Tensor] | None = None
        """Where it may write into what is outside of it: into which."""
        self._given: list[Any] = []

    def lift(self, outer: torch.fx.Node, fake: Any = None) -> torch.fx.Node:
        """The placeholder for a value from outside; ``fake``: what is known of it inside, where that differs."""
        found = self.lifted.get(outer)
        if found is None:
            first = next((node for node in self.graph.nodes if node.op != "placeholder"), self.graph._root)
            with self.graph.inserting_before(first):
                found = self.lifted[outer] = self.graph.placeholder(f"arg{len(self.lifted)}")
            found.meta["example_value"] = outer.meta["example_value"] if fake is None else fake
        return found

    def placeholder(self, fake: Any) -> torch.fx.Node:
        """One that stands for nothing outside: a value that the function is given when it runs."""
        node = self.graph.placeholder(f"given{len(self._given)}")
        node.meta["example_value"] = fake
        self._given.append(fake)
        return node

    def maps_over(self, fake: torch.Tensor) -> bool:
        """Whether a tensor is what ``vmap`` shows the function of one that it maps over: a write goes there as well."""
        storage = fake.untyped_storage()._cdata
        lifted = [node.meta["example_value"] for node in self.lifted]
        others = {each.untyped_storage()._cdata for each in lifted if isinstance(each, torch.Tensor)}
        given = [each for each in self._given if isinstance(each, torch.Tensor)]
        is_given = any(each.untyped_storage()._cdata == storage for each in given)
        return self.transform == "vmap" and is_given and storage not in others and not fake.requires_grad

    def found(self) -> list[torch.Tensor]:
        """The tensors that are there when it runs."""
        fakes = [*self._given, *(node.meta["example_value"] for node in (*self.lifted, *self.lifted.values()))]
        return [fake for fake in fakes if isinstance(fake, torch.Tensor)]

    def storages(self) -> set[int]:
        """Memory that was there before."""
        return {storage for fake in self.found() for storage in storages(fake)}
