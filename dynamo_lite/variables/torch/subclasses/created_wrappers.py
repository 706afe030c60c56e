"""Instances of wrapper subclasses that are created during tracing: their ``__new__`` and ``__init__`` are traced.

Generated code creates such an object after the graph and sets its attributes, so its inner tensors are the same objects
as in eager. An operator can't take that object, so the graph creates an equal one by ``__tensor_unflatten__``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import WrapperSubclass
from dynamo_lite.plan.rows import Value
from dynamo_lite.runtime.inner_tensors import is_wrapper_class, overrides_torch_function
from dynamo_lite.variables.core.attributes import MISSING, class_lookup, guard_class_attribute, is_data_descriptor
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.fake_computation import compute
from dynamo_lite.variables.torch.tensors.known_tensors import KnownTensors

from .wrapper_subclass import WrapperVariable, flattened, is_complete_fake

_MAKE: Any = torch.Tensor._make_wrapper_subclass
_HOOKS = ("__setattr__", "__getattr__", "__getattribute__")
_METADATA = ("shape", "dtype", "device", "requires_grad", "layout")


class CreatedWrapperVariable(WrapperVariable):
    """A wrapper created during tracing.

    Args:
        shell: a fake instance without attributes.
        args, kwargs: of ``_make_wrapper_subclass``, by which generated code creates the instance.
    """

    __slots__ = ("attempt", "shell", "args", "kwargs", "graph_node_and_fake", "is_flattening")

    def __init__(self, attempt: Attempt, cls: type, shell: torch.Tensor, args: Args, kwargs: Kwargs) -> None:
        self.attempt = attempt
        self.shell = shell
        self.args = args
        self.kwargs = kwargs
        self.graph_node_and_fake: tuple[torch.fx.Node, torch.Tensor] | None = None
        """Node and fake of the equal wrapper that the graph creates; None if no operator has needed it yet."""
        self.is_flattening = False
        self.source = self.value = self.instance = self.before_freezing = None
        self.cls = cls
        self.plain = self
        self.attrs: dict[str, VariableTracker | None] = {}

    @property
    def node(self) -> torch.fx.Node:  # type: ignore[override]
        return self._in_graph()[0]

    @property
    def fake(self) -> torch.Tensor:  # type: ignore[override]
        """The fake of the wrapper in the graph. While ``__tensor_flatten__`` is traced there is only the shell."""
        return self.shell if self.is_flattening else self._in_graph()[1]

    @property
    def is_being_flattened(self) -> bool:
        return self.is_flattening

    def _note_size_read(self) -> None:
        pass

    def _in_graph(self) -> tuple[torch.fx.Node, torch.Tensor]:
        if self.graph_node_and_fake is None:
            if self.is_flattening:
                unsupported(WrapperSubclass(self.describe(), "its __tensor_flatten__ computes with it"))
            tx = self.attempt.innermost
            assert tx is not None
            self.is_flattening = True
            self.graph_node_and_fake = _create_in_graph(tx, self)
            self.is_flattening = False
            self.attempt.state(KnownTensors).add(self.graph_node_and_fake[1], self)
        return self.graph_node_and_fake

    def _instance_attribute(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.attrs.get(name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        raw = class_lookup(self.cls, name)
        if self.graph_node_and_fake is not None or (raw is not MISSING and is_data_descriptor(raw)):
            unsupported(WrapperSubclass(self.describe(), f"a write to {name!r} may change what its operators do"))
        guard_class_attribute(tx.guards, self.cls, name, raw)
        self.attrs[name] = value

    def construct(self, plan: Planner) -> Value:
        def fill(wrapper: Value) -> None:
            for name, value in self.attrs.items():
                assert value is not None
                plan.set_attribute(wrapper, name, value)

        return plan.create(self, plan.call(_MAKE, *self.args, **self.kwargs), fill)


def _make_wrapper(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``Tensor._make_wrapper_subclass(cls, …)``."""
    values, named = tx.python_values(args, kwargs)
    cls = values[0] if values else None
    described = args[0].realize().describe() if args else "nothing"
    if not isinstance(cls, type) or not is_wrapper_class(cls):
        unsupported(WrapperSubclass(described, "the class has no __tensor_flatten__"))
    if any(class_lookup(cls, name) is not class_lookup(torch.Tensor, name) for name in _HOOKS):
        unsupported(WrapperSubclass(described, "the class customizes attribute access"))
    shell = compute("call_function", _MAKE, values, named)
    tx.attempt.has_wrappers = True
    is_plain = shell.layout is torch.strided and not shell.requires_grad and not _C.computes_sizes(shell)
    if not is_plain:
        unsupported(WrapperSubclass(described, "it isn't strided, requires grad or computes its sizes"))
    if tx.graph.scope.is_nested or not tx.attempt.traits.wrappers:
        unsupported(WrapperSubclass(described, "an operator's function, or the backend, can't take it"))
    tx.attempt.torch_state.has_subclasses |= overrides_torch_function(cls)
    return CreatedWrapperVariable(tx.attempt, cls, shell, args, kwargs)


models_raw(_MAKE, _make_wrapper)


def _create_in_graph(tx: Translator, of: CreatedWrapperVariable) -> tuple[torch.fx.Node, torch.Tensor]:
    names, inner, context = flattened(tx, of)
    if any(tensor.fake.requires_grad for tensor in inner):
        unsupported(WrapperSubclass(of.describe(), "an inner tensor requires gradients"))
    make_context = _context_maker(tx, context)
    cls: Any = of.cls

    def unflatten(size: tuple[int, ...], stride: tuple[int, ...], *parts: torch.Tensor) -> torch.Tensor:
        return cls.__tensor_unflatten__(dict(zip(names, parts)), make_context(), torch.Size(size), stride)

    shell = of.shell
    geometry = tuple(map(int, shell.shape)), tuple(map(int, shell.stride()))
    fake: torch.Tensor = compute("call_function", unflatten, [*geometry, *(tensor.fake for tensor in inner)], {})
    if type(fake) is not of.cls or not is_complete_fake(fake) or fake.stride() != shell.stride():
        unsupported(WrapperSubclass(of.describe(), "its __tensor_unflatten__ doesn't restore it"))
    if any(getattr(fake, name) != getattr(shell, name) for name in _METADATA):
        unsupported(WrapperSubclass(of.describe(), "its __tensor_unflatten__ doesn't restore it"))
    return tx.graph.call("call_function", unflatten, (*geometry, *(tensor.node for tensor in inner)), {}, fake), fake


def _context_maker(tx: Translator, value: VariableTracker) -> Callable[[], object]:
    """A function that creates an equal context, with the same objects in it. The context is guarded."""
    value = value.realize()
    kind = value.python_type()
    if isinstance(value, DictVariable) and kind is dict and not value.keys:
        rows = {key: _context_maker(tx, item) for key, item in value.items.items()}
        return lambda: {key: make() for key, make in rows.items()}
    if kind in (list, tuple):
        items = [_context_maker(tx, item) for item in value.elements(tx)]
        return lambda: kind(make() for make in items)
    if isinstance(value, UserObjectVariable) and value.source is not None:
        value.source.check("id", value.value)
        context = value.value
    elif value.is_constant():
        context = value.as_constant()
    else:
        unsupported(WrapperSubclass(value.describe(), "the context of a wrapper subclass has to be constant"))
    return lambda: context
