"""A graph-capturing JIT for PyTorch: ``dl.compile(fn)`` captures the operators that ``fn`` calls as graphs.

Each public name's docstring says what it does; the README has a first example.
"""

from .runtime.compatibility import check as _check

_check()

from . import config, exc, logs  # noqa: E402
from .api import (  # noqa: E402
    Explanation,
    allow_in_graph,
    compile,
    disable,
    disallow_in_graph,
    enable,
    explain,
    graph_break,
    is_compiling,
    optimize,
    reset,
    run,
    takeover,
    wait,
)
from .backends import list_backends, lookup_backend, register_backend  # noqa: E402
from .callables.cached_entries import entries  # noqa: E402
from .controls.stance import set_stance  # noqa: E402
from .export.program import export  # noqa: E402
from .insight.counters import counters  # noqa: E402
from .report.session import report  # noqa: E402
from .runtime.version import __version__ as __version__  # noqa: E402
from .shapes.marks import mark_dynamic, mark_static  # noqa: E402

__all__ = [
    "Explanation",
    "allow_in_graph",
    "compile",
    "config",
    "counters",
    "disable",
    "disallow_in_graph",
    "enable",
    "entries",
    "exc",
    "explain",
    "export",
    "graph_break",
    "is_compiling",
    "list_backends",
    "logs",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "optimize",
    "register_backend",
    "report",
    "reset",
    "run",
    "set_stance",
    "takeover",
    "wait",
]


def __dir__() -> list[str]:
    """The public names, for ``dir`` and completion."""
    return sorted(__all__)
