"""Programs whose backward reads something: what is read x where x the gradient's layout x how it is differentiated.

What is read of the process's state changes between the call and the backward. ``python
tests/support/backward_programs.py 2000`` runs so many, drawn at random; ``--all`` runs each.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import itertools
import random
import sys
import textwrap
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import dynamo_lite as dl
from backward_places import PLACES
from backward_states import READS, STATES, State


class Scaling(torch.Tensor):
    tag = 5

    def __mul__(self, other):
        return super().__mul__(other) * 10


def tagged(tensor: torch.Tensor) -> torch.Tensor:
    tensor.tag = 3
    return tensor


GRADIENTS: dict[str, Callable[[], torch.Tensor]] = {
    "contiguous": lambda: torch.arange(1.0, 13).view(3, 4),
    "expanded": lambda: torch.ones(()).expand(3, 4),
    "transposed": lambda: torch.arange(1.0, 13).view(4, 3).t(),
    "sliced": lambda: torch.arange(24.0).view(3, 8)[:, ::2],
    "with an offset": lambda: torch.arange(24.0).view(3, 4, 2)[..., 1],
    "channels last": lambda: torch.arange(120.0).view(2, 4, 5, 3).permute(0, 3, 1, 2),
    "of no dimensions": lambda: torch.tensor(3.0),
    "of a subclass": lambda: torch.ones(3, 4).as_subclass(Scaling),
    "that is a parameter": lambda: torch.nn.Parameter(torch.ones(3, 4)),
    "with an attribute": lambda: tagged(torch.ones(3, 4)),
    "that is negated": lambda: torch.complex(torch.ones(3, 4), torch.ones(3, 4)).conj().imag,
    "of inference mode": lambda: torch.inference_mode()(torch.ones)(3, 4),
    "that is sparse": lambda: torch.eye(4)[:3].to_sparse(),
    "that requires gradients": lambda: torch.ones(3, 4).requires_grad_(),
}

BODIES = {
    "a factor": "return g * (2 + ({read}))",
    "a branch": "return g * x if ({read}) else g * 3",
    "a log": "LOG.append(({read}) + 0)\n{indent}return g * 2",
    "an error": "if {read}:\n{indent}    raise ValueError('refused')\n{indent}return g * 2",
    "a factor of the product": "g = g * x\n{indent}return g * (2 + ({read}))",
    "a helper's": "return helped(g, x)",
}


@dataclass(frozen=True)
class Program:
    """One program whose backward reads something."""

    gradient: str
    read: str
    """An expression of `READS`, or a key of `STATES`."""
    place: str
    body: str
    order: str

    def __str__(self) -> str:
        return f"{self.read!r} in {self.place}, {self.body}, {self.gradient} gradient, {self.order}"

    @property
    def state(self) -> State | None:
        return STATES.get(self.read)

    def source(self) -> str:
        state = self.state
        read = self.read if state is None else state.read
        lines = [state.definitions if state else "", "LOG = []", f"def helped(g, x):\n    return g * (2 + ({read}))"]
        template = PLACES[self.place]
        for line in template.splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            text = BODIES[self.body].replace("{read}", read).replace("{indent}", indent)
            lines.append(line.replace("{body}", text))
        for name, text in (("change", state.change if state else "pass"), ("back", state.back if state else "pass")):
            lines += [f"def {name}():", textwrap.indent(text, "    ")]
        return "\n".join(lines)


ORDERS = ("first", "backward", "twice", "twice, changed between", "second", "second without history", "no grad mode")
_CALLS = 3


def programs() -> Iterator[Program]:
    """Returns programs for each read of each gradient, and each state, in each place. Bodies and orders alternate."""
    bodies, orders = itertools.cycle(BODIES), itertools.cycle(ORDERS)  # of 6 and 7
    for place in PLACES:
        for read, gradient in itertools.product(READS, GRADIENTS):
            yield Program(gradient, read, place, next(bodies), next(orders))
        for read in STATES:
            yield Program("contiguous", read, place, next(bodies), next(orders))


def drawn(source: random.Random) -> Program:
    """Draws one of all combinations. Half of them read a state."""
    read = source.choice(source.choice((list(READS), list(STATES))))
    gradient = "contiguous" if read in STATES else source.choice(list(GRADIENTS))
    return Program(gradient, read, source.choice(list(PLACES)), source.choice(list(BODIES)), source.choice(ORDERS))


def is_excepted(program: Program) -> bool:
    """Tells whether a compiler's graph may have another result (docs/soundness.md), or torch may raise."""
    passes_on = program.read in READS[: READS.index("g.requires_grad")] or "_version" in program.read
    of_the_call = "checkpoint" in program.place or program.read in OF_FUNCTIONS or program.place == "a custom operator"
    is_other = program.gradient in list(GRADIENTS)[list(GRADIENTS).index("of a subclass") :]
    refused = (
        is_other
        or program.order.startswith("second")
        or "grad inside" in program.place
        or program.read == "deterministic"
    )
    return refused or passes_on or of_the_call


OF_FUNCTIONS = ("code", "defaults", "keyword defaults", "a static method", "a wrapper")
"""States that are part of a function which the backward calls."""


_MODULES = """
    abc collections contextvars dataclasses decimal enum functools gc itertools logging os random sys threading time
    warnings weakref
""".split()


