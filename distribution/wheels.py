"""Builds a wheel for each interpreter and torch that there is, and the source distribution.

    python distribution/wheels.py --python python3.11 python3.12 --torch 2.14 2.15 --into dist

Each wheel is built in an environment of its own beside the torch that it is for, then given the platform's tag by
auditwheel, which checks that nothing but the C library and torch's own libraries is needed. It is installed into that
environment and runs a first program from there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from requirements import packages_of
from torch_requirement import FOR_AN_INDEX

ROOT = Path(__file__).resolve().parents[1]
TORCH_LIBRARIES = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so")
SMOKE = """
import dynamo_lite, torch
assert "site-packages" in dynamo_lite.__file__, dynamo_lite.__file__
compiled = dynamo_lite.compile(lambda x: torch.relu(x) + 1, backend="eager", fullgraph=True)
assert torch.equal(compiled(-torch.ones(3)), torch.ones(3))
assert len(dynamo_lite.entries(compiled)) == 1
print("dynamo_lite", dynamo_lite.__version__, "runs with torch", torch.__version__)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Build wheels, and the source distribution.")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters")
    parser.add_argument("--torch", nargs="+", required=True, help="minor versions, for example 2.14 2.15")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="where they go")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "wheels", help="where they are built")
    parser.add_argument("--unity", action="store_true", help="build faster what calls slower: for tests only")
    options = parser.parse_args()
    is_first = True
    for python in options.python:
        for torch in options.torch:
            environment = make_environment(options.environments, python, torch)
            if environment is None:
                print(f"{python}: there is no torch {torch}")
                continue
            if is_first:
                build_sdist(environment, options.into)
                is_first = False
            wheel = build_wheel(environment, options.into, options.unity)
            try_wheel(environment, wheel)
            print(wheel)
    if is_first:
        sys.exit("No wheel was built: no interpreter has one of these versions of torch.")


def make_environment(folder: Path, python: str, torch: str) -> Path | None:
    """A virtual environment with that torch and what a build needs; None if pip finds no such torch."""
    run(python, str(ROOT / "distribution" / "supported_python.py"))
    name = subprocess.check_output([python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"], text=True)
    environment = folder / f"{name.strip()}-torch{torch}"
    if not (environment / "ready").exists():
        run(python, "-m", "venv", str(environment))
        pip = (str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check")
        if subprocess.run([*pip, "install", "-q", "--no-compile", f"torch=={torch}.*", "numpy>=2,<3"]).returncode:
            return None
        run(*pip, "install", "-q", *packages_of("wheel"))
        (environment / "ready").touch()
    return environment


def build_sdist(environment: Path, into: Path) -> None:
    """The source distribution, which needs neither torch nor a compiler to be made."""
    code = f"import scikit_build_core.build as backend; backend.build_sdist({str(into)!r})"
    run(str(environment / "bin" / "python"), "-c", code, cwd=ROOT)


def build_wheel(environment: Path, into: Path, unity: bool) -> Path:
    """Builds the wheel of an environment's torch, and tags it for the platform that it needs."""
    into.mkdir(parents=True, exist_ok=True)
    python = str(environment / "bin" / "python")
    built = environment / "wheel"
    shutil.rmtree(built, ignore_errors=True)
    path = os.pathsep.join([str(environment / "bin"), os.environ["PATH"]])
    variables = {**os.environ, FOR_AN_INDEX: "1", "PATH": path}
    pip_wheel = (
        python,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        f"-Cbuild-dir={environment / 'cmake'}",
        f"-Ccmake.define.CMAKE_UNITY_BUILD={'ON' if unity else 'OFF'}",
    )
    run(*pip_wheel, "-w", str(built), str(ROOT), env=variables)
    (plain,) = built.glob("*.whl")
    excluded = [option for library in TORCH_LIBRARIES for option in ("--exclude", library)]
    run(python, "-m", "auditwheel", "repair", *excluded, "-w", str(built / "tagged"), str(plain), env=variables)
    (tagged,) = (built / "tagged").glob("*.whl")
    return Path(shutil.copy(tagged, into))


def try_wheel(environment: Path, wheel: Path) -> None:
    """Installs the wheel and runs a program with it, outside of this tree."""
    python = str(environment / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", str(wheel))
    run(python, "-P", "-c", SMOKE, cwd=environment)


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} … failed with status {done.returncode}")


if __name__ == "__main__":
    main()
