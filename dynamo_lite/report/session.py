"""The context manager `dl.report`: turns recording on, and writes the files at the end."""

from __future__ import annotations

import atexit
import html
import importlib.util
import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import torch.distributed as dist

from dynamo_lite import logs
from dynamo_lite.insight.output_code import collecting_output_code
from dynamo_lite.insight.recorder import RECORDING, Recorder
from dynamo_lite.insight.report_files import check_is_no_link, write_text

from . import summary
from .page import as_page
from .timeline import chrome_trace

PAGE, TRACE = "index.html", "trace.json"
_NEEDS = {"jinja2": "jinja2", "markdown_it": "markdown-it-py", "pygments": "pygments"}
"""Module -> the package that has it."""


class report:
    """A context manager that writes what is compiled inside it, in the whole process, into a folder: ``index.html``, a
    page that needs nothing else; ``trace.json``, its timeline for Perfetto or ``chrome://tracing``; ``report.json``,
    which ``dynamo-lite diff`` compares.

    The page ranks breaks, recompilations and graphs by what they cost. It shows each graph with the compiler's output;
    the guards of each entry, with hits and nanoseconds; the program's source with the lines of each graph, breaks and
    frames that run in eager; the stacks that led there. A notebook shows the page where the path is a cell's result.
    Code that was compiled before isn't in it: call `reset` first. ``DYNAMO_LITE_REPORT=folder`` writes one of a whole
    run, as the process ends. Where several processes communicate, each writes into a folder ``rank-N`` in it.

    Args:
        folder: where the files are written. It is created if it doesn't exist; older files are overwritten.

    Raises:
        ImportError: jinja2, markdown-it-py or pygments isn't installed.
        OSError: nothing can be written into the folder.
        RuntimeError: another report is on.
        TypeError: ``folder`` is no path.
        ValueError: ``folder`` is empty.

    Example:
        >>> import tempfile, torch, dynamo_lite as dl
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with dl.report(folder) as page:
        ...         y = dl.compile(lambda x: x + 1, backend="eager")(torch.zeros(2))
        ...     page.name, page.exists()
        ('index.html', True)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"dl.report takes the folder to write into, not {type(folder).__name__} ({folder!r})")
        if folder == "":
            raise ValueError("dl.report takes the folder to write into, not an empty name; '.' is the current folder")
        self.folder = Path(folder)
        self._written_to = self.folder
        self._recorder: Recorder | None = None
        self._program = ""

    def __enter__(self) -> PagePath:
        """Begin to record. Returns the path of the page that will be written."""
        if RECORDING.now is not None:
            raise RuntimeError("another report is on (dl.report or DYNAMO_LITE_REPORT): end it before this one begins")
        missing = [package for module, package in _NEEDS.items() if importlib.util.find_spec(module) is None]
        if missing:
            raise ImportError(f"dl.report needs {', '.join(missing)}: pip install 'dynamo_lite[report]'")
        _check_is_writable(self.folder)
        self._written_to = self.folder.absolute()  # the program may change its directory
        self._recorder = RECORDING.now = Recorder()
        self._program = _program()
        self._collecting = collecting_output_code(self._recorder)
        self._collecting.__enter__()
        return PagePath(self.folder / PAGE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        recorder, self._recorder, RECORDING.now = self._recorder, None, None
        assert recorder is not None, "it was entered"
        self._collecting.__exit__(None, None, None)
        recorder.finish()
        folder = self._written_to
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            folder = folder / f"rank-{dist.get_rank()}"
            folder.mkdir(exist_ok=True)
        page, program = folder / PAGE, _program() or self._program
        write_text(page, as_page(recorder, program))
        write_text(folder / TRACE, json.dumps(chrome_trace(recorder)))
        write_text(folder / summary.NAME, json.dumps(summary.summary(recorder, program), indent=1))
        logs.perf.info("%sthe report is in %s, its timeline in trace.json beside it", logs.rank(), page)


def _program() -> str:
    """The file that is run; empty in a notebook, an interactive session or ``python -c``, and once a file has ended."""
    is_file = getattr(sys.modules.get("__main__"), "__file__", None) is not None
    return os.path.basename(sys.argv[0]) if is_file and sys.argv else ""


class PagePath(type(Path())):  # type: ignore[misc]
    """The path of a page. A notebook shows the page itself."""

    def _repr_html_(self) -> str:
        try:
            page = self.read_text(encoding="utf-8")
        except FileNotFoundError:
            return f"<code>{html.escape(str(self))}</code> (written at the end of the block)"
        page = page.replace("<head>", '<head><base href="about:srcdoc">', 1)  # where links within the page lead
        style = "width: 100%; height: 80vh; border: 1px solid #8888"
        return f'<iframe srcdoc="{html.escape(page)}" style="{style}" sandbox="allow-same-origin"></iframe>'


def _check_is_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (PAGE, TRACE, summary.NAME):
            check_is_no_link(folder / name)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise type(error)(f"dl.report can't write into {folder}: {error.strerror}. Give it another folder") from error


def _begin() -> None:
    """Report on the whole run if ``DYNAMO_LITE_REPORT`` is set. Processes that this one starts write nothing."""
    folder = os.environ.get("DYNAMO_LITE_REPORT", "")
    if not folder or multiprocessing.parent_process() is not None:
        return
    whole_run, process = report(folder), os.getpid()
    whole_run.__enter__()

    def end() -> None:
        if os.getpid() == process:
            whole_run.__exit__(None, None, None)

    atexit.register(end)


_begin()
