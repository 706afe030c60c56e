"""Breaks in straight lines, branches, loops and comprehensions."""

from __future__ import annotations

from collector import Programs
from programs import built, tensor

program = Programs(tensor(3), tensor(1, seed=5).sum(), whole=False, graphs=2, breaks=1)
CUT = None


@program(operators=2)
def straight_line(x, s):
    y = x + 1
    CUT
    return y * 2


@program(graphs=1, breaks=1, operators=1)
def at_the_start(x, s):
    CUT
    return x * 2


@program(graphs=0, breaks=(0, 1), operators=0)
def without_operators(x, s):
    CUT
    return x


@program(operators=3)
def values_before_are_alive_after(x, s):
    a = x + 1
    b = [a, x * 2]
    c = {"a": a}
    CUT
    b.append(c["a"] - 1)
    return a, b, c


@program(operators=3)
def in_if(x, s):
    y = x + 1
    if y.shape[0] > 2:
        CUT
        y = y * 2
    return y - 3


@program(graphs=(2, 5), operators=(2, 8), breaks=None)
def in_for_with_enumerate_and_zip(x, s):
    out = []
    for i, (a, b) in enumerate(zip([1, 2, 3], (4.0, 5.0, 6.0), strict=True)):
        out.append(x * a + i)
        CUT
        out.append(b)
    return out


@program(graphs=(2, 5), operators=(2, 8), breaks=None)
@built
def in_for_over_a_user_iterator():
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def program(x, s):
        for value in Countdown(3):
            x = x + value
            CUT
        return x * 2

    return program


@program(graphs=(2, 6), operators=(2, 8), breaks=None)
def in_for_with_continue_and_break(x, s):
    for i in range(5):
        if i == 1:
            continue
        x = x + i
        CUT
        if i == 3:
            break
        x = x * 2
    return x - 1


@program(graphs=(2, 5), operators=(2, 8), breaks=None)
def in_for_else(x, s):
    for i in range(2):
        x = x + i
        CUT
    else:
        CUT
        x = x * 10
    return x


@program(graphs=(2, 6), operators=(2, 12), breaks=None)
def in_nested_for(x, s):
    for i in range(2):
        for j in range(2):
            x = x + i * j
            CUT
        x = x * 2
    return x


@program(operators=(4, 5))
def where_the_loop_returns(x, s):
    for i in range(10):
        x = x + i
        if i == 2:
            CUT
            return x * 2
    return x


@program(graphs=(2, 5), operators=(3, 8), breaks=None)
def in_while(x, s):
    n = 0
    while n < 3:
        x = x + n
        CUT
        n += 1
    return x * 2


@program(graphs=(1, 8), operators=(3, 12), breaks=None)
def in_while_on_data(x, s):
    """A cut that needs data, too, leaves the loop to eager."""
    y = x.abs() + 1
    while y.sum() < 50:
        y = y * 2
        CUT
    return y - 1


@program(graphs=(2, 5), operators=(3, 10), breaks=None)
def in_list_comprehension(x, s):
    y = x + 1
    items = [(y * i, CUT) for i in range(3)]
    return [a - 1 for a, _ in items]


@program(graphs=(2, 5), operators=(2, 10), breaks=None)
def in_dict_comprehension(x, s):
    y = x + 1
    table = {i: (y * i, CUT)[0] for i in range(2)}
    return table, y - 1


@program(operators=3)
def in_match(x, s):
    y = x + 1
    match y.shape:
        case (3,):
            CUT
            y = y * 2
        case _:
            y = y - 100
    return y - 3


@program(operators=2)
def unbound_local_stays_unbound(x, s):
    y = x + 1
    if y.dim() == 9:
        never = 1
    gone = 2
    del gone
    CUT
    try:
        gone  # noqa: B018, F821
    except UnboundLocalError as error:
        y = y * len(str(error))
    try:
        return never
    except UnboundLocalError as error:
        return y, str(error)


@program(operators=2)
def the_condition_itself(x, s):
    y = x + 1
    if CUT:
        return y * 2
    return y * 3


@program(graphs=(2, 3), operators=(2, 4), breaks=None)
def assertion(x, s):
    y = x + 1
    assert (CUT, True)[1], "never"
    z = y * 2
    assert z.dim() == 1, f"dim {z.dim()}"
    return z


test_program = program.test()
