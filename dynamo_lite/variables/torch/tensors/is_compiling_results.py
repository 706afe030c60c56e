"""The results of ``is_compiling()``, and what the program made of them.

As under torch.compile, the result is True, and the program may do something else than in eager. But it must not fail
where eager doesn't: a frame that raises is translated again with False as the result. After a graph break, code may
raise that hasn't been traced. So before a break the result may be True only if it affected nothing but tensors: the
calls that branched on it returned a tensor and had no other effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any

from dynamo_lite.insight.site import Site
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator

from .tensor import TensorVariable


class Answers:
    """The results in one attempt. ``withheld``: the sites at which the result is False."""

    def __init__(self, withheld: Set[Site]) -> None:
        self._withheld = withheld
        self.given: set[Site] = set()
        """The sites at which the result was True."""
        self.read: set[Site] = set()
        """The sites whose results were read by something other than a branch: anything may depend on them."""
        self.branched: list[tuple[Any, Site, int]] = []
        """Frames that branched on a result, its site, and the number of effects before."""

    def ask(self, tx: Translator) -> VariableTracker:
        """The result of the call that the current instruction is."""
        site = tx.site()
        if site in self._withheld:
            return ConstantVariable(False)
        self.given.add(site)
        return AnswerVariable(self, site)

    def leave(self, frame: Any, result: VariableTracker, effects: int) -> None:
        """A call has returned: if it has done nothing but compute a tensor, its branches don't matter."""
        if isinstance(result.realize(), TensorVariable):
            self.branched = [row for row in self.branched if row[0] is not frame or row[2] != effects]

    def that_matter(self, reached: Callable[[], Iterable[VariableTracker]]) -> frozenset[Site]:
        """The sites whose results may still affect the program. ``reached``: all values that are still live."""
        if not self.given:
            return frozenset()
        kept = {each.site for each in reached() if isinstance(each, AnswerVariable)}
        return frozenset(kept | self.read | {site for _, site, _ in self.branched})

    def close(self) -> None:
        self.branched.clear()


class AnswerVariable(ConstantVariable):
    """True, as the result of ``is_compiling()``."""

    __slots__ = ("answers", "site")

    def __init__(self, answers: Answers, site: Site) -> None:
        self.source = None
        self.answers = answers
        self.site = site

    @property
    def value(self) -> bool:
        self.answers.read.add(self.site)
        return True

    def python_type(self) -> type:
        return bool

    def truth(self, tx: Translator) -> bool:
        self.answers.branched.append((tx, self.site, tx.effects.count))
        return True
