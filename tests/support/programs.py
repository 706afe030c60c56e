"""Runs a program eagerly and compiled, and holds the two against each other.

`check` is what the tests call: it compares results (bit for bit, with types, aliasing and identity), mutated arguments,
watched globals, output, warnings, exceptions with their lines, random state and torch's modes, and it counts graphs and
operators.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import io
import itertools
import os
import random
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

import devices
import dynamo_lite as dl
import reference
from equality import Difference, Pairing, drain_all

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HARNESS = ("programs.py", "conftest.py", "equality.py", "reference.py", "fuzz.py", "test_fuzz.py", "grammar.py")
LIMIT = "the limit (dl.config.recompile_limit"
"""In the warning, at the program's line, that a function runs in eager from now on: it is ours, not the program's."""
# Calls in a graph that set torch's state, or say that a feature was used; they compute nothing.
STATE_CALLS = (
    "_set_grad_enabled",
    "_enter_autocast",
    "_exit_autocast",
    "enter_inference_mode",
    "exit_inference_mode",
    "enter_record_function",
    "exit_record_function",
    "enter_warnings",
    "exit_warnings",
    "enter_recording",
    "exit_recording",
    "set_warnings_filter",
    "_log_api_usage_once",
)


def tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    """Returns normally distributed numbers, without changing the global random state."""
    generator = torch.Generator("cpu").manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator, device="cpu")
    return drawn.to(devices.DEVICE, dtype).requires_grad_(grad)


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    """Returns a tensor that requires gradients, with three numbers by default."""
    return tensor(*shape or (3,), seed=seed, grad=True)


def ints(*shape: int, high: int = 10, seed: int = 0) -> torch.Tensor:
    """Returns random integers of [0, high)."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randint(high, shape, generator=generator, device="cpu").to(devices.DEVICE)


def is_operator(node: torch.fx.Node) -> bool:
    """Tells whether a node computes: it doesn't select one of several results, and doesn't set a mode."""
    if node.op not in ("call_function", "call_method"):
        return False
    name = getattr(node.target, "__name__", node.target)
    if name in STATE_CALLS:
        return False
    if name == "getitem":
        picked = node.args[0]
        assert isinstance(picked, torch.fx.Node)
        return not isinstance(picked.meta.get("example_value"), (tuple, list))
    return True


class Recorder:
    """A backend that keeps the graphs it is given and runs them as they are, or as another backend compiles them."""

    def __init__(self, backend: str | None = None) -> None:
        self.backend = None if backend is None else dl.lookup_backend(backend)
        self.frees_at_once = getattr(self.backend, "frees_at_once", False)
        self.graphs: list[torch.fx.GraphModule] = []
        self.runs = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        gm.graph.lint()
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        assert len(placeholders) == len(example_inputs), "one example input a placeholder"
        assert not any(node.op == "call_module" for node in gm.graph.nodes), "modules are inlined"
        self.graphs.append(gm)
        compiled = gm.forward if self.backend is None else self.backend(gm, example_inputs)

        def run(*args: Any) -> Any:
            self.runs += 1
            return compiled(*args)

        return run

    @property
    def operators(self) -> int:
        return sum(is_operator(node) for gm in self.graphs for node in gm.graph.nodes)

    def targets(self, index: int = 0) -> list[str]:
        """Returns the names of the operators of one graph, in order."""
        nodes = filter(is_operator, self.graphs[index].graph.nodes)
        return [getattr(node.target, "__name__", str(node.target)) for node in nodes]


@dataclass
class Outcome:
    """Everything about one call that can be observed from outside."""

    result: Any = None
    drained: dict[int, list[Any]] = field(default_factory=dict)
    error: BaseException | None = None
    args: Any = None
    watched: Any = None
    output: str = ""
    warned: list[tuple[type, str, int]] = field(default_factory=list)
    modes: dict[str, Any] = field(default_factory=dict)


def of_tests(filename: str) -> bool:
    """Tells whether a file belongs to the tests."""
    return os.path.abspath(filename).startswith(HERE + os.sep)


def user_lines(error: BaseException) -> list[tuple[str, int, str]]:
    """Returns (file, line, function) of the frames of an exception that belong to a test's program."""
    found = []
    for frame in traceback.extract_tb(error.__traceback__):
        name = os.path.basename(frame.filename)
        if of_tests(frame.filename) and name not in HARNESS:
            found.append((name, frame.lineno or 0, frame.name))
    return found


