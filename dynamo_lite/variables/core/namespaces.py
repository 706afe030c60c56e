"""Namespaces whose lookups may run code of the program: subclasses of dict, and names of a class derived from str."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedValue

from .base import unsupported


def why_unreadable(globals_: dict[str, Any], builtins: dict[str, Any]) -> str | None:
    """Why no frame with these namespaces is traced; None if it can be: CPython looks names up in both by C code."""
    for what, namespace in (("globals", globals_), ("builtins", builtins)):
        if type(namespace) is not dict:
            return f"its {what} are a {type(namespace).__name__}, whose class may look names up by code of its own"
    return None


def check_namespace(namespace: dict[str, Any]) -> None:
    """Break the graph at a function with these globals, unless CPython looks names up in them by C code."""
    why = why_unreadable(namespace, {})
    if why is not None:
        unsupported(UnsupportedValue("a function", why))


def check_lookup(namespace: dict[str, Any], name: str, describe_owner: Callable[[], str] = lambda: "globals()") -> None:
    """Break the graph where the lookup of a name compares it to a key by an ``__eq__`` of the program."""
    if not _C.looks_up_quietly(namespace, name):
        why = "a key of its namespace is of a class derived from str that defines __eq__"
        unsupported(UnsupportedAttribute(describe_owner(), name, why))
