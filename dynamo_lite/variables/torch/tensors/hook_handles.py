"""Hooks of modules: they are in a dict under the number of their handle, which is another one in each call."""

from __future__ import annotations

from typing import Any

from torch.utils.hooks import RemovableHandle

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedAttribute, UnsupportedOperation
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import ListVariable, TupleVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.python.objects.weak_reference import WeakReferenceVariable


class NewHandleVariable(UserObjectVariable):
    """A handle made inside, of hooks in these dicts. Its class makes it again, and counts."""

    __slots__ = ("hooks", "extra")

    def __init__(self, hooks: VariableTracker, extra: VariableTracker, others: list[VariableTracker]) -> None:
        super().__init__(None, RemovableHandle)
        self.hooks = hooks
        self.extra = extra
        self.attrs["id"] = NumberVariable(self)
        self.attrs["hooks_dict_ref"] = WeakReferenceVariable(target=hooks)
        self.attrs["extra_dict_ref"] = TupleVariable([WeakReferenceVariable(target=each) for each in others])

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        unsupported(UnsupportedAttribute(self.describe(), name, "writing it is not modelled"))

    def instance_delete(self, tx: Translator, name: str) -> None:
        unsupported(UnsupportedAttribute(self.describe(), name, "deleting it is not modelled"))

    def reconstruct(self, cg: Codegen) -> None:
        for each in (self.hooks, self.extra):
            cg.load(each)
            cg.pop_top()
        if not cg.has_made(self):  # they have it in them
            arguments = {"extra_dict": lambda: cg.load(self.extra)}
            cg.call_named(RemovableHandle, [lambda: cg.load(self.hooks)], arguments)
        else:
            cg.load(self)


class NumberVariable(VariableTracker):
    """The number of such a handle: of all numbers it is told apart as a key alone."""

    __slots__ = ("handle",)

    def __init__(self, handle: NewHandleVariable) -> None:
        self.source = None
        self.handle = handle

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return "a handle's number"

    def key(self) -> Any:
        return self

    def truth(self, tx: Translator) -> bool:
        unsupported(UnsupportedOperation("truth", self.describe()))

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        unsupported(UnsupportedOperation(f"`{symbol}`", self.describe()))

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        unsupported(UnsupportedOperation(f"`{symbol}`", self.describe()))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.handle)
        cg.load_attr("id")


@models(RemovableHandle)
def _handle(tx: Translator, hooks_dict: VariableTracker, extra_dict: VariableTracker | None = None) -> VariableTracker:
    extra = ConstantVariable(None) if extra_dict is None else extra_dict.realize()
    others = extra.items if isinstance(extra, ListVariable) else [] if tx.is_none(extra) else [extra]
    known = [each.realize() for each in (hooks_dict, *others)]
    if not all(isinstance(each, DictVariable) for each in known):
        unsupported(UnknownCall("RemovableHandle()", "hooks are in dicts"))
    return NewHandleVariable(known[0], extra, known[1:])


def remove_hook(tx: Translator, handle: VariableTracker) -> VariableTracker:
    """Take it out of the dicts. Of one that has died meanwhile nobody sees what is in it."""
    number, first, others = (handle.getattr(tx, name).realize() for name in ("id", "hooks_dict_ref", "extra_dict_ref"))
    if not isinstance(number, (ConstantVariable, NumberVariable)):
        unsupported(UnknownCall("RemovableHandle.remove()", "the handle has another number in each call"))
    for reference in (each.realize() for each in (first, *others.elements(tx))):
        if not isinstance(reference, WeakReferenceVariable):
            unsupported(UnknownCall("RemovableHandle.remove()", "it does not refer to hooks"))
        found = reference.referent_at_entry()
        if not tx.is_none(found) and found.contains(tx, number):
            found.delitem(tx, number)
    return ConstantVariable(None)
