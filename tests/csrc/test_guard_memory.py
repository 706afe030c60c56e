"""What a guard tree remembers of earlier checks doesn't go stale, and keeps nothing alive."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_lite import _C
from guard_probe import Inheriting, Inline, Overriding, Plain, Probe, on_frame, probe, probed, takes, with_defaults


def test_every_mutation_of_a_dict_invalidates_remembered_checks() -> None:
    def sub(d: dict[str, Any]) -> None:
        d.update({"a": 2})

    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda d: d.__setitem__("a", 2),
        lambda d: d.__delitem__("a"),
        lambda d: d.pop("a"),
        lambda d: d.popitem(),
        lambda d: d.clear(),
        lambda d: d.update(a=2),
        lambda d: d.update({"a": 2}),
        lambda d: d.update([("a", 2)]),
        lambda d: d.__ior__({"a": 2}),
        lambda d: (d.pop("a"), d.setdefault("a", 2)),
        lambda d: (d.clear(), d.update({"a": 2})),
        lambda d: (d.clear(), d.update({"b": 1})),
        lambda d: dict.__init__(d, a=2),
        sub,
    ]
    for change in changes:
        for make in (dict, OrderedDict, lambda **kw: Plain(**kw).__dict__):
            items = make(a=1)

            def look(p: Probe, items: Any = items, change: Any = change) -> None:
                p.demand(p.at(("dict_item", "a")), "equals", 1)
                assert p.holds()
                change(items)
                assert not p.holds()
                items.clear()
                items["a"] = 1
                assert p.holds()

            probe(items, look)


def store_attribute(target: Any, value: Any) -> None:
    target.a = value


def delete_attribute(target: Any) -> None:
    del target.a


def test_specialized_attribute_stores_invalidate_remembered_checks() -> None:
    """The adaptive interpreter writes directly into an instance's dict."""
    for inline in (False, True):
        target = Inline(1)
        if not inline:
            target.__dict__  # noqa: B018  made real

        def look(p: Probe, target: Any = target) -> None:
            p.demand(p.at(("instance_dict",), ("dict_item", "a")), "equals", 1)
            for value in (2, 3, 1, 1, 5, 1) * 30:
                store_attribute(target, value)
                assert p.holds() == (value == 1)
            for _ in range(30):
                delete_attribute(target)
                assert not p.holds()
                store_attribute(target, 1)
                assert p.holds()

        probe(target, look)


def test_inline_values_are_remembered_like_dict_items() -> None:
    """Checking attributes again costs about the same wherever CPython keeps them."""

    def seconds(objects: tuple[Inline, ...]) -> float:
        costs: list[float] = []

        def look(p: Probe) -> None:
            for at in range(len(objects)):
                p.demand(p.at(("tuple_item", at), ("instance_dict",), ("dict_item", "a")), "equals", 1)
            assert p.holds()
            costs.extend(p.tree.cost(p.view, 100) for _ in range(9))

        probe(objects, look)
        return min(costs)

    inside = tuple(Inline(1) for _ in range(400))
    apart = tuple(Inline(1) for _ in range(400))
    for each in apart:
        each.__dict__ = {"a": 1}
    assert seconds(inside) < 2.5 * seconds(apart)


@probed({"list": [1], "n": 1})
def test_dict_items_deleted_added_again_and_mutated(p: Probe, items: Any) -> None:
    inner = items["list"]
    p.demand(p.at(("dict_item", "list")), "length", 1)
    p.demand(p.at(("dict_item", "list"), ("list_item", 0)), "equals", 1)
    p.demand(p.at(("dict_item", "n")), "equals", 1)
    assert p.holds()
    inner.append(2)  # the dict's version stays
    assert p.failure().kind == "length"
    inner.pop()
    assert p.holds()
    inner[0] = 2
    assert p.failure().kind == "equals"
    inner[0] = 1
    del items["n"]
    assert p.failure().kind == "present"
    items["n"] = 1
    assert p.holds()
    items["list"] = [1]  # another list, equal
    assert p.holds()
    inner.append(3)  # no longer looked at
    assert p.holds()
    items["list"].append(3)
    assert not p.holds()


@probed(Plain(a=1, b=1))
def test_swapped_instance_dicts(p: Probe, one: Plain) -> None:
    other = Plain(a=2, b=1)
    p.demand(p.at(("instance_dict",), ("dict_item", "a")), "equals", 1)
    assert p.holds()
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    assert not p.holds()
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    assert p.holds()
    one.__dict__ = dict(other.__dict__)
    assert not p.holds()