def torch_modes() -> dict[str, Any]:
    """Returns the state of torch and Python that a program can change globally."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast dtype": torch.get_autocast_dtype("cpu"),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "random state of torch": torch.get_rng_state().numpy().tobytes(),
        "random state of the device": devices.random_state(),
        "random state of Python": random.getstate(),
        "exception being handled": sys.exc_info()[0],
    }


def _backward(values: Any) -> None:
    given = values if isinstance(values, (tuple, list)) else (values,)
    sums = [each.sum() for each in given if isinstance(each, torch.Tensor) and each.requires_grad]
    if sums:
        sum(sums[1:], sums[0]).backward()


def observe(fn: Callable[..., Any], args: Any, kwargs: Any, watch: Callable[[], Any], backward: bool) -> Outcome:
    """Call ``fn`` and record everything that happened."""
    outcome = Outcome()
    output = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(output):
        warnings.simplefilter("always")
        try:
            outcome.result = fn(*args, **kwargs)
        except Exception as error:  # whatever the program raises is part of its outcome
            outcome.error = error
        outcome.modes = torch_modes()
        outcome.drained = drain_all(outcome.result)  # here, where globals are still this run's
    if backward:
        _backward(outcome.result)
    outcome.args = (args, kwargs)
    outcome.watched = watch()
    for each in outcome.watched or ():
        outcome.drained = {**drain_all(each), **outcome.drained}
    outcome.output = output.getvalue()
    own = [each for each in caught if of_tests(each.filename) and LIMIT not in str(each.message)]
    outcome.warned = [(each.category, str(each.message), each.lineno) for each in own]
    return outcome


_NOTED = ("_torch_dynamo_tracer_output", "compile_id")
"""Torch's own compiler notes itself on what its programs raise, as those of some operators' functions in eager."""


def _compare_errors(eager: BaseException, compiled: BaseException, pairing: Pairing) -> None:
    if type(eager) is not type(compiled):
        raise Difference(f"eager raised {eager!r}, compiled {compiled!r}") from compiled
    pairing.compare(eager.args, compiled.args, "the exception's args")
    own, found = (
        {name: value for name, value in vars(each).items() if name not in _NOTED} for each in (eager, compiled)
    )
    pairing.compare(own, found, "the exception's __dict__")
    lines, found = user_lines(eager), user_lines(compiled)
    if reference.MODE == "torch":  # its resume functions have names and frames of their own
        lines, found = [(f, n, "") for f, n, _ in lines[-1:]], [(f, n, "") for f, n, _ in found[-1:]]
    if lines != found:
        raise Difference(f"the traceback's lines are {lines} in eager, {found} compiled") from compiled
    for name in ("__cause__", "__context__"):
        one, other = getattr(eager, name), getattr(compiled, name)
        if type(one) is not type(other):
            raise Difference(f"{name} is {one!r} in eager, {other!r} compiled") from compiled
    if eager.__suppress_context__ != compiled.__suppress_context__:
        raise Difference("__suppress_context__ differs") from compiled


def compare(eager: Outcome, compiled: Outcome, exact: bool = True) -> None:
    """Raise `Difference` if two outcomes differ."""
    pairing = Pairing(exact, {**eager.drained, **compiled.drained})
    if (eager.error is None) != (compiled.error is None):
        raise Difference(
            f"eager: {eager.error or 'returned'!r}; compiled: {compiled.error or 'returned'!r}"
        ) from compiled.error
    pairing.compare(eager.args, compiled.args, "arguments")
    pairing.compare(eager.watched, compiled.watched, "watched")
    if eager.error is not None and compiled.error is not None:
        _compare_errors(eager.error, compiled.error, pairing)
    pairing.compare(eager.result, compiled.result, "result")
    for what in ("output", "warned", "modes"):
        one, other = getattr(eager, what), getattr(compiled, what)
        if one != other:
            if isinstance(one, dict):
                one, other = ({k: v for k, v in a.items() if v != b[k]} for a, b in ((one, other), (other, one)))
            raise Difference(f"{what}: {one!r} in eager, {other!r} compiled")


@dataclass(frozen=True)
class Program:
    """A function, and how `check` calls, compiles and compares it. The functions below it set one of these each."""

    fn: Callable[..., Any]
    is_built: bool = False
    watched: Sequence[str | tuple[Any, str]] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    calls: int = 2
    recompiles: bool = False
    has_gradients: bool = False
    is_exact: bool = True
    backend: str | None = None
    fullgraph: bool = False


Modifier = Callable[[Callable[..., Any] | Program], Program]


def program_of(fn: Callable[..., Any] | Program) -> Program:
    """Returns the program of a function. What modifies that of a test stays."""
    if isinstance(fn, Program):
        return fn
    tested = getattr(fn, "program", None)
    return dataclasses.replace(tested, fn=fn) if isinstance(tested, Program) else Program(fn)


def _modifier(**changes: Any) -> Modifier:
    return lambda fn: dataclasses.replace(program_of(fn), **changes)


def built(fn: Callable[..., Any] | Program) -> Program:
    """The function has no parameters and creates the program: each run calls it, so that closures start anew."""
    return _modifier(is_built=True)(fn)


def watching(*watched: str | tuple[Any, str]) -> Modifier:
    """Globals of the function's module, by name, and attributes of objects are compared after each call. Each run
    starts with copies of their values."""
    return _modifier(watched=watched)


def with_keywords(**keywords: Any) -> Modifier:
    """The program is called with keyword arguments, too."""
    return _modifier(keywords=keywords)


def repeated(calls: int) -> Modifier:
    """The program is called so often on the same arguments: twice by default."""
    return _modifier(calls=calls)


def recompiling(fn: Callable[..., Any] | Program) -> Program:
    """Repeated calls may compile more graphs."""
    return _modifier(recompiles=True)(fn)


def with_gradients(fn: Callable[..., Any] | Program) -> Program:
    """``backward`` runs from the results, and gradients are compared."""
    return _modifier(has_gradients=True)(fn)


def approximate(fn: Callable[..., Any] | Program) -> Program:
    """Floating-point results are close, not the same bit for bit."""
    return _modifier(is_exact=False)(fn)


def compiled_by(backend: str | None) -> Modifier:
    """A backend compiles the graphs, which run as they are by default."""
    return _modifier(backend=backend)


def without_breaks(fn: Callable[..., Any] | Program) -> Program:
    """No call breaks: the program is compiled with ``fullgraph=True``."""
    return _modifier(fullgraph=True)(fn)


@dataclass
class Session:
    """A program with what it is called on, able to start from the same state more than once."""

    program: Program
    inputs: list[tuple[Any, ...]]

    def __post_init__(self) -> None:
        self._watched: list[tuple[Any, str]] = []
        for each in self.program.watched:
            if isinstance(each, str):
                self._watched.append((sys.modules[self.program.fn.__module__], each))
            else:
                self._watched.append(each)
        self._start = copy.deepcopy([getattr(owner, name) for owner, name in self._watched])

    def run(self, transform: Callable[[Any], Any], after_call: Callable[[int], None] | None = None) -> list[Outcome]:
        """Call the transformed program on each of its inputs, from the starting state."""
        for (owner, name), value in zip(self._watched, copy.deepcopy(self._start), strict=True):
            setattr(owner, name, value)
        torch.manual_seed(1234)
        random.seed(1234)
        modules: dict[int, Any] = {}
        fn = self.program.fn
        if isinstance(fn, torch.nn.Module):
            fn = transform(copy.deepcopy(fn, modules))
        else:
            fn = transform(fn() if self.program.is_built else fn)
        _copy_modules(self.inputs, modules)
        outcomes = []
        for index, given in enumerate(self.inputs):
            args, keywords = copy.deepcopy((given, self.program.keywords), dict(modules))
            outcomes.append(observe(fn, args, keywords, self._see, self.program.has_gradients))
            if after_call is not None:
                after_call(index)
        self.state_after = [value for value in modules.values() if isinstance(value, torch.nn.Module)]
        return outcomes

    def _see(self) -> Any:
        return [getattr(owner, name, "deleted") for owner, name in self._watched]


def _copy_modules(inputs: list[tuple[Any, ...]], memo: dict[int, Any]) -> None:
    """Copy the modules among the inputs once, so that all calls of a run get the same ones."""
    for each in itertools.chain.from_iterable(inputs):
        if isinstance(each, torch.nn.Module) and id(each) not in memo:
            copy.deepcopy(each, memo)


def _within(found: int, wanted: int | tuple[int, int]) -> bool:
    return wanted[0] <= found <= wanted[1] if isinstance(wanted, tuple) else found == wanted


def check(
    fn: Callable[..., Any] | Program,
    *args: Any,
    graphs: int | tuple[int, int] | None = 1,
    operators: int | tuple[int, int] | None = None,
    breaks: int | tuple[int, int] | None = None,
    others: Iterable[tuple[Any, ...]] = (),
    all_graphs: int | tuple[int, int] | None = None,
) -> Recorder:
    """Compare ``fn`` compiled with ``fn`` as it is: twice on copies of ``args``, then on each of ``others``.

    Args:
        graphs: graphs (exactly, or a range) that the first call gives the backend; None: any number.
        operators: operators in those graphs.
        breaks: translations that end in a graph break in the first call; by default none where ``graphs`` is 1.
        all_graphs: graphs after ``others``.
    """
    program = program_of(fn)
    session = Session(program, [*[args] * program.calls, *others])
    eager = session.run(lambda f: f)
    eager_modules = session.state_after
    for each in eager:
        devices.skip_if_only_for_cpu(each.error)

    recorder = Recorder(program.backend)
    seen: list[tuple[int, int, int, int]] = []
    before = dl.counters.broken_translations

    def note(index: int) -> None:
        seen.append((len(recorder.graphs), recorder.operators, dl.counters.broken_translations - before, recorder.runs))

    dl.reset()
    dl.counters.break_reasons.clear()
    compiled = session.run(lambda f: dl.compile(f, backend=recorder, fullgraph=program.fullgraph), note)
    for index, (one, other) in enumerate(zip(eager, compiled, strict=True)):
        try:
            compare(one, other, program.is_exact)
        except Difference as difference:
            difference.add_note(f"in call {index}; graphs so far: {len(recorder.graphs)}")
            raise
    Pairing(program.is_exact).compare(eager_modules, session.state_after, "modules")
    if breaks is None and graphs == 1:
        breaks = 0
    wanted = {"graphs": graphs, "operators": operators, "breaks": breaks}
    _check_counts(recorder, seen, wanted, 1 if program.recompiles else program.calls, all_graphs)
    return recorder


def check_refused(fn: Callable[..., Any], *args: Any) -> None:
    """Check that both raise an error of one class. The texts may differ, as torch's compiler has errors of its own."""
    raised = []
    for call in (fn, dl.compile(fn, backend="eager")):
        try:
            call(*copy.deepcopy(args))
        except Exception as error:  # whatever torch raises
            raised.append(type(error))
    assert len(raised) == 2 and raised[0] is raised[1], raised


