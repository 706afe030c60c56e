"""Lists, tuples, deques and sets with their methods; slices; iterators; sharing and identity."""

from __future__ import annotations

from collections import deque

from collector import Programs
from outcomes import outcomes
from programs import recompiling, tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


@program()
def sets_gather_in_loops(x, n):
    seen = {"a"}
    for item in (1, 2.5, "b", "a"):
        seen |= {item, len(seen)}
        seen.update(seen, [item])
        seen |= seen
    CUT
    return x + len(seen), seen


@program()
def list_methods_on_an_alias(x, n):
    a = [1, 2, x]
    b = a
    b.insert(1, "in")
    b.append(a[0])
    a.remove(2)
    CUT
    b.reverse()
    a.extend(b[:1])
    return x + 1, a, b is a, a.count("in"), a.pop(0), len(a.copy()) == len(b)


@program([3, 1, 2], tensor(3), others=[([5, 4, 4, 1], tensor(5, seed=1))])
def list_argument_sorted_and_cleared_for_the_caller(items, x):
    alias = items
    items.sort(key=lambda i: -i)
    y = x * items[0]
    CUT
    alias[1:2] = [7, 7]
    items += [9]
    del alias[0]
    return y, items


@program()
def slices_with_steps(x, n):
    a = list(range(8))
    a[::2] = ["e"] * 4
    del a[1::3]
    CUT
    b = a[::-1]
    b[1:1] = [x]
    try:
        a[::2] = [1]
    except ValueError as error:
        return (x + 1, a, b, str(error), a[10:], a[-3:-1])


@program()
def list_index_errors(x, n):
    a = [1]
    return x + 1, outcomes(
        lambda: a[3],
        lambda: a.pop(5),
        lambda: a.remove(9),
        lambda: a.index(9),
        lambda: a["key"],
        lambda: [].pop(),
        lambda: a.__setitem__(4, 1),
        lambda: a.__delitem__(4),
        lambda: a + (1,),
        lambda: a * "b",
        lambda: a < 3,
    )


@program()
def sort_is_stable_and_sees_the_keys_once(x, n):
    calls = []

    def key(pair):
        calls.append(pair)
        return pair[0]

    a = [(1, "b"), (0, "z"), (1, "a")]
    a.sort(key=key, reverse=True)
    CUT
    return x + 1, a, calls, sorted(a), sorted("bca"), sorted({"b": 1, "a": 2}), sorted([3, 1], reverse=True)


@program()
def list_changed_while_it_is_iterated(x, n):
    a = [1, 2, 3]
    seen = []
    for item in a:
        seen.append(item)
        if item < 3:
            a.append(item + 10)
        if item == 2:
            a.pop(0)
        CUT
    return x + len(a), a, seen


@program()
def iterators_of_every_kind_kept_over_a_break(x, n):
    kept = [
        iter((1, 2, 3)),
        iter({"a": 1, "b": 2}),
        iter({"a": 1, "b": 2}.items()),
        iter(range(4)),
        iter("abc"),
        reversed([1, 2, 3]),
        enumerate("abc", 5),
        zip([1, 2], "ab"),
        map(str, [1, 2, 3]),
        filter(None, [0, 1, 2, 3]),
        iter(b"ab"),
        reversed({"a": 1, "b": 2}),
        iter(deque([1, 2, 3])),
    ]
    heads = [next(each) for each in kept]
    y = x + 1
    CUT
    return y * 2, heads, [list(each) for each in kept]


@program()
def iterators_returned_half_used(x, n):
    a, b = iter([x, 1, 2]), enumerate([3, 4])
    y = next(a) + 1
    next(b)
    return y, a, b, zip([1], [2]), map(len, ["a"])


@program()
def tuple_methods_and_identity(x, n):
    t = (x, 1, (2, [3]))
    t[2][1].append(4)
    CUT
    a, (b, c) = t[1], t[2]
    return x + 1, t, t.index(x), t[::-1], t + (1,), t * 2, b in t[2], t == (x, 1, (2, [3, 4])), tuple(t) is t


@program()
def tuple_assignment_inside_raises_but_the_list_changes(x, n):
    t = ([1], x)
    try:
        t[0] += [2]
    except TypeError as error:
        CUT
        return t[0], x + 1, str(error)


