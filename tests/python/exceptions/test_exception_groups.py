"""``except*`` and exception groups."""

from __future__ import annotations

from collector import Programs
from programs import tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


@program(graphs=0)
def groups_are_split_between_handlers(x, n):
    log = []
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError(2), ValueError(3)])
    except* ValueError as group:
        log.append(("value", [error.args for error in group.exceptions], group.message))
    except* KeyError as group:
        log.append(("key", [error.args for error in group.exceptions]))
    CUT
    return x + len(log), log


@program()
def nothing_raised_under_except_star(x, n):
    log = []
    try:
        y = x + 1
    except* ValueError:
        log.append("never")
    else:
        log.append("else")
    finally:
        CUT
        log.append("finally")
    return y, log


@program(graphs=1, breaks=4)
def group_methods(x, n):
    group = ExceptionGroup("many", [ValueError(1), ExceptionGroup("inner", [KeyError(2), ValueError(3)])])
    matched, rest = group.split(ValueError)
    only = group.subgroup(lambda error: isinstance(error, KeyError))
    return x + 1, len(matched.exceptions), rest.message, len(only.exceptions), group.message


test_program = program.test()
