"""``dynamo-lite check TARGET…``: exit 0 where each target is within its limits, 1 where one isn't, 2 on bad input."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from dynamo_lite.backends import list_backends
from dynamo_lite.insight.suggestions import suggestion

from . import reports
from .findings import Limits, Result
from .ratchet import NAME, Ratchet
from .targets import BadTarget, Settings, check

_DESCRIPTION = """\
Checks that each target is captured as one graph. A target is pkg.module:factory, or path/to/file.py:factory, where the
factory returns (fn, args), (fn, args, kwargs), or fn with a list or iterator of such args, one for each call; or the
path of a script, of which everything that it compiles with dl.compile or torch.compile is checked."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = commands.add_parser("check", help="check that targets are captured as one graph", description=_DESCRIPTION)
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="pkg.module:factory, or a script")
    parser.add_argument("--max-graphs", type=_count, metavar="N", help="graphs that one call may be (1, and no break)")
    parser.add_argument("--max-recompiles", type=_count, default=0, metavar="N", help="over all inputs (0)")
    dynamic = parser.add_mutually_exclusive_group()
    dynamic.add_argument("--dynamic", action="store_true", default=None, help="all sizes are symbolic")
    dynamic.add_argument("--no-dynamic", dest="dynamic", action="store_false", help="no sizes are")
    parser.add_argument("--train", action="store_true", help="in training mode, with a backward after each call")
    parser.add_argument("--backend", help='compiles the graphs ("eager", or what a script says)')
    parser.add_argument("--format", choices=reports.FORMATS, default="text", help="of the report (text)")
    parser.add_argument("--allowed", default=NAME, metavar="PATH", help=f"lists breaks that are allowed ({NAME})")
    parser.add_argument("--update", action="store_true", help="write that file: allow what breaks now, and no more")
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a non-negative integer")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Check the targets and print the report. Returns the exit status."""
    settings = Settings(options.backend, options.dynamic, options.train)
    limits = Limits(options.max_graphs, options.max_recompiles)
    if settings.backend is not None and settings.backend not in list_backends():
        raise BadTarget(f"no backend {settings.backend!r}; {suggestion(settings.backend, list_backends())}")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    with contextlib.redirect_stdout(sys.stderr):  # what the program prints is no part of the report
        ratchet = Ratchet(_list_of_allowed(options))
        results = [_checked(target, settings, limits, ratchet) for target in options.targets]
        if options.update:
            ratchet.update(results)
    text = reports.FORMATS[options.format](results)
    reports.write(text, sys.stdout) if options.format == "text" else sys.stdout.write(text)
    return 0 if all(result.ok for result in results) else 1


def _list_of_allowed(options: argparse.Namespace) -> Path:
    """The file that lists them; it need not be there, unless it was named."""
    path = Path(options.allowed)
    if options.allowed != NAME and not options.update and not path.exists():
        raise BadTarget(f"there is no file {path}; --update writes it")
    return path


def _checked(target: str, settings: Settings, limits: Limits, ratchet: Ratchet) -> Result:
    result = check(target, settings, limits, lambda found: ratchet.allows(target, found))
    result.target = target
    ratchet.note_fixed(result)
    return result
