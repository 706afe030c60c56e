"""What an instruction does, for those who don't know opcodes: predicates, independent of the CPython version."""

from __future__ import annotations

import dis
import itertools
import types
from collections.abc import Container, Sequence

from .instructions import ITERATOR_SIZE, Instruction

_STORES_LOCAL, _DELETES_LOCAL = "STORE_FAST", "DELETE_FAST"
_STORES_CELL = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_STORES_GLOBAL = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_STORES_GLOBAL_CODES = frozenset(dis.opmap[name] for name in _STORES_GLOBAL)
_FAILS_ON_EMPTY_CELL = frozenset({"LOAD_DEREF", "DELETE_DEREF"})
_LOADS_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})


# -- variables ---------------------------------------------------------------------------------------------------------


def names_local(instruction: Instruction, name: str) -> bool:
    """Whether it is on this local variable."""
    return instruction.argval == name and "FAST" in instruction.opname


def stored_local(instruction: Instruction) -> str | None:
    """The local variable that it assigns to."""
    return instruction.argval if instruction.opname == _STORES_LOCAL else None


def deleted_local(instruction: Instruction) -> str | None:
    """The local variable that it unbinds."""
    return instruction.argval if instruction.opname == _DELETES_LOCAL else None


def assigns_cell(instruction: Instruction) -> bool:
    """Whether it assigns to a variable in a cell, or unbinds it."""
    return instruction.opname in _STORES_CELL


def fails_on_empty_cell(instruction: Instruction) -> bool:
    """Whether it raises if its cell is empty."""
    return instruction.opname in _FAILS_ON_EMPTY_CELL


def loads_global(instruction: Instruction) -> bool:
    """Whether it loads a global variable, or a name of a module's or a class's body."""
    return instruction.opname in _LOADS_GLOBAL


def assigns_global(instruction: Instruction) -> bool:
    """Whether it assigns to a global variable, or unbinds it."""
    return instruction.opname in _STORES_GLOBAL


def may_assign_global(code: types.CodeType) -> bool:
    """Whether code may have an instruction that `assigns_global`, without decoding it."""
    return not _STORES_GLOBAL_CODES.isdisjoint(code.co_code[::2])


def assigns_attribute(instruction: Instruction) -> bool:
    return instruction.opname == "STORE_ATTR"


def writes_outside(instruction: Instruction) -> bool:
    """Whether it writes a variable outside of its frame, or an attribute, deletes an item, or imports."""
    others = ("STORE_ATTR", "DELETE_ATTR", "DELETE_SUBSCR", "IMPORT_NAME")
    return assigns_cell(instruction) or assigns_global(instruction) or instruction.opname in others


def stores_item(instruction: Instruction) -> bool:
    return instruction.opname == "STORE_SUBSCR"


# -- calls and operators -----------------------------------------------------------------------------------------------

_CALL = "CALL"
_LEAVES_VALUE = frozenset(
    """CALL CALL_FUNCTION_EX FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE BUILD_STRING LOAD_ATTR
    LOAD_METHOD GET_ITER UNARY_NEGATIVE UNARY_NOT UNARY_INVERT UNARY_POSITIVE BINARY_OP BINARY_SUBSCR BINARY_SLICE
    COMPARE_OP CONTAINS_OP IS_OP""".split()
)
_LEAVES_NOTHING = frozenset("STORE_ATTR DELETE_ATTR STORE_SUBSCR DELETE_SUBSCR STORE_SLICE".split())
_NEEDS_NUMBER = frozenset("BINARY_SUBSCR CONTAINS_OP GET_ITER IS_OP TO_BOOL UNARY_NOT".split())
_NEEDS_NUMBER_PREFIXES = ("JUMP_IF_", "UNPACK_")


def is_call(instruction: Instruction) -> bool:
    """Whether it is a call with its arguments on the stack."""
    return instruction.opname == _CALL


def is_any_call(instruction: Instruction) -> bool:
    """Whether it is a call, of which the result replaces the NULL beside the callable, too."""
    return is_call(instruction) or instruction.opname == "CALL_FUNCTION_EX"


def loads_method(instruction: Instruction) -> bool:
    """Whether it loads a method: an attribute and a NULL."""
    name = instruction.opname
    return name == "LOAD_METHOD" or (name in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and instruction.flag)


def pushes_null(instruction: Instruction) -> bool:
    """Whether it pushes a value and a NULL beside it: a method, a global that is called or, from 3.15 on, an
    iterator."""
    if makes_iterator(instruction):
        return ITERATOR_SIZE > 1
    return loads_method(instruction) or (instruction.opname == "LOAD_GLOBAL" and instruction.flag)


