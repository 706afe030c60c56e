"""Packed sequences (`torch.nn.utils.rnn`).

Packing, unpacking, and recurrent layers on packed input break the graph: the sizes of the results depend on the lengths
of the sequences, which are tensor data.
"""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from dynamo_lite.insight.break_reasons import PackedSequences
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.registry import models_break, models_raw

for _function in (pack_padded_sequence, pad_packed_sequence):
    models_break(PackedSequences(f"torch.nn.utils.rnn.{_function.__name__}()"), _function)


def _call_layer(layer: type[nn.RNNBase], tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    if any(each.realize().python_type() is PackedSequence for each in (*args, *kwargs.values())):
        unsupported(PackedSequences(f"torch.nn.{layer.__name__} of a packed sequence"))
    return tx.inline(tx.make(layer.forward), args, kwargs)


for _layer in (nn.RNN, nn.LSTM, nn.GRU):
    models_raw(_layer.forward, partial(_call_layer, _layer))
