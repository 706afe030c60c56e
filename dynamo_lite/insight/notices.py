"""Warnings to the user, at the program's own line, some of them once in each process."""

from __future__ import annotations

import os
import sys
import warnings

import torch

from .program_files import OURS

said: set[object] = set()
"""The messages, or their keys, of warnings that were given already."""

_NOT_THE_PROGRAMS = (OURS, os.path.dirname(torch.__file__) + os.sep)
_getframe = sys._getframe


def warn_here(message: str) -> None:
    """Warn at the innermost frame that is neither ours nor torch's."""
    level, frame = 1, _getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_PROGRAMS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def say_once(message: str) -> None:
    """Warn, but only once in a process for each message."""
    if message not in said:
        said.add(message)
        warn_here(f"{message} (Said once.)")
