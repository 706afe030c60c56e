"""Exceptions that leave an inlined callee: a later call for which nothing is raised is one graph."""

import pytest
import torch

import dynamo_lite as dl
from programs import check, tensor


class Box:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Refused(Exception):
    def __init__(self, name, code):
        super().__init__(name)
        self.code = code


def key(x, given):
    return x.view(given["shape"])


def nested_key(x, given):
    return key(x, given["config"])


def position(x, given):
    return x.view(given[1])


def attribute(x, given):
    return x * given.scale


def addition(x, given):
    return x * (given + 1)


def length(x, given):
    return x * len(given)


def conversion(x, given):
    return x * int(given)


def unpacked(x, given):
    scale, offset = given
    return x * scale + offset


def division(x, given):
    return x * (1 / given)


def called(x, given):
    return given(x)


def first(x, given):
    return x * next(iter(given))


def greatest(x, given):
    return x * max(given)


def refused_number(x, given):
    if given < 0:
        raise ValueError(given)
    return x * given


def refused_text(x, given):
    if given not in ("mean", "sum"):
        raise Refused(given, 3)
    return x * 2


def refused_none(x, given):
    if given is None:
        raise ValueError("nothing is given")
    return x * given


def refused_type(x, given):
    if not isinstance(given, int):
        raise TypeError(f"{given!r} is not an int")
    return x * given


def refused_length(x, given):
    if len(given) != 2:  # pytest rewrites an `assert`
        raise AssertionError("two are needed")
    return x * given[0]


def refused_dimensions(x, given):
    if given.dim() != 2 or given.dtype is not torch.float32:
        raise ValueError(f"{given.dim()} dimensions")
    return x * given.sum()


def refused_lack(x, given):
    if "scale" not in given:
        raise KeyError("scale")
    return x * given["scale"]


def matched(x, given):
    match given:
        case {"scale": scale}:
            return x * scale
        case _:
            raise ValueError("no scale")


def product(x, given):
    return x @ given


PROGRAMS = [
    (key, {}, {"shape": (3, 2)}),
    (nested_key, {"config": {}}, {"config": {"shape": (3, 2)}}),
    (position, [1], [1, (3, 2)]),
    (attribute, Box(), Box(scale=2)),
    (attribute, None, Box(scale=2)),
    (addition, "a", 2),
    (addition, None, 2),
    (length, 3, [1, 2]),
    (conversion, "a", "2"),
    (unpacked, (1, 2, 3), (1, 2)),
    (division, 0, 2),
    (called, 3, torch.cos),
    (first, [], [2]),
    (greatest, [], [2]),
    (refused_number, -1, 1),
    (refused_text, "least", "mean"),
    (refused_none, None, 2),
    (refused_type, "a", 2),
    (refused_length, [1], [1, 2]),
    (refused_dimensions, tensor(3), tensor(2, 3)),
    (refused_dimensions, tensor(2, 3).double(), tensor(2, 3)),
    (refused_lack, {}, {"scale": 2}),
    (matched, {}, {"scale": 2}),
    (product, tensor(4, 4), tensor(3, 4)),
]


@pytest.mark.parametrize("callee, bad, good", PROGRAMS, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_call_after_one_that_raised_is_one_graph(callee, bad, good, fullgraph, dynamic):
    def fn(x, given):
        y = x.sin()
        return callee(y, given) + 1

    compiled = dl.compile(fn, backend="eager", fullgraph=fullgraph, dynamic=dynamic)
    with pytest.raises(Exception) as expected:
        fn(tensor(2, 3), bad)
    for _ in range(2):
        with pytest.raises(dl.exc.Unsupported if fullgraph and callee is product else expected.type):
            compiled(tensor(2, 3), bad)
    before = dl.counters.graphs, dl.counters.graph_breaks
    for _ in range(2):
        assert torch.equal(compiled(tensor(2, 3), good), fn(tensor(2, 3), good))
    assert (dl.counters.graphs - before[0], dl.counters.graph_breaks - before[1]) == (1, 0)


def test_a_call_that_raises_after_good_ones():
    def fn(x, given):
        return key(x.sin(), given) + 1

    compiled = dl.compile(fn, backend="eager")
    for given in ({"shape": (3, 2)}, {}, {"shape": (3, 2)}, {}):
        if given:
            assert torch.equal(compiled(tensor(2, 3), given), fn(tensor(2, 3), given))
        else:
            with pytest.raises(KeyError, match="shape"):
                compiled(tensor(2, 3), given)


def test_raising_for_other_numbers_recompiles_no_more_than_twice():
    def fn(x, number):
        return refused_number(x.sin(), number) + 1

    compiled = dl.compile(fn, backend="eager")
    for number in (-1, -2, -3, -4, -5, -6):
        with pytest.raises(ValueError, match=str(number)):
            compiled(tensor(2, 3), number)
    before = dl.counters.graphs
    for number in (3, 4, 5):
        assert torch.equal(compiled(tensor(2, 3), number), fn(tensor(2, 3), number))
    assert dl.counters.graphs - before <= 2


@pytest.mark.parametrize(
    "arguments",
    [lambda x: [int(x.sum() > 0)], lambda x: [x.sum().item()], lambda x: [x.tolist(), x.shape[0]]],
    ids=["int", "item", "list_and_size"],
)
def test_exceptions_of_numbers_read_from_tensors_leave(arguments):
    def fn(x, items):
        items.append(x + 1)
        raise ValueError(*arguments(x))

    check(fn, tensor(3), [], graphs=None, others=[(tensor(4), [])])


def dict_that_grows(x, given):
    for name in given:
        given[name + "'"] = x + 1
    return x


def created_dict_that_grows(x, given):
    made = dict(given)
    for name in made:
        made[name + "'"] = x + 1
    return x * len(made)


def created_set_that_grows(x, given):
    made = set(given)
    for each in made:
        made.add(each * 2)
    return x * len(made)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("fn", [dict_that_grows, created_dict_that_grows, created_set_that_grows])
def test_a_container_that_changes_while_it_is_iterated_over_raises_as_in_eager(fn, fullgraph):
    """The iterator can't be created outside of the trace, and nothing but the error comes after it."""
    compiled = dl.compile(fn, backend="eager", fullgraph=fullgraph)
    kind = "Set" if fn is created_set_that_grows else "dictionary"
    for _ in range(2):
        given = {"a": tensor(3)}
        with pytest.raises(RuntimeError, match=f"^{kind} changed size during iteration$"):
            compiled(tensor(3), given)
        assert list(given) == (["a", "a'"] if fn is dict_that_grows else ["a"])
    assert torch.equal(compiled(tensor(3), {}), fn(tensor(3), {}))
