"""``__dict__`` of modules: settings that a program reads from a module as from a dict."""

from __future__ import annotations

import types

import torch

import dynamo_lite as dl
import settings_module
from collector import Programs
from programs import check, checked, tensor, without_breaks

programs = Programs()


@programs(tensor(3))
@without_breaks
def read(x):
    found = settings_module.__dict__
    given = found.get("SCALE"), found.get("ABSENT", 4), "WIDTH" in found, "ABSENT" in vars(settings_module)
    return x * found["SCALE"] + vars(settings_module)["WIDTH"], given, found is vars(settings_module)


@programs(tensor(3))
@without_breaks
def iterated_over(x):
    settings = {name: value for name, value in vars(settings_module).items() if name.isupper()}
    names = [name for name in settings_module.__dict__ if name.isupper()]
    return x * sum(settings.values()), settings, names, len(vars(settings_module)) == len(dict(vars(settings_module)))


@programs(tensor(3))
@without_breaks
def of_torch(x):
    return torch.__dict__["sin"](x) + getattr(torch, "__dict__")["cos"](x)


@programs(tensor(3))
@without_breaks
def lacks_a_name(x):
    try:
        return settings_module.__dict__["ABSENT"]
    except KeyError as error:
        return x + 1, str(error)


@programs(tensor(3))
@without_breaks
def own_globals_iterated_over(x):
    found = {name: value for name, value in globals().items() if name.startswith("OWN_")}
    return x * found["OWN_A"], found


OWN_A = 3
OWN_B = "b"


test_program = programs.test()


@checked(tensor(3))
@without_breaks
def test_written_through_the_dict(x):
    found = settings_module.__dict__
    found["ADDED"] = found["WIDTH"] + 1
    y = x * settings_module.ADDED
    names = [name for name in found if name.isupper()]
    del found["ADDED"]
    return y, names, hasattr(settings_module, "ADDED"), "ADDED" in [*found]


def test_settings_that_change_between_calls(monkeypatch):
    def one(x):
        return x * settings_module.__dict__["WIDTH"]

    def every(x):
        return x * sum(value for name, value in vars(settings_module).items() if name.isupper())

    for fn in (one, every):
        compiled = dl.compile(fn, backend="eager", fullgraph=True)
        x = tensor(3)
        for width in (3, 4):
            monkeypatch.setattr(settings_module, "WIDTH", width)
            assert torch.equal(compiled(x), fn(x))
        monkeypatch.setattr(settings_module, "DEPTH", 7, raising=False)
        assert torch.equal(compiled(x), fn(x))
        monkeypatch.delattr(settings_module, "DEPTH")
        assert torch.equal(compiled(x), fn(x))


def test_the_dict_as_an_argument_too():
    def fn(x, found):
        return x * found["WIDTH"], found is settings_module.__dict__

    def written(x, found):
        found["WIDTH"] = 5
        return x * settings_module.__dict__["WIDTH"]

    compiled = dl.compile(fn, backend="eager")
    found, same = compiled(tensor(3), settings_module.__dict__)
    assert same and torch.equal(found, tensor(3) * 3)
    try:
        assert torch.equal(dl.compile(written, backend="eager")(tensor(3), vars(settings_module)), tensor(3) * 5)
    finally:
        settings_module.WIDTH = 3


def test_a_module_that_the_program_created():
    made = types.ModuleType("made")
    made.RATE = 0.5

    def fn(x):
        return x * vars(made)["RATE"], sorted(name for name in made.__dict__ if name.isupper())

    check(without_breaks(fn), tensor(3))
