"""What ``import`` finds: modules that are loaded, and those that are imported while tracing."""

from __future__ import annotations

import importlib
import sys

from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite.insight.break_reasons import FirstImport
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous
from dynamo_lite.sources.identity import identity
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.run_now import is_first_to_draw, why_not_now
from dynamo_lite.variables.core.wrapping import LazyVariable


def loaded_module(tx: Translator, name: str) -> VariableTracker | None:
    """``sys.modules[name]``; None if it has no such module, or None in its place."""
    known = tx.attempt.values.memo.get(identity(sys.modules))
    if known is not None and known[1] in tx.effects.written:
        key = ConstantVariable(name)
        found = known[1].getitem(tx, key) if known[1].contains(tx, key) else None
        return None if found is None or tx.is_none(found) else found.realize()
    if sys.modules.get(name) is None:
        return None
    modules = tx.guards.const(sys).child("instance_dict").child("dict_item", "modules")
    return LazyVariable(tx.attempt, sys.modules[name], modules.child("dict_item", name)).realize()


def imported_module(tx: Translator, name: str) -> VariableTracker:
    """The module of a name. One that isn't loaded is imported now: the call that is traced would import it."""
    found = loaded_module(tx, name)
    if found is not None:
        return found
    if reason := why_not_now(tx) or ("" if is_first_to_draw(tx) else "it comes after random operators"):
        unsupported(FirstImport(name, reason))
    try:
        with unset_fake_temporarily():
            importlib.import_module(name)
    except Exception as error:  # the module's own: CPython imports it again, and the program gets what that raises
        reraise_if_asynchronous(error)
        unsupported(FirstImport(name, f"it raises {type(error).__name__}"))
    found = loaded_module(tx, name)
    if found is None:
        unsupported(FirstImport(name, f"sys.modules has no {name} then"))
    return found
