"""The text of a recompilation: what changed, the old and new values, and what to do."""

from __future__ import annotations

import enum
import string
import warnings

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite import _C
from dynamo_lite.insight import changes as changes_of

_EACH = "each value or object is compiled separately, up to dl.config.recompile_limit"
_FUNCTION = "each function is compiled separately: define it once, and pass the same one"
_NUMBER = "each number is compiled separately: pass one that changes between calls as a tensor"


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(str):
    pass


class Settings:
    def __init__(self, mode):
        self.mode = mode


def changes(caplog, fn, *calls) -> list[str]:
    """Returns the texts of the recompilations, after the function's name and place."""
    compiled = dl.compile(fn, backend="eager")
    with caplog.at_level("INFO", "dynamo_lite.recompiles"):
        for args in calls:
            compiled(*args)
    said = [each.getMessage() for each in caplog.records if each.name == "dynamo_lite.recompiles"]
    return [each.partition(" is compiled again: ")[2] for each in said]


def embed(ids, table):
    return table[ids].sum()


def by_mode(x, mode):
    return x + 1 if mode in (Color.RED, Level.LOW) else x - 1


def by_settings(x, settings):
    return x + 1 if settings.mode is Color.RED else x - 1


def length(x, name):
    return x + len(name)


def calling(x, function):
    return function(x)


def summed(x, numbers):
    for each in numbers:
        x = x + each
    return x


def printing_loop(x, items):
    for each in list(items):
        print(each)
        x = x + 1
    return x


def keywords(x, **options):
    return x + len(options)


def products(x, pairs):
    for at, each in pairs:
        x = x + at * each
    return x


def lookup(x, options):
    return x + options.get("scale", 1)


def attribute(x, settings):
    return x + getattr(settings, "shift", 1)


def members(x, names):
    return x + len(names) + ("a" in names)


def writing(x, y):
    x.add_(1)
    return x + y


def adding(x, y):
    return x + y


def comparing(x, value):
    return x + 1 if value is MARKER else x - 1


def offset(x):
    return x + x.storage_offset()


IDS = torch.zeros(2, 8, dtype=torch.long)
MARKER = Settings(Color.RED)
_ALIASES = "inputs that are one object or share memory are compiled separately"


def with_shift(shift):
    settings = Settings(Color.RED)
    settings.shift = shift
    return settings


def halves():
    """Returns two tensors that share memory."""
    base = torch.ones(3)
    return base[:2], base[1:]


@pytest.mark.parametrize(
    ("fn", "calls", "said"),
    [
        (
            embed,
            [(IDS, torch.ones(4)), (torch.zeros(2, 16, dtype=torch.long), torch.ones(4))],
            "`ids` dim 1 was 8, now 16. Hint: mark it dynamic before the first call: `dl.mark_dynamic(ids, 1)`",
        ),
        (
            embed,
            [(IDS, torch.ones(4)), (torch.zeros(3, 9, dtype=torch.long), torch.ones(4))],
            "`ids` dim 0 was 2, now 3, dim 1 was 8, now 9. "
            "Hint: mark it dynamic before the first call: `dl.mark_dynamic(ids, [0, 1])`",
        ),
        (
            embed,
            [(IDS, torch.ones(4)), (IDS[0], torch.ones(4))],
            "`ids` had 2 dimensions, now 1. "
            "Hint: each number of dimensions is compiled separately: reshape the inputs before the call",
        ),
        (
            embed,
            [(IDS, torch.ones(4)), (IDS[:1], torch.ones(4))],
            "`ids` dim 0 was 2, now 1. "
            "Hint: sizes 0 and 1 are compiled separately, since operators treat them otherwise",
        ),
        (by_mode, [(IDS, Color.RED), (IDS, Color.BLUE)], f"mode: Color.BLUE, was Color.RED. Hint: {_EACH}"),
        (by_mode, [(IDS, Level.LOW), (IDS, Level.HIGH)], f"mode: Level.HIGH, was Level.LOW. Hint: {_EACH}"),
        (
            by_settings,
            [(IDS, Settings(Color.RED)), (IDS, Settings(Color.BLUE))],
            f"settings.mode: Color.BLUE, was Color.RED. Hint: {_EACH}",
        ),
        (length, [(IDS, Name("a")), (IDS, Name("ab"))], f"name: 'ab', was 'a'. Hint: {_EACH}"),
        (
            calling,
            [(torch.ones(2), torch.sin), (torch.ones(2), torch.cos)],
            f"function: the function torch.cos, was the function torch.sin. Hint: {_FUNCTION}",
        ),
        (
            summed,
            [(IDS, iter([1, 2])), (IDS, iter([1, 3]))],
            f"the 2nd item that numbers yields: 3, was 2. Hint: {_NUMBER}",
        ),
        (
            summed,
            [(IDS, iter([1, 2])), (IDS, iter([1]))],
            f"the 2nd item that numbers yields: nothing there, was there. Hint: {_EACH}",
        ),
        (
            products,
            [(IDS, enumerate(iter([1, 2]))), (IDS, enumerate(iter([1])))],
            f"the 2nd item that the iterable of pairs yields: nothing there, was there. Hint: {_EACH}",
        ),
        (
            lookup,
            [(IDS, {"scale": 2, "a": 1}), (IDS, {"a": 1})],
            f"options: the key 'scale' is missing, was there. Hint: {_EACH}",
        ),
        (
            lookup,
            [(IDS, {"a": 1}), (IDS, {"scale": 2})],
            f"options: the key 'scale' is there, was missing. Hint: {_EACH}",
        ),
        (
            attribute,
            [(IDS, Settings(Color.RED)), (IDS, with_shift(2))],
            f"settings: has an instance attribute 'shift', had none. Hint: {_EACH}",
        ),
        (members, [(IDS, {"a", "b"}), (IDS, {"c", "d"})], f"names: a set of other items. Hint: {_EACH}"),
        (
            comparing,
            [(IDS, MARKER), (IDS, Settings(Color.RED))],
            f"'value is MARKER' no longer holds: they are different objects. Hint: {_ALIASES}",
        ),
        (
            calling,
            [(torch.ones(2), abs), (torch.ones(2), Settings)],
            f"function: the class Settings, was the function abs. Hint: {_FUNCTION}",
        ),
        (
            writing,
            [(torch.ones(2), torch.ones(2)), halves()],
            f"two of its inputs share memory, and it writes to one of them. Hint: {_ALIASES}",
        ),
        (
            adding,
            [(IDS, IDS + 1), (IDS, IDS)],
            f"two of its inputs are one object, and were different ones. Hint: {_ALIASES}",
        ),
        (
            offset,
            [(torch.ones(6)[2:4],), (torch.ones(6)[1:3],)],
            "x: storage offset 1, was 2. "
            "Hint: each place of a view in its storage is compiled separately: call .clone() before",
        ),
    ],
)
def test_recompilation_text_has_the_old_and_the_new_value(caplog, fn, calls, said):
    assert changes(caplog, fn, *calls) == [said]


