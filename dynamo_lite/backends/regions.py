"""Blocks that repeat in a graph, as the layers of a model do, are compiled once: ``dl.compile(..., regions="auto")``.

The graph is cut where little crosses: at each position of its order the values are counted that are computed before
and used behind. What lies between two cuts has a key, which says all that a compiler sees of it: its operators, how
they depend on each other, what is known of the tensors it is given (and which of them share memory), and which of its
values are used outside. Pieces of one key are compiled once. Neighbours that always come together are one piece.

Repeats are found by structure, so that loops over functions repeat too. A piece that occurs once is joined with its
neighbours that do.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
import torch.fx

from dynamo_lite import config
from dynamo_lite.insight.regions import REGIONS, Regions
from dynamo_lite.runtime.inner_tensors import is_wrapper
from dynamo_lite.runtime.node_text import is_text
from dynamo_lite.runtime.shared_memory import memory_of

from .inductor import Inductor
from .pieces import LEAVES, Piece, compile_each, graph_of, legal_cuts, operators_of, pieces_between
from .registry import Backend
from .replacement import replaced_later
from .whole_graphs import WholeGraph

Span = tuple[int, int]
"""The positions of a piece's first operator, and of the one behind its last."""

_WINDOW = 10
"""A cut is made where as few values cross as anywhere within so many operators on either side."""
_FEWEST_OPERATORS = 6
"""A repeating piece of fewer costs more at each call than it saves once."""
_FEWEST_SAVED = 0.3
"""The part of a graph's operators that must not have to be compiled, for the graph to be cut."""
_MOST_LEFT_OVER = 0.25
"""Neighbours are joined if so many of them, in parts of those that are, stay alone and are compiled once more."""


_FEWEST_OPERATORS_OF_A_GRAPH = 150
"""With ``auto``, a smaller graph is compiled whole: it takes a second or two, and a call of pieces costs more."""
_FEWEST_SAVED_BY_AUTO = 0.5

Way = Literal["auto", "never", "only"]
WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True, eq=False)
class InRegions:
    """A backend that compiles each distinct piece of a graph once. Its other attributes are the backend's."""

    backend: Backend
    is_auto: bool = False
    """Whether the whole graph takes the pieces' place later, and small graphs are compiled whole."""

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        pieces = [] if getattr(self.backend, "records_graphs", bool)() else pieces_of(gm, is_auto=self.is_auto)
        if len(pieces) < 2:
            return self.backend(gm, example_inputs)
        whole = self._whole(gm, example_inputs)
        loaded = whole.load() if whole is not None and whole.is_cached() else None
        if loaded is not None:
            return loaded
        compiled = self._compiled(gm, example_inputs, pieces)
        return compiled if whole is None else replaced_later(compiled, whole)

    def _whole(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> WholeGraph | None:
        """The graph for another process to compile; None: it stays in pieces."""
        if not self.is_auto or not config.background or not isinstance(self.backend, Inductor):
            return None
        return WholeGraph.of(self.backend, gm, example_inputs)

    def _compiled(self, gm: torch.fx.GraphModule, example_inputs: list[Any], pieces: list[Piece]) -> Callable[..., Any]:
        """What runs the pieces, each distinct one compiled once."""
        compiled: dict[Hashable, tuple[Callable[..., Any], float]] = {}
        saved = 0.0

        def compile_piece(piece: Piece, examples: list[Any]) -> Callable[..., Any]:
            nonlocal saved
            key = key_of(piece)
            if key in compiled:
                saved += compiled[key][1]
            else:
                began = time.perf_counter()
                made = self.backend(graph_of(gm, piece), examples)
                compiled[key] = made, time.perf_counter() - began
            return compiled[key][0]

        by_one_rank: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if isinstance(self.backend, Inductor):
            by_one_rank = self.backend.compiled_by_one_rank(gm, example_inputs, "pieces")
        with by_one_rank, getattr(self.backend, "compiled_together", contextlib.nullcontext)():
            run = compile_each(gm, example_inputs, pieces, compile_piece)
        gm.meta[REGIONS] = replace(regions_of(pieces), saved_seconds=saved)
        return run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)


