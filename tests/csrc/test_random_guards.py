"""Random data, mutated at random: guard trees that remember and replay agree with trees that don't."""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynamo_lite import _C
from guard_probe import Inheriting, Overriding, on_frame, takes, with_defaults


class Slotted:
    __slots__ = ("a",)


TENSORS: list[Callable[[], torch.Tensor]] = [
    lambda: torch.zeros(2, 3),
    lambda: torch.zeros(4, 6)[::2, ::2],
    lambda: torch.zeros(8, 6)[::4, ::2],
    lambda: torch.zeros(3, 2).t(),
    lambda: torch.zeros(2, 3).double(),
    lambda: torch.zeros((1,) * 7),
    lambda: torch.zeros((1,) * 6 + (2,)),
]


def change_tensor(tensor: torch.Tensor, other: Callable[[], torch.Tensor] | None) -> Callable[[], None]:
    """Replaces the tensor's data, or changes whether it requires gradients. Returns a function that undoes the
    change.
    """
    state, requires_grad = tensor.data, tensor.requires_grad

    def put(data: torch.Tensor, requires_grad: bool) -> None:
        tensor.requires_grad_(False)
        tensor.data = data
        tensor.requires_grad_(requires_grad)

    if other is None:
        tensor.requires_grad_(not requires_grad)
    else:
        put(other(), requires_grad)
    return lambda: put(state, requires_grad)


def put_back(target: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(target, name, value)


def fresh(text: str) -> str:
    """Returns an equal string at another address."""
    return "".join(list(text))


class World:
    """A random program's data: nested instances, dicts, lists and tuples, with ways to change them at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.containers: list[Any] = []
        self.classes = [type(f"C{i}", (), {"n": i, "f": takes}) for i in range(3)]
        self.classes.append(type("Derived", (self.classes[0],), {}))
        self.meta = type("Meta", (Inheriting,), {})
        self.classes.append(self.meta("Made", (self.classes[1],), {}))
        self.root: Any = [self.value(4) for _ in range(4)]
        if seed % 2:
            self.root, items = self.classes[0](), self.root
            for key, item in zip("abcd", items):
                setattr(self.root, key, item)

    def value(self, depth: int) -> Any:
        kind = self.random.randrange(10) if depth else self.random.choice((4, 5))
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
        elif kind == 5:
            return self.random.choice(["s", None, 1.0, (1, "x"), torch.float32])
        elif kind == 6:
            made = self.random.choice(TENSORS)()
        elif kind == 7:
            made = types.CellType(self.value(depth - 1))
        elif kind == 8:
            made = Slotted()
            made.a = self.value(depth - 1)
        else:
            made = types.FunctionType(takes.__code__, {})
            made.__defaults__ = (self.value(depth - 1),)
        self.containers.append(made)
        return made

    def guard(self, tree: _C.GuardTree, node: int, value: Any) -> None:
        tree.check(node, "type", type(value), "type")
        cls = type(value)
        if cls is dict:
            if self.random.random() < 0.5:
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
            tree.check(tree.child(kind, "c_attr", "__name__"), "equals", cls.__name__, "name")
            bases = tree.child(kind, "c_attr", "__mro__")
            tree.check(bases, "length", len(cls.__mro__), "length")
            for index, base in enumerate(cls.__mro__):
                tree.check(tree.child(bases, "tuple_item", index), "id", base, "base")
        elif cls is torch.Tensor:
            tree.check(node, "tensor", value, "tensor")
        elif cls is types.CellType:
            self.guard(tree, tree.child(node, "cell_contents"), value.cell_contents)
        elif cls is Slotted:
            self.guard(tree, tree.child(node, "slot", Slotted.__dict__["a"]), value.a)
        elif cls is types.FunctionType:
            self.guard(tree, tree.child(node, "c_attr", "__code__"), value.__code__)
            self.guard(tree, tree.child(node, "c_attr", "__defaults__"), value.__defaults__)
            self.guard(tree, tree.child(node, "c_attr", "__name__"), value.__name__)
        elif cls is int or cls is str or cls is float:
            tree.check(node, "equals", value, "equals")
        else:
            tree.check(node, "id", value, "id")

    def change(self) -> Callable[[], None]:
        """Changes something and returns a function that undoes the change."""
        target = self.random.choice([self.root, *self.containers, *self.classes])
        new = self.value(1) if self.random.random() < 0.5 else self.random.randrange(3)
        if isinstance(target, torch.Tensor):
            return change_tensor(target, self.random.choice([None, *TENSORS]))
        if isinstance(target, (types.CellType, Slotted)):
            name = "a" if isinstance(target, Slotted) else "cell_contents"
            was = getattr(target, name)
            setattr(target, name, new)
            return lambda: setattr(target, name, was)
        if isinstance(target, types.FunctionType):
            attributes = {name: getattr(target, name) for name in ("__name__", "__code__", "__defaults__")}
            target.__name__ = self.random.choice((attributes["__name__"], fresh("takes something")))
            target.__code__ = self.random.choice((attributes["__code__"], with_defaults.__code__))
            target.__defaults__ = self.random.choice((None, (new,), attributes["__defaults__"]))
            return functools.partial(put_back, target, attributes)
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
            if self.random.random() < 0.5:
                return self.change_class(target)
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

    def change_class(self, cls: type) -> Callable[[], None]:
        """Changes an attribute of a class alone: its name, its bases, or how its metaclass reads them."""
        if type(cls) is self.meta and self.random.random() < 0.3:
            bases = self.meta.__bases__
            self.meta.__bases__ = (self.random.choice((Overriding, Inheriting)),)
            return lambda: setattr(self.meta, "__bases__", bases)
        name = self.random.choice(("__name__", "__bases__"))
        was = getattr(cls, name)
        if name == "__name__":
            new: Any = self.random.choice((was, fresh("Other name")))
        else:
            new = (self.random.choice(self.classes[:3]),) if was != (object,) else was
        setattr(cls, name, new)
        return lambda: setattr(cls, name, was)


@pytest.mark.parametrize("seed", range(24))
def test_remembered_checks_agree_with_a_walk_without_memory(seed: int) -> None:
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
            for _ in range(world.random.randrange(1, 6)):
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
