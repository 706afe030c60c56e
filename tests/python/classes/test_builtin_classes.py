"""Classes that derive from builtin ones: each operation runs the method that CPython finds on the class's MRO."""

from __future__ import annotations

import collections
import copy
import enum
import math
import random
from collections import OrderedDict, deque
from typing import Any, NamedTuple

import pytest
import torch

import dynamo_lite as dl
from builtin_classes import FAMILIES
from class_programs import Family, difference, programs_of
from collector import Programs
from neighbouring_classes import NEIGHBOURS
from programs import check, tensor

cases = Programs()


class Vector(NamedTuple):
    """Adds and scales its items, where tuples concatenate and repeat them."""

    x: torch.Tensor
    y: torch.Tensor

    def __add__(self, other: Any) -> Any:
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, factor: Any) -> Any:
        return Vector(self.x * factor, self.y * factor)

    def __rmul__(self, factor: Any) -> Any:
        return self * factor


class Odd(NamedTuple):
    x: int
    y: int

    def __len__(self):
        return 7

    def __iter__(self):
        return iter((9, 8))

    def __getitem__(self, index):
        return tuple.__getitem__(self, index) * 2

    def __eq__(self, other):
        return "equal"

    def __hash__(self):
        return 5

    def __contains__(self, item):
        return item == 100

    def __reversed__(self):
        return iter((1,))

    def __getattribute__(self, name):
        return 3 if name == "z" else tuple.__getattribute__(self, name)


class Successors(collections.namedtuple("Pair", "a b")):
    """A class whose ``__new__`` creates another value than its argument."""

    __slots__ = ()

    def __new__(cls, a, b):
        return super().__new__(cls, a + 1, b + 1)


class Output(OrderedDict):
    """A mapping whose items are attributes, too."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Renamed(dict):
    def keys(self):
        return ["k"]

    def __getitem__(self, key):
        return 5


class Comparing(dict):
    def __eq__(self, other):
        return super().__eq__(other)

    __hash__ = None


class Attributes(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class OwnDict(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Ordered(OrderedDict):
    pass


class Reversing:
    """Iterates backwards. Methods in C that iterate over the instance do so, too."""

    def __iter__(self):
        return iter([*super().__iter__()][::-1])


class ReversingSet(Reversing, set):
    pass


class ReversingQueue(Reversing, deque):
    pass


class ReversingDict(Reversing, dict):
    pass


class Template(str):
    __slots__ = ()


class Unwilling(str):
    __slots__ = ()

    def __rmod__(self, other):
        return "reflected"


class Grouping(collections.defaultdict):
    pass


class Extent(tuple, enum.Enum):
    FLAT = (1, 2)
    DEEP = (3, 4)


class Name(str, enum.Enum):  # noqa: UP042
    FIRST = "first"


class Choices(list, enum.Enum):
    FEW = [1, 2]  # noqa: RUF012
    MANY = [3, 4, 5]  # noqa: RUF012


class Measure:
    """An object that isn't a number, but whose methods are called by functions of numbers."""

    def __index__(self):
        return 3

    def __float__(self):
        return 2.5

    def __round__(self, digits=None):
        return "rounded", digits

    def __ceil__(self):
        return "ceiling"


class Lookup(dict):
    def __getitem__(self, key):
        return f"item {key}"


class Created:
    """Requires a keyword argument at its creation, also when it is copied."""

    def __new__(cls, *, size=0):
        made = super().__new__(cls)
        made.size = size + 1
        return made

    def __getnewargs_ex__(self):
        return (), {"size": self.size}


class Namespace:
    __slots__ = ("__dict__", "slot")
    default = 7

    def __setstate__(self, state):
        self.__dict__, _slots = state
        self.restored = True


class Reflecting(list):
    def __radd__(self, other):
        return "reflected"


class Money(int):
    def __add__(self, other):
        return Money(int(self) + int(other))

    def __repr__(self):
        return f"${int(self)}"