@probed([None])
def test_alternating_containers_in_one_place(p: Probe, holder: list[Any]) -> None:
    """What is remembered of one value must not be used for another value at the same path."""
    good = Plain(child=Plain(n=1), t=(1, (2, 3)))
    bad = Plain(child=Plain(n=2), t=(1, (2, 4)))
    broken = Plain(child=Plain())
    inside = p.at(("list_item", 0), ("instance_dict",))
    p.demand(p.at(("dict_item", "child"), ("instance_dict",), ("dict_item", "n"), start=inside), "equals", 1)
    pair = p.at(("dict_item", "t"), start=inside)
    p.demand(p.at(("tuple_item", 0), start=pair), "equals", 1)
    p.demand(p.at(("tuple_item", 1), ("tuple_item", 1), start=pair), "equals", 3)
    p.tree.capture(pair)
    for each in (good, bad, good, broken, good, bad, bad, good, good, broken, broken, good) * 3:
        holder[0] = each
        captured = p.tree.lookup(p.view)
        assert (captured is not None) == (each is good)
        assert captured is None or captured[0] is good.t
        assert p.holds() == (each is good)
        captured = p.tree.lookup(p.view)
        assert captured is None or captured[0] is good.t
    good.child.n = 5
    holder[0] = good
    assert not p.holds()


@probed([None])
def test_new_object_at_a_reused_address_is_checked_again(p: Probe, holder: list[Any]) -> None:
    """Objects are deallocated and others allocated at their addresses: the pointers are equal, the contents differ."""
    item = p.at(("list_item", 0))
    p.demand(p.at(("instance_dict",), ("dict_item", "n"), start=item), "equals", 1)
    p.demand(p.at(("instance_dict",), ("dict_item", "t"), ("tuple_item", 0), start=item), "equals", 1)
    seen: set[int] = set()
    reused = 0
    for turn in range(2000):
        n, t = turn % 3 + 1, turn % 2 + 1
        holder[0] = None
        made = Plain()
        made.n = n  # type: ignore[attr-defined]
        made.t = (t,)  # type: ignore[attr-defined]
        holder[0] = made
        del made
        reused += id(holder[0]) in seen
        seen.add(id(holder[0]))
        assert (p.tree.lookup(p.view) is not None) == (n == 1 and t == 1)
    if not reused:
        pytest.skip("this allocator never reused an address")


def test_changed_class_attributes_invalidate_remembered_checks() -> None:
    class Base:
        flag = 1

    class Derived(Base):
        pass

    derived = Derived()

    def look(p: Probe) -> None:
        cls = p.at(("type",))
        p.demand(cls, "id", Derived)
        p.demand(p.at(("type_attr", "flag"), start=cls), "equals", 1)
        p.demand(cls, "type_lacks", "other")
        assert p.holds()
        Base.flag = 2
        assert not p.holds()
        Base.flag = 1
        assert p.holds()
        Derived.flag = 3
        assert not p.holds()
        del Derived.flag
        assert p.holds()
        Base.other = 1  # type: ignore[attr-defined]
        assert p.failure().kind == "type_lacks"
        del Base.other  # type: ignore[attr-defined]
        assert p.holds()
        Derived.__bases__ = (Plain,)
        assert not p.holds()
        Derived.__bases__ = (Base,)
        assert p.holds()

    probe(derived, look)


def test_changed_class_of_an_object_is_checked_again() -> None:
    class One:
        pass

    class Two:
        pass

    held = One()
    items = {"o": held}

    def look(p: Probe) -> None:
        p.demand(p.at(("dict_item", "o")), "type", One)
        assert p.holds()
        held.__class__ = Two  # type: ignore[assignment]
        assert not p.holds()
        held.__class__ = One
        assert p.holds()

    probe(items, look)


