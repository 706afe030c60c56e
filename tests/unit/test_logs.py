"""The output of each log subject, and how subjects are turned on."""

from __future__ import annotations

import logging

import pytest
import torch

import dynamo_lite as dl
from processes import run_program

SCALE = 2


@pytest.fixture
def said(caplog):
    """Returns the output of one subject for a function."""

    def run(subject, fn, level="INFO"):
        caplog.clear()
        with caplog.at_level(level, f"dynamo_lite.{subject}"):
            fn()
        return [each.getMessage() for each in caplog.records if each.name == f"dynamo_lite.{subject}"]

    return run


def calls(fn, *args):
    """Calls the function compiled, with each of these arguments in turn."""
    compiled = dl.compile(fn, backend="eager")

    def run():
        for each in args:
            compiled(*(each if isinstance(each, tuple) else (each,)))

    return run


def prints(x):
    y = x + 1
    print("now")
    return y * 2


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return self.fc(x) * self.step


class Printing(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        print("now")
        return y * 2


def test_a_break_is_one_line(said):
    (line,) = said("breaks", calls(prints, torch.ones(2)))
    number = prints.__code__.co_firstlineno + 2
    assert line.startswith(f"DL0202 at {__file__}:{number} in prints: print() ")
    assert "Hint: " in line and "\n" not in line


def test_a_construct_that_breaks_several_times_is_one_line(said):
    def fn(x):
        for at in range(3):
            if x.sum() > at:
                x = x + 1
        return x

    assert len(said("breaks", calls(fn, torch.ones(2)))) == 1
    assert dl.counters.graph_breaks == 1 < dl.counters.broken_translations


def test_a_break_has_its_stack_at_debug(said):
    def outer(x):
        return prints(x) + 1

    found = said("breaks", calls(outer, torch.ones(2)), "DEBUG")
    first = next(each for each in found if each.startswith("DL0202"))
    assert first.index("return prints(x)") < first.index('print("now")')


def test_log_names_the_reason_for_a_skipped_frame(said):
    def plain(n):
        return n + 1

    (line,) = said("breaks", calls(plain, 1), "DEBUG")
    assert line.startswith(f"{plain.__qualname__} ({__file__}:{plain.__code__.co_firstlineno}) runs in eager: ")


def recompile(said, fn, *args):
    (line,) = said("recompiles", calls(fn, *args))
    place, change, _ = line.replace(" is compiled again: ", "|").replace(". Hint: ", "|").split("|")
    return place, change


def test_a_recompile_of_a_module_says_what_has_changed(said):
    model = Counting()
    place, change = recompile(said, model, torch.ones(2, 2), torch.ones(2, 2))
    assert place == f"Counting.forward ({__file__}:{Counting.forward.__code__.co_firstlineno})"
    assert change == "self.step: 1, was 0"


def test_a_recompile_names_the_parameters_of_forward(said):
    place, change = recompile(said, torch.nn.Linear(2, 2), torch.ones(2, 2), torch.ones(3, 2))
    assert place.startswith("Linear.forward (") and change == "`input` dim 0 was 2, now 3"


def test_a_recompile_after_a_break_names_the_variables_of_the_program(said):
    lines = said("recompiles", calls(Printing(), torch.ones(2), torch.ones(3)))
    assert [each.split(": ", 1)[1] for each in lines] == [
        f"`{name}` dim 0 was 2, now 3. Hint: mark it dynamic before the first call: `dl.mark_dynamic({name}, 0)`"
        for name in ("x", "y")
    ]


def test_a_recompile_after_a_break_shows_the_line_of_what_has_no_name(said):
    names = ["b", "a"]
    name = dl.disable(lambda: names.pop())

    def fn(x):
        return x * (1 if name() == "a" else 2)

    lines = said("recompiles", calls(fn, torch.tensor([1.0]), torch.tensor([2.0])))
    line = fn.__code__.co_firstlineno + 1
    text = 'return x * (1 if name() == "a" else 2)'
    assert any(f": value 2 of `{text}` (line {line}): 'b', was 'a'. " in each for each in lines)
    assert "___" not in "".join(lines)


@pytest.mark.parametrize(
    ("args", "change"),
    [
        ([(torch.ones(2), True), (torch.ones(2), False)], "flag: False, was True"),
        ([(torch.ones(2), "a"), (torch.ones(2), "b")], "flag: 'b', was 'a'"),
        ([(torch.ones(2), 1), (torch.ones(2).double(), 1)], "x: dtype torch.float64 instead of torch.float32"),
        ([(torch.ones(2), None), (torch.ones(2), len)], "flag: the function len, was None"),
        ([(torch.ones(2), [1]), (torch.ones(2), [1, 2])], "flag: length 2, was length 1"),
        ([(torch.ones(2), {"a": 1}), (torch.ones(2), {})], "flag: no keys, was the keys 'a'"),
        ([(torch.ones(2), ()), (torch.ones(2), [1])], "flag: a list, was a tuple"),
        ([(torch.ones(2), ()), (torch.ones(2), None)], "flag: None, was a tuple"),
        ([(torch.ones(2), 2), (torch.ones(2), (1,))], "flag: (1,), was 2"),
        ([(torch.ones(2), 1.0), (torch.ones(2), torch.ones(1))], "flag: a Tensor, was 1.0"),
        ([(torch.ones(2), float), (torch.ones(2), int)], "flag: the class int, was the class float"),
        ([(torch.ones(2), 1), (torch.ones(2, requires_grad=True), 1)], "x: requires_grad True instead of False"),
    ],
)
def test_a_recompile_says_what_it_was(said, args, change):
    def fn(x, flag):
        return x + 1 if flag else x - 1

    assert recompile(said, fn, *args)[1] == change


def test_a_recompile_names_classes_of_one_name_by_their_modules(said):
    first, second = (type(name, (), {"k": 1, "__module__": module}) for name, module in (("A", "one"), ("B", "two")))
    namesake = type("B", (), {"k": 1, "__module__": "three"})

    def fn(x, flag):
        return x * flag.k

    assert recompile(said, fn, (torch.ones(2), first()), (torch.ones(2), second()))[1] == "flag: a B, was an A"
    dl.reset()
    assert recompile(said, fn, (torch.ones(2), namesake()), (torch.ones(2), second()))[1] == "flag: a B, was a three.B"


def test_a_break_ends_its_sentence_once(said):
    def fn(x):
        return x @ torch.ones(7, 7)

    def call():
        with pytest.raises(RuntimeError):
            dl.compile(fn, backend="eager")(torch.ones(2, 2))

    assert ["[2, 2] X [7, 7]. Hint: if it fails in eager" in each for each in said("breaks", call)] == [True]


def test_a_recompile_shows_the_beginnings_of_long_values(said):
    def fn(x, text):
        return x + len(text)

    change = recompile(said, fn, (torch.ones(2), "a" * 9000), (torch.ones(2), "b" * 9000))[1]
    assert change.startswith("text: 'bbb") and "..., was 'aaa" in change and len(change) < 220


def test_a_recompile_names_one_failure_of_the_entry_used_last(said):
    def fn(x, n):
        return x if n is None else x * n

    lines = said("recompiles", calls(fn, (torch.ones(2), True), (torch.ones(2), False), (torch.ones(2), None)))
    assert [each.count("Hint") for each in lines] == [1, 1] and "n: None, was False" in lines[1]


def test_guards(said):
    (text,) = said("guards", calls(lambda x: x * SCALE, torch.ones(2)))
    assert "SCALE == 2" in text and "x is a torch.float32 tensor on cpu of shape (2,)" in text


def test_graph(said):
    (text,) = said("graph", calls(lambda x: x + 1, torch.ones(2)))
    assert 'arg0: "f32[2]"' in text and "arg0 + 1" in text


def test_bytecode(said):
    first, rest = said("bytecode", calls(prints, torch.ones(2)))
    assert first.startswith(f"of prints ({__file__}:") and "RETURN_VALUE" in first
    assert "GraphModule.forward" in first and "# goes on in prints, after a break at line" in first
    assert "GraphModule.forward" in rest and "RETURN_VALUE" in rest


def test_side_effects(said):
    (text,) = said("side_effects", calls(Counting(), torch.ones(2, 2)))
    assert text.endswith("writes after its graph: self.step")


def test_perf(said):
    (text,) = said("perf", calls(lambda x: x + 1, torch.ones(2)))
    assert "trace " in text and "backend " in text and "a check of its guards takes " in text


# -- how they are turned on ----------------------------------------------------------------------------------------

PROGRAM = """
import torch, dynamo_lite as dl
{set}
def f(x):
    y = x + 1
    print("now")
    return y
dl.compile(f, backend="eager")(torch.ones(2))
"""


def run_with(environment, program):
    return run_program(f"import os; os.environ.update({environment!r})\n{program}")


def test_the_environment_turns_them_on():
    done = run_with({"DYNAMO_LITE_LOGS": "breaks, perf"}, PROGRAM.format(set=""))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("dynamo_lite.breaks: DL0202 at ") == 1 and "dynamo_lite.perf: f (" in done.stderr


def test_logs_are_printed_without_a_handler():
    done = run_program(PROGRAM.format(set="dl.logs.set('breaks')"))
    assert "dynamo_lite.breaks: DL0202 at " in done.stderr
    own = "import logging; logging.basicConfig(format='OWN %(message)s'); dl.logs.set('breaks')"
    done = run_program(PROGRAM.format(set=own))
    assert "OWN DL0202 at " in done.stderr and "dynamo_lite.breaks" not in done.stderr
    assert run_program(PROGRAM.format(set="")).stderr == ""


def test_loggers_of_the_program_turn_no_subject_on():
    own = "import logging; logging.basicConfig(level='DEBUG')"
    assert "dynamo_lite" not in run_program(PROGRAM.format(set=own)).stderr
    by_name = "logging.getLogger('dynamo_lite.breaks').setLevel('INFO')"
    done = run_program(PROGRAM.format(set=f"{own}; {by_name}"))
    assert done.stderr.count("dynamo_lite") == done.stderr.count("INFO:dynamo_lite.breaks:DL0202 at ") == 1
    before = f"import logging; {by_name}\n"
    assert "dynamo_lite.breaks: DL0202 at " in run_program(before + PROGRAM.format(set="")).stderr


def test_levels_select_the_messages():
    logger = logging.getLogger("dynamo_lite.graph")
    before = logger.level
    try:
        dl.logs.set("+graph")
        assert logger.level == logging.DEBUG
        dl.logs.set(graph=False)
        assert logger.level == logging.WARNING
        dl.logs.set(graph="ERROR")
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(before)


def test_an_unknown_subject_is_refused():
    with pytest.raises(ValueError, match="unknown log subject 'recompile'; did you mean 'recompiles'"):
        dl.logs.set("breaks", "recompile")
    done = run_with({"DYNAMO_LITE_LOGS": "guard"}, "import dynamo_lite")
    said = "ValueError: DYNAMO_LITE_LOGS=guard: unknown log subject 'guard'; did you mean 'guards'? There are: breaks, "
    assert said in done.stderr and done.returncode == 1


@pytest.mark.parametrize(
    "variables",
    [
        {"DYNAMO_LITE_LOGS": "BREAKS"},
        {"DYNAMO_LITE_LOGS": "breaks recompiles"},
        {"DYNAMO_LITE_LOGS": " recompiles , breaks"},
        {"TORCH_LOGS": "graph_breaks,recompiles"},
    ],
    ids=str,
)
def test_subjects_are_written_in_any_usual_way(variables):
    done = run_with(variables, "import dynamo_lite as dl\nprint(dl.logs.breaks.level, dl.logs.guards.level)")
    assert done.stdout == "20 30\n", done.stderr


def test_subjects_of_torch_logs_keep_their_level():
    done = run_with({"TORCH_LOGS": "+graph_breaks"}, "import dynamo_lite as dl\nprint(dl.logs.breaks.level)")
    assert done.stdout == "10\n", done.stderr


@pytest.mark.parametrize(
    ("subjects", "levels", "error", "words"),
    [
        ([["breaks"]], {}, TypeError, r"a name, not list \(\['breaks'\]\)"),
        (["breaks"], {"graph": "LOUD"}, ValueError, "the level of 'graph' must be .* one of .*INFO.*, not 'LOUD'"),
        (
            ["breaks"],
            {"graph": None},
            TypeError,
            "the level of 'graph' must be True, False or a level of logging, not None",
        ),
    ],
)
def test_wrong_settings_change_nothing(subjects, levels, error, words):
    before = logging.getLogger("dynamo_lite.breaks").level
    with pytest.raises(error, match=words):
        dl.logs.set(*subjects, **levels)
    assert logging.getLogger("dynamo_lite.breaks").level == before


def test_the_environment_turns_everything_off():
    program = """
import torch, dynamo_lite as dl
def f(x):
    return x + 1
assert dl.compile(f) is f and dl.optimize()(f) is f
with dl.enable(), dl.optimize():
    assert f(torch.ones(1)) == 2
assert not dl.counters.frames
try:
    dl.explain(f)(torch.ones(1))
except dl.exc.Unsupported as error:
    print(error)
"""
    done = run_with({"DYNAMO_LITE_DISABLE": "1"}, program)
    assert done.returncode == 0, done.stderr
    assert "the environment has DYNAMO_LITE_DISABLE" in done.stdout
    enabled = "import dynamo_lite as dl; assert not dl.config.DISABLED"
    for value in ("0", "False", "off", ""):
        assert run_with({"DYNAMO_LITE_DISABLE": value}, enabled).stderr == ""
