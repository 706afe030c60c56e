"""Programs that mutate containers while they are iterated, compared or searched."""

from __future__ import annotations

import enum
import itertools
import random
from collections import OrderedDict, defaultdict, deque

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.variables.python.containers import sets
from outcomes import outcome
from programs import check, checked, recompiling, tensor


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


@pytest.mark.parametrize("kind", [list, deque])
def test_extend_by_a_generator_that_extends_as_well(kind):
    def fn(x, items):
        def produce():
            yield x + 1
            items.append(1)
            yield x + 2

        items.extend(produce())
        return x * 2

    check(fn, tensor(2), kind([0]))


@pytest.mark.parametrize("kind", [list, deque])
def test_extend_by_a_generator_that_raises(kind):
    def fn(x, items):
        def produce():
            yield x + 1
            raise ValueError(len(items))

        try:
            items.extend(produce())
        except ValueError as error:
            items.append(error.args)
        return x * 2

    check(fn, tensor(2), kind([0]))


@checked(tensor(2), {})
def test_update_a_dict_by_pairs_that_raise(x, table):
    def produce():
        yield "a", x + 1
        raise ValueError(len(table))

    try:
        table.update(produce())
    except ValueError as error:
        table["error"] = error.args
    return x * 2


@checked(tensor(2), graphs=None)
def test_iterate_over_a_set_updated_from_another_set(x):
    one, other = {16}, {1, 8, 0}
    one.update(other)
    return [x * n for n in one]


@pytest.mark.parametrize("change", [lambda seen: seen.discard(7), lambda seen: seen.add(9)], ids=["discard", "add"])
def test_set_changes_its_size_during_iteration(change):
    def fn(x, n):
        seen = {n, 7}
        found = []
        try:
            for each in seen:
                change(seen)
                found.append(x * each)
        except RuntimeError as error:
            found.append(str(error))
        return found

    check(fn, tensor(2), 1, graphs=None)


@checked(tensor(2), 1, graphs=None)
def test_set_changes_its_items_during_iteration(x, n):
    seen = {n, 7}
    found = []
    for each in seen:
        if each != 9:
            seen.discard(each)
            seen.add(9)
        found.append(x * each)
        if len(found) > 5:
            break
    return found


@checked(tensor(2), 1, graphs=None)
def test_dict_changes_its_keys_during_iteration(x, n):
    table = {n: x}
    found = []
    try:
        for each in table:
            del table[each]
            table[each + 1] = x * 2
            found.append(each)
    except RuntimeError as error:
        found.append(str(error))
    return found, table


@pytest.mark.parametrize("name", ["insert", "pop"])
def test_invalid_index_raises(name):
    def fn(x, items):
        return x + 1, outcome(getattr(items, name), *((1.0, x) if name == "insert" else (1.0,)))

    check(fn, tensor(2), [1, 2])


def test_set_keeps_its_order_after_an_item_is_added():
    def fn(x, seen):
        seen.add(24)
        return x + 1

    given = {16, 8, 0}
    given.discard(16)
    compiled = dl.compile(fn, backend="eager")
    eager, found = set(given), set(given)
    fn(tensor(2), eager)
    compiled(tensor(2), found)
    assert list(found) == list(eager)


@checked(tensor(2))
def test_tuple_in_its_own_list(x):
    parts = []
    made = (x + 1, parts)
    parts.append(made)
    return made


class Changes:
    """An item whose comparison mutates a container."""

    def __init__(self, change, answer):
        self.change = change
        self.answer = answer

    def __eq__(self, other):
        self.change()
        return self.answer

    def __lt__(self, other):
        self.change()
        return self.answer

    __hash__ = None


