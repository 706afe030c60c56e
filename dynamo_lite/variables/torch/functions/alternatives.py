"""Functions that can be traced in either of two ways. Where the first fails, the next attempt takes the second."""

from __future__ import annotations

from collections.abc import Callable

from dynamo_lite.exc import Unsupported
from dynamo_lite.records.restart import OtherWay, Restart
from dynamo_lite.variables.core.base import Translator, VariableTracker

Way = Callable[[], VariableTracker]


def in_either_way(tx: Translator, function: object, first: Way, second: Way) -> VariableTracker:
    """The result of a call of the function. If both ways fail, the graph breaks where the first does."""
    succeeds = tx.attempt.restart_facts.remembered.other_way.get(id(function))
    try:
        return (second if succeeds else first)()
    except Unsupported:
        if succeeds is False:
            raise
        raise Restart(OtherWay(id(function), succeeds is None)) from None
