"""Polyfills of ``logging``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any


def is_enabled_for(self: Any, level: int) -> bool:
    """``Logger.isEnabledFor`` without its cache, which isn't observable."""
    if self.disabled or self.manager._disable >= level:
        return False
    return level >= self.getEffectiveLevel()


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {logging.Logger.isEnabledFor: is_enabled_for}
