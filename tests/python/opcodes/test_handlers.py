"""Exceptions raised and caught in programs, and those that leave them.

PYTEST_DONT_REWRITE: the programs' own assertions stay as they are written.
"""

from __future__ import annotations

import sys
import warnings

import torch

from programs import check, tensor


class Custom(Exception):
    def __init__(self, code, detail="none"):
        super().__init__(code)
        self.code = code
        self.detail = detail


class Narrow(Custom):
    pass


def test_raised_and_caught():
    def fn(x):
        try:
            raise ValueError("one", 2)
        except ValueError as error:
            return x * error.args[1], str(error)

    check(fn, tensor(2), operators=1)


def test_raised_in_a_callee_and_caught():
    def inner(x):
        if x.dim() == 1:
            raise Custom(3, detail="d")
        return x

    def fn(x):
        try:
            x = inner(x + 1)
        except Custom as error:
            return x * error.code, error.detail
        return x

    check(fn, tensor(2), operators=(1, 2))


def test_caught_by_base_class_and_by_tuple():
    def fn(x):
        out = []
        for kind in (KeyError, Narrow, IndexError):
            try:
                raise kind(5)
            except (Custom, IndexError) as error:
                out.append(type(error).__name__)
            except LookupError:
                out.append("lookup")
        return x + 1, out

    check(fn, tensor(2), operators=1)


def test_class_without_call_and_instance():
    def fn(x):
        n = 0
        try:
            raise ValueError
        except ValueError:
            n += 1
        error = KeyError("k")
        try:
            raise error
        except KeyError as caught:
            n += caught is error
        return x + n

    check(fn, tensor(2), operators=1)


def test_else_and_finally_in_order():
    def fn(x):
        log = []
        try:
            log.append("try")
        except ValueError:
            log.append("except")
        else:
            log.append("else")
        finally:
            log.append("finally")
        return x + 1, log

    check(fn, tensor(2), operators=1)


def test_finally_runs_on_return_break_and_continue():
    def inner(log):
        try:
            return "returned"
        finally:
            log.append("return")

    def fn(x):
        log = []
        for i in range(3):
            try:
                if i == 0:
                    continue
                if i == 1:
                    break
            finally:
                log.append(i)
        return x + 1, log, inner(log)

    check(fn, tensor(2), operators=1)


def test_raise_again_and_from():
    def fn(x):
        try:
            try:
                raise KeyError("inner")
            except KeyError as error:
                raise ValueError("outer") from error
        except ValueError as error:
            cause, context = error.__cause__, error.__context__
            return x + 1, repr(cause), repr(context), cause is context

    check(fn, tensor(2), operators=1)


def test_context_is_set_without_from():
    def fn(x):
        try:
            try:
                raise KeyError("inner")
            finally:
                {}["other"]
        except KeyError as error:
            return x + 1, repr(error), repr(error.__context__), error.__suppress_context__

    check(fn, tensor(2), operators=1)


def test_exceptions_of_builtins_are_caught():
    def fn(x):
        out = []
        for thunk in (
            lambda: [][1],
            lambda: {}["a"],
            lambda: 1 // 0,
            lambda: int("z"),
            lambda: None.missing,
            lambda: next(iter([])),
            lambda: (1, 2) + [3],
            lambda: undefined_name,  # noqa: F821
        ):
            try:
                thunk()
            except (IndexError, KeyError, ZeroDivisionError, ValueError) as error:
                out.append((type(error).__name__, str(error)))
            except (AttributeError, TypeError, NameError) as error:
                out.append(type(error).__name__)
            except StopIteration:
                out.append("stop")
        return x + len(out), out

    check(fn, tensor(2), graphs=(1, 6))


def test_attribute_error_of_an_object_is_caught():
    class Thing:
        here = 1

    def fn(x, thing):
        try:
            return x + thing.missing
        except AttributeError as error:
            return x * 2, error.name, str(error)

    check(fn, tensor(2), Thing(), operators=1)


def test_uncaught_has_lines_and_context():
    def fn(x):
        y = x + 1
        try:
            raise KeyError("first")
        except KeyError:
            raise Custom(y.dim(), "second")  # noqa: B904

    check(fn, tensor(2), graphs=None)


def test_uncaught_from_three_calls_deep():
    def a(x):
        return b(x + 1)

    def b(x):
        return c(x * 2)

    def c(x):
        y = x - 1
        if y.dim() == 1:
            raise Custom("deep")
        return y

    check(a, tensor(2), graphs=None)


def test_side_effects_before_the_exception_are_kept():
    def fn(x, log, table):
        log.append(x + 1)
        table["k"] = 1
        x.add_(1)
        raise ValueError("stop")

    check(fn, tensor(2), [], {}, graphs=None)


