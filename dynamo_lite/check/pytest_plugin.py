"""Captures what a test calls, and fails the test if that exceeds the limits of its mark.

The test's own statements run in eager: they build inputs, seed, compare. Each function or module that they call is
captured, and has to be one graph. Frames of pytest, and of what pytest itself calls (fixtures), are not captured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import _pytest
import pluggy
import pytest
import torch
from _pytest.logging import LogCaptureHandler

from dynamo_lite import _C
from dynamo_lite.api import WATCHES, compiled_by, make_owner
from dynamo_lite.backends import list_backends
from dynamo_lite.backends.registry import Backend
from dynamo_lite.controls.takeover import Takeover
from dynamo_lite.insight.observer import GraphBreak, Recompile
from dynamo_lite.insight.suggestions import suggestion
from dynamo_lite.resume.resume_code import original_position

from .captured import CAPTURE_ERRORS, Record
from .findings import Limits, Result


@dataclass(frozen=True)
class _Mark:
    """The arguments of ``@pytest.mark.fullgraph``."""

    dynamic: bool | None = None
    max_graphs: int = 1
    max_recompiles: int = 0
    backend: str | Callable[..., Any] = "eager"
    train: bool = False

    @classmethod
    def of(cls, item: pytest.Item) -> _Mark | None:
        """The arguments of a test's innermost mark, checked. None: it has no mark."""
        mark = item.get_closest_marker("fullgraph")
        if mark is None:
            return None
        names = [each.name for each in dataclasses.fields(cls)]
        unknown = [name for name in mark.kwargs if name not in names]
        if mark.args or unknown:
            given = unknown[0] if unknown else repr(mark.args[0])
            _fail(f"pytest.mark.fullgraph has no argument {given}; it takes, by name, {', '.join(names)}")
        return cls(**mark.kwargs)

    def __post_init__(self) -> None:
        for name in ("max_graphs", "max_recompiles"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                _fail(f"{name} of pytest.mark.fullgraph must be a non-negative integer, not {value!r}")
        if type(self.train) is not bool:
            _fail(f"train of pytest.mark.fullgraph must be True or False, not {self.train!r}")
        if self.dynamic is not None and type(self.dynamic) is not bool:
            _fail(f"dynamic of pytest.mark.fullgraph must be True, False or None, not {self.dynamic!r}")
        if isinstance(self.backend, str) and self.backend not in list_backends():
            _fail(f"no backend {self.backend!r}; {suggestion(self.backend, list_backends())}")


def _fail(why: str) -> None:
    __tracebackhide__ = True
    pytest.fail(why, pytrace=False)


_MACHINERY = tuple(str(Path(module.__file__ or "").parent) for module in (_pytest, pluggy))
_NOT_CALLED_BY_TESTS = (*_MACHINERY, "<frozen importlib.")


_TO_CAPTURE = (
    "call a function or module that computes with tensors, on the test's own thread: the test's own statements and "
    "other threads run in eager"
)


class Capture:
    """What has been captured in one test until now."""

    def __init__(self, item: pytest.Item) -> None:
        self._record = Record(item.nodeid, to_capture=_TO_CAPTURE)
        seen = self._record.observer
        self.graphs: list[torch.fx.GraphModule] = seen.graphs
        """In the order in which they were captured."""
        self.breaks: list[GraphBreak] = seen.breaks
        """Each with its reason, hint and place in the user's source."""
        self.recompiles: list[Recompile] = seen.recompiles
        """The functions that were compiled again, each with what had changed."""
        self._body = _body_of(item)
        self._calls: Counter[tuple[str, int]] = Counter()
        """Graphs of each call that the test's own frame makes, by its file and instruction."""
        self.most = 0
        """Graphs of the earlier call that had most."""

    @contextlib.contextmanager
    def _on(self, backend: str | Backend, dynamic: bool | None) -> Iterator[None]:
        """Capture what the test calls."""
        owner = make_owner(backend, dynamic=dynamic, observer=self._record.observer)
        owner.callback = self._only_of_the_test(owner.callback)
        traces = logging.getLogger("torch.__trace")  # at DEBUG for tools, and no part of a test's log
        handlers = [each for each in traces.handlers if isinstance(each, LogCaptureHandler)]
        for each in handlers:
            traces.removeHandler(each)
        WATCHES.append(_compile_nothing)
        _C.enter_block(owner, process=False)
        try:
            with Takeover(_as_written), compiled_by(owner.callback):
                yield
        finally:
            for each in handlers:
                traces.addHandler(each)
            _C.leave_block(owner, process=False)
            WATCHES.remove(_compile_nothing)
            owner.reset()

    def _only_of_the_test(self, compiler: Any) -> Callable[[_C.FrameView], Any]:
        """A callback that skips the test's own frame and those that it didn't call."""
        seen = self._record.observer

        def compile_frame(view: _C.FrameView) -> Any:
            code = view.code
            if self._is_body(code) or code.co_filename.startswith(_MACHINERY):
                return _C.SKIP
            if _is_preparation(view):
                return _C.FREEZE
            call = self._call_of_the_test()
            if call is None:
                return _C.PASS
            if self._is_body(sys._getframe(1).f_code) and original_position(code, 0)[0] is code:
                self._close_call()
            graphs, recompiles = len(seen.graphs), len(seen.recompiles)
            try:
                return compiler(view)
            finally:
                again = len(seen.recompiles) > recompiles
                self._calls[call] += 0 if again else len(seen.graphs) - graphs

        return compile_frame

    def _close_call(self) -> None:
        """Another call begins, perhaps at the same instruction: in a loop, or as hypothesis calls the test again."""
        self.most = max([self.most, *self._calls.values()])
        self._calls.clear()

    def _is_body(self, code: CodeType) -> bool:
        """Whether it is the test's own: of a doctest, each example's."""
        if self._body is None:
            return code.co_name == "<module>" and code.co_filename.startswith("<doctest ")
        return code is self._body

    def _call_of_the_test(self) -> tuple[str, int] | None:
        """The instruction at which the test's own frame is; None: it didn't call this, or pytest did for it, or it is
        called as a module is imported."""
        frame = sys._getframe(2)
        while frame is not None:
            if self._is_body(frame.f_code):
                return frame.f_code.co_filename, frame.f_lasti
            if frame.f_code.co_filename.startswith(_NOT_CALLED_BY_TESTS):
                return None
            frame = frame.f_back  # type: ignore[assignment]
        return None


def _compile_nothing(fn: object, settings: dict[str, Any]) -> None:
    """What a test compiles is captured as what it calls is."""
    if fn is None:
        _fail("a test that captures what it calls can't do so in a block of dl.optimize or dl.enable: leave that out")


def _as_written(fn: Callable[..., Any], **settings: object) -> Callable[..., Any]:
    """What torch.compile was given, too."""
    return fn


_MODULES, _OPTIMIZERS = torch.nn.modules.module.__file__, str(Path(torch.optim.__file__).parent)
_CALLS_OF_MODULES = ("_wrapped_call_impl", "_call_impl")


def _is_preparation(view: _C.FrameView) -> bool:
    """Whether a frame builds a module, moves it, loads it, steps an optimizer: nothing that a model computes."""
    code = view.code
    if code.co_name == "__init__":
        return isinstance(next(iter(view.locals.values()), None), torch.nn.Module)
    if code.co_filename == _MODULES:
        return code.co_name not in _CALLS_OF_MODULES
    return code.co_filename.startswith(_OPTIMIZERS)


def _body_of(item: pytest.Item) -> CodeType | None:
    """The code of the function as it was written, under its decorators, hypothesis' too."""
    function = inspect.unwrap(getattr(item, "obj", None))  # type: ignore[arg-type]
    function = inspect.unwrap(getattr(getattr(function, "hypothesis", None), "inner_test", function))
    return getattr(getattr(function, "__func__", function), "__code__", None)


_KEY = pytest.StashKey[Capture]()


def capture_of(item: pytest.Item) -> Capture:
    """The capture of a test, which is created at its first use."""
    return item.stash.setdefault(_KEY, Capture(item))


@contextlib.contextmanager
def capturing(item: pytest.Item) -> Iterator[None]:
    """Run the call of a test, and fail it by its mark. A test without the mark is only captured."""
    __tracebackhide__ = True
    mark = _Mark.of(item)
    settings = mark or _Mark()
    capture = capture_of(item)
    record = capture._record
    try:
        with (
            capture._on(settings.backend, settings.dynamic),
            contextlib.nullcontext() if mark is None else record.call(),
        ):
            yield
    except CAPTURE_ERRORS:
        if mark is None:
            raise
    except Exception:
        result = _noted(item, capture, mark)
        if mark is not None and record.observer.breaks and not result.ok:
            item.add_report_section("call", "fullgraph", _listed(result))
        raise
    result = _noted(item, capture, mark)
    if mark is not None and not result.ok:
        _fail(_listed(result))


def _listed(result: Result) -> str:
    return "\n".join([*map(str, result.findings), result.summary()])


def _noted(item: pytest.Item, capture: Capture, mark: _Mark | None) -> Result:
    """What was captured, compared with the mark's limits, and kept for the page of all tests."""
    settings, record = mark or _Mark(), capture._record
    capture._close_call()
    record.graphs = capture.most
    record.trains = settings.train
    record.backwards = sum(map(_needs_gradients, capture.graphs))
    result = record.result(Limits(settings.max_graphs, settings.max_recompiles))
    item.__dict__["_dynamo_lite_result"] = {
        **dataclasses.asdict(result),
        "marked": mark is not None,
        "code": [each.print_readable(print_output=False) for each in capture.graphs],
    }
    return result


def _needs_gradients(gm: torch.fx.GraphModule) -> bool:
    examples = (node.meta.get("example_value") for node in gm.graph.nodes if node.op == "placeholder")
    return any(isinstance(each, torch.Tensor) and each.requires_grad for each in examples)
