"""Tensors that are made of others: classes with ``__torch_dispatch__`` that say what they are made of.

The graph is given them as they are, and computes with them: what their operators do is the class's own business, on
fakes as for real. That hangs on what ``__tensor_flatten__`` tells and on nothing else, as is the contract of such
classes: its code is traced, so that what it reads is guarded, as are the tensors that it names and, whole, its context.
"""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from dynamo_lite import _C
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import (
    DataDependentValue,
    UnsupportedAttribute,
    UnsupportedOperation,
    UnsupportedValue,
)
from dynamo_lite.records.code_origin import FOLDED_ERRORS
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.inner_tensors import has_user_torch_function, is_wrapper_class, leaves, rebuilt
from dynamo_lite.runtime.inner_tensors import parts as parts_of
from dynamo_lite.shapes.policy import SymbolicDims
from dynamo_lite.variables.core.attributes import bind, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    LazyVariable,
    NotConstant,
    ObservedException,
    VariableTracker,
    mro,
    own_namespace,
    unsupported,
    wraps_if,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.lookup import is_heap_type, is_user_defined
from dynamo_lite.variables.core.mutated_attributes import slot_is_bound
from dynamo_lite.variables.core.operator_symbols import COMPARE
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import provides
from dynamo_lite.variables.python.containers.sequence import SizeVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable, unmodeled_c_base
from dynamo_lite.variables.torch.functions.torch_function_classes import SubclassVariable, calls_torch_function
from dynamo_lite.variables.torch.tensors.fake_calls import compute
from dynamo_lite.variables.torch.tensors.tensor import (
    ATTRIBUTES,
    OPERATOR_ATTRIBUTES,
    UNTRACED_METHODS,
    TensorMethod,
    TensorVariable,
    is_plain_dense,
    record,
)

_FLATTEN = "__tensor_flatten__"
_OF_MEMORY = frozenset({"storage_offset", "set_", "numpy", "register_hook", "register_post_accumulate_grad_hook"})
"""Methods about memory or history, of which such a tensor has none that torch's own rules are for."""


