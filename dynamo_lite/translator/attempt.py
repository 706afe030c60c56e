"""One attempt to translate a frame: the records that all its translators (the frame's and the inlined ones) share."""

from __future__ import annotations

import types
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NoReturn

import torch

from dynamo_lite import config
from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.guards import Guards
from dynamo_lite.records.provenance import Provenance
from dynamo_lite.records.runtime_assertions import Expected
from dynamo_lite.records.side_effects import SideEffects
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.precomputed_calls import RanAhead
from dynamo_lite.shapes.policy import Translated
from dynamo_lite.shapes.python_random import Draw
from dynamo_lite.variables.core.base import KnowMore, LazyVariable, NotConstant, VariableTracker, unsupported, wrap
from dynamo_lite.variables.core.constant import CONSTANT_TYPES, ConstantVariable
from dynamo_lite.variables.core.keys import KnownAddresses
from dynamo_lite.variables.python.classes.classes import module_of
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import ListVariable, SizeVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.containers.sets import set_of_constants
from dynamo_lite.variables.python.functions.function import GlobalScope
from dynamo_lite.variables.python.numbers.symbolic import make_number
from dynamo_lite.variables.python.objects.ordered_dict import OrderedDictVariable
from dynamo_lite.variables.python.objects.user_object import is_asked, wrap_opaque
from dynamo_lite.variables.torch.tensors.is_compiling_results import Answers
from dynamo_lite.variables.torch.tensors.specialize import settle

from .observable_lifetimes import Mortals
from .specializations import Settlings

_CONSTANTS = frozenset(CONSTANT_TYPES)


