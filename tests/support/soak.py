"""Long runs: ``python tests/support/soak.py --models 200 --seconds 60``.

Models that are captured one after the other and dropped keep memory flat. Threads that capture, hit, recompile and
reset different and shared functions get right answers, come to an end, and leave nothing.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import dynamo_lite as dl


def gm_forward(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    return gm.forward


class Model(nn.Module):
    """Layers of a width of its own, a break, a generator, a closure, an exception."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.register_buffer("seen", torch.zeros(1))
        self.width = width

    def outputs(self, x: torch.Tensor) -> Any:
        for layer in self.layers:
            x = layer(x).relu()
            yield x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        total = sum(self.outputs(x))
        dl.graph_break()
        scale = lambda each: each * self.width  # noqa: E731
        try:
            if self.width % 3 == 0:
                raise ValueError(self.width)
        except ValueError as error:
            total = total + error.args[0]
        return scale(total).sum()


def resident() -> int:
    """Returns the resident memory of this process in KiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


def one_model(number: int) -> weakref.ref[Any]:
    """Captures a model, trains a step, and drops the model."""
    model = Model(16 + number % 7)
    compiled = dl.compile(model, backend=gm_forward)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for rows in (2, 3, 2):
        optimizer.zero_grad()
        compiled(torch.ones(rows, model.width)).backward()
        optimizer.step()
    return weakref.ref(model)


def collected() -> int:
    """Objects that are left when the collector finds nothing more: what C++ holds (symbolic sizes of fake tensors) it
    sees when that has let go."""
    while gc.collect():
        pass
    return len(gc.get_objects())


def soak_models(count: int) -> tuple[int, int]:
    """(objects, KiB) that each model leaves, after the first of them; all of them must be dead."""
    warm_up = max(count // 4, 21)
    objects, memory = 0, 0
    for number in range(warm_up + count):
        if number == warm_up:
            objects, memory = collected(), resident()
        dead = one_model(number)
        gc.collect()
        assert dead() is None, "a model is alive"
    return (collected() - objects) // count, (resident() - memory) // count


# -- threads -----------------------------------------------------------------------------------------------------------

LOCK = threading.Lock()
TOTAL = 0


def branches(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n + 1 if n % 2 else (x - n).relu()


def breaks(x: torch.Tensor, n: int) -> tuple[torch.Tensor, list[int]]:
    kept = [n]
    y = x + n
    dl.graph_break()
    kept.append(len(kept))
    if y.sum() > 10:
        y = y - 10
    return y * 2, kept


def raises(x: torch.Tensor, n: int) -> str:
    try:
        if n % 3 == 0:
            raise KeyError(n)
        return str(x.shape[0])
    except KeyError as error:
        dl.graph_break()
        return str(error.args)


def generates(x: torch.Tensor, n: int) -> list[torch.Tensor]:
    def produce() -> Any:
        for i in range(n % 4):
            yield x + i

    return [each * 2 for each in produce()]


def counts(x: torch.Tensor, n: int) -> torch.Tensor:
    global TOTAL
    with LOCK:
        TOTAL += 1
    return x.sum() + n


SHARED = (branches, breaks, raises, generates, counts)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


LEAST = 50
"""How much each thread does, however slow the machine is meanwhile."""


class Worker(threading.Thread):
    """Does one thing after the other until the time is up: call what is shared, compile anew, drop, reset."""

    def __init__(self, number: int, shared: dict[Any, Any], until: float) -> None:
        super().__init__(daemon=True)
        self.random = random.Random(number)
        self.shared = shared
        self.own: dict[Any, Any] = {}
        self.until = until
        self.calls: Counter[str] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self.until or sum(self.calls.values()) < LEAST:
                self.step()
        except BaseException as error:  # told to the thread that waits
            self.error = error

    def step(self) -> None:
        choice = self.random.random()
        fn = self.random.choice(SHARED)
        if choice < 0.01:
            dl.reset()
            self.calls["resets"] += 1
        elif choice < 0.04:
            self.own[fn] = dl.compile(fn, backend=gm_forward)
            self.calls["compiles"] += 1
        elif choice < 0.05:
            one_model(self.random.randrange(50))
            self.calls["models"] += 1
        else:
            compiled = self.own.get(fn, self.shared[fn]) if choice < 0.5 else self.shared[fn]
            n, x = self.random.randrange(6), torch.ones(self.random.randrange(1, 4))
            found = compiled(x, n)
            assert same(found, fn(x, n)), f"{fn.__name__}({x}, {n}) is {found}"
            self.calls["calls"] += 1


def soak_threads(seconds: float, threads: int = 8) -> Counter[str]:
    """Returns the threads' statistics. Raises any exception of a thread."""
    one_model(0)  # imports what torch's optimizers and tracers need, which takes seconds
    dl.reset()
    shared = {fn: dl.compile(fn, backend=gm_forward) for fn in SHARED}
    until = time.monotonic() + seconds
    workers = [Worker(number, shared, until) for number in range(threads)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the recompile limit
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(seconds + 200)
    assert not any(worker.is_alive() for worker in workers), "a thread hangs"
    for worker in workers:
        if worker.error is not None:
            raise worker.error
    return sum((worker.calls for worker in workers), Counter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    each, memory = soak_models(options.models)
    print(f"{options.models} models leave {each} objects and {memory} KiB each", flush=True)
    done = soak_threads(options.seconds)
    print("threads: " + ", ".join(f"{count} {what}" for what, count in done.items()), flush=True)
    objects, before = collected(), resident()
    soak_threads(options.seconds / 4)
    dl.reset()
    left, grown = collected() - objects, resident() - before
    print(f"a quarter of that again leaves {left} objects and {grown} KiB")
    import soak_changes
    import soak_company

    for what in (*soak_company.soak_all(options.seconds), *soak_changes.soak_all(options.seconds)):
        print(what, flush=True)
    sys.exit(each > 2 or memory > 20 or left > 2_000)


if __name__ == "__main__":
    main()
