"""The base class of the reasons of graph breaks, and the table of all reasons by code."""

from __future__ import annotations

import inspect
from typing import ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
class BreakReason:
    """Base of all reasons. Each subclass is one row of the table, declared in `break_reasons`.

    Type checkers take a row for a frozen dataclass. `dataclasses` itself would compile six functions for each row, a
    tenth of the package's import time. A row states its code and whether numbers can matter in its class statement,
    then two sentences with its fields in braces, then the fields::

        class UnknownCall(BreakReason, code="DL0201", numbers_matter=False):
            happened = "the call of {callee} can't be traced: {because}"
            fix = "keep the call outside of the compiled function"
            callee: str
            because: str
    """

    code: ClassVar[str]
    """Stable, for searching and for pages of the documentation: ``DL`` and four digits, the first two of a family."""
    numbers_matter: ClassVar[bool]
    """Whether the graph might not break here if symbolic numbers were known: the frame is then translated again with
    these numbers specialized."""
    may_follow: ClassVar[bool] = False
    """Whether it may be about an object that an earlier break on the same line of the program gave, or one in what that
    line calls: after a break at `open`, the file is entered as a context manager that isn't traced."""
    happened: ClassVar[str]
    fix: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]
    """Names of the row's fields. One with a default has it as the class's attribute of that name."""

    def __init_subclass__(cls, *, code: str, numbers_matter: bool, may_follow: bool = False) -> None:
        cls.code, cls.numbers_matter, cls.may_follow = code, numbers_matter, may_follow
        cls.fields = tuple(inspect.get_annotations(cls))
        other = TABLE.setdefault(code, cls)
        assert other is cls, f"{code} is both {other.__name__} and {cls.__name__}"

    def __init__(self, *values: object, **named: object) -> None:
        given = dict(zip(self.fields, values), **named)
        missing = [name for name in self.fields if name not in given and not hasattr(type(self), name)]
        if missing or len(values) > len(self.fields) or not given.keys() <= {*self.fields}:
            raise TypeError(f"{type(self).__name__} has the fields {self.fields}, not {values} and {named}")
        vars(self).update({name: given.get(name, getattr(type(self), name, None)) for name in self.fields})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.code, *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def is_of_data(self) -> bool:
        """Whether the program needs the values of tensors, which no trace knows: the family of codes ``DL03``."""
        return self.code.startswith("DL03")

    def what(self) -> str:
        """What happened, as one sentence."""
        return self.happened.format_map(vars(self))

    def hint(self) -> str:
        """What to do about it."""
        return self.fix.format_map(vars(self))

    def __str__(self) -> str:
        return self.what()


TABLE: dict[str, type[BreakReason]] = {}
"""All reasons by code."""
