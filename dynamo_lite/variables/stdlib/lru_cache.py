"""``functools.lru_cache``: what a cached function returns is what its cache holds, found without running it.

Of a cache that exists the entry is read and guarded, so that a result is the same object as in eager, and one that was
evicted or cleared is missed. Where there is no entry yet the function runs while tracing, once, as it would have run.
Symbolic numbers among the arguments are specialized.
"""

from __future__ import annotations

import functools
import gc
import types
from collections import OrderedDict
from typing import Any

from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedOperation
from dynamo_lite.records.guards import Assumed
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.interrupts import reraise_if_from_signal
from dynamo_lite.variables.core.attributes import MethodVariable, binds, class_attribute
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    LazyVariable,
    NotConstant,
    VariableTracker,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import key_of
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequence import NamedTupleVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable

WRAPPER: type = functools._lru_cache_wrapper


def _cache_of(wrapper: Any) -> dict[Any, Any]:
    """The dict in which a cache holds its entries (links of a list, where its size is limited). Cached results, which
    may be dicts too, come before it."""
    attributes = wrapper.__dict__
    held = reversed(gc.get_referents(wrapper))
    return next(each for each in held if type(each) is dict and each is not attributes)


def _keyword_mark() -> Any:
    """What stands between the positional and the keyword arguments of a key."""

    @functools.lru_cache(None)
    def probe(**named: Any) -> None:
        return None

    probe(a=1)
    return next(iter(_cache_of(probe)))[0]


_MARK = _keyword_mark()


def make_key(args: list[Any], named: dict[str, Any], kinds: list[type] | None) -> Any:
    """The key of a call. ``kinds``: the arguments' types, where the cache tells them apart."""
    if kinds is None and not named and len(args) == 1 and type(args[0]) in (int, str):
        return args[0]
    parts = [*args]
    if named:
        parts.append(_MARK)
        for name, value in named.items():
            parts += [name, value]
    return tuple([*parts, *(kinds or ())])


def _result_of(wrapper: Any, key: Any, link: Any) -> Any:
    """What a link of a cache of limited size holds; calling the function would count as a hit."""
    held = gc.get_referents(wrapper)
    at = next(at for at, each in enumerate(held) if each is key and held[at + 2] is type(link))
    return held[at + 1]


