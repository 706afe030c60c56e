"""What a translation has to know of numbers that may differ from call to call, because it can't go on without."""

from __future__ import annotations

from typing import Any

_MOST = 12
"""Steps of one translation at which numbers are settled."""


class Settlings:
    """For the attempts at one frame. Each comes to the same steps until numbers are settled that another one leaves."""

    def __init__(self) -> None:
        self.all_known = False
        """Whether there are to be no symbols."""
        self._steps: set[int] = set()
        """Before which the numbers and sizes are settled that the instruction takes."""
        self._given_up: set[int] = set()
        self._failed: tuple[int, Any] | None = None
        """The step for which numbers are all known now, and how it failed before."""

    def first_after(self, step: int) -> int | None:
        return min((each for each in self._steps if each > step), default=None)

    def may_help(self, attempt: Any, error: Any) -> bool:
        """Whether there is to be another attempt that knows more: the numbers that the failed instruction takes; if it
        takes tensors, all there are."""
        how = type(error.reason), error.user_stack
        if self._failed is not None and self.all_known:
            self.all_known = how != self._failed[1]
            self._given_up.add(self._failed[0])
            return not self.all_known
        symbols, step = attempt.graph.symbols, attempt.steps
        if not error.reason.may_be_of_numbers or not (symbols.there_are or symbols.has_floats):
            return False
        if step in self._given_up or len(self._steps) >= _MOST:
            return False
        if step not in self._steps:
            self._steps.add(step)
            return True
        self._steps.remove(step)
        self._given_up.add(step)
        if self._failed is None and attempt.settled_sizes:
            self.all_known, self._failed = True, (step, how)
        return self.all_known
