"""A graph as boxes in layers: each node below all whose results it takes."""

from __future__ import annotations

from dataclasses import dataclass

from dynamo_lite.insight.recorder import GraphRecord, NodeRecord

MOST_NODES = 1500
_WIDTH, _HEIGHT = 156, 38
_ACROSS, _DOWN = 16, 26
"""Room between boxes, in pixels."""
_IN_ROW = 6
"""A layer of more boxes takes several rows."""
_LETTERS = 21


@dataclass(frozen=True)
class Box:
    """``x``, ``y``: of its upper left corner."""

    node: NodeRecord
    x: float
    y: float
    width: int = _WIDTH
    height: int = _HEIGHT

    @property
    def label(self) -> str:
        return _shortened(self.node.what)

    @property
    def result(self) -> str:
        return _shortened(self.node.result)


@dataclass(frozen=True)
class Drawing:
    """``edges``: paths of SVG. ``left_out``: how many nodes are not drawn."""

    boxes: list[Box]
    edges: list[str]
    width: float
    height: float
    left_out: int


def _shortened(text: str) -> str:
    """Its end, which says more of a place than its beginning."""
    return text if len(text) <= _LETTERS else "…" + text[1 - _LETTERS :]


def draw(graph: GraphRecord) -> Drawing:
    """The first `MOST_NODES` nodes, laid out."""
    nodes = graph.nodes[:MOST_NODES]
    boxes: dict[str, Box] = {}
    top, width = 0.0, 0.0
    for layer in _layers(nodes):
        layer.sort(key=lambda node: _middle_of_inputs(node, boxes))
        for at in range(0, len(layer), _IN_ROW):
            row = layer[at : at + _IN_ROW]
            wide = len(row) * (_WIDTH + _ACROSS) - _ACROSS
            width = max(width, wide)
            for column, node in enumerate(row):
                boxes[node.name] = Box(node, column * (_WIDTH + _ACROSS) - wide / 2, top)
            top += _HEIGHT + _DOWN
    placed = [Box(box.node, box.x + width / 2 + 2, box.y + 2) for box in boxes.values()]
    by_name = {box.node.name: box for box in placed}
    edges = [
        _edge(by_name[name], box) for box in placed for name in box.node.inputs if name in by_name
    ]  # of a node that isn't drawn there is none
    return Drawing(placed, edges, width + 4, max(0.0, top - _DOWN) + 4, len(graph.nodes) - len(nodes))


def _layers(nodes: list[NodeRecord]) -> list[list[NodeRecord]]:
    """Operators below what they take; inputs just above what takes them first."""
    depth: dict[str, int] = {}
    for node in nodes:
        depth[node.name] = 1 + max((depth.get(name, 0) for name in node.inputs), default=0)
    first_use: dict[str, int] = {}
    for node in nodes:
        for name in node.inputs:
            first_use[name] = min(first_use.get(name, depth[node.name]), depth[node.name])
    layers: dict[int, list[NodeRecord]] = {}
    for node in nodes:
        is_input = node.kind in ("input", "parameter")
        at = first_use.get(node.name, 2) - 1 if is_input else depth[node.name]
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
