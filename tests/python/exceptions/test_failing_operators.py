"""Operators that fail on the data, with handlers, mutated inputs and side effects around them."""

from __future__ import annotations

import contextlib
import sys
import traceback
import warnings

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import Recorder, approximate, check, checked, ints, tensor, with_gradients

pytestmark = pytest.mark.fails_on_data

FAILING = {
    "index": lambda a, i: a[i + 10],
    "index assignment": lambda a, i: a.__setitem__(i + 10, 1.0),
    "gather": lambda a, i: a.gather(0, (i + 10)[None]),
    "scatter_": lambda a, i: a.scatter_(0, (i + 10)[None], 1.0),
    "index_select": lambda a, i: a.index_select(0, i + 10),
    "index_add_": lambda a, i: a.index_add_(0, i + 10, a * 2),
    "take": lambda a, i: a.take(i + 100),
    "embedding": lambda a, i: F.embedding(i + 10, a),
    "cross_entropy": lambda a, i: F.cross_entropy(a, i + 10),
    "one_hot": lambda a, i: F.one_hot(i + 3, 2),
    "inv": lambda a, i: torch.linalg.inv(a * 0),
    "cholesky": lambda a, i: torch.linalg.cholesky(-a.abs()),
    "solve": lambda a, i: torch.linalg.solve(a * 0, a),
    "bernoulli": lambda a, i: torch.bernoulli(a.abs() + 5),
    "multinomial": lambda a, i: torch.multinomial(-a.abs() - 1, 1),
    "normal": lambda a, i: torch.normal(a, -a.abs() - 1),
    "division of integers": lambda a, i: i // (i * 0),
}
OVERLAPPING = {
    "iadd": lambda a: a.__iadd__(a.t()),
    "part": lambda a: a[1:].add_(a[:-1]),
    "copy_": lambda a: a[1:].copy_(a[:-1]),
    "setitem": lambda a: a.__setitem__(slice(1, None), a[:-1]),
    "transposed": lambda a: a.copy_(a.t()),
    "out": lambda a: torch.add(a, a.t(), out=a),
    "addcmul_": lambda a: a.addcmul_(a.t(), a),
}
ERRORS = (RuntimeError, IndexError)


@pytest.mark.parametrize("operator", FAILING.values(), ids=FAILING)
def test_failure_after_a_write(operator):
    def fn(a, i, log):
        a.mul_(2)
        log.append("written")
        try:
            found = operator(a, i)
        except ERRORS as error:
            log.append(type(error).__name__)
            found = a + 1
        log.append("done")
        return found

    check(fn, tensor(3, 3), torch.arange(3), [], graphs=None, breaks=None)


@dl.disable
def refuses():
    raise ValueError("no")


def test_failure_after_an_error_that_was_handled():
    def fn(a, at):
        seen = []
        try:
            refuses()
        except ValueError as error:
            seen.append(str(error))
        try:
            return a[at], seen
        except IndexError:
            return a * 2, seen

    others = [(tensor(3), torch.tensor([index])) for index in (7, 1, 9, 9)]
    check(fn, tensor(3), torch.tensor([2]), graphs=1, breaks=1, others=others, all_graphs=1)


@checked([tensor(3), tensor(2)], torch.tensor([7]), graphs=None, breaks=None)
def test_failure_after_a_write_into_a_list(tensors, at):
    torch._foreach_add_(tensors, 1.0)
    try:
        return tensors[0][at] * 2
    except IndexError:
        return tensors[0] + 0


@pytest.mark.parametrize("name", ["index", "scatter_", "inv"])
def test_failure_before_a_write(name):
    operator = FAILING[name]

    def fn(a, i, log):
        try:
            log.append("tries")
            operator(a * 1, i)
            a.mul_(2)
        except ERRORS as error:
            log.append(type(error).__name__)
        a.add_(1)
        log.append("done")
        return a * 2

    check(fn, tensor(3, 3), torch.arange(3), [], graphs=None, breaks=None)


@pytest.mark.parametrize("operator", OVERLAPPING.values(), ids=OVERLAPPING)
def test_write_into_memory_read_through_another_view(operator):
    def fn(a, log):
        a.mul_(2)
        log.append("written")
        try:
            operator(a)
        except RuntimeError as error:
            log.append(str(error))
        return a + 1

    check(fn, tensor(3, 3), [], graphs=2, breaks=1)