class WrapperVariable(SubclassVariable):
    """Such a tensor: one that was found, or that an operator returned."""

    __slots__ = ("told_size", "step", "is_made_well")
    is_wrapper = True

    def __init__(
        self, node: Any, fake: torch.Tensor, cls: type, source: Source | None = None, value: Any = None
    ) -> None:
        TensorVariable.__init__(self, node, fake, cls, source, value)
        self.plain = self
        self.instance = value
        self.told_size = False
        """Whether its sizes were asked before any was a symbol."""
        self.step = 0
        """The root's step that made it."""
        self.is_made_well = True
        """Whether compilers make it as its class does."""

    def is_asked(self, tx: Translator) -> bool:
        return calls_torch_function(tx) and _is_asked(self.cls)

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        return (self,) if _is_asked(self.cls) else ()

    def _instance_attribute(self, tx: Translator, name: str) -> VariableTracker | None:
        if self.instance is not None or name not in vars(self.fake):
            return super()._instance_attribute(tx, name)
        return self._of_made(tx, name, vars(self.fake)[name])

    def _of_made(self, tx: Translator, name: str, value: Any) -> VariableTracker:
        """An attribute of a tensor that an operator made."""
        known = tx.attempt.values.memo.get(id(value))
        if known is not None and known[1].source is not None:
            return known[1]  # type: ignore[no-any-return]
        if isinstance(value, torch.Tensor):
            tx.attempt.torch_state.unasked += 1
            found = record(tx, "call_function", getattr, [self, ConstantVariable(name)], {})
            tx.attempt.torch_state.unasked -= 1
            return found
        if type(value) in _CONSTANTS:
            return tx.make(value)  # type: ignore[no-any-return]
        unsupported(UnsupportedAttribute(self.describe(), name, "what an operator made it of may be of any kind"))

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if self.instance is None:
            return self._of_made(tx, name, raw.__get__(self.fake)) if slot_is_bound(raw, self.fake) else None
        assert self.source is not None
        place = self.source.child("slot", raw)
        if slot_is_bound(raw, self.instance):
            return LazyVariable(tx.attempt, raw.__get__(self.instance), place.expect())
        place.check("unbound")
        return None

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "shape" and class_lookup(self.cls, name) is class_lookup(torch.Tensor, name):
            return self.size(tx)
        if name in _OF_AUTOGRAD and tx.lookup(self.cls, name) is class_lookup(torch.Tensor, name):
            return TensorVariable.getattr(self, tx, name)
        if name == "requires_grad_" and not self.is_asked(tx):
            return TensorMethod(self, name)
        if self.is_unmade and (name in OPERATOR_ATTRIBUTES or name in ATTRIBUTES):
            unsupported(UnsupportedAttribute(self.describe(), name, "it is asked what it is made of"))
        return super().getattr(tx, name)

    @property
    def is_unmade(self) -> bool:
        """Whether it is being asked what it is made of, so that there is nothing yet to compute with."""
        return self.node is None

    def as_fx(self) -> tuple[Any, Any]:
        if self.is_unmade:
            unsupported(UnsupportedValue(self.describe(), "it is asked what it is made of"))
        return super().as_fx()

    def length(self, tx: Translator) -> Any:
        self._tell_size()
        return super().length(tx)

    def size(self, tx: Translator) -> VariableTracker:
        self._tell_size()
        if self.fake.layout is not torch.jagged:
            return tx.make(self.fake.shape)  # type: ignore[no-any-return]
        return SizeVariable(
            [
                RaggedVariable(tx.attempt, self, dim, size) if _is_ragged(size) else tx.make(size)
                for dim, size in enumerate(self.fake.shape)
            ]
        )

    def _tell_size(self) -> None:
        self.told_size |= self.is_unmade

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        unsupported(UnsupportedAttribute(self.describe(), name, "writing it may change what its operators do"))

    def delattr(self, tx: Translator, name: str) -> None:
        unsupported(UnsupportedAttribute(self.describe(), name, "deleting it may change what its operators do"))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in UNTRACED_METHODS or name in _OF_MEMORY:
            unsupported(UnsupportedAttribute(self.describe(), name, "it is about memory that it has not by itself"))
        if name == "size" and not self.is_asked(tx) and not kwargs:
            return self.size(tx) if not args or tx.is_none(args[0]) else self.size(tx).getitem(tx, args[0])
        if name == "requires_grad_" and len(args) < 2 and not kwargs:
            return self._require_grad(tx, not args or tx.truth(args[0]))
        if self.is_unmade:
            unsupported(UnsupportedAttribute(self.describe(), name, "it is asked what it is made of"))
        return super().call_method(tx, name, args, kwargs)

    def _require_grad(self, tx: Translator, wanted: bool) -> VariableTracker:
        if wanted is not self.fake.requires_grad:
            unsupported(UnsupportedAttribute(self.describe(), "requires_grad_", "it changes the tensor object"))
        return self

    def _value(self, tx: Translator, name: str, args: Args) -> VariableTracker:
        unsupported(DataDependentValue(f"{self.cls.__qualname__}.{name}()"))

    def expect(self, tx: Translator, truth: bool) -> bool:
        return False

    def reconstruct(self, cg: Codegen) -> None:
        if not (self.is_made_well and self._has_known_context(cg.attempt)):
            cg.attempt.provenance.created(self, self.step)
            raise NotConstant(self.describe())
        TensorVariable.reconstruct(self, cg)

    def _has_known_context(self, attempt: Attempt) -> bool:
        """Whether objects in the context, which compilers give each result as they were while tracing, are the very
        ones that eager has: those of an argument, which is guarded."""
        for value in _mutable_parts(self.fake):
            known = attempt.values.memo.get(id(value))
            if known is None or known[1].source is None:
                return False
            known[1].source.check("id", value)
        return True


