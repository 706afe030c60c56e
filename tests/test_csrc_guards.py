"""Guard trees in C++: what each accessor reaches, what each check says, and that nothing remembered goes stale."""

from __future__ import annotations

import collections
import functools
import gc
import math
import random
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_lite import _C

GLOBAL = {"a": 1}


def on_frame(function: Callable[..., Any], look: Callable[[_C.FrameView], None], *args: Any, **kwargs: Any) -> None:
    """Call ``function`` and show ``look`` its frame before it begins."""
    raised: list[BaseException] = []
    seen = 0
    code = getattr(function, "__func__", function).__code__

    def callback(view: _C.FrameView) -> Any:
        nonlocal seen
        if view.code is code and not seen:
            seen += 1
            try:
                look(view)
            except BaseException as error:  # re-raised below, where pytest shows it best
                raised.append(error)
        return _C.PASS

    before = _C.set_thread_owner(_C.Owner(callback))
    try:
        function(*args, **kwargs)
    finally:
        _C.set_thread_owner(before)
    if raised:
        raise raised[0]
    assert seen == 1


def takes(x: Any) -> None:
    pass


Path = list[tuple[Any, ...]]


class Probe:
    """A tree over the argument of a frame, kept in step: `lookup` (which remembers) and `test` (which doesn't) must agree."""

    def __init__(self, view: _C.FrameView) -> None:
        self.view = view
        self.tree = _C.GuardTree(view.code)
        self.argument = self.tree.child(0, "local", "x")

    def at(self, *path: tuple[Any, ...], start: int | None = None) -> int:
        node = self.argument if start is None else start
        for step in path:
            node = self.tree.child(node, *step)
        return node

    def demand(self, node: int, kind: str, arg: Any = None) -> None:
        self.tree.check(node, kind, arg, f"reason of {kind}")

    def holds(self) -> bool:
        """Whether the tree holds: asked four times, from memory and anew."""
        answers = [self.tree.lookup(self.view) is not None for _ in range(2)]
        answers.append(self.tree.test(self.view) is None)
        answers.append(self.tree.lookup(self.view) is not None)
        assert len(set(answers)) == 1, answers
        return answers[0]

    def failure(self) -> _C.Failure:
        failure = self.tree.test(self.view)
        assert failure is not None
        assert self.tree.lookup(self.view) is None
        return failure


def probe(x: Any, look: Callable[[Probe], None]) -> None:
    on_frame(takes, lambda view: look(Probe(view)), x)


def check_holds(x: Any, kind: str, arg: Any, *path: tuple[Any, ...]) -> None:
    def look(p: Probe) -> None:
        p.demand(p.at(*path), kind, arg)
        assert p.holds()

    probe(x, look)


def check_fails(x: Any, kind: str, arg: Any, *path: tuple[Any, ...], found: str | None = None) -> None:
    def look(p: Probe) -> None:
        p.demand(p.at(*path), kind, arg)
        failure = p.failure()
        assert failure.reason == f"reason of {kind}"
        assert failure.kind in (kind, "present")
        if found is not None:
            assert found in failure.found, failure.found

    probe(x, look)


# -- accessors ----------------------------------------------------------------------------------------------------


class Plain:
    shared = "class"

    def __init__(self, **items: Any) -> None:
        self.__dict__.update(items)

    def method(self) -> None:
        pass


class Slotted:
    __slots__ = ("filled", "empty")

    def __init__(self, filled: Any) -> None:
        self.filled = filled


def with_defaults(a: int = 1, *, b: int = 2) -> None:
    pass


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
        (with_defaults, [("c_attr", "__globals__"), ("dict_item", "GLOBAL")], GLOBAL),
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
    ("x", "path", "found"),
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
def test_a_missing_value_is_a_failure_of_present(x: Any, path: Path, found: str) -> None:
    def look(p: Probe) -> None:
        p.demand(p.at(*path), "id", None)
        failure = p.failure()
        assert failure.kind == "present"
        assert failure.reason == "reason of id"
        assert failure.expected.startswith(path[-1][0])
        assert found in failure.found

    probe(x, look)


