"""The result of `dl.export`: a graph module with the program's own signature that checks its arguments.

A call first checks the arguments against the guards of the trace. If the graph is not valid for them, the call raises
an error rather than return a wrong result.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVarTuple

import torch
import torch.fx
from torch.fx.graph import CodeGen
from torch.fx.node import _get_qualified_name, map_aggregate, map_arg

from dynamo_lite import _C
from dynamo_lite.exc import InvalidInput
from dynamo_lite.records.guards import in_words

_Given = TypeVarTuple("_Given")
_MISSING = object()
ACCESSORS: dict[str, Callable[[Any, Any], Any]] = {
    "tuple_item": tuple.__getitem__,
    "list_item": list.__getitem__,
    "deque_item": deque.__getitem__,
    "dict_item": dict.__getitem__,
    "dict_key": lambda value, at: next(itertools.islice(dict.keys(value), at, None)),
    "dict_value": lambda value, at: next(itertools.islice(dict.values(value), at, None)),
    "instance_dict": lambda value, _: object.__getattribute__(value, "__dict__"),
    "slot": object.__getattribute__,
    "c_attr": getattr,
    "cell_contents": lambda value, _: value.cell_contents,
    "weakref_target": lambda value, _: _C.weak_referent(value),
    "thread_dict": lambda value, _: _C.thread_dict(value),
    "context_value": lambda value, _: ContextVar.get(value),
}
"""Accessor of the guard tree, by name -> its function of a value and the accessor's argument."""


@dataclass(frozen=True)
class ArgumentPath:
    """The path to a value among the arguments: a parameter, then accessors."""

    name: str
    """Its text in messages, in the user's terms."""
    parameter: int
    """The index of the parameter."""
    steps: tuple[tuple[str, Any], ...] = ()
    """Accessors (kind, argument)."""

    def read(self, arguments: Sequence[object]) -> Any:
        """The value, or `_MISSING`."""
        value = arguments[self.parameter]
        for kind, arg in self.steps:
            try:
                value = ACCESSORS[kind](value, arg)
            except (AttributeError, LookupError, StopIteration, TypeError, ValueError):
                return _MISSING
        return value


class _Text(str):
    """A text that stands for a number or an expression: its ``repr`` has no quotes."""

    __repr__ = str.__str__


ANY = _Text("any")
"""Stands for a size or stride that may be any number."""


@dataclass(frozen=True)
class TensorMetadata:
    """The metadata of a tensor that a graph relies on."""

    dtype: torch.dtype
    device: str
    shape: tuple[int | str, ...]
    """A size that only `NumberGuard`s check is `ANY`; likewise a stride."""
    strides: tuple[int | str, ...]
    requires_grad: bool

    @classmethod
    def of(cls, tensor: torch.Tensor, sizes: Sequence[int] = (), strides: Sequence[int] = ()) -> TensorMetadata:
        """The metadata of a tensor. ``sizes``, ``strides``: dimensions whose sizes, or strides, may be any number."""
        shape = tuple(ANY if dim in sizes else size for dim, size in enumerate(tensor.shape))
        steps = enumerate(tensor.stride())
        known = tuple(ANY if dim in strides else step if tensor.size(dim) > 1 else 1 for dim, step in steps)
        return cls(tensor.dtype, str(tensor.device), shape, known, tensor.requires_grad)

    def holds(self, value: object) -> bool:
        """Whether a value is a tensor with this metadata."""
        if not isinstance(value, torch.Tensor) or value.dim() != len(self.shape):
            return False
        known = self.shape, self.strides
        free = [[dim for dim, each in enumerate(those) if isinstance(each, str)] for those in known]
        return TensorMetadata.of(value, *free) == self

    def describe_unlike(self, other: TensorMetadata | None) -> str:
        """A description for messages. It has the strides and ``requires_grad`` only if the other's differ."""
        text = f"a {self.dtype} tensor on {self.device} of shape {self.shape}"
        if other is not None and self.shape == other.shape and self.strides != other.strides:
            text += f" with strides {self.strides}"
        if other is not None and self.requires_grad != other.requires_grad:
            text += " that requires grad" if self.requires_grad else " that requires no grad"
        return text


