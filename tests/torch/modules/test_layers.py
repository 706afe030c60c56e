"""torch's own layers: each is one graph, in training and in eval mode, and its state changes as eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from programs import approximate, check, checked, recompiling, repeated, tensor, with_gradients
from weights import seeded

# (module, shape of its input)
PLAIN = {
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, padding="same"), (1, 2, 5)),
    "conv2d": (lambda: nn.Conv2d(2, 4, 3, stride=2, groups=2, padding_mode="circular", padding=1), (1, 2, 5, 5)),
    "conv_transpose": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (1, 2, 3, 3)),
    "max_pool": (lambda: nn.MaxPool2d(2, return_indices=True), (1, 1, 4, 4)),
    "adaptive_pool": (lambda: nn.AdaptiveAvgPool2d((None, 2)), (1, 1, 4, 4)),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), (1, 1, 3, 3)),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), (1, 4, 2, 2)),
    "reflection_pad": (lambda: nn.ReflectionPad1d(1), (1, 1, 3)),
    "layer_norm": (lambda: nn.LayerNorm((2, 3)), (4, 2, 3)),
    "rms_norm": (lambda: nn.RMSNorm(3), (4, 3)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    "instance_norm": (lambda: nn.InstanceNorm1d(3), (2, 3, 4)),
    "prelu": (lambda: nn.PReLU(), (2, 3)),
    "rrelu": (lambda: nn.RReLU(), (2, 3)),
    "glu": (lambda: nn.GLU(), (2, 4)),
    "multi_dropout": (lambda: nn.Sequential(nn.Dropout(0.3), nn.Dropout1d(0.3), nn.AlphaDropout(0.2)), (2, 3)),
    "dropout2d": (lambda: nn.Dropout2d(0.5), (2, 3, 2, 2)),
    "unfold": (lambda: nn.Unfold(2), (1, 1, 3, 3)),
    "fold": (lambda: nn.Fold((3, 3), 2), (1, 4, 4)),
    "channel_shuffle": (lambda: nn.ChannelShuffle(2), (1, 4, 2, 2)),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("train", [True, False])
def test_layer(name, train):
    make, shape = PLAIN[name]
    graphs = 1 if train or name not in ("dropout2d", "multi_dropout") else (0, 1)
    check(with_gradients(seeded(make()).train(train)), tensor(*shape), graphs=graphs)


NORMS = {
    "batch_norm": (lambda: nn.BatchNorm1d(3), (4, 3)),
    "batch_norm_without_statistics": (lambda: nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 2, 2)),
    "batch_norm_without_weights": (lambda: nn.BatchNorm2d(3, affine=False), (2, 3, 2, 2)),
    "instance_norm_with_statistics": (lambda: nn.InstanceNorm2d(3, track_running_stats=True), (2, 3, 2, 2)),
}


@pytest.mark.parametrize("make, shape", NORMS.values(), ids=NORMS)
@pytest.mark.parametrize("train", [True, False])
def test_norm_keeps_its_statistics(make, shape, train):
    check(
        repeated(3)(with_gradients(make().train(train))),
        tensor(*shape),
        others=[(tensor(*shape, seed=3),)],
        all_graphs=1,
    )


@checked(tensor(2, 3, 8, 8))
def test_pooling_without_a_stride(x):
    return F.max_pool2d(x, 2), F.max_pool1d(x[0], 2), F.max_pool2d(x, 2, return_indices=True)


def test_batch_norm_without_momentum():
    # Its average is by a number of steps that is kept in a tensor.
    check(repeated(3)(recompiling(nn.BatchNorm1d(3, momentum=None))), tensor(4, 3), graphs=2, breaks=(1, 4))


# -- recurrent ---------------------------------------------------------------------------------------------------------

RECURRENT = {
    "rnn": lambda: nn.RNN(3, 4, batch_first=True),
    "rnn_relu": lambda: nn.RNN(3, 4, nonlinearity="relu"),
    "lstm": lambda: nn.LSTM(3, 4, num_layers=2, batch_first=True),
    "lstm_both_ways": lambda: nn.LSTM(3, 4, bidirectional=True),
    "lstm_projected": lambda: nn.LSTM(3, 4, proj_size=2),
    "gru": lambda: nn.GRU(3, 4, num_layers=2, dropout=0.2),
}


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("train", [True, False])
def test_recurrent_layer(name, train):
    check(with_gradients(seeded(RECURRENT[name]()).train(train)), tensor(2, 5, 3))


# -- attention ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_multi_head_attention(train, weights):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=weights)

    check(with_gradients(seeded(Model()).train(train)), tensor(2, 5, 8))


def test_multi_head_attention_with_masks():
    m = seeded(nn.MultiheadAttention(8, 2, kdim=6, vdim=4, add_bias_kv=True))
    mask = torch.triu(torch.ones(5, 3, dtype=torch.bool), 2)

    def fn(m, q, k, v, padding):
        return m(q, k, v, key_padding_mask=padding, attn_mask=mask)

    padding = torch.tensor([[False, False, True], [False, False, False]])
    check(with_gradients(fn), m, tensor(5, 2, 8), tensor(3, 2, 6), tensor(3, 2, 4), padding)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_encoder(train, norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu")
    m = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    check(with_gradients(seeded(m).train(train)), tensor(2, 5, 8))


def test_transformer_encoder_fast_path():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    m = seeded(nn.TransformerEncoder(layer, 2)).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    def fn(m, x, padding):
        with torch.no_grad():
            return m(x, src_key_padding_mask=padding)

    check(approximate(fn), m, tensor(2, 5, 8), padding, graphs=None)


@pytest.mark.parametrize("train", [True, False])
def test_whole_transformer(train):
    m = nn.Transformer(8, 2, 1, 2, 16, batch_first=True)

    def fn(m, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return m(source, target, tgt_mask=mask, tgt_is_causal=True)

    check(with_gradients(fn), seeded(m).train(train), tensor(2, 5, 8), tensor(2, 3, 8, seed=1))


# -- losses ------------------------------------------------------------------------------------------------------------

REGRESSION = {
    "l1": nn.L1Loss(),
    "mse": nn.MSELoss(reduction="sum"),
    "smooth_l1": nn.SmoothL1Loss(beta=0.5),
    "huber": nn.HuberLoss(reduction="none"),
    "soft_margin": nn.SoftMarginLoss(),
    "poisson": nn.PoissonNLLLoss(full=True),
    "kl": nn.KLDivLoss(reduction="batchmean", log_target=True),
    "binary": nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)),
}


@pytest.mark.parametrize("name", REGRESSION)
def test_loss_of_two_tensors(name):
    check(with_gradients(REGRESSION[name]), tensor(4, 3, grad=True), tensor(4, 3, seed=1))


CLASSIFICATION = {
    "cross_entropy": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1, ignore_index=1),
    "nll": nn.NLLLoss(),
    "multi_margin": nn.MultiMarginLoss(),
}


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_loss_of_classes(name):
    check(with_gradients(CLASSIFICATION[name]), tensor(4, 3, grad=True), torch.tensor([0, 2, 1, 0]))


def test_losses_of_three():
    def fn(a, p, n, y):
        triplet = nn.TripletMarginLoss()(a, p, n) + nn.TripletMarginWithDistanceLoss()(a, p, n)
        ranking = nn.MarginRankingLoss(margin=0.1)(a[:, 0], p[:, 0], y)
        cosine = nn.CosineEmbeddingLoss()(a, p, y)
        gaussian = nn.GaussianNLLLoss()(a, p, n.abs() + 1)
        return triplet + ranking + cosine + gaussian

    y = torch.tensor([1.0, -1.0, 1.0, 1.0])
    check(with_gradients(fn), tensor(4, 3, grad=True), tensor(4, 3, seed=1), tensor(4, 3, seed=2), y, graphs=(1, 3))


@checked(tensor(2, 3, grad=True), torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
@with_gradients
def test_losses_of_multiple_labels(x, y):
    return nn.MultiLabelSoftMarginLoss()(x, y) + nn.MultiLabelMarginLoss()(x, y.long()) + nn.BCELoss()(x.sigmoid(), y)
