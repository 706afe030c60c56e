"""The module ``random``: calls of generators' methods break the graph, since the numbers differ from call to call."""

from __future__ import annotations

import random
import types
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import RandomCall
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, unsupported
from dynamo_lite.variables.core.registry import models_raw


def _break_at_call(function: Any) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> NoReturn:
        unsupported(RandomCall(function.__name__))

    models_raw(function, model)


for _name, _function in vars(random.Random).items():
    if isinstance(_function, types.FunctionType) and not _name.startswith("_"):
        _break_at_call(_function)
for _function in (random.random, random.getrandbits):
    _break_at_call(_function)
