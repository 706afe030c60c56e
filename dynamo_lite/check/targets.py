"""The targets that the command line checks: a factory of a callable and its inputs, or a script."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dynamo_lite.api import WATCHES, takeover
from dynamo_lite.compiler.observers import check_captures
from dynamo_lite.insight.program_files import OURS, innermost_of_program, without_ours
from dynamo_lite.insight.site import qualified_name

from . import findings
from .captured import CAPTURE_ERRORS, Captured, Record, failure_of
from .findings import Finding, Limits, Place, Result

_TRACEBACK = "--traceback prints the traceback"


class BadTarget(Exception):
    """A target can't be checked. The message is one sentence for the user."""

    def finding(self) -> Finding:
        """It as a finding, at the program's line that raised."""
        if self.__cause__ is None:
            return Finding(findings.TARGET_FAILED, str(self), "dynamo-lite check --help says what a target is")
        frames = without_ours(traceback.extract_tb(self.__cause__.__traceback__))
        innermost = innermost_of_program(frames) if frames else None
        if innermost is None or innermost.filename.startswith(OURS):  # it was called with wrong arguments
            return Finding(findings.TARGET_FAILED, str(self), _TRACEBACK)
        return Finding(findings.TARGET_FAILED, str(self), _TRACEBACK, Place.of(innermost))


@dataclass(frozen=True)
class Settings:
    """How targets are compiled, by the command line."""

    backend: str | None = None
    """None: "eager"; of a script, what it says itself."""
    dynamic: bool | None = None
    train: bool = False
    inputs: tuple[torch.Tensor, ...] = ()
    """What each target is called with, if they are no factories."""


Call = tuple[tuple[Any, ...], dict[str, Any]]
Allows = Callable[[Finding], bool]


def check(target: str, settings: Settings, limits: Limits, allows: Allows) -> Result:
    """Run a target and hold what was captured against the limits.

    Raises:
        BadTarget: it doesn't exist, isn't what a target is, or raises.
    """
    script = Path(target)
    if script.suffix == ".py":
        return _check_script(script, settings, limits, allows)
    fn, calls = _made_by(_factory(target), target, settings)
    captured = Captured(fn, backend=settings.backend or "eager", dynamic=settings.dynamic, train=settings.train)
    captured.record.name = target
    try:
        _call_each(captured, calls, target)
    finally:
        captured.close()
    return captured.record.result(limits, allows)


def _call_each(captured: Captured, calls: Iterator[Call], target: str) -> None:
    count = 0
    while True:
        with _blaming(target):
            call = next(calls, None)
        if call is None:
            break
        count += 1
        args, kwargs = call
        try:
            with _blaming(f"calling the function of {target} with input {count}"):
                captured(*args, **kwargs)
        except CAPTURE_ERRORS:  # recorded; calls after it would tell nothing more
            return
    if not count:
        raise BadTarget(f"{target} gives no inputs")


@contextlib.contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Turn what the user's code raises into a `BadTarget` that says which part did. The compiler's own errors pass."""
    try:
        yield
    except (BadTarget, *CAPTURE_ERRORS):
        raise
    except SystemExit as ended:  # by which nothing was checked, whatever the status
        raise BadTarget(f"{what} ended the program, with the status {ended.code}") from ended
    except Exception as error:
        raise BadTarget(f"{what} raised {type(error).__name__}: {error}") from error


def _factory(target: str) -> Callable[[], object]:
    """The object at ``pkg.module:name``, or ``path/to/file.py:name``."""
    source, colon, name = target.partition(":")
    if not (source and colon and name):
        raise BadTarget(
            f"{target!r} is not a valid target: give pkg.module:factory, or a script's path, which ends in .py"
        )
    with _blaming(f"importing {source}"):
        found: Any = _module_of_file(Path(source)) if source.endswith(".py") else _module(source)
    for part in name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), 1)
            raise BadTarget(f"{source} has no {name!r}" + "".join(f"; did you mean {each!r}?" for each in near))
        found = getattr(found, part)
    if not callable(found):
        raise BadTarget(f"{target} is not a function (got {found!r}): a factory gives (fn, args)")
    return found


def _module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise BadTarget(f"there is no module {error.name!r} here (looked for from {Path.cwd()})") from None
        raise


def _module_of_file(path: Path) -> object:
    if not path.is_file():
        raise BadTarget(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(_free_name(path.stem), path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _free_name(stem: str) -> str:
    """A module's name that takes no other module's place: ``path/types.py`` isn't ``types``."""
    name = stem.replace(".", "_")
    while name in sys.modules or name in sys.builtin_module_names or importlib.util.find_spec(name) is not None:
        name += "_"
    return name


_SHAPES = "(fn, args), (fn, args, kwargs), or fn with a list or iterator of such args"


