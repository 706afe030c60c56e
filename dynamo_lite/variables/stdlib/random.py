"""The module ``random``: each call that draws numbers, or reads or sets a generator's state, breaks the graph."""

from __future__ import annotations

import random
import types
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import RandomNumber
from dynamo_lite.variables.core.base import Args, Kwargs, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models_raw


def _break_at(function: Any) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> NoReturn:
        unsupported(RandomNumber(function.__name__))

    models_raw(function, model)


for _name, _method in vars(random.Random).items():
    if isinstance(_method, types.FunctionType) and not _name.startswith("_"):
        _break_at(_method)
for _function in (random.random, random.getrandbits):
    _break_at(_function)