class Rounded(float):
    def __int__(self):
        return round(float(self))

    def __eq__(self, other):
        return int(self) == int(other)

    __hash__ = float.__hash__


class Tuple_(tuple):
    pass


class List_(list):
    pass


class Set_(set):
    pass


class Frozen(frozenset):
    pass


class Int(int):
    pass


@cases(tensor(3), graphs=1)
def operators_of_a_named_tuple(x):
    one, other = Vector(x, x * 2), Vector(x, x)
    return one + other, one * 2, 3 * one


@cases(tensor(3), graphs=1)
def protocols_of_a_named_tuple(x):
    odd = Odd(1, 2)
    texts = len(odd), odd[0], odd == odd, hash(odd), 100 in odd, 1 in odd, odd.z, odd.x
    return x + 1, texts, [*odd], list(odd), tuple(odd), list(reversed(odd)), max(odd)


@cases(tensor(3), graphs=1)
def named_tuple_with_a_constructor_of_its_own(x):
    size = Successors(1, 2)
    return torch.zeros(size) + x, x[0].expand(size), f"{size}", repr([size]), copy.copy(size), size._replace(a=5)


@cases(tensor(3), graphs=1)
def ordered_dict_that_sets_attributes(x):
    out = Output(logits=x + 1)
    out.update(loss=x)
    out.setdefault("cache", 3)
    out |= {"n": 4}
    return out.logits, out.loss, out.cache, out.n, out


@cases(tensor(3), graphs=1)
def ordered_dict_that_creates_others_of_its_class(x):
    out = Output(a=1) | {"b": 2}
    return x + 1, out.b, type(out.copy()).__name__, repr(out), {"z": 1} | out, Ordered(a=1).copy(), repr(Ordered(a=1))


@cases(tensor(3), graphs=1)
def dict_with_keys_of_its_own(x):
    odd = Renamed(a=1)
    return x + 1, dict(odd), {**odd}, odd | {}, odd.copy(), OrderedDict(odd), (lambda **named: named)(**odd)


@cases(tensor(3), graphs=1)
def comparison_by_the_base_class(x):
    pairs = (Tuple_((1,)), Tuple_((1,))), (List_([1]), List_([1])), (Set_([1]), Set_([1])), (Ordered(a=1), Ordered(a=1))
    found = [type(one).__mro__[1].__eq__(one, other) for one, other in pairs]
    return x + 1, found, Comparing(a=1) == Comparing(a=1), Comparing(a=1) == Comparing(a=2)


@cases(tensor(3), graphs=1)
def methods_of_dict_under_other_names(x):
    items = Attributes()
    items.zed = x
    found = items.zed
    items.other = 5
    del items.other
    return found + 1, items


@cases(tensor(3), graphs=1)
def dict_that_is_its_own_namespace(x):
    items = OwnDict(b=1)
    items["a"] = 9
    found = items.a
    items.c = 4
    items.pop("a")
    missing = hasattr(items, "a")
    del items.b
    return x + 1, found, items["c"], missing, dict(items)


@cases(tensor(3), graphs=1)
def percent_takes_the_items_of_any_tuple(x):
    return x + 1, "%s" % Tuple_((5,)), "%s" % (Tuple_((5,)),)


@cases(tensor(3), graphs=1)
def operators_of_derived_containers(x):
    lists = List_([1]) + List_([2]), [0] + List_([1]), List_([1]) + [0]
    sets = Set_([1]) | Set_([2]), Frozen([1]) | {2}, {1} & Set_([1]), repr(Set_([1])), repr(Frozen())
    return x + 1, Tuple_((1,)) + Tuple_((2,)), lists, sets, Frozen([1])