def _made_by(
    factory: Callable[..., object], target: str, settings: Settings
) -> tuple[Callable[..., Any], Iterator[Call]]:
    """The callable and the inputs that a factory gives."""
    is_module = isinstance(factory, type) and issubclass(factory, torch.nn.Module)
    if is_module and not settings.inputs:
        raise BadTarget(f"{target} is a module's class: say what it is called with, such as --input 'float32[4,8]'")
    if settings.inputs:
        with _blaming(target):
            made: Any = factory() if is_module else factory
            fn = made.train(settings.train) if is_module else made
        _check_accepts(fn, settings.inputs, target)
        return fn, iter([(settings.inputs, {})])
    with _blaming(target):
        made = factory()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not callable(made[0]):
        raise BadTarget(f"{target} gave {_described(made)}, not {_SHAPES}")
    fn, inputs, kwargs = made if len(made) == 3 else (*made, {})
    if not isinstance(kwargs, dict) or not all(isinstance(name, str) for name in kwargs):
        raise BadTarget(f"{target} gave {_described(kwargs)} as kwargs, not a dict")
    if isinstance(inputs, tuple):
        return fn, iter([(inputs, kwargs)])
    if not isinstance(inputs, (list, Iterator)):
        raise BadTarget(f"{target} gave {_described(inputs)} as args, not a tuple, nor a list or iterator of tuples")
    return fn, _calls(inputs, kwargs, target)


def _check_accepts(fn: Callable[..., Any], inputs: tuple[torch.Tensor, ...], target: str) -> None:
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        inspect.signature(called).bind(*inputs)
    except ValueError:  # a function in C that has no signature
        return
    except TypeError as error:
        or_factory = "" if called is not fn else "; a factory is checked without --input"
        raise BadTarget(f"{target} can't be called with what --input gives: {error}{or_factory}") from None


def tensor_like(text: str) -> torch.Tensor:
    """A tensor by its dtype and sizes: ``"float32[4,8]"``. Its values are random, those of integers 0.

    Raises:
        BadTarget: it isn't written like that.
    """
    found = re.fullmatch(r"(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)?\s*\]", text)
    dtype = None if found is None else getattr(torch, found[1], None)
    if found is None or not isinstance(dtype, torch.dtype):
        raise BadTarget(f"--input {text!r} is not a dtype with sizes, such as 'float32[4,8]' or 'int64[2,16]'")
    sizes = [int(size) for size in (found[2] or "").split(",") if size]
    has_fractions = dtype.is_floating_point or dtype.is_complex
    return torch.randn(sizes).to(dtype) if has_fractions else torch.zeros(sizes, dtype=dtype)


def _calls(inputs: Iterable[object], kwargs: dict[str, Any], target: str) -> Iterator[Call]:
    for each in inputs:
        if not isinstance(each, tuple):
            raise BadTarget(f"{target} gave {_described(each)} among its inputs, not a tuple of arguments")
        yield each, kwargs


def _described(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(each).__name__ for each in value)})"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


# -- scripts -----------------------------------------------------------------------------------------------------


def _check_script(path: Path, settings: Settings, limits: Limits, allows: Allows) -> Result:
    """Run a script as ``__main__`` and check each thing that it compiles with `dl.compile` or ``torch.compile``. It is
    compiled without ``fullgraph``, so that all of its breaks are found."""
    if not path.is_file():
        raise BadTarget(f"there is no file {path}")
    if settings.train:
        raise BadTarget(f"--train is for factories: a script such as {path} computes its gradients itself")
    if settings.inputs:
        raise BadTarget(f"--input is for classes and functions: a script such as {path} calls what it compiles itself")
    records: list[Record] = []
    changes = {"backend": settings.backend, "dynamic": settings.dynamic}
    given = {name: value for name, value in changes.items() if value is not None}

    def watch(fn: object, stated: dict[str, Any]) -> dict[str, Any]:
        if fn is None:
            raise BadTarget(f"{path} compiles a block, which isn't one call that can be checked: {_COMPILE_INSTEAD}")
        records.append(Record(f"{path}: {qualified_name(fn)}"))
        return {**stated, **given, "fullgraph": False, "observer": records[-1].observer}

    failure = _run_script(path, watch)
    results = []
    for record in records:
        seen = record.observer
        record.graphs = max(len(seen.graphs) - len(seen.recompiles), min(len(seen.graphs), 1))
        if seen.graphs or seen.breaks or seen.not_compiled_here:  # else it was not called
            results.append(record.result(limits, allows))
    whole = Result(str(path), max((each.graphs for each in results), default=0))
    for each in results:
        whole.recompiles += each.recompiles
        whole.findings += each.findings
        whole.allowed += each.allowed
    if failure is not None:
        whole.findings.append(failure)
    elif not results:
        whole.findings.append(_compiles_nothing(path))
    return whole


_COMPILE_INSTEAD = "compile the functions that it calls with dl.compile, or give a factory (pkg.module:factory)"


def _run_script(path: Path, watch: Callable[[object, dict[str, Any]], dict[str, Any]]) -> Finding | None:
    """What the compiler raised out of it, if anything."""
    argv, paths = sys.argv, sys.path
    sys.argv, sys.path = [str(path)], [str(path.resolve().parent), *paths]
    WATCHES.append(watch)
    try:
        check_captures(str(path))
        with _blaming(str(path)), takeover():
            _run_to_its_end(path)
    except CAPTURE_ERRORS as error:
        return failure_of(error)
    finally:
        WATCHES.remove(watch)
        sys.argv, sys.path = argv, paths
    return None


def _run_to_its_end(path: Path) -> None:
    """A script may end itself, if it says that all is well."""
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise


def _compiles_nothing(path: Path) -> Finding:
    return Finding(
        findings.NOTHING_CAPTURED,
        f"{path} calls nothing that it compiles with dl.compile or torch.compile",
        "give a factory instead (pkg.module:factory), which gives a callable and its inputs",
    )
