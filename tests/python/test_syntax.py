"""Statements and expressions: order of evaluation, scopes, patterns, unpacking, closures, decorators, f-strings."""

from __future__ import annotations

import functools

import torch

from collector import Programs
from outcomes import outcomes
from programs import tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


class Logged:
    """Records the operations on it."""

    def __init__(self, log, name):
        self.log = log
        self.name = name

    def __getitem__(self, key):
        self.log.append(f"{self.name}[{key}]")
        return key

    def __setitem__(self, key, value):
        self.log.append(f"{self.name}[{key}]={value}")

    def __delitem__(self, key):
        self.log.append(f"del {self.name}[{key}]")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.log.append(f"{self.name}.{name}")
        return self

    def __lt__(self, other):
        self.log.append(f"{self.name}<")
        return True

    def __iadd__(self, other):
        self.log.append(f"{self.name}+=")
        return self

    def __eq__(self, other):
        self.log.append(f"{self.name}==")
        return True


def note(log, value):
    log.append(value)
    return value


@program()
def operands_and_arguments_are_evaluated_left_to_right(x, n):
    log = []
    y = note(log, x.shape[0]) + note(log, 2) * note(log, 3)
    CUT
    max(note(log, "a"), note(log, "b"), key=note(log, len))
    {note(log, "k"): note(log, "v")}
    [note(log, 1), *note(log, [2]), note(log, 3)]
    return x * y, [each for each in log if each is not len]


@program()
def assignment_evaluates_the_value_first(x, n):
    log = []
    a, b = Logged(log, "a"), Logged(log, "b")
    a[note(log, 1)] = b[note(log, 2)] = note(log, "value")
    CUT
    a[note(log, 3)], b.attr[note(log, 4)] = note(log, (5, 6))
    return x + 1, log


@program()
def augmented_assignment_evaluates_the_target_once(x, n):
    log = []
    a = Logged(log, "a")
    a[note(log, "i")] += note(log, 1) if n > 100 else "!"
    CUT
    a.attr.other += note(log, 2)
    del a[note(log, "d")]
    return x + 1, log


@program()
def chained_comparison_stops_early_and_evaluates_once(x, n):
    log = []
    first = note(log, 1) < note(log, 2) < note(log, 3)
    second = note(log, 5) < note(log, 4) < note(log, "never")
    CUT
    a, b = Logged(log, "a"), Logged(log, "b")
    third = bool(a < b < a == b)
    return x + 1, first, second, third, log


@program()
def and_or_give_their_operands(x, n):
    log = []
    found = [note(log, 0) or note(log, ""), note(log, 1) and note(log, []), None or x, not note(log, 0)]
    CUT
    y = (n > 100 and x) or x + 1
    return y, found, log, 0 or 0.0 or "end", (1 and 2 or 3) and 4


@program()
def conditional_expressions_evaluate_one_side(x, n):
    log = []
    y = note(log, x.dim()) if note(log, True) else note(log, "never")
    CUT
    z = (x + 1 if n > 1 else x - 1) if n else x
    return x * y, z, log


@program()
def walrus_in_conditions_and_comprehensions(x, n):
    if (m := n * 2) > 3:
        y = x * m
    kept = [last := i for i in range(3)]
    CUT
    while (m := m - 1) > 2:
        y = y + m
    return y, kept, last, any((found := i) > 1 for i in range(4)), found


@program()
def match_of_sequences(x, n):
    out = []
    for subject in ([], [1], [1, 2], (1, 2, 3), [1, [2, 3]], "ab", {"a": 1}, range(3), None):
        match subject:
            case []:
                out.append("empty")
            case [a]:
                out.append(("one", a))
            case [1, [b, *c]]:
                out.append(("nested", b, c))
            case [a, b] if a == b:
                out.append("never")
            case [a, *rest]:
                out.append(("more", a, rest))
            case str():
                out.append("text")
            case _:
                out.append("other")
        CUT
    return x + len(out), out


