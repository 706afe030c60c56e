"""What `dl.explain` reports of a call."""

from __future__ import annotations

import contextlib
import json
import time
from traceback import FrameSummary

import torch

import dynamo_lite as dl
from dynamo_lite.api import observe
from dynamo_lite.check.findings import breaks_found
from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.insight.observer import GraphBreak, Observer, folded


def prints(x):
    y = x.sin() + 1
    print("now")
    return y.cos()


def test_uncaptured_call_is_not_a_whole_graph(capsys):
    found = dl.explain(lambda n: n + 1)(3)
    assert (found.graph_count, found.break_count, found.is_whole) == (0, 0, False)
    assert "nothing was captured" in str(found) and "<lambda> (" in str(found)
    assert dl.explain(lambda x: x + 1)(torch.ones(2)).is_whole
    assert not dl.explain(prints)(torch.ones(2)).is_whole


def test_times_are_of_stages():
    found = dl.explain(prints)(torch.ones(2))
    assert list(found.times) == ["trace", "backend", "code", "run"]
    assert all(seconds > 0 for seconds in found.times.values())
    assert len(found.guard_seconds) == len(found.guards) and all(0 < each < 1e-4 for each in found.guard_seconds)
    assert len(found.lookups) == 2 and all(0 < seconds < 1e-3 for seconds in found.lookups)


def test_recompiles_of_one_call(capsys):
    def grows(x):
        for _ in range(3):
            x = torch.cat([x, x])
            print("now")
        return x + 1

    found = dl.explain(grows)(torch.ones(2))
    assert any(each.change.startswith("`x` dim 0 was ") for each in found.recompiles)
    assert f"recompile: {found.recompiles[0]}" in str(found)


def test_to_dict_is_json():
    found = json.loads(json.dumps(dl.explain(prints)(torch.ones(2)).to_dict()))
    assert found["operators"] == [["sin", "add"], ["cos"]]
    assert found["breaks"][0]["code"] == "DL0202" and found["breaks"][0]["stack"][-1]["function"] == "prints"


def test_it_prints_in_a_page():
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()) for _ in range(30)))
    found = dl.explain(model)(torch.ones(2))
    assert found.operator_count == 60 and len(found.guards) > 100
    assert len(str(found).splitlines()) < 40


def test_repeated_break_of_a_construct_is_reported_once():
    def fn(x):
        for at in range(3):
            if x.sum() > at:
                x = x + 1
        return x

    dl.reset()  # forgets which constructs were counted
    before = dl.counters.graph_breaks, dl.counters.broken_translations
    found = dl.explain(fn)(torch.ones(2))
    assert found.break_count == 1 and found.break_times[0] > 1 and found.graph_count > 2
    assert dl.counters.graph_breaks - before[0] == 1
    assert dl.counters.broken_translations - before[1] == found.break_times[0]
    assert f"({found.break_times[0]} times)" in str(found)
    assert found.to_dict()["breaks"][0]["times"] == found.break_times[0]


def test_a_break_in_a_library_is_told_once_for_its_caller_and_its_own_translation():
    """A call of the library at another line of the program is another break."""
    inner = FrameSummary("<frozen library>", 3, "scaled")
    lines = [FrameSummary("program.py", number, "fn") for number in (7, 9)]
    first, alone, other = (
        GraphBreak(UnknownCall("f", "it is C"), at) for at in ((lines[0], inner), (inner,), (lines[1], inner))
    )
    assert folded([first, alone, other, alone, first]) == [(first, 4, []), (other, 1, [])]
    assert [each.place.line for each in breaks_found([first, alone, other])] == [7, 9]


def test_consequences_of_a_break_on_its_line_are_reported_with_it(tmp_path, caplog):
    """A file that was opened is also entered and left by CPython. Neither is a break that a user can fix by itself."""

    def logs(x):
        with open(tmp_path / "log.txt", "w") as log:
            y = x + 1
        print("logged")
        return y * 2

    before = dl.counters.graph_breaks
    with caplog.at_level("INFO", "dynamo_lite.breaks"):
        found = dl.explain(logs)(torch.ones(2))
    opened, printed = found.breaks
    assert (opened.reason.code, printed.reason.code) == ("DL0532", "DL0202")
    assert [each.reason.code for each in found.following[0]] == ["DL0505", "DL0510"] and not found.following[1]
    assert "break DL0532 at" in str(found) and "open() reads or writes a file" in str(found)
    assert "  from this follows DL0505: the context manager a TextIOWrapper" in str(found)
    assert "from this follows DL0505" in found._repr_html_()
    assert found.to_dict()["breaks"][0]["following"] == ["DL0505", "DL0510"]
    assert dl.counters.graph_breaks - before == 2 and len(caplog.records) == 2
    assert "DL0532" in str(opened) and "Hint: " in str(opened)


def test_breaks_where_a_timer_is_left_follow_from_those_where_it_is_entered():
    """Its generator reads the clock, so CPython runs it, and the ``with`` statement is left by CPython too."""
    seconds = []

    @contextlib.contextmanager
    def timer():
        began = time.perf_counter()
        yield
        seconds.append(time.perf_counter() - began)

    def fn(x):
        with timer():
            y = x.sin()
        with timer():
            return y.cos()

    before = dl.counters.graph_breaks
    found = dl.explain(fn)(torch.ones(2))
    assert [each.reason.code for each in found.breaks] == ["DL0531"] and len(seconds) == 2
    assert [each.reason.code for each in found.following[0]] == ["DL0504", "DL0504"]
    assert dl.counters.graph_breaks - before == 1


def test_a_check_folds_breaks_as_an_explanation_does():
    def fn(x, scales):
        for at in range(3):
            if x.sum() > scales[at]:
                x = x + 1
        return x

    observer = Observer()
    compiled, _ = observe(fn, observer)
    compiled(torch.ones(2), [1.0, 2.0, 3.0])
    assert len(observer.breaks) > 1 and len(breaks_found(observer.breaks)) == 1 == len(folded(observer.breaks))
