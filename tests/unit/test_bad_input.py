"""Bad input raises one clear sentence at once. It names the argument, the expected value and the given one."""

from __future__ import annotations

import traceback
import warnings

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight.program_files import OURS


def add(x, y=1):
    return x + y


def two(x, y):
    return x * y


def relu(x):
    return x.relu()


def backend(gm, example_inputs):
    return gm.forward


def tensor():
    return torch.ones(2, 3)


def patched(**changes):
    with dl.config.patch(**changes):
        pass


TYPE_ERRORS = [
    ("a backend's name must be a string, not int (3)", lambda: dl.register_backend(backend, name=3)),
    ("a backend's name must be a string, not int (3)", lambda: dl.register_backend(name=3)),
    ("a backend must be a callable, not str ('eager')", lambda: dl.register_backend("eager")),
    ("dl.config.recompile_limit must be an integer, not 'many'", lambda: patched(recompile_limit="many")),
    ("dl.config.inline_limit must be an integer, not True", lambda: setattr(dl.config, "inline_limit", True)),
    ("dl.config.enable_allowance must be a number of seconds, not '1'", lambda: patched(enable_allowance="1")),
    (
        "dl.config.capture_scalar_outputs must be True or False, not 1",
        lambda: setattr(dl.config, "capture_scalar_outputs", 1),
    ),
    ("dynamic must be True or False, not 'x'", lambda: dl.export(add, tensor(), dynamic="x")),
    ("aten_graph must be True or False, not 1", lambda: dl.export(add, tensor(), aten_graph=1)),
    (
        "dl.export takes the arguments one by one, dl.export(fn, *args), not all in one tuple; with...",
        lambda: dl.export(torch.relu, (tensor(),)),
    ),
    ("dl.export takes the arguments one by one...", lambda: dl.export(torch.nn.Linear(3, 3), (tensor(),))),
    ("dl.export takes the arguments one by one...", lambda: dl.export(add, (tensor(),))),
    ("dl.export takes the arguments one by one...", lambda: dl.export(two, (tensor(), tensor()))),
    ("dl.allow_in_graph takes a callable, not int (3)", lambda: dl.allow_in_graph(3)),
    ("dl.disallow_in_graph takes a callable, not str ('a')", lambda: dl.disallow_in_graph("a")),
    ("dl.disable takes a callable, not int (3)", lambda: dl.disable(3)),
    ("timeout must be a number of seconds or None, not 'x'", lambda: dl.wait("x")),
    ("dl.graph_break takes a message, a string, not int (3)", lambda: dl.graph_break(3)),
    (
        "dl.compile takes a function or an nn.Module, not the name of a backend: write dl.compile(backend='eager')",
        lambda: dl.compile("eager"),
    ),
    (
        "dl.compile takes a function or an nn.Module, not RecursiveScriptModule, which torch.jit has compiled: pass "
        "the nn.Module that it was made from",
        lambda: dl.compile(torch.jit.script(torch.nn.Linear(2, 2)), backend="eager"),
    ),
    (
        "a backend is called with a graph and example inputs, and relu(x) doesn't take both; to decorate a function, "
        "write @dl.optimize(), with parentheses",
        lambda: dl.optimize(relu),
    ),
    (
        "dl.optimize takes a backend, not 'two': to decorate it, write @dl.optimize(), with parentheses",
        lambda: dl.optimize(two)(tensor()),
    ),
    (
        "a backend is called with a graph and example inputs, and relu(x) doesn't take both",
        lambda: dl.compile(add, backend=relu),
    ),
    ("dl.report takes the folder to write into, not int (5)", lambda: dl.report(5)),
    (
        "dl.graph_break takes a message, a string, not int (3)",
        lambda: dl.compile(lambda x: dl.graph_break(3), backend="eager")(tensor()),
    ),
    ("dl.explain takes a callable, not int (3)", lambda: dl.explain(3)),
    ("dl.export takes a callable, not int (3)", lambda: dl.export(3)),
    ("a dimension must be an integer, not bool (True)", lambda: dl.mark_dynamic(tensor(), True)),
    ("a dimension must be an integer, not bool (False)", lambda: dl.mark_static(tensor(), [0, False])),
    ("min and max must be integers or None, not bool (True)", lambda: dl.mark_dynamic(tensor(), 0, max=True)),
]
VALUE_ERRORS = [
    (
        "dl.report takes the folder to write into, not an empty name; '.' is the current folder",
        lambda: dl.report(""),
    ),
    (
        "no mode 'reduce-overhed'; did you mean 'reduce-overhead'? There are: ...",
        lambda: dl.compile(add, mode="reduce-overhed"),
    ),
    ("a backend's name must not be empty", lambda: dl.register_backend(backend, name="")),
    ("dl.config.enable_allowance must be at least 0, not nan", lambda: patched(enable_allowance=float("nan"))),
    ("dl.config.recompile_limit must be at least 0, not -1", lambda: patched(recompile_limit=-1)),
]
ATTRIBUTE_ERRORS = [
    (
        "dl.config has no setting 'recompile_limt'; did you mean 'recompile_limit'? There are: background, ...",
        lambda: setattr(dl.config, "recompile_limt", 3),
    ),
    (
        "dl.config has no setting 'recompile_limt'; did you mean 'recompile_limit'?...",
        lambda: patched(recompile_limt=3),
    ),
    (
        "dl.config has no setting 'cache_size_limit'; did you mean 'recompile_limit'?...",
        lambda: dl.config.cache_size_limit,
    ),
    (
        "dl.config has no setting 'suppress_errors'; did you mean 'internal_errors'?...",
        lambda: patched(suppress_errors=True),
    ),
    ("dl.config has no setting 'zzz'; there are: background, capture_scalar_outputs, ...", lambda: dl.config.zzz),
]
CASES = [
    *((TypeError, *case) for case in TYPE_ERRORS),
    *((ValueError, *case) for case in VALUE_ERRORS),
    *((AttributeError, *case) for case in ATTRIBUTE_ERRORS),
]


