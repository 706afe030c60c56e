"""Types as values: subscripted classes, annotations of functions created during tracing."""

import collections.abc
import sys
import typing

import torch
import torch.utils._pytree as pytree

from programs import checked, tensor

KIND = typing.TypeVar("KIND")


@checked(tensor(3), operators=1)
def test_classes_are_subscripted_by_types_in_lists(x):
    def scaled(by: collections.abc.Callable[[KIND], int], *rest: dict[str, KIND]) -> list[int]:
        return x * by(x)

    kinds = collections.abc.Callable[[KIND], typing.Any], typing.Callable[[int], str], tuple[int, ...]
    return scaled(lambda each: 3), kinds


@checked(tensor(3), operators=3)
def test_values_of_a_kind_in_a_tree(x):
    tree = pytree.tree_map_only(torch.Tensor, lambda each: each + 1, {"a": 1, "b": [x, x * 2]})
    return tree, pytree.tree_map_only(int, lambda each: each + 1, [1, x])


@checked(tensor(3), graphs=1 if sys.version_info < (3, 14) else (1, 2))  # 3.14 makes unions of aliases in C
def test_types_of_types_are_subscripted(x):
    def total(
        a: typing.Optional[typing.List[int]] = None,  # noqa: UP006, UP045
        b: typing.Dict[str, typing.Tuple[int, ...]] = None,  # noqa: UP006
        c: typing.Callable[[int], typing.Optional[str]] = None,  # noqa: UP045
    ) -> typing.Union[int, typing.Literal["none"]]:
        return sum(a or ())

    kinds = total.__annotations__["a"], typing.get_args(typing.Optional[int])  # noqa: UP045
    return x + total([2, 3]), kinds, typing.Union[int, str] == typing.Union[str, int], typing.Any


USER = typing.NewType("USER", int)


class Box(typing.Generic[KIND]):
    def __init__(self, held: KIND) -> None:
        self.held = held


@checked(tensor(3), operators=2)
def test_annotations_with_type_variables(x):
    def called(c: typing.Callable[[KIND], KIND], y: KIND) -> KIND:
        return c(y)

    return called(torch.sin, Box[torch.Tensor](x).held) + USER(3), typing.List[KIND]  # noqa: UP006
