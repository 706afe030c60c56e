"""Types as values: classes that are subscripted, annotations of functions made inside."""

import collections.abc
import typing

import torch
import torch.utils._pytree as pytree

from programs import check, tensor

KIND = typing.TypeVar("KIND")


def test_classes_are_subscripted_by_types_in_lists():
    def fn(x):
        def scaled(by: collections.abc.Callable[[KIND], int], *rest: dict[str, KIND]) -> list[int]:
            return x * by(x)

        kinds = collections.abc.Callable[[KIND], typing.Any], typing.Callable[[int], str], tuple[int, ...]
        return scaled(lambda each: 3), kinds

    check(fn, tensor(3), operators=1)


def test_values_of_a_kind_in_a_tree():
    def fn(x):
        tree = pytree.tree_map_only(torch.Tensor, lambda each: each + 1, {"a": 1, "b": [x, x * 2]})
        return tree, pytree.tree_map_only(int, lambda each: each + 1, [1, x])

    check(fn, tensor(3), operators=3)