def test_unbound_wants_nothing_there() -> None:
    slotted, cell, items = Slotted(1), types.CellType(), {"a": 1}
    slot = Slotted.__dict__["empty"]

    def look(p: Probe) -> None:
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

    probe((slotted, cell, items), look)


def test_what_makes_no_sense_is_refused() -> None:
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
    """An equal constant that is another object where that can be had."""
    if type(value) is float:
        return float.fromhex(value.hex()) if value == value else -(-value)
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
    check_fails(True, "type", int, found="the class bool")
    check_fails(Int(3), "type", int)
    check_holds(Int(3), "type", Int)


def test_id() -> None:
    one, other = Plain(), Plain()
    check_holds(one, "id", one)
    check_fails(other, "id", one, found="Plain")
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
        check_fails(x, "length", 3, found="length 2")
    check_holds(Named(1, 2), "length", 2)
    check_fails(3, "length", 2, found="int 3")


class Hashes:
    """A key that must not be compared by a guard."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        raise AssertionError("run by a guard")


def test_dict_keys_in_order() -> None:
    check_holds({"a": 1, 2: 2}, "dict_keys", ("a", 2))
    check_fails({2: 2, "a": 1}, "dict_keys", ("a", 2), found="keys int 2 str 'a'")
    check_fails({"a": 1}, "dict_keys", ("a", 2))
    check_fails({"a": 1, 2: 2, 3: 3}, "dict_keys", ("a", 2))
    check_fails({True: 1}, "dict_keys", (1,))
    check_fails({1.0: 1}, "dict_keys", (1,))
    check_fails([], "dict_keys", ())
    key = Hashes(1)
    check_holds({key: 1}, "dict_keys", (key,))
    check_fails({Hashes(1): 1}, "dict_keys", (key,))


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


def test_dict_has_and_lacks() -> None:
    items = {"a": 1, 1: 2, None: 3}
    for key in ("a", 1, True, 1.0, None):
        check_holds(items, "dict_has", key)
        check_fails(items, "dict_lacks", key, found="the key is there")
    for key in ("b", 2, (), Plain, 1.5):
        check_holds(items, "dict_lacks", key)
        check_fails(items, "dict_has", key, found="missing")
    check_fails(3, "dict_has", 3)
    check_fails(3, "dict_lacks", 3)
    check_holds(OrderedDict(a=1), "dict_has", "a")


def test_no_user_equality_is_run_by_a_lookup() -> None:
    key = Hashes(1)
    check_holds({key: 1}, "dict_has", key)
    for kind in ("dict_has", "dict_lacks"):  # cannot be told: neither is assumed
        check_fails({Hashes(1): 1}, kind, key, found="__eq__ is not run")
        check_fails({Hashes(1): 1}, kind, 1, found="__eq__ is not run")
        check_fails({1: 1}, kind, key, found="__eq__ is not run")
        check_fails({"a": 1}, kind, Hashes(hash("a")), found="__eq__ is not run")
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


def test_type_lacks() -> None:
    check_holds(Plain, "type_lacks", "missing")
    check_fails(Plain, "type_lacks", "shared")
    check_fails(Plain, "type_lacks", "__class__")  # object's
    check_fails(3, "type_lacks", "missing")


def test_lacks_instance_dict_item() -> None:
    plain = Plain(there=1)
    check_holds(plain, "lacks_instance_dict_item", "shared")
    check_fails(plain, "lacks_instance_dict_item", "there", found="the key is there")
    check_holds(3, "lacks_instance_dict_item", "real")
    check_holds(Slotted(1), "lacks_instance_dict_item", "filled")
    check_fails(math, "lacks_instance_dict_item", "sin")
    check_fails(Plain, "lacks_instance_dict_item", "shared")
    check_holds(with_defaults, "lacks_instance_dict_item", "anything")
    check_holds(nn.Linear(1, 1), "lacks_instance_dict_item", "weight")


class Inline:
    def __init__(self, a: Any) -> None:
        self.a = a


def test_instance_attributes_that_are_no_dict_yet() -> None:
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


def test_lacking_beside_the_instance_dict_is_remembered_with_it() -> None:
    one, other = Plain(a=1), Plain(a=1, b=2)
    holder = [one]

    def look(p: Probe) -> None:
        item = p.at(("list_item", 0))
        p.demand(item, "lacks_instance_dict_item", "b")
        p.demand(p.at(("instance_dict",), ("dict_item", "a"), start=item), "equals", 1)
        assert p.holds()
        one.b = 1  # type: ignore[attr-defined]
        failure = p.failure()
        assert failure.kind == "lacks_instance_dict_item" and failure.expected == "b"
        assert failure.found == "the key is there"
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

    probe(holder, look)


def test_set_items() -> None:
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


def test_tensor_facts() -> None:
    example = torch.ones(2, 3)
    check_holds(torch.zeros(2, 3), "tensor", example)
    with torch.inference_mode():
        inference = torch.ones(2, 3)
    for other, found in [
        (torch.ones(2, 3, dtype=torch.float64), "dtype Double instead of Float"),
        (torch.ones(2, 3, device="meta"), "device meta instead of cpu"),
        (torch.ones(2, 3, requires_grad=True), "requires_grad True instead of False"),
        (torch.ones(3, 2), "size (3, 2) instead of (2, 3)"),
        (torch.ones(2, 3, 1), "size (2, 3, 1) instead of (2, 3)"),
        (torch.ones(3, 2).T, "strides (1, 2) instead of (3, 1)"),
        (torch.ones(2, 3).to_sparse(), "dispatch keys"),
        (torch.ones(2, 3, dtype=torch.complex64).imag, "strides"),
        (torch._neg_view(torch.ones(2, 3)), "dispatch keys"),
        (inference, "dispatch keys"),
        (3, "no tensor"),
    ]:
        check_fails(other, "tensor", example, found=found)
    check_holds(nn.Parameter(torch.ones(2)), "tensor", torch.ones(2, requires_grad=True))
    check_holds(torch.tensor(3), "tensor", torch.tensor(4))
    check_holds(torch.ones(2, 3).to_sparse(), "tensor", torch.ones(2, 3).to_sparse())
    check_fails(torch.ones(2, 1)[:, :1], "tensor", torch.ones(2, 5)[:, :1])


def test_a_parameter_that_changes_in_place_is_seen() -> None:
    layer = nn.Linear(2, 3)

    def look(p: Probe) -> None:
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

    probe(layer, look)


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


def test_storages_distinct() -> None:
    base = torch.zeros(10)
    array = base.numpy()

    def look(p: Probe) -> None:
        nodes = [p.at(("list_item", i)) for i in range(3)]
        p.tree.check(0, "storages_distinct", nodes, "shared")
        assert p.holds()
        tensors[2] = base[5:]
        failure = p.failure()
        assert failure.reason == "shared"
        assert "0 and 2" in failure.found or "2 and 0" in failure.found
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

    tensors = [base, torch.zeros(10), torch.zeros(10)]
    probe(tensors, look)


# -- relations ----------------------------------------------------------------------------------------------------


def test_same_as_and_distinct() -> None:
    a, b, c = Plain(), Plain(), Plain()
    items = [a, a, b]

    def look(p: Probe) -> None:
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
        assert "one object" in failure.found
        items[2] = b
        assert p.holds()

    probe(items, look)


def test_distinct_of_many() -> None:
    items: list[Any] = [Plain() for _ in range(200)]

    def look(p: Probe) -> None:
        nodes = [p.at(("list_item", i)) for i in range(200)]
        p.tree.check(0, "distinct", nodes, "distinct")
        assert p.holds()
        items[150], kept = items[3], items[150]
        assert "one object" in p.failure().found
        items[150] = kept
        assert p.holds()
        items.reverse()
        assert p.holds()
        items[0] = items[199]
        assert not p.holds()

    probe(items, look)


# -- torch's global state -----------------------------------------------------------------------------------------


def test_global_state_differences_are_named() -> None:
    before = _C.GlobalState()
    assert before == _C.GlobalState()
    assert before.difference(_C.GlobalState()) == ""
    with torch.no_grad():
        assert before.difference(_C.GlobalState()) == "grad mode is off, was on"
        assert before != _C.GlobalState()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "autocast on cpu is on, was off" in before.difference(_C.GlobalState())
    with torch.inference_mode():
        assert "inference mode is on" in before.difference(_C.GlobalState())
    with torch.device("meta"):
        assert "depth of the torch function mode stack is 1, was 0" in before.difference(_C.GlobalState())
    with torch._C.DisableTorchFunctionSubclass():
        assert "torch function is off for subclasses, was on" in before.difference(_C.GlobalState())
    torch.set_default_dtype(torch.float64)
    assert before.difference(_C.GlobalState()) == "default dtype is Double, was Float"
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(True)
    assert "deterministic algorithms is on" in before.difference(_C.GlobalState())
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert "warn only is on" in before.difference(_C.GlobalState())
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("high")
    assert "precision is high, was highest" in before.difference(_C.GlobalState())
    torch.set_float32_matmul_precision("highest")
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    assert f"number of threads is {threads + 1}, was {threads}" in before.difference(_C.GlobalState())
    torch.set_num_threads(threads)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert "flash attention is off, was on" in before.difference(_C.GlobalState())
    assert before == _C.GlobalState()
    with pytest.raises(TypeError):
        before.difference(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _C.GlobalState(3)  # type: ignore[call-arg]


def test_global_state_inside_functorch() -> None:
    states: list[_C.GlobalState] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        states.append(_C.GlobalState())
        return x.sum()

    outside = _C.GlobalState()
    torch.func.vmap(note)(torch.ones(2, 2))
    torch.func.grad(note)(torch.ones(2))
    torch.func.vmap(torch.func.vmap(note))(torch.ones(2, 2, 2))
    torch.func.vmap(note)(torch.ones(2, 2))
    vmap, grad, twice, again = states
    assert "functorch" in outside.difference(vmap)
    assert vmap != grad and vmap != twice and vmap == again


def test_global_state_knows_which_modes_are_on_the_stack() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    one, other = Mode(), Mode()
    with one:
        state = _C.GlobalState()
        assert state == _C.GlobalState()
    with other:
        assert "other modes" in state.difference(_C.GlobalState())
    with one:
        assert state == _C.GlobalState()
    with torch.device("meta"):
        state = _C.GlobalState()
    with torch.device("meta"):
        assert state == _C.GlobalState()
    with torch.device("cpu"):
        assert state != _C.GlobalState()


def test_global_state_as_a_check() -> None:
    def look(p: Probe) -> None:
        p.tree.check(0, "global_state", _C.GlobalState(), "state")
        assert p.holds()
        with torch.no_grad():
            failure = p.failure()
            assert failure.reason == "state" and failure.kind == "global_state"
            assert failure.found == "grad mode is off, was on"
        assert p.holds()
        with torch.device("cpu"):
            assert not p.holds()

    probe(1, look)


# -- what is remembered must not go stale ---------------------------------------------------------------------------


def test_every_way_to_change_a_dict_is_seen() -> None:
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


def test_specialized_attribute_stores_are_seen() -> None:
    """The adaptive interpreter writes straight into an instance's dict."""
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


