"""torch.compile's controls beyond tracing are obeyed, or named in one warning."""

from __future__ import annotations

import contextvars
import warnings
import zlib

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight import notices
from programs import Recorder, tensor
from shared_programs import breaks, waves

torch._dynamo = pytest.importorskip("torch._dynamo")
config = torch._dynamo.config


@pytest.fixture(autouse=True)
def as_it_was():
    said = set(notices.said)
    yield
    notices.said.clear()
    notices.said.update(said)
    torch.compiler.set_stance("default")


# -- the stance, and reset -----------------------------------------------------------------------------------------


def test_set_stance_of_torchs_holds_at_hits_and_misses():
    recorder, x = Recorder(), tensor(3)
    compiled = dl.compile(waves, backend=recorder)
    compiled(x)
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(compiled(x), waves(x))
        compiled(tensor(4))

    @torch.compiler.set_stance("force_eager")
    def decorated():
        return compiled(x)

    decorated()
    assert recorder.runs == 1
    torch.compiler.set_stance("eager_on_recompile")
    compiled(x)
    compiled(x.double())
    assert recorder.runs == 2 and len(recorder.graphs) == 1
    torch.compiler.set_stance("fail_on_recompile")
    with pytest.raises(dl.exc.RecompileForbidden, match="dtype torch.float64"):
        compiled(x.double())
    with dl.set_stance("eager_on_recompile"):  # ours goes before
        compiled(x.double())
    torch.compiler.set_stance("default")
    compiled(x.double())
    assert len(recorder.graphs) == 2


def test_a_stance_set_past_us_holds_at_misses():
    """Whoever imported the function before anything was compiled here, or calls that of ``torch._dynamo``."""
    recorder, x = Recorder(), tensor(3)
    compiled = dl.compile(waves, backend=recorder)
    with torch._dynamo.set_stance("force_eager"):
        compiled(x)
        dl.set_stance("default")
    assert not recorder.graphs
    compiled(x)
    assert recorder.graphs


def test_reset_of_torchs_is_ours_too():
    recorder, x = Recorder(), tensor(3)
    compiled = dl.compile(waves, backend=recorder)
    compiled(x)
    torch.compiler.reset()
    compiled(x)
    assert len(recorder.graphs) == 2


# -- marks -------------------------------------------------------------------------------------------------------------


def test_the_reason_of_disable_is_shown():
    @torch.compiler.disable(reason="it writes to a socket")
    def sends(x):
        return x + 1

    (found,) = dl.explain(lambda x: sends(x * 2) * 3)(tensor(3)).breaks
    assert found.reason.what().endswith("sends is marked to be left out of graphs: it writes to a socket")
    disabled = dl.disable(waves)
    (plain,) = dl.explain(lambda x: disabled(x * 2) * 3)(tensor(3)).breaks
    assert plain.reason.what().endswith("waves is marked to be left out of graphs")


def test_substitute_in_graph():
    calls = []

    @torch.compiler.substitute_in_graph(zlib.adler32, skip_signature_check=True)
    def adler32(data):
        calls.append(1)
        return len(data)

    def fn(x, data):
        return x * zlib.adler32(data)

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(compiled(tensor(3), b"four"), tensor(3) * 4)
    assert calls


@pytest.mark.parametrize("strict", [False, True])
def test_mark_unbacked_is_symbolic_from_the_first(strict):
    recorder = Recorder()
    compiled = dl.compile(lambda x: x * x.shape[0], backend=recorder)
    x = tensor(4, 3)
    torch._dynamo.decorators.mark_unbacked(x, 0, strict=strict)
    for size in (4, 5, 6):
        given = x if size == 4 else tensor(size, 3)
        assert torch.equal(compiled(given), given * size)
    assert len(recorder.graphs) == 1


def test_is_exporting():
    def fn(x):
        return x + 1 if torch.compiler.is_exporting() else x * 2

    assert torch.equal(dl.compile(fn, backend="eager", fullgraph=True)(tensor(3)), tensor(3) * 2)
    assert torch.equal(dl.export(fn, tensor(3))[0](tensor(3)), tensor(3) + 1)


