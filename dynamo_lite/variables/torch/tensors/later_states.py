"""What a body that runs later (a backward, a tensor's hook) may read of a tensor: what is the same whenever it runs.

When such a body is traced, its gradients don't exist. Their strides, whether they require gradients, the default dtype
of that time are unknown, and so are those of whatever is computed from them. A body is traced for one *state*. When it
reads something of a tensor (`certain`), its graph is computed for each of the other states too, on fake tensors. If the
result is the same in all of them, it is certain. Otherwise the tracing of the body ends: the graph breaks.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
import torch.fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors

from dynamo_lite.insight.break_reasons import UnknownInBackward
from dynamo_lite.records.captured_warnings import CAPTURED_WARNINGS
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.subgraphs import BACKWARD, Runs, Scope
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.shapes.symbols import SYMBOLIC
from dynamo_lite.variables.core.base import Translator, unsupported

from .fake_computation import OPERATOR_ERRORS, call_on_fakes, operator_name
from .known_tensors import GraphTensor, KnownTensors
from .runtime_failures import is_handled_later

_Result = TypeVar("_Result")
_Value = tuple[torch.fx.Node, torch.Tensor]
"""A node, and its fake tensor in the state for which the body is traced."""


# -- the states --------------------------------------------------------------------------------------------------------


class _State(NamedTuple):
    """``layout``: of the gradients. ``has_history``: whether tensors from outside of the body require gradients; None:
    as in the call. ``are_leaves``: whether those are leaves. ``other_dtype``: whether the default dtype isn't that of
    the call. ``other_mode``: whether the grad mode isn't that for which the body is traced."""

    layout: str = "contiguous"
    has_history: bool | None = False
    are_leaves: bool = False
    other_dtype: bool = False
    other_mode: bool = False


_TRACED = _State()
_OTHERS = (
    *(_State(layout) for layout in ("expanded", "transposed", "channels last", "padded")),
    _State(has_history=True),
    _State(other_dtype=True),
)
_OTHER_MODES = (_State(other_mode=True), _State(has_history=True, other_mode=True))
"""The backward of a Function that depends on the grad mode is traced for each."""

_OF_REENTRANT_CHECKPOINT = (_State(has_history=None, other_mode=True), _State(has_history=None, are_leaves=True))
"""In the call it runs without gradients; in the backward with them, and with detached arguments."""


def gradient_like(fake: torch.Tensor, has_history: bool) -> torch.Tensor:
    """A fake gradient of a tensor, in the state for which bodies are traced."""
    return _gradient(fake, _TRACED._replace(has_history=has_history))


def _gradient(fake: torch.Tensor, state: _State) -> torch.Tensor:
    sizes, has_history = list(fake.shape), bool(state.has_history)
    if state.layout == "expanded":
        return _fresh(fake, [], has_history).expand(sizes)
    if state.layout == "transposed":
        return _fresh(fake, sizes[::-1], has_history).permute([*reversed(range(len(sizes)))])
    if state.layout == "channels last" and len(sizes) in (4, 5):
        order = [0, *range(2, len(sizes)), 1]
        back = sorted(range(len(sizes)), key=order.__getitem__)
        return _fresh(fake, [sizes[dim] for dim in order], has_history).permute(back)
    if state.layout == "padded":
        padded = _fresh(fake, [*sizes, 2], has_history)
        return padded.select(-1, 1)
    return _fresh(fake, sizes, has_history)


def _fresh(
    fake: torch.Tensor, sizes: list[int], has_history: bool, strides: tuple[int, ...] = (), is_leaf: bool = False
) -> torch.Tensor:
    """A new tensor of these sizes."""
    with torch.no_grad():
        if strides:
            created = torch.empty_strided(sizes, strides, dtype=fake.dtype, device=fake.device)
        else:
            created = torch.empty(sizes, dtype=fake.dtype, device=fake.device)
    if not has_history or not (fake.is_floating_point() or fake.is_complex()):
        return created
    with torch.enable_grad():
        return created.requires_grad_() if is_leaf else created.requires_grad_().clone()


# -- computing a body for another state --------------------------------------------------------------------------------


class _Unknown(Exception):
    """A value can't be computed for another state."""


class _Raises(Exception):
    """An operator raises in another state. There the program doesn't get as far as reading its result."""


