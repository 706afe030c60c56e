"""Lines of a notebook's cells are named as IPython names them, not by the file that the kernel has made up."""

from __future__ import annotations

import linecache
import sys
import types

import pytest
import torch

import dynamo_lite as dl

FILE = "/tmp/ipykernel_1234/567.py"
SOURCE = """\
def fn(x):
    x = x * 2
    print("in the cell")
    return x + 1
"""


@pytest.fixture
def fn(monkeypatch):
    """A function of a cell, in a process where IPython runs."""
    compiler = types.SimpleNamespace(format_code_name=lambda name: ("Cell", "In[3]") if name == FILE else None)
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(linecache.cache, FILE, (len(SOURCE), None, SOURCE.splitlines(keepends=True), FILE))
    namespace = {}
    exec(compile(SOURCE, FILE, "exec"), namespace)
    return namespace["fn"]


def test_messages_name_the_cell(fn, caplog):
    with pytest.raises(dl.exc.Unsupported, match=r"\n  Cell In\[3\], line 3 in fn\n    print"):
        dl.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    with caplog.at_level("INFO", "dynamo_lite.breaks"), caplog.at_level("INFO", "dynamo_lite.recompiles"):
        compiled = dl.compile(fn, backend="eager")
        compiled(torch.ones(2))
        compiled(torch.ones(2, dtype=torch.float64))
    said = "\n".join(each.getMessage() for each in caplog.records)
    assert "DL0202 at Cell In[3], line 3 in fn: print()" in said
    assert "fn (Cell In[3], line 1) is compiled again" in said
    explanation = dl.explain(fn)(torch.ones(2))
    assert "break DL0202 at Cell In[3], line 3: " in str(explanation)
    assert "<small>Cell In[3], line 3</small>" in explanation._repr_html_()
    assert "ipykernel" not in said + str(explanation) + str(dl.counters.break_places)


def test_the_report_names_the_cell(fn, tmp_path):
    with dl.report(str(tmp_path)):
        dl.compile(fn, backend="eager")(torch.ones(2))
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Cell In[3]" in page


def test_before_ipython_has_a_shell(fn, monkeypatch):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    with pytest.raises(dl.exc.Unsupported, match="/tmp/ipykernel_1234/567.py:3 in fn"):
        dl.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
