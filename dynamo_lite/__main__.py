"""The command line: ``dynamo-lite COMMAND …``, or ``python -m dynamo_lite COMMAND …``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from .check import command as check
from .check import run_command

COMMANDS = (check, run_command)
"""Modules with a function ``add_parser(commands)`` each, which sets ``run``, a function from the options to an exit
status."""


class _Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status."""
    parser = _Parser(prog="dynamo-lite", description="A graph-capturing JIT for PyTorch.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for each in COMMANDS:
        each.add_parser(commands)
    options = parser.parse_args(argv)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
