"""What the module ``collections`` does in C."""

from __future__ import annotations

import _collections
from typing import Any


def count_elements(mapping: Any, iterable: Any) -> None:
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


TABLE: dict[Any, Any] = {_collections._count_elements: count_elements}