@cases(tensor(3), graphs=1)
def copies_of_instances_of_derived_classes(x):
    values = Attributes(a=1), List_([1]), Set_([1]), Int(3), Tuple_((1, 2)), Ordered(a=1), collections.Counter("ab")
    return x + 1, [copy.copy(each) for each in values], [copy.deepcopy(each) for each in values]


@cases(tensor(3), graphs=1)
def methods_in_c_that_iterate_over_the_instance(x):
    queue, other = ReversingQueue([1, 3]), deque([2, 2], maxlen=4)
    pairs = queue == deque([3, 1]), queue < other, queue >= other, queue != queue, ReversingQueue([1]) == deque([1, 2])
    merged = ReversingDict(a=1, b=2) | {"c": 3}, {"z": 0} | ReversingDict(a=1, b=2), ReversingDict(a=1, b=2).copy()
    return x + 1, repr(queue), repr(ReversingSet([1, 2])), pairs, [list(each) for each in merged], repr(other)


@cases(tensor(3), graphs=1)
def repeated_queues_iterate_over_their_copies(x):
    queue = ReversingQueue([1, 2, 3], 9)
    repeated = queue * 2, 3 * queue, queue * 0
    queue *= 2
    return x + 1, [list(each) for each in repeated], list(queue), "%s".__mod__(x.shape), Template("%s") % Unwilling("a")


@cases(tensor(3), graphs=1)
def templates_of_a_class_derived_from_str(x):
    filled = Template("{} {n}").format(1, n=x), Template("{a}").format_map({"a": 2}), Template("%s") % 3
    plain = Template("abc").format(1), Template("abc") % (), Template("").format()
    return x + 1, filled, [type(each).__name__ for each in (*filled, *plain)], plain


@cases(tensor(3), graphs=1)
def defaultdicts_that_create_others_of_their_class(x):
    groups = Grouping(list, {"a": [1]})
    made = groups | {"b": [2]}, {"c": []} | groups, groups.copy(), copy.copy(groups), repr(Grouping(int)), repr(groups)
    merged = Ordered(a=1).__ror__(OrderedDict(b=2)), groups.__ror__(collections.defaultdict(int, z=1))
    return x + 1, made, merged, groups["new"], groups


@cases(tensor(3), graphs=1)
def enum_members_are_instances_of_the_builtin_class(x):
    rows, columns = Extent.DEEP
    items = Extent.FLAT[0], Extent.FLAT[1:], [*Extent.FLAT], len(Extent.FLAT), 1 in Extent.FLAT, Extent.FLAT.index(2)
    sums = (0,) + Extent.FLAT, Extent.FLAT * 2, Extent.FLAT == (1, 2), sum(Extent.FLAT), Extent.FLAT < Extent.DEEP
    texts = "a " + Name.FIRST, Name.FIRST[0], len(Name.FIRST), list(Name.FIRST), "f" in Name.FIRST, Name.FIRST.upper()
    return x.expand(*Extent.FLAT, 3), torch.zeros(Extent.DEEP), rows, columns, items, sums, texts


@cases(tensor(3), graphs=1)
def concatenation_comes_after_the_methods_of_numbers(x):
    return x + 1, [1] + Reflecting(), List_([1]) + Reflecting(), Int(3) + 1.5, 1.5 + Int(3), Int(2) ** -1


@cases(tensor(3), graphs=1)
def conversions_of_numbers_with_methods_of_their_own(x):
    found = Money(3) + 4, float(Money(3)), "%d" % Money(5), int(Rounded(2.6)), Rounded(2.6) == 3, complex(Money(2))
    return x + 1, found, int(Template("12")), float(Template("1.5"))


@cases(tensor(3), graphs=1)
def functions_of_numbers_call_methods(x):
    one = Measure()
    found = round(one), round(one, 2), math.ceil(one), math.floor(one), int(one), float(one), complex(one)
    return x + 1, found, round(Rounded(2.6)), math.floor(Rounded(2.6)), math.trunc(Money(3)), divmod(Money(7), 2)


