"""Calls of users' functions that are recorded as one node. Such a function sees its arguments' exact types, and the
graph's operators don't: a node holds a `torch.Size`, a named tuple or a member of an ``IntEnum`` as a plain value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import is_namedtuple_class

from dynamo_lite.insight.break_reasons import UnsupportedValue
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.variables.core.attributes import class_lookup
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import Model
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SizeVariable, TupleVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable

from .torch_functions import call_operator


class _TypedArgument(VariableTracker):
    """An argument that a node of its own puts into the graph: a value as an attribute, or a call of its class."""

    __slots__ = ("kind", "items", "node_and_fake")

    def __init__(
        self, kind: type, items: list[VariableTracker] | None, node_and_fake: Callable[[], tuple[Any, Any]]
    ) -> None:
        super().__init__(None)
        self.kind = kind
        self.items = items
        self.node_and_fake = node_and_fake

    def python_type(self) -> type:
        return self.kind

    def structure_items(self) -> Iterable[VariableTracker] | None:
        return self.items

    def as_fx(self) -> tuple[Any, Any]:
        return self.node_and_fake()


def call_whole(function: Callable[..., object]) -> Model:
    """The model of a user's function that is recorded as one node."""
    operator = call_operator(function)

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        typed = [_with_type(tx, each.realize()) for each in args]
        return operator(tx, typed, {name: _with_type(tx, each.realize()) for name, each in kwargs.items()})

    return model


def _with_type(tx: Translator, argument: VariableTracker) -> VariableTracker:
    """The argument as what gives the function a value of its exact type."""
    if isinstance(argument, ClassVariable):  # to a C operator a class is a dtype
        unsupported(UnsupportedValue(argument.describe(), "a graph can't name a class"))
    if isinstance(argument, SizeVariable):
        items = argument.items
        return _TypedArgument(torch.Size, items, lambda: _called(tx.graph, torch.Size, (TupleVariable(items),)))
    if isinstance(argument, (ListVariable, TupleVariable)) and argument.python_type() in (list, tuple):
        return argument.like([_with_type(tx, each.realize()) for each in argument.items])
    if isinstance(argument, UserObjectVariable) and argument.payload is not None:
        return _object_with_type(tx, argument, argument.payload)
    as_argument = argument.as_fx()[0]
    if type(as_argument) is not argument.python_type() and not isinstance(as_argument, torch.fx.Node):
        return _constant(tx.graph, argument, lambda: tx.python_value(argument))
    return argument


def _object_with_type(tx: Translator, argument: UserObjectVariable, payload: VariableTracker) -> VariableTracker:
    cls = argument.cls
    if isinstance(payload, TupleVariable) and is_namedtuple_class(cls) and not argument.attrs:
        new = getattr(class_lookup(cls, "__new__"), "__func__", None)
        if getattr(new, "__module__", None) == f"namedtuple_{cls.__name__}":  # what `namedtuple()` generated
            items = [_with_type(tx, each.realize()) for each in payload.items]
            return _TypedArgument(cls, items, lambda: _called(tx.graph, cls, items))
    if argument.source is None or not isinstance(payload, ConstantVariable):
        unsupported(UnsupportedValue(argument.describe(), "a graph's node would hold it as one of a builtin class"))
    argument.source.check("id", argument.value)
    return _constant(tx.graph, argument, lambda: argument.value)


def _constant(graph: GraphBuilder, argument: VariableTracker, value: Callable[[], object]) -> VariableTracker:
    try:
        found = value()
    except NotConstant:
        found = None
    if type(found) is not argument.python_type():
        unsupported(UnsupportedValue(argument.describe(), "a graph's node would hold it as one of a builtin class"))
    return _TypedArgument(type(found), None, lambda: (graph.constant(found), found))


def _called(graph: GraphBuilder, cls: type, items: Iterable[VariableTracker]) -> tuple[Any, Any]:
    """The node of a call of a class."""
    pairs = [each.as_fx() for each in items]
    fake = cls(*(pair[1] for pair in pairs))
    return graph.call("call_function", cls, tuple(pair[0] for pair in pairs), {}, fake), fake
