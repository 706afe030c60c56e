"""decode and assemble together: what comes back is the same program.

BYTECODE_ROUND_TRIP=all in the environment tries the whole standard library instead of a sample.
"""

from __future__ import annotations

import asyncio
import dis
import os
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytecode_checks import copy, disassemble, verify_code
from dynamo_lite.bytecode import assemble, decode, dialect, emit, exception_table
from dynamo_lite.bytecode.instructions import COMPARE_TO_BOOL, ITERATOR_SIZE

LIBRARY = Path(os.__file__).parent
FILES = sorted([*LIBRARY.glob("*.py"), *LIBRARY.glob("*/*.py")])
EVERY_FILE = os.environ.get("BYTECODE_ROUND_TRIP") == "all"
STEP = 1 if EVERY_FILE else len(FILES) // 60 + 1


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes_of(const)


def again(function: types.FunctionType) -> types.FunctionType:
    """Returns the function with its code decoded and assembled again, including nested code."""

    def rebuilt(code: types.CodeType) -> types.CodeType:
        instructions = copy(decode(code))
        for each in instructions:
            if isinstance(each.argval, types.CodeType):
                each.argval = rebuilt(each.argval)
        made = assemble(instructions, like=code)
        verify_code(made)
        return made

    return with_code(function, rebuilt(function.__code__))


