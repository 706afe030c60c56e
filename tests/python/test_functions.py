"""Functions and closures: pre-existing cells, cells created during tracing, cells that escape."""

from __future__ import annotations

import types

import torch

import dynamo_lite as dl
from programs import built, check, checked, recompiling, tensor


@checked(tensor(2), operators=1)
@built
@recompiling
def test_cell_from_outside_is_written():
    count = 0

    def fn(x):
        nonlocal count
        count += 1
        return x * count, count

    return fn


@checked(tensor(2), 5, others=[(tensor(2), 7)], all_graphs=2)
@built
def test_cell_from_outside_changed_by_the_caller_between_calls():
    factor = 2

    def program(x, new):
        nonlocal factor
        factor = new
        return inner(x)

    def inner(x):
        return x * factor

    return program


@checked(tensor(2), graphs=None)
@built
def test_empty_cell_from_outside():
    def fn(x):
        y = x + 1
        return y * later

    return fn
    later = 1  # makes it a cell, which stays empty


@checked(tensor(2), operators=2)
def test_two_escaping_closures_share_a_cell(x):
    value = x + 1

    def get():
        return value

    def put(new):
        nonlocal value
        value = new

    put(value * 2)
    return get, put


@checked(tensor(2), {}, operators=1)
def test_closure_escapes_into_an_argument(x, table):
    n = 3
    table["f"] = lambda v: v * n
    n = 4
    return x + n


@checked(tensor(2), graphs=(1, 3), operators=1)
def test_function_created_in_tracing_has_all_its_attributes(x):
    def inner(a, b=2, *args, c: int = 3, **kw) -> int:
        """Doc."""
        return a

    return x + 1, inner, inner.__name__, inner.__defaults__, inner.__kwdefaults__, inner.__doc__


def test_method_as_an_argument():
    class Scaler:
        def __init__(self, n):
            self.n = n

        def scale(self, v):
            return v * self.n

    def apply(x, f):
        return f(x)

    check(apply, tensor(2), Scaler(2).scale, operators=1, others=[(tensor(2), Scaler(5).scale)], all_graphs=2)


def test_functions_that_differ_only_in_their_defaults():
    def make(n):
        def times(v, by=n, *, plus=n):
            return v * by + plus

        return times

    def fn(x, f):
        return f(x)

    check(fn, tensor(2), make(2), operators=2, others=[(tensor(2), make(3)), (tensor(2), make(2))], all_graphs=2)


def test_comparison_and_hash_of_functions():
    def one():
        return 1

    def fn(x):
        table = {one: 2, torch.sin: 3}
        return x + table[one] + table[torch.sin], one == one, one is not torch.sin  # noqa: PLR0124

    check(fn, tensor(2), operators=2)


def test_global_function_is_replaced_between_calls():
    scope = {}
    exec("def helper(x):\n    return x * 2\ndef fn(x):\n    return helper(x)", scope)

    def program(x, n):
        if n:
            exec(f"def helper(x):\n    return x * {n}", scope)
        return scope["fn"](x)

    check(recompiling(program), tensor(2), 3, graphs=None, others=[(tensor(2), 4), (tensor(2), 0)])


@checked(tensor(2), graphs=(0, 2))
def test_locals_and_globals(x):
    n = 2
    names = sorted(locals())
    return x + n, names, "tensor" in globals()


def test_get_of_functions_by_their_type():
    def method(self, x):
        return x + self

    def fn(x, n):
        def inner(self, x):
            return x * self

        get = type(method).__get__
        found = [get(method, n, int)(x), get(method, None, int)(n, x), get(inner, n)(x), inner.__get__(None, int)(n, x)]
        try:
            get(inner, None)
        except TypeError as error:
            found.append(str(error))
        return found

    check(fn, tensor(2), 3)


@checked(tensor(2), graphs=None)
def test_method_type_refuses_none_as_self(x):
    try:
        return types.MethodType(torch.sin, None)(x)
    except TypeError as error:
        return x + 1, str(error)


@checked(tensor(2), [1, 2, 3])
def test_a_comprehension_and_a_variable_of_one_name_that_closures_share(x, items):
    v = 7
    outer = lambda: v  # noqa: E731
    inner = [(lambda: v) for v in items]
    v += 1
    return [each() for each in inner], x * outer(), [v for v in items], outer()


