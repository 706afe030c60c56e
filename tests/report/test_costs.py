"""Costs in a report: causes, their consequences, stacks, the compiler's output, and the comparison of two reports."""

from __future__ import annotations

import json
import logging
import os
import sys
import types

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight.output_code import collecting_output_code
from dynamo_lite.insight.recorder import RECORDING, Place, Recorder, Span
from dynamo_lite.report import summary
from dynamo_lite.report.costs import causes
from dynamo_lite.report.stacks import stacks_of
from dynamo_lite.report.timeline import charts


def helper(x):
    y = x + 1
    print("between")
    return y.sin()


def outer(x, n):
    return helper(x) * n


def writes(x):
    with open(os.devnull, "w") as file:
        file.write("x")
    return x + 1


def recorded(tmp_path, program) -> Recorder:
    dl.reset()
    with dl.report(tmp_path):
        recorder = RECORDING.now
        program()
    assert recorder is not None
    return recorder


def test_rest_of_a_frame_is_listed_under_its_break(tmp_path):
    def program():
        compiled = dl.compile(outer, backend="eager")
        compiled(torch.ones(2), 2), compiled(torch.ones(2), 2)

    recorder = recorded(tmp_path, program)
    found = {each.kind: each for each in causes(recorder)}
    assert found.keys() == {"first", "break"}
    assert [each.number for each in found["first"].graphs] == [1] and found["first"].title.endswith("outer")
    ended = found["break"]
    assert [each.number for each in ended.graphs] == [2] and ended.code == "DL0202" and ended.calls == 2
    assert ended.title == "print() has a side effect that can't be captured" and ended.times == 1


def test_one_cause_of_many_recompilations_is_one_row(tmp_path):
    def named(x, name):
        return x + len(name)

    def program():
        compiled = dl.compile(named, backend="eager")
        for name in ("a", "bc", "def", "ghij", "klmno"):
            compiled(torch.ones(2), name)

    again = [each for each in causes(recorded(tmp_path, program)) if each.kind == "recompile"]
    assert len(again) == 1 and again[0].times == 4 and len(again[0].graphs) == 4
    assert again[0].title == "name" and again[0].hint


def test_rest_of_a_frame_is_listed_under_its_recompilation(tmp_path):
    def program():
        compiled = dl.compile(outer, backend="eager")
        compiled(torch.ones(2), 2), compiled(torch.ones(3), 2)

    again = [each for each in causes(recorded(tmp_path, program)) if each.kind == "recompile"]
    assert [each.title for each in again] == ["x: size"]
    assert [each.number for each in again[0].graphs] == [3, 4] and len(again[0].changes) == 2


def test_breaks_of_one_line_are_one_cause_with_what_follows(tmp_path):
    recorder = recorded(tmp_path, lambda: dl.compile(writes, backend="eager")(torch.ones(2)))
    found = [each for each in causes(recorder) if each.kind == "break"]
    line = writes.__code__.co_firstlineno + 1
    opened = next(each for each in found if each.lineno == line)
    assert opened.title == "open() reads or writes a file" and opened.follows
    assert len([each for each in found if each.lineno == line]) == 1


def test_costs_add_up(tmp_path):
    def program():
        compiled = dl.compile(outer, backend="eager")
        for n in (2, 3, 4):
            compiled(torch.ones(2), n)

    recorder = recorded(tmp_path, program)
    found = causes(recorder)
    assert sum(each.compile_seconds for each in found) == pytest.approx(
        sum(sum(entry.seconds.values()) for entry in recorder.entries)
    )
    assert sum(each.run_seconds for each in found) == pytest.approx(sum(each.run_seconds for each in recorder.graphs))
    assert sorted(found, key=lambda each: -each.seconds) == found


def test_stacks_are_merged_where_they_begin_alike(tmp_path):
    compiled = dl.compile(outer, backend="eager")

    def once():
        compiled(torch.ones(2), 2)

    def program():
        once()
        compiled(torch.ones(2), 3)

    recorder = recorded(tmp_path, program)
    (root,) = stacks_of(recorder.entries)
    assert root.count == len(recorder.entries)
    names = [[place.function.rpartition(".")[2] for place in each.places] for each in root.below.values()]
    assert names[0] == ["program", "once", "outer"] and names[1][:2] == ["program", "outer"]


def test_guards_and_inputs_have_the_programs_names(tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)

        def forward(self, images, scale):
            return helper(self.fc(images)) * scale

    def program():
        compiled = dl.compile(Net(), backend="eager", dynamic=True)
        compiled(torch.ones(3, 2), 2.0), compiled(torch.ones(4, 2), 3.0)

    recorder = recorded(tmp_path, program)
    texts = [f"{guard.place} {guard.text}" for entry in recorder.entries for guard in entry.guards]
    inputs = [node.what for graph in recorder.graphs for node in graph.nodes if node.is_input]
    assert "images" in inputs
    assert not [each for each in [*texts, *inputs] if "___" in each or "args[" in each]


def test_inductors_output_is_beside_its_graph(tmp_path):
    recorder = recorded(tmp_path, lambda: dl.compile(lambda x: x.sin() + 1)(torch.ones(4)))
    (graph,) = recorder.graphs
    assert len(graph.output_code) == 1 and "def call" in graph.output_code[0]
    assert "Output of the compiler" in (tmp_path / "index.html").read_text()


