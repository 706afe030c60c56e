"""What `type.__new__` calls."""

from __future__ import annotations

import sys
from typing import Any


def set_name(hook: Any, cls: Any, name: str, failed: str) -> None:
    """``__set_name__`` of what a class has under a name. ``failed``: what is said where it raises."""
    try:
        hook(cls, name)
    except BaseException as error:
        if sys.version_info < (3, 12):
            raise RuntimeError(failed) from error
        error.add_note(failed)
        raise
