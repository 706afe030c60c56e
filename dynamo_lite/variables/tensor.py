"""Tensors: a node of the graph and the fake tensor that says what it is."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

from ..reasons import (
    DataDependentBranch,
    DataDependentValue,
    OperatorFailed,
    UnsupportedAttribute,
    UnsupportedOperation,
    UnsupportedValue,
)
from ..source import Source
from .attributes import MISSING, class_lookup
from .base import (
    Args,
    Kwargs,
    LazyVariable,
    VariableTracker,
    unsupported,
    wraps_if,
    wraps_type,
)
from .constant import CONSTANT_TYPES, ConstantVariable
from .sequence import ListVariable, NamedTupleVariable, SizeVariable, TupleVariable, is_namedtuple_class

VALUE_METHODS = frozenset(
    {"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__", "__repr__"}
    | {"__str__", "__format__", "equal", "allclose", "is_nonzero"}
)
"""Methods that need the data."""

METADATA_WRITERS = frozenset(
    {"resize_", "resize_as_", "set_", "t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_"}
    | {"as_strided_", "detach_", "requires_grad_", "rename_", "share_memory_", "retain_grad", "register_hook"}
    | {"register_post_accumulate_grad_hook", "backward", "untyped_storage", "storage", "data_ptr", "apply_", "map_"}
    | {"__reduce_ex__", "__deepcopy__", "__setstate__", "names", "storage_offset_", "__dlpack__", "module_load"}
    | {"cuda", "pin_memory", "to_sparse", "refine_names", "align_to", "unflatten_names"} - {"cuda"}
)
"""Methods whose effect is on the tensor object rather than on its data, or that leave the graph."""

RESHAPERS = frozenset(
    {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_", "as_strided_", "resize_", "resize_as_"}
)
"""Those of them that a tensor made inside may have done to it."""

FACTS = frozenset(
    {"shape", "dtype", "device", "layout", "ndim", "is_cuda", "is_cpu", "is_sparse", "is_quantized", "is_meta"}
    | {"itemsize", "nbytes", "is_nested", "is_mkldnn", "is_mps", "is_xpu", "is_sparse_csr", "is_xla", "requires_grad"}
    | {"is_ipu", "is_vulkan", "is_maia", "is_mtia", "is_ort", "is_hpu"}
)
"""Attributes that the guard on the tensor fixes."""

COMPUTED = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
"""Attributes that are operators."""

_LITERAL = (*CONSTANT_TYPES, type)


class TensorVariable(VariableTracker):
    """A tensor. ``fake`` has its dtype, device, sizes, strides and ``requires_grad``; ``cls`` is its Python class."""

    __slots__ = ("node", "fake", "cls", "value")

    def __init__(
        self, node: Any, fake: torch.Tensor, cls: type, source: Source | None = None, value: Any = None
    ) -> None:
        self.source = source
        self.node = node
        self.fake = fake
        self.cls = cls
        self.value = value

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"a tensor of shape {tuple(self.fake.shape)}"

    def as_fx(self) -> tuple[Any, Any]:
        return self.node, self.fake

    def key(self) -> Any:
        return self

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name in FACTS:
            return tx.make(getattr(self.fake, name))
        if name in COMPUTED:
            return record(tx, "call_function", getattr, [self, ConstantVariable(name)], {})
        special = _ATTRIBUTES.get(name)
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

    def _instance_attribute(self, tx: Any, name: str) -> VariableTracker | None:
        if self.value is None or self.source is None:
            return None
        namespace = self.value.__dict__
        if name not in namespace:
            if class_lookup(self.cls, name) is MISSING:
                self.source.check("lacks_instance_dict_item", name)
            return None
        return LazyVariable(tx.attempt, namespace[name], self.source.child("instance_dict").child("dict_item", name))

    def call_method(self, tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in METADATA_WRITERS and not (name in RESHAPERS and self.source is None):
            unsupported(UnsupportedAttribute(self.describe(), name, "it changes the tensor object or leaves the graph"))
        if name in VALUE_METHODS:
            return self._value(tx, name, args)
        handler = _METHODS.get(name)
        if handler is not None:
            return handler(tx, self, *args, **kwargs)
        return record(tx, "call_method", name, [self, *args], kwargs)

    def _value(self, tx: Any, name: str, args: Args) -> VariableTracker:
        if args or name in ("numpy", "__array__", "__repr__", "__str__", "__format__"):
            unsupported(DataDependentValue(f"Tensor.{name}()"))
        try:
            return tx.make(getattr(self.fake, name)())
        except (DataDependentOutputException, RuntimeError, ValueError):
            unsupported(DataDependentValue(f"Tensor.{name}()"))

    def getitem(self, tx: Any, key: VariableTracker) -> VariableTracker:
        return record(tx, "call_function", operator.getitem, [self, key], {})

    def setitem(self, tx: Any, key: VariableTracker, value: VariableTracker) -> None:
        record(tx, "call_function", operator.setitem, [self, key, value], {})

    def setattr(self, tx: Any, name: str, value: VariableTracker) -> None:
        unsupported(UnsupportedAttribute(self.describe(), name, "writing a tensor's attribute is not modelled"))

    def length(self, tx: Any) -> int:
        if self.fake.ndim == 0:
            tx.raise_error(TypeError, "len() of a 0-d tensor")
        return self.fake.shape[0]

    def iterate(self, tx: Any) -> VariableTracker:
        if self.fake.ndim == 0:
            tx.raise_error(TypeError, "iteration over a 0-d tensor")
        return record(tx, "call_method", "unbind", [self, ConstantVariable(0)], {}).iterate(tx)

    def truth(self, tx: Any) -> bool:
        try:
            return bool(self.fake)
        except (DataDependentOutputException, RuntimeError):
            unsupported(DataDependentBranch())

    def contains(self, tx: Any, item: VariableTracker) -> bool:
        unsupported(DataDependentValue("`in` a tensor"))

    def binary(self, tx: Any, symbol: str, other: VariableTracker, reflected: bool = False) -> VariableTracker | None:
        if not _operand(other):
            return None
        args = [other, self] if reflected else [self, other]
        return record(tx, "call_function", tx.operator(symbol), args, {})

    def inplace(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not _operand(other):
            return None
        return record(tx, "call_function", tx.inplace_operator(symbol), [self, other], {})

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, ConstantVariable) and not isinstance(other.value, (int, float, complex)):
            return tx.make({"==": False, "!=": True}[symbol]) if symbol in ("==", "!=") else None
        if not _operand(other):
            return None
        return record(tx, "call_function", tx.comparison(symbol), [self, other], {})

    def reconstruct(self, cg: Any) -> None:
        cg.graph_output(self)


def _operand(other: VariableTracker) -> bool:
    return isinstance(other, TensorVariable) or (
        isinstance(other, ConstantVariable) and isinstance(other.value, (int, float, complex))
    )


class TensorMethod(VariableTracker):
    """A bound method of a tensor."""

    __slots__ = ("receiver", "name")

    def __init__(self, receiver: TensorVariable, name: str) -> None:
        self.source = None
        self.receiver = receiver
        self.name = name

    def python_type(self) -> type:
        return type(getattr(torch.Tensor, self.name))

    def truth(self, tx: Any) -> bool:
        return True

    def describe(self) -> str:
        return f"Tensor.{self.name}"

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.receiver.call_method(tx, self.name, args, kwargs)

    def reconstruct(self, cg: Any) -> None:
        cg.load(self.receiver)
        cg.load_attr(self.name)


def _grad(tx: Any, tensor: TensorVariable) -> VariableTracker:
    if tensor.source is not None and tensor.value is not None and tensor.value.is_leaf:
        return tx.attempt.wrap(tensor.value.grad, tensor.source.child("c_attr", "grad"))
    unsupported(UnsupportedAttribute(tensor.describe(), "grad"))


def _is_leaf(tx: Any, tensor: TensorVariable) -> VariableTracker:
    if tensor.source is None or not tensor.fake.requires_grad:
        return ConstantVariable(tensor.fake.is_leaf)
    return tx.make_guarded(tensor.value.is_leaf, tensor.source.child("c_attr", "is_leaf"))


def _grad_fn(tx: Any, tensor: TensorVariable) -> VariableTracker:
    if not tensor.fake.requires_grad:
        return ConstantVariable(None)
    unsupported(UnsupportedAttribute(tensor.describe(), "grad_fn"))


_ATTRIBUTES: dict[str, Any] = {
    "grad": _grad,
    "is_leaf": _is_leaf,
    "grad_fn": _grad_fn,
    "__class__": lambda tx, tensor: tx.make(tensor.cls),
}


def _size(tx: Any, tensor: TensorVariable, dim: VariableTracker | None = None) -> VariableTracker:
    if dim is None or (isinstance(dim, ConstantVariable) and dim.value is None):
        return tx.make(tensor.fake.shape)
    return tx.make(tx.fold(tensor.fake.size, (dim.as_constant(),)))


_METHODS: dict[str, Any] = {
    "size": _size,
    "dim": lambda tx, tensor: ConstantVariable(tensor.fake.dim()),
    "__len__": lambda tx, tensor: ConstantVariable(tensor.length(tx)),
    "__getitem__": lambda tx, tensor, key: tensor.getitem(tx, key),
    "__iter__": lambda tx, tensor: tensor.iterate(tx),
}


def result(tx: Any, node: Any, fake: Any) -> VariableTracker:
    """The tracker of what a recorded call returned."""
    if isinstance(fake, torch.Tensor):
        known = tx.attempt.fakes.get(id(fake))
        if known is not None:
            return known
        cls = torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor
        found = TensorVariable(node, fake, cls)
        tx.attempt.fakes[id(fake)] = found
        return found
    if isinstance(fake, (list, tuple)) and not isinstance(fake, torch.Size):
        items = [_item(tx, node, index, each) for index, each in enumerate(fake)]
        if is_namedtuple_class(type(fake)):
            return NamedTupleVariable(items, type(fake))
        return TupleVariable(items) if isinstance(fake, tuple) else ListVariable(items)
    if isinstance(fake, torch.Size):
        return SizeVariable([ConstantVariable(each) for each in fake])
    if isinstance(fake, _LITERAL):
        return tx.make(fake)
    unsupported(
        UnsupportedValue(f"a {type(fake).__name__} returned by an operator", "only tensors and constants can be")
    )


def _item(tx: Any, node: Any, index: int, fake: Any) -> VariableTracker:
    if isinstance(fake, (torch.Tensor, list, tuple)):
        return result(tx, tx.graph.item(node, index, fake), fake)
    return tx.make(fake)


def record(tx: Any, kind: str, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Put an operator into the graph, computing it on fakes. One that only states facts leaves no node."""
    pairs = [arg.as_fx() for arg in args]
    named = {name: value.as_fx() for name, value in kwargs.items()}
    fakes = [pair[1] for pair in pairs]
    fake_kwargs = {name: pair[1] for name, pair in named.items()}
    written_to = [*fakes, *fake_kwargs.values()]
    versions = _versions(written_to)
    fake = compute(kind, target, fakes, fake_kwargs)
    unchanged = versions == _versions(written_to)
    known = tx.attempt.fakes.get(id(fake))
    if unchanged and (known is not None or (isinstance(fake, _LITERAL) and fake is not None)):
        return known if known is not None else tx.make(fake)
    if fake is None and unchanged:
        unsupported(UnsupportedOperation(f"{operator_name(target)}, which returns nothing,", "tensors"))
    if isinstance(fake, torch.Size) or (unchanged and _only_facts(fake)):
        return tx.make(fake)
    node = tx.graph.call(kind, target, tuple(pair[0] for pair in pairs), {k: p[0] for k, p in named.items()}, fake)
    return result(tx, node, fake) if fake is not None else ConstantVariable(None)


