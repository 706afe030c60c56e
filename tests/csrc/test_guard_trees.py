"""Guard trees in C++: the value that each accessor reaches, and the text of each check."""

from __future__ import annotations

import collections
import functools
import math
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dynamo_lite import _C
from guard_probe import Inline, Path, Plain, Probe, check_fails, check_holds, on_frame, probe, probed, with_defaults

# -- accessors ----------------------------------------------------------------------------------------------------


class Slotted:
    __slots__ = ("filled", "empty")

    def __init__(self, filled: Any) -> None:
        self.filled = filled


def test_each_accessor_reaches_its_value() -> None:
    plain = Plain(item=7)
    slotted = Slotted("s")
    ordered = OrderedDict([("one", 1), ("two", 2)])
    ordered.move_to_end("one")
    reference = weakref.ref(plain)
    cell = types.CellType(5)
    tensor = torch.ones(2, requires_grad=True)
    tensor.grad = torch.zeros(2)
    bound = plain.method
    partial = functools.partial(max, 1, key=abs)
    cases: list[tuple[Any, Path, Any]] = [
        (plain, [("type",)], Plain),
        (plain, [("instance_dict",), ("dict_item", "item")], 7),
        (plain, [("type",), ("type_attr", "shared")], "class"),
        (Plain, [("type_attr", "shared")], "class"),
        (Plain, [("instance_dict",), ("dict_item", "shared")], "class"),
        (bool, [("type_attr", "real")], bool.__mro__[1].__dict__["real"]),
        (slotted, [("slot", Slotted.__dict__["filled"])], "s"),
        (with_defaults, [("c_attr", "__code__")], with_defaults.__code__),
        (with_defaults, [("c_attr", "__defaults__"), ("tuple_item", 0)], 1),
        (with_defaults, [("c_attr", "__kwdefaults__"), ("dict_item", "b")], 2),
        (with_defaults, [("c_attr", "__closure__")], None),
        (with_defaults, [("c_attr", "__globals__"), ("dict_item", "Plain")], Plain),
        (bound, [("c_attr", "__func__")], Plain.method),
        (bound, [("c_attr", "__self__")], plain),
        (partial, [("c_attr", "func")], max),
        (partial, [("c_attr", "args"), ("tuple_item", 0)], 1),
        (partial, [("c_attr", "keywords"), ("dict_item", "key")], abs),
        ([].append, [("c_attr", "__name__")], "append"),
        (slice(1, 2), [("c_attr", "stop")], 2),
        (defaultdict(list), [("c_attr", "default_factory")], list),
        (deque(maxlen=3), [("c_attr", "maxlen")], 3),
        (tensor, [("c_attr", "grad")], tensor.grad),
        (tensor, [("c_attr", "is_leaf")], True),
        (torch.ones(1), [("c_attr", "grad")], None),
        ({"k": 3}, [("dict_item", "k")], 3),
        ({1: "one"}, [("dict_item", 1)], "one"),
        ({("a", 1): "pair"}, [("dict_item", ("a", 1))], "pair"),
        ({"k": 3, "l": 4}, [("dict_key", 1)], "l"),
        ({"k": 3, "l": 4}, [("dict_value", 1)], 4),
        (ordered, [("dict_key", 0)], "two"),
        (ordered, [("dict_value", 1)], 1),
        (ordered, [("dict_item", "two")], 2),
        ([5, 6], [("list_item", 1)], 6),
        ((5, 6), [("tuple_item", 1)], 6),
        (torch.Size([8, 9]), [("tuple_item", 1)], 9),
        (deque([5, 6]), [("deque_item", 1)], 6),
        (cell, [("cell_contents",)], 5),
        (reference, [("weakref_target",)], plain),
        (weakref.proxy(plain), [("weakref_target",)], plain),
        (sys, [("instance_dict",), ("dict_item", "modules")], sys.modules),
    ]
    for x, path, value in cases:

        def look(p: Probe, path: Path = path, value: Any = value) -> None:
            node = p.at(*path)
            p.tree.capture(node)
            captured = p.tree.lookup(p.view)
            assert captured is not None, (path, p.tree.test(p.view))
            assert captured[0] is value or captured[0] == value, path
            assert p.tree.lookup(p.view) == captured

        probe(x, look)


