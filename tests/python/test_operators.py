"""Special methods of operators, comparison and hashing: reflected forms, NotImplemented, user-defined keys."""

from __future__ import annotations

import enum
import operator
from collections import deque
from typing import ClassVar

from collector import Programs
from outcomes import outcomes
from programs import tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


class Vector:
    """Supports arithmetic with vectors and numbers, also reflected. Returns NotImplemented for other operands."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __add__(self, other):
        if isinstance(other, Vector):
            return Vector(self.a + other.a, self.b + other.b)
        return NotImplemented

    def __mul__(self, by):
        return Vector(self.a * by, self.b * by)

    def __rmul__(self, by):
        return Vector(by * self.a, by * self.b)

    def __neg__(self):
        return Vector(-self.a, -self.b)

    def __pos__(self):
        return self

    def __invert__(self):
        return Vector(self.b, self.a)

    def __abs__(self):
        return self.a + self.b

    def __matmul__(self, other):
        return self.a * other.a + self.b * other.b

    def __divmod__(self, by):
        return self.a // by, self.b % by

    def __rpow__(self, base):
        return base**self.a

    def __round__(self, digits=None):
        return "rounded", digits

    def __iadd__(self, other):
        self.a = self.a + other
        return self


@program()
def arithmetic_of_objects_holding_tensors(x, n):
    v = Vector(x, 1) + Vector(x, 2)
    CUT
    w = 2 * v * 3
    w += x
    return w.a, w.b, (-w).b, (~w).a, +w is w, abs(v), v @ v


class Refuses:
    def __init__(self, log):
        self.log = log

    def __add__(self, other):
        self.log.append("add")
        return NotImplemented

    def __radd__(self, other):
        self.log.append("radd")
        return NotImplemented

    def __lt__(self, other):
        self.log.append("lt")
        return NotImplemented

    def __gt__(self, other):
        self.log.append("gt")
        return NotImplemented

    def __eq__(self, other):
        self.log.append("eq")
        return NotImplemented


@program()
def not_implemented_on_both_sides_is_a_type_error(x, n):
    log = []
    return x + 1, outcomes(lambda: Refuses(log) + 1, lambda: 1 + Refuses(log), lambda: Refuses(log) + Refuses(log)), log


@program()
def comparison_falls_back_to_identity_or_type_error(x, n):
    log = []
    a, b = Refuses(log), Refuses(log)
    found = [a == b, a == a, a != b]
    try:
        a < b  # noqa: B015
    except TypeError as error:
        log.append(str(error))
    CUT
    return x + 1, found, log


class Left:
    def __add__(self, other):
        return "left add"

    def __lt__(self, other):
        return "left lt"

    def __eq__(self, other):
        return "left eq"


class Right(Left):
    def __radd__(self, other):
        return "right radd"

    def __gt__(self, other):
        return "right gt"

    def __eq__(self, other):
        return "right eq"


@program()
def the_derived_class_is_asked_first(x, n):
    return x + 1, Left() + Right(), Left() < Right(), Left() == Right(), Left() + Left(), Right() + Left()


@program()
def operators_with_numbers_on_the_left(x, n):
    v = Vector(2, 3)
    return x + (5 * v).a, 3**v, divmod(v, 2), round(v), round(v, 1)


@program()
def in_place_falls_back_to_the_plain_operator(x, n):
    v = Vector(1, 2)
    w = v
    v *= n
    CUT
    return x * v.a, w.a, v is w


class Key:
    """A key that compares by its text."""

    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return isinstance(other, Key) and self.text.lower() == other.text.lower()

    def __hash__(self):
        return hash(self.text.lower())


@program()
def keys_with_equality_of_their_own(x, n):
    table = {Key("A"): x}
    table[Key("a")] = x + 1
    CUT
    return len(table), table[Key("A")], Key("b") in table, next(iter(table)).text


@program()
def sets_of_objects_with_equality_of_their_own(x, n):
    seen = {Key("A"), Key("a"), Key("b")}
    seen.add(Key("B"))
    CUT
    return x * len(seen), Key("a") in seen, seen == {Key("a"), Key("b")}


@program()
def objects_with_equality_without_hash(x, n):
    class_ = Left
    try:
        {class_(): 1}
    except TypeError as error:
        return x + 1, str(error)


@program()
def equality_in_lists(x, n):
    keys = [Key("a"), Key("b"), Key("A")]
    return x + 1, keys.index(Key("B")), keys.count(Key("a")), Key("c") in keys, keys == [Key("A"), Key("B"), Key("a")]


class Meta(type):
    """A metaclass without operators."""


class ByMeta(metaclass=Meta):
    pass


class Operated(type):
    """A metaclass with operators."""

    items: ClassVar[dict] = {}

    def __neg__(cls):
        return "negative"

    def __invert__(cls):
        return "inverted"

    def __abs__(cls):
        return "absolute"

    def __isub__(cls, other):
        return "less"

    def __setitem__(cls, key, value):
        cls.items[key] = value

    def __delitem__(cls, key):
        del cls.items[key]

    def __next__(cls):
        return "next"

    def __reversed__(cls):
        return iter("cba")


class ByOperated(metaclass=Operated):
    pass


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


@program(graphs=None, breaks=None)
def operators_of_metaclasses(x, n):
    less = ByOperated
    less -= n
    ByOperated["a"] = n
    ByOperated["b"] = n
    del ByOperated["a"]
    CUT
    found = -ByOperated, ~ByOperated, abs(ByOperated), less, next(ByOperated), [*reversed(ByOperated)]
    return x + 1, found, Operated.items, [*reversed(Number)]


@program(graphs=None, breaks=None)
def operands_that_are_classes(x, n):
    texts = outcomes(
        lambda: Vector - Vector,
        lambda: ByMeta * n,
        lambda: Vector < Vector,
        lambda: ByMeta >= n,
        lambda: -Vector,
        lambda: Vector[0],
        lambda: len(Vector),
        lambda: iter(ByMeta),
        lambda: n in Vector,
        lambda: next(Vector),
        lambda: reversed(Vector),
        lambda: "a" * Vector,
        lambda: [1] + Vector,
        lambda: operator.setitem(Vector, 0, 1),
        lambda: operator.delitem(Vector, 0),
    )
    CUT
    return x + 1, texts


class AskedFirst:
    """What a list or tuple is added to, or repeated by: they have no arithmetic of numbers."""

    def __radd__(self, other):
        return "added", len(other)

    def __rmul__(self, other):
        return "multiplied", len(other)

    def __index__(self):
        return 2

    def __iter__(self):
        return iter([7, 8])


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@program()
def sequences_are_repeated_by_any_index(x, n):
    two, none, deep = Index(2), Index(-1), Index(1 << 70)
    CUT
    texts = "ab" * two, two * "ab", b"ab" * two, two * b"ab", "ab" * none, "ab" * AskedFirst(), AskedFirst() * b"ab"
    others = [n] * two, two * (1, n), deque([n]) * two
    failures = []
    for repeat in (lambda: "ab" * deep, lambda: "ab" * 1.5, lambda: deque([1], two), lambda: deque([1], maxlen=two)):
        try:
            failures.append(repeat())
        except (TypeError, OverflowError) as error:
            failures.append(type(error))
    return x + 1, texts, others, failures


class ListWithItsOwn(list):
    def __iadd__(self, other):
        return "its own", list(other)

    def __radd__(self, other):
        return "reflected"


class PlainList(list):
    pass


@program()
def sequences_ask_the_other_operand_first(x, n):
    one, two, three, four, five = [1], [1], deque([1]), ListWithItsOwn([1]), PlainList([1])
    CUT
    one += AskedFirst()
    two *= AskedFirst()
    three += AskedFirst()
    four += AskedFirst()
    five += AskedFirst()
    six, seven, eight = [1], [1, 2], [n]
    six += ListWithItsOwn([2])
    seven += (3,)
    seven *= 2
    eight += "ab"
    return x + 1, one, two, three, four, five, six, seven, eight, [1] * AskedFirst(), (1,) + AskedFirst()


@program()
def lists_of_derived_classes_are_added(x, n):
    one, two, own = PlainList([1]), PlainList([2]), ListWithItsOwn([3])
    CUT
    added = one + two, [0] + one, one + [x], PlainList([0]) * 2
    return x + 1, added, [type(each) for each in added], one + own, [1] + own, own + [1], one


test_program = program.test()