def in_regions(backend: Backend, way: Way) -> Backend:
    """The backend, with the search for regions in front of it. ``auto`` is for backends that say so."""
    if way == "never" or way == "auto" and not getattr(backend, "compiles_regions", False):
        return backend
    return InRegions(backend, is_auto=way == "auto")


def pieces_of(gm: torch.fx.GraphModule, *, is_auto: bool) -> list[Piece]:
    """The pieces of the graph, in order; one if it stays whole."""
    repeats = _Repeats(gm)
    if is_auto and len(repeats.nodes) < _FEWEST_OPERATORS_OF_A_GRAPH:
        return [Piece.of((), tuple(repeats.nodes))]
    return repeats.pieces(_FEWEST_SAVED_BY_AUTO if is_auto else _FEWEST_SAVED)


def regions_in(gm: torch.fx.GraphModule) -> Regions | None:
    """The regions into which ``auto`` cuts a graph; None if it compiles it whole."""
    pieces = pieces_of(gm, is_auto=True)
    return regions_of(pieces) if len(pieces) > 1 else None


def regions_of(pieces: list[Piece]) -> Regions:
    distinct = {key_of(each): each for each in pieces}.values()
    operators, compiled = (sum(len(each.nodes) for each in some) for some in (pieces, distinct))
    return Regions(len(pieces), len(distinct), operators, compiled)