_BY_VALUE = (bool, int, str, bytes, frozenset, slice, range, torch.device)


def _is_same_constant(value: Any, wanted: Any) -> bool:
    """Whether two constants are indistinguishable. 1, True and 1.0 differ, and so do 0.0 and -0.0."""
    kind = type(wanted)
    if type(value) is not kind:
        return False
    if kind in (float, complex):
        return repr(value) == repr(wanted)
    if kind in (tuple, torch.Size):
        return len(value) == len(wanted) and all(map(_is_same_constant, value, wanted))
    return bool(value == wanted) if kind in _BY_VALUE else value is wanted


def _has_keys(value: Any, wanted: tuple[object, ...]) -> bool:
    keys = tuple(dict.keys(value))
    return len(keys) == len(wanted) and all(one is other or one == other for one, other in zip(keys, wanted))


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda v, w: type(v) is w,
    "id": lambda v, w: v is w,
    "equals": _is_same_constant,
    "default": _is_same_constant,
    "payload": lambda v, w: type(w)(v) == w,
    "bits": lambda v, w: type(v) is type(w) and v.tobytes() == w.tobytes(),
    "length": lambda v, w: len(v) == w,
    "dict_keys": _has_keys,
    "dict_has": lambda v, w: dict.__contains__(v, w),
    "dict_lacks": lambda v, w: not dict.__contains__(v, w),
    "lacks_instance_dict_item": lambda v, w: w not in getattr(v, "__dict__", ()),
    "set_items": lambda v, w: set(v) == set(w),
    "set_order": lambda v, w: tuple(v) == tuple(w),
    "storage_offset": lambda v, w: v.storage_offset() == w,
    "present": lambda v, w: True,
}
"""Kind of guard that has texts for it in `_C.CHECK_KINDS` -> the function that checks a value. These are in Python, so
that an exported program can itself be captured."""
_TEXTS = {kind: (row.wanted, row.given) for kind, row in _C.CHECK_KINDS.items() if row.wanted and row.given}
_TEXTS["default"] = ("left at its default {arg!r}", "{arg!r}")
CHECKED_KINDS = frozenset({"tensor", "unbound", *_HOLDS})
"""The kinds of guards that an exported program can check."""


@dataclass(frozen=True)
class ValueGuard:
    """A guard on one value among the arguments."""

    place: ArgumentPath
    kind: str
    wanted: Any

    def fault(self, arguments: Sequence[object]) -> str | None:
        """What was expected and what is given instead; None if the guard holds."""
        value = self.place.read(arguments)
        if self.kind == "unbound":
            return None if value is _MISSING else f"was not there when this was exported, and is {value!r}"
        if value is _MISSING:
            return "is missing"
        if isinstance(value, torch.fx.Proxy):  # the module is being traced: there is no value to check
            return None
        if self.kind == "tensor":
            return None if self.wanted.holds(value) else self._tensor_fault(value)
        if _HOLDS[self.kind](value, self.wanted):
            return None
        wanted, given = _TEXTS[self.kind]
        return f"was {in_words(wanted, self.wanted)} when this was exported, and is {in_words(given, value)}"

    def _tensor_fault(self, value: object) -> str | None:
        given = TensorMetadata.of(value) if isinstance(value, torch.Tensor) else None
        found = f"of type {type(value).__name__}" if given is None else given.describe_unlike(self.wanted)
        return f"was {self.wanted.describe_unlike(given)} when this was exported, and is {found}"


@dataclass(frozen=True)
class IdentityGuard:
    """A guard that values among the arguments are one object, or that they are pairwise different objects."""

    places: tuple[ArgumentPath, ...]
    same: bool

    def fault(self, arguments: Sequence[object]) -> str | None:
        seen: dict[int, ArgumentPath] = {}
        for place in self.places:
            first = seen.setdefault(id(place.read(arguments)), place)
            if first is not place and not self.same:
                return f"and {first.name} were two objects when this was exported, and are one"
        if self.same and len(seen) > 1:
            return f"and {self.places[0].name} were one object when this was exported, and are two"
        return None

    @property
    def place(self) -> ArgumentPath:
        return self.places[-1]


