"""`RemovableHandle` objects of module hooks.

A module keeps its hooks in a dict, keyed by the handle's id. The id comes from a counter, so it differs in each call.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch.utils.hooks import RemovableHandle

from dynamo_lite.insight.break_reasons import AttributeChange, HookNotTraced
from dynamo_lite.plan.rows import Attribute, Value
from dynamo_lite.variables.core.base import Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.python.objects.weak_reference import WeakReferenceVariable


class CreatedHandleVariable(UserObjectVariable):
    """A handle created during tracing. Generated code calls `RemovableHandle` again, which takes the next id."""

    __slots__ = ("hooks", "extra")

    def __init__(self, hooks: VariableTracker, extra: VariableTracker, extra_dicts: Sequence[VariableTracker]) -> None:
        super().__init__(None, RemovableHandle)
        self.hooks = hooks
        self.extra = extra
        self.attrs["id"] = HandleIdVariable(self)
        self.attrs["hooks_dict_ref"] = WeakReferenceVariable(target=hooks)
        self.attrs["extra_dict_ref"] = TupleVariable([WeakReferenceVariable(target=each) for each in extra_dicts])

    def instance_set(self, tx: Translator, name: str, value: VariableTracker) -> None:
        unsupported(AttributeChange(self.describe(), name, "written"))

    def instance_delete(self, tx: Translator, name: str) -> None:
        unsupported(AttributeChange(self.describe(), name, "deleted"))

    def construct(self, plan: Planner) -> Value:
        return plan.call(RemovableHandle, self.hooks, extra_dict=self.extra)


class HandleIdVariable(VariableTracker):
    """The id of a created handle. As a key it differs from all others; any other operation breaks the graph."""

    __slots__ = ("handle",)

    def __init__(self, handle: CreatedHandleVariable) -> None:
        self.source = None
        self.handle = handle

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return "the id of a hook's handle"

    def key(self) -> HandleIdVariable:
        return self

    def construct(self, plan: Planner) -> Value:
        return Attribute(plan.value(self.handle), "id")


@models(RemovableHandle)
def _create_handle(
    tx: Translator, hooks_dict: VariableTracker, extra_dict: VariableTracker | None = None
) -> VariableTracker:
    extra = ConstantVariable(None) if extra_dict is None else extra_dict.realize()
    extra_dicts = extra.items if isinstance(extra, ListVariable) else [] if tx.is_none(extra) else [extra]
    hooks, *others = (each.realize() for each in (hooks_dict, *extra_dicts))
    if not all(isinstance(each.builtin_part(), DictVariable) for each in (hooks, *others)):
        unsupported(HookNotTraced("RemovableHandle()", "its arguments are no dicts"))
    return CreatedHandleVariable(hooks, extra, others)


def remove_hook(tx: Translator, handle: VariableTracker) -> VariableTracker:
    """``RemovableHandle.remove``: delete the hook from the dicts that are still alive."""
    handle_id, first, others = (
        handle.getattr(tx, name).realize() for name in ("id", "hooks_dict_ref", "extra_dict_ref")
    )
    if not isinstance(handle_id, (ConstantVariable, HandleIdVariable)):
        unsupported(HookNotTraced("RemovableHandle.remove()", "the id of the handle isn't known"))
    for reference in (each.realize() for each in (first, *others.elements(tx))):
        if not isinstance(reference, WeakReferenceVariable):
            unsupported(HookNotTraced("RemovableHandle.remove()", "the handle holds no weak references to dicts"))
        hooks = reference.referent_at_entry()
        if not tx.is_none(hooks) and hooks.contains(tx, handle_id):
            hooks.delitem(tx, handle_id)
    return ConstantVariable(None)
