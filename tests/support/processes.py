"""Programs in processes of their own: children of one that has imported what takes seconds to import."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

SERVER = """
import importlib, json, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    given = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for stream, name in enumerate(given["outputs"], 1):
    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), stream)
exec(compile(given["program"], "<string>", "exec"))
"""


COMPILING = ("torch", "torch.fx.experimental.validator")
"""What torch imports when anything is first compiled."""


@cache
def _server(*imported: str) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", SERVER, *imported],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,
    )
    atexit.register(_stop, started)
    return started


def _stop(server: subprocess.Popen[str]) -> None:
    """Ends the process and its children."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def run_program(program: str, *imported: str) -> subprocess.CompletedProcess[Any]:
    """Run a program as ``__main__``: its exit status and what it printed. Modules that are imported already: by default
    `COMPILING`."""
    server = _server(*(imported or COMPILING))
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        try:
            server.stdin.write(json.dumps({"program": program, "outputs": [str(path) for path in outputs]}) + "\n")
            status = int(server.stdout.readline())
        except BaseException:  # the test's time is over, or the session's
            _stop(server)
            _server.cache_clear()
            raise
        return subprocess.CompletedProcess(["<program>"], status, *(path.read_text() for path in outputs))