@dataclass(frozen=True)
class NumberGuard:
    """A guard on sizes, strides and numbers of the arguments."""

    places: tuple[ArgumentPath, ...]
    program: tuple[tuple[Any, ...], ...]
    """As in `SymbolicGuard`. Its operands are the values at the places."""
    text: str

    @property
    def place(self) -> ArgumentPath:
        return self.places[0]

    def fault(self, arguments: Sequence[object]) -> str | None:
        values = [place.read(arguments) for place in self.places]
        if any(isinstance(value, torch.fx.Proxy) for value in values):
            return None
        stack: list[Any] = []
        for name, *operands in self.program:
            if name == "const":
                stack.append(operands[0])
            elif name in _NUMBERS:
                stack.append(_NUMBERS[name](values[operands[0]], *operands[1:]))
            else:
                count = 1 if name == "not" else 2
                stack[-count:] = [_OPERATORS[name](*stack[-count:])]
        if stack[0]:
            return None
        return f"has sizes or numbers that don't satisfy {self.text}"


_NUMBERS: dict[str, Callable[..., Any]] = {
    "size": lambda tensor, dim: tensor.size(dim),
    "stride": lambda tensor, dim: tensor.stride(dim),
    "offset": lambda tensor: tensor.storage_offset(),
    "int": lambda number: number,
}
_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "mul", "floordiv", "mod", "pow", "eq", "ne", "lt", "le")},
    **{"and": operator.and_, "or": operator.or_, "not": operator.not_, "min": torch.sym_min, "max": torch.sym_max},
}
"""The operations of guard programs on values of the stack."""


@dataclass(frozen=True)
class GradModeGuard:
    """A guard on grad mode, for a graph that sets it."""

    wanted: bool
    place = ArgumentPath("grad mode", 0)

    def fault(self, arguments: Sequence[object]) -> str | None:
        if torch.is_grad_enabled() is self.wanted:
            return None
        words = {True: "on", False: "off"}
        return f"was {words[self.wanted]} when this was exported, and is {words[not self.wanted]}"


_LITERAL_DEFAULTS = (type(None), bool, int, str)
"""Types of defaults that are written into the signature as literals."""


SIGNATURE_NAME = "_signature"
"""The name of the `CheckedSignature` in the graph's code."""

Guard = ValueGuard | IdentityGuard | NumberGuard | GradModeGuard


class CheckedSignature(CodeGen):
    """Generates ``forward`` with the program's signature, which checks the guards first."""

    def __init__(
        self,
        name: str,
        parameters: Iterable[inspect.Parameter],
        given: dict[str, Any],
        guards: Iterable[Guard],
    ) -> None:
        super().__init__()
        self.name = name
        self.parameters = tuple(parameters)
        self.given = {
            each.name: len(given[each.name]) if each.kind is each.VAR_POSITIONAL else 1
            for each in self.parameters
            if each.name in given
        }
        """Name of a parameter that the example call passed -> the number of its values."""
        self.in_order = [*self.given] == [*given]
        """Whether the example call passed them in the order of their declaration."""
        self.guards = tuple(guards)

    def __deepcopy__(self, memo: dict[int, Any]) -> CheckedSignature:
        return copy.copy(self)  # guards on identity have to keep their objects

    def check(self, *arguments: object) -> None:
        """Check the guards.

        Raises:
            InvalidInput: the graph is not valid for these arguments.
        """
        for guard in self.guards:
            fault = guard.fault(arguments)
            if fault is not None:
                raise InvalidInput(self.name, guard.place.name, fault)

    def process_inputs(self, *args: *_Given) -> Any:
        """Values for the placeholders from an FX interpreter's positional arguments. These are the parameters that the
        example call gave, or the first ones. The placeholder of ``*args`` is the last, since it takes all values left.

        Raises:
            InvalidInput: it isn't known which parameters the arguments are, or the graph is not valid for them.
        """
        starred = next((each.name for each in self.parameters if each.kind is each.VAR_POSITIONAL), "")
        counts = {each.name: 1 for each in self.parameters[: len(args)]}
        if len(args) == sum(self.given.values()):
            if not self.in_order:
                fault = "are identified by their names, which an interpreter leaves out: give them in their order"
                raise InvalidInput(self.name, "arguments that were not given in the order of the parameters", fault)
            counts = self.given
        elif starred:
            fault = f"was {sum(self.given.values())} when this was exported, and is {len(args)}"
            raise InvalidInput(self.name, "the number of arguments", fault)
        values = {each.name: () if each.name == starred else each.default for each in self.parameters}
        remaining = iter(args)
        for name, count in counts.items():
            taken = tuple(itertools.islice(remaining, count))
            values[name] = taken if name == starred else taken[0]
        if any(value is inspect.Parameter.empty for value in values.values()):
            return args  # the interpreter raises an error that names the parameter
        self.check(*values.values())
        return (*(value for name, value in values.items() if name != starred), *values.get(starred, ()))

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: object) -> str:
        declared = [
            each
            if each.default is each.empty or type(each.default) in _LITERAL_DEFAULTS
            else each.replace(default=_Text(f"{SIGNATURE_NAME}.parameters[{at}].default"))
            for at, each in enumerate(self.parameters)
        ]
        return (
            f"def forward(self, {str(inspect.Signature(declared))[1:-1]}){maybe_return_annotation}:\n"
            f"    {SIGNATURE_NAME}.check({', '.join(each.name for each in self.parameters)})"
        )

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [(SIGNATURE_NAME, self)]


