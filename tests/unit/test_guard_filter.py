"""``options={"guard_filter_fn": fn}``: the filter's arguments, and that dropped guards aren't checked."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, tensor

torch._dynamo = pytest.importorskip("torch._dynamo")

FACTOR = 2.0


def filtered(fn, guard_filter, **settings):
    recorder = Recorder()
    return dl.compile(fn, backend=recorder, options={"guard_filter_fn": guard_filter}, **settings), recorder


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.scale = 2.0

    def forward(self, x):
        return self.linear(x) * self.scale * FACTOR


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) + 1


def test_filter_receives_a_description_of_every_guard():
    shown = {}

    def keep_all(guards):
        shown.update({(each.name, each.guard_type): each for each in guards})
        return [True for _ in guards]

    module, x = Scaled(), tensor(2, 3)
    compiled, recorder = filtered(module, keep_all)
    assert torch.equal(compiled(x), module(x))
    compiled(tensor(2, 3).double().float())
    assert len(recorder.graphs) == 1

    given = shown["x", "TENSOR_MATCH"]
    assert given.value is x and given.has_value and not given.is_global
    assert str(given.orig_guard) == "x is a torch.float32 tensor on cpu of shape (2, 3)"
    assert not given.orig_guard.source.is_unspecialized_nn_module()
    weight = shown["self.linear.weight", "TENSOR_MATCH"]
    assert weight.value is module.linear.weight and weight.orig_guard.source.is_unspecialized_builtin_nn_module()
    scale = shown["self.scale", "EQUALS_MATCH"]
    assert scale.value == 2.0 and scale.orig_guard.source.is_unspecialized_nn_module()
    assert not scale.orig_guard.source.is_unspecialized_builtin_nn_module()
    assert ("", "GLOBAL_STATE") in shown and not shown["", "GLOBAL_STATE"].has_value
    (factor,) = [each for (name, _), each in shown.items() if name.endswith("FACTOR")]
    assert factor.is_global and factor.guard_type == "EQUALS_MATCH"


def changes(module):
    """Makes a call, then calls after one change each. The changes are undone."""
    yield "nothing", tensor(2, 3)
    yield "dtype of the argument", tensor(2, 3).double()
    global FACTOR
    FACTOR = 3.0
    yield "a global", tensor(2, 3)
    FACTOR = 2.0
    module.scale = 3.0
    yield "an attribute of the program's module", tensor(2, 3)
    module.scale = 2.0
    module.linear.forward = lambda x: x
    yield "a method of torch's module", tensor(2, 3)
    del module.linear.forward
    with torch.autocast("cpu"):
        yield "autocast", tensor(2, 3)


def misses(call, recorder, module):
    """What makes a call compile again. Of graphs that don't fit the call any more, errors are ignored."""
    found = []
    for change, x in changes(module):
        before = len(recorder.graphs)
        try:
            call(x)
        except RuntimeError as error:
            assert "dtype" in str(error)
        if len(recorder.graphs) > before:
            found.append(change)
    return found


@pytest.mark.parametrize(
    "name",
    [
        "skip_guard_on_inbuilt_nn_modules_unsafe",
        "skip_guard_on_all_nn_modules_unsafe",
        "keep_tensor_guards_unsafe",
        "skip_guard_on_globals_unsafe",
        "skip_all_guards_unsafe",
    ],
)
def test_filters_of_torchs_leave_out_what_they_do_there(name):
    guard_filter = getattr(torch.compiler, name)
    module, theirs = Scaled(), Recorder()
    compiled, ours = filtered(module, guard_filter)
    by_torch = torch.compile(module, backend=theirs, options={"guard_filter_fn": guard_filter})
    try:
        assert misses(compiled, ours, module) == misses(by_torch, theirs, module)
    finally:
        torch._dynamo.reset()


def test_relations_hold_among_the_tensors_that_are_checked():
    def writes(x, y):
        x.add_(1)
        return x * y

    compiled, _ = filtered(writes, torch.compiler.keep_tensor_guards_unsafe)
    compiled(tensor(3), tensor(3))
    x = tensor(3)
    assert torch.equal(compiled(x, x), (tensor(3) + 1) ** 2)


