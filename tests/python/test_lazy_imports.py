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
    """A package with a submodule, which notes when each is imported."""
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
    """What each of some compiled calls returns, and what had been imported after it."""
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
