"""Code that runs at a graph break reads the variables of its callers by name, as in eager."""

from __future__ import annotations

import dataclasses
import sys
import traceback
import typing

import pytest
import torch

import dynamo_lite as dl

SEEN: list[dict[str, str]] = []


@dl.disable
def look(depth=1):
    """Notes the variables of its callers, innermost first."""
    for each in range(1, depth + 1):
        SEEN.append({name: described(value) for name, value in sys._getframe(each).f_locals.items()})


def described(value):
    if isinstance(value, torch.Tensor):
        return str(value.tolist())
    return type(value).__name__ if callable(value) else repr(value)


def arguments(x, k, unused=7, *rest, key=(1, 2), **named):
    look()
    return x + 1


def dead_locals(x, k):
    limit = 2.5
    names = ["a", k, {"b": (k,)}]
    x = x + 1
    look()
    word = "w"
    y = x * 2
    look()
    return y + 1


def after_a_loop(x, k):
    for at in range(3):
        twice = at * 2
        x = x + twice
        look()
    look()
    return x


def attributes(x, k):
    size, first = x.shape, x.shape[0]
    look()
    return x + 1


def helper(x, k):
    limit = 3
    look(2)
    return x * 2


def in_a_callee(x, k):
    mine = 5
    y = helper(x, k)
    look()
    return y + 1


def inner(x, k, given):
    own = 1
    look(3)
    return x + 1


def middle(x, k):
    other = 2
    return inner(x, k, given=3) * 2


def in_nested_callees(x, k):
    mine = 5
    return middle(x, k)


def in_a_cell(x, k):
    shared = k + 1

    def read():
        return shared

    look()
    return x + read()


def in_a_cell_of_a_callee(x, k):
    mine = 1
    return in_a_cell(x, k)


@dataclasses.dataclass
class Limit:
    """A value that programs keep in a variable and name in a text."""

    value: int


class Pair(typing.NamedTuple):
    """Two numbers."""

    first: int
    second: int


def created_objects(x, k):
    limit = Limit(k)
    pair = Pair(k, 2)
    values, frozen = {1, 2, k}, frozenset((3, k))
    values.add(7)
    part = slice(0, k)
    look()
    y = x + 1
    look()
    return y * 2


def bound_on_one_path(x, k):
    if k > 3:
        extra = k * 2
        limit = Limit(extra)
    x = x + 1
    look()
    return x * 2


FUNCTIONS = (
    *(arguments, dead_locals, after_a_loop, attributes, in_a_callee, in_nested_callees, in_a_cell),
    *(in_a_cell_of_a_callee, created_objects, bound_on_one_path),
)


def seen(fn, *args):
    SEEN.clear()
    fn(*args)
    return [{name: value for name, value in each.items() if not name.startswith("___")} for each in SEEN]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_variables_are_those_of_eager(fn):
    compiled = dl.compile(fn, backend="eager")
    for size in (3, 3, 4, 5):
        assert seen(compiled, torch.ones(size), 4) == seen(fn, torch.ones(size), 4)


def test_no_names_of_ours_where_nothing_is_shared():
    compiled = dl.compile(dead_locals, backend="eager")
    compiled(torch.ones(3), 4)
    SEEN.clear()
    compiled(torch.ones(3), 4)
    assert SEEN and not any(name.startswith("___") for each in SEEN for name in each)


def in_a_context(x, k):
    with torch.no_grad(), torch.autocast("cpu"):
        y = x * k
        look()
        return y + 1


def with_a_set(x, k):
    both = frozenset((k, 2)) | {3}
    y = x * k
    look()
    return y + 1, both


@pytest.mark.parametrize("fn", [in_a_context, with_a_set])
def test_temporaries_of_the_new_code_are_unbound(fn):
    """What handlers expect on the stack is kept for them."""
    compiled = dl.compile(fn, backend="eager")
    SEEN.clear()
    compiled(torch.ones(3), 4)
    assert SEEN and not [name for each in SEEN for name in each if name.startswith(("___value", "___constant"))]


def test_only_what_the_graph_would_have_computed_is_missing():
    def fn(x, k):
        unused = x + 1
        look()
        return x * 2

    wanted = seen(fn, torch.ones(2), 4)
    del wanted[0]["unused"]
    assert seen(dl.compile(fn, backend="eager"), torch.ones(2), 4) == wanted


def test_a_variable_that_a_closure_rebinds_meanwhile_keeps_its_lifetime():
    def fn(x, k):
        shared = k

        def rebind():
            nonlocal shared
            shared = 5
            look(2)

        dl.graph_break()
        rebind()
        return x + shared

    compiled = dl.compile(fn, backend="eager")
    assert torch.equal(compiled(torch.ones(2), 4), torch.ones(2) + 5)


def fails(x, k):
    limit = 3
    y = x + 1
    return y @ torch.ones(7)


def test_a_traceback_has_the_variables_of_the_failing_frame():
    found = []
    for fn in (fails, dl.compile(fails, backend="eager")):
        with pytest.raises(RuntimeError) as caught:
            fn(torch.ones(3), 4)
        summary = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        found.append([each.locals for each in summary.stack if each.name == "fails"])
    assert found[0] == found[1]


def test_dead_variables_add_no_guards():
    def fn(x, k):
        y = x + 1
        look()
        return y * 2

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = dl.compile(fn, backend=backend)
    compiled(torch.ones(2), 1)
    compiled(torch.ones(2), 2)
    assert len(graphs) == 2
