"""CPython's own tests with every frame offered to the translator: ``make cpython-tests``.

Each module of CPython's test package is run twice by ``python -m test``: as it is, and inside of ``dl.enable`` with
``config.translate_library``, which offers the frames of tests and of the standard library as well. A test that ends
another way is a difference; there must be none but those in `UNABLE`. Both runs are forks of one process that has
imported torch, so that they differ in the hook alone.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import runpy
import signal
import sys
import tempfile
import time
import types
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import dynamo_lite as dl
from dynamo_lite.compiler.frame_compiler import FrameCompiler

MODULES = tuple(
    """
    test_abc test_asyncgen test_augassign test_baseexception test_binop test_bool test_builtin test_call test_class
    test_code test_collections test_compare test_compile test_complex test_contains test_context test_contextlib
    test_contextlib_async test_copy test_coroutines test_dataclasses test_decorators test_defaultdict test_deque
    test_descr test_descrtut test_dict test_dictcomps test_dictviews test_dynamic test_enum test_enumerate
    test_except_star test_exception_group test_exception_variations test_exceptions test_extcall test_float test_frame
    test_fstring test_funcattrs test_functools test_generator_stop test_generators test_genericalias test_genexps
    test_global test_grammar test_heapq test_index test_inspect test_int test_isinstance test_iter test_iterlen
    test_itertools test_keywordonlyarg test_list test_listcomps test_metaclass test_named_expressions
    test_opcodes test_operator test_ordered_dict test_patma test_peepholer test_pickle test_positional_only_arg test_pow
    test_property test_raise test_range test_richcmp test_scope test_set test_setcomps test_slice test_sort test_string
    test_subclassinit test_super test_syntax test_sys_setprofile test_sys_settrace test_threading test_traceback
    test_tuple test_type_annotations test_types test_typing test_unary test_unpack test_unpack_ex test_userdict
    test_userlist test_weakref test_weakset test_with test_yield_from
    """.split()
)
if sys.version_info >= (3, 12):
    MODULES += ("test_type_aliases", "test_type_params")
if sys.version_info >= (3, 14):
    MODULES += ("test_annotationlib", "test_tstring")
if sys.version_info >= (3, 15):
    MODULES += ("test_lazy_import",)

SAMPLE = tuple(
    """
    test_context test_contextlib test_exception_variations test_funcattrs test_grammar test_iter test_list test_patma
    test_scope test_super test_with
    """.split()
)
"""Those that continuous integration runs."""

UNABLE: dict[str, str] = {
    "test_descr.ClassPropertiesAndMethods.test_slots": "it counts all objects that the collector knows",
    "test_extract_stackup_deferred_lookup_lines": "torch's fake mode looks up the lines of the stack it is made in",
}
"""Tests that may end another way under the hook, with the reason."""
if sys.version_info >= (3, 12):
    UNABLE["test_20_async_for_loop"] = "beside any evaluator CPython tells trace functions of a StopIteration twice"
if sys.version_info >= (3, 14):
    UNABLE["test_code.CodeTest.test_stateless"] = "it wants code objects on which no evaluator keeps data"
if sys.version_info >= (3, 15):
    UNABLE["test_list_overwrite_local"] = "beside any evaluator the caller keeps its reference to an argument"

TIMEOUT = 600


@dataclass
class Run:
    """The outcomes of a module's tests, by name, and the translator's statistics."""

    outcomes: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    offered: int = 0
    errors: list[str] = field(default_factory=list)
    output: str = ""
    seconds: float = 0.0


def watch_translator(found: Path) -> None:
    """Note the frames offered, and errors of the translator's own, which a test might swallow."""
    ask = FrameCompiler.__call__
    offered = 0
    parent = os.getpid()

    def asked(self: FrameCompiler, view: Any) -> Any:
        nonlocal offered
        offered += 1
        try:
            return ask(self, view)
        except dl.exc.InternalError as error:
            if os.getpid() == parent:
                with found.open("a") as file:
                    file.write(f"{error}\n".replace("\n", " ") + "\n")
            raise

    def write() -> None:
        if os.getpid() == parent:
            found.with_suffix(".offered").write_text(str(offered))

    FrameCompiler.__call__ = asked  # type: ignore[method-assign]
    watch_translator.write = write  # type: ignore[attr-defined]


def set_up_without(setup_process: Callable[[], None]) -> Callable[[], None]:
    """What sets the process up writes to all modules; those of torch that are no plain modules don't stand it, and
    those that answer for what they lack may import others meanwhile."""

    def is_odd(module: types.ModuleType) -> bool:
        return type(module) is not types.ModuleType or "__getattr__" in vars(module)

    def set_up() -> None:
        hidden = {name: each for name, each in sys.modules.items() if is_odd(each)}
        for name in hidden:
            del sys.modules[name]
        dl.disable(setup_process)()
        sys.modules.update(hidden)

    return set_up


