"""Draws a graph as boxes in layers. Each node lies below the nodes whose results it takes."""

from __future__ import annotations

from dataclasses import dataclass

from dynamo_lite.insight.recorder import GraphRecord, NodeRecord

MOST_NODES = 1500
_WIDTH, _HEIGHT = 160, 38
_ACROSS, _DOWN = 16, 26
"""The distance between boxes, in pixels."""
_MOST_IN_ROW = 6
"""A layer of more boxes takes several rows."""
_MARGIN = 2
_LETTERS = 22
"""The longest label. Longer ones are shortened."""


@dataclass(frozen=True)
class Box:
    """A drawn node. ``x`` and ``y`` are those of its upper left corner."""

    node: NodeRecord
    x: int
    y: int
    width: int = _WIDTH
    height: int = _HEIGHT

    @property
    def label(self) -> str:
        what = self.node.what
        if len(what) <= _LETTERS:
            return what
        if self.node.is_input:  # the end of a path says more than its beginning
            return "…" + what[1 - _LETTERS :]
        return what[: _LETTERS - 1] + "…"

    @property
    def result(self) -> str:
        result = self.node.result
        return result if len(result) <= _LETTERS + 2 else result[: _LETTERS + 1] + "…"


@dataclass(frozen=True)
class Drawing:
    """A drawn graph. ``edges``: paths of SVG. ``left_out``: the number of nodes that are not drawn."""

    boxes: list[Box]
    edges: list[str]
    width: int
    height: int
    left_out: int


def draw(graph: GraphRecord) -> Drawing:
    """Draw the first `MOST_NODES` nodes. Operators are at the left of their row, so that narrow screens show them."""
    nodes = graph.nodes[:MOST_NODES]
    boxes: dict[str, Box] = {}
    top, width = 0, 0
    for layer in _layers(nodes):
        layer.sort(key=lambda node: (node.is_input, _middle_of_inputs(node, boxes)))
        for at in range(0, len(layer), _MOST_IN_ROW):
            row = layer[at : at + _MOST_IN_ROW]
            width = max(width, len(row) * (_WIDTH + _ACROSS) - _ACROSS)
            for column, node in enumerate(row):
                boxes[node.name] = Box(node, column * (_WIDTH + _ACROSS) + _MARGIN, top + _MARGIN)
            top += _HEIGHT + _DOWN
    edges = [_edge(boxes[name], box) for box in boxes.values() for name in box.node.inputs if name in boxes]
    height = max(0, top - _DOWN) + 2 * _MARGIN
    return Drawing(list(boxes.values()), edges, width + 2 * _MARGIN, height, len(graph.nodes) - len(nodes))


def _layers(nodes: list[NodeRecord]) -> list[list[NodeRecord]]:
    """The nodes of each layer, from the top: operators below their inputs, inputs just above their first user."""
    depth: dict[str, int] = {}
    for node in nodes:
        depth[node.name] = 1 + max((depth.get(name, 0) for name in node.inputs), default=0)
    first_use: dict[str, int] = {}
    for node in nodes:
        for name in node.inputs:
            first_use[name] = min(first_use.get(name, depth[node.name]), depth[node.name])
    layers: dict[int, list[NodeRecord]] = {}
    for node in nodes:
        at = first_use.get(node.name, 2) - 1 if node.is_input else depth[node.name]
        layers.setdefault(at, []).append(node)
    return [layers[at] for at in sorted(layers)]


def _middle_of_inputs(node: NodeRecord, boxes: dict[str, Box]) -> float:
    given = [boxes[name].x for name in node.inputs if name in boxes]
    return sum(given) / len(given) if given else 0.0


def _edge(above: Box, below: Box) -> str:
    x, y = above.x + above.width / 2, above.y + above.height
    to_x, to_y = below.x + below.width / 2, below.y
    bend = max(_DOWN / 2, (to_y - y) / 3)
    return f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y:.0f}"