def test_assumptions_on_sizes_are_guards():
    def halves(x):
        return x[: x.shape[0] // 2] if x.shape[0] % 2 == 0 else x

    for kept, expected in (("SHAPE_ENV", 1), ("TENSOR_MATCH", 2)):
        compiled, recorder = filtered(
            halves, lambda guards, kept=kept: [each.guard_type == kept for each in guards], dynamic=True
        )
        compiled(tensor(4))
        assert compiled(tensor(6).double() if expected == 2 else tensor(6)).shape == (3,)
        assert len(recorder.graphs) == expected


def test_modules_of_other_classes_are_told_apart():
    """Torch calls all modules by the same code."""
    first, second = Scaled(), Shifted()

    def both(x):
        y = first(x)
        dl.graph_break()
        return second(y)

    x = tensor(2, 3)
    compiled, _ = filtered(both, torch.compiler.skip_all_guards_unsafe)
    with torch.no_grad():
        assert torch.equal(compiled(x), both(x))
    one, _ = filtered(first, torch.compiler.skip_all_guards_unsafe)
    two, _ = filtered(second, torch.compiler.skip_all_guards_unsafe)
    assert torch.equal(one(x), first(x)) and torch.equal(two(x), second(x))
    calls = dl.compile(
        lambda module, x: module(x),
        backend="eager",
        options={"guard_filter_fn": lambda guards: [each.name != "x" for each in guards]},
    )
    assert torch.equal(calls(first, x), first(x)) and torch.equal(calls(second, x), second(x))


def test_closures_share_nothing():
    def scaled(by):
        return filtered(lambda x: x * by, torch.compiler.skip_all_guards_unsafe)[0]

    two, three = scaled(2), scaled(3)
    assert torch.equal(two(tensor(3)), tensor(3) * 2) and torch.equal(three(tensor(3)), tensor(3) * 3)


def test_changed_value_of_a_dropped_guard_does_not_crash():
    def uses(x, sizes, names):
        total = x
        for size in sizes:
            total = total + size
        return total * names["a"] + len(names)

    compiled, recorder = filtered(uses, torch.compiler.skip_all_guards_unsafe)
    compiled(tensor(3), [1, 2], {"a": tensor(3)})
    for others in ((None, 5, "a"), ("x", (), {}), (tensor(3), [], {"a": 3}), (3, [None], {"b": 1})):
        try:
            compiled(*others)
        except (TypeError, AttributeError, RuntimeError, KeyError):
            pass


def test_filter_arguments_are_not_kept_alive():
    seen = []

    def fn(x, box):
        return x * box["factor"]

    def note(guards):
        seen.extend(weakref.ref(each.value) for each in guards if isinstance(each.value, torch.Tensor))
        return [True] * len(guards)

    compiled, _ = filtered(fn, note)
    compiled(tensor(3), {"factor": tensor(3)})
    gc.collect()
    assert seen and not any(each() is not None for each in seen)


def raises(guards):
    raise KeyError("no such guard")


@pytest.mark.parametrize(
    ("guard_filter", "words"),
    [
        (raises, "raised KeyError: 'no such guard'"),
        (lambda guards: [True], r"is to return \d+ bools, one for each guard, not \[True\]"),
        (lambda guards: [1] * len(guards), r"is to return \d+ bools"),
        (lambda guards: None, "raised TypeError|is to return"),
    ],
)
def test_a_filter_that_fails(guard_filter, words):
    with pytest.raises(dl.exc.GuardFilterFailed, match=f"guard_filter_fn ({words})"):
        filtered(lambda x: x + 1, guard_filter)[0](tensor(3))


def test_filter_of_none_is_ignored():
    with pytest.raises(
        TypeError, match="guard_filter_fn takes a list of guards and returns a list of bools; 3 can't be called"
    ):
        filtered(lambda x: x + 1, 3)
    compiled, _ = filtered(lambda x: x + 1, None)
    assert torch.equal(compiled(tensor(3)), tensor(3) + 1)
