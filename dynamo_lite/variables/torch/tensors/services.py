"""Functions that this room calls and rooms above implement: declared here, they keep imports going down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

import torch

from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker

if TYPE_CHECKING:
    pass

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Service(Generic[_Parameters, _Result]):
    """A declared function, and its implementation."""

    def __init__(self, declaration: Callable[_Parameters, _Result]) -> None:
        self._call = declaration

    def implementation(self, fn: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        """Register the implementation. `kinds` imports the rooms that have one."""
        self._call = fn
        return fn

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return self._call(*args, **kwargs)


@Service
def wrapper_result(tx: Translator, node: torch.fx.Node, fake: torch.Tensor) -> VariableTracker:
    """The tracker of an operator's result that is an instance of a wrapper subclass."""
    raise NotImplementedError


@Service
def dispatch_torch_function(
    tx: Translator, target: str | Callable[..., object], args: Args, kwargs: Kwargs
) -> VariableTracker:
    """Call a function of torch, or the method of that name, by the ``__torch_function__`` of an argument's class."""
    raise NotImplementedError