class ExportedModule(torch.fx.GraphModule):
    """A graph module that is pickled as a list of its nodes. A plain `GraphModule` is traced again when it is loaded,
    which evaluates operators without tensor arguments (``torch.randn(3)``) and makes their results constants."""

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        return _load, (type(self).__name__, state, list(map(_row_of, self.graph.nodes)), self.graph._codegen)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.fx.GraphModule:
        copied = super().__deepcopy__(memo)
        copied._non_persistent_buffers_set = set(self._non_persistent_buffers_set)
        return copied


@dataclass(frozen=True)
class _Reference:
    """The name of another node, or of an operator in ``torch.ops``, in a pickled node."""

    name: str


Row = tuple[str, str, Any, Any, Any]
"""A pickled node: operation, name, target, args, kwargs."""


def _refer(node: torch.fx.Node) -> Any:
    return _Reference(node.name)


def _row_of(node: torch.fx.Node) -> Row:
    target: Any = node.target
    if isinstance(target, (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)):  # `pickle` can't refer to these
        target = _Reference(_get_qualified_name(target))
    args, kwargs = map_arg((node.args, node.kwargs), _refer)
    return node.op, node.name, target, args, kwargs


def _graph_of(rows: list[Row], codegen: CodeGen) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    nodes: dict[str, torch.fx.Node] = {}

    def resolve(value: object) -> Any:
        return nodes[value.name] if isinstance(value, _Reference) else value

    for op, name, target, args, kwargs in rows:
        args, kwargs = map_aggregate((args, kwargs), resolve)
        if isinstance(target, _Reference):
            target = operator.attrgetter(target.name.removeprefix("torch."))(torch)
        nodes[name] = graph.create_node(op, target, args, kwargs, name)
    graph.set_codegen(codegen)
    return graph


def _load(name: str, state: dict[str, Any], rows: list[Row], codegen: CodeGen) -> ExportedModule:
    root = torch.nn.Module()
    root.__dict__.update(state)
    made = ExportedModule(root, _graph_of(rows, codegen), name)
    made.__dict__.update(state)
    return made


def rebuild(cls: type, items: Any, attributes: dict[str, Any]) -> Any:
    """Create an instance of a user's class with these items and attributes, without running its methods."""
    base: Any = next((base for base in cls.__mro__ if base in (OrderedDict, dict, list, tuple)), object)
    made = base.__new__(cls, items) if base is tuple else base.__new__(cls)
    if base is list:
        list.extend(made, items)
    elif base in (OrderedDict, dict):
        for key, value in items:
            base.__setitem__(made, key, value)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made
