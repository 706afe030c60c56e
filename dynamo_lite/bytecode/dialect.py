"""Translates between the instructions of the running CPython and the canonical ones, which other rooms read.

The canonical instructions are those of CPython 3.12 (of 3.11 on 3.11, where nothing is translated):

===================================================  ==========================================
3.13                                                 canonical
===================================================  ==========================================
``LOAD_FAST_LOAD_FAST`` and other fused ones         the two instructions
``LOAD_FAST`` of a cell's slot                       ``LOAD_CLOSURE``
``TO_BOOL`` before a conditional jump, UNARY_NOT     nothing: these test any object
``COMPARE_OP`` with bit 16 (the result is a bool)    ``COMPARE_OP``
``LOAD_CONST``, ``CALL_KW``                          ``KW_NAMES``, ``CALL``
``MAKE_FUNCTION``, ``SET_FUNCTION_ATTRIBUTE`` ...    ``MAKE_FUNCTION`` with flags
``END_FOR``, ``POP_TOP``                             ``END_FOR``, which pops two values
===================================================  ==========================================

===================================================  ==========================================
3.14                                                 canonical
===================================================  ==========================================
``LOAD_FAST_BORROW``, and pairs of it                ``LOAD_FAST``
``LOAD_SMALL_INT``, ``LOAD_COMMON_CONSTANT``         ``LOAD_CONST`` of the object
``BINARY_OP`` of ``[]``                              ``BINARY_SUBSCR``
``COPY``, ``LOAD_SPECIAL`` ... ``CALL`` (`_ENTERS`)  ``BEFORE_WITH``, which keeps two values
``PUSH_NULL``, ``CALL_FUNCTION_EX``                  ``CALL_FUNCTION_EX`` without keywords
``LOAD_GLOBAL`` with a NULL, ``CALL_FUNCTION_EX``    ``LOAD_GLOBAL``, the same
``POP_ITER``                                         ``POP_TOP``
``NOT_TAKEN``                                        nothing: it tells monitoring of a branch
===================================================  ==========================================

===================================================  ==========================================
3.15                                                 canonical
===================================================  ==========================================
``POP_ITER``, which pops two values                  ``POP_TOP``, ``POP_TOP``
===================================================  ==========================================

What is no translation is data in `instructions`: on which side of a callable its NULL stands, what an
iterator takes up, stack effects, shifts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType

from .instructions import (
    BORROWED_PAIR,
    CANONICAL_ONLY,
    COMMON_CONSTANTS,
    COMPARE_TO_BOOL,
    FUSED,
    ITERATOR_SIZE,
    OPMAP,
    OPNAMES,
    PY314,
    SUBSCRIPT,
    BytecodeError,
    Instruction,
    opcodes_of,
)

IS_TRANSLATED = bool(CANONICAL_ONLY)
"""Whether the running version has other instructions than the canonical ones."""

Unit = tuple[int, int, Instruction]
"""The opcode and argument of an instruction of the running version, and the canonical one that it is a part of."""

_TESTS = opcodes_of("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT")
"""What takes nothing but True and False, where the version has TO_BOOL."""
_LEAVES_BOOL = opcodes_of(
    *("COMPARE_OP", "IS_OP", "CONTAINS_OP", "UNARY_NOT", "TO_BOOL"),
    *("CHECK_EXC_MATCH", "MATCH_MAPPING", "MATCH_SEQUENCE"),
)
_FUSES = {parts: fused for fused, parts in FUSED.items() if fused != BORROWED_PAIR}
_FIRST_IN_PAIR = frozenset(first for first, _ in _FUSES)
_MOST_IN_PAIR = 15
"""The largest slot that a fused instruction can name."""
_ATTRIBUTES = (8, 16, 4, 2, 1)
"""Flags of MAKE_FUNCTION in the order in which their values are popped: closure, ``__annotate__``, annotations,
defaults."""


def _opcode(name: str) -> int:
    return OPMAP.get(name, -1)


_CALL, _CALL_KW, _KW_NAMES = _opcode("CALL"), _opcode("CALL_KW"), _opcode("KW_NAMES")
_COMPARE_OP, _TO_BOOL, _END_FOR, _POP_TOP = map(_opcode, ("COMPARE_OP", "TO_BOOL", "END_FOR", "POP_TOP"))
_LOAD_CONST, _LOAD_FAST, _LOAD_CLOSURE = map(_opcode, ("LOAD_CONST", "LOAD_FAST", "LOAD_CLOSURE"))
_LOAD_GLOBAL = _opcode("LOAD_GLOBAL")
_MAKE_FUNCTION, _SET_ATTRIBUTE = _opcode("MAKE_FUNCTION"), _opcode("SET_FUNCTION_ATTRIBUTE")
_NOP, _PUSH_NULL, _NOT_TAKEN = map(_opcode, ("NOP", "PUSH_NULL", "NOT_TAKEN"))
_BINARY_OP, _CALL_EX = _opcode("BINARY_OP"), _opcode("CALL_FUNCTION_EX")
_BINARY_SUBSCR = _opcode("BINARY_SUBSCR")
_SMALL_INT, _COMMON_CONSTANT = _opcode("LOAD_SMALL_INT"), _opcode("LOAD_COMMON_CONSTANT")
_SMALL_INTS = 256

_POPS_ITERATOR = _opcode("POP_ITER") if PY314 else _POP_TOP
_RENAMED = {_opcode("LOAD_FAST_BORROW"): _LOAD_FAST, _opcode("POP_ITER"): _POP_TOP} if PY314 else {}
_BRANCHES = frozenset(op for name, op in OPMAP.items() if PY314 and name.startswith("POP_JUMP_IF_"))
"""Jumps that a NOT_TAKEN follows."""

_ENTERS: dict[int, tuple[tuple[int, int], ...]] = {}
"""Canonical opcode -> its parts: it loads the methods of a context manager, and calls the one that enters it."""
if PY314:
    _copy, _swap, _special = map(_opcode, ("COPY", "SWAP", "LOAD_SPECIAL"))
    for _name, _leave, _enter in (("BEFORE_WITH", 1, 0), ("BEFORE_ASYNC_WITH", 3, 2)):
        _before, _after = ((_copy, 1), (_special, _leave), (_swap, 2), (_swap, 3)), ((_special, _enter), (_CALL, 0))
        _ENTERS[_opcode(_name)] = (*_before, *_after)
_IN_ENTER = 3
"""The highest stack depth of these instructions, relative to the depth before them."""


def targets_of(instructions: Sequence[Instruction]) -> set[Instruction]:
    """Where jumps and handlers lead to."""
    targets = {each.target for each in instructions if each.target is not None}
    rows = {id(each.handler): each.handler for each in instructions if each.handler is not None}
    return targets.union(row.target for row in rows.values())


# -- to canonical ones ---------------------------------------------------------------------------------------------


def to_canonical(found: list[Instruction], code: CodeType) -> list[Instruction]:
    """The canonical form of instructions of the running version, whose fused ones are split. Changes them in place.

    Raises:
        BytecodeError: a CALL_KW doesn't follow the names of its keywords.
    """
    targets = targets_of(found)
    closures = _cells_only(found, code)
    kept: list[Instruction] = []
    before: Instruction | None = None
    """The previous instruction of the running version."""
    for each in found:
        if each.opcode == _NOT_TAKEN:
            if each not in targets:
                continue
            _become(each, _NOP)
        pops_two = ITERATOR_SIZE > 1 and each.opcode == _POPS_ITERATOR
        if PY314:
            _rename(each)
        if each in targets or before is None or not _absorb(kept, before, each, targets):
            if each.opcode == _LOAD_FAST and each.arg in closures:
                _become(each, _LOAD_CLOSURE)
                each.flag = each.arg >= closures.stop - len(code.co_freevars)
            elif each.opcode == _CALL_KW:
                if before is None or before.opcode != _LOAD_CONST or each in targets:
                    raise BytecodeError("a CALL_KW doesn't follow the names of its keywords")
                _become(before, _KW_NAMES)
                _become(each, _CALL)
            each.index = len(kept)
            kept.append(each)
            if pops_two:
                second = each.copy()
                second.index = len(kept)
                kept.append(second)
        before = each
    return kept


class _Slots(set[int]):
    """Slots from which LOAD_FAST loads the cell itself. ``stop``: the number of all slots."""

    stop = 0


def _cells_only(found: Sequence[Instruction], code: CodeType) -> _Slots:
    """Slots that hold a cell wherever LOAD_FAST loads them. In a slot that a comprehension's own variable of the same
    name takes for a while, which of the two is loaded is known only when the instruction runs."""
    local, cells = code.co_varnames, code.co_cellvars
    apart = [name for name in cells if name not in local]
    slots = _Slots(range(len(local), len(local) + len(apart) + len(code.co_freevars)))
    slots.stop = len(local) + len(apart) + len(code.co_freevars)
    shared = {each.argval for each in found if each.opname == "LOAD_FAST_AND_CLEAR"}
    slots.update(at for at, name in enumerate(local) if name in cells and name not in shared)
    return slots


def _become(each: Instruction, opcode: int) -> None:
    each.opcode, each.opname = opcode, OPNAMES[opcode]


def _rename(each: Instruction) -> None:
    """Give an instruction of 3.14 its older name."""
    op = each.opcode
    if op in _RENAMED:
        _become(each, _RENAMED[op])
    elif op == _SMALL_INT:
        _become(each, _LOAD_CONST)
    elif op == _COMMON_CONSTANT:
        _become(each, _LOAD_CONST)
        each.argval = COMMON_CONSTANTS[each.arg]
    elif op == _BINARY_OP and each.arg == SUBSCRIPT:
        _become(each, _BINARY_SUBSCR)
        each.arg, each.argval = 0, None
    elif op == _CALL_EX:
        each.arg = each.argval = 1


def _absorb(kept: list[Instruction], before: Instruction, each: Instruction, targets: set[Instruction]) -> bool:
    """Make an instruction a part of the canonical one before it, if it is."""
    last = kept[-1]
    if last.opcode == _PUSH_NULL and each.opcode == _CALL_EX:
        _become(last, _CALL_EX)
        last.arg = last.argval = 0
        last.positions = each.positions
        return True
    if PY314 and each.opcode == _CALL_EX and last.opcode == _LOAD_GLOBAL and last.flag:
        last.flag = False  # the NULL that it pushes stands for the keywords
        each.arg = each.argval = 0
        return False
    if PY314 and each.opcode == _CALL and _ends_enter(kept, each, targets):
        return True
    if last.opcode == _TO_BOOL and each.opcode in _TESTS:
        _become(last, each.opcode)
        last.arg, last.argval, last.target = each.arg, each.argval, each.target
        return True
    if each.opcode == _SET_ATTRIBUTE and last.opcode == _MAKE_FUNCTION:
        last.arg |= each.arg
        last.argval = last.arg
        return True
    return each.opcode == _POP_TOP and before.opcode == _END_FOR


def _ends_enter(kept: list[Instruction], each: Instruction, targets: set[Instruction]) -> bool:
    """Make the parts that end with this CALL one instruction, if they are those of `_ENTERS`."""
    for opcode, parts in _ENTERS.items():
        found = kept[1 - len(parts) :]
        if [*((part.opcode, part.arg) for part in found), (each.opcode, each.arg)] == [*parts]:
            first, *rest = found
            if targets.isdisjoint(rest):
                del kept[1 - len(parts) + 1 :]
                _become(first, opcode)
                first.arg, first.argval = 0, None
                return True
    return False


# -- to those of the running version ---------------------------------------------------------------------------------


def immediate(value: object) -> tuple[int, int] | None:
    """The opcode and argument that push this constant without a place among the code's constants."""
    if not PY314:
        return None
    if type(value) is int and 0 <= value < _SMALL_INTS:
        return _SMALL_INT, value
    for at, constant in enumerate(COMMON_CONSTANTS):
        if value is constant:
            return _COMMON_CONSTANT, at
    return None


