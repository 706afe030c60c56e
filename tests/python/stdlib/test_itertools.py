"""The module itertools: laziness, shared iterators, functions with state, errors in the middle."""

from __future__ import annotations

import itertools
import operator

from collector import Programs
from programs import tensor

programs = Programs()


class Log:
    """A function that records its arguments."""

    def __init__(self, fn):
        self.fn = fn
        self.seen = []

    def __call__(self, *args):
        self.seen.append(args)
        return self.fn(*args)


@programs(tensor(2), 3, others=[(tensor(2), 4)])
def chain_is_lazy(x, n):
    log = Log(lambda v: v * n)
    it = itertools.chain(map(log, [1, 2]), map(log, [3]))
    first = next(it)
    seen = list(log.seen)
    return x * first, seen, list(it), log.seen


@programs(tensor(2), [[1], [2, 3]], others=[(tensor(2), [[], [4]])])
def chain_from_iterable_of_an_argument(x, rows):
    flat = list(itertools.chain.from_iterable(rows))
    return x * sum(flat), flat


@programs(tensor(2), 2)
def one_iterator_under_two_names(x, n):
    it = iter(range(6))
    a, b = itertools.islice(it, n), it
    got = [next(b), next(a), next(b), *a]
    return x * got[0], got, list(b)


@programs(tensor(2))
def zip_takes_from_the_first_when_the_second_ends(x):
    a, b = iter([1, 2, 3]), iter([1])
    pairs = list(zip(a, b))
    return x + len(pairs), pairs, next(a, None), next(b, None)


@programs(tensor(2))
def zip_longest_is_lazy(x):
    a, b = iter([1, 2, 3]), iter("ab")
    it = itertools.zip_longest(a, b, fillvalue=x)
    first = next(it)
    rest_of_a = next(a)
    return x + 1, first, rest_of_a, list(it)


@programs(tensor(2), 4)
def count_goes_on_forever(x, n):
    it = itertools.count(n, 3)
    found = [next(it) for _ in range(3)]
    return x * found[-1], found, list(itertools.islice(it, 2)), next(itertools.count())


@programs(tensor(2), [1, 2])
def cycle_saves_items_not_the_list(x, items):
    it = itertools.cycle(items)
    a = [next(it), next(it)]
    b = next(it)
    items[0] = 50
    return x + b, a, [next(it) for _ in range(3)], items


@programs(tensor(2), 3)
def repeat_in_every_form(x, n):
    a = list(itertools.repeat(x, 2))
    it = itertools.repeat(n)
    b = [next(it), next(it)]
    c = list(map(pow, range(4), itertools.repeat(2)))
    d = list(itertools.repeat(1, 0)), list(itertools.repeat(1, -2)), list(itertools.repeat(object=7, times=1))
    return a[0] + a[1], a[0] is x, b, c, d


@programs(tensor(2), graphs=1, breaks=(4, 6))
def repeat_knows_what_is_left(x):
    it = itertools.repeat("v", 3)
    next(it)
    return (x + operator.length_hint(it), list(it), operator.length_hint([1]), operator.length_hint(3, 7))


@programs(tensor(2), [1, 2, 3, 4])
def accumulate_in_every_form(x, items):
    a = list(itertools.accumulate(items))
    b = list(itertools.accumulate(items, operator.mul))
    c = list(itertools.accumulate(items, max, initial=3))
    d = list(itertools.accumulate([x, x, x]))
    e = list(itertools.accumulate(items, func=lambda p, q: p - q, initial=None))
    f = list(itertools.accumulate([])), list(itertools.accumulate([], initial=5))
    return d[2], d[0] is x, a, b, c, e, f


@programs(tensor(2), 10)
def islice_in_every_form(x, n):
    a = list(itertools.islice(range(n), 3))
    b = list(itertools.islice(range(n), 2, 5))
    c = list(itertools.islice(range(n), 1, None, 3))
    d = list(itertools.islice(range(n), None)), list(itertools.islice(range(n), 0)), list(itertools.islice("abc", 5, 9))
    return x + len(a), a, b, c, len(d[0]), d[1:]


@programs(tensor(2))
def islice_takes_no_more_than_it_must(x):
    it = iter(range(10))
    a = list(itertools.islice(it, 2))
    b = next(it)
    c = list(itertools.islice(it, 1, 2))
    d = next(it)
    e = list(itertools.islice(it, 0, 3, 2))
    return x + b, a, b, c, d, e, list(it)


@programs(tensor(2), (1, 2), others=[(tensor(2), (3,))])
def product_in_every_form(x, pool):
    a = list(itertools.product(pool, "ab"))
    b = list(itertools.product(pool, repeat=2))
    c = list(itertools.product()), list(itertools.product(pool, [])), list(itertools.product(pool, repeat=0))
    return x + len(a), a, b, c


@programs(tensor(2))
def product_of_tensors(x):
    total = 0
    for a, b in itertools.product([x, x + 1], [1, 2]):
        total = total + a * b
    return total


@programs(tensor(2), [3, 1, 2])
def permutations_and_combinations(x, items):
    a = list(itertools.permutations(items))
    b = list(itertools.permutations(items, 2))
    c = list(itertools.combinations(items, 2))
    d = list(itertools.combinations_with_replacement(items, 2))
    e = list(itertools.permutations(items, 4)), list(itertools.combinations(items, 0)), list(itertools.permutations([]))
    return x + len(a), a, b, c, d, e


