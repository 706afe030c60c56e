"""``dynamo-lite diff BEFORE AFTER``: what differs between two reports, as Markdown for a pull request."""

from __future__ import annotations

import argparse

from dynamo_lite.report import summary

from .targets import BadTarget

_HELP = "compare two reports: totals, and breaks and recompilations that are new or gone"
_DESCRIPTION = f"""\
{_HELP[0].upper()}{_HELP[1:]}. BEFORE and AFTER are folders that dl.report or DYNAMO_LITE_REPORT has
written. The output is Markdown."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of ``dynamo-lite``."""
    parser = commands.add_parser("diff", help=_HELP, description=_DESCRIPTION)
    parser.add_argument("before", metavar="BEFORE", help="the folder of a report")
    parser.add_argument("after", metavar="AFTER", help="the folder of another")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        before, after = summary.read(options.before), summary.read(options.after)
    except ValueError as error:
        raise BadTarget(str(error)) from error
    print(summary.difference(before, after), end="")
    return 0
