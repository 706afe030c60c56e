"""Cached functions that are given numbers which differ from call to call.

The function is traced, and so what it returns is known for other numbers too. The new code makes the call itself,
before its graph, as eager makes it: the cache counts and keeps what it would, and what it gives is held against what
the trace says. Where that is another thing (the function didn't go by its arguments alone) the frame is run as it is.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any, NoReturn

import torch

from dynamo_lite.codegen.rerun import Unexpected
from dynamo_lite.exc import Unsupported
from dynamo_lite.variables.core.base import Args, KnowMore, Kwargs, ObservedException, VariableTracker
from dynamo_lite.variables.core.constant import CONSTANT_TYPES, ConstantVariable
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import ListVariable, TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import ShapeNumber, SymbolicFloat, SymbolicNumber

_PLAIN = (*CONSTANT_TYPES, type(None))


class Recall:
    """A call. ``result``: what the trace takes it to give; ``first``: an earlier one of the same arguments."""

    def __init__(
        self, tx: Any, wrapper: Any, args: Args, named: Kwargs, result: VariableTracker, first: Recall | None
    ) -> None:
        self.wrapper = wrapper
        self.args = args
        self.named = named
        self.result = result
        self.first = first
        self.name = f"___recalled{len(tx.attempt.recalls)}"
        self.inner = [each for each in _containers(result) if each is not result]
        self.count = tx.effects.count

    def emit(self, cg: Any, load: Any) -> None:
        check = _recall if self.first is None else _recall_again
        loads = [functools.partial(_load, cg, each) for each in (*self.args, *self.named.values())]
        if self.first is None:
            loads.append(functools.partial(_load, cg, self.result))
        else:
            loads.append(functools.partial(cg.load_fast, self.first.name))
        cg.call(functools.partial(check, self.wrapper, tuple(self.named)), loads)
        cg.store_fast(self.name)

    def is_of(self, wrapper: Any, args: Args, named: Kwargs) -> bool:
        """Whether it is the same call."""
        if self.wrapper is not wrapper or len(self.args) != len(args) or list(self.named) != list(named):
            return False
        return all(map(_is_same, (*self.args, *self.named.values()), (*args, *named.values())))

    def keep(self, cg: Any) -> None:
        if self.first is None and self.result.contained() is not None:
            cg.keep(self.result, self.name)

    def tell_apart(self, attempt: Any, one: VariableTracker, other: VariableTracker) -> None:
        """The program asks whether these are one object: what a cache gives of other numbers may be."""
        if any(each is one or each is other for each in (self.result, *self.inner)):
            _give_known_numbers(attempt, self.wrapper)

    def check(self, attempt: Any, cg: Any) -> None:
        """What the cache holds is not to be changed by what the trace makes of its like, nor to be doubled."""
        changed = any(attempt.effects.last(each) > self.count for each in (self.result, *self.inner))
        if changed or any(map(cg.has_made, self.inner)):
            _give_known_numbers(attempt, self.wrapper)


def _recall(wrapper: Any, names: tuple[str, ...], *values: Any) -> Any:
    *given, expected = values
    found = _call(wrapper, names, given)
    if not _are_alike(found, expected):
        raise Unexpected
    return found


def _recall_again(wrapper: Any, names: tuple[str, ...], *values: Any) -> Any:
    *given, first = values
    found = _call(wrapper, names, given)
    if found is not first:
        raise Unexpected
    return found


def _call(wrapper: Any, names: tuple[str, ...], given: list[Any]) -> Any:
    count = len(given) - len(names)
    return wrapper(*given[:count], **dict(zip(names, given[count:])))


def _is_same(one: VariableTracker, other: VariableTracker) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, ShapeNumber) and isinstance(other, ShapeNumber):
        return bool(one.number.node.expr == other.number.node.expr)
    if isinstance(one, SymbolicFloat) and isinstance(other, SymbolicFloat):
        return one.of is other.of
    if isinstance(one, TupleVariable) and isinstance(other, TupleVariable):
        return len(one.items) == len(other.items) and all(
            _is_same(a.realize(), b.realize()) for a, b in zip(one.items, other.items)
        )
    if isinstance(one, ConstantVariable) and isinstance(other, ConstantVariable):
        return _are_alike(one.value, other.value)
    return one is other


def _are_alike(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(_are_alike, one, other))
    if type(one) is dict:
        return _are_alike([*one], [*other]) and _are_alike([*one.values()], [*other.values()])
    return type(one) in _PLAIN and (one is other or repr(one) == repr(other))


def recalled(tx: Any, wrapper: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The result of a call, of which some numbers may differ from call to call. Nothing that the trace has put off may
    have to happen before."""
    function, attempt = getattr(wrapper, "__wrapped__", None), tx.attempt
    given = [arg.realize() for arg in args]
    named = {name: value.realize() for name, value in kwargs.items()}
    known = attempt.shapes.floats and type(function) is types.FunctionType and hasattr(wrapper, "cache_parameters")
    if (
        not known
        or tx.graph.bodies
        or not tx.effects.empty
        or not all(_can_load(tx, each) for each in (*given, *named.values()))
    ):
        _give_known_numbers(attempt, wrapper)
    first = next((each for each in attempt.recalls if each.is_of(wrapper, given, named)), None)
    result = _traced(tx, wrapper, given, named) if first is None else first.result
    made = Recall(tx, wrapper, given, named, result, first)
    attempt.recalls.append(made)
    attempt.beforehand.append(made)
    return result