@programs(tensor(2))
def groupby_of_pairs_with_tensors(x):
    rows = [("a", x), ("a", x + 1), ("b", x * 2)]
    return {key: sum(v for _, v in group) for key, group in itertools.groupby(rows, key=operator.itemgetter(0))}


@programs(tensor(2), [1, 1, 2, 3, 3], others=[(tensor(2), []), (tensor(2), [float("nan")] * 2)])
def groups_end_when_the_next_begins(x, items):
    groups = itertools.groupby(items)
    kept = [(key, group) for key, group in groups]
    first = [list(group) for _, group in kept]
    odd = {key: [*group] for key, group in itertools.groupby(items, key=lambda v: v % 2)}
    counted = [(key, next(group), len(list(group))) for key, group in itertools.groupby("aabAc", str.upper)]
    return x + len(kept), first, odd, counted, [key for key, _ in itertools.groupby(items, None)]


@programs(tensor(2), [3, 2, 1, 0, 5])
def iterator_until_a_sentinel(x, items):
    it = iter(items.pop, 2)
    found = [next(it), *it, next(it, None)]
    at = iter([1, 2])
    return x + found[0], found, items, list(iter(lambda: next(at), 5)), list(iter(lambda: 1, 1)), next(it, 7)


@programs(tensor(2), 3)
def tee_of_several(x, n):
    a, b, c = itertools.tee((x + at for at in range(n)), 3)
    pairs = list(zip(a, itertools.islice(b, 1, None)))
    return next(c), len(pairs), pairs[0][1] - pairs[0][0], list(b), list(c), itertools.tee([], 0)


@programs(tensor(2))
def tee_of_one_iterator(x):
    it = iter(range(4))
    a, b = itertools.tee(it)
    got = [next(a), next(a), next(b)]
    return x + got[1], got, list(a), list(b), list(it)


@programs(tensor(2), [5, 1, 4, 2])
def takewhile_and_dropwhile(x, items):
    it = iter(items)
    a = list(itertools.takewhile(lambda v: v != 4, it))
    b = list(it)
    c = list(itertools.dropwhile(lambda v: v > 1, items))
    d = list(itertools.filterfalse(lambda v: v % 2, items)), list(itertools.filterfalse(None, [0, 1, "", x is None]))
    return x + len(a), a, b, c, d


@programs(tensor(2), [1, 0, 1])
def compress_and_pairwise(x, flags):
    a = list(itertools.compress("abc", flags))
    b = list(itertools.pairwise([x, x + 1, x + 2]))
    c = list(itertools.pairwise([1])), list(itertools.compress([], [1]))
    return b[1][1], b[0][1] is b[1][0], a, c


@programs(tensor(2))
def starmap_with_state(x):
    log = Log(lambda a, b=10: a + b)
    it = itertools.starmap(log, [(1, 2), (3,), [4, 5]])
    a = next(it)
    seen = len(log.seen)
    return x * a, seen, list(it), log.seen


@programs(tensor(2))
def an_error_in_the_middle(x):
    it = map(lambda v: 6 // v, [1, 0, 3])
    found = [next(it)]
    try:
        next(it)
    except ZeroDivisionError as error:
        found.append(str(error))
    return x * found[0], found, list(it)


@programs(tensor(2), {"a": 1}, graphs=None)
def a_dict_changes_under_chain(x, table):
    for key in itertools.chain(table):
        table[key + "b"] = x
    return table


@programs(tensor(2))
def iterators_are_their_own_iterators(x):
    kinds = [
        itertools.chain([1]),
        itertools.islice([1], 1),
        itertools.repeat(1, 1),
        itertools.count(),
        zip(),
        map(abs, []),
    ]
    return x + 1, [iter(each) is each for each in kinds], [type(each).__name__ for each in kinds]


@programs(tensor(2))
def iterators_in_boolean_tests(x):
    it = itertools.chain()
    return x + (1 if it else 2), bool(itertools.repeat(1, 0)), 3 in itertools.chain([1, 2], [3, 4])


@programs(tensor(2), graphs=(0, 1))
def iterators_leave_the_program(x):
    y = x + 1
    return y, itertools.chain([1, 2], [3]), itertools.count(3)


class Feed:
    def __init__(self, items):
        self.it = itertools.cycle(items)

    def draw(self):
        return next(self.it)


@programs(tensor(2))
def an_iterator_in_an_object(x):
    feed = Feed([1, 2])
    return x * feed.draw(), [feed.draw() for _ in range(3)]


@programs(tensor(2))
def the_recipes(x):
    def take(n, iterable):
        return list(itertools.islice(iterable, n))

    def grouper(iterable, n, fill=None):
        return itertools.zip_longest(*[iter(iterable)] * n, fillvalue=fill)

    def roundrobin(*iterables):
        pending = len(iterables)
        nexts = itertools.cycle(iter(it).__next__ for it in iterables)
        while pending:
            try:
                for each in nexts:
                    yield each()
            except StopIteration:
                pending -= 1
                nexts = itertools.cycle(itertools.islice(nexts, pending))

    a = take(2, itertools.count())
    b = list(grouper("abcde", 2, "-"))
    c = list(roundrobin("abc", "d", "ef"))
    return x + a[1], b, c


test_itertools = programs.test()