@program()
def match_of_mappings(x, n):
    out = []
    for subject in ({}, {"a": 1}, {"a": 2, "b": x}, {"kind": "k", "more": {"deep": [1, 2]}}, [("a", 1)]):
        match subject:
            case {"kind": kind, "more": {"deep": [_, last]}, **rest}:
                out.append((kind, last, rest))
            case {"a": 1}:
                out.append("one")
            case {"a": 2, **others}:
                out.append(list(others))
            case {}:
                out.append("any mapping")
            case _:
                out.append("none")
    CUT
    return x + 1, out


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@program()
def match_of_classes_and_alternatives(x, n):
    out = []
    for subject in (Point(1, 2), Point(0, [3]), 5, -1, 2.5, "text", True, None, (1, Point(7, 8))):
        match subject:
            case Point(1, b=two):
                out.append(("point", two))
            case Point(a=0, b=[inner]) as whole:
                out.append((inner, whole is subject))
            case bool() | None:
                out.append("singleton")
            case int(value) if value > 0:
                out.append(("int", value))
            case int() | float():
                out.append("number")
            case (1, Point(a, _)):
                out.append(("in tuple", a))
            case str() as text:
                out.append(text)
    CUT
    return x + 1, out


@program()
def for_else_and_while_else(x, n):
    log = []
    for i in range(n):
        if i > 100:
            break
    else:
        log.append("for else")
    while n > 100:
        break
    else:
        log.append("while else")
    for i in [1, 2]:
        CUT
        for j in [1]:  # noqa: B007
            if i == 1:
                break
        else:
            log.append("inner else")
            continue
        log.append("after break")
    return x + i, log


@program()
def nested_unpacking_and_stars(x, n):
    (a, [b, *c]), *d, e = [1, "xyz"], 2, 3, x
    CUT
    f, (g, h) = n, {"k1": 1, "k2": 2}
    *i, j = "abc"
    [k, (l, m)] = range(1), (2, 3)  # noqa: E741
    return e + a, b, c, d, f, g, h, i, j, k, l, m


@program()
def swap_through_subscripts(x, n):
    items = [0, 1, 2]
    i = 1
    i, items[i] = 2, "set at 2"
    items[0], items[1] = items[1], items[0]
    CUT
    a = b = c = items
    a += [x]
    return (x + 1, b is c, items, i)


@program()
def nonlocal_through_two_levels(x, n):
    count = 0
    text = "start"

    def outer():
        nonlocal count
        count += 1

        def inner():
            nonlocal count, text
            count += 10
            text = "inner"
            return count

        return inner() + count

    y = x * outer()
    CUT
    outer()
    return y, count, text


@program()
def late_binding_in_loops_and_early_by_default(x, n):
    late, early = [], []
    for i in range(n):
        late.append(lambda: i)
        early.append(lambda i=i: i)
    CUT
    return x * late[0](), [f() for f in late], [f() for f in early], [g() for g in [lambda: j for j in range(3)]]


@program()
def defaults_are_evaluated_once_and_shared(x, n):
    log = []

    def f(a, b=note(log, []), *, c=note(log, {})):  # noqa: B008
        b.append(a)
        c[a] = len(b)
        return b, c

    f(1)
    CUT
    return x + 1, f(2), f(3, []), log


@program()
def positional_only_keyword_only_and_variadic(x, n):
    def f(a, b=2, /, c=3, *rest, d, e=5, **named):
        return a, b, c, rest, d, e, named

    CUT
    return x + 1, f(1, d=4), f(1, 2, 3, 4, d=4, z=1), f(1, d=0, a=9), f(*[1, 2], **{"d": 3, "c": 4})


@program()
def calls_with_several_stars(x, n):
    def f(*args, **kwargs):
        return args, kwargs

    a, b = [1, 2], {"k": x}
    CUT
    return x + 1, f(*a, 3, *"xy", **b, z=1, **{}), f(*(), **{}), f(*range(2)), f(**b)


@program()
def arguments_are_bound_to_fresh_containers(x, n):
    def f(*args, **kwargs):
        kwargs["new"] = 1
        return args, kwargs

    given, named = [x], {"a": 1}
    args, kwargs = f(*given, **named)
    CUT
    return named, kwargs, args == tuple(given), x + 1


