"""`RemovableHandle` objects of module hooks.

A module keeps its hooks in a dict, keyed by the handle's id. The id comes from a counter, so it differs in each call.
"""

from __future__ import annotations

from torch.utils.hooks import RemovableHandle

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.objects.weak_reference import WeakReferenceVariable


@models(RemovableHandle)
def _create_handle(tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    unsupported(UnknownCall("RemovableHandle()", "a hook is registered, under an id that differs in each call"))


def remove_hook(tx: Translator, handle: VariableTracker) -> VariableTracker:
    """``RemovableHandle.remove``: delete the hook from the dicts that are still alive."""
    handle_id, first, others = (
        handle.getattr(tx, name).realize() for name in ("id", "hooks_dict_ref", "extra_dict_ref")
    )
    if not isinstance(handle_id, ConstantVariable):
        unsupported(UnknownCall("RemovableHandle.remove()", "the id of the handle isn't known"))
    for reference in (each.realize() for each in (first, *others.elements(tx))):
        if not isinstance(reference, WeakReferenceVariable):
            unsupported(UnknownCall("RemovableHandle.remove()", "the handle holds no weak references to dicts"))
        hooks = reference.referent_at_entry()
        if not tx.is_none(hooks) and hooks.contains(tx, handle_id):
            hooks.delitem(tx, handle_id)
    return ConstantVariable(None)
