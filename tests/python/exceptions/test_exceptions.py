"""Exceptions: chains, handlers and ``finally`` in every order, notes, errors of C code and their text."""

from __future__ import annotations

import sys

from collector import Programs
from outcomes import outcomes
from programs import tensor
from shared_programs import Problem

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


def fail(n):
    if n > 2:
        raise Problem(n, detail="too many")
    return n


@program()
def user_class_with_attributes_and_text(x, n):
    try:
        fail(n)
    except Problem as error:
        CUT
        return x * error.code, str(error), error.args, error.detail


class Quiet(Exception):
    pass


@program()
def attributes_set_on_the_way_up(x, n):
    def inner():
        raise Quiet("inner")

    def outer():
        try:
            inner()
        except Quiet as error:
            error.place = "outer"
            error.value = x * 2
            raise

    try:
        outer()
    except Quiet as error:
        CUT
        return error.value, error.place, error.args


class Logged(ValueError):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        super().__setattr__("log", [*getattr(self, "log", ()), name])


@program()
def attributes_of_an_exception_are_those_of_an_instance(x, n):
    error = Logged("a")
    error.scale = x
    error.mode = n
    before = vars(error).copy(), "mode" in error.__dict__, error == Logged("a"), error == error
    del error.mode
    CUT
    return error.scale * 2, before, error.log, hasattr(error, "mode"), error.args


@program()
def raise_from_none_hides_the_context(x, n):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise Quiet("b") from None
    except Quiet as error:
        CUT
        return x + 1, error.__cause__, type(error.__context__), error.__suppress_context__


@program()
def context_chain_of_three(x, n):
    try:
        try:
            try:
                raise KeyError(1)
            except KeyError:
                raise TypeError(2)  # noqa: B904
        except TypeError:
            raise ValueError(3)  # noqa: B904
    except ValueError as error:
        CUT
        return x + 1, type(error.__context__), type(error.__context__.__context__), error.__context__.__context__.args


@program()
def raise_again_by_name_and_bare(x, n):
    log = []
    for bare in (True, False):
        try:
            try:
                raise Quiet("once")
            except Quiet as error:
                log.append("first")
                if bare:
                    raise
                raise error
        except Quiet as error:
            CUT
            log.append((error.args, error.__context__))
    return x + 1, log


@program()
def handlers_are_tried_in_order(x, n):
    log = []
    for kind in (KeyError, IndexError, LookupError, ValueError):
        try:
            raise kind("x")
        except KeyError:
            log.append("key")
        except (IndexError, AttributeError):
            log.append("index")
        except LookupError:
            log.append("lookup")
        except Exception as error:
            log.append(type(error).__name__)
        CUT
    return x + len(log), log


@program()
def the_class_expression_is_evaluated_late(x, n):
    log = []

    def kinds(*wanted):
        log.append([each.__name__ for each in wanted])
        return wanted

    try:
        raise ValueError
    except kinds(KeyError):
        log.append("key")
    except kinds(TypeError, ValueError):
        log.append("value")
    except kinds(Exception):
        log.append("never")
    return x + 1, log


@program()
def not_an_exception_class_in_except(x, n):
    try:
        try:
            raise ValueError
        except "text":  # noqa: B030
            pass
    except TypeError as error:
        return x + 1, str(error), type(error.__context__)


@program()
def raise_something_that_is_no_exception(x, n):
    try:
        raise n
    except TypeError as error:
        return x + 1, str(error)


@program()
def finally_order_with_return(x, n):
    log = []

    def inner():
        try:
            log.append("try")
            return log.append("value") or x + 1
        finally:
            CUT
            log.append("finally")

    y = inner()
    return y, log


@program()
def return_in_finally_replaces_return_and_error(x, n):
    def replaced():
        try:
            return x
        finally:
            CUT
            return x + 1  # noqa: B012

    def swallowed():
        try:
            raise ValueError
        finally:
            return x + 2  # noqa: B012

    return replaced(), swallowed()


@program()
def break_and_continue_in_finally(x, n):
    log = []
    for i in range(5):
        try:
            if i == 1:
                raise ValueError
            log.append(i)
        finally:
            CUT
            if i == 1:
                continue  # noqa: B012
            if i == 3:
                break  # noqa: B012
    return x + len(log), log


@program()
def error_in_finally_replaces_the_first(x, n):
    try:
        try:
            raise KeyError("first")
        finally:
            CUT
            raise ValueError("second")
    except ValueError as error:
        return x + 1, str(error), repr(error.__context__)


@program()
def else_runs_outside_of_the_handlers(x, n):
    log = []
    try:
        try:
            log.append("try")
        except ValueError:
            log.append("never")
        else:
            CUT
            raise ValueError("from else")
        finally:
            log.append("finally")
    except ValueError as error:
        log.append(str(error))
    return x + 1, log


@program()
def loop_that_retries(x, n):
    attempts = []

    def flaky():
        attempts.append(len(attempts))
        if len(attempts) < n:
            raise ConnectionError("again")
        return x * len(attempts)

    while True:
        try:
            result = flaky()
        except ConnectionError:
            CUT
            continue
        else:
            break
    return result, attempts


@program()
def exc_info_in_and_after_a_handler(x, n):
    before = sys.exc_info()
    try:
        raise Problem(n)
    except Problem as error:
        kind, value, _ = sys.exc_info()
        same = value is error
    after = sys.exc_info()
    return x + 1, before, kind, same, after


@program()
def the_handled_exception_by_sys_exception(x, n):
    before = sys.exception()
    try:
        fail(3)
    except Problem as error:
        CUT
        same = sys.exception() is error
    return x + n, before, same, sys.exception()


