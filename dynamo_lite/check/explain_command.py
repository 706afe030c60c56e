"""``dynamo-lite explain CODE``: the page of a reason for a graph break, offline."""

from __future__ import annotations

import argparse
import html
import importlib.util
import sys

from dynamo_lite.insight import break_pages

from .targets import BadTarget

_HELP = "print the page of a code such as DL0301: what happened, what to do, and an example"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of ``dynamo-lite``."""
    parser = commands.add_parser("explain", help=_HELP, description=f"{_HELP[0].upper()}{_HELP[1:]}.")
    parser.add_argument("code", metavar="CODE", nargs="?", help="without it, list all codes")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    reasons = {each.code: each for each in break_pages.reasons()}
    if options.code is None:
        for code, each in reasons.items():
            print(f"{code}  {each.title}")
        return 0
    reason = reasons.get(options.code.upper())
    if reason is None:
        raise BadTarget(f"no code {options.code!r}; `dynamo-lite explain` lists them")
    _show(break_pages.page(reason))
    return 0


def _show(page: str) -> None:
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        from rich.console import Console
        from rich.markdown import Markdown

        Console(emoji=False).print(Markdown(page))
    else:
        print(html.unescape(page).replace(r"\_", "_"))