@cases(tensor(3), graphs=1)
def templates_read_items_and_attributes(x):
    by_name = "%(a)s" % Lookup(a=1), "%(a)5.1f%% of %(b)r" % {"a": 2.5, "b": Money(3)}, "%(a)d" % {"a": Money(4)}
    by_format = "{0.a} {0.b[1]} {k[key]}".format(Output(a=1, b=[2, Money(3)]), k=Lookup(key=1))
    nested = "{:>{width}}|{!r:<{}}".format(Money(3), "a", 5, width=Int(4))
    return x + 1, by_name, by_format, nested, "{a}".format_map(Lookup()), Template("{a}").format_map(Lookup(a=1))


@cases(tensor(3), graphs=1)
def dict_that_becomes_the_namespace_of_a_new_object(x):
    one, other, items = Namespace(), Namespace(), {"a": x, "default": 8}
    one.slot, one.lost = 1, 2
    one.__dict__ = other.__dict__ = items
    one.b = 3
    items["c"] = 4
    del one.default
    copied = copy.deepcopy(one)
    return other.b, other.c, one.default, one.slot, hasattr(one, "lost"), vars(other) is items, copied.restored, x + 1


@cases(tensor(3), graphs=1)
def enum_members_that_are_lists(x):
    many = Choices.MANY
    texts = (
        many.name,
        many.value,
        many == [3, 4, 5],
        many[1:],
        [*many],
        many + [6],
        4 in many,
        str(many),
        many is Choices.MANY,
    )
    return x * len(many), texts, sorted(Choices.FEW), {"key": Choices.FEW}


@cases(tensor(3), graphs=1)
def copies_by_arguments_of_the_constructor(x):
    return x + 1, copy.copy(Created(size=1)).size, copy.deepcopy(Created(size=2)).size, copy.copy(Successors(1, 2))


@cases(tensor(3), graphs=1)
def operators_by_the_names_of_their_methods(x):
    items = {"a": 1}
    merged = items.__or__({"b": 2})
    items.__ior__({"c": 3})
    return x + 1, {1}.__or__({2}), [1].__mul__(2), merged, items, [*[1, 2].__reversed__()], (1).__add__(2)


def test_iterables_are_consumed_one_item_at_a_time():
    def fn(x):
        left: deque[int] = deque([1, 2])
        left.extendleft(left[0] + n for n in range(3))
        kept = {1, 2, 3, 4}
        kept.difference_update(k for k in (1, 2, 4) if len(kept) > 2)
        limited: deque[int] = deque(maxlen=2)
        limited.extend(len(limited) for _ in range(4))
        return x + 1, left, kept, limited

    check(fn, tensor(3), graphs=1)


def test_tests_of_sets_stop_where_they_are_decided():
    def fn(x):
        seen = []

        def numbers():
            for n in (1, 2, 3, 4):
                seen.append(n)
                yield n

        disjoint = {2, 4}.isdisjoint(numbers())
        superset = {1, 3}.issuperset(numbers())
        rest = iter([1, 2, 3, 4])
        return x + 1, disjoint, superset, seen, {2}.isdisjoint(rest), list(rest)

    check(fn, tensor(3), graphs=1)


def test_items_before_an_error_are_added():
    def fn(x):
        def numbers():
            yield 1
            raise ValueError("no more")

        found = deque([0]), [0], {0}, {0: 0}
        for method in (found[0].extendleft, found[1].extend, found[2].update):
            try:
                method(numbers())
            except ValueError:
                x = x + 1
        try:
            found[3].update((n, n) for n in numbers())
        except ValueError:
            x = x + 1
        return x, found

    check(fn, tensor(3), graphs=1)


