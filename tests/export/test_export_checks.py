"""Exported programs: the checks that they make, what they refuse, and the tools that take them."""

from __future__ import annotations

import copy
import functools
import io
import timeit

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from dynamo_lite import _C
from dynamo_lite.export.exported_program import CHECKED_KINDS
from dynamo_lite.insight.break_reasons import (
    DataDependentBranch,
    DisabledCall,
    EffectOfExport,
    HandledFailureInExport,
    NotCompiledHere,
    NotExportable,
    OutputCall,
    UncaughtException,
)
from exports import Affine, check_export, exported, refusal
from programs import ints, tensor
from small_models import ResNetLike

SCALE = torch.full((3,), 3.0)
COUNT = 0


# -- what is checked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, told",
    [
        (tensor(4, 3), r"x was a torch.float32 tensor on cpu of shape \(2, 3\) .*, and is .* of shape \(4, 3\)"),
        (tensor(2, 3, dtype=torch.float64), r"and is a torch.float64 tensor"),
        (torch.empty(2, 3, device="meta"), r"and is a torch.float32 tensor on meta"),
        (tensor(3, 2).t(), r"with strides \(3, 1\) when .* with strides \(1, 2\)"),
        (tensor(2, 3, grad=True), "that requires no grad when .* that requires grad"),
        ([1, 2], "and is of type list"),
        (None, "and is of type NoneType"),
    ],
)
def test_other_tensors(given, told):
    gm, _ = dl.export(lambda x: x.sum(), tensor(2, 3))
    with pytest.raises(dl.exc.InvalidInput, match=told) as caught:
        gm(given)
    assert "dl.export it again" in str(caught.value)


def test_sizes_of_one_have_any_stride():
    gm, _ = dl.export(lambda x: x + 1, tensor(3, 1))
    assert torch.equal(gm(tensor(1, 3).t()), tensor(1, 3).t() + 1)


@pytest.mark.parametrize("given", [True, 1.0, 2, "1"])
def test_other_constants(given):
    gm, _ = dl.export(lambda x, n: x * n, tensor(3), 1)
    with pytest.raises(dl.exc.InvalidInput, match=f"n was 1 when this was exported, and is {given!r}"):
        gm(tensor(3), given)


def test_negative_zero_is_another_constant():
    gm, _ = dl.export(lambda x, n: torch.copysign(x, torch.tensor(n)), tensor(3), 0.0)
    with pytest.raises(dl.exc.InvalidInput, match=r"n was 0.0 .*, and is -0.0"):
        gm(tensor(3), -0.0)


def test_assertions_on_data_stay():
    def fn(x):
        if not (x > 0).all():
            raise AssertionError("positive")
        if (x > 5).any():
            raise ValueError("too large")
        return x.log()

    gm = check_export(fn, torch.ones(3))
    for wrong in (-torch.ones(3), torch.full((3,), 6.0)):
        with pytest.raises(RuntimeError, match="at which the program raises"):
            gm(wrong)


def test_checks_name_the_relied_on_facts():
    def fn(module, x, n):
        return module(x) * n + SCALE

    _, guards = dl.export(fn, nn.Dropout(0.5), tensor(3), 2)
    for told in ("x is a torch.float32 tensor on cpu of shape (3,)", "n == 2", "module.training", "SCALE"):
        assert any(told in guard for guard in guards), guards


def test_interpreters_check_too():
    gm, _ = dl.export(lambda x, y=None: x + 1, tensor(3))
    assert torch.equal(torch.fx.Interpreter(gm).run(tensor(3)), tensor(3) + 1)
    with pytest.raises(dl.exc.InvalidInput, match="y was left at its default"):
        torch.fx.Interpreter(gm).run(tensor(3), tensor(3))


def test_other_tools_take_it():
    gm, _ = dl.export(Affine(), tensor(3))
    assert torch.equal(torch.fx.symbolic_trace(gm)(tensor(3)), gm(tensor(3)))
    assert torch.equal(dl.compile(gm, backend="eager", fullgraph=True)(tensor(3)), gm(tensor(3)))
    assert torch.equal(torch.fx.GraphModule(gm, gm.graph)(tensor(3)), gm(tensor(3)))
    again, _ = dl.export(gm, tensor(3))
    assert torch.equal(again(tensor(3)), gm(tensor(3))) and list(again.state_dict()) == list(gm.state_dict())


