"""Errors and break reasons: each says what happened, where in the user's source, and what to do."""

from __future__ import annotations

import functools
import inspect
import math
import random
import re

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite import _C
from dynamo_lite.insight import break_reasons as reasons
from dynamo_lite.insight.break_reason import TABLE, BreakReason
from programs import tensor


def refused(fn, *args):
    """Returns the `Unsupported` that ``fn`` raises under ``fullgraph``."""
    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(*args)
    return caught.value


def only_reason(fn, *args):
    """Returns the same error, after checking that ``fn`` runs without ``fullgraph``."""
    dl.compile(fn, backend="eager")(*args)
    dl.reset()
    return refused(fn, *args)


def line_of(fn, text):
    lines, first = inspect.getsourcelines(fn)
    return next(first + i for i, line in enumerate(lines) if text in line)


def test_exceptions_derive_from_one_base():
    assert issubclass(dl.exc.Unsupported, RuntimeError)
    assert issubclass(dl.exc.RecompileLimitExceeded, RuntimeError)
    assert issubclass(dl.exc.BackendCompilerFailed, RuntimeError)
    assert issubclass(dl.exc.InternalError, RuntimeError)
    assert issubclass(dl.exc.InvalidBackend, ValueError)


def marked(x):
    doubled = x * 2
    value = doubled.sum() + float(print("ä", doubled) or 3) + 1
    return value


def test_the_expression_that_breaks_is_marked():
    line = line_of(marked, "print")
    assert str(refused(marked, tensor(2))) == (
        "DL0202: print() has a side effect that can't be captured\n\n"
        "Where (innermost last):\n"
        f"  {__file__}:{line} in marked\n"
        '    value = doubled.sum() + float(print("ä", doubled) or 3) + 1\n'
        "                                  ^^^^^^^^^^^^^^^^^^^\n\n"
        "Hint: move it out of the compiled function, or put it under `if not dl.is_compiling():`\n"
        "More: dynamo-lite explain DL0202"
    )


def failing_backend(gm, example_inputs):
    raise ValueError("this backend fails")


@pytest.mark.parametrize(
    "fn, settings, error",
    [
        (marked, {"backend": "eager", "fullgraph": True}, dl.exc.Unsupported),
        (torch.relu, {"backend": failing_backend}, dl.exc.BackendCompilerFailed),
    ],
)
def test_an_error_comes_from_the_line_of_the_user(fn, settings, error):
    def raised():
        with pytest.raises(error) as caught:
            dl.compile(lambda x: fn(x), **settings)(tensor(2))
        return [entry.path.name if hasattr(entry.path, "name") else entry.path for entry in caught.traceback]

    assert raised() == ["test_exc.py"]
    with dl.config.patch(verbose=True):
        assert "frame_compiler.py" in raised()


def test_message_has_what_stack_source_and_hint():
    def callee(x):
        return x.untyped_storage().nbytes()

    def fn(x):
        y = x + 1
        return y * callee(y)

    error = only_reason(fn, tensor(2))
    text = str(error)
    assert error.reason.what() in text
    assert error.reason.hint() in text
    assert re.search(rf"{re.escape(__file__)}:{line_of(fn, 'callee(y)')} in (\S+\.)?fn\n", text)
    assert re.search(rf"{re.escape(__file__)}:{line_of(callee, 'nbytes')} in (\S+\.)?callee\n", text)
    assert "return x.untyped_storage().nbytes()" in text
    assert [frame.name.split(".")[-1] for frame in error.user_stack][-2:] == ["fn", "callee"]
    assert error.user_stack[-1].lineno == line_of(callee, "nbytes")


def test_user_graph_break_with_a_message():
    def fn(x):
        y = x + 1
        dl.graph_break("for the test")
        return y * 2

    assert "for the test" in str(only_reason(fn, tensor(2)))


def test_inline_limit_breaks_by_name():
    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1)

    with dl.config.patch(inline_limit=5):
        error = refused(down, tensor(2), 20)
        assert isinstance(error.reason, reasons.InlineLimit) and "inline_limit" in str(error)
        assert torch.equal(dl.compile(down, backend="eager")(tensor(2), 20), down(tensor(2), 20))


