"""Types of what trackers are handed: the translator, the attempt's records, the code generator.

The translator, the attempt and the code generator are Protocols with the members that `variables` may use: the classes
are in rooms above, which this room can't import. The attempt's records are imported for the type checker alone.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from dynamo_lite.bytecode import Instruction
    from dynamo_lite.insight.site import Site
    from dynamo_lite.records.graph import GraphBuilder
    from dynamo_lite.records.guards import Guards
    from dynamo_lite.records.initializations import Initializations
    from dynamo_lite.records.provenance import Provenance
    from dynamo_lite.records.restart_facts import RestartFacts
    from dynamo_lite.records.runtime_assertions import RuntimeAssertion
    from dynamo_lite.records.side_effects import SideEffects
    from dynamo_lite.records.source import Source
    from dynamo_lite.records.stream_uses import StreamUses
    from dynamo_lite.runtime.precomputed_calls import PrecomputedCalls
    from dynamo_lite.shapes.policy import TranslationShapes
    from dynamo_lite.translator.attempt import BeforeGraph
    from dynamo_lite.translator.known_values import KnownValues
    from dynamo_lite.translator.observable_lifetimes import ObservableLifetimes
    from dynamo_lite.translator.torch_state import TorchState
    from dynamo_lite.variables.python.classes.classes import ClassVariable
    from dynamo_lite.variables.python.containers.mappings import DictVariable
    from dynamo_lite.variables.python.containers.sequences import SliceVariable
    from dynamo_lite.variables.python.containers.sets import SetVariable
    from dynamo_lite.variables.python.functions.function import CellVariable, GlobalScope
    from dynamo_lite.variables.torch.tensors.is_compiling_results import IsCompilingResults

    from .base import Args, Kwargs, VariableTracker

Load = Callable[[], None]
"""Emits code that leaves one value on the stack."""


class Translator(Protocol):
    """Interprets one frame: the operations of Python on trackers, and the frame's state."""

    guards: Guards
    graph: GraphBuilder
    effects: SideEffects
    code: types.CodeType
    original: types.CodeType
    """The code that the user wrote: for a resume function, that of the function which it resumes."""
    scope: GlobalScope
    locals: dict[str, VariableTracker]
    own_cells: tuple[str, ...]
    """Names of the cells that the frame creates."""
    cells: dict[str, CellVariable]
    stack: list[VariableTracker]
    current: Instruction
    instructions: Sequence[Instruction]
    pc: int
    """The index of the next instruction."""
    handled: VariableTracker | None
    """The exception that is being handled."""
    depth: int

    @property
    def attempt(self) -> Attempt: ...

    @property
    def parent(self) -> Translator | None:
        """The frame that called this one, None for the root."""

    def site(self) -> Site:
        """Where the program is: the frames that are being executed, with the current instruction of each."""

    def generic_getattr(self, obj: VariableTracker, name: str, hook: bool = True) -> VariableTracker:
        """``object.__getattribute__`` and, with ``hook``, ``__getattr__`` after it."""

    def lookup(self, cls: type, name: str) -> Any:
        """The raw attribute of a class or its bases, guarded; `MISSING` if there is none."""

    def plain_truth(self, obj: VariableTracker) -> bool:
        """``bool(obj)`` by the type alone: True unless it has ``__bool__`` or ``__len__``."""

    def plain_format(self, value: VariableTracker, spec: VariableTracker) -> VariableTracker:
        """``object.__format__``."""

    def make(self, value: Any) -> VariableTracker: ...

    def fold(
        self, function: Callable[..., Any], args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a real function with constants. The traced program raises its exceptions."""

    def python_values(self, args: Sequence[VariableTracker], kwargs: Kwargs) -> tuple[list[Any], dict[str, Any]]:
        """`python_value` of all arguments of a call."""

    def fold_call(
        self, function: Callable[..., Any], args: Sequence[VariableTracker], kwargs: Kwargs
    ) -> VariableTracker:
        """Call a real function while tracing. Its arguments must be constants."""

    def raise_error(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """Raise in the traced program."""

    def raise_with(
        self, cls: type[BaseException], args: Args, attrs: dict[str, VariableTracker] | None = None
    ) -> NoReturn:
        """Raise in the traced program, with arguments that are traced values."""

    def make_set(self, items: list[VariableTracker]) -> SetVariable: ...

    def combine_views(self, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """``left symbol right``, one of which is a dict's view of keys or items."""

    def raise_attribute_error(self, owner: VariableTracker, name: str, message: str) -> NoReturn:
        """Raise AttributeError with the ``obj`` and ``name`` that attribute access sets."""

    def raise_stop_iteration(self, value: VariableTracker | None) -> NoReturn: ...

    def python_value(self, variable: VariableTracker, drain: bool = False) -> Any:
        """The Python value of a constant, or of a container of constants (a new one); breaks the graph otherwise.
        ``drain``: the caller iterates over the value and does nothing else with it."""

    def is_plain(self, variable: VariableTracker) -> bool:
        """Whether it is a constant, or a builtin container of constants, whose text runs no user code."""

    def percent(self, template: str, values: VariableTracker) -> VariableTracker:
        """``template % values``."""

    def format_text(self, template: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """``template.format(...)``."""

    def join_texts(self, separator: str, items: VariableTracker) -> VariableTracker:
        """``separator.join(items)``."""

    def is_none(self, variable: VariableTracker) -> bool: ...

    def index_value(self, variable: VariableTracker, message: str = ...) -> Any:
        """``operator.index(variable)``. ``message``: of the TypeError for types without ``__index__``."""

    def is_index(self, variable: VariableTracker) -> bool:
        """Whether it is an integer or has ``__index__``."""

    def check_iterable(self, variable: VariableTracker, message: str) -> None: ...

    def subscript_value(self, key: VariableTracker, message: str) -> Any:
        """The integer or slice that indexes a sequence. ``message``: of the TypeError for other keys."""

    def slice_value(self, variable: SliceVariable) -> slice:
        """The real slice of constants."""

    def identical(self, one: VariableTracker, other: VariableTracker) -> bool:
        """``one is other``."""

    def guard_distinct(self, variable: VariableTracker) -> None:
        """Guard that no other source holds this object, unless its identity is guarded."""

    def truth(self, variable: VariableTracker) -> bool:
        """``bool(variable)``."""

    def same_or_equal(self, one: VariableTracker, other: VariableTracker) -> bool:
        """``one is other or one == other``, as containers compare items."""

    def compare(self, symbol: str, one: VariableTracker, other: VariableTracker) -> VariableTracker:
        """A rich comparison by the operands' methods, the right one's first if its class derives from the left
        one's."""

    def refuse_operands(self, operation: str, function: Callable[..., Any], *operands: VariableTracker) -> NoReturn:
        """No operand implements the operation: raise the error that CPython raises for their types."""

    def binary(
        self,
        symbol: str,
        left: VariableTracker,
        right: VariableTracker,
        inplace: Callable[[Any, Any], Any] | None = None,
    ) -> VariableTracker:
        """``left symbol right``, with reflected methods as the data model defines them."""

    def inplace(self, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """``left symbol= right``: the new value of the left side."""

    def unary(self, symbol: str, operand: VariableTracker) -> VariableTracker: ...

    def iterate(self, variable: VariableTracker) -> VariableTracker:
        """``iter(variable)``."""

    def contains_by_iteration(self, variable: VariableTracker, item: VariableTracker) -> bool:
        """``item in variable`` without a ``__contains__``: iterates up to the first equal item."""

    def checked_iterator(self, found: VariableTracker) -> VariableTracker:
        """The result of a user's ``__iter__``, checked to be an iterator."""

    def next(self, iterator: VariableTracker) -> VariableTracker:
        """``next(iterator)`` called by the program: raises StopIteration at the end."""

    def next_by_call(self, method: VariableTracker, args: Args | None = None) -> VariableTracker:
        """The result of ``method``, a bound ``__next__``. Its StopIteration becomes `Exhausted`."""

    def thrown(self, kind: VariableTracker, value: VariableTracker | None) -> VariableTracker:
        """The exception that ``throw(kind, value)`` raises."""

    def collected_items(self, variable: VariableTracker) -> DictVariable | None:
        """The items of a mapping, read by ``keys`` and ``__getitem__``; None for other values."""

    def sort(self, items: list[VariableTracker], key: VariableTracker | None, reverse: bool) -> None:
        """Sort in place with the comparisons of ``list.sort``, in its order. If one raises, the items stay as far
        sorted as CPython leaves them."""

    def length(self, of: VariableTracker) -> VariableTracker:
        """``len(of)``."""

    def attribute(self, owner: VariableTracker, name: str) -> VariableTracker:
        """``owner.name`` as ``PyObject_GetAttr`` reads it: sets ``obj`` and ``name`` of an AttributeError without
        them."""

    def has_attribute(self, variable: VariableTracker, name: str) -> bool:
        """``hasattr``."""

    def getattr_by_hook(self, variable: VariableTracker, hook: VariableTracker, name: str) -> VariableTracker:
        """Read an attribute by ``hook``, the class's bound ``__getattribute__``, then by its ``__getattr__``."""

    def call(self, function: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call anything."""

    def construct(self, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call a class."""

    def class_method(self, cls: ClassVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method in C called on a class: ``type``'s own, or a builtin's class method."""

    def delegate(self, caller: VariableTracker, function: VariableTracker) -> None:
        """Record that ``caller`` only calls ``function``, with its arguments or more, and returns the result."""

    def call_function(self, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call a Python function by its model, or inline it."""

    def inline(self, function: Any, args: Args, kwargs: Kwargs, is_tail: bool = False) -> VariableTracker:
        """Trace the body of a Python function in place of its call."""

    def place(self) -> FrameSummary: ...

    def places(self) -> tuple[FrameSummary, ...]:
        """The active user frames, outermost first."""


class Attempt(Protocol):
    """The records of one attempt at a frame."""

    guards: Guards
    graph: GraphBuilder
    shapes: TranslationShapes
    effects: SideEffects
    provenance: Provenance
    is_compiling_results: IsCompilingResults
    runtime_assertions: list[RuntimeAssertion]
    ahead: PrecomputedCalls
    steps: int
    reprs: list[VariableTracker]
    takes_wrappers: bool
    has_wrappers: bool
    begins_handled: bool
    frees_at_once: bool
    generates_kernels: bool
    errors_on_break: bool
    is_exporting: bool
    restart_facts: RestartFacts
    unread: set[Site]
    """Where the program read numbers from tensors that it has only passed on so far."""
    values: KnownValues
    torch_state: TorchState
    before_graph: BeforeGraph
    streams: StreamUses
    lifetimes: ObservableLifetimes
    initializations: Initializations

    @property
    def innermost(self) -> Translator | None: ...

    def note_guards(self) -> None:
        """Attribute the new guards of torch's ``ShapeEnv`` to the current instruction."""


class Codegen(Protocol):
    """Emits bytecode: loads of values, calls, writes."""

    code: types.CodeType
    body: list[Instruction]

    @property
    def attempt(self) -> Attempt: ...

    def op(self, opname: str, arg: Any = None) -> None: ...

    def load_const(self, value: Any) -> None: ...

    def load_fast(self, name: str) -> None: ...

    def store_fast(self, name: str) -> None: ...

    def load_attr(self, name: str) -> None: ...

    def store_attr(self, name: str) -> None: ...

    def set_on_top(self, name: str, value: VariableTracker) -> None:
        """Set an attribute of the object on top of the stack, which stays there."""

    def delete_attr(self, name: str) -> None: ...

    def store_subscr(self) -> None: ...

    def binary_op(self, symbol: str) -> None: ...

    def push_null(self) -> None: ...

    def pop_top(self) -> None: ...

    def copy_top(self) -> None: ...

    def swap(self) -> None: ...

    def build(self, kind: str, count: int) -> None: ...

    def call(self, function: Any, args: Sequence[Load]) -> None:
        """Call a known object."""

    def call_named(self, function: Any, args: Sequence[Load], kwargs: dict[str, Load]) -> None: ...

    def finish_call(self, args: Sequence[Load]) -> None:
        """NULL and a function are on the stack: call it."""

    def call_with_pair(self, function: Any) -> None:
        """Replace the two values on top of the stack by ``function(one, other)``."""

    def call_with_top(self, function: Any, args: Sequence[Load]) -> None:
        """``function(top, *args)`` for its effect; the top of the stack stays."""

    def call_method_of_top(self, name: str) -> None:
        """Replace the top of the stack by the result of its method."""

    def load(self, tracker: VariableTracker) -> None:
        """Leave the value on the stack."""

    def has_made(self, tracker: VariableTracker) -> bool:
        """Whether the code so far creates the object and keeps it in a local."""

    def load_tuple(self, trackers: Sequence[VariableTracker]) -> None: ...

    def make_then_fill(self, tracker: VariableTracker, new: Load, fill: Callable[[Codegen], None]) -> None:
        """Create an empty object, keep it in a local, then fill it: it may contain itself."""

    def load_source(self, source: Source | None) -> None:
        """Reload a value: an argument, a constant, or a value that the guards captured."""

    def graph_output(self, tensor: Any) -> None:
        """Load a tensor that the graph computes (not in the body of a higher-order operator)."""

    def graph_result(self, value: Any) -> None:
        """Load a tensor or number that the graph computes."""

    def load_made(self, node: Any) -> None:
        """Load a tensor that generated code creates before the graph."""

    def expect_grad_mode(self, before: bool, after: bool) -> None:
        """The context manager entered next expects the grad mode ``before`` and sets ``after``."""
