"""Loops that need tensors' values in each turn, as mixtures of experts do: few graphs a call, and no versions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import Recorder, tensor

EXPERTS = 4


class Experts(torch.nn.Module):
    """Routes each token to two experts."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(8, EXPERTS, bias=False)
        self.experts = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(EXPERTS)])

    def route(self, x):
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=-1), 2, dim=-1)
        return weights / weights.sum(-1, keepdim=True), chosen


class Masks(Experts):
    def forward(self, x):
        weights, chosen = self.route(x)
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            mask = (chosen == at).any(-1)
            if mask.any():
                weight = (weights * (chosen == at)).sum(-1)[mask]
                out[mask] += expert(x[mask]) * weight.unsqueeze(-1)
        return out


class Counts(Experts):
    def forward(self, x):
        weights, chosen = self.route(x)
        out = torch.zeros_like(x)
        for at in range(EXPERTS):
            mask = chosen == at
            if mask.sum() == 0:
                continue
            rows = mask.any(1)
            out[rows] += self.experts[at](x[rows]) * weights[mask].unsqueeze(-1)
        return out


class Lists(Experts):
    def forward(self, x):
        weights, chosen = self.route(x)
        out = torch.zeros_like(x)
        masks = F.one_hot(chosen, num_classes=EXPERTS).permute(2, 1, 0)
        for at in range(EXPERTS):
            slot, rows = torch.where(masks[at])
            if rows.shape[0] == 0:
                continue
            row_list, slot_list = rows.tolist(), slot.tolist()
            found = self.experts[at](x[None, row_list].reshape(-1, 8)) * weights[row_list, slot_list, None]
            out.index_add_(0, rows, found)
        return out


class Sorted(Experts):
    def forward(self, x):
        weights, chosen = self.route(x)
        order = chosen.view(-1).argsort()
        tokens = x[order // 2]
        counts = F.one_hot(chosen.view(-1), EXPERTS).sum(0).cpu().numpy()
        outs, start = [], 0
        for at, count in enumerate(counts):
            end = start + count
            if count == 0:
                continue
            outs.append(self.experts[at](tokens[start:end]))
            start = end
        out = torch.empty_like(tokens)
        out[order] = torch.cat(outs)
        return (out.view(*chosen.shape, -1) * weights.unsqueeze(-1)).sum(1)


class WhileInexact(torch.nn.Module):
    """Steps of a size that adapts to an error."""

    def __init__(self):
        super().__init__()
        self.field = torch.nn.Linear(8, 8)

    def forward(self, x):
        time, step = 0.0, torch.tensor(0.5)
        while time < 1:
            new = x + step * self.field(x)
            error = (new - x).abs().max()
            if error > 0.5:
                step = step / 2
                continue
            x, time = new, time + step.item()
            if step < 0.3:
                step = step * 2
        return x


def check_graphs(model, inputs, *, most):
    """Compare with eager; count the graphs that a call runs. Calls with tensors like those before compile nothing, and
    a warning, as of the limit of versions, is an error."""
    recorder = Recorder()
    compiled = dl.compile(model, backend=recorder)
    known = set()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        for x in (each for each in inputs for _ in range(2)):
            made, runs = len(recorder.graphs), recorder.runs
            torch.testing.assert_close(compiled(x), model(x))
            assert recorder.runs - runs <= most
            assert x.shape not in known or len(recorder.graphs) == made
            known.add(x.shape)
    return recorder


@pytest.mark.parametrize(("kind", "breaks"), [(Masks, 1), (Counts, 1), (Lists, 1), (Sorted, 2)])
def test_experts_of_a_loop_that_needs_data_at_several_places(kind, breaks):
    torch.manual_seed(0)
    broken = dl.counters.graph_breaks
    inputs = [tensor(40, 8, seed=1), tensor(60, 8, seed=2), tensor(80, 8, seed=3)]
    check_graphs(kind().eval(), inputs, most=EXPERTS + 1)
    assert dl.counters.graph_breaks == broken + breaks


def test_what_comes_before_such_a_loop_is_one_graph_at_other_sizes():
    recorder = check_graphs(Masks().eval(), [tensor(40, 8), tensor(50, 8)], most=EXPERTS + 1)
    at_loop = [at for at in range(len(recorder.graphs)) if "any" in recorder.targets(at)]
    assert len(at_loop) == 2
    assert all("topk" in recorder.targets(at) for at in at_loop)


def test_steps_of_a_loop_that_needs_data_at_several_places():
    torch.manual_seed(0)
    recorder = check_graphs(WhileInexact().eval(), [tensor(4, 8)], most=12)
    assert len(recorder.graphs) <= 3


def test_loops_that_need_data_at_one_place_are_compiled():
    def fn(x):
        for _ in range(6):
            x = x * 2
            if x.sum() > 0:
                x = x - 1
        return x.relu()

    recorder = check_graphs(fn, [tensor(3)], most=7)
    assert "relu" in [name for at in range(len(recorder.graphs)) for name in recorder.targets(at)]


def test_what_a_loop_calls_may_need_data_at_several_places():
    """The loop has one place, the call, and is compiled."""

    def chosen(x):
        if x.sum() > 0:
            x = x * 3
        if x.mean() > 1:
            x = x / 5
        return x

    def fn(x):
        for _ in range(4):
            x = chosen(x + 1)
        return x.relu()

    recorder = check_graphs(fn, [tensor(3)], most=9)
    assert "relu" in [name for at in range(len(recorder.graphs)) for name in recorder.targets(at)]


def test_dl_explain_says_where_a_loop_is_left():
    explanation = dl.explain(Masks())(tensor(40, 8))
    assert explanation.break_count == 1
    (line,) = [each for each in explanation.given_up if "a loop that needs tensors' values at several places" in each]
    assert "what the loop calls is compiled" in line


def test_other_sizes_at_the_limit_of_versions_leave_the_loop_without_a_warning():
    class Written(Experts):
        def forward(self, x):
            chosen = self.route(x)[1].view(-1)
            tokens = x.repeat_interleave(2, dim=0)
            out = torch.zeros_like(tokens)
            for at, expert in enumerate(self.experts):
                out[chosen == at] = expert(tokens[chosen == at])
            return out

    torch.manual_seed(0)
    model = Written()
    recorder = Recorder()
    compiled = dl.compile(model, backend=recorder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (40, 50, 1, 3, 60, 2):
            x = tensor(rows, 8, seed=rows)
            runs = recorder.runs
            torch.testing.assert_close(compiled(x), model(x))
            assert recorder.runs > runs + 1


def test_loop_over_an_array_of_numbers():
    def fn(x):
        counts = (x > 0).sum(1).numpy()
        start = np.int64(0)
        for at, count in enumerate(counts):
            start = start + count
            if start > 5:
                x = x * at
        return x, start

    compiled = dl.compile(fn, backend=Recorder())
    for seed in range(4):
        x = tensor(4, 5, seed=seed)
        expected, found = fn(x), compiled(x)
        assert torch.equal(found[0], expected[0])
        assert found[1] == expected[1] and type(found[1]) is type(expected[1])


def test_array_that_is_mutated_while_a_loop_iterates_over_it():
    def fn(x, counts):
        for at, count in enumerate(counts):
            x = x + count
            if x.sum() > 3:
                counts[at + 1 :] = counts[at + 1 :] * 2
        return x

    compiled = dl.compile(fn, backend=Recorder())
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2), np.arange(5.0)), fn(torch.ones(2), np.arange(5.0)))
