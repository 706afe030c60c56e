"""Weak references to objects that only a continuation's variables own: they are deallocated where eager drops them."""

from __future__ import annotations

import weakref

import pytest
import torch

import dynamo_lite as dl
from programs import tensor

X = tensor(3)


class Node:
    def __init__(self, **attributes):
        vars(self).update(attributes)


@dl.disable
def owned(kind):
    """Returns an owner without other references, and a weak reference to its content."""
    leaf = Node(n=2)
    owner = {"object": Node(leaf=leaf), "list": [leaf, 2], "dict": {"leaf": leaf}, "nested": Node(a=Node(leaf=leaf))}
    return owner[kind], weakref.ref(leaf)


def owner_is_deleted():
    owner, reference = owned("object")
    n = owner.leaf.n
    del owner
    return X * n, reference() is None


def owner_is_rebound():
    owner, reference = owned("list")
    n = owner[0].n
    owner = owner[1:]
    return X * n, reference() is None, owner


def owner_in_a_tuple():
    pair = owned("dict")
    n, reference = pair[0]["leaf"].n, pair[1]
    before = reference() is None
    pair = None
    return X * n, before, reference() is None


def owned_object_is_in_a_variable():
    owner, reference = owned("object")
    leaf = owner.leaf
    del owner
    before = reference() is leaf
    n = leaf.n
    leaf = None
    return X * n, before, reference() is None


def part_of_the_way_is_in_a_variable():
    owner, reference = owned("nested")
    part = owner.a
    del owner
    n, before = part.leaf.n, reference() is part.leaf
    del part
    return X * n, before, reference() is None


def owner_in_a_cell():
    owner, reference = owned("object")

    def read():
        return owner.leaf.n

    n = read()
    owner = None
    return X * n, reference() is None


def owner_is_in_a_caller():
    owner, reference = owned("object")

    def read(owner):
        owner, leaf = None, owner.leaf
        n = leaf.n
        leaf = None
        return n, reference() is None

    return X, read(owner), reference() is owner.leaf


def reference_created_inside():
    owner, _ = owned("object")
    reference = weakref.ref(owner.leaf)
    n = reference().n
    owner = None
    return X * n, reference() is None


def item_is_overwritten():
    owner, reference = owned("dict")
    n = owner["leaf"].n
    owner["leaf"] = None
    return X * n, reference() is None


PROGRAMS = [
    each for name, each in globals().items() if name.startswith(("owner_", "owned_", "part_", "reference_", "item_"))
]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_referent_is_deallocated_with_its_owner(fn):
    dl.compile(lambda x: x + 1, backend="eager")(X)  # the first translation of a process imports modules
    compiled, expected = dl.compile(fn, backend="eager"), fn()
    for _ in range(2):
        found = compiled()
        assert torch.equal(found[0], expected[0])
        assert found[1:] == expected[1:]


def test_owner_that_a_variable_holds_is_captured():
    def fn(x, owner, reference):
        part = owner.a
        n = part.leaf.n
        owner = None
        return x * n, reference() is part.leaf

    leaf = Node(n=2)
    owner, reference = Node(a=Node(leaf=leaf)), weakref.ref(leaf)
    found, same = dl.compile(fn, backend="eager", fullgraph=True)(X, owner, reference)
    assert torch.equal(found, X * 2) and same
