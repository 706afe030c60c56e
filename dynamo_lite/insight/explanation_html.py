"""An explanation as HTML, for notebooks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from .counters import counted
from .observer import GraphBreak, Observer
from .page_addresses import where_to_read
from .source_lines import source_line

_ROWS = 50
"""The most rows of a list."""
_STYLE = """\
.dl-explanation { font-family: system-ui, sans-serif; font-size: 14px; line-height: 1.45; overflow-wrap: anywhere; }
.dl-explanation summary { cursor: pointer; } .dl-explanation p { margin: .3em 0; }
.dl-explanation pre, .dl-explanation code { font-family: ui-monospace, monospace; font-size: 12.5px; }
.dl-explanation pre { overflow-x: auto; margin: .3em 0; padding: .4em .6em; background: #8881; }
.dl-explanation .dl-break { border-left: 4px solid #c62828; padding: .1em .7em; margin: .5em 0; background: #c6282814; }
.dl-explanation small { opacity: .75; }"""


def as_html(
    found: Observer,
    operators: Sequence[Sequence[object]],
    break_times: Iterable[int],
    following: Iterable[list[GraphBreak]],
) -> str:
    """The totals; the breaks with their lines; graphs, recompilations and guards folded away. The arguments are as in
    `Explanation`."""
    counts = {"graph": len(found.graphs), "break": len(found.breaks), "operator": sum(map(len, operators))}
    times = ", ".join(f"{stage} {seconds * 1e3:.1f} ms" for stage, seconds in found.times.items())
    parts = [
        f"<p><b>{', '.join(counted(count, word) for word, count in counts.items())}</b><br><small>{times}</small></p>"
    ]
    if not found.graphs:
        parts.append(_folded("nothing was captured: the call ran in eager", _items(found.given_up), is_open=True))
    parts += [*map(_break, found.breaks[:_ROWS], break_times, following)]
    if len(found.breaks) > _ROWS:
        parts.append(f"<p>… {len(found.breaks) - _ROWS} more</p>")
    for at, (graph, nodes) in enumerate(zip(found.graphs, operators), 1):
        code = f"<pre>{_escaped(graph.code.strip())}</pre>"
        parts.append(_folded(f"graph {at}: {counted(len(nodes), 'operator')}", code))
    if found.recompiles:
        parts.append(_folded(counted(len(found.recompiles), "recompilation"), _items(map(str, found.recompiles))))
    if found.guards:
        took = f", checked in {sum(found.lookups) * 1e6:.2f} µs" if found.lookups else ""
        parts.append(_folded(counted(len(found.guards), "guard") + took, _items(found.guards)))
    return f'<div class="dl-explanation"><style>{_STYLE}</style>{"".join(parts)}</div>'


def _break(each: GraphBreak, times: int, following: list[GraphBreak]) -> str:
    rest = "".join(
        f"<br><small>from this follows {then.reason.code}: {with_code(then.reason.what())}</small>"
        for then in following
    )
    again = "" if times == 1 else f" <small>({times} times)</small>"
    line = _escaped(source_line(each.place)).replace(chr(10) + "    ", chr(10))
    return (
        f'<div class="dl-break"><p><b>{each.reason.code}</b> {with_code(each.reason.what())}{again}<br>'
        f"<small>{_escaped(each.at())}</small></p><pre>{line}</pre>"
        f"<p>Hint: {with_code(each.hint)}<br><small>{_escaped(where_to_read(each.reason.code))}</small>{rest}</p></div>"
    )


def _folded(title: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{_escaped(title)}</summary>{content}</details>"


def _items(texts: Iterable[str]) -> str:
    rows = [f"<li>{with_code(each)}</li>" for each in texts]
    more = f"<li>… {len(rows) - _ROWS} more</li>" if len(rows) > _ROWS else ""
    return f"<ul>{''.join(rows[:_ROWS])}{more}</ul>"


def with_code(text: str) -> str:
    """A sentence as HTML, in which what stands between backticks is code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", _escaped(text))


def _escaped(text: str) -> str:
    return html.escape(text)