def test_delete_and_add_again_and_mutable_values() -> None:
    inner = [1]
    items = {"list": inner, "n": 1}

    def look(p: Probe) -> None:
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

    probe(items, look)


def test_swapped_instance_dicts() -> None:
    one, other = Plain(a=1, b=1), Plain(a=2, b=1)

    def look(p: Probe) -> None:
        p.demand(p.at(("instance_dict",), ("dict_item", "a")), "equals", 1)
        assert p.holds()
        one.__dict__, other.__dict__ = other.__dict__, one.__dict__
        assert not p.holds()
        one.__dict__, other.__dict__ = other.__dict__, one.__dict__
        assert p.holds()
        one.__dict__ = dict(other.__dict__)
        assert not p.holds()

    probe(one, look)


def test_the_same_place_holding_other_containers_by_turns() -> None:
    """The memory of one value must not vouch for another that came by the same way."""
    good = Plain(child=Plain(n=1), t=(1, (2, 3)))
    bad = Plain(child=Plain(n=2), t=(1, (2, 4)))
    broken = Plain(child=Plain())
    holder = [good]

    def look(p: Probe) -> None:
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

    probe(holder, look)


def test_reused_addresses_do_not_pass_for_what_was_there() -> None:
    """Objects die and others are made where they were: same pointers, other contents."""
    holder: list[Any] = [None]

    def look(p: Probe) -> None:
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

    probe(holder, look)


