"""Exceptions, pre-existing and created during tracing, and the interpreter's exception state."""

from __future__ import annotations

import sys
import types
from functools import partial
from typing import Any

from dynamo_lite.insight.break_reasons import ExceptionState, UnsupportedOperation
from dynamo_lite.insight.value_text import value_text
from dynamo_lite.plan.rows import SetHandled, Value
from dynamo_lite.variables.core.attributes import class_lookup
from dynamo_lite.variables.core.base import (
    TEXTS,
    Args,
    CreatingCall,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.class_lookup import c_lookup, is_immutable, mro
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.deferred_text import concatenated
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_if
from dynamo_lite.variables.python.containers.sequences import TupleVariable, items_texts

from .user_object import UserObjectVariable


class ExceptionVariable(UserObjectVariable):
    """An exception created during tracing. ``args``: the arguments of the last call of the builtin base's ``__init__``,
    or of its ``__new__``."""

    __slots__ = ("args", "cause", "context", "suppress", "args_tuple", "by_statement")

    def __init__(self, cls: type[BaseException], args: Args) -> None:
        super().__init__(None, cls)
        self.args = args
        self.by_statement = False
        """Whether a ``raise`` of the program raises it, and not an operation that fails."""
        self.cause: VariableTracker | None = None
        self.context: VariableTracker | None = None
        self.suppress = False
        self.args_tuple: TupleVariable | None = None

    def describe(self) -> str:
        args = [arg.realize() for arg in self.args]
        if not all(arg.is_constant() for arg in args):
            return f"{self.cls.__name__}(...)"
        return f"{self.cls.__name__}({', '.join(value_text(arg.as_constant()) for arg in args)})"

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        if name == "args":
            self.args_tuple = self.args_tuple or TupleVariable(list(self.args))
            return self.args_tuple
        if name == "__traceback__" and tx.attempt.provenance.was_raised(self):
            return TracebackVariable()
        links = {"__cause__": self.cause, "__context__": self.context, "__traceback__": None}
        return links[name] or ConstantVariable(None) if name in links else super().c_attribute(tx, name)

    def set_c_attribute(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if name == "__traceback__" and isinstance(value.realize(), TracebackVariable):
            return
        if name not in ("__cause__", "__context__"):
            unsupported(ExceptionState(f"{name} of {self.describe()}", _IN_C))
        error = None if tx.is_none(value) else value.realize()
        if error is not None and not issubclass(error.python_type(), BaseException):
            tx.raise_error(TypeError, f"exception {name.strip('_')} must be None or derive from BaseException")
        if name == "__cause__":
            self.cause, self.suppress = error, True
        else:
            self.context = error

    def method___init__(self, tx: Translator, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if kwargs:
            refuse_arguments(f"{self.cls.__name__}.__init__")
        self.args, self.args_tuple = list(args), None
        return ConstantVariable(None)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if name == "__suppress_context__":
            return ConstantVariable(self.suppress)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else ConstantVariable(None)
        self._check_is_in_python(name, raw)
        return super().slot_get(tx, name, raw)

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        self._check_is_in_python(name, class_lookup(self.cls, name))
        super().instance_set(tx, name, value)

    def instance_delete(self, tx: Translator, name: str) -> None:
        self._check_is_in_python(name, class_lookup(self.cls, name))
        super().instance_delete(tx, name)

    def _check_is_in_python(self, name: str, raw: Any) -> None:
        if issubclass(type(raw), types.MemberDescriptorType) and is_immutable(raw.__objclass__):
            unsupported(ExceptionState(f"{name} of {self.describe()}", _IN_C))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        is_text = name in TEXTS and not args and not kwargs
        return self._builtin_text(tx, name) if is_text else super().call_method(tx, name, args, kwargs)

    def _builtin_text(self, tx: Translator, name: str) -> VariableTracker:
        """The result of the builtin base's ``__str__`` or ``__repr__``."""
        raw = c_lookup(self.cls, name)
        args = [arg.realize() for arg in self.args]
        if raw is BaseException.__repr__:
            return concatenated(tx, [f"{self.cls.__name__}(", *items_texts(tx, args), ")"])
        if raw is BaseException.__str__ or raw is KeyError.__str__:
            if len(args) != 1:
                return concatenated(tx, ["(", *items_texts(tx, args), ")"] if args else [])
            return args[0].text(tx, "__repr__" if raw is KeyError.__str__ else "__str__")
        base = next(base for base in mro(self.cls) if is_immutable(base))
        return tx.make(tx.fold(lambda *args: TEXTS[name](base(*args)), [tx.python_value(arg) for arg in args]))

    def creating_call(self) -> CreatingCall | None:
        return None

    def construct(self, plan: Planner) -> Value:
        if plan.attempt.provenance.was_raised(self):
            raise NotConstant("it has been raised, and generated code can't make its traceback")
        if inherits_construction(self.cls):
            new = plan.call(self.cls, *self.args)
        else:
            new = plan.call(self.cls.__new__, plan.constant(self.cls), *self.args)
        return plan.create(self, new, partial(self._fill, plan))

    def _fill(self, plan: Planner, new: Value) -> None:
        self.store_attributes(plan, new)
        if self.cause is not None or self.suppress:
            plan.set_attribute(new, "__cause__", self.cause or ConstantVariable(None))
        if self.context is not None:
            plan.set_attribute(new, "__context__", self.context)


_IN_C = "C code stores it"
WITH_FIELDS = (OSError, UnicodeError, SyntaxError, SystemExit, StopIteration, ImportError, AttributeError, NameError)
"""Exceptions that store more of their arguments than ``args`` (``OSError.errno``)."""


class ExistingExceptionVariable(UserObjectVariable):
    """An exception that was raised before the trace, or by an instruction that CPython ran at a graph break."""

    __slots__ = ()

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        if name in ("args", "__context__", "__cause__", "__traceback__"):
            assert self.source is not None
            return tx.attempt.values.wrap(getattr(self.value, name), self.source.child("c_attr", name))
        return super().c_attribute(tx, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """contextlib sets a traceback that is the exception's already."""
        if name != "__traceback__" or value.realize() is not self.c_attribute(tx, name):
            super().setattr(tx, name, value)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if name in self.attrs or not is_immutable(raw.__objclass__):
            return super().slot_get(tx, name, raw)
        assert self.source is not None
        return tx.attempt.values.wrap(getattr(self.value, name), self.source.child("c_attr", name))

    def _builtin_text(self, tx: Translator, name: str) -> VariableTracker:
        """``str()`` or ``repr()`` by a method that reads nothing but ``args``. Any other method breaks the graph."""
        if class_lookup(self.cls, name) not in _TEXTS_OF_ARGS:
            unsupported(UnsupportedOperation(f"{TEXTS[name].__name__}()", self.describe()))
        if not tx.is_plain(self.c_attribute(tx, "args")):
            unsupported(UnsupportedOperation(f"{TEXTS[name].__name__}()", f"{self.describe()} with objects"))
        return tx.make(tx.evaluate(TEXTS[name], (self.value,)))


wraps_if(lambda value: issubclass(type(value), BaseException), order=6)(ExistingExceptionVariable.by_type)


_TEXTS_OF_ARGS = (BaseException.__repr__, *(e.__str__ for e in (BaseException, KeyError, AttributeError, NameError)))


class TracebackVariable(VariableTracker):
    """The traceback of an exception raised during tracing. It can be passed on, but not read."""

    __slots__ = ()
    exact_type = types.TracebackType

    def describe(self) -> str:
        return "the traceback of an exception raised in the compiled function"

    def construct(self, plan: Planner) -> Value:
        raise NotConstant(self.describe())


def handled_exception(tx: Translator) -> VariableTracker | None:
    """The exception that is being handled: by the frames that are traced, as the callers of the first one handle none.
    That is guarded."""
    if tx.handled is None:
        if tx.attempt.surroundings.callers_handle:
            unsupported(ExceptionState("the exception that is being handled", "a caller handles it"))
        tx.guards.nothing_is_handled = True
    return tx.handled


@models(sys.exc_info)
def _exc_info(tx: Translator) -> VariableTracker:
    error = handled_exception(tx)
    if error is None:
        return TupleVariable([ConstantVariable(None)] * 3)
    return TupleVariable([tx.make(error.python_type()), error, TracebackVariable()])


@models(sys.exception)
def _exception(tx: Translator) -> VariableTracker:
    error = handled_exception(tx)
    return ConstantVariable(None) if error is None else error


class ExceptionInfoVariable(VariableTracker):
    """What a handler of ``error`` pushes when it begins: the exception handled before, to be restored.

    Loading it in generated code makes ``error`` the handled exception there; `graph_break` undoes that. ``is_left``:
    the handler has ended with a copy of this entry (so does a handler that raises), which is still on the stack."""

    __slots__ = ("previous", "error", "is_left")
    is_created_per_load = True
    exact_type = BaseException

    def __init__(self, previous: VariableTracker | None, error: VariableTracker) -> None:
        self.source = None
        self.previous = previous
        self.error = error
        self.is_left = False

    def describe(self) -> str:
        return "the state of an exception handler"

    def construct(self, plan: Planner) -> Value:
        if self.is_left:
            return plan.value(self.previous or ConstantVariable(None))
        return SetHandled(plan.value(self.error))


def stop_iteration_to_runtime_error(error: VariableTracker) -> ExceptionVariable:
    """PEP 479: a StopIteration that leaves a generator becomes a RuntimeError."""
    converted = ExceptionVariable(RuntimeError, [ConstantVariable("generator raised StopIteration")])
    converted.cause = converted.context = error
    converted.suppress = True
    return converted


def inherits_construction(cls: type) -> bool:
    """Whether no class in Python overrides ``__init__`` or ``__new__`` of the builtin base."""
    return all(name not in base.__dict__ for base in _python_bases(cls) for name in ("__init__", "__new__"))


def overrides_creation(cls: type) -> bool:
    """Whether a metaclass or a ``__new__`` in Python decides how instances are created."""
    return type(cls) is not type or any("__new__" in base.__dict__ for base in _python_bases(cls))


def _python_bases(cls: type) -> list[type]:
    return [base for base in mro(cls) if not is_immutable(base)]
