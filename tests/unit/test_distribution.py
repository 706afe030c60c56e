"""What a build says of itself: which torch a wheel needs, its version, and which interpreters are refused."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import dynamo_lite as dl

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SUPPORTED = PROJECT["tool"]["dynamic-metadata"][0]

pytestmark = pytest.mark.fast
needs_sources = pytest.mark.skipif(
    not (ROOT / "dynamo_lite").exists(), reason="the package's sources are not beside the tests"
)


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "distribution" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


requirements = load("requirements")
torch_requirement = load("torch_requirement")
supported_python = load("supported_python")


def metadata(state, version, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", {"torch": version}.__getitem__)
    provider = torch_requirement.Provider()
    provider.build_state(state)
    return provider.dynamic_metadata(SUPPORTED, {})


@needs_sources
@pytest.mark.parametrize("state", ["wheel", "editable", "metadata_wheel", "metadata_editable"])
@pytest.mark.parametrize(
    "version, requirement",
    [("2.15.0+cu132", "torch>=2.15,<2.16"), ("2.9.1", "torch>=2.9,<2.10"), ("2.14.0a0+git1234", "torch>=2.14,<2.15")],
)
def test_a_wheel_requires_the_minor_version_of_torch_it_was_built_for(state, version, requirement, monkeypatch):
    monkeypatch.delenv(torch_requirement.FOR_AN_INDEX, raising=False)
    assert metadata(state, version, monkeypatch) == {"version": dl.__version__, "dependencies": [requirement]}


@needs_sources
def test_a_source_distribution_requires_any_supported_torch(monkeypatch):
    found = metadata("sdist", "2.15.0", monkeypatch)
    assert found == {"version": dl.__version__, "dependencies": [SUPPORTED["torch"]]}
    assert torch_requirement.Provider().dynamic_wheel(SUPPORTED) == {"dependencies": True}


@needs_sources
def test_wheels_of_an_index_are_ordered_by_torch_and_come_after_the_source(monkeypatch):
    from packaging.version import Version

    monkeypatch.setenv(torch_requirement.FOR_AN_INDEX, "1")
    versions = [metadata("wheel", f"2.{minor}.0", monkeypatch)["version"] for minor in (9, 14, 15)]
    assert versions == [f"{dl.__version__}.{each}" for each in (209, 214, 215)]
    assert sorted([*versions, dl.__version__], key=Version) == [dl.__version__, *versions]
    major, minor, patch = map(int, dl.__version__.split("."))
    assert Version(f"{major}.{minor}.{patch + 1}") > Version(versions[-1])


def test_the_supported_range_of_torch_is_the_same_everywhere():
    from dynamo_lite.runtime import compatibility

    low, high = re.findall(r"2\.(\d+)", SUPPORTED["torch"])
    assert compatibility.OLDEST_TORCH == (2, int(low)) and compatibility.NEWEST_TESTED_TORCH == (2, int(high) - 1)
    assert requirements.supported_torch() == SUPPORTED["torch"]
    makefile = (ROOT / "Makefile").read_text()
    assert f"TORCH ?= {SUPPORTED['torch']}\n" in makefile
    built = re.search(r"^TORCHES \?= (.+)$", makefile, re.MULTILINE)[1].split()
    assert built == [f"2.{minor}" for minor in range(int(low), int(high))]
    assert {(2, int(each.partition(".")[2])) for each in built} == set(torch_requirement.TRITONS)


def test_the_supported_interpreters_are_the_same_everywhere():
    from dynamo_lite.runtime import compatibility

    requirement = PROJECT["project"]["requires-python"]
    minors = [
        minor for minor in range(8, 20) if not supported_python.find_problem(requirement, (3, minor, 9), "CPython")
    ]
    assert [(3, minor) for minor in minors] == list(compatibility.PYTHONS)
    assert supported_python.newest_minor_version(requirement) == f"3.{minors[-1]}"
    named = [each for each in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert named == [f"Programming Language :: Python :: 3.{minor}" for minor in minors]


@pytest.mark.parametrize(
    "requirement, version, implementation, problem",
    [
        (">=3.11,<3.13", (3, 11, 0), "CPython", None),
        (">=3.11,<3.13", (3, 12, 9), "CPython", None),
        (">=3.11, !=3.13.0, <3.14", (3, 13, 1), "CPython", None),
        (
            ">=3.11,<3.13",
            (3, 10, 13),
            "CPython",
            "dynamo_lite needs Python >=3.11,<3.13; this is 3.10.13 (choose another: make PYTHON=python3.12).",
        ),
        (
            ">=3.11,!=3.13.0,<3.14",
            (3, 13, 0),
            "CPython",
            "dynamo_lite needs Python >=3.11,!=3.13.0,<3.14; this is 3.13.0 (choose another: make PYTHON=python3.12).",
        ),
        (">=3.11,<3.13", (3, 11, 9), "PyPy", "dynamo_lite needs CPython; this is PyPy."),
    ],
)
def test_an_unsupported_interpreter_is_named(requirement, version, implementation, problem):
    assert supported_python.find_problem(requirement, version, implementation) == problem


def backend(function):
    """Calls a function of the build's backend as pip does: in a process that has only the folder of backends."""
    program = f"import json, backend; print(json.dumps(backend.{function}()))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "distribution")}
    return subprocess.run([sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True)


def test_a_build_with_isolation_gets_what_one_without_it_has():
    needed = requirements.packages_of("build")
    assert json.loads(backend("get_requires_for_build_wheel").stdout) == [*needed, SUPPORTED["torch"]]
    assert json.loads(backend("get_requires_for_build_sdist").stdout) == needed
    assert {*needed} < {*requirements.packages_of("wheel")}


def test_an_unsupported_interpreter_is_refused_before_anything_is_installed(tmp_path):
    assert PROJECT["build-system"]["requires"] == []
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.version_info = (3, 10, 13, 'final', 0)")
    program = "import backend; backend.get_requires_for_build_wheel()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "distribution")])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(r"dynamo_lite needs Python .*; this is 3\.10\.13 \(.*\)\.\n", done.stderr)


@pytest.mark.parametrize("abi_flags", ["t", "td"])
def test_a_free_threaded_interpreter_is_named(abi_flags):
    problem = supported_python.find_problem(">=3.11", (3, 14, 1), "CPython", abi_flags)
    assert problem == "dynamo_lite needs a CPython with the GIL; this one is a free-threaded build."
    assert supported_python.find_problem(">=3.11", (3, 14, 1), "CPython", "d") is None


def test_what_torch_needs_beside_it():
    names = torch_requirement.requirements_beside_torch()
    assert names[0] == f"torch=={importlib.metadata.version('torch')}"
    is_named = any(each.startswith("triton") for each in importlib.metadata.requires("torch"))
    assert len(names) == 1 if is_named else re.fullmatch(r"triton==3\.\d+\.\*", names[1])


@pytest.mark.parametrize("target", ["test-wheel", "matrix"])
@pytest.mark.parametrize("part", ["", "0.05"])
def test_a_part_of_the_tests_can_be_run_from_wheels(target, part):
    if not shutil.which("make"):
        pytest.skip("there is no make")
    assigned = [f"PART={part}", "SEED=drawn", "PYTHONS=python3", "TORCHES=2.15", "WHEEL_ENVIRONMENT=somewhere"]
    printed = subprocess.check_output(["make", "-n", target, *assigned], cwd=ROOT, text=True)
    option = r"--sample=0\.05 --sample-from-all --sample-seed=drawn" if target == "test-wheel" else r"--sample 0\.05"
    assert bool(re.search(option, printed)) == bool(part) == ("--sample" in printed)


def load_matrix(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "distribution"))
    return importlib.import_module("matrix")


