"""The context manager `dl.report`: turns recording on, and writes the files at the end."""

from __future__ import annotations

import atexit
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
from dynamo_lite.insight.recorder import RECORDING, Recorder

from .page import as_page
from .timeline import chrome_trace


class report:
    """A context manager that writes what is compiled inside it, in the whole process, into a folder: ``index.html``, a
    page that needs nothing else, and ``trace.json``, its timeline for Perfetto or ``chrome://tracing``.

    The page shows the program's source with the lines of each graph, graph breaks and frames that run in eager where
    they are; each graph; the guards of each entry, with hits and nanoseconds; recompilations. Code that was compiled
    before isn't in it: call `reset` first. ``DYNAMO_LITE_REPORT=folder`` writes one of a whole run, as the process
    ends. Where several processes communicate, each writes into a folder ``rank-N`` in it.

    Args:
        folder: where the files are written. It is created if it doesn't exist; older files are overwritten.

    Raises:
        ImportError: jinja2 isn't installed.
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

    def __enter__(self) -> Path:
        """Begin to record. Returns the path of the page that will be written."""
        if RECORDING.now is not None:
            raise RuntimeError("another report is on (dl.report or DYNAMO_LITE_REPORT): end it before this one begins")
        if importlib.util.find_spec("jinja2") is None:
            raise ImportError("dl.report needs jinja2: pip install 'dynamo_lite[report]'")
        _check_is_writable(self.folder)
        self._written_to = self.folder.absolute()  # the program may change its directory
        self._recorder = RECORDING.now = Recorder()
        return self.folder / "index.html"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        recorder, self._recorder, RECORDING.now = self._recorder, None, None
        assert recorder is not None, "it was entered"
        recorder.finish()
        folder = self._written_to
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            folder = folder / f"rank-{dist.get_rank()}"
            folder.mkdir(exist_ok=True)
        page = folder / "index.html"
        page.write_text(as_page(recorder, " ".join(map(os.path.basename, sys.argv[:1]))), encoding="utf-8")
        (folder / "trace.json").write_text(json.dumps(chrome_trace(recorder)), encoding="utf-8")
        logs.perf.info("%sthe report is in %s, its timeline in trace.json beside it", logs.rank(), page)


def _check_is_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
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
