"""What CPython 3.14 brings: placeholders of partials, strict map, lazy annotations, t-strings, the new syntax."""

from __future__ import annotations

import functools
import sys
import textwrap

import pytest
import torch

import dynamo_lite as dl
from collector import Programs
from outcomes import outcome, outcomes
from programs import check, tensor

if sys.version_info < (3, 14):
    pytest.skip("of CPython 3.14", allow_module_level=True)

import annotationlib

programs = Programs()
Placeholder = functools.Placeholder


def given(*args, **kwargs):
    return args, kwargs


second_is_5 = functools.partial(given, Placeholder, 5, k=7)
flipped_sub = functools.partial(torch.sub, Placeholder, 1)


@programs(tensor(2), operators=4)
def placeholders_of_pre_existing_partials_are_filled(x):
    return second_is_5(x), second_is_5(1, 2, k=3), flipped_sub(x), [*map(flipped_sub, [x, x + 1])]


@programs(tensor(2))
def placeholders_of_created_partials_are_filled_in_order(x):
    p = functools.partial(given, Placeholder, x, Placeholder, 3)
    return p(1, 2), p(x, 2, 4, k=5), p.args[0] is Placeholder, p.args[3], x + 1


@programs(tensor(2))
def partial_of_a_partial_fills_its_placeholders(x):
    p = functools.partial(given, Placeholder, 2, Placeholder, 4)
    q = functools.partial(p, x + 1)
    return q(3), functools.partial(p, 1, 3, 5).args, functools.partial(p, Placeholder, 3).args, q.args[2] is Placeholder


@programs(tensor(2), graphs=None)
def placeholders_that_are_wrong_raise(x):
    return x + 1, outcomes(
        lambda: functools.partial(given, 1, Placeholder),
        lambda: functools.partial(given, a=Placeholder),
        lambda: second_is_5(),
        lambda: functools.partial(given, Placeholder, 1, Placeholder, 2)(3),
    )


@programs(tensor(2))
def placeholder_is_a_constant(x):
    named = {Placeholder: 3}
    return x + named[Placeholder], Placeholder is functools.Placeholder, Placeholder == 3, second_is_5(Placeholder)


@programs(
    tensor(2),
    functools.partial(given, Placeholder, 1),
    others=[(tensor(2), functools.partial(given, 3, 1)), (tensor(2), functools.partial(given, Placeholder, 1, 2))],
)
def partials_with_and_without_placeholders_are_told_apart(x, p):
    return p(x), x + 1


@programs(tensor(2))
def strict_map_gives_all_items(x):
    return list(map(lambda a, b: a + b, [x, x], [1, 2], strict=True)), [*map(torch.neg, [x], strict=x.dim() == 1)]


@programs(tensor(2), graphs=None)
def strict_map_refuses_other_lengths(x):
    return x + 1, outcomes(
        lambda: list(map(lambda a, b: a + b, [x, x], [1], strict=True)),
        lambda: list(map(lambda a, b: a + b, [x], [1, 2], strict=True)),
        lambda: list(map(given, [x, x], [1, 2], [3], strict=True)),
        lambda: list(map(given, [x, x], [1], strict=False)),
    )


@programs(tensor(2))
def strict_map_is_returned(x):
    def numbers():
        yield 1
        yield 2

    return x + 1, map(given, [x, x], numbers(), strict=True)


@programs(tensor(2))
def annotations_that_name_nothing_are_not_computed(x):
    def inner(a: int, b: undefined = 1) -> undefined.attribute:  # noqa: F821
        return a + b

    return inner(x)


def test_annotations_are_read_and_replaced():
    program = """
    def fn(x):
        def inner(a: int, b: float = 1.0) -> float:
            return a * b

        first = inner.__annotations__
        inner.__annotate__ = lambda format: {"a": str}
        return inner(x), first, inner.__annotations__, inner.__annotate__(1)
    """
    check(compiled_without_future(program)["fn"], tensor(2), graphs=None)