class CachedVariable(UserObjectVariable):
    """A cached function that exists."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        values = [arg.cache_key(tx) for arg in args]
        named = {name: value.cache_key(tx) for name, value in kwargs.items()}
        if not hasattr(self.value, "cache_parameters"):
            unsupported(UnknownCall(self.describe(), "its cache is not one of functools.lru_cache"))
        parameters = self.value.cache_parameters()
        kinds = [type(each) for each in [*values, *named.values()]] if parameters["typed"] else None
        cache, key = _cache_of(self.value), make_key(values, named, kinds)
        early = self.value, key
        if key not in cache:
            entry = id(cache), hash(key)
            tx.guards.unfilled[entry] = Assumed((("const", cache),), [("dict_lacks", key, None)])
            self._run(tx, values, named, len(cache) == parameters["maxsize"])
            del tx.guards.unfilled[entry]
            if key not in cache:
                unsupported(UnknownCall(self.describe(), "its cache keeps nothing"))
            tx.attempt.ahead.filled.append(early)
        again = any(isinstance(each, CacheHit) and each.of == early for each in tx.effects.noted)
        counted = early in tx.attempt.ahead.filled and not again
        tx.effects.note(CacheHit(self.value, tuple(values), named, early, counted))
        key = next(each for each in cache if each == key)  # its own object: a guard finds it without comparing
        place = tx.guards.const(cache).child("dict_item", key)
        if parameters["maxsize"] is None:
            return LazyVariable(tx.attempt, cache[key], place).realize()
        place.check("id", cache[key])
        result = _result_of(self.value, key, cache[key])
        return tx.attempt.values.wrap(result, tx.guards.const(result))  # the object itself, containers too

    def _run(self, tx: Translator, args: list[Any], named: dict[str, Any], full: bool) -> None:
        """Fill the cache: nothing that the trace has put off may have to happen before."""
        if full:
            unsupported(UnknownCall(self.describe(), "it has to run, and its cache is full"))
        did = not tx.effects.empty or tx.graph.mutates_inputs or tx.graph.replaced
        if did or tx.attempt.before_graph.draws:
            unsupported(UnknownCall(self.describe(), "it has to run for its cache, after what the program did before"))
        function, ahead = self.value.__wrapped__, tx.attempt.ahead
        in_python = type(function) is types.FunctionType
        if (
            not in_python
            and not isinstance(function, types.BuiltinFunctionType)
            or (in_python and not ahead.may_run(function))
        ):
            unsupported(UnknownCall(self.describe(), "it has to run for its cache, and may raise"))
        try:
            with unset_fake_temporarily():
                self.value(*args, **named)
        except Exception as error:  # the program's own: it is raised once more where CPython makes the call
            reraise_if_from_signal(error)
            if in_python:
                ahead.raised(function, args, named, error)
            _C.take_miss_back(self.value)
            unsupported(UnknownCall(self.describe(), f"it raised {type(error).__name__}"))

    def describe(self) -> str:
        return f"the cached function {getattr(self.value, '__qualname__', 'of a cache')}"

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        unsupported(UnsupportedOperation(f"{name}()", self.describe()))


class CacheHit:
    """A call that the program makes each time: it counts as a hit, and the entry is evicted later for it.
    ``of``: the function and its key; ``counted``: the first one was made while tracing."""

    def __init__(
        self, wrapper: Any, args: tuple[Any, ...], named: dict[str, Any], of: tuple[Any, Any], counted: bool
    ) -> None:
        self.of = of
        self.call: Any = functools.partial(wrapper, *args, **named)
        if counted:
            self.call = _AllButFirst(self.call)

    def replay(self, cg: Codegen) -> None:
        cg.call(self.call, [])
        cg.pop_top()


class _AllButFirst:
    def __init__(self, call: Any) -> None:
        self._call = call
        self._first = True

    def __call__(self) -> None:
        if self._first:
            self._first = False
        else:
            self._call()


@wraps_type(WRAPPER)
def _wrap_cached(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    source.check("id", value)
    return CachedVariable(value, WRAPPER, source)


@binds(WRAPPER)
def _bind_cached(tx: Translator, raw: Any, name: str, obj: Any, cls: type, owner: type) -> VariableTracker:
    function = class_attribute(tx, owner, name, raw)
    return function if obj is None else MethodVariable(function, obj)


# -- made inside -------------------------------------------------------------------------------------------------------


class NewCacheVariable(UserObjectVariable):
    """A cached function that was made inside. ``entries``: oldest first."""

    __slots__ = ("function", "maxsize", "typed", "entries", "hits", "misses")

    def __init__(self, function: VariableTracker, maxsize: int | None, typed: bool) -> None:
        super().__init__(None, WRAPPER)
        self.function = function
        self.maxsize = maxsize
        self.typed = typed
        self.clear()

    def clear(self) -> None:
        self.entries: OrderedDict[Any, VariableTracker] = OrderedDict()
        self.hits = self.misses = 0

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        trackers = [*args, *kwargs.values()]
        kinds = [each.python_type() for each in trackers] if self.typed else None
        named = {name: key_of(tx, each) for name, each in kwargs.items()}
        key = make_key([key_of(tx, arg) for arg in args], named, kinds)
        found = self.entries.get(key)
        if found is not None:
            self.hits += 1
            self.entries.move_to_end(key)
            return found
        self.misses += 1
        found = tx.call(self.function, args, kwargs).realize()
        if key not in self.entries and self.maxsize != 0:
            if self.maxsize is not None and len(self.entries) >= self.maxsize:
                self.entries.popitem(last=False)
            self.entries[key] = found
        return found

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "cache_clear" and not args:
            self.clear()
            return ConstantVariable(None)
        if name == "cache_info" and not args:
            facts = (self.hits, self.misses, self.maxsize, len(self.entries))
            return NamedTupleVariable([ConstantVariable(each) for each in facts], functools._CacheInfo)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Codegen) -> None:
        if self.hits or self.misses:
            raise NotConstant("a cached function that was made and called inside")

        def new() -> None:
            facts = (self.maxsize, self.typed, functools._CacheInfo)
            cg.call(
                WRAPPER, [lambda: cg.load(self.function), *(lambda each=each: cg.load_const(each) for each in facts)]
            )

        cg.make_then_fill(self, new, self.store_attributes)


@models(WRAPPER)
def _new_cache(
    tx: Translator, function: VariableTracker, maxsize: VariableTracker, typed: VariableTracker, info: VariableTracker
) -> VariableTracker:
    if info.as_constant() is not functools._CacheInfo:
        unsupported(UnsupportedOperation("functools.lru_cache()", "these arguments"))
    return NewCacheVariable(function, maxsize.as_constant(), tx.truth(typed))
