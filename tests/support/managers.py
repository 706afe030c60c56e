"""Context managers for programs: a class and a generator."""

from __future__ import annotations

import contextlib

from shared_programs import Problem


class Manager:
    """Logs its entry and exit. It may suppress an exception of its block, and may fail itself."""

    def __init__(self, log, name="manager", swallow=False, fails=None):
        self.log = log
        self.name = name
        self.swallow = swallow
        self.fails = fails

    def __enter__(self):
        self.log.append("enter " + self.name)
        if self.fails == "enter":
            raise Problem(1, "in enter")
        return self.name

    def __exit__(self, kind, error, trace):
        self.log.append(("exit " + self.name, None if kind is None else kind.__name__, str(error)))
        if self.fails == "exit":
            raise Problem(2, "in exit")
        return self.swallow


@contextlib.contextmanager
def told(log, name="block"):
    """Suppresses a `ValueError`."""
    log.append(f"into {name}")
    try:
        yield name
    except ValueError as error:
        log.append(f"{name} got {error}")
    finally:
        log.append(f"out of {name}")