def lower(instructions: Sequence[Instruction], args: Sequence[int]) -> list[Unit]:
    """The instructions of the running version for canonical ones with these arguments."""
    if not IS_TRANSLATED:
        return [(each.opcode, arg, each) for each, arg in zip(instructions, args, strict=True)]
    targets = targets_of(instructions)
    units: list[Unit] = []
    last = -1
    """The opcode of the previous canonical instruction; -1 if others jump to this one."""
    for at, (each, arg) in enumerate(zip(instructions, args, strict=True)):
        follower = instructions[at + 1] if at + 1 < len(instructions) else None
        is_tested = follower is not None and follower.opcode in _TESTS and follower not in targets
        last = -1 if each in targets else last
        if each.opcode == _CALL_EX and last == _LOAD_GLOBAL and not arg and PY314:
            load, name, before = units[-1]
            units[-1] = load, name | 1, before
            arg = 1
        short = immediate(each.argval) if PY314 and each.opcode == _LOAD_CONST else None
        for opcode, value in _parts(each.opcode, arg, last, is_tested) if short is None else (short,):
            fused = None
            if units and last in _FIRST_IN_PAIR:
                fused = _fused(units[-1], opcode, value, each)
            if fused is None:
                units.append((opcode, value, each))
            else:
                units[-1] = fused
        last = each.opcode
    return units


