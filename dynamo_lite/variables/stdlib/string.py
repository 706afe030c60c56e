"""The C functions under ``string.Formatter``."""

from __future__ import annotations

import _string

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.sequence import TupleVariable


@models(_string.formatter_parser)
def _formatter_parser(tx: Translator, template: VariableTracker) -> VariableTracker:
    return tx.make(tuple(tx.fold(_string.formatter_parser, (tx.python_value(template),)))).iterate(tx)


@models(_string.formatter_field_name_split)
def _field_name_split(tx: Translator, field: VariableTracker) -> VariableTracker:
    first, rest = tx.fold(_string.formatter_field_name_split, (tx.python_value(field),))
    return TupleVariable([tx.make(first), tx.make(tuple(rest)).iterate(tx)])
