"""Results of ``isinstance`` and ``issubclass`` with abstract classes, valid until a class is registered with one.

Programs that need it: those that check for ``Mapping`` or ``numbers.Number``, as loaders and trainers do, before they
import a library that registers its classes (numpy's scalars with ``numbers``).
"""

from __future__ import annotations

import weakref
from abc import get_cache_token
from collections.abc import Callable
from typing import Any

from .code_origin import FOLDED_ERRORS

Check = Callable[..., Any]
"""A function of classes or generic functions whose result changes only with registrations."""


class AbstractClassChecks:
    """The checks made during tracing, with their results. Refers to the classes weakly.

    After a registration of any class, all checks are repeated: the results may still be the same.
    """

    def __init__(self) -> None:
        self.token: list[Any] = []
        """The argument of the guard ``registrations``, which reads it at each call: [what `get_cache_token` returned
        when the results were last valid, `get_cache_token`]. Empty before the first check."""
        self._checks: list[tuple[Check, tuple[weakref.ref[Any], ...], Any]] = []

    def make(self, check: Check, *classes: object) -> Any:
        """Make a check and record its result: a plain value, or one of the classes."""
        self.token = self.token or [get_cache_token(), get_cache_token]
        result = check(*classes)
        self._checks.append((check, tuple(map(weakref.ref, classes)), self._without_reference(result)))
        return result

    @staticmethod
    def _without_reference(result: object) -> Any:
        return id(result) if isinstance(result, type) else result

    def renew(self) -> bool:
        """After a registration: repeat the checks. Whether all results are the same; then they are valid again."""
        token = get_cache_token()
        if not self.token or self.token[0] == token:
            return False
        for check, references, result in self._checks:
            classes = [each() for each in references]
            try:
                if any(each is None for each in classes) or self._without_reference(check(*classes)) != result:
                    return False
            except FOLDED_ERRORS:  # raised by user code, which will raise it again when the program makes the check
                return False
        self.token[0] = token
        return True

    def hold(self) -> bool:
        """Whether the results are valid now."""
        return not self.token or self.token[0] == get_cache_token() or self.renew()
