"""stack_depths, drop_unreachable and the verifiers: invalid code is refused with a reason."""

from __future__ import annotations

import dis
import sys

import pytest

from bytecode_checks import copy, verify_code
from dynamo_lite.bytecode import (
    BytecodeError,
    Handler,
    assemble,
    decode,
    drop_unreachable,
    effect,
    emit,
    linetable,
    stack_depths,
    successors,
    verify,
)
from dynamo_lite.bytecode.instructions import EXIT_SIZE, ITERATOR_SIZE
from dynamo_lite.bytecode.stack_depth import stack_size

PY312 = sys.version_info >= (3, 12)


def program(xs, n=1):
    with open(n) as file:
        try:
            for x in xs:
                file.write(f"{x}", end=n)
                if x and n:
                    return [*xs, x]
        except (OSError, ValueError) as error:
            raise RuntimeError from error
        finally:
            del n


def depths_of(function):
    return stack_depths(decode(function.__code__))


def depth_at(function, opname, which=0):
    return [depth for each, depth in depths_of(function).items() if each.opname == opname][which]


def body():
    return copy(decode(program.__code__))


def test_depths_of_a_loop_and_a_handler():
    def f(xs):
        for x in xs:
            try:
                x()
            except ValueError:
                pass

    handler = next(each.handler for each in decode(f.__code__) if each.handler)
    assert handler.depth == ITERATOR_SIZE
    assert depths_of(f)[handler.target] == ITERATOR_SIZE + 1
    assert depth_at(f, "FOR_ITER") == ITERATOR_SIZE
    loop = next(each for each in decode(f.__code__) if each.opname == "FOR_ITER")
    assert effect(loop, jump=False) == 1
    assert depths_of(f)[loop.target] == (ITERATOR_SIZE + 1 if PY312 else 0), (
        "END_FOR takes what the evaluator never makes"
    )


def test_a_generator_starts_with_what_is_sent():
    def f():
        yield 1

    assert depth_at(f, "RETURN_GENERATOR") == 0
    assert depth_at(f, "POP_TOP") == 1


def test_flags_push_one_more():
    null = emit.make("LOAD_GLOBAL", "f")
    null.flag = True
    assert (effect(null, False), effect(emit.make("LOAD_GLOBAL", "f"), False)) == (2, 1)
    assert effect(emit.make("LOAD_ATTR", "a"), False) == 0
    if PY312:
        method, named = emit.make("LOAD_ATTR", "a"), emit.make("LOAD_SUPER_ATTR", "a")
        method.flag = named.flag2 = True
        assert (effect(method, False), effect(named, False)) == (1, -2)
        named.flag = True
        assert effect(named, False) == -1
    null.flag = False
    assert effect(null, False) == 1, "the flag counts, not the number that was decoded"


def test_successors():
    def f(a):
        return 1 if a else 2

    instructions = decode(f.__code__)
    jump = next(each for each in instructions if each.target is not None)
    after = instructions[jump.index + 1]
    assert successors(jump, after) == [after, jump.target]
    assert successors(instructions[-1], None) == []
    assert successors(emit.jump(after), jump) == [after]


def test_unreachable_instructions_are_dropped():
    end = emit.return_value()
    dead = [emit.load_const(1), emit.pop_top()]
    handler = [emit.make("RERAISE", 0)]
    live = [emit.make("RESUME", 0), emit.load_const(2), emit.jump(end)]
    live[1].handler = Handler(handler[0], 0, False)
    assert drop_unreachable([*live, *dead, *handler, end]) == [*live, *handler, end]
    assert drop_unreachable([]) == []


def test_dropped_instructions_are_unreachable():
    """All instructions from the loop on are kept. The prologue and the block's entry aren't."""
    instructions = body()
    loop = next(each for each in instructions if each.opname == "FOR_ITER")
    nulls = [emit.push_null() for _ in range(EXIT_SIZE - 1)]
    iterator = [emit.load_const(iter(())), *(emit.push_null() for _ in range(ITERATOR_SIZE - 1))]
    start = [emit.load_const(print), *nulls, *iterator, emit.jump(loop)]
    kept = drop_unreachable([*start, *instructions])
    assert loop in kept and instructions[0] not in kept
    assert "BEFORE_WITH" not in {each.opname for each in kept}
    assert "WITH_EXCEPT_START" in {each.opname for each in kept}, "reached through the exception table"
    verify_code(assemble(kept, like=program.__code__))