def test_every_check_with_words_for_exports_is_made():
    assert {
        *(kind for kind, row in _C.CHECK_KINDS.items() if row.wanted),
        "default",
        "tensor",
        "unbound",
    } == CHECKED_KINDS


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_the_functions_own_error():
    def fn(x, y, *, k=1):
        return x

    for args, kwargs in (((1,), {}), ((1, 2, 3), {}), ((1, 2), {"z": 1}), ((1,), {"x": 2, "y": 3})):
        with pytest.raises(TypeError) as ours:
            dl.export(fn, *args, **kwargs)
        with pytest.raises(TypeError) as pythons:
            fn(*args, **kwargs)
        assert str(ours.value) == str(pythons.value)
    with pytest.raises(TypeError, match=r"Affine.forward\(\) missing 1 required positional argument: 'x'"):
        dl.export(Affine())


def test_breaks():
    def prints(x):
        y = x + 1
        print(y)
        return y

    told = refusal(OutputCall, prints, tensor(3))
    assert (
        "print() has a side effect" in told and "in test_breaks.<locals>.prints" in told and "<dl.export>" not in told
    )
    refusal(DataDependentBranch, lambda x: x + 1 if x.sum() > 0 else x, tensor(3))
    refusal(DisabledCall, dl.disable(lambda x: x + 1), tensor(3))


def test_raising_program_is_refused():
    def fn(x):
        raise ValueError("no")

    assert "ValueError('no')" in refusal(UncaughtException, fn, tensor(3))


def test_modes_of_torchs_are_refused():
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode():
        refusal(NotCompiledHere, lambda x: x + 1, tensor(3))


class Box:
    def __init__(self):
        self.value, self.items, self.table, self.kinds = 0, [], {}, set()


def _append(x, box):
    box.items.append(x)


def _set_item(x, box):
    box.table["k"] = 1


def _set_attribute(x, box):
    box.value = x


def _count(x, box):
    box.value += 1


def _delete(x, box):
    del box.value


def _add(x, box):
    box.kinds.add(1)


def _set_global(x, box):
    global COUNT
    COUNT += 1


def _tag(x, box):
    x.tag = 1


def test_seeds():
    def fn(x):
        torch.manual_seed(0)
        return x + torch.rand_like(x)

    assert "the state of random number generators" in refusal(EffectOfExport, fn, tensor(3))


@pytest.mark.parametrize(
    "effect, place",
    [
        (_append, "box.items"),
        (_set_item, "box.table"),
        (_set_attribute, "box"),
        (_count, "box"),
        (_delete, "box"),
        (_add, "box.kinds"),
        (_set_global, "the global COUNT"),
        (_tag, "x"),
    ],
)
def test_effects_that_outlive_the_call(effect, place):
    def fn(x, box):
        y = x + 1
        effect(x, box)
        return y

    box = Box()
    told = refusal(EffectOfExport, fn, tensor(3), box)
    assert f"the program writes into {place}" in told and f"in {effect.__name__}" in told, told
    assert "return the new value, and write it after the call" in told
    assert (box.value, box.items, box.table, box.kinds, COUNT) == (0, [], {}, set(), 0)


def test_effects_on_cells_and_grad_mode():
    count = 0

    def counts(x):
        nonlocal count
        count += 1
        return x + 1

    def leaves(x):
        torch.set_grad_enabled(False)
        return x + 1

    refusal(EffectOfExport, counts, tensor(3))
    refusal(EffectOfExport, leaves, tensor(3))
    assert count == 0 and torch.is_grad_enabled()


