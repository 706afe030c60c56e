"""What a new CPython needs: `make port PYTHON=python3.x`. Runs in minutes, without torch and without a build.

It takes every code object of the interpreter's standard library apart and together again, compares its opcodes with
those in `opcodes.json`, and compiles the room `csrc/cpython/` against its headers. Exits with 1 if anything is to do.
"""

from __future__ import annotations

import argparse
import dis
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPCODES = Path(__file__).with_name("opcodes.json")
LIBRARY = Path(sysconfig.get_path("stdlib"))
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
_MOST_SHOWN = 12


def import_bytecode() -> None:
    """Let ``dynamo_lite.bytecode`` be imported without the package around it, which needs torch."""
    package = types.ModuleType("dynamo_lite")
    package.__path__ = [str(ROOT / "dynamo_lite")]
    sys.modules["dynamo_lite"] = package
    sys.path.insert(0, str(ROOT / "tests" / "support"))


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes_of(const)


def library_codes() -> Iterator[types.CodeType]:
    """Returns the code objects of the standard library, except its tests."""
    for path in sorted([*LIBRARY.glob("*.py"), *LIBRARY.glob("*/*.py"), *LIBRARY.glob("*/*/*.py")]):
        if {"test", "tests", "site-packages"} & {*path.relative_to(LIBRARY).parts}:
            continue
        try:
            module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):  # examples of what is no program
            continue
        yield from codes_of(module)


# -- opcodes ---------------------------------------------------------------------------------------------------


def opcode_names() -> list[str]:
    """Returns the opcodes that code objects of this version may contain."""
    hidden = re.compile("INSTRUMENTED_|ENTER_EXECUTOR|CACHE|RESERVED|<")
    return sorted(name for name, number in dis.opmap.items() if number < 256 and not hidden.match(name))


def compare_opcodes() -> list[str]:
    """Opcodes that are new or gone since the newest version in the list, or since the list was made."""
    known: dict[str, list[str]] = json.loads(OPCODES.read_text())
    newest = VERSION if VERSION in known else max(known, key=lambda version: int(version.split(".")[1]))
    before, now = set(known[newest]), set(opcode_names())
    lines = [f"new since {newest}: {name}" for name in sorted(now - before)]
    return lines + [f"gone since {newest}: {name}" for name in sorted(before - now)]


def unhandled_opcodes() -> list[str]:
    """Returns the decoded opcodes that no file of the translator names."""
    from dynamo_lite.bytecode.instructions import EXCEPT_STAR, FUSED, OPNAMES

    text = "".join(path.read_text() for path in (ROOT / "dynamo_lite" / "translator").glob("*.py"))
    known = {*EXCEPT_STAR, *(OPNAMES[op] for op in FUSED), *re.findall(r'"([A-Z_0-9]+)"', text)}
    known |= {*re.findall(r"``([A-Z_]+)``", (ROOT / "dynamo_lite" / "bytecode" / "dialect.py").read_text())}
    return [f"named nowhere in translator/: {name}" for name in opcode_names() if name not in known]


# -- round trips -----------------------------------------------------------------------------------------------


def round_trips() -> list[str]:
    """Decodes and assembles every code object of the standard library."""
    from bytecode_checks import disassemble, verify_code
    from dynamo_lite.bytecode import assemble, decode

    counts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for code in library_codes():
        counts["all"] += 1
        try:
            made = assemble(decode(code), like=code)
            verify_code(code)
            verify_code(made)
            assert disassemble(made) == disassemble(code), "other instructions"
            assert made.co_stacksize <= code.co_stacksize, "a deeper stack: a stack effect is wrong"
            counts["equal"] += 1
            counts["same bytes"] += made.co_code == code.co_code
        except Exception as error:  # whatever it is, it is what this prints
            failed[f"{type(error).__name__}: {_without_names(error)}"] += 1
    print(f"{counts['equal']} of {counts['all']} code objects are equal after a round trip,")
    print(f"{counts['same bytes']} of them to the byte")
    return [f"{count} code objects: {text}" for text, count in failed.most_common(_MOST_SHOWN)]


def _without_names(error: Exception) -> str:
    return re.sub(r"'[^']*'|\d+", "…", str(error).splitlines()[0] if str(error) else "")[:150]


# -- headers ---------------------------------------------------------------------------------------------------


def compile_room() -> list[str]:
    """Returns the compiler's errors in ``csrc/cpython/`` with this interpreter's headers."""
    compiler = shutil.which("g++") or shutil.which("c++")
    include = sysconfig.get_path("include")
    if compiler is None or not Path(include, "Python.h").exists():
        return ["no compiler, or no headers of this interpreter"]
    lines = []
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-DDL_PORTING", f"-I{ROOT / 'csrc'}", f"-I{include}"]
    for path in sorted((ROOT / "csrc" / "cpython").glob("*.cpp")):
        done = subprocess.run([compiler, *flags, str(path)], capture_output=True, text=True)
        found = [line for line in done.stderr.splitlines() if re.search("error:|warning:", line)]
        lines += [line.replace(f"{ROOT}/", "") for line in found[:_MOST_SHOWN]]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="put this version's opcodes into the list")
    if parser.parse_args().record:
        known = json.loads(OPCODES.read_text()) if OPCODES.exists() else {}
        known[VERSION] = opcode_names()
        OPCODES.write_text(json.dumps(known, indent=1) + "\n")
        return 0
    import_bytecode()
    print(f"CPython {sys.version.split()[0]}")
    failures = 0
    for title, check in (
        ("Opcodes", compare_opcodes),
        ("Handlers", unhandled_opcodes),
        ("Round trips", round_trips),
        ("csrc/cpython", compile_room),
    ):
        print(f"\n{title}")
        lines = check()
        print("\n".join(lines) or "nothing to do")
        failures += len(lines)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