@pytest.mark.parametrize(
    "printed, cell",
    [
        ("....\n13412 passed, 20 skipped in 812.10s (0:13:32)\n", "all 13,412"),
        ("FAILED tests/a.py::test\n2 failed, 5208 passed, 1 error in 9.00s\n", "5,208 of 5,211"),
        ("3 passed in 1.00s\nmake[1]: Leaving directory '/tree'\n", "all 3"),
        (
            "1 failed, 3 passed in 1.00s\nnanobind: leaked 4 types!\nmake[1]: *** [Makefile:97: test-wheel] Error 1\n",
            "3 of 4",
        ),
        ("Fatal Python error: Segmentation fault\n", "broken off"),
        ("", "broken off"),
    ],
)
def test_a_row_says_how_many_tests_pass(printed, cell, monkeypatch):
    assert load_matrix(monkeypatch).tests_cell(printed) == cell


@pytest.mark.parametrize(
    "printed, cell",
    [
        ("test_abc: 3 pass\n85 modules, 8254 passed, 0 differences, 91 frames\n", "8,254 pass, none differs"),
        ("85 modules, 8254 passed, 2 differences, 91 frames\n", "8,254 pass, 2 differ"),
        ("85 modules, 8254 passed, 0 differences, 91 frames\nnanobind: leaked 4 types!\n", "8,254 pass, none differs"),
        ("Traceback (most recent call last):\nImportError: no test\n", "broken off"),
    ],
)
def test_a_row_says_how_many_of_cpythons_tests_differ(printed, cell, monkeypatch):
    assert load_matrix(monkeypatch).own_tests_cell(printed) == cell


