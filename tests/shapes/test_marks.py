"""``mark_dynamic`` and ``mark_static``: the mark is obeyed, or one error says why it can't be and where."""

from __future__ import annotations

import inspect

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, tensor
from sweeps import sweep


def marked(*shape, dim=0, **options):
    x = tensor(*shape)
    dl.mark_dynamic(x, dim, **options)
    return x


def test_marked_from_the_start():
    x = tensor(4, 5)
    dl.mark_dynamic(x, 0)
    sweep(lambda x: x.sum(1) * x.size(0), [(x,), (tensor(7, 5),), (tensor(2, 5),)], graphs=1)


def test_marked_by_torch():
    x = tensor(4, 5)
    torch._dynamo.mark_dynamic(x, 1)
    sweep(lambda x: x.sum(1), [(x,), (tensor(4, 7),)], graphs=1)


def test_marked_static():
    x = tensor(4, 5)
    dl.mark_static(x)
    y = tensor(6, 5)
    dl.mark_static(y, 0)
    sweep(lambda x: x + 1, [(x,), (y,), (tensor(8, 5),)], graphs=3)


WEIGHT = tensor(4, 3)
LINEAR = torch.nn.Linear(4, 3)


def matmul(x):
    y = x.relu()
    return y.t() @ WEIGHT  # here


def loop(x):
    total = 0
    for row in range(x.size(0)):  # here
        total = total + x[row]
    return total


def branch(x):
    if x.size(0) == 4:  # here
        return x + 1
    return x - 1


def between(x):
    if 4 <= x.size(0):
        if x.size(0) <= 4:  # here
            return x + 1
    return x - 1


def text(x):
    return x + 1, f"{x.size(0)}".upper()  # here


def index(x):
    rows = int(x.size(0))
    return x + [1, 2, 3, 4, 5][rows]  # here


def split(x):
    return x.view(2, 2, 5)  # here


def result(x):
    return x + 1, (-3) ** x.size(0), f"{x.size(0) / 2}"  # here


@pytest.mark.parametrize("fn", [matmul, loop, branch, between, text, index, split, result])
def test_mark_on_what_the_program_specializes(fn):
    lines, first = inspect.getsourcelines(fn)
    line = first + next(at for at, line in enumerate(lines) if line.endswith("# here\n"))
    with pytest.raises(dl.exc.ConstraintViolation, match=r"x.size\(0\) is marked dynamic, but must be 4") as raised:
        dl.compile(fn, backend="eager")(marked(4, 5))
    assert f"{__file__}:{line} in {fn.__name__}" in str(raised.value) and "Hint" in str(raised.value)
    assert raised.value.user_stack[-1].lineno == line


def test_error_names_the_line_in_the_callee():
    def inner(x):
        return LINEAR(x)

    def outer(x):
        return inner(x.relu())

    with pytest.raises(dl.exc.ConstraintViolation, match=r"x.size\(1\) is marked dynamic, but must be 4") as raised:
        dl.compile(outer, backend="eager")(marked(2, 4, dim=1))
    assert [frame.name.rpartition(".")[2] for frame in raised.value.user_stack] == ["outer", "inner", "forward"]
    assert raised.value.user_stack[-1].filename == inspect.getfile(torch.nn.Linear)


def test_a_backend_that_specializes_a_size():
    def for_one_size(gm, example_inputs):
        int(next(iter(gm.graph.nodes)).meta["example_value"].size(0))
        return gm.forward

    with pytest.raises(
        dl.exc.ConstraintViolation, match="must be 4: backend 'for_one_size' compiled the graph for that size"
    ):
        dl.compile(lambda x: x + 1, backend=for_one_size)(marked(4, 5))


def test_a_program_without_graph_that_specializes_a_size():
    with pytest.raises(dl.exc.ConstraintViolation, match="must be 4") as raised:
        dl.compile(lambda x: [0] * [1, 2, 3, 4, 5][x.size(0)], backend="eager")(marked(4, 5))
    assert raised.value.user_stack and "backend" not in str(raised.value).partition("Where")[0]


def test_marked_sizes_that_must_agree():
    calls = [(marked(4, 5), marked(4, 5)), (tensor(7, 5), tensor(7, 5))]
    sweep(lambda x, y: x + y, calls, graphs=1)


def test_range_of_a_mark():
    def fn(x):
        return x + (1 if x.size(0) >= 3 else 2)

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    x = tensor(4)
    dl.mark_dynamic(x, 0, min=3, max=9)
    for n in (5, 9):
        assert torch.equal(compiled(x), x + 1) and torch.equal(compiled(tensor(n)), tensor(n) + 1)
    assert len(recorder.graphs) == 1
    assert torch.equal(compiled(tensor(12)), tensor(12) + 1), "beyond the range it is compiled anew"
    assert len(recorder.graphs) == 2


@pytest.mark.parametrize("first", [0, 1])
def test_range_of_a_size_that_the_program_constrains(first):
    def fn(*tensors):
        factor = 2 if tensors[first].size(0) < 20 else 3
        return (tensors[0] + tensors[1]) * factor

    compiled = dl.compile(fn, backend="eager")
    given = [marked(4, 5), marked(4, 5)]
    dl.mark_dynamic(given[first], 0, max=9)
    for args in (given, (tensor(9, 5), tensor(9, 5)), (tensor(25, 5), tensor(25, 5))):
        assert torch.equal(compiled(*args), fn(*args))
    assert dl.counters.graphs == 2


def test_size_out_of_the_marked_range():
    x = tensor(4, 5)
    dl.mark_dynamic(x, 0, min=6, max=9)
    with pytest.raises(dl.exc.ConstraintViolation, match="at least 6 and at most 9, but is 4"):
        dl.compile(lambda x: x + 1, backend="eager")(x)