def test_limit_of_traced_instructions():
    def fn(x):
        for _ in range(1000):
            x = x + 1
        return x

    with dl.config.patch(unroll_limit=200):
        error = refused(fn, tensor(2))
    assert isinstance(error.reason, reasons.TraceLimit) and "unroll_limit" in str(error)


def test_first_import_of_a_module():
    def fn(x):
        y = x + 1
        import this_module_is_loaded_by_no_other_test as module

        return y * module.__name__.count("_")

    assert isinstance(refused(fn, tensor(2)).reason, reasons.FirstImport)
    with pytest.raises(ModuleNotFoundError):
        dl.compile(fn, backend="eager")(tensor(2))


def test_raise_of_a_pre_existing_exception():
    error = ValueError("made before")

    def fn(x):
        y = x + 1
        try:
            raise error
        except ValueError as caught:
            return y + len(str(caught))

    assert isinstance(only_reason(fn, tensor(2)).reason, reasons.RaisedExistingException)


def test_effect_in_a_function_that_an_operator_runs():
    seen = []

    def body(x):
        seen.append(1)
        return x + 1

    def fn(x):
        return torch.cond(x.sum() > 0, body, body, (x,))

    error = refused(fn, tensor(2))  # torch refuses it in eager too
    assert isinstance(error.reason, reasons.EffectInOperatorFunction)


def test_nested_too_deep_for_guards():
    class Node:
        def __init__(self, rest):
            self.rest = rest

    def length(x, node):
        count = 0
        while node is not None:
            node = node.rest
            count += 1
        return x + count

    head = None
    for _ in range(1500):
        head = Node(head)
    error = only_reason(length, tensor(2), head)
    assert isinstance(error.reason, reasons.NestedTooDeep)
    assert torch.equal(dl.compile(length, backend="eager")(tensor(2), head), length(tensor(2), head))


def test_loop_too_long_to_unroll_still_runs():
    def fn(x):
        n = 0
        for i in range(100_000):
            n += i
        return x + n

    with dl.config.patch(unroll_limit=5_000):
        assert torch.equal(dl.compile(fn, backend="eager")(tensor(2)), fn(tensor(2)))


def test_generator_dropped_inside_of_a_block():
    log = []

    def values(x):
        try:
            yield x * 2
        finally:
            log.append("left")

    def fn(x):
        return next(values(x + 1)) - 1

    assert isinstance(only_reason(fn, tensor(2)).reason, reasons.DroppedGenerator)
    assert log == ["left"]


def test_import_of_a_name_that_is_not_there():
    def fn(x):
        y = x + 1
        try:
            from math import no_such_function as function
        except ImportError:
            return y
        return function(y)

    reason = only_reason(fn, tensor(2)).reason
    assert isinstance(reason, reasons.MissingNameInModule) and reason.name == "no_such_function"


def test_identity_of_equal_constants():
    limit = 1000

    def fn(x, n):
        return x + 1 if n is limit else x - 1

    reason = only_reason(fn, tensor(2), int("1000")).reason
    assert isinstance(reason, reasons.IdentityOfConstants) and reason.value == "1000"


def test_throw_into_a_generator_that_delegates():
    def inner(x):
        try:
            yield x
        except ValueError:
            yield x * 2

    def outer(x):
        yield from inner(x)

    def fn(x):
        items = outer(x + 1)
        next(items)
        return items.throw(ValueError) - 1

    assert isinstance(only_reason(fn, tensor(2)).reason, reasons.ThrowIntoDelegate)


def test_check_of_data_beside_a_mutation():
    def fn(x):
        torch._check_tensor_all(x < 100)
        return x.add_(1) * 2

    large = tensor(600, 600)  # too much to be copied, so that it could be put back
    assert isinstance(only_reason(fn, large).reason, reasons.FailureAndWrite)


@pytest.mark.parametrize("code", sorted(TABLE))
def test_each_reason_says_what_and_what_to_do(code):
    kind = TABLE[code]
    fields = [each for each in kind.fields if not hasattr(kind, each)]
    reason = kind(**{each: f"<{each}>" for each in fields})
    assert re.fullmatch(r"DL\d{4}", code) and reason.code == code
    assert len(reason.what()) > 10 and len(reason.hint()) > 10
    assert all(f"<{each}>" in reason.what() for each in fields)
    assert reason == kind(*(f"<{each}>" for each in fields)) and hash(reason) == hash(kind(*vars(reason).values()))
    with pytest.raises(AttributeError, match="frozen"):
        reason.code = "DL9999"
    with pytest.raises(TypeError, match=f"{kind.__name__} has the fields"):
        kind(unknown=1)
    message = str(dl.exc.Unsupported(reason))
    assert message.startswith(f"{code}: {reason.what()}")
    assert message.endswith(f"Hint: {reason.hint()}\nMore: dynamo-lite explain {code}")


