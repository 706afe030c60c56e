"""The test suites of libraries that are built on torch, under the hook: ``make suites``.

A test that passes plainly must pass with every frame offered to the translator. Each library's tests run in processes
of their own: plainly; then those that passed inside of ``dl.enable``, at the default settings, where a suite may take
at most five times as long and a second; then with each frame translated at its first call, which is what finds bugs.

The tests come from the libraries' source archives, which pip downloads into ``build/suites``. Some archives have none:
those suites run with ``--trees FOLDER``, where ``FOLDER/name`` is a checkout of the library. What a library needs
beside torch is installed into a folder there, without dependencies, so that torch stays the project's. A suite that
can't be had isn't run: that is said, and is a failure if the suite was named.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "suites"
WAYS = ("plain", "hook", "at-once")
SLOWER_AT_MOST = 5.0
FIXED_SECONDS = 1.0
"""For the imports of the first graph, and for what is translated at first calls."""
SECONDS_FOR_A_TEST = 300


@dataclass(frozen=True)
class Suite:
    """The settings for one library's test suite."""

    name: str
    versions: str = ""
    tests: tuple[str, ...] = ("tests",)
    left_out: dict[str, str] = field(default_factory=dict)
    """Part of a test's id -> why it isn't run."""
    needs: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    source: str = "archive"
    """Where the tests are: in the "archive", "installed" with the package, or in a checkout of this repository."""


# What several of them need beside torch, numpy and sympy.
SCIENCE = ("scipy", "scikit-learn", "joblib", "threadpoolctl", "narwhals", "cloudpickle")
TORCH_COMPILE = "it runs torch.compile, which takes minutes"
MINUTES = "it takes minutes"

SUITES = (
    Suite(
        "einops",
        tests=("einops/tests",),
        left_out={
            "torch_compile": TORCH_COMPILE,
            "test_doctests_examples": "it needs other frameworks",
        },
        environment={"EINOPS_TEST_BACKENDS": "numpy,torch"},
        source="installed",
    ),
    Suite(
        "linear_operator",
        ">=0.6.1,<0.7",
        (
            *("test/functions", "test/utils", "test/operators/test_kronecker_product_linear_operator.py"),
            *("test/operators/test_cat_linear_operator.py", "test/operators/test_low_rank_root_linear_operator.py"),
        ),
        needs=("scipy",),
    ),
    Suite(
        "gpytorch",
        ">=1.15,<1.16",
        tuple(
            f"test/{each}"
            for each in "constraints distributions kernels likelihoods means metrics mlls models priors".split()
        ),
        left_out={"keops": "it needs a GPU"},
        needs=(*SCIENCE, "linear_operator", "jaxtyping", "wadler_lindig"),
    ),
    Suite(
        "pytorch_optimizer",
        ">=4.1,<4.2",
        ("tests",),
        left_out={
            "test_docs": "it reads the repository's files",
            "compiled_optimizer": "it counts graphs of torch.compile, whose functions are captured as what they wrap",
        },
    ),
    Suite(
        "e3nn",
        ">=0.6,<0.7",
        (
            *(f"tests/o3/{each}_test.py" for each in "irreps rotation wigner linear norm".split()),
            *(f"tests/nn/{each}_test.py" for each in "activation batchnorm dropout extract fc normact".split()),
            "tests/math",
        ),
        left_out={"test_variance": MINUTES, "test_norm": MINUTES, "test_activation": MINUTES, "compile": TORCH_COMPILE},
        needs=("scipy", "opt_einsum", "opt_einsum_fx"),
    ),
    Suite(
        "zuko",
        ">=1.6,<1.7",
        ("tests",),
        left_out={"NAF]": MINUTES, "SOSPF": MINUTES, "BPF": MINUTES, "batch1": MINUTES, "test_univariate": MINUTES},
    ),
    Suite(
        "pytorch-ignite",
        ">=0.5.5,<0.6",
        tuple(
            f"tests/ignite/metrics/test_{each}.py"
            for each in "metric loss metrics_lambda running_average mean_squared_error fbeta".split()
        ),
        left_out={"distrib": "it starts processes", "TestDistributed": "the same", "cuda": "it needs a GPU"},
        needs=SCIENCE,
    ),
    Suite(
        "tensorly",
        ">=0.10,<0.11",
        tuple(f"tensorly/{each}" for each in "tests tenalg decomposition metrics solvers".split()),
        left_out={"large_decomp": MINUTES},
        needs=("scipy",),
        environment={"TENSORLY_BACKEND": "pytorch"},
    ),
    Suite(
        "kornia",
        tests=("tests/color", "tests/geometry/test_conversions.py", "tests/morphology", "tests/metrics"),
        left_out={"dynamo": TORCH_COMPILE, "gradcheck": MINUTES},
        needs=("kornia_rs",),
        source="https://github.com/kornia/kornia",
    ),
    Suite(
        "diffusers",
        tests=tuple(f"tests/schedulers/test_scheduler_{each}.py" for each in "ddim ddpm euler heun unipc".split()),
        left_out={"compatibles": "they need other packages"},
        needs=("httpx", "httpcore", "importlib_metadata", "zipp", "pillow", "requests", "urllib3"),
        source="https://github.com/huggingface/diffusers",
    ),
    Suite(
        "x_transformers",
        left_out=dict.fromkeys(
            "prompts_given learned_head prepend_embed vae mos test_free recycling readme autoregressive adaptive "
            "aggregated continuous[ reinject ttt_equivalency belief_state".split(),
            "it takes up to a minute",
        ),
        needs=("einx", "loguru", "frozendict", "torch_einops_utils"),
        source="https://github.com/lucidrains/x-transformers",
    ),
    Suite(
        "torchmetrics",
        tests=(
            *(f"tests/unittests/bases/test_{each}.py" for each in "aggregation composition metric".split()),
            *("tests/unittests/pairwise", "tests/unittests/clustering"),
        ),
        left_out={"ddp": "it starts processes"},
        needs=(*SCIENCE, "lightning_utilities", "cachier", "portalocker", "pympler", "watchdog"),
        source="https://github.com/Lightning-AI/torchmetrics",
    ),
    Suite(
        "torch_geometric",
        tests=tuple(
            f"test/{each}" for each in "nn/aggr nn/conv nn/dense nn/norm nn/models nn/pool utils transforms".split()
        ),
        left_out={
            "compile": TORCH_COMPILE,
            "passing_hook": "where torch.compiler.is_compiling(), the library doesn't run these hooks",
        },
        needs=("aiohttp", "multidict", "yarl", "frozenlist", "aiosignal", "propcache", "psutil", "pyparsing", "xxhash"),
        source="https://github.com/pyg-team/pytorch_geometric",
    ),
)

