"""Exceptions that the traced program makes and raises."""

from __future__ import annotations

import sys
import types
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.variables.core.attributes import MISSING, class_lookup, is_data_descriptor, object_setattr, owner_of
from dynamo_lite.variables.core.base import TEXTS, NotConstant, VariableTracker, mro, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.lookup import c_lookup, is_heap_type
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.text import call_class_text_method, reprs, text_of
from dynamo_lite.variables.python.containers.sequence import ListVariable, TupleVariable


class ExceptionVariable(VariableTracker):
    """An exception that was made inside. ``args``: what its class in C was given last, by its ``__init__`` where
    ``initialized``, which an ``__init__`` of the program's need not call."""

    __slots__ = ("cls", "args", "initialized", "cause", "context", "attrs", "suppress", "args_tuple")

    def __init__(self, cls: type[BaseException], args: list[VariableTracker]) -> None:
        self.source = None
        self.cls = cls
        self.args = args
        self.initialized = True
        self.cause: VariableTracker | None = None
        self.context: VariableTracker | None = None
        self.suppress = False
        self.args_tuple: TupleVariable | None = None
        self.attrs: dict[str, VariableTracker] = {}

    def python_type(self) -> type:
        return self.cls

    def key(self) -> Any:
        return self

    def describe(self) -> str:
        try:
            return f"{self.cls.__name__}({', '.join(repr(arg.realize().as_constant()) for arg in self.args)})"
        except NotConstant:
            return f"{self.cls.__name__}(...)"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in self.attrs:
            return self.attrs[name]
        if is_heap_type(owner_of(self.cls, name)):  # the program's own, which hides what is in C
            return tx.generic_getattr(self, name)
        if name == "args":
            if self.args_tuple is None:
                self.args_tuple = TupleVariable(self._shown(tx))
            return self.args_tuple
        if name == "__cause__":
            return self.cause or ConstantVariable(None)
        if name == "__context__":
            return self.context or ConstantVariable(None)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args and self.initialized else ConstantVariable(None)
        if name == "__class__":
            return tx.make(self.cls)
        if name == "__suppress_context__":
            return ConstantVariable(self.suppress)
        return tx.generic_getattr(self, name)

    def note_attribute(self, owner: VariableTracker, name: str) -> None:
        """An attribute access raises this."""
        if issubclass(self.cls, AttributeError) and not {"name", "obj"}.intersection(self.attrs):
            self.attrs.update(name=ConstantVariable(name), obj=owner)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if name in _CHAIN and not is_heap_type(owner_of(self.cls, name)):
            self._link(tx, name, value)
            return
        if name == "__traceback__" and isinstance(value.realize(), TracebackVariable):
            return
        raw = class_lookup(self.cls, name)
        if raw is not MISSING and is_data_descriptor(raw) and not issubclass(type(raw), property):
            unsupported(UnsupportedAttribute(self.describe(), name, "writing it is not modelled"))
        object_setattr(tx, self, name, value)

    def _link(self, tx: Translator, name: str, value: VariableTracker) -> None:
        """Set ``__cause__`` or ``__context__``."""
        value = value.realize()
        none = tx.is_none(value)
        if not none and not issubclass(value.python_type(), BaseException):
            what = name.strip("_")
            tx.raise_error(TypeError, f"exception {what} must be None or derive from BaseException")
        if name == "__cause__":
            self.cause, self.suppress = (None if none else value), True
        elif name == "__context__":
            self.context = None if none else value
        else:
            self.suppress = tx.truth(value)

    def method___init__(self, tx: Translator, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if not _NAMED.get(_in_c(self.cls), frozenset()).issuperset(kwargs):
            unsupported(UnsupportedAttribute(self.describe(), "__init__", "it is given arguments by name"))
        self.args, self.args_tuple, self.initialized = list(args), None, True
        self.attrs.update(kwargs)
        return ConstantVariable(None)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if name in ("name", "obj") and issubclass(self.cls, (AttributeError, NameError, ImportError)):
            return ConstantVariable(None)
        if issubclass(type(raw), types.MemberDescriptorType) and not is_heap_type(raw.__objclass__):
            return self.c_member(tx, name)
        return super().slot_get(tx, name, raw)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.attrs.get(name)

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        self.attrs[name] = value

    def c_member(self, tx: Translator, name: str) -> VariableTracker:
        """What a class in C computes of the arguments: ``OSError.errno``."""
        if has_several_c_bases(self.cls):
            unsupported(UnsupportedAttribute(self.describe(), name, "its class derives from several in C"))
        made = self._value_in_c(tx)
        found = tx.fold(getattr, (made, name))
        return self.getattr(tx, "args") if found is made.args else tx.make(found)  # SystemExit's code

    def _value_in_c(self, tx: Translator) -> BaseException:
        """An instance of the class in C, whose making runs nothing of the program's."""
        cls = _in_c(self.cls)
        if not self.initialized and has_c_fields(cls):
            unsupported(UnsupportedAttribute(self.describe(), "args", f"{cls.__name__}.__init__ was not called"))
        return tx.fold(cls, [tx.python_value(arg) for arg in self.args])

    def _shown(self, tx: Translator) -> list[VariableTracker]:
        """``args``. OSError keeps names of files elsewhere."""
        if not issubclass(self.cls, OSError) or (self.initialized and len(self.args) < 3):
            return list(self.args)
        return self.args[: len(self._value_in_c(tx).args)]

    def method_add_note(self, tx: Translator, note: VariableTracker) -> VariableTracker:
        if not issubclass(note.python_type(), str):
            tx.raise_error(TypeError, f"note must be a str, not '{note.python_type().__name__}'")
        notes = self.attrs.setdefault("__notes__", ListVariable([]))
        notes.realize().call_method(tx, "append", [note], {})
        return ConstantVariable(None)

    def method_with_traceback(self, tx: Translator, traceback: VariableTracker) -> VariableTracker:
        if not tx.is_none(traceback) and not isinstance(traceback, TracebackVariable):
            unsupported(UnsupportedAttribute(self.describe(), "with_traceback"))
        return self

    def text(self, tx: Translator, name: str) -> VariableTracker:
        found = call_class_text_method(tx, self, name)
        return ConstantVariable(self._text_in_c(tx, name)) if found is None else found

    def method___str__(self, tx: Translator) -> VariableTracker:
        return ConstantVariable(self._text_in_c(tx, "__str__"))

    def method___repr__(self, tx: Translator) -> VariableTracker:
        return ConstantVariable(self._text_in_c(tx, "__repr__"))

    def _text_in_c(self, tx: Translator, name: str) -> str:
        """What the class in C makes of the arguments."""
        raw = c_lookup(self.cls, name)
        args = [arg.realize() for arg in self.args]
        if raw is BaseException.__repr__:
            return f"{self.cls.__name__}({', '.join(reprs(tx, self._shown(tx)))})"
        if raw is BaseException.__str__ or raw is KeyError.__str__:
            if len(args) != 1:
                return f"({', '.join(reprs(tx, args))})" if args else ""
            return text_of(tx, args[0], "__repr__" if raw is KeyError.__str__ else "__str__")
        return tx.fold(TEXTS[name], (self._value_in_c(tx),))

    def reconstruct(self, cg: Codegen) -> None:
        if cg.attempt.provenance.was_raised(self):
            raise NotConstant("it was raised, and has a traceback")

        def fill(cg: Codegen) -> None:
            for name, value in self.attrs.items():
                cg.set_on_top(name, value)
            if self.cause is not None or self.suppress:
                cg.set_on_top("__cause__", self.cause or ConstantVariable(None))
            if self.context is not None:
                cg.set_on_top("__context__", self.context)

        def new() -> None:
            if inherits_construction(self.cls):
                cg.push_null()
                cg.load_const(self.cls)
                cg.finish_call([lambda a=a: cg.load(a) for a in self.args])
                return
            base = _in_c(self.cls)
            loads = [lambda: cg.load_const(self.cls), *(lambda a=a: cg.load(a) for a in self.args)]
            if self.initialized and has_c_fields(base):
                cg.call(_initialized, [lambda: cg.load_const(base), *loads])
            else:
                cg.call(self.cls.__new__, loads)

        cg.make_then_fill(self, new, fill)


_NAMED = {
    AttributeError: frozenset({"name", "obj"}),
    NameError: frozenset({"name"}),
    ImportError: frozenset({"name", "path"}),
}
"""What the classes in C take by name, which is an attribute then."""


def _in_c(cls: type[BaseException]) -> type[BaseException]:
    return next(base for base in mro(cls) if not is_heap_type(base))


def has_several_c_bases(cls: type[BaseException]) -> bool:
    """Whether classes in C of which none derives from the others are among its bases."""
    first = _in_c(cls)
    return any(not is_heap_type(base) and not issubclass(first, base) for base in mro(cls))


def has_c_fields(cls: type[BaseException]) -> bool:
    """Whether a class, as far as it is in C, keeps more of its arguments than ``args``."""
    in_c = mro(_in_c(cls))
    return any(
        issubclass(type(each), _FIELDS) for base in in_c[: in_c.index(BaseException)] for each in vars(base).values()
    )


_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _initialized(base: type[BaseException], cls: type[BaseException], *args: Any) -> BaseException:
    """An instance of a class whose own ``__init__`` has run: as the class in C left it."""
    made = cls.__new__(cls, *args)
    base.__init__(made, *args)
    return made


_CHAIN = ("__cause__", "__context__", "__suppress_context__")


class TracebackVariable(VariableTracker):
    """The traceback of an exception that was raised inside: it can be passed on, not looked into."""

    __slots__ = ()

    def __init__(self) -> None:
        self.source = None

    def python_type(self) -> type:
        return types.TracebackType

    def describe(self) -> str:
        return "the traceback of an exception raised inside"

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant(self.describe())


@models(sys.exc_info)
def _exc_info(tx: Translator) -> VariableTracker:
    error = tx.handled
    if error is None:
        return TupleVariable([ConstantVariable(None)] * 3)
    return TupleVariable([tx.make(error.python_type()), error, TracebackVariable()])


class ExceptionInfoVariable(VariableTracker):
    """What a handler keeps on the stack: the exception that was being handled before ``error`` was caught.

    Loading it in generated code makes ``error`` the one that is handled there; `graph_break` undoes that. ``over``: the
    handler was left, though this is on the stack still (a handler that raises leaves first, by a copy)."""

    __slots__ = ("previous", "error", "over")
    is_loaded_anew = True

    def __init__(self, previous: VariableTracker | None, error: VariableTracker) -> None:
        self.source = None
        self.previous = previous
        self.error = error
        self.over = False

    def python_type(self) -> type:
        return BaseException

    def describe(self) -> str:
        return "a handled exception"

    def reconstruct(self, cg: Codegen) -> None:
        if self.over:
            cg.load(self.previous or ConstantVariable(None))
            return
        cg.load(self.error)
        cg.op("PUSH_EXC_INFO")
        cg.pop_top()


def stop_iteration_to_runtime_error(error: VariableTracker) -> ExceptionVariable:
    """PEP 479: what a StopIteration that leaves a generator becomes."""
    made = ExceptionVariable(RuntimeError, [ConstantVariable("generator raised StopIteration")])
    made.cause = made.context = error
    made.suppress = True
    return made


def inherits_construction(cls: type) -> bool:
    """Whether making one is BaseException's business alone."""
    return all(name not in base.__dict__ for base in _written_in_python(cls) for name in ("__init__", "__new__"))


def overrides_creation(cls: type) -> bool:
    """Whether a class has a ``__new__`` or a metaclass of its own."""
    return type(cls) is not type or any("__new__" in base.__dict__ for base in _written_in_python(cls))


def _written_in_python(cls: type) -> list[type]:
    return [base for base in mro(cls) if is_heap_type(base)]
