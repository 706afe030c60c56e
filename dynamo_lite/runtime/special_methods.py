"""Special methods, looked up as CPython does: on the class alone."""

from __future__ import annotations

from typing import Any


def exit_of(manager: object) -> Any:
    """The bound ``__exit__`` that a ``with`` block keeps. The class has one."""
    cls = type(manager)
    found = next(vars(base)["__exit__"] for base in cls.__mro__ if "__exit__" in vars(base))
    get = getattr(type(found), "__get__", None)
    return found if get is None else get(found, manager, cls)
