"""Polyfills of ``collections``."""

from __future__ import annotations

import _collections
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any


def count_elements(mapping: MutableMapping[Any, int], iterable: Iterable[object]) -> None:
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {_collections._count_elements: count_elements}
