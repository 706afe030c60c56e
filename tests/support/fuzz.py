"""Programs made by a grammar, each run eager and compiled.

``python tests/support/fuzz.py 10000`` runs so many, from a random seed.

A failure is shrunk and printed as a program. ``--seed`` repeats a run; ``--keep`` names a file that always has the
program under way in it, for one that takes the process down.
"""

from __future__ import annotations

import argparse
import linecache
import logging
import os
import pathlib
import random
import sys
import types
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import dynamo_lite as dl
import grammar
from programs import HERE, check, recompiling, tensor, watching

FILENAME = os.path.join(HERE, "made_program.py")
MODULE = "made_program"
ALIASES = ("none", "same", "view")

Totals = Counter[str]
"""How many programs ran, and in how many there was a graph, a break, an exception."""


def load(made: grammar.Made) -> types.ModuleType:
    """Loads the program as a module."""
    module = types.ModuleType(MODULE)
    module.__file__ = FILENAME
    sys.modules[MODULE] = module
    linecache.cache[FILENAME] = (len(made.source), None, made.source.splitlines(True), FILENAME)
    exec(compile(made.source, FILENAME, "exec"), module.__dict__)
    return module


def arguments(module: types.ModuleType, alias: str, grad: bool, n: int) -> dict[str, Any]:
    """Values for the parameters of programs. ``alias``: what the second tensor shares with the first."""
    a = tensor(2, 2, seed=n, grad=grad)
    b = {"none": lambda: tensor(2, 2, seed=n + 10), "same": lambda: a, "view": lambda: a.detach()[:1]}[alias]()
    items = [a, n, tensor(2, seed=3)]
    thing = module.Thing(b, n)
    thing.extra = items if alias == "same" else [*items]
    return {"a": a, "b": b, "n": n, "items": items, "table": {"a": b, "n": n}, "thing": thing}


def run(made: grammar.Made, alias: str, grad: bool, totals: Totals | None = None) -> None:
    """Hold the program compiled against the program as it is: twice with the same inputs, once with others that share
    memory another way."""
    module = load(made)
    names = [name for name in ("LOG", "COUNT", "STATE") if hasattr(module, name)]
    ways = (alias, ALIASES[ALIASES.index(alias) - 1])
    given, other = (
        tuple(arguments(module, way, grad, n)[name] for name in made.parameters) for n, way in enumerate(ways, 1)
    )
    dl.counters.graph_breaks = 0
    recorder = check(
        recompiling(watching(*[(module, name) for name in names])(module.fn)),
        *given,
        others=[other],
        graphs=None,
    )
    if totals is not None:
        totals["programs"] += 1
        totals["with graphs"] += bool(recorder.graphs)
        totals["with breaks"] += bool(dl.counters.graph_breaks)
        totals["whole"] += len(recorder.graphs) > 0 and not dl.counters.graph_breaks


def searching(count: int, totals: Totals, keep: str | None = None, **changes: Any) -> Any:
    """Returns a function that runs ``count`` programs. It raises for the smallest one that fails."""
    logging.getLogger("torch._subclasses.fake_tensor").setLevel("CRITICAL")  # programs may raise

    # No Phase.explain: it traces the program, and traced frames are left alone.
    chosen = {"phases": (Phase.generate, Phase.shrink), "print_blob": False, **changes}

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck), **chosen)
    @given(made=grammar.programs(), alias=st.sampled_from(ALIASES), grad=st.booleans())
    def search(made: grammar.Made, alias: str, grad: bool) -> None:
        if keep is not None:
            pathlib.Path(keep).write_text(f"{made.source}\n# alias: {alias}, grad: {grad}\n")
        try:
            run(made, alias, grad, totals)
        except Exception as error:
            error.add_note(f"The program:\n\n{made.source}")
            raise

    return search


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="programs to run")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--keep", help="a file for the program under way")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    totals: Totals = Counter()
    try:
        seed(options.seed)(searching(options.count, totals, options.keep))()
    finally:
        print(", ".join(f"{count} {what}" for what, count in totals.items()))


if __name__ == "__main__":
    main()
