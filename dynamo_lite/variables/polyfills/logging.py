"""Polyfills of ``logging``: a call below the effective level is removed; one that emits a record breaks the graph."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any


def emit_record(name: str) -> None:
    """Stands for the output of a record, at which the graph breaks."""


def get_effective_level(self: logging.Logger) -> int:
    logger: logging.Logger | None = self
    while logger:
        if logger.level:
            return logger.level
        logger = logger.parent
    return logging.NOTSET


def is_enabled_for(self: Any, level: int) -> bool:
    """``Logger.isEnabledFor`` without its cache, which isn't observable."""
    if self.disabled or self.manager._disable >= level:
        return False
    return level >= self.getEffectiveLevel()


def log(self: logging.Logger, level: int, msg: object, *args: object, **kwargs: object) -> None:
    if self.isEnabledFor(level):
        emit_record("Logger.log")


def debug(self: logging.Logger, msg: object, *args: object, **kwargs: object) -> None:
    if self.isEnabledFor(logging.DEBUG):
        emit_record("Logger.debug")


def info(self: logging.Logger, msg: object, *args: object, **kwargs: object) -> None:
    if self.isEnabledFor(logging.INFO):
        emit_record("Logger.info")


def warning(self: logging.Logger, msg: object, *args: object, **kwargs: object) -> None:
    if self.isEnabledFor(logging.WARNING):
        emit_record("Logger.warning")


def error(self: logging.Logger, msg: object, *args: object, **kwargs: object) -> None:
    if self.isEnabledFor(logging.ERROR):
        emit_record("Logger.error")


def critical(self: logging.Logger, msg: object, *args: object, **kwargs: object) -> None:
    if self.isEnabledFor(logging.CRITICAL):
        emit_record("Logger.critical")


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    logging.Logger.getEffectiveLevel: get_effective_level,
    logging.Logger.isEnabledFor: is_enabled_for,
    logging.Logger.log: log,
    logging.Logger.debug: debug,
    logging.Logger.info: info,
    logging.Logger.warning: warning,
    logging.Logger.error: error,
    logging.Logger.critical: critical,
}
