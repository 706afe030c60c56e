"""Existing dicts and sets whose keys have a ``__hash__`` or ``__eq__`` in Python, such as frozen dataclasses."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, tensor


@dataclasses.dataclass(frozen=True)
class Key:
    name: str
    size: int = 1


@dataclasses.dataclass(unsafe_hash=True)
class Mutable:
    name: str
    size: int = 1


class CaseInsensitive(str):
    def __hash__(self):
        return hash(self.lower())

    def __eq__(self, other):
        return self.lower() == other.lower()


class Colliding:
    def __init__(self, name, size=1):
        self.name = name

    def __repr__(self):
        return f"Colliding({self.name!r})"

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, Colliding) and self.name == other.name


CLASSES = (Key, Mutable, CaseInsensitive, Colliding)


def look_up(x, table, key):
    return x * table[key] if key in table else x - table.get(key, 1)


def store(x, table, key):
    table[key] = x * 2
    return x + len(table)


def remove(x, table, key):
    return table.pop(key, x) + 1, list(table)


def copy(x, table, key):
    return {**table, key: x}, {each for each in table}


def store_by_created_key(x, table, key):
    table.setdefault(type(key)("c"), x + 1)
    return x + table[type(key)("c")]


def change_key(x, table, key):
    if isinstance(key, Mutable):
        key.name = "b"
    return x * (key in table)


def store_and_change(x, table, key):
    table[key] = x * 3
    if isinstance(key, Mutable):
        key.name = "b"
    return x + 1


def compare(x, table, key):
    return x + (table == {key: 2.0})


PROGRAMS = (look_up, store, remove, copy, store_by_created_key, change_key, store_and_change, compare)


def outcomes(fn, make, key):
    """Results of three calls, and what the table holds after each."""
    table = make()
    for _ in range(3):
        result = fn(tensor(3), table, key())
        yield result, list(table.values()), [each in table for each in (key(), *make())]


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", ["a", "z"])
def test_dicts(program, cls, name):
    def make():
        return {cls("a"): 2.0, cls("b"): 3.0, "text": 4.0, (cls("a"), 1): 5.0}

    dl.reset()
    compiled = dl.compile(program, backend="eager")
    for got, wanted in zip(outcomes(compiled, make, lambda: cls(name)), outcomes(program, make, lambda: cls(name))):
        assert repr(got) == repr(wanted)


@pytest.mark.parametrize("cls", CLASSES)
def test_lookups_are_one_graph(cls):
    table = {cls("a"): tensor(3), cls("b"): tensor(3, seed=1)}

    def fn(x):
        return x + table[cls("b")]

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(tensor(3)), fn(tensor(3)))
    assert len(recorder.graphs) == 1


def test_other_keys_with_equal_attributes_need_no_compilation():
    recorder = Recorder()
    compiled = dl.compile(look_up, backend=recorder, fullgraph=True)
    for number in (2.0, 2.0, 2.0):
        assert torch.equal(compiled(tensor(3), {Key("a"): number}, Key("a")), tensor(3) * 2)
    assert len(recorder.graphs) == 1
    assert torch.equal(compiled(tensor(3), {Key("b"): 2.0}, Key("a")), tensor(3) - 1)


def test_a_key_that_changed_since_it_was_stored():
    """A lookup compares the hashes that a dict stores. Its keys' attributes say nothing of those."""
    compiled = dl.compile(look_up, backend="eager")
    key = Mutable("a")
    before = {key: 2.0}
    assert torch.equal(compiled(tensor(3), before, Mutable("a")), tensor(3) * 2)
    key.name = "b"
    after = {key: 2.0}
    key.name = "a"
    for table, name in ((after, "a"), (before, "a"), (after, "b")):
        assert torch.equal(compiled(tensor(3), table, Mutable(name)), look_up(tensor(3), table, Mutable(name)))
    key.name = "b"
    for table, name in ((after, "a"), (before, "a"), (after, "b"), (before, "b")):
        assert torch.equal(compiled(tensor(3), table, Mutable(name)), look_up(tensor(3), table, Mutable(name)))