def test_a_stack_covers_its_handlers():
    landing = emit.make("RERAISE", 1)
    covered = emit.make("NOP")
    covered.handler = Handler(landing, 2, True)
    instructions = [*map(emit.load_const, (1, 2)), covered, emit.return_value(), landing]
    code = assemble(instructions, like=depths_of.__code__)
    assert code.co_stacksize == 4, "two values, the offset, the exception"


# -- broken code -----------------------------------------------------------------------------------------------


def refused(instructions, said):
    with pytest.raises(BytecodeError, match=said):
        verify(instructions)


def test_verifier_accepts_valid_code():
    depths = verify(body())
    assert stack_size(depths) == program.__code__.co_stacksize


def test_verifier_rejects_paths_with_different_depths():
    end = emit.return_value()
    refused(
        [emit.load_const(1), emit.load_const(2), emit.jump_if_true(end), emit.load_const(3), end],
        "is reached with (1 and with 2|2 and with 1) values",
    )


def test_verifier_rejects_a_missing_instruction():
    instructions = body()
    at = next(each.index for each in instructions if each.opname == "POP_TOP")
    refused(instructions[:at] + instructions[at + 1 :], "values on the stack")


def test_verifier_rejects_a_jump_out_of_the_code():
    instructions = body()
    jump = next(each for each in instructions if each.target is not None)
    jump.target = emit.make("NOP")
    refused(instructions, "jumps to an instruction that is not there")


def test_verifier_rejects_invalid_handlers():
    instructions = body()
    covered = next(each for each in instructions if each.handler is not None)
    row = covered.handler
    covered.handler = Handler(emit.make("NOP"), row.depth, row.lasti)
    refused(instructions, "handler that is not there")
    covered.handler = Handler(row.target, row.depth + 5, row.lasti)
    refused(instructions, "its handler wants|is reached with")


def test_verifier_rejects_invalid_operands():
    instructions = body()
    instructions[1].target = instructions[0]
    refused(instructions, "can't jump")
    wrong = emit.load_const(1)
    wrong.opcode = dis.opmap["NOP"]
    refused([wrong, emit.return_value()], "opcode of NOP")


@pytest.mark.skipif(not PY312, reason="END_FOR is new in 3.12")
def test_verifier_rejects_a_loop_that_does_not_end_at_end_for():
    instructions = body()
    loop = next(each for each in instructions if each.opname == "FOR_ITER")
    loop.target = instructions[loop.target.index + 1]
    refused(instructions, "must jump to an END_FOR")


def code_with(**changes):
    return program.__code__.replace(**changes)


def closure(n):
    return lambda: n


def no_first(function, opname):
    code = function.__code__
    instructions = copy(decode(code))
    at = next(each.index for each in instructions if each.opname == opname)
    return assemble(instructions[:at] + instructions[at + 1 :], like=code)


def jumping(distance):
    raw = bytes((dis.opmap["JUMP_FORWARD"], distance))
    return closure.__code__.replace(co_code=raw, co_linetable=linetable.build([(1, (1, 1, 0, 1))], 1))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (lambda: code_with(co_stacksize=1), "needs a stack of"),
        (lambda: code_with(co_consts=()), "out of range"),
        (lambda: code_with(co_names=()), "out of range"),
        (lambda: code_with(co_exceptiontable=program.__code__.co_exceptiontable * 2), "out of order"),
        (lambda: code_with(co_code=program.__code__.co_code[:-2]), "falls off|no instruction begins"),
        (lambda: jumping(9), "no instruction begins"),
        (lambda: jumping(0), "no instruction begins"),
        (lambda: no_first(closure(1), "COPY_FREE_VARS"), "copies 0 of 1 free variables"),
        (lambda: no_first(closure, "MAKE_CELL"), "a cell that is never made"),
    ],
)
def test_code_objects_that_would_crash(code, said):
    made = code()
    with pytest.raises(BytecodeError, match=said):
        verify_code(made)
