"""``functools.lru_cache``: a call of a cached function returns the object in its cache, and the entry is guarded.

So a result is the same object as in eager, and the guard fails once the entry is evicted or cleared. If the cache has
no entry yet, the function runs once during tracing, as it would have run in eager. Applying ``lru_cache`` inside a
traced function breaks the graph.

A function that is called with symbolic numbers is traced through, as if it weren't cached. This assumes that its result
depends on nothing but its arguments. Where the trace shows otherwise (it has effects), or the identity of the result
matters, the numbers are specialized, and the cache is read.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import (
    CacheCreated,
    EffectInOperatorFunction,
    UncachedCall,
    UnknownCall,
    UnsupportedOperation,
)
from dynamo_lite.records.guards import Assumed
from dynamo_lite.records.restart import specialize_before
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous
from dynamo_lite.runtime.precomputed_calls import InOrder, OutOfOrder
from dynamo_lite.variables.core.attributes import MethodVariable, binds, class_attribute
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.reachable import reachable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.run_now import is_first_to_draw, why_not_now
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type
from dynamo_lite.variables.python.containers.sequences import SizeVariable, TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber, SymNodeVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable

WRAPPER: type = functools._lru_cache_wrapper


def _cache_of(wrapper: object) -> dict[Any, Any]:
    """The dict of a wrapper's entries: results, or links of a linked list if the cache's size is limited. It is the
    last dict among the referents, behind the cached results, which may be dicts too."""
    attributes = wrapper.__dict__
    referents = reversed(gc.get_referents(wrapper))
    return next(each for each in referents if type(each) is dict and each is not attributes)


def _keyword_mark() -> object:
    """The object that separates positional from keyword arguments in a key."""

    @functools.lru_cache(None)
    def probe(**named: object) -> None:
        return None

    probe(a=1)
    return next(iter(_cache_of(probe)))[0]


_MARK = _keyword_mark()


def _key_of(args: Sequence[object], named: Mapping[str, object], typed: bool) -> Hashable:
    """The key of a call."""
    key = functools._make_key(tuple(args), dict(named), typed, (_MARK,))
    return tuple(key) if isinstance(key, list) else key


def _result_of(wrapper: object, key: object, link: object) -> Any:
    """The result in a link of a cache of limited size. It is read from the wrapper's referents, since a call of
    the wrapper would count as a hit."""
    referents = gc.get_referents(wrapper)
    at = next(at for at, each in enumerate(referents) if each is key and referents[at + 2] is type(link))
    return referents[at + 1]


class CachedFunctionVariable(UserObjectVariable):
    """A pre-existing cached function."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if any(map(_has_symbolic_number, (*args, *kwargs.values()))):
            result = self._trace_through(tx, args, kwargs)
            if result is not None:
                return result
        if tx.effects.in_body and not tx.effects.shared_results.in_cached_call:  # it runs later, or more than once
            unsupported(EffectInOperatorFunction(f"it calls {self.describe()}, which counts its hits and misses"))
        values = [arg.cache_key(tx) for arg in args]
        named = {name: value.cache_key(tx) for name, value in kwargs.items()}
        if not hasattr(self.value, "cache_parameters"):
            unsupported(UnknownCall(self.describe(), "it was not made by functools.lru_cache"))
        parameters = self.value.cache_parameters()
        cache = _cache_of(self.value)
        try:
            key = _key_of(values, named, parameters["typed"])
            cache_and_hash = id(cache), hash(key)
        except TypeError:  # of what is in a tuple or a typing alias
            unsupported(UncachedCall(self.describe(), "an argument can't be hashed"))
        entry = self.value, key
        if key not in cache:
            tx.guards.cache_misses[cache_and_hash] = Assumed((("const", cache),), [("dict_lacks", key)])
            self._run(tx, values, named, len(cache) == parameters["maxsize"])
            del tx.guards.cache_misses[cache_and_hash]
            if key not in cache:
                unsupported(UncachedCall(self.describe(), "its cache has maxsize=0"))
            tx.attempt.ahead.filled.append(entry)
        is_repeated = any(isinstance(each, CacheHit) and each.entry == entry for each in tx.effects.noted)
        was_called = entry in tx.attempt.ahead.filled and not is_repeated
        if not tx.effects.shared_results.in_cached_call:
            tx.effects.note(CacheHit(values, named, entry, was_called))
        key = next(each for each in cache if each == key)  # the cache's own object: a guard finds it by identity
        place = tx.guards.const(cache).child("dict_item", key)
        if parameters["maxsize"] is None:
            return LazyVariable(tx.attempt, cache[key], place).realize()
        place.check("id", cache[key])
        result = _result_of(self.value, key, cache[key])
        return tx.attempt.values.wrap(result, tx.guards.const(result))  # not `make`, which would copy a container

    def _trace_through(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        """The result of tracing the function's body. None: the numbers have to be specialized."""
        step, function = tx.attempt.steps, self.value.__wrapped__
        if step in tx.attempt.restart_facts.numbers.steps or type(function) is not types.FunctionType:
            return None
        named = tuple((name, _part_of_key(tx, value)) for name, value in kwargs.items())
        key = id(self.value), tuple(_part_of_key(tx, arg) for arg in args), named
        known = tx.effects.shared_results.known(key)
        if known is not None:
            return known
        try:
            outside = set(reachable([*args, *kwargs.values()]))
            with tx.effects.shared_results.cached_call(), tx.effects.forbidden(outside):
                result = tx.call(tx.make(function), args, kwargs).realize()
            created = _created_containers(result)
        except (Unsupported, NotConstant):
            specialize_before(step)
        if created is None:
            specialize_before(step)
        tx.effects.shared_results.add(key, result, created, step)
        return result

    def _run(self, tx: Translator, args: list[Any], named: dict[str, Any], is_full: bool) -> None:
        """Call the function to fill its cache. Breaks the graph if the trace has deferred an effect that
        precedes the call in eager."""
        if is_full:
            unsupported(UncachedCall(self.describe(), "its cache is full"))
        function, ahead = self.value.__wrapped__, tx.attempt.ahead
        in_python = type(function) is types.FunctionType
        given = [*args, *named.values()]
        if reason := why_not_now(tx, function if in_python else None, given):
            unsupported(UncachedCall(self.describe(), reason))
        if not (ahead.may_run(function) if in_python else isinstance(function, types.BuiltinFunctionType)):
            unsupported(UncachedCall(self.describe(), "it may raise"))
        try:
            with unset_fake_temporarily(), InOrder(may_draw=is_first_to_draw(tx)):
                self.value(*args, **named)
        except OutOfOrder as error:
            unsupported(UncachedCall(self.describe(), str(error)))
        except Exception as error:  # the program's own: it is raised once more where CPython makes the call
            reraise_if_asynchronous(error)
            if in_python:
                ahead.raised(function, args, named, error)
            unsupported(UncachedCall(self.describe(), f"it raises {type(error).__name__}"))

    def describe(self) -> str:
        return f"the cached function {getattr(self.value, '__qualname__', '')}".rstrip()

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        unsupported(UnsupportedOperation(f"{name}()", self.describe()))


def _has_symbolic_number(value: VariableTracker) -> bool:
    value = value.realize()
    if type(value) in (TupleVariable, SizeVariable):
        return any(map(_has_symbolic_number, value.structure_items() or ()))
    return isinstance(value, SymbolicNumber)


def _part_of_key(tx: Translator, value: VariableTracker) -> Hashable:
    """An argument, or an item of one, as a part of a key in which symbolic numbers stand for themselves."""
    value = value.realize()
    if type(value) in (TupleVariable, SizeVariable):
        return tuple, tuple(_part_of_key(tx, item) for item in value.structure_items() or ())
    if isinstance(value, SymNodeVariable):
        return SymNodeVariable, value.number.node.expr
    if isinstance(value, SymbolicNumber):
        return SymbolicNumber, value
    constant = value.cache_key(tx)
    return type(constant), constant


def _created_containers(result: VariableTracker) -> list[VariableTracker] | None:
    """The containers in a result that its call created. None: it created something else than containers of numbers and
    strings."""
    created, left = [], [result]
    while left:
        value = left.pop().realize()
        is_scalar = value.is_constant() or value.python_type() in (int, float, bool, str)
        if is_scalar or value.source is not None or value in created:
            continue
        if value.python_type() not in (tuple, list, dict, torch.Size):
            return None
        created.append(value)
        left += value.structure_items() or ()
    return created


class CacheHit:
    """A call of a cached function, which is replayed: it counts as a hit, and decides which entry is evicted next.
    ``entry``: the wrapper and the key; ``was_called``: tracing has called it once, in place of the first replay."""

    def __init__(self, args: Sequence[Any], named: Mapping[str, Any], entry: tuple[Any, Any], was_called: bool) -> None:
        self.entry = entry
        self._call = functools.partial(entry[0], *args, **named)
        self._was_called = was_called

    def replay(self, plan: Planner) -> None:
        plan.do(self._call_but_first if self._was_called else self._call)

    def _call_but_first(self) -> None:
        if self._was_called:
            self._was_called = False
        else:
            self._call()


wraps_type(WRAPPER)(CachedFunctionVariable.by_identity)


@binds(WRAPPER)
def _bind_cached(tx: Translator, raw: Any, name: str, obj: Any, cls: type, owner: type) -> VariableTracker:
    return MethodVariable(class_attribute(tx, owner, name, raw), obj)


@models(WRAPPER)
def _create(tx: Translator, *args: VariableTracker) -> VariableTracker:
    unsupported(CacheCreated())
