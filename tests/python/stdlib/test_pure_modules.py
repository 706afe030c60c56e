"""Modules of pure functions between operators: complex numbers, packed bytes, paths."""

from __future__ import annotations

import cmath
import math
import os
import pathlib
import struct
import sys

from collector import Programs
from outcomes import outcomes
from programs import check, tensor

programs = Programs()
ROOT = pathlib.Path("/data/run")


@programs(tensor(3))
def complex_numbers(x):
    turn = cmath.exp(1j * math.pi / 4)
    return x * turn.real + abs(turn) + cmath.phase(turn), turn, cmath.polar(turn), cmath.isclose(turn, 1j), cmath.pi


@programs(tensor(3))
def packed_bytes(x):
    return x + struct.unpack("<i", struct.pack("<i", 5))[0], struct.calcsize("ihb"), struct.pack(">hB", -2, 200)


@programs(tensor(3))
def names_of_paths(x):
    path = pathlib.Path("/a/b") / "c.txt"
    return x + 1, path.name, path.suffix, path.stem, str(path.parent), path.parts, path.is_absolute()


@programs(tensor(3), graphs=(1, 2), breaks=None)
def paths(x):
    path = ROOT / "step" / f"{x.shape[0]:06d}.pt"
    again = pathlib.Path(str(path))
    return x + len(path.parts), path, path.with_suffix(".bin").name, path == again, f"{path}", path.relative_to(ROOT)


@programs(tensor(3))
def paths_as_texts(x):
    joined = os.path.join("a", "b")
    parts = os.path.basename("/x/y.z"), os.path.splitext("a.b"), os.path.dirname("/a/b"), os.path.normpath("a//b/../c")
    return x + 1, joined, parts, os.fspath("a")


@programs(tensor(3), graphs=(1, 2), breaks=None)
def paths_that_are_looked_for(x):
    return x + 1, ROOT.exists(), os.path.exists("/"), pathlib.Path("/").is_dir(), os.path.join(ROOT, "a")


@programs(tensor(3))
def interned(x):
    return x * 2, sys.intern("a" + "b")


@programs(tensor(3), graphs=(0, 2), breaks=None)
def wrong_arguments(x):
    found = outcomes(lambda: cmath.sqrt("a"), lambda: struct.unpack("<i", b"a"), lambda: cmath.log(0))
    return x + 1, found, outcomes(lambda: os.fspath(1))


test = programs.test()


def test_a_class_with_a_path():
    class Entry:
        def __fspath__(self):
            return "a/b"

    def fn(x, entry):
        return x + 1, os.fspath(entry), os.path.join(entry, "c")

    check(fn, tensor(3), Entry())
