"""Wrapper subclasses: tensors made of inner tensors, whose class has ``__torch_dispatch__`` and ``__tensor_flatten__``.

They are inputs of the graph as they are. Operators on them call ``__torch_dispatch__``, while tracing with fakes.
By the contract of such classes, what an operator does depends only on what ``__tensor_flatten__`` returns. Its code is
traced, so that what it reads is guarded; the inner tensors and the whole context are guarded too.
"""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from dynamo_lite import _C
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import DataDependentValue, WrapperSubclass
from dynamo_lite.plan.rows import Value
from dynamo_lite.records.code_origin import FOLDED_ERRORS
from dynamo_lite.runtime.inner_tensors import is_wrapper_class, leaves, overrides_torch_function, rebuilt
from dynamo_lite.runtime.inner_tensors import parts as parts_of
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import bind, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Kwargs,
    NotConstant,
    ObservedException,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.class_lookup import is_immutable, is_user_defined, mro, own_namespace
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.wrapping import wraps_if
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable, unmodeled_c_base
from dynamo_lite.variables.torch.functions.torch_function import SubclassVariable
from dynamo_lite.variables.torch.tensors.fake_computation import compute
from dynamo_lite.variables.torch.tensors.known_tensors import KnownTensors
from dynamo_lite.variables.torch.tensors.tensor import (
    ATTRIBUTES,
    OPERATOR_ATTRIBUTES,
    UNTRACED_METHODS,
    TensorVariable,
    is_plain_dense,
    record,
)

_FLATTEN = "__tensor_flatten__"
_REFUSED_METHODS = UNTRACED_METHODS | frozenset(
    {"storage_offset", "numpy", "requires_grad_", "register_hook", "register_post_accumulate_grad_hook"}
)
"""Methods whose rules for plain tensors don't hold: wrappers have no storage, and another autograd history."""


