"""Which tests a run takes: their markers, which follow from their rooms, and a sample of those of any interpreter."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import PurePath
from typing import TypeVar

import pytest

_Choice = TypeVar("_Choice")

INTERPRETER = (
    *("breaks", "csrc", "python", "python/classes", "python/exceptions", "python/opcodes"),
    *("process/test_interrupts", "process/test_threads", "stress/test_cpython", "unit/test_bytecode"),
)
"""Rooms, or beginnings of their files' names, that test what differs between versions of CPython."""
SAMPLED = (
    *("python/classes/test_c_methods", "python/classes/test_class_attributes", "python/classes/test_metaclass_methods"),
    *("python/classes/test_object_protocols", "python/exceptions/test_caught_exceptions"),
    *("python/exceptions/test_failing_operators", "python/exceptions/test_modes_after_failures"),
    *("python/exceptions/test_raised_exceptions", "python/test_mutated_containers"),
)
"""Files of these rooms of which other versions run no more than a sample."""
STRESS = ("stress",)
FULL = (
    *("backends", "distributed", "export", "models", "numpy"),
    *("torch/autograd", "torch/higher_order", "torch/modules", "torch/subclasses"),
)
"""Rooms that no quick run takes. Tests elsewhere say so themselves, or are compiled by Inductor."""


def in_rooms(path: PurePath, rooms: tuple[str, ...]) -> bool:
    """Tells whether a file, relative to tests/, is in one of some rooms. Nested rooms don't count."""
    return path.parent.as_posix() in rooms or path.as_posix().startswith(
        tuple(room for room in rooms if "/test" in room)
    )


def mark(item: pytest.Item, path: PurePath) -> None:
    """Returns the marks of a test: ``stress``, ``full`` or ``fast``, and ``interpreter``."""
    if in_rooms(path, INTERPRETER) and not in_rooms(path, SAMPLED):
        item.add_marker("interpreter")
    if in_rooms(path, STRESS):
        item.add_marker("stress")
    elif in_rooms(path, FULL) or "inductor" in item.name:
        item.add_marker("full")
    elif item.get_closest_marker("full") is None:
        item.add_marker("fast")


def sampled(item: pytest.Item, fraction: float, seed: str, *, from_all: bool) -> bool:
    """Whether a test is in the sample that a seed draws; those of the interpreter are in each, or drawn like the others
    (``from_all``)."""
    if not from_all and item.get_closest_marker("interpreter") is not None:
        return True
    return _number(f"{seed} {item.nodeid}") < fraction * 2**64


def drawn(config: pytest.Config, choices: Sequence[_Choice]) -> _Choice:
    """Returns the one of several samples that ``--sample-seed`` draws."""
    return choices[_number(config.getoption("sample_seed")) % len(choices)]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