@program()
def decorators_apply_bottom_up_and_keep_state(x, n):
    log = []

    def counted(fn):
        log.append(f"counted {fn.__name__}")

        @functools.wraps(fn)
        def wrapper(*args):
            wrapper.calls += 1
            return fn(*args)

        wrapper.calls = 0
        return wrapper

    def times(by):
        log.append(f"times {by}")

        def decorate(fn):
            log.append(f"decorate {by}")
            return lambda y: fn(y) * by

        return decorate

    @counted
    @times(2)
    @times(n)
    def f(y):
        return y + 1

    y = f(x)
    CUT
    return y, f(x), f.calls, log, f.__name__


@program()
def mutual_recursion(x, n):
    def even(k):
        return True if k == 0 else odd(k - 1)

    def odd(k):
        return False if k == 0 else even(k - 1)

    CUT
    return x + 1, even(n), odd(n), (lambda f, k: f(f, k))(lambda f, k: 1 if k < 2 else k * f(f, k - 1), 5)


@program()
def recursion_over_a_nested_list(x, n):
    def total(value):
        return sum(map(total, value)) if isinstance(value, list) else value

    def depth(value):
        return 1 + max((depth(v) for v in value), default=0) if isinstance(value, list) else 0

    nested = [x, [x, [1, [n]]], []]
    CUT
    return total(nested), depth(nested)


@program()
def lambdas_in_containers(x, n):
    table = {"add": lambda a, b: a + b, "mul": lambda a, b=n: a * b, **{k: (lambda a, k=k: (k, a)) for k in "xy"}}
    CUT
    return table["add"](x, 1), table["mul"](x), table["x"](1), table["y"](2), [f(2) for f in (lambda v: v, str)]


@program()
def comprehension_scopes(x, n):
    i = "outer"
    k = 2
    squares = [i * k for i in range(n)]
    pairs = {(a, b) for a in range(2) for b in range(a + 1) if a or b}
    CUT
    table = {i: [j for j in range(i)] for i in range(3)}
    nested = [[i, j] for i, j in zip("ab", (k for k in range(2)))]
    return x + k, i, squares, pairs == {(1, 0), (1, 1)}, table, nested


@program()
def comprehension_with_conditions_and_calls(x, n):
    log = []
    out = [note(log, i) for i in range(6) if note(log, "c") if i % 2]
    CUT
    return x + len(out), out, log, [y for y in (x, None) if y is not None][0]


@program()
def del_of_everything(x, n):
    a, b, c = [1, 2, 3], {"k": 1, "z": 2}, Point(x, 1)
    del a[0], b["k"], c.b
    CUT
    d = e = a
    del d
    try:
        d  # noqa: B018, F821
    except NameError:
        return a, b, hasattr(c, "b"), e is a, c.a + 1


@program()
def empty_cells_and_unbound_names(x, n):
    def early():
        return later

    log = outcomes(early, lambda: undefined_name)  # noqa: F821
    later = 5
    CUT
    return x * early(), log


@program()
def early_returns_from_nested_blocks(x, n):
    log = []

    def find(items, wanted):
        for i, item in enumerate(items):
            try:
                with torch.no_grad():
                    if item == wanted:
                        return i
            finally:
                log.append(item)
        return None

    a = find([1, 2, 3], 2)
    CUT
    return x + a, find([], 1), log


@program()
def imports_inside(x, n):
    import collections.abc as c
    import operator
    from math import floor
    from string import ascii_lowercase as p

    CUT
    return x + floor(2.5), c.__name__, p[:3], operator.add(1, n)


@program()
def truth_of_everything(x, n):
    values = [0, 1, 0.0, "", "a", [], [0], {}, {1: 1}, (), None, set(), range(0), b"", 0j, ..., NotImplemented is None]
    CUT
    return x + 1, [bool(v) for v in values], [v for v in values if v], not values


@program()
def nested_functions_with_attributes(x, n):
    def f(y):
        f.count += 1
        return y + f.count

    f.count = 0
    y = f(x)
    CUT
    return f(y), f.count, f.__name__, f.__dict__


@program()
def while_with_break_continue_and_walrus(x, n):
    stack, seen = [n, [1, [2]], "x"], []
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            continue
        if isinstance(item, list):
            stack.extend(item)
            CUT
            continue
        seen.append(item)
        if len(seen) > 10:
            break
    return x * sum(seen), seen


test_program = program.test()