SAMPLES = {
    "einops": "test_packing or test_einsum or test_ops",
    "zuko": "test_utils or test_Linear or test_MLP or test_gmm_shapes",
}
"""What continuous integration runs: library -> which of its tests."""


# -- getting the tests and what they need ----------------------------------------------------------------------------


class NotHad(Exception):
    """The tests of a library, or what it needs, are not on this machine and can't be downloaded."""


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise NotHad(f"pip {arguments[0]} ended with: {' '.join(ran.stderr.split())[-200:]}")


def unpacked(suite: Suite, trees: Path | None) -> Path:
    """Returns the folder with the library's package and tests."""
    if suite.source == "installed":
        spec = importlib.util.find_spec(suite.name)
        assert spec is not None and spec.origin is not None, f"{suite.name} isn't installed"
        return Path(spec.origin).parents[1]
    if suite.source != "archive":
        tree = (trees or Path()) / suite.name
        if trees is None or not tree.exists():
            raise NotHad(f"its archive has no tests; clone {suite.source} as FOLDER/{suite.name}, --trees FOLDER")
        return tree.resolve()
    folder = BUILD / suite.name
    if not any(folder.glob("*/")):
        archives = folder.with_suffix(".archive")
        wanted = f"{suite.name}{suite.versions}"
        pip("download", "--no-deps", "--no-binary", ":all:", "-d", str(archives), wanted)
        (archive,) = archives.glob("*.tar.gz")
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
    (tree,) = folder.glob("*/")
    return tree.resolve()


def needed(suite: Suite) -> Path:
    """Returns the folder in which the library's requirements are installed."""
    folder = BUILD / "needs" / suite.name
    if suite.needs and not folder.exists():
        pip("install", "--no-deps", "--target", str(folder), *suite.needs)
    return folder


# -- running them ----------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """The outcomes of the tests, by id, and their durations."""

    outcomes: dict[str, str]
    details: dict[str, str]
    seconds: dict[str, float]
    counters: dict[str, Any]

    def passed(self) -> set[str]:
        return {test for test, outcome in self.outcomes.items() if outcome == "passed"}

    def time(self, tests: set[str]) -> float:
        return sum(self.seconds.get(test, 0.0) for test in tests)