_OF_AUTOGRAD = ("grad", "is_leaf", "grad_fn")


def _is_ragged(size: Any) -> bool:
    return isinstance(size, torch.SymInt) and size.node.is_nested_int()


def _mutable_in(context: Any, is_whole: bool = False) -> Iterator[Any]:
    """What a context has that may change, or is told apart by which object it is. The whole one is made anew."""
    kind = type(context)
    if kind in (tuple, frozenset) or (is_whole and kind is list):
        for each in context:
            yield from _mutable_in(each)
    elif is_whole and kind is dict:
        for each in context.values():
            yield from _mutable_in(each)
    elif kind not in (*_CONSTANTS, torch.Size) and not isinstance(context, (type, types.FunctionType, enum.Enum)):
        yield context


def _mutable_parts(fake: Any) -> Iterator[Any]:
    """The same of a tensor's context and of those that it is made of."""
    yield from _mutable_in(fake.__tensor_flatten__()[1], True)
    for _, part in parts_of(fake):
        if is_wrapper_class(type(part)):
            yield from _mutable_parts(part)


_CONSTANTS = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def _is_asked(cls: type) -> bool:
    return class_lookup(cls, "__torch_function__") is not torch._C._disabled_torch_function_impl


# -- what is guarded ---------------------------------------------------------------------------------------------------


def _why_not(value: torch.Tensor) -> str | None:
    """Why a tensor can't be in a graph; None: it can."""
    cls = type(value)
    dispatch = class_lookup(cls, "__torch_dispatch__")
    if not is_wrapper_class(cls) or not isinstance(dispatch, classmethod):
        return "a subclass of torch.Tensor"
    if any(is_user_defined(class_lookup(cls, name)) for name in ("__getattr__", "__getattribute__", "__setattr__")):
        return "a tensor of a class that finds attributes by code of its own"
    if _C.computes_sizes(value) and value.layout is not torch.jagged:  # of those they follow from what they are made of
        return "a tensor whose sizes are computed by code of its class"
    with unset_fake_temporarily():
        return None if _is_made(value) else "a tensor that is not made of tensors, or not yet"


def _is_made(value: torch.Tensor) -> bool:
    """Whether all is there that a tensor is made of: its class may be about to give it that."""
    try:
        return all(isinstance(each, torch.Tensor) for each in leaves(value))
    except FOLDED_ERRORS:  # of the class's own code, which says so
        return False


def flattened(tx: Translator, of: WrapperVariable) -> tuple[list[str], list[TensorVariable], VariableTracker]:
    """What one is made of: names, tensors, and the context. What its class reads to say so is guarded."""
    before, known = tx.graph.operators, len(tx.attempt.values.memo)
    try:
        method = bind(tx, tx.lookup(of.cls, _FLATTEN), _FLATTEN, of, of.cls)
        with tx.effects.forbidden({value for value in of.attrs.values() if value is not None}):
            given, context = tx.call(method, [], {}).realize().elements(tx)
            names = tx.python_value(given.realize())
            found = [of.getattr(tx, name).realize() for name in names]
        whole: set[VariableTracker] = set()
        _guard_whole(tx, context, whole)
        tx.effects.fix([*whole, *_found_in(tx, of, known)])
    except Unsupported as error:
        unsupported(UnsupportedValue(of.describe(), f"what it is made of can't be guarded: {error.reason.what()}"))
    except ObservedException as observed:
        unsupported(UnsupportedValue(of.describe(), f"its {_FLATTEN} raises {observed.error.describe()}"))
    if tx.graph.operators != before:
        unsupported(UnsupportedValue(of.describe(), f"its {_FLATTEN} does more than to say what it is made of"))
    for part in found:
        if not isinstance(part, TensorVariable):
            unsupported(UnsupportedValue(of.describe(), "it is made of what can't be in a graph"))
    return list(names), found, context