@program()
def exc_info_restored_by_nested_handlers(x, n):
    seen = []
    try:
        raise KeyError
    except KeyError:
        try:
            raise ValueError
        except ValueError:
            seen.append(sys.exc_info()[0])
        seen.append(sys.exc_info()[0])
    seen.append(sys.exc_info()[0])
    return x + 1, seen


@program(graphs=None, breaks=None)
def notes(x, n):
    error = Quiet("a")
    error.add_note("first")
    error.add_note("second")
    try:
        raise error
    except Quiet as caught:
        CUT
        return x + 1, caught.__notes__


@program(graphs=None, breaks=None)
def with_traceback_of_none(x, n):
    try:
        raise Quiet("a").with_traceback(None)
    except Quiet as error:
        return x + 1, str(error)


@program()
def cause_set_by_hand(x, n):
    first, second = KeyError("first"), Quiet("second")
    second.__cause__ = first
    try:
        raise second
    except Quiet as error:
        CUT
        return x + 1, error.__cause__ is first, error.__suppress_context__


@program()
def arguments_that_are_tensors(x, n):
    try:
        raise Quiet(x * 2, [x])
    except Quiet as error:
        CUT
        return error.args[0] + 1, error.args[1][0] is x


@program(cut=False)  # after a break a dict is guarded by its keys, which each call creates anew
def equality_and_hash_of_exceptions(x, n):
    a, b = Quiet("a"), Quiet("a")
    table = {a: 1}
    return x + 1, a == b, a == a, a in table, b in table


@program(graphs=None, breaks=None)
def str_and_repr_of_builtin_errors(x, n):
    found = [KeyError("k"), KeyError(), ValueError("v", 2), OSError(2, "text"), IndexError(), StopIteration(3)]
    return x + 1, [str(each) for each in found], [repr(each) for each in found]


@program()
def errors_of_c_functions_have_their_text(x, n):
    return x + 1, outcomes(
        lambda: {}["missing"],
        lambda: [][3],
        lambda: int("text"),
        lambda: 1 / 0,
        lambda: "a" + 1,
        lambda: len(5),
        lambda: (1).missing,
        lambda: None + None,
        lambda: [1, 2].index(3),
        lambda: {}.pop("missing"),
        lambda: next(iter(())),
        lambda: "abc".index("z"),
        lambda: max([]),
    )


@program(graphs=(1, 2), breaks=2)
def calls_with_wrong_arguments(x, n):
    def f(a, b=1, *, c):
        return a

    wrong = outcomes(lambda: f(), lambda: f(1), lambda: f(1, 2, 3, c=1), lambda: f(1, c=1, d=2))
    return x + 1, wrong, outcomes(lambda: f(1, a=2, c=1), lambda: f(**{"a": 1}))


@program()
def assertion_with_and_without_text(x, n):
    log = []
    for text in (None, "text", ("a", 1)):
        try:
            if text is None:
                assert n > 10
            assert n > 10, text
        except AssertionError as error:
            CUT
            log.append(error.args)
    return x + 1, log


@program()
def unpacking_errors(x, n):
    log = []
    for values in ([], [1], [1, 2, 3]):
        try:
            a, b = values
        except ValueError as error:
            log.append(str(error))
    try:
        a, b = n
    except TypeError as error:
        log.append(str(error))
    try:
        a, *b, c = [1]
    except ValueError as error:
        log.append(str(error))
    return x + 1, log


@program()
def effects_before_the_error_stay(x, n):
    out, table = [x], {}
    try:
        out.append(x + 1)
        table["a"] = out
        table["a"].append(x + 2)
        table["missing"]  # noqa: B018
        out.append("never")
    except KeyError:
        CUT
        out.append("caught")
    return out, table


@program()
def contexts_in_a_cycle(x, n):
    found = []

    def itself():
        try:
            raise ValueError(n)
        except ValueError as error:
            error.__context__ = error
            raise TypeError(n)  # noqa: B904

    def of_two():
        first, second = KeyError(1), KeyError(2)
        first.__context__, second.__context__ = second, first
        try:
            raise first
        except KeyError:
            raise TypeError(n)  # noqa: B904

    for raises in (itself, of_two):
        try:
            raises()
        except TypeError as error:
            context = error.__context__
            found += [type(context).__name__, context.__context__ is context, context.__context__.args]
    return x + 1, found


@program()
def evaluation_stops_in_the_middle_of_a_call(x, n):
    log = []

    def note(name, value=None):
        log.append(name)
        if name == "c":
            raise Quiet(name)
        return value

    try:
        max(note("a", 1), note("b", 2), note("c", 3), note("d", 4))
    except Quiet:
        CUT
    try:
        [note("a"), note("c"), note("d")]
    except Quiet:
        pass
    return x + 1, log


@program()
def target_is_not_assigned_when_the_value_fails(x, n):
    y = x
    items = [1, 2]
    try:
        y = items[5]
    except IndexError:
        CUT
    try:
        items[0], items[9] = "changed", "never"
    except IndexError:
        pass
    return y + 1, items


@program(graphs=(0, 1), breaks=(0, 2))
def error_leaves_the_frame_with_its_chain(x, n):
    y = x + 1
    try:
        raise KeyError("a")
    except KeyError as error:
        raise Problem(y.shape[0], "leaves") from error


@program(graphs=(0, 2), breaks=(0, 3))
def error_leaves_through_finally_with_effects(x, n, log=None):
    log = []
    try:
        y = x + 1
        raise Quiet(log, y)
    finally:
        CUT
        log.append("finally")


test_program = program.test()