@checked(tensor(3, 3), [], graphs=None, breaks=None)
def test_write_into_memory_read_through_another_view_unhandled(a, log):
    log.append(1)
    a += a.t()
    return a


def test_handler_of_a_caller_and_of_a_context():
    @contextlib.contextmanager
    def noted(log):
        try:
            yield
        except ERRORS as error:
            log.append(type(error).__name__)

    def inner(a, i):
        a.mul_(2)
        return a[i]

    def fn(a, i, log):
        with noted(log):
            inner(a, i)
        try:
            return inner(a, i)
        except IndexError:
            return a + 1

    check(fn, tensor(3, 3), ints(2) + 10, [], graphs=None, breaks=None)


@checked(tensor(3, 3), torch.arange(3))
@approximate
def test_without_a_handler_there_is_one_graph(a, i):
    a.mul_(2)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), contextlib.nullcontext():
        y = a[i]
    a[i] = 1.0
    return F.cross_entropy(a, i) + y.sum()


@checked(tensor(3, 3), torch.arange(3), [])
def test_write_undone_on_failure_is_in_one_graph(a, i, state):
    state.append("busy")
    try:
        a.mul_(2)
        a[i] = 1.0
        return a[i] + 1
    finally:
        state.pop()


class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return kind is not None and issubclass(kind, IndexError)


class QuietOrNone(Quiet):
    def __exit__(self, kind, error, traceback):
        return super().__exit__(kind, error, traceback) or None


def test_a_class_suppresses_an_error_by_an_or_expression():
    def fn(a, i):
        a.mul_(2)
        with QuietOrNone():
            a[i] = 1.0
            a.add_(1)
        return a + 1

    for start in (0, 10):
        check(fn, tensor(3, 3), torch.arange(3) + start, graphs=None, breaks=None)


def test_a_class_of_the_program_suppresses_an_error():
    def fn(a, i):
        a.mul_(2)
        with contextlib.ExitStack() as stack, Quiet():
            stack.enter_context(contextlib.nullcontext())
            a[i] = 1.0
            a.add_(1)
        return a + 1

    for start in (0, 10):
        check(fn, tensor(3, 3), torch.arange(3) + start, graphs=None, breaks=None)


class Missing(NotImplementedError):
    pass


@checked(tensor(3, 3), torch.arange(3))
def test_handlers_of_other_errors_keep_one_graph(a, i):
    for _ in range(2):
        try:
            a.index_copy_(0, i, a * 2)
        except NotImplementedError:
            a[i] = a * 2
        try:
            a[i] = a + 1
        except KeyError:
            return a
        except Missing as error:
            return error
    return a + 1


@checked(tensor(3, 3), torch.arange(3) + 10, [], graphs=None, breaks=None)
def test_handlers_for_other_errors_before_one_that_catches(a, i, log):
    a.mul_(2)
    try:
        a[i] = 1.0
    except NotImplementedError:
        log.append("none")
    except LookupError as error:
        log.append(str(error))
    return a + 1


@checked(tensor(4, 4), tensor(4, 4))
def test_memory_shared_as_a_whole_keeps_one_graph(a, b):
    a[0].copy_(a[1])
    a[:2] += a[2:]
    a.add_(a)
    a[:, 0] = b[0]
    torch._foreach_add_([a[0], a[1]], [a[2], a[3]])
    return a


