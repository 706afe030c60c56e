"""Programs over classes that derive from builtin ones: base x overridden methods x operation x where it is created.

Each overridden method logs its call, so the comparison with eager sees which methods CPython calls and in which order.
``python tests/support/builtin_classes.py 5000`` runs so many, drawn at random; ``--all`` runs each.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import operator
import random
import re
import sys
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import dynamo_lite as dl

IN_PLACE = r"x (\+|\*|\||&|-|\^|%)= "
"""An operation that is a statement: it assigns to ``x``."""
LOG: list[str] = []
"""The overridden methods that were called, in order."""


class Point(typing.NamedTuple):
    x: int
    y: int


class Reflecting:
    """An operand of another type that takes part in operators."""

    def __radd__(self, other):
        LOG.append("radd of the other")
        return "added"

    def __rmul__(self, other):
        LOG.append("rmul of the other")
        return "multiplied"

    def __eq__(self, other):
        LOG.append("eq of the other")
        return True

    __hash__ = None


def listed(text: str) -> tuple[str, ...]:
    """The entries of a table; two blanks or a line end separate them."""
    return tuple(re.split(r"\s{2,}|\n\s*", text.strip()))


_SEQUENCE = listed("""
    __len__   __iter__   __getitem__   __contains__   __eq__   __add__   __mul__   __rmul__   __repr__
""")
_ORDER = listed("""
    __lt__   __hash__   __bool__
""")
_MAPPING = listed("""
    __len__   __iter__   __getitem__   __setitem__   __delitem__   __contains__   __eq__   __or__   __ior__   keys
    values   items   get   update   pop   setdefault   copy   __repr__   __missing__   __bool__   __init__
""")
_SET = listed("""
    __len__   __iter__   __contains__   __eq__   __or__   __and__   __ior__   __rsub__   add   update   copy
    __repr__   __bool__
""")
_NUMBER = listed("""
    __add__   __radd__   __mul__   __eq__   __lt__   __hash__   __bool__   __int__   __index__   __repr__
""")


@dataclass(frozen=True)
class Family:
    """A builtin class: how an instance is made, what classes override, and the operations on ``x`` and ``y``."""

    base: type
    make: str
    """Arguments of the class."""
    overridden: tuple[str, ...]
    operations: tuple[str, ...]


_ITERATED = listed("""
    list(x)   tuple(x)   [*x]   [e for e in x]   sorted(x)   sum(x)   max(x)   any(x)   set(x)   list(enumerate(x))
    list(zip(x, x))   list(map(str, x))   list(reversed(list(x)))   (lambda *a: a)(*x)   dict.fromkeys(x)
    x.__iter__().__next__()   next(iter(x))   deque(x)   frozenset(x)   [].extend(x)   len(x)   bool(x)   not x
    1 in x   9 in x   x == y   x != y   x is y   x == x   type(x).__name__   repr(x)   str(x)   f'{x}'
    '%s' % (x,)   isinstance(x, (list, tuple, dict, set))   hash(x) == hash(x)   copy.copy(x)   copy.deepcopy(x)
    x if x else 0   {**{'k': x}}['k']   x.__class__ is type(x)
""")
_INDEXED = listed("""
    x[0]   x[-1]   x[0:2]   x + y   x * 2   2 * x   x.index(2)   x.count(1)   [e for e in reversed(x)]   x < y
    x <= y   x.__len__()   x.__getitem__(0)   x.__add__(y)   x.__contains__(1)   x.__eq__(y)   x[9]
    x += y   x *= 2   x + Reflecting()   x * Reflecting()   x + None   x < 3   x[{}]   x['a']   x.index(7)   -x
    torch.zeros(x).shape   t.expand(2, *x).shape   t.sum().expand(x).shape   '%s %s' % x   '%s' % x
""")
_SEQUENCES = (*_ITERATED, *_INDEXED)
_TUPLES = listed("""
    x + (3,)   (3,) + x   tuple.__len__(x)   tuple.__eq__(x, y)   tuple.__getitem__(x, 0)   tuple.__add__(x, y)
