"""``send``, ``throw``, ``close`` and ``yield from``, exceptions in generators and out of them."""

from __future__ import annotations

from collector import Programs
from programs import tensor
from shared_programs import logged, numbers

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


def averager():
    total, count, average = 0, 0, None
    while True:
        value = yield average
        total, count = total + value, count + 1
        average = total / count


@program()
def send_values_in(x, n):
    average = averager()
    first = next(average)
    a = average.send(x)
    CUT
    b = average.send(x + n)
    return first, a, b


def accumulate(x):
    total = x
    while True:
        received = yield total
        if received is None:
            return total
        total = total + received


@program()
def send_a_value_to_a_generator_not_started(x, n):
    items = accumulate(x)
    try:
        items.send(x)
    except TypeError as error:
        return str(error), x + 1


@program()
def send_into_a_finished_generator(x, n):
    items = numbers(0)
    log = list(items)
    try:
        items.send(1)
    except StopIteration as stop:
        log.append(stop.value)
    return x + 1, log


@program()
def throw_is_caught_inside(x, n):
    def gen():
        try:
            yield 1
        except ValueError as error:
            yield str(error)
        yield x + 1

    items = gen()
    a = next(items)
    CUT
    b = items.throw(ValueError("thrown"))
    CUT
    return a, b, next(items)


@program()
def throw_a_class_into_a_generator_not_started(x, n):
    log = []
    items = logged(log, range(n))
    try:
        items.throw(ValueError)
    except ValueError as error:
        log.append(repr(error))
    return x + 1, log, list(items)


@program()
def close_runs_the_finally_block(x, n):
    log = []
    items = logged(log, range(n))
    next(items)
    CUT
    items.close()
    log.append("closed")
    items.close()
    return x + 1, log, list(items)


@program()
def close_before_the_start_runs_nothing(x, n):
    log = []
    items = logged(log, range(n))
    items.close()
    CUT
    return x + 1, log, list(items)


@program()
def close_gives_what_the_generator_returns_then(x, n):
    def gen(raises):
        try:
            yield x
        except GeneratorExit:
            if raises:
                raise
            return x * 2

    found = []
    for raises in (False, True):
        items = gen(raises)
        next(items)
        CUT
        found += [items.close(), items.close()]
    return x + 1, found


@program()
def close_is_ignored_by_the_generator(x, n):
    def gen():
        try:
            yield x
        except GeneratorExit:
            yield x + 1

    items = gen()
    y = next(items)
    CUT
    try:
        items.close()
    except RuntimeError as error:
        return y + 2, str(error)


@program()
def yield_from_passes_everything(x, n):
    def inner():
        got = yield x + 1
        CUT
        yield got * 2
        return "inner"

    def outer():
        result = yield from inner()
        yield result

    items = outer()
    a = next(items)
    b = items.send(x)
    return a, b, next(items)


@program(graphs=(0, 1), breaks=None)
def yield_from_throws_into_the_inner_one(x, n):
    log = []

    def inner():
        try:
            yield x
        except ValueError:
            log.append("inner caught")
            yield x + 1
        log.append("inner ends")

    def outer():
        yield from inner()
        log.append("outer goes on")
        yield x + 2

    items = outer()
    next(items)
    CUT
    a = items.throw(ValueError)
    b = next(items)
    return a, b, log


@program(graphs=(0, 1), breaks=None)
def yield_from_closes_the_inner_one(x, n):
    log = []

    def outer():
        try:
            yield from logged(log, range(n))
        finally:
            log.append("outer finally")

    items = outer()
    i = next(items)
    CUT
    items.close()
    return x + i, log


@program()
def yield_from_a_list_and_a_string(x, n):
    def gen():
        yield from [x, x + 1]
        yield from "ab"
        yield from range(n)
        return "done"

    out = []
    items = gen()
    while True:
        try:
            out.append(next(items))
            CUT
        except StopIteration as stop:
            return out, stop.value


@program()
def deep_delegation(x, n):
    def down(k):
        if k:
            yield x * k
            result = yield from down(k - 1)
            return result + 1
        return 0

    def top():
        result = yield from down(n)
        yield result

    return list(top())


@program()
def exception_inside_reaches_the_consumer(x, n):
    def gen():
        yield x
        raise KeyError("inside")

    out = []
    try:
        for y in gen():
            CUT
            out.append(y + 1)
    except KeyError as error:
        out.append(error.args[0])
    return out


@program()
def finished_by_an_exception(x, n):
    def gen():
        yield x
        raise ValueError

    items = gen()
    next(items)
    log = []
    for _ in range(2):
        try:
            next(items)
        except (ValueError, StopIteration) as error:
            log.append(type(error).__name__)
    return x + 1, log


@program()
def stop_iteration_inside_is_a_runtime_error(x, n):
    def gen():
        yield x
        next(iter(()))

    out = []
    try:
        for y in gen():
            out.append(y + 1)
    except RuntimeError as error:
        out += [str(error), type(error.__cause__).__name__, type(error.__context__).__name__]
    return out


test_program = program.test()
