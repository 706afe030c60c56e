"""The main function of a process that compiles a graph for another one: what it leaves are the caches on disk."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time

from .whole_graphs import WholeGraph

_SECONDS_BETWEEN_LOOKS = 1.0


def main() -> None:
    """The arguments: a file with a pickled `WholeGraph`, and the id of the process that waits for it. The last line on
    standard error says why it has failed."""
    file, waiting = sys.argv[1:]
    threading.Thread(target=_end_without, args=(int(waiting),), daemon=True).start()
    os.nice(10)
    with open(file, "rb") as opened:
        graph: WholeGraph = pickle.load(opened)
    graph.settings.apply()
    graph.compile()


def _end_without(parent: int) -> None:
    """End this process when its parent has ended: nobody waits for it then."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)