class WrapperVariable(SubclassVariable):
    """A wrapper subclass's instance that is pre-existing, or that an operator returned."""

    __slots__ = ("has_read_size", "step", "is_recreatable")
    is_wrapper = True

    def __init__(
        self, node: Any, fake: torch.Tensor, cls: type, source: Source | None = None, value: Any = None
    ) -> None:
        TensorVariable.__init__(self, node, fake, cls, source, value)
        self.plain = self
        self.instance = value
        self.has_read_size = False
        """Whether ``__tensor_flatten__`` reads its sizes, which are then constants."""
        self.step = 0
        """The step of the translation that created it."""
        self.is_recreatable = True
        """Whether a compiled graph creates it as its class does: not if it aliases an input."""

    def _instance_attribute(self, tx: Translator, name: str) -> VariableTracker | None:
        if self.instance is not None or name not in vars(self.fake):
            return super()._instance_attribute(tx, name)
        return self._attribute_of_result(tx, name, vars(self.fake)[name])

    def _attribute_of_result(self, tx: Translator, name: str, value: object) -> VariableTracker:
        """An attribute of a tensor that an operator returned."""
        known = tx.attempt.values.memo.get(identity(value))
        if known is not None and known[1].source is not None:
            return known[1]
        if isinstance(value, torch.Tensor):
            with tx.attempt.torch_state.without_torch_function():
                return record(tx, getattr, [self, ConstantVariable(name)], {})
        if type(value) in _CONSTANTS:
            return tx.make(value)
        unsupported(WrapperSubclass(self.describe(), f"an operator created the value of its attribute {name!r}"))

    def slot_get(self, tx: Translator, name: str, raw: object) -> NoReturn:
        unsupported(WrapperSubclass(self.describe(), f"its attribute {name!r} is in a slot"))

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "shape" and class_lookup(self.cls, name) is class_lookup(torch.Tensor, name):
            return self.size(tx)
        if name in _AUTOGRAD_ATTRIBUTES and tx.lookup(self.cls, name) is class_lookup(torch.Tensor, name):
            return TensorVariable.getattr(self, tx, name)
        if self.is_being_flattened and not self.is_dispatched(tx):
            if name in OPERATOR_ATTRIBUTES or name in ATTRIBUTES.keys() - _SIZE_ATTRIBUTES:
                unsupported(WrapperSubclass(self.describe(), "its __tensor_flatten__ is being traced"))
            if name in _SIZE_ATTRIBUTES:
                self._note_size_read()
        return super().getattr(tx, name)

    @property
    def is_being_flattened(self) -> bool:
        """Whether its ``__tensor_flatten__`` is being traced, so that it has no node yet."""
        return self.node is None

    def as_fx(self) -> tuple[Any, Any]:
        if self.is_being_flattened:
            unsupported(WrapperSubclass(self.describe(), "its __tensor_flatten__ is being traced"))
        return super().as_fx()

    def length(self, tx: Translator) -> int | torch.SymInt:
        self._note_size_read()
        return super().length(tx)

    def size(self, tx: Translator) -> VariableTracker:
        self._note_size_read()
        return tx.make(self.fake.shape)

    def guard_parts(self, tx: Translator) -> list[TensorVariable]:
        """Guard the context of a pre-existing wrapper. Returns its inner tensors."""
        return flattened(tx, self)[1]

    def _note_size_read(self) -> None:
        self.has_read_size |= self.is_being_flattened

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        unsupported(WrapperSubclass(self.describe(), f"a write of {name!r} may change what its operators do"))

    def delattr(self, tx: Translator, name: str) -> None:
        unsupported(WrapperSubclass(self.describe(), f"a deletion of {name!r} may change what its operators do"))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in _REFUSED_METHODS:
            unsupported(WrapperSubclass(self.describe(), f"{name!r} isn't traced: it has no storage of its own"))
        if name == "size" and not self.is_dispatched(tx) and not kwargs:
            return self.size(tx) if not args or tx.is_none(args[0]) else self.size(tx).getitem(tx, args[0])
        if self.is_being_flattened and not self.is_dispatched(tx):
            return self._read_metadata(tx, name, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def _read_metadata(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call a method in ``__tensor_flatten__``. The guard on the tensor checks its metadata."""
        if name not in _METADATA_METHODS:
            unsupported(WrapperSubclass(self.describe(), "its __tensor_flatten__ is being traced"))
        self._note_size_read()
        values, named = tx.python_values(args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return tx.make(compute("call_method", name, [self.fake, *values], named))

    def _read_data(self, tx: Translator, name: str, args: Args) -> NoReturn:
        unsupported(DataDependentValue(f"{self.cls.__qualname__}.{name}()"))

    def expect(self, tx: Translator, truth: bool) -> bool:
        return False

    def construct(self, plan: Planner) -> Value:
        if not (self.is_recreatable and self._has_known_context(plan.attempt)):
            plan.attempt.provenance.created(self, self.step)
            raise NotConstant(self.describe())
        return TensorVariable.construct(self, plan)

    def _has_known_context(self, attempt: Attempt) -> bool:
        """Whether the mutable objects in the context are those of an argument; guarded. Compilers give each result the
        context objects of tracing, and eager gives it the argument's."""
        for value in _mutable_parts(self.fake):
            known = attempt.values.memo.get(identity(value))
            if known is None or known[1].source is None:
                return False
            known[1].source.check("id", value)
        return True


wrapper_classes: list[tuple[Callable[[type], bool], type[WrapperVariable]]] = []
"""Trackers of certain wrapper classes: whether a class is one, and its tracker. Others have `WrapperVariable`."""


def _variable_class(cls: type) -> type[WrapperVariable]:
    return next((found for fits, found in wrapper_classes if fits(cls)), WrapperVariable)


_SIZE_ATTRIBUTES = frozenset({"ndim", "nbytes"})
_METADATA_METHODS = frozenset(
    {"size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "is_contiguous", "__len__"}
    | {"is_floating_point", "is_complex", "is_signed", "get_device", "type"}
)
_AUTOGRAD_ATTRIBUTES = ("grad", "is_leaf", "grad_fn")


def _mutable_in(context: Any, is_whole: bool = False) -> Iterator[object]:
    """The objects in a context that are mutable, or compared by identity.

    Args:
        is_whole: whether it is the whole context, not a part: a list or dict is created anew by ``__tensor_flatten__``.
    """
    kind = type(context)
    if kind in (tuple, frozenset) or (is_whole and kind is list):
        for each in context:
            yield from _mutable_in(each)
    elif is_whole and kind is dict:
        for each in context.values():
            yield from _mutable_in(each)
    elif kind not in (*_CONSTANTS, torch.Size) and not isinstance(context, (type, types.FunctionType, enum.Enum)):
        yield context


def _mutable_parts(fake: Any) -> Iterator[object]:
    """`_mutable_in` of the contexts of a wrapper and of its inner tensors."""
    yield from _mutable_in(fake.__tensor_flatten__()[1], True)
    for _, part in parts_of(fake):
        if is_wrapper_class(type(part)):
            yield from _mutable_parts(part)


_CONSTANTS = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


# -- inputs and their guards -------------------------------------------------------------------------------------------


def _obstacle(value: torch.Tensor) -> str | None:
    """Why a tensor can't be in a graph; None if it can."""
    cls = type(value)
    dispatch = class_lookup(cls, "__torch_dispatch__")
    if not is_wrapper_class(cls) or not isinstance(dispatch, classmethod):
        return "a subclass of torch.Tensor"
    if any(is_user_defined(class_lookup(cls, name)) for name in ("__getattr__", "__getattribute__", "__setattr__")):
        return "a tensor whose class has a __getattr__, __getattribute__ or __setattr__"
    if _C.computes_sizes(value):
        return "a tensor whose sizes are computed by code of its class"
    with unset_fake_temporarily():
        return None if _has_inner_tensors(value) else "a tensor without its inner tensors"


def _has_inner_tensors(value: torch.Tensor) -> bool:
    """Whether a tensor has all of its inner tensors: its constructor may still be running."""
    try:
        return all(isinstance(each, torch.Tensor) for each in leaves(value))
    except FOLDED_ERRORS:  # raised by the class's code, for example for a missing attribute
        return False


def flattened(tx: Translator, of: WrapperVariable) -> tuple[list[str], list[TensorVariable], VariableTracker]:
    """The inner tensors' names, the inner tensors, and the context. What ``__tensor_flatten__`` reads is guarded."""
    operators_before, values_before = tx.graph.operators, len(tx.attempt.values.memo)
    try:
        method = bind(tx, tx.lookup(of.cls, _FLATTEN), _FLATTEN, of, of.cls)
        with tx.effects.forbidden({value for value in of.attrs.values() if value is not None}):
            given, context = tx.call(method, [], {}).realize().elements(tx)
            names = tx.python_value(given.realize())
            inner = [of.getattr(tx, name).realize() for name in names]
        whole: set[VariableTracker] = set()
        guard_whole(tx, context, whole)
        tx.effects.fix([*whole, *_read_from(tx, of, values_before)])
    except Unsupported as error:
        unsupported(WrapperSubclass(of.describe(), f"its __tensor_flatten__ can't be traced: {error.reason.what()}"))
    except ObservedException as observed:
        unsupported(WrapperSubclass(of.describe(), f"its {_FLATTEN} raises {observed.error.describe()}"))
    if tx.graph.operators != operators_before:
        unsupported(WrapperSubclass(of.describe(), f"its {_FLATTEN} calls operators"))
    tensors = [each for each in inner if isinstance(each, TensorVariable)]
    if len(tensors) < len(inner):
        unsupported(WrapperSubclass(of.describe(), "one of its inner tensors can't be in a graph"))
    return list(names), tensors, context


def _read_from(tx: Translator, of: WrapperVariable, values_before: int) -> list[VariableTracker]:
    """Values that were read from a wrapper or through it. ``values_before``: how many values were known before."""
    if of.source is None:
        return []
    new = [tracker for _, tracker in itertools.islice(tx.attempt.values.memo.values(), values_before, None)]
    return [each for each in new if each.source is not None and of.source in each.source.way()]


def guard_whole(tx: Translator, value: VariableTracker, seen: set[VariableTracker]) -> None:
    """Guard that a value and everything reachable from it is the same in each call."""
    value = value.realize()
    if value.is_symbolic:
        value.as_constant()  # specializes it
    if value in seen or value.is_symbolic or value.is_constant():
        return
    seen.add(value)
    items = value.structure_items()
    if items is None and isinstance(value, UserObjectVariable):
        items = _values_of_object(tx, value)
    if items is None or isinstance(value, TensorVariable):
        unsupported(WrapperSubclass(value.describe(), "it can't be guarded whole"))
    for item in items:
        guard_whole(tx, item, seen)


def _values_of_object(tx: Translator, value: UserObjectVariable) -> list[VariableTracker] | None:
    """The payload, attributes and slots of an object; None if its class may keep more in C."""
    if unmodeled_c_base(value.cls) is not None:
        return None
    values = [] if value.payload is None else [value.payload]
    values += value.namespace(tx.attempt).items.values() if value.cls.__dictoffset__ else ()
    for cls in mro(value.cls):
        for name, raw in own_namespace(cls).items() if not is_immutable(cls) else ():
            if type(raw) is types.MemberDescriptorType:
                slot = value.slot_get(tx, name, raw)
                values += [] if slot is None else [slot]
    return values


@wraps_if(lambda value: issubclass(type(value), torch.Tensor) and is_wrapper_class(type(value)), order=2)
def _wrap_wrapper(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    obstacle = _obstacle(value)
    if obstacle is None and not attempt.traits.wrappers:
        obstacle = "a tensor on whose class the backend failed"
    if obstacle is not None:
        return attempt.values.opaque(value, source, obstacle)
    attempt.has_wrappers = True
    cls = type(value)
    attempt.torch_state.has_subclasses |= overrides_torch_function(cls) and torch._C._is_torch_function_enabled()
    wrapper = _variable_class(cls)(None, value, cls, source, value)
    attempt.values.memo[identity(value)] = value, wrapper
    tx = attempt.innermost
    assert tx is not None
    _guard_class(tx, cls)
    inner_tensors = wrapper.guard_parts(tx)
    given = compute("call_function", _graph_input, [attempt, source, wrapper], {})
    attempt.guards.tensor(source, value, cls, attempt.graph.symbols.symbolic_dims(source))
    if not is_complete_fake(given.fake):
        unsupported(WrapperSubclass(wrapper.describe(), "it can't be converted to a fake tensor"))
    wrapper.node, wrapper.fake = given.node, given.fake
    attempt.state(KnownTensors).add(given.fake, wrapper)
    nodes = {tensor.node for tensor in inner_tensors}
    for each in reversed(attempt.graph.inputs):
        if each.node in nodes:
            each.is_part = True
            nodes.remove(each.node)
        if not nodes:
            break
    return wrapper


def _graph_input(attempt: Attempt, source: Source, wrapper: WrapperVariable) -> Any:
    symbolic = None if wrapper.has_read_size else attempt.shapes.free(source, wrapper.value)
    return attempt.graph.input_like(source, wrapper.value, _without_base(wrapper), symbolic)


def _guard_class(tx: Translator, cls: type) -> None:
    """Guard the methods of the class that the graph calls."""
    for name in ("__torch_dispatch__", "__torch_function__", "__tensor_unflatten__"):
        tx.lookup(cls, name)


def _without_base(wrapper: WrapperVariable) -> torch.Tensor:
    """The tensor, or an equal one that is no view. (The fake of a view is created by replaying its view function.)"""
    value: torch.Tensor = wrapper.value
    if not value._is_view():
        return value
    with unset_fake_temporarily():
        copy = rebuilt(value).requires_grad_(value.requires_grad)
    if type(copy) is not wrapper.cls or copy.shape != value.shape or copy.stride() != value.stride():
        unsupported(WrapperSubclass(wrapper.describe(), "its __tensor_unflatten__ doesn't restore it"))
    return copy


# -- what operators return ---------------------------------------------------------------------------------------------


def is_complete_fake(fake: torch.Tensor) -> bool:
    """Whether a wrapper has all of its inner tensors, which are fake and dense."""
    return _has_inner_tensors(fake) and all(
        isinstance(each, FakeTensor) and is_plain_dense(each) for each in leaves(fake)
    )


def wrapper_result(tx: Translator, node: torch.fx.Node, fake: torch.Tensor) -> VariableTracker:
    """The tracker of an operator's result that is an instance of a wrapper subclass."""
    cls = type(fake)
    tx.attempt.has_wrappers = True
    if (
        not tx.attempt.traits.wrappers
        or tx.graph.scope.is_nested
        or _obstacle(fake) is not None
        or not is_complete_fake(fake)
    ):
        unsupported(WrapperSubclass(f"a {cls.__qualname__} returned by an operator", "a graph can't create it"))
    _guard_class(tx, cls)
    result = _variable_class(cls)(node, fake, cls)
    tx.attempt.state(KnownTensors).add(fake, result)
    result.step = tx.attempt.provenance.step
    result.is_recreatable = not any(share_memory(each.fake, fake) for each in tx.graph.tensors)
    if fake.requires_grad and fake.is_leaf:
        tx.attempt.provenance.created_leaf(result)
    return result