def test_undone_effects_are_allowed():
    def fn(x, box):
        box.items.append(x)
        y = box.items.pop() + 1
        before, box.value = box.value, 5
        y = y * box.value
        box.value = before
        box.table["k"] = y
        del box.table["k"]
        return y

    gm, _ = dl.export(fn, tensor(3), Box())
    box = Box()
    assert torch.equal(gm(tensor(3), box), fn(tensor(3), Box()))
    box.value = 1
    with pytest.raises(dl.exc.InvalidInput, match="box.value was 0 when this was exported, and is 1"):
        gm(tensor(3), box)


@exported(tensor(3))
def test_objects_made_inside_may_be_written(x):
    box = Box()
    box.items.append(x * 2)
    box.value = len(box.items)
    return box.items[0] * box.value


def test_failures_that_the_program_handles():
    def fn(x, at):
        try:
            return x[at]
        except IndexError:
            return x * 0

    told = refusal(HandledFailureInExport, fn, tensor(3), torch.tensor([5]))
    assert "may fail on the data, and the program handles that failure" in told and "out of the `try`" in told


@pytest.mark.parametrize(
    "fn, told",
    [
        (lambda x: (each for each in [x]), "a generator"),
        (lambda x: iter([x, x + 1]), "a list_iterator"),
        (lambda x: functools.partial(torch.add, x + 1), "partial"),
        (lambda x: nn.Linear(3, 3) and (lambda: x + 1), "a function"),
    ],
)
def test_results_that_a_graph_cannot_construct_are_refused(fn, told):
    with pytest.raises(dl.exc.Unsupported, match=told):
        dl.export(fn, tensor(3))


def test_result_that_contains_itself_is_refused():
    def fn(x):
        found = [x + 1]
        found.append(found)
        return found

    assert "a list that contains itself" in refusal(NotExportable, fn, tensor(3))


def test_a_module_is_no_result():
    module = nn.Linear(3, 3)
    refusal(NotExportable, lambda x: (module, x + 1), tensor(3))


# -- models, and the tools that take graph modules ---------------------------------------------------------------------


def test_a_convolutional_net_through_torch_export(tmp_path):
    module = ResNetLike().eval()
    x = tensor(2, 3, 16, 16)
    gm, _ = dl.export(module, x)
    program = torch.export.export(gm, (x,))
    torch.export.save(program, tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2")
    assert set(loaded.state_dict) == set(module.state_dict())
    torch.testing.assert_close(loaded.module()(x), module(x))


def test_transformers_through_torch_export():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=50, n_positions=16)
    module = transformers.GPT2LMHeadModel(config).eval()
    tokens = ints(2, 8, high=50)
    with torch.no_grad():
        expected = module(tokens, use_cache=False)
        gm, _ = dl.export(module, tokens, use_cache=False)
        found = gm(tokens, use_cache=False)
        assert type(found) is type(expected) and torch.equal(found.logits, expected.logits)
        assert set(gm.state_dict()) == set(module.state_dict()) and gm.lm_head.weight is gm.transformer.wte.weight
        aten, _ = dl.export(module, tokens, use_cache=False, aten_graph=True)
        torch.testing.assert_close(aten(tokens, use_cache=False).logits, expected.logits)
        only_tokens, _ = dl.export(functools.partial(module, use_cache=False), tokens)
        program = torch.export.export(only_tokens, (tokens,))
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        buffer.seek(0)
        torch.testing.assert_close(torch.export.load(buffer).module()(tokens).logits, expected.logits)


def test_bert_trains_from_its_exported_graph():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    module = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=50, **sizes)).train()
    tokens = ints(2, 8, high=50)
    twin = copy.deepcopy(module)
    gm, _ = dl.export(module, input_ids=tokens, labels=tokens)
    for each in (gm, twin):
        torch.manual_seed(0)
        each(input_ids=tokens, labels=tokens).loss.backward()
    for (name, one), other in zip(module.named_parameters(), twin.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None), name
        assert one.grad is None or torch.equal(one.grad, other.grad), name


