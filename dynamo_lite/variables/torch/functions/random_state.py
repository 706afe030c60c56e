"""Seeds and states of torch's default random number generators.

A graph's operators draw from the generators when it runs. So seeding, and reading the state, are done before the graph
if no operator before them draws; restoring a state that was read is done after the graph if none draws after it. That
captures ``manual_seed`` at the beginning of a function, and ``fork_rng`` around the operators that draw.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch

from dynamo_lite.insight.break_reasons import RandomStateUsed
from dynamo_lite.plan.rows import Local, Value
from dynamo_lite.records.calls_before_graph import CallBeforeGraph
from dynamo_lite.records.random_operators import draws_nothing
from dynamo_lite.records.restart import leave_to_cpython
from dynamo_lite.variables.core.base import Args, Kwargs, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import find_model, models, models_closures_of
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.torch.contexts.streams import device_named


def _check_may_precede(tx: Translator, operation: str) -> None:
    """Break the graph unless the operation may be done before all of it."""
    if tx.effects.in_body:
        unsupported(RandomStateUsed(operation, "it is called in a function that an operator runs"))
    nodes = tx.graph.graph.nodes
    if tx.attempt.before_graph.restores_random_state or not all(draws_nothing(each.op, each.target) for each in nodes):
        unsupported(RandomStateUsed(operation, "an operator before it may draw random numbers"))


class SavedStateVariable(VariableTracker):
    """A generator's state, read before the graph. It can be returned, kept and restored. If the program computes with
    it, the graph breaks where the state is read, so that it is a tensor like others."""

    __slots__ = ("name", "step")

    def __init__(self, name: str, step: int) -> None:
        self.source = None
        self.name = name
        """The local variable of the generated code that keeps it."""
        self.step = step
        """The step of the root frame that read it."""

    def python_type(self) -> type:
        return torch.Tensor

    def describe(self) -> str:
        return "the state of a random number generator"

    def _leave_read_to_cpython(self) -> NoReturn:
        leave_to_cpython(self.step, RandomStateUsed(self.describe(), "the program computes with it"))

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        self._leave_read_to_cpython()

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        self._leave_read_to_cpython()

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        self._leave_read_to_cpython()

    def as_fx(self) -> tuple[Any, Any]:
        self._leave_read_to_cpython()

    def construct(self, plan: Planner) -> Value:
        return Local(self.name)


def _save(tx: Translator, read: Callable[[], torch.Tensor], restore: Callable[[torch.Tensor], None]) -> VariableTracker:
    _check_may_precede(tx, "reading the state of a random number generator")
    calls = tx.attempt.before_graph.calls
    name = f"___state{len(calls)}"
    calls.append(CallBeforeGraph(read, result=name, undo=restore))
    return SavedStateVariable(name, tx.attempt.provenance.step)


def _restore(tx: Translator, state: VariableTracker, restore: Callable[[torch.Tensor], None]) -> VariableTracker:
    found = state.realize()
    if not isinstance(found, SavedStateVariable) or tx.effects.in_body:
        unsupported(RandomStateUsed("setting the state of a random number generator", "it was not read in this graph"))
    tx.attempt.before_graph.restores_random_state = True
    tx.effects.note_call(restore, found)
    return ConstantVariable(None)


@models(torch.get_rng_state)
def _get_state(tx: Translator) -> VariableTracker:
    return _save(tx, torch.default_generator.get_state, torch.set_rng_state)


@models(torch.set_rng_state)
def _set_state(tx: Translator, new_state: VariableTracker) -> VariableTracker:
    return _restore(tx, new_state, torch.set_rng_state)


@models(torch.cuda.get_rng_state)
def _get_cuda_state(tx: Translator, device: VariableTracker | None = None) -> VariableTracker:
    named = device_named(tx, "cuda", device)
    return _save(tx, partial(torch.cuda.get_rng_state, named), partial(torch.cuda.set_rng_state, device=named))


@models(torch.cuda.set_rng_state)
def _set_cuda_state(
    tx: Translator, new_state: VariableTracker, device: VariableTracker | None = None
) -> VariableTracker:
    return _restore(tx, new_state, partial(torch.cuda.set_rng_state, device=device_named(tx, "cuda", device)))


def _seed(function: Callable[[int], object], result: object, tx: Translator, seed: VariableTracker) -> VariableTracker:
    number = tx.python_value(seed)
    name = f"{function.__module__}.{function.__name__}()"
    _check_may_precede(tx, name)
    if tx.attempt.runtime_assertions:
        unsupported(RandomStateUsed(name, "the program may raise before it, depending on data"))
    tx.fold(torch.Generator().manual_seed, (int(number),))  # raises what the program's call raises
    tx.attempt.before_graph.calls.append(CallBeforeGraph(function, args=(number,)))
    return tx.make(result)


_SEEDS = {torch.manual_seed: torch.default_generator, torch.cuda.manual_seed: None, torch.cuda.manual_seed_all: None}
"""Functions that seed generators, and their results."""
for _function, _result in _SEEDS.items():
    models(_function)(partial(_seed, _function, _result))


def _call_marked(function: FunctionVariable, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``torch._disable_dynamo(f)`` of a modelled ``f``: torch's own compiler wraps ``torch.manual_seed`` in it."""
    for each in (function.value, function.value.__wrapped__):
        model = find_model(each)
        if model is not None:
            if function.source is not None:
                function.source.check("id", function.value)
            return model(tx, args, kwargs)
    return tx.inline(function, args, kwargs)


models_closures_of(lambda: torch._disable_dynamo(lambda: None), _call_marked)
