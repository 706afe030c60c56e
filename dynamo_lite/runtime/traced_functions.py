"""What a graph applies for a user's ``torch.autograd.Function`` whose forward and backward were traced.

The autograd node looks like that of the user's Function: its name, ``needs_input_grad``, ``saved_tensors``, and the
attributes of ``ctx`` that are tensors, constants, or containers of these. If the program changes such an attribute,
or the code or defaults of a function that the backward calls, or if a gradient isn't a plain tensor or is undefined,
the user's own backward runs instead of the traced one.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.function import BackwardCFunction, once_differentiable

from .later_calls import CalledFunctions, is_plain

Tensors = tuple[torch.Tensor, ...]
Body = Callable[..., Tensors]


@dataclasses.dataclass(frozen=True)
class AttributeTensor:
    """A tensor in an attribute of ``ctx``: an index into the results of the traced forward."""

    index: int


@dataclasses.dataclass(frozen=True)
class FunctionFacts:
    """How a Function's traced bodies fit its calls. *Results* are those of the traced forward, outputs first."""

    function: Callable[[], type[torch.autograd.Function] | None]
    """The user's class, held weakly; None in a graph that was loaded."""
    called: CalledFunctions
    """Those that a backward calls."""
    arguments: tuple[int | None, ...]
    """For each argument of the call the index of the tensor among all; None if it isn't a tensor."""
    distinct: tuple[int, ...]
    """Indices of the tensors that the traced forward takes: each once."""
    outputs: tuple[bool, ...]
    """For each value that the user's forward returns whether it is a tensor."""
    non_differentiable: tuple[int, ...]
    """Indices of results."""
    dirty: tuple[int, ...]
    """Indices of results: arguments that the forward writes into."""
    saved: tuple[int | None, ...]
    """What was passed to ``save_for_backward``: indices of results, or None."""
    reads_saved: bool
    """Whether the backward reads ``saved_tensors``."""
    kept: tuple[int, ...]
    """Indices of the results that the traced backwards take."""
    modes: tuple[tuple[bool, tuple[int, ...]], ...]
    """For each traced backward the grad mode it is for, and indices into ``kept``. Its results are the gradients of the
    tensors among the arguments, or None."""
    attributes: dict[str, object]
    """Attributes of ``ctx``: tensors, constants, and containers of these. `AttributeTensor` stands for a tensor."""
    has_all_attributes: bool
    """Whether these are all, so that the user's own backward can run."""
    materializes: bool
    """Whether a gradient that is undefined is zeros; otherwise None, for which the user's own backward runs."""

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        _, *others = dataclasses.fields(self)
        return FunctionFacts, (type(None), *(getattr(self, each.name) for each in others))


class _State(NamedTuple):
    """What a node's traced backward needs."""

    facts: FunctionFacts
    backwards: dict[bool, tuple[Body, tuple[int, ...]]]
    kept: tuple[torch.Tensor | None, ...]
    """Without those that ``save_for_backward`` keeps."""
    attributes: dict[str, object]
    """The attributes of the node after the forward."""


_FIRST_INPUT = 3
"""The position of the first tensor in `TracedFunction.forward`, after ``ctx``."""


class TracedNode(BackwardCFunction):
    """The autograd node of a traced Function. Its other attributes are the user's, whatever their names."""

    __slots__ = ("_traced",)
    _traced: _State

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:  # type: ignore[override]
        needs: Sequence[bool] = super().needs_input_grad
        arguments = self._traced.facts.arguments
        return tuple(index is not None and needs[_FIRST_INPUT + index] for index in arguments)


def _values(node: TracedNode) -> list[torch.Tensor]:
    """What the traced backwards take."""
    facts, _, kept, _ = node._traced
    saved = node.saved_tensors if facts.reads_saved else ()
    return [saved[facts.saved.index(at)] if one is None else one for at, one in zip(facts.kept, kept)]