def test_accessors_of_the_frame() -> None:
    free = [1, 2]

    def inner(a: Any, *rest: Any, b: Any = 4, **more: Any) -> Any:
        return (lambda: a), free

    def look(view: _C.FrameView) -> None:
        tree = _C.GuardTree(view.code)
        steps: Path = [("local", name) for name in ("a", "rest", "b", "more")]
        steps += [("globals",), ("builtins",), ("function",), ("const", free)]
        for step in steps:
            tree.capture(tree.child(0, *step))
        tree.capture(tree.child(tree.child(0, "closure", 0), "cell_contents"))
        captured = tree.lookup(view)
        assert captured is not None
        assert captured[:4] == (1, (2, 3), 4, {"c": 5})
        assert captured[4] is globals() and captured[5]["len"] is len
        assert captured[6] is inner and captured[7] is free and captured[8] is free

    on_frame(inner, look, 1, 2, 3, c=5)


@pytest.mark.parametrize(
    ("x", "path", "words"),
    [
        ({}, [("dict_item", "k")], "nothing"),
        (3, [("dict_item", "k")], "cannot be read"),
        ([], [("list_item", 0)], "nothing"),
        ((), [("tuple_item", 0)], "nothing"),
        (deque(), [("deque_item", 0)], "nothing"),
        ({}, [("dict_key", 0)], "nothing"),
        ({}, [("dict_value", 0)], "nothing"),
        (types.CellType(), [("cell_contents",)], "nothing"),
        (Slotted(1), [("slot", Slotted.__dict__["empty"])], "nothing"),
        (3, [("slot", Slotted.__dict__["empty"])], "cannot be read"),
        (3, [("instance_dict",)], "nothing"),
        (Plain(), [("type",), ("type_attr", "missing")], "nothing"),
        (Plain(), [("c_attr", "missing")], "nothing"),
        (Plain(), [("c_attr", "method")], "cannot be read"),
        (3, [("weakref_target",)], "cannot be read"),
    ],
)
def test_a_missing_value_is_a_failure_of_present(x: Any, path: Path, words: str) -> None:
    def look(p: Probe) -> None:
        p.demand(p.at(*path), "id", None)
        failure = p.failure()
        assert failure.kind == "present"
        assert failure.reason == "reason of id"
        assert failure.expected == path[-1][0]
        assert words in failure.words

    probe(x, look)


@probed((Slotted(1), types.CellType(), {"a": 1}))
def test_unbound_holds_only_without_a_value(p: Probe, held: tuple[Any, ...]) -> None:
    slotted, cell, items = held
    slot = Slotted.__dict__["empty"]
    for index, step in enumerate([("slot", slot), ("cell_contents",), ("dict_item", "b")]):
        p.demand(p.at(("tuple_item", index), step), "unbound")
    assert p.holds()
    slotted.empty = 1  # type: ignore[attr-defined]
    assert p.failure().kind == "unbound"
    del slotted.empty  # type: ignore[attr-defined]
    assert p.holds()
    cell.cell_contents = None
    assert not p.holds()
    del cell.cell_contents
    assert p.holds()
    items["b"] = 2
    assert not p.holds()
    del items["b"]
    assert p.holds()