def test_side_effects_before_a_caught_exception_are_kept():
    def inner(log):
        log.append(1)
        raise ValueError("stop")

    def fn(x, log):
        try:
            inner(log)
        except ValueError:
            log.append(x + 2)
        return log

    check(fn, tensor(2), [], operators=1)


def test_tensor_error_leaves_with_its_line():
    def fn(x, y):
        z = x + 1
        w = z @ y
        return w

    check(fn, tensor(2, 3), tensor(2, 3), graphs=None)


def test_tensor_error_in_a_callee():
    def inner(z):
        return z.view(7, 7)

    def fn(x):
        z = x + 1
        return inner(z) * 2

    check(fn, tensor(2, 3), graphs=None)


def test_tensor_error_is_caught():
    def fn(x):
        try:
            return x.reshape(100)
        except RuntimeError:
            return x * 2

    check(fn, tensor(3), graphs=(1, 2))


def test_index_error_of_a_tensor():
    def fn(x):
        y = x + 1
        return y[5]

    check(fn, tensor(3), graphs=None)


def test_tensor_attribute_error():
    def fn(x):
        y = x + 1
        return y.no_such_thing

    check(fn, tensor(3), graphs=None)


def test_assertions():
    def fn(x, n):
        assert x.dim() == 1
        assert n > 0, f"n is {n}"
        return x + n

    check(fn, tensor(2), 1, operators=1, others=[(tensor(2), -1), (tensor(2, 2), 1)])


def test_unbound_local():
    def fn(x, flag):
        if flag:
            y = x + 1
        return y * 2

    check(fn, tensor(2), True, operators=2, others=[(tensor(2), False)])


def test_name_error():
    def fn(x):
        y = x + 1
        return y + no_such_name  # noqa: F821

    check(fn, tensor(2), graphs=None)


def test_stop_iteration_leaves():
    def fn(x, items):
        y = x + 1
        it = iter(items)
        return y + next(it) + next(it)

    check(fn, tensor(2), [1], graphs=None, others=[(tensor(2), [1, 2])])


def test_exception_as_a_value():
    def fn(x):
        error = Custom(3, detail="kept")
        return x + error.code, error, isinstance(error, Exception), error.args

    check(fn, tensor(2), operators=1)


def test_exception_stored_when_caught():
    def fn(x):
        kept = None
        try:
            raise Custom(3)
        except Custom as error:
            kept = error
        return x + kept.code, kept.detail

    check(fn, tensor(2), operators=1)


def test_exc_info_inside_and_after():
    def fn(x):
        before = sys.exc_info()[0]
        try:
            raise KeyError("k")
        except KeyError:
            during = sys.exc_info()[0]
        return x + 1, before, during, sys.exc_info()[0]

    check(fn, tensor(2), graphs=(1, 3))


def test_called_while_an_exception_is_handled():
    def fn(x):
        y = x + 1
        raise ValueError("new")

    def program(x):
        try:
            raise KeyError("old")
        except KeyError:
            return fn(x)

    check(program, tensor(2), graphs=None)


def test_warnings_keep_their_place():
    def fn(x):
        y = x + 1
        warnings.warn("careful", UserWarning, stacklevel=1)
        return y * 2

    check(fn, tensor(2), graphs=(1, 2))


def test_keyboard_interrupt_is_not_swallowed():
    def fn(x):
        y = x + 1
        try:
            raise KeyboardInterrupt
        except Exception:
            return y * 100
        except BaseException as error:
            return y * 2, type(error)

    check(fn, tensor(2), operators=2)


def test_nested_handlers_restore_the_outer_exception():
    def fn(x):
        seen = []
        try:
            raise KeyError("outer")
        except KeyError:
            try:
                raise ValueError("inner")
            except ValueError as error:
                seen.append(repr(error.__context__))
            try:
                raise
            except KeyError as error:
                seen.append(repr(error))
        return x + 1, seen

    check(fn, tensor(2), operators=1)


def test_loop_of_handlers():
    def fn(x):
        for i in range(4):
            try:
                if i % 2:
                    raise ValueError(i)
                x = x + i
            except ValueError as error:
                x = x * error.args[0]
        return x

    check(fn, tensor(2), operators=4)


def test_exit_of_a_manager_sees_the_exception():
    class Manager:
        def __init__(self, swallow):
            self.swallow = swallow
            self.seen = None

        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            self.seen = kind.__name__ if kind else None, str(error)
            return self.swallow

    def fn(x):
        with Manager(True) as a:
            raise ValueError("swallowed")
        b = Manager(False)
        try:
            with b:
                raise KeyError("passed")
        except KeyError:
            pass
        return x + 1, a.seen, b.seen

    check(fn, tensor(2), operators=1)


def test_grad_mode_is_restored_when_an_exception_leaves():
    def fn(x):
        with torch.no_grad():
            y = x + 1
            raise ValueError(y.requires_grad)

    check(fn, tensor(2, grad=True), graphs=None)
