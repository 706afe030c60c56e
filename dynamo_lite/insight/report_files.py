"""Writes the files of reports: as UTF-8, and never through a symbolic link, which somebody else may have put there."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def check_is_no_link(path: Path) -> None:
    """
    Raises:
        OSError: it is a symbolic link.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link, which reports are not written through", str(path))


def write_text(path: Path, text: str) -> None:
    """Write a file. Characters that UTF-8 has no bytes for, as file names may have, are escaped.

    Raises:
        OSError: it can't be written, or is a symbolic link.
    """
    check_is_no_link(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