def test_changed_functions_are_checked_again() -> None:
    def make() -> Any:
        free = 1

        def function(a: int = 1) -> int:
            return a + free

        return function

    function, other = make(), make()
    namespace = {"f": function}

    def look(p: Probe) -> None:
        f = p.at(("dict_item", "f"))
        p.demand(p.at(("c_attr", "__code__"), start=f), "id", function.__code__)
        p.demand(p.at(("c_attr", "__defaults__"), ("tuple_item", 0), start=f), "equals", 1)
        cell = p.at(("c_attr", "__closure__"), ("tuple_item", 0), ("cell_contents",), start=f)
        p.demand(cell, "equals", 1)
        assert p.holds()
        function.__defaults__ = (2,)
        assert not p.holds()
        function.__defaults__ = (1,)
        assert p.holds()
        function.__closure__[0].cell_contents = 2
        assert not p.holds()
        function.__closure__[0].cell_contents = 1
        assert p.holds()
        namespace["f"] = other
        assert p.holds()
        function.__code__ = with_defaults.__code__.replace(co_freevars=("free",))
        assert p.holds()
        namespace["f"] = function
        assert not p.holds()

    probe(namespace, look)


def test_changed_classes_are_checked_again() -> None:
    class Meta(Inheriting):
        pass

    class Base:
        pass

    class Other:
        pass

    class Cls(Base, metaclass=Meta):
        pass

    def undone(change: Callable[[], Any], undo: Callable[[], Any]) -> Callable[[Probe], None]:
        def look(p: Probe) -> None:
            p.demand(p.at(("c_attr", "__name__")), "equals", "Cls")
            p.demand(p.at(("c_attr", "__mro__"), ("tuple_item", 1)), "id", Base)
            p.demand(p.at(("instance_dict",), ("dict_item", "__module__")), "equals", __name__)
            for _ in range(3):  # remembered, replayed
                assert p.holds()
            change()
            assert not p.holds()
            undo()
            assert p.holds()

        return look

    for name, other in (("__name__", "Another"), ("__bases__", (Other,)), ("__module__", "elsewhere")):
        was = getattr(Cls, name)
        probe(Cls, undone(lambda: setattr(Cls, name, other), lambda: setattr(Cls, name, was)))
    probe(
        Cls,
        undone(
            lambda: setattr(Meta, "__bases__", (Overriding,)),
            lambda: setattr(Meta, "__bases__", (Inheriting,)),
        ),
    )


# -- who keeps what alive -------------------------------------------------------------------------------------------


def test_deallocated_objects_invalidate_a_tree() -> None:
    for kind in ("id", "const", "type", "key"):

        class Local:
            pass

        target: Any = Local if kind == "type" else Local()

        def look(p: Probe, kind: str = kind) -> None:
            nonlocal target
            if kind == "const":
                p.tree.child(0, "const", target)
            elif kind == "key":
                p.demand(p.argument, "dict_keys", (target,))
            else:
                p.demand(p.argument, kind, target)
            assert p.tree.valid
            died = weakref.ref(target)
            target = None
            if kind == "type":
                nonlocal Local
                del Local
                gc.collect()
            assert died() is None, "the tree keeps what it guards alive"
            assert not p.tree.valid
            assert p.tree.lookup(p.view) is None
            failure = p.tree.test(p.view)
            assert failure is not None and "deallocated" in failure.words
            p.tree.checks()

        probe(3, look)


def test_guard_tree_holds_no_reference_to_a_guarded_module() -> None:
    def guarded() -> tuple[_C.GuardTree, weakref.ref[nn.Module]]:
        model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        trees: list[_C.GuardTree] = []

        def look(view: _C.FrameView) -> None:
            tree = _C.GuardTree(view.code)
            const = tree.child(0, "const", model)
            modules = tree.child(tree.child(const, "instance_dict"), "dict_item", "_modules")
            first = tree.child(modules, "dict_item", "0")
            tree.check(first, "type", nn.Linear, "t")
            tree.check(tree.child(0, "local", "x"), "id", model, "i")
            tree.capture(first)
            assert tree.lookup(view) == (model[0],)
            trees.append(tree)

        on_frame(takes, look, model)
        return trees[0], weakref.ref(model)

    tree, model = guarded()
    gc.collect()
    assert model() is None
    assert not tree.valid


def test_trees_are_collected_with_the_cycles_through_them() -> None:
    class Reason:
        tree: _C.GuardTree

    def cycle() -> weakref.ref[Reason]:
        reason = Reason()

        def look(p: Probe) -> None:
            reason.tree = p.tree
            p.tree.check(p.argument, "equals", 1, reason)
            assert p.holds()

        probe(1, look)
        return weakref.ref(reason)

    reason = cycle()
    gc.collect()
    assert reason() is None


