"""What `dl.export` returns: a graph module with the program's own signature that checks what it is given.

A call reads like one of the program. Before its first operator it holds the arguments against what the trace relied on
of them; so a call that the graph is wrong for is an error instead of a wrong answer.
"""

from __future__ import annotations

import builtins
import copy
import importlib
import inspect
import itertools
import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.fx.graph import CodeGen
from torch.fx.node import _get_qualified_name, map_aggregate, map_arg

from dynamo_lite import _C
from dynamo_lite.exc import InvalidInput
from dynamo_lite.records.guards import in_words

_MISSING = object()
READ: dict[str, Callable[[Any, Any], Any]] = {
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
}
"""Accessors of guards, by name."""


@dataclass(frozen=True)
class Place:
    """A value among the arguments: that of a parameter, or what is reached from it."""

    name: str
    parameter: int
    steps: tuple[tuple[str, Any], ...] = ()

    def read(self, arguments: Sequence[Any]) -> Any:
        value = arguments[self.parameter]
        for kind, arg in self.steps:
            try:
                value = READ[kind](value, arg)
            except (AttributeError, LookupError, StopIteration, TypeError, ValueError):
                return _MISSING
        return value


class _Any:
    """Any number."""

    def __repr__(self) -> str:
        return "any"

    def __reduce__(self) -> str:
        return "ANY"


ANY = _Any()


@dataclass(frozen=True)
class TensorFacts:
    """What a graph relies on of a tensor."""

    dtype: torch.dtype
    device: str
    shape: tuple[Any, ...]
    """A size that is told by relations alone is `ANY`; so with strides."""
    strides: tuple[Any, ...]
    requires_grad: bool

    @classmethod
    def of(cls, tensor: torch.Tensor, sizes: Sequence[int] = (), strides: Sequence[int] = ()) -> TensorFacts:
        """``sizes``, ``strides``: the dimensions whose sizes, and those whose strides, may be any."""
        shape = tuple(ANY if dim in sizes else size for dim, size in enumerate(tensor.shape))
        steps = enumerate(tensor.stride())
        found = tuple(ANY if dim in strides else step if tensor.size(dim) > 1 else 1 for dim, step in steps)
        return cls(tensor.dtype, str(tensor.device), shape, found, tensor.requires_grad)

    def holds(self, value: Any) -> bool:
        if not isinstance(value, torch.Tensor) or value.dim() != len(self.shape):
            return False
        free = [[dim for dim, each in enumerate(those) if each is ANY] for those in (self.shape, self.strides)]
        return TensorFacts.of(value, *free) == self

    def told_from(self, other: Any) -> str:
        """What it is, with what sets it apart from another."""
        told = f"a {self.dtype} tensor on {self.device} of shape {self.shape}"
        if isinstance(other, TensorFacts) and self.shape == other.shape and self.strides != other.strides:
            told += f" with strides {self.strides}"
        if isinstance(other, TensorFacts) and self.requires_grad != other.requires_grad:
            told += " that requires grad" if self.requires_grad else " that requires no grad"
        return told


_BY_VALUE = (bool, int, str, bytes, frozenset, slice, range, torch.device)


def _is_same_constant(value: Any, wanted: Any) -> bool:
    """The same for every program: 1, True and 1.0 are three, and so are 0.0 and -0.0 two."""
    kind = type(wanted)
    if type(value) is not kind:
        return False
    if kind in (float, complex):
        return repr(value) == repr(wanted)
    if kind in (tuple, torch.Size):
        return len(value) == len(wanted) and all(map(_is_same_constant, value, wanted))
    return bool(value == wanted) if kind in _BY_VALUE else value is wanted


def _has_keys(value: Any, wanted: tuple[Any, ...]) -> bool:
    keys = tuple(dict.keys(value))
    return len(keys) == len(wanted) and all(one is other or one == other for one, other in zip(keys, wanted))


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda v, w: type(v) is w,
    "id": lambda v, w: v is w,
    "equals": _is_same_constant,
    "default": _is_same_constant,
    "payload": lambda v, w: type(w)(v) == w,
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
"""Whether a check of `_C.EXPORTED_CHECKS` holds of a value. In Python, so that an exported program can be captured."""
_TEXTS = {**_C.EXPORTED_CHECKS, "default": ("left at its default {arg!r}", "{arg!r}")}
CHECKED = frozenset({"tensor", "unbound", *_HOLDS})
"""The checks of guards that have a meaning here."""


