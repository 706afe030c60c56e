"""What a break at an object or a function of C says: the name that the program knows, and what to do."""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy
import numpy.random
import pytest
import torch

import dynamo_lite as dl

LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
LIBM.cos.restype, LIBM.cos.argtypes = ctypes.c_double, [ctypes.c_double]
SCHEMA = torch._C.parse_schema("aten::f(Tensor x) -> Tensor")

_C_CODE = "it is C code, or excluded, and nothing is known of its effects"
_ALLOW = "dl.allow_in_graph puts a pure tensor function into the graph as it is; otherwise keep the call outside"
_PARTS = (
    "keep it outside of the compiled function, or pass its parts: tensors, constants, a list of what an iterator yields"
)


def cython_function(x):
    return x * numpy.random.rand()


def function_of_ctypes(x):
    return x * LIBM.cos(0.0)


def function_of_pybind(x):
    return x + len(torch._C._jit_get_all_schemas()) * 0


def object_of_pybind(x):
    return x + len(SCHEMA.arguments)


def function_of_torch(x):
    torch.set_flush_denormal(False)
    return x + 1


@pytest.mark.parametrize(
    ("fn", "said", "hint"),
    [
        (cython_function, f"DL0201: the call of numpy.random.RandomState.rand() can't be traced: {_C_CODE}", _ALLOW),
        (function_of_ctypes, f"DL0201: the call of cos() can't be traced: {_C_CODE}", _ALLOW),
        (
            function_of_pybind,
            f"DL0201: the call of torch._C._jit_get_all_schemas() can't be traced: {_C_CODE}",
            _ALLOW,
        ),
        (
            object_of_pybind,
            "DL0504: a FunctionSchema (its state is in C++) can't be used in a graph: it can only be passed on while "
            "tracing",
            _PARTS,
        ),
        (function_of_torch, f"DL0201: the call of torch.set_flush_denormal() can't be traced: {_C_CODE}", _ALLOW),
    ],
)
def test_a_break_names_it_as_the_program_does(fn, said, hint):
    (found,) = dl.explain(fn)(torch.ones(2)).breaks
    assert (f"{found.reason.code}: {found.reason.what()}", found.hint) == (said, hint)
    torch.manual_seed(0)
    if fn is not cython_function:
        torch.testing.assert_close(dl.compile(fn, backend="eager")(torch.ones(2)), fn(torch.ones(2)))


def test_a_generator_from_outside(capsys):
    def summed(x, numbers):
        for each in numbers:
            x = x + each
        return x

    found = dl.explain(summed)(torch.ones(2), (each for each in (1, 2)))
    assert found.result.tolist() == [4.0, 4.0]
    assert str(found.breaks[0].reason) == (
        "a generator (it was created outside of the compiled function) can't be used in a graph: it can only be passed "
        "on while tracing"
    )
    assert found.breaks[0].hint == _PARTS


def test_a_numpy_function_without_a_version_of_torchs(tmp_path):
    def saves(x):
        numpy.save(tmp_path / "a.npy", x.numpy())
        return x + 1

    (found,) = dl.explain(saves)(torch.ones(2)).breaks
    assert str(found.reason) == "numpy.save() can't be in a graph: torch has no version of it"
    assert numpy.load(tmp_path / "a.npy").tolist() == [1.0, 1.0]


def test_a_dict_that_grows_while_it_is_iterated_raises_as_in_eager():
    def grows(x, table):
        for key in table:
            table[key + "x"] = 1
            x = x + 1
        return x

    with pytest.raises(RuntimeError, match="^dictionary changed size during iteration$"):
        dl.compile(grows, backend="eager")(torch.ones(2), {"a": 1})


class HasAVjp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def vjp(ctx, gradient):
        return gradient * 2


def test_an_autograd_function_says_which_reason_holds():
    (found,) = dl.explain(HasAVjp.apply)(torch.ones(2, requires_grad=True)).breaks[:1]
    assert str(found.reason) == "the torch.autograd.Function HasAVjp can't be in the graph: it has a vjp"
