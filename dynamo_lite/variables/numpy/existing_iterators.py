"""Pre-existing iterators over numpy arrays, as of a loop that a graph break is in: their items are data."""

from __future__ import annotations

import gc

import numpy

from dynamo_lite.insight.break_reasons import DataDependentValue
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.wrapping import wraps_if
from dynamo_lite.variables.python.objects.existing_iterator import ExistingIterator


class ExistingArrayIterator(ExistingIterator):
    """``iter(array)``. An array may be mutated between two items, so each is read when the program takes it."""

    __slots__ = ()

    def _take(self, tx: Translator) -> VariableTracker:
        unsupported(DataDependentValue("the next item of a numpy array"))


def _is_over_array(value: object) -> bool:
    return type(value) is _ITERATOR and any(type(each) is numpy.ndarray for each in gc.get_referents(value))


_ITERATOR = type(iter(numpy.zeros(1)))


@wraps_if(_is_over_array, order=7)
def _wrap_array_iterator(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    source.check("type", _ITERATOR)
    return ExistingArrayIterator(value, source)
