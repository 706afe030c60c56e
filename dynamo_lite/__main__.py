"""The command line: ``dynamo-lite COMMAND …``, or ``python -m dynamo_lite COMMAND …``."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from .check import command as check
from .check import diff_command, explain_command, run_command
from .check.targets import BadTarget
from .runtime.version import __version__


class _Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def _versions() -> str:
    import torch

    return f"dynamo_lite {__version__}, torch {torch.__version__}, Python {platform.python_version()}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status."""
    parser: argparse.ArgumentParser = _Parser(prog="dynamo-lite", description="A graph-capturing JIT for PyTorch.")
    parser.add_argument("--version", action="version", version=_versions())
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    check.add_parser(commands)
    run_command.add_parser(commands)
    explain_command.add_parser(commands)
    diff_command.add_parser(commands)
    options = parser.parse_args(argv)
    if options.run is None:
        parser.print_help()
        return 0
    try:
        status: int = options.run(options)  # of the command that was named
        sys.stdout.flush()
    except BadTarget as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough: `dynamo-lite explain DL0202 | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status


if __name__ == "__main__":
    sys.exit(main())