""")
_LISTS = listed("""
    x + [3]   [3] + x   x.append(3)   x.extend([3])   x.insert(0, 3)   x.pop()   x.remove(1)   x.sort()
    x.reverse()   x.copy()   x.clear()   x.__setitem__(0, 5)   x.__iadd__([4])   list.append(x, 4)
    [3].__iadd__(x)   x.extend(x)   list.__eq__(x, y)   [1].__add__(x)   x.extend(e + 1 for e in x[:2])
""")
_MAPPINGS = listed("""
    x['a']   x['z']   x.get('a')   x.get('z', 5)   'a' in x   len(x)   bool(x)   list(x)   dict(x)   {**x}
    list(x.keys())   list(x.values())   list(x.items())   x | y   x | {'q': 1}   {'q': 1} | x   x == y
    x == dict(y)   x != y   x.update(y)   x.update(q=1)   x.update([('q', 2)])   x.setdefault('q', 3)   x.pop('a')
    x.pop('z', 4)   x.popitem()   x.copy()   copy.copy(x)   copy.deepcopy(x)   x.__setitem__('q', 7)   repr(x)
    str(x)   f'{x}'   x.clear()   x.__ior__({'q': 8})   (lambda **k: k)(**x)   OrderedDict(x)   sorted(x)
    [k for k in x]   {}.update(x)   dict.update({}, x)   dict.__getitem__(x, 'a')   dict.__setitem__(x, 'q', 9)
    dict.__eq__(x, y)   dict.keys(x)   x.__delitem__('a')   [e for e in reversed(x)]   x.fromkeys(['a'])   set(x)
    '%(a)s' % x   type(x)(x)   type(x)(a=1)   x.keys() & y.keys()   x.items() <= y.items()   max(x)   dict.copy(x)
    list(map(str, x))   x.keys() | {'q'}   list(zip(x, x.values()))   tuple(x)   [*x]   dict.get(x, 'a')
    x |= {'q': 8}   x |= y   x | None   x + x   x[[]]   x.pop('z')   x.update(3)   x.update([(1,)])
    x < y   x.__or__(3)   dict(x, q=1)   x == Reflecting()   vars(x)
""")
_SETS = (
    *_ITERATED,
    *listed("""
    x | y   x & y   x - y   x ^ y   x | {9}   {9} | x   {9, 1} - x   {1} & x   x <= y   x < y   x.union(y)
    x.intersection(y)   x.difference([1])   x.issubset(y)   x.isdisjoint(y)   x.issuperset([1])   x.copy()
    x | [1]   x |= {5}   x &= y   x -= {1}   x ^= y   x.union(3)   type(x)(1)   type(x)(1, 2, 3, 4)   x < [1]   x[0]
    {1}.union(x)   {1}.issubset(x)   {1} == x   set.__eq__(x, y)   {1}.update(x)
"""),
)
_MUTABLE_SETS = listed("""
    x.add(7)   x.discard(1)   x.remove(1)   x.update(y)   x.update([7])   x.clear()   x.__ior__({7})
    x.__isub__({1})   x.difference_update(e for e in (1, 2) if len(x) > 1)   x.intersection_update([1])
""")
_NUMBERS = listed("""
    x + 1   1 + x   x * 2   2 * x   x - y   x == y   x < y   x == 3   -x   abs(x)   bool(x)   hash(x) == hash(x)
    int(x)   float(x)   str(x)   repr(x)   f'{x}'   f'{x:>5}'   '%d' % x   '%s' % x   round(x)   max(x, y)   t * x
    x * t   t + x   [1, 2, 3][x % 3]   {x: 1}[x]   x in [3]   sum([x, x])   copy.copy(x)   divmod(x, 2)
    x += 1   x *= y   x + 'a'   x < 'a'   x + Reflecting()   x == Reflecting()   x[0]   len(x)   x / 0   x.nothing
    complex(x)   x + 1.5   1.5 * x   x == 3.0   math.floor(x)   math.sqrt(x)   operator.index(x)   range(5)[x]
    isinstance(x, int)   type(x + 1).__name__   x.__add__(1)   int.__add__(x, 1)   x ** 2   x // 2   pow(x, 2)