def _only_facts(fake: Any) -> bool:
    return type(fake) is tuple and all(isinstance(each, (int, bool, float, str)) for each in fake)


def _versions(fakes: list[Any]) -> list[int]:
    found = []
    for fake in fakes:
        if isinstance(fake, torch.Tensor):
            found.append(0 if fake.is_inference() else fake._version)
        elif type(fake) in (list, tuple):
            found.extend(_versions(fake))  # type: ignore[arg-type]
    return found


def operator_name(target: Any) -> str:
    """How a graph's target is called in messages."""
    if isinstance(target, str):
        return f"Tensor.{target}"
    module = getattr(target, "__module__", None)
    name = getattr(target, "__name__", None) or str(target)
    return f"{module}.{name}" if isinstance(module, str) and not module.startswith("_") else name


_OPERATOR_ERRORS = (
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    NotImplementedError,
    AssertionError,
    KeyError,
    OverflowError,
    ZeroDivisionError,
)


def compute(kind: str, target: Any, fakes: list[Any], kwargs: dict[str, Any]) -> Any:
    """The call on fakes; what it raises breaks the graph, so that CPython raises it."""
    try:
        if kind == "call_method":
            return getattr(fakes[0], target)(*fakes[1:], **kwargs)
        return target(*fakes, **kwargs)
    except (DataDependentOutputException, DynamicOutputShapeException):
        unsupported(DataDependentValue(operator_name(target)))
    except UnsupportedOperatorException as error:
        unsupported(OperatorFailed(operator_name(target), f"no fake implementation of {error}"))
    except _OPERATOR_ERRORS as error:
        first = str(error).strip().partition("\n")[0]
        unsupported(OperatorFailed(operator_name(target), f"{type(error).__name__}: {first}"))


@wraps_type(torch.Tensor, torch.nn.Parameter)
def _wrap_tensor(attempt: Any, value: torch.Tensor, source: Source) -> VariableTracker:
    if value.is_sparse or value.is_quantized or value.is_nested or value.layout is not torch.strided or value.is_mkldnn:
        return attempt.opaque(value, source, "a tensor that is not dense")
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        return attempt.opaque(value, source, "a tensor of a torch.func transform")
    attempt.guards.tensor(source, value)
    given = attempt.graph.input(source, value)
    found = TensorVariable(given.node, given.fake, type(value), source, value)
    attempt.fakes[id(given.fake)] = found
    return found


@wraps_if(lambda value: isinstance(value, torch.Tensor), order=3)
def _wrap_tensor_subclass(attempt: Any, value: torch.Tensor, source: Source) -> VariableTracker:
    if type(value) is torch.nn.Buffer:
        return _wrap_tensor(attempt, value, source)
    return attempt.opaque(value, source, "a subclass of torch.Tensor")
