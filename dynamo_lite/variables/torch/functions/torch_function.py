"""Classes with ``__torch_function__``, in particular tensor subclasses: it is inlined where torch would call it.

The graph computes with plain tensors. Instances are unwrapped before the graph is called, and its results are converted
to the subclass after it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch
from torch.overrides import get_default_nowrap_functions

from dynamo_lite.insight.break_reasons import (
    AttributeChange,
    FunctionModeEntered,
    TorchFunctionOverride,
    UnknownCall,
    UnsupportedAttribute,
)
from dynamo_lite.plan.rows import Value
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.runtime.graph_functions import plain_tensor
from dynamo_lite.runtime.inner_tensors import is_wrapper_class
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import MISSING, bind, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Kwargs,
    Planner,
    Translator,
    UnpackedKwargs,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.class_lookup import mro
from dynamo_lite.variables.core.constant import ConstantVariable, unless_refused
from dynamo_lite.variables.core.formatting import call_text_method
from dynamo_lite.variables.core.operator_symbols import method_of
from dynamo_lite.variables.core.registry import Model, models, models_if
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_if
from dynamo_lite.variables.python.classes.isinstance_checks import derives
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SizeVariable, TupleVariable
from dynamo_lite.variables.python.objects.user_object import has_torch_function
from dynamo_lite.variables.torch.contexts.torch_contexts import ContextVariable
from dynamo_lite.variables.torch.tensors.known_tensors import KnownTensors
from dynamo_lite.variables.torch.tensors.tensor import METHODS, TensorVariable, record, wrap_as_input

Target = str | Callable[..., object]
"""A function of torch's, or the name of a method of Tensor."""
_Trackers = dict[int, VariableTracker]
"""The trackers of real objects, by id."""

_TENSOR = torch.Tensor
_DISPATCH = "__torch_dispatch__"
_FUNCTION = "__torch_function__"
_DEFAULT = class_lookup(_TENSOR, _FUNCTION)


class _Dispatched(BaseException):
    """Torch has called a probe's ``__torch_function__``, with these arguments."""

    def __init__(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object] | None
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs


class _ObjectProbe:
    """Replaces an object that is not a tensor, to see what torch passes to its ``__torch_function__``."""

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: Iterable[type],
        args: Iterable[object] = (),
        kwargs: dict[str, object] | None = None,
    ) -> NoReturn:
        raise _Dispatched(func, tuple(args), kwargs)


class _TensorProbe(_ObjectProbe, torch.Tensor):
    """Replaces an instance of a tensor subclass."""