def leaves_value(instruction: Instruction) -> bool:
    """Whether it pushes one value (and a NULL, see `pushes_null`), and means the same in any frame."""
    return instruction.opname in _LEAVES_VALUE


def leaves_nothing(instruction: Instruction) -> bool:
    """Whether it pushes nothing, and means the same in any frame."""
    return instruction.opname in _LEAVES_NOTHING


def needs_number(instruction: Instruction) -> bool:
    """Whether it needs to know a number on top of the stack, other than to pass it on, to compute with it, or to branch
    on it."""
    return instruction.opname in _NEEDS_NUMBER or instruction.opname.startswith(_NEEDS_NUMBER_PREFIXES)


# -- control flow ------------------------------------------------------------------------------------------------------

_DECIDES_HANDLER = frozenset({"CHECK_EXC_MATCH", "CHECK_EG_MATCH", "POP_EXCEPT", "RERAISE"})
_SETS_ERROR = frozenset({"RAISE_VARARGS", "RERAISE"})
_RAISES_NOTHING = frozenset({"RESUME", "JUMP_BACKWARD"})
_CONSTANTS = frozenset({"LOAD_CONST", "LOAD_COMMON_CONSTANT", "RETURN_CONST"})


def is_return(instruction: Instruction) -> bool:
    """Whether it returns the top of the stack."""
    return instruction.opname == "RETURN_VALUE"


def tests_truth(instruction: Instruction) -> bool:
    """Whether it pops a value and jumps by its truth."""
    return instruction.opname.startswith("POP_JUMP_") and instruction.opname.endswith(("_IF_TRUE", "_IF_FALSE"))


def jumps_if_true(instruction: Instruction) -> bool:
    """Of one that `tests_truth`: whether it jumps for a true value."""
    return instruction.opname.endswith("_TRUE")


def makes_iterator(instruction: Instruction) -> bool:
    """Whether it replaces the top of the stack by an iterator over it."""
    return instruction.opname == "GET_ITER"


def takes_item(instruction: Instruction) -> bool:
    """Whether it pushes an iterator's next item, or pops the iterator and jumps."""
    return instruction.opname == "FOR_ITER"


def ends_loop(instruction: Instruction) -> bool:
    """Whether it is where a loop jumps to that has ended, which the evaluator skips."""
    return instruction.opname == "END_FOR"


def reraises(instruction: Instruction) -> bool:
    """Whether it raises the handled exception again."""
    return instruction.opname == "RERAISE"


def enters_with(instruction: Instruction) -> bool:
    """Whether it enters a ``with`` block."""
    return instruction.opname == "BEFORE_WITH"


def leaves_with(instruction: Instruction) -> bool:
    """Whether it calls the ``__exit__`` of a ``with`` block for an exception."""
    return instruction.opname == "WITH_EXCEPT_START"


def matches_exception(instruction: Instruction) -> bool:
    """Whether it tests the exception for an ``except`` clause."""
    return instruction.opname == "CHECK_EXC_MATCH"


def decides_handler(instruction: Instruction) -> bool:
    """Whether it tests the exception, ends its handling, or raises it again."""
    return instruction.opname in _DECIDES_HANDLER


def sets_error(code: types.CodeType, offset: int) -> bool:
    """Whether the instruction at this offset raises an exception of the program's."""
    return dis.opname[code.co_code[offset]] in _SETS_ERROR


def raises_nothing(code: types.CodeType, offset: int) -> bool:
    """Whether the instruction at this offset raises only what another thread has set."""
    return dis.opname[code.co_code[offset]] in _RAISES_NOTHING


def returns_only(code: types.CodeType, constants: Container[object]) -> bool:
    """Whether code returns nothing but these constants."""
    instructions: Sequence[dis.Instruction] = [*dis.get_instructions(code)]
    if any(each.opname == "RETURN_VALUE" and each.is_jump_target for each in instructions):
        return False  # `return self.found or None`: what is returned depends on where the jump came from
    results = [each for each in instructions if each.opname == "RETURN_CONST"]
    results += [one for one, after in itertools.pairwise(instructions) if after.opname == "RETURN_VALUE"]
    return all(each.opname in _CONSTANTS and each.argval in constants for each in results)


# -- as text -----------------------------------------------------------------------------------------------------------

_OF_THE_EVALUATOR = frozenset({"RESUME", "PUSH_NULL", "PRECALL", "NOP", "NOT_TAKEN"})


def is_noise(instruction: dis.Instruction) -> bool:
    """Whether it says nothing to a reader of the program."""
    return instruction.opname in _OF_THE_EVALUATOR


def loads_constant(instruction: dis.Instruction) -> bool:
    return instruction.opname == "LOAD_CONST"
