"""The table of methods that C code calls on instances of derived classes, against the running CPython."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

import pytest

from dynamo_lite.variables.python.objects.inherited_methods import CALLED, NOT_MODELLED, REPLACED

VALUES: dict[type, Any] = {
    **{tuple: (1, 2), list: [1, 2], set: {1, 2}, frozenset: {1, 2}, deque: [1, 2], str: "ab", int: 3, float: 2.0},
    **dict.fromkeys((dict, OrderedDict), {"a": 1, "b": 2}),
}
"""The builtin types that classes derive from, and what an instance is created from."""
NOT_LOGGED = frozenset(
    "__new__ __init__ __getattribute__ __class__ __init_subclass__ __subclasshook__ __doc__ __dir__ __reduce__ "
    "__reduce_ex__ __getstate__ __sizeof__ __class_getitem__ __setattr__ __delattr__ __getnewargs__ __module__ "
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


def calls_of(base: type, name: str) -> set[str]:
    """The methods that ``base.name`` calls on an instance, whatever it is given."""
    cls, log = logging_class(base)
    found: set[str] = set()
    value = VALUES[base]
    for args in ((), (value,), (base(value),), (cls(value),), (1,), ("a",), ("q",), (0, 5), ("a", 5), ((),), ({},)):
        instance = cls(value)
        log.clear()
        try:
            getattr(base, name)(instance, *args)
        except Exception:  # these arguments aren't for this method
            continue
        found |= {called for owner, called in log if owner == id(instance)}
    return found


METHODS = [
    pytest.param(base, name, id=f"{base.__name__}.{name}")
    for base in VALUES
    for name in dir(base)
    if name not in NOT_LOGGED and callable(getattr(base, name)) and getattr(base, name) is not object.__str__
]
"""``object.__str__`` calls ``__repr__``, which has a row of its own."""


@pytest.mark.parametrize(("base", "name"), METHODS)
def test_row_has_what_the_method_calls(base, name):
    if name in REPLACED.get(base, {}) or name in NOT_MODELLED.get(base, ()):
        return
    row = CALLED.get(base, {}).get(name, ())
    read_as_mapping = {"keys", "__getitem__"} if base in (dict, OrderedDict) and "__iter__" in row else set()
    assert calls_of(base, name) <= {*row, *read_as_mapping}


def test_replaced_methods_are_those_of_the_type():
    for base, methods in REPLACED.items():
        assert all(callable(getattr(base, name)) for name in methods)
