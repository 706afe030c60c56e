"""Namespaces whose lookups run code of the program: globals of a class derived from dict, keys derived from str."""

from __future__ import annotations

import types

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.exc import Unsupported


class Namespace(dict):
    """Doubles the number under a name, and finds `missing`."""

    def __getitem__(self, name):
        return super().__getitem__(name) * 2 if name == "number" else super().__getitem__(name)

    def __missing__(self, name):
        if name == "missing":
            return 7
        raise KeyError(name)


class Name(str):
    """A str with its own ``__eq__``, which counts its calls."""

    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


PROGRAM = compile(
    """
def scale(x):
    return torch.sin(x) * number

def finds(x):
    return torch.sin(x) * missing

def writes(x):
    global number
    number = 3
    return torch.sin(x) * number
""",
    "<program>",
    "exec",
)


def functions(namespace):
    namespace.update(torch=torch, number=5)
    exec(PROGRAM, namespace)
    return namespace


def same_three_times(fn, x, graphs):
    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(x), fn(x))
    assert dl.counters.graphs == graphs


@pytest.mark.parametrize("name", ["scale", "finds", "writes"])
def test_globals_of_a_dict_subclass_run_in_eager(name):
    fn = dict.__getitem__(functions(Namespace()), name)
    same_three_times(fn, torch.ones(2), graphs=0)
    with pytest.raises(Unsupported, match="its globals are a Namespace"):
        dl.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))


def test_builtins_of_a_dict_subclass_run_in_eager():
    namespace = {"__builtins__": Namespace(vars(__import__("builtins")))}
    same_three_times(functions(namespace)["finds"], torch.ones(2), graphs=0)


def test_call_of_a_function_with_such_globals_breaks():
    scale = dict.__getitem__(functions(Namespace()), "scale")

    def fn(x):
        return scale(x + 1) + 1

    same_three_times(fn, torch.ones(2), graphs=2)
    assert any("its globals are a Namespace" in reason for reason in dl.counters.break_reasons)


def test_entry_made_for_a_dict_doesnt_hold_for_its_subclass():
    """Both functions have the same code object."""
    plain, special = functions({})["scale"], dict.__getitem__(functions(Namespace()), "scale")
    x = torch.ones(2)
    assert plain.__code__ is special.__code__
    with dl.enable("eager"):
        for _ in range(2):
            assert torch.equal(plain(x), torch.sin(x) * 5)
            assert torch.equal(special(x), torch.sin(x) * 10)
    assert dl.counters.graphs == 1


def namespaces():
    """Programs that look up a name for which there is a key with an ``__eq__``."""
    module, holder, layer = types.ModuleType("module"), types.SimpleNamespace(), torch.nn.Linear(2, 2)
    namespace = functions({Name("number"): 4})
    written = functions({Name("number"): 4})
    for each in (module, holder, layer):
        setattr(each, Name("number"), 4)
    layer._parameters[Name("extra")] = torch.nn.Parameter(torch.ones(2))

    def fn(x):
        return x

    fn.__dict__[Name("number")] = 4
    yield "globals", namespace["scale"]
    yield "written globals", written["writes"]
    yield "callee's globals", lambda x: namespace["scale"](x) + 1
    yield "module", lambda x: x + module.number
    yield "instance", lambda x: x + holder.number
    yield "hasattr", lambda x: x + hasattr(holder, "number")
    yield "layer", lambda x: x + layer.number
    yield "parameter", lambda x: x + layer.extra
    yield "function", lambda x: x + fn.number


@pytest.mark.parametrize("name, fn", [pytest.param(name, fn, id=name) for name, fn in namespaces()])
def test_lookup_that_compares_by_own_eq_breaks(name, fn):
    x = torch.ones(2)
    expected = fn(x)
    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        before = Name.compared
        fn(x)
        in_eager = Name.compared - before
        assert torch.equal(compiled(x), expected)
        before = Name.compared
        compiled(x)
        assert Name.compared - before == in_eager


def test_a_name_with_own_eq_that_isnt_looked_up_changes_nothing():
    namespace = functions({Name("unrelated"): 4})
    same_three_times(namespace["scale"], torch.ones(2), graphs=1)
    dl.compile(namespace["scale"], backend="eager", fullgraph=True)(torch.ones(2))