def test_a_row_without_a_required_field_is_refused():
    with pytest.raises(TypeError, match="numbers_matter"):

        class WithoutNumbers(BreakReason, code="DL9901"):
            happened = fix = "it happened"

    with pytest.raises(AssertionError, match="is both"):

        class TakesACode(BreakReason, code="DL0101", numbers_matter=False):
            happened = fix = "it happened"


def test_internal_errors_are_reported(monkeypatch):
    """A bug of ours must not make frames silently run in eager."""
    from dynamo_lite.records.graph import GraphBuilder

    def buggy(self, *args, **kwargs):
        raise AttributeError("a bug of ours")

    monkeypatch.setattr(GraphBuilder, "call", buggy)
    with pytest.raises(dl.exc.InternalError, match="a bug of ours"):
        dl.compile(lambda x: x + 1, backend="eager")(tensor(2))
    monkeypatch.undo()
    dl.reset()
    assert torch.equal(dl.compile(lambda x: x + 1, backend="eager")(tensor(2)), tensor(2) + 1)


@pytest.fixture
def bug(monkeypatch):
    """Injects a bug into the translation of each operator."""
    from dynamo_lite.records.graph import GraphBuilder

    def buggy(self, *args, **kwargs):
        raise AttributeError("a bug of ours")

    monkeypatch.setattr(GraphBuilder, "call", buggy)
    return monkeypatch


def has_operators(x):
    return x + 1


def calls_it_thrice(x):
    return has_operators(x), has_operators(x), has_operators(x)


def test_frame_of_enable_that_a_bug_keeps_from_being_translated_runs_in_eager(bug, caplog):
    caplog.set_level("INFO", "dynamo_lite.breaks")
    x, results = tensor(2), []
    with dl.config.patch(internal_errors="default"):
        with pytest.warns(RuntimeWarning, match="has_operators.*bug of dynamo_lite.*a bug of ours") as caught:
            for _ in range(3):
                with dl.enable("eager", threads="current"):
                    results.append(has_operators(x))
    assert all(torch.equal(each, x + 1) for each in results)
    assert len(caught) == dl.counters.internal_errors == 3  # each block has entries of its own
    assert dl.counters.graphs == 0
    assert "AttributeError: a bug of ours" in caplog.text  # with the traceback
    assert torch.is_grad_enabled() and torch._C._len_torch_dispatch_stack() == 0


def test_each_frame_warns_once_of_a_bug(bug):
    with dl.config.patch(internal_errors="warn"):
        compiled = dl.compile(calls_it_thrice, backend="eager")
        with pytest.warns(RuntimeWarning, match="bug of dynamo_lite") as caught:
            for _ in range(2):
                assert torch.equal(compiled(tensor(2))[2], tensor(2) + 1)
    assert len(caught) == dl.counters.internal_errors == 2  # its own and that of the function that it calls


def test_effects_before_a_bug_happen_once(bug):
    """A translation has no effects before its entry runs."""
    seen = []

    def program(x, log):
        log.append(1)
        seen.append(x.shape[0])
        return x + 1

    log = []
    with dl.config.patch(internal_errors="warn"), pytest.warns(RuntimeWarning, match="bug of dynamo_lite"):
        dl.compile(program, backend="eager")(tensor(2), log)
    assert log == [1] and seen == [tensor(2).shape[0]]


def test_bug_after_a_graph_break_runs_the_rest_in_eager(monkeypatch):
    from dynamo_lite.records.graph import GraphBuilder

    call = GraphBuilder.call

    def buggy(self, *args, **kwargs):
        if any(getattr(each, "__name__", each) == "cos" for each in args):
            raise AttributeError("a bug of ours")
        return call(self, *args, **kwargs)

    def program(x):
        with torch.no_grad():
            y = x + 1
            dl.graph_break()
            return y.cos(), torch.is_grad_enabled()

    monkeypatch.setattr(GraphBuilder, "call", buggy)
    with dl.config.patch(internal_errors="warn"), pytest.warns(RuntimeWarning, match="program.*bug of dynamo_lite"):
        result, grad = dl.compile(program, backend="eager")(tensor(2))
    assert torch.equal(result, (tensor(2) + 1).cos()) and not grad and torch.is_grad_enabled()
    assert dl.counters.graphs == 1