@checked(tensor(2), [1, 2, 3])
def test_a_comprehension_leaves_no_variable_for_closures(x, items):
    inner = [(lambda: v) for v in items]
    try:
        x = x + v  # noqa: F821
    except NameError:
        x = x * 2
    for v in items[:2]:
        x = x + v
    return [each() for each in inner], x


@checked(tensor(2), [1, 2, 3])
def test_a_comprehension_that_raises_over_a_variable_that_closures_share(x, items):
    v = 7
    outer = lambda: v  # noqa: E731
    try:
        inner = [((lambda: v), 1 // (v - 3)) for v in items]
    except ZeroDivisionError:
        inner = []
    v += 1
    return inner, x * outer()


def shares_a_free_variable(x, items):
    v = 5

    def inner(x):
        functions = [(lambda: v) for v in items]
        return [each() for each in functions], x + v  # 3.12.1 takes the comprehension's, which we follow

    return inner(x), inner


@checked(tensor(2), [1, 2, 3])
def test_a_comprehension_and_a_free_variable_of_one_name(x, items):
    return shares_a_free_variable(x, items)[0]


@checked(tensor(2), [1, 2, 3])
def test_a_function_with_a_comprehension_and_a_free_variable_of_one_name(x, items):
    return shares_a_free_variable(x, items)[1](x * 2)


@checked(tensor(2), operators=1)
def test_a_nested_function_gets_its_code_under_another_name(x):
    def inner(y):
        """Doubles y."""
        return y * 2, factor

    factor = 3
    inner.__code__ = inner.__code__.replace(co_name="renamed", co_qualname="renamed")
    return inner(x), inner.__name__, inner.__doc__, inner.__code__.co_name, inner.__qualname__


def test_a_function_with_replaced_code_is_returned():
    def fn(x):
        def inner(y):
            return y * 2

        inner.__code__ = inner.__code__.replace(co_name="renamed")
        return x + 1, inner

    _, inner = dl.compile(fn, backend="eager", fullgraph=True)(tensor(2))
    assert (inner.__name__, inner.__code__.co_name, inner(3)) == ("inner", "renamed", 6)


@checked(tensor(2), operators=1)
def test_code_with_other_free_variables_is_refused(x):
    def inner():
        return x

    def other():
        return 3

    try:
        other.__code__ = inner.__code__
    except ValueError as error:
        return x + 1, str(error), other()


def test_statements_on_one_line_and_a_lambda_that_yields():
    scope = {"torch": torch}
    source = "def fn(x):\n    a = 1; b = 2; c = a if b else x\n    return (lambda: (yield))().gi_code.co_name, x + c\n"
    exec(source, scope)
    check(scope["fn"], tensor(2), graphs=(0, 2))


def _counter():
    count = 0

    def get():
        return count

    def set_to(value):
        nonlocal count
        count = value

    return get, set_to


@checked(tensor(2), graphs=1)
@built
def test_contents_of_a_closure_are_read():
    get, set_to = _counter()
    set_to(3)

    def fn(x):
        cells = get.__closure__
        named = dict(zip(get.__code__.co_freevars, (cell.cell_contents for cell in cells)))
        return x * named["count"], cells is get.__closure__, cells[0] is set_to.__closure__[0], len(cells)

    return fn


@checked(tensor(2), graphs=1)
@built
@recompiling
def test_contents_of_a_closure_are_written():
    get, _ = _counter()

    def fn(x):
        get.__closure__[0].cell_contents += 1
        return x * get(), get.__closure__[0].cell_contents

    return fn


@checked(tensor(2), graphs=1)
@built
def test_an_empty_cell_is_read():
    get, _ = _counter()
    del get.__closure__[0].cell_contents

    def fn(x):
        try:
            return x * get.__closure__[0].cell_contents
        except ValueError as error:
            return x + 1, str(error)

    return fn


@checked(tensor(2), graphs=1)
@built
def test_cells_are_values_of_variables():
    """Such a variable is no cell variable of the frame."""
    get, set_to = _counter()
    set_to(4)

    def fn(x):
        try:
            for cell in get.__closure__:
                x = x * cell.cell_contents
            first = cell
        except NameError:
            return x, None
        return x, first

    return fn
