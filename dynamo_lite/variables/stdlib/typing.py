"""The module ``typing``: type parameters, generic aliases, ``NewType``."""

from __future__ import annotations

import typing
from typing import Any

from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import InvariantVariable, VariableTracker, wraps_type
from dynamo_lite.variables.core.protocols import Attempt, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable


class TypeParameterVariable(InvariantVariable):
    """A ``TypeVar`` or ``ParamSpec``."""

    __slots__ = ()
    is_guarded_by_identity = True

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return tx.make(tx.fold(getattr, (self.value, name)))


wraps_type(typing.TypeVar, typing.ParamSpec)(TypeParameterVariable.by_identity)


class GenericAliasVariable(UserObjectVariable):
    """``List[int]`` or the like. Its hash and equality come from its origin and arguments, and run no user code."""

    __slots__ = ()

    def cache_key(self, tx: Translator) -> Any:
        return self.value


@models(typing._idfunc)  # type: ignore[attr-defined]
def _call_new_type(tx: Translator, value: VariableTracker) -> VariableTracker:
    """A call of a ``NewType``."""
    return value


_ALIAS: type = typing._BaseGenericAlias  # type: ignore[attr-defined]


wraps_type(*(each for each in vars(typing).values() if isinstance(each, type) and issubclass(each, _ALIAS)))(
    GenericAliasVariable.by_identity
)