def test_a_row_has_the_figures_as_parts_of_torchs(monkeypatch):
    added = {"ours added": 0.4, "torch added": 8.0}
    printed = json.dumps({"one": added, "gpt2": added, "calls": {"bare": 2.0, "ours": 2.7, "torch": 3.5}})
    matrix = load_matrix(monkeypatch)
    cells = matrix.figures_cells(f"a warning\n{printed}\nnanobind: leaked 4 types!\n")
    assert cells == ("0.05", "0.05", "1.35 (1.75)")
    row = matrix.Row("3.12", "2.15", "all 5", "3 pass, none differs", cells)
    columns = matrix.HEADER.splitlines()[0].count("|")
    assert str(row).count("|") == columns
    assert matrix.HEADER in (ROOT / "docs" / "install.md").read_text()


@pytest.mark.parametrize(
    "sample, cells, asked",
    [
        (None, "all 3 | 8 pass, none differs", ["MARKS=", ""]),
        (0.05, "a sample of 5 %: all 3 | a sample: 8 pass, none differs", ["PART=0.05", "--sample"]),
    ],
)
def test_a_row_says_which_part_was_run(sample, cells, asked, monkeypatch, tmp_path):
    matrix = load_matrix(monkeypatch)
    commands = []

    def logged(log, *command, cwd):
        commands.append(command)
        if "test-wheel" in command:
            return 0, "3 passed in 1.00s\n"
        return (0, "1 modules, 8 passed, 0 differences, 9 frames\n") if "overhead" not in command[1] else (1, "")

    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    monkeypatch.setattr(matrix, "make_environment", lambda *chosen: tmp_path / "cp312-torch2.15")
    monkeypatch.setattr(matrix, "build_wheel", lambda *chosen: tmp_path / "wheel")
    monkeypatch.setattr(matrix, "try_wheel", lambda *chosen: None)
    monkeypatch.setattr(matrix, "logged", logged)
    row = matrix.run_pair("python3.12", "2.15", tmp_path, True, sample)
    assert str(row) == f"| 3.12 | 2.15 | {cells} | – | – | – |" and row.failed  # no figures were printed
    tests, own_tests, figures = commands
    assert tests[-1] == asked[0] and own_tests[-1].endswith(asked[1] or "cpython_tests.py")


def test_the_environment_has_the_command_and_the_plugin():
    found = importlib.metadata.distribution("dynamo_lite")
    assert found.version.startswith(dl.__version__)
    points = {(point.group, point.name): point.value for point in found.entry_points}
    assert points["console_scripts", "dynamo-lite"] == "dynamo_lite.__main__:main"
    assert points["pytest11", "pytest_dynamo_lite"] == "pytest_dynamo_lite"
    command = Path(sys.executable).parent / "dynamo-lite"
    printed = subprocess.check_output([command, "--version"], text=True)
    assert printed.startswith(f"dynamo_lite {dl.__version__}, torch {torch.__version__}, Python 3.")