class Attempt:
    """Graph, guards, side effects and the trackers known so far. Dropped whole when an attempt is given up."""

    takes_wrappers = True
    """Whether the backend takes tensors that are made of others by their class."""
    has_wrappers = False
    """Whether the graph has some."""
    carries_integers = True
    """Whether the backend takes loops that do."""
    begins_in_block = False
    """Whether the frame goes on in a ``try`` or ``with``: what the graph raises is raised there."""
    frees_at_once = False
    """Whether a backward frees all that the backend's graph saved for backwards."""

    def __init__(
        self,
        namespace: dict[str, Any],
        builtins_namespace: dict[str, Any],
        shapes: Translated,
        ahead: RanAhead,
        settlings: Settlings | None = None,
    ) -> None:
        self.guards = Guards()
        self.graph = GraphBuilder()
        self.shapes = shapes
        self.effects = SideEffects(self.guards, VariableTracker)
        self.memo: dict[int, tuple[Any, VariableTracker]] = {}
        """id of a real object -> (the object, its tracker)."""
        self.fakes: dict[int, Any] = {}
        """id of a fake tensor -> its tracker."""
        self.root_namespace = namespace
        self.builtins_namespace = builtins_namespace
        self._scopes: dict[int, GlobalScope] = {}
        self._builtins: dict[str, LazyVariable] = {}
        self.innermost: Any = None
        """The translator that is at work."""
        self.steps = 0
        self.settlings = Settlings() if settlings is None else settlings
        self.pauses_at = self._next_pause()
        """The step before which there is more to be done than to take it."""
        self.kept_on_ctx: list[Any] = []  # mutable objects that were made inside and that a traced backward reads
        self.settled_sizes = False  # whether, when that was done last, sizes of tensors became known
        self.contexts: list[Any] = []  # those that are entered for real while tracing, outermost first
        self.ignoring: list[Any] = []  # blocks of `catch_warnings` that were entered inside, outermost first
        self.ahead = ahead
        """Calls that this and earlier attempts at the frame made."""
        self.written_classes: dict[int, Any] = {}  # id of a class that was written to -> its tracker
        self.made_before: dict[VariableTracker, Any] = {}  # made inside, but before the graph: the placeholder
        self.provenance = Provenance()
        self.plain_classes: set[tuple[Any, ...]] = set()
        """Ids of modules' classes, with names under which these were found, and guarded, to have what torch has."""
        self.reprs: list[VariableTracker] = []  # containers whose ``repr`` is under way
        self.expected: list[Expected] = []
        """Conditions on the data: where one is not so the frame is run again."""
        self.of_arrays: list[Any] = []  # tensors that were made of numpy's arrays
        self.draws: list[Draw] = []  # the random numbers of Python's that the call draws, in order
        self.has_handlers = False  # whether code that was traced has exception handlers
        self.answers = Answers(self.settlings.untold)  # what the program was told of being compiled
        self.initial_grad_mode = self.final_grad_mode = torch.is_grad_enabled()
        self.has_subclasses = False  # whether instances of classes with a ``__torch_function__`` are about
        self.mortals = Mortals()
        self.makers: list[Any] = []  # frames that make cells, which refer to them
        self.unasked = 0  # how many parts of the program are under way in which torch does not ask classes
        self.addresses = KnownAddresses()

    def let_data_stay(self, step: int) -> NoReturn:
        """Have another attempt leave it to CPython to give a tensor other data at this step."""
        self.settlings.data_stay.add(step)
        raise KnowMore

    @property
    def shows_failures(self) -> bool:
        """Whether a graph that raises can be told from an operator that raises at its own place: by the program, or by
        who reads the traceback. (It can't be run again where the graph writes into what the program has, unless that
        is put back.)"""
        graph = self.graph
        if graph.mutates_inputs:
            return graph.fails_handled
        return self.has_handlers or not self.effects.empty or graph.may_fail or bool(graph.replaced)

    @property
    def asks_classes(self) -> bool:
        """Whether torch's functions may ask a class now."""
        return self.has_subclasses and not self.unasked

    @property
    def filters_around(self) -> Any:
        """The filters of warnings under which the graph will run."""
        return self.ignoring[0].filters_before if self.ignoring else warnings.filters

    def note_class(self, cls: type) -> None:
        """An instance of a class, no tensor, is about."""
        if is_asked(cls) and torch._C._is_torch_function_enabled():
            self.has_subclasses = True

    def __enter__(self) -> Attempt:
        self.warns_always = torch.is_warn_always_enabled()
        if any(action == "error" for action, *_ in warnings.filters):  # raised here it must be raised again
            torch.set_warn_always(True)
        self.graph.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        """Put torch's state back as the attempt found it."""
        self.final_grad_mode = torch.is_grad_enabled()
        for context in reversed(self.contexts):
            context.leave()
        torch._C._set_grad_enabled(self.initial_grad_mode)
        self.graph.leave()
        if torch.is_warn_always_enabled() is not self.warns_always:
            torch.set_warn_always(self.warns_always)

    def close(self) -> None:
        """Let go of the program's objects: what is left of an attempt refers to itself and would keep them."""
        for each in (self.memo, self.fakes, self._scopes, self._builtins):
            each.clear()
        self.innermost = None
        for frame in (*self.makers, *(generator.frame for generator in self.provenance.generators)):
            frame.close()
        self.makers.clear()
        self.provenance.close()
        self.mortals.close()
        self.answers.close()
        self.written_classes.clear()
        self.made_before.clear()
        self.kept_on_ctx.clear()
        self.expected.clear()
        self.of_arrays.clear()
        self.draws.clear()
        self.contexts.clear()
        self.ignoring.clear()
        self.graph.inputs.clear()
        self.graph.made.clear()
        self.graph.symbols.close()
        self.effects.close()
        self.guards.close()
        del self.shapes  # it has the frame's variables

    def _next_pause(self) -> int:
        settles = self.settlings.first_after(self.steps)
        return config.unroll_limit + 1 if settles is None else settles

    def settle(self, operands: list[VariableTracker], where: Any) -> None:
        """Before this step: numbers that may differ from call to call are known from now on."""
        if self.settlings.is_at(self.steps, where):
            self.settled_sizes = settle(self.graph.symbols, operands, set())
        self.note_guards()
        self.pauses_at = self._next_pause()

    def note_guards(self) -> None:
        """What torch's ``ShapeEnv`` has come to assume is this place's doing."""
        self.graph.symbols.note_guards(self.innermost)

    def wrap(self, value: Any, source: Source) -> VariableTracker:
        return wrap(self, value, source)

    def seen_again(self, known: VariableTracker, value: Any, source: Source) -> VariableTracker:
        """A second place holds an object that is known already."""
        first = known.source
        if source is first:
            return known
        if source.kind == "const":
            if first is not None and first.kind != "const":
                first.check("id", value)
            return known
        if first is None or first.kind == "const" or known.known_by_identity:
            source.check("id", value)
        else:
            self.guards.same(source, first)
        return known

    def found_constant(self, value: Any, source: Source) -> ConstantVariable:
        """A constant of the program's data."""
        self.guards.constants.found(value, source)
        return ConstantVariable(value, source)

    def constant_tuple(self, value: tuple[Any, ...]) -> VariableTracker:
        """One of the code's: the same object each time."""
        known = self.memo.get(id(value))
        if known is None:
            items = [self.constant_tuple(item) if type(item) is tuple else self.make(item) for item in value]
            known = self.memo[id(value)] = value, TupleVariable(items, self.guards.const(value))
        return known[1]

    def source_of_constant(self, value: Any) -> Source | None:
        """Where this very object is, in the program's data or its code; None if the trace computed it."""
        constants = self.guards.constants
        return constants.place(value) or (self.guards.const(value) if constants.in_code(value) else None)

    def make(self, value: Any) -> VariableTracker:
        """The tracker of a value that was computed while tracing (or that a guarded fact implies)."""
        kind = type(value)
        if kind in _CONSTANTS:
            return ConstantVariable(value)
        maker = _MAKERS.get(kind)
        if maker is not None:
            return maker(self, value)
        return wrap(self, value, self.guards.const(value))

    def key_of(self, variable: VariableTracker) -> Any:
        """What stands for a key of a dict that was found; its hash must be known without running the program's code."""
        try:
            key = variable.key()
            hash(key)
        except (NotConstant, TypeError):
            unsupported(UnsupportedOperation("use as a dict's or set's key", variable.describe()))
        self.addresses.note(key)
        return key

    def opaque(self, value: Any, source: Source, why: str) -> VariableTracker:
        return wrap_opaque(self, value, source, why)

    def guard_globals(self, function: types.FunctionType, source: Source) -> None:
        """Functions with the same code as this one have the same globals."""
        source.child("c_attr", "__globals__").check("id", function.__globals__)

    @property
    def scopes(self) -> Iterable[GlobalScope]:
        """The globals that were looked at."""
        return self._scopes.values()

    def scope(self, namespace: dict[str, Any]) -> GlobalScope:
        """The globals of a function, one object for each dict."""
        found = self._scopes.get(id(namespace))
        if found is None:
            if namespace is self.root_namespace:
                source = self.guards.root.child("globals")
            else:
                module = module_of(namespace)
                source = (
                    self.guards.const(module).child("instance_dict")
                    if module is not None
                    else self.guards.const(namespace)
                )
            found = self._scopes[id(namespace)] = GlobalScope(self, namespace, source)
        return found

    def builtin(self, name: str) -> VariableTracker | None:
        """A name of the builtins module."""
        found = self._builtins.get(name)
        if found is None:
            namespace = self.guards.root.child("builtins")
            if name not in self.builtins_namespace:
                namespace.check("dict_lacks", name)
                return None
            source = namespace.child("dict_item", name)
            found = self._builtins[name] = LazyVariable(self, self.builtins_namespace[name], source)
        return found


