"""The line of source that a message shows, with the expression marked as CPython's tracebacks do."""

from __future__ import annotations

import linecache
from traceback import FrameSummary


def source_line(frame: FrameSummary) -> str:
    """The line, without its indentation. Below it, ``^^^^`` under the expression, unless that is the whole line."""
    line = frame.line
    if not line:
        return "<no source>"
    marks = _marks(frame, linecache.getline(frame.filename, frame.lineno or 0).rstrip("\n"))
    return f"{line}\n    {marks}" if marks else line


def _marks(frame: FrameSummary, raw: str) -> str:
    if frame.colno is None or frame.end_colno is None or not raw.isprintable():
        return ""
    # Columns count bytes of UTF-8.
    encoded = raw.encode(errors="surrogatepass")
    is_one_line = frame.end_lineno in (None, frame.lineno)
    end = frame.end_colno if is_one_line else len(encoded)
    before, marked = (part.decode(errors="replace") for part in (encoded[: frame.colno], encoded[frame.colno : end]))
    indentation = len(raw) - len(raw.lstrip())
    if len(marked.strip()) >= len(raw.strip()):
        return ""
    return " " * (len(before) - indentation) + "^" * len(marked.rstrip())
