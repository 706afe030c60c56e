"""New constructs of CPython 3.15: unpacking in comprehensions, ``frozendict`` and ``sentinel``."""

from __future__ import annotations

import sys

import pytest
import torch

import dynamo_lite as dl
from programs import check

pytestmark = pytest.mark.skipif(sys.version_info < (3, 15), reason="programs of CPython 3.15")

X = torch.arange(3.0)


def program(source):
    """Returns the function ``fn`` of a program that older interpreters can't compile."""
    namespace = {"torch": torch}
    exec(source, namespace)
    return namespace["fn"]


@pytest.mark.parametrize(
    "comprehension",
    [
        "[*each for each in rows]",
        "{*each for each in rows}",
        "list((*each for each in rows))",
        "[*each for each in rows if each]",
        "[*(y * 2 for y in each) for each in rows]",
        "dict({**each for each in maps})",
        "sorted({**each for each in maps})",
    ],
)
def test_unpacking_in_comprehension(comprehension):
    source = f"def fn(x, rows, maps):\n    y = x + 1\n    found = {comprehension}\n    return y * len(found), found\n"
    check(program(source), X, [[1, 2], [], (3, 1)], [{"a": 1, "b": 2}, {"a": 3}])


@pytest.mark.parametrize(
    "comprehension",
    ["[*show(each) for each in rows]", "list((*show(each) for each in rows))", "{*show(i) for i in rows}"],
)
def test_break_in_unpacking_comprehension(comprehension, capsys):
    source = (
        "def show(row):\n    print(row)\n    return row\n"
        f"def fn(x, rows):\n    y = x + 1\n    found = {comprehension}\n    return y * len(found), found\n"
    )
    check(program(source), X, [[1, 2], [], (3, 1)], graphs=None)


def test_unpacking_what_is_no_iterable_in_comprehension():
    source = "def fn(x, rows):\n    y = x + 1\n    return y, [*each for each in rows]\n"
    fn = program(source)
    with pytest.raises(TypeError) as expected:
        fn(X, [[1], 2])
    with pytest.raises(TypeError) as found:
        dl.compile(fn, backend="eager")(X, [[1], 2])
    assert str(found.value) == str(expected.value)


def test_sentinel_is_compared_by_identity():
    source = (
        "MISSING = sentinel('MISSING')\n"
        "def pick(x, scale=MISSING):\n    return x if scale is MISSING else x * scale\n"
        "def fn(x):\n    return pick(x) + pick(x, 3.0)\n"
    )
    check(program(source), X)


def test_sentinel_survives_a_break(capsys):
    source = (
        "MISSING = sentinel('MISSING')\n"
        "def fn(x, given=MISSING):\n    y = x + 1\n    print(given)\n"
        "    return y * 2 if given is MISSING else y, given\n"
    )
    check(program(source), X, graphs=2)


@pytest.mark.parametrize(
    "body",
    [
        "return x * table['a']",
        "return x * sum(table.values())",
        "return {name: x * value for name, value in table.items()}",
        "return x * len(table), 'b' in table, table.get('c', 7)",
        "return x * 2, table | {'c': 3}",
        "return x * 2, frozendict(a=1, b=x)",
        "return x * 2, hash(table) == hash(frozendict(table)), table == {'a': 1, 'b': 2}",
    ],
)
def test_frozendict(body):
    check(program(f"def fn(x, table):\n    x = x + 1\n    {body}\n"), X, frozendict(a=1, b=2), graphs=None)  # noqa: F821
