"""Graphs that other processes compile, one after the other, while this one runs on.

There is no thread: what calls a graph asks whether its process has ended, and that starts the next one. So nothing
here delays the end of the process, and a forked process begins with nothing to wait for.

Of several programs that want the same graph, as ranks do, one has it compiled. The process that compiles has the lock
of the graph's file; the others look now and then whether it is done, or has ended without.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO

from dynamo_lite import logs

from .one_rank import LockFile
from .whole_graphs import WholeGraph

_MAIN = "import sys; sys.path[:0] = [sys.argv.pop(1)]; from dynamo_lite.backends.compile_process import main; main()"
_PACKAGE = Path(__file__).parents[2]
_SECONDS_BETWEEN_LOOKS = 0.05


class Job:
    """A graph that another process compiles, or will."""

    def __init__(self, graph: WholeGraph) -> None:
        self.graph = graph
        self.is_over = False
        self.has_succeeded = False
        self.seconds = 0.0
        """From the start of the process to its end."""
        self._began = 0.0
        self._folder: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: LockFile | None = None
        """The process that compiles the graph has it: ours, or another program's."""

    def start(self) -> None:
        """Start the process, unless that of another program is compiling the graph, or has compiled it.

        Raises:
            OSError: it can't be started.
        """
        with contextlib.suppress(OSError):  # files there can't be locked
            self._lock = self._lock or self.graph.lock_file()
            if not self._lock.try_to_lock():
                return
        if self.graph.is_cached():
            self.end(True)
            logs.perf.info("%sa graph was compiled whole in the background of another process", logs.rank())
        else:
            self._run(() if self._lock is None else (self._lock.descriptor,))
            self._close_lock()

    def _run(self, kept_open: tuple[int, ...]) -> None:
        """Start the process, which keeps these files open until it ends."""
        if not sys.executable:
            raise OSError("Python's own file isn't known")
        self._began = time.perf_counter()
        self._folder = tempfile.mkdtemp(prefix="dynamo_lite_")
        file = Path(self._folder, "graph")
        file.write_bytes(pickle.dumps(self.graph))
        command = [sys.executable, "-P", "-c", _MAIN, str(_PACKAGE), str(file), str(os.getpid())]
        with self._errors("wb") as errors:  # in a session of its own: Ctrl-C is for the program
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                pass_fds=kept_open,
            )

    def _errors(self, mode: str) -> IO[bytes]:
        assert self._folder is not None
        return open(Path(self._folder, "errors"), mode)  # noqa: SIM115 (the caller closes it)

    def look(self) -> bool:
        """Whether it is over. Notes how it has ended, when it just has. Starts it, if another program's process that
        compiled the graph has ended without."""
        if not self.is_over and self._process is None:
            _start(self)
        elif not self.is_over and self._process is not None and self._process.poll() is not None:
            self.seconds = time.perf_counter() - self._began
            self.end(self._process.returncode == 0)
            logs.perf.info("%s%s", logs.rank(), self._outcome())
            self._clean()
        return self.is_over

    def _outcome(self) -> str:
        if self.has_succeeded:
            return f"a graph was compiled whole in the background in {self.seconds:.1f} s"
        with self._errors("rb") as errors:
            lines = errors.read().decode(errors="replace").splitlines()
        return f"a graph stays in pieces: compiling it in the background failed: {(lines or ['it was killed'])[-1]}"

    def end(self, has_succeeded: bool) -> None:
        self.is_over, self.has_succeeded = True, has_succeeded
        self._close_lock()

    def _close_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def join(self, seconds: float | None) -> None:
        """Wait until the process has ended, so many seconds at most, or a moment if it is another program's."""
        if self._process is None:
            time.sleep(_SECONDS_BETWEEN_LOOKS if seconds is None else min(seconds, _SECONDS_BETWEEN_LOOKS))
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.end(False)
        self._clean()

    def _clean(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class Jobs:
    """The jobs of this process. One of them is under way."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None

    def add(self, graph: WholeGraph) -> Job:
        job = Job(graph)
        self._waiting.append(job)
        self.look()
        return job

    def look(self) -> bool:
        """Start the next job where none is under way. Whether all are over."""
        with self._lock:
            while self._running is None or self._running.look():
                if not self._waiting:
                    self._running = None
                    return True
                self._running = self._waiting.popleft()
        return False

    def cancel(self, job: Job) -> None:
        """Drop a job that nobody needs any more."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(job)
        if not job.is_over:
            job.kill()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all jobs are over, so many seconds at most. Whether they are."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self.look():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return False
            running = self._running
            if running is not None:
                running.join(left)
        return True

    def forget_all(self) -> None:
        """In a forked process: the jobs are the other one's."""
        for job in (*self._waiting, *filter(None, [self._running])):
            job.end(False)
        self._lock, self._running = threading.RLock(), None
        self._waiting.clear()

    def kill_all(self) -> None:
        """At the end of the process."""
        self._waiting.clear()
        if self._running is not None:
            self._running.kill()


def _start(job: Job) -> None:
    try:
        job.start()
    except OSError as error:
        job.end(False)
        logs.perf.info("%sa graph stays in pieces: no process can be started: %s", logs.rank(), error)


jobs = Jobs()
atexit.register(jobs.kill_all)
os.register_at_fork(after_in_child=jobs.forget_all)