# -- error_on_graph_break ----------------------------------------------------------------------------------------------


def test_error_on_graph_break_in_blocks():
    decorators = torch._dynamo

    def allowed(x):
        with decorators.error_on_graph_break(True):
            y = x + 1
        dl.graph_break()
        return y * 2

    def forbidden(x):
        with decorators.error_on_graph_break(True):
            return breaks(x)

    def allowed_within(x):
        with decorators.error_on_graph_break(True):
            with decorators.error_on_graph_break(False):
                return breaks(x)

    for program in (allowed, allowed_within):
        assert torch.equal(dl.compile(program, backend="eager")(tensor(3)), breaks(tensor(3)))
    with pytest.raises(dl.exc.Unsupported, match="dl.graph_break"):
        dl.compile(forbidden, backend="eager")(tensor(3))


def test_error_on_graph_break_of_functions_and_around_the_call():
    strict = torch._dynamo.error_on_graph_break(True)(breaks)
    lenient = torch._dynamo.error_on_graph_break(False)(breaks)
    expected = breaks(breaks(tensor(3)))
    with pytest.raises(dl.exc.Unsupported):
        dl.compile(lambda x: strict(x) + 1, backend="eager")(tensor(3))
    found = dl.compile(lambda x: breaks(lenient(x)), backend="eager")(tensor(3))
    assert torch.equal(found, expected)
    dl.reset()
    compiled = dl.compile(breaks, backend="eager")
    with torch._dynamo.error_on_graph_break(True), pytest.raises(dl.exc.Unsupported):
        compiled(tensor(3))
    assert torch.equal(compiled(tensor(3)), breaks(tensor(3)))


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["capture_scalar_outputs", "capture_dynamic_output_shape_ops"])
def test_capture_of_data_dependent_numbers(setting):
    def fn(x):
        return torch.full((3,), 2.0) * x.sum().item()

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    with config.patch({setting: True}):
        assert torch.equal(compiled(tensor(3)), fn(tensor(3)))


@pytest.mark.parametrize("name", ["recompile_limit", "cache_size_limit"])
def test_recompile_limit(name):
    recorder = Recorder()
    compiled = dl.compile(waves, backend=recorder, dynamic=False)
    with config.patch({name: 2}), pytest.warns(RuntimeWarning, match="has 2 compiled versions"):
        for size in range(2, 8):
            compiled(tensor(size))
    assert len(recorder.graphs) == 2
    with config.patch({name: 2}), dl.config.patch(recompile_limit=3):  # ours goes before
        compiled = dl.compile(breaks, backend=recorder, dynamic=False)
        with pytest.warns(RuntimeWarning, match="has 3 compiled versions"):
            for size in range(2, 8):
                compiled(tensor(size))


def test_fail_on_recompile_limit_hit_and_error_on_recompile():
    compiled = dl.compile(waves, backend="eager", dynamic=False)
    with config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        compiled(tensor(3))
        with pytest.raises(dl.exc.RecompileLimitExceeded, match="fail_on_recompile_limit_hit"):
            compiled(tensor(4))
    with config.patch(error_on_recompile=True):
        again = dl.compile(breaks, backend="eager", dynamic=False)
        again(tensor(3))
        with pytest.raises(dl.exc.RecompileForbidden):
            again(tensor(4))


def test_disable_compiles_nothing():
    recorder = Recorder()
    compiled = dl.compile(waves, backend=recorder, fullgraph=True)
    with config.patch(disable=True):
        assert torch.equal(compiled(tensor(3)), waves(tensor(3)))
    assert not recorder.graphs
    compiled(tensor(3))
    assert recorder.graphs


@pytest.mark.parametrize("setting, graphs", [("assume_static_by_default", 1), ("automatic_dynamic_shapes", 4), ("", 2)])
def test_dynamic_by_settings(setting, graphs):
    recorder = Recorder()
    compiled = dl.compile(waves, backend=recorder)
    with config.patch({setting: False} if setting else {}):
        for size in (3, 4, 5, 6):
            compiled(tensor(size))
    assert len(recorder.graphs) == graphs


