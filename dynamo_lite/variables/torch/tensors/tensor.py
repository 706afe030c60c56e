"""Tensors: a node of the graph and the fake tensor that says what it is."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    UnsupportedFakeTensorException,
)
from torch.utils._device import _device_constructors

from dynamo_lite import config
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import (
    DataDependentBranch,
    DataDependentValue,
    UnmetCondition,
    UnsupportedAttribute,
    UnsupportedOperation,
    UnsupportedValue,
)
from dynamo_lite.records.runtime_assertions import Expected
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.graph_functions import indexed, plain_tensor, unasked
from dynamo_lite.runtime.inner_tensors import is_wrapper, overrides_torch_function
from dynamo_lite.shapes.symbols import SYMBOLIC
from dynamo_lite.variables.core.attributes import MISSING, class_lookup, guard_class_lacks
from dynamo_lite.variables.core.base import (
    TEXTS,
    Args,
    Kwargs,
    LazyVariable,
    NotConstant,
    VariableTracker,
    call_handler,
    mro,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.constant import CONSTANT_TYPES, ConstantVariable
from dynamo_lite.variables.core.late_text import text_of_tensor
from dynamo_lite.variables.core.mutated_attributes import record_dropped_item
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, INPLACE
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import (
    become_created_leaf,
    dispatch_torch_function,
    to_array,
    wrapper_result,
)
from dynamo_lite.variables.python.containers.sequence import (
    ListVariable,
    NamedTupleVariable,
    SizeVariable,
    TupleVariable,
    is_namedtuple_class,
)

from .array_memory import load_view, owner_of
from .data_failures import check_cast, check_failure, check_index, check_overlap, check_write, may_fail
from .default_dtype import dtype_to_say
from .equivalent_operators import by_rules
from .fake_calls import on_fakes, operator_name
from .mutated_arguments import OPERATORS, check_written, said_to_be_written, tensors_in, version
from .operator_warnings import run_heard

VALUE_METHODS = frozenset(
    {"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__", "__repr__"}
    | {"__str__", "__format__", "equal", "allclose", "is_nonzero"}
)
"""Methods that need the data."""

_SCALARS: dict[str, Any] = {"item": None, "__int__": int, "__float__": float, "__index__": int}
"""Those that read one number, and what they make of it."""

_LONGEST_LIST = 1024
"""Of as many numbers a list is made in a graph, each by an operator of its own."""

UNTRACED_METHODS = frozenset(
    {"resize_", "resize_as_", "t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_"}
    | {"as_strided_", "rename_", "share_memory_", "retain_grad"}
    | {"backward", "untyped_storage", "storage", "data_ptr", "apply_", "map_"}
    | {"__reduce_ex__", "__deepcopy__", "__setstate__", "names", "storage_offset_", "__dlpack__", "module_load"}
    | {"pin_memory", "to_sparse", "refine_names", "align_to", "unflatten_names"}
    | {"const_data_ptr", "is_set_to", "is_shared", "is_pinned", "storage_type", "is_alias_of"}
    | {"_is_view", "_use_count", "_typed_storage", "_fix_weakref"}
)
"""Methods whose effect is on the tensor object rather than on its data, that leave the graph, or that tell what no
guard fixes."""

RESHAPERS = frozenset(
    {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_", "as_strided_", "resize_", "resize_as_"}
)
"""Those of them that a tensor made inside may have done to it."""

FACTS = frozenset(
    {"shape", "dtype", "device", "layout", "ndim", "is_cuda", "is_cpu", "is_sparse", "is_quantized", "is_meta"}
    | {"itemsize", "is_nested", "is_mkldnn", "is_mps", "is_xpu", "is_sparse_csr", "is_xla", "requires_grad"}
    | {"is_ipu", "is_vulkan", "is_maia", "is_mtia", "is_ort", "is_hpu"}
)
"""Attributes that the guard on the tensor fixes."""

OPERATOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
"""Attributes that are operators."""

_LITERAL = (*CONSTANT_TYPES, type)


class TensorVariable(VariableTracker):
    """A tensor. ``fake`` has its dtype, device, sizes, strides and ``requires_grad``; ``cls`` is its Python class."""

    __slots__ = ("node", "fake", "cls", "value", "attrs", "thawed")
    implements_equality = True
    is_tensor = True
    has_torch_function = False
    """Whether torch's functions ask its class first."""

    def __init__(
        self, node: Any, fake: torch.Tensor, cls: type, source: Source | None = None, value: Any = None
    ) -> None:
        self.source = source
        self.node = node
        self.fake = fake
        self.cls = cls
        self.value = value
        self.attrs: dict[str, VariableTracker | None] = {}
        """What was written to its attributes inside, None for deleted."""
        self.thawed: tuple[Any, torch.Tensor] | None = None
        """Node and fake of a leaf that was told inside to require no gradient."""

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"a tensor of shape {tuple(self.fake.shape)}"

    def as_fx(self) -> tuple[Any, Any]:
        return self.node, self.fake

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        return (self,) if self.has_torch_function else ()

    def index(self, tx: Translator, message: str) -> Any:
        try:
            return self._value(tx, "__index__", []).as_constant()
        except TypeError as error:
            tx.raise_error(TypeError, *error.args)

    def converted(self, tx: Translator, function: Callable[..., Any], methods: Iterable[str]) -> VariableTracker:
        return self._value(tx, f"__{function.__name__}__", [])

    def key(self) -> Any:
        return self

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in FACTS:
            return tx.make(getattr(self.fake, name))
        if name in OPERATOR_ATTRIBUTES:
            return record(tx, "call_function", getattr, [self, ConstantVariable(name)], {})
        special = ATTRIBUTES.get(name)
        if special is not None:
            return special(tx, self)
        own = self._instance_attribute(tx, name)
        if own is not None:
            return own
        raw = class_lookup(self.cls, name)
        if raw is MISSING:
            tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute {name!r}")
        if callable(raw):
            return TensorMethod(self, name)
        unsupported(UnsupportedAttribute(self.describe(), name))

    def _instance_attribute(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.attrs[name] if name in self.attrs else self._real_attribute(tx, name)

    def _real_attribute(self, tx: Translator, name: str) -> VariableTracker | None:
        if self.value is None or self.source is None:
            return None
        namespace = self.value.__dict__
        if name not in namespace:
            if class_lookup(self.cls, name) is MISSING:
                self.source.check("lacks_instance_dict_item", name)
            return None
        return LazyVariable(tx.attempt, namespace[name], self.source.instance_item(name))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in UNTRACED_METHODS and not (name in RESHAPERS and self.source is None):
            unsupported(UnsupportedAttribute(self.describe(), name, "it changes the tensor object or leaves the graph"))
        if name in VALUE_METHODS:
            return self._value(tx, name, args)
        handler = METHODS.get(name)
        if handler is not None:
            return call_handler(handler, (tx, self, *args), kwargs, f"Tensor.{name}")
        return record(tx, "call_method", name, [self, *args], kwargs)

    def _value(self, tx: Translator, name: str, args: Args) -> VariableTracker:
        if name == "numpy" and not args:
            found = to_array(tx, self)
            if found is not None:
                return found
        if args or name in ("numpy", "__array__", "__repr__", "__str__", "__format__"):
            unsupported(DataDependentValue(f"Tensor.{name}()"))
        if name in _SCALARS and self._is_captured:
            found = self._item(tx)
            return found if name == "item" else tx.call(tx.make(_SCALARS[name]), [found], {})
        if name == "tolist" and self._is_captured and self.fake.numel() <= _LONGEST_LIST:
            return self._listed(tx)
        if self._is_captured:
            unsupported(DataDependentValue(f"Tensor.{name}()"))
        try:
            return tx.make(getattr(self.fake, name)())
        except (DataDependentOutputException, RuntimeError, ValueError, TypeError):
            unsupported(DataDependentValue(f"Tensor.{name}()"))

    def _item(self, tx: Translator) -> VariableTracker:
        if self.fake.dtype is not torch.bool:
            return record(tx, "call_method", "item", [self], {})
        number = record(tx, "call_method", "to", [self, ConstantVariable(torch.int64)], {})
        return tx.compare("!=", record(tx, "call_method", "item", [number], {}), ConstantVariable(0))  # type: ignore[no-any-return]

    def _listed(self, tx: Translator) -> VariableTracker:
        if not self.fake.ndim:
            return self._item(tx)
        items = [self.getitem(tx, ConstantVariable(at)) for at in range(int(self.fake.shape[0]))]
        return ListVariable([item._listed(tx) for item in items])  # type: ignore[attr-defined]

    def deferred_truth(self, tx: Translator) -> VariableTracker | None:
        return self._item(tx).deferred_truth(tx) if self._is_captured else None

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        key = key.as_index(tx)
        if tx.graph.indexing:
            indices = key.items if type(key) is TupleVariable else [key]
            if all(isinstance(each.realize(), TensorVariable) or each.is_constant() for each in indices):
                return record(tx, "call_function", indexed, [self, TupleVariable(indices)], {})
        return record(tx, "call_function", operator.getitem, [self, key], {})

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        key = key.as_index(tx)
        check_index(key.as_fx()[1])
        record(tx, "call_function", operator.setitem, [self, key, value], {})

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        value = value.realize()
        setter = SETTERS.get(name)
        if setter is not None:
            setter(tx, self, value)
        elif class_lookup(self.cls, name) is MISSING and class_lookup(self.cls, "__setattr__") is object.__setattr__:
            guard_class_lacks(tx, self.cls, name)
            self.write(tx, name, value)
        else:
            unsupported(UnsupportedAttribute(self.describe(), name, "writing it is not modelled"))

    def delattr(self, tx: Translator, name: str) -> None:
        if name == "grad":
            SETTERS[name](tx, self, ConstantVariable(None))
        elif self._instance_attribute(tx, name) is not None:
            self._real_attribute(tx, name)  # guards whether there is one to be deleted
            self.write(tx, name, None)
        else:
            unsupported(UnsupportedAttribute(self.describe(), name, "deleting it is not modelled"))

    def write(self, tx: Translator, name: str, value: VariableTracker | None) -> None:
        if self.value is not None and name not in self.attrs:
            record_dropped_item(tx, self.value.__dict__, name)
        tx.effects.decorate(self)
        self.attrs[name] = value

    def guard_deallocations(self) -> None:
        for name in self.attrs if self.source is not None else ():
            self.source.check("instance_item_dies_unseen", name)

    def replay(self, cg: Codegen) -> None:
        for name, value in self.attrs.items():
            if value is not None:
                cg.load(value)
                cg.load(self)
                cg.store_attr(name)
            elif self.value is not None and name in self.value.__dict__:
                cg.load(self)
                cg.delete_attr(name)

    def length(self, tx: Translator) -> Any:
        if self.fake.ndim == 0:
            tx.raise_error(TypeError, "len() of a 0-d tensor")
        return self.fake.shape[0]

    def iterate(self, tx: Translator) -> VariableTracker:
        if self.fake.ndim == 0:
            tx.raise_error(TypeError, "iteration over a 0-d tensor")
        return record(tx, "call_method", "unbind", [self, ConstantVariable(0)], {}).iterate(tx)

    def reverse(self, tx: Translator) -> VariableTracker:
        return tx.call(self.getattr(tx, "flip"), [ConstantVariable(0)], {}) if self.fake.ndim else self

    @property
    def _is_captured(self) -> bool:
        """Whether a number that is read of it is a symbol."""
        return config.capture_scalar_outputs and getattr(self.fake, "constant", None) is None

    def truth(self, tx: Translator) -> bool:
        if self._is_captured:
            unsupported(DataDependentBranch())
        try:
            return bool(self.fake)
        except (DataDependentOutputException, RuntimeError):
            unsupported(DataDependentBranch())

    def expect(self, tx: Translator, truth: bool) -> bool:
        """Go on as if this were true, or false: the graph returns it too, and where it isn't so the frame is run again
        as it is. False where that can't be done."""
        graph = tx.graph
        if graph.bodies or not graph.can_restore_inputs() or self.has_torch_function or self.fake.numel() != 1:
            return False
        site = tx.site()
        if site in tx.attempt.restart_facts.failing_assertions:
            unsupported(UnmetCondition())
        check_failure(tx, "a condition on data")
        graph.fails_handled = True
        kept = record(tx, "call_method", "clone", [self], {})  # it may be written to yet
        tx.attempt.runtime_assertions.append(Expected(kept, truth, site))
        return True

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        unsupported(DataDependentValue("`in` a tensor"))

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        other = other.as_tensor_operand(tx, self, symbol, reflected)
        if not _operand(tx, other):
            return None
        args = [other, self] if reflected else [self, other]
        return record(tx, "call_function", BINARY[symbol], args, {})

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        other = other.as_tensor_operand(tx, self, symbol)
        if not _operand(tx, other):
            return None
        return record(tx, "call_function", INPLACE[symbol], [self, other], {})

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        return record(tx, "call_function", function, [self], {})

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, ConstantVariable) and not isinstance(other.value, (int, float, complex)):
            return tx.make({"==": False, "!=": True}[symbol]) if symbol in ("==", "!=") else None
        other = other.as_tensor_operand(tx, self, symbol)
        if not _operand(tx, other):
            return None
        return record(tx, "call_function", COMPARE[symbol], [self, other], {})

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return text_of_tensor(tx, self, TEXTS[name]) or super().text(tx, name)

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        known = tx.python_value(spec)
        return text_of_tensor(tx, self, format, known) or tx.make(tx.fold(format, (self.python_value(tx), known)))

    def reconstruct(self, cg: Codegen) -> None:
        if self in cg.attempt.before_graph.created:
            cg.load_made(cg.attempt.before_graph.created[self])
        elif cg.attempt.provenance.is_created_leaf(self):  # what a backend returns has a history
            raise NotConstant(self.describe())
        elif (owner := owner_of(cg.attempt, self)) is not None:
            load_view(cg, owner, self)
        else:
            cg.graph_output(self)


