"""Errors that the user has to act on are raised from the user's line, without frames of this package."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dynamo_lite import config, logs
from dynamo_lite.insight.program_files import is_raised_by_us

P = ParamSpec("P")
R = TypeVar("R")


def shows_own_frames() -> bool:
    """Whether errors show this package's frames, too, because the user asks for more."""
    return config.verbose or logs.breaks.isEnabledFor(logging.DEBUG)


def raised_at_call(fn: Callable[P, R]) -> Callable[P, R]:
    """The public function ``fn``, which raises its errors about arguments without the frames that check them: the
    program's line is what matters, unless the user asks for more."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(*args, **kwargs)
        except (TypeError, ValueError) as error:
            if not shows_own_frames() and is_raised_by_us(error):
                error.__traceback__ = None
            raise

    return call
