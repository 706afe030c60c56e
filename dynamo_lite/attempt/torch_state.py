"""torch's thread state while tracing: contexts entered for real, grad mode, ``__torch_function__``, warnings."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dynamo_lite.variables.core.interfaces import EnteredContext
from dynamo_lite.variables.python.objects.user_object import has_torch_function


class TorchState:
    """The thread state that an attempt changes while tracing and restores when it ends."""

    def __init__(self) -> None:
        self.contexts: list[EnteredContext] = []
        """Contexts that are entered for real while tracing, outermost first."""
        self.catch_warnings_blocks: list[Any] = []
        """``catch_warnings`` blocks entered during tracing, outermost first."""
        self.initial_grad_mode = self.final_grad_mode = torch.is_grad_enabled()
        self.began_in_inference_mode = torch.is_inference_mode_enabled()
        self.has_subclasses = False
        """Whether an instance of a class with a ``__torch_function__`` was traced."""
        self.is_torch_function_off = False
        """Whether a block disables ``__torch_function__``."""
        self._warns_always = False

    @property
    def calls_torch_function(self) -> bool:
        """Whether torch's functions may dispatch to a class's ``__torch_function__`` now."""
        return self.has_subclasses and not self.is_torch_function_off

    @contextlib.contextmanager
    def without_torch_function(self) -> Iterator[None]:
        """A block in which torch's functions don't dispatch to ``__torch_function__``."""
        before, self.is_torch_function_off = self.is_torch_function_off, True
        try:
            yield
        finally:
            self.is_torch_function_off = before

    @property
    def filters_at_graph_call(self) -> Sequence[tuple[Any, ...]]:
        """The warning filters in effect when the graph runs."""
        return self.catch_warnings_blocks[0].filters_before if self.catch_warnings_blocks else warnings.filters

    def note_class(self, cls: type) -> None:
        """Note that an instance of a user-defined class is traced."""
        if has_torch_function(cls) and torch._C._is_torch_function_enabled():
            self.has_subclasses = True

    def enter(self) -> None:
        self._warns_always = torch.is_warn_always_enabled()
        if any(action == "error" for action, *_ in warnings.filters):
            torch.set_warn_always(True)  # a warning that is raised here must be raised at run time too

    def leave(self) -> None:
        """Restore the thread's state."""
        self.final_grad_mode = torch.is_grad_enabled()
        for context in reversed(self.contexts):
            context.leave()
        torch._C._set_grad_enabled(self.initial_grad_mode)
        if torch.is_warn_always_enabled() is not self._warns_always:
            torch.set_warn_always(self._warns_always)

    def close(self) -> None:
        self.contexts.clear()
        self.catch_warnings_blocks.clear()
