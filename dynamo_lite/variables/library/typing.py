"""The module ``typing``: parameters of types, which stand for themselves."""

from __future__ import annotations

import typing
from typing import Any

from ...source import Source
from ..base import KnownVariable, VariableTracker, wraps_type
from ..user_object import UserObjectVariable


class TypeParameterVariable(KnownVariable):
    """A ``TypeVar`` or ``ParamSpec``."""

    __slots__ = ()
    known_by_identity = True

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        return tx.make(tx.fold(getattr, (self.value, name)))  # type: ignore[no-any-return]


wraps_type(typing.TypeVar, typing.ParamSpec)(TypeParameterVariable.by_identity)


class AliasVariable(UserObjectVariable):
    """``List[int]`` and its like, which hash and compare by what they are made of."""

    __slots__ = ()

    def cache_key(self, tx: Any) -> Any:
        return self.value


_SAMPLES: tuple[Any, ...] = (list, tuple, typing.Callable, list[int], typing.Optional[int])
_SAMPLES += (typing.Callable[[int], str], typing.Literal["a"])


@wraps_type(*{type(each) for each in _SAMPLES if type(each).__module__ == "typing"})
def _wrap_alias(attempt: Any, value: Any, source: Source) -> VariableTracker:
    source.check("id", value)
    return AliasVariable(value, type(value), source)
