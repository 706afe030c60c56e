"""Text: methods of str and bytes, the modules string, re, json on known values."""

from __future__ import annotations

import collections
import enum
import json
import re
import string
import types
from typing import NamedTuple

import torch
from torch.torch_version import TorchVersion

from collector import Programs
from outcomes import outcome
from programs import recompiling, tensor, watching

programs = Programs()

WORD = re.compile(r"(?P<head>[a-z]+)(\d*)")
SPLIT = re.compile(r"[,;]\s*")


@programs(tensor(2), "layer.12.weight", others=[(tensor(2), "layer.3.bias")])
def a_name_is_taken_apart(x, name):
    parts = name.split(".")
    number = int(parts[1])
    return (
        x * number,
        parts,
        name.startswith("layer"),
        name.endswith(("weight", "w")),
        name.rpartition("."),
        ".".join(parts[::2]),
    )


@programs(tensor(2), "Hello, World")
def methods_that_change_case_and_form(x, s):
    a = [getattr(s, name)() for name in "upper lower swapcase title capitalize casefold expandtabs".split()]
    b = s.center(20, "*"), s.ljust(14), s.rjust(14), s.zfill(15), s.strip("Hd"), s.lstrip("H"), s.rstrip("d")
    return x + len(s), a, b, s.removeprefix("He"), s.removesuffix("ld")


@programs(tensor(2), "a,b,,c")
def methods_that_take_apart(x, s):
    a = (
        s.split(","),
        s.split(",", 1),
        s.rsplit(",", 1),
        s.partition(","),
        s.rpartition(","),
        " a  b ".split(),
        "a\nb\r\nc".splitlines(True),
    )
    b = s.find("b"), s.rfind(","), s.index("c"), s.count(","), s.replace(",", "-", 2), list(s), s[1:3], s[::-1]
    return x + a[0].index("c"), a, b


@programs(tensor(2))
def methods_that_ask(x):
    words = "abc", "ABC", "123", "a1", " ", "", "Ab", "é", "½"
    kinds = "alpha upper digit alnum space title ascii numeric identifier printable".split()
    return x + 1, [[getattr(word, "is" + kind)() for kind in kinds] for word in words]


@programs(tensor(2), ["a", "b"])
def join_of_many_things(x, names):
    a = (
        "-".join(names),
        "".join(n.upper() for n in names),
        ", ".join(map(str, [1, 2])),
        "".join(sorted({"b", "a"})),
        "|".join({"k": 1, "l": 2}),
    )
    return x + len(a), a, "-".join("abc"), "-".join(reversed(names)), ",".join(())


@programs(tensor(2), "key", 3, others=[(tensor(2), "other", 4)])
def f_strings(x, name, n):
    width = 8
    a = (
        f"{name}={n}",
        f"{n:>{width}}",
        f"{n:0{width}.{2}f}",
        f"{name!r:^10}",
        f"{n + 1=}",
        f"{{{n}}}",
        f"{n:x}{n:#b}{n:e}{n:%}",
    )
    table = {f"{name}.{i}": x * i for i in range(n)}
    return table, a, f"{x.shape[0]}x{tuple(x.shape)} {x.dtype} {x.device}", f"{None} {True} {1.5} {[n]} {name:s}"


@programs(tensor(2), graphs=None)
def translate_and_templates(x):
    table = str.maketrans({"a": "1", "b": None})
    a = (
        "abc".translate(table),
        "abc".translate(str.maketrans("ac", "xy", "b")),
        string.ascii_lowercase[:3],
        string.digits,
    )
    b = (
        string.Template("$who likes ${what}").substitute(who="a", what="b"),
        string.capwords("a bc d"),
        string.Template("$x $y").safe_substitute(x=1),
    )
    return x + 1, a, b


@programs(tensor(2), b"abc")
def methods_of_bytes(x, data):
    a = (
        data.upper(),
        data.decode(),
        data[0],
        data[1:],
        data[::-1],
        data + b"d",
        data * 2,
        data.find(b"c"),
        data.hex(),
        list(data),
        b"b" in data,
    )
    b = (
        "é".encode(),
        "é".encode("latin-1"),
        data.split(b"b"),
        data.startswith(b"a"),
        b"-".join([b"a", b"b"]),
        b"%d" % 3,
        data == b"abc",
    )
    return x + data[0], a, b


@programs(tensor(2), "abc12 d3", others=[(tensor(2), "x9")])
def a_pattern_from_outside(x, text):
    found = WORD.match(text)
    return (
        x + len(found.group()),
        found.group(1),
        found["head"],
        found.groups(),
        found.groupdict(),
        found.span(),
        found.start(2),
        found.end(),
    )


class Release(str):
    """Compares as a version, while `re` uses its characters."""

    def __eq__(self, other):
        return self.split(".") == str(other).split(".")

    __hash__ = str.__hash__

    def __str__(self):
        return "shown"


@programs(tensor(2), Release("v2.13"), cut=False, graphs=None)
def a_pattern_on_text_of_a_class(x, release):
    found = re.match(r"v(\d+)\.(\d+)", release)
    again = re.fullmatch(".*", release)
    return (
        x * int(found.group(1)),
        found[0],
        found.string is release,
        type(again.group()),
        re.search("z", release),
        re.findall(r"\d", release),
        re.compile(r"\.").split(release),
        release == "v2.13",
    )