def with_code(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    made = types.FunctionType(code, function.__globals__, "made", function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def lines_of(code: types.CodeType) -> list[tuple[int, int, int | None]]:
    """``co_lines`` with neighbours of one line as one: the older compiler splits them, and nobody can see it."""
    found: list[tuple[int, int, int | None]] = []
    for start, end, line in code.co_lines():
        if found and found[-1][2] == line:
            start = found.pop()[0]
        found.append((start, end, line))
    return found


def counted(code: types.CodeType) -> bytes:
    """``co_code``, with loads that borrow their references (3.14) as those that count them: we make no others. What
    leaves a loop over an inlined generator is a POP_TOP of ours (3.14). Where annotations, bounds and aliases are
    computed, and where a pattern compares a length, the compiler doesn't say that a comparison is tested, and we do."""
    plain = {dis.opmap[name]: dis.opmap[name.replace("_BORROW", "")] for name in dis.opmap if "_BORROW" in name}
    if "POP_ITER" in dis.opmap:
        plain[dis.opmap["POP_ITER"]] = dis.opmap["POP_TOP"]
    raw = bytearray(code.co_code)
    raw[::2] = bytes(plain.get(op, op) for op in raw[::2])
    to_bool = COMPARE_TO_BOOL if ITERATOR_SIZE > 1 else 0  # 3.15 has both
    compared = {at + 1 for at in range(0, len(raw), 2) if raw[at] == dis.opmap["COMPARE_OP"]}
    for at in range(0, len(raw), 2):
        if raw[at] == dis.opmap["GET_LEN"] and at + 5 in compared:
            raw[at + 5] |= COMPARE_TO_BOOL
    if code.co_name == "__annotate__" or code.co_varnames[:1] == (".format",):
        return bytes(byte & ~16 if at in compared else byte for at, byte in enumerate(raw))
    return bytes(byte | to_bool if at in compared else byte for at, byte in enumerate(raw))


def pops_iterators_in_loops(code: types.CodeType) -> bool:
    """Whether POP_ITER of 3.15, which pops two values, isn't at a loop's end: we make two instructions of it."""
    names = [each.opname for each in dis.get_instructions(code)]
    return ITERATOR_SIZE > 1 and names.count("POP_ITER") != names.count("END_FOR")


def jumps_over_its_own_extension(code: types.CodeType) -> bool:
    """Whether a jump backward is 256 long only since it counts its own EXTENDED_ARG: the compiler may keep that, and we
    make none."""
    return any(each.arg == 256 and "JUMP_BACKWARD" in each.opname for each in dis.get_instructions(code))


def assert_same(made: types.CodeType, code: types.CodeType) -> None:
    assert disassemble(made) == disassemble(code)
    for name in ("flags", "argcount", "posonlyargcount", "kwonlyargcount", "cellvars", "freevars", "name", "qualname"):
        assert getattr(made, f"co_{name}") == getattr(code, f"co_{name}"), name
    assert made.co_stacksize <= code.co_stacksize
    shorter = (made.co_consts, made.co_names, made.co_varnames) != (code.co_consts, code.co_names, code.co_varnames)
    # The compiler leaves constants that nothing uses; without them the indices are others.
    if not shorter and not pops_iterators_in_loops(code):
        assert counted(made) == counted(code) or jumps_over_its_own_extension(code)
    assert [each.positions for each in decode(made)] == [each.positions for each in decode(code)]
    if len(made.co_code) == len(code.co_code) and not dialect.IS_TRANSLATED:  # a part has the whole's row and position
        assert exception_table.parse(made) == exception_table.parse(code)
        assert list(made.co_positions()) == list(code.co_positions())
        assert lines_of(made) == lines_of(code)


@pytest.mark.parametrize("path", FILES[::STEP], ids=lambda path: str(path.relative_to(LIBRARY)))
def test_round_trip_of_the_standard_library(path):
    try:
        module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # lib2to3's and the tokenizer's own bad examples
        pytest.skip("not a program")
    for code in codes_of(module):
        made = assemble(decode(code), like=code)
        assert_same(made, code)
        verify_code(code)
        verify_code(made)


# -- programs that run -----------------------------------------------------------------------------------------


def loops(n):
    total = 0
    for i in range(n):
        for j in range(i):
            if (i + j) % 3 == 0:
                continue
            if j > 5:
                break
            total += i * j
        else:
            total += 1000
    while total % 7:
        total -= 1
    return total


def blocks(n):
    log = []

    class Manager:
        def __init__(self, name, swallow):
            self.name, self.swallow = name, swallow

        def __enter__(self):
            log.append(f"enter {self.name}")
            return self

        def __exit__(self, kind, value, tb):
            log.append((f"exit {self.name}", kind and kind.__name__, tb and tb.tb_lineno - first))
            return self.swallow

    first = blocks.__code__.co_firstlineno
    for i in range(n):
        try:
            with Manager("a", i == 1), Manager("b", False) as b:
                log.append(b.name)
                if i % 2:
                    raise KeyError(i)
                if i == 4:
                    return log
        except KeyError as error:
            log.append(repr(error))
            try:
                raise ValueError("inner") from error
            except (TypeError, ValueError) as inner:
                log.append((repr(inner), repr(inner.__cause__)))
            finally:
                log.append("finally inside")
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log


def groups(n):
    log = []
    try:
        raise ExceptionGroup("several", [ValueError(n), TypeError(n), KeyError(n)])
    except* ValueError as group:
        log.append(repr(group.exceptions))
    except* (TypeError, KeyError) as group:
        log.append(repr(group.exceptions))
    return log


def comprehensions(n):
    k = 3
    functions = [lambda x=x: x + k for x in range(n) if x % 2]
    late = [lambda: x * k for x in range(n)]
    table = {a: {b for b in range(a)} for a in range(n)}
    nested = [[(a, b) for a in range(b)] for b in range(n)]
    return [f() for f in functions], [f() for f in late], table, nested, sum(c for c in range(n) if c > k)


def closures(n, *rest, keyword=4, **more):
    count = n

    def add(step=1):
        nonlocal count
        count += step + keyword
        return [count, n, rest, more]

    def other():
        nonlocal n
        n += 1
        del_me = n
        del del_me
        return add

    class Inside:
        value = count

        def method(self):
            return __class__, super().__init__, count

    other()()
    return other()(2), add(), Inside.value, Inside().method()[0].__name__


def generators(n):
    def inner():
        try:
            got = yield 1
            yield got
        finally:
            yield "cleaned"

    def outer():
        result = yield from inner()
        yield result
        return "end"

    machine = outer()
    found = [next(machine), machine.send("sent")]
    found.append(machine.throw(ValueError))
    try:
        next(machine)
    except ValueError:
        found.append("thrown on")
    return found, list(x * y for x in range(n) for y in range(x))


def coroutines(n):
    async def ticks(k):
        for i in range(k):
            await asyncio.sleep(0)
            yield i

    class Context:
        async def __aenter__(self):
            return self

        async def __aexit__(self, *exc):
            return True

    async def main():
        found = [i async for i in ticks(n)]
        async with Context():
            raise ValueError
        async for i in ticks(2):
            found.append(i)
        return found

    return asyncio.run(main())


def matching(n):
    def kind(value):
        match value:
            case {"a": [first, *rest], **others}:
                return first, rest, others
            case complex(real=r) | (r, _):
                return r
            case int() if value > 2:
                return "big"
            case None | "x":
                return value
        return "nothing"

    return [kind(v) for v in ({"a": [1, 2, n], "b": 1}, 2j, (5, 6), 1, 3, None, "x")]


def odds_and_ends(n):
    a, (b, *c), d = n, range(4), {**{"k": n}, "l": 2}
    text = f"{n!r:>4}{d['k']:{n}}{'x' if n > 2 else 'y'}"
    assert 1 < n <= 100 < 1000, "message"
    c[1:2] = [n] * 2
    c[0] += n
    value = None
    chosen = value or n and not value
    print(n, file=open(os.devnull, "w"), end="")
    del a, d["k"]
    if value is None and n is not None and n not in c:
        value = (n := n + 1)
    import os.path as path
    from math import floor, pi

    return b, c, d, text, chosen, value, n, path.basename("a/b"), floor(pi), n if value else -n, ~n, n @ Matrix()


class Matrix:
    def __rmatmul__(self, other):
        return f"{other} @"


PROGRAMS = [
    loops,
    blocks,
    groups,
    comprehensions,
    closures,
    generators,
    coroutines,
    matching,
    odds_and_ends,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("n", [0, 1, 5, 9])
def test_program_runs_as_before(program, n):
    def outcome(function):
        try:
            return repr(function(n))
        except Exception as error:
            return repr(error), [each[1:] for each in traceback.extract_tb(error.__traceback__)][1:]

    assert outcome(again(program)) == outcome(program)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program_runs_with_every_argument_extended(program):
    """300 constants and names in front make all arguments and jumps need EXTENDED_ARG."""
    code = program.__code__
    body = copy(decode(code))
    start = next(at for at, each in enumerate(body) if each.opname == "RESUME") + 1
    padding = [make for k in range(300) for make in (emit.load_const(k + 0.5), emit.store_fast(f"pad{k}"))]
    for each in body:
        if each.target is not None or each.opname.startswith("LOAD_GLOBAL"):
            padding += [emit.load_const(each.index + 0.25), emit.store_fast("pad")]
    for each in padding:
        each.positions = body[0].positions
    made = assemble([*body[:start], *padding, *body[start:]], like=code)
    verify_code(made)
    assert len(made.co_consts) > 256 and dis.EXTENDED_ARG in made.co_code[::2]
    assert repr(with_code(program, made)(5)) == repr(program(5))


def test_jumps_over_long_stretches():
    lines = ["def f(n):", "  t = 0", "  while n > 0:", "    n -= 1", "    if n % 2: continue"]
    lines += [f"    t += n * {k}" for k in range(5000)]
    lines += ["  return t"]
    scope: dict = {}
    exec("\n".join(lines), scope)
    function = scope["f"]
    made = again(function)
    assert counted(made.__code__) == counted(function.__code__)
    assert made(5) == function(5)


def test_a_traceback_is_the_same():
    def fails(x):
        y = [
            1,
            x.missing,
        ]
        return y

    def shown(function):
        try:
            function(3)
        except AttributeError as error:
            return traceback.format_exception(error)[2:]

    assert shown(again(fails)) == shown(fails)
    assert any("x.missing" in line for line in shown(fails))


def test_line_events_are_the_same():
    def events(function):
        seen = []

        def trace(frame, event, arg):
            seen.append((event, frame.f_lineno, frame.f_code.co_name))
            return trace

        sys.settrace(trace)
        try:
            function(5)
        finally:
            sys.settrace(None)
        return [(event, line) for event, line, name in seen if name in ("loops", "made")]

    assert events(again(loops)) == events(loops)
    assert len(events(loops)) > 20
