"""Breaks in inlined callees, in methods, with values on the stack and with live closures."""

from __future__ import annotations

import functools
import io
import queue

import torch

from collector import Programs
from programs import built, check, tensor

program = Programs(tensor(3), tensor(1, seed=5).sum(), whole=False, graphs=2, breaks=1)
CUT = None


def add(a, b, *rest, k=0):
    return a + b + k


def number(value):
    """A number out of whatever a break gave."""
    return len(str(value))


@program(graphs=(1, 3), breaks=(1, 3), operators=(2, 3))
def in_a_callee_whose_exception_leaves(x, s):
    def callee(v):
        w = v * 2
        CUT
        raise ValueError(w.dim())

    y = x + 1
    return callee(y)


@program(graphs=(3, 4), breaks=2, operators=4)
@built
def in_a_property():
    class Thing:
        def __init__(self, v):
            self.v = v

        @property
        def value(self):
            w = self.v * 2
            CUT
            return w + 3

    def program(x, s):
        y = x + 1
        return Thing(y).value - 4

    return program


@program(graphs=(2, 4), breaks=(1, 2), operators=(2, 4))
@built
def in_getattr_of_a_class():
    class Thing:
        def __getattr__(self, name):
            CUT
            return len(name)

    def program(x, s):
        y = x + 1
        return (y * Thing().five) - 4

    return program


@program(graphs=(3, 4), breaks=2, operators=4)
def in_a_partial(x, s):
    def callee(n, v):
        w = v * n
        CUT
        return w + 3

    y = x + 1
    return functools.partial(callee, 2)(y) - 4


@program(graphs=(1, 4), breaks=(1, 3))
def in_a_sort_key(x, s):
    def key(n):
        CUT
        return -n

    y = x + 1
    return y * sorted([3, 1, 2], key=key)[0]


@program(graphs=(0, 8), breaks=None)
def in_a_generator_with_send_and_close(x, s):
    log = []

    def values():
        try:
            got = yield x * 1
            CUT
            yield x * got
        finally:
            log.append("closed")

    g = values()
    first = next(g)
    second = g.send(2)
    g.close()
    return first, second, log


@program(operators=4)
def with_a_list_and_a_dict_half_made(x, s):
    return [x + 1, {"a": x * 2, "b": CUT, "c": x - 3}, x / 4]


@program(graphs=(2, 3), breaks=1, operators=5)
def with_keyword_arguments_half_made(x, s):
    return add(x + 1, 2, CUT, x * 2, k=x - 3)


@program(graphs=(2, 3), operators=4, breaks=None)
def with_star_arguments_half_made(x, s):
    return add(*[x + 1, 2], CUT, **{"k": x * 2})


@program(graphs=(1, 2), breaks=(1, 2), operators=(1, 2))
def with_a_bound_method_on_the_stack(x, s):
    y = x + 1
    return y.mul(number(CUT))


@program(operators=3)
def with_a_torch_function_on_the_stack(x, s):
    return torch.add(x + 1, torch.mul(x, 2), alpha=number(CUT))


@program(operators=2)
def with_an_inplace_operand_on_the_stack(x, s):
    y = x + 1
    y *= number(CUT)
    return y


@program(graphs=(1, 2), breaks=2, operators=2)
def with_a_subscript_store_pending(x, s):
    y = x + 1
    table = {}
    table[number(CUT)] = y
    items = [0, 0]
    items[(CUT, 1)[1]] = y * 2
    return table, items


@program(graphs=(1, 2), breaks=1, operators=2)
@built
def with_an_attribute_store_pending():
    class Thing:
        pass

    def program(x, s):
        thing = Thing()
        thing.a = x + 1
        thing.b = (CUT, thing.a * 2)[1]
        return thing

    return program


@program(operators=2)
def with_a_format_string_half_made(x, s):
    y = x + 1
    text = f"a {y.shape[0]:>4} {number(CUT)!r} {y.dim()}"
    return y * len(text), text


@program(operators=2)
def with_a_comparison_chain_half_made(x, s):
    y = x + 1
    ok = 0 < number(CUT) < 100
    return y * ok


@program(operators=2)
def with_a_boolean_expression_half_made(x, s):
    y = x + 1
    value = [] or (CUT, 0)[1] or "last"
    return y * 2, value


@program(operators=2)
def with_unpacking_pending(x, s):
    y = x + 1
    a, (b, *c) = 1, (CUT, 3, 4)
    return y * a, c


@program(operators=2)
def with_null_and_callable_on_the_stack(x, s):
    y = x + 1
    return max((y.dim(), CUT)[0], 0, *(1, 2)) + y


@program(graphs=1, breaks=2, operators=2)
def with_a_type_and_a_module_on_the_stack(x, s):
    y = x + 1
    return dict(a=y * 2, b=CUT, **dict(c=torch.float32)), isinstance(y, (torch.Tensor, type(CUT)))


@program(operators=2)
def with_a_cell_changed_after(x, s):
    n = 2

    def later(v):
        return v * n

    y = x + 1
    CUT
    n = 5
    return later(y), n


@program(graphs=(2, 4), operators=2, breaks=None)
def with_a_cell_that_a_callee_changes_around_it(x, s):
    count = 0

    def tick():
        nonlocal count
        count += 1
        CUT
        count += 10
        return count

    y = x + 1
    tick()
    return y * count


@program(operators=2)
def with_a_cell_still_empty(x, s):
    def later():
        return value

    y = x + 1
    CUT
    value = y * 2
    return later()


@program(operators=2)
def with_a_cell_emptied(x, s):
    value = x + 1

    def later():
        return value  # noqa: F821

    y = later()
    del value
    CUT
    try:
        return later()
    except NameError as error:
        return y * 2, str(error)


@program(operators=2)
def with_an_argument_in_a_cell(x, s):
    def reads():
        return x

    y = x + 1
    CUT
    x = y * 2
    return reads(), x is reads()


@program(operators=3)
def with_closures_sharing_a_cell(x, s):
    value = x + 1

    def get():
        return value

    def put(v):
        nonlocal value
        value = v

    put(get() * 2)
    CUT
    put(get() - 3)
    return get(), get, put


@program(operators=3)
def with_a_mutated_argument(x, s):
    x += 1
    view = x[1:]
    CUT
    view.mul_(2)
    return x, view


@program(operators=2)
def with_varied_constants_alive(x, s):
    big, small, text, none, nan = 10**30, -0.0, "text", None, float("nan")
    things = (slice(1, None), ..., range(3), frozenset({1}), b"b", 1j, int, torch.float64, torch.Size([1, 2]))
    y = x + 1
    CUT
    return y * 2, big, small, text, none, nan, things


@program(graphs=(1, 2), operators=2, breaks=None)
def in_default_and_decorator_expressions(x, s):
    y = x + 1

    def inner(v, n=(CUT, 2)[1]):
        return v * n

    return inner(y)


test_program = program.test()


def test_a_method_of_an_object_in_c():
    """Found before its arguments, it is looked up where it is called: one break."""

    def fn(x):
        waiting = queue.SimpleQueue()
        y = x * 2
        waiting.put(y + 1)
        text = io.StringIO()
        text.write(str(y.ndim + 1))
        return waiting.get() * y, text.getvalue()

    check(fn, tensor(3), graphs=2, breaks=6)
