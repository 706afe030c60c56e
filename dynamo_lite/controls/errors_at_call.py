"""Errors about the arguments of a public function are raised as by the function itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dynamo_lite import config
from dynamo_lite.insight.program_files import is_raised_by_us

P = ParamSpec("P")
R = TypeVar("R")


def raised_at_call(fn: Callable[P, R]) -> Callable[P, R]:
    """The public function ``fn``, which raises its errors about arguments without the frames that check them: the
    program's line is what matters. ``config.verbose`` shows them."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(*args, **kwargs)
        except (TypeError, ValueError) as error:
            if not config.verbose and is_raised_by_us(error):
                error.__traceback__ = None
            raise

    return call
