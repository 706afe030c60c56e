"""Recurrent layers over packed sequences: packing, the layer and padding run in CPython, the rest is in graphs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import dynamo_lite as dl
from equality import Pairing
from programs import Recorder, check, tensor, without_breaks


class Classifier(nn.Module):
    """Of texts: the layer's outputs are pooled by attention, masked where there is padding."""

    def __init__(self, layer):
        super().__init__()
        self.embedding = nn.Embedding(50, 8, padding_idx=0)
        self.layer = layer(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.attention = nn.Linear(12, 1)
        self.head = nn.Linear(12, 3)

    def forward(self, text, lengths):
        embedded = self.embedding(text)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, hidden = self.layer(packed)
        if isinstance(hidden, tuple):
            hidden = hidden[0]
        output, lengths = pad_packed_sequence(output, batch_first=True)
        is_text = torch.arange(output.size(1))[None, :] < lengths[:, None]
        weights = self.attention(output).squeeze(-1).masked_fill(~is_text, float("-inf")).softmax(1)
        pooled = (weights.unsqueeze(-1) * output).sum(1)
        return self.head(pooled + torch.cat((hidden[-2], hidden[-1]), dim=1))


BATCHES = [(9, [9, 3, 5, 7]), (9, [2, 9, 4, 4]), (7, [7, 1, 2, 3, 4]), (11, [11, 10, 2]), (8, [8, 1, 1, 2, 3, 4])]


def batches():
    torch.manual_seed(0)
    return [(torch.randint(1, 50, (len(each), longest)), torch.tensor(each)) for longest, each in BATCHES]


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_batches_of_many_lengths(layer):
    """As many graphs as sizes need: other lengths in sequences of the same sizes are no other graphs."""
    torch.manual_seed(0)
    model = Classifier(layer)
    recorder = Recorder()
    compiled = dl.compile(model, backend=recorder)
    dl.counters.break_reasons.clear()
    made = []
    for args in batches():
        Pairing(exact=False).compare(model(*args), compiled(*args), "result")
        made.append(len(recorder.graphs) - sum(made))
    assert made == [2, 0, 2, 0, 0]
    assert dl.counters.graph_breaks <= 3
    assert all("depends on the lengths of the sequences" in str(reason) for reason in dl.counters.break_reasons)


def test_a_layer_with_and_without_packing():
    layer = nn.LSTM(3, 4, batch_first=True)

    def fn(x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return layer(packed)[1][0] * 2, layer(x)[0] + 1

    recorder = check(fn, tensor(2, 5, 3), [5, 3], graphs=1, breaks=2)
    assert "lstm" in recorder.targets(0)
    check(without_breaks(layer), tensor(2, 5, 3))


def test_the_layer_alone():
    """It has nothing for a graph, and says so where a graph is asked for."""
    layer = nn.GRU(3, 4, batch_first=True)
    packed = pack_padded_sequence(tensor(2, 5, 3), [5, 3], batch_first=True)
    Pairing().compare(layer(packed), dl.compile(layer, backend="eager")(packed), "result")
    with pytest.raises(dl.exc.Unsupported, match="DL0305"):
        dl.compile(layer, backend="eager", fullgraph=True)(packed)


def test_operator_that_reads_lengths_says_so():
    def fn(x, lengths):
        return torch._VF._pad_packed_sequence((x + 1).view(-1, 3), lengths, True, 0.0, 5)

    lengths = torch.tensor([2] * 5)
    for dynamic in (False, True):
        with pytest.raises(dl.exc.Unsupported) as raised:
            dl.compile(fn, backend="eager", fullgraph=True, dynamic=dynamic)(tensor(2, 5, 3), lengths)
        assert "not allocated" not in str(raised.value) and "symbolic sizes/strides" not in str(raised.value)
    check(fn, tensor(2, 5, 3), lengths, graphs=1, breaks=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_packing_is_one_graph_where_sizes_of_data_are_captured(backend):
    def fn(x, lengths):
        return torch._VF._pack_padded_sequence(x + 1, lengths, True)

    whole = dl.compile(fn, backend=backend, fullgraph=True)
    for lengths in (torch.tensor([5, 5]), torch.tensor([5, 3]), torch.tensor([4, 1])):
        x = tensor(2, 5, 3)
        Pairing().compare(fn(x, lengths), whole(x, lengths), "result")
        check(fn, x, lengths, graphs=1, breaks=1)


@pytest.mark.filterwarnings("error")
def test_a_layer_of_many_weights_makes_no_versions_of_what_reads_them():
    layer = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)

    def fn(x, lengths):
        packed = pack_padded_sequence(x * 2, lengths, batch_first=True)
        output, _ = layer(packed)
        return pad_packed_sequence(output, batch_first=True)[0] * 2

    check(fn, tensor(2, 5, 3), torch.tensor([5, 3]), graphs=2)
    assert dl.counters.recompiles < 2
