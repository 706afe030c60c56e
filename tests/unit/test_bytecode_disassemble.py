"""The text of bytecode: the same wherever and whenever."""

from __future__ import annotations

import re
import sys

from dynamo_lite.bytecode import Handler, assemble, decode, disassemble, emit

PY312 = sys.version_info >= (3, 12)

GOLDEN = """\
      0 RESUME                       0
      1 LOAD_CONST                   (1, 'a', <code inner>)
      2 STORE_FAST                   x
      3 LOAD_GLOBAL                  f + NULL
      4 LOAD_FAST                    x
      5 BINARY_OP                    +=
>>    6 COMPARE_OP                   <
      7 JUMP_BACKWARD                to 6
>>    8 PUSH_EXC_INFO
      9 RERAISE                      1
handler 1..2 to 8 depth 0 lasti
handler 4..5 to 8 depth 1
"""


def sequence():
    def inner(): ...

    landing = emit.make("PUSH_EXC_INFO")
    compare = emit.compare_op("<")
    found = [emit.make("RESUME", 0), emit.load_const((1, "a", inner.__code__.replace(co_qualname="inner")))]
    found += [emit.store_fast("x"), emit.make("LOAD_GLOBAL", "f", flag=True), emit.load_fast("x")]
    found += [emit.binary_op("+="), compare, emit.make("JUMP_BACKWARD", target=compare), landing]
    found += [emit.make("RERAISE", 1)]
    for covered, depth in ((found[1:3], 0), (found[4:6], 1)):
        row = Handler(landing, depth, depth == 0)
        for each in covered:
            each.handler = row
    return found


def test_golden():
    assert disassemble(sequence()) == GOLDEN


def test_of_a_code_object():
    def f(x):
        return x.method(frozenset({"b", "a"}), object, key={"a", "b", "c"} == x in {"p", "q", "r"})

    text = disassemble(f.__code__)
    assert text == disassemble(assemble(decode(f.__code__), like=f.__code__.replace(co_filename="elsewhere")))
    assert "('key',)" in text and "frozenset({'p', 'q', 'r'})" in text
    assert ("method + self or NULL" if PY312 else "LOAD_METHOD                  method") in text
    assert len(text.splitlines()) == len(decode(f.__code__))


def test_no_addresses_and_no_user_code():
    class Rude:
        def __repr__(self):
            raise AssertionError("nobody asked")

    body = [emit.load_const(Rude()), emit.load_const(lambda: 0), emit.load_const([1]), emit.return_value()]
    text = disassemble(body)
    assert "<Rude>" in text and "<function>" in text and "<list>" in text
    assert not re.search("0x[0-9a-f]{4}", text)
    assert repr(body[0]) == "<LOAD_CONST <Rude>>"