class _Repeats:
    """The way from cuts where little crosses to pieces that repeat. A piece is named by where it begins and ends."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        self.nodes = operators_of(gm)
        self._opened = list(_opened_before(self.nodes))
        self._keys: dict[Span, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._too_small: set[Hashable] = set()

    def pieces(self, fewest_saved: float) -> list[Piece]:
        """The pieces of the graph, in order; one if too little of it repeats: less than a part of ``fewest_saved``."""
        ends = [0, *_narrow_places(self.nodes), len(self.nodes)]
        found = self._joined(list(itertools.pairwise(ends)))
        self._too_small = {self._key(each) for each in found if each[1] - each[0] < _FEWEST_OPERATORS}
        found = self._joined(found)
        distinct = sum(last - first for first, last in {self._key(each): each for each in found}.values())
        is_worth_it = distinct <= (1 - fewest_saved) * len(self.nodes)
        return pieces_between(self.nodes, [first for first, _ in found[1:]] if is_worth_it else [])

    def _joined(self, spans: list[Span]) -> list[Span]:
        """These pieces, where neighbours that (nearly) always come together are one."""
        spans = self._with_single_ones_joined(spans)
        refused: set[tuple[Hashable, Hashable]] = set()
        while (pair := self._pair_to_join(spans, refused)) is not None:
            joined = self._join(spans, pair)
            made = Counter(self._key(each) for each in set(joined).difference(spans))
            if made.total() - max(made.values()) <= _MOST_LEFT_OVER * made.total():
                spans = self._with_single_ones_joined(joined)
            else:  # the two depend on each other in several ways
                refused.add(pair)
        return spans

    def _pair_to_join(
        self, spans: list[Span], refused: set[tuple[Hashable, Hashable]]
    ) -> tuple[Hashable, Hashable] | None:
        keys = [self._key(each) for each in spans]
        count, pairs = Counter(keys), Counter(itertools.pairwise(keys))
        for (one, other), together in pairs.most_common():
            alone = count[one] + count[other] - 2 * together
            if one != other and together > 1 and alone <= _MOST_LEFT_OVER * together and (one, other) not in refused:
                return one, other
        return None

    def _join(self, spans: list[Span], pair: tuple[Hashable, Hashable]) -> list[Span]:
        joined: list[Span] = []
        for span in spans:
            if joined and (self._key(joined[-1]), self._key(span)) == pair:
                joined[-1] = joined[-1][0], span[1]
            else:
                joined.append(span)
        return joined

    def _with_single_ones_joined(self, spans: list[Span]) -> list[Span]:
        count = Counter(map(self._key, spans))
        joined: list[Span] = []
        for is_single, group in itertools.groupby(spans, lambda each: count[self._key(each)] == 1):
            each = list(group)
            joined += [(each[0][0], each[-1][1])] if is_single else each
        return joined

    def _key(self, span: Span) -> Hashable:
        """What pieces that are compiled once have in common. Of a piece that is too small: the piece itself."""
        first, last = span
        if span not in self._keys:
            key = key_of(Piece.of(self._opened[first], tuple(self.nodes[first:last])))
            self._keys[span] = self._numbers.setdefault(key, len(self._numbers))  # it is compared often
        found = self._keys[span]
        return span if found in self._too_small else found


def _opened_before(nodes: list[torch.fx.Node]) -> Iterator[tuple[torch.fx.Node, ...]]:
    """For each operator, what entered the regions that are open in front of it, outermost first."""
    opened: tuple[torch.fx.Node, ...] = ()
    leaves = set(LEAVES.values())
    for node in nodes:
        yield opened
        if node.target in LEAVES:
            opened = (*opened, node)
        elif node.target in leaves:
            opened = tuple(each for each in opened if each is not node.args[0])


def _narrow_places(nodes: list[torch.fx.Node]) -> list[int]:
    """The positions in front of which the graph may be cut and as few values cross as anywhere near."""
    at = {node: index for index, node in enumerate(nodes)}
    change = [0] * (len(nodes) + 2)
    for node in nodes:
        if node.users:
            change[at[node] + 1] += 1
            change[max(at.get(user, len(nodes)) for user in node.users) + 1] -= 1
    crossing = list(itertools.accumulate(change))
    legal = legal_cuts(nodes)
    places = [each for each in range(1, len(nodes)) if legal[each]]
    return [
        each
        for index, each in enumerate(places)
        if crossing[each]
        <= min(
            crossing[other]
            for other in places[max(0, index - _WINDOW) : index + _WINDOW + 1]
            if abs(other - each) <= _WINDOW
        )
    ]


def key_of(piece: Piece) -> Hashable:
    """All that a compiler sees of a piece: two of one key may run the same compiled code."""
    number = {node: at for at, node in enumerate((*piece.given, *piece.opened, *piece.nodes))}
    memory: dict[object, int] = {}
    given = [
        (_known_of(node), memory.setdefault(memory_of(node.meta.get("example_value")), len(memory)))
        for node in piece.given
    ]
    operators = [_operator_key(node, number) for node in (*piece.opened, *piece.nodes)]
    return tuple(given), tuple(operators), tuple(number[node] for node in piece.made)


def _operator_key(node: torch.fx.Node, number: dict[torch.fx.Node, int]) -> Hashable:
    target: object = node.target if node.op != "get_attr" else _attribute_key(node.meta.get("example_value"))
    return node.op, target, _argument_key(node.args, number), _argument_key(node.kwargs, number)


def _attribute_key(value: object) -> Hashable:
    """Of a function that an operator runs: the operators of its graph. Of anything else: the object itself."""
    if not isinstance(value, torch.fx.GraphModule) or value.meta:
        return id(value)
    nodes = list(value.graph.nodes)
    number = {node: at for at, node in enumerate(nodes)}
    known = tuple(_known_of(node) for node in nodes if node.op == "placeholder")
    return known, tuple(_operator_key(node, number) if node.op != "placeholder" else node.op for node in nodes)


def _known_of(node: torch.fx.Node) -> Hashable:
    """What a compiler knows of a value that a piece is given. Of a tensor that isn't plain: the tensor itself."""
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return type(value), str(value)
    if value.layout != torch.strided or is_wrapper(value):
        return id(value)
    numbers = tuple(map(str, (*value.shape, *value.stride(), value.storage_offset())))
    kind = value.dtype, value.device, isinstance(value, torch.nn.Parameter)
    return kind, numbers, value.requires_grad, value.is_leaf, value.is_conj(), value.is_neg(), value.is_inference()


def _argument_key(argument: object, number: dict[torch.fx.Node, int]) -> Hashable:
    if isinstance(argument, torch.fx.Node):
        return torch.fx.Node, number[argument]
    if isinstance(argument, slice):
        return slice, _argument_key((argument.start, argument.stop, argument.step), number)
    if isinstance(argument, dict):
        return dict, tuple((name, _argument_key(each, number)) for name, each in argument.items())
    if isinstance(argument, (tuple, list)):
        return type(argument), tuple(_argument_key(each, number) for each in argument)
    return (type(argument), repr(argument)) if is_text(argument) else id(argument)