def _make_dict(attempt: Attempt, value: dict[Any, Any], made: DictVariable | None = None) -> VariableTracker:
    made = DictVariable({}) if made is None else made
    for key, item in value.items():
        variable = attempt.make(key)
        raw = attempt.key_of(variable)
        if not isinstance(variable, ConstantVariable):
            made.keys[raw] = variable
        made.items[raw] = attempt.make(item)
    return made


def _make_ordered_dict(attempt: Attempt, value: OrderedDict[Any, Any]) -> VariableTracker:
    attributes = {name: attempt.make(each) for name, each in vars(value).items()}
    return _make_dict(attempt, value, OrderedDictVariable({}).with_attributes(attributes))


_MAKERS: dict[type, Any] = {
    tuple: lambda attempt, value: TupleVariable([attempt.make(item) for item in value]),
    list: lambda attempt, value: ListVariable([attempt.make(item) for item in value]),
    torch.Size: lambda attempt, value: SizeVariable([attempt.make(item) for item in value]),
    slice: lambda attempt, value: SliceVariable([attempt.make(p) for p in (value.start, value.stop, value.step)]),
    dict: _make_dict,
    OrderedDict: _make_ordered_dict,
    set: set_of_constants,
    frozenset: set_of_constants,
    torch.SymInt: make_number,
    torch.SymFloat: make_number,
}
