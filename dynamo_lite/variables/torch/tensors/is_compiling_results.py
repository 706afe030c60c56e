"""The results of ``is_compiling()``, and what the program made of them.

As under torch.compile, the result is True, and the program may do something else than in eager. But it must not fail
where eager doesn't: a frame that raises is translated again with False as the result. After a graph break, code may
raise that hasn't been traced. So before a break the result may be True only if it affected nothing but tensors: the
calls that branched on it returned a tensor and had no other effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from dynamo_lite.insight.site import Site
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator

from .tensor import TensorVariable


class IsCompilingResults:
    """The results in one attempt. ``withheld``: the sites at which the result is False."""

    def __init__(self, withheld: Set[Site]) -> None:
        self._withheld = withheld
        self.given: set[Site] = set()
        """The sites at which the result was True."""
        self.read: set[Site] = set()
        """The sites whose results were read by something other than a branch: anything may depend on them."""
        self.branched: list[tuple[Translator, Site, int]] = []
        """Frames that branched on a result, its site, and the number of effects before."""

    def at_current_call(self, tx: Translator) -> VariableTracker:
        """The result of ``is_compiling()``, which the current instruction calls."""
        site = tx.site()
        if site in self._withheld:
            return ConstantVariable(False)
        self.given.add(site)
        return IsCompilingVariable(self, site)

    def end_call(self, frame: Translator, result: VariableTracker, effects: int) -> None:
        """Forget the branches of a call that returned, if it did nothing but compute a tensor."""
        if isinstance(result.realize(), TensorVariable):
            self.branched = [row for row in self.branched if row[0] is not frame or row[2] != effects]

    def sites_that_matter(self, reached: Callable[[], Iterable[VariableTracker]]) -> frozenset[Site]:
        """The sites whose results may still affect the program. ``reached``: all values that are still live."""
        if not self.given:
            return frozenset()
        kept = {each.site for each in reached() if isinstance(each, IsCompilingVariable)}
        return frozenset(kept | self.read | {site for _, site, _ in self.branched})

    def close(self) -> None:
        self.branched.clear()


class IsCompilingVariable(ConstantVariable):
    """True, as the result of ``is_compiling()``."""

    __slots__ = ("results", "site")

    def __init__(self, results: IsCompilingResults, site: Site) -> None:
        self.source = None
        self.results = results
        self.site = site

    @property
    def value(self) -> bool:
        self.results.read.add(self.site)
        return True

    def python_type(self) -> type:
        return bool

    def truth(self, tx: Translator) -> bool:
        self.results.branched.append((tx, self.site, tx.effects.count))
        return True