def test_class_attributes_that_change() -> None:
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


def test_an_object_that_changes_its_class() -> None:
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


def test_functions_that_change() -> None:
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


class World:
    """A random program's data: nested instances, dicts, lists and tuples, with ways to change them at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.containers: list[Any] = []
        self.classes = [type(f"C{i}", (), {"n": i, "f": takes}) for i in range(3)]
        self.classes.append(type("Derived", (self.classes[0],), {}))
        self.root = [self.value(4) for _ in range(4)]

    def value(self, depth: int) -> Any:
        kind = self.random.randrange(6) if depth else self.random.choice((4, 5))
        if kind == 0:
            made: Any = {key: self.value(depth - 1) for key in self.random.sample("abcd", 3)}
        elif kind == 1:
            made = [self.value(depth - 1) for _ in range(2)]
        elif kind == 2:
            return tuple(self.value(depth - 1) for _ in range(2))
        elif kind == 3:
            made = self.random.choice(self.classes)()
            for key in self.random.sample("abcd", 2):
                setattr(made, key, self.value(depth - 1))
        elif kind == 4:
            return self.random.randrange(3)
        else:
            return self.random.choice(["s", None, 1.0, (1, "x"), torch.float32])
        self.containers.append(made)
        return made

    def guard(self, tree: _C.GuardTree, node: int, value: Any) -> None:
        tree.check(node, "type", type(value), "type")
        cls = type(value)
        if cls is dict:
            tree.check(node, "dict_keys", tuple(value), "keys")
            for key, item in value.items():
                if self.random.random() < 0.8:
                    self.guard(tree, tree.child(node, "dict_item", key), item)
        elif cls is list or cls is tuple:
            tree.check(node, "length", len(value), "length")
            for index, item in enumerate(value):
                self.guard(tree, tree.child(node, f"{cls.__name__}_item", index), item)
        elif cls in self.classes:
            if self.random.random() < 0.5:
                tree.check(node, "lacks_instance_dict_item", "e", "lacks")
            inside = tree.child(node, "instance_dict")
            for key, item in value.__dict__.items():
                self.guard(tree, tree.child(inside, "dict_item", key), item)
            kind = tree.child(node, "type")
            tree.check(kind, "type_lacks", "m", "type_lacks")
            self.guard(tree, tree.child(kind, "type_attr", "n"), cls.n)
            tree.check(tree.child(kind, "type_attr", "f"), "id", cls.f, "f")
        elif cls is int or cls is str or cls is float:
            tree.check(node, "equals", value, "equals")
        else:
            tree.check(node, "id", value, "id")

    def change(self) -> Callable[[], None]:
        """Change something; returns what changes it back."""
        target = self.random.choice([self.root, *self.containers, *self.classes])
        new = self.value(1) if self.random.random() < 0.5 else self.random.randrange(3)
        if isinstance(target, list):
            before, index = list(target), self.random.randrange(len(target))
            target[index] = new
            return lambda: target.__setitem__(slice(None), before)
        if isinstance(target, dict):
            items = dict(target)
            key = self.random.choice("abcde")
            if self.random.random() < 0.3:
                target.pop(key, None)
            else:
                target[key] = new
            return lambda: (target.clear(), target.update(items))  # type: ignore[func-returns-value]
        if isinstance(target, type):
            name = self.random.choice("nmf")
            own = target.__dict__.get(name)
            setattr(target, name, takes if name == "f" else self.random.randrange(4))
            return lambda: delattr(target, name) if own is None else setattr(target, name, own)
        if self.random.random() < 0.2:
            cls = type(target)
            target.__class__ = self.random.choice(self.classes)
            return lambda: setattr(target, "__class__", cls)
        if self.random.random() < 0.2:
            namespace = target.__dict__
            target.__dict__ = dict(namespace)
            return lambda: setattr(target, "__dict__", namespace)
        state = dict(target.__dict__)
        setattr(target, self.random.choice("abcde"), new)
        return lambda: (target.__dict__.clear(), target.__dict__.update(state))  # type: ignore[func-returns-value]


@pytest.mark.parametrize("seed", range(40))
def test_memory_agrees_with_a_walk_that_has_none(seed: int) -> None:
    world = World(seed)

    def look(view: _C.FrameView) -> None:
        remembering, forgetful = _C.GuardTree(view.code), _C.GuardTree(view.code)
        for tree in (remembering, forgetful):
            state = world.random.getstate()
            world.guard(tree, tree.child(0, "local", "x"), world.root)
            world.random.setstate(state)
        held = failed = 0
        undo: list[Callable[[], None]] = []
        for _ in range(400):
            expected = forgetful.test(view) is None
            assert (remembering.lookup(view) is not None) == expected
            held, failed = held + expected, failed + (not expected)
            if undo and world.random.random() < 0.6:
                undo.pop()()
            else:
                undo.append(world.change())
        while undo:
            undo.pop()()
            assert (remembering.lookup(view) is not None) == (forgetful.test(view) is None)
        assert remembering.lookup(view) is not None, forgetful.test(view)
        assert held > 10 and failed > 10

    on_frame(takes, look, world.root)


def test_order_of_entries_and_positions() -> None:
    items = {"a": 1, "b": 2}

    def look(p: Probe) -> None:
        p.demand(p.argument, "dict_keys", ("a", "b"))
        p.demand(p.at(("dict_value", 0)), "equals", 1)
        p.demand(p.at(("dict_key", 1)), "equals", "b")
        assert p.holds()
        items["a"] = items.pop("a")
        assert not p.holds()
        items["b"] = items.pop("b")
        assert p.holds()

    probe(items, look)


# -- who keeps what alive -------------------------------------------------------------------------------------------


def test_dead_objects_make_a_tree_invalid() -> None:
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
            assert failure is not None and "died" in failure.found
            p.tree.checks()

        probe(3, look)


def test_a_module_is_not_kept_alive_by_the_tree_that_guards_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    trees = []

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
    died = weakref.ref(model)
    del model
    gc.collect()
    assert died() is None
    assert not trees[0].valid


def test_trees_are_collected_with_the_cycles_through_them() -> None:
    class Reason:
        pass

    reason = Reason()

    def look(p: Probe) -> None:
        reason.tree = p.tree  # type: ignore[attr-defined]
        p.tree.check(p.argument, "equals", 1, reason)
        assert p.holds()

    probe(1, look)
    died = weakref.ref(reason)
    del reason
    gc.collect()
    assert died() is None


def test_nothing_leaks() -> None:
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
        assert [b - a for a, b in zip(before, after) if abs(b - a) > 20] == []
        assert sys.getallocatedblocks() - blocks < 200

    probe((value, deq, grad), look)


def test_captured_values() -> None:
    items = {"a": [1], "b": 2}

    def look(p: Probe) -> None:
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

    probe(items, look)


def test_checks_are_listed_in_the_order_they_are_made() -> None:
    def look(p: Probe) -> None:
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
            (4, "set_items", frozenset({1})), (5, "same_as", p.argument), (6, "distinct", [item, p.argument]),
        ]  # fmt: skip

    probe([1], look)


def test_the_first_failure_in_order_is_the_one_told() -> None:
    def look(p: Probe) -> None:
        for index in range(3):
            p.tree.check(p.at(("list_item", index)), "equals", 0, index)
        for items, first in (([1, 0, 0], 0), ([0, 1, 1], 1), ([0, 0, 1], 2)):
            argument[:] = items
            assert p.failure().reason == first
            assert "int 1" in p.failure().found
            assert p.failure().expected == 0
        argument[:] = [0, 0, 0]
        assert p.holds()
        assert "equals" in repr(_failure_of(p, argument))

    argument = [0, 0, 0]
    probe(argument, look)


def _failure_of(p: Probe, argument: list[int]) -> _C.Failure:
    argument[0] = 9
    return p.failure()


def test_cost_is_small() -> None:
    """A model's worth of checks is read from memory, not made one by one (a bound far above what it takes)."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)) for _ in range(20)))

    def look(p: Probe) -> None:
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

    probe(model, look)