@pytest.mark.parametrize("kind, sentence, call", CASES, ids=[sentence for _, sentence, _ in CASES])
def test_bad_input(kind, sentence, call):
    backends, settings = dl.list_backends(), dl.config.values()
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert caught.type is kind and "\n" not in said
    if sentence.endswith("..."):
        said = said[: len(sentence) - 3] + "..."
    assert said == sentence
    assert dl.list_backends() == backends and dl.config.values() == settings
    assert len(frames_of_ours(caught.value)) <= 2


def frames_of_ours(error):
    """The functions of the package in an error's traceback."""
    return [each.name for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith(OURS)]


WRONG_CALLS = [
    lambda: dl.compile(5),
    lambda: dl.compile(add, backend="egaer"),
    lambda: dl.compile(backend="egaer")(add),
    lambda: dl.compile(add, mode="reduce-overhed"),
    lambda: dl.optimize("egaer"),
    lambda: dl.enable("egaer"),
    lambda: dl.enable("eager", threads="some"),
    lambda: dl.explain(5),
]


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_the_programs_line_is_the_last(call):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert not frames_of_ours(caught.value)
    with dl.config.patch(verbose=True), pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert len(frames_of_ours(caught.value)) > 1


def test_an_error_of_the_programs_own_code_keeps_its_frames():
    class Settings(dict):
        def get(self, name, default=None):
            raise ValueError(f"no setting {name}")

    with pytest.raises(ValueError, match="no setting") as caught:
        dl.compile(add, options=Settings(epilogue_fusion=True))
    assert [each.name for each in traceback.extract_tb(caught.value.__traceback__)][-1] == "get"


_CELL_WITH_INSTANCE = """
class Made:
    def __call__(self, gm, example_inputs):
        return gm.forward
made = Made()
"""


def test_a_backend_of_a_notebook_cell_can_be_registered_again():
    cell = "def rerun_cell(gm, example_inputs):\n    return gm.forward\n"
    namespace = {"__name__": "__main__"}
    for _ in range(2):
        exec(cell, namespace)
        dl.register_backend(namespace["rerun_cell"])
        assert dl.lookup_backend("rerun_cell") is namespace["rerun_cell"]
    for cell in ("made = lambda gm, example_inputs: gm.forward", _CELL_WITH_INSTANCE):
        for _ in range(2):
            exec(cell, namespace)
            dl.register_backend(namespace["made"], name=cell)
            assert dl.lookup_backend(cell) is namespace["made"]
    with pytest.raises(ValueError, match="there is already a backend 'rerun_cell': pass another name"):
        dl.register_backend(backend, name="rerun_cell")