def test_invalid_accessors_and_checks_are_refused() -> None:
    def look(p: Probe) -> None:
        tree = p.tree
        for parent, kind, arg in [
            (p.argument, "no such", None),
            (p.argument, "local", "x"),
            (0, "list_item", 0),
            (0, "local", "y"),
            (0, "closure", 0),
            (p.argument, "list_item", -1),
            (p.argument, "list_item", "0"),
            (p.argument, "slot", 3),
            (p.argument, "type_attr", 3),
            (99, "type", None),
        ]:
            with pytest.raises(ValueError):
                tree.child(parent, kind, arg)
        with pytest.raises(ValueError):
            tree.check(p.argument, "no such", None, None)
        with pytest.raises(ValueError):
            tree.check(0, "type", int, None)
        with pytest.raises(ValueError):
            tree.check(p.argument, "same_as", 17, None)
        for kind, wrong in [("type", 3), ("equals", []), ("length", "3"), ("dict_keys", 3), ("tensor", 3),
                            ("global_state", 3), ("set_items", 3), ("type_lacks", 3)]:  # fmt: skip
            with pytest.raises((TypeError, ValueError)):
                tree.check(p.argument, kind, wrong, None)
        with pytest.raises(TypeError):
            tree.child(p.argument, "dict_item", [])
        node = 0
        with pytest.raises(ValueError, match="deep"):
            for _ in range(10_000):
                node = tree.child(node, "const", None) if node == 0 else tree.child(node, "type")
        assert tree.test(p.view) is None
        with pytest.raises(RuntimeError):
            tree.child(0, "globals")

    probe(1, look)
    with pytest.raises(TypeError):
        _C.GuardTree(3)  # type: ignore[arg-type]


# -- checks -------------------------------------------------------------------------------------------------------

NAN = float("nan")
OTHER_NAN = -NAN

CONSTANTS: list[Any] = [
    0, 0.0, -0.0, False, True, 1, 1.0, 2**70, None, ..., NotImplemented, "", "a", b"", b"a", NAN, OTHER_NAN, math.inf,
    0j, complex(-0.0, 0.0), complex(0.0, -0.0), 1j, (), (0,), (0.0,), (-0.0,), (False,), ((1,),), ((True,),), (NAN,),
    frozenset(), frozenset({1}), frozenset({True}), frozenset({1.0}), frozenset({(0,)}), frozenset({(0.0,)}),
    range(0), range(2, 1), range(3), slice(1), slice(1.0), slice(1, None), torch.Size([1]), (1,), torch.Size([]),
    torch.float32, torch.float64, torch.device("cpu"), torch.device("cpu", 0), torch.device("meta"),
    torch.finfo(torch.float32), torch.finfo(torch.float64), torch.iinfo(torch.int8), torch.strided, torch.sparse_coo,
    torch.contiguous_format, torch.channels_last, "é", "\U0001f600",
]  # fmt: skip


def rebuilt(value: Any) -> Any:
    """Returns an equal constant that is a different object, where possible."""
    if type(value) is float:
        return float.fromhex(value.hex()) if value == value else math.copysign(math.nan, math.copysign(1.0, value))
    if type(value) is complex:
        return complex(value.real, value.imag)
    if type(value) is int:
        return int(str(value))
    if type(value) is str:
        return "".join(list(value)) if len(value) != 1 else value.encode().decode()
    if type(value) is tuple:
        return tuple(rebuilt(each) for each in value)
    if type(value) is frozenset:
        return frozenset(set(value))
    if isinstance(value, (torch.Size, torch.device)):
        return type(value)(str(value) if isinstance(value, torch.device) else list(value))
    return value


def test_constants_are_compared_by_exact_type_and_bits() -> None:
    for index, expected in enumerate(CONSTANTS):
        check_holds(rebuilt(expected), "equals", expected)
        for other_index, other in enumerate(CONSTANTS):
            if index != other_index:
                try:
                    check_fails(other, "equals", expected)
                except AssertionError:
                    raise AssertionError(f"{other!r} passed for {expected!r}") from None


class Int(int):
    pass


def test_a_subclass_is_no_constant() -> None:
    check_fails(Int(3), "equals", 3)

    def look(p: Probe) -> None:
        with pytest.raises(TypeError, match="id"):
            p.demand(p.argument, "equals", Int(3))

    probe(3, look)


def test_type_is_exact() -> None:
    check_holds(3, "type", int)
    check_fails(True, "type", int)
    check_fails(Int(3), "type", int)
    check_holds(Int(3), "type", Int)


def test_id_holds_for_the_same_object_alone() -> None:
    one, other = Plain(), Plain()
    check_holds(one, "id", one)
    check_fails(other, "id", one)
    check_holds(None, "id", None)
    check_holds(torch.float32, "id", torch.float32)


