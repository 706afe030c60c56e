"""Exceptions that the traced program makes and raises."""

from __future__ import annotations

from typing import Any

from ..reasons import UnsupportedAttribute
from .attributes import MISSING, class_lookup
from .base import NotConstant, VariableTracker, unsupported
from .constant import ConstantVariable
from .sequence import TupleVariable


class ExceptionVariable(VariableTracker):
    """An instance of an exception class that adds nothing to ``BaseException``'s construction."""

    __slots__ = ("cls", "args", "cause", "context", "attrs", "suppress")

    def __init__(self, cls: type[BaseException], args: list[VariableTracker]) -> None:
        self.source = None
        self.cls = cls
        self.args = args
        self.cause: VariableTracker | None = None
        self.context: VariableTracker | None = None
        self.suppress = False
        self.attrs: dict[str, VariableTracker] = {}

    def python_type(self) -> type:
        return self.cls

    def truth(self, tx: Any) -> bool:
        return True

    def key(self) -> Any:
        return self

    def describe(self) -> str:
        try:
            return f"{self.cls.__name__}({', '.join(repr(arg.realize().as_constant()) for arg in self.args)})"
        except NotConstant:
            return f"{self.cls.__name__}(...)"

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name in self.attrs:
            return self.attrs[name]
        if name == "args":
            return TupleVariable(list(self.args))
        if name == "__cause__":
            return self.cause or ConstantVariable(None)
        if name == "__context__":
            return self.context or ConstantVariable(None)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else ConstantVariable(None)
        if name == "__class__":
            return tx.make(self.cls)
        if class_lookup(self.cls, name) is MISSING:
            tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
        return tx.generic_getattr(self, name)

    def setattr(self, tx: Any, name: str, value: VariableTracker) -> None:
        if class_lookup(self.cls, name) is not MISSING:
            unsupported(UnsupportedAttribute(self.describe(), name, "writing it is not modelled"))
        self.attrs[name] = value

    def method___str__(self, tx: Any) -> VariableTracker:
        return tx.make(tx.fold(str, (self.cls(*(arg.realize().as_constant() for arg in self.args)),)))

    def method_add_note(self, tx: Any, note: VariableTracker) -> VariableTracker:
        unsupported(UnsupportedAttribute(self.describe(), "add_note"))

    def reconstruct(self, cg: Any) -> None:
        def fill(cg: Any) -> None:
            for name, value in self.attrs.items():
                cg.copy_top()
                cg.load(value)
                cg.swap()
                cg.store_attr(name)
            if self.cause is not None or self.suppress:
                cg.copy_top()
                cg.load(self.cause or ConstantVariable(None))
                cg.swap()
                cg.store_attr("__cause__")

        cg.make_then_fill(self, lambda: cg.call(self.cls, [lambda a=a: cg.load(a) for a in self.args]), fill)


def plainly_constructed(cls: type) -> bool:
    """Whether making one is BaseException's business alone."""
    for base in cls.__mro__:
        if base.__flags__ & (1 << 9) and ("__init__" in base.__dict__ or "__new__" in base.__dict__):
            return False
    return True