def _warned(fn, *args):
    """Returns the outcome of a call under filters that turn warnings into errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return fn(*args)
        except Warning as warning:
            return type(warning), str(warning)


@pytest.mark.parametrize("handled", [False, True])
def test_warnings_that_are_errors(handled):
    """An operator warns while it is traced: the program's filters make an error of it, which is the program's."""

    def plain(x, seen):
        seen.append("before")
        y = torch.tensor(x + 1)
        seen.append("after")
        return y

    def handles(x, seen):
        try:
            return plain(x, seen)
        except UserWarning as warning:
            seen.append(str(warning)[:11])
            return x * 2

    fn = handles if handled else plain
    seen, again = [], []
    expected = _warned(fn, torch.ones(2), seen)
    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        again.clear()
        found = _warned(compiled, torch.ones(2), again)
        assert torch.equal(found, expected) if handled else found == expected
        assert again == seen
    assert not torch.is_warn_always_enabled()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`~True` says nothing before CPython 3.12")
def test_warning_about_known_values():
    def fn(x, flag):
        return x + ~flag

    assert _warned(dl.compile(fn, backend="eager"), torch.ones(2), True) == _warned(fn, torch.ones(2), True)


# -- numbers that a tensor does not take ------------------------------------------------------------------------------

WRITES = {
    "product into bools": lambda x, mask, c: mask.mul_(2),
    "operator": lambda x, mask, c: mask.__imul__(1.5),
    "complex number": lambda x, mask, c: x.mul_(1j),
    "complex tensor": lambda x, mask, c: x.sub_(c),
    "sum of products": lambda x, mask, c: x.addcmul_(c, c),
    "fill": lambda x, mask, c: x.fill_(1j),
}


@pytest.mark.parametrize("name", WRITES)
def test_numbers_that_a_tensor_does_not_take(name):
    write = WRITES[name]

    def fn(x, mask, c):
        try:
            write(x, mask, c)
        except RuntimeError as error:
            return x + 1, str(error)
        return x

    def arguments():
        return torch.ones(2), torch.ones(2, dtype=torch.bool), torch.ones(2) * 1j

    expected, found = fn(*arguments()), dl.compile(fn, backend="eager")(*arguments())
    assert torch.equal(expected[0], found[0]) and expected[1] == found[1]


# -- writes that are put back ------------------------------------------------------------------------------------------


def _handled(a, i, log):
    a.mul_(2)
    try:
        found = a[i] + 1
        a.add_(1)
    except IndexError as error:
        log.append(str(error))
        return a * 3
    return found


def test_small_written_tensors_are_restored_after_a_failure():
    rows = torch.arange(3)
    check(_handled, tensor(3, 3), rows, [], others=[(tensor(3, 3), rows + 5, [])])


def test_written_tensors_are_restored_under_aot_eager():
    compiled = dl.compile(_handled, backend="aot_eager")
    for rows in (torch.arange(3), torch.arange(3) + 1, torch.arange(3)):
        found = []
        for each in (_handled, compiled):
            a, log = tensor(3, 3), []
            found.append([each(a, rows, log), a])
            assert len(log) == int(rows.max() > 2)
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_tensors_saved_for_backward_before_are_unchanged(backend):
    def fn(a, i, log):
        try:
            found = a[i] + 1
            a.add_(1)
        except IndexError:
            log.append("failed")
            return a * 3
        return found

    compiled = dl.compile(fn, backend=backend)
    a, w, log = tensor(3, 3), tensor(3, 3, seed=1, grad=True), []
    compiled(a, torch.arange(3), log)
    saved = (w * a).sum()
    compiled(a, torch.arange(3) + 5, log)
    saved.backward()
    assert torch.equal(w.grad, a) and log == ["failed"]


def test_written_views_are_restored_after_a_failure():
    def fn(a, row, i):
        row.mul_(2)
        try:
            return a[i] + row
        except IndexError:
            return a - row

    def given(i):
        a = tensor(3, 3)
        return a, a[1], torch.tensor(i)

    check(fn, *given(1), graphs=None, others=[given(7)])


def test_large_written_tensors_are_not_copied():
    large = torch.ones(600, 600)
    check(_handled, large, torch.arange(3), [], graphs=None, breaks=1, others=[(large + 1, torch.arange(3) + 700, [])])


def test_tensors_with_autograd_history_are_not_restored():
    def fn(x, i, log):
        return _handled(x * 1, i, log), _handled(x.detach(), i, log)

    def outer(x, i, log):
        y = x.sin()
        return fn(y, i, log), y

    check(with_gradients(outer), tensor(3, 3, grad=True), torch.arange(3), [], graphs=None)


class _Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Tanh())
        self.scale = torch.nn.Linear(6, 2)
        self.seen = torch.nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, x):
        hidden = self.body(x)
        self.seen += 1
        posterior = torch.distributions.Normal(hidden[:, :2], self.scale(hidden))
        return posterior.rsample(), posterior.entropy().sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_statistics_beside_conditions_on_data(backend):
    torch.manual_seed(0)
    eager, traced = _Encoder(), _Encoder()
    with torch.no_grad():
        eager.scale.bias.fill_(5.0)
    traced.load_state_dict(eager.state_dict())
    before = dl.counters.graphs, dl.counters.graph_breaks
    compiled = dl.compile(traced, backend=backend)
    for scale in (1.0, 1.0, 1e4, 2.0):  # a scale below zero is not one of a normal distribution
        found = []
        for each in (eager, compiled):
            torch.manual_seed(1)
            try:
                found.append([*each(scale * tensor(5, 4)), torch.get_rng_state()])
            except ValueError as error:
                found.append([str(error), torch.get_rng_state()])
        torch.testing.assert_close(*found)
        torch.testing.assert_close(eager.state_dict(), traced.state_dict())
    assert (dl.counters.graphs - before[0], dl.counters.graph_breaks - before[1]) == (1, 0)


@pytest.mark.parametrize("name", ["index", "multinomial"])
def test_an_unhandled_failure_has_its_line(name):
    operator = FAILING[name]

    def inner(a, i):
        b = a + 1
        c = operator(b, i)
        return c * 2

    def fn(a, i):
        y = inner(a, i)
        return y + 1

    check(fn, tensor(3, 3), ints(2) + 10, graphs=None)


class Swallowing:
    """Records the exception with which its block is left, and suppresses it."""

    log: list = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.log.append(error[0])
        return True


def after_a_try(a, i):
    try:
        dl.graph_break()
    except IndexError:
        return "caught"
    a.scatter_(0, (i + 10)[None], 1.0)
    return a * 2


def after_a_handler(a, i):
    found = []
    try:
        found.append(a.item())
    except (RuntimeError, IndexError) as error:
        found.append(type(error).__name__)
    found.append(a.scatter_(0, (i + 10)[None], 1.0))
    return found


def after_a_block(a, i):
    with Swallowing():
        dl.graph_break()
    a.index_add_(0, i + 10, a * 2)
    return a * 2


def after_a_context(a, i):
    with torch.no_grad():
        dl.graph_break()
        a.add_(1)
    a.index_add_(0, i + 10, a * 2)
    return a * 2


@pytest.mark.parametrize("fn", [after_a_try, after_a_handler, after_a_block, after_a_context])
def test_an_operator_fails_after_a_block_with_a_break(fn):
    found = []
    for each in (fn, dl.compile(fn, backend="eager")):
        for _ in range(2):
            Swallowing.log.clear()
            a = tensor(3, 3)
            with pytest.raises((RuntimeError, IndexError)) as raised:
                each(a, ints(2))
            error = raised.type, str(raised.value).partition(" is out")[0]
            found.append((*error, a.tolist(), [*Swallowing.log], torch.is_grad_enabled()))
    assert found[:2] == found[2:]


def test_a_mutation_after_a_context_with_a_break_needs_no_copy():
    """The buffer is too large to be copied before each call. No copy is needed, as no block suppresses an error."""

    def fn(x, i, buffer):
        with torch.autocast("cpu", enabled=False):
            dl.graph_break()
            y = x.gather(0, i[None])
        buffer.add_(y.sum())
        return y * 2

    check(fn, tensor(3, 3), ints(3) % 3, torch.zeros(1 << 19), graphs=1, breaks=1)


def catches(x, index, log, *more, scale=2.0, **named):
    log.append("before")
    try:
        y = x.index_select(0, index) * scale
    except (IndexError, RuntimeError):
        log.append("caught")
        y = x * 0
    return y, more, named


def in_a_callee(x, index, log):
    def inner(at):
        log.append(total)
        return x.index_select(0, at)

    total = 3
    try:
        return inner(index)
    except IndexError:
        total = 4
        return inner(index * 0) + total


@pytest.mark.parametrize("fn, more", [(catches, {}), (catches, {"scale": 3.0, "extra": 1}), (in_a_callee, {})])
def test_operators_fail_at_the_line_of_the_program(fn, more):
    compiled = dl.compile(fn, backend=Recorder())
    x = torch.arange(4.0)
    for at in (1, 9, 2, 9):
        seen = []
        for each in (fn, compiled):
            log = []
            try:
                result = each(x, torch.tensor([at]), log, **more)
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)
                result = type(error), [(frame.name, frame.lineno) for frame in frames[1:]]
            seen.append((str(result), log))
        assert seen[0] == seen[1]
