"""Lazy modules (``nn.LazyLinear``): their parameters and buffers have no data until the first call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from dynamo_lite.insight.break_reasons import AttributeChange, UnsupportedAttribute, UnsupportedValue
from dynamo_lite.records.source import Source
from dynamo_lite.shapes.expressions import hint_of
from dynamo_lite.variables.core.attributes import class_lookup
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, VariableTracker, mro, unsupported, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.torch.autograd.created_leaves import try_replace_data
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

_MATERIALIZED: dict[type, type] = {UninitializedParameter: torch.nn.Parameter, UninitializedBuffer: torch.Tensor}
_METADATA = frozenset({"requires_grad", "device", "dtype", "is_leaf", "__class__"})
"""Attributes that an uninitialized tensor has."""


class LazyTensorVariable(TensorVariable):
    """A pre-existing tensor that was uninitialized. `materialize` gives it data and another class."""

    __slots__ = ()

    @property
    def _is_uninitialized(self) -> bool:
        return self.cls in _MATERIALIZED

    def describe(self) -> str:
        return "an uninitialized parameter or buffer" if self._is_uninitialized else super().describe()

    def as_fx(self) -> tuple[torch.fx.Node, torch.Tensor]:
        if self._is_uninitialized:
            unsupported(UnsupportedValue(self.describe(), "an operator can't take it"))
        return super().as_fx()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if not self._is_uninitialized or name in _METADATA:
            return super().getattr(tx, name)
        if name in ("materialize", "cls_to_become"):
            return tx.generic_getattr(self, name)
        unsupported(UnsupportedAttribute(self.describe(), name))

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if self._is_uninitialized:
            unsupported(AttributeChange(self.describe(), name, "written"))
        super().setattr(tx, name, value)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self._is_uninitialized:
            unsupported(UnsupportedAttribute(self.describe(), name))
        return super().call_method(tx, name, args, kwargs)


_INFER = LazyModuleMixin.__dict__["_infer_parameters"]


@models(_INFER)
def _infer_parameters(
    tx: Translator, of: VariableTracker, module: VariableTracker, args: VariableTracker, *kwargs: VariableTracker
) -> VariableTracker:
    """The hook that initializes a lazy module. It is traced, and torch's own may also run: see `Initializations`."""
    initializations, nodes = tx.attempt.initializations, tx.graph.graph.nodes
    depends_on_before = tx.graph.may_fail or tx.graph.bodies or tx.attempt.before_graph.calls
    is_observable = module.value is None or torch.is_inference_mode_enabled() or _was_read(tx, module)
    may_run = not (depends_on_before or is_observable)
    initializations.begin(nodes, _real_call(module, [args, *kwargs]) if may_run else None)
    tx.inline(FunctionVariable(_INFER, None), [of, module, args, *kwargs], {})
    initializations.end(nodes, _lazy_classes(tx))
    return ConstantVariable(None)


def _was_read(tx: Translator, module: VariableTracker) -> bool:
    """Whether the program has seen, or changed, the module as it is before its initialization."""
    if module.source is None or tx.effects.last(module):
        return True
    read = {source.arg for source in module.source.child("instance_dict").children.values()}
    return not (read <= _READ_BY_CALLS and _lazy_classes(tx) <= tx.attempt.initializations.classes)


def _lazy_classes(tx: Translator) -> set[type]:
    """The classes of lazy modules that the trace has wrapped as values."""
    classes = (each for each, _ in tx.attempt.values.memo.values() if issubclass(type(each), type))
    return {each for each in classes if LazyModuleMixin in mro(each)}


_READ_BY_CALLS = frozenset(
    f"_{when}{hooks}"
    for when in ("forward", "forward_pre", "backward", "backward_pre")
    for hooks in ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")
) | {"_compiled_call_impl"}
"""The attributes that ``Module.__call__`` reads before it runs hooks."""


def _real_call(module: VariableTracker, given: Args) -> Callable[[], object] | None:
    """The hook's call for the real module, with tensors without data; None if the module may read data."""
    names = ("initialize_parameters", "reset_parameters", "_infer_parameters")
    functions = [class_lookup(module.python_type(), name) for name in names]
    if not all(getattr(each, "__module__", "").startswith("torch.nn.modules.") for each in functions):
        return None
    try:
        values = [each.realize().real_argument(_without_data) for each in given]
    except NotConstant:
        return None
    return partial(module.value._infer_parameters, module.value, *values)


def _without_data(argument: VariableTracker) -> object:
    """An argument with tensors on the meta device in the place of the real ones."""
    argument = argument.realize()
    items = argument.builtin_part()
    if isinstance(items, DictVariable):
        return {key: each.realize().real_argument(_without_data) for key, each in items.items.items()}
    if not isinstance(argument, TensorVariable):
        return argument.as_constant()
    sizes = [hint_of(size) if isinstance(size, torch.SymInt) else size for size in argument.fake.shape]
    with unset_fake_temporarily():
        return torch.empty(sizes, dtype=argument.fake.dtype, device="meta")


@models(UninitializedParameter.materialize)
def _materialize(
    tx: Translator,
    empty: VariableTracker,
    shape: VariableTracker,
    device: VariableTracker | None = None,
    dtype: VariableTracker | None = None,
) -> VariableTracker:
    if not isinstance(empty, LazyTensorVariable) or empty.cls not in _MATERIALIZED:
        unsupported(UnsupportedAttribute(empty.describe(), "materialize", "it is initialized already"))
    options = {
        name: tx.make(getattr(empty.fake, name)) if value is None or tx.is_none(value) else value
        for name, value in {"device": device, "dtype": dtype}.items()
    }
    data = record(tx, torch.empty, [shape], options)
    if not isinstance(data, TensorVariable) or not try_replace_data(tx, empty, data, _MATERIALIZED[empty.cls]):
        unsupported(UnsupportedAttribute(empty.describe(), "materialize", "its data can't be replaced in the graph"))
    return ConstantVariable(None)


@wraps_type(UninitializedParameter, UninitializedBuffer)
def _wrap_lazy(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    with torch._C.DisableTorchFunctionSubclass(), unset_fake_temporarily():
        plain = value.data.requires_grad_(value.requires_grad)
    created = attempt.graph.input(source, plain)
    attempt.guards.tensor(source, plain, type(value))
    tensor = LazyTensorVariable(created.node, created.fake, type(value), source, value)
    attempt.values.fakes[id(created.fake)] = tensor
    return tensor
