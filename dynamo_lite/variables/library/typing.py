"""The module ``typing``: parameters of types, which stand for themselves."""

from __future__ import annotations

import typing
from typing import Any

from ..base import KnownVariable, VariableTracker, wraps_type


class TypeParameterVariable(KnownVariable):
    """A ``TypeVar`` or ``ParamSpec``."""

    __slots__ = ()
    known_by_identity = True

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        return tx.make(tx.fold(getattr, (self.value, name)))  # type: ignore[no-any-return]


wraps_type(typing.TypeVar, typing.ParamSpec)(TypeParameterVariable.by_identity)
