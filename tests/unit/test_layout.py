"""The shape of the code: imports go down the walk, files and functions stay small, torch's own compiler stays out."""

from __future__ import annotations

import ast
import dis
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import dynamo_lite as dl
from processes import run_program

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(dl.__file__).parent  # in the tree, or where a wheel put it
FILES = sorted(p for p in PACKAGE.rglob("*.py") if "__pycache__" not in p.parts)
NATIVE = sorted([*(ROOT / "csrc").rglob("*.cpp"), *(ROOT / "csrc").rglob("*.h")])
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# The walk, highest first: a room imports from itself and from what is lower. Rooms in one row don't import each other.
WALK = [
    {"", "__main__"},
    {"check"},
    {"api"},
    {"export", "report"},
    {"compiler"},
    {"callables"},
    {"translator"},
    {"controls"},
    {"backends", "resume"},
    {"planner"},
    {"attempt"},
    {"variables"},
    {"variables.torch.subclasses", "variables.stdlib", "variables.numpy", "variables.python"},
    {"variables.torch.functions", "variables.torch.modules"},
    {"variables.torch.autograd"},
    {"variables.torch.higher_order"},
    {"variables.torch.tensors"},
    {"variables.torch.contexts"},
    {"variables.torch"},
    {"variables.python.classes"},
    {"variables.python.objects"},
    {"variables.python.functions"},
    {"variables.python.numbers"},
    {"variables.python.containers"},
    {"variables.core"},
    {"variables.polyfills"},
    {"codegen"},
    {"plan"},
    {"records"},
    {"shapes"},
    {"sources"},
    {"runtime"},
    {"exc", "config", "logs"},
    {"insight"},
    {"bytecode"},
    {"_C"},
]
MAX_LINES, MAX_FUNCTION, MAX_FILES = 800, 60, 20


def module_name(path: Path) -> str:
    parts = ("dynamo_lite", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}
MODULES["dynamo_lite._C"] = PACKAGE / "_C.pyi"