def _found_in(tx: Translator, of: WrapperVariable, known: int) -> list[VariableTracker]:
    """What was found in one, and in what was found there. ``known``: how many objects were before."""
    if of.source is None:
        return []
    new = [tracker for _, tracker in itertools.islice(tx.attempt.values.memo.values(), known, None)]
    return [each for each in new if each.source is not None and of.source in each.source.way()]


def _guard_whole(tx: Translator, value: VariableTracker, seen: set[VariableTracker]) -> None:
    """A value, with all that is in it, is the same in each call."""
    value = value.realize()
    if value.is_symbolic:
        value.as_constant()  # from now on
    if value in seen or value.is_symbolic or value.is_constant():
        return
    seen.add(value)
    parts = value.structure_items()
    if parts is None and isinstance(value, UserObjectVariable):
        parts = _parts_of_object(tx, value)
    if parts is None or isinstance(value, TensorVariable):
        unsupported(UnsupportedValue(value.describe(), "it can't be compared"))
    for part in parts:
        _guard_whole(tx, part, seen)


def _parts_of_object(tx: Translator, value: UserObjectVariable) -> list[VariableTracker] | None:
    """All that an object of the program's has; None: it may have more in C."""
    if unmodeled_c_base(value.cls) is not None:
        return None
    found = [] if value.payload is None else [value.payload]
    found += value.namespace(tx).items.values() if value.cls.__dictoffset__ else ()
    for cls in mro(value.cls):
        for name, raw in own_namespace(cls).items() if is_heap_type(cls) else ():
            if type(raw) is types.MemberDescriptorType:
                part = value.slot_get(tx, name, raw)
                found += [] if part is None else [part]
    return found


@wraps_if(lambda value: issubclass(type(value), torch.Tensor) and is_wrapper_class(type(value)), order=2)
def _wrap_wrapper(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    why = _why_not(value)
    if why is None and not attempt.takes_wrappers:
        why = "a tensor on whose class the backend failed"
    if why is not None:
        return attempt.values.opaque(value, source, why)  # type: ignore[no-any-return]
    attempt.has_wrappers = True
    attempt.torch_state.has_subclasses |= has_user_torch_function(type(value)) and torch._C._is_torch_function_enabled()
    found = WrapperVariable(None, value, type(value), source, value)
    attempt.values.memo[id(value)] = value, found
    tx = attempt.innermost
    _guard_class(tx, found.cls)
    _, parts, _ = flattened(tx, found)
    given = compute("call_function", _given, [attempt, found], {})
    attempt.guards.tensor(source, value, type(value), attempt.graph.symbols.symbolic_dims(source))
    if not is_sound(given.fake):
        unsupported(UnsupportedValue(found.describe(), "no fake can be made of it"))
    found.node, found.fake = given.node, given.fake
    attempt.values.fakes[id(given.fake)] = found
    nodes = {part.node for part in parts}
    for each in reversed(attempt.graph.inputs):
        if each.node in nodes:
            each.is_part = True
            nodes.remove(each.node)
        if not nodes:
            break
    return found


def _given(attempt: Attempt, found: WrapperVariable) -> Any:
    """The input of the graph."""
    return attempt.graph.input_like(found.source, found.value, _apart(found), _free(attempt, found))


def _guard_class(tx: Translator, cls: type) -> None:
    """What the graph calls by the class is the same in each call."""
    for name in ("__torch_dispatch__", "__torch_function__", "__tensor_unflatten__"):
        tx.lookup(cls, name)


def _apart(found: WrapperVariable) -> torch.Tensor:
    """A tensor, or one made of the same that is no view: a fake view is made by running what made the real one."""
    value = found.value
    if not value._is_view():
        return value  # type: ignore[no-any-return]
    with unset_fake_temporarily():
        made = rebuilt(value).requires_grad_(value.requires_grad)
    if type(made) is not found.cls or made.shape != value.shape or made.stride() != value.stride():
        unsupported(UnsupportedValue(found.describe(), "its class makes something else of what it is made of"))
    return made


def _free(attempt: Attempt, found: WrapperVariable) -> SymbolicDims | None:
    """What of a tensor is symbols."""
    if found.value.layout is torch.jagged:
        return SymbolicDims([dim for dim, size in enumerate(found.value.shape) if _is_ragged(size) or size > 1], [])
    return None if found.told_size else attempt.shapes.free(found.source, found.value)  # type: ignore[no-any-return]


class RaggedVariable(VariableTracker):
    """A size of a jagged tensor that is another for each of its parts."""

    __slots__ = ("attempt", "of", "dim", "number")

    def __init__(self, attempt: Attempt, of: WrapperVariable, dim: int, number: torch.SymInt) -> None:
        self.source = None
        self.attempt = attempt
        self.of = of
        self.dim = dim
        self.number = number

    def python_type(self) -> type:
        return torch.SymInt

    def describe(self) -> str:
        return "a ragged size"

    def as_fx(self) -> tuple[Any, Any]:
        return self.attempt.graph.call("call_method", "size", (self.of.node, self.dim), {}, self.number), self.number

    def index(self, tx: Translator, message: str) -> Any:
        unsupported(UnsupportedValue(self.describe(), "it is no known number"))

    def truth(self, tx: Translator) -> bool:
        unsupported(UnsupportedValue(self.describe(), "it is no known number"))

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        unsupported(UnsupportedOperation(f"`{symbol}`", self.describe()))

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        unsupported(UnsupportedOperation(f"{function.__name__}()", self.describe()))

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, RaggedVariable) or symbol not in ("==", "!="):
            unsupported(UnsupportedOperation(f"`{symbol}`", self.describe()))
        return ConstantVariable(bool(COMPARE[symbol](self.number, other.number)))

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(torch.Tensor.size, [lambda: cg.load(self.of), lambda: cg.load_const(self.dim)])


