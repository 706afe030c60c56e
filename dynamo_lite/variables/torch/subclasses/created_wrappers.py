"""Tensors made of others that the program makes inside: their ``__new__`` and ``__init__`` are traced.

Such an object is made after the graph, of its attributes, as the program makes it: so its parts are the very tensors
that it was given. Where an operator takes it the graph makes one like it, by ``__tensor_unflatten__``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedValue
from dynamo_lite.runtime.inner_tensors import has_user_torch_function, is_wrapper_class
from dynamo_lite.variables.core.attributes import MISSING, class_lookup, guard_class_attribute, is_data_descriptor
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.fake_calls import compute

from .wrapper_subclass import WrapperVariable, flattened, is_sound

_MAKE: Any = torch.Tensor._make_wrapper_subclass
_HOOKS = ("__setattr__", "__getattr__", "__getattribute__")
_FACTS = ("shape", "dtype", "device", "requires_grad", "layout")


class MadeWrapperVariable(WrapperVariable):
    """One that is made inside. ``shell``: a tensor like it, without attributes."""

    __slots__ = ("attempt", "shell", "args", "kwargs", "made", "is_settling")

    def __init__(self, attempt: Attempt, cls: type, shell: torch.Tensor, args: Args, kwargs: Kwargs) -> None:
        self.attempt = attempt
        self.shell = shell
        self.args = args
        self.kwargs = kwargs
        self.made: tuple[Any, torch.Tensor] | None = None
        """The node and the fake of the one that the graph makes."""
        self.is_settling = False
        self.source = self.value = self.instance = self.thawed = None
        self.cls = cls
        self.plain = self
        self.attrs: dict[str, VariableTracker | None] = {}

    @property
    def node(self) -> Any:  # type: ignore[override]
        return self._made_in_graph()[0]

    @property
    def fake(self) -> torch.Tensor:  # type: ignore[override]
        """While it is asked what it is made of, all that is known of it otherwise."""
        return self.shell if self.is_settling else self._made_in_graph()[1]

    @property
    def is_unmade(self) -> bool:
        return self.is_settling

    def _tell_size(self) -> None:
        pass

    def _made_in_graph(self) -> tuple[Any, torch.Tensor]:
        if self.made is None:
            if self.is_settling:
                unsupported(UnsupportedValue(self.describe(), "it computes with itself to say what it is made of"))
            self.is_settling = True
            self.made = _make_in_graph(self.attempt.innermost, self)
            self.is_settling = False
            self.attempt.values.fakes[id(self.made[1])] = self
        return self.made

    def _instance_attribute(self, tx: Translator, name: str) -> VariableTracker | None:
        return self.attrs.get(name)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        return self.attrs.get(name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        raw = class_lookup(self.cls, name)
        if self.made is not None or (raw is not MISSING and is_data_descriptor(raw)):
            super().setattr(tx, name, value)
        guard_class_attribute(tx, self.cls, name, raw)
        self.attrs[name] = value

    def reconstruct(self, cg: Codegen) -> None:
        def new() -> None:
            loads = [functools.partial(cg.load, each) for each in self.args]
            cg.call_named(_MAKE, loads, {name: functools.partial(cg.load, each) for name, each in self.kwargs.items()})

        def fill(cg: Codegen) -> None:
            for name, value in self.attrs.items():
                cg.set_on_top(name, value)

        cg.make_then_fill(self, new, fill)


def _make(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``Tensor._make_wrapper_subclass(cls, …)``."""
    given = [arg.realize() for arg in args]
    named = {name: value.realize() for name, value in kwargs.items()}
    values = [tx.python_value(each) for each in given], {name: tx.python_value(each) for name, each in named.items()}
    cls = values[0][0] if given else None
    if not isinstance(cls, type) or not is_wrapper_class(cls):
        unsupported(UnknownCall("Tensor._make_wrapper_subclass()", "the class does not say what it is made of"))
    if any(class_lookup(cls, name) is not class_lookup(torch.Tensor, name) for name in _HOOKS):
        unsupported(UnknownCall("Tensor._make_wrapper_subclass()", "the class finds attributes by code of its own"))
    shell = compute("call_function", _MAKE, *values)
    tx.attempt.has_wrappers = True
    if (
        not tx.attempt.takes_wrappers
        or tx.graph.bodies
        or shell.requires_grad
        or shell.layout is not torch.strided
        or _C.computes_sizes(shell)
    ):
        unsupported(UnknownCall("Tensor._make_wrapper_subclass()", "it is more than a tensor without gradients"))
    tx.attempt.torch_state.has_subclasses |= has_user_torch_function(cls)
    return MadeWrapperVariable(tx.attempt, cls, shell, given, named)


models_raw(_MAKE, _make)


def _make_in_graph(tx: Translator, of: MadeWrapperVariable) -> tuple[Any, torch.Tensor]:
    names, parts, context = flattened(tx, of)
    if any(part.fake.requires_grad for part in parts):
        unsupported(UnsupportedValue(of.describe(), "what it is made of needs gradients"))
    maker = _maker(of.cls, names, _known(tx, context))
    shell = of.shell
    place = tuple(map(int, shell.shape)), tuple(map(int, shell.stride()))
    fake = compute("call_function", maker, [*place, *(part.fake for part in parts)], {})
    if type(fake) is not of.cls or not is_sound(fake) or fake.stride() != shell.stride():
        unsupported(UnsupportedValue(of.describe(), "its class makes something else of its parts"))
    if any(getattr(fake, name) != getattr(shell, name) for name in _FACTS):
        unsupported(UnsupportedValue(of.describe(), "its class makes something else of its parts"))
    return tx.graph.call("call_function", maker, (*place, *(part.node for part in parts)), {}, fake), fake


def _maker(cls: Any, names: list[str], context: Callable[[], Any]) -> Callable[..., torch.Tensor]:
    def make(size: tuple[int, ...], stride: tuple[int, ...], *parts: torch.Tensor) -> torch.Tensor:
        return cls.__tensor_unflatten__(dict(zip(names, parts)), context(), torch.Size(size), stride)  # type: ignore[no-any-return]

    return make


def _known(tx: Translator, value: VariableTracker) -> Callable[[], Any]:
    """What makes a context like this one, which is guarded. Objects in it are the very ones."""
    value = value.realize()
    kind = value.python_type()
    if isinstance(value, DictVariable) and kind is dict and not value.keys:
        rows = {key: _known(tx, item) for key, item in value.items.items()}
        return lambda: {key: make() for key, make in rows.items()}
    if kind in (list, tuple):
        items = [_known(tx, item) for item in value.elements(tx)]
        return lambda: kind(make() for make in items)
    if isinstance(value, UserObjectVariable) and value.source is not None:
        value.source.check("id", value.value)
        return functools.partial(_as_it_is, value.value)
    if not value.is_constant():
        unsupported(UnsupportedValue(value.describe(), "a graph that makes a tensor of others can't have it"))
    return functools.partial(_as_it_is, value.as_constant())


def _as_it_is(value: Any) -> Any:
    return value
