"""The table of methods that C code calls on instances of derived classes, against the running CPython."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

import pytest

from dynamo_lite.variables.polyfills.derived import OF_DERIVED

VALUES: dict[type, Any] = {
    **{tuple: (1, 2), list: [1, 2], set: {1, 2}, frozenset: {1, 2}, deque: [1, 2], str: "ab", int: 3, float: 2.0},
    **dict.fromkeys((dict, OrderedDict, defaultdict), {"a": 1, "b": 2}),
}
"""The builtin types that classes derive from, and what an instance is created from."""
NOT_LOGGED = frozenset(
    "__new__ __init__ __getattribute__ __class__ __init_subclass__ __subclasshook__ __doc__ __dir__ "
    "__reduce_ex__ __getstate__ __sizeof__ __class_getitem__ __setattr__ __delattr__ __module__ "
    "__format__ fromkeys maketrans __missing__".split()
)


def logging_class(base: type) -> tuple[type, list[tuple[int, str]]]:
    """A class that overrides every method of ``base``, and the log of (id of the instance, method)."""
    log: list[tuple[int, str]] = []

    def overriding(name: str) -> Any:
        raw = getattr(base, name)

        def method(self, *args, **kwargs):
            log.append((id(self), name))
            return raw(self, *args, **kwargs)

        return method

    names = [name for name in dir(base) if name not in NOT_LOGGED and callable(getattr(base, name))]
    return type("Derived", (base,), {name: overriding(name) for name in names}), log


def calls_of(base: type, name: str, method: Any) -> list[Any]:
    """For several arguments: the methods that ``method`` calls on an instance of `logging_class`, an argument or a new
    instance, in order, and what it returns or raises."""
    cls, log = logging_class(base)
    found: list[Any] = []
    value = VALUES[base]
    first = (int,) if base is defaultdict else ()
    plain, derived = base(*first, value), cls(*first, value)
    numbers = (1,), (2,), (0, 5)
    for args in ((), (value,), (plain,), (derived,), *numbers, ("a",), ("q",), ("a", 5), ((),), ({},), (int, {})):
        instance = cls(*first, value)
        log.clear()
        try:
            result = method(instance, *args)
        except Exception as error:  # these arguments aren't for this method
            result = error
        owners = {id(instance): "instance", id(derived): "argument"}
        calls = [(owners.get(owner, "another"), called) for owner, called in log]
        found.append((args, calls, type(result).__name__, result if isinstance(result, str) else None))
    return found


METHODS = [
    pytest.param(base, name, id=f"{base.__name__}.{name}")
    for base in VALUES
    for name in dir(base)
    if name not in NOT_LOGGED
    and callable(getattr(base, name))
    and getattr(base, name) is not getattr(object, name, None)
    if (base, name) != (defaultdict, "__getitem__")
]
"""Methods that types inherit from ``object`` have no rows, though ``__str__`` calls ``__repr__``. ``__getitem__`` of a
dict calls ``__missing__``, which has a row."""


@pytest.mark.parametrize(("base", "name"), METHODS)
def test_rows_list_the_methods_that_a_method_calls(base, name):
    """A method without a row calls no methods except those of its arguments."""
    in_c = calls_of(base, name, getattr(base, name))
    row = OF_DERIVED.get(base, {}).get(name)
    if row is None:
        calls = [call for _, calls, kind, _ in in_c if not kind.endswith("Error") for call in calls]
        assert not [(owner, called) for owner, called in calls if owner != "argument"]
    else:
        assert calls_of(base, name, row) == in_c


def test_rows_are_methods_of_the_type():
    for base, methods in OF_DERIVED.items():
        assert all(callable(getattr(base, name)) for name in methods)
