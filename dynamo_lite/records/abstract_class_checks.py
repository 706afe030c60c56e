"""What abstract classes answered while a frame was traced: that lasts until some class is registered with one."""

from __future__ import annotations

import weakref
from abc import get_cache_token
from collections.abc import Callable
from typing import Any

from .code_origin import FOLDED_ERRORS

Question = Callable[..., Any]


class AbstractClassChecks:
    """Questions to abstract classes, with what they answered. Holds the classes weakly.

    After a registration, of whatever class, all of them are asked again: the answers may be what they were.
    """

    def __init__(self) -> None:
        self.token: list[Any] = []
        """`get_cache_token` when the answers were last known to hold; empty if there are none. A guard reads it."""
        self._asked: list[tuple[Question, tuple[weakref.ref[Any], ...], Any]] = []

    def ask(self, question: Question, *classes: Any) -> Any:
        """What a question that depends on nothing else of these classes is answered: a plain value, or one of them."""
        self.token = self.token or [get_cache_token()]
        answer = question(*classes)
        self._asked.append((question, tuple(map(weakref.ref, classes)), self._known(answer)))
        return answer

    @staticmethod
    def _known(answer: Any) -> Any:
        return id(answer) if isinstance(answer, type) else answer

    def renew(self) -> bool:
        """After a registration: whether the answers are what they were. They hold from now on if so."""
        token = get_cache_token()
        if not self.token or self.token[0] == token:
            return False
        for question, classes, answer in self._asked:
            given = [each() for each in classes]
            try:
                if any(each is None for each in given) or self._known(question(*given)) != answer:
                    return False
            except FOLDED_ERRORS:  # of the program's own, which the program will see when it asks
                return False
        self.token[0] = token
        return True

    def hold(self) -> bool:
        """Whether the answers hold now."""
        return not self.token or self.token[0] == get_cache_token() or self.renew()
