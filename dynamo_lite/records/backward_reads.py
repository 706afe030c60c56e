"""What a backward in the graph reads of the program: looked at again when it runs.

The backward of a Function reads globals, attributes and cells when it runs. In the graph it has what there was at the
call. So each call of the graph keeps the places that all this is read from. Where one of them has something else by the
time of the backward, the Function's own backward is run in place of the traced one; where that can't be, as a compiler
made one piece of code of all backwards in a graph, it raises: the gradients would not be the program's.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import torch

from dynamo_lite import _C
from dynamo_lite.exc import BackwardOutdated
from dynamo_lite.runtime.backward_calls import Again, Call, Found, Kept, changed, in_call, same

from .guards import Held, reason_for
from .source import Source


def _frame(places: tuple[Any, ...]) -> None:
    """A frame that these places are found from."""


class BackwardReads:
    """What the backwards in one graph read. ``sources``: parents first, each with those of its checks that matter;
    ``functions``: those of the graph, and whether it is their backward that reads, of which ``refused`` is told where
    it was; ``again``: of their calls by number how to run the backward as the program has it, None: it can't be."""

    def __init__(
        self,
        sources: dict[Source, list[tuple[str, Any]]],
        functions: dict[type[torch.autograd.Function], bool],
        again: dict[int, Again | None],
        refused: Callable[[Iterable[Any]], None],
    ) -> None:
        self._sources = sources
        self._functions = [weakref.ref(each) for each in functions]
        self._reading = list(functions.values())
        self._refused = refused
        bases = dict.fromkeys(source.way()[0] for source in sources)
        self.found = dict.fromkeys(base for base in bases if base.kind != "const")
        """Places, mostly one step from the frame, from which the rest is found: to be captured for each call."""
        self.again = {
            at: each and each._replace(attributes=changed(each.attributes, self._located)) for at, each in again.items()
        }
        self._count = len(self.found)
        self._known = [base for base in bases if base.kind == "const"]
        self._references = [_reference(base.arg) for base in self._known]
        self._tree = _C.GuardTree(_frame.__code__)
        self._captured: list[str] = []
        """What the places are called that the tree captures."""
        self.held: Held | None = None
        """What the entry lives by."""

    def _located(self, value: Kept | Found) -> Kept | Found:
        if isinstance(value, Kept):
            return value
        self.found.setdefault(value.at)
        return Found(list(self.found).index(value.at))

    def build(self) -> None:
        """The tree, once all is known of the sources, which are let go of."""
        places = self._tree.child(0, "local", "places")
        bases = [*self.found, *self._known]
        numbers = {base: self._tree.child(places, "tuple_item", at) for at, base in enumerate(bases)}
        for source, checks in self._sources.items():
            for step in source.way():
                if step not in numbers:
                    assert step.parent is not None
                    numbers[step] = self._tree.child(numbers[step.parent], step.kind, step.arg)
            for kind, arg in checks:
                self._tree.check(numbers[source], kind, arg, reason_for(source, kind, arg))
            if source not in bases and (source.captured or source.related or not checks):
                self._tree.capture(numbers[source])
                self._captured.append(str(source))
        self._sources = {}
        self.found, self._known = {}, []

    def around(self, compiled: Callable[..., Any], at: int, written: Sequence[int]) -> Callable[..., Any]:
        """A compiled graph whose backwards look again. Behind its first ``at`` arguments it is given what the places
        have. ``written``: which of its inputs it writes into."""
        end = at + self._count

        def run(*args: Any) -> Any:
            inputs = args[:at] + args[end:]
            places = (*args[at:end], *(each() for each in self._references))
            call = Call(self, places, [each() for each in self._functions])
            with in_call(call):
                results = compiled(*inputs)
            if not call.taken and isinstance(results, (tuple, list)):
                _hook([*results, *(inputs[each] for each in written)], call.check)
            return results

        return run

    def look(self, places: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What is captured of what there is now; None: something is not as it was."""
        return self._tree.lookup((places,))

    def refuse(self, call: Call, before: tuple[Any, ...] | None) -> NoReturn:
        """The backward of a call after which something else came to be read."""
        failure = self._tree.test((call.places,))
        if failure is None:
            pairs = zip(self._captured, before or (), self.look(call.places) or ())
            what = next((f"{name} is another object" for name, *pair in pairs if not same(*pair)), "")
        else:
            what = f"{failure.reason} no longer holds, there is {failure.found}"
        functions = list(itertools.compress(call.functions, self._reading))
        self._refused(functions)
        self.held = None  # what is compiled with it is not run again
        raise BackwardOutdated([each.__qualname__ for each in functions], what)


def _hook(tensors: Iterable[Any], check: Callable[[Any], None]) -> None:
    nodes = {each.grad_fn for each in tensors if isinstance(each, torch.Tensor)} - {None}
    for node in nodes:
        node.register_prehook(check)


def _reference(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
