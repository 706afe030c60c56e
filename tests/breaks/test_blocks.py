"""Breaks in ``with`` blocks, the user's and torch's, in ``try``/``except``/``finally``, and in nests of these."""

from __future__ import annotations

import torch

from collector import Programs
from managers import Manager
from programs import built, tensor

program = Programs(tensor(3), tensor(1, seed=5).sum(), whole=False, graphs=2, breaks=1)
CUT = None
GRAD = (tensor(3, grad=True), tensor(1, seed=5).sum())
SQUARE = (tensor(3, 3), tensor(1, seed=5).sum())


@program(*GRAD, operators=4)
def in_no_grad_on_an_input_that_requires_grad(x, s):
    a = x * 3
    with torch.no_grad():
        y = a + 1
        CUT
        z = y * 2
    return y, z, a * 4


@program(*GRAD, operators=3)
def in_enable_grad_inside_no_grad(x, s):
    with torch.no_grad():
        with torch.enable_grad():
            y = x + 1
            CUT
            z = y * 2
        w = z * 3
    return y, z, w


@program(*GRAD, operators=3)
def after_set_grad_enabled_as_a_call(x, s):
    torch.set_grad_enabled(False)
    y = x + 1
    CUT
    z = y * 2
    torch.set_grad_enabled(True)
    return z, x * 3


@program(*SQUARE, breaks=(1, 3), graphs=(1, 3), operators=3)
def in_autocast_switched_off_inside(x, s):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ x
            CUT
        return y, z, torch.is_autocast_enabled("cpu")


@program(*GRAD, operators=2)
def where_a_block_returns(x, s):
    with torch.no_grad():
        y = x + 1
        CUT
        return y * 2


@program(graphs=(2, 5), operators=(2, 8), breaks=None)
def in_a_loop_in_a_block(x, s):
    log = []
    with torch.no_grad(), Manager(log):
        for i in range(3):
            x = x + i
            CUT
            if i == 1:
                break
    return x * 2, log


@program(graphs=(2, 5), operators=(2, 8), breaks=None)
def in_a_block_left_by_continue(x, s):
    log = []
    for i in range(3):
        with Manager(log):
            x = x + i
            CUT
            if i == 1:
                continue
            x = x * 2
    return x, log


@program(operators=2)
def where_the_block_raises_after_it(x, s):
    log = []
    try:
        with Manager(log):
            y = x + 1
            CUT
            raise ValueError("after")
    except ValueError as error:
        log.append(str(error))
    return y * 2, log


@program(graphs=1, breaks=(1, 2), operators=1)
def where_the_block_lets_it_pass(x, s):
    with Manager([]):
        y = x + 1
        CUT
        raise ValueError(y.dim())


@program(graphs=(1, 4), breaks=None)
@built
def in_enter_and_exit():
    class Loud:
        def __enter__(self):
            CUT
            return 3

        def __exit__(self, *error):
            CUT
            return False

    def program(x, s):
        y = x + 1
        with Loud() as n:
            y = y * n
        return y - 1

    return program


@program(operators=2)
def in_try_that_raises_in_a_callee_after_it(x, s):
    def fails(v):
        raise KeyError("callee")

    try:
        y = x + 1
        CUT
        fails(y)
    except (ValueError, KeyError) as error:
        z = y * len(error.args)
    return z


@program(breaks=(1, 4), operators=2)
def in_except_that_raises_again(x, s):
    y = x + 1
    try:
        try:
            raise KeyError("before")
        except KeyError:
            CUT
            raise
    except KeyError as error:
        return y * 2, str(error), error.__context__


@program(breaks=(1, 2), operators=2)
def in_except_that_raises_from(x, s):
    y = x + 1
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            CUT
            raise ValueError("second") from error
    except ValueError as error:
        return y * 2, repr(error.__cause__), repr(error.__context__), error.__suppress_context__


@program(breaks=(1, 2), operators=2)
def after_except_nothing_is_being_handled(x, s):
    import sys

    y = x + 1
    try:
        raise KeyError("before")
    except KeyError:
        pass
    CUT
    return y * 2, sys.exc_info()[0]


@program(operators=2)
def in_finally(x, s):
    log = []
    try:
        y = x + 1
    finally:
        log.append("before")
        CUT
        log.append("after")
        z = y * 2
    return z, log


@program(breaks=(1, 2), operators=2)
def in_finally_while_an_exception_passes(x, s):
    log = []
    try:
        try:
            y = x + 1
            raise KeyError("passes")
        finally:
            log.append("before")
            CUT
            log.append("after")
    except KeyError as error:
        return y * 2, log, str(error)


@program(operators=2)
def in_try_that_returns_through_finally(x, s):
    log = [0]
    try:
        y = x + 1
        CUT
        return y * 2, log
    finally:
        log.append("finally")


@program(graphs=(1, 2), operators=(1, 2), breaks=None)
def where_finally_overrides_the_exception(x, s):
    try:
        y = x + 1
        CUT
        raise KeyError("lost")
    finally:
        return y * 2  # noqa: B012


@program(operators=3)
def in_nested_try(x, s):
    log = []
    try:
        y = x + 1
        try:
            y = y * 2
            CUT
            raise ValueError("inner")
        except KeyError:
            log.append("wrong")
        finally:
            log.append("inner finally")
    except ValueError as error:
        log.append(str(error))
        y = y - 1
    finally:
        log.append("outer finally")
    return y, log


@program(graphs=(2, 5), operators=(3, 9), breaks=None)
def in_try_in_a_loop(x, s):
    log = []
    for i in range(3):
        try:
            x = x + i
            CUT
            if i == 1:
                raise ValueError(i)
            x = x * 2
        except ValueError as error:
            log.append(str(error))
            continue
        finally:
            log.append(i)
    return x, log


@program(graphs=(1, 4), operators=(2, 9), breaks=None)
def in_except_in_a_loop(x, s):
    log = []
    for i in range(3):
        try:
            x = x + i
            if i == 1:
                raise ValueError(i)
        except ValueError as error:
            CUT
            log.append(str(error))
            break
    return x * 2, log


@program(operators=3)
def in_with_in_try(x, s):
    log = []
    try:
        with Manager(log), torch.no_grad():
            y = x + 1
            CUT
            z = y * 2
            raise ValueError("out")
    except ValueError:
        log.append(torch.is_grad_enabled())
    return z - 1, log


@program(graphs=(1, 2), operators=(1, 2), breaks=None)
def where_a_tensor_error_follows_in_try(x, s):
    y = x + 1
    try:
        CUT
        y.view(1000)
    except RuntimeError as error:
        return y * 2, str(error)
    return y


@program(operators=2)
def with_the_exception_variable_gone_after(x, s):
    y = x + 1
    error = "bound before"
    try:
        raise ValueError
    except ValueError as error:  # noqa: F841
        pass
    CUT
    try:
        return error  # noqa: F821
    except UnboundLocalError:
        return y * 2


@program(graphs=(0, 2), operators=(0, 2), breaks=None)
def in_an_except_group(x, s):
    y = x + 1
    log = []
    try:
        raise ExceptionGroup("group", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        CUT
        log.append(len(group.exceptions))
    except* KeyError as group:
        log.append(str(group.exceptions[0]))
    return y * 2, log


test_program = program.test()