# -- what operators return ---------------------------------------------------------------------------------------------


def is_sound(fake: torch.Tensor) -> bool:
    """Whether all is there that a tensor of such a class is made of, and is fake and dense."""
    return _is_made(fake) and all(isinstance(each, FakeTensor) and is_plain_dense(each) for each in leaves(fake))


def _is_strided_view(fake: torch.Tensor, of: torch.Tensor) -> bool:
    """Whether ``as_strided``, by which compilers make results that share memory with an input, gives the same."""
    place = fake.size(), fake.stride(), fake.storage_offset()
    try:
        found = compute("call_method", "as_strided", [of, *place], {})
    except Unsupported:
        return False
    if type(found) is not type(fake):
        return False
    pairs = itertools.zip_longest(*([_place(leaf) for leaf in leaves(each)] for each in (fake, found)))
    return all(one == other for one, other in pairs)


def _place(leaf: torch.Tensor) -> tuple[Any, ...]:
    storage = leaf.untyped_storage()._cdata
    return storage, leaf.size(), leaf.stride(), leaf.storage_offset(), leaf.dtype


@provides("wrapper_result")
def _wrapper_result(tx: Translator, node: Any, fake: torch.Tensor) -> VariableTracker:
    cls = type(fake)
    tx.attempt.has_wrappers = True
    if not tx.attempt.takes_wrappers or tx.graph.bodies or _why_not(fake) is not None or not is_sound(fake):
        unsupported(UnsupportedValue(f"a {cls.__qualname__} returned by an operator", "it is left to eager"))
    _guard_class(tx, cls)
    found = tx.attempt.values.fakes[id(fake)] = WrapperVariable(node, fake, cls)
    shared = fake.untyped_storage()._cdata
    given = next((each.fake for each in tx.graph.tensors if each.fake.untyped_storage()._cdata == shared), None)
    found.step, found.is_made_well = tx.attempt.provenance.step, given is None or _is_strided_view(fake, given)
    if fake.requires_grad and fake.is_leaf:
        tx.attempt.provenance.created_leaf(found)
    return found