SEARCHES = {
    "in": lambda c, other: 7 in c,
    "index": lambda c, other: c.index(3),
    "count": lambda c, other: c.count(3),
    "remove": lambda c, other: c.remove(3),
    "equal": lambda c, other: c == other,
    "less": lambda c, other: c < other,
}


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kind", [list, deque])
def test_search_mutates_the_sequence(kind, search, answer):
    def fn(x, other):
        found = []
        for change in ("clear", "pop", "reverse"):
            items = kind([1, 2, 3])
            items.insert(0, Changes(getattr(items, change), answer))
            found.append((outcome(SEARCHES[search], items, other), len(items)))
        return x + 1, found

    check(fn, tensor(2), kind([5, 1, 2, 3]), graphs=None, breaks=None)


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_comparison_mutates_the_dict(kind, answer):
    searches = (
        lambda c: 7 in c.values(),
        lambda c: (0, 7) in c.items(),
        lambda c: (5, 5) in c.items(),
        lambda c: (0, 7, 7) in c.items(),
        lambda c: c == kind({0: 5, 1: 1, 2: 2}),
        lambda c: kind({0: 5, 1: 1, 2: 2}) == c,
    )

    def fn(x):
        found = []
        for search in searches:
            for change in (lambda c: c.clear(), lambda c: c.pop(1, None), lambda c: c.setdefault(9, 9)):
                items = kind({0: None, 1: 1, 2: 2})
                items[0] = Changes(lambda c=items, change=change: change(c), answer)
                found.append((outcome(search, items), list(items)))
        return x + 1, found

    check(fn, tensor(2), graphs=None, breaks=None)


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_keys_are_reordered_during_iteration(kind):
    def fn(x, table):
        def go():
            seen = []
            for key in table:
                seen.append(key)
                if len(seen) > 5:
                    break
                table[key] = table.pop(key)
            return seen

        return x + 1, outcome(go)

    check(fn, tensor(2), kind(a=1, b=2), graphs=None, breaks=None)


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_deque_is_iterated_in_reverse(taken):
    def fn(x, items, taken):
        backwards = reversed(items)
        for _ in range(taken):
            next(backwards)
        dl.graph_break()
        return x + 1, list(backwards), type(backwards)

    check(fn, tensor(2), deque([1, 2, 3]), taken, graphs=None, breaks=None)


@checked(tensor(2), deque([1, 2, 3]), graphs=None, breaks=None)
def test_deque_is_mutated_during_reverse_iteration(x, items):
    backwards = reversed(items)
    seen = [next(backwards)]
    items.append(4)
    try:
        seen.append(next(backwards))
    except RuntimeError as error:
        seen.append(str(error))
    return x + 1, seen


@pytest.mark.parametrize("left", [dict, OrderedDict, defaultdict])
@pytest.mark.parametrize("right", [dict, OrderedDict, defaultdict])
def test_union_of_dicts_of_two_classes(left, right):
    def fn(x, left, right):
        one, other = left(), right()
        one["b"], one["a"] = 1, x
        other["c"], other["a"] = 2, x + 1
        made = one | other
        return made, type(made), list(made)

    check(fn, tensor(2), left, right)


class Backwards(list):
    pass


class Table(dict):
    pass


class Text(str):
    pass


@pytest.mark.parametrize("items", [Backwards([1, 2]), Table(a=1, b=2), Text("ab"), {1: 2}, {1, 2}, object(), 5])
def test_reversed_calls_the_method_of_its_argument(items):
    def fn(x, items):
        return x + 1, outcome(lambda: list(reversed(items)))

    check(fn, tensor(2), items, graphs=None, breaks=None)


@checked(tensor(2), graphs=None, breaks=None)
@recompiling
def test_pairs_of_an_iterator_that_asks_for_pairs(x):
    class Counting:
        count = 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.count >= 3:
                raise StopIteration
            self.count += 1
            return next(pairs, None) if self.count == 1 else [self.count]

    pairs = itertools.pairwise(Counting())
    return x + 1, list(pairs)


def test_a_generator_in_a_list_that_it_goes_over():
    """The generator is recreated before the list receives the items that it has passed."""

    def fn(x, items):
        steps = (each * 2 for each in items)

        def hold():
            return steps

        items.append(hold)
        for _ in range(2):
            items.insert(1, x)
            items.append(next(steps))
            items.append(next(steps))
        return x + 1, len(items), next(steps)

    def held(x, items):
        fn(x, items)
        hold = next(each for each in items if callable(each))
        return next(hold())

    check(held, tensor(2), [tensor(2), 1, tensor(2, seed=1)], graphs=None)
    check(fn, tensor(2), [tensor(2), 1, tensor(2, seed=1)], graphs=None)


class NeverSays:
    def __eq__(self, other):
        return NotImplemented

    __hash__ = None


def derived(base):
    return type("Derived", (NeverSays, base), {})


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], (1, 2), {1, 2}, "ab", 3, 2.5], ids=str)
def test_equality_that_a_derived_class_leaves_to_the_other(value):
    same = derived(type(value))(value)

    def fn(x, same, value):
        return x + 1, same == value, value == same, same != value, value != same

    check(fn, tensor(2), same, value, graphs=None)


def _broken(method, *args):
    given = OrderedDict(a=1, b=2)
    getattr(dict, method)(given, *args)
    return given


def test_an_ordered_dict_whose_order_is_another():
    def fn(x, given):
        try:
            found = list(given)
        except KeyError as error:
            found = str(error)
        return x + 1, found, len(given), given.get("a")

    others = [
        (tensor(2), _broken("pop", "a")),
        (tensor(2), _broken("__setitem__", "z", 1)),
        (tensor(2), _broken("clear")),
        (tensor(2), OrderedDict(a=1, b=2)),
    ]
    compiled = dl.compile(fn, backend="eager")
    for x, given in [(tensor(2), OrderedDict(a=1, b=2)), *others]:
        assert fn(x, given)[1:] == compiled(x, given)[1:]
        assert fn(x, given)[1:] == dl.compile(fn, backend="eager")(x, given)[1:]


