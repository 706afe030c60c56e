"""Full backward hooks of modules (``register_full_backward_hook``): ``Module.__call__`` creates a `BackwardHook`."""

from torch.utils.hooks import BackwardHook

from dynamo_lite.insight.break_reasons import ModuleBackwardHooks
from dynamo_lite.variables.core.registry import models_break

models_break(ModuleBackwardHooks(), BackwardHook)
