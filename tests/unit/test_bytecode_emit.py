"""Emitters: each has its documented effect on the running version."""

from __future__ import annotations

import types

import pytest

from bytecode_checks import verify_code
from dynamo_lite.bytecode import BINARY_OPS, BytecodeError, assemble, emit
from dynamo_lite.bytecode.instructions import END_FOR, ITERATOR_SIZE
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, INPLACE


def template(*args, **kwargs):
    return args, kwargs


def run(body, a=None, b=None, **scope):
    """Runs ``body``, which has its arguments in ``a`` and ``b`` and leaves one value on the stack."""
    code = assemble([emit.make("RESUME", 0), *body, emit.return_value()], like=template.__code__, argnames=("a", "b"))
    verify_code(code)
    return types.FunctionType(code, {"__builtins__": __builtins__, **scope})(a, b)


A, B = lambda: emit.load_fast("a"), lambda: emit.load_fast("b")


def test_calls():
    assert run(emit.call_function(template)) == ((), {})
    assert run(emit.call_function(template, [[A()], [B()]]), 1, 2) == ((1, 2), {})
    assert run([*emit.callee([emit.load_const(template)]), A(), B(), *emit.call(2, ("k",))], 1, 2) == ((1,), {"k": 2})
    assert run(emit.call_function(lambda x: x + 1, [[A()]]), 1) == 2


@pytest.mark.parametrize("symbol", BINARY_OPS)
def test_binary_operators(symbol):

    class Value:
        def __getattribute__(self, name):
            raise AssertionError("operators look at the type")

    def method(name):
        return lambda self, other: (name, other)

    plain = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "@": "matmul"}
    plain |= {"**": "pow", "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor"}
    for stem in plain.values():
        setattr(Value, f"__{stem}__", method(stem))
        setattr(Value, f"__i{stem}__", method("i" + stem))
    value = Value()
    inplace, plain_symbol = symbol.endswith("="), symbol.rstrip("=")
    function = (INPLACE if inplace else BINARY)[plain_symbol]
    wanted = ("i" * inplace + plain[plain_symbol], 5)
    assert run([A(), B(), emit.binary_op(symbol)], value, 5) == function(value, 5) == wanted


@pytest.mark.parametrize("symbol", sorted(COMPARE))
def test_comparisons(symbol):
    for pair in ((1, 2), (2, 1), (2, 2)):
        assert run([A(), B(), emit.make("COMPARE_OP", symbol)], *pair) is COMPARE[symbol](*pair)
        assert run([A(), B(), emit.make("COMPARE_OP", symbol)], *pair) is eval(f"{pair[0]} {symbol} {pair[1]}")


def test_containers_and_items():
    assert run([A(), B(), emit.make("BUILD_TUPLE", 2)], 1, 2) == (1, 2)
    assert run([A(), B(), emit.make("BUILD_LIST", 2)], 1, 2) == [1, 2]
    assert run([A(), B(), emit.make("BUILD_SET", 2)], 1, 2) == {1, 2}
    assert run([A(), B(), emit.make("BUILD_MAP", 1)], 1, 2) == {1: 2}
    assert run([A(), emit.make("UNPACK_SEQUENCE", 2), emit.make("BUILD_TUPLE", 2)], (1, 2)) == (2, 1)
    assert run([A(), B(), emit.make("BINARY_SUBSCR")], {"k": 3}, "k") == 3
    held = {"old": 1}
    assert run([emit.load_const(7), A(), B(), emit.make("STORE_SUBSCR"), A()], held, "new") == {"old": 1, "new": 7}


@pytest.mark.parametrize("items", [[1, 2], (3,), {4: 5}, "ab", iter([6, 7])])
def test_iterator_takes_items_until_the_end(items):
    """A loop over the result of `emit.iterator` adds its items to a list. It has the form of the compiler's loops."""
    found = []
    start, end = emit.make("FOR_ITER"), emit.end_of_loop() if END_FOR is not None else emit.landing()
    start.target = end
    body = [emit.store_fast("item"), emit.load_const(found.append), emit.store_fast("add")]
    body += [*emit.callee([emit.load_fast("add")]), emit.load_fast("item"), *emit.call(1), emit.pop_top()]
    nulls = [emit.push_null()] * (ITERATOR_SIZE - 1)
    assert run([A(), *emit.iterator(), *nulls, start, *body, emit.jump(start), end, B()], items, "end") == "end"
    assert found == [*items] if hasattr(items, "__len__") else found == [6, 7]


def test_iterator_of_a_non_iterable_raises():
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        run([A(), *emit.iterator()], 5)


def test_names_and_attributes():
    holder = types.SimpleNamespace(x=1)
    assert run([A(), emit.make("LOAD_ATTR", "x")], holder) == 1
    assert run([B(), A(), emit.make("STORE_ATTR", "y"), A(), emit.make("LOAD_ATTR", "y")], holder, 4) == 4
    assert run([A(), emit.store_fast("t"), emit.load_fast("t")], 9) == 9
    with pytest.raises(UnboundLocalError):
        check = emit.make("LOAD_FAST_CHECK", "a") if _has("LOAD_FAST_CHECK") else A()
        run([emit.delete_fast("a"), check], 9)


def _has(opname):
    try:
        emit.make(opname, "a")
    except BytecodeError:
        return False
    return True


def test_the_stack():
    def top_four(*moves):
        loads = [emit.load_const(k) for k in "wxyz"]
        return "".join(run([*loads, *moves, emit.make("BUILD_TUPLE", 4)]))

    assert top_four() == "wxyz"
    assert top_four(emit.swap()) == "wxzy"
    assert top_four(emit.swap(4)) == "zxyw"
    assert top_four(emit.pop_top(), emit.make("COPY", 1)) == "wxyy"
    assert top_four(emit.pop_top(), emit.make("COPY", 3)) == "wxyw"


@pytest.mark.parametrize(
    ("jump", "taken"),
    [
        (emit.jump_if_true, [1, "x", [0]]),
        (emit.jump_if_false, [0, "", None, []]),
        (emit.jump_if_not_none, [0, 1, "", "x", []]),
    ],
)
def test_conditional_jumps(jump, taken):
    for value in [0, 1, None, "", "x", []]:
        end = emit.make("NOP")
        there = emit.load_const("jumped")
        result = run([A(), jump(there), emit.load_const("went on"), emit.jump(end), there, end], value)
        assert result == ("jumped" if value in taken else "went on"), value


def test_emitters_refuse_unknown_operations():
    with pytest.raises(BytecodeError, match="no opcode LOAD_ROCKET"):
        emit.make("LOAD_ROCKET")
