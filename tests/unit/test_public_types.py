"""The types of the public names, as mypy sees them in a user's program, and what `dir` and `help` show of them."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dynamo_lite as dl

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = textwrap.dedent(
    """
    from collections.abc import Callable
    from typing import Any

    import torch
    import dynamo_lite as dl

    def scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        return x * factor

    class Net(torch.nn.Module):
        extra: int = 0

        @dl.compile(backend="eager")
        def head(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
            return x, 1

    @dl.compile
    def bare(x: torch.Tensor) -> int:
        return 1

    @dl.compile(fullgraph=True)
    def configured(x: torch.Tensor) -> str:
        return ""

    @dl.optimize("eager")
    def optimized(x: torch.Tensor) -> bytes:
        return b""

    @dl.disable
    def disabled(x: torch.Tensor) -> bool:
        return True

    @dl.disable()
    def disabled_with_call(x: torch.Tensor) -> bool:
        return True

    @dl.allow_in_graph
    def allowed(x: torch.Tensor) -> complex:
        return 0j

    x = torch.zeros(2)
    reveal_type(dl.compile(scale))
    reveal_type(dl.compile(Net()))
    reveal_type(dl.compile(dynamic=True)(Net()))
    reveal_type(dl.compile(scale).entries())
    reveal_type(bare)
    reveal_type(configured)
    reveal_type(optimized)
    reveal_type(disabled)
    reveal_type(disabled_with_call)
    reveal_type(allowed)
    reveal_type(Net().head(x))
    reveal_type(Net().head.entries()[0].hits)
    reveal_type(dl.run(bare))
    reveal_type(dl.explain(scale)(x, factor=3.0).result)
    reveal_type(dl.export(scale, x))
    reveal_type(dl.lookup_backend("eager"))
    reveal_type(dl.counters.graphs)
    with dl.enable("eager", threads="current"):
        reveal_type(dl.is_compiling())
    with dl.config.patch(recompile_limit=2):
        dl.mark_dynamic(x, 0, min=2)

    @dl.register_backend
    def own(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        return gm.forward

    @dl.register_backend(name="another")
    def other(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        return gm.forward

    reveal_type(own)
    reveal_type(other)

    bare("no tensor")
    dl.compile(3)
    dl.compile(scale, fullgrph=True)
    dl.compile(scale, mode="fastest")
    with dl.enable("eager", threads="some"):
        pass
    """
)

REVEALED = [
    "CompiledFunction[[x: Tensor, factor: float =], Tensor]",
    "Net",
    "Net",
    "list[CachedEntry]",
    "CompiledFunction[[x: Tensor], int]",
    "CompiledFunction[[x: Tensor], str]",
    "def (x: Tensor) -> bytes",
    "def (x: Tensor) -> bool",
    "def (x: Tensor) -> bool",
    "def (x: Tensor) -> complex",
    "tuple[Tensor, int]",
    "int",
    "def (x: Tensor) -> int",
    "Tensor",
    "tuple[torch.fx.graph_module.GraphModule, list[str]]",
    "def (torch.fx.graph_module.GraphModule, list[Any]) -> def (*Any, **Any) -> Any",
    "int",
    "bool",
    *["def (gm: torch.fx.graph_module.GraphModule, example_inputs: list[Tensor]) -> def (*Any, **Any) -> Any"] * 2,
]
"""What mypy says of each `reveal_type` of the program, in order; short names for builtins and tensors."""

MISTAKES = {
    'bare("no tensor")': "arg-type",
    "dl.compile(3)": "call-overload",
    "dl.compile(scale, fullgrph=True)": "call-overload",
    'dl.compile(scale, mode="fastest")': "call-overload",
    'with dl.enable("eager", threads="some"):': "arg-type",
}
"""Lines of the program that mypy rejects, and the code of its error."""


@pytest.fixture(scope="module")
def messages(tmp_path_factory) -> list[tuple[int, str, str]]:
    """Returns line, severity and text of each message of mypy."""
    pytest.importorskip("mypy")
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    # From the root, so that it shares its cache with the linters: most of its time goes into torch. Never from the
    # folder that a wheel was installed into: mypy refuses to run there.
    command = [sys.executable, "-m", "mypy", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == ""
    found = re.findall(r"program\.py:(\d+): (error|note): (.*)$", done.stdout, re.MULTILINE)
    return [(int(line), severity, text) for line, severity, text in found]


def test_public_names_keep_types(messages):
    revealed = [re.fullmatch('Revealed type is "(.*)"', text) for _, _, text in messages]
    types = [
        re.sub(r"\b(builtins|torch\._tensor|program|dynamo_lite\.callables\.\w+)\.", "", found[1])
        for found in revealed
        if found
    ]
    assert types == REVEALED


def test_mistakes_are_type_errors(messages):
    lines = PROGRAM.splitlines()
    found = {lines[line - 1]: re.search(r"\[([a-z-]+)\]$", text)[1] for line, kind, text in messages if kind == "error"}
    assert found == MISTAKES


def test_the_package_states_that_it_is_typed():
    assert (Path(dl.__file__).parent / "py.typed").is_file()


def test_dir_shows_the_public_names():
    assert dir(dl) == sorted(dl.__all__)
    assert all(hasattr(dl, name) for name in dl.__all__)


@pytest.mark.parametrize("name", dl.__all__)
def test_examples_in_docstrings(name):
    examples = doctest.DocTestFinder(recurse=False).find(getattr(dl, name), name, module=False)
    for example in examples:
        results = doctest.DocTestRunner().run(example)
        assert results.failed == 0


def test_every_function_that_compiles_has_an_example():
    for name in ("compile", "optimize", "enable", "disable", "run", "explain", "export", "mark_dynamic"):
        assert ">>>" in getattr(dl, name).__doc__, name
