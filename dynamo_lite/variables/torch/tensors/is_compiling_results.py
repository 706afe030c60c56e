"""Questions whether the program is compiled, and what it made of the answers.

It is told so, as torch.compile tells it, and may do something else than in eager. It isn't to fail where eager doesn't,
though: a frame that raises is translated again, and told nothing. Where a graph breaks it is not known what will raise
after it. So an answer is given before a break only if no more than tensors came of it: it was branched on in calls that
have returned one, and left nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator

from .tensor import TensorVariable

Site = tuple[tuple[str, str, int], ...]
"""File, name and index of the instruction that asks, and of the calls that led there. It keeps no code alive."""


class Untold(Exception):
    """These are not to be told in the next attempt."""

    def __init__(self, sites: set[Site]) -> None:
        self.sites = sites


class Answers:
    """Those of one attempt. ``untold``: where it is said that nothing is compiled."""

    def __init__(self, untold: set[Site]) -> None:
        self._untold = untold
        self.told: set[Site] = set()
        self.read: set[Site] = set()
        """Whose answers were looked at by what is no branch: something may be made of them."""
        self.branched: list[tuple[Any, Site, int]] = []
        """Frames that branched on an answer, and how many effects there were before."""

    def ask(self, tx: Translator) -> VariableTracker:
        site = _site(tx)
        if site in self._untold:
            return ConstantVariable(False)
        self.told.add(site)
        return AnswerVariable(self, site)

    def leave(self, frame: Any, result: VariableTracker, effects: int) -> None:
        """A call has returned: if all that it did was to compute a tensor, it may do it as it likes."""
        if isinstance(result.realize(), TensorVariable):
            self.branched = [row for row in self.branched if row[0] is not frame or row[2] != effects]

    def matter(self, reached: Callable[[], Iterable[VariableTracker]]) -> set[Site]:
        """What was told and may make a difference beyond here. ``reached``: what the program has by now."""
        if not self.told:
            return set()
        kept = {each.site for each in reached() if isinstance(each, AnswerVariable)}
        return kept | self.read | {site for _, site, _ in self.branched}

    def close(self) -> None:
        self.branched.clear()


def _site(tx: Translator) -> Site:
    own = tx.code.co_filename, tx.code.co_qualname, tx.current.index
    return (own,) if tx.parent is None else (own, *_site(tx.parent))


class AnswerVariable(ConstantVariable):
    """That the program is compiled."""

    __slots__ = ("answers", "site")

    def __init__(self, answers: Answers, site: Site) -> None:
        self.source = None
        self.answers = answers
        self.site = site

    @property
    def value(self) -> bool:  # type: ignore[override]
        self.answers.read.add(self.site)
        return True

    def python_type(self) -> type:
        return bool

    def truth(self, tx: Translator) -> bool:
        self.answers.branched.append((tx, self.site, tx.effects.count))
        return True
