"""Instances of ``torch.autograd.Function``. Programs create them for ``SomeFunction().apply(x)``, which needs none.

Creating one warns. The filters of ``warnings`` are guarded, and the warning is issued after the graph, for the
program's line. If a filter makes it an exception, the graph breaks.
"""

from __future__ import annotations

from functools import partial

import torch

from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.records.captured_warnings import CAPTURED_WARNINGS
from dynamo_lite.variables.core.base import CreatingCall, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.deferred_warnings import warn_after_graph
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable

_BASE = torch._C._FunctionBase


class CreatedFunctionObject(UserObjectVariable):
    """An instance that was created during tracing."""

    __slots__ = ()

    def creating_call(self) -> CreatingCall | None:
        return None

    def reconstruct(self, cg: Codegen) -> None:
        def create() -> None:
            cg.call(_BASE.__new__, [partial(cg.load_const, self.cls)])

        cg.make_then_fill(self, create, self.store_attributes)


@models(_BASE.__new__)
def _new(tx: Translator, cls: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    return CreatedFunctionObject(None, cls.as_constant())


@models(torch.autograd.Function.__init__)
def _init(tx: Translator, of: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if not isinstance(of, CreatedFunctionObject):
        unsupported(UnsupportedAttribute(of.describe(), "__init__"))
    with CAPTURED_WARNINGS as captured:
        torch.autograd.Function.__init__(_BASE.__new__(of.cls))
    for each in captured:
        warn_after_graph(tx, str(each.message), each.category)
    return ConstantVariable(None)
