"""Stands in for dynamo_lite when the programs themselves are put to the test.

``DL_REFERENCE=torch`` runs them under ``torch.compile``, ``DL_REFERENCE=eager`` runs them twice as they are. Results
and side effects must agree either way; numbers of graphs are only reported, to the file that ``DL_REFERENCE_REPORT``
names.
"""

from __future__ import annotations

import collections
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

MODE = os.environ.get("DL_REFERENCE", "")
REPORT = os.environ.get("DL_REFERENCE_REPORT", "")
# These ask for dynamo_lite's own names and files, not only for what a program does.
NOT_FOR_REFERENCE = [
    "backends/*",
    "csrc/*",
    "export/*",
    "lifetimes/test_leaks.py",
    "models/*",
    "process/test_threads.py",
    "python/opcodes/test_opcodes.py",
    "unit/*",
]

if MODE not in ("", "torch", "eager"):
    raise RuntimeError(f"DL_REFERENCE={MODE!r} is neither 'torch' nor 'eager'")


class _Counters:
    graph_breaks = broken_translations = 0
    break_reasons: collections.Counter[str] = collections.Counter()

    def reset(self) -> None:
        """Does nothing, because nothing is counted."""


counters = _Counters()


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _same(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def _false() -> bool:
    return False


def compile(fn: Any, *, backend: Any, fullgraph: bool = False) -> Any:
    if MODE == "torch":
        return torch.compile(fn, backend=backend, fullgraph=fullgraph, dynamic=False)
    return fn


if MODE == "torch":
    import torch._dynamo

    torch._dynamo.config.cache_size_limit = 64
    graph_break = torch._dynamo.graph_break
    disable = torch._dynamo.disable
    allow_in_graph = torch._dynamo.allow_in_graph
    disallow_in_graph = torch._dynamo.disallow_in_graph
    is_compiling = torch.compiler.is_compiling
    lookup_backend = torch._dynamo.lookup_backend
    reset = torch._dynamo.reset
else:
    graph_break = lookup_backend = reset = _nothing
    disable = allow_in_graph = disallow_in_graph = _same
    is_compiling = _false


_reported: set[str] = set()


def report(name: str, line: str) -> None:
    """Adds a line to the report, if one is requested."""
    name = name.split("-")[0]
    if name in _reported:
        return
    _reported.add(name)
    if REPORT:
        with open(REPORT, "a") as file:
            print(name, line, file=file)
    elif MODE:
        print(name, line, file=sys.stderr)