def imports_of(name: str, tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Returns the absolute names that a module imports anywhere, for the type checker too."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in MODULES else base, node


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


@cache
def graph_of_imports() -> dict[str, set[str]]:
    found = {}
    for name, tree in trees().items():
        own = {target for target, _ in imports_of(name, tree) if target.split(".")[0] == "dynamo_lite"}
        found[name] = {target for target in own if target in MODULES and target != name}
    return found


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    """Drops the cached trees, which the collector would traverse."""
    yield
    trees.cache_clear()


def test_every_module_of_the_package_is_examined():
    assert "dynamo_lite.api" in MODULES and "dynamo_lite.translator.core" in MODULES


def test_no_import_cycle():
    edges = graph_of_imports()
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            raise AssertionError("import cycle: " + " -> ".join([*path[path.index(name) :], name]))
        if name in done:
            return
        path.append(name)
        for target in sorted(edges[name]):
            visit(target)
        path.pop()
        done.add(name)

    for name in edges:
        visit(name)


def test_opcodes_are_named_in_two_rooms():
    """A new CPython changes only these rooms. Others query `bytecode.roles` and emit by `bytecode.emit`."""
    names = {name for name, opcode in dis.opmap.items() if opcode < 256}
    found = {
        (module, word)
        for module, tree in trees().items()
        if not module.startswith(("dynamo_lite.bytecode", "dynamo_lite.translator"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is str
        for word in re.findall(r"\b[A-Z][A-Z_]+\b", node.value)
        if word in names
    }
    assert found == set()


def test_few_places_restart_a_translation():
    """After the end of a trace, a change that the next attempt needs is a result."""
    raising = [
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "Restart"
    ]
    assert len(raising) <= 5 and not any(module.startswith("dynamo_lite.compiler") for module in raising), raising


def test_a_plan_is_data():
    """Rows contain no tracker and no bytecode. The emitter knows no tracker, not even for the type checker."""
    allowed = {"plan": {"plan", "sources", "insight"}, "codegen": {"codegen", "plan", "bytecode", "runtime", "insight"}}
    allowed["codegen"] |= {"exc", "logs", "_C"}
    for room, rooms in allowed.items():
        for path in (PACKAGE / room).glob("*.py"):
            found = set(re.findall(r"from dynamo_lite\.(\w+)", path.read_text()))
            assert found <= rooms, path


def test_nothing_imports_the_package_itself():
    edges = graph_of_imports()
    users = [name for name, targets in edges.items() if "dynamo_lite" in targets]
    assert users == [], "import the room that defines a name, not the package's front"


def _room(name: str) -> str:
    """The package that a module lies in; of the modules at the top, the module itself."""
    inner = name.partition(".")[2]
    if MODULES[name].name == "__init__.py":
        return inner
    return inner.rpartition(".")[0] or inner


HEIGHT = {room: at for at, rooms in enumerate(WALK) for room in rooms}


def test_every_room_has_its_height():
    assert {_room(name) for name in MODULES} == set(HEIGHT)


def test_imports_go_down_the_walk():
    wrong = []
    for name, targets in graph_of_imports().items():
        for target in targets:
            room, other = _room(name), _room(target)
            if room != other and HEIGHT[other] <= HEIGHT[room]:
                wrong.append(f"{name} imports {target}, which is not below it")
    assert wrong == [], "\n".join(wrong)


def test_rooms_are_small():
    files: dict[str, int] = {}
    for name, path in MODULES.items():
        if path.name != "__init__.py":
            files[_room(name)] = files.get(_room(name), 0) + 1
    assert {room: count for room, count in files.items() if count > MAX_FILES} == {}


def test_few_modules_are_outside_the_rooms():
    loose = {path.stem for path in FILES if path.parent == PACKAGE}
    assert loose == {"__init__", "__main__", "api", "config", "exc", "logs"}


def test_no_own_module_is_imported_inside_a_function():
    wrong = []
    for name, tree in trees().items():
        imports = list(imports_of(name, tree))
        for function in ast.walk(tree):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            inside = {id(node) for node in ast.walk(function)}
            for target, node in imports:
                if id(node) in inside and target.split(".")[0] == "dynamo_lite":
                    wrong.append(f"{MODULES[name]}:{node.lineno} imports {target} in {function.name}")
    assert wrong == [], "\n".join(map(str, wrong))


def test_torchs_own_compiler_is_not_used():
    banned = re.compile(r"^torch\.(_dynamo|_C\._dynamo)\b")
    wrong = []
    for name, tree in trees().items():
        used = list(imports_of(name, tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                used += [(f"{node.module}.{alias.name}", node) for alias in node.names]
            if isinstance(node, ast.Attribute) and node.attr == "_dynamo":
                used.append((ast.unparse(node), node))
        wrong += [f"{MODULES[name]}:{node.lineno} uses {target}" for target, node in used if banned.match(target)]
    assert wrong == [], "\n".join(wrong)


def test_importing_brings_in_no_compiler_that_torch_does_not():
    program = (
        "import sys, time, torch; before = set(sys.modules); began = time.thread_time(); import dynamo_lite; "
        "print(time.thread_time() - began); "
        "print([m for m in set(sys.modules) - before if m.startswith(('torch._inductor', 'functorch.compile', "
        "'torch._functorch.aot_autograd', 'triton', 'torch._dynamo', 'transformers', 'sympy'))])"
    )
    seconds, brought_in = run_program(program, "torch").stdout.splitlines()
    assert float(seconds) < 3.0, "seconds of the processor, where it takes 0.3 with bytecode at hand"
    assert brought_in == "[]"


def test_files_are_small():
    long = {}
    for path in [*FILES, *NATIVE, *TESTS]:
        lines = path.read_text().count("\n")
        stated = re.search(r"(?i)long(?:er)? (?:than|because)", "\n".join(path.read_text().splitlines()[:30]))
        if lines > MAX_LINES and not stated:
            long[str(path)] = lines
    assert long == {}


def test_functions_are_short():
    long = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION:
                    long.append(f"{MODULES[name]}:{node.lineno} {node.name}: {lines} lines")
    assert long == []


def _passed_on(tree: ast.AST) -> set[str]:
    """The names of a module that are read other than to be called."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}


def _only_record(function: ast.FunctionDef) -> str | None:
    """Which of its translator's records a function uses, if it uses nothing else of it."""
    used = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute) and _is_tx(node.value)}
    read = sum(map(_is_tx, ast.walk(function)))
    attributes = sum(isinstance(node, ast.Attribute) and _is_tx(node.value) for node in ast.walk(function))
    return used.pop() if read == attributes and len(used) == 1 and used <= {"graph", "guards", "effects"} else None


def _is_tx(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "tx"


def test_functions_are_handed_the_record_that_they_use():
    """One that only records operators, guards or side effects takes no translator, unless it is called by a table."""
    passed_on = set().union(*map(_passed_on, trees().values()))
    wrong = [
        f"{MODULES[name]}:{node.lineno} {node.name} takes a translator for its {record}"
        for name, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name not in passed_on
        if (record := _only_record(node))
    ]
    assert wrong == [], "\n".join(wrong)


def test_no_global_statement_and_no_blanket_except():
    wrong = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                wrong.append(f"{name}:{node.lineno} global {', '.join(node.names)}")
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                wrong.append(f"{name}:{node.lineno} bare except")
            if isinstance(node, ast.ExceptHandler) and all(isinstance(s, (ast.Pass, ast.Continue)) for s in node.body):
                if node.type is not None and ast.unparse(node.type) in ("Exception", "BaseException"):
                    wrong.append(f"{name}:{node.lineno} swallows {ast.unparse(node.type)}")
    assert wrong == [], "\n".join(map(str, wrong))


def test_no_file_without_a_subject():
    names = {p.stem for p in [*FILES, *NATIVE, *TESTS]}
    assert names & {"misc", "util", "utils", "repros", "helpers", "common"} == set()


def test_every_module_says_what_it_is():
    assert [name for name, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_public_names_have_docstrings():
    missing = [name for name in dl.__all__ if not getattr(getattr(dl, name), "__doc__", None)]
    assert missing == []


def test_interpreter_versions_only_in_their_place():
    wrong = [p.name for p in NATIVE if p.parent.name != "cpython" and "PY_VERSION_HEX" in p.read_text()]
    assert wrong == []


INTERPRETER_INTERNALS = re.compile(
    r"\b_Py[A-Z]\w*"  # functions and types that CPython keeps to itself
    r"|\bPy_BUILD_CORE\b|internal/pycore|\bPyUnstable_\w+|\bPyObject_GET_WEAKREFS_LISTPTR\b"
    r"|\bPy(Function|Method|Cell|Tuple|Var|Slice|Complex|MemberDescr|Gen|HeapType|ASCII|Dict|Set)Object\b"
    r"|\bPyWeakReference\b|\bPy_TPFLAGS_(MANAGED_DICT|VALID_VERSION_TAG)\b"
    r"|(->|\.)(ob_(type|size|item|ref|refcnt)|wr_\w+|func_\w+|im_\w+|d_(member|common)|co_\w+|gi_\w+|ma_\w+|dv_\w+)\b"
    r"|(->|\.)(f_code|f_globals|localsplus|prev_instr|stacktop|datastack_\w+|tp_version_tag|tp_dict|ht_\w+|cval)\b"
)
"""Names that only csrc/cpython/ may use: another version of CPython may change what they mean."""


def test_interpreter_internals_only_in_their_place():
    wrong = []
    for path in NATIVE:
        code = re.sub(r"//.*", "", path.read_text())
        if path.parent.name != "cpython":
            wrong += [
                f"{path.parent.name}/{path.name} uses {found[0]}" for found in INTERPRETER_INTERNALS.finditer(code)
            ]
    assert wrong == []


NATIVE_WALK = ["launch", "hook", "guards", "cpython", "csrc"]
"""Rooms of C++, highest first; ``csrc`` itself has what all of them need."""


def test_native_includes_go_down_the_walk():
    wrong = []
    for path in NATIVE:
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            if not (ROOT / "csrc" / name).is_file():
                wrong.append(f"{path.name} includes {name}, which isn't written from csrc/")
            elif path.stem != "module":
                room = (ROOT / "csrc" / name).parent.name
                if NATIVE_WALK.index(path.parent.name) > NATIVE_WALK.index(room):
                    wrong.append(f"{path.name} includes {name}, which is above it")
    assert wrong == [], "\n".join(wrong)


def test_no_test_imports_another():
    """Code that several tests need is in tests/support."""
    tests = {path.stem for path in TESTS if path.stem.startswith("test_")}
    wrong = []
    for path in TESTS:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
            if tests & {part for name in names for part in name.split(".")}:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert wrong == []


def test_collected_programs_are_run():
    texts = {path: path.read_text() for path in TESTS}
    collecting = {path for path, text in texts.items() if "= Programs(" in text}
    assert collecting
    run = (".parameters())", ".test()")
    assert not [path.name for path in collecting if not any(text in texts[path] for text in run)]


def test_every_test_is_in_a_room():
    """Files have different names, because reports and tracebacks show only a file's name."""
    names = sorted(path.name for path in TESTS)
    assert len(names) == len(set(names))
    assert {path.name for path in TESTS if path.parent == ROOT / "tests"} == {"conftest.py"}
    rooms = [path for path in TESTS if path.name != "conftest.py"]
    assert not [path.name for path in rooms if path.name.startswith("test_") is (path.parts[-2] == "support")]
