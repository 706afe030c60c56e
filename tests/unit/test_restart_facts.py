"""Facts that restart a translation, and the effect of each on the next attempt."""

from traceback import FrameSummary

import pytest

from dynamo_lite.exc import SkipFrame, Unsupported
from dynamo_lite.insight.break_reasons import SharedMemory, UnknownCall, UnreconstructableValue
from dynamo_lite.insight.observer import GraphBreak
from dynamo_lite.insight.site import SiteFrame
from dynamo_lite.records.restart import (
    BreakAt,
    EndsBefore,
    FunctionsUntraced,
    MadeByCPython,
    NumbersSpecialized,
    OtherWay,
)
from dynamo_lite.records.restart_facts import RestartFacts
from dynamo_lite.shapes.policy import SpecializationHistory

PLACE = FrameSummary("program.py", 7, "program", lookup_line=False)
SITE = (SiteFrame("program.py", "program", 7, 12),)
CALL = GraphBreak(UnknownCall("print", "it prints"), (PLACE,))
VALUE = UnreconstructableValue("an iterator")


def learned(*facts, **settings):
    known = RestartFacts.first(**settings)
    for fact in facts:
        known = known.learn(fact, PLACE)
    return known


def test_earliest_break_is_kept():
    known = learned(BreakAt((9, 2), CALL, to_fill=frozenset({"a cache"})), BreakAt((4,), CALL, calls_backward=True))
    assert (known.break_at, known.graph_break, known.to_fill) == ((4,), CALL, {"a cache"})
    assert known.calls_backward and not learned(BreakAt((4,), CALL)).calls_backward


@pytest.mark.parametrize("path", [(4,), (4, 1), (5,)])
def test_a_frame_whose_break_comes_no_earlier_is_skipped(path):
    with pytest.raises(SkipFrame) as skipped:
        learned(BreakAt((4,), CALL), BreakAt(path, GraphBreak(VALUE, (PLACE,))))
    assert skipped.value.cause.reason is VALUE


def test_value_created_by_cpython_ends_the_graph():
    assert learned(BreakAt((4, 1), CALL), MadeByCPython(0, VALUE)).break_at == (4,)
    assert learned(BreakAt((4,), CALL), MadeByCPython(2, VALUE)).graph_break == CALL
    with pytest.raises(SkipFrame, match="an iterator"):
        learned(MadeByCPython(0, VALUE))
    with pytest.raises(Unsupported, match="an iterator"):
        learned(MadeByCPython(2, VALUE), fullgraph=True)


def test_a_graph_that_ends_before_a_step():
    fact = EndsBefore(3, SharedMemory(), "it writes")
    known = learned(fact)
    assert known.break_at == (3,)
    elsewhere = FrameSummary("program.py", 5, "program", lookup_line=False)
    assert known.break_seen_from(elsewhere).lineno == 5, "what is known at the end is placed where the graph breaks"
    for settings, facts in (({"fullgraph": True}, [fact]), ({}, [fact, fact])):
        with pytest.raises(SkipFrame, match="it writes"):
            learned(*facts, **settings)


def test_facts_are_added_without_mutation():
    first = RestartFacts.first()
    second = first.learn(FunctionsUntraced(frozenset({int})), PLACE).learn(FunctionsUntraced(frozenset({str})), PLACE)
    assert (second.untraced_functions, first.untraced_functions) == ({int, str}, set())


def test_facts_for_later_translations_are_remembered():
    remembered = SpecializationHistory()
    known = learned(OtherWay(17, False), NumbersSpecialized(3), remembered=remembered)
    assert remembered.other_way == {17: False} and not remembered.steps
    assert known.numbers.is_at(3, SITE)
    known.after({3: SITE}).remember()
    assert remembered.steps == {3: SITE}
    again = RestartFacts.first(remembered)
    assert again.numbers.is_at(3, SITE) and not again.numbers.is_at(3, ())
    again.after({3: ()}).remember()
    assert not remembered.steps, "another translation came to the step elsewhere"