def _parts(opcode: int, arg: int, last: int, is_tested: bool) -> Iterator[tuple[int, int]]:
    """The parts of a canonical instruction. ``last``: as in `lower`. ``is_tested``: the next one tests the result."""
    if opcode in _TESTS and last not in _LEAVES_BOOL:
        yield _TO_BOOL, 0
    if opcode == _KW_NAMES:
        yield _LOAD_CONST, arg
    elif opcode == _CALL and last == _KW_NAMES:
        yield _CALL_KW, arg
    elif opcode == _LOAD_CLOSURE:
        yield _LOAD_FAST, arg
    elif opcode == _COMPARE_OP and is_tested:
        yield opcode, arg | COMPARE_TO_BOOL
    elif opcode == _MAKE_FUNCTION:
        yield opcode, 0
        yield from ((_SET_ATTRIBUTE, flag) for flag in _ATTRIBUTES if arg & flag)
    elif opcode in _ENTERS:
        yield from _ENTERS[opcode]
    elif opcode == _BINARY_SUBSCR and PY314:
        yield _BINARY_OP, SUBSCRIPT
    elif opcode == _CALL_EX and PY314:
        if arg == 0:
            yield _PUSH_NULL, 0
        yield opcode, 0
    else:
        yield opcode, arg
        if opcode == _END_FOR:
            yield _POPS_ITERATOR, 0
        elif opcode in _BRANCHES:
            yield _NOT_TAKEN, 0


def _fused(
    unit: tuple[int, int, Instruction], opcode: int, arg: int, each: Instruction
) -> None | tuple[int, int, Instruction]:
    """A fused instruction for a unit and the next one, if they were one in the decoded code, or both are new."""
    fused = _FUSES.get((unit[0], opcode))
    before = unit[2]
    if fused is None or unit[1] > _MOST_IN_PAIR or arg > _MOST_IN_PAIR:
        return None
    if before.offset != each.offset or before.positions != each.positions or before.handler is not each.handler:
        return None
    return fused, unit[1] << 4 | arg, before


def extra_depth(instruction: Instruction) -> int:
    """How many values more than before it the stack has within a canonical instruction, other than its results."""
    if instruction.opcode in _ENTERS:
        return _IN_ENTER
    if PY314 and instruction.opcode == _CALL_EX:
        return 1 - instruction.arg
    return 1 if IS_TRANSLATED and instruction.opcode == _KW_NAMES else 0
