"""Builtins and loaded modules that a function replaces, and then uses itself."""

from __future__ import annotations

import builtins
import importlib
import sys
import types

import pytest

import dynamo_lite as dl
from equality import Pairing
from programs import tensor


def tenfold(value):
    return value * 10


def by_attribute(x):
    builtins.abs = tenfold
    return abs(x)


def by_item(x):
    builtins.__dict__["abs"] = tenfold
    return abs(x)


def by_update(x):
    vars(builtins).update(abs=tenfold)
    return abs(x)


def calls_abs(x):
    return abs(x)


def for_a_callee(x):
    setattr(builtins, "abs", tenfold)
    return calls_abs(x)


def after_a_use(x):
    before, y = abs, abs(x)
    builtins.abs = tenfold
    y = y + abs(x) + builtins.abs(x)
    builtins.abs = before
    return y + abs(x)


def of_a_new_name(x):
    builtins.of_the_tests = tenfold
    y = of_the_tests(x)  # noqa: F821
    del builtins.of_the_tests
    try:
        return of_the_tests(x)  # noqa: F821
    except NameError:
        return y + 1


def not_by_formatting(x):
    builtins.repr = builtins.ascii = tenfold
    return x + 1, f"{3!r} {'a'!a} {4!s}", repr(3), ascii("a")


def module_of(value):
    found = types.ModuleType("module_of_the_tests")
    found.VALUE = value
    return found


OTHER = module_of(5.0)


def imports_another(x):
    sys.modules["module_of_the_tests"] = OTHER
    import module_of_the_tests

    return x * module_of_the_tests.VALUE


def imports_from_another(x):
    sys.modules.update(module_of_the_tests=OTHER)
    from module_of_the_tests import VALUE

    return x * VALUE, importlib.import_module("module_of_the_tests") is OTHER


def imports_one_that_is_forbidden(x):
    sys.modules["module_of_the_tests"] = None
    try:
        import module_of_the_tests
    except ImportError:
        return x * 2
    return x * module_of_the_tests.VALUE


def imports_one_that_is_dropped(x):
    module = sys.modules.pop("module_of_the_tests")
    try:
        import module_of_the_tests
    except ImportError:
        return x * module.VALUE
    return x * module_of_the_tests.VALUE + 1


def imports_a_new_name(x):
    sys.modules["other_module_of_the_tests"] = OTHER
    import other_module_of_the_tests

    del sys.modules["other_module_of_the_tests"]
    return x * other_module_of_the_tests.VALUE


WHOLE = [by_attribute, by_item, by_update, for_a_callee, after_a_use, not_by_formatting]
WHOLE += [imports_another, imports_from_another, imports_a_new_name]
BROKEN = [of_a_new_name, imports_one_that_is_forbidden, imports_one_that_is_dropped]


@pytest.fixture
def restored(monkeypatch):
    """Calls a function, then restores builtins and modules."""

    def call(fn, x):
        with monkeypatch.context() as patch:
            for name in ("abs", "repr", "ascii"):
                patch.setattr(builtins, name, getattr(builtins, name))
            patch.setitem(sys.modules, "module_of_the_tests", module_of(3.0))
            return fn(x)

    return call


@pytest.mark.parametrize("fn", [*WHOLE, *BROKEN], ids=lambda fn: fn.__name__)
def test_a_name_has_its_new_value(fn, restored):
    compiled = dl.compile(fn, backend="eager", fullgraph=fn in WHOLE)
    for x in (tensor(3), -tensor(3)):
        expected, found = restored(fn, x), restored(compiled, x)
        Pairing().compare(expected, found, fn.__name__)
