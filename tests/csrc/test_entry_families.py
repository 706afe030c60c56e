"""Entries shared by owners of a family: copies of a guard tree hold, fail, remember and are freed independently."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from dynamo_lite import _C
from frames import define

FAMILY = object()


def program() -> Any:
    return define("def fn(x, y=None): return x\ndef new(x, y=None): return [x]")


class Thing:
    def __init__(self, **items: Any) -> None:
        self.__dict__.update(items)


class Maker:
    """The callback of an owner. It copies an entry of the family, or else returns guards from ``build`` and the code
    of ``new``.
    """

    def __init__(self, new: Any, build: Any) -> None:
        self.new, self.build = new, build
        self.made = self.adopted = 0

    def __call__(self, view: _C.FrameView) -> Any:
        if view.adopt():
            self.adopted += 1
            return _C.RETRY
        self.made += 1
        tree = _C.GuardTree(view.code)
        self.build(tree, view)
        return tree, self.new.__code__.replace()


def owners(p: Any, build: Any, count: int = 2, family: Any = FAMILY) -> list[tuple[Any, Maker, _C.Owner]]:
    made = []
    for _ in range(count):
        maker = Maker(p.new, build)
        owner = _C.Owner(maker, "test", family)
        made.append((_C.Wrapped(p.fn, owner), maker, owner))
    return made


def nothing(tree: _C.GuardTree, view: _C.FrameView) -> None:
    pass


def of_everything(tree: _C.GuardTree, view: _C.FrameView) -> None:
    """Checks of every sort: of values, of tensors, between nodes, of sizes; and a captured value."""
    x, y = view.locals["x"], view.locals["y"]
    node, other = tree.child(0, "local", "x"), tree.child(0, "local", "y")
    tree.check(node, "type", type(x), "type of x")
    held = tree.child(node, "instance_dict")
    tree.check(held, "dict_keys", tuple(vars(x)), "names of x")
    tree.check(node, "lacks_instance_dict_item", "absent", "x has no absent")
    items = tree.child(held, "dict_item", "items")
    tree.check(items, "type", list, "type of x.items")
    tree.check(items, "length", len(x.items), "length of x.items")
    number = tree.child(held, "dict_item", "number")
    tree.check(number, "equals", x.number, "x.number")
    tensor = tree.child(held, "dict_item", "tensor")
    tree.check(tensor, "tensor_of_any_size", (x.tensor, (0,), ()), "x.tensor")
    tree.check(other, "tensor", y, "y")
    tree.check(tensor, "storages_distinct", ([tensor], [other]), "x.tensor and y are apart")
    tree.check(0, "symbolic", ([tensor], [("size", 0, 0), ("const", 2), ("lt",), ("not",)]), "x.tensor has 2 rows")
    tree.capture(tensor)


def thing(**items: Any) -> Thing:
    return Thing(**{"items": [1, 2], "number": 3, "tensor": torch.zeros(4), **items})


def test_owner_runs_an_entry_of_another_owner_of_its_family() -> None:
    p = program()
    (first, made, one), (second, adopted, other) = owners(p, nothing)
    assert first(1) == [1] and second(2) == [2] and second(3) == [3]
    assert (made.made, made.adopted, adopted.made, adopted.adopted) == (1, 0, 0, 1)
    (mine,), (theirs,) = one.entries(p.fn.__code__), other.entries(p.fn.__code__)
    assert mine.code is theirs.code and mine.tree is not theirs.tree
    assert (mine.hits, theirs.hits, mine.owner, theirs.owner) == (1, 2, one, other)


@pytest.mark.parametrize("family", [None, object()], ids=["none", "another"])
def test_owners_without_a_common_family_share_no_entries(family: Any) -> None:
    p = program()
    (first, made, _), *_ = owners(p, nothing)
    ((other, stranger, _),) = owners(p, nothing, 1, family)
    first(1), other(1)
    assert made.made == stranger.made == 1 and stranger.adopted == 0


def test_copied_guard_trees_make_all_checks_of_the_original() -> None:
    p = program()
    (first, _, one), (second, maker, other) = owners(p, of_everything)
    y = torch.zeros(3)
    first(thing(), y), second(thing(), y)
    assert maker.adopted == 1
    (mine,), (theirs,) = one.entries(p.fn.__code__), other.entries(p.fn.__code__)
    checks = [[(reason, kind) for reason, kind, _ in each.tree.checks()] for each in (mine, theirs)]
    assert checks[0] == checks[1] and len(checks[0]) == 10
    for _ in range(4):  # remembered, replayed, and again
        for call in (first, second):
            assert type(call(thing(), y)) is list and type(call(thing(tensor=torch.zeros(9)), y)) is list
    assert maker.made == 0
    shared = torch.zeros(4)
    for wrong in (
        (thing(number=4), y),
        (thing(items=[1]), y),
        (thing(more=1), y),
        (thing(tensor=torch.zeros(4, dtype=torch.int64)), y),
        (thing(tensor=torch.zeros(1)), y),
        (thing(), torch.zeros(4)),
        (thing(tensor=shared), shared[:3]),
    ):
        assert theirs.tree is not mine.tree
        before = mine.hits, theirs.hits
        maker.build = nothing  # the entry that it makes is dropped again
        assert second(*wrong) == [wrong[0]]
        assert (mine.hits, theirs.hits) == before
        other.reset()
        second(thing(), y)
        (theirs,) = other.entries(p.fn.__code__)


def test_family_entries_that_do_not_hold_are_skipped() -> None:
    def number(tree: _C.GuardTree, view: _C.FrameView) -> None:
        tree.check(tree.child(0, "local", "x"), "equals", view.locals["x"], "x")

    p = program()
    (first, _, _), (second, maker, _), (third, last, _) = owners(p, number, 3)
    first(1), first(2), second(2), second(3)
    assert (maker.made, maker.adopted) == (1, 1)
    third(3), third(2), third(1), third(4)
    assert (last.made, last.adopted) == (1, 3)


def test_copied_guards_outlive_the_owner_of_the_original() -> None:
    def known(tree: _C.GuardTree, view: _C.FrameView) -> None:
        tree.check(tree.child(0, "local", "x"), "id", view.locals["x"], "x")

    held = Thing(value=1)

    p = program()
    (first, _, one), (second, maker, other) = owners(p, known)
    first(held), second(held)
    gone, dead = weakref.ref(one), one.entries(p.fn.__code__)[0]
    del first, one, _
    gc.collect()
    assert gone() is None and not dead.valid
    assert second(held) == [held] and maker.made == 0
    third, young, _ = owners(p, known, 1)[0]
    assert third(held) == [held] and young.adopted == 1
    (entry,) = other.entries(p.fn.__code__)
    del held
    assert not entry.valid and other.entries(p.fn.__code__) == []


def test_copied_guards_outlive_the_collected_original() -> None:
    p = program()
    kept: list[Any] = []

    def in_a_cycle(tree: _C.GuardTree, view: _C.FrameView) -> None:
        reason = Thing(tree=tree)  # tree -> reason -> tree
        tree.check(tree.child(0, "local", "x"), "type", int, reason)
        kept.append(weakref.ref(reason))

    (first, _, one), (second, maker, other) = owners(p, in_a_cycle)
    first(1), second(1)
    one.reset()
    gc.collect()
    assert second(2) == [2] and maker.made == 0 and kept[0]() is not None  # the copy has the reason, that the first
    other.reset()
    gc.collect()
    assert kept[0]() is None


def test_second_owner_gets_an_equal_entry() -> None:
    p = program()
    keeper = _C.Owner(None, "keeper", FAMILY)

    def build_and_keep(view: _C.FrameView) -> Any:
        tree = _C.GuardTree(view.code)
        tree.check(tree.child(0, "local", "x"), "type", type(view.locals["x"]), "x")
        return tree, p.new.__code__, False, keeper

    owner = _C.Owner(build_and_keep, "test", FAMILY)
    assert _C.Wrapped(p.fn, owner)(1) == [1]
    del owner
    assert len(keeper.entries(p.fn.__code__)) == 1
    ((call, maker, _),) = owners(p, nothing, 1)
    assert call(2) == [2] and maker.adopted == 1
    assert call("a") == ["a"] and maker.made == 1


def test_second_owner_must_be_an_owner() -> None:
    p = program()
    owner = _C.Owner(lambda view: (_C.GuardTree(view.code), p.new.__code__, False, "keeper"))
    with pytest.raises(TypeError, match="a callback must return"):
        _C.Wrapped(p.fn, owner)(1)


def test_adopt_raises_after_the_callback_has_returned() -> None:
    views: list[_C.FrameView] = []
    p = program()
    owner = _C.Owner(lambda view: views.append(view) or _C.PASS, "test", FAMILY)
    _C.Wrapped(p.fn, owner)(1)
    with pytest.raises(RuntimeError, match="its callback has returned"):
        views[0].adopt()