def run(suite: Suite, tree: Path, way: str, only: set[str] | None, select: str) -> Run:
    """Run the tests in a process of their own. ``only``: their ids, where not all; ``select``: pytest's ``-k``."""
    result = BUILD / f"{suite.name}.{way}.json"
    result.unlink(missing_ok=True)
    chosen = BUILD / f"{suite.name}.chosen.json"
    chosen.write_text(json.dumps({"only": None if only is None else sorted(only), "left_out": [*suite.left_out]}))
    empty = BUILD / "pytest.ini"  # a library's own settings ask for plugins that aren't here
    empty.touch()
    paths = (tree, tree / "src", needed(suite), ROOT, Path(__file__).parent)
    environment = {
        **os.environ,
        **suite.environment,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "OMP_NUM_THREADS": "1",
        "SUITE_WAY": way,
        "SUITE_CHOSEN": str(chosen),
        "SUITE_RESULT": str(result),
    }
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    plugins = "-p suite_plugin -p no:cacheprovider -p no:xdist".split()
    settings = ["-c", str(empty), "--rootdir", str(tree), f"--timeout={SECONDS_FOR_A_TEST}", "-q", "-k", select]
    command = [sys.executable, "-W", "ignore", "-m", "pytest", *plugins, *settings, *suite.tests]
    with (BUILD / f"{suite.name}.{way}.log").open("w") as log:
        subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=subprocess.STDOUT)
    if not result.exists():
        sys.exit(f"the tests of {suite.name} ({way}) came to no end: see {log.name}")
    return Run(**json.loads(result.read_text()))


def sample(tests: set[str], count: int) -> set[str]:
    """Draws so many tests from all parts of a suite."""
    ordered = sorted(tests)
    return set(ordered[:: max(len(ordered) // count, 1)]) if count else tests


def compare(suite: Suite, tree: Path, ways: Sequence[str], count: int = 0, select: str = "") -> int:
    """Run a suite plainly and in other ways, print a row for each; the number of tests that only these fail.
    ``count``: how many tests are run with each frame translated; 0: all."""
    plain = run(suite, tree, "plain", None, select)
    differences = 0
    assert plain.passed(), f"none of the tests of {suite.name} passes plainly"
    for way in ways:
        passed = sample(plain.passed(), count) if way == "at-once" else plain.passed()
        hooked = run(suite, tree, way, passed, select)
        failed = sorted(passed - hooked.passed())
        before, after = plain.time(passed), hooked.time(passed)
        row = (suite.name, way, len(plain.outcomes), len(passed), len(failed), before, after, after / before)
        counted = [hooked.counters[each] for each in ("graphs", "graph_breaks", "waits")]
        print(ROW.format(*row, *counted), flush=True)
        if way == "hook" and after > SLOWER_AT_MOST * before + FIXED_SECONDS:
            print(f"    more than {SLOWER_AT_MOST:.0f} times as long as plainly, and {FIXED_SECONDS:.0f} s")
        for test in failed:
            what = hooked.details.get(test, "")[-1500:].replace("\n", "\n        ")
            print(f"    {test}: {hooked.outcomes.get(test, 'missing')}\n        {what}")
        differences += len(failed)
    return differences


HEAD = "{:18} {:8} {:>6} {:>7} {:>7} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7}"
ROW = "{:18} {:8} {:6} {:7} {:7} {:8.1f}s {:8.1f}s {:6.1f}x {:7} {:7} {:7}"
COLUMNS = ("library", "way", "tests", "passed", "failed", "plainly", "under us", "times", "graphs", "breaks", "waits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="libraries; all of the list if none is named")
    parser.add_argument("--trees", type=Path, help="a folder with checkouts of libraries whose archives have no tests")
    parser.add_argument("--way", choices=WAYS[1:], action="append", help="only this one")
    parser.add_argument("--count", type=int, default=100, help="tests of a library that are run at-once; 0: all")
    parser.add_argument("-k", default="", dest="select", help="as pytest's")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    print(HEAD.format(*COLUMNS))
    differences = 0
    for suite in SUITES:
        if options.names and suite.name not in options.names:
            continue
        try:
            tree = unpacked(suite, options.trees)
            needed(suite)
        except NotHad as reason:
            print(f"{suite.name} did not run: {reason}", flush=True)
            differences += bool(options.names)
        else:
            differences += compare(suite, tree, options.way or WAYS[1:], options.count, options.select)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
