"""Classes with ``__torch_function__``, subclasses of Tensor above all: it is inlined where torch would call it.

The graph computes with plain tensors. What is given is unwrapped before the graph is called, what leaves it is made one
of its class again.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.overrides import get_default_nowrap_functions

from dynamo_lite.insight.break_reasons import (
    UnknownCall,
    UnsupportedAttribute,
    UnsupportedContext,
    UnsupportedOperation,
)
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.graph_functions import plain_tensor
from dynamo_lite.runtime.inner_tensors import is_wrapper_class
from dynamo_lite.variables.core.attributes import MISSING, bind, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    LazyVariable,
    UnpackedKwargs,
    VariableTracker,
    refuse_arguments,
    unsupported,
    wraps_if,
)
from dynamo_lite.variables.core.constant import ConstantVariable, unless_refused
from dynamo_lite.variables.core.operator_symbols import method_of
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import Model, models, models_if, provides
from dynamo_lite.variables.core.text import call_text_method
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import ListVariable, SizeVariable, TupleVariable
from dynamo_lite.variables.torch.contexts.context import ContextVariable
from dynamo_lite.variables.torch.tensors.tensor import METHODS, TensorMethod, TensorVariable, record, wrap_as_input

_TENSOR = torch.Tensor
_DISPATCH = "__torch_dispatch__"
_FUNCTION = "__torch_function__"
_DEFAULT = class_lookup(_TENSOR, _FUNCTION)


class _Asked(BaseException):
    """Torch asks a probe's class: with these arguments."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs


class _Asking:
    """Stands for an object, no tensor, to learn what torch asks its class."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _Asked(func, tuple(args), kwargs)


class _Probe(_Asking, torch.Tensor):
    """Stands for an instance of a subclass."""


class SubclassVariable(TensorVariable):
    """An instance of such a class. ``plain``: the tensor of the graph that it is made of."""

    __slots__ = ("plain", "instance")
    asks = True

    def __init__(self, plain: TensorVariable, cls: type, source: Source | None = None, instance: Any = None) -> None:
        super().__init__(plain.node, plain.fake, cls, source, plain.value)
        self.plain = plain
        self.instance = instance

    def describe(self) -> str:
        return f"a {self.cls.__qualname__}"

    def is_asked(self, tx: Translator) -> bool:
        """Whether torch would ask the class now."""
        return calls_torch_function(tx)

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
        overridden = raw is not class_lookup(_TENSOR, name)
        if not self.is_asked(tx) and not overridden:
            if name in _OF_THE_OBJECT:
                unsupported(UnsupportedAttribute(self.describe(), name))
            return super().getattr(tx, name)
        own = self._instance_attribute(tx, name)
        if own is not None:
            return own
        if overridden:
            if isinstance(raw, (types.FunctionType, classmethod, staticmethod, property)):
                return bind(tx, raw, name, self, self.cls)
            return tx.generic_getattr(self, name)
        if raw is MISSING or name == "__class__":
            return super().getattr(tx, name)
        if isinstance(raw, (types.GetSetDescriptorType, property)):
            return dispatch_torch_function(tx, getattr, [self, ConstantVariable(name)], {})
        return TensorMethod(self, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if class_lookup(_TENSOR, name) is not MISSING:
            unsupported(UnsupportedAttribute(self.describe(), name, "writing it is not modelled"))
        super().setattr(tx, name, value)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.is_asked(tx) and name != "as_subclass":
            return dispatch_torch_function(tx, name, [self, *args], kwargs)
        return super().call_method(tx, name, args, kwargs)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return self.call_special(tx, "__getitem__", key) or super().getitem(tx, key)

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        if self.call_special(tx, "__setitem__", key, value) is None:
            super().setitem(tx, key, value)

    def length(self, tx: Translator) -> Any:
        found = self.call_special(tx, "__len__")
        if found is not None:
            return tx.index_value(found)
        return dispatch_torch_function(tx, len, [self], {}).as_constant() if self.is_asked(tx) else super().length(tx)

    def truth(self, tx: Translator) -> bool:
        found = self.call_special(tx, "__bool__")
        if found is not None:
            return tx.truth(found)  # type: ignore[no-any-return]
        return tx.truth(dispatch_torch_function(tx, bool, [self], {})) if self.is_asked(tx) else super().truth(tx)

    def iterate(self, tx: Translator) -> VariableTracker:
        """``Tensor.__iter__`` asks for nothing itself; its parts do."""
        found = self.call_special(tx, "__iter__")
        if found is not None:
            return found
        if not self.is_asked(tx):
            return super().iterate(tx)
        dispatch_torch_function(tx, "dim", [self], {})
        return tx.iterate(dispatch_torch_function(tx, "unbind", [self, ConstantVariable(0)], {}))  # type: ignore[no-any-return]

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        found = self.call_special(tx, "__contains__", item)
        return super().contains(tx, item) if found is None else tx.truth(found)

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        found = self.call_special(tx, method_of(symbol, "r" if reflected else ""), other)
        return super().binary(tx, symbol, other, reflected) if found is None else unless_refused(found)

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        found = self.call_special(tx, method_of(symbol, "i"), other)
        return super().inplace(tx, symbol, other) if found is None else unless_refused(found)

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        return self.call_special(tx, f"__{function.__name__}__") or super().unary(tx, function)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        found = self.call_special(tx, method_of(symbol), other)
        if found is not None:
            return unless_refused(found)
        if self.is_asked(tx) and not isinstance(other, (TensorVariable, ConstantVariable)):
            unsupported(UnsupportedOperation(f"`{symbol}`", self.describe()))
        return super().compare(tx, symbol, other)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        method = self.find_special(tx, name) or (self.find_special(tx, "__repr__") if name == "__str__" else None)
        return super().text(tx, name) if method is None else call_text_method(tx, method, name)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(as_subclass, [lambda: cg.graph_output(self.plain), lambda: cg.load_const(self.cls)])


_OF_THE_OBJECT = ("grad", "is_leaf", "grad_fn", "requires_grad_", "retain_grad", "_version", "_base")
"""What an alias of a tensor has of its own."""


def as_subclass(plain: torch.Tensor, cls: type) -> torch.Tensor:
    """An alias of a tensor that is of a class; nobody is asked."""
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.as_subclass(plain, cls)  # type: ignore[no-any-return]


def calls_torch_function(tx: Translator) -> bool:
    """Whether torch would ask the classes of its functions' arguments now."""
    return tx.attempt.torch_state.calls_torch_function  # type: ignore[no-any-return]


