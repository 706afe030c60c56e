"""Python functions, pre-existing or created during tracing, with their code, closure cells and globals."""

from __future__ import annotations

import sys
import types
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import AttributeChange, FailsInPython, LazyImport
from dynamo_lite.plan.rows import DeleteAttribute, Value
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.subgraphs import Scope
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous
from dynamo_lite.runtime.later_calls import FunctionParts
from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import MISSING, MethodVariable, object_setattr
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.interfaces import Globals
from dynamo_lite.variables.core.invariant_reads import (
    check_value,
    is_created_by_reader,
    is_in_hook,
    is_read_later,
    refuse_read,
)
from dynamo_lite.variables.core.namespaces import check_lookup
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type
from dynamo_lite.variables.python.containers.instance_dict import InstanceDictVariable, globals_of
from dynamo_lite.variables.python.containers.mappings import DictVariable, wrap_dict_items
from dynamo_lite.variables.python.containers.sequences import TupleVariable


class CellVariable(VariableTracker):
    """A closure cell. ``content``: None for an empty cell. ``cell``: the pre-existing one, if it has a source."""

    __slots__ = ("content", "cell", "creator", "body")
    exact_type = types.CellType

    def __init__(
        self,
        content: VariableTracker | None = None,
        cell: types.CellType | None = None,
        source: Source | None = None,
        creator: tuple[Translator, str] | None = None,
        body: Scope | None = None,
    ) -> None:
        self.source = source
        self.content = content
        self.cell = cell
        self.creator = creator
        """For a cell created during tracing: the translator of the variable's frame, and the variable's name."""
        self.body = body
        """The innermost body that was traced when it was created."""

    def children(self) -> Iterable[object]:
        return (self.content,)  # not `creator`, whose frame may have ended

    def load(self) -> VariableTracker | None:
        """The content for a read by the program, None if the cell is empty."""
        content = self.content
        if isinstance(content, LazyVariable):
            assert content.source is not None
            content.source.expect()
        return content

    def set(self, tx: Translator, value: VariableTracker | None) -> None:
        tx.effects.mutate(self)
        self.content = value

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        if name != "cell_contents" or tx.graph.scope.is_nested:
            return super().c_attribute(tx, name)
        return self.load() or tx.raise_error(ValueError, "Cell is empty")

    def set_c_attribute(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if name != "cell_contents" or tx.graph.scope.is_nested:
            return super().set_c_attribute(tx, name, value)
        self.set(tx, value)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        object_setattr(tx, self, name, value)

    def construct(self, plan: Planner) -> Value:
        def fill(cell: Value) -> None:
            if self.content is not None:
                plan.set_attribute(cell, "cell_contents", self.content)

        return plan.create(self, plan.call(types.CellType), fill)

    def replay(self, plan: Planner) -> None:
        if self.content is None:
            plan.steps.append(DeleteAttribute(plan.reload(self.source), "cell_contents"))
        else:
            plan.set_attribute(plan.reload(self.source), "cell_contents", self.content)


def _as_cell(variable: VariableTracker) -> CellVariable:
    cell = variable.realize()
    assert isinstance(cell, CellVariable)
    return cell


LAZY_IMPORT: type | None = getattr(types, "LazyImportType", None)
"""The type of what a module's globals hold for a name that ``lazy import`` binds, until it is read (CPython 3.15)."""


class GlobalScope:
    """A module's globals: the dict, overlaid with the writes of this trace (None: the name is deleted)."""

    def __init__(self, attempt: Attempt, namespace: dict[str, Any], source: Source) -> None:
        self.attempt = attempt
        self.namespace = namespace
        self.source = source
        self.writes: dict[str, VariableTracker | None] = {}
        self._loaded: dict[str, LazyVariable] = {}
        self.assigned_names: frozenset[str] | None = None
        """Those that functions of the module assign to, once that was asked for."""

    def load(self, name: str) -> VariableTracker | None:
        """The global, None if there is none of that name (which is guarded)."""
        if name in self.writes:
            return self.writes[name]
        if name in self._loaded:
            return self._loaded[name]
        check_lookup(self.namespace, name)
        value = self.namespace.get(name, MISSING)
        if value is MISSING:
            self.source.check("dict_lacks", name)
            return None
        source = self.source.child("dict_item", name).expect()
        if type(value) is LAZY_IMPORT:
            self._break_at_lazy_import(name, source)
        loaded = self._loaded[name] = LazyVariable(self.attempt, value, source)
        return loaded

    def _break_at_lazy_import(self, name: str, source: Source) -> NoReturn:
        """CPython imports the module where the name is read, and puts what it stands for in its place."""
        source.check("type", LAZY_IMPORT)
        self.attempt.guards.missing_key_dicts[source] = None
        unsupported(LazyImport(name))

    def store(self, name: str, value: VariableTracker | None) -> None:
        check_lookup(self.namespace, name)
        self.attempt.effects.write_global(self, name, value)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.load(name)

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        self.store(name, value)

    def instance_delete(self, tx: Translator, name: str) -> None:
        self.store(name, None)


_MEMBERS = frozenset({"__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"})
"""Metadata of a function, stored outside of its ``__dict__``."""
if sys.version_info < (3, 12):
    _MEMBERS -= {"__type_params__"}
HAS_ANNOTATE = sys.version_info >= (3, 14)
"""Whether functions compute their annotations when these are read, by ``__annotate__``."""
if HAS_ANNOTATE:
    _MEMBERS |= {"__annotate__"}
_AS_VALUES = 1
"""The argument of ``__annotate__`` for annotations that are evaluated."""
_DEFAULTS = {"__defaults__": "_defaults", "__kwdefaults__": "_keyword_defaults"}
_BEHAVIOR = frozenset({*_DEFAULTS, "__code__", "__globals__", "__closure__", "__builtins__"})
"""Attributes that determine what a call of the function does."""


class PythonFunctionVariable(VariableTracker):
    """Base of Python functions."""

    __slots__ = ("code", "body")
    code: types.CodeType
    body: Scope | None
    """The innermost body that was traced when it was created during tracing."""
    exact_type = types.FunctionType

    @property
    @abstractmethod
    def name(self) -> str:
        """Its ``__qualname__``."""

    @abstractmethod
    def defaults(self, tx: Translator) -> Args: ...

    @abstractmethod
    def keyword_defaults(self, tx: Translator) -> Kwargs: ...

    @abstractmethod
    def cells(self, tx: Translator) -> Sequence[CellVariable]:
        """The closure, in the order of ``co_freevars``."""

    @abstractmethod
    def scope(self, tx: Translator) -> Globals[VariableTracker]: ...

    def _check_backward_reads(self, tx: Translator, defaults: Iterable[VariableTracker]) -> None:
        """A backward runs after the call: break the graph if it reads defaults that may have changed by then."""
        if is_read_later(tx) and not is_created_by_reader(tx.graph, self.body):
            for each in defaults:
                check_value(each, f"a default of {self.describe()}", is_in_hook(tx.graph))

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call_function(self, args, kwargs)

    def method___call__(self, tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        return self.call(tx, [*args], kwargs)

    def method___get__(
        self, tx: Translator, receiver: VariableTracker, owner: VariableTracker | None = None, /
    ) -> VariableTracker:
        if not tx.is_none(receiver):
            return MethodVariable(self, receiver)
        if owner is None or tx.is_none(owner):
            tx.raise_error(TypeError, "__get__(None, None) is invalid")
        return self

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__code__":
            return tx.make(self.code)
        if name == "__globals__":
            return globals_of(tx, self.scope(tx))
        if name == "__dict__":
            return InstanceDictVariable(self, tx.attempt)
        return super().getattr(tx, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if name in _BEHAVIOR or name == "__dict__":
            unsupported(AttributeChange(self.describe(), name, "written"))
        self.instance_set(tx, name, value)


def read_annotations(of: VariableTracker) -> object:
    """The annotations of a pre-existing function or class. From CPython 3.14 on the program computes them when they are
    first read: break the graph if it raises, as guards don't know why it did."""
    try:
        return of.value.__annotations__
    except Exception as error:
        reraise_if_asynchronous(error)
        unsupported(FailsInPython(f"reading {of.describe()}.__annotations__", f"it raises {type(error).__name__}"))


class FunctionVariable(PythonFunctionVariable):
    """A pre-existing Python function. ``by_code``: it is guarded by its code and globals, not by identity, since
    functions passed as arguments are often created for the call. ``attrs``: attributes written during tracing."""

    __slots__ = ("value", "_cells", "by_code", "attrs")

    def __init__(self, value: types.FunctionType, source: Source | None, by_code: bool = False) -> None:
        self.source = source
        self.value = value
        self.code = value.__code__
        self.by_code = by_code
        self.body = None
        self._cells: list[CellVariable] | None = None
        self.attrs: dict[str, VariableTracker] = {}

    def as_constant(self) -> Any:
        if self.by_code:
            raise NotConstant("a function guarded by its code")
        return self.value

    def key(self) -> Any:
        return self if self.by_code else self.value

    @property
    def is_guarded_by_identity(self) -> bool:  # type: ignore[override]
        return not self.by_code

    def cache_key(self, tx: Translator) -> Any:
        return super().cache_key(tx) if self.by_code else self.value

    def describe(self) -> str:
        return f"{self.value.__module__}.{self.value.__qualname__}"

    @property
    def name(self) -> str:
        return self.value.__qualname__

    def defaults(self, tx: Translator) -> Args:
        defaults = self._load_defaults(tx, self.value.__defaults__ or ())
        self._check_backward_reads(tx, defaults)
        return defaults

    def _load_defaults(self, tx: Translator, values: tuple[object, ...]) -> Args:
        source = self._member_source("__defaults__")
        if not values:
            if source is not None and source.parent is not None and source.parent.kind != "const":
                source.check("equals", None)
            return []
        if source is None:
            return [tx.make(value) for value in values]
        if self.by_code:
            source.check("type", tuple)
            source.check("length", len(values))
        else:
            source.check("id", values)
        return [LazyVariable(tx.attempt, value, source.child("tuple_item", at)) for at, value in enumerate(values)]

    def _member_source(self, name: str) -> Source | None:
        return None if self.source is None else self.source.child("c_attr", name)

    def keyword_defaults(self, tx: Translator) -> Kwargs:
        values = self.value.__kwdefaults__ or {}
        source = self._member_source("__kwdefaults__")
        if source is None or not values:
            return {key: tx.make(value) for key, value in values.items()}
        known = tx.attempt.values.memo.get(identity(values))
        if known is not None:  # the program has read ``__kwdefaults__`` itself, and may have mutated it
            assert isinstance(known[1], DictVariable)
            return dict(known[1].items)
        source.check("dict_keys", tuple(values))
        defaults: Kwargs = {k: LazyVariable(tx.attempt, v, source.child("dict_item", k)) for k, v in values.items()}
        self._check_backward_reads(tx, defaults.values())
        return defaults

    def cells(self, tx: Translator) -> Sequence[CellVariable]:
        if self._cells is None:
            cells = self.value.__closure__ or ()
            source = self._member_source("__closure__") or tx.guards.const(self.value).child("c_attr", "__closure__")
            wrap = tx.attempt.values.wrap
            self._cells = [_as_cell(wrap(cell, source.child("tuple_item", at))) for at, cell in enumerate(cells)]
        return self._cells

    def scope(self, tx: Translator) -> Globals[VariableTracker]:
        return tx.attempt.values.scope(self.value.__globals__)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in _MEMBERS or name in _DEFAULTS or name == "__closure__":
            source = self._member_source(name) or tx.guards.const(self.value).child("c_attr", name)
            value = read_annotations(self) if name == "__annotations__" else getattr(self.value, name)
            return LazyVariable(tx.attempt, value, source)
        return super().getattr(tx, name)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if name in self.attrs:
            return self.attrs[name]
        check_lookup(self.value.__dict__, name, self.describe)
        own = self.value.__dict__.get(name, MISSING)
        if own is MISSING:
            if self.source is not None:
                self.source.child("instance_dict").check("dict_lacks", name)
            return None
        if is_read_later(tx):
            refuse_read(f"{self.describe()}.{name}")
        if self.source is None:
            return tx.make(own)
        return LazyVariable(tx.attempt, own, self.source.instance_item(name))

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if name in _MEMBERS:
            return super().instance_set(tx, name, value)
        if self.source is None:
            self.source = tx.guards.const(self.value)
        tx.effects.mutate(self)
        self.attrs[name] = value

    def namespace(self, attempt: Attempt) -> DictVariable:
        """A copy of its ``__dict__``, whose keys are guarded."""
        source = self.source or attempt.guards.const(self.value)
        items = wrap_dict_items(attempt, self.value.__dict__, source.child("instance_dict"))[0]
        items.update(self.attrs)
        return DictVariable(items)

    def replay(self, plan: Planner) -> None:
        for name, value in self.attrs.items():
            plan.set_attribute(plan.reload(self.source), name, value)

    def construct(self, plan: Planner) -> Value:
        return plan.constant(self.value)


class NestedFunctionVariable(PythonFunctionVariable):
    """A function created during tracing."""

    __slots__ = ("_defaults", "_keyword_defaults", "_cells", "_scope", "attrs", "members", "annotations")

    def __init__(
        self,
        code: types.CodeType,
        scope: Globals[VariableTracker],
        cells: Sequence[CellVariable],
        defaults: TupleVariable | None = None,
        keyword_defaults: DictVariable | None = None,
        annotations: TupleVariable | None = None,
        body: Scope | None = None,
    ) -> None:
        self.source = None
        self.code = code
        self.body = body
        self._scope = scope
        self._defaults = defaults
        self._keyword_defaults = keyword_defaults
        self._cells = cells
        self.annotations = annotations or TupleVariable([])
        """Names and values in turn."""
        self.attrs: dict[str, VariableTracker] = {}
        """Its ``__dict__``."""
        self.members: dict[str, VariableTracker] = {}
        """Attributes of `_MEMBERS` that have been written or read."""

    def key(self) -> Any:
        return self

    def describe(self) -> str:
        return f"the function {self.code.co_qualname}"

    @property
    def name(self) -> str:
        name = self.members.get("__qualname__")
        return self.code.co_qualname if name is None else str(name.realize().as_constant())

    def defaults(self, tx: Translator) -> Args:
        defaults = [] if self._defaults is None else self._defaults.items
        self._check_backward_reads(tx, defaults)
        return defaults

    def keyword_defaults(self, tx: Translator) -> Kwargs:
        defaults = {} if self._keyword_defaults is None else self._keyword_defaults.items
        self._check_backward_reads(tx, defaults.values())
        return defaults

    def cells(self, tx: Translator) -> Sequence[CellVariable]:
        return self._cells

    def scope(self, tx: Translator) -> Globals[VariableTracker]:
        return self._scope

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in _MEMBERS:
            if name not in self.members:
                self.members[name] = self._initial_member(tx, name)
            return self.members[name]
        if name in _DEFAULTS:
            return getattr(self, _DEFAULTS[name]) or ConstantVariable(None)
        return super().getattr(tx, name)

    def _initial_member(self, tx: Translator, name: str) -> VariableTracker:
        """The value that a new function has."""
        if name == "__module__":
            return self._scope.load("__name__") or ConstantVariable(None)
        if name == "__annotations__":
            return self._annotations(tx)
        if name == "__annotate__":
            return ConstantVariable(None)
        cells = tuple(types.CellType() for _ in self.code.co_freevars)
        return tx.make(getattr(types.FunctionType(self.code, {}, closure=cells), name))

    def _annotations(self, tx: Translator) -> VariableTracker:
        annotate = self.members.get("__annotate__")
        if annotate is not None and not tx.is_none(annotate):
            return tx.call(annotate, [ConstantVariable(_AS_VALUES)], {})
        annotations = DictVariable({})
        pairs = self.annotations.elements(tx)
        for name, value in zip(pairs[::2], pairs[1::2]):
            annotations.put(tx, name, value)
        return annotations

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        value = value.realize()
        if name != "__code__" or type(value) is not ConstantVariable or value.python_type() is not types.CodeType:
            super().setattr(tx, name, value)
            return
        code = value.as_constant()
        if len(code.co_freevars) != len(self._cells):
            tx.raise_error(
                ValueError,
                f"{self._own_name(tx)}() requires a code object with {len(self._cells)} free vars, "
                f"not {len(code.co_freevars)}",
            )
        for member in ("__name__", "__qualname__", "__doc__"):
            self.getattr(tx, member)  # those of the code that the function was created with
        tx.effects.mutate(self)
        self.code = code

    def _own_name(self, tx: Translator) -> str:
        return str(self.getattr(tx, "__name__").realize().as_constant())

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.attrs.get(name)

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        tx.effects.mutate(self)
        (self.members if name in _MEMBERS else self.attrs)[name] = value
        if HAS_ANNOTATE and name == "__annotations__":
            self.members["__annotate__"] = ConstantVariable(None)
        elif name == "__annotate__" and not tx.is_none(value):
            self.members.pop("__annotations__", None)

    def instance_delete(self, tx: Translator, name: str) -> None:
        tx.effects.mutate(self)
        del self.attrs[name]

    def namespace(self, attempt: Attempt) -> DictVariable:
        return DictVariable(dict(self.attrs))

    def delattr(self, tx: Translator, name: str) -> None:
        if name not in self.attrs:
            super().delattr(tx, name)
        self.instance_delete(tx, name)

    def code_in_cpython(self) -> types.CodeType:
        """The code of the function that generated code creates."""
        return self.code

    def construct(self, plan: Planner) -> Value:
        annotate = self.members.get("__annotate__")
        if "__annotations__" in self.members and annotate is not None and annotate.python_type() is not type(None):
            raise NotConstant("a function that has computed its annotations")  # to assign them drops `__annotate__`
        new = plan.call(
            make_function,
            plan.constant(self.code_in_cpython()),
            plan.constant(self._scope.namespace),
            self._defaults or ConstantVariable(None),
            self._keyword_defaults or ConstantVariable(None),
            plan.tuple_of(self._cells),
            self.annotations,
        )

        def fill(function: Value) -> None:
            for name, value in [*self.members.items(), *self.attrs.items()]:
                plan.set_attribute(function, name, value)

        return plan.create(self, new, fill)


def make_function(
    code: types.CodeType,
    namespace: dict[str, Any],
    defaults: tuple[object, ...] | None,
    keyword_defaults: dict[str, object] | None,
    cells: tuple[types.CellType, ...],
    annotations: tuple[Any, ...],
) -> types.FunctionType:
    """What a ``def`` does, as a function that generated code calls."""
    function = types.FunctionType(code, namespace, code.co_name, defaults, cells or None)
    function.__kwdefaults__ = keyword_defaults
    function.__annotations__ = dict(zip(annotations[::2], annotations[1::2]))
    return function


class ResumeFunction:
    """Creates the resume functions of one code object. Generated code calls it with the closure's cells.

    ``whole``: if ``code`` can only be traced, what makes the code that CPython runs."""

    __slots__ = ("_whole", "code", "namespace")

    def __init__(
        self, code: types.CodeType, namespace: dict[str, Any], whole: Callable[[], types.CodeType] | None = None
    ) -> None:
        self.code = code
        self.namespace = namespace
        self._whole = whole if whole is not None else code

    def __call__(self, cells: tuple[types.CellType, ...]) -> types.FunctionType:
        return types.FunctionType(self.whole(), self.namespace, self.code.co_name, None, cells or None)

    def whole(self) -> types.CodeType:
        """The code that CPython runs."""
        if not isinstance(self._whole, types.CodeType):
            self._whole = self._whole()
        return self._whole

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResumeFunction) and self.code is other.code and self.namespace is other.namespace

    def __hash__(self) -> int:
        return hash((id(self.code), id(self.namespace)))


class ResumeFunctionVariable(VariableTracker):
    """A `ResumeFunction` in the frame of generated code that is traced itself."""

    __slots__ = ("value",)
    exact_type = ResumeFunction

    def __init__(self, value: ResumeFunction, source: Source) -> None:
        self.source = source
        self.value = value

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        scope = tx.attempt.values.scope(self.value.namespace)
        return _ResumeFunctionCreated(self.value, scope, [_as_cell(each) for each in args[0].elements(tx)])


class _ResumeFunctionCreated(NestedFunctionVariable):
    """A resume function that the traced code has created."""

    __slots__ = ("_creator",)

    def __init__(self, creator: ResumeFunction, scope: Globals[VariableTracker], cells: list[CellVariable]) -> None:
        super().__init__(creator.code, scope, cells)
        self._creator = creator

    def code_in_cpython(self) -> types.CodeType:
        return self._creator.whole()


@wraps_type(ResumeFunction)
def _wrap_resume_function(attempt: Attempt, value: ResumeFunction, source: Source) -> VariableTracker:
    return ResumeFunctionVariable(value, source)


def is_trusted_module(name: str | None) -> bool:
    """Whether it belongs to torch or the standard library: the code and defaults of their functions aren't guarded."""
    root = (name or "").partition(".")[0]
    return root == "torch" or root in sys.stdlib_module_names


def note_called(graph: GraphBuilder, function: PythonFunctionVariable) -> None:
    """Note that bodies call a function of the program's. Where they run later, it may be another then."""
    value: object = function.value
    if isinstance(value, types.FunctionType) and not is_trusted_module(value.__module__):
        for body in graph.scope.nesting:
            body.called.functions[value] = FunctionParts.of(value)


@wraps_type(types.FunctionType)
def _wrap_function(attempt: Attempt, value: types.FunctionType, source: Source) -> VariableTracker:
    if source.kind == "const":
        return FunctionVariable(value, None)
    if source.local_rooted:
        source.check("type", types.FunctionType)
        source.child("c_attr", "__code__").check("id", value.__code__)
        source.child("c_attr", "__globals__").check("id", value.__globals__)  # other functions may share the code
        return FunctionVariable(value, source, by_code=True)
    source.check("id", value)
    if is_trusted_module(value.__module__):
        return FunctionVariable(value, None)
    source.child("c_attr", "__code__").check("id", value.__code__)
    return FunctionVariable(value, source)


@wraps_type(types.CellType)
def _wrap_cell(attempt: Attempt, value: types.CellType, source: Source) -> VariableTracker:
    source.check("type", types.CellType)
    content_source = source.child("cell_contents")
    try:
        content = value.cell_contents
    except ValueError:
        content_source.check("unbound")
        return CellVariable(None, value, source)
    return CellVariable(LazyVariable(attempt, content, content_source), value, source)


wraps_type(types.CodeType)(ConstantVariable.by_identity)


@wraps_type(types.MethodType)
def _wrap_method(attempt: Attempt, value: types.MethodType, source: Source) -> VariableTracker:
    source.check("type", types.MethodType)
    function = attempt.values.wrap(value.__func__, source.child("c_attr", "__func__"))
    return MethodVariable(function, attempt.values.wrap(value.__self__, source.child("c_attr", "__self__")), source)