@pytest.mark.parametrize("setting", ["default", "raise", "warn"])
def test_frames_that_must_be_captured_raise_internal_errors(bug, setting):
    with dl.config.patch(internal_errors=setting):
        with pytest.raises(dl.exc.InternalError, match="a bug of ours"):
            dl.compile(has_operators, backend="eager", fullgraph=True)(tensor(2))
        with pytest.raises(dl.exc.InternalError, match="a bug of ours"):
            dl.export(has_operators, tensor(2))
        with pytest.raises(dl.exc.InternalError, match="a bug of ours"):
            dl.explain(has_operators)(tensor(2))
        if setting != "warn":
            with pytest.raises(dl.exc.InternalError, match="a bug of ours"):
                dl.compile(has_operators, backend="eager")(tensor(2))
    assert dl.counters.internal_errors == 0


def test_backends_failure_is_no_internal_error():
    def backend(gm, example_inputs):
        raise dl.exc.InternalError("not ours")

    with dl.config.patch(internal_errors="warn"), pytest.raises(dl.exc.BackendCompilerFailed, match="not ours"):
        dl.compile(has_operators, backend=backend)(tensor(2))


def test_settings_of_internal_errors():
    with pytest.raises(ValueError, match="'default', 'raise' or 'warn', not 'ignore'"):
        dl.config.internal_errors = "ignore"
    with pytest.raises(TypeError, match="a string"):
        dl.config.internal_errors = True


def looks_at_its_variables(x):
    y = x + 1
    assert set(locals()) == {"x", "y"}
    return y * 2


def test_skipped_frame_is_reported_as_a_break():
    x = torch.ones(2)
    explanation = dl.explain(looks_at_its_variables)(x)
    (broken,) = explanation.breaks
    assert isinstance(broken.reason, reasons.FrameLeftAlone) and isinstance(broken.reason.cause, reasons.UnknownCall)
    assert "looks_at_its_variables runs without a graph" in str(broken.reason)
    assert broken.lineno == looks_at_its_variables.__code__.co_firstlineno + 2
    assert torch.equal(dl.compile(looks_at_its_variables, backend="eager")(x), (x + 1) * 2)
    assert (dl.counters.graph_breaks, dl.counters.broken_translations) == (1, 2)


def writes_into_shared_memory(x, y):
    x.add_(1)
    return y * 2


def test_fullgraph_raises_for_a_frame_that_would_be_skipped():
    x = torch.ones(4)
    with pytest.raises(dl.exc.Unsupported, match="runs without a graph.*writes into tensors that share memory"):
        dl.compile(writes_into_shared_memory, backend="eager", fullgraph=True)(x, x[1:])
    assert torch.equal(x, torch.ones(4))


@pytest.mark.parametrize("context", [torch.no_grad, lambda: torch.autocast("cpu"), torch.inference_mode])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_that_fails_on_the_data_leaves_torchs_state_alone(context, backend):
    def fn(x, index):
        with context():
            return x.index_select(0, index) * 2

    x = torch.ones(4)
    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    compiled(x, torch.tensor([1]))
    before = _C.GlobalState()
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([9]))
        assert not before.differences(_C.GlobalState())
    with torch.autocast("cpu"), torch.no_grad():
        inside = _C.GlobalState()
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([9]))
        assert not inside.differences(_C.GlobalState())
    assert not before.differences(_C.GlobalState())


@pytest.mark.parametrize(
    "fn, code",
    [
        (lambda x: x * math.sqrt(x.sum()), "DL0213"),
        (lambda x: x * random.random(), "DL0212"),
        (lambda x: x * functools.lru_cache(lambda n: n)(2), "DL0211"),
        (lambda x: torch.FloatTensor(x.numpy()) + 1, "DL0216"),
    ],
    ids=["math", "random", "cache", "constructor"],
)
def test_reasons_of_library_calls(fn, code):
    random.seed(0)
    assert only_reason(fn, torch.ones(1)).reason.code == code
