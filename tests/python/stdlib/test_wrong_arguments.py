"""Builtins and methods in C given wrong arguments raise where they are called, as in CPython."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator

import pytest

from outcomes import outcome
from programs import check, checked, recompiling, tensor

CALLS = {
    "max of two with a default": lambda: max(1, 2, default=3),
    "min by a key alone": lambda: min(key=len),
    "min of a default alone": lambda: min(default=3),
    "min of nothing with a default": lambda: min([], default=3),
    "namedtuple of nothing": lambda: collections.namedtuple(),
    "map of nothing": lambda: map(len),
    "slice of nothing": lambda: slice(),
    "slice of four": lambda: slice(1, 2, 3, 4),
    "type of two": lambda: type(1, 2),
    "type of four": lambda: type(1, 2, 3, 4),
    "iter of no callable": lambda: iter([1], 2),
    "enumerate from a float": lambda: enumerate([1], 1.5),
    "format by a number": lambda: format(1, 2),
    "sorted by position": lambda: sorted([2, 1], len),
    "partial of no callable": lambda: functools.partial(1, 2),
    "partial of nothing": lambda: functools.partial(),
    "reduce by keyword": lambda: functools.reduce(max, [1], initial=2),
    "reduce of four": lambda: functools.reduce(max, [1], 2, 3),
    "reduce of one": lambda: functools.reduce(max),
    "methodcaller of a number": lambda: operator.methodcaller(1),
    "itemgetter of nothing": lambda: operator.itemgetter(),
    "concat of one": lambda: operator.concat([1]),
    "indexOf by keyword": lambda: operator.indexOf([1], b=1),
    "countOf of three": lambda: operator.countOf(1, 2, 3),
    "length_hint by default of a list": lambda: operator.length_hint(1, []),
    "defaultdict of no callable": lambda: collections.defaultdict(1),
    "defaultdict of three": lambda: collections.defaultdict(list, [], []),
    "OrderedDict of two": lambda: collections.OrderedDict([], []),
    "islice by a float": lambda: itertools.islice([1], 1.5),
    "islice by nothing": lambda: itertools.islice([1]),
    "prod by position": lambda: math.prod([1.5], 2),
    "step of zero": lambda: [1, 2][::0],
    "step of zero in a tuple": lambda: (1, 2)[::0],
    "delete by a step of zero": lambda: [1, 2].__delitem__(slice(None, None, 0)),
    "text by keyword": lambda: (1, 2).__repr__(a=1),
    "stars before no iterable": lambda: (1, 2).__ne__(*1.5),
    "stars before a class": lambda: len(*int),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments(name):
    call = CALLS[name]

    def fn(x, log):
        y = x + 1
        log.append(outcome(call))
        return y * 2

    check(fn, tensor(2), [], graphs=None)


@checked(tensor(2), {1, 2, 3}, graphs=None)
def test_a_difference_is_made_as_far_as_it_comes(x, items):
    try:
        items.difference_update([1], 2, [3])
    except TypeError as error:
        return x + len(items), str(error)


def test_text_of_an_object_in_c_asks_its_class():
    def fn(x, counter, plain):
        return x + 1, counter.__str__(), plain.__str__(), collections.Counter("ab").__str__()

    class Plain(dict):
        def __repr__(self):
            return "plain"

    check(fn, tensor(2), collections.Counter("aab"), Plain(a=1), graphs=None)


class Mapping:
    def __getitem__(self, key):
        return key


@pytest.mark.parametrize("template", ["a", "%s", "%s%s"])
def test_a_template_takes_an_object_with_items_for_a_mapping(template):
    def fn(x, mapping):
        try:
            text = template % mapping
        except TypeError as error:
            text = str(error)
        return x + 1, text.partition(" object")[0]

    check(recompiling(fn), tensor(2), Mapping(), graphs=None)


@pytest.mark.parametrize("name, args", [("equal", ()), ("allclose", ()), ("__index__", ()), ("as_subclass", (1,))])
def test_methods_of_tensors(name, args):
    def fn(x):
        y = x + 1
        return outcome(getattr(y, name), *args), y * 2

    check(fn, tensor(2), graphs=None)


class Plain:
    def read(self, name):
        return super().__getattribute__(name)

    def write(self, name):
        super().__setattr__(name, 1)


class OfInt(int):
    pass


@pytest.mark.parametrize("base", [object, list, dict, set, tuple, int, float, complex, str, bytes])
def test_new_takes_classes_that_derive_from_its_own(base):
    def program(x):
        wrong = [outcome(base.__new__, value) for value in (3, None, "a", [], Plain())]
        wrong += [outcome(base.__new__, cls) for cls in (Plain, OfInt, type(wrong)) if not issubclass(cls, base)]
        return x + 1, wrong, outcome(base.__new__, base) == ("object" if base is object else base())

    check(program, tensor(2), graphs=None)


@pytest.mark.parametrize("name", [3, None, 1.5, (), "missing"])
def test_names_of_attributes_are_strings(name):
    def program(x, obj):
        methods = object.__getattribute__, object.__delattr__, obj.__getattribute__, obj.__delattr__, obj.read
        found = [outcome(each, *((obj, name) if at < 2 else (name,))) for at, each in enumerate(methods)]
        if not isinstance(name, str):
            found += [
                outcome(object.__setattr__, obj, name, 4),
                outcome(obj.write, name),
                outcome(setattr, obj, name, 1),
            ]
        return x + 1, found, outcome(getattr, obj, name), outcome(type.__getattribute__, Plain, name)

    check(program, tensor(2), Plain(), graphs=None)


def test_a_counter_starts_at_a_number():
    def program(x, obj):
        return x + 1, outcome(itertools.count, obj)

    check(program, tensor(2), Plain())
