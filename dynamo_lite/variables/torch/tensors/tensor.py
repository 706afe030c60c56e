"""Tensors: each is a node of the graph and a fake tensor. `record` puts an operator on tensors into the graph."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    UnsupportedFakeTensorException,
    unset_fake_temporarily,
)
from torch.utils._device import _device_constructors

from dynamo_lite import config
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import (
    AttributeChange,
    BackwardCall,
    DataDependentBranch,
    DataDependentValue,
    NumpyStorage,
    RandomStateUsed,
    RequiresGradChange,
    ResultNotDense,
    TensorObjectMethod,
    UnsupportedAttribute,
    UnsupportedOperation,
    UnsupportedValue,
)
from dynamo_lite.plan.rows import DeleteAttribute, Value
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.random_operators import draws_nothing
from dynamo_lite.records.restart import leave_to_cpython
from dynamo_lite.records.runtime_assertions import RuntimeAssertion
from dynamo_lite.records.subgraphs import is_mapped
from dynamo_lite.records.uncounted_writes import tensors_in
from dynamo_lite.records.unused_effects import is_collective, keep_if_unused
from dynamo_lite.runtime.distributed_tensors import is_distributed_class
from dynamo_lite.runtime.graph_functions import indexed, plain_tensor, without_torch_function
from dynamo_lite.runtime.inner_tensors import is_wrapper, overrides_torch_function
from dynamo_lite.runtime.node_text import bare_name
from dynamo_lite.runtime.shared_memory import is_cut_off, share_memory
from dynamo_lite.shapes.symbols import SYMBOLIC
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import (
    MISSING,
    BuiltinMethodVariable,
    bind,
    class_lookup,
    guard_class_lacks,
)
from dynamo_lite.variables.core.base import (
    TEXTS,
    Args,
    Attempt,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.c_arguments import call_handler
from dynamo_lite.variables.core.class_lookup import mro
from dynamo_lite.variables.core.constant import CONSTANT_TYPES, ConstantVariable
from dynamo_lite.variables.core.deferred_number import deferred_read
from dynamo_lite.variables.core.deferred_text import text_of_tensor
from dynamo_lite.variables.core.interfaces import Effects
from dynamo_lite.variables.core.invariant_reads import is_read_later, refuse_read
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, INPLACE
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type
from dynamo_lite.variables.python.containers.sequences import (
    ListVariable,
    SizeVariable,
    StructSequenceVariable,
    TupleVariable,
    is_struct_sequence,
)
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.contexts.streams import record_stream

from .array_memory import array_owner, view_of
from .equivalent_operators import apply_rewrites
from .fake_computation import compute_with_symbols, operator_name
from .known_tensors import GraphTensor, KnownTensors
from .later_states import certain, check_in_body
from .mutated_arguments import (
    OPERATORS,
    Watch,
    check_mutated,
    check_resized,
    check_views,
    is_alone_in_memory,
    mutated_by_schema,
)
from .operator_warnings import run_capturing_warnings
from .overlapping_views import Operands, through_base
from .runtime_failures import (
    check_cast,
    check_collective,
    check_failure,
    check_index,
    check_overlap,
    check_write,
    may_fail,
)
from .saved_tensors import check_saved

_DATA_METHODS = frozenset(
    {"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__", "__repr__"}
    | {"__str__", "__format__", "equal", "allclose", "is_nonzero"}
)
"""Methods that read the data."""

_SCALARS: dict[str, Any] = {"item": None, "__int__": int, "__float__": float, "__index__": int}
"""Methods that read one number, and the type they convert it to."""

_LONGEST_LIST = 1024
"""The longest tensor whose `tolist` is captured: each number is an operator of its own."""

UNTRACED_METHODS = frozenset(
    {"resize_", "resize_as_", "t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_"}
    | {"as_strided_", "rename_", "share_memory_", "retain_grad", "set_"}
    | {"backward", "untyped_storage", "storage", "data_ptr", "apply_", "map_"}
    | {"__reduce_ex__", "__deepcopy__", "__setstate__", "names", "storage_offset_", "__dlpack__", "module_load"}
    | {"pin_memory", "to_sparse", "refine_names", "align_to", "unflatten_names"}
    | {"const_data_ptr", "is_set_to", "is_shared", "is_pinned", "storage_type", "is_alias_of"}
    | {"_is_view", "_use_count", "_typed_storage", "_fix_weakref"}
)
"""Methods that change the tensor object (not its data), leave the graph, or return what no guard checks."""

IN_PLACE_VIEWS = frozenset(
    {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_", "as_strided_", "resize_", "resize_as_"}
)
"""The `UNTRACED_METHODS` that are traced if the tensor was created during tracing."""

_RESIZING = frozenset({"resize_", "resize_as_"})
"""Methods that may give a tensor more memory."""

_GUARDED_ATTRIBUTES = frozenset(
    {"shape", "dtype", "device", "layout", "ndim", "is_cuda", "is_cpu", "is_sparse", "is_quantized", "is_meta"}
    | {"itemsize", "is_nested", "is_mkldnn", "is_mps", "is_xpu", "is_sparse_csr", "is_xla", "requires_grad"}
    | {"is_ipu", "is_vulkan", "is_maia", "is_mtia", "is_ort", "is_hpu"}
)
"""Attributes that the guard on the tensor checks."""

OPERATOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
"""Attributes that are computed by operators."""

_LITERAL = (*CONSTANT_TYPES, type)


class TensorVariable(GraphTensor):
    """A tensor: its node in the graph and its fake tensor.

    ``cls`` is its Python class, ``value`` the real tensor if it is an input of the graph.
    """

    __slots__ = ("cls", "value", "attrs", "before_freezing")
    implements_equality = True
    is_tensor = True
    has_torch_function = False
    """Whether torch functions dispatch to its class's ``__torch_function__``."""

    def __init__(
        self, node: torch.fx.Node, fake: torch.Tensor, cls: type, source: Source | None = None, value: Any = None
    ) -> None:
        self.source = source
        self.node = node
        self.fake = fake
        self.cls = cls
        self.value = value
        self.attrs: dict[str, VariableTracker | None] = {}
        """Attributes set during tracing; None for a deleted one."""
        self.before_freezing: tuple[torch.fx.Node, torch.Tensor, int] | None = None
        """Node and fake that a leaf had before its ``requires_grad`` was set to False during tracing, and that step."""

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"a tensor of shape {tuple(self.fake.shape)}"

    def as_fx(self) -> tuple[torch.fx.Node, torch.Tensor]:
        return self.node, self.fake

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        return (self,) if self.has_torch_function else ()

    def index(self, tx: Translator, message: str) -> Any:
        try:
            return self._read_data(tx, "__index__", []).as_constant()
        except TypeError as error:
            tx.raise_error(TypeError, *error.args)

    def converted(self, tx: Translator, function: Callable[..., object]) -> VariableTracker:
        return self._read_data(tx, f"__{function.__name__}__", [])

    def key(self) -> TensorVariable:
        return self

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in _GUARDED_ATTRIBUTES:
            if tx.graph.scope.is_nested and name != "shape":
                return tx.make(certain(tx, f"{name} of {self.describe()}", operator.attrgetter(name), self))
            return tx.make(getattr(self.fake, name))
        if name in OPERATOR_ATTRIBUTES:
            return record(tx, getattr, [self, ConstantVariable(name)], {})
        special = ATTRIBUTES.get(name)
        if special is not None:
            return special(tx, self)
        own = self._instance_attribute(tx, name)
        if own is not None:
            if is_read_later(tx):
                refuse_read(f"the attribute {name} of {self.describe()}")
            return own
        raw = class_lookup(self.cls, name)
        if raw is MISSING:
            tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute {name!r}")
        if type(raw) in (types.FunctionType, classmethod):
            return bind(tx, raw, name, self, self.cls)
        if callable(raw):
            return BuiltinMethodVariable(self, name)
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
        if name in UNTRACED_METHODS and not (name in IN_PLACE_VIEWS and self._may_change_layout(tx, name)):
            if name == "backward":
                unsupported(BackwardCall())
            unsupported(TensorObjectMethod(name))
        if name in _DATA_METHODS:
            return self._read_data(tx, name, args)
        handler = METHODS.get(name)
        if handler is not None:
            return call_handler(handler, (tx, self, *args), kwargs, f"Tensor.{name}")
        return record(tx, name, [self, *args], kwargs)

    def _may_change_layout(self, tx: Translator, method: str) -> bool:
        if self.source is not None or method not in _RESIZING:
            return self.source is None
        # AOTAutograd resizes no view, and since torch 2.15 it takes all that a graph creates for views.
        return not tx.attempt.traits.frees_at_once and is_alone_in_memory(tx, self.fake)

    def _read_data(self, tx: Translator, name: str, args: Args) -> VariableTracker:
        if args or name in ("__array__", "__repr__", "__str__", "__format__"):
            unsupported(DataDependentValue(f"Tensor.{name}()"))
        if self._is_captured(tx):
            return self._symbolic_read(tx, name)
        if name != "tolist":  # that would specialize the sizes
            with contextlib.suppress(DataDependentOutputException, RuntimeError, ValueError, TypeError):
                return tx.make(getattr(self.fake, name)())
        deferred = deferred_read(tx, self, name)
        if deferred is not None:
            return deferred
        unsupported(DataDependentValue(f"Tensor.{name}()"))

    def _symbolic_read(self, tx: Translator, name: str) -> VariableTracker:
        """What a method that reads numbers returns where those are symbols. Under ``fullgraph`` alone, numbers that are
        only passed on are read after the graph, as elsewhere."""
        deferred = None if config.in_force("capture_scalar_outputs") else deferred_read(tx, self, name)
        if deferred is not None:
            return deferred
        if name in _SCALARS:
            number = self._item(tx)
            return number if name == "item" else tx.call(tx.make(_SCALARS[name]), [number], {})
        if name == "tolist" and math.prod(self._known_sizes(tx)) <= _LONGEST_LIST:
            return self._to_list(tx)
        unsupported(DataDependentValue(f"Tensor.{name}()"))

    def known_numbers(self, tx: Translator) -> VariableTracker | None:
        """Its numbers: constants, or symbols of the graph; None if the graph breaks where numbers are read."""
        constant = getattr(self.fake, "constant", None)
        if constant is not None:
            with unset_fake_temporarily():
                return tx.make(constant.tolist())
        return self._to_list(tx) if tx.graph.captures_data else None

    def _item(self, tx: Translator) -> VariableTracker:
        if self.fake.dtype is not torch.bool:
            return record(tx, "item", [self], {})
        number = record(tx, "to", [self, ConstantVariable(torch.int64)], {})
        return tx.compare("!=", record(tx, "item", [number], {}), ConstantVariable(0))

    def _known_sizes(self, tx: Translator) -> list[int]:
        """Its sizes, specialized. Breaks the graph if one depends on data."""
        return [tx.python_value(tx.make(size)) for size in self.fake.shape]

    def _to_list(self, tx: Translator) -> VariableTracker:
        if not self.fake.ndim:
            return self._item(tx)
        rows = [self.getitem(tx, ConstantVariable(at)) for at in range(self._known_sizes(tx)[0])]
        return ListVariable([row._to_list(tx) for row in rows if isinstance(row, TensorVariable)])

    def deferred_truth(self, tx: Translator) -> VariableTracker | None:
        if self._is_captured(tx):
            return self._item(tx).deferred_truth(tx)
        return deferred_read(tx, self, "__bool__") if getattr(self.fake, "constant", None) is None else None

    def as_index(self, tx: Translator) -> VariableTracker:
        """Indexing takes a tensor of one integer as a number, but not one of uint8, which is a mask."""
        fake = self.fake
        is_number = not (fake.ndim or fake.is_floating_point() or fake.is_complex())
        is_number = is_number and fake.dtype not in (torch.bool, torch.uint8) and self.cls is torch.Tensor
        is_number = is_number and self._is_captured(tx) and not tx.graph.indexing
        return self._item(tx) if is_number and not is_mapped(self.node, tx.graph.scope.nesting) else self

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        key = key.as_index(tx)
        if tx.graph.indexing:
            indices = key.items if type(key) is TupleVariable else [key]
            if all(isinstance(each.realize(), TensorVariable) or each.is_constant() for each in indices):
                return record(tx, indexed, [self, TupleVariable(indices)], {})
        return record(tx, operator.getitem, [self, key], {})

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        key = key.as_index(tx)
        check_index(key.as_fx()[1])
        record(tx, operator.setitem, [self, key, value], {})

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        value = value.realize()
        setter = SETTERS.get(name)
        if setter is not None:
            setter(tx, self, value)
        elif class_lookup(self.cls, name) is MISSING and class_lookup(self.cls, "__setattr__") is object.__setattr__:
            guard_class_lacks(tx.guards, self.cls, name)
            self.write(tx, name, value)
        else:
            unsupported(AttributeChange(self.describe(), name, "written"))

    def delattr(self, tx: Translator, name: str) -> None:
        if name == "grad":
            SETTERS[name](tx, self, ConstantVariable(None))
        elif self._instance_attribute(tx, name) is not None:
            self._real_attribute(tx, name)  # guards whether the attribute exists
            self.write(tx, name, None)
        else:
            unsupported(AttributeChange(self.describe(), name, "deleted"))

    def write(self, tx: Translator, name: str, value: VariableTracker | None) -> None:
        tx.effects.decorate(self)
        self.attrs[name] = value

    def replay(self, plan: Planner) -> None:
        for name, value in self.attrs.items():
            if value is not None:
                plan.set_attribute(plan.value(self), name, value)
            elif self.value is not None and name in self.value.__dict__:
                plan.steps.append(DeleteAttribute(plan.value(self), name))

    def length(self, tx: Translator) -> int | torch.SymInt:
        if self.fake.ndim == 0:
            tx.raise_error(TypeError, "len() of a 0-d tensor")
        return self.fake.shape[0]

    def iterate(self, tx: Translator) -> VariableTracker:
        if self.fake.ndim == 0:
            tx.raise_error(TypeError, "iteration over a 0-d tensor")
        tx.graph.symbols.specialize_symbols(self.fake.shape[0])
        return record(tx, "unbind", [self, ConstantVariable(0)], {}).iterate(tx)

    def reverse(self, tx: Translator) -> VariableTracker:
        return tx.call(self.getattr(tx, "flip"), [ConstantVariable(0)], {}) if self.fake.ndim else self

    def _is_captured(self, tx: Translator) -> bool:
        """Whether reading a number from it gives a symbolic number."""
        return getattr(self.fake, "constant", None) is None and tx.graph.captures_data

    def truth(self, tx: Translator) -> bool:
        if self._is_captured(tx):
            unsupported(DataDependentBranch())
        try:
            return bool(self.fake)
        except (DataDependentOutputException, RuntimeError):
            unsupported(DataDependentBranch())

    def expect(self, tx: Translator, truth: bool) -> bool:
        """Assume that this condition has the given truth value, and check that at run time.

        The graph returns the condition too; if the assertion fails, the frame is run again in eager. Returns False if
        that isn't possible here.
        """
        graph = tx.graph
        if graph.scope.is_nested or not graph.can_restore_inputs() or self.has_torch_function or self.fake.numel() != 1:
            return False
        check_failure(tx, "a runtime assertion")
        graph.fails_handled = True
        kept = record(tx, "clone", [self], {})  # it may be mutated before the graph returns it
        tx.attempt.runtime_assertions.append(RuntimeAssertion(kept, truth))
        return True

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        unsupported(DataDependentValue("`in` a tensor"))

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        other = other.as_tensor_operand(tx, self, symbol, reflected)
        if not _is_operand(tx, other):
            return None
        args = [other, self] if reflected else [self, other]
        return record(tx, BINARY[symbol], args, {})

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        other = other.as_tensor_operand(tx, self, symbol)
        if not _is_operand(tx, other):
            return None
        return record(tx, INPLACE[symbol], [self, other], {})

    def unary(self, tx: Translator, function: Callable[..., object]) -> VariableTracker | None:
        return record(tx, function, [self], {})

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, ConstantVariable) and not isinstance(other.value, (int, float, complex)):
            return tx.make({"==": False, "!=": True}[symbol]) if symbol in ("==", "!=") else None
        other = other.as_tensor_operand(tx, self, symbol)
        if not _is_operand(tx, other):
            return None
        return record(tx, COMPARE[symbol], [self, other], {})

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return text_of_tensor(tx, self, TEXTS[name]) or super().text(tx, name)

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        text = tx.python_value(spec)
        return text_of_tensor(tx, self, format, text) or tx.make(tx.fold(format, (self.python_value(tx), text)))

    def construct(self, plan: Planner) -> Value:
        if plan.attempt.provenance.is_created_leaf(self):  # a graph's outputs have a grad_fn
            raise NotConstant(self.describe())
        owner = array_owner(plan.attempt, self)
        return plan.output(self) if owner is None else view_of(plan, owner, self)