def test_a_takeover_decorates_functions():
    doubled = torch.compile(lambda x: x * 2, backend="eager")

    @dl.takeover()
    def main(depth=1):
        if depth:
            main(depth - 1)
        return doubled(tensor())

    before = dl.counters.graphs
    assert torch.equal(main(), tensor() * 2) and torch.equal(main(), tensor() * 2)
    assert dl.counters.graphs > before


def test_a_block_with_one_wrong_setting_sets_none():
    with pytest.raises(TypeError), dl.config.patch(inline_limit=3, recompile_limit=None):
        pass
    assert dl.config.inline_limit == 60


def test_a_program_that_takes_a_tuple_is_exported():
    gm, _ = dl.export(lambda pair: pair[0] + pair[1], (tensor(), tensor()))
    assert torch.equal(gm((tensor(), tensor())), tensor() * 2)
    with pytest.raises(dl.exc.Unsupported, match="print"):
        dl.export(lambda pair: print(pair[0].sum()), (tensor(),))


def test_the_limit_under_fullgraph_is_an_error_and_no_promise_of_eager():
    @dl.compile(backend="eager", fullgraph=True)
    def scaled(x, n):
        return x * n

    with dl.config.patch(recompile_limit=1), warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled(tensor(), "2".isdigit())
        with pytest.raises(dl.exc.RecompileLimitExceeded, match="fullgraph=True forbids eager") as caught:
            scaled(tensor().double(), True)
    assert "run eager from now on" not in str(caught.value) and frames_of_ours(caught.value) == []
    assert "dtype" in str(caught.value) or "float32" in str(caught.value)


def test_a_forbidden_compilation_is_raised_from_the_programs_line():
    compiled = dl.compile(lambda x: x + 1, backend="eager")
    with dl.set_stance("fail_on_recompile"), pytest.raises(dl.exc.RecompileForbidden) as caught:
        compiled(tensor())
    assert frames_of_ours(caught.value) == []


def test_an_interrupt_of_a_compilation_is_raised_from_the_programs_line():
    def interrupted(gm, example_inputs):
        try:
            raise ValueError("of the backend")
        except ValueError:
            raise KeyboardInterrupt  # noqa: B904 (as an interrupt comes)

    def waits(x):
        return x + 1

    line = waits.__code__.co_firstlineno
    with pytest.raises(KeyboardInterrupt) as caught:
        dl.compile(waits, backend=interrupted)(tensor())
    shown = "".join(traceback.format_exception(caught.value))
    assert frames_of_ours(caught.value) == [] and "of the backend" not in shown
    place = f"test_an_interrupt_of_a_compilation_is_raised_from_the_programs_line.<locals>.waits ({__file__}:{line})"
    assert caught.value.__notes__ == [f"{place} was being compiled"]
    with dl.config.patch(verbose=True), pytest.raises(KeyboardInterrupt) as caught:
        dl.compile(waits, backend=interrupted)(tensor())
    assert len(frames_of_ours(caught.value)) > 1


def test_an_explanation_that_was_not_called_names_its_function():
    assert "explain(add)" in repr(dl.explain(add))


def test_running_what_was_not_compiled():
    with pytest.raises(TypeError, match=r"^dl.run takes what dl.compile returned, not int \(5\)$") as caught:
        dl.run(5)
    assert frames_of_ours(caught.value) == []


def generates(x):
    yield x + 1


async def awaits(x):
    return x + 1


class Generates(torch.nn.Module):
    def forward(self, x):
        yield x + 1


@pytest.mark.parametrize(
    "fn", [generates, awaits, Generates().forward, Generates()], ids=["generator", "coroutine", "method", "module"]
)
def test_what_runs_later_is_never_one_graph(fn, caplog):
    for call in (
        lambda: dl.compile(fn, fullgraph=True),
        lambda: dl.optimize("eager", fullgraph=True)(fn),
        lambda: dl.explain(fn),
        lambda: dl.export(fn, tensor()),
    ):
        with pytest.raises(dl.exc.Unsupported, match="(?s)DL0805.*runs later.*compile the functions that"):
            call()
    assert caplog.text == ""
    dl.compile(fn, backend="eager")
    assert "runs in eager: its body runs later" in caplog.text