class SubclassVariable(TensorVariable):
    """An instance of a tensor subclass with ``__torch_function__``. ``plain``: the tensor of the graph that it aliases;
    ``instance``: the real object if it is pre-existing."""

    __slots__ = ("plain", "instance")
    has_torch_function = True

    def __init__(self, plain: TensorVariable, cls: type, source: Source | None = None, instance: object = None) -> None:
        super().__init__(plain.node, plain.fake, cls, source, plain.value)
        self.plain = plain
        self.instance = instance

    def describe(self) -> str:
        return f"a {self.cls.__qualname__}"

    def is_dispatched(self, tx: Translator) -> bool:
        """Whether torch would call the class's ``__torch_function__`` now."""
        return tx.attempt.torch_state.calls_torch_function and has_torch_function(self.cls)

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        return (self,) if has_torch_function(self.cls) else ()

    def _instance_attribute(self, tx: Translator, name: str) -> VariableTracker | None:
        if name in self.attrs or self.instance is None:
            return self.attrs.get(name)
        assert self.source is not None
        namespace = object.__getattribute__(self.instance, "__dict__")
        if name not in namespace:
            self.source.check("lacks_instance_dict_item", name)
            return None
        return LazyVariable(tx.attempt, namespace[name], self.source.child("instance_dict").child("dict_item", name))

    def find_special(self, tx: Translator, name: str) -> VariableTracker | None:
        raw = tx.lookup(self.cls, name)
        return None if raw is class_lookup(_TENSOR, name) else bind(tx, raw, name, self, self.cls)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        raw = tx.lookup(self.cls, name)
        is_overridden = raw is not class_lookup(_TENSOR, name)
        if not self.is_dispatched(tx) and not is_overridden:
            if name in _PER_ALIAS:
                unsupported(UnsupportedAttribute(self.describe(), name))
            return super().getattr(tx, name)
        own = self._instance_attribute(tx, name)
        if own is not None:
            return own
        if is_overridden:
            if isinstance(raw, (types.FunctionType, classmethod, staticmethod, property)):
                return bind(tx, raw, name, self, self.cls)
            return tx.generic_getattr(self, name)
        if isinstance(raw, (types.GetSetDescriptorType, property)) and name != "__class__":
            return call_torch_function(tx, getattr, [self, ConstantVariable(name)], {})
        return super().getattr(tx, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if class_lookup(_TENSOR, name) is not MISSING:
            unsupported(AttributeChange(self.describe(), name, "written"))
        super().setattr(tx, name, value)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.is_dispatched(tx) and name != "as_subclass":
            return call_torch_function(tx, name, [self, *args], kwargs)
        return super().call_method(tx, name, args, kwargs)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return self.call_special(tx, "__getitem__", key) or super().getitem(tx, key)

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        if self.call_special(tx, "__setitem__", key, value) is None:
            super().setitem(tx, key, value)

    def length(self, tx: Translator) -> Any:
        length = self.call_special(tx, "__len__")
        if length is not None:
            return tx.index_value(length)
        return call_torch_function(tx, len, [self], {}).as_constant() if self.is_dispatched(tx) else super().length(tx)

    def truth(self, tx: Translator) -> bool:
        result = self.call_special(tx, "__bool__")
        if result is not None:
            return tx.truth(result)
        return tx.truth(call_torch_function(tx, bool, [self], {})) if self.is_dispatched(tx) else super().truth(tx)

    def iterate(self, tx: Translator) -> VariableTracker:
        """``Tensor.__iter__`` is not dispatched itself, the functions that it calls are."""
        iterator = self.call_special(tx, "__iter__")
        if iterator is not None:
            return iterator
        if not self.is_dispatched(tx):
            return super().iterate(tx)
        call_torch_function(tx, "dim", [self], {})
        return tx.iterate(call_torch_function(tx, "unbind", [self, ConstantVariable(0)], {}))

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        result = self.call_special(tx, "__contains__", item)
        return super().contains(tx, item) if result is None else tx.truth(result)

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        result = self.call_special(tx, method_of(symbol, "r" if reflected else ""), other)
        return super().binary(tx, symbol, other, reflected) if result is None else unless_refused(result)

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        result = self.call_special(tx, method_of(symbol, "i"), other)
        return super().inplace(tx, symbol, other) if result is None else unless_refused(result)

    def unary(self, tx: Translator, function: Callable[[Any], Any]) -> VariableTracker | None:
        return self.call_special(tx, f"__{function.__name__}__") or super().unary(tx, function)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        result = self.call_special(tx, method_of(symbol), other)
        if result is not None:
            return unless_refused(result)
        if self.is_dispatched(tx) and not isinstance(other, (TensorVariable, ConstantVariable)):
            unsupported(TorchFunctionOverride(f"`{symbol}` of {self.describe()}"))
        return super().compare(tx, symbol, other)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        method = self.find_special(tx, name) or (self.find_special(tx, "__repr__") if name == "__str__" else None)
        return super().text(tx, name) if method is None else call_text_method(tx, method, name)

    def construct(self, plan: Planner) -> Value:
        return plan.call(as_subclass, plan.output(self.plain), plan.constant(self.cls))


_PER_ALIAS = ("grad", "is_leaf", "grad_fn", "requires_grad_", "retain_grad", "_version", "_base")
"""Attributes in which an alias of a tensor differs from it."""


def as_subclass(plain: torch.Tensor, cls: type) -> torch.Tensor:
    """An alias of a tensor, of a class whose ``__torch_function__`` is not called. It has the tensor's history, also
    with grad mode off."""
    with torch._C.DisableTorchFunctionSubclass():
        if torch.is_grad_enabled() or not plain.requires_grad:
            return torch.Tensor.as_subclass(plain, cls)
        with torch.enable_grad():
            return torch.Tensor.as_subclass(plain, cls)


def instances(args: Args) -> list[Any]:
    """The arguments with a ``__torch_function__``, and those in sequences."""
    return [each for arg in args for each in arg.realize().overloaded_arguments()]


def call_torch_function(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call the ``__torch_function__`` of the arguments' classes, as torch does for a call of ``target``: in turn, until
    one doesn't return NotImplemented."""
    classes = _overloaded_classes(args, kwargs)
    function, given, named = _probed(tx, target, args, kwargs)
    kinds = TupleVariable([tx.make(cls) for cls in classes])
    for cls in classes:
        result = _call_override(tx, cls, [function, kinds, given, *named]).realize()
        if not (isinstance(result, ConstantVariable) and result.value is NotImplemented):
            return result
    names = " and ".join(cls.__qualname__ for cls in classes)
    unsupported(TorchFunctionOverride(f"the __torch_function__ of {names}", "it returns NotImplemented"))


def _overloaded_classes(args: Args, kwargs: Kwargs) -> list[type]:
    """The classes of the `instances` in the order in which torch calls them: from left to right, a subclass before its
    base classes."""
    if len({each.cls for each in instances([*args, *kwargs.values()])}) > 1 and instances([*kwargs.values()]):
        unsupported(TorchFunctionOverride("__torch_function__", "its keyword arguments are of several classes"))
    classes: list[type] = []
    for each in instances([*args, *kwargs.values()]):
        if each.cls not in classes:
            before = (at for at, known in enumerate(classes) if known in mro(each.cls))
            classes.insert(next(before, len(classes)), each.cls)
    return classes


def _call_override(tx: Translator, cls: type, args: Args) -> VariableTracker:
    """Call ``cls.__torch_function__``. ``args``: what torch passes to it."""
    raw = tx.lookup(cls, _FUNCTION)
    if raw is _DEFAULT:
        return _default(tx, tx.make(cls), *args)
    if not isinstance(raw, classmethod) or not isinstance(raw.__func__, types.FunctionType):
        unsupported(
            TorchFunctionOverride(f"{cls.__qualname__}.__torch_function__", "it is not a classmethod in Python")
        )
    return tx.call(bind(tx, raw, _FUNCTION, None, cls), args, {})


def _probed(tx: Translator, target: Target, args: Args, kwargs: Kwargs) -> tuple[VariableTracker, TupleVariable, Args]:
    """What torch passes to ``__torch_function__``: the function, the arguments, and the keyword arguments if any."""
    call, trackers = _probe(tx.graph, target, args, kwargs)
    given = TupleVariable([_tracker(tx, value, trackers) for value in call.args])
    named: Args = []
    if call.kwargs is not None:
        named = [DictVariable({name: _tracker(tx, value, trackers) for name, value in call.kwargs.items()})]
    return tx.make(call.function), given, named


def _probe(graph: GraphBuilder, target: Target, args: Args, kwargs: Kwargs) -> tuple[_Dispatched, _Trackers]:
    """Torch's call of ``__torch_function__``, and the trackers of the objects in its arguments."""
    trackers: dict[int, tuple[object, VariableTracker]] = {}

    def real(arg: VariableTracker) -> object:
        value: object
        if not arg.overloaded_arguments():
            value = arg.as_fx()[1]
        elif isinstance(arg, TensorVariable):
            value = _tensor_probe(arg.fake)
        else:
            value = _ObjectProbe()
        if isinstance(value, (torch.Tensor, _ObjectProbe)):
            trackers[id(value)] = (value, arg)
        return value

    graph.leave()
    try:
        values = [arg.realize().real_argument(real) for arg in args]
        named = {name: value.realize().real_argument(real) for name, value in kwargs.items()}
        for value, arg in zip([*values, *named.values()], [*args, *kwargs.values()]):
            if type(value) in (list, dict):
                trackers[id(value)] = (value, arg.realize())
        function = getattr(values.pop(0), target) if isinstance(target, str) else target
        function(*values, **named) if named or isinstance(kwargs, UnpackedKwargs) else function(*values)
    except _Dispatched as call:
        _check_dispatches_itself(target, call.function)
        return call, {key: pair[1] for key, pair in trackers.items()}
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        unsupported(
            TorchFunctionOverride("a function of torch", f"it fails before it calls __torch_function__: {error}")
        )
    finally:
        graph.enter()
    unsupported(TorchFunctionOverride("a function of torch", "it does not call __torch_function__"))


def _tensor_probe(fake: torch.Tensor) -> _TensorProbe:
    with torch._C.DisableTorchFunctionSubclass():
        plain = torch.empty(fake.shape, dtype=fake.dtype, device="meta")
        return torch.Tensor.as_subclass(plain, _TensorProbe)


def _check_dispatches_itself(target: Target, dispatched: object) -> None:
    """Break for a Python function that is not dispatched itself: the probe has met the first function that it calls."""
    function = class_lookup(_TENSOR, target) if isinstance(target, str) else target
    if isinstance(function, types.FunctionType) and getattr(dispatched, "__name__", None) != function.__name__:
        unsupported(
            TorchFunctionOverride(function.__qualname__, "functions that it calls are dispatched to __torch_function__")
        )


def _tracker(tx: Translator, value: object, trackers: _Trackers) -> VariableTracker:
    tracker = trackers.get(id(value))
    if tracker is not None:
        return tracker
    if type(value) is list:
        return ListVariable([_tracker(tx, item, trackers) for item in value])
    if type(value) is tuple:
        return TupleVariable([_tracker(tx, item, trackers) for item in value])
    return tx.make(value)


@models(_DEFAULT.__func__)
def _default(
    tx: Translator,
    cls: VariableTracker,
    func: VariableTracker,
    types: VariableTracker,
    args: VariableTracker | None = None,
    kwargs: VariableTracker | None = None,
) -> VariableTracker:
    """``Tensor.__torch_function__``: call the function on plain tensors, and convert its results to ``cls``. It returns
    NotImplemented unless ``cls`` derives from all the types."""
    if not all(tx.truth(tx.call(tx.make(issubclass), [cls, each], {})) for each in types.elements(tx)):
        return ConstantVariable(NotImplemented)
    result = _disabled(tx, func, types, args, kwargs)
    if func.is_constant() and func.as_constant() in get_default_nowrap_functions():
        return result
    return _converted(tx, result, cls.as_constant())


@models(torch._C._disabled_torch_function_impl)
def _disabled(
    tx: Translator,
    func: VariableTracker,
    types: VariableTracker,
    args: VariableTracker | None = None,
    kwargs: VariableTracker | None = None,
) -> VariableTracker:
    """The ``__torch_function__`` of classes with a ``__torch_dispatch__`` alone."""
    with tx.attempt.torch_state.without_torch_function():
        named = {} if kwargs is None or tx.is_none(kwargs) else dict(kwargs.items)  # type: ignore[attr-defined]
        given = [] if args is None else args.elements(tx)
        return tx.call(func, given, {name: value.realize() for name, value in named.items()}).realize()


def _alias(tx: Translator, tensor: TensorVariable) -> TensorVariable:
    with tx.attempt.torch_state.without_torch_function():
        plain = record(tx, torch.ops.aten.alias.default, [tensor], {})
    assert isinstance(plain, TensorVariable)
    return plain


def _converted(tx: Translator, result: VariableTracker, cls: type) -> VariableTracker:
    """A result with its tensors as instances of a class."""
    if isinstance(result, TensorVariable) and not derives(result.cls, cls):
        if is_wrapper_class(cls) or result.is_wrapper:
            unsupported(TorchFunctionOverride("Tensor.as_subclass()", f"a {cls.__qualname__} has inner tensors"))
        plain = _alias(tx, result)
        instance = SubclassVariable(plain, cls)
        tx.attempt.state(KnownTensors).add(plain.fake, instance)
        return instance
    if not isinstance(result, (ListVariable, TupleVariable)) or isinstance(result, SizeVariable):
        return result
    return result.like([_converted(tx, item.realize(), cls) for item in result.items])


class DisableTorchFunctionVariable(ContextVariable):
    """``torch._C.DisableTorchFunctionSubclass()``, or ``DisableTorchFunction()`` where no function mode is active."""

    __slots__ = ("before",)

    def __init__(self, value: Any) -> None:
        super().__init__(value, ())
        self.before: list[bool] = []
        """For each time that it is entered, whether ``__torch_function__`` was disabled before."""

    def enter(self, tx: Translator) -> None:
        state = tx.attempt.torch_state
        self.before.append(state.is_torch_function_off)
        state.is_torch_function_off = True

    def exit(self, tx: Translator) -> None:
        tx.attempt.torch_state.is_torch_function_off = self.before.pop()


@models(torch._C.DisableTorchFunctionSubclass)
def _disable(tx: Translator) -> VariableTracker:
    return DisableTorchFunctionVariable(torch._C.DisableTorchFunctionSubclass())


@models(torch._C.DisableTorchFunction)
def _disable_all(tx: Translator) -> VariableTracker:
    if torch._C._len_torch_function_stack():
        unsupported(FunctionModeEntered("DisableTorchFunction()"))
    return DisableTorchFunctionVariable(torch._C.DisableTorchFunction())


@models(
    torch._C._push_on_torch_function_stack,
    torch._C._pop_torch_function_stack,
    torch._C._get_function_stack_at,
)
def _act_on_modes(tx: Translator, *args: VariableTracker) -> VariableTracker:
    """CPython enters a mode, and no frame is traced until it exits."""
    unsupported(FunctionModeEntered(f"{args[0].describe()} (a function mode)" if args else "a function mode"))


@models(torch._C._len_torch_function_stack)
def _count_of_modes(tx: Translator) -> VariableTracker:
    return ConstantVariable(torch._C._len_torch_function_stack())


@models(torch._C._is_torch_function_enabled)
def _is_torch_function_enabled(tx: Translator) -> VariableTracker:
    is_disabled = tx.attempt.torch_state.is_torch_function_off
    return ConstantVariable(torch._C._is_torch_function_enabled() and not is_disabled)


@models_if(types.MethodWrapperType)
def _attribute_getter(value: types.MethodWrapperType) -> Model | None:
    """``torch.Tensor.shape.__get__``: the function that ``__torch_function__`` receives for reading an attribute."""
    if value.__name__ != "__get__":
        return None
    descriptor: Any = value.__self__
    name = getattr(descriptor, "__name__", None) or getattr(getattr(descriptor, "fget", None), "__name__", None)
    if name is None or class_lookup(_TENSOR, name) is not descriptor:
        return None

    def read(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        kind = args[0].python_type() if args else object
        if kwargs or not issubclass(kind, _TENSOR) or class_lookup(kind, name) is not descriptor:
            unsupported(UnknownCall(f"{name}.__get__()", "it isn't what a read of the attribute from a tensor calls"))
        return args[0].getattr(tx, name)

    return read


def has_only_torch_function(cls: type) -> bool:
    """Whether a tensor subclass overrides torch's functions by ``__torch_function__`` at most. Subclasses of
    ``nn.Parameter`` disable it."""
    if class_lookup(cls, _DISPATCH) is not class_lookup(_TENSOR, _DISPATCH) or issubclass(cls, _UNINITIALIZED):
        return False
    return isinstance(class_lookup(cls, _FUNCTION), classmethod) or not has_torch_function(cls)


_METADATA = (
    *("dtype", "device", "layout", "shape", "ndim", "requires_grad", "is_leaf", "grad", "grad_fn", "names", "_base"),
    *("size", "stride", "storage_offset", "dim", "numel", "untyped_storage", "is_conj", "is_neg", "is_inference"),
)
"""What is read of an instance to make a fake of it. A property of the class would run."""

_UNINITIALIZED: type = vars(torch.nn.parameter)["UninitializedTensorMixin"]


def _as_subclass(tx: Translator, tensor: TensorVariable, cls: VariableTracker) -> VariableTracker:
    if not issubclass(cls.python_type(), type):
        refuse_arguments("Tensor.as_subclass")
    kind = tx.python_value(cls)
    if kind is _TENSOR:
        return _alias(tx, tensor)
    if issubclass(kind, (torch.nn.Parameter, torch.nn.Buffer)) or not has_only_torch_function(kind):
        unsupported(
            TorchFunctionOverride("Tensor.as_subclass()", f"{kind.__qualname__} overrides more than __torch_function__")
        )
    tx.attempt.torch_state.has_subclasses = True
    return _converted(tx, tensor, kind)


METHODS["as_subclass"] = _as_subclass


@models(torch._C.TensorBase.__new__)
def _new(tx: Translator, cls: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """``cls(tensor)`` of a subclass: an alias of the tensor."""
    kind = tx.python_value(cls)
    of = args[0].realize() if len(args) == 1 and not kwargs else None
    if kind is _TENSOR or not isinstance(of, TensorVariable) or of.overloaded_arguments():
        unsupported(TorchFunctionOverride(f"{kind.__qualname__}.__new__()", "its argument is not one plain tensor"))
    return _as_subclass(tx, of, cls)


@wraps_if(lambda value: issubclass(type(value), torch.Tensor), order=3)
def _wrap_subclass(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    cls = type(value)
    if cls is torch.nn.Buffer:
        return wrap_as_input(attempt, value, source)
    if not has_only_torch_function(cls) or not torch._C._is_torch_function_enabled():
        return attempt.values.opaque(value, source, "a subclass of torch.Tensor")
    if any(class_lookup(cls, name) is not class_lookup(_TENSOR, name) for name in _METADATA):
        return attempt.values.opaque(value, source, "a subclass of torch.Tensor with metadata of its own")
    with torch._C.DisableTorchFunctionSubclass():  # the alias's base is the instance
        plain = wrap_as_input(attempt, plain_tensor(value), source, cls)
    if not isinstance(plain, TensorVariable):
        return plain
    attempt.torch_state.has_subclasses |= has_torch_function(cls)
    instance = SubclassVariable(plain, cls, source, value)
    attempt.state(KnownTensors).add(plain.fake, instance)
    return instance