def test_guard_trees_leak_no_references() -> None:
    value = Plain(a=1, t=(1, 2), d={"k": 1}, s={1})
    deq = deque([object()])
    grad = torch.ones(2, requires_grad=True)
    grad.grad = torch.zeros(2)

    def look(p: Probe) -> None:
        def build() -> _C.GuardTree:
            tree = _C.GuardTree(p.view.code)
            x = tree.child(0, "local", "x")
            first = tree.child(x, "tuple_item", 0)
            inside = tree.child(first, "instance_dict")
            tree.check(first, "type", Plain, "r")
            tree.check(tree.child(inside, "dict_item", "a"), "equals", 1, "r")
            tree.check(tree.child(inside, "dict_item", "t"), "equals", (1, 2), "r")
            tree.check(tree.child(inside, "dict_item", "d"), "dict_keys", ("k",), "r")
            tree.check(tree.child(inside, "dict_item", "s"), "set_items", frozenset({1}), "r")
            tree.check(tree.child(tree.child(x, "tuple_item", 1), "deque_item", 0), "id", deq[0], "r")
            tree.capture(tree.child(tree.child(x, "tuple_item", 2), "c_attr", "grad"))
            tree.check(0, "global_state", _C.GlobalState(), "r")
            return tree

        kept = build()
        for _ in range(20):
            build().lookup(p.view), kept.lookup(p.view), kept.test(p.view), kept.checks()
        gc.collect()
        watched = [value, deq, deq[0], grad, grad.grad, p.view.code, Plain, True, None, int]
        before = [sys.getrefcount(each) for each in watched]
        blocks = sys.getallocatedblocks()
        for _ in range(500):
            assert kept.lookup(p.view) is not None
            assert kept.test(p.view) is None
            kept.checks()
            build().lookup(p.view)
            value.a = 2  # type: ignore[attr-defined]
            assert kept.test(p.view) is not None
            assert kept.lookup(p.view) is None
            value.a = 1  # type: ignore[attr-defined]
        gc.collect()
        after = [sys.getrefcount(each) for each in watched]
        assert [a - b for b, a in zip(before, after, strict=True) if abs(a - b) > 20] == []
        assert sys.getallocatedblocks() - blocks < 200

    probe((value, deq, grad), look)


@probed({"a": [1], "b": 2})
def test_lookup_returns_captured_values(p: Probe, items: dict[str, Any]) -> None:
    a, b = p.at(("dict_item", "a")), p.at(("dict_item", "b"))
    assert p.tree.capture(b) == 0
    assert p.tree.capture(a) == 1
    assert p.tree.capture(b) == 0
    captured = p.tree.lookup(p.view)
    assert captured == (2, [1]) and captured[1] is items["a"]
    items["a"] = [5]
    captured = p.tree.lookup(p.view)
    assert captured is not None and captured[1] is items["a"]
    assert p.tree.lookup(p.view)[1] is items["a"]  # type: ignore[index]


@probed(types.CellType([1]))
def test_lookup_after_a_test_with_another_captured_value(p: Probe, cell: types.CellType) -> None:
    assert p.tree.capture(p.at(("cell_contents",))) == 0
    for _ in range(5):
        assert p.tree.lookup(p.view)[0] is cell.cell_contents  # type: ignore[index]
    was, cell.cell_contents = cell.cell_contents, [2]
    assert p.tree.test(p.view) is None
    cell.cell_contents = was
    assert p.tree.lookup(p.view)[0] is was  # type: ignore[index]


@probed({"a": [1], "b": [2]})
def test_distinct_fails_when_objects_become_one(p: Probe, items: dict[str, Any]) -> None:
    a, b = p.at(("dict_item", "a")), p.at(("dict_item", "b"))
    p.tree.check(a, "distinct", [b], "distinct")
    for _ in range(3):
        assert p.holds()
        items["b"] = items["a"]
        for _ in range(5):
            assert p.tree.lookup(p.view) is None
        items["b"] = [2]


def test_replaced_property_getters_are_checked_again() -> None:
    def one(self: Any) -> int:
        return 1

    def two(self: Any) -> int:
        return 2

    watched = property(one)

    def look(p: Probe) -> None:
        p.demand(p.at(("c_attr", "fget")), "id", one)
        assert p.holds()
        property.__init__(watched, two)
        assert not p.holds()
        property.__init__(watched, one)
        assert p.holds()
        property.__init__(watched)
        assert not p.holds()

    probe(watched, look)


