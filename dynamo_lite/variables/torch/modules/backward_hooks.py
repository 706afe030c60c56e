"""Full backward hooks of modules (``register_full_backward_hook``), which ``Module.__call__`` runs by a `BackwardHook`.

They break the graph."""

from __future__ import annotations

from typing import NoReturn

from torch.utils.hooks import BackwardHook

from dynamo_lite.insight.break_reasons import ModuleBackwardHooks
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models


@models(BackwardHook)
def _backward_hook(tx: Translator, *args: VariableTracker) -> NoReturn:
    unsupported(ModuleBackwardHooks())
