"""``import`` of modules that aren't loaded yet: they are imported while tracing, or the graph breaks and says why."""

from __future__ import annotations

import importlib
import sys
import types

import pytest
import torch

import dynamo_lite as dl
from programs import tensor

PACKAGE = "a_package_of_modules"
STATE = types.SimpleNamespace(seen=[], rate=1)


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    """Writes a module of a package that nothing has imported."""
    package = tmp_path / PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    STATE.seen, STATE.rate = [], 1
    yield lambda name, text: (package / f"{name}.py").write_text(f"from {__name__} import STATE\n{text}")
    for name in [each for each in sys.modules if each.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def imports_submodule(x):
    y = x + 1
    from a_package_of_modules import first

    return y * first.FACTOR


def imports_dotted(x):
    y = x + 1
    import a_package_of_modules.first

    return y * a_package_of_modules.first.FACTOR


def imports_by_name(x):
    y = x + 1
    return y * importlib.import_module("a_package_of_modules.first").FACTOR


@pytest.mark.parametrize("fn", [imports_submodule, imports_dotted, imports_by_name], ids=lambda fn: fn.__name__)
def test_imported_while_tracing(fn, write_module):
    write_module("first", "FACTOR = 3\nSTATE.seen.append(__name__)")
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 6.0))
    assert STATE.seen == [f"{PACKAGE}.first"] and len(dl.entries(compiled)) == 1


def test_tensors_that_the_module_creates_are_real(write_module):
    write_module("first", "import torch\nFACTOR = torch.full((2,), 3.0)\nSTATE.seen.append(torch.is_grad_enabled())")

    def fn(x):
        with torch.no_grad():
            y = x + 1
            from a_package_of_modules import first
        return y * first.FACTOR

    assert torch.equal(dl.compile(fn, backend="eager", fullgraph=True)(torch.ones(2)), torch.full((2,), 6.0))
    assert type(sys.modules[f"{PACKAGE}.first"].FACTOR) is torch.Tensor and STATE.seen == [False]


def test_one_of_two_names_is_a_submodule(write_module):
    write_module("second", "FACTOR = 3")

    def fn(x):
        y = x + 1
        try:
            from a_package_of_modules import second, third
        except ImportError:
            return y * 2
        return second, third

    assert dl.compile(fn, backend="eager")(torch.ones(2)).tolist() == [4, 4]
    assert f"{PACKAGE}.second" in sys.modules


def after_an_attribute(x):
    STATE.rate = 5
    import a_package_of_modules.first

    return x * a_package_of_modules.first.FACTOR


def after_a_write(x):
    x.add_(1)
    import a_package_of_modules.first

    return x * a_package_of_modules.first.FACTOR


def after_a_random_number(x):
    y = x * torch.rand(())
    import a_package_of_modules.first

    return y * a_package_of_modules.first.FACTOR


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (after_an_attribute, "it comes after side effects"),
        (after_a_write, "it comes after side effects"),
        (after_a_random_number, "it comes after random operators"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_precedes_the_import(fn, reason, write_module):
    write_module("first", "import torch\nFACTOR = STATE.rate + torch.rand(())")
    torch.manual_seed(0)
    expected = fn(torch.ones(2))
    for name in (f"{PACKAGE}.first", PACKAGE):
        del sys.modules[name]
    STATE.rate = 1
    torch.manual_seed(0)
    found = dl.explain(fn)(torch.ones(2))
    assert torch.equal(found.result, expected)
    assert [each.reason.what() for each in found.breaks] == [
        f"the module {PACKAGE}.first isn't loaded yet, and its code can't run while tracing: {reason}"
    ]


def test_a_module_that_raises(write_module):
    write_module("first", "raise ValueError('no')")
    with pytest.raises(ValueError, match="no"):
        dl.compile(imports_dotted, backend="eager")(tensor(2))
    with pytest.raises(dl.exc.Unsupported, match="can't run while tracing: it raises ValueError"):
        dl.compile(imports_dotted, backend="eager", fullgraph=True)(tensor(2))


def test_where_an_operator_runs_the_code(write_module):
    write_module("first", "FACTOR = 3")

    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: imports_dotted(x) * 1.0, lambda x: x * 2.0, (x,))

    with pytest.raises(dl.exc.Unsupported, match="an operator runs its caller"):
        dl.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    assert torch.equal(dl.compile(fn, backend="eager")(torch.ones(2)), torch.full((2,), 6.0))
