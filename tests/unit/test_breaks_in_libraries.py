"""A graph that ends in a library's code: the log, `dl.explain` and a report name the program's line that called it."""

from __future__ import annotations

import operator
import pathlib
import re
import sys

import pytest
import torch

import dynamo_lite as dl


def saves(x):
    y = x + 1
    pathlib.Path("/dev/null").write_text("so far")
    return y * 2


LINE = saves.__code__.co_firstlineno + 2
FILE = pathlib.Path.write_text.__code__.co_filename
NAME = re.escape(pathlib.Path(FILE).name)
INSIDE = rf" \({NAME}:\d+, Path\.write_text\): "


def test_the_log_names_the_line_of_the_program(caplog):
    with caplog.at_level("INFO", "dynamo_lite.breaks"):
        dl.compile(saves, backend="eager")(torch.ones(2))
    said = [each.getMessage() for each in caplog.records if each.name == "dynamo_lite.breaks"]
    assert said and all(re.match(rf"DL\d+ at {re.escape(__file__)}:{LINE} in saves{INSIDE}", each) for each in said)


def test_explanation_names_the_line_of_the_program():
    found = dl.explain(saves)(torch.ones(2))
    assert {(each.filename, each.lineno) for each in found.breaks} == {(__file__, LINE)}
    assert re.search(rf"\nbreak DL\d+ at {re.escape(__file__)}:{LINE}{INSIDE}", str(found))
    assert found.breaks[0].user_stack[-1].filename == FILE


def test_a_report_marks_both_lines(tmp_path):
    pytest.importorskip("jinja2")
    with dl.report(tmp_path) as page:
        dl.compile(saves, backend="eager")(torch.ones(2))
    text = re.sub(r"<[^>]+>", "", page.read_text())
    assert re.search(rf"DL\d+\s+in Path\.write_text \({NAME}:\d+\): ", text)
    assert re.search(rf"\s{pathlib.Path(__file__).name}:{LINE}\s", text)
    assert re.search(rf"It ended in {NAME}:\d+, Path\.write_text\.", text)


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_packages_of_a_folder_that_only_the_path_names_are_libraries(tmp_path, monkeypatch, folder):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "far_library.py").write_text("def says(x):\n    print(x.shape)\n")
    monkeypatch.syspath_prepend(str(tmp_path / folder))
    import far_library

    def fn(x):
        y = x + 1
        far_library.says(y)
        return y

    (found,) = dl.explain(fn)(torch.ones(2)).breaks
    monkeypatch.delitem(sys.modules, "far_library")
    assert found.at() == f"{__file__}:{fn.__code__.co_firstlineno + 2} (far_library.py:2, says)"


def test_code_without_a_file_is_the_programs_where_nothing_else_is(caplog):
    namespace = {"pathlib": pathlib}
    exec("def typed_in(x):\n    pathlib.Path('/dev/null').write_text('so far')\n    return x + 1\n", namespace)
    (first, *_) = dl.explain(namespace["typed_in"])(torch.ones(2)).breaks
    assert (first.filename, first.lineno) == ("<string>", 2)


def prints(x):
    y = x + 1
    operator.call(print, "so far")
    return y


def test_functions_that_stand_in_for_others_are_not_shown():
    """The replacement of `operator.call` is one. Its author's line is the one that calls it."""
    line = prints.__code__.co_firstlineno + 2
    (found,) = dl.explain(prints)(torch.ones(2)).breaks
    assert (found.filename, found.lineno) == (__file__, line) and found.inside() == ""
    assert found.stack().count("File ") == 1
    with pytest.raises(dl.exc.Unsupported) as raised:
        dl.compile(prints, backend="eager", fullgraph=True)(torch.ones(2))
    assert f"{__file__}:{line} in prints" in str(raised.value) and "polyfills" not in str(raised.value)
