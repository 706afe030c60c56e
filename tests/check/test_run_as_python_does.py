"""``dynamo-lite run``: a program's own view of itself, and errors for programs that don't exist."""

from __future__ import annotations

import sys

import pytest

from dynamo_lite.__main__ import main
from processes import run_program


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    return tmp_path


def test_the_path_of_a_script_is_absolute(folder, capsys):
    """The script finds files beside it after a change of directory."""
    (folder / "where.py").write_text("import sys\nprint(__file__, sys.argv)\n")
    assert main(["run", "where.py", "-x"]) == 0
    assert capsys.readouterr().out == f"{folder / 'where.py'} ['where.py', '-x']\n"


def test_exit_handlers_find_the_program_as_main(folder):
    """A handler may pickle an object of a class in ``__main__``."""
    (folder / "leaves.py").write_text(
        "import atexit, pickle\n"
        "class Ours:\n    pass\n"
        "atexit.register(lambda: print(type(pickle.loads(pickle.dumps(Ours()))) is Ours))\n"
    )
    done = run_program(
        f"import os, sys; os.chdir({str(folder)!r})\n"
        "from dynamo_lite import __main__\n"
        "sys.exit(__main__.main(['run', 'leaves.py']))\n"
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-m", "no_such_package.module"], "there is no module 'no_such_package.module' here (looked for from "),
        (["-m", ".module"], "there is no module '.module' here"),
        (["."], "'.' is a folder without a __main__.py"),
        (["no_such_command"], "'no_such_command' is neither a file nor a command that a package installs"),
    ],
)
def test_a_program_that_is_not_there_is_one_sentence(arguments, words, capsys):
    assert main(["run", *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"dynamo-lite: error: {words}") and printed.count("\n") == 1


def test_missing_program_is_reported_by_its_name(capsys):
    with pytest.raises(SystemExit) as left:
        main(["run"])
    assert left.value.code == 2 and capsys.readouterr().err.endswith("arguments are required: PROGRAM\n")
