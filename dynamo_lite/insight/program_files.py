"""Which files are the program's own, so that what is said to its author names a line that they wrote."""

from __future__ import annotations

import os
import site
import sysconfig
from collections.abc import Sequence
from typing import Protocol, TypeVar


class _HasFile(Protocol):
    @property
    def filename(self) -> str: ...


Frame = TypeVar("Frame", bound=_HasFile)

_LIBRARIES = tuple(
    os.path.join(folder, "")
    for folder in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
)


_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def without_ours(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Without frames of this package: it has Python functions that are traced instead of some written in C. All
    of them where there is nothing else."""
    return [frame for frame in frames if not frame.filename.startswith(_OURS)] or frames


def is_installed(filename: str) -> bool:
    """Whether a file belongs to the standard library or an installed package, and not to the program."""
    return filename.startswith(("<frozen ", *_LIBRARIES))


def innermost_of_program(frames: Sequence[Frame]) -> Frame:
    """The innermost frame of the program's own; where there is none, the innermost. ``frames``: outermost first.

    Code without a file is the program's only where nothing else is: dataclasses generate some, and it may be typed in.
    """
    own = [frame for frame in frames if not is_installed(frame.filename)]
    in_files = [frame for frame in own if not frame.filename.startswith("<")]
    return (in_files or own or frames)[-1]