""")
_STRINGS = listed("""
    x + 'q'   'q' + x   x * 2   x == y   x == 'abc'   x < y   len(x)   x[0]   x[1:]   'a' in x   list(x)   str(x)
    repr(x)   f'{x}'   f'{x:>5}'   '%s' % x   x % ()   x.upper()   x.join(['1', '2'])   ','.join([x, x])
    {x: 1}['abc']   {'abc': 1}[x]   hash(x) == hash('abc')   x.format(1)   bool(x)   sorted(x)   x.replace('a', x)
    x.startswith('a')   x.split('b')   copy.copy(x)   str.__eq__(x, y)   str.__len__(x)   type(x.upper()).__name__
    x += 'q'   x + 1   x + Reflecting()   x['a']   x % 3   '%d' % x   x.join(3)   x < 1   x.nothing   int(x)
    float(x)   '{:>5}|{!r}'.format(x, x)   x.format_map({})   x.title().swapcase()   x % {'a': 1}   '%-5s|' % x
    '{}'.format(x)   x in {'abc'}   getattr(Point(1, 2), x, 4)   x.encode()
""")
FAMILIES = (
    Family(tuple, "((1, 2))", (*_SEQUENCE, *_ORDER), (*_SEQUENCES, *_TUPLES)),
    Family(Point, "(1, 2)", (*_SEQUENCE, *_ORDER), (*_SEQUENCES, *_TUPLES, "x.x", "x._replace(x=5)", "x._asdict()")),
    Family(
        list, "([1, 2])", (*_SEQUENCE, "append", "extend", "__iadd__", "copy", "__setitem__"), (*_SEQUENCES, *_LISTS)
    ),
    Family(
        deque, "([1, 2])", (*_SEQUENCE, "append", "extend"), (*_ITERATED, "x + y", "x[0]", "x.append(3)", "x.copy()")
    ),
    Family(dict, "(a=1, b=2)", _MAPPING, _MAPPINGS),
    Family(OrderedDict, "(a=1, b=2)", _MAPPING, (*_MAPPINGS, "x.move_to_end('a')", "x.popitem(last=False)")),
    Family(
        defaultdict,
        "(int, a=1, b=2)",
        _MAPPING,
        (*_MAPPINGS, "x.default_factory", "x['n'] + 1", "type(x)(list)['k']", "type(x)(3)", "type(x)(None, x)['q']"),
    ),
    Family(
        Counter, "('aab')", ("__len__", "__iter__", "__getitem__", "__setitem__", "__missing__", "update"), _MAPPINGS
    ),
    Family(set, "([1, 2])", _SET, (*_SETS, *_MUTABLE_SETS)),
    Family(frozenset, "([1, 2])", (*_SET[:8], "__hash__"), _SETS),
    Family(int, "(3)", _NUMBER, (*_NUMBERS, "t[x % 2]", "torch.zeros(x).shape", "range(x)", "x & 1", "x << 1")),
    Family(float, "(3.0)", _NUMBER[:-2], tuple(each for each in _NUMBERS if "[x % 3]" not in each)),
    Family(
        str,
        "('abc')",
        ("__len__", "__iter__", "__getitem__", "__eq__", "__add__", "__hash__", "__str__", "__format__"),
        _STRINGS,
    ),
)


@dataclass(frozen=True)
class Program:
    """One program: a class over ``family.base`` that overrides ``overridden``, and one operation."""

    family: Family
    overridden: tuple[str, ...]
    operation: str
    inside: bool
    slots: bool = False

    def __str__(self) -> str:
        where = "inside" if self.inside else "outside"
        names = ", ".join(self.overridden) or "nothing"
        return f"{self.family.base.__name__}{self.family.make} overriding {names}, {where}: {self.operation}"

    def source(self) -> str:
        lines = [f"class X({self.family.base.__name__}):"]
        lines += ["    __slots__ = ()"] * self.slots + ["    pass"] * (not self.overridden)
        for name in self.overridden:
            lines += [f"    def {name}(self, *args, **kwargs):", f"        LOG.append({name!r})"]
            lines += (
                ["        return 'missing'"]
                if name == "__missing__"
                else [f"        return super().{name}(*args, **kwargs)"]
            )
        make = f"X{self.family.make}"
        lines += ["def run(t, x, y):"]
        lines += [f"    x = {make}", f"    y = {make}"] * self.inside
        found = self.operation if re.match(IN_PLACE, self.operation) else f"found = {self.operation}"
        lines += ["    z = t + 1", "    found = None", f"    {found}", "    return z * 2, found, x"]
        return "\n".join(lines)


def programs() -> Iterator[Program]:
    """All programs: classes that override nothing, each method, and neighbouring pairs."""
    for family in FAMILIES:
        pairs = itertools.pairwise((*family.overridden, family.overridden[0]))
        choices = [(), *((each,) for each in family.overridden), *pairs]
        for overridden, operation, inside in itertools.product(choices, family.operations, (False, True)):
            yield Program(family, overridden, operation, inside)


def described(value: Any, depth: int = 0) -> Any:
    """A value by its types and items, read without calling methods of its class."""
    if depth > 6:
        return "..."
    cls = type(value)
    if isinstance(value, torch.Tensor):
        return cls.__name__, value.dtype, tuple(torch.Tensor.size(value)), value.tolist()
    for base in (tuple, list, deque, set, frozenset):
        if isinstance(value, base):
            return cls.__name__, [described(each, depth + 1) for each in base.__iter__(value)]
    if isinstance(value, dict):
        pairs = OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value)
        return cls.__name__, [(described(k, depth + 1), described(v, depth + 1)) for k, v in pairs]
    for scalar in (bool, int, float, str, bytes):
        if isinstance(value, scalar):
            return cls.__name__, scalar.__repr__(value)
    if isinstance(value, range | type(None) | type(NotImplemented) | type):
        return repr(value)
    return cls.__name__


def outcome(fn: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """What one call returns or raises, what its arguments are then, and the methods that were called."""
    LOG.clear()
    result: Any = None
    error: tuple[str, str] | None = None
    try:
        result = fn(*args)
    except Exception as raised:
        if isinstance(raised, dl.exc.InternalError):
            raise
        error = type(raised).__name__, str(raised)
    return described(result), error, described(args), [*LOG]


def difference(program: Program) -> tuple[str, int]:
    """How the compiled program differs from eager in three calls, "" if it doesn't, and its number of graphs."""
    names = {"LOG": LOG, "torch": torch, "copy": copy, "deque": deque, "OrderedDict": OrderedDict, "Counter": Counter}
    modules = {"math": math, "operator": operator, "Reflecting": Reflecting, "__name__": "made_classes"}
    namespace: dict[str, Any] = {**names, **modules, "Point": Point, "defaultdict": defaultdict}
    exec(program.source(), namespace)
    make = eval(f"lambda: X{program.family.make}", namespace)
    graphs = 0

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return gm.forward

    compiled = dl.compile(namespace["run"], backend=backend)
    for call in range(3):
        wanted = outcome(namespace["run"], torch.ones(2), make(), make())
        try:
            found = outcome(compiled, torch.ones(2), make(), make())
        except dl.exc.InternalError as error:
            return f"InternalError: {str(error).splitlines()[0]}", graphs
        if wanted != found:
            return f"call {call}: {found} instead of {wanted}", graphs
    return "", graphs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--base", help="only classes over this builtin one")
    arguments = parser.parse_args()
    chosen = [each for each in programs() if arguments.base in (None, each.family.base.__name__)]
    if not arguments.all:
        chosen = random.Random(arguments.seed).sample(chosen, min(arguments.count, len(chosen)))
    wrong = whole = 0
    for program in chosen:
        found, graphs = difference(program)
        whole += graphs == 1
        wrong += bool(found)
        if found:
            print(f"{program}\n    {found}", flush=True)
        dl.reset()
    print(f"{len(chosen)} programs, {wrong} differ from eager, {whole} are one graph")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
