"""Instances of ``torch.autograd.Function``. Programs create them for ``SomeFunction().apply(x)``, which needs none.

Creating one warns. The filters of ``warnings`` are guarded, and the warning is issued after the graph, for the
program's line. If a filter makes it an exception, the graph breaks.
"""

from __future__ import annotations

from functools import partial
from types import ClassMethodDescriptorType

import torch

from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.plan.rows import Value
from dynamo_lite.records.captured_warnings import CAPTURED_WARNINGS
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import MISSING, class_lookup
from dynamo_lite.variables.core.base import Attempt, CreatingCall, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_if
from dynamo_lite.variables.python.objects.opaque import OpaqueVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.contexts.deferred_warnings import warn_after_graph

_BASE = torch._C._FunctionBase


class FunctionObjectVariable(OpaqueVariable):
    """A pre-existing instance of a Function, of which programs use the class methods (``apply``)."""

    __slots__ = ()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        kind, namespace = type(self.value), vars(self.value)
        raw = class_lookup(kind, name)
        assert self.source is not None
        if raw is MISSING and name in namespace:
            return LazyVariable(tx.attempt, namespace[name], self.source.instance_item(name))
        if not isinstance(raw, (classmethod, staticmethod, ClassMethodDescriptorType)) or name in namespace:
            return super().getattr(tx, name)
        self.source.child("instance_dict").check("dict_lacks", name)
        return tx.make(kind).getattr(tx, name)


@wraps_if(lambda value: issubclass(type(value), torch.autograd.Function), order=85)
def _wrap_function_object(attempt: Attempt, value: torch.autograd.Function, source: Source) -> VariableTracker:
    source.check_type(value)
    return FunctionObjectVariable(value, source, "it is a node of autograd")


class CreatedFunctionObject(UserObjectVariable):
    """An instance that was created during tracing."""

    __slots__ = ()

    def creating_call(self) -> CreatingCall | None:
        return None

    def construct(self, plan: Planner) -> Value:
        new = plan.call(_BASE.__new__, plan.constant(self.cls))
        return plan.create(self, new, partial(self.store_attributes, plan))


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
