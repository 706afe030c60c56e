"""What dynamo_lite says, by subject: ``DYNAMO_LITE_LOGS=breaks,recompiles python train.py``, or `set`.
``TORCH_LOGS=graph_breaks,recompiles`` means the same.

They are loggers of the standard library, named ``dynamo_lite.breaks`` and so on. Where the program has set no handler,
they print to standard error.
"""

from __future__ import annotations

import logging
import os
import sys

import torch.distributed as dist

from .insight.suggestions import suggestion


def rank() -> str:
    """Begins a message where several processes communicate: ``rank 1 of 2: ``; empty otherwise. The others wait, in
    the next collective, for one that compiles."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return ""
    return f"rank {dist.get_rank()} of {dist.get_world_size()}: "


breaks = logging.getLogger("dynamo_lite.breaks")
"""INFO: each graph break, with its code, place, reason and hint. DEBUG: also the call stack, and frames without
operators that run in eager. WARNING: what is not compiled although the program asks for it."""
recompiles = logging.getLogger("dynamo_lite.recompiles")
"""INFO: what has changed when a frame is translated again, and what to do about it; among several processes also when
that is done."""
guards = logging.getLogger("dynamo_lite.guards")
"""INFO: the guards of each new entry."""
graph = logging.getLogger("dynamo_lite.graph")
"""INFO: each graph that is handed to the backend, as Python."""
bytecode = logging.getLogger("dynamo_lite.bytecode")
"""INFO: the bytecode of each new entry, with what its constants are."""
side_effects = logging.getLogger("dynamo_lite.side_effects")
"""INFO: the objects and globals of the program that each new entry writes to after its graph."""
perf = logging.getLogger("dynamo_lite.perf")
"""INFO: how long translating and compiling each frame took, and waiting for another process that compiled the same;
calls that run in eager until that is done."""

_OF_TORCHS = {
    "graph_breaks": "breaks",
    "recompiles": "recompiles",
    "recompiles_verbose": "recompiles",
    "guards": "guards",
    "graph": "graph",
    "graph_code": "graph",
    "bytecode": "bytecode",
    "side_effects": "side_effects",
}
"""Subjects by the names that ``TORCH_LOGS`` has for them, which hold here, too."""
SUBJECTS = ("breaks", "recompiles", "guards", "graph", "bytecode", "side_effects", "perf")


def set(*subjects: str, **levels: bool | int | str) -> None:
    """Turn subjects on or off; those that aren't named stay as they are.

    Args:
        subjects: those to turn on; several may stand in one string, ``"breaks,recompiles"``. With a ``+`` in front,
            at DEBUG instead of INFO; ``"all"``: all of them.
        levels: by subject, True (INFO), False (WARNING) or a level of `logging`.

    Raises:
        TypeError: a subject is no string; a level is none.
        ValueError: there is no such subject or level; the message names the one that is meant.

    Example:
        >>> import dynamo_lite as dl
        >>> dl.logs.set("breaks", recompiles="DEBUG")
        >>> dl.logs.set(breaks=False, recompiles=False)
    """
    chosen: dict[str, bool | int | str] = {}
    for each in subjects:
        if not isinstance(each, str):
            raise TypeError(f"a log subject must be a name, not {type(each).__name__} ({each!r})")
        for word in each.lower().replace(",", " ").split():
            name, level = word.removeprefix("+"), "DEBUG" if word.startswith("+") else "INFO"
            for subject in SUBJECTS if name == "all" else (name,):
                chosen[subject] = level
    chosen |= levels
    numbers = {name: _level(name, wanted) for name, wanted in chosen.items()}
    for name, number in numbers.items():
        logging.getLogger(f"dynamo_lite.{name}").setLevel(number)


def _level(name: str, wanted: bool | int | str) -> int | str:
    if name not in SUBJECTS:
        raise ValueError(f"unknown log subject {name!r}; {suggestion(name, SUBJECTS)}")
    if isinstance(wanted, bool):
        return logging.INFO if wanted else logging.WARNING
    if not isinstance(wanted, (int, str)):
        raise TypeError(f"the level of {name!r} must be True, False or a level of logging, not {wanted!r}")
    known = logging.getLevelNamesMapping()
    if isinstance(wanted, str) and wanted not in known:
        raise ValueError(f"the level of {name!r} must be True, False or one of {', '.join(known)}, not {wanted!r}")
    return wanted


class _Printer(logging.Handler):
    """Prints to standard error where the program has set no handler."""

    def emit(self, record: logging.LogRecord) -> None:
        program = logging.getLogger(record.name), logging.getLogger("dynamo_lite"), logging.getLogger()
        if not any(each is not self for logger in program for each in logger.handlers):
            print(self.format(record), file=sys.stderr)


def _begin() -> None:
    printer = _Printer()
    printer.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logging.getLogger("dynamo_lite").addHandler(printer)
    for name in SUBJECTS:  # or a program that logs at INFO itself would turn all of them on
        logger = logging.getLogger(f"dynamo_lite.{name}")
        logger.setLevel(logger.level or logging.WARNING)
    for word in os.environ.get("TORCH_LOGS", "").split(","):
        subject = _OF_TORCHS.get(word.strip().removeprefix("+"))
        if subject is not None:
            set(f"+{subject}" if word.strip().startswith("+") else subject)
    wanted = os.environ.get("DYNAMO_LITE_LOGS", "")
    try:
        set(wanted)
    except ValueError as error:
        raise ValueError(f"DYNAMO_LITE_LOGS={wanted}: {error}") from None


_begin()