@pytest.mark.parametrize("method", ["__hash__", "__eq__"])
def test_a_method_that_is_replaced(method, monkeypatch):
    compiled = dl.compile(look_up, backend="eager")
    table = {Mutable("a"): 2.0}
    key = Mutable("a")
    assert torch.equal(compiled(tensor(3), table, key), tensor(3) * 2)
    monkeypatch.setattr(Mutable, method, lambda *_: 0)
    assert torch.equal(compiled(tensor(3), table, key), tensor(3) - 1)


def test_a_new_dict_whose_key_is_mutated():
    """Generated code would store the key under its later hash."""

    def fn(x):
        key = Mutable("a")
        table = {key: x + 1}
        kept = {key}
        key.name = "b"
        return table, kept, Mutable("b") in table

    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        table, kept, was_there = compiled(tensor(3))
        assert not was_there and not (Mutable("b") in table or Mutable("b") in kept)


ITEMS = {Key("a"), Key("b"), 3}
FROZEN = frozenset({Key("a")})


def test_sets():
    def fn(x, key):
        found = key in ITEMS, key in FROZEN, ITEMS | {key}, FROZEN <= ITEMS
        ITEMS.discard(key)
        return x + len(ITEMS), found

    for wanted_breaks, run in ((0, fn), (0, dl.compile(fn, backend="eager", fullgraph=True))):
        ITEMS.clear()
        ITEMS.update((Key("a"), Key("b"), 3))
        got = [run(tensor(3), Key(name)) for name in ("b", "b", "z", "a")]
        assert [each[1] for each in got] == [
            (True, False, {Key("a"), Key("b"), 3}, True),
            (False, False, {Key("a"), Key("b"), 3}, True),
            (False, False, {Key("a"), Key("z"), 3}, True),
            (True, True, {Key("a"), 3}, True),
        ]
        assert [each[0].tolist() for each in got] == [(tensor(3) + size).tolist() for size in (2, 2, 2, 1)]


def test_a_hash_that_is_cached_in_the_key():
    class Cached(Key):
        def __hash__(self):
            if "hash" not in self.__dict__:
                object.__setattr__(self, "hash", hash(self.name))
            return self.__dict__["hash"]

    fn, table = look_up, {Cached("a"): 2.0}
    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(tensor(3), table, Cached("a")), fn(tensor(3), table, Cached("a")))
    explained = dl.explain(fn)(tensor(3), {Key("a"): 2.0}, Cached("a"))
    assert "has side effects" in str(explained)


def test_an_ordered_dict_breaks():
    table = OrderedDict({Key("a"): 2.0})
    compiled = dl.compile(look_up, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(tensor(3), table, Key("a")), tensor(3) * 2)
    assert "a key of an OrderedDict" in str(dl.explain(look_up)(tensor(3), table, Key("a")))


def test_tensors_are_keys_by_identity():
    """torch defines Tensor's ``__hash__`` in Python."""
    first, second = tensor(3), tensor(3)
    table = {first: 2.0, second: 3.0}

    def fn(x):
        return x * table[second] + (first in table)

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(tensor(3)), fn(tensor(3)))
    assert len(recorder.graphs) == 1


def test_a_stored_key_that_is_looked_up_with_another_hash():
    """Whether the dict finds it depends on where its table has put it."""

    def fn(x, table):
        key = next(iter(table))
        key.size += 1
        return x + 1, [each in table for each in (key, Mutable("a", 1), Mutable("a", key.size))]

    compiled = dl.compile(fn, backend="eager")
    for size in range(40):
        eager_table, table = {Mutable("a", size): 1}, {Mutable("a", size): 1}
        assert repr(compiled(tensor(3), table)) == repr(fn(tensor(3), eager_table))
