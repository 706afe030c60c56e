"""assemble: the assembled code runs as written, for any jumps, names and constants."""

from __future__ import annotations

import math
import struct
import sys
import types

import pytest

from bytecode_checks import copy, disassemble, verify_code
from dynamo_lite.bytecode import BytecodeError, assemble, decode, emit

PY312 = sys.version_info >= (3, 12)


def again(function):
    """Returns a function whose code was decoded and assembled again."""
    code = assemble(copy(decode(function.__code__)), like=function.__code__)
    verify_code(code)
    return types.FunctionType(code, function.__globals__, "made", function.__defaults__, function.__closure__)


def template(n, m=2):
    return n


def run(instructions, *args):
    code = assemble(instructions, like=template.__code__)
    verify_code(code)
    return types.FunctionType(code, globals(), "made", template.__defaults__)(*args)


def test_constants_are_told_apart_by_type_and_bits():
    odd_nan = struct.unpack("d", struct.pack("Q", 0x7FF8_0000_0000_0001))[0]
    values = [
        0,
        0.0,
        -0.0,
        False,
        0j,
        complex(0, -0.0),
        complex(-0.0, 0),
        1,
        1.0,
        True,
        math.nan,
        odd_nan,
        "",
        b"",
        None,
    ]
    values += [(0,), (0.0,), (-0.0,), (False,), ((0,), 0), ((0.0,), 0), ...]
    unhashable = [[], {}, [], bytearray(), int, len, template]
    body = [emit.make("RESUME", 0), *map(emit.load_const, values + unhashable)]
    body += [emit.make("BUILD_TUPLE", len(values + unhashable)), emit.return_value()]
    result = run(body, 1)
    for wanted, got in zip(values + unhashable, result, strict=True):
        assert type(got) is type(wanted) and repr(got) == repr(wanted)
        assert not isinstance(wanted, float) or struct.pack("d", wanted) == struct.pack("d", got)
    assert all(got is wanted for got, wanted in zip(result[len(values) :], unhashable, strict=True))


def test_equal_constants_share_a_place_and_the_first_is_kept():
    def documented(x):
        "The docstring."
        return x

    body = [emit.make("RESUME", 0), *(emit.load_const(k) for k in (700, 700, (7, "a"), (7, "a")))]
    code = assemble([*body, emit.make("BUILD_TUPLE", 4), emit.return_value()], like=documented.__code__)
    assert code.co_consts == ("The docstring.", 700, (7, "a"))
    assert types.FunctionType(code, {}).__doc__ == "The docstring."


def test_unused_names_go_and_new_ones_come_after():
    body = [emit.make("RESUME", 0), emit.load_const(4), emit.store_fast("fresh"), emit.load_fast("fresh")]
    code = assemble([*body, emit.return_value()], like=again.__code__)
    assert code.co_varnames == ("function", "fresh") and code.co_names == () and code.co_nlocals == 2


def test_parameters_of_every_kind():
    def every(a, /, b, *rest, c, d, **more):
        return a, b, c, d, rest, more

    names = ["a", "b", "c", "d", "rest", "more"]
    body = [emit.make("RESUME", 0), *map(emit.load_fast, names), emit.make("BUILD_TUPLE", 6), emit.return_value()]
    code = assemble(body, like=every.__code__)
    assert (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_name) == (2, 1, 2, "every")
    function = types.FunctionType(code, {})
    assert function(1, 2, 3, 4, d=5, c=6, e=7) == (1, 2, 6, 5, (3, 4), {"e": 7})
    with pytest.raises(TypeError):
        function(a=1, b=2, c=3, d=4)
    positional = types.FunctionType(assemble(body, like=every.__code__, argnames=names), {})
    assert positional(1, 2, 3, 4, rest=5, more=6) == (1, 2, 3, 4, 5, 6)


def test_an_argument_may_be_a_cell_and_a_cell_become_free():
    def counter(n):
        def step():
            nonlocal n
            n += 1
            return n

        return step

    step = again(counter)(3)
    assert (step(), step()) == (4, 5)
    body = [*emit.prologue(1), emit.make("LOAD_DEREF", "n"), emit.load_closure("n"), emit.make("BUILD_TUPLE", 2)]
    code = assemble([*body, emit.return_value()], like=counter.__code__, argnames=("k",), cellvars=(), freevars=("n",))
    verify_code(code)
    value, cell = types.FunctionType(code, {}, closure=step.__closure__)(0)
    assert value == 5 and cell is step.__closure__[0]


def test_own_cells_beside_free_ones():
    cells = [emit.make("MAKE_CELL", "n"), emit.make("MAKE_CELL", "own")]
    body = [emit.make("COPY_FREE_VARS", 1), *cells, emit.make("RESUME", 0)]
    body += [emit.load_const(1), emit.make("STORE_DEREF", "own")]
    body += [
        emit.make("LOAD_DEREF", "own"),
        emit.make("LOAD_DEREF", "n"),
        emit.make("LOAD_DEREF", "free"),
        emit.make("BUILD_TUPLE", 3),
    ]
    code = assemble(
        [*body, emit.return_value()],
        like=template.__code__,
        argnames=("n",),
        cellvars=("own", "n"),
        freevars=("free",),
    )
    verify_code(code)
    assert types.FunctionType(code, {}, closure=(types.CellType("f"),))(2) == (1, 2, "f")


