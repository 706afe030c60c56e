"""Families of classes beside those that just derive from one builtin class: enums, mixins, generics and protocols,
metaclasses, the user classes of ``collections``, dataclasses, descriptors, configurations.

Each is a class statement over a class of `class_bases`, and the operations on its instances.
"""

from __future__ import annotations

import dataclasses
import itertools

from class_programs import Family, listed

_COMMON = listed("""
    repr(x)   str(x)   f'{x}'   '%s' % (x,)   x == y   x != y   x == x   bool(x)   not x   x is y   type(x).__name__
    isinstance(x, X)   hash(x) == hash(x)   copy.copy(x)   copy.deepcopy(x)   copy.copy(x) == x   x.__class__ is X
    {'k': x}['k']   [x, y].index(x)   x in [y, x]   getattr(x, 'nothing', 4)   hasattr(x, 'keys')   x.nothing
    pickle.loads(pickle.dumps(x)) == x   isinstance(x, (tuple, list, dict, set))   x if x else 0   x and y
""")
_SEQUENCE = listed("""
    len(x)   list(x)   tuple(x)   [*x]   x[0]   x[-1]   x[0:2]   x[9]   x['a']   1 in x   9 in x   sorted(x)   sum(x)
    max(x)   x + y   x * 2   2 * x   x < y   x.index(2)   x.count(1)   list(reversed(x))   list(zip(x, x))   set(x)
    [e for e in x]   (lambda *a: a)(*x)   x += y   x *= 2   torch.stack([t + e for e in x])   t.new_zeros(x[0]).shape
""")
_MAPPING = listed("""
    len(x)   list(x)   x['a']   x['z']   x.get('a')   x.get('z', 5)   'a' in x   'z' in x   dict(x)   {**x}
    list(x.keys())   list(x.values())   list(x.items())   x | y   x | {'q': 1}   {'q': 1} | x   x == dict(x)
    x.update(y)   x.update(q=1)   x.update([('q', 2)])   x.setdefault('q', 3)   x.pop('a')   x.pop('z', 4)   x.pop('z')
    x.popitem()   x.copy()   x.__setitem__('q', 7)   x.clear()   x |= {'q': 8}   (lambda **k: k)(**x)   sorted(x)
    x.__delitem__('a')   x.__contains__('a')   list(reversed(x))   OrderedDict(x)   x.keys() & y.keys()   type(x)(x)
    [(k, v) for k, v in x.items()]   sum(x.values())   t * x['a']   '%(a)s' % x   '{a}'.format(**x)   set(x)
""")
_ATTRIBUTES = listed("""
    x.a   x.q   setattr(x, 'q', 5)   setattr(x, 'a', 9)   delattr(x, 'a')   hasattr(x, 'a')   vars(x)   x.__dict__
    (setattr(x, 'a', 6), x.a)   (setattr(x, 'q', 5), x.q)   getattr(x, 'q', 3)
""")
_ITEMS_AND_ATTRIBUTES = listed("""
    (setattr(x, 'q', 5), dict(x))   (x.__setitem__('q', 4), x.q)   (x.pop('a'), hasattr(x, 'a'))   x.b
    (x.update(q=t), x.q + 1)   (delattr(x, 'a'), 'a' in x)   (setattr(x, 'c', {'d': 1}), x['c'])
""")
_SET = listed("""
    len(x)   sorted(x)   1 in x   9 in x   x | y   x & y   x - {1}   x ^ {9}   {9} | x   x <= y   x < y   x == {1, 2}
    x.union([3])   x.issubset(y)   x.isdisjoint({9})   x |= {5}   x -= {1}   sum(x)   x.copy()
""")
_NUMBER = listed("""
    x + 1   1 + x   x * 2   x - y   x == 1   x < y   x >= 1   -x   abs(x)   int(x)   float(x)   f'{x:>5}'   '%d' % x
    round(x)   max(x, y)   t * x   x * t   [1, 2, 3][x % 3]   {x: 1}[x]   x in [1]   sum([x, x])   divmod(x, 2)
    x += 1   x + 'a'   x + 1.5   type(x + 1).__name__   x ** 2   x // 2   x / 0   sorted([y, x])   min(x, y)
    f'{x:d}'   f'{x:.2f}'   '{:05}'.format(x)   '%5.1f' % x   f'{x!r:>9}'   format(x, '')   format(x, 'x')   str(-x)
""")
_TEXT = listed("""
    x + 'q'   'q' + x   x * 2   x == 'abc'   x < y   len(x)   x[0]   x[1:]   'a' in x   list(x)   f'{x:>5}'   x.upper()
    ','.join([x, x])   {x: 1}['abc']   {'abc': 1}[x]   hash(x) == hash('abc')   x.replace('a', 'z')   x.split('b')
    x.startswith('a')   x += 'q'   x % ()   x.format(1)   sorted([y, x])   x.join('12')   '%5s' % x   f'{x!r:>9}'
    '{:>5}|{!r}'.format(x, x)   x in {'abc'}   x.encode()   x.title()   x.center(9, '*')   type(x.lower()).__name__
""")
_MEMBER = listed("""
    x.value   x.name   x is X.A   X(x.value) is x   X['A'] is x   X['Q']   X('nothing')   list(X)   len(X)   x in X
    [e.name for e in X]   X.__members__['A']   list(X.__members__)   x._value_   x._name_   {x: 1}[x]   {X.A: t}[x] + 1
    copy.deepcopy(x) is x   copy.copy({'k': x})   x.value == y.value   x == x.value   [e for e in reversed(X)]
    isinstance(x, enum.Enum)   setattr(x, 'name', 'q')   x.B   X.A.value   getattr(X, 'A') is x   x in (X.B, X.A)
    {e.name: e.value for e in X}   sorted(X, key=lambda e: e.name)   x.__class__.__name__   x.__objclass__ is X
    X.__name__   hasattr(X, 'A')   x not in [X.B]   X.__contains__(x)   issubclass(X, enum.Enum)   type(x.value)
""")
_FLAG = listed("""
    x | y   x & y   x ^ y   ~x   x in (x | y)   list(x | y)   (x | y).value   (x | y).name   X(0)   X(3)   X(3).name
    bool(x & y)   len(x | y)   x |= y   x &= y   (x | y) & ~x   repr(x | y)   str(x | y)   X(64)   x | 1
    (x | y) == X(3)
    [e.name for e in (x | y)]   (x | y) is X(3)   x & X.B   f'{x | y}'   not (x & y)
""")
_OF_MIXIN = listed("""
    x.scaled()   x.total   x.of(x)   X.of(x)   x.named()   X.named()   x(5)   x.factor   callable(x)   x + [1]
    Mixin.scaled(x)   Mixin.__add__(x, y)   super(X, x).scaled()   isinstance(x, Mixin)   x.__add__(y)
    setattr(x, 'factor', 5)   (setattr(x, 'factor', 5), x.scaled())   X.mro()[1].__name__   vars(x)   t * x.factor
    [m.__name__ for m in X.__mro__]   x.__call__(2)   X.factor
""")
_OF_TAGGED = listed("""
    x.tag   setattr(x, 'tag', 'other')   vars(x)   copy.copy(x).tag   copy.deepcopy(x).tag   x.copy()
    isinstance(x, Tagged)
""")
_OF_GENERIC = listed("""
    isinstance(x, HasLength)   isinstance(x, Named)   X[int]   X[int] == X[int]   X.__parameters__   X.__orig_bases__
    type(X[int](x)).__name__   getattr(x, '__orig_class__', None) is None   X[int].__origin__ is X
    typing.get_origin(X[int]) is X   isinstance(x, typing.Sequence)   isinstance(x, typing.Mapping)
    issubclass(X, HasLength)
""")
_OF_META = listed("""
    x.made_by   isinstance(5, X)   isinstance(6, X)   isinstance(5, (str, X))   issubclass(X, X)   issubclass(int, X)
    X['k']   list(X)   len(X)   'i' in X   X.kind   X.missing   X | int   repr(X)   str(X)   f'{X}'   x.kind   X._q
    hasattr(X, 'other')   X()   bool(X)   type(X).__name__   type.__call__(X)   [e for e in X]   callable(X)   X == X
    {X: 1}[X]   X.__name__   type(x) is X   t + len(X)   isinstance(X, Meta)   Meta.kind.fget(X)
""")
_OF_REGISTERED = listed("""
    X.tag   x.tag   X[3]   X['a', 'b']   Registered.known[:1]   x['zz']   (x['n'], x['n'])   x['n'] + 1
    x.known is X.known
    x.get('n')   'n' in x   x.b   X.a.name   type(X.a).__name__   (setattr(x, 'a', t), x['a'] + 1)
""")
_NAMED = listed("""
    x._replace(x=5)   x._replace(z=5)   x._asdict()   X._make([7, 8])   X._make([7])   X._fields   x._fields   x.x   x.y
    X._field_defaults   x.__getnewargs__()   X(1)   X(1, 2, 3)   X(y=1, x=2)   X(**x._asdict())   x.x + t   x == (1, 2)
    (lambda x, y: (y, x))(*x)   x._replace(x=t).x + 1   X._make(e + 1 for e in x)   {x: 1}[(1, 2)]   x < (1, 3)
    getattr(x, 'x')   X.x.__doc__   sorted([X(2, 1), x])   x[1:]   setattr(x, 'x', 4)   type(x._replace(y=1)).__name__
    x._asdict().items()   dict(zip(x._fields, x))   max(x, y)   x + (3,)   X._make(x) == x   X.__match_args__
""")
_USER_LIST = listed("""
    x.append(3)   x.extend([3])   x.insert(0, 3)   x.pop()   x.remove(1)   x.sort()   x.reverse()   x.copy()   x.clear()
    x.data   x.data is x.data   x + [3]   [3] + x   x == [1, 2]   x[0:1]   type(x + x).__name__   x.extend(x)
""")
_RANKED = listed("""
    x < y   x <= y   x > y   x >= y   x > 3   x <= 'a'   sorted([X(3), x, X(2)])[0].rank   max(X(3), x).rank
    min([X(3), x]).rank   [e.rank for e in sorted([X(3), x, X(2)], reverse=True)]   x in [X(2), y]   [X(2), y].index(x)
    [X(3), x].sort()   {x: 1}[y]   {x, y, X(2)} == {X(1), X(2)}   (x, 1) < (y, 2)   [x] == [y]   (X(2), 0) > (x, 0)
    heapq.nsmallest(1, [X(3), x])[0].rank   bisect.bisect([X(0), X(2)], x)   x.__ge__(y)   X.__le__(x, y)   x.__gt__(3)
""")
_NAMESPACE = listed("""
    x.a   x.q   vars(x)   setattr(x, 'q', 5)   delattr(x, 'a')   x.__dict__['a']   x == types.SimpleNamespace(a=1, b=2)
    (setattr(x, 'a', 6), x.a)   vars(x).update(q=1)   x.__dict__.items()   X(**vars(x)) == x   t * x.a   hasattr(x, 'q')
""")
_DATACLASS = listed("""
    x.n   dataclasses.asdict(x)   dataclasses.astuple(x)   dataclasses.replace(x, n=4)   dataclasses.fields(x)[0].name
    setattr(x, 'n', 7)   x.n + t   [f.name for f in dataclasses.fields(X)]   dataclasses.is_dataclass(x)   X(n=4) == x
    vars(x)   X.__match_args__   (setattr(x, 'n', 7), x.n)   X.n   x < y   X(n=4).n
""")
_SLOTS = listed("""
    x.note   setattr(x, 'note', 3)   (setattr(x, 'note', t), x.note + 1)   setattr(x, 'other', 1)   x.__dict__
    hasattr(x, 'note')   delattr(x, 'note')   (setattr(x, 'note', 1), copy.copy(x).note)   X.__slots__   vars(x)
    (setattr(x, 'note', 1), copy.deepcopy(x).note)   (setattr(x, 'note', 1), x.__reduce_ex__(2)[2])
""")
_CHAIN = listed("""
    x.maps   x.new_child()   x.new_child({'q': 1})['q']   x.parents   x.maps[0]['a']   x.maps[0] is x.maps[0]
""")
_BYTES = listed("""
    x + b'q'   len(x)   x[0]   x[1:]   97 in x   x == b'abc'   x.decode()   x.hex()   list(x)   {b'abc': 1}[x]
    b'%s' % x   x * 2   sorted([y, x])   x.upper()   b','.join([x, x])   bytes(x)   str(x)
""")
_COMPLEX = listed("""
    x + 1   1 + x   x * 2   x.real   x.imag   abs(x)   x == 1+2j   x.conjugate()   complex(x)   f'{x}'   -x   x + y
    t * x.real   x < y
""")
_CODED = listed("""
    x.code   x.label   X((1, 'one'))   x.shout()   X.first()   x(3)   X.of('two')   X(7)   x < y   x.upper   X.A.A
""")
_BY_SECOND = listed("""
    sorted([X((3, 1)), x])   max([x, X((0, 9))])   x < (9, 1)   (9, 1) < x   x > y   [x, X((0, 1))].sort()   [x] < [y]
    sorted([x, (0, 1)])   min(x, (9, 9))
""")
_OF_ITEMS = listed("__len__   __iter__   __getitem__   __contains__   __eq__   __repr__   __bool__")
_OF_PAIRS = (*_OF_ITEMS, *listed("__setitem__   keys   items   get   update   copy   __init__"))
_OF_NUMBER = listed("__add__   __radd__   __eq__   __lt__   __hash__   __bool__   __repr__   __format__")
_OF_TEXT = listed("__eq__   __hash__   __str__   __format__   __len__   __getitem__   __add__")
_OF_MEMBER = listed("__repr__   __str__   __eq__   __hash__   __bool__   __format__")

_MAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("list", "deque"), ("X([1, 2])", _SEQUENCE)),
    **dict.fromkeys(("dict", "OrderedDict"), ("X(a=1, b=2)", _MAPPING)),
    "set": ("X([1, 2])", _SET),
    "tuple": ("X((1, 2))", _SEQUENCE),
    "defaultdict": ("X(int, a=1, b=2)", _MAPPING),
    "object": ("X()", ()),
}
"""A base -> how an instance of a class derived from it is made, and the operations on it."""


def _family(title: str, head: str, make: str, overridden: tuple[str, ...], *operations: tuple[str, ...]) -> Family:
    return Family(title, head, make, overridden, (*_COMMON, *itertools.chain(*operations)))


def _over(title: str, head: str, base: str, overridden: tuple[str, ...], *operations: tuple[str, ...]) -> Family:
    """A family over a builtin base, which stands for ``{}`` in the head of its class statement."""
    make, of_base = _MAKES[base]
    return _family(f"{title} over {base}", head.format(base), make, overridden, of_base, *operations)


def _members(bases: str, a: str, b: str, *operations: tuple[str, ...]) -> Family:
    """Returns the members ``A`` and ``B`` of an enum."""
    head = f"class X({bases}):\n    A = {a}\n    B = {b}"
    return Family(
        f"members, {bases}", head, "X.A", _OF_MEMBER, (*_COMMON, *_MEMBER, *itertools.chain(*operations)), "X.B"
    )