def _namespace(program: Program) -> dict[str, Any]:
    sys.modules["made_backward"] = module = types.ModuleType("made_backward")
    namespace = vars(module)
    namespace.update({each: importlib.import_module(each) for each in _MODULES}, torch=torch)
    namespace["checkpoint"] = torch.utils.checkpoint.checkpoint
    namespace["once_differentiable"] = torch.autograd.function.once_differentiable
    namespace["X"] = torch.full(GRADIENTS[program.gradient]().shape, 0.5)
    if "OPERATOR" in PLACES[program.place]:
        namespace["OPERATOR"] = _operator()
    exec(compile(program.source(), "made_backward.py", "exec"), namespace)
    return namespace


def _operator() -> Any:
    _operators.append(f"made::doubled{len(_operators)}")
    operator = torch.library.custom_op(_operators[-1], mutates_args=())(_doubled)
    operator.register_fake(lambda x: torch.empty_like(x))
    return operator


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


_operators: list[str] = []


def differentiated(program: Program, fn: Callable[..., Any], namespace: dict[str, Any]) -> Iterator[Any]:
    """Returns the results of one call and of its backward."""
    gradient = GRADIENTS[program.gradient]()
    x = torch.linspace(0.1, 1, max(gradient.numel(), 1)).view(gradient.shape).requires_grad_()
    y = fn(x)
    yield described(y)
    if program.order != "twice, changed between":
        namespace["change"]()
    if program.order == "first":
        yield described(torch.autograd.grad(y, x, gradient)[0])
    elif program.order == "no grad mode":
        with torch.no_grad():
            y.backward(gradient)
    elif program.order == "second" or program.order == "second without history":
        (first,) = torch.autograd.grad(y, x, gradient.requires_grad_(program.order == "second"), create_graph=True)
        yield described(first)
        if first.requires_grad:
            (first.sin() * x).sum().backward()
        yield None if gradient.grad is None else described(gradient.grad)
    else:
        y.backward(gradient, retain_graph=program.order != "backward")
        if program.order != "backward":
            namespace["change"]()
            yield None if x.grad is None else described(x.grad)
            y.backward(gradient)
    yield None if x.grad is None else described(x.grad)
    yield gradient.to_dense().tolist()


def described(value: Any) -> Any:
    """Returns values, history and dtype of a tensor."""
    return value.to_dense().tolist(), value.requires_grad, value.dtype, value.is_leaf


def outcome(program: Program, fn: Callable[..., Any], namespace: dict[str, Any]) -> tuple[Any, ...]:
    namespace["LOG"].clear()
    namespace["back"]()
    torch.manual_seed(0)
    random.seed(0)
    found: list[Any] = []
    error = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for each in differentiated(program, fn, namespace):
                found.append(each)
    except Exception as raised:
        if isinstance(raised, dl.exc.InternalError):
            raise
        error = type(raised).__name__, str(raised).partition("\n")[0]
    finally:
        namespace["back"]()
    return found, error, [each.item() if isinstance(each, torch.Tensor) else each for each in namespace["LOG"]]


def difference(program: Program, backend: str = "eager") -> tuple[str, int, int]:
    """How the compiled program differs from eager in three calls, "" if it doesn't; its graphs and breaks."""
    expected = []
    dl.reset()
    before = dl.counters.graphs, dl.counters.graph_breaks
    try:
        eager, ours = _namespace(program), _namespace(program)
        for _ in range(_CALLS):
            expected.append(outcome(program, eager["fn"], eager))
        compiled = dl.compile(ours["body" if "outside" in program.place else "fn"], backend=backend)
        if "outside" in program.place:
            ours["body"], compiled = compiled, ours["fn"]
        for call, wanted in enumerate(expected):
            try:
                found = outcome(program, compiled, ours)
            except Exception as error:
                where = traceback.format_exc()[-300:] if isinstance(error, dl.exc.InternalError) else ""
                return f"{type(error).__name__}: {str(error)[:300]} {where}", 0, 0
            if not _same(found, wanted, backend):
                return f"call {call}: {_shown(found, wanted)}", 0, 0
    finally:
        counts = dl.counters.graphs - before[0], dl.counters.graph_breaks - before[1]
    return "", *counts


def _same(found: tuple[Any, ...], wanted: tuple[Any, ...], backend: str) -> bool:
    if found[1] is None or wanted[1] is None or backend == "eager":
        return found == wanted
    return found[0] == wanted[0] and found[1][0] == wanted[1][0]


def _shown(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> str:
    (values, *others), (right, *more) = found, wanted
    at = next((at for at, pair in enumerate(zip(values, right)) if pair[0] != pair[1]), min(len(values), len(right)))
    shown = [("", values[at : at + 1], right[at : at + 1]), *zip((" error", " log"), others, more)]
    differing = [each for each in shown if each[1] != each[2]]
    return "; ".join(f"{at}{name}: {str(one)[:200]} instead of {str(other)[:200]}" for name, one, other in differing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--place")
    parser.add_argument("--read")
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    chosen = programs() if arguments.all else (drawn(source) for _ in range(arguments.count))
    totals: collections.Counter[str] = collections.Counter()
    for at, program in enumerate(chosen):
        if {arguments.place, arguments.read} - {None, program.place, program.read}:
            continue
        backend = "aot_eager" if at % 3 == 2 and not is_excepted(program) else "eager"
        found, graphs, breaks = difference(program, backend)
        totals["programs"] += 1
        totals["whole"] += graphs == 1 and not breaks
        if found:
            totals["wrong"] += 1
            print(f"{program}, {backend}\n    {found}", flush=True)
    print(f"{totals['programs']} programs, {totals['wrong']} differ from eager, {totals['whole']} are one graph")
    return bool(totals["wrong"])


if __name__ == "__main__":
    sys.exit(main())