def _is_operand(tx: Translator, other: VariableTracker) -> bool:
    """Whether a tensor's operator takes this as its other operand."""
    if isinstance(other, ConstantVariable):
        return isinstance(other.value, (int, float, complex))
    if tx.attempt.torch_state.calls_torch_function and other.overloaded_arguments():
        return True
    is_number = other.is_taken_as_number or issubclass(other.python_type(), (int, float, complex))
    return is_number or isinstance(other, TensorVariable)


ATTRIBUTES: dict[str, Callable[[Translator, TensorVariable], VariableTracker]] = {
    "nbytes": lambda tx, tensor: tx.make(tensor.fake.numel() * tensor.fake.itemsize),
    "__class__": lambda tx, tensor: tx.make(tensor.cls),
}
"""Getters of attributes. Rooms above add rows."""
SETTERS: dict[str, Callable[[Translator, TensorVariable, VariableTracker], object]] = {}
"""Setters of attributes. Rooms above add rows."""


def _size(tx: Translator, tensor: TensorVariable, dim: VariableTracker | None = None) -> VariableTracker:
    if dim is None or (isinstance(dim, ConstantVariable) and dim.value is None):
        return tx.make(tensor.fake.shape)
    return tx.make(tx.fold(tensor.fake.size, (dim.as_constant(),)))


