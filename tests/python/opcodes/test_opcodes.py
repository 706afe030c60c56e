"""Every opcode of the running CPython is handled or refused by name, in one place."""

from __future__ import annotations

import dis

import pytest

from dynamo_lite.translator.core import HANDLERS, REFUSED


@pytest.mark.parametrize("name", sorted(dis.opmap))
def test_opcode_is_handled_or_refused(name):
    assert (name in HANDLERS) != (name in REFUSED), f"{name} is in both tables or in none"


def test_handlers_can_be_called_and_refusals_have_reasons():
    assert all(callable(handler) for handler in HANDLERS.values())
    assert all(isinstance(why, str) and len(why) > 5 for why in REFUSED.values())
