"""Exceptions raised and caught in programs, and those that leave them.

PYTEST_DONT_REWRITE: the programs' own assertions stay as they are written.
"""

from __future__ import annotations

from programs import check, tensor


class Custom(Exception):
    def __init__(self, code, detail="none"):
        super().__init__(code)
        self.code = code
        self.detail = detail


def test_raised_and_caught():
    def fn(x):
        try:
            raise ValueError("one", 2)
        except ValueError as error:
            return x * error.args[1], str(error)

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


def test_tensor_error_leaves_with_its_line():
    def fn(x, y):
        z = x + 1
        w = z @ y
        return w

    check(fn, tensor(2, 3), tensor(2, 3), graphs=None)


def test_tensor_error_is_caught():
    def fn(x):
        try:
            return x.reshape(100)
        except RuntimeError:
            return x * 2

    check(fn, tensor(3), graphs=(1, 2))


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