@dataclass(frozen=True)
class Fact:
    """What the trace relied on of one value among the arguments."""

    place: Place
    kind: str
    wanted: Any

    def fault(self, arguments: Sequence[Any]) -> str | None:
        """What was wanted and what is given instead, None where it holds."""
        value = self.place.read(arguments)
        if self.kind == "unbound":
            return None if value is _MISSING else f"was not there when this was exported, and is {value!r}"
        if value is _MISSING:
            return "is missing"
        if self.kind == "tensor":
            return None if self.wanted.holds(value) else self._tensor_fault(value)
        if _HOLDS[self.kind](value, self.wanted) or isinstance(value, torch.fx.Proxy):
            return None
        wanted, given = _TEXTS[self.kind]
        return f"was {in_words(wanted, self.wanted)} when this was exported, and is {in_words(given, value)}"

    def _tensor_fault(self, value: Any) -> str | None:
        if isinstance(value, torch.fx.Proxy):  # somebody traces the module: there is nothing to check yet
            return None
        if not isinstance(value, torch.Tensor):
            return f"was {self.wanted.told_from(None)} when this was exported, and is of type {type(value).__name__}"
        given = TensorFacts.of(value)
        return f"was {self.wanted.told_from(given)} when this was exported, and is {given.told_from(self.wanted)}"


@dataclass(frozen=True)
class Identity:
    """Which values among the arguments are one object, or that none of them is another."""

    places: tuple[Place, ...]
    same: bool

    def fault(self, arguments: Sequence[Any]) -> str | None:
        seen: dict[int, Place] = {}
        for place in self.places:
            first = seen.setdefault(id(place.read(arguments)), place)
            if first is not place and not self.same:
                return f"and {first.name} were two objects when this was exported, and are one"
        if self.same and len(seen) > 1:
            return f"and {self.places[0].name} were one object when this was exported, and are two"
        return None

    @property
    def place(self) -> Place:
        return self.places[-1]


@dataclass(frozen=True)
class Relation:
    """What must be true of numbers that the arguments bring. ``program``: as `shapes.Fact` has it, on the places."""

    places: tuple[Place, ...]
    program: tuple[tuple[Any, ...], ...]
    text: str

    @property
    def place(self) -> Place:
        return self.places[0]

    def fault(self, arguments: Sequence[Any]) -> str | None:
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
        return f"has sizes or numbers for which it is not so that {self.text}"


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
"""The operations of symbolic programs."""


@dataclass(frozen=True)
class GradMode:
    """Grad mode, where the graph puts it back to what it was when it was traced."""

    wanted: bool
    place = Place("grad mode", 0)

    def fault(self, arguments: Sequence[Any]) -> str | None:
        if torch.is_grad_enabled() is self.wanted:
            return None
        words = {True: "on", False: "off"}
        return f"was {words[self.wanted]} when this was exported, and is {words[not self.wanted]}"


_SHOWN = (type(None), bool, int, str)
"""Types of defaults that are written into the signature."""


_END = object()


class _Arguments:
    """An interpreter's values. A placeholder with a star takes all up to the next end, and not those behind it."""

    def __init__(self, values: list[Any]) -> None:
        self._left = deque(values)

    def __iter__(self) -> _Arguments:
        return self

    def __next__(self) -> Any:
        value = self._left.popleft() if self._left else _END
        if value is _END:
            raise StopIteration
        return value