def test_aten_graphs_are_of_aten_operators():
    gm, _ = dl.export(ResNetLike().eval(), tensor(2, 3, 16, 16), aten_graph=True)
    targets = {node.target for node in gm.graph.nodes if node.op == "call_function"}
    assert torch.ops.aten.convolution.default in targets
    others = {each for each in targets if not isinstance(each, torch._ops.OpOverload)}
    assert all(each.__name__ == "getitem" for each in others) and not any(
        node.op in ("call_method", "call_module") for node in gm.graph.nodes
    )


def test_checks_are_cheap():
    gm, _ = dl.export(Affine(), tensor(3))
    x, check = tensor(3), gm.graph._codegen.check
    assert min(timeit.repeat(lambda: check(x, 1.0), number=100, repeat=3)) / 100 < 100e-6


def _keywords(x, **more):
    return x * more["a"] + more["b"]


def _nested(x, **more):
    return x * more["d"]["p"] - more["l"][0]


def _left_out(x, y=None, *, a=None, **more):
    return x - more["b"] if a is None else x * a - more["b"]


def _rest_and_keywords(x, *rest, **more):
    return x + rest[0] - rest[1] * more["a"]


def _no_rest(x, *rest, a):
    return x * a - len(rest)


class _Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, *, mask=None, **more):
        return self.linear(x) * more["a"] - mask


@pytest.mark.parametrize("aten_graph", [False, True])
@pytest.mark.parametrize(
    "fn, count, names",
    [
        (_keywords, 1, "ab"),
        (_keywords, 1, "ba"),
        (_left_out, 1, "b"),
        (_left_out, 1, "ba"),
        (_left_out, 2, "ab"),
        (_rest_and_keywords, 3, "a"),
        (_no_rest, 1, "a"),
        (_Masked(), 1, ["a", "mask"]),
        (_Masked(), 1, ["mask", "a"]),
    ],
)
def test_arguments_by_name_through_torch_export(fn, count, names, aten_graph):
    args = tuple(tensor(3, 4, seed=seed) for seed in range(count))
    kwargs = {name: tensor(3, 4, seed=ord(name[0])) for name in names}
    gm, _ = dl.export(fn, *args, aten_graph=aten_graph, **kwargs)
    program = torch.export.export(gm, args, kwargs)
    others = {name: value * 2 for name, value in kwargs.items()}
    assert torch.equal(program.module()(*args, **others), fn(*args, **others))
    assert torch.equal(gm(*args, **others), fn(*args, **others))


def test_containers_by_name_through_torch_export():
    x, kwargs = tensor(3), {"d": {"p": tensor(3, seed=1)}, "l": [tensor(3, seed=2)]}
    gm, _ = dl.export(_nested, x, **kwargs)
    assert torch.equal(torch.export.export(gm, (x,), kwargs).module()(x, **kwargs), _nested(x, **kwargs))


def test_an_interpreter_of_arguments_in_another_order():
    def fn(x, a, b):
        return x * a - b

    x, a, b = (tensor(3, seed=seed) for seed in range(3))
    gm, _ = dl.export(fn, x, b=b, a=a)
    assert torch.equal(gm(x, b=b, a=a), fn(x, a, b))
    with pytest.raises(dl.exc.InvalidInput, match="an interpreter leaves out"):
        torch.fx.Interpreter(gm).run(x, b, a)
    gm, _ = dl.export(fn, x, a=a, b=b)
    assert torch.equal(torch.fx.Interpreter(gm).run(x, a, b), fn(x, a, b))


def test_an_interpreter_of_what_is_more_than_a_rest():
    gm, _ = dl.export(_rest_and_keywords, tensor(3), tensor(3), tensor(3), a=tensor(3))
    values = [tensor(3, seed=seed) for seed in range(4)]
    assert torch.equal(torch.fx.Interpreter(gm).run(*values), _rest_and_keywords(*values[:3], a=values[3]))
    with pytest.raises(dl.exc.InvalidInput, match="torch.float32 tensor .* and is .*int64"):
        torch.fx.Interpreter(gm).run(*values[:3], ints(3))
    with pytest.raises(dl.exc.InvalidInput, match="the number of arguments was 4 .*, and is 3"):
        torch.fx.Interpreter(gm).run(*values[:3])
