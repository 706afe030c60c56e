"""What is said to the user once a process, as a warning at the program's own line."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

said: set[object] = set()
"""What has been said: the messages, or what stands for them."""

_HERE = str(Path(__file__).parents[1])
_getframe = sys._getframe


def warn_here(message: str) -> None:
    """Warn at the innermost frame that isn't ours."""
    level, frame = 1, _getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def say_once(message: str) -> None:
    """Warn, once a process for each message."""
    if message not in said:
        said.add(message)
        warn_here(f"{message} (Said once.)")