@probed({"shared": {"k": 1}, "own": {"k": 2}})
def test_watched_dicts_are_deallocated_or_shared_by_trees(p: Probe, holder: dict[str, Any]) -> None:
    shared = holder["shared"]
    others = []
    for _ in range(3):
        other = Probe(p.view)
        other.demand(other.at(("dict_item", "shared"), ("dict_item", "k")), "equals", 1)
        assert other.holds()
        others.append(other)
    p.demand(p.at(("dict_item", "own"), ("dict_item", "k")), "equals", 2)
    for n in range(50):
        assert p.holds()
        holder["own"] = {"k": 2 + n % 2}
        gc.collect(0)
        assert p.holds() == (n % 2 == 0)
        holder["own"] = {"k": 2}
    del others[0]
    shared["k"] = 5
    assert not any(other.holds() for other in others)
    others.clear()
    shared["k"] = 1


@probed([1])
def test_checks_are_listed_by_node(p: Probe, _: list[int]) -> None:
    p.tree.check(0, "global_state", _C.GlobalState(), 0)
    p.tree.check(p.argument, "type", list, 1)
    p.tree.check(p.argument, "length", 1, 2)
    item = p.at(("list_item", 0))
    p.tree.check(item, "same_as", p.argument, 5)
    p.tree.check(item, "equals", (1, "a"), 3)
    p.tree.check(p.argument, "dict_keys", ("k", 2), 2.5)
    p.tree.check(0, "distinct", [item, p.argument], 6)
    p.tree.check(item, "set_items", frozenset({1}), 4)
    listed = p.tree.checks()
    assert [reason for reason, _, _ in listed] == [0, 1, 2, 2.5, 3, 4, 5, 6]
    assert listed[1:] == [
        (1, "type", list), (2, "length", 1), (2.5, "dict_keys", ("k", 2)), (3, "equals", (1, "a")),
        (4, "set_items", (1,)), (5, "same_as", p.argument), (6, "distinct", [item, p.argument]),
    ]  # fmt: skip


@probed([0, 0, 0])
def test_first_failed_check_in_order_is_reported(p: Probe, argument: list[int]) -> None:
    for index in range(3):
        p.tree.check(p.at(("list_item", index)), "equals", 0, index)
    for items, first in (([1, 0, 0], 0), ([0, 1, 1], 1), ([0, 0, 1], 2)):
        argument[:] = items
        assert p.failure().reason == first
        assert p.failure().value == 1
        assert p.failure().expected == 0
    argument[:] = [0, 0, 0]
    assert p.holds()
    assert _failure_of(p, argument).kind == "equals"


def _failure_of(p: Probe, argument: list[int]) -> _C.Failure:
    argument[0] = 9
    return p.failure()


@probed(nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)) for _ in range(20))))
def test_remembered_checks_of_a_model_are_fast(p: Probe, model: nn.Sequential) -> None:
    """A model's checks are read from memory instead of made one by one. The bound is far above the usual time."""
    count = 0

    def guard(node: int, module: nn.Module) -> None:
        nonlocal count
        p.demand(node, "type", type(module))
        inside = p.tree.child(node, "instance_dict")
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            p.demand(p.tree.child(inside, "dict_item", hooks), "length", 0)
        for name in ("forward", "weight_g"):
            p.demand(inside, "dict_lacks", name)
        p.demand(p.tree.child(inside, "dict_item", "training"), "equals", True)
        count += 7
        parameters = p.tree.child(inside, "dict_item", "_parameters")
        for name, parameter in module._parameters.items():
            child = p.tree.child(parameters, "dict_item", name)
            p.demand(child, "type", nn.Parameter)
            p.demand(child, "tensor", parameter)
            p.tree.capture(child)
            count += 2
        modules = p.tree.child(inside, "dict_item", "_modules")
        p.demand(modules, "dict_keys", tuple(module._modules))
        for name, child_module in module._modules.items():
            assert child_module is not None
            guard(p.tree.child(modules, "dict_item", name), child_module)

    guard(p.argument, model)
    assert p.holds()
    assert count > 500
    assert min(p.tree.cost(p.view, 100) for _ in range(5)) < 200e-6
    model[7][0].train(False)
    assert p.failure().kind == "equals"
    model[7][0].train(True)
    assert p.holds()
    model[3].register_forward_hook(lambda *_: None)
    assert p.failure().kind == "length"