@programs(tensor(2), Release("v2.13"), graphs=None)
def a_match_on_text_of_a_class(x, release):
    found = re.match("v", release)
    other = re.sub("v", release, "v1"), re.sub(release, "a", "v2.13"), re.sub("v", "w", release)
    return x + 1, found.string, found, other


@programs(tensor(2), "ab", graphs=1)
def iterators_by_the_method(x, text):
    letters, numbers = text.__iter__(), range(3).__iter__()
    return x + next(numbers), next(letters), list(letters), list(numbers), list(b"ab".__iter__()), iter(text).__next__()


@programs(tensor(2), "nothing", graphs=1)
def a_pattern_that_does_not_match(x, text):
    found = re.match(r"\d", text)
    return x + (1 if found is None else 2), found, bool(re.search("o", text)), re.fullmatch("x*", text)


@programs(tensor(2), "a1,b2; c3", graphs=None)
def the_functions_of_re(x, text):
    a = (
        re.findall(r"[a-z]\d", text),
        re.split(r"[,;]", text),
        re.sub(r"\d", "#", text),
        re.subn(r"\d", "#", text, count=2),
        re.escape("a.b"),
    )
    b = (
        [m.group() for m in re.finditer(r"\d", text)],
        SPLIT.split(text),
        WORD.findall(text),
        WORD.pattern,
        WORD.flags,
        WORD.groups,
    )
    return x + len(a[0]), a, b


@programs(tensor(2), "a1b22", graphs=None)
def sub_with_a_function(x, text):
    calls = []

    def double(match):
        calls.append(match.group())
        return str(int(match.group()) * 2)

    return x + 1, re.sub(r"\d+", double, text), calls


@programs(tensor(2), "K=V")
def a_pattern_made_inside(x, text):
    pattern = re.compile("(k)=(v)", re.IGNORECASE)
    found = pattern.search(text)
    if (again := pattern.match(text)) is not None:
        x = x + again.end()
    return x, found.expand(r"\2-\1"), found.lastindex, found.re is pattern, found.string, pattern


@programs(tensor(2), {"encoder.layer.0.weight": 1, "encoder.layer.11.bias": 2, "head": 3})
def names_are_filtered_by_a_pattern(x, table):
    chosen = {int(m[1]): v for k, v in table.items() if (m := re.search(r"layer\.(\d+)\.", k))}
    return x * sum(chosen), chosen


@programs(tensor(2), graphs=None)
def a_wrong_pattern(x):
    return x + 1, outcome(re.compile, "(")


@programs(tensor(2), {"a": [1, 2.5, None, True], "b": {"c": "d"}})
def json_there_and_back(x, table):
    text = json.dumps(table, sort_keys=True)
    return x + len(text), text, json.loads('{"k": [1, 2]}')["k"], json.loads(text) == table


class Telling(type):
    asked: list[str] = []

    def __repr__(cls):
        cls.asked.append(cls.__name__)
        return f"<{cls.__name__}>"


class Told(metaclass=Telling):
    pass


@programs(tensor(2))
@watching((Telling, "asked"))
@recompiling
def a_metaclass_says_the_text_of_its_classes(x):
    return x + 1, f"{Told}", f"{Told:}", str(Told), "{}".format(Told), format(Told)


class Named(NamedTuple):
    a: object
    b: object

    def __str__(self):
        return f"{self.a} and {self.b!r}"


class Nested:
    def __init__(self, inside):
        self.inside = inside

    def __repr__(self):
        return f"Nested({self.inside!r})"


def a_function(x):
    return x


@programs(tensor(2), a_function, others=[(tensor(2), tensor)])
def texts_of_functions(x, given):
    texts = str(a_function), f"{a_function!r:>90}", "%s" % a_function, str([a_function]), str(Nested.__repr__)
    return x + 1, texts, str(given), "a_function" in str(given)


@programs(tensor(2))
def versions_are_compared(x):
    version = torch.__version__
    n = 1 if version > "1.9" and version >= (2, 0) else 2
    return x + n, version == "x", TorchVersion("1.2.3") > (1, 2), TorchVersion("parrot") > "a", version.split("+")[0]


@programs(tensor(2))
def texts_of_named_tuples(x):
    named = Named(1, [Nested(2)])
    return x + 1, str(named), repr(named), f"{named}", [repr(torch.finfo), str((Nested(1),))]


class Level(enum.Enum):
    LOW = 1

    def __str__(self):
        TOLD.append(self.name)
        return "level " + self.name.lower()


TOLD: list[str] = []


@programs(tensor(2))
@watching("TOLD")
@recompiling
def texts_of_members_with_a_text_of_their_own(x):
    return x + 1, f"{Level.LOW}", str(Level.LOW), repr(Level.LOW), "%s" % Level.LOW, "{}".format(Level.LOW)


class Word(enum.StrEnum):
    PAIR = "a,b c"


@programs(tensor(2))
def methods_of_a_member_that_is_a_text(x):
    return x + 1, Word.PAIR.split(sep=","), Word.PAIR.replace("a", "z"), Word.PAIR.upper()


@programs(tensor(2))
def a_container_that_is_in_itself_by_an_object(x):
    items = [1]
    items.append(Nested(items))
    table = {"a": (Nested(2),)}
    table["b"] = Nested(table)
    space = types.SimpleNamespace(a=1)
    space.b = [space]
    return x + 1, repr(items), f"{table}", str(space)


@programs(tensor(2))
def texts_of_deques(x):
    return x + 1, repr(collections.deque([1, 2], maxlen=3)), str(collections.deque())


test_text = programs.test()
