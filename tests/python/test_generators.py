"""Generators in loops, expressions and pipelines, and generators that outlive a break."""

from __future__ import annotations

import contextlib

import torch

from collector import Programs
from programs import tensor
from shared_programs import logged, numbers, scaled

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


@program()
def consumed_by_for_with_the_body_between_items(x, n):
    log = []
    for i in logged(log, range(n)):
        CUT
        x = x + i
        log.append(f"body {i}")
    return x, log


@program()
def broken_out_of_and_resumed(x, n):
    items = scaled(x, n)
    for y in items:  # noqa: B007
        break
    CUT
    rest = [each + y for each in items]
    return rest


@program()
def next_by_hand_with_a_default(x, n):
    items = numbers(2)
    a, b = next(items), next(items)
    CUT
    return x + a + b, next(items, "end"), next(items, None)


@program()
def stop_iteration_carries_the_returned_value(x, n):
    def gen():
        yield 1
        return x + n

    items = gen()
    next(items)
    CUT
    try:
        next(items)
    except StopIteration as stop:
        return stop.value * 2


@program()
def a_generator_sees_the_callers_later_changes(x, n):
    values = [1, 2]

    def gen():
        for each in values:
            yield x * each

    items = gen()
    out = [next(items)]
    values.append(3)
    CUT
    values[1] = 5
    return out + list(items)


@program()
def generator_expression_binds_its_first_iterable_early(x, n):
    source = [1, 2, 3]
    k = 10
    items = (x * (each + k) for each in source)
    source = [7]
    k = 20
    CUT
    return list(items), source


@program()
def one_generator_zipped_with_itself(x, n):
    items = numbers(6)
    pairs = list(zip(items, items, items))
    return x * pairs[1][2], pairs


@program()
def passed_through_enumerate_map_and_filter(x, n):
    items = enumerate(map(lambda v: v * 2, filter(lambda i: i % 2, numbers(6))))
    first = next(items)
    CUT
    return x * first[1], list(items)


@program()
def chained_pipeline(x, n):
    def double(items):
        for item in items:
            yield item * 2

    def shifted(items, by):
        for item in items:
            CUT
            yield item + by

    return list(shifted(double(scaled(x, n)), n))


@program()
def unpacked_into_names_and_calls(x, n):
    a, *b = numbers(4)
    (c, d) = numbers(2)

    def call(*args):
        return sum(args)

    return x * (a + d) + call(*numbers(n)), b, {*numbers(3)}, [*numbers(2), *numbers(1)]


@program()
def assigned_to_a_slice_and_extended(x, n):
    out = [x, x]
    out[1:1] = scaled(x, 2)
    out.extend(scaled(x, 1))
    out += scaled(x, 1)
    return out


@program()
def membership_consumes_up_to_the_item(x, n):
    items = numbers(6)
    found = 2 in items
    CUT
    return x + 1, found, list(items)


@program()
def state_in_a_closure(x, n):
    count = 0

    def gen():
        nonlocal count
        while True:
            count += 1
            yield x * count

    items = gen()
    a = next(items)
    CUT
    b = next(items)
    count = 10
    return a, b, next(items), count


@program()
def try_except_else_finally_around_yields(x, n):
    log = []

    def gen():
        for i in range(3):
            try:
                yield x * i
                if i == 1:
                    raise ValueError(i)
            except ValueError as error:
                log.append(f"except {error}")
                continue
            else:
                log.append("else")
            finally:
                log.append(f"finally {i}")

    out = []
    for y in gen():
        CUT
        out.append(y + 1)
    return out, log


@program()
def suspended_in_an_except_block(x, n):
    def gen():
        try:
            raise ValueError("held")
        except ValueError as error:
            yield x
            yield str(error)
            raise

    items = gen()
    next(items)
    CUT
    text = next(items)
    try:
        next(items)
    except ValueError as error:
        return x + 1, text, error.args


@program()
def suspended_in_a_with_block(x, n):
    log = []

    @contextlib.contextmanager
    def manager(name):
        log.append("enter " + name)
        try:
            yield name
        finally:
            log.append("exit " + name)

    def gen():
        with manager("a") as a:
            yield a
            with manager("b") as b:
                yield b

    out = []
    for name in gen():
        CUT
        out.append(name)
    return x + len(out), log


@program()
def suspended_under_no_grad(x, n):
    def gen():
        yield x * 2
        with torch.no_grad():
            z = x * 3
        yield z

    return [y + 1 for y in gen()]


@program()
def truth_identity_and_type(x, n):
    items = numbers(n)
    return bool(items), iter(items) is items, type(items).__name__, hasattr(items, "send"), x + 1


@program()
def returned_to_the_caller_half_used(x, n):
    items = scaled(x, n)
    y = next(items) + 1
    return y, items


@program()
def returned_to_the_caller_untouched(x, n):
    return x + 1, scaled(x, n), (x * i for i in range(n))


class Tree:
    def __init__(self, value, children):
        self.value = value
        self.children = children

    def __iter__(self):
        yield self.value
        for child in self.children:
            yield from child


@program(graphs=1)
def methods_that_are_generators(x, n):
    return list(Tree(x, [Tree(x + 1, []), Tree(x + 2, [Tree(x * 3, [])])]))


class Stepper:
    def __init__(self):
        self.items = numbers(10)

    def step(self, y):
        return y + next(self.items)


@program()
def generator_kept_on_an_object_between_its_calls(x, n):
    counter = Stepper()
    y = counter.step(x)
    CUT
    return counter.step(counter.step(y))


@program()
def exception_context_inside_a_generator(x, n):
    def gen():
        yield x
        try:
            raise KeyError("inner")
        except KeyError:
            yield x + 1
        try:
            raise ValueError("after")
        except ValueError as error:
            yield error.__context__

    out = []
    try:
        raise TypeError("outer")
    except TypeError:
        for y in gen():
            out.append(y)
    return out[0], out[1], out[2] is None


@program()
def already_executing(x, n):
    def gen():
        try:
            next(items)
        except ValueError as error:
            yield str(error)

    items = gen()
    return next(items), x + 1


test_program = program.test()
