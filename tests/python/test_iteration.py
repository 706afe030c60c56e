"""Iteration by user-defined methods: how many items are taken, and which objects are refused."""

from __future__ import annotations

from collector import Programs
from outcomes import outcome
from programs import checked, tensor

programs = Programs()


class CountDown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n

    def __reversed__(self):
        return ["reversed"]


class NoIterator:
    def __iter__(self):
        return 3


class NoNext:
    def __iter__(self):
        return self


class Raises:
    def __init__(self, kind):
        self.kind = kind

    def __iter__(self):
        raise self.kind("mine")


class Listed(type):
    def __iter__(cls):
        return [1]


class ByListed(metaclass=Listed):
    pass


class Counted(type):
    def __iter__(cls):
        cls.iterator = CountDown(5)
        return cls.iterator


class ByCounted(metaclass=Counted):
    pass


@programs(tensor(3), cut=False, graphs=None)
def membership_stops_at_the_first(x):
    down = CountDown(5)
    found = 3 in down, 9 in CountDown(3), 3 in ByCounted
    generated, mapped = (i for i in range(5)), map(abs, CountDown(5))
    rest = 2 in generated, list(generated), 3 in mapped, list(mapped)
    return x + 1, found, down.n, ByCounted.iterator.n, rest


@programs(tensor(3))
def how_far_functions_go(x):
    first, second, third = CountDown(5), CountDown(9), CountDown(5)
    ends = next(first), any(each == 3 for each in first), list(zip([1, 2], second)), next(CountDown(0), "end")

    def unpacked():
        a, b = third
        return a + b

    return x + 1, ends, first.n, second.n, outcome(unpacked), third.n, all(each for each in CountDown(3))


@programs(tensor(3))
def containers_take_all(x):
    row = [1]
    row.extend(CountDown(3))
    row.extend(reversed(CountDown(2)))
    row[1:1] = CountDown(2)
    a, *rest = CountDown(3)
    return x + a, row, rest, dict.fromkeys(CountDown(2)), sorted(CountDown(3)), [*CountDown(2), *CountDown(1)]


@programs(tensor(3))
def what_is_no_iterator(x):
    def loop():
        for _ in NoIterator():
            pass

    def unpack():
        a, b = NoIterator()

    def delegate():
        yield from NoIterator()

    functions = (list, sum, dict, iter, max)
    texts = [outcome(lambda: function(NoIterator())) for function in functions]  # noqa: B023
    more = outcome(lambda: list(NoNext())), outcome(lambda: list(ByListed)), outcome(lambda: [*NoIterator()])
    return x + 1, texts, more, outcome(loop), outcome(unpack), outcome(lambda: list(delegate()))


@programs(tensor(3))
def membership_in_what_is_no_iterable(x):
    texts = [outcome(lambda: 1 in each) for each in (NoIterator(), Raises(TypeError), Raises(ValueError), 3)]  # noqa: B023
    return x + 1, texts, outcome(lambda: list(Raises(TypeError)))


class Sized:
    """Records the calls of its methods."""

    def __init__(self, length):
        self.length = length
        self.asked = []

    def __iter__(self):
        self.asked.append("iter")
        return iter([1, 2])

    def __len__(self):
        self.asked.append("len")
        if isinstance(self.length, type):
            raise self.length("no length")
        return self.length


class Hinted(Sized):
    __len__ = None

    def __length_hint__(self):
        self.asked.append("hint")
        return 5


@programs(tensor(3))
def lists_and_tuples_ask_for_the_length(x):
    found = []
    for make in (list, tuple, sorted, set, frozenset, sum, lambda a: [*a], lambda a: (*a, 0), lambda a: [0].extend(a)):
        sized = Sized(2)
        made = make(sized)
        found.append((sorted(made) if isinstance(made, (set, frozenset)) else made, sized.asked))
    first, *rest = Sized(2)
    return x + first, found, rest


class OnlyHinted:
    def __init__(self, hint):
        self.hint = hint

    def __iter__(self):
        return iter([1, 2])

    def __length_hint__(self):
        if isinstance(self.hint, type):
            raise self.hint("no hint")
        return self.hint


@programs(tensor(3))
def lists_and_tuples_ask_for_a_hint(x):
    return x + 1, list(OnlyHinted(2)), tuple(OnlyHinted(0)), [*OnlyHinted(9)]


@programs(tensor(3), graphs=None)
def hints_that_are_wrong(x):
    wrong = [outcome(list, OnlyHinted(hint)) for hint in (-1, "a", NotImplemented, TypeError, ValueError, True)]
    return x + 1, wrong


@programs(tensor(3), breaks=2)
def lengths_that_raise(x):
    return (
        x + 1,
        outcome(lambda: list(Sized(ValueError))),
        outcome(lambda: list(Sized(TypeError))),
        sum(Sized(ValueError)),
    )


@programs(tensor(3))
def hints_of_lengths(x):
    hinted = Hinted(0)
    return x + 1, outcome(lambda: list(hinted)), hinted.asked


class ByIndex:
    """Defines ``__getitem__`` only."""

    def __init__(self, items):
        self.items = items

    def __getitem__(self, at):
        return self.items[at]


@programs(tensor(2))
def objects_without_iter(x):
    seen = []
    for item in ByIndex([1, 2, 3]):
        seen.append(item)
        x = x + item
    a, b = ByIndex([6, 7])
    return x, seen, a, b, [*ByIndex("ab")], dict(zip(ByIndex("xy"), ByIndex([1, 2, 3]))), 3 in ByIndex([1, 3])


@programs(tensor(2), graphs=0)
def iterators_of_objects_without_iter(x):
    iterator = iter(ByIndex([1, 2]))
    return type(iterator).__name__, next(iterator), list(enumerate(iterator)), x


test_program = programs.test()


@checked(tensor(2), [1, 2, 3])
def test_reversed_list_in_a_function_that_the_list_holds(x, items):
    def rest():
        return backwards

    items.append(rest)
    backwards = reversed(items)
    return x + 1, items