@pytest.mark.parametrize(
    "setting, value, words",
    [
        ("compiled_autograd", True, "compiled with the graph"),
        ("specialize_int", True, "dynamic=False"),
        ("reorderable_logging_functions", {print}, "is_compiling"),
    ],
)
def test_settings_without_effect_are_named_once(setting, value, words):
    with config.patch({setting: value}):
        with pytest.warns(RuntimeWarning, match=f"{setting} has no effect in dynamo_lite.*{words}"):
            dl.compile(waves, backend="eager")(tensor(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dl.compile(breaks, backend="eager")(tensor(3))


def fails(gm, example_inputs):
    raise NotImplementedError("no such operator")


def test_suppress_errors_of_a_backend():
    def fn(x):
        y = waves(x)
        print(end="")
        return y + 1

    compiled = dl.compile(fn, backend=fails)
    with pytest.raises(dl.exc.BackendCompilerFailed):
        compiled(tensor(3))
    with config.patch(suppress_errors=True):
        with pytest.warns(
            RuntimeWarning, match="fn runs in eager from now on, by .*suppress_errors.*no such operator"
        ) as told:
            assert torch.equal(compiled(tensor(3)), fn(tensor(3)))
        assert told[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(compiled(tensor(4)), fn(tensor(4)))
        with pytest.raises(dl.exc.BackendCompilerFailed):
            dl.compile(waves, backend=fails, fullgraph=True)(tensor(3))
    dl.reset()
    with pytest.raises(dl.exc.BackendCompilerFailed):
        compiled(tensor(3))


def test_suppress_errors_of_a_translation(monkeypatch):
    def wrong(*args):
        raise LookupError("a bug of ours")

    compiled = dl.compile(breaks, backend="eager")
    with config.patch(suppress_errors=True), monkeypatch.context() as patched:
        patched.setattr("dynamo_lite.compiler.frame_compiler.translate", wrong)
        with pytest.warns(RuntimeWarning, match="breaks runs in eager.*a bug of ours"):
            assert torch.equal(compiled(tensor(3)), breaks(tensor(3)))


def test_suppress_errors_of_the_rest_after_a_break():
    """The first part is compiled, the rest is not. The program's blocks are unchanged."""

    def fails_late(gm, example_inputs):
        if any(node.target is torch.cos for node in gm.graph.nodes):
            raise NotImplementedError("no cosine")
        return gm.forward

    def fn(x, log):
        try:
            y = x.sin()
            log.append(len(log))
            dl.graph_break()
            return torch.cos(y)
        finally:
            log.append("left")

    with config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="no cosine"):
        log = []
        assert torch.equal(dl.compile(fn, backend=fails_late)(tensor(3), log), tensor(3).sin().cos())
    assert log == [0, "left"]


def test_suppress_errors_leaves_those_of_the_program():
    def fn(x, names):
        return x * names["b"]

    with config.patch(suppress_errors=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError, match="b"):
            dl.compile(fn, backend="eager")(tensor(3), {})
        with pytest.raises(RuntimeError, match="size of tensor"):
            dl.compile(lambda x: x + tensor(5), backend="eager")(tensor(3))


def test_stances_without_effect_are_named_once():
    for words, arguments in {
        "skip_guard_eval_unsafe": dict(skip_guard_eval_unsafe=True),
        "force_backend": dict(force_backend="eager"),
        "eager_then_compile": dict(stance="eager_then_compile"),
    }.items():
        dl.reset()
        with torch.compiler.set_stance(**arguments), pytest.warns(RuntimeWarning, match=words):
            dl.compile(lambda x: x + 1, backend="eager")(tensor(3))


def test_context_variables_of_the_program_are_left_as_they_were():
    context = contextvars.Context()
    compiled = dl.compile(lambda x: x + 1, backend="eager")
    context.run(compiled, tensor(3))
    assert not len(context), [each.name for each in context]
