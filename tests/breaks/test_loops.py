"""Breaks inside loops: the remaining items are traced, and the real iterators advance."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from outcomes import outcome
from programs import Recorder, check, checked, recompiling, repeated, tensor


def check_loop(fn, *args, graphs, others=()):
    """Compare, and count the graphs that all turns of the loop share."""
    check(fn, *args, graphs=(0, graphs), others=others)
    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    compiled(*args)
    assert len(recorder.graphs) == graphs, [str(gm.graph) for gm in recorder.graphs]


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(12)])

    def forward(self, x):
        for at, layer in enumerate(self.layers):
            x = layer(x)
            print("layer", at)
        return x


def test_one_entry_serves_every_layer():
    check(Layers(), tensor(2, 3), graphs=2, breaks=2)


OVER = {
    "list": lambda items: items,
    "reversed list": reversed,
    "values": lambda items: dict(enumerate(items)).values(),
    "range": lambda items: range(len(items)),
    "keys": lambda items: dict(enumerate(items)),
    "items": lambda items: {str(at): each for at, each in enumerate(items)}.items(),
    "enumerate": lambda items: enumerate(items, 5),
    "zip": lambda items: zip(items, items[1:]),
    "enumerated zip": lambda items: enumerate(zip(items, enumerate(items[2:]))),
    "set": lambda items: set(range(300, 300 + len(items))),
    "text": lambda items: "abcdefghi"[: len(items)],
    "text beyond ASCII": lambda items: "aé€ß𝄞bcde"[: len(items)],
    "bytes": lambda items: b"abcdefghi"[: len(items)],
}


@pytest.mark.parametrize("name", OVER)
def test_loop_that_breaks_in_each_turn(name):
    over, gives_tensors = OVER[name], name in ("list", "reversed list", "values")

    def fn(x, items):
        for each in over(items):
            x = x * 2
            print("turn", each)
            x = x + (each if gives_tensors else 1)
        return x

    items = [tensor(2, seed=at) for at in range(9)]
    check_loop(fn, tensor(2), items, graphs=3, others=[(tensor(2), items[:3]), (tensor(2), items[:1])])


def test_branch_on_data_in_each_turn():
    def fn(x, items):
        for each in items:
            if each.sum() > 0:
                x = x * 2
            else:
                x = x - each
        return x

    check_loop(fn, tensor(2), [tensor(2, seed=at) for at in range(12)], graphs=4)


@checked(tensor(2), [tensor(2, seed=at) for at in range(6)], graphs=2, breaks=1)
def test_what_follows_the_last_break_is_unrolled(x, items):
    for at, each in enumerate(items):
        x = x + each
        if at == 1:
            print("once")
    return x * 2


@checked(tensor(2), [1, 2, 3], graphs=2, others=[(tensor(2), [1])])
def test_an_argument_that_is_an_iterator(x, items):
    steps = iter(items)
    dl.graph_break()
    first = next(steps)
    x = x + first
    dl.graph_break()
    rest = list(steps)
    return x * len(rest), rest, next(steps, "over"), steps


@pytest.mark.parametrize("given", [[1, 2, 3, 4], (1, 2, 3, 4), range(4), {1: 1, 2: 2, 3: 3, 4: 4}])
@pytest.mark.parametrize("taken", [0, 1, 3, 4])
def test_somebody_else_holds_the_iterator(given, taken):
    def fn(x, steps):
        return x + next(steps, 10) + next(steps, 20)

    compiled = dl.compile(fn, backend=Recorder())
    for run in (fn, compiled, compiled):
        steps = iter(given)
        for _ in range(taken):
            next(steps)
        found = run(torch.zeros(1), steps)
        expected = [*given, 10, 20][taken : taken + 2] if taken < 4 else [10, 20]
        assert found.item() == sum([*expected, 20][:2] if taken != 3 else [expected[0], 20])
        assert list(steps) == [*given][taken + 2 :]


LONG, SHORT, STEPS = iter([1, 2, 3]), iter([10]), iter([1, 2, 3, 4, 5, 6])


@checked(torch.zeros(1), zip(LONG, SHORT), LONG, SHORT, graphs=None)
def test_zip_that_ends_unevenly(x, pairs, one, other):
    return [x + a + b for a, b in pairs]


@checked(torch.zeros(1), zip(STEPS, STEPS), enumerate(STEPS), STEPS, graphs=None)
def test_two_that_take_from_one_iterator(x, pairs, numbered, steps):
    a, b = next(pairs)
    at, c = next(numbered)
    d = next(steps)
    return x + a * 1000 + b * 100 + c * 10 + d, at


def test_end_is_for_good():
    def fn(x, steps):
        for each in steps:
            x = x + each
        return x

    compiled = dl.compile(fn, backend=Recorder())
    for run in (fn, compiled, compiled):
        items = [1, 2]
        steps = iter(items)
        assert run(torch.zeros(1), steps).item() == 3
        items.append(5)
        assert list(steps) == []


@checked(tensor(2), [1, 2], graphs=None)
@recompiling
def test_a_list_that_grows_while_it_is_gone_through(x, items):
    for each in items:
        x = x + each
        print("turn")
        if len(items) < 6:
            items.append(each + 1)
    return x, items


@checked(tensor(2), [1, 2, 3], graphs=None)
def test_a_list_that_is_changed_inside_before_the_next_item(x, items):
    steps = iter(items)
    next(steps)
    dl.graph_break()
    items.insert(1, 7)
    a = next(steps)
    items.clear()
    return x + a, next(steps, "over"), items, steps


def test_a_dict_that_changes_its_size():
    def fn(x, table):
        for key in table:
            x = x + 1
            print(key)
            table[key + "b"] = 1
        return x

    check(lambda x, table: outcome(fn, x, table), tensor(2), {"a": 1}, graphs=None)
    check(fn, tensor(2), {"a": 1}, graphs=None)


def test_a_set_that_changes_its_size():
    def fn(x, items):
        for each in items:
            print("turn")
            x = x * each
            items.add(each + 1)
        return x

    check(lambda x, items: outcome(fn, x, items), tensor(2), {1}, graphs=None)
    check(fn, tensor(2), {1}, graphs=None)


@pytest.mark.parametrize("make", [list, set, lambda items: dict.fromkeys(items), lambda items: [*items, 9]])
def test_what_another_argument_goes_over(make):
    """The iterator goes over the container that is emptied, or over another."""

    def fn(x, items, steps):
        items.clear()
        return outcome(lambda: x + sum(steps))

    def own(turn=iter):
        items = make([1, 2])
        return tensor(2), items, turn(items)

    def other(turn=iter):
        return tensor(2), make([1, 2]), turn(make([1, 2]))

    check(repeated(1)(fn), *other(), others=[own(), other()], graphs=None)
    check(repeated(1)(fn), *own(), others=[other(), own()], graphs=None)


@pytest.mark.parametrize("make", [map, filter])
def test_iterators_that_run_code_are_left_to_python(make):
    def fn(x, items):
        steps = make(lambda each: each + 1, items)
        print(next(steps))
        for each in steps:
            x = x * each
        return x

    check(fn, tensor(2), [1, 2, 3], graphs=None)


@checked(tensor(2), [2, 3], graphs=None)
def test_an_iterator_in_an_operators_function(x, items):
    steps = iter(items)
    dl.graph_break()
    return torch.utils.checkpoint.checkpoint(lambda y: y * next(steps), x, use_reentrant=False), list(steps)


@checked(tensor(2), [1, 2], [3, 4], graphs=None, others=[(tensor(2), [1, 2], [3])])
def test_strict_zip(x, items, others):
    try:
        for a, b in zip(items, others, strict=True):
            x = x * a
            print("turn")
            x = x + b
    except ValueError as error:
        return x, str(error)
    return x


@checked(torch.zeros(1), LONG, LONG, others=[(torch.zeros(1), iter([1]), iter([5]))], graphs=None)
def test_same_iterator_twice(x, one, other):
    return x + next(one) * 10 + next(other), one is other


def test_many_turns():
    def fn(x, count):
        for _ in range(count):
            x = x + 1
            print(end="")
        return x

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    assert torch.equal(compiled(torch.zeros(1), 3000), torch.full((1,), 3000.0))
    assert len(recorder.graphs) == 2


# -- counters, texts of them, what is gathered -------------------------------------------------------------------------


def counted(x):
    for at in range(20):
        print(at)
        x = x + at
    return x


def told_by_text(x):
    for at in range(20):
        x = x * (at + 1)
        print(f"step {at}: {at:3d} {at!r} {str(at)}, then {at + 1}", "{} of {:>4}".format(at, 20), "at " + str(at))
        x = x / (at + 1)
    return x


def picked_by_index(x):
    x = x.expand(30, -1).clone()
    for at in range(0, 20, 2):
        total = x[at].sum()
        print("turn")
        x[:, 0] = total
        x[at + 1, :1] = at
    return x


def gathered(x):
    sums, numbers = [], []
    for at in range(20):
        x = x + 1
        print("turn")
        sums.append(x)
        numbers += [at, at + 1]
    return torch.stack(sums), numbers


COUNTED = [(counted, 2), (told_by_text, 3), (picked_by_index, 3), (gathered, 3)]


@pytest.mark.parametrize(("fn", "graphs"), COUNTED)
def test_loop_that_uses_its_index(fn, graphs):
    """It is a symbol from the first break on: no turn compiles again for it."""
    check_loop(fn, tensor(2), graphs=graphs)


@checked(tensor(2), graphs=None)
def test_text_of_a_number_that_is_looked_at(x):
    names = {"3": 1}
    for at in range(6):
        x = x * (at + 1)
        text = f"{at}"
        print(
            text.upper(), len(text), text == "3", text in ("3", "4"), text < "3", text + "!", text * 2, text[0], [*text]
        )
        x = x + names.get(text, 2) + ("x" + text in {"x1", "x2"})
    return x


@checked(tensor(2), graphs=None)
def test_text_of_a_number_with_a_bad_specification(x):
    said = []
    for at in range(5):
        x = x + at
        print("turn")
        try:
            said.append(f"{at:.2d}")
        except ValueError as error:
            said.append(str(error))
        said.append(f"{at + 65:c}{at:05.1f}{at:>{at + 3}}")
    return x, said


@checked(tensor(2), [], others=[(tensor(2), [1] * n) for n in (1, 2, 5)], all_graphs=1)
def test_list_that_is_appended_to_has_any_length(x, seen):
    seen.append(x + 1)
    seen.extend([x * 2, 3])
    seen += (4,)
    return x - 1


def appended_and_looked_at(x, seen):
    seen.append(x + 1)
    first = seen[0]
    seen.append(first * 2)
    return len(seen), seen.pop(), seen[-1]


def appended_to_itself(x, seen):
    seen.append(1)
    seen.extend(seen)
    seen.append(2)
    return x + 1


def appended_in_an_operators_function(x, seen):
    def body(y):
        seen.append(1)
        seen.pop()
        return y.sin()

    return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)


@pytest.mark.parametrize("fn", [appended_and_looked_at, appended_to_itself, appended_in_an_operators_function])
def test_list_that_is_appended_to_and_looked_at(fn):
    check(fn, tensor(2), [], graphs=None, others=[(tensor(2), [tensor(2)]), (tensor(2), [tensor(2), 3])])


def test_one_list_at_two_places():
    def fn(x, one, other):
        one.append(x + 1)
        other.append(x + 2)
        return x * 2

    compiled = dl.compile(fn, backend="eager")
    for calls in ((False, True, False), (True, False)):
        dl.reset()
        for same in calls:
            found = []
            for run in (fn, compiled):
                one: list = []
                other = one if same else []
                run(tensor(2), one, other)
                found.append([each.tolist() for each in one + other])
            assert found[0] == found[1]
