"""The module ``typing``: type parameters, generic aliases, ``NewType``."""

from __future__ import annotations

import typing
from typing import Any

from dynamo_lite.variables.core.base import Translator
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable

wraps_type(typing.TypeVar, typing.ParamSpec)(ConstantVariable.by_identity)


class GenericAliasVariable(UserObjectVariable):
    """``List[int]`` or the like. Its hash and equality come from its origin and arguments, and run no user code."""

    __slots__ = ()

    def cache_key(self, tx: Translator) -> Any:
        return self.value


models(typing._idfunc)(lambda tx, value: value)  # type: ignore[attr-defined]  # a call of a `NewType`

_ALIAS: type = typing._BaseGenericAlias  # type: ignore[attr-defined]


wraps_type(*(each for each in vars(typing).values() if isinstance(each, type) and issubclass(each, _ALIAS)))(
    GenericAliasVariable.by_identity
)
