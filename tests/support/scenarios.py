"""Programs that call a function and change the world between its calls: run eagerly and compiled, and held against
each other."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import random
import warnings
from collections.abc import Callable
from typing import Any

import torch

import dynamo_lite as dl
from equality import Difference, Pairing
from programs import Recorder, of_tests, torch_modes, user_lines

Wrap = Callable[[Any], Any]


class Seen(list[Any]):
    """The values that a program observed, in order."""

    def note(self, *values: Any) -> None:
        """Records values in their present state."""
        self.extend(map(copy.deepcopy, values))

    def call(self, fn: Callable[..., Any], *args: Any, **named: Any) -> None:
        """Records the result of a call, or its exception and where it was raised."""
        try:
            self.note(fn(*args, **named))
        except Exception as error:  # whatever the program raises is part of what it saw
            chain = [type(each).__name__ for each in (error, error.__cause__, error.__context__)]
            self.append((chain, str(error), [line for line in user_lines(error) if line[0] != "scenarios.py"]))


def _observe(program: Callable[[Wrap, Seen], None], wrap: Wrap) -> dict[str, Any]:
    torch.manual_seed(0)
    random.seed(0)
    seen, output = Seen(), io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(output):
        warnings.simplefilter("always")
        program(wrap, seen)
    said = [
        (each.category, str(each.message), os.path.basename(each.filename), each.lineno)
        for each in caught
        if of_tests(each.filename) or "torch" not in each.filename
    ]
    return {"seen": list(seen), "output": output.getvalue(), "warnings": said, "modes": torch_modes()}


def hold_beside_eager(program: Callable[[Wrap, Seen], None], graphs: int | None = None) -> None:
    """Runs a program with its functions uncompiled and compiled, and compares. ``graphs``: at least one, by default."""
    eager = _observe(program, lambda fn: fn)
    recorder = Recorder()
    dl.reset()
    compiled = _observe(program, lambda fn: dl.compile(fn, backend=recorder))
    dl.reset()
    Pairing().compare(eager["seen"], compiled["seen"], "seen")
    for what in ("output", "warnings", "modes"):
        if eager[what] != compiled[what]:
            raise Difference(f"{what}: {eager[what]!r} in eager, {compiled[what]!r} compiled")
    assert recorder.graphs if graphs is None else len(recorder.graphs) == graphs, f"{len(recorder.graphs)} graphs"


def scenario(program: Callable[[Wrap, Seen], None]) -> Callable[[], None]:
    """Make a test of a program that is given what compiles, and where to put what it sees."""

    def test() -> None:
        hold_beside_eager(program)

    test.__name__ = program.__name__
    test.__doc__ = program.__doc__
    return test