class Replay:
    """A body computed for another state, as far as it is recorded."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.values: dict[torch.fx.Node, Any] = {}
        self.failed: set[torch.fx.Node] = set()
        self.grad_modes: dict[torch.fx.Graph, bool] = {}

    def run(self, bodies: Sequence[Scope]) -> None:
        """Compute what was recorded since the last call. ``bodies``: the body, and those inside of it that are still
        being recorded."""
        before = torch.is_grad_enabled()
        try:
            for body in bodies:
                outside = {inner: outer for outer, inner in body.lifted.items()}
                torch._C._set_grad_enabled(self.grad_modes.get(body.graph, self._mode(body)))
                for node in body.graph.nodes:
                    if node not in self.values and node not in self.failed:
                        self._compute(node, outside.get(node), body.is_backward)
                self.grad_modes[body.graph] = torch.is_grad_enabled()
        finally:
            torch._C._set_grad_enabled(before)

    def _mode(self, body: Scope) -> bool:
        return body.initial_grad_mode is not self.state.other_mode

    def value(self, node: torch.fx.Node, example: object) -> Any:
        """The value of a node, which is this one in the traced state."""
        if node in self.failed:
            raise _Raises
        if node not in self.values:
            self.values[node] = self._of_forward(example)
        return self.values[node]

    def operands(self, args: Any) -> Any:
        """Arguments with the values of their nodes."""
        return torch.fx.node.map_arg(args, lambda node: self.value(node, node.meta.get("example_value")))

    def _compute(self, node: torch.fx.Node, outer: torch.fx.Node | None, takes_gradients: bool) -> None:
        example: Any = node.meta.get("example_value")
        if outer is not None:
            self.values[node] = self.value(outer, example)
        elif node.op == "placeholder":
            if not takes_gradients:
                raise _Unknown
            self.values[node] = _gradient(example, self.state)
        elif node.op == "get_attr" or isinstance(example, SYMBOLIC):
            self.values[node] = example
        elif not self.failed.isdisjoint(node.all_input_nodes):
            self.failed.add(node)
        else:
            self._call(node)

    def _of_forward(self, example: object) -> Any:
        """A value from outside of the body."""
        if type(example) is not FakeTensor:  # operators of a backward don't mutate wrapper subclasses
            return example
        has_history = example.requires_grad if self.state.has_history is None else self.state.has_history
        is_leaf = self.state.are_leaves or self.state.has_history is None and example.is_leaf
        return _fresh(example, list(example.shape), has_history, example.stride(), is_leaf)

    def _call(self, node: torch.fx.Node) -> None:
        is_factory = node.target in _device_constructors()
        if not (node.all_input_nodes or is_factory or node.target is torch._C._set_grad_enabled):
            raise _Unknown  # it may enter a context
        args, kwargs = self.operands((node.args, node.kwargs))
        try:
            self.values[node] = self.computed(node.op, node.target, args, kwargs)
        except _Raises:
            self.failed.add(node)

    def computed(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """An operator's result on fake tensors."""
        try:
            found = call_on_fakes(kind, target, list(args), kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            raise _Unknown from None
        except OPERATOR_ERRORS:
            raise _Raises from None
        is_of_default = self.state.other_dtype and not any(map(_has_float_dtype, pytree.tree_leaves((args, kwargs))))
        return pytree.tree_map(_in_other_dtype, found) if is_of_default else found


def _has_float_dtype(operand: object) -> bool:
    """Whether an operand decides that an operator's result doesn't have the default dtype."""
    dtype = operand.dtype if isinstance(operand, torch.Tensor) else operand
    return isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)


def _in_other_dtype(value: Any) -> Any:
    """A result that has the default dtype, or is it, with another default dtype."""
    dtype = value.dtype if isinstance(value, torch.Tensor) else value
    other = _OTHER_DTYPES.get(dtype) if isinstance(dtype, torch.dtype) else None
    if other is None or dtype.to_real() is not torch.get_default_dtype():
        return value
    return value.to(other) if isinstance(value, torch.Tensor) else other


_OTHER_DTYPES = {
    each: torch.complex32 if each.is_complex else torch.float16
    for each in (torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128)
}
"""Half precision is rarely the default."""


# -- reads -------------------------------------------------------------------------------------------------------------


def certain(tx: Translator, what: str, read: Callable[..., _Result], *tensors: GraphTensor) -> _Result:
    """What a function reads of fake tensors. Breaks the graph if that is unknown, as the body runs later."""
    found = read(*(each.fake for each in tensors))
    if not _is_certain(tx, found, lambda replay: read(*(replay.value(each.node, each.fake) for each in tensors))):
        unsupported(UnknownInBackward(what))
    return found


def check_in_body(
    tx: Translator,
    kind: str,
    target: object,
    operands: tuple[Any, Any],
    fake: object,
    read: Iterable[torch.Tensor],
    mutated: Iterable[torch.Tensor],
) -> Any:
    """Check an operator that isn't recorded yet: it may depend on what is unknown. Returns its result.

    Args:
        operands: the arguments and keyword arguments, with nodes.
        fake: the result in the state for which the body is traced.
        read: the tensors whose data it reads.
        mutated: the tensors that it has mutated.
    """
    if not tx.graph.scope.later(*_UNKNOWN):
        return fake
    _check_data(tx, operator_name(target), read)
    if is_handled_later(tx):
        _check_failure(tx, kind, target, operands)
    if mutated:
        _note_writes(tx, mutated)
        return fake
    return _result(tx, kind, target, operands, fake)


def check_returned(tx: Translator, fakes: Iterable[torch.Tensor]) -> None:
    """Break the graph if it is unknown whether a result of the body has what was written before."""
    _check_data(tx, "return", fakes)