def test_length_is_the_base_class_own() -> None:
    class Liar(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            raise AssertionError("run by a guard")

    class Named(collections.namedtuple("Named", "a b")):
        def __len__(self) -> int:
            return 17

    for x in ([1, 2], (1, 2), {1: 1, 2: 2}, {1, 2}, frozenset({1, 2}), deque([1, 2]), "ab", b"ab", Liar([1, 2])):
        check_holds(x, "length", 2)
        check_fails(x, "length", 3, differences=(("length", 2, 3),))
    check_holds(Named(1, 2), "length", 2)
    check_fails(3, "length", 2, words="no length of its own")


class Hashes:
    """A key whose comparison by a guard is an error."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        raise AssertionError("run by a guard")


def test_dict_keys_in_order() -> None:
    check_holds({"a": 1, 2: 2}, "dict_keys", ("a", 2))
    check_fails({2: 2, "a": 1}, "dict_keys", ("a", 2))
    check_fails({2: 2, "a": 1, object(): 3, object(): 4}, "dict_keys", (2,))
    check_fails({"a": 1}, "dict_keys", ("a", 2))
    check_fails({"a": 1, 2: 2, 3: 3}, "dict_keys", ("a", 2))
    check_fails({True: 1}, "dict_keys", (1,))
    check_fails({1.0: 1}, "dict_keys", (1,))
    check_fails([], "dict_keys", ())
    key = Hashes(1)
    check_holds({key: 1}, "dict_keys", (key,))
    check_fails({Hashes(1): 1}, "dict_keys", (key,))


def test_key_hashes_are_those_that_are_stored() -> None:
    key = Hashes(1)
    table: dict[object, int] = {key: 1, "a": 2}
    key.value = 5
    check_holds(table, "key_hashes", (1, hash("a")))
    check_fails(table, "key_hashes", (5, hash("a")))
    check_fails({}, "key_hashes", (1,))
    check_holds({"a": 1}, "key_hashes", (hash("a"),))
    check_fails([1], "key_hashes", (1,))
    ordered = OrderedDict({key: 1, "a": 2, 7: 3})
    ordered.move_to_end("a")
    check_holds(ordered, "key_hashes", (5, 7, hash("a")))
    check_fails(ordered, "key_hashes", (5, hash("a"), 7))


def test_dict_keys_of_ordered_dicts_follow_their_own_order() -> None:
    ordered = OrderedDict([("a", 1), ("b", 2)])

    def look(p: Probe) -> None:
        p.demand(p.argument, "dict_keys", ("a", "b"))
        p.demand(p.at(("dict_value", 0)), "equals", 1)
        assert p.holds()
        ordered.move_to_end("a")
        assert not p.holds()
        ordered.move_to_end("b")
        assert p.holds()

    probe(ordered, look)

    def look_at_positions(p: Probe) -> None:
        p.demand(p.at(("dict_value", 0)), "equals", 1)
        p.demand(p.at(("dict_key", 1)), "equals", "b")
        assert p.holds()
        ordered.move_to_end("a")
        assert not p.holds()
        ordered.move_to_end("b")
        assert p.holds()

    probe(ordered, look_at_positions)


def test_dict_keys_of_ordered_dicts_run_no_hash() -> None:
    class Counts:
        hashed = 0

        def __hash__(self) -> int:
            Counts.hashed += 1
            return 1

    keys = (Counts(), frozenset("a"), (1, 2))
    ordered = OrderedDict.fromkeys(keys)

    def look(p: Probe) -> None:
        p.demand(p.argument, "dict_keys", keys)
        hashed = Counts.hashed
        assert p.holds()
        ordered.move_to_end((1, 2), last=False)
        assert not p.holds()
        assert Counts.hashed == hashed

    probe(ordered, look)


def test_dict_has_and_lacks() -> None:
    items = {"a": 1, 1: 2, None: 3}
    for key in ("a", 1, True, 1.0, None):
        check_holds(items, "dict_has", key)
        check_fails(items, "dict_lacks", key)
    for key in ("b", 2, (), Plain, 1.5):
        check_holds(items, "dict_lacks", key)
        check_fails(items, "dict_has", key)
    check_fails(3, "dict_has", 3)
    check_fails(3, "dict_lacks", 3)
    check_holds(OrderedDict(a=1), "dict_has", "a")


def test_no_user_equality_is_run_by_a_lookup() -> None:
    key = Hashes(1)
    check_holds({key: 1}, "dict_has", key)
    for kind in ("dict_has", "dict_lacks"):  # cannot be told: neither is assumed
        check_fails({Hashes(1): 1}, kind, key, words="__eq__ is not run")
        check_fails({Hashes(1): 1}, kind, 1, words="__eq__ is not run")
        check_fails({1: 1}, kind, key, words="__eq__ is not run")
        check_fails({"a": 1}, kind, Hashes(hash("a")), words="__eq__ is not run")
    check_holds({Hashes(2): 1}, "dict_lacks", key)
    check_holds({"a": 1}, "dict_lacks", Hashes(hash("a") + 1))
    check_fails({Hashes(1): 1}, "unbound", None, ("dict_item", 1))


def test_lookups_in_large_dicts() -> None:
    for size in (100, 300, 70_000):
        items: dict[Any, int] = {i * 7: i for i in range(size)}
        items["s"] = -1
        check_holds(items, "equals", size - 1, ("dict_item", (size - 1) * 7))
        check_holds(items, "dict_lacks", 3)
        del items[7]
        check_holds(items, "dict_lacks", 7)
        check_holds(items, "dict_has", "s")


class StrKey(str):
    pass


def test_string_subclasses_as_keys() -> None:
    check_holds({"a": 1}, "dict_has", StrKey("a"))
    check_holds({StrKey("a"): 1}, "dict_has", "a")
    check_holds({"a": 1}, "dict_lacks", StrKey("b"))


def test_type_lacks_fails_for_attributes_along_the_mro() -> None:
    check_holds(Plain, "type_lacks", "missing")
    check_fails(Plain, "type_lacks", "shared")
    check_fails(Plain, "type_lacks", "__class__")  # object's
    check_fails(3, "type_lacks", "missing")


def test_derives_holds_for_subclasses() -> None:
    check_holds(bool, "derives", int)
    check_holds(Plain, "derives", object)
    check_fails(int, "derives", bool)
    check_fails(3, "derives", int)
    check_holds(int, "derives_not", bool)
    check_fails(bool, "derives_not", int)


def test_derives_follows_a_change_of_bases() -> None:
    one, two = type("One", (), {}), type("Two", (), {})
    cls = type("Derived", (one,), {})
    check_holds(cls, "derives", one)
    cls.__bases__ = (two,)
    check_fails(cls, "derives", one)
    check_holds(cls, "derives_not", one)


def test_lacks_instance_dict_item() -> None:
    plain = Plain(there=1)
    check_holds(plain, "lacks_instance_dict_item", "shared")
    check_fails(plain, "lacks_instance_dict_item", "there")
    check_holds(3, "lacks_instance_dict_item", "real")
    check_holds(Slotted(1), "lacks_instance_dict_item", "filled")
    check_fails(math, "lacks_instance_dict_item", "sin")
    check_fails(Plain, "lacks_instance_dict_item", "shared")
    check_holds(with_defaults, "lacks_instance_dict_item", "anything")
    check_holds(nn.Linear(1, 1), "lacks_instance_dict_item", "weight")


def test_inline_values_are_read_without_creating_a_dict() -> None:
    inline = Inline(1)

    def look(p: Probe) -> None:
        p.demand(p.argument, "lacks_instance_dict_item", "b")
        assert p.holds()
        inline.b = 1  # type: ignore[attr-defined]
        assert not p.holds()
        del inline.b  # type: ignore[attr-defined]
        assert p.holds()
        inline.__dict__["b"] = 1
        assert not p.holds()
        inline.__dict__ = {}
        assert p.holds()

    probe(inline, look)
    second = Inline(1)

    def look_inside(p: Probe) -> None:
        p.demand(p.at(("instance_dict",), ("dict_item", "a")), "equals", 1)
        assert p.holds()
        second.a = 2
        assert not p.holds()
        second.a = 1
        assert p.holds()
        second.__dict__ = {"a": 3}
        assert not p.holds()

    probe(second, look_inside)


@pytest.mark.parametrize("base", [list, dict, set, tuple, str, int, float, bytes, Exception])
def test_inline_values_behind_the_fields_of_a_builtin_base(base: type) -> None:
    held: Any = types.new_class("Held", (base,))()

    def look(p: Probe) -> None:
        p.demand(p.argument, "lacks_instance_dict_item", "b")
        assert p.holds()
        held.b = 1
        assert not p.holds()
        del held.b
        assert p.holds()

    probe(held, look)


@probed([Plain(a=1)])
def test_lacks_is_remembered_beside_checks_of_the_instance_dict(p: Probe, holder: list[Plain]) -> None:
    one, other = holder[0], Plain(a=1, b=2)
    item = p.at(("list_item", 0))
    p.demand(item, "lacks_instance_dict_item", "b")
    p.demand(p.at(("instance_dict",), ("dict_item", "a"), start=item), "equals", 1)
    assert p.holds()
    one.b = 1  # type: ignore[attr-defined]
    failure = p.failure()
    assert failure.kind == "lacks_instance_dict_item"
    assert failure.value is one.__dict__ and failure.expected == "b"
    del one.b  # type: ignore[attr-defined]
    assert p.holds()
    one.a = 2  # type: ignore[attr-defined]
    assert p.failure().kind == "equals"
    one.a = 1  # type: ignore[attr-defined]
    holder[0] = other
    assert not p.holds()
    holder[0] = one
    assert p.holds()
    one.__dict__ = other.__dict__
    assert not p.holds()


def test_set_order_holds_for_the_same_iteration_order() -> None:
    marker = Plain()
    items = {1, "a", marker}
    check_holds(items, "set_order", tuple(items))
    check_fails(items, "set_order", tuple(reversed(tuple(items))))
    check_fails(items, "set_order", tuple(items)[:2])
    check_fails({1, "a"}, "set_order", tuple(items))
    check_fails([1], "set_order", (1,))
    check_holds(frozenset(), "set_order", ())
    check_fails({True}, "set_order", (1,))


class Number(int):
    def __eq__(self, other: object) -> bool:
        raise AssertionError("a guard runs no Python")

    __hash__ = int.__hash__


def test_payload_compares_the_base_class_value() -> None:
    text, real, raw = (type(base.__name__, (base,), {}) for base in (str, float, bytes))
    check_holds(Number(5), "payload", 5)
    check_fails(Number(6), "payload", 5)
    check_holds(text("a"), "payload", "a")
    check_fails(text("b"), "payload", "a")
    check_holds(real(0.0), "payload", 0.0)
    check_fails(real(-0.0), "payload", 0.0)
    check_holds(raw(b"x"), "payload", b"x")
    check_fails(5.0, "payload", 5)
    check_fails([], "payload", 5)


def test_bits_compares_floats_bit_by_bit() -> None:
    check_holds(np.float32(0.5), "bits", np.float32(0.5))
    check_holds(np.float64("nan"), "bits", np.float64("nan"))
    check_holds(np.int64(3), "bits", np.int64(3))
    check_fails(np.float64(-0.0), "bits", np.float64(0.0))
    check_fails(np.float64(0.5), "bits", np.float32(0.5))
    check_fails(np.int64(4), "bits", np.int64(3))
    check_fails(0.5, "bits", np.float64(0.5))


def test_set_lacks_fails_for_items_of_the_set() -> None:
    check_holds({"a", 1}, "set_lacks", "b")
    check_holds(frozenset(), "set_lacks", "b")
    check_fails({"a", "b"}, "set_lacks", "b")
    check_fails(frozenset("b"), "set_lacks", "b")
    check_fails({Hashes(hash("b"))}, "set_lacks", "b")
    check_fails(["a"], "set_lacks", "b")


def test_set_items_holds_for_the_same_items() -> None:
    marker = Plain()
    expected = frozenset({1, "a", marker})
    check_holds({1, "a", marker}, "set_items", expected)
    check_holds(frozenset({1, "a", marker}), "set_items", expected)
    check_fails({True, "a", marker}, "set_items", expected)
    check_fails({1, "a", Plain()}, "set_items", expected)
    check_fails({1, "a"}, "set_items", expected)
    check_fails([1], "set_items", frozenset({1}))
    items = {1, 2}

    def look(p: Probe) -> None:
        p.demand(p.argument, "set_items", frozenset(items))
        assert p.holds()
        items.add(3)
        assert not p.holds()
        items.remove(3)
        assert p.holds()
        items.remove(2)
        items.add(4)
        assert not p.holds()

    probe(items, look)


# -- tensors ------------------------------------------------------------------------------------------------------


class _AnyKeys(tuple):  # type: ignore[type-arg]
    """Equals any difference of dispatch keys."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and other[0] == "dispatch keys"


KEYS = _AnyKeys()


def test_tensor_check_fails_for_changed_metadata() -> None:
    example = torch.ones(2, 3)
    check_holds(torch.zeros(2, 3), "tensor", example)
    with torch.inference_mode():
        inference = torch.ones(2, 3)
    for other, *differences in [
        (torch.ones(2, 3, dtype=torch.float64), ("dtype", torch.float64, torch.float32)),
        (torch.ones(2, 3, device="meta"), ("device", "meta", "cpu"), KEYS),
        (torch.ones(2, 3, requires_grad=True), ("requires_grad", True, False)),
        (torch.ones(3, 2), ("size", (3, 2), (2, 3)), ("strides", (2, 1), (3, 1))),
        (torch.ones(2, 3, 1), ("size", (2, 3, 1), (2, 3)), ("strides", (3, 1, 1), (3, 1))),
        (torch.ones(3, 2).T, ("strides", (1, 2), (3, 1))),
        (torch.ones(2, 3).to_sparse(), ("strides", (), (3, 1)), KEYS),
        (torch.ones(2, 3, dtype=torch.complex64).imag, ("strides", (6, 2), (3, 1))),
        (torch._neg_view(torch.ones(2, 3)), KEYS),
        (inference, KEYS),
    ]:
        check_fails(other, "tensor", example, differences=tuple(differences))
    check_fails(3, "tensor", example, words="it is not a tensor")
    check_holds(nn.Parameter(torch.ones(2)), "tensor", torch.ones(2, requires_grad=True))
    check_holds(torch.tensor(3), "tensor", torch.tensor(4))
    check_holds(torch.ones(2, 3).to_sparse(), "tensor", torch.ones(2, 3).to_sparse())
    check_fails(torch.ones(2, 1)[:, :1], "tensor", torch.ones(2, 5)[:, :1])


def test_storage_offset_is_compared() -> None:
    base = torch.zeros(6)
    check_holds(base[2:], "storage_offset", 2)
    check_fails(base[1:], "storage_offset", 2, differences=(("storage offset", 1, 2),))
    check_fails(3, "storage_offset", 0)


@probed(nn.Linear(2, 3))
def test_parameter_changed_in_place_is_checked_again(p: Probe, layer: nn.Linear) -> None:
    weight = p.at(("instance_dict",), ("dict_item", "_parameters"), ("dict_item", "weight"))
    p.demand(weight, "type", nn.Parameter)
    p.demand(weight, "tensor", layer.weight)
    assert p.holds()
    layer.weight.requires_grad_(False)
    assert not p.holds()
    layer.weight.requires_grad_(True)
    assert p.holds()
    layer.weight.data = torch.ones(3, 5)
    assert not p.holds()
    layer.weight.data = torch.ones(3, 2)
    assert p.holds()
    layer.double()
    assert not p.holds()


def test_a_tensor_subclass_runs_no_python() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("run by a guard")

        def __instancecheck__(self) -> Any:
            raise AssertionError("run by a guard")

    loud = torch.ones(2).as_subclass(Loud)

    def look(p: Probe) -> None:
        p.demand(p.argument, "tensor", torch.ones(2))
        p.demand(p.at(("c_attr", "grad")), "id", None)
        p.demand(p.at(("c_attr", "is_leaf")), "equals", True)
        assert p.holds()

    probe(loud, look)


@probed([torch.zeros(10) for _ in range(3)])
def test_storages_distinct_fails_for_shared_memory(p: Probe, tensors: list[torch.Tensor]) -> None:
    base, array = tensors[0], tensors[0].numpy()
    nodes = [p.at(("list_item", i)) for i in range(3)]
    p.tree.check(0, "storages_distinct", nodes, "shared")
    assert p.holds()
    tensors[2] = base[5:]
    failure = p.failure()
    assert failure.reason == "shared" and failure.kind == "storages_distinct"
    tensors[2] = torch.from_numpy(array)  # another storage of the same memory
    assert not p.holds()
    tensors[2] = torch.from_numpy(array[3:])
    assert not p.holds()
    tensors[2] = torch.ones(0)
    assert p.holds()
    tensors[:] = [torch.ones(1, device="meta"), torch.ones(1, device="meta"), torch.ones(1).to_sparse()]
    assert p.holds()
    tensors[1] = tensors[0].view(1)
    assert not p.holds()


@probed([torch.zeros(10) for _ in range(4)])
def test_storages_distinct_ignores_memory_shared_by_read_tensors(p: Probe, tensors: list[torch.Tensor]) -> None:
    base = torch.zeros(10)
    nodes = [p.at(("list_item", i)) for i in range(4)]
    p.tree.check(0, "storages_distinct", (nodes[:1], nodes[1:]), "shared")
    assert p.holds()
    tensors[1:3] = [base, base[2:]]
    assert p.holds()
    tensors[0] = base[:2]
    assert p.failure().kind == "storages_distinct"
    tensors[0] = torch.zeros(2)
    assert p.holds()


# -- relations ----------------------------------------------------------------------------------------------------


@probed([])
def test_same_as_and_distinct(p: Probe, items: list[Plain]) -> None:
    a, b, c = Plain(), Plain(), Plain()
    items[:] = [a, a, b]
    nodes = [p.at(("list_item", i)) for i in range(3)]
    p.tree.check(nodes[0], "same_as", nodes[1], "same")
    p.tree.check(0, "distinct", [nodes[0], nodes[2]], "distinct")
    assert p.holds()
    items[1] = c
    assert p.failure().reason == "same"
    items[0] = c
    assert p.holds()
    items[2] = c
    failure = p.failure()
    assert failure.reason == "distinct"
    assert failure.value is c
    items[2] = b
    assert p.holds()


@probed([Plain() for _ in range(200)])
def test_distinct_of_many(p: Probe, items: list[Plain]) -> None:
    nodes = [p.at(("list_item", i)) for i in range(200)]
    p.tree.check(0, "distinct", nodes, "distinct")
    assert p.holds()
    items[150], kept = items[3], items[150]
    assert p.failure().value is items[3]
    items[150] = kept
    assert p.holds()
    items.reverse()
    assert p.holds()
    items[0] = items[199]
    assert not p.holds()


def test_tree_is_tested_with_a_tuple_of_locals() -> None:
    def frame(one: Any, other: Any) -> None: ...

    tree = _C.GuardTree(frame.__code__)
    node = tree.child(tree.child(0, "local", "other"), "list_item", 1)
    tree.check(node, "equals", 2.0, "it is two")
    tree.capture(node)
    items = [1.0, 2.0]
    for _ in range(3):
        assert tree.lookup((None, items)) == (2.0,)
    assert tree.test((None, items)) is None
    items[1] = 3.0
    assert tree.lookup((None, items)) is None
    assert tree.test((None, items)).reason == "it is two"
    assert tree.lookup((None, [0.0, 2.0])) == (2.0,)
    with pytest.raises(ValueError, match="the code has 2 locals, not 1"):
        tree.test((items,))
    with pytest.raises(TypeError, match="FrameView"):
        tree.test(items)