def instances(args: Any) -> list[Any]:
    """Instances of classes that are asked among arguments, those in sequences too."""
    return [each for arg in args for each in arg.realize().overloaded_arguments()]


@provides("dispatch_torch_function")
def dispatch_torch_function(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call ``target``, or the method of that name, as torch does: by the ``__torch_function__`` of the class."""
    owners = {each.cls for each in instances([*args, *kwargs.values()])}
    if len(owners) != 1:
        unsupported(UnknownCall("__torch_function__", "instances of several classes meet"))
    (cls,) = owners
    function, given, named = _probed(tx, target, args, kwargs)
    raw = tx.lookup(cls, _FUNCTION)
    if raw is _DEFAULT:
        return _default(tx, tx.make(cls), function, None, given, *named)
    if not isinstance(raw, classmethod) or not isinstance(raw.__func__, types.FunctionType):
        unsupported(UnknownCall(f"{cls.__qualname__}.__torch_function__", "it is no classmethod in Python"))
    method = bind(tx, raw, _FUNCTION, None, cls)
    kinds = TupleVariable([tx.make(cls)])
    found = tx.call(method, [function, kinds, given, *named], {}).realize()
    if isinstance(found, ConstantVariable) and found.value is NotImplemented:
        unsupported(UnknownCall(f"{cls.__qualname__}.__torch_function__", "it returns NotImplemented"))
    return found


def _probed(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> tuple[VariableTracker, TupleVariable, Args]:
    """What torch passes to ``__torch_function__``: which function, which arguments, and perhaps those with names."""
    asked, known = _probe(tx, target, args, kwargs)
    given = TupleVariable([_tracker(tx, value, known) for value in asked.args])
    named: Args = []
    if asked.kwargs is not None:
        named = [DictVariable({name: _tracker(tx, value, known) for name, value in asked.kwargs.items()})]
    return tx.make(asked.function), given, named


def _probe(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> tuple[_Asked, dict[int, VariableTracker]]:
    """What torch asks, and which tracker each of the objects in it stands for."""
    known: dict[int, Any] = {}

    def real(arg: VariableTracker) -> Any:
        asks = arg.overloaded_arguments()
        made = _Asking() if asks and not isinstance(arg, TensorVariable) else arg.as_fx()[1]
        if asks and isinstance(made, torch.Tensor):
            made = torch.Tensor.as_subclass(torch.empty(made.shape, dtype=made.dtype, device="meta"), _Probe)
        if isinstance(made, (torch.Tensor, _Asking)):
            known[id(made)] = (made, arg)
        return made

    tx.graph.leave()
    try:
        values = [arg.realize().real_argument(real) for arg in args]
        named = {name: value.realize().real_argument(real) for name, value in kwargs.items()}
        function = target
        if isinstance(target, str):
            function = getattr(values.pop(0), target)
        for value, arg in zip([*values, *named.values()], [*args[len(args) - len(values) :], *kwargs.values()]):
            if type(value) in (list, dict):
                known[id(value)] = (value, arg.realize())
        function(*values, **named) if named or isinstance(kwargs, UnpackedKwargs) else function(*values)
    except _Asked as asked:
        _check_whole(target, asked.function)
        return asked, {key: pair[1] for key, pair in known.items()}
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        unsupported(UnknownCall("a function of torch", f"it fails before it asks for __torch_function__: {error}"))
    finally:
        tx.graph.enter()
    unsupported(UnknownCall("a function of torch", "it does not ask for __torch_function__"))


def _check_whole(target: Any, asked: Any) -> None:
    """A function in Python that does not ask for itself would ask for the first of its parts."""
    whole = class_lookup(_TENSOR, target) if isinstance(target, str) else target
    if isinstance(whole, types.FunctionType) and getattr(asked, "__name__", None) != whole.__name__:
        unsupported(UnknownCall(f"{whole.__qualname__}", "it asks the class of its arguments for its parts"))


def _tracker(tx: Translator, value: Any, known: dict[int, VariableTracker]) -> VariableTracker:
    found = known.get(id(value))
    if found is not None:
        return found
    if type(value) is list:
        return ListVariable([_tracker(tx, item, known) for item in value])
    if type(value) is tuple:
        return TupleVariable([_tracker(tx, item, known) for item in value])
    return tx.make(value)


@models(_DEFAULT.__func__)
def _default(
    tx: Translator,
    cls: VariableTracker,
    func: VariableTracker,
    types: VariableTracker | None = None,
    args: VariableTracker | None = None,
    kwargs: VariableTracker | None = None,
) -> VariableTracker:
    """``Tensor.__torch_function__``: the function as if they were plain tensors, its results made ``cls``."""
    tx.attempt.torch_state.unasked += 1
    try:
        named = {} if kwargs is None or tx.is_none(kwargs) else dict(kwargs.items)  # type: ignore[attr-defined]
        given = [] if args is None else args.elements(tx)
        found = tx.call(func, given, {name: value.realize() for name, value in named.items()}).realize()
    finally:
        tx.attempt.torch_state.unasked -= 1
    if func.is_constant() and func.as_constant() in get_default_nowrap_functions():
        return found
    return _converted(tx, found, cls.as_constant())


def _alias(tx: Translator, tensor: TensorVariable) -> Any:
    tx.attempt.torch_state.unasked += 1
    plain = record(tx, "call_function", torch.ops.aten.alias.default, [tensor], {})
    tx.attempt.torch_state.unasked -= 1
    return plain


def _converted(tx: Translator, found: VariableTracker, cls: type) -> VariableTracker:
    if isinstance(found, TensorVariable) and not issubclass(found.cls, cls):
        if is_wrapper_class(cls) or found.is_wrapper:
            unsupported(UnknownCall("Tensor.as_subclass()", f"a {cls.__qualname__} is made of more than one tensor"))
        plain = _alias(tx, found)
        made = tx.attempt.values.fakes[id(plain.fake)] = SubclassVariable(plain, cls)
        return made
    if not isinstance(found, (ListVariable, TupleVariable)) or isinstance(found, SizeVariable):
        return found
    return found.like([_converted(tx, item.realize(), cls) for item in found.items])


class UnaskedVariable(ContextVariable):
    """``with torch._C.DisableTorchFunctionSubclass()``; ``DisableTorchFunction()`` too where no function mode is on."""

    __slots__ = ()

    def enter(self, tx: Translator) -> None:
        tx.attempt.torch_state.unasked += 1

    def exit(self, tx: Translator) -> None:
        tx.attempt.torch_state.unasked -= 1


@models(torch._C.DisableTorchFunctionSubclass)
def _disable(tx: Translator) -> VariableTracker:
    return UnaskedVariable(torch._C.DisableTorchFunctionSubclass(), ())


@models(torch._C.DisableTorchFunction)
def _disable_all(tx: Translator) -> VariableTracker:
    if torch._C._len_torch_function_stack():
        unsupported(UnknownCall("DisableTorchFunction()", "it turns function modes off as well"))
    return UnaskedVariable(torch._C.DisableTorchFunction(), ())


@models(torch._C._push_on_torch_function_stack)
def _push_mode(tx: Translator, mode: VariableTracker) -> VariableTracker:
    """CPython enters it, and no frame is traced until it is left."""
    unsupported(UnsupportedContext(f"{mode.describe()} (a function mode)"))


@models(torch._C._pop_torch_function_stack)
def _pop_mode(tx: Translator) -> VariableTracker:
    unsupported(UnsupportedContext("a function mode"))


@models(torch._C._get_function_stack_at)
def _mode_at(tx: Translator, index: VariableTracker) -> VariableTracker:
    unsupported(UnsupportedContext("a function mode"))


@models(torch._C._len_torch_function_stack)
def _count_of_modes(tx: Translator) -> VariableTracker:
    return ConstantVariable(torch._C._len_torch_function_stack())


@models(torch._C._is_torch_function_mode_enabled)
def _has_modes(tx: Translator) -> VariableTracker:
    """Under one of the program's own no frame is traced, and a device makes no difference."""
    return ConstantVariable(False)


@models(torch._C._is_torch_function_enabled)
def _asks_classes(tx: Translator) -> VariableTracker:
    return ConstantVariable(torch._C._is_torch_function_enabled() and not tx.attempt.torch_state.unasked)


@models_if
def _attribute_getter(value: Any) -> Model | None:
    """``torch.Tensor.shape.__get__`` called: how torch names the reading of an attribute."""
    if type(value) is not types.MethodWrapperType or value.__name__ != "__get__":
        return None
    descriptor: Any = value.__self__
    name = getattr(descriptor, "__name__", None) or getattr(getattr(descriptor, "fget", None), "__name__", None)
    if name is None or class_lookup(_TENSOR, name) is not descriptor:
        return None
    return lambda tx, args, kwargs: args[0].getattr(tx, name)


def is_asked_alone(cls: type) -> bool:
    """Whether a class is only more by ``__torch_function__``, in Python or torch's own."""
    ordinary = class_lookup(cls, _DISPATCH) is class_lookup(_TENSOR, _DISPATCH) and not issubclass(cls, _OTHERS)
    return ordinary and isinstance(class_lookup(cls, _FUNCTION), classmethod)


_OTHERS = (torch.nn.Parameter, torch.nn.Buffer, torch.nn.parameter.UninitializedTensorMixin)


def _as_subclass(tx: Translator, tensor: TensorVariable, cls: VariableTracker) -> VariableTracker:
    if not issubclass(cls.python_type(), type):
        refuse_arguments("Tensor.as_subclass")
    kind = tx.python_value(cls)
    if kind is _TENSOR:
        return _alias(tx, tensor)  # type: ignore[no-any-return]
    if not is_asked_alone(kind):
        unsupported(UnknownCall("Tensor.as_subclass()", f"{kind.__qualname__} is more than a __torch_function__"))
    tx.attempt.torch_state.has_subclasses = True
    return _converted(tx, tensor, kind)


METHODS["as_subclass"] = _as_subclass


@models(torch._C.TensorBase.__new__)
def _new(tx: Translator, cls: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """``cls(tensor)`` of a subclass: another tensor object over the same data."""
    kind = tx.python_value(cls)
    of = args[0].realize() if len(args) == 1 and not kwargs else None
    if kind is _TENSOR or not isinstance(of, TensorVariable) or of.overloaded_arguments():
        unsupported(UnknownCall(f"{kind.__qualname__}.__new__()", "it is given more than a plain tensor"))
    return _as_subclass(tx, of, cls)


@wraps_if(lambda value: issubclass(type(value), torch.Tensor), order=3)
def _wrap_subclass(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    cls = type(value)
    if cls is torch.nn.Buffer:
        return wrap_as_input(attempt, value, source)
    if not is_asked_alone(cls) or not torch._C._is_torch_function_enabled():
        return attempt.values.opaque(value, source, "a subclass of torch.Tensor")
    plain = wrap_as_input(attempt, plain_tensor(value), source, cls)
    if not isinstance(plain, TensorVariable):
        return plain
    attempt.torch_state.has_subclasses = True
    found = attempt.values.fakes[id(plain.fake)] = SubclassVariable(plain, cls, source, value)
    return found