def _result(tx: Translator, kind: str, target: object, operands: tuple[Any, Any], fake: Any) -> Any:
    """The result of an operator that isn't recorded yet: the fake one, or a copy of it if that is an existing tensor
    (as that of ``contiguous()``), but not whenever the body runs. Breaks the graph if it is another unknown value."""
    known = tx.attempt.state(KnownTensors).of(fake)
    is_tensor = isinstance(fake, (torch.Tensor, list)) or isinstance(fake, tuple) and _has_tensors(fake)
    if known is None and (is_tensor or fake is None or _is_new(tx.graph, fake)):
        return fake

    def call(replay: Replay) -> object:
        again = replay.computed(kind, target, *replay.operands(operands))
        return again is replay.value(known.node, fake) if known is not None else again

    if _is_certain(tx, fake if known is None else True, call):
        return fake
    if known is None:
        unsupported(UnknownInBackward(f"{operator_name(target)}()"))
    return fake.clone()


def _has_tensors(values: Iterable[object]) -> bool:
    return any(isinstance(each, torch.Tensor) for each in values)


def _is_new(graph: GraphBuilder, fake: object) -> bool:
    """Whether it is a number that the graph computes from data."""
    return isinstance(fake, SYMBOLIC) and bool(graph.symbols.is_new(fake))


def _check_failure(tx: Translator, kind: str, target: object, operands: tuple[Any, Any]) -> None:
    """Break the graph if an operator that isn't recorded yet raises in some states, and the body handles that."""

    def runs(replay: Replay) -> bool:
        given = replay.operands(operands)
        try:
            replay.computed(kind, target, *given)
        except _Raises:
            return False
        return True

    if not _is_certain(tx, True, runs):
        unsupported(UnknownInBackward(f"whether {operator_name(target)} raises"))


def _note_writes(tx: Translator, mutated: Iterable[torch.Tensor]) -> None:
    """Note writes into what is a gradient's memory in some states, and a copy in others (as ``flatten()`` is)."""
    body = tx.graph.scope.later(*_UNKNOWN)
    assert body is not None
    given = [(node, node.meta["example_value"]) for node in body.parameters]
    for fake in mutated:
        tracker = tx.attempt.state(KnownTensors).of(fake)
        assert tracker is not None
        written = tracker.node, fake
        if not all(_shares_always_or_never(tx, written, each) for each in given):
            body.uncertain_writes.append(written)


def _check_data(tx: Translator, name: str, fakes: Iterable[torch.Tensor]) -> None:
    """Break the graph if it is unknown whether a tensor has what was written before."""
    body = tx.graph.scope.later(*_UNKNOWN)
    for written in () if body is None else body.uncertain_writes:
        for fake in fakes:
            known = tx.attempt.state(KnownTensors).of(fake)
            if known is not None and not _shares_always_or_never(tx, written, (known.node, fake)):
                unsupported(UnknownInBackward(f"whether an operand of {name} was written into"))


def _shares_always_or_never(tx: Translator, one: _Value, other: _Value) -> bool:
    def read(replay: Replay) -> bool:
        return share_memory(replay.value(*one), replay.value(*other))

    return _is_certain(tx, share_memory(one[1], other[1]), read)


_UNKNOWN: tuple[Runs, ...] = (*BACKWARD, "reentrant")
"""Bodies in which metadata of tensors may be unknown. A non-reentrant checkpoint recomputes from the same tensors."""


class _Replays(weakref.WeakKeyDictionary[Scope, list[Replay]]):
    """Bodies as they would be computed in other states, those that run later and read something that may differ."""


def _is_certain(tx: Translator, found: object, read: Callable[[Replay], object]) -> bool:
    body = tx.graph.scope.later(*_UNKNOWN)
    if body is None:
        return True
    bodies = tx.graph.scope.nesting[len(body.nesting) - 1 :]
    is_reentrant = body.runs == "reentrant"
    states = _OF_REENTRANT_CHECKPOINT if is_reentrant else _OTHERS
    known = tx.attempt.state(_Replays)
    replays = known.get(body)
    if replays is None:
        replays = known[body] = [Replay(state) for state in (*states, *_OTHER_MODES)]
    others, modes = replays[: len(states)], replays[len(states) :]
    with CAPTURED_WARNINGS, tx.graph.symbols.without_guards():
        if not all(_agrees(replay, bodies, found, read) for replay in others):
            return False
        if is_reentrant or all(_agrees(replay, bodies, found, read) for replay in modes):
            return True
    tx.graph.read_grad_mode()
    return body.runs != "hook"


def _agrees(replay: Replay, bodies: Sequence[Scope], found: object, read: Callable[[Replay], object]) -> bool:
    """Whether a read has the same result in another state, if the program gets there."""
    try:
        replay.run(bodies)
        return _equal(found, read(replay))
    except _Unknown:
        return False
    except _Raises:
        return True


def _equal(one: object, other: object) -> bool:
    if isinstance(one, SYMBOLIC) or isinstance(other, SYMBOLIC):
        return type(one) is type(other) and one.node.expr == other.node.expr  # type: ignore[attr-defined]
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and one == other