_ENUMS = (
    _members("enum.IntEnum", "1", "2", _NUMBER),
    _members("enum.StrEnum", "'abc'", "'abd'", _TEXT),
    _members("enum.Flag", "1", "2", _FLAG),
    _members("enum.IntFlag", "1", "2", _FLAG, _NUMBER),
    _members("enum.Enum", "1", "'b'", ("x < y", "x + 1", "x.value + t", "torch.ones(x.value).shape")),
    _members("tuple, enum.Enum", "(1, 2)", "(1, 3)", _SEQUENCE),
    _members("list, enum.Enum", "[1, 2]", "[1, 3]", _SEQUENCE, ("x.append(3)", "x.value.append(3)")),
    _members("dict, enum.Enum", "{'a': 1}", "{'b': 2}", _MAPPING),
    _members("frozenset, enum.Enum", "{1, 2}", "{1}", _SET),
    _members("float, enum.Enum", "1.0", "2.5", _NUMBER),
    _members("str, enum.Enum", "'abc'", "'abd'", _TEXT),
    _members("bytes, enum.Enum", "b'abc'", "b'abd'", _BYTES),
    _members("Coded", "1, 'one'", "2, 'two'", _CODED),
    _members("SizedText", "'abc', 3", "'abd', 4", _TEXT, ("x.size", "x.size + t")),
)
_MIXINS = (
    *(
        _over(title, head, base, _OF_ITEMS, _OF_MIXIN)
        for title, head in (("Mixin", "class X(Mixin, {}):"), ("Mixin last", "class X({}, Mixin):"))
        for base in ("tuple", "list", "set", "dict", "OrderedDict", "deque")
    ),
    *(
        _over("Tagged", "class X(Tagged, {}):", base, ("__init__", *_OF_ITEMS), _OF_TAGGED)
        for base in ("list", "dict", "set", "deque", "defaultdict")
    ),
)
_NAMED_TUPLE = """\
class X(typing.NamedTuple):
    x: int
    y: int = 4
    def norm(self):
        return self.x + self.y
    @property
    def first(self):
        return self[0]
    @classmethod
    def zero(cls):
        return cls(0)"""
