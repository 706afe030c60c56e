"""Collects the code that Inductor generates while a report is on, from its logger ``output_code``."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from .recorder import Recorder

_LOGGER = "torch._inductor.codecache.__output_code"
"""As `torch._logging` names it: module, artifact."""
_BEGINS = "Output code: "


class _Collector(logging.Handler):
    """Gives the code to the graph that its thread compiles."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(logging.DEBUG)
        self.recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(_BEGINS) and isinstance(record.args, tuple):
            self.recorder.note_code(str(record.args[0]))


@contextlib.contextmanager
def collecting_output_code(recorder: Recorder) -> Iterator[None]:
    """Record what is generated inside. Other handlers of the logger see what their level admitted before."""
    logger, collector = logging.getLogger(_LOGGER), _Collector(recorder)
    level, before = logger.level, logger.getEffectiveLevel()
    others = [(each, each.level) for each in logger.handlers]
    for each, own in others:
        each.setLevel(max(own, before))
    propagates, logger.propagate = logger.propagate, logger.propagate and before <= logging.DEBUG
    logger.addHandler(collector)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)
        logger.propagate = propagates
        for each, own in others:
            each.setLevel(own)
