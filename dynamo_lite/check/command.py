"""``dynamo-lite check TARGET…``: exit 0 where each target is within its limits, 1 where one isn't, 2 on bad input."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from dynamo_lite.backends import list_backends
from dynamo_lite.insight.program_files import traceback_without_ours
from dynamo_lite.insight.suggestions import suggestion

from . import reports
from .findings import Limits, Result
from .ratchet import NAME, Ratchet
from .targets import BadTarget, Settings, check, tensor_like

_DESCRIPTION = """\
Check that each target is captured as one graph. A target is pkg.module:factory or path/to/file.py:factory. The factory
returns (fn, args) or (fn, args, kwargs); args may also be a list or iterator of tuples, one for each call. With --input
it is a function or a class of modules, which is called with tensors like these. A target may also be the path of a
script: everything that it compiles with dl.compile or torch.compile is checked."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = commands.add_parser("check", help="check that targets are captured as one graph", description=_DESCRIPTION)
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="pkg.module:factory, or a script")
    parser.add_argument(
        "--input", action="append", default=[], metavar="TENSOR", help='an argument of each target: "float32[4,8]"'
    )
    parser.add_argument(
        "--max-graphs", type=_count, metavar="N", help="graphs allowed per call (default: 1, and no break)"
    )
    parser.add_argument(
        "--max-recompiles", type=_count, default=0, metavar="N", help="allowed over all inputs (default: 0)"
    )
    dynamic = parser.add_mutually_exclusive_group()
    dynamic.add_argument("--dynamic", action="store_true", default=None, help="make all sizes symbolic")
    dynamic.add_argument("--no-dynamic", dest="dynamic", action="store_false", help="make no size symbolic")
    parser.add_argument("--train", action="store_true", help="in training mode, with a backward after each call")
    parser.add_argument("--backend", help='what compiles the graphs (default: "eager", or what a script says)')
    parser.add_argument("--format", choices=reports.FORMATS, default="text", help="of the report (default: text)")
    parser.add_argument(
        "--allowed", default=NAME, metavar="PATH", help=f"the file that lists allowed breaks (default: {NAME})"
    )
    parser.add_argument("--update", action="store_true", help="write that file, so that today's breaks are allowed")
    parser.add_argument("--traceback", action="store_true", help="print the traceback of a target that raises")
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a non-negative integer")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Check the targets and print the report: as text, target by target. Returns the exit status."""
    settings = Settings(options.backend, options.dynamic, options.train, tuple(map(tensor_like, options.input)))
    if settings.backend is not None and settings.backend not in list_backends():
        raise BadTarget(f"no backend {settings.backend!r}; {suggestion(settings.backend, list_backends())}")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    ratchet, output = Ratchet(_list_of_allowed(options)), sys.stdout
    is_streamed = options.format == "text" and not options.update
    results: list[Result] = []
    is_interrupted = False
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the program prints is no part of the report
            for result in _checked(options, settings, ratchet):
                results.append(result)
                if is_streamed:
                    reports.write(reports.text_of(result), output)
    except KeyboardInterrupt:
        is_interrupted = True
    if options.update and not is_interrupted:
        ratchet.update(results)
    reports.write(
        reports.last_line(results) if is_streamed else reports.FORMATS[options.format](results),
        output,
        is_coloured=None if options.format == "text" else False,
    )
    if is_interrupted:
        print(f"interrupted: {len(results)} of {len(options.targets)} targets were checked", file=sys.stderr)
        return _INTERRUPTED
    if not all(result.could_be_checked for result in results):
        return 2
    return 0 if all(result.ok for result in results) else 1


_INTERRUPTED = 128 + signal.SIGINT
"""The exit status of a program that Ctrl-C ended, as shells have it."""


def _checked(options: argparse.Namespace, settings: Settings, ratchet: Ratchet) -> Iterator[Result]:
    limits = Limits(options.max_graphs, options.max_recompiles)
    for at, target in enumerate(options.targets, 1):
        began = time.perf_counter()
        with _progress(f"[{at}/{len(options.targets)}] {target}"):
            try:
                result = check(target, settings, limits, functools.partial(ratchet.allows, target))
            except BadTarget as error:
                result = Result(target, findings=[error.finding()])
                cause = error.__cause__
                if options.traceback and cause is not None:
                    traceback.print_exception(cause.with_traceback(traceback_without_ours(cause.__traceback__)))
        result.target, result.seconds = target, time.perf_counter() - began
        ratchet.note_fixed(result)
        yield result


@contextlib.contextmanager
def _progress(text: str) -> Iterator[None]:
    """Show on a terminal what is being checked."""
    is_shown = sys.stderr.isatty()
    if is_shown:
        print(f"{text} …", end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_shown:
            print("\x1b[2K", end="\r", file=sys.stderr, flush=True)


def _list_of_allowed(options: argparse.Namespace) -> Path:
    """The file that lists them; it need not be there, unless it was named."""
    path = Path(options.allowed)
    if options.allowed != NAME and not options.update and not path.exists():
        raise BadTarget(f"there is no file {path}; --update writes it")
    return path
