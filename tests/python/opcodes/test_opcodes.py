"""Every opcode of the running CPython is handled or refused by name, in one place."""

from __future__ import annotations

import dis
import sys

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.translator.core import HANDLERS, REFUSED


@pytest.mark.parametrize("name", sorted(dis.opmap))
def test_opcode_is_handled_or_refused(name):
    assert (name in HANDLERS) != (name in REFUSED), f"{name} is in both tables or in none"


def test_handlers_can_be_called_and_refusals_have_reasons():
    assert all(callable(handler) for handler in HANDLERS.values())
    assert all(isinstance(why, str) and len(why) > 5 for why in REFUSED.values())


@pytest.mark.skipif(sys.version_info < (3, 14), reason="3.14 has t-strings")
def test_t_string_is_built_in_cpython():
    namespace: dict = {}
    exec("def fn(x):\n    y = x + 1\n    made = t'{y.dim()!r:>{3}} axes'\n    return y * 2, made", namespace)
    fn, x = namespace["fn"], torch.ones(2)
    (expected, made), (found, compiled) = fn(x), dl.compile(fn, backend="eager")(x)
    assert torch.equal(found, expected) and compiled.strings == made.strings
    (one,), (other,) = compiled.interpolations, made.interpolations
    parts = [(each.value, each.expression, each.conversion, each.format_spec) for each in (one, other)]
    assert parts[0] == parts[1]
