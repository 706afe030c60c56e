"""Operations of builtin containers and of classes derived from them: views, proxies, factories, wrong arguments."""

from __future__ import annotations

import copy
import enum
from collections import Counter, OrderedDict, defaultdict, deque
from types import MappingProxyType

from collector import Programs
from programs import check, tensor

cases = Programs()


class Items(dict):
    pass


class Number(int):
    pass


class Text(str):
    def __str__(self):
        return "text"


class Grouping(defaultdict):
    pass


class ByKey(defaultdict):
    """A defaultdict whose factory receives the key."""

    def __missing__(self, key):
        found = self[key] = self.default_factory(key)
        return found


class Queue(deque):
    pass


class Spelled:
    """Iterates by ``__getitem__``."""

    def __init__(self, log):
        self.log = log

    def __len__(self):
        self.log.append("len")
        return 3

    def __getitem__(self, index):
        if index > 2:
            raise IndexError(index)
        return index * 2


def error_of(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)


@cases(tensor(3), graphs=1)
def views_compare_as_sets(x):
    one, other = {"a": 1, "b": 2}, Items(a=1)
    orders = one.keys() > other.keys(), one.items() >= other.items(), one.items() < other.items()
    sets = one.keys() == {"a", "b"}, {("a", 1)} <= one.items(), frozenset("a") < one.keys(), one.keys() != ["a", "b"]
    return x + 1, orders, sets, one.keys().isdisjoint(["z"]), one.values() == one.values(), one.items() == other.items()


@cases(tensor(3), graphs=1)
def views_of_keys_and_values_do_not_compare(x):
    items = {"a": 1}
    try:
        found = items.keys() < items.values()
    except TypeError as error:
        found = str(error)
    return x + 1, found, items.keys() == items.values()


@cases(tensor(3), graphs=1)
def methods_of_views(x):
    items = OrderedDict(a=1)
    texts = repr(items.keys()), str({"a": 1}.items()), f"{items.values()}"
    return x + 1, texts, items.keys().__or__(["b"]), len(items.keys()), items.keys().mapping["a"], "a" in items.keys()


@cases(tensor(3), graphs=1)
def proxies_do_what_their_mappings_do(x):
    items = Items(a=1)
    proxy = MappingProxyType(items)
    found = proxy == items, {"a": 1} == proxy, proxy != {}, proxy | {"b": 2}, {"b": 2} | proxy, repr(proxy)
    return (
        x + 1,
        found,
        {**proxy},
        proxy.get("a"),
        list(reversed(proxy)),
        len(proxy),
        MappingProxyType(Counter("aa"))["a"],
    )


@cases(tensor(3), graphs=1)
def zip_that_fails_strictly(x):
    found = []
    for lists in (([1, 2], [1]), ([1], [1, 2]), ([1], [1], [1, 2]), ([1, 2], [1, 2], [1]), ([1], [2])):
        found.append(error_of(lambda lists: list(zip(*lists, strict=True)), lists))
    return x + 1, found


@cases(tensor(3), graphs=1)
def wrong_numbers_and_names_of_arguments(x):
    values = [1], (1,), {"a": 1}, {1}, "a", 3, OrderedDict(a=1), deque([1]), Items(a=1), Number(3), Queue([1])
    found = []
    for value in values:
        for call in (
            lambda value: value.__len__(1),
            lambda value: value.copy(1),
            lambda value: value.pop(1, 2, 3),
            lambda value: value.index(),
            lambda value: value.bit_length(1),
            lambda value: value.upper(x=1),
        ):
            try:
                found.append(call(value))
            except (TypeError, AttributeError) as error:
                found.append((type(error).__name__, str(error)))
    return x + 1, found


@cases(tensor(3), graphs=1)
def errors_name_the_derived_class(x):
    number, items = Number(3), Items(a=1)
    found = error_of(lambda: number + None), error_of(lambda: number < None), error_of(list, number)
    return x + 1, found, error_of(lambda: f"{items:d}"), error_of(lambda: Items(1, 2)), error_of(lambda: number[0])


