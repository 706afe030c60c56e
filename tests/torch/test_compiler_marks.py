"""torch.compiler's functions keep their meaning: is_compiling, disable, allow_in_graph, graph_break."""

from __future__ import annotations

import os

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, tensor, with_gradients


def test_is_compiling_in_every_spelling():
    def fn(x):
        return x + 1, [
            torch.compiler.is_compiling(),
            torch.compiler.is_dynamo_compiling(),
            torch._dynamo.is_compiling(),
            dl.is_compiling(),
        ]

    assert fn(tensor(3))[1] == [False] * 4
    assert dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))[1] == [True] * 4


def test_disabled_function_method_and_module():
    @torch.compiler.disable
    def free(x):
        assert not torch.compiler.is_compiling()
        return x * 2

    class Net(torch.nn.Module):
        @torch.compiler.disable
        def frozen(self, x):
            return x * 3

        def forward(self, x):
            return self.frozen(free(x + 1) + 1) + 1

    check(Net(), tensor(3), graphs=(2, 3), breaks=(1, 4))


def test_marks_on_tensors_change_nothing():
    def fn(x):
        return x * 2

    def around(x):
        torch._dynamo.mark_static_address(x)
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        torch._dynamo.mark_static(x)
        return fn(x)

    check(around, tensor(3), graphs=(1, 3), breaks=None)


def test_allow_in_graph_of_what_can_not_be_traced():
    """It goes into the graph as it is, also a second time and with text and keywords."""

    def reader(x, name, *, by=1):
        return x * (os.getpid() > 0) * len(name) + by  # what the process is can't be traced

    allowed = torch.compiler.allow_in_graph(reader)

    def fn(x):
        y = allowed(x + 1, "ab")
        return allowed(y, "abc", by=2) * 2

    check(fn, tensor(3), graphs=1, breaks=0)


def test_allow_in_graph_of_what_no_graph_can_take():
    def parts(x, kind):
        return kind((x * (os.getpid() > 0), "a name", x.shape))

    allowed = torch.compiler.allow_in_graph(parts)

    def fn(x):
        values, name, shape = allowed(x + 1, tuple)
        return values * 2, name, shape

    check(fn, tensor(3), graphs=3, breaks=None)


def test_allow_in_graph_of_what_returns_its_argument():
    def same(x):
        return x

    allowed = torch.compiler.allow_in_graph(same)

    check(lambda x: (allowed(x) is x, allowed(x) + 1), tensor(3), graphs=1, breaks=0)


def test_functions_of_one_code_are_allowed_each_by_itself():
    def scaled_by(k):
        def scaled(x):
            return x * k

        return scaled

    twice, thrice = dl.allow_in_graph(scaled_by(2)), dl.allow_in_graph(scaled_by(3))
    others = [(tensor(3), each) for each in (thrice, scaled_by(4), twice)]
    check(lambda x, scaled: scaled(x) + 1, tensor(3), twice, others=others, graphs=None)


def test_disallow_in_graph_of_ours():
    def fn(x):
        return torch.sub(x + 1, 1) * 2

    dl.disallow_in_graph(torch.sub)
    try:
        check(fn, tensor(3), graphs=2, breaks=1)
    finally:
        dl.allow_in_graph(torch.sub)


class Scaled(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    @torch.compiler.assume_constant_result
    def numbers(self, n):
        return {"by": [self.by, n]}

    @torch.compiler.assume_constant_result
    def shift(self):
        return torch.full((3,), float(self.by))

    def forward(self, x):
        numbers = self.numbers(3)
        numbers["by"].append(1)
        return x * self.by + self.shift(), numbers


def test_assumed_constants():
    @torch.compiler.assume_constant_result
    def number():
        return 3

    check(lambda x: x * number(), tensor(3), breaks=0)
    check(lambda x, model: model(x), tensor(3), Scaled(2), others=[(tensor(3), Scaled(5))], all_graphs=2)


@checked(tensor(3), graphs=(0, 2), breaks=None)
def test_cudagraph_step_marks(x):
    torch.compiler.cudagraph_mark_step_begin()
    return x + 1


def test_wrap_numpy():
    numpy = pytest.importorskip("numpy")

    @torch.compiler.wrap_numpy
    def inner(a, by):
        return numpy.sin(a) * by["scale"]

    check(lambda x: inner(x, {"scale": x + 1}) + 1, tensor(3), graphs=(1, 2))


def test_regions_are_compiled_with_what_calls_them():
    @torch.compiler.nested_compile_region
    def inner(x, scale=2):
        return x.sin() * scale

    check(lambda x: inner(inner(x), scale=3), tensor(3), graphs=(1, 2))


def test_settings_of_torchs_front_end():
    decorators = pytest.importorskip("torch._dynamo.decorators")

    @decorators.error_on_graph_break(False)
    def inner(x, y=1):
        return x + y

    @decorators.patch_dynamo_config(capture_scalar_outputs=True)
    def other(x):
        return x * 2

    def fn(x):
        with decorators.error_on_graph_break(True):
            x = inner(x, y=2)
        return other(x)

    check(fn, tensor(3), graphs=(1, 2))


@checked(tensor(3), graphs=(0, 2), breaks=None)
def test_set_stance_inside(x):
    with torch.compiler.set_stance("default"):
        return x + 1


@checked(tensor(3), 2, graphs=(1, 2), breaks=None)
def test_torch_check_and_assertions(x, n):
    torch._check(n > 0)
    torch._assert(x.shape[0] == 3, "wrong")
    assert x.dim() == 1
    return x * n


@checked(tensor(3), 2, others=[(tensor(3), -1)])
def test_torch_check_that_fails(x, n):
    torch._check(n > 0, lambda: f"{n} is not positive")
    return x * n


@checked(tensor(3), graphs=(1, 3), breaks=None)
def test_checks_on_data(x):
    torch._assert_async((x > -100).all())
    torch._assert(x.sum() > -100, "low")
    return x + 1


@checked(tensor(3), graphs=(1, 4), breaks=None)
def test_guard_questions_about_devices(x):
    facts = (
        torch.cuda.is_available(),
        torch.cuda.device_count(),
        torch.backends.cudnn.enabled,
        torch.backends.mps.is_available(),
        torch.version.cuda is None,
        torch.get_float32_matmul_precision(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.distributed.is_available(),
    )
    return x + 1, facts


@torch.jit.script
def scaled_sum(x: torch.Tensor, y: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    if x.dim() > 1:
        scale = scale * 2.0
    return (x + y) * scale


@checked(tensor(3), graphs=1, breaks=0)
def test_scripted_functions_are_inlined(x):
    """A scripted function refers to its original Python function."""
    return scaled_sum(x, x * 2), scaled_sum(x[None], x, scale=0.5)


def test_disabled_for_itself_alone():
    def inner(x):
        return x.sin() * 2

    @torch.compiler.disable(recursive=False)
    def outer(x):
        return inner(x) + inner(x * 2)

    check(with_gradients(lambda x: outer(x + 1) * 2), tensor(3, grad=True), graphs=3, operators=8, breaks=1)
    check(outer, tensor(3), graphs=1, operators=6, breaks=1)
