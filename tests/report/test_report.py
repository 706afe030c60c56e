"""`dl.report`: the contents of the page and the trace, and errors that name what went wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight.recorder import RECORDING, GuardRecord
from dynamo_lite.report.drawing import draw
from dynamo_lite.report.guard_rows import tree_of


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.step = "first"

    def forward(self, x):
        y = self.fc(x).relu()  # <script>alert("&amp;")</script>
        print("between")
        return y * len(self.step)


def branches(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


class Page(HTMLParser):
    """Parses elements with their attributes, and the text of each element of a class or id."""

    VOID = {"meta", "link", "br", "hr"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[list[str], str]] = []
        self.feed(text)
        self.close()
        assert self.open == [], "each element is closed"

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(self.all[-1])

    def handle_startendtag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        within = [
            f"{kind}{value}"
            for _, attrs in self.open
            for kind, name in (("#", "id"), (".", "class"))
            for value in (attrs.get(name) or "").split()
        ]
        self.texts.append(([*within, *(tag for tag, _ in self.open)], data))

    def text(self, *selectors: str) -> str:
        """Returns all text inside elements that match all these ids, classes and tags."""
        found = "".join(data for within, data in self.texts if set(selectors) <= set(within))
        return re.sub(r"\s+", " ", found).strip()


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> tuple[Page, Path]:
    torch.manual_seed(0)
    module = Scaled()
    with dl.report(tmp_path_factory.mktemp("report") / "new" / "folder") as path:
        compiled = dl.compile(module, backend="eager")
        x = torch.ones(2, 4)
        first = compiled(x)
        compiled(x)
        module.step = "later on"
        last = compiled(x)
    torch.testing.assert_close(last, first / len("first") * len("later on"))
    assert RECORDING.now is None
    return Page(path.read_text()), path


def line_of(text: str) -> int:
    return next(at for at, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


def test_lines_of_graphs_are_marked(reported):
    page, _ = reported
    assert "y = self.fc(x).relu()" in page.text(".in", "code")
    assert "return y * len(self.step)" in page.text(".in", "code")
    assert 'print("between")' in page.text("#source", "code")
    assert "between" not in page.text(".in", "code"), "it is in no graph"
    assert page.text(f"#f0-{line_of('fc(x).relu()')}", ".chip") == "1"
    assert page.text(f"#f0-{line_of('* len(self.step)')}", ".chip") == "23"


def test_breaks_are_marked_where_they_are(reported):
    page, _ = reported
    assert re.match(r"DL0202 print\(\) has a side effect.*Hint: ", page.text(".mark", ".break"))
    assert f"test_report.py:{line_of('print(')}" in page.text("#costs")
    assert ("a", {"href": f"#f0-{line_of('print(')}"}) in page.all


def test_graphs_are_drawn_and_shown_as_code(reported):
    page, _ = reported
    assert "torch._C._nn.linear(" in page.text("#g1", "pre") and "relu" in page.text("#g1", "pre")
    drawn = page.text("#g1", "svg", ".operator", "text")
    assert "linear" in drawn and ".relu()" in drawn and "f32[2, 4]" in drawn
    assert "self.fc.weight" in page.text("#g1", "svg", ".parameter", "text")
    assert "2 operators · 3 runs · 3 hits" in page.text("#g1", "summary")
    assert "1 operator · 2 runs · 2 hits" in page.text("#g2", "summary")


def test_guards_are_a_tree(reported):
    page, _ = reported
    guards = page.text("#g1", ".tree")
    assert re.search(r"\.fc \d+ checks · .*\.weight 2 checks", guards)
    assert re.search(r"is a torch\.float32 tensor on cpu of shape \(4, 4\), requires_grad \d+(\.\d+)? (ns|µs)", guards)


def test_recompiles_are_a_history(reported):
    page, _ = reported
    assert "'later on', was 'first'" in page.text("#costs", "table")
    assert "Hint: " in page.text("#costs")


def test_source_text_is_escaped(reported):
    page, path = reported
    assert '<script>alert("&amp;")</script>' in page.text("#source", "code")
    assert "script" not in {tag for tag, _ in page.all}


def test_nothing_is_fetched(reported):
    page, path = reported
    addresses = [value for _, attrs in page.all for name, value in attrs.items() if name in ("src", "href", "action")]
    assert addresses and all(each.startswith(("#", "data:")) for each in addresses)
    assert not re.search(r"url\(|@import|https?:", path.read_text())


def test_links_lead_somewhere(reported):
    page, _ = reported
    ids = {attrs["id"] for _, attrs in page.all if "id" in attrs}
    wanted = {attrs["href"] for tag, attrs in page.all if tag == "a"}
    assert {each.removeprefix("#") for each in wanted} <= ids


def test_the_trace_is_in_chromes_format(reported):
    _, path = reported
    trace = json.loads((path.parent / "trace.json").read_text())
    events = trace["traceEvents"]
    assert all({"ph", "pid", "tid", "name"} <= each.keys() for each in events)
    spans = [each for each in events if each["ph"] == "X"]
    assert all(each["dur"] >= 0 and each["ts"] >= 0 for each in spans)
    runs = [each for each in spans if each["cat"] == "run"]
    assert sorted(each["args"]["graph"] for each in runs) == [1, 1, 1, 2, 2, 3]
    assert {each["cat"] for each in spans} == {"trace", "backend", "code", "run"}
    assert [each["cat"] for each in events if each["ph"] == "i"] == ["recompile"]
    spans.sort(key=lambda each: each["ts"])
    for one, other in zip(spans, spans[1:]):
        assert one["ts"] + one["dur"] <= other["ts"] + 1, "nothing overlaps on one thread"


def test_frames_in_eager_are_marked(tmp_path):
    def lists(x):
        names = locals()
        return x + len(names)

    with dl.report(tmp_path) as path:
        compiled = dl.compile(lists, backend="eager")
        assert compiled(torch.zeros(2)).tolist() == [1.0, 1.0]
    page = Page(path.read_text())
    assert "lists runs in eager: " in page.text(".mark", ".skip")


def test_calls_past_the_limit_and_under_modes_are_marked(tmp_path):
    def times(x, n):
        return x * len(n)

    with dl.report(tmp_path) as path:
        compiled = dl.compile(times, backend="eager")
        with dl.config.patch(recompile_limit=2), pytest.warns(RuntimeWarning, match="the limit"):
            for n in ("a", "bc", "def", "gh"):
                compiled(torch.ones(1), n)
        with torch.overrides.BaseTorchFunctionMode():
            compiled(torch.ones(3), "a"), compiled(torch.ones(3), "a")
    page = Page(path.read_text())
    marks = page.text(".mark", ".skip")
    assert "times runs in eager: calls that none of its 2 compiled versions fits" in marks
    assert "times at test_report.py:" in page.text("#costs")


def test_code_compiled_inside_the_block_runs_after_it(tmp_path):
    compiled = dl.compile(branches, backend="eager")
    with dl.report(tmp_path) as path:
        compiled(torch.ones(2))
    text = path.read_text()
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert compiled(-torch.ones(2)).tolist() == [-2.0, -2.0]
    assert path.read_text() == text


def test_hits_of_dropped_entries_arent_shown_as_none_at_all(tmp_path):
    with dl.report(tmp_path) as path:
        dl.compile(branches, backend="eager")(torch.ones(2))
        dl.reset()
    summaries = Page(path.read_text()).text("#g1", "summary")
    assert "1 run · dropped" in summaries and "hits" not in summaries


def test_report_is_written_if_the_block_raises(tmp_path):
    with pytest.raises(KeyError), dl.report(tmp_path) as path:
        dl.compile(branches, backend="eager")(torch.ones(2))
        raise KeyError
    assert "return x + 1" in Page(path.read_text()).text(".in")


def test_a_block_in_which_nothing_is_compiled(tmp_path):
    with dl.report(tmp_path) as path:
        pass
    assert "Nothing was captured." in Page(path.read_text()).text("#source")


def test_without_a_report_nothing_is_recorded():
    assert RECORDING.now is None
    kept = []

    def backend(gm, example_inputs):
        kept.append(gm.forward)
        return kept[-1]

    compiled = dl.compile(branches, backend=backend)
    compiled(torch.ones(2))
    constants = [value for entry in compiled.entries() for value in entry.code.co_consts]
    called = [value.fn for value in constants if type(value).__name__ == "GraphCall"]
    assert called and all(each in kept for each in called), "generated code calls what the backend returned"


def test_one_in_another_is_an_error(tmp_path):
    with dl.report(tmp_path / "one"):
        with pytest.raises(RuntimeError, match="another report is on .*: end it before this one begins"):
            dl.report(tmp_path / "two").__enter__()
    assert not (tmp_path / "two").exists() and (tmp_path / "one" / "index.html").exists()


def test_a_folder_that_cant_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="dl.report can't write into .*file/folder: .*Give it another folder"):
        dl.report(tmp_path / "file" / "folder").__enter__()
    assert RECORDING.now is None


def test_without_jinja2_the_error_names_the_package(tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jinja2" else find_spec(name))
    with pytest.raises(ImportError, match=r"dl.report needs jinja2: pip install 'dynamo_lite\[report\]'"):
        dl.report(tmp_path).__enter__()
    assert RECORDING.now is None


@pytest.mark.parametrize("options", [[], ["-m", "dynamo_lite", "run"]])
def test_the_environment_reports_on_a_whole_run(tmp_path, options):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, dynamo_lite as dl\n"
        "def doubled(x):\n"
        "    return x * 2\n"
        "print(dl.compile(doubled, backend='eager')(torch.ones(1)).item())\n"
    )
    environment = {"DYNAMO_LITE_REPORT": str(tmp_path / "out"), "DYNAMO_LITE_LOGS": "perf"}
    command = [sys.executable, *options, program]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.stdout == "2.0\n" and f"the report is in {tmp_path / 'out' / 'index.html'}" in done.stderr
    page = (tmp_path / "out" / "index.html").read_text()
    assert "return x * 2" in Page(page).text(".in")
    assert "<h1>program.py: what dynamo_lite captured</h1>" in page


def test_places_of_guards_are_taken_apart():
    places = ["self", "self.fc.weight", "self.d['a.b']", "torch.nn.functional.linear", "", "type(x).y"]
    rows = tree_of([GuardRecord(place, "holds", 1e-9) for place in places])
    assert [row.name for row in rows] == ["self", "torch.nn.functional.linear", "sizes and numbers", "type(x).y"]
    assert list(rows[0].below) == [".fc", ".d"] and rows[0].below[".fc"].name == ".fc.weight"
    assert rows[0].below[".d"].name == ".d['a.b']" and rows[0].count == 3


def test_boxes_dont_overlap_and_lie_below_what_they_take(tmp_path):
    def wide(x):
        parts = [x + at for at in range(9)]
        return torch.cat(parts) * torch.stack(parts).sum()

    with dl.report(tmp_path):
        dl.compile(wide, backend="eager")(torch.ones(2))
        (graph,) = RECORDING.now.graphs
    drawing = draw(graph)
    boxes = {box.node.name: box for box in drawing.boxes}
    assert len(boxes) == len(graph.nodes) and len({(box.x, box.y) for box in boxes.values()}) == len(boxes)
    for box in boxes.values():
        assert 0 <= box.x <= drawing.width - box.width and 0 <= box.y <= drawing.height - box.height
        assert all(boxes[name].y < box.y for name in box.node.inputs)