def test_collecting_output_leaves_the_logger_as_it_was():
    logger = logging.getLogger("torch._inductor.codecache.__output_code")
    before = logger.level, logger.propagate, list(logger.handlers)
    recorder = Recorder()
    with collecting_output_code(recorder):
        logger.debug("Output code: \n%s", "def call(): ...")
        logger.debug("Output code written to: %s", "file")
    logger.debug("Output code: \n%s", "def later(): ...")
    assert recorder.late_code == ["def call(): ..."]
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_run_time_has_its_own_scale():
    recorder = Recorder()
    recorder.spans = [
        Span("trace", "f", 0.0, 4.0, 1, 1),
        Span("run", "graph 1", 4.0, 0.001, 1, 1),
        Span("trace", "f", 4.1, 6.0, 1, 2),
        Span("run", "graph 2", 10.1, 0.001, 1, 2),
    ]
    compiling, running = charts(recorder)
    assert compiling.title == "Compiling" and [tick.seconds for tick in compiling.ticks] == [0, 5, 10]
    first, second = sorted(running.rows[0].bars, key=lambda each: each.left)
    assert first.left == 0 and second.left == pytest.approx(100 * 0.1 / 0.101)
    assert first.width == pytest.approx(100 * 0.001 / 0.101)


def written(tmp_path, name, program):
    dl.reset()
    with dl.report(tmp_path / name):
        program()
    return json.loads((tmp_path / name / "report.json").read_text())


def test_two_reports_are_compared(tmp_path, capsys):
    from dynamo_lite.__main__ import main

    def quiet(x, n):
        return (x + 1).sin() * n

    before = written(tmp_path, "before", lambda: dl.compile(outer, backend="eager")(torch.ones(2), 2))
    written(tmp_path, "after", lambda: dl.compile(quiet, backend="eager")(torch.ones(2), 2))
    assert before["totals"]["graph breaks"] == 1
    capsys.readouterr()
    assert main(["diff", str(tmp_path / "before"), str(tmp_path / "after")]) == 0
    said = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line.startswith("|")]
    assert rows[0] == ["", "before", "after", "change"]
    assert ["graphs", "2", "1", "-1"] in rows and ["graph breaks", "1", "0", "-1"] in rows
    gone = said.partition("**Breaks that are gone**")[2].strip()
    line = helper.__code__.co_firstlineno + 2
    assert gone.startswith(f"- DL0202 print() has a side effect that can't be captured, test_costs.py:{line}: ")
    assert "New" not in said and "The same" not in said


def test_a_report_compared_with_itself_is_the_same(tmp_path):
    found = written(tmp_path, "one", lambda: dl.compile(outer, backend="eager")(torch.ones(2), 2))
    assert summary.difference(found, found).endswith("\n\nThe same breaks and recompilations.\n")


def test_diff_of_an_invalid_report_is_an_error(tmp_path, capsys):
    from dynamo_lite.__main__ import main

    (tmp_path / "report.json").write_text("[]")
    assert main(["diff", str(tmp_path / "nowhere"), str(tmp_path)]) == 2
    because = "can't be read (No such file or directory): name the folder of a report"
    assert capsys.readouterr().err == f"dynamo-lite: error: {tmp_path}/nowhere {because}\n"
    assert main(["diff", str(tmp_path), str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("report.json is not the report.json of a report of this version\n")


def test_files_are_not_written_through_symbolic_links(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "trace.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a symbolic link, which reports are not written through"):
        dl.report(tmp_path / "folder").__enter__()
    assert RECORDING.now is None and not (tmp_path / "elsewhere").exists()


def test_a_notebook_shows_the_page(tmp_path):
    with dl.report(tmp_path) as page:
        assert "written at the end of the block" in page._repr_html_()
        dl.compile(outer, backend="eager")(torch.ones(2), 2)
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "What costs most" in shown
    assert page == tmp_path / "index.html"


def test_a_notebook_shows_an_explanation():
    def fn(x):
        y = x + 1
        print("<b>")
        return y * 2

    shown = dl.explain(fn)(torch.ones(2))._repr_html_()
    assert repr(dl.explain(fn)(torch.ones(2))).startswith("2 graphs, 1 break, 2 operators\n")
    assert "2 graphs, 1 break, 2 operators" in shown and "DL0202" in shown
    assert "put it under <code>if not dl.is_compiling():</code>" in shown
    assert ".dl-explanation pre, .dl-explanation code { font-family: ui-monospace, monospace;" in shown  # for carets
    assert "print(&quot;&lt;b&gt;&quot;)" in shown and "dynamo-lite explain DL0202" in shown


def test_a_break_is_counted_once_and_its_hint_has_code(tmp_path):
    def prints(x):
        print("so far")
        return x + 1

    def program():
        for dtype in (torch.float32, torch.float64):
            compiled(torch.ones(2, dtype=dtype))

    compiled = dl.compile(prints, backend="eager")
    found = written(tmp_path, "one", program)
    page = (tmp_path / "one" / "index.html").read_text()
    assert found["totals"]["graph breaks"] == 1 and "<b>1</b>graph break</div>" in page
    assert (
        page.count("Hint: move it out of the compiled function, or put it under <code>if not dl.is_compiling():") == 2
    )


@pytest.mark.parametrize(("is_file", "title"), [(True, "train.py: what"), (False, "What")])
def test_a_page_names_the_file_that_is_run_if_there_is_one(tmp_path, monkeypatch, is_file, title):
    main = types.ModuleType("__main__")
    if is_file:
        main.__file__ = "/home/me/train.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", ["/home/me/train.py" if is_file else "/usr/lib/ipykernel_launcher.py"])
    with dl.report(tmp_path) as page:
        pass
    assert f"<h1>{title} dynamo_lite captured</h1>" in page.read_text()


def test_a_place_is_a_line(tmp_path):
    recorder = recorded(tmp_path, lambda: dl.compile(outer, backend="eager")(torch.ones(2), 2))
    last = recorder.entries[0].stack[-1]
    line = outer.__code__.co_firstlineno
    assert last == Place(__file__, line, line, outer.__qualname__)