def decorator_for(check: Callable[..., Any]) -> Callable[..., Callable[[Callable[..., Any]], Callable[[], None]]]:
    """Returns a decorator of programs, which makes a test: it calls ``check`` with the program and the decorator's
    arguments. Of several decorators the lowest checks first, and the others check the same `Program` unless a
    modifier stands between them."""

    def decorator(*args: Any, **settings: Any) -> Callable[[Callable[..., Any]], Callable[[], None]]:
        def make(fn: Callable[..., Any] | Program) -> Callable[[], None]:
            function = fn.fn if isinstance(fn, Program) else fn
            checked_below = getattr(function, "program", None)
            program = fn
            if checked_below is not None:
                below = program_of(checked_below).fn
                program = dataclasses.replace(fn, fn=below) if isinstance(fn, Program) else checked_below

            @functools.wraps(function)
            def test() -> None:
                if checked_below is not None:
                    function()
                check(program, *args, **settings)

            vars(test)["program"] = program
            vars(test)["__signature__"] = inspect.Signature()  # the program's parameters are no fixtures
            return test

        return make

    return decorator


checked = decorator_for(check)


def _check_counts(
    recorder: Recorder,
    seen: list[tuple[int, int, int, int]],
    wanted: dict[str, int | tuple[int, int] | None],
    calls: int,
    all_graphs: int | tuple[int, int] | None,
) -> None:
    found = dict(zip(wanted, seen[0][:3], strict=True))
    if reference.MODE:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0].split("/")[-1]
        differ = {k: (v, found[k]) for k, v in wanted.items() if v is not None and not _within(found[k], v)}
        differ.pop("breaks", None)
        if differ and reference.MODE == "torch":
            reference.report(test, f"wanted and found: {differ}")
        return
    reasons = "".join(f"\nbreak ({count}): {reason}" for reason, count in dl.counters.break_reasons.items())
    listing = "\n".join(str(gm.graph) for gm in recorder.graphs) + reasons
    for name, value in wanted.items():
        if value is not None:
            assert _within(found[name], value), f"{name}: wanted {value}, found {found[name]}; graphs:\n{listing}"
    for index in range(1, calls):
        assert seen[index][0] == seen[0][0], f"call {index} on like inputs compiled again:\n{listing}"
        runs = seen[index][3] - seen[index - 1][3]
        assert runs == seen[0][3], f"call {index} ran {runs} graphs, the first ran {seen[0][3]}"
    if all_graphs is not None:
        assert _within(seen[-1][0], all_graphs), f"wanted {all_graphs} graphs in all, found {seen[-1][0]}:\n{listing}"
