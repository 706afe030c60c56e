"""Models of Python's builtin functions, one a function; those that are protocols over items are in `polyfills`."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import operator
import types
import typing
from collections import defaultdict
from typing import Any

from .. import _C
from ..reasons import DisabledCall, OutputCall, UnknownCall, UnsupportedOperation
from ..source import Source
from . import polyfills
from .attributes import MISSING, BuiltinMethodVariable, MethodVariable, bind, bind_classmethod, class_lookup
from .base import (
    Args,
    Kwargs,
    ObservedException,
    VariableTracker,
    unsupported,
    wraps_if,
    wraps_type,
)
from .constant import ConstantVariable
from .function import ClassVariable, FunctionVariable, ModuleVariable, NestedFunctionVariable
from .iterator import EnumerateVariable, FilterVariable, MapVariable, ZipVariable
from .mapping import DictIterator, DictVariable, DictViewVariable, SetVariable
from .registry import Model, known_call, models, models_if, models_raw
from .sequence import ListVariable, ReversedIterator, SequenceVariable, SliceVariable, TupleVariable
from .tensor import TensorVariable
from .user_object import EnumVariable, InstanceDictVariable, UserObjectVariable


class BuiltinVariable(VariableTracker):
    """A callable in C."""

    __slots__ = ("value",)
    immortal = True

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.source = source
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def as_constant(self) -> Any:
        return self.value

    def truth(self, tx: Any) -> bool:
        return True

    def describe(self) -> str:
        module = getattr(self.value, "__module__", None)
        name = getattr(self.value, "__qualname__", None) or getattr(self.value, "__name__", repr(type(self.value)))
        return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return tx.make(getattr(self.value, name, None))
        if name == "__class__":
            return tx.make(type(self.value))
        return super().getattr(tx, name)

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        model = known_call(self.value)
        if model is None:
            unsupported(UnknownCall(f"{self.describe()}()"))
        return model(tx, args, kwargs)

    def reconstruct(self, cg: Any) -> None:
        cg.load_const(self.value)


class UnboundMethodVariable(BuiltinVariable):
    """A method in C that is reached through its class: ``list.append``."""

    __slots__ = ()

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        model = known_call(self.value)
        if model is not None:
            return model(tx, args, kwargs)
        if not args:
            tx.raise_error(TypeError, f"unbound method {self.value.__name__}() needs an argument")
        owner = self.value.__objclass__
        if not issubclass(args[0].python_type(), owner):
            name = args[0].python_type().__name__
            tx.raise_error(
                TypeError,
                f"descriptor '{self.value.__name__}' requires a '{owner.__name__}' object but received '{name}'",
            )
        return args[0].call_method(tx, self.value.__name__, args[1:], kwargs)


@wraps_type(types.MethodDescriptorType, types.WrapperDescriptorType)
def _wrap_unbound(attempt: Any, value: Any, source: Source) -> VariableTracker:
    if source.kind != "const":
        source.check("id", value)
    return UnboundMethodVariable(value, source)


def _is_c_callable(value: Any) -> bool:
    return callable(value) and not type(value).__flags__ & (1 << 9)


@wraps_if(_is_c_callable, order=60)
def _wrap_builtin(attempt: Any, value: Any, source: Source) -> VariableTracker:
    receiver = getattr(value, "__self__", None)
    if receiver is not None and not isinstance(receiver, (types.ModuleType, type)) and known_call(value) is None:
        if not isinstance(value, types.BuiltinFunctionType) or getattr(value, "__name__", None) is None:
            return attempt.opaque(value, source, "a bound method in C")
        if source.kind == "const":
            return attempt.opaque(value, source, "a bound method in C")
        source.check("type", type(value))
        inner = attempt.wrap(receiver, source.child("c_attr", "__self__"))
        source.child("c_attr", "__name__").check("equals", value.__name__)
        found = BuiltinMethodVariable(inner, value.__name__)
        found.source = source
        return found
    if source.kind != "const":
        source.check("id", value)
    return BuiltinVariable(value, source)


@wraps_type(_C.Wrapped)
def _wrap_wrapped(attempt: Any, value: Any, source: Source) -> VariableTracker:
    """A function that ``dl.compile`` or ``dl.disable`` made: the first is inlined, the second is left out."""
    if source.kind != "const":
        source.check("id", value)
    return WrappedVariable(value, source)


class WrappedVariable(BuiltinVariable):
    __slots__ = ()

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.value.owner is _C.OFF:
            unsupported(DisabledCall(f"{self.value.__wrapped__!r}"))
        return tx.call(tx.make(self.value.__wrapped__), args, kwargs)


# -- polyfills ---------------------------------------------------------------------------------------------------------


def _inline_polyfill(real: Any, replacement: Any) -> None:
    def model(tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(FunctionVariable(replacement, None), args, kwargs)

    models_raw(real, model)


for _real, _replacement in polyfills.TABLE.items():
    if _real in (sum, min, max):
        continue
    _inline_polyfill(_real, _replacement)


def _numeric(real: Any, replacement: Any) -> None:
    """Over known numbers the builtin itself; else the polyfill."""

    def model(tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        items = args
        if len(args) == 1 and isinstance(args[0], SequenceVariable) or real is sum and args:
            items = args[0].elements(tx)
            args = [TupleVariable(items), *args[1:]]
        if not kwargs and all(isinstance(each, ConstantVariable) for each in [*items, *args[1:]]):
            return tx.make(tx.fold(real, [tx.python_value(arg) for arg in args]))
        return tx.call(FunctionVariable(replacement, None), args, kwargs)

    models_raw(real, model)


_numeric(sum, polyfills.sum_)
_numeric(min, polyfills.min_)
_numeric(max, polyfills.max_)


# -- functions of one value --------------------------------------------------------------------------------------------


@models(len)
def _len(tx: Any, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(of.length(tx))


@models(operator.length_hint)
def _length_hint(tx: Any, of: VariableTracker, default: Any = None) -> VariableTracker:
    return ConstantVariable(of.length(tx))


@models(bool, operator.truth)
def _bool(tx: Any, of: VariableTracker | None = None) -> VariableTracker:
    return ConstantVariable(False if of is None else tx.truth(of))


@models(operator.not_)
def _not(tx: Any, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(not tx.truth(of))


@models(abs, operator.abs)
def _abs(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.unary("abs", of)


@models(operator.neg)
def _neg(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.unary("-", of)


@models(operator.pos)
def _pos(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.unary("+", of)


@models(operator.invert, operator.inv)
def _invert(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.unary("~", of)


def _number(kind: type) -> None:
    @models(kind)
    def convert(tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if args and isinstance(args[0], TensorVariable):
            return args[0]._value(tx, f"__{kind.__name__}__", [])
        if args and isinstance(args[0], UserObjectVariable) and not args[0].is_constant():
            method = args[0].special(tx, f"__{kind.__name__}__") or args[0].special(tx, "__index__")
            if method is not None:
                return tx.call(method, [], {})
        named = {name: tx.python_value(value) for name, value in kwargs.items()}
        return tx.make(tx.fold(kind, [tx.python_value(arg) for arg in args], named))


for _kind in (int, float, complex):
    _number(_kind)


@models(str)
def _str(tx: Any, *args: VariableTracker) -> VariableTracker:
    if len(args) == 1:
        return tx.string(args[0], "__str__")
    return tx.make(tx.fold(str, [tx.python_value(arg) for arg in args]))


@models(repr)
def _repr(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.string(of, "__repr__")


@models(format)
def _format(tx: Any, of: VariableTracker, spec: VariableTracker | None = None) -> VariableTracker:
    return tx.format(of, spec or ConstantVariable(""))


class IdVariable(VariableTracker):
    """``id(x)``: good as a key and for equality; its number is that of each call."""

    __slots__ = ("of",)

    def __init__(self, of: VariableTracker) -> None:
        self.source = None
        self.of = of

    def python_type(self) -> type:
        return int

    def truth(self, tx: Any) -> bool:
        return True

    def key(self) -> Any:
        return IdVariable, self.of.identity()

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol in ("==", "!=") and isinstance(other, IdVariable):
            return ConstantVariable(tx.identical(self.of, other.of) == (symbol == "=="))
        return None

    def reconstruct(self, cg: Any) -> None:
        cg.call(id, [lambda: cg.load(self.of)])


@models(id)
def _id(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, ConstantVariable) and of.identity() is of:
        unsupported(UnsupportedOperation("id()", of.describe()))
    return IdVariable(of)


class SignatureVariable(VariableTracker):
    """What ``inspect.signature`` returns for a known function."""

    __slots__ = ("value",)

    def __init__(self, value: inspect.Signature) -> None:
        self.source = None
        self.value = value

    def python_type(self) -> type:
        return inspect.Signature

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name == "parameters":
            return DictVariable({key: tx.make(parameter) for key, parameter in self.value.parameters.items()})
        return super().getattr(tx, name)

    def reconstruct(self, cg: Any) -> None:
        cg.load_const(self.value)


@models(inspect.signature)
def _signature(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, MethodVariable):
        value = tx.fold(inspect.signature, (types.MethodType(tx.python_value(of.function), object()),))
    else:
        value = tx.fold(inspect.signature, (tx.python_value(of),))
    return SignatureVariable(value)


@models(hash)
def _hash(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, UserObjectVariable):
        method = of.special(tx, "__hash__")
        if method is not None:
            return tx.call(method, [], {})
    if isinstance(of, (ConstantVariable, TupleVariable)):
        return tx.make(tx.fold(hash, (tx.python_value(of),)))
    unsupported(UnsupportedOperation("hash()", of.describe()))


@models(callable)
def _callable(tx: Any, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(isinstance(of, ClassVariable) or class_lookup(of.python_type(), "__call__") is not MISSING)


_PURE: tuple[Any, ...] = (
    *(value for name, value in vars(math).items() if isinstance(value, types.BuiltinFunctionType)),
    *(round, divmod, pow, chr, ord, bin, hex, oct, ascii, bytes, bytearray.fromhex),
    *(str.maketrans, int.from_bytes, float.fromhex, dict.fromkeys),
)


def _pure(value: Any) -> None:
    def model(tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        if any(isinstance(arg, TensorVariable) for arg in args):
            return _pure_of_tensor(tx, value, args, kwargs)
        if args and isinstance(args[0], UserObjectVariable) and not args[0].is_constant():
            method = args[0].special(tx, f"__{value.__name__}__")
            if method is not None:
                return tx.call(method, args[1:], kwargs)
        named = {name: tx.python_value(item) for name, item in kwargs.items()}
        return tx.make(tx.fold(value, [tx.python_value(arg) for arg in args], named))

    models_raw(value, model)


def _pure_of_tensor(tx: Any, value: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    if value is pow and len(args) == 2:
        return tx.binary("**", *args)
    unsupported(UnsupportedOperation(f"{value.__name__}()", "a tensor"))


for _value in _PURE:
    _pure(_value)


@models(dict.fromkeys)
def _fromkeys(tx: Any, keys: VariableTracker, value: VariableTracker | None = None) -> VariableTracker:
    made = DictVariable({})
    for key in keys.elements(tx):
        made.put(key, value or ConstantVariable(None))
    return made


# -- operators as functions --------------------------------------------------------------------------------------------


def _operator_models() -> None:
    for symbol, name in (
        *(("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "truediv"), ("//", "floordiv"), ("%", "mod"), ("**", "pow")),
        *(("@", "matmul"), ("&", "and_"), ("|", "or_"), ("^", "xor"), ("<<", "lshift"), (">>", "rshift")),
    ):
        models(getattr(operator, name))(lambda tx, a, b, symbol=symbol: tx.binary(symbol, a, b))
        inplace = getattr(operator, "i" + name.rstrip("_"))
        models(inplace)(lambda tx, a, b, symbol=symbol: tx.inplace(symbol, a, b))
    for symbol, name in (("==", "eq"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")):
        models(getattr(operator, name))(lambda tx, a, b, symbol=symbol: tx.compare(symbol, a, b))


_operator_models()
models(operator.is_)(lambda tx, a, b: ConstantVariable(tx.identical(a, b)))
models(operator.is_not)(lambda tx, a, b: ConstantVariable(not tx.identical(a, b)))
models(operator.contains)(lambda tx, a, b: ConstantVariable(a.contains(tx, b)))
models(operator.getitem)(lambda tx, a, b: tx.getitem(a, b))
models(operator.index)(lambda tx, a: tx.make(a.as_constant() if a.is_constant() else tx.index_value(a)))


@models(operator.setitem)
def _setitem(tx: Any, container: VariableTracker, key: VariableTracker, value: VariableTracker) -> VariableTracker:
    container.setitem(tx, key, value)
    return ConstantVariable(None)


class GetterVariable(VariableTracker):
    """``operator.itemgetter`` and ``attrgetter`` made inside."""

    __slots__ = ("kind", "names")

    def __init__(self, kind: Any, names: tuple[Any, ...]) -> None:
        self.source = None
        self.kind = kind
        self.names = names

    def python_type(self) -> type:
        return self.kind

    def truth(self, tx: Any) -> bool:
        return True

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        found = [self._get(tx, args[0], name) for name in self.names]
        return found[0] if len(found) == 1 else TupleVariable(found)

    def _get(self, tx: Any, of: VariableTracker, name: Any) -> VariableTracker:
        if self.kind is operator.itemgetter:
            return tx.getitem(of, tx.make(name))
        for part in name.split("."):
            of = of.getattr(tx, part).realize()
        return of

    def reconstruct(self, cg: Any) -> None:
        cg.call(self.kind, [lambda name=name: cg.load_const(name) for name in self.names])


@models(operator.itemgetter)
def _itemgetter(tx: Any, *names: VariableTracker) -> VariableTracker:
    return GetterVariable(operator.itemgetter, tuple(tx.python_value(name) for name in names))


@models(operator.attrgetter)
def _attrgetter(tx: Any, *names: VariableTracker) -> VariableTracker:
    return GetterVariable(operator.attrgetter, tuple(tx.python_value(name) for name in names))


# -- attributes and classes --------------------------------------------------------------------------------------------


@models(getattr)
def _getattr(tx: Any, of: VariableTracker, name: VariableTracker, default: Any = None) -> VariableTracker:
    try:
        return of.getattr(tx, _attribute_name(tx, name))
    except ObservedException as observed:
        if default is None or not issubclass(observed.error.python_type(), AttributeError):
            raise
        return default


def _attribute_name(tx: Any, name: VariableTracker) -> str:
    value = tx.python_value(name)
    if not isinstance(value, str):
        tx.raise_error(TypeError, f"attribute name must be string, not '{type(value).__name__}'")
    return value


@models(setattr)
def _setattr(tx: Any, of: VariableTracker, name: VariableTracker, value: VariableTracker) -> VariableTracker:
    of.setattr(tx, _attribute_name(tx, name), value)
    return ConstantVariable(None)


@models(delattr)
def _delattr(tx: Any, of: VariableTracker, name: VariableTracker) -> VariableTracker:
    of.delattr(tx, _attribute_name(tx, name))
    return ConstantVariable(None)


@models(hasattr)
def _hasattr(tx: Any, of: VariableTracker, name: VariableTracker) -> VariableTracker:
    return ConstantVariable(tx.has_attribute(of, _attribute_name(tx, name)))


@models(isinstance)
def _isinstance(tx: Any, of: VariableTracker, classinfo: VariableTracker) -> VariableTracker:
    return ConstantVariable(tx.is_instance(of, classinfo))


@models(issubclass)
def _issubclass(tx: Any, of: VariableTracker, classinfo: VariableTracker) -> VariableTracker:
    return ConstantVariable(tx.is_subclass(of, classinfo))


@models(vars)
def _vars(tx: Any, of: VariableTracker) -> VariableTracker:
    return of.getattr(tx, "__dict__")


class SuperVariable(VariableTracker):
    """``super(cls, receiver)``."""

    __slots__ = ("cls", "receiver")

    def __init__(self, cls: type, receiver: VariableTracker) -> None:
        self.source = None
        self.cls = cls
        self.receiver = receiver

    def python_type(self) -> type:
        return super

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.make(super)
        by_class = isinstance(self.receiver, ClassVariable) and issubclass(self.receiver.value, self.cls)
        kind = self.receiver.value if by_class else self.receiver.python_type()
        mro = kind.__mro__
        for base in mro[mro.index(self.cls) + 1 :]:
            raw = base.__dict__.get(name, MISSING)
            if raw is not MISSING:
                return self._bind(tx, raw, name, base, kind, by_class)
        tx.raise_error(AttributeError, f"'super' object has no attribute {name!r}")

    def _bind(self, tx: Any, raw: Any, name: str, base: type, kind: type, by_class: bool) -> VariableTracker:
        if isinstance(raw, staticmethod) and name == "__new__" or raw is object.__new__:
            return tx.make(raw.__func__ if isinstance(raw, staticmethod) else raw)
        if isinstance(raw, classmethod):
            receiver = self.receiver if by_class else tx.make(kind)
            return bind_classmethod(tx, raw, name, receiver, base)
        if by_class:
            return bind(tx, raw, name, None, kind, base)
        if isinstance(raw, types.WrapperDescriptorType) and isinstance(self.receiver, UserObjectVariable):
            return BuiltinMethodVariable(self.receiver, name)
        return bind(tx, raw, name, self.receiver, kind, base)

    def reconstruct(self, cg: Any) -> None:
        cg.call(super, [lambda: cg.load_const(self.cls), lambda: cg.load(self.receiver)])


@models(super)
def _super(tx: Any, cls: VariableTracker | None = None, receiver: VariableTracker | None = None) -> VariableTracker:
    if cls is None:
        cell = tx.cells.get("__class__")
        if cell is None or cell.content is None:
            tx.raise_error(RuntimeError, "super(): __class__ cell not found")
        cls = cell.content.realize()
        first = tx.code.co_varnames[0]
        receiver = (tx.cells[first].content if first in tx.cells else tx.locals[first]).realize()
    if not isinstance(cls, ClassVariable) or receiver is None:
        unsupported(UnsupportedOperation("super()", "these arguments"))
    return SuperVariable(cls.value, receiver)


@models(type)
def _type(tx: Any, of: VariableTracker, *rest: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if rest or kwargs:
        unsupported(UnknownCall("type()", "it makes a class"))
    return tx.make(of.python_type())


# -- iteration ---------------------------------------------------------------------------------------------------------


@models(iter)
def _iter(tx: Any, of: VariableTracker) -> VariableTracker:
    return tx.iterate(of)


@models(next)
def _next(tx: Any, iterator: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
    try:
        return tx.next(iterator)
    except ObservedException as observed:
        if default is None or not issubclass(observed.error.python_type(), StopIteration):
            raise
        return default


@models(enumerate)
def _enumerate(tx: Any, iterable: VariableTracker, start: VariableTracker | None = None) -> VariableTracker:
    return EnumerateVariable(tx.iterate(iterable), 0 if start is None else start.as_constant())


@models(zip)
def _zip(tx: Any, *iterables: VariableTracker, strict: VariableTracker | None = None) -> VariableTracker:
    return ZipVariable([tx.iterate(each) for each in iterables], strict is not None and tx.truth(strict))


@models(map)
def _map(tx: Any, function: VariableTracker, *iterables: VariableTracker) -> VariableTracker:
    return MapVariable(function, [tx.iterate(each) for each in iterables])


@models(filter)
def _filter(tx: Any, function: VariableTracker, iterable: VariableTracker) -> VariableTracker:
    return FilterVariable(function, tx.iterate(iterable))


@models(reversed)
def _reversed(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, SequenceVariable):
        return ReversedIterator(of)
    if isinstance(of, (DictVariable, DictViewVariable)):
        kind = of.kind if isinstance(of, DictViewVariable) else "keys"
        return DictIterator(of.of if isinstance(of, DictViewVariable) else of, kind, reverse=True)
    if isinstance(of, ConstantVariable):
        return tx.make(tuple(tx.fold(reversed, (of.value,)))).iterate(tx)
    if isinstance(of, UserObjectVariable):
        method = of.special(tx, "__reversed__")
        if method is not None:
            return tx.call(method, [], {})
        length = of.length(tx)
        return TupleVariable([of.getitem(tx, ConstantVariable(at)) for at in reversed(range(length))]).iterate(tx)
    unsupported(UnsupportedOperation("reversed()", of.describe()))


@models(sorted)
def _sorted(tx: Any, iterable: VariableTracker, key: Any = None, reverse: Any = None) -> VariableTracker:
    # A set's items differ from each other, so their order makes no difference to a total order without a key.
    items = (
        list(iterable.items.values()) if isinstance(iterable, SetVariable) and key is None else iterable.elements(tx)
    )
    return ListVariable(tx.sort(items, key, reverse is not None and tx.truth(reverse)))


@models(slice)
def _slice(tx: Any, *parts: VariableTracker) -> VariableTracker:
    none = ConstantVariable(None)
    start, stop, step = {1: (none, *parts, none), 2: (*parts, none), 3: parts}[len(parts)]
    return SliceVariable([start, stop, step])


@models(range)
def _range(tx: Any, *parts: VariableTracker) -> VariableTracker:
    return tx.make(tx.fold(range, [p.as_constant() if p.is_constant() else tx.index_value(p) for p in parts]))


# -- the rest ----------------------------------------------------------------------------------------------------------


@models(functools.wraps)
def _wraps(tx: Any, wrapped: VariableTracker, *args: Any, **kwargs: Any) -> VariableTracker:
    return WrapsVariable(wrapped)


class WrapsVariable(VariableTracker):
    """``functools.wraps(f)``: the decorator."""

    __slots__ = ("wrapped",)

    def __init__(self, wrapped: VariableTracker) -> None:
        self.source = None
        self.wrapped = wrapped

    def python_type(self) -> type:
        return functools.partial

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        function = args[0]
        if not isinstance(function, NestedFunctionVariable):
            unsupported(UnsupportedOperation("functools.wraps()", function.describe()))
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            if tx.has_attribute(self.wrapped, name):
                function.attrs[name] = self.wrapped.getattr(tx, name)
        function.attrs["__wrapped__"] = self.wrapped
        return function

    def reconstruct(self, cg: Any) -> None:
        cg.call(functools.wraps, [lambda: cg.load(self.wrapped)])


@models(typing.cast)
def _cast(tx: Any, kind: VariableTracker, value: VariableTracker) -> VariableTracker:
    return value


@models(copy.copy)
def _copy(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, (ListVariable, DictVariable, SetVariable)):
        return of.method_copy(tx)
    if isinstance(of, (ConstantVariable, TupleVariable, ClassVariable, FunctionVariable)):
        return of
    unsupported(UnsupportedOperation("copy.copy()", of.describe()))


@models(copy.deepcopy)
def _deepcopy(tx: Any, of: VariableTracker, memo: VariableTracker | None = None) -> VariableTracker:
    if memo is not None:
        unsupported(UnsupportedOperation("copy.deepcopy() with a memo", of.describe()))
    return _DeepCopy(tx).copy(of)


class _DeepCopy:
    """``copy.deepcopy``: each object once."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self._done: dict[VariableTracker, VariableTracker] = {}

    def copy(self, of: VariableTracker) -> VariableTracker:
        of = of.realize()
        if isinstance(of, _ATOMIC):
            return of
        found = self._done.get(of)
        if found is None:
            found = self._done[of] = self._copy(of)
        return found

    def _copy(self, of: VariableTracker) -> VariableTracker:
        if type(of) is ListVariable or type(of) is TupleVariable:
            made: Any = type(of)([])
            self._done[of] = made
            made.items.extend(self.copy(item) for item in of.items)  # type: ignore[attr-defined]
            same = isinstance(of, TupleVariable) and all(a is b.realize() for a, b in zip(made.items, of.items))
            return of if same else made
        if isinstance(of, DictVariable) and of.cls is not defaultdict:
            made = self._done[of] = DictVariable({}, None, None, of.cls)
            for key, value in of.items.items():
                made.put(self.copy(of.key_variable(key)), self.copy(value))
            return made
        if isinstance(of, InstanceDictVariable):
            return self._copy(of.of.namespace(self._tx))
        if isinstance(of, SetVariable):
            return SetVariable({key: self.copy(item) for key, item in of.items.items()}, None, of.cls)
        if type(of) is UserObjectVariable and of.payload is None:
            return self._copy_object(of)
        unsupported(UnsupportedOperation("copy.deepcopy()", of.describe()))

    def _copy_object(self, of: UserObjectVariable) -> VariableTracker:
        for name in _COPY_HOOKS:
            if class_lookup(of.cls, name) is not getattr(object, name, MISSING):
                unsupported(UnsupportedOperation(f"copy.deepcopy() by {name}", of.describe()))
        made = self._done[of] = UserObjectVariable(None, of.cls)
        for name, value in of.namespace(self._tx).items.items():
            made.attrs[name] = self.copy(value)
        return made


_ATOMIC = (ConstantVariable, ClassVariable, FunctionVariable, BuiltinVariable, ModuleVariable, EnumVariable)
_COPY_HOOKS = (
    "__deepcopy__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__slots__",
    "__getnewargs_ex__",
)


@models(inspect.isfunction)
def _isfunction(tx: Any, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(of.python_type() is types.FunctionType)


@models(object.__new__)
def _object_new(tx: Any, cls: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    return UserObjectVariable(None, cls.as_constant())


@models(print)
def _print(tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("print"))


@models(input)
def _input(tx: Any, *args: VariableTracker) -> VariableTracker:
    unsupported(OutputCall("input"))


@models_if
def _lru_cached(value: Any) -> Model | None:
    """A cached function is inlined: for equal arguments it would have returned what it computes."""
    if type(value) is not functools._lru_cache_wrapper:
        return None
    wrapped = value.__wrapped__
    return lambda tx, args, kwargs: tx.call(FunctionVariable(wrapped, None), args, kwargs)