def _traced(tx: Any, wrapper: Any, args: Args, named: Kwargs) -> VariableTracker:
    """What the function says, which may do nothing else."""
    attempt = tx.attempt
    operators, draws = tx.graph.operators, len(attempt.beforehand)
    try:
        with tx.effects.forbidden(set()):
            result: VariableTracker = tx.call(tx.make(wrapper.__wrapped__), args, named).realize()
    except (Unsupported, ObservedException):
        _give_known_numbers(attempt, wrapper)
    if tx.graph.operators != operators or len(attempt.beforehand) != draws or not _is_plain(result):
        _give_known_numbers(attempt, wrapper)
    return result


def _give_known_numbers(attempt: Any, wrapper: Any) -> NoReturn:
    attempt.settlings.caches.add(id(wrapper))
    raise KnowMore


def _can_load(tx: Any, argument: VariableTracker) -> bool:
    """Whether it can be made before the graph, and the cache may hash and compare it."""
    if isinstance(argument, TupleVariable) and argument.python_type() in (tuple, torch.Size):
        return all(_can_load(tx, each.realize()) for each in argument.items)
    if isinstance(argument, SymbolicNumber):
        return not argument.hangs_on_data
    argument.cache_key(tx)
    return True


def _is_plain(result: VariableTracker) -> bool:
    """Whether it is made of constants and numbers."""
    result = result.realize()
    if isinstance(result, SymbolicNumber):
        return not result.hangs_on_data and isinstance(result, ShapeNumber)
    if isinstance(result, ConstantVariable):
        return type(result.value) in _PLAIN
    parts = _parts(result)
    return parts is not None and all(map(_is_plain, parts))


def _parts(of: VariableTracker) -> list[VariableTracker] | None:
    """What is in a container; None: it is none, or not of the plain ones."""
    if isinstance(of, (ListVariable, TupleVariable, DictVariable)) and of.python_type() in (list, tuple, dict):
        keys = [of.key_variable(key) for key in of.items] if isinstance(of, DictVariable) else []
        return [*keys, *(of.contained() or ())]
    return None


def _containers(of: VariableTracker) -> Iterator[VariableTracker]:
    of = of.realize()
    parts = _parts(of)
    if parts is not None:
        yield of
        for each in parts:
            yield from _containers(each)


def _load(cg: Any, of: VariableTracker) -> None:
    """As a value of its own: the code's locals hold nothing yet."""
    of = of.realize()
    if isinstance(of, SymbolicNumber):
        of.reconstruct(cg)
    elif of.source is not None:
        cg.load_source(of.source)
    elif isinstance(of, (ListVariable, TupleVariable)):
        for each in of.items:
            _load(cg, each)
        cg.build("LIST" if isinstance(of, ListVariable) else "TUPLE", len(of.items))
        if of.python_type() is torch.Size:
            as_tuple = cg.temp()
            cg.store_fast(as_tuple)
            cg.call(torch.Size, [functools.partial(cg.load_fast, as_tuple)])
    elif isinstance(of, DictVariable):
        for key, value in of.items.items():
            _load(cg, of.key_variable(key))
            _load(cg, value)
        cg.build("MAP", len(of.items))
    else:
        cg.load_const(of.as_constant())
