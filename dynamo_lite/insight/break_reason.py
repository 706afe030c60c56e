"""What a reason of a graph break is made of, and the table of all of them by their codes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
class BreakReason:
    """Base of all reasons: one row of the table each, declared in `break_reasons`.

    A row states its code and whether numbers can matter in its class statement, then two sentences with its fields in
    braces, then the fields::

        class UnknownCall(BreakReason, code="DL0201", numbers_matter=False):
            happened = "the call of {callee} can't be traced: {because}"
            mend = "keep the call outside of the compiled function"
            callee: str
            because: str
    """

    code: ClassVar[str]
    """Stable, for searching and for pages of the documentation: ``DL`` and four digits, the first two of a family."""
    numbers_matter: ClassVar[bool]
    """Whether the graph might not break here if symbolic numbers were known: the frame is then translated again with
    these numbers specialized."""
    happened: ClassVar[str]
    mend: ClassVar[str]

    def __init_subclass__(cls, *, code: str, numbers_matter: bool) -> None:
        cls.code, cls.numbers_matter = code, numbers_matter
        dataclasses.dataclass(frozen=True)(cls)
        other = TABLE.setdefault(code, cls)
        assert other is cls, f"{code} is both {other.__name__} and {cls.__name__}"

    def what(self) -> str:
        """What happened, as one sentence."""
        return self.happened.format_map(vars(self))

    def hint(self) -> str:
        """What to do about it."""
        return self.mend.format_map(vars(self))

    def __str__(self) -> str:
        return self.what()


TABLE: dict[str, type[BreakReason]] = {}
"""All reasons by code."""