@cases(tensor(3), graphs=1)
def update_by_what_are_no_pairs(x):
    items = {}
    found = error_of(items.update, [1]), error_of(items.update, [("a", 1), (1, 2, 3)]), error_of(dict, ["ab", "c"])
    return x + 1, found, items, dict(["ab"]), dict(iter(pair) for pair in ("cd",))


@cases(tensor(3), graphs=1)
def format_of_a_derived_string_calls_str(x):
    text = Text("a")
    return x + 1, str.__format__(text, ""), f"{text}", f"{text:>3}"


@cases(tensor(3), graphs=1)
def classes_derived_from_defaultdict(x):
    groups = Grouping(list, b=[0])
    for n in range(3):
        groups[n % 2].append(n)
    keyed = ByKey(lambda key: key * 2)
    copied = copy.copy(groups), groups.copy(), groups | {"c": 1}, copy.deepcopy(groups)
    return (
        x + 1,
        groups,
        keyed["a"],
        dict(keyed),
        copied,
        [each.default_factory for each in copied],
        repr(Grouping(int)),
    )


@cases(tensor(3), graphs=1)
def factories_are_read_and_set(x):
    counts = defaultdict(None, a=1)
    try:
        counts["b"]
    except KeyError as error:
        missing = error.args
    counts.default_factory = int
    counts["b"] += 1
    return x + 1, counts, missing, counts.__missing__("c"), error_of(defaultdict, 3), Grouping(int).__missing__("a")


@cases(tensor(3), graphs=1)
def classes_derived_from_deque(x):
    queue = Queue([1, 2], 3)
    queue.append(3)
    queue.append(4)
    made = queue + Queue([5]), queue * 2, 2 * queue, queue.copy(), copy.copy(queue), copy.deepcopy(queue)
    plain = deque([1])
    plain.__init__([2, 3, 4], maxlen=2)
    return (
        x + 1,
        queue,
        made,
        [each.maxlen for each in made],
        plain,
        error_of(deque, [], -1),
        error_of(queue.__add__, [1]),
    )


@cases(tensor(3), graphs=1)
def iterators_by_getitem(x):
    log = []
    spelled = Spelled(log)
    found = list(reversed(spelled)), list(iter(spelled)), [*spelled], max(spelled), type(iter(spelled)).__name__
    return x + 1, found, log


@cases(tensor(3), graphs=1)
def operations_of_instance_dicts(x):
    one, other = Spelled(1), Spelled(1)
    equal = vars(one) == vars(other), vars(one) == {"log": 1}, {"log": 2} != vars(one), repr(vars(one))
    one.__dict__ |= {"n": 2}
    one.__dict__.__setitem__("m", x)
    last = one.__dict__.popitem()
    return last[1] + 1, equal, one.n, one.__dict__.__contains__("n"), vars(one).setdefault("log", 5), hasattr(one, "m")


class Mode(str, enum.Enum):  # noqa: UP042  (programs write it so)
    TRAIN = "train"
    EVAL = "eval"

    def __str__(self):
        return f"mode {self.value}"


@cases(tensor(3), graphs=1)
def enums_of_strings_with_texts_of_their_own(x):
    mode = Mode.TRAIN
    return x + 1, mode == "train", "train" == mode, mode + "ing", mode in ("eval", "train"), mode < Mode.EVAL, f"{mode}"


def test_existing_instances_of_derived_classes_are_mutated():
    def fn(x, groups, queue, counts):
        groups["a"].append(2)
        groups["b"].append(3)
        queue.append(4)
        counts.default_factory = int
        counts["z"] += 1
        return x + 1, queue.maxlen, groups.default_factory, queue + queue

    check(fn, tensor(3), Grouping(list, a=[1]), Queue([1, 2, 3], 3), defaultdict(None), graphs=1)


test_case = cases.test()
