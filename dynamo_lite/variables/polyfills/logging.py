"""The module ``logging``: whether a logger is heard is known; one that is breaks the graph where it speaks."""

from __future__ import annotations

import logging
from typing import Any


def speak(name: str) -> None:
    """Stands for output: it is not traced."""


def get_effective_level(self: Any) -> int:
    logger = self
    while logger:
        if logger.level:
            return logger.level
        logger = logger.parent
    return logging.NOTSET


def is_enabled_for(self: Any, level: int) -> bool:
    """It remembers its answers, which nobody can see."""
    if self.disabled or self.manager._disable >= level:
        return False
    return level >= self.getEffectiveLevel()


def log(self: Any, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    if self.isEnabledFor(level):
        speak("Logger.log")


def debug(self: Any, msg: Any, *args: Any, **kwargs: Any) -> None:
    if self.isEnabledFor(logging.DEBUG):
        speak("Logger.debug")


def info(self: Any, msg: Any, *args: Any, **kwargs: Any) -> None:
    if self.isEnabledFor(logging.INFO):
        speak("Logger.info")


def warning(self: Any, msg: Any, *args: Any, **kwargs: Any) -> None:
    if self.isEnabledFor(logging.WARNING):
        speak("Logger.warning")


def error(self: Any, msg: Any, *args: Any, **kwargs: Any) -> None:
    if self.isEnabledFor(logging.ERROR):
        speak("Logger.error")


def critical(self: Any, msg: Any, *args: Any, **kwargs: Any) -> None:
    if self.isEnabledFor(logging.CRITICAL):
        speak("Logger.critical")


TABLE: dict[Any, Any] = {
    logging.Logger.getEffectiveLevel: get_effective_level,
    logging.Logger.isEnabledFor: is_enabled_for,
    logging.Logger.log: log,
    logging.Logger.debug: debug,
    logging.Logger.info: info,
    logging.Logger.warning: warning,
    logging.Logger.error: error,
    logging.Logger.critical: critical,
}