def _call_users_backward(node: TracedNode, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """The gradients of the tensors among the arguments, by the backward of the user's class."""
    facts, name = node._traced.facts, type(node).__name__
    function = facts.function()
    if function is None:
        raise RuntimeError(f"attributes of {name} were changed, whose Function is gone")
    found: Any = function.backward(node, *gradients)
    found = found if isinstance(found, tuple) else (found,)
    if len(found) < len(facts.arguments):
        count = f"(expected {len(facts.arguments)}, got {len(found)})"
        raise RuntimeError(f"function {name} returned an incorrect number of gradients {count}")
    return [one for index, one in zip(facts.arguments, found) if index is not None]


def _attribute(value: Any, results: Tensors) -> Any:
    """The value of an attribute of ``ctx``, in new containers."""
    kind = type(value)
    if kind is AttributeTensor:
        return results[value.index]
    if kind is dict:
        return {key: _attribute(each, results) for key, each in value.items()}
    return kind(_attribute(each, results) for each in value) if kind in (tuple, list) else value


def _is_same(now: Any, before: Any) -> bool:
    """Whether a value of an attribute consists of the same objects as before."""
    kind = type(before)
    if kind not in (tuple, list, dict) or type(now) is not kind:
        return now is before
    if kind is dict:
        return list(now) == list(before) and all(_is_same(now[key], each) for key, each in before.items())
    return len(now) == len(before) and all(map(_is_same, now, before))


class TracedFunction(torch.autograd.Function):
    """A user's Function with traced forward and backward; perhaps one backward more, for grad mode on."""

    @staticmethod
    def forward(ctx: Any, bodies: Sequence[Body], extras: Tensors, facts: FunctionFacts, *inputs: torch.Tensor) -> Any:
        results = bodies[0](*(inputs[at] for at in facts.distinct), *extras)
        vars(ctx).update(_attribute(facts.attributes, results))
        backwards = {mode: (body, wanted) for body, (mode, wanted) in zip(bodies[1:], facts.modes)}
        from_saved = frozenset(facts.saved) if facts.reads_saved else ()
        kept = tuple(None if at in from_saved else results[at] for at in facts.kept)
        ctx._traced = _State(facts, backwards, kept, _attribute(facts.attributes, results))
        ctx.save_for_backward(*(None if at is None else results[at] for at in facts.saved))
        if facts.dirty:
            ctx.mark_dirty(*(results[at] for at in facts.dirty))
        if not facts.materializes:
            ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(results[at] for at in facts.non_differentiable))
        outputs = iter(results)
        return tuple(next(outputs) if is_tensor else None for is_tensor in facts.outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        facts = ctx._traced.facts
        is_outdated = facts.called.were_changed() or not _is_same(vars(ctx), ctx._traced.attributes)
        can_run = facts.has_all_attributes and facts.function() is not None
        given = tuple(itertools.compress(gradients, facts.outputs))
        is_undefined = not facts.materializes and any(each is None for each in given)
        if is_outdated or is_undefined or can_run and not all(map(is_plain, given)):
            return (None,) * _FIRST_INPUT + tuple(_call_users_backward(ctx, gradients))
        backwards = ctx._traced.backwards
        body, wanted = backwards.get(torch.is_grad_enabled()) or backwards[False]
        values = _values(ctx)
        return (None,) * _FIRST_INPUT + tuple(body(*given, *(values[at] for at in wanted)))


class OnceTracedFunction(TracedFunction):
    """A `TracedFunction` whose backward is ``once_differentiable``."""

    backward = staticmethod(once_differentiable(TracedFunction.backward))  # type: ignore[assignment]


@functools.cache
def traced_function(name: str, once: bool) -> Any:
    """A subclass with the name of the user's class, which errors and ``grad_fn`` show."""
    base = OnceTracedFunction if once else TracedFunction
    metaclass: Any = type(base)
    created = metaclass(name, (base,), {})
    members = {"__module__": BackwardCFunction.__module__, "_forward_cls": created}
    node = type(f"{name}Backward", (TracedNode,), members)
    node._autograd_function_id = created._backward_cls._autograd_function_id  # type: ignore[attr-defined]
    created._backward_cls = node
    return created