def _storage_offset(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    """``Tensor.storage_offset``. The bases' offsets are guarded. A tensor created from an array begins at 0."""
    for base in tx.graph.inputs_in_storage(tensor.fake):
        if not base.is_array:
            base.source.check("storage_offset", base.value.storage_offset())
    owner = array_owner(tx.attempt, tensor)
    if owner is None:
        read = operator.methodcaller("storage_offset")
        return tx.make(certain(tx, f"storage_offset() of {tensor.describe()}", read, tensor))
    if owner.fake.dtype is not tensor.fake.dtype:
        unsupported(NumpyStorage("storage_offset"))
    return tx.make(tensor.fake.storage_offset() - owner.fake.storage_offset())


def _new(tx: Translator, tensor: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """``Tensor.new``. It takes a `torch.Size` as sizes, another tuple as data; in a graph both are tuples."""
    takes_size = any(isinstance(each.realize(), SizeVariable) for each in (*args, *kwargs.values()))
    return record(tx, "new_empty" if takes_size else "new", [tensor, *args], kwargs)


METHODS: dict[str, Callable[..., VariableTracker]] = {
    "record_stream": record_stream,
    "new": _new,
    "storage_offset": _storage_offset,
    "size": _size,
    "dim": lambda tx, tensor: ConstantVariable(tensor.fake.dim()),
    "__len__": lambda tx, tensor: tx.length(tensor),
    "__getitem__": lambda tx, tensor, key: tensor.getitem(tx, key),
    "__iter__": lambda tx, tensor: tensor.iterate(tx),
}


def result(tx: Translator, node: torch.fx.Node, fake: object) -> VariableTracker:
    """The tracker of a recorded call's result."""
    for base in mro(type(fake)):
        if base in _RESULTS:
            return _RESULTS[base](tx, node, fake)
    unsupported(UnsupportedValue(f"a {type(fake).__name__} returned by an operator", "its type is not modelled"))


def _tensor_result(tx: Translator, node: torch.fx.Node, fake: torch.Tensor) -> VariableTracker:
    known = tx.attempt.state(KnownTensors).of(fake)
    if known is not None:
        return known
    if is_wrapper(fake):
        return tx.wrapper_result(node, fake)
    if not is_plain_dense(fake):
        unsupported(ResultNotDense(operator_name(node.target)))
    cls = torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor
    created = TensorVariable(node, fake, cls)
    tx.attempt.state(KnownTensors).add(fake, created)
    if tx.attempt.traits.frees_at_once and fake.grad_fn is not None:
        tx.attempt.provenance.recorded(fake.grad_fn)
    is_leaf = fake.requires_grad and fake.is_leaf  # ``torch.zeros(3, requires_grad=True)``
    if is_leaf and fake._is_view():  # of a leaf, with grad mode off
        if (
            tx.attempt.traits.frees_at_once and tx.attempt.torch_state.initial_grad_mode
        ):  # compilers would return it with a history
            tx.attempt.provenance.created_leaf(created)
        return created
    if is_leaf and cls is torch.Tensor and _inherits_requires_grad(node):
        is_leaf = False
        fake.requires_grad_(False)
    if is_leaf:
        tx.attempt.provenance.created_leaf(created)
    return created


def _inherits_requires_grad(node: torch.fx.Node) -> bool:
    """Whether a result requires gradients only because an operand does.

    With grad mode off no result should, but some operators on symbolic sizes give a leaf that does.
    """
    if torch.is_grad_enabled() or "requires_grad" in node.kwargs:
        return False
    module = getattr(node.target, "__module__", None) or "torch"
    return node.op == "call_method" or module.partition(".")[0] == "torch"


def _tuple_result(tx: Translator, node: torch.fx.Node, fake: tuple[object, ...]) -> VariableTracker:
    items = _items(tx, node, fake)
    if is_struct_sequence(type(fake)):
        return StructSequenceVariable(items, type(fake))
    made = TupleVariable(items)
    return made if type(fake) is tuple else UserObjectVariable(None, type(fake), None, made)


def _items(tx: Translator, node: torch.fx.Node, fake: Iterable[object]) -> list[VariableTracker]:
    return [_item(tx, node, index, each) for index, each in enumerate(fake)]


_RESULTS: dict[type, Callable[[Translator, torch.fx.Node, Any], VariableTracker]] = {
    torch.Tensor: _tensor_result,
    tuple: _tuple_result,
    list: lambda tx, node, fake: ListVariable(_items(tx, node, fake)),
    torch.Size: lambda tx, node, fake: SizeVariable([tx.make(each) for each in fake]),
    **dict.fromkeys((*_LITERAL, *SYMBOLIC), lambda tx, node, fake: tx.make(fake)),
}
"""Makes the tracker of a result, by the first class in its MRO that has a row."""


_QUANTIZED = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})


