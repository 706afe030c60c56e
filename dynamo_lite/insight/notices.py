"""What is said to the user once a process, as a warning at the program's own line."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import torch

said: set[object] = set()
"""What has been said: the messages, or what stands for them."""

_NOT_THE_PROGRAMS = (str(Path(__file__).parents[1]) + os.sep, os.path.dirname(torch.__file__) + os.sep)
_getframe = sys._getframe


def warn_here(message: str) -> None:
    """Warn at the innermost frame that is neither ours nor torch's."""
    level, frame = 1, _getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_PROGRAMS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def say_once(message: str) -> None:
    """Warn, once a process for each message."""
    if message not in said:
        said.add(message)
        warn_here(f"{message} (Said once.)")
