"""``options={"guard_filter_fn": fn}``: the user's function says which guards of an entry are left out.

It is torch.compile's option, and the functions of ``torch.compiler`` for it work here. What is left out is the user's
promise: nothing checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from dynamo_lite import _C
from dynamo_lite.exc import GuardFilterFailed
from dynamo_lite.records.guards import Guard, Guards
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous
from dynamo_lite.sources.source import Source

from .frame_identity import FrameIdentity

_GUARD_TYPES = {
    **dict.fromkeys(("tensor", "tensor_of_any_size", "tensor_without_size", "storage_offset"), "TENSOR_MATCH"),
    **dict.fromkeys(("equals", "bits", "payload"), "EQUALS_MATCH"),
    **dict.fromkeys(("set_items", "set_order"), "SET_CONTAINS"),
    "type": "TYPE_MATCH",
    "id": "ID_MATCH",
    "length": "SEQUENCE_LENGTH",
    "dict_keys": "DICT_KEYS_MATCH",
    "dict_has": "DICT_CONTAINS",
    "dict_lacks": "DICT_NOT_CONTAINS",
    "lacks_instance_dict_item": "NOT_PRESENT_IN_GENERIC_DICT",
    "same_as": "DUPLICATE_INPUT",
    "symbolic": "SHAPE_ENV",
}
"""Kind -> torch's name. Others have their own in capitals."""
_MISSING = object()


@dataclass(frozen=True)
class GuardedPlace:
    """Where a guarded value is: whether it is reached from a local variable, and through which modules."""

    is_local: bool
    modules: tuple[torch.nn.Module, ...]

    def is_unspecialized_nn_module(self) -> bool:
        """Whether it is a module, or reached through one."""
        return bool(self.modules)

    def is_unspecialized_builtin_nn_module(self) -> bool:
        """Whether one of these modules is torch's own, and no container."""
        return any(
            type(each).__module__.startswith(("torch.nn.modules.", "torch.ao."))
            and type(each).__module__ != torch.nn.modules.container.__name__
            for each in self.modules
        )


@dataclass(frozen=True)
class OriginalGuard:
    """The guard that a filter's entry describes, in our terms. `str` prints it."""

    name: str
    kind: str
    text: str
    source: GuardedPlace

    def __str__(self) -> str:
        return f"{self.name} {self.text}".strip()


@dataclass(frozen=True)
class GuardFilterEntry:
    """One guard, as a filter sees it: with the fields of torch's class of that name."""

    name: str
    """The place; empty: a fact of no single place."""
    has_value: bool
    value: object
    """Its value in the call that is compiled, if ``has_value``."""
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    """Whether the place isn't reached through an argument or the closure."""
    orig_guard: OriginalGuard


Filter = Callable[[Sequence[GuardFilterEntry]], Sequence[bool]]


def leave_guards_out(fn: Filter, guards: Guards, state: _C.GlobalState, frame: FrameIdentity) -> None:
    """Drop the guards for which the user's function returns False. What operators do with a tensor depends on torch's
    modes (autocast): where tensors are checked, these are.

    Raises:
        GuardFilterFailed: it raised, or didn't return a bool for each.
    """
    values = guards.values(frame.code, state, frame.view)
    each = [guard for guard in guards.each() if not _finds_forward(guard.source, frame)]
    entries = [_entry(guard, guards.is_tensor(guard.source), values, frame) for guard in each]
    try:
        kept = list(_C.call_watched(fn, entries))
    except Exception as error:
        reraise_if_asynchronous(error)
        raise GuardFilterFailed(f"raised {type(error).__name__}: {error}") from error
    if len(kept) != len(each) or not all(type(is_kept) is bool for is_kept in kept):
        raise GuardFilterFailed(f"is to return {len(each)} bools, one for each guard, not {kept!r:.80}")
    checks_tensors = any(is_kept and entry.guard_type == "TENSOR_MATCH" for is_kept, entry in zip(kept, entries))
    dropped = [guard for guard, is_kept in zip(each, kept) if not is_kept]
    guards.drop(guard for guard in dropped if guard.kind != "global_state" or not checks_tensors)


def _finds_forward(source: Source | None, frame: FrameIdentity) -> bool:
    """Whether a guard distinguishes modules in ``Module.__call__``, one code for modules of all classes."""
    if source is None or frame.code.co_filename != torch.nn.modules.module.__file__:
        return False
    way = source.way()
    owner = frame.arguments.get(way[0].arg) if way[0].kind == "local" else None
    leads_to_forward = type(way[-1].arg) is str and way[-1].arg == "forward"
    return isinstance(owner, torch.nn.Module) and (len(way) == 1 or leads_to_forward)


def _entry(guard: Guard, is_tensor: bool, values: Mapping[Source, object], frame: FrameIdentity) -> GuardFilterEntry:
    source = guard.source
    way = () if source is None else source.way()
    name = "" if source is None else str(source)
    derived = _GUARD_TYPES.get(guard.kind, guard.kind.upper())
    modules = (value for place in way if isinstance(value := values.get(place), torch.nn.Module))
    place = GuardedPlace(source is None or source.local_rooted, tuple(modules))
    value = _MISSING if source is None else values.get(source, _MISSING)
    return GuardFilterEntry(
        name=name,
        has_value=value is not _MISSING,
        value=value,
        guard_type="TENSOR_MATCH" if is_tensor and guard.kind == "type" else derived,
        derived_guard_types=(derived,),
        is_global=not place.is_local,
        orig_guard=OriginalGuard(name, guard.kind, guard.text, place),
    )
