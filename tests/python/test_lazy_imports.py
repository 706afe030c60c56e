"""Lazy imports of CPython 3.15: CPython runs them where the program reads their names."""

from __future__ import annotations

import sys
import types

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight import break_reasons as reasons

pytestmark = pytest.mark.skipif(sys.version_info < (3, 15), reason="CPython 3.15 has lazy imports")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Creates a package with a submodule. Both record their import."""
    folder = tmp_path / "lazily_imported"
    folder.mkdir()
    (folder / "__init__.py").write_text("import builtins\nbuiltins.imported.append('package')\nfactor = 3\n")
    (folder / "part.py").write_text(
        "import builtins\nbuiltins.imported.append('part')\ndef add(x):\n    return x + 5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.imported", [], raising=False)
    yield
    for name in [name for name in sys.modules if name.startswith("lazily_imported")]:
        del sys.modules[name]


def program(source):
    module = types.ModuleType("program")
    exec(source, vars(module))
    return module.fn


def imported():
    return vars(sys.modules["builtins"])["imported"]


def results(source, calls=3):
    """Returns the results of several compiled calls, and the modules that had been imported after each."""
    fn = program(source)
    compiled = dl.compile(fn, backend="eager")
    seen = []
    for at in range(calls):
        value = compiled(torch.full((2,), float(at)))
        seen.append((value.tolist(), list(imported())))
    return seen


def test_module_is_imported_where_its_name_is_read(package):
    source = "lazy import lazily_imported as lib\ndef fn(x):\n    y = x + len(imported)\n    return y * lib.factor\n"
    assert results(source) == [([0.0, 0.0], ["package"]), ([6.0, 6.0], ["package"]), ([9.0, 9.0], ["package"])]


def test_imported_function_is_called(package):
    source = "lazy from lazily_imported.part import add\ndef fn(x):\n    return add(x + 1) * 2\n"
    both = ["package", "part"]
    assert results(source) == [([12.0, 12.0], both), ([14.0, 14.0], both), ([16.0, 16.0], both)]


def test_submodule_is_imported_where_the_attribute_is_read(package):
    source = "lazy import lazily_imported.part\ndef fn(x):\n    return lazily_imported.part.add(x * 2)\n"
    both = ["package", "part"]
    assert results(source) == [([5.0, 5.0], both), ([7.0, 7.0], both), ([9.0, 9.0], both)]


def test_submodule_that_becomes_a_lazy_import_between_calls(package):
    fn = program("import lazily_imported as lib\ndef fn(x):\n    return x + (1 if hasattr(lib, 'part') else 2)\n")
    compiled = dl.compile(fn, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0] and dl.counters.graph_breaks == 0
    exec("lazy import lazily_imported.part", {})
    assert imported() == ["package"]
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0] and imported() == ["package", "part"]


def test_lazy_import_that_is_read_from_the_namespace_stays_lazy(package):
    source = (
        "lazy import lazily_imported as lib\n"
        "def fn(x):\n    return x + 1, type(globals()['lib']).__name__, 'lib' in globals()\n"
    )
    compiled = dl.compile(program(source), backend="eager")
    value, kind, is_there = compiled(torch.ones(2))
    assert (value.tolist(), kind, is_there, imported()) == ([2.0, 2.0], "lazy_import", True, [])


def test_lazy_import_of_the_module_that_an_inlined_function_is_of(package):
    holder = types.ModuleType("holder")
    exec("lazy import lazily_imported as lib\ndef scaled(x):\n    return x * lib.factor\n", vars(holder))
    sys.modules["holder"] = holder
    try:
        source = "import holder\ndef fn(x):\n    y = x + 1\n    return holder.scaled(y) + 1\n"
        assert results(source, 2) == [([4.0, 4.0], ["package"]), ([7.0, 7.0], ["package"])]
    finally:
        del sys.modules["holder"]


@pytest.mark.parametrize("read", ["from holder import lib", "lib = getattr(holder, 'lib')", "lib = holder.lib"])
def test_lazy_import_that_another_module_holds_is_imported(package, read):
    holder = types.ModuleType("holder")
    exec("lazy import lazily_imported as lib", vars(holder))
    sys.modules["holder"] = holder
    try:
        source = f"import holder\ndef fn(x):\n    y = x + 1\n    {read}\n    return y * lib.factor\n"
        assert results(source, 2) == [([3.0, 3.0], ["package"]), ([6.0, 6.0], ["package"])]
    finally:
        del sys.modules["holder"]


def test_name_of_a_lazy_import_is_rebound_and_deleted(package):
    source = (
        "lazy import lazily_imported as lib\n"
        "def fn(x):\n    global lib\n    y = x + 1\n    lib = 5\n    y = y * lib\n    del lib\n    return y\n"
    )
    assert results(source, 1) == [([5.0, 5.0], [])]


def test_name_that_becomes_a_lazy_import_again_is_imported_again(package):
    module = types.ModuleType("program")
    exec("lazy import lazily_imported as lib\ndef fn(x):\n    return x * lib.factor\n", vars(module))
    compiled = dl.compile(module.fn, backend="eager")
    assert [compiled(torch.ones(1)).item() for _ in range(3)] == [3.0, 3.0, 3.0]
    del sys.modules["lazily_imported"]
    exec("lazy import lazily_imported as lib", vars(module))
    assert compiled(torch.ones(1)).item() == 3.0 and imported() == ["package", "package"]


def test_calls_after_the_import_are_one_graph(package):
    fn = program("lazy import lazily_imported as lib\ndef fn(x):\n    return (x + 1) * lib.factor\n")
    compiled = dl.compile(fn, backend="eager")
    compiled(torch.ones(2))
    compiled(torch.ones(2))
    before = dl.counters.graphs
    assert compiled(torch.ones(2)).tolist() == [6.0, 6.0]
    assert dl.counters.graphs == before
    assert len(compiled.owner.entries(fn.__code__)) == 2


def test_failing_import_raises_where_the_name_is_read(package):
    fn = program("lazy import lazily_missing\ndef fn(x):\n    y = x + 1\n    return y, lazily_missing\n")
    with pytest.raises(ModuleNotFoundError, match="lazily_missing"):
        dl.compile(fn, backend="eager")(torch.ones(2))


def test_lazy_import_breaks_the_graph_by_name(package):
    fn = program("lazy import lazily_imported as lib\ndef fn(x):\n    return (x + 1) * lib.factor\n")
    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    assert isinstance(caught.value.reason, reasons.LazyImport) and caught.value.reason.name == "lib"
    assert imported() == []


def test_attribute_of_a_module_that_is_a_lazy_import(package):
    holder = types.ModuleType("holder")
    exec("lazy import lazily_imported as lib", vars(holder))
    sys.modules["holder"] = holder
    try:
        source = "import holder\ndef fn(x):\n    return x + holder.lib.factor\n"
        assert results(source, 2) == [([3.0, 3.0], ["package"]), ([4.0, 4.0], ["package"])]
    finally:
        del sys.modules["holder"]