def _is_dense(value: torch.Tensor) -> bool:
    return value.layout is torch.strided and not (value.is_nested or value.is_mkldnn) and value.dtype not in _QUANTIZED


def is_plain_dense(fake: torch.Tensor) -> bool:
    """Whether a tensor is dense and no instance of a subclass (but of Parameter)."""
    return _is_dense(fake) and (type(fake) is FakeTensor or isinstance(fake, torch.nn.Parameter))


def _item(tx: Translator, node: torch.fx.Node, index: int, fake: object) -> VariableTracker:
    if isinstance(fake, (torch.Tensor, list, tuple)):
        return result(tx, tx.graph.item(node, index, fake), fake)
    return tx.make(fake)


def record(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Compute an operator on fake tensors and record it in the graph. One that only reads metadata leaves no node.
    ``target``: a function, or the name of a method of the first argument."""
    kind = "call_method" if isinstance(target, str) else "call_function"
    if tx.attempt.before_graph.restores_random_state and not draws_nothing(kind, target):
        unsupported(RandomStateUsed(operator_name(target), "the generator's state was restored before it"))
    if is_collective(target):
        args = [_of_unknown_data(tx, arg.realize()) for arg in args]
    rewritten = apply_rewrites(tx, target, bare_name(target), args, kwargs)
    if rewritten is not None:
        return rewritten
    if torch._C._len_torch_function_stack():
        kwargs = _with_device(target, kwargs)
    try:
        pairs = [arg.as_fx() for arg in args]  # wraps items of lists, which may be the first instances of a subclass
        named = {name: value.as_fx() for name, value in kwargs.items()}
    except Unsupported:
        if not _dispatches(tx, args, kwargs):
            raise
        return tx.call_torch_function(target, args, kwargs)
    if _dispatches(tx, args, kwargs):
        return tx.call_torch_function(target, args, kwargs)
    return _record_plain(tx, kind, target, args, pairs, named)


def _of_unknown_data(tx: Translator, value: VariableTracker) -> VariableTracker:
    """The argument of a collective. A constant tensor (``torch.tensor(1)``) is copied, so that its data count as
    unknown: on known data torch's tracers would run the collective for real."""
    if isinstance(value, (ListVariable, TupleVariable)):
        return value.like([_of_unknown_data(tx, each.realize()) for each in value.items])
    if not isinstance(value, TensorVariable) or getattr(value.fake, "constant", None) is None:
        return value
    like = {"dtype": tx.make(value.fake.dtype), "device": tx.make(value.fake.device)}
    copy = record(tx, torch.empty, [tx.make(value.fake.shape)], like)
    record(tx, "copy_", [copy, value], {})
    return copy


def _operands_to_mutate(
    tx: Translator, target: object, mutated: list[torch.Tensor], fakes: list[Any], operands: Operands
) -> Operands:
    """The operands of an operator that mutates tensors, through which the backend may write."""
    through = through_base(tx, bare_name(target), mutated, fakes, operands)
    if through is operands:
        check_mutated(tx, operator_name(target), mutated)
    if tx.attempt.traits.frees_at_once and not tx.graph.scope.is_nested:
        check_saved(operator_name(target), mutated, operands)
    return through


def _record_plain(
    tx: Translator, kind: str, target: Any, args: Args, pairs: list[tuple[Any, Any]], named: dict[str, tuple[Any, Any]]
) -> VariableTracker:
    """`record` without dispatch to a class. ``pairs``, ``named``: each argument as the node's and as the fake one."""
    name = bare_name(target)
    fakes = [pair[1] for pair in pairs]
    fake_kwargs = {name: pair[1] for name, pair in named.items()}
    tensors = tensors_in([*fakes, *fake_kwargs.values()])
    wrappers = _wrappers_among(tx.graph, tensors, target)
    called = kind, target
    # The ``__torch_function__`` of such a wrapper has run, or is disabled.
    if any(overrides_torch_function(type(each)) for each in wrappers):
        called = "call_function", without_torch_function(kind, target)
    watch = Watch(tx, tensors, "out" in fake_kwargs)  # creates the fake mode, which may warn
    run = functools.partial(compute_with_symbols, tx, *called, fakes, fake_kwargs)
    fake = run_capturing_warnings(tx, called[1], tensors, run)
    mutated, hidden = watch.written()
    operands = tuple(pair[0] for pair in pairs), {key: pair[0] for key, pair in named.items()}
    if tx.graph.scope.is_nested:
        fake = check_in_body(tx, *called, operands, fake, tensors[:1] if name.endswith("_as") else tensors, mutated)
    known = tx.attempt.state(KnownTensors).of(fake)
    returns_new = known is None and name.endswith("_") and not name.endswith("__")
    if not mutated and (fake is None or isinstance(target, OPERATORS) or returns_new):
        mutated = mutated_by_schema(target, fakes, fake_kwargs)  # operators may replace data without counting a write
    if not mutated and (known is not None or (isinstance(fake, _LITERAL) and fake is not None)):
        return known if known is not None else tx.make(fake)
    if fake is None and not mutated and target not in _CHECKS:
        unsupported(UnsupportedOperation(f"{operator_name(target)}, which returns nothing,", "tensors"))
    if isinstance(fake, SYMBOLIC) and not mutated:
        if tx.graph.symbols.is_new(fake):
            tx.graph.define(tx.graph.call(*called, *operands, fake), fake)
        return tx.make(fake)
    if isinstance(fake, torch.Size) or (not mutated and _is_metadata(tx.graph, fake)):
        return tx.make(fake)
    if mutated:
        if name not in IN_PLACE_VIEWS:
            check_resized(tx, operator_name(target), watch.resized())
        operands = _operands_to_mutate(tx, target, mutated, fakes, operands)
        check_overlap(operator_name(target), mutated, tensors, fakes)
        check_cast(name, mutated, [*fakes, *tensors])
    if isinstance(fake, (tuple, list)):
        check_views(tx, operator_name(target), fakes, fake)
    communicates = is_collective(target) or any(is_distributed_class(type(each)) for each in wrappers)
    _check_position(tx, target, tensors, communicates)
    if mutated or hidden:
        check_write(tx.graph, operator_name(target), [*mutated, *hidden])
        _check_frozen(tx.effects, mutated)
    node = tx.graph.call(*called, *operands, fake)
    tx.graph.define(node, fake)
    if mutated:
        tx.graph.note_writes(mutated)
        if isinstance(fake, (list, tuple)) and fakes and fake is fakes[0]:
            return args[0]
    if hidden:
        tx.graph.note_writes(hidden, hidden=True)
    found = result(tx, node, fake) if fake is not None else ConstantVariable(None)
    if communicates:
        keep_if_unused(node, fake)
    return found


def _check_position(tx: Translator, target: Any, tensors: list[torch.Tensor], communicates: bool) -> None:
    """Break the graph before an operator that can't come after what was traced before it."""
    if communicates:
        check_collective(tx, operator_name(target))
    elif may_fail(target, bare_name(target), tensors):
        check_failure(tx, operator_name(target))


def _wrappers_among(graph: GraphBuilder, tensors: list[torch.Tensor], target: object) -> list[torch.Tensor]:
    """The instances of wrapper subclasses, if the function that an operator runs may have them."""
    wrappers = [each for each in tensors if type(each) is not FakeTensor and is_wrapper(each)]
    if wrappers and not all(body.takes_wrappers for body in graph.scope.nesting):
        unsupported(UnsupportedOperation(operator_name(target), "wrapper subclasses in an operator's function"))
    return wrappers


def _check_frozen(effects: Effects[VariableTracker], mutated: Iterable[torch.Tensor]) -> None:
    """Break the graph where a leaf was frozen if autograd records a write into it: the graph has a detached alias."""
    recorded = [fake for fake in mutated if fake.requires_grad]
    for each in effects.written if recorded else ():
        frozen = each.before_freezing if isinstance(each, TensorVariable) else None
        if frozen is not None and any(share_memory(frozen[1], fake) for fake in recorded):
            leave_to_cpython(frozen[2], RequiresGradChange(each.describe()))


_CHECKS = (torch._assert_async,)
"""Operators that return nothing and mutate nothing, but raise depending on the data."""


def _dispatches(tx: Translator, args: Args, kwargs: Kwargs) -> bool:
    """Whether torch dispatches to the ``__torch_function__`` of an argument."""
    arguments = (*args, *kwargs.values())
    return tx.attempt.torch_state.calls_torch_function and any(
        arg.realize().overloaded_arguments() for arg in arguments
    )


def _with_device(target: object, kwargs: Kwargs) -> Kwargs:
    """Pass the current default device explicitly to a factory function (the graph runs under another default)."""
    mode: Any = torch._C._get_function_stack_at(0)
    device = kwargs.get("device")
    is_default = device is None or (isinstance(device, ConstantVariable) and device.value is None)
    if isinstance(target, str) or not is_default or target not in _device_constructors():
        return kwargs
    return {**kwargs, "device": ConstantVariable(mode.device)}


def _is_metadata(graph: GraphBuilder, fake: object) -> bool:
    """Whether an operator's result is a tuple of numbers and texts, which need no node."""
    if type(fake) is not tuple or not all(isinstance(each, (int, bool, float, str, *SYMBOLIC)) for each in fake):
        return False
    return not any(isinstance(each, SYMBOLIC) and graph.symbols.is_new(each) for each in fake)


def wrap_as_input(attempt: Attempt, value: torch.Tensor, source: Source, cls: type | None = None) -> VariableTracker:
    """Make a tensor an input of the graph. ``cls``: its class if it is an instance of a subclass."""
    if not _is_dense(value):
        return attempt.values.opaque(value, source, "a tensor that is not dense")
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        return attempt.values.opaque(value, source, "a tensor of a torch.func transform around the compiled function")
    base = value._base
    if base is not None and is_wrapper(base):  # its class's code creates fake views, and may read data
        return attempt.values.opaque(value, source, "a view of a wrapper subclass")
    if base is not None and not _is_dense(base):  # the fake converter describes the base too
        return attempt.values.opaque(value, source, "a view of a tensor that is not dense")
    if is_cut_off(value):
        return attempt.values.opaque(value, source, "a view of a tensor whose .data was replaced since")
    try:
        grad = value.grad if value.is_leaf else None  # it doesn't fit if ``.data`` was replaced
        if grad is not None and (grad.shape, grad.dtype, grad.device) != (value.shape, value.dtype, value.device):
            return attempt.values.opaque(value, source, "a tensor whose gradient has another shape, type or device")
    except RuntimeError:
        return attempt.values.opaque(value, source, "a view whose gradient torch doesn't report")
    try:
        free = attempt.shapes.free(source, value) if cls is None else None
        created = attempt.graph.input(source, value, None if cls is None else plain_tensor, free)
    except (UnsupportedFakeTensorException, NotImplementedError):
        return attempt.values.opaque(value, source, "a tensor that can't be made a fake tensor")
    attempt.guards.tensor(source, value, cls or type(value), attempt.graph.symbols.symbolic_dims(source))
    tensor = TensorVariable(created.node, created.fake, type(value), source, value)
    attempt.state(KnownTensors).add(created.fake, tensor)
    return tensor


@wraps_type(torch.Tensor, torch.nn.Parameter)
def _wrap_tensor(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    return wrap_as_input(attempt, value, source)