def test_undefined_annotations_raise_when_they_are_read():
    program = """
    def fn(x):
        def inner(a: undefined):
            return a

        try:
            return x + 1, inner.__annotations__
        except NameError as error:
            return x + 2, str(error)
    """
    check(compiled_without_future(program)["fn"], tensor(2), graphs=None)


def test_annotations_are_read_in_each_format():
    namespace = compiled_without_future("def annotated(a: int, b: undefined) -> 'str': ...")
    annotated = namespace["annotated"]

    def fn(x):
        texts = annotationlib.get_annotations(annotated, format=annotationlib.Format.STRING)
        return x + len(texts), texts, outcome(lambda: annotated.__annotations__)[0]

    check(fn, tensor(2), graphs=None)


def test_handlers_name_several_classes_without_parentheses():
    program = """
    def fn(x):
        try:
            y = x + 1
            raise KeyError("a")
        except LookupError, ValueError:
            return y * 2
    """
    check(compiled_without_future(program)["fn"], tensor(2))


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_leaving_a_finally_drops_what_was_under_way():
    program = """
    def fn(x):
        for i in range(3):
            try:
                x = x + i
                if i == 1:
                    raise ValueError
            finally:
                x = x * 2
                if i == 1:
                    break
        try:
            return x
        finally:
            return x - 1
    """
    check(compiled_without_future(program)["fn"], tensor(2))


def test_t_strings_break_the_graph_and_go_on():
    program = """
    def fn(x):
        y = x + 1
        made = t"{y.dim()!r:>{3}} axes of {'x'}"
        return y * 2, made.strings, [(each.value, each.expression, each.conversion, each.format_spec) for each in
            made.interpolations]
    """
    check(compiled_without_future(program)["fn"], tensor(2), graphs=2, breaks=(1, 10))


@programs(tensor(2), graphs=None)
def not_implemented_has_no_truth_value(x):
    return x + 1, outcomes(lambda: not NotImplemented, lambda: bool(NotImplemented), lambda: NotImplemented and 1)


def compiled_without_future(program):
    """Returns the namespace of a program whose annotations aren't strings."""
    namespace = {}
    exec(compile(textwrap.dedent(program), "<program>", "exec", dont_inherit=True), namespace)
    return namespace


def test_annotations_that_raise_are_read_anew_at_each_call():
    program = """
    class Annotated:
        a: later

    def annotated(a: later): ...

    def fn(x):
        try:
            return x + 1, Annotated.__annotations__
        except NameError as error:
            found = str(error)
        try:
            return x + 2, found, annotated.__annotations__
        except NameError as error:
            return x + 3, found, str(error)
    """
    names = compiled_without_future(program)
    fn, x = names["fn"], torch.ones(2)
    compiled = dl.compile(fn, backend="eager")
    assert torch.equal(compiled(x)[0], x + 3) and compiled(x)[1:] == fn(x)[1:]
    names["later"] = int
    assert torch.equal(compiled(x)[0], x + 1) and compiled(x)[1] == {"a": int}


class Unhashable:
    def __hash__(self):
        raise TypeError("not by me")


@programs(tensor(2), graphs=None)
def errors_of_a_users_hash_say_what_it_was_for(x):
    key = Unhashable()
    return x + 1, outcomes(lambda: {key: 1}, lambda: {key}, lambda: hash(key), lambda: key in {1: 2}, lambda: [key])[:4]


class Asynchronous:
    async def __aenter__(self): ...

    async def __aexit__(self, *args): ...


@programs(tensor(2), graphs=None)
def errors_of_with_name_the_class_in_full(x):
    def enter(value):
        with value:
            return x

    return x + 1, outcomes(lambda: enter(Unhashable()), lambda: enter(Asynchronous()), lambda: enter(3))


test_python_314 = programs.test()
