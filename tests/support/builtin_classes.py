"""Classes that derive from one builtin class: base x overridden methods x operation x where the instance is created.

``python tests/support/builtin_classes.py 5000`` runs so many programs, drawn at random, those of `neighbouring_classes`
too; ``--all`` runs each.
"""

from __future__ import annotations

import argparse
import random
import sys

import dynamo_lite as dl
from class_programs import Family, difference, listed, programs_of
from neighbouring_classes import NEIGHBOURS

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


def _over(base: str, arguments: str, overridden: tuple[str, ...], operations: tuple[str, ...]) -> Family:
    return Family(base, f"class X({base}):", f"X{arguments}", overridden, operations, takes_pairs=True)


FAMILIES = (
    _over("tuple", "((1, 2))", (*_SEQUENCE, *_ORDER), (*_SEQUENCES, *_TUPLES)),
    _over("Point", "(1, 2)", (*_SEQUENCE, *_ORDER), (*_SEQUENCES, *_TUPLES, "x.x", "x._replace(x=5)", "x._asdict()")),
    _over(
        "list", "([1, 2])", (*_SEQUENCE, "append", "extend", "__iadd__", "copy", "__setitem__"), (*_SEQUENCES, *_LISTS)
    ),
    _over(
        "deque", "([1, 2])", (*_SEQUENCE, "append", "extend"), (*_ITERATED, "x + y", "x[0]", "x.append(3)", "x.copy()")
    ),
    _over("dict", "(a=1, b=2)", _MAPPING, _MAPPINGS),
    _over("OrderedDict", "(a=1, b=2)", _MAPPING, (*_MAPPINGS, "x.move_to_end('a')", "x.popitem(last=False)")),
    _over(
        "defaultdict",
        "(int, a=1, b=2)",
        _MAPPING,
        (*_MAPPINGS, "x.default_factory", "x['n'] + 1", "type(x)(list)['k']", "type(x)(3)", "type(x)(None, x)['q']"),
    ),
    _over(
        "Counter", "('aab')", ("__len__", "__iter__", "__getitem__", "__setitem__", "__missing__", "update"), _MAPPINGS
    ),
    _over("set", "([1, 2])", _SET, (*_SETS, *_MUTABLE_SETS)),
    _over("frozenset", "([1, 2])", (*_SET[:8], "__hash__"), _SETS),
    _over("int", "(3)", _NUMBER, (*_NUMBERS, "t[x % 2]", "torch.zeros(x).shape", "range(x)", "x & 1", "x << 1")),
    _over("float", "(3.0)", _NUMBER[:-2], tuple(each for each in _NUMBERS if "[x % 3]" not in each)),
    _over(
        "str",
        "('abc')",
        ("__len__", "__iter__", "__getitem__", "__eq__", "__add__", "__hash__", "__str__", "__format__"),
        _STRINGS,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--family", help="only families whose title has this in it", default="")
    arguments = parser.parse_args()
    families = [each for each in (*FAMILIES, *NEIGHBOURS) if arguments.family in each.title]
    chosen = [program for family in families for program in programs_of(family)]
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
