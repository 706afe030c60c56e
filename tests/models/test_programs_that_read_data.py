"""Training and search programs that read numbers from tensors between their operators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import dynamo_lite as dl
from programs import Recorder, approximate, check, ints, tensor, with_gradients, without_breaks
from weights import seeded

# -- a tagger of sequences of several lengths --------------------------------------------------------------------------


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 4)

    def forward(self, tokens, lengths):
        x = self.embedding(tokens)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, (hidden, _) = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=tokens.shape[1])
        return self.head(torch.relu(out)), torch.cat([hidden[0], hidden[1]], -1)


def batch_of_tokens(rows, length):
    return ints(rows, length, high=20, seed=rows), ints(rows, high=length - 1, seed=length) + 1


def test_a_tagger_of_packed_sequences():
    """The program has two graphs around three breaks. The reasons name the data on which they depend."""
    others = [batch_of_tokens(*each) for each in ((5, 9), (3, 6), (6, 5))]
    check(with_gradients(seeded(Tagger())), *batch_of_tokens(4, 7), graphs=2, breaks=3, others=others, all_graphs=4)
    assert all("depends on the lengths of the sequences" in each for each in dl.counters.break_reasons)


# -- matching predictions with boxes -----------------------------------------------------------------------------------


@dl.disable
def assignment(costs):
    """Replaces scipy's ``linear_sum_assignment``: takes an object that converts to an array, returns indices."""
    costs = np.array(costs)
    columns = np.arange(costs.shape[1])
    rows = np.argsort(costs.min(1), kind="stable")[: len(columns)]
    return np.sort(rows), columns


@torch.no_grad()
def match(logits, boxes, targets):
    count, queries = logits.shape[:2]
    probabilities = logits.flatten(0, 1).softmax(-1)
    labels = torch.cat([each["labels"] for each in targets])
    wanted = torch.cat([each["boxes"] for each in targets])
    costs = torch.cdist(boxes.flatten(0, 1), wanted, p=1) * 5 - probabilities[:, labels]
    costs = costs.view(count, queries, -1).cpu()
    sizes = [len(each["boxes"]) for each in targets]
    indices = [assignment(part[at]) for at, part in enumerate(costs.split(sizes, -1))]
    return [(torch.as_tensor(one, dtype=torch.int64), torch.as_tensor(other)) for one, other in indices]


def predictions(*counts):
    targets = [{"labels": ints(n, high=5, seed=n), "boxes": tensor(n, 4, seed=n)} for n in counts]
    return tensor(2, 6, 5), tensor(2, 6, 4), targets


def test_a_matcher():
    """The conversion of the indices needs no graph, because it contains no tensor operations."""
    counts = [(3, 2), (1, 1), (2, 4), (4, 3), (5, 2)]
    given = [predictions(*each) for each in counts]
    recorder = Recorder()
    compiled, seen = dl.compile(match, backend=recorder), []
    for each in (given[0], given[0], *given[1:]):
        before = len(recorder.graphs)
        for found, expected in zip(compiled(*each), match(*each), strict=True):
            assert all(map(torch.equal, found, expected))
        seen.append(len(recorder.graphs) - before)
    assert seen == [2, 0, 2, 2, 0, 0]


# -- a step of proximal policy optimization ----------------------------------------------------------------------------


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, x):
        hidden = self.body(x)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


class Trainer:
    def __init__(self):
        self.policy = seeded(Policy())
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=1e-2)
        self.loss, self.steps = 0.0, 0

    def step(self, observations, actions, before, advantages, returns):
        distribution, values = self.policy(observations)
        ratio = (distribution.log_prob(actions) - before).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        loss = policy_loss + 0.5 * F.mse_loss(values, returns) - 0.01 * distribution.entropy().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
        clipped = ((ratio - 1).abs() > 0.2).float().mean().item()
        self.loss += loss.item() * len(observations)
        self.steps += 1
        return {"loss": self.loss / 4, "policy": float(policy_loss.detach()), "clipped": clipped}


def experience(rows, seed):
    return (
        tensor(rows, 4, seed=seed),
        ints(rows, high=3, seed=seed),
        *(tensor(rows, seed=seed + n) for n in (1, 2, 3)),
    )


def test_a_step_of_ppo():
    """The one break is at ``backward()``. The logged numbers are read after the graph."""

    def run(transform):
        trainer = Trainer()
        step = transform(trainer.step)
        return [(step(*experience(rows, rows)), trainer.loss) for rows in (8, 8, 5, 6)], trainer

    recorder, breaks = Recorder(), dl.counters.broken_translations
    expected, one = run(lambda f: f)
    found, other = run(lambda f: dl.compile(f, backend=recorder))
    for wanted, each in zip(expected, found, strict=True):
        assert each[1] == pytest.approx(wanted[1]) and each[0] == pytest.approx(wanted[0])
    for wanted, each in zip(one.policy.parameters(), other.policy.parameters(), strict=True):
        torch.testing.assert_close(each.grad, wanted.grad)
    assert (
        dl.counters.broken_translations == breaks + 2 and len(recorder.graphs) <= 6
    )  # one break each, in two versions


# -- beam search -------------------------------------------------------------------------------------------------------


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.cell, self.head = nn.Embedding(11, 8), nn.GRUCell(8, 8), nn.Linear(8, 11)

    def forward(self, tokens, hidden):
        hidden = self.cell(self.embedding(tokens), hidden)
        return self.head(hidden).log_softmax(-1), hidden


DECODER = seeded(Decoder())


def beams(hidden, width=3, length=5):
    hidden = hidden.expand(width, -1)
    scores = torch.tensor([0.0] + [-1e9] * (width - 1))
    tokens = torch.zeros(width, 1, dtype=torch.long)
    for _ in range(length):
        logs, hidden = DECODER(tokens[:, -1], hidden)
        scores, flat = (scores[:, None] + logs).view(-1).topk(width)
        parents = torch.div(flat, 11, rounding_mode="floor")
        tokens = torch.cat([tokens[parents], (flat % 11)[:, None]], 1)
        hidden = hidden[parents]
    return tokens, scores


@torch.no_grad()
def beam_search(hidden):
    tokens, scores = beams(hidden)
    best = scores.argmax()
    return tokens[best].tolist(), float(scores[best])


def test_beam_search():
    others = [(tensor(1, 8, seed=seed),) for seed in range(1, 4)]
    check(approximate(beam_search), tensor(1, 8), graphs=1, breaks=2, others=others, all_graphs=1)
    assert all("takes it as a number" in each for each in dl.counters.break_reasons)


def test_beam_search_that_returns_all_beams():
    def fn(hidden):
        with torch.no_grad():
            tokens, scores = beams(hidden)
        return tokens.tolist(), scores.tolist(), float(scores.max()) / tokens.shape[1]

    others = [(tensor(1, 8, seed=seed),) for seed in range(1, 4)]
    check(without_breaks(approximate(fn)), tensor(1, 8), others=others, all_graphs=1)