@pytest.mark.parametrize("size", [1, 12])
def test_a_later_call_out_of_the_range_it_is_marked_with(size):
    recorder = Recorder()
    compiled = dl.compile(lambda x: x + 1, backend=recorder)
    compiled(marked(4, min=3, max=9))
    wrong = marked(size, min=3, max=9)
    with pytest.raises(
        dl.exc.ConstraintViolation, match=rf"x.size\(0\) is marked .* at least 3 and at most 9, but is {size}"
    ):
        compiled(wrong)
    assert torch.equal(compiled(marked(5, min=3, max=9)), tensor(5) + 1) and len(recorder.graphs) == 1


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        ((3, 0), {}, TypeError, "only tensors can be marked, not int"),
        ((torch.zeros(2), 1), {}, IndexError, "no dimension 1"),
        ((torch.zeros(2), -2), {}, IndexError, "no dimension -2"),
        ((torch.zeros(()), 0), {}, IndexError, r"shape \(\) has no dimension 0"),
        ((torch.zeros(2), [0, 1]), {}, IndexError, "no dimension 1"),
        ((torch.zeros(2), "rows"), {}, TypeError, r"a dimension must be an integer, not str \('rows'\)"),
        ((torch.zeros(2), 0.0), {}, TypeError, "a dimension must be an integer, not float"),
        ((torch.zeros(2), None), {}, TypeError, "a dimension must be an integer, not NoneType"),
        ((torch.zeros(2), 0), {"min": 5, "max": 3}, ValueError, "no size"),
        ((torch.zeros(2), 0), {"max": 1}, ValueError, "max must be at least 2, not 1"),
        ((torch.zeros(2), 0), {"min": 2.5}, TypeError, r"integers or None, not float \(2.5\)"),
        ((torch.zeros(2), 0), {"max": "9"}, TypeError, "integers or None, not str"),
    ],
)
def test_invalid_dynamic_marks_are_refused(args, options, error, message):
    with pytest.raises(error, match=message):
        dl.mark_dynamic(*args, **options)
    assert not getattr(args[0], "_dynamo_dynamic_indices", None)


@pytest.mark.parametrize(
    "dim, error", [(2, IndexError), ("rows", TypeError), ([0, -3], IndexError), ([None], TypeError)]
)
def test_invalid_static_marks_are_refused(dim, error):
    with pytest.raises(error, match="dimension"):
        dl.mark_static(torch.zeros(2, 3), dim)
    with pytest.raises(TypeError, match="only tensors can be marked, not int"):
        dl.mark_static(3)


def test_several_dimensions_at_once():
    shapes = [(4, 5, 3), (7, 6, 3), (9, 2, 3)]
    x = tensor(*shapes[0])
    dl.mark_dynamic(x, [0, -2])
    sweep(lambda x: x.sum(2), [(x,), *((tensor(*shape),) for shape in shapes[1:])], graphs=1)
    dl.mark_static(x, (0, 1))
    sweep(lambda x: x.sum(2), [(x,), (tensor(*shapes[1]),)], graphs=2)


def test_mark_overrides_the_dynamic_option():
    calls = [(marked(4, 5),), (tensor(7, 5),), (tensor(2, 5),)]
    sweep(lambda x: x + 1, calls, graphs=1, dynamic=False)
    sweep(lambda x: x + 1, [*calls, (tensor(2, 6),)], graphs=2, dynamic=False)


def test_a_range_of_one_size_is_no_range():
    sweep(lambda x: x + 1, [(marked(4, min=4, max=4),), (tensor(5),)], graphs=2)
    sweep(lambda x: x + 1, [(marked(2, max=2),), (tensor(2),)], graphs=1, dynamic=True)


def test_torchs_marks_are_checked_when_they_are_used():
    for options, message in (
        ({"min": 2.0}, "bounds that are no integers"),
        ({"min": 5, "max": 3}, "at least 5 and at most 3, but is 4"),
        ({"max": 1}, "at most 1, but is 4"),
    ):
        x = tensor(4)
        torch._dynamo.mark_dynamic(x, 0, **options)
        with pytest.raises(dl.exc.ConstraintViolation, match=message):
            dl.compile(lambda x: x + 1, backend="eager")(x)


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("mark", [dl.mark_dynamic, torch._dynamo.mark_dynamic])
def test_mark_on_a_size_of_zero_or_one(mark, size):
    """Such sizes are compiled separately. torch.compile doesn't report that as a violation either."""
    x = tensor(size, 5)
    mark(x, 0)
    sweep(lambda x: x + 1, [(x,), (tensor(3, 5),), (tensor(4, 5),), (tensor(size, 5),)], graphs=2)


@pytest.mark.parametrize("mark", [dl.mark_dynamic, torch._dynamo.mark_dynamic])
@pytest.mark.parametrize("size, options", [(0, {"min": 0}), (1, {"min": 1, "max": 9}), (1, {"max": 9})])
def test_range_around_a_size_of_zero_or_one(mark, size, options):
    x = tensor(size, 5)
    mark(x, 0, **options)
    compiled = dl.compile(lambda x: x + 1, backend="eager")
    with pytest.raises(
        dl.exc.ConstraintViolation, match=rf"x.size\(0\) is marked .*, but is {size}, a size that is always specialized"
    ):
        compiled(x)


def test_a_size_that_another_size_follows_from():
    x = tensor(4, 7)
    dl.mark_dynamic(x, [0, 1])
    sweep(lambda x: x + 1 if x.size(0) ** 2 == x.size(1) + 9 else x - 1, [(x,), (tensor(5, 16),)], graphs=1)