def _operand(tx: Translator, other: VariableTracker) -> bool:
    if isinstance(other, ConstantVariable):
        return isinstance(other.value, (int, float, complex))
    if tx.attempt.torch_state.calls_torch_function and other.overloaded_arguments():
        return True
    return isinstance(other, TensorVariable) or issubclass(other.python_type(), (int, float, complex))


class TensorMethod(VariableTracker):
    """A bound method of a tensor."""

    __slots__ = ("receiver", "name")

    def __init__(self, receiver: TensorVariable, name: str) -> None:
        self.source = None
        self.receiver = receiver
        self.name = name

    def python_type(self) -> type:
        kind = type(getattr(torch.Tensor, self.name))
        return _BOUND.get(kind, kind)

    def describe(self) -> str:
        return f"Tensor.{self.name}"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        """What a method in Python lacks its function has."""
        raw = getattr(torch.Tensor, self.name)
        if name == "__self__":
            return self.receiver
        if name == "__name__" or type(raw) is types.FunctionType and name == "__func__":
            return tx.make(raw.__name__ if name == "__name__" else raw)
        if type(raw) is types.FunctionType and (class_lookup(types.MethodType, name) is MISSING or name == "__doc__"):
            return tx.make(raw).getattr(tx, name)
        return super().getattr(tx, name)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.receiver.call_method(tx, self.name, args, kwargs)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """By the function and the tensor, whatever that says of equality."""
        if symbol not in ("==", "!=") or other.python_type() is not self.python_type():
            return None
        if not isinstance(other, TensorMethod):
            unsupported(UnsupportedOperation("comparison", f"{self.describe()} and {other.describe()}"))
        same = self.name == other.name and tx.identical(self.receiver, other.receiver)
        return ConstantVariable(same == (symbol == "=="))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.receiver)
        cg.load_attr(self.name)