_TYPED = (
    _over("Generic", "class X({}, typing.Generic[T]):", "list", _OF_ITEMS, _OF_GENERIC),
    _over("Generic", "class X({}[str, int]):", "dict", _OF_ITEMS, _OF_GENERIC),
    _over("Generic", "class X({}[T, ...], typing.Generic[T]):", "tuple", _OF_ITEMS, _OF_GENERIC),
    _over("Protocol", "class X({}, Named):", "list", _OF_ITEMS, _OF_GENERIC),
    _over("ABC", "class X({}, abc.ABC):", "dict", _OF_ITEMS, _OF_GENERIC),
    _family("alias", "class X(typing.List[T]):", "X[int]([1, 2])", _OF_ITEMS, _SEQUENCE, _OF_GENERIC),
    _family("alias", "class X(dict, typing.Generic[T]):", "X[int](a=1)", _OF_ITEMS, _MAPPING, _OF_GENERIC),
    _family(
        "namedtuple",
        "class X(collections.namedtuple('X', 'x y', defaults=(4,))):\n    __slots__ = ()",
        "X(1, 2)",
        (*_OF_ITEMS, "_replace", "_make"),
        _SEQUENCE,
        _NAMED,
    ),
    _family("generic NamedTuple", "class X(Pair):", "X(1, 2)", _OF_ITEMS, _SEQUENCE, _NAMED),
    _family(
        "NamedTuple", _NAMED_TUPLE, "X(1, 2)", (), _SEQUENCE, _NAMED, ("x.norm()", "x.first", "X.zero()", "x.zero()")
    ),
    _family("TypedDict", "class X(typing.TypedDict, total=False):\n    a: int", "X(a=1, b=2)", (), _MAPPING),
)
_MADE_BY_METACLASS = tuple(
    _over("metaclass", "class X({}, metaclass=Meta):", base, _OF_ITEMS[:5], _OF_META)
    for base in ("list", "dict", "object", "tuple")
)
_IN_LIBRARY = (
    _family("UserDict", "class X(collections.UserDict):", "X(a=1, b=2)", _OF_PAIRS, _MAPPING, ("x.data",)),
    _family("UserList", "class X(collections.UserList):", "X([1, 2])", (*_OF_ITEMS, "append"), _SEQUENCE, _USER_LIST),
    _family("UserString", "class X(collections.UserString):", "X('abc')", _OF_TEXT, _TEXT, ("x.data",)),
    _family("ChainMap", "class X(collections.ChainMap):", "X({'a': 1}, {'b': 2})", _OF_PAIRS, _MAPPING, _CHAIN),
    _family("MutableMapping", "class X(Stored):", "X(a=1, b=2)", _OF_ITEMS, _MAPPING),
    _family("MutableSequence", "class X(Items):", "X(1, 2)", _OF_ITEMS, _SEQUENCE, _USER_LIST),
    _family("MutableSet", "class X(Bag):", "X([1, 2])", ("__len__", "__iter__", "__eq__"), _SET),
    dataclasses.replace(
        _family(
            "SimpleNamespace",
            "class X(types.SimpleNamespace):",
            "X(a=1, b=2)",
            ("__eq__", "__getattribute__"),
            _NAMESPACE,
        ),
        is_captured=False,
    ),
    _family("total_ordering", "class X(Ranked):", "X(1)", ("__eq__", "__lt__", "__gt__"), _RANKED),
    _family("sorted by second", "class X(BySecond):", "X((1, 2))", ("__eq__", "__gt__"), _BY_SECOND),
    _family(
        "abstract property",
        "class X(Store, dict):\n    @property\n    def size(self):\n        return len(self)",
        "X(a=1, b=2)",
        _OF_ITEMS,
        _MAPPING,
        ("x.size", "x.doubled()", "Store()"),
    ),
)
_DATACLASS_HEAD = """\
@dataclasses.dataclass({})
class X({}):
    n: int = 3
    def __post_init__(self):
        {}"""
