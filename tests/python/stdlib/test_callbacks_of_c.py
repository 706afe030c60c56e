"""User code called by functions in C: it runs in each call of the compiled function, and never only during tracing."""

from __future__ import annotations

import bisect
import codecs
import enum
import functools
import json
import re
from collections import defaultdict
from typing import NamedTuple

import pytest
import torch

import dynamo_lite as dl

CALLS: list[str] = []


def note(*args, **kwargs):
    CALLS.append("note")
    return args[0] if args else "q"


def upper(match):
    CALLS.append(match.group())
    return match.group().upper()


def handle(error):
    CALLS.append("handler")
    return "?", error.end


def find_codec(name):
    if name != "dl_noted":
        return None

    def encode(text, errors="strict"):
        CALLS.append("encode")
        return text.encode(), len(text)

    def decode(data, errors="strict"):
        CALLS.append("decode")
        return bytes(data).decode(), len(data)

    return codecs.CodecInfo(encode, decode, name=name)


codecs.register_error("dl_noted", handle)
codecs.register(find_codec)


class Noted:
    def __call__(self, *args):
        return note(*args)

    def method(self, match):
        return note("m")


class Color(enum.Enum):
    RED = 1

    @property
    def label(self):
        return note("label")


class Action(enum.StrEnum):
    UPPER = "u"

    def __call__(self, match):
        return note("called")


class Level(int, enum.Enum):
    LOW = 1

    def __index__(self):
        return note(1)


class WithValue(enum.Enum):
    ONE = Noted()


class Point(NamedTuple):
    x: int

    @property
    def norm(self):
        return note(self.x)


class Missing(dict):
    def __missing__(self, key):
        return note("missing")


PATTERN, NOTED, POINT = re.compile("a"), Noted(), Point(3)

INLINED = {
    "re.sub": lambda: re.sub("a", upper, "banana"),
    "re.subn with a count": lambda: re.subn("a", upper, "banana", count=2),
    "Pattern.sub": lambda: PATTERN.sub(upper, "banana"),
    "Pattern.subn": lambda: PATTERN.subn(repl=upper, string="banana", count=1),
    "Pattern.sub by a partial": lambda: PATTERN.sub(functools.partial(note, "p"), "banana"),
    "Pattern.sub by an object": lambda: PATTERN.sub(lambda match: NOTED("z"), "banana"),
    "Pattern.sub by a method": lambda: PATTERN.sub(NOTED.method, "banana"),
    "Pattern.sub by an enum member": lambda: PATTERN.sub(Action.UPPER, "banana"),
    "sub of empty matches": lambda: re.sub("a*", lambda match: note("-"), "banana"),
    "sub of groups": lambda: re.sub("(a)(n)?", lambda match: note(match[1]) + str(match.span(2)), "banana"),
    "sub that deletes": lambda: re.sub(b"a", lambda match: note(None), b"banana"),
    "bisect by a key": lambda: bisect.bisect([1, 2, 2, 3], 2, key=note),
    "bisect_left by a key": lambda: bisect.bisect_left([(1,), (2,)], 2, 0, 2, key=lambda row: note(row[0])),
    "insort by a key": lambda: bisect.insort([1, 3], 2, key=note),
    "an enum's text": lambda: (f"{Color.RED}", "%s" % Action.UPPER, f"{WithValue.ONE}", "{}".format(Color.RED)),
    "texts of classes and functions": lambda: (f"{Noted} {len}", "%s" % Noted, f"{[Color, int]}", "{}".format(int)),
    "codecs of the standard library": lambda: ("é".encode("ascii", "ignore"), b"\xff".decode("cp1252"), "é".encode()),
}
BREAKING = {
    "Pattern.sub with a break inside": lambda: PATTERN.sub(lambda match: print(end="") or note("z"), "banana"),
    "loads by parse_float": lambda: json.loads("[1.5, 2]", parse_float=note),
    "loads by parse_int": lambda: json.loads("[1.5, 2]", parse_int=note),
    "loads by object_hook": lambda: json.loads('{"a": 2}', object_hook=note),
    "dumps by default": lambda: json.dumps([1j], default=lambda value: note("j")),
    "encode by a handler": lambda: "é".encode("ascii", "dl_noted"),
    "encode by a named handler": lambda: "é".encode("ascii", errors="dl_noted"),
    "decode by a handler": lambda: b"\xff".decode("ascii", "dl_noted"),
    "bytes by a handler": lambda: bytes("é", "ascii", "dl_noted"),
    "str by a handler": lambda: str(b"\xff", "ascii", "dl_noted"),
    "encode by a codec": lambda: "é".encode("dl_noted"),
    "decode by a codec": lambda: b"e".decode("dl_noted"),
    "% of a mapping that makes items": lambda: "%(a)s" % defaultdict(note),
    "translate by a mapping that makes items": lambda: "ab".translate(Missing()),
    "format_map of a mapping that makes items": lambda: "{a}".format_map(Missing()),
    "format that reads a property of an enum": lambda: "{0.label}".format(Color.RED),
    "format that reads a property of a named tuple": lambda: "{0.norm}".format(POINT),
    "format that reads a property of an item": lambda: "{0[0].norm}".format((POINT,)),
    "math of an enum with methods": lambda: [3, 4][Level.LOW],
}


@pytest.mark.parametrize("name", [*INLINED, *BREAKING])
def test_callbacks_run_in_each_call(name):
    program = {**INLINED, **BREAKING}[name]

    def step(x):
        y = x + 1
        result = program()
        return y * 2, result

    compiled = dl.compile(step, backend="eager", fullgraph=name in INLINED)
    for call in range(3):
        x = torch.full((2,), float(call))
        CALLS.clear()
        wanted, calls = step(x), list(CALLS)
        CALLS.clear()
        found = compiled(x)
        assert torch.equal(found[0], wanted[0]) and repr(found[1]) == repr(wanted[1])
        assert calls == CALLS


def test_a_callback_computes_with_tensors():
    def step(x):
        seen = []
        text = re.sub("[ab]", lambda match: seen.append(x + len(seen)) or "", "abcab")
        return sum(seen), text

    x = torch.ones(2)
    found, text = dl.compile(step, backend="eager", fullgraph=True)(x)
    assert torch.equal(found, step(x)[0]) and text == "c"


def test_a_callback_that_returns_no_text_raises_the_error_of_c():
    def step(x):
        try:
            PATTERN.sub(lambda match: 3, "banana")
        except TypeError as error:
            return x + 1, str(error)

    assert dl.compile(step, backend="eager")(torch.ones(2))[1] == step(torch.ones(2))[1]


def test_breaks_name_the_function_and_the_type():
    def step(x):
        return x + 1, "{a.label}".format_map({"a": Color.RED})

    with pytest.raises(dl.exc.Unsupported, match=r"str\.format_map\(\) can't be traced: user code may run by .* dict"):
        dl.compile(step, backend="eager", fullgraph=True)(torch.ones(2))