def test_lambdas_are_named_by_their_lines(caplog):
    one, other = lambda x: x + 1, lambda x: x + 2  # noqa: E731
    line = one.__code__.co_firstlineno
    assert changes(caplog, calling, (IDS, one), (IDS, other)) == [
        f"function: another function, was the function <lambda> of line {line}. Hint: {_FUNCTION}"
    ]


def test_keyword_arguments_are_named(caplog):
    compiled = dl.compile(keywords, backend="eager")
    with caplog.at_level("INFO", "dynamo_lite.recompiles"):
        compiled(IDS, a=1), compiled(IDS, a=1, b=2)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "dynamo_lite.recompiles"]
    assert said.endswith(f": options: the keys 'a', 'b', was the keys 'a'. Hint: {_EACH}")


def test_loop_with_a_break_is_named_by_its_line(caplog):
    said = changes(caplog, printing_loop, (IDS, [1, 2]))
    line = printing_loop.__code__.co_firstlineno + 2
    assert said == [f"the 1st item left to the loop around line {line}: nothing there, was there. Hint: {_EACH}"]


class Called(torch.nn.Module):
    def forward(self, x, *rest):
        return x + len(rest)


def test_arguments_of_a_module_have_no_names_of_torch(caplog):
    (said,) = changes(caplog, Called(), (IDS,), (IDS, 1))
    assert said == f"the positional arguments: length 2, was length 1. Hint: {_EACH}"


def test_a_variable_of_an_enclosing_function_is_named(caplog):
    mode = "add"

    def fn(x):
        return x + 1 if mode == "add" else x * 2

    compiled = dl.compile(fn, backend="eager")
    with caplog.at_level("INFO", "dynamo_lite.recompiles"):
        compiled(IDS)
        mode = "double"
        compiled(IDS)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "dynamo_lite.recompiles"]
    assert f": mode: 'double', was 'add'. Hint: {_EACH}" in said


def test_recompile_limit_text_has_the_changes_and_a_hint():
    compiled = dl.compile(length, backend="eager")
    with dl.config.patch(recompile_limit=2), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("a", "bc", "def"):
            compiled(IDS, name)
    (said,) = [str(each.message) for each in caught]
    assert said == (
        f"length ({__file__}:{length.__code__.co_firstlineno}) has 2 compiled versions, the limit "
        "(dl.config.recompile_limit for each module, total_recompile_limit in all); calls that none of them fits run "
        "in eager from now on. The guards that failed now:\n"
        "  1 of 2 entries: name == 'bc'\n"
        "  1 of 2 entries: name == 'a'\n"
        "What changed last: name: 'def', was 'bc'\n"
        "Hint: each value or object is compiled separately. "
        "Or allow more versions: dl.config.recompile_limit = 4 (it is 2)"
    )


def test_texts_of_all_kinds_have_known_fields():
    for kind, row in _C.CHECK_KINDS.items():
        for text in (row.change, row.remark, row.about):
            assert {name for _, name, _, _ in string.Formatter().parse(text)} - {None} <= set(changes_of._WORDS), kind
        fields = {name for _, name, _, _ in string.Formatter().parse(row.difference)}
        assert fields - {None} <= {"what", "now", "was"}, kind


def test_change_of_grad_mode_is_named(caplog):
    compiled = dl.compile(adding, backend="eager")
    compiled(IDS, 1)
    with caplog.at_level("INFO", "dynamo_lite.recompiles"), torch.no_grad():
        compiled(IDS, 1)
    assert " is compiled again: grad mode is off, was on. Hint: call it in the same modes of torch" in caplog.text


def with_options(x, color=None, scale=1, items=()):
    return x * scale + (1 if color is Color.RED else 2) + len(items)


def test_what_other_versions_fit_is_not_said_to_have_changed(caplog):
    x = torch.zeros(2, 8)
    calls = [(x,), (x, Color.RED), (x, Color.BLUE), (x, None, 3), (x, None, 1, [1]), (x, None, 1, [1, 2])]
    said = changes(caplog, with_options, *calls)
    assert said == [
        f"color: Color.RED, was None. Hint: {_EACH}",
        f"color: Color.BLUE, was Color.RED. Hint: {_EACH}",
        f"scale: 3, was 1. Hint: {_NUMBER}",
        f"items: a list, was a tuple. Hint: {_EACH}",
        f"items: length 2, was length 1. Hint: {_EACH}",
    ]