@pytest.mark.parametrize("captured", [False, True])
def test_a_comprehension_variable_of_a_free_variables_name(captured):
    def outside():
        x = 5

        def plain():
            inside = [x for x in range(3)]
            return inside, x

        def inner_cell():
            inside = [lambda: x for x in range(3)]
            return [f() for f in inside], x

        return inner_cell if captured else plain

    function = outside()
    made = again(function)
    assert disassemble(made.__code__) == disassemble(function.__code__)
    assert made.__code__.co_varnames == function.__code__.co_varnames, "a slot of its own"
    assert made() == outside()() == again(outside())()


@pytest.mark.skipif(PY312, reason="conditional jumps only go forward")
@pytest.mark.parametrize(
    ("jump", "goes_on", "stops"),
    [
        (emit.jump_if_true, 1, 0),
        (emit.jump_if_false, [], "x"),
        (emit.jump_if_not_none, 0, None),
    ],
)
def test_conditional_jumps_go_backward(jump, goes_on, stops):
    top = emit.load_fast("n")
    body = [emit.make("RESUME", 0), emit.load_const(0), emit.store_fast("t")]
    body += [top, emit.load_fast("t"), emit.binary_op("+"), emit.store_fast("t")]
    body += [emit.load_fast("n"), emit.load_const(1), emit.binary_op("-"), emit.store_fast("n")]
    body += [emit.load_const([stops, *[goes_on] * 4]), emit.load_fast("n"), emit.make("BINARY_SUBSCR"), jump(top)]
    body += [emit.load_fast("t"), emit.return_value()]
    for each in body:
        each.positions = (7, 7, 0, 1)
    assert run(body, 4) == 10
    code = assemble(body, like=template.__code__)
    assert {position[0] for position in code.co_positions()} == {7}


def test_comparisons_keep_what_specialised_forms_look_at():
    source = "lambda a, b: (a < b, a <= b, a == b, a != b, a > b, a >= b)"
    compiled = eval(source).__code__
    wanted = {each.argval: each.arg for each in decode(compiled) if each.opname == "COMPARE_OP"}
    for symbol, arg in wanted.items():
        body = [emit.make("RESUME", 0), emit.load_fast("n"), emit.load_fast("m"), emit.make("COMPARE_OP", symbol)]
        code = assemble([*body, emit.return_value()], like=template.__code__)
        assert [each.arg for each in decode(code) if each.opname == "COMPARE_OP"] == [arg]
        function, reference = types.FunctionType(code, {}), eval(f"lambda n, m: n {symbol} m")
        for pair in ((1, 2), (2, 1), (2, 2), (1.0, math.nan), ("a", "b")):
            for _ in range(40):  # warm enough to specialise
                assert function(*pair) == reference(*pair)


def test_handlers_keep_their_ranges_when_code_moves():
    def guarded(x):
        try:
            return 1 // x
        except ZeroDivisionError:
            return "zero"

    body = copy(decode(guarded.__code__))
    at = next(each.index for each in body if each.handler is not None)
    inside = [emit.load_const(k) if k % 2 else emit.pop_top() for k in range(1, 601)]
    for each in inside:
        each.handler = body[at].handler
    code = assemble([*body[:at], *inside, *body[at:]], like=guarded.__code__)
    verify_code(code)
    function = types.FunctionType(code, guarded.__globals__)
    assert function(0) == "zero" and function(1) == 1
    with pytest.raises(TypeError):
        function(None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda: [], "no instructions"),
        (lambda: [emit.load_const(1)], "falls off the end"),
        (lambda: [emit.pop_top(), emit.return_value()], "takes more"),
        (lambda: [emit.jump(emit.pop_top())], "not there"),
        (lambda: [emit.make("JUMP_FORWARD")], "jumps nowhere"),
        (lambda: [emit.make("LOAD_DEREF", "nobody"), emit.return_value()], "neither a cell nor a free variable"),
        (lambda: [emit.make("BUILD_LIST"), emit.return_value()], "lacks its argument"),
        (lambda: [emit.load_const(1)] * 2 + [emit.return_value()], "comes twice"),
    ],
)
def test_invalid_input_of_assemble_is_refused(body, said):
    with pytest.raises(BytecodeError, match=said):
        assemble(body(), like=template.__code__)


def test_duplicate_names_are_refused():
    body = [emit.make("RESUME", 0), emit.load_const(1), emit.return_value()]
    for shape in ({"argnames": ("a", "a")}, {"freevars": ("a", "a")}, {"cellvars": ("a", "a")}):
        with pytest.raises(BytecodeError, match="a name comes twice"):
            assemble(body, like=template.__code__, **shape)