_BOUND: dict[type, type] = {
    types.FunctionType: types.MethodType,
    types.MethodDescriptorType: types.BuiltinMethodType,
    types.WrapperDescriptorType: types.MethodWrapperType,
}
"""What the methods of a class are, bound."""
ATTRIBUTES: dict[str, Any] = {
    "nbytes": lambda tx, tensor: tx.make(tensor.fake.numel() * tensor.fake.itemsize),
    "__class__": lambda tx, tensor: tx.make(tensor.cls),
}
SETTERS: dict[str, Any] = {}
"""Of attributes in C."""


def _size(tx: Translator, tensor: TensorVariable, dim: VariableTracker | None = None) -> VariableTracker:
    if dim is None or (isinstance(dim, ConstantVariable) and dim.value is None):
        return tx.make(tensor.fake.shape)
    return tx.make(tx.fold(tensor.fake.size, (dim.as_constant(),)))


def _storage_offset(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    """A view's place follows from that of the argument that it is a view of; of an array it begins the memory."""
    for given in tx.graph.inputs_in_storage(tensor.fake):
        if not given.is_array:
            given.source.check("storage_offset", given.value.storage_offset())
    owner = owner_of(tx.attempt, tensor)
    if owner is None:
        return tx.make(tensor.fake.storage_offset())
    if owner.fake.dtype is not tensor.fake.dtype:
        unsupported(UnsupportedAttribute(tensor.describe(), "storage_offset"))
    return tx.make(tensor.fake.storage_offset() - owner.fake.storage_offset())


def _new(tx: Translator, tensor: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """A `torch.Size` is sizes to it, another tuple is data; in a graph both are tuples."""
    given = [arg.realize() for arg in (*args, *kwargs.values())]
    sized = any(isinstance(each, SizeVariable) for each in given)
    return record(tx, "call_method", "new_empty" if sized else "new", [tensor, *args], kwargs)


def _type(tx: Translator, tensor: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """Of a class of torch's old ones, which has no instances, the name says as much."""
    if args and type(getattr(args[0], "value", None)) is type(torch.FloatTensor):
        cls = args[0].as_constant()
        args = (ConstantVariable(f"{cls.__module__}.{cls.__name__}"), *args[1:])
    return record(tx, "call_method", "type", [tensor, *args], kwargs)


METHODS: dict[str, Any] = {
    "type": _type,
    "new": _new,
    "storage_offset": _storage_offset,
    "size": _size,
    "dim": lambda tx, tensor: ConstantVariable(tensor.fake.dim()),
    "__len__": lambda tx, tensor: tx.length(tensor),
    "__getitem__": lambda tx, tensor, key: tensor.getitem(tx, key),
    "__iter__": lambda tx, tensor: tensor.iterate(tx),
}


def result(tx: Translator, node: Any, fake: Any) -> VariableTracker:
    """The tracker of what a recorded call returned."""
    for base in mro(type(fake)):
        if base in _RESULTS:
            return _RESULTS[base](tx, node, fake)
    unsupported(
        UnsupportedValue(f"a {type(fake).__name__} returned by an operator", "only tensors and constants can be")
    )


def _tensor_result(tx: Translator, node: Any, fake: torch.Tensor) -> VariableTracker:
    known = tx.attempt.values.fakes.get(id(fake))
    if known is not None:
        return known
    if is_wrapper(fake):
        return wrapper_result(tx, node, fake)
    if not is_plain_dense(fake):
        unsupported(UnsupportedValue("a tensor that is not dense, or more than a tensor,", "it is left to eager"))
    cls = torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor
    found = TensorVariable(node, fake, cls)
    tx.attempt.values.fakes[id(fake)] = found
    if tx.attempt.frees_at_once and fake.requires_grad:
        tx.attempt.provenance.recorded(fake.grad_fn)
    made_so = fake.requires_grad and fake.is_leaf  # ``torch.zeros(3, requires_grad=True)``
    if made_so and cls is torch.Tensor and _takes_after_operand(node):
        made_so = False
        fake.requires_grad_(False)
    if made_so and not become_created_leaf(tx, found):
        tx.attempt.provenance.created_leaf(found)
    return found


def _takes_after_operand(node: Any) -> bool:
    """Whether nobody asked for a leaf with gradients: where they are off, some of torch's operators on symbols make one
    of an operand that has some."""
    if torch.is_grad_enabled() or "requires_grad" in node.kwargs:
        return False
    module = getattr(node.target, "__module__", None) or "torch"
    return node.op == "call_method" or module.partition(".")[0] == "torch"


def _tuple_result(tx: Translator, node: Any, fake: tuple[Any, ...]) -> VariableTracker:
    items = _items(tx, node, fake)
    return NamedTupleVariable(items, type(fake)) if is_namedtuple_class(type(fake)) else TupleVariable(items)


def _items(tx: Translator, node: Any, fake: Any) -> list[VariableTracker]:
    return [_item(tx, node, index, each) for index, each in enumerate(fake)]


_RESULTS: dict[type, Callable[[Any, Any, Any], VariableTracker]] = {
    torch.Tensor: _tensor_result,
    tuple: _tuple_result,
    list: lambda tx, node, fake: ListVariable(_items(tx, node, fake)),
    torch.Size: lambda tx, node, fake: SizeVariable([tx.make(each) for each in fake]),
    **dict.fromkeys((*_LITERAL, *SYMBOLIC), lambda tx, node, fake: tx.make(fake)),
}
"""How what an operator returned is seen, by its class or the first of its bases that is here."""


_QUANTISED = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})


def _is_dense(value: torch.Tensor) -> bool:
    return value.layout is torch.strided and not (value.is_nested or value.is_mkldnn) and value.dtype not in _QUANTISED


def is_plain_dense(fake: torch.Tensor) -> bool:
    """Dense, and of a class whose operators are torch's own."""
    return _is_dense(fake) and (type(fake) is FakeTensor or isinstance(fake, torch.nn.Parameter))


def _item(tx: Translator, node: Any, index: int, fake: Any) -> VariableTracker:
    if isinstance(fake, (torch.Tensor, list, tuple)):
        return result(tx, tx.graph.item(node, index, fake), fake)
    return tx.make(fake)


def record(tx: Translator, kind: str, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Put an operator into the graph, computing it on fakes. One that only states facts leaves no node."""
    name = target if kind == "call_method" else getattr(target, "__name__", "")
    rewritten = by_rules(tx, target, name, args, kwargs)
    if rewritten is not None:
        return rewritten
    if torch._C._len_torch_function_stack():
        kwargs = _with_device(target, kwargs)
    try:
        pairs = [arg.as_fx() for arg in args]
        named = {name: value.as_fx() for name, value in kwargs.items()}
    except Unsupported:
        if not _asks(tx, args, kwargs):
            raise
        return dispatch_torch_function(tx, target, args, kwargs)
    if _asks(tx, args, kwargs):
        return dispatch_torch_function(tx, target, args, kwargs)
    return _record_plain(tx, kind, target, args, pairs, named)


def _record_plain(
    tx: Translator, kind: str, target: Any, args: Args, pairs: list[tuple[Any, Any]], named: dict[str, tuple[Any, Any]]
) -> VariableTracker:
    """The same, where no class is asked. ``pairs``, ``named``: the arguments, for the node and on fakes."""
    name = target if kind == "call_method" else getattr(target, "__name__", "")
    fakes = [pair[1] for pair in pairs]
    fake_kwargs = {name: pair[1] for name, pair in named.items()}
    given: list[torch.Tensor] = []
    tensors_in(fakes, given)
    tensors_in(fake_kwargs.values(), given)
    wrappers = [each for each in given if type(each) is not FakeTensor and is_wrapper(each)]
    if tx.graph.bodies and wrappers:
        unsupported(UnsupportedOperation(operator_name(target), "tensors of a class that makes them of others, inside"))
    versions = [version(each) for each in given]
    called = kind, target
    if any(overrides_torch_function(type(each)) for each in wrappers):  # that was asked, or is not to be
        called = "call_function", unasked(kind, target)
    run = functools.partial(on_fakes, tx, *called, fakes, fake_kwargs)
    fake = run_heard(tx, called[1], given, run)
    written = [each for each, before in zip(given, versions) if before < 0 or each._version != before]
    known = tx.attempt.values.fakes.get(id(fake))
    if not written and (known is not None or (isinstance(fake, _LITERAL) and fake is not None)):
        return known if known is not None else tx.make(fake)
    if torch.get_default_dtype() is not tx.graph.default_dtype:
        said = dtype_to_say(tx, target, fake_kwargs, fake, None if written else run)
        if said is not None:
            named["dtype"] = said, said
    unsure = fake is None or isinstance(target, OPERATORS) or (name.endswith("_") and not name.endswith("__"))
    if unsure and not written:
        written = said_to_be_written(target, fakes, fake_kwargs)
    if fake is None and not written and target not in _CHECKS:
        unsupported(UnsupportedOperation(f"{operator_name(target)}, which returns nothing,", "tensors"))
    operands = tuple(pair[0] for pair in pairs), {key: pair[0] for key, pair in named.items()}
    if isinstance(fake, SYMBOLIC) and not written:
        if tx.graph.symbols.is_new(fake):
            tx.graph.define(tx.graph.call(*called, *operands, fake), fake)
        return tx.make(fake)
    if isinstance(fake, torch.Size) or (not written and _only_facts(tx, fake)):
        return tx.make(fake)
    if written:
        check_written(tx, operator_name(target), written)
        check_overlap(operator_name(target), written, given, fakes)
        check_cast(name, written, [*fakes, *given])
    if may_fail(target, name, given):
        check_failure(tx, operator_name(target))
    if written:
        check_write(tx, operator_name(target), written)
    node = tx.graph.call(*called, *operands, fake)
    tx.graph.define(node, fake)
    if written:
        tx.graph.note_writes(written)
        if isinstance(fake, (list, tuple)) and fakes and fake is fakes[0]:
            return args[0]
    return result(tx, node, fake) if fake is not None else ConstantVariable(None)


_CHECKS = (torch._assert_async,)
"""What returns nothing and writes nothing, but raises on the data."""


def _asks(tx: Translator, args: Args, kwargs: Kwargs) -> bool:
    """Whether torch asks the class of an argument what to do."""
    given = (*args, *kwargs.values())
    return tx.attempt.torch_state.calls_torch_function and any(arg.realize().overloaded_arguments() for arg in given)


def _with_device(target: Any, kwargs: Kwargs) -> Kwargs:
    """What makes a tensor of nothing makes it on the default device of the moment, which is said in the graph."""
    mode: Any = torch._C._get_function_stack_at(0)
    device = kwargs.get("device")
    unsaid = device is None or (isinstance(device, ConstantVariable) and device.value is None)
    if isinstance(target, str) or not unsaid or target not in _device_constructors():
        return kwargs
    return {**kwargs, "device": ConstantVariable(mode.device)}


def _only_facts(tx: Translator, fake: Any) -> bool:
    if type(fake) is not tuple or not all(isinstance(each, (int, bool, float, str, *SYMBOLIC)) for each in fake):
        return False
    return not any(isinstance(each, SYMBOLIC) and tx.graph.symbols.is_new(each) for each in fake)


def wrap_as_input(attempt: Attempt, value: torch.Tensor, source: Source, cls: type | None = None) -> VariableTracker:
    """A tensor as an input of the graph. ``cls``: what it is an instance of, where ``value`` is its plain alias."""
    if not _is_dense(value):
        return attempt.values.opaque(value, source, "a tensor that is not dense")
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        return attempt.values.opaque(value, source, "a tensor of a torch.func transform")
    base = value._base
    if base is not None and is_wrapper(base):  # whose class's code makes a fake view, and may read data
        return attempt.values.opaque(value, source, "a view of a tensor that is made of others")
    if base is not None and not _is_dense(base):  # the converter describes it too
        return attempt.values.opaque(value, source, "a part of a tensor that is not dense")
    try:
        if value.is_leaf and value.grad is not None and value.grad.shape != value.shape:  # its data was replaced
            return attempt.values.opaque(value, source, "a tensor whose gradient has another shape")
    except RuntimeError:
        return attempt.values.opaque(value, source, "a view of which torch doesn't say whose gradient it has")
    try:
        free = attempt.shapes.free(source, value) if cls is None else None
        given = attempt.graph.input(source, value, None if cls is None else plain_tensor, free)
    except (UnsupportedFakeTensorException, NotImplementedError):
        return attempt.values.opaque(value, source, "a tensor of which no fake can be made")
    attempt.guards.tensor(source, value, cls or type(value), attempt.graph.symbols.symbolic_dims(source))
    found = TensorVariable(given.node, given.fake, type(value), source, value)
    attempt.values.fakes[id(given.fake)] = found
    return found


@wraps_type(torch.Tensor, torch.nn.Parameter)
def _wrap_tensor(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    return wrap_as_input(attempt, value, source)