_DATACLASSES = tuple(
    _family(
        f"dataclass({options})", _DATACLASS_HEAD.format(options, base, body), "X()", (), _MAKES[base][1], _DATACLASS
    )
    for options in ("", "order=True", "frozen=True", "eq=False, repr=False")
    for base, body in (
        ("dict", "self['a'] = self.n"),
        ("list", "self.extend([1, 2])"),
        ("object", "LOG.append('post')"),
    )
)
_WITH_SLOTS = tuple(
    _over("slots", f"class X({{}}):\n    __slots__ = {slots}", base, ("__repr__", "__eq__", "__init__"), _SLOTS)
    for base, slots in (
        *dict.fromkeys(("dict", "set", "OrderedDict"), ("note",)).items(),
        ("list", ("note", "__weakref__")),
        ("object", ("note", "other")),
    )
)
_SCALARS = (
    _family("Formatted", "class X(Formatted):", "X('abc')", _OF_TEXT[:3], _TEXT),
    _family(
        "Measured", "class X(Measured):", "X(1)", _OF_NUMBER, _NUMBER, ("x.unit", "X(3, 'm').unit", "x.unit + 'q'")
    ),
    _family("Spelled", "class X(Spelled):", "X(1.0)", _OF_NUMBER, _NUMBER),
    _family("bytes", "class X(bytes):", "X(b'abc')", _OF_TEXT[:2], _BYTES),
    _family("complex", "class X(complex):", "X(1, 2)", ("__eq__", "__hash__", "__add__", "__repr__"), _COMPLEX),
)
_CONFIGS = tuple(
    _family(
        f"config {base}",
        f"class X({base}):",
        "X(a=1, b=2)",
        (*_OF_PAIRS, "__setattr__"),  # test_getattribute_of_classes counts reads of attributes
        _MAPPING,
        _ATTRIBUTES,
        _ITEMS_AND_ATTRIBUTES,
    )
    for base in ("Dot", "Get", "Own", "Easy", "Add", "Output", "Config")
)
_REGISTERED = _family(
    "registered",
    "class X(Registered, tag='seven'):\n    a = Field()\n    b = Field()",
    "X(a=1, b=2)",
    _OF_PAIRS,
    _MAPPING,
    _ATTRIBUTES,
    _OF_REGISTERED,
)
NEIGHBOURS = (
    *(*_ENUMS, *_MIXINS, *_TYPED, *_MADE_BY_METACLASS, *_IN_LIBRARY),
    *(*_DATACLASSES, *_WITH_SLOTS, *_SCALARS, *_CONFIGS, _REGISTERED),
)
