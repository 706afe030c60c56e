"""The ``grad_fn`` of a Function's results, as the program sees it after the call."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import tensor


class Scales(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, weight):
        ctx.values, ctx.kept, ctx.facts = 1, 2, 3
        ctx.factor, ctx.shape, ctx.pair, ctx.sizes = factor, x.shape, (x * 3, None), [*x.shape, {"at": x * 2}]
        result = x * factor * weight
        ctx.save_for_backward(x, None, result, weight)
        return result, "text", x + 1

    @staticmethod
    def backward(ctx, gradient, text, other):
        x, _, _, weight = ctx.saved_tensors
        return gradient * ctx.factor * weight * ctx.pair[0] * ctx.sizes[1]["at"] * ctx.sizes[0] + other * x, None, None


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return type(value)(map(plain, value)) if type(value) in (tuple, list) else value


def both(observe):
    """What ``observe`` finds of three calls, compiled and in eager."""
    found = []
    for compile in (lambda fn: dl.compile(fn, backend="eager", fullgraph=True), lambda fn: fn):
        fn = compile(lambda x, weight: Scales.apply(x, 2, weight))
        found.append([observe(fn, tensor(3, grad=True), tensor(3, seed=1)) for _ in range(3)])
    assert found[0] == found[1]


def test_what_it_shows():
    def observe(fn, x, weight):
        y, _, z = fn(x, weight)
        node = y.grad_fn
        saved = node.saved_tensors
        identical = (saved[0] is x, saved[2].grad_fn is node, saved[3] is weight, node is z.grad_fn)
        edges = [type(edge).__name__ for edge, _ in node.next_functions]
        names = (node.name(), type(node).__name__, type(node).__module__, node.needs_input_grad, dict(node.metadata))
        return identical, edges, names, plain(vars(node)), type(node.shape), plain(saved), hasattr(node, "other")

    both(observe)


def test_saved_tensors_after_the_backward():
    def observe(fn, x, weight):
        y = fn(x, weight)[0]
        y.sum().backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.grad_fn.saved_tensors
        return x.grad.tolist()

    both(observe)


def test_hooks_get_the_gradients_of_its_arguments():
    def observe(fn, x, weight):
        y, seen = fn(x, weight)[0], []
        y.grad_fn.register_prehook(lambda given: seen.append(plain(given)))
        y.grad_fn.register_hook(lambda found, given: seen.append((plain(found), plain(given))))
        y.sum().backward()
        return seen

    both(observe)


def change_number(node):
    node.factor = 5


def change_tensor(node):
    node.pair = (torch.full((3,), 5.0), None)


def change_data(node):
    node.pair[0].mul_(2)


def change_list(node):
    node.sizes[0] = 5


def change_in_a_list(node):
    node.sizes[1]["at"] = torch.full((3,), 5.0)


def add_one(node):
    node.other = 5


CHANGES = [change_number, change_tensor, change_data, change_list, change_in_a_list, add_one]


@pytest.mark.parametrize("change", CHANGES)
def test_the_backward_reads_what_was_written_to_it(change):
    def observe(fn, x, weight):
        y = fn(x, weight)[0]
        change(y.grad_fn)
        y.sum().backward()
        return x.grad.tolist()

    both(observe)


def test_a_deleted_attribute_is_missing():
    def observe(fn, x, weight):
        y = fn(x, weight)[0]
        del y.grad_fn.factor
        with pytest.raises(AttributeError, match="'ScalesBackward' object has no attribute 'factor'"):
            y.sum().backward()

    both(observe)


class Saves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, reads):
        ctx.reads = reads
        unused = x * 3
        ctx.save_for_backward(x, unused)
        return x * 2, unused

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * ctx.saved_tensors[0] if ctx.reads else gradient, None


@pytest.mark.parametrize("reads", [False, True])
def test_a_write_into_any_saved_tensor_is_noticed(reads):
    def outcome(fn):
        x = tensor(3, grad=True)
        y, unused = fn(x)
        unused.detach().mul_(2)
        try:
            y.sum().backward()
        except RuntimeError as error:
            return str(error)
        return x.grad.tolist()

    def fn(x):
        return Saves.apply(x, reads)

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    assert [outcome(compiled) for _ in range(3)] == [outcome(fn) for _ in range(3)]
