"""``dynamo-lite check`` of invalid targets: none of them passes because nothing was captured."""

from __future__ import annotations

import sys

import pytest
import torch
import torch._dynamo

import dynamo_lite as dl
from dynamo_lite.__main__ import main

TARGETS = """
import sys
import torch
import dynamo_lite as dl


def gate(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y


def broken():
    return gate, (torch.ones(2),)


def leaves():
    sys.exit(0)


def leaves_when_called():
    return (lambda x: sys.exit(0)), (torch.ones(2),)


def lists():
    return (lambda items: [item for item in items]), ([1, 2],)


def yields():
    def halves(x):
        yield x / 2

    return halves, (torch.ones(2),)


def disabled():
    return dl.disable(gate), (torch.ones(2),)


def compiled_by_torch():
    return torch.compile(gate, backend="eager", fullgraph=True), (torch.ones(2),)


def module_compiled_by_torch():
    class Gate(torch.nn.Module):
        def forward(self, x):
            return gate(x)

    return torch.compile(Gate(), backend="eager", fullgraph=True), (torch.ones(2),)


def whole():
    return (lambda x: x + 1), (torch.ones(2),)


def takes_one():
    return (lambda x: x + 1), (torch.ones(2), 3)


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    (tmp_path / "bad_targets.py").write_text(TARGETS)
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def run(*arguments):
        status = main(["check", *arguments])
        return status, *capsys.readouterr()

    yield run
    for name in ("bad_targets", "ends"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bad_targets:whole", "--allowed", "misspelt.toml"], "there is no file misspelt.toml; --update writes it"),
        (["bad_targets:whole", "--allowed", "."], ". can't be read: Is a directory"),
        (["bad_targets:whole", "--allowed", "no/such.toml", "--update"], "no/such.toml can't be written: No such file"),
    ],
)
def test_a_wrong_list_of_allowed_breaks_is_an_error(check, arguments, words):
    status, printed, complained = check(*arguments)
    assert (status, printed) == (2, "") and words in complained and complained.count("\n") == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("bad_targets:leaves", "bad_targets:leaves ended the program, with the status 0"),
        ("ends:whole", "importing ends ended the program, with the status 0"),
        ("bad_targets:leaves_when_called", "with input 1 ended the program, with the status 0"),
    ],
)
def test_unchecked_target_does_not_pass(check, target, words):
    status, printed, complained = check(target)
    assert (status, complained) == (2, "") and "target-failed: " in printed and words in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["bad_targets:whole", "--input", "float32[4]"],
            "bad_targets:whole can't be called with what --input gives: too many positional arguments; a factory is "
            "checked without --input\n",
        ),
        (
            ["bad_targets:Doubles", "--input", "float32[4]", "--input", "float32[4]"],
            "bad_targets:Doubles can't be called with what --input gives: too many positional arguments\n",
        ),
        (
            ["bad_targets:takes_one"],
            "     target-failed: calling the function of bad_targets:takes_one with input 1 raised TypeError: "
            "takes_one.<locals>.<lambda>() takes 1 positional argument but 2 were given\n",
        ),
    ],
)
def test_wrong_arguments_of_a_target_have_no_place_of_ours(check, arguments, words):
    status, printed, _ = check(*arguments)
    assert status == 2 and words in printed and "captured.py" not in printed


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("lists", ") runs in eager: it contains no tensor operations"),
        ("yields", "its body runs later, as a generator or a coroutine goes on"),
        ("disabled", "gate is marked to be left out of graphs"),
    ],
)
def test_message_says_why_nothing_was_captured(check, tmp_path, target, words):
    status, printed, _ = check(f"bad_targets:{target}")
    assert status == 1 and words in printed.replace(f"{tmp_path}/", "") and "nothing-captured" in printed


@pytest.mark.parametrize("stance, target", [("force_eager", "bad_targets:whole"), ("eager_on_recompile", "ends.py")])
def test_message_names_the_stance_that_prevented_capture(check, stance, target):
    with dl.set_stance(stance):
        status, printed, _ = check(target)
    assert status == 1 and "dl.set_stance, or torch.compiler.set_stance, is in force" in printed


@pytest.mark.parametrize("format, place", [("github", "file=part/bad_targets.py"), ("sarif", '"part/bad_targets.py"')])
def test_places_are_those_of_the_repository(check, tmp_path, monkeypatch, format, place):
    """Paths are relative to the repository, although a workflow's step may have a working directory below it."""
    part = tmp_path / "part"
    part.mkdir()
    (tmp_path / "bad_targets.py").rename(part / "bad_targets.py")
    monkeypatch.chdir(part)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    status, printed, _ = check("bad_targets.py:broken", "--format", format)
    assert status == 1 and place in printed


@pytest.mark.parametrize("target", ["compiled_by_torch", "module_compiled_by_torch"])
def test_result_of_torch_compile_is_checked_by_our_compiler(check, target):
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    status, printed, _ = check(f"bad_targets:{target}")
    assert status == 1 and "bad_targets.py:9: DL0301" in printed
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before
