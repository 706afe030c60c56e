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


def test_names_are_opcodes_of_some_version():
    pattern = {name for name in {*HANDLERS, *REFUSED} if not name.isupper() or " " in name}
    assert pattern == set()


def test_common_opcodes_are_handled_not_refused():
    def program(a, *b, c=1, **d):
        for i in range(a):
            with open(b[0]) as f:
                x = [*b, {**d}, {1, a}, f"{a!r:>3}", lambda: c + i]
            try:
                x[1:2], y = a @ c, -a
                assert y is not x and a in x
            except (KeyError, ValueError) as e:
                raise TypeError from e
            finally:
                del x
        else:
            return not a and f

    names = {i.opname for i in dis.get_instructions(program)} | {
        i.opname
        for const in program.__code__.co_consts
        if hasattr(const, "co_code")
        for i in dis.get_instructions(const)
    }
    assert {name for name in names if name not in HANDLERS} <= {"CACHE", "EXTENDED_ARG"}
