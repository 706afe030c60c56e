"""decode, and the encodings of its tables; each code object is decoded once."""

from __future__ import annotations

import dis
import gc
import sys
import types
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytecode_checks import disassemble
from dynamo_lite.bytecode import (
    assemble,
    copy_with_map,
    decode,
    emit,
    exception_table,
    linetable,
    live_locals,
    roles,
)

PY312 = sys.version_info >= (3, 12)


def guarded(x):
    for each in x:
        try:
            with each:
                return 1 // each
        except ZeroDivisionError:
            return "zero"


def test_decoded_once_for_each_code_object():
    code = eval(compile("lambda x: x + 12345", "one", "eval")).__code__
    twin, same = code.replace(co_filename="two"), code.replace()
    assert decode(code) is decode(code)
    assert same == code and decode(same) is not decode(code)
    assert decode(twin) is not decode(code)


@pytest.mark.parametrize("analyse", [decode, live_locals])
def test_decoded_code_is_freed_with_its_code_object(analyse):
    class Constant:
        pass

    held = Constant()
    body = [emit.make("RESUME", 0), emit.load_const(held), emit.return_value()]
    code = assemble(body, like=(lambda: 0).__code__)
    body.clear()
    analyse(code)
    dead = weakref.ref(held)
    del held
    assert dead() is not None
    del code
    gc.collect()
    assert dead() is None


def test_operands_are_resolved():
    def f(a, *, k=1):
        global spam
        spam = a.name
        a.method(k, key=3.5)
        return (lambda: a < 2) in {k: None}

    found = {each.opname: each for each in decode(f.__code__)}
    assert found["STORE_GLOBAL"].argval == "spam"
    assert found["KW_NAMES"].argval == ("key",)
    assert found["LOAD_DEREF"].argval == "a" and found["MAKE_CELL"].argval == "a"
    assert found["CONTAINS_OP"].arg == 0
    methods = [each for each in decode(f.__code__) if each.argval == "method"]
    assert [(each.opname, each.flag) for each in methods] == [("LOAD_ATTR", True) if PY312 else ("LOAD_METHOD", False)]
    inner = next(each.argval for each in decode(f.__code__) if isinstance(each.argval, types.CodeType))
    assert [each.argval for each in decode(inner) if each.opname == "COMPARE_OP"] == ["<"]
    assert next(each for each in decode(inner) if each.opname == "LOAD_DEREF").flag, "the closure's"
    assert not found["LOAD_DEREF"].flag, "the frame's own"


def test_calls_of_globals_push_null():
    found = [each for each in decode((lambda: (len(abs), len)).__code__) if each.opname == "LOAD_GLOBAL"]
    assert [(each.argval, each.flag) for each in found] == [("len", True), ("abs", False), ("len", False)]


@pytest.mark.skipif(not PY312, reason="super() has an opcode from 3.12 on")
def test_super_attributes():
    class A:
        def f(self):
            super().f()
            return super(A, self).g, super().h  # noqa: UP008

    found = [each for each in decode(A.f.__code__) if each.opname == "LOAD_SUPER_ATTR"]
    assert [(each.argval, each.flag, each.flag2) for each in found] == [
        ("f", True, False),
        ("g", False, True),
        ("h", False, False),
    ]


def test_a_running_function_is_decoded_without_its_specialisations():
    def hot(a, b):
        return a + b

    for _ in range(1000):
        hot(1, 2)
    assert any(each.opname == "BINARY_OP_ADD_INT" for each in dis.get_instructions(hot, adaptive=True))
    assert disassemble(hot.__code__) == disassemble(hot.__code__.replace())


def test_copies_are_private():
    code = guarded.__code__
    original = decode(code)
    made, mapping = copy_with_map(original)
    assert list(mapping) == list(original) and list(mapping.values()) == made
    inside = set(made)
    for old, new in mapping.items():
        assert new is not old and (new.opname, new.argval, new.flag) == (old.opname, old.argval, old.flag)
        assert (new.target is None) == (old.target is None) and (new.target is None or new.target in inside)
        assert new.handler is None or new.handler.target in inside


def test_first_of_overlapping_exception_table_rows_applies():
    code = (lambda x: x + 1).__code__
    last = len(code.co_code) // 2 - 1
    second = decode(code)[1].offset // 2
    rows = [(second, second + 1, last, 0, True), (0, last + 1, last, 0, False)]
    found = decode(code.replace(co_exceptiontable=exception_table.build(rows)))
    assert [each.handler.lasti for each in found] == [False, True, *[False] * (len(found) - 2)]


def test_functions_that_return_nothing_but_some_constants():
    def leave(self, kind, error, trace):
        if kind is None:
            return False
        self.close()

    def swallow(self, kind, error, trace):
        return True if kind is None else None

    def decide(self, kind, error, trace):
        return self.swallows or None

    assert [roles.returns_only(each.__code__, (None, False)) for each in (leave, swallow, decide)] == [
        True,
        False,
        False,
    ]


def test_padded_extended_args_are_read():
    code = (lambda: 5).__code__
    raw = bytes((dis.EXTENDED_ARG, 0)) * 2 + code.co_code
    padded = code.replace(co_code=raw, co_linetable=linetable.build([(len(raw) // 2, (1, 1, 0, 1))], 1))
    assert [each.opname for each in decode(padded)] == [each.opname for each in decode(code)]
    assert types.FunctionType(padded, {})() == 5


# -- tables ----------------------------------------------------------------------------------------------------

numbers = st.integers(0, 1 << 20)
lines = st.integers(1, 1 << 16)
places = st.one_of(
    st.none(),
    lines.map(lambda line: (line, line, None, None)),
    st.builds(
        lambda s, e, c, d: (s, s + e, c, c + d), lines, st.integers(0, 300), st.integers(0, 200), st.integers(0, 90)
    ),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), places), min_size=1, max_size=30), lines)
def test_location_table_round_trips(entries, first):
    units = sum(size for size, _ in entries)
    code = guarded.__code__.replace(
        co_code=bytes((dis.opmap["NOP"], 0)) * units, co_firstlineno=first, co_linetable=linetable.build(entries, first)
    )
    wanted = [place or (None,) * 4 for size, place in entries for _ in range(size)]
    assert list(code.co_positions()) == wanted


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers, st.booleans())))
def test_exception_table_round_trips(rows):
    rows = [(start, start + length, target, depth, lasti) for start, length, target, depth, lasti in rows]
    assert exception_table.parse(guarded.__code__.replace(co_exceptiontable=exception_table.build(rows))) == rows