class Calling(CodeGen):
    """How a graph is called: with these parameters, after these facts have been checked."""

    def __init__(
        self,
        name: str,
        parameters: Iterable[inspect.Parameter],
        given: dict[str, Any],
        facts: Iterable[Fact | Identity | Relation | GradMode],
    ) -> None:
        super().__init__()
        self.name = name
        self.parameters = tuple(parameters)
        self.given = {
            each.name: len(given[each.name]) if each.kind is each.VAR_POSITIONAL else 1
            for each in self.parameters
            if each.name in given
        }
        """The parameters that the program was given, and how many values each is."""
        self.in_order = [*self.given] == [*given]
        """Whether they were given in the order that they are declared in."""
        self.facts = tuple(facts)

    def __deepcopy__(self, memo: dict[int, Any]) -> Calling:
        return copy.copy(self)  # it holds objects by which arguments are known

    def check(self, *arguments: Any) -> None:
        """Raise `InvalidInput` where the graph is not for these."""
        for fact in self.facts:
            fault = fact.fault(arguments)
            if fault is not None:
                raise InvalidInput(self.name, fact.place.name, fault)

    def process_inputs(self, *args: Any) -> Any:
        """What an interpreter, which knows of no names, gives to the placeholders: values of those parameters that the
        program was given, or of the first ones."""
        parameters: Sequence[inspect.Parameter] = self.parameters
        if len(args) == sum(self.given.values()):
            if not self.in_order:
                fault = "are told apart by their names, which an interpreter leaves out: give them in their order"
                raise InvalidInput(self.name, "arguments that were not given in the order of the parameters", fault)
            parameters = [each for each in parameters if each.name in self.given]
        elif any(each.kind is each.VAR_POSITIONAL for each in parameters):
            return args
        values = {each.name: () if each.kind is each.VAR_POSITIONAL else each.default for each in self.parameters}
        left = list(args)
        for each in parameters[: len(args)]:
            count = self.given[each.name] if each.kind is each.VAR_POSITIONAL else 1
            values[each.name] = tuple(left[:count]) if each.kind is each.VAR_POSITIONAL else left[0]
            del left[:count]
        return args if any(value is inspect.Parameter.empty for value in values.values()) else self._placed(values)

    def _placed(self, values: dict[str, Any]) -> Any:
        """Checked values of all parameters as an interpreter takes them."""
        self.check(*values.values())
        found: list[Any] = []
        for each in self.parameters:
            found += [*values[each.name], _END] if each.kind is each.VAR_POSITIONAL else [values[each.name]]
        return _Arguments(found) if any(value is _END for value in found) else tuple(found)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> str:
        return (
            f"def forward({', '.join(['self', *self._declarations()])}){maybe_return_annotation}:\n"
            f"    _calling.check({', '.join(each.name for each in self.parameters)})"
        )

    def _declarations(self) -> Iterable[str]:
        before = None
        for at, each in enumerate(self.parameters):
            kind = each.kind
            if before is each.POSITIONAL_ONLY and kind is not each.POSITIONAL_ONLY:
                yield "/"
            if kind is each.KEYWORD_ONLY and before not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL):
                yield "*"
            star = "*" if kind is each.VAR_POSITIONAL else ""
            default = repr(each.default) if type(each.default) in _SHOWN else f"_calling.parameters[{at}].default"
            yield star + each.name + ("" if each.default is each.empty else f"={default}")
            before = kind
        if before is inspect.Parameter.POSITIONAL_ONLY:
            yield "/"

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("_calling", self)]


class ExportedModule(torch.fx.GraphModule):
    """A graph module that is copied and pickled as the graph it is: torch's own is traced again when it is loaded,
    which runs operators that take no tensor (``torch.randn(3)``) once and for all."""

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        return _load, (type(self).__name__, state, list(map(_row_of, self.graph.nodes)), self.graph._codegen)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = super().__deepcopy__(memo)
        copied._non_persistent_buffers_set = set(self._non_persistent_buffers_set)
        copied.training = self.training
        return copied


@dataclass(frozen=True)
class _Reference:
    """In a pickled node: another node, or a function, by its name."""

    name: str


def _find(name: str) -> Any:
    """What a qualified name says; None where that is nothing."""
    root, *rest = name.split(".")
    if not rest:
        return getattr(builtins, root, None)
    try:
        return operator.attrgetter(".".join(rest))(importlib.import_module(root))
    except (ImportError, AttributeError):
        return None


Row = tuple[str, str, Any, Any, Any]


def _refer(node: torch.fx.Node) -> Any:
    return _Reference(node.name)


def _row_of(node: torch.fx.Node) -> Row:
    target: Any = node.target
    if callable(target):
        name = _get_qualified_name(target)
        if _find(name) is target:
            target = _Reference(name)
    args, kwargs = map_arg((node.args, node.kwargs), _refer)  # type: ignore[misc]
    return node.op, node.name, target, args, kwargs


def _graph_of(rows: list[Row], codegen: CodeGen) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    nodes: dict[str, torch.fx.Node] = {}

    def found(value: Any) -> Any:
        return nodes[value.name] if isinstance(value, _Reference) else value

    for op, name, target, args, kwargs in rows:
        args, kwargs = map_aggregate((args, kwargs), found)  # type: ignore[misc, assignment]
        if isinstance(target, _Reference):
            target = _find(target.name)
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
    """An instance of the program's class in this state, of which no method is run."""
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