def run_module(name: str, hook: bool, folder: Path) -> None:
    """Run one module's tests by ``python -m test``, in this process, which is a fork."""
    regrtest = importlib.import_module("test.libregrtest.main")
    regrtest.setup_process = set_up_without(regrtest.setup_process)
    sys.argv = ["test", "--junit-xml", str(folder / "result.xml"), name]
    if not hook:
        runpy.run_module("test", run_name="__main__", alter_sys=True)
        return
    watch_translator(folder / "errors")
    with dl.config.patch(
        translate_library=True, unroll_limit=2_000, enable_allowance=math.inf, internal_errors="raise"
    ):
        with dl.enable("eager"):
            try:
                runpy.run_module("test", run_name="__main__", alter_sys=True)
            finally:
                watch_translator.write()  # type: ignore[attr-defined]


def fork(name: str, hook: bool) -> Run:
    """Run a module in a child process."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        child = os.fork()
        if child == 0:
            _in_child(name, hook, folder)
        killed = not _wait(child, began + TIMEOUT)
        run = Run(seconds=time.monotonic() - began)
        run.output = (folder / "output").read_text(errors="replace")
        if (folder / "result.xml").exists():
            _read_results(folder / "result.xml", run)
        else:
            run.outcomes["the module"] = "no time left" if killed else "died"
        if (folder / "errors").exists():
            run.errors = (folder / "errors").read_text().splitlines()
        if (folder / "errors.offered").exists():
            run.offered = int((folder / "errors.offered").read_text())
        return run


def _in_child(name: str, hook: bool, folder: Path) -> None:
    os.setsid()
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    status = 1
    try:
        run_module(name, hook, folder)
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int, until: float) -> bool:
    """Wait for a process to end; False if it had to be killed."""
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _read_results(path: Path, run: Run) -> None:
    seen: Counter[str] = Counter()
    for case in ElementTree.parse(path).iter("testcase"):
        name = case.get("name")
        if name is None:  # CPython doesn't name those that failed in a subtest: they are missing
            continue
        seen[name] += 1
        if seen[name] > 1:
            name = f"{name} #{seen[name]}"
        kinds = [child.tag for child in case if child.tag in ("error", "failure", "skipped")]
        outcome = (kinds or [case.get("result") or "completed"])[0]
        run.outcomes[name] = "ok" if outcome == "completed" and not kinds else outcome
        run.details[name] = "\n".join(child.text or "" for child in case)


def differences(plain: Run, hooked: Run) -> list[str]:
    """Returns the tests with different outcomes, except those that can't pass under the hook."""
    if "the module" in hooked.outcomes:
        return [f"{hooked.outcomes['the module']}\n{hooked.output[-3000:]}"]
    found = []
    for name in dict.fromkeys([*plain.outcomes, *hooked.outcomes]):
        one, other = (run.outcomes.get(name, "missing") for run in (plain, hooked))
        if one != other and not any(unable in name for unable in UNABLE):
            found.append(f"{name}: {one} without the hook, {other} with it\n{hooked.details.get(name, '')[-1500:]}")
    return found + [f"an error of the translator: {each}" for each in dict.fromkeys(hooked.errors)]


def compare(modules: Sequence[str]) -> int:
    """Run modules both ways and print the differences. Returns their number."""
    total = Counter[str]()
    dl.compile(lambda x: x + 1, backend="eager")(torch.ones(1))  # whatever is imported by need, is now
    dl.reset()
    for name in modules:
        plain, hooked = fork(name, False), fork(name, True)
        found = differences(plain, hooked)
        passed = sum(outcome == "ok" for outcome in hooked.outcomes.values())
        total.update(modules=1, passed=passed, differences=len(found), frames=hooked.offered)
        times = f"{plain.seconds:.1f} s, {hooked.seconds:.1f} s"
        print(f"{name}: {passed} pass, {hooked.offered} frames offered, {len(found)} differ ({times})", flush=True)
        for each in found:
            print("    " + each.replace("\n", "\n    "), flush=True)
    print(", ".join(f"{count} {what}" for what, count in total.items()))
    return total["differences"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="modules of the test package; all of the list if none is named")
    parser.add_argument("--sample", action="store_true", help="the modules that continuous integration runs")
    options = parser.parse_args()
    sys.exit(1 if compare(options.modules or (SAMPLE if options.sample else MODULES)) else 0)


if __name__ == "__main__":
    main()