def test_existing_instances_are_read_and_mutated():
    def fn(x, items, numbers, members, frozen, queue):
        items["n"] = 2
        numbers.append(3)
        members.add(7)
        queue.append(4)
        return x + 1, items.n, numbers + [1], members | {9}, frozen | {8}, len(queue)

    class Queue(deque):
        pass

    args = Output(a=1), List_([1, 2]), Set_([1]), Frozen([1]), Queue([1])
    check(fn, tensor(3), *args, graphs=1)


def test_items_of_derived_queues():
    class Queue(deque):
        def push(self, item):
            self.append(item)
            return self[-1]

    class Shorter(Queue):
        def __len__(self):
            return super().__len__() - 1

        def __getitem__(self, index):
            return super().__getitem__(index) + 1

    def fn(x, queue):
        made, shorter = Queue([x, x + 1, 3], 3), Shorter([5, 6])
        made[0] = made[1] * 2
        del made[-1]
        queue[0] = queue.push(4) + 1
        return made[0], made.push(x), shorter[0], shorter[-1], shorter.push(8), queue[-2], deque.__getitem__(shorter, 0)

    check(fn, tensor(3), Queue([1, 2]), graphs=1)


def test_existing_dict_that_is_its_own_namespace():
    def fn(x, own):
        own["n"] = 5
        own.m = 6
        del own.b
        return x + own.n, own["m"]

    own, other = OwnDict(b=1), OwnDict(b=1)
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for each in (fn, compiled):
        found = each(tensor(3), own if each is fn else other)
        assert torch.equal(found[0], tensor(3) + 5) and found[1] == 6
    assert own == other == {"n": 5, "m": 6} and vars(other) is other


def test_results_of_operators_are_created_by_the_class():
    def fn(x):
        return torch.vmap(lambda row: Doubling(row, row + 1))(x)

    class Doubling(NamedTuple("Pair", [("x", torch.Tensor), ("y", torch.Tensor)])):
        def __new__(cls, x, y):
            return super().__new__(cls, x, y * 2)

    check(fn, tensor(3, 2), graphs=1)


def test_items_of_an_enum_member_are_guarded():
    def fn(x):
        return x * Choices.FEW[0]

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(compiled(tensor(3)), tensor(3))
    Choices.FEW[0] = 10
    try:
        assert torch.equal(compiled(tensor(3)), tensor(3) * 10)
    finally:
        Choices.FEW[0] = 1


def test_namespace_that_was_read_before_it_is_replaced():
    def fn(x):
        one = Namespace()
        one.a = 1
        before = one.__dict__
        one.__dict__ = {"b": 2}
        before["c"] = 3
        return x + 1, before, vars(one)

    check(fn, tensor(3), breaks=1)


def test_replay_calls_no_method_of_the_class():
    class Loud(list):
        def __setitem__(self, index, value):
            raise RuntimeError("not called")

    def fn(x, loud):
        loud.append(3)
        return x + len(loud)

    check(fn, tensor(3), Loud([1]), graphs=1)


test_case = cases.test()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.title)
def test_made_programs_do_as_in_eager(family, pytestconfig):
    _check_sample(family, pytestconfig, 160)


@pytest.mark.changes_what_is_guarded  # the first copy of an instance stores the names of slots on its class
@pytest.mark.parametrize("family", NEIGHBOURS, ids=lambda family: family.title)
def test_programs_of_neighbouring_classes_do_as_in_eager(family, pytestconfig):
    _check_sample(family, pytestconfig, 24)


def _check_sample(family: Family, pytestconfig: pytest.Config, count: int) -> None:
    """Checks a sample. ``make fuzz`` checks all programs."""
    made = [*programs_of(family)]
    drawn = random.Random(pytestconfig.getoption("sample_seed")).sample(made, min(len(made), count))
    whole = 0
    for program in drawn:
        wrong, graphs = difference(program)
        assert not wrong, f"{program}\n{program.source()}\n{wrong}"
        whole += graphs == 1
        dl.reset()
    assert whole > len(drawn) / 2 or not family.is_captured, "these programs are to be captured"