@pytest.mark.parametrize(
    "first, second",
    [
        (frozenset("a"), frozenset("b")),
        ((1, "a"), (frozenset("a"), 2)),
        (torch.float32, int),
        (Colour.RED, Colour.GREEN),
        (len, str.join),
    ],
)
def test_the_order_of_an_ordered_dict_with_any_keys(first, second):
    def fn(x, table):
        for value in table.values():
            x = x * value + 1
        return x, list(table)

    table = OrderedDict({first: 2, second: 3})
    other = OrderedDict({second: 3, first: 2})
    check(fn, tensor(2), table, others=[(tensor(2), other)], all_graphs=2)


def updated_by_itself(x, seen):
    made = {each for each in (1, 17, 3)}
    made |= made
    return x + 1, made


def copied_and_updated_by_itself(x, seen):
    copied = set(seen)
    copied.update(copied)
    frozen = frozenset(seen)
    return x + 1, copied, frozen | copied


def emptied_to_a_part(x, seen):
    made = {each * 37 for each in range(40)}
    for each in range(36):
        made.discard(each * 37)
    return x + 1, made, made.copy(), [*made]


@pytest.mark.parametrize(
    "fn", [updated_by_itself, copied_and_updated_by_itself, emptied_to_a_part], ids=lambda fn: fn.__name__
)
def test_order_of_sets_that_were_mutated(fn):
    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        assert repr(compiled(tensor(2), {9, 3, 17, 33, 40})) == repr(fn(tensor(2), {9, 3, 17, 33, 40}))


@checked(tensor(2), {3})
def test_update_a_set_by_a_generator_that_reads_it(x, items):
    states = []

    def produce():
        yield 1
        states.append(set(items))
        items.add(50)
        yield 9

    items.update(produce())
    return x + 1, states, items


def test_union_with_a_generator_that_mutates_the_set():
    def fn(x, items):
        def produce():
            yield 1
            items.add(50)

        return x + 1, items.union(produce())

    check(fn, tensor(2), {3}, graphs=None)


@checked(tensor(2), deque([1, 2, 3]))
def test_items_of_a_deque_are_replaced_while_it_is_iterated(x, items):
    for at, item in enumerate(items):
        items[at] = x * item
    return items[2] + 1


@pytest.mark.parametrize(
    "change",
    [lambda d: d.append(1), lambda d: d.popleft(), lambda d: d.rotate(1), lambda d: d.__init__([5, 6], 4)],
    ids=["append", "popleft", "rotate", "init"],
)
def test_deque_is_changed_while_it_is_iterated(change):
    def fn(x, items):
        try:
            for _ in items:
                change(items)
        except RuntimeError as error:
            return x + 1, str(error), items.maxlen

    check(fn, tensor(2), deque([1, 2, 3]))


@checked(tensor(2), {1, 2, 3})
def test_set_changes_its_size_while_it_is_iterated(x, given):
    made, texts = {1, 2, 3}, []
    for change in (lambda: made.add(7), lambda: made.clear()):
        try:
            for _ in made:
                change()
        except RuntimeError as error:
            texts.append(str(error))
    return x + 1, texts, made


@checked(tensor(2), graphs=1)
def test_order_of_sets_of_constants_whose_hashes_collide(x):
    made = {48, 16, 8, 0, 32, 24, "gate", "up", "down"}
    return x + 1, list(made), list({16, 0, 8}), list({40, 8, 1, 16, 9}), [each for each in {"q", "k", "v", "o", "gate"}]


def test_an_insertion_order_is_found_for_nearly_all_sets():
    draw = random.Random(0)
    made = [frozenset(8 * draw.randrange(1 << 30) for _ in range(draw.randrange(2, 13))) for _ in range(500)]
    found = [sets._insertion_order(each) for each in made]
    assert all(order is None or [*frozenset(order)] == [*each] for each, order in zip(made, found, strict=True))
    assert found.count(None) <= 5


@checked(tensor(2), graphs=None)
def test_order_of_sets_that_were_emptied_before(x):
    cleared, emptied = {1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}
    cleared.clear()
    emptied.difference_update([1, 2, 3, 4, 5, 6, 7, 8, 9])
    for each in (cleared, emptied):
        each.update({48, 16, 8, 0, 32, 24, "gate"})
    copied = set(cleared)
    copied.discard(16)
    return x + 1, list(cleared), list(emptied), list(copied), list(set(copied))
