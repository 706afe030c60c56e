"""Full backward hooks of modules (``register_full_backward_hook``), which ``Module.__call__`` runs by a `BackwardHook`.

They break the graph if grad mode is on. Otherwise a `BackwardHook` does nothing.
"""

from __future__ import annotations

from torch.utils.hooks import BackwardHook

from dynamo_lite.insight.break_reasons import ModuleBackwardHooks, UnsupportedAttribute
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import NotConstant, VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models


class BackwardHookVariable(VariableTracker):
    """A `BackwardHook` created while grad mode is off."""

    __slots__ = ()

    def __init__(self, tx: Translator) -> None:
        self.source = None
        tx.attempt.provenance.created(self)

    def python_type(self) -> type:
        return BackwardHook

    def truth(self, tx: Translator) -> bool:
        return True

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in ("setup_input_hook", "setup_output_hook"):
            return BuiltinMethodVariable(self, name)
        unsupported(UnsupportedAttribute("a module's backward hooks", name))

    def method_setup_input_hook(self, tx: Translator, args: VariableTracker) -> VariableTracker:
        return args

    def method_setup_output_hook(self, tx: Translator, output: VariableTracker) -> VariableTracker:
        _check_grad_mode(tx)  # `forward` may have set it
        return output

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant("a module's backward hooks")


def _check_grad_mode(tx: Translator) -> None:
    if tx.graph.read_grad_mode():
        unsupported(ModuleBackwardHooks())


@models(BackwardHook)
def _backward_hook(
    tx: Translator, module: VariableTracker, user_hooks: VariableTracker, user_pre_hooks: VariableTracker
) -> VariableTracker:
    _check_grad_mode(tx)
    return BackwardHookVariable(tx)