@program()
def deque_methods(x, n):
    d = deque([x, 1, 2], maxlen=4)
    d.appendleft(0)
    d.append("pushed")
    CUT
    d.extendleft([7, 8])
    left, right = d.popleft(), d.pop()
    d.reverse()
    return x + 1, d, left, right, d[1], len(d), d.maxlen, list(d)


@program()
def deque_more_methods(x, n):
    d = deque([3, 1, 2])
    d[0] = x
    d.extend([5, 6])
    CUT
    del d[1]
    e = d.copy()
    e.clear()
    return x + 1, d, e, deque("ab") == deque(["a", "b"]), list(reversed(d))


@program()
def deque_errors(x, n):
    return x + 1, outcomes(lambda: deque().pop(), lambda: deque().popleft(), lambda: deque()[0])


@program()
def deque_inserts_and_rotates(x, n):
    d, full = deque([3, 1, 2], 5), deque([1, 2], 2)
    d.insert(1, 7)
    d.insert(-1, 8)
    d.rotate(2)
    CUT
    d.rotate()
    d.remove(8)
    joined, twice = d + deque([4, 5, 6]), d * 2
    full *= 2
    wrong = outcomes(lambda: full.insert(0, 1), lambda: full.remove(9), lambda: full.index(9), lambda: full + [1])
    return x + 1, d, d.index(3), d.index(2, 1), joined, joined.maxlen, twice, 2 * full, full, wrong


@program(deque([1, 2], maxlen=3), tensor(3), others=[(deque([5]), tensor(5, seed=1))])
def deque_argument_is_changed(d, x):
    d.append(x)
    CUT
    d.appendleft(0)
    d.append(9)
    return x + len(d), d[0]


@program()
def containers_that_hold_themselves(x, n):
    a = [x]
    a.append(a)
    d = {"self": a}
    d["d"] = d
    CUT
    return (x + 1, a, d, a[1] is a)


@program()
def shared_parts_stay_shared(x, n):
    part = [x]
    a, b = {"p": part}, (part, [part])
    CUT
    b[1][0].append(n)
    return (x + 1, a, b, part, a["p"] is b[0])


@program([1], tensor(3), others=[([2, 3], tensor(5, seed=1))])
def same_list_under_two_names(a, x):
    holder = {"a": a, "b": a}
    holder["a"].append(5)
    CUT
    holder["b"] += [6]
    return holder, a is holder["b"], x + len(a)


@program()
def zip_enumerate_and_reversed_over_changing_lists(x, n):
    a = [1, 2, 3]
    out = []
    for i, (p, q) in enumerate(zip(a, reversed(a))):
        CUT
        out.append(x * i + p * q)
        a[2] = 10
    return out


@program()
def tensors_in_containers_compare_by_identity_first(x, n):
    y = x + 1
    return [x, y].index(x), x in [x], [x] == [x], (y,) == (y,), {"a": x} == {"a": x}, [y].count(y)


@program(graphs=(0, 2), breaks=(0, 20))
@recompiling
def deque_changed_while_it_is_iterated(x, n):
    d, seen = deque([1, 2, 3]), []
    try:
        for item in d:
            seen.append(item)
            d[0] = 9
            CUT
            if item == 2:
                d.append(4)
    except RuntimeError as error:
        return x + len(seen), seen, str(error), d


@program(graphs=(1, 2), breaks=(0, 20))
@recompiling
def iterators_in_text_are_not_used_up(x, n):
    a, b, c = iter([1, 2]), zip("ab", [1, 2]), {"k": 1}.keys()
    texts = [f"{a}"[:18], "%s" % (b,), f"{c}", f"{ {'k': 1}.items()!r}"]
    CUT
    try:
        int(a)
    except TypeError as error:
        texts.append(str(error)[-15:])
    return x + 1, [each.split(" at ")[0] for each in texts], list(a), list(b)


@program()
def a_failing_builtin_has_taken_what_it_took(x, n):
    a, b = iter(["a", 1, 2]), iter([1, "b", 3])
    log = outcomes(lambda: sum(a), lambda: max(b), lambda: "".join(b))
    CUT
    return x + 1, log, list(a), list(b)


@program()
def iterators_keep_their_kind_when_used_up(x, n):
    kept = [iter([1]), iter((1,)), reversed([1]), iter(deque([1])), iter({1}), iter({"a": 1}), reversed({"a": 1})]
    for each in kept:
        list(each)
    CUT
    return x + 1, [type(each).__name__ for each in kept], [next(each, "end") for each in kept]


test_program = program.test()
