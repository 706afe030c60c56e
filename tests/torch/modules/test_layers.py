"""torch's own layers: each is one graph, in training and in eval mode, and its state changes as eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from programs import check, ints, tensor
from weights import seeded

# (module, shape of its input)
PLAIN = {
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, padding="same"), (1, 2, 5)),
    "conv2d": (lambda: nn.Conv2d(2, 4, 3, stride=2, groups=2, padding_mode="circular", padding=1), (1, 2, 5, 5)),
    "conv_transpose": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (1, 2, 3, 3)),
    "max_pool": (lambda: nn.MaxPool2d(2, return_indices=True), (1, 1, 4, 4)),
    "adaptive_pool": (lambda: nn.AdaptiveAvgPool2d((None, 2)), (1, 1, 4, 4)),
    "adaptive_max_pool": (lambda: nn.AdaptiveMaxPool1d(2), (1, 1, 4)),
    "avg_pool": (lambda: nn.AvgPool1d(2), (1, 1, 4)),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), (1, 1, 3, 3)),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), (1, 4, 2, 2)),
    "zero_pad": (lambda: nn.ZeroPad2d(1), (1, 1, 2, 2)),
    "reflection_pad": (lambda: nn.ReflectionPad1d(1), (1, 1, 3)),
    "layer_norm": (lambda: nn.LayerNorm((2, 3)), (4, 2, 3)),
    "rms_norm": (lambda: nn.RMSNorm(3), (4, 3)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    "instance_norm": (lambda: nn.InstanceNorm1d(3), (2, 3, 4)),
    "local_response_norm": (lambda: nn.LocalResponseNorm(2), (1, 3, 2, 2)),
    "bilinear": (lambda: nn.Sequential(nn.Linear(3, 3, bias=False)), (2, 3)),
    "prelu": (lambda: nn.PReLU(), (2, 3)),
    "rrelu": (lambda: nn.RReLU(), (2, 3)),
    "celu_inplace": (lambda: nn.Sequential(nn.Linear(3, 3), nn.CELU(inplace=True)), (2, 3)),
    "glu": (lambda: nn.GLU(), (2, 4)),
    "softmax2d": (lambda: nn.Softmax2d(), (1, 2, 2, 2)),
    "log_softmax": (lambda: nn.LogSoftmax(dim=1), (2, 3)),
    "threshold": (lambda: nn.Threshold(0.1, 20), (2, 3)),
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
    check(seeded(make()).train(train), tensor(*shape), graphs=graphs, backward=True)


NORMS = {
    "batch_norm": (lambda: nn.BatchNorm1d(3), (4, 3)),
    "batch_norm_without_statistics": (lambda: nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 2, 2)),
    "batch_norm_without_weights": (lambda: nn.BatchNorm2d(3, affine=False), (2, 3, 2, 2)),
    "instance_norm_with_statistics": (lambda: nn.InstanceNorm2d(3, track_running_stats=True), (2, 3, 2, 2)),
    "sync_batch_norm_by_itself": (lambda: nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)), (2, 3, 2, 2)),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("train", [True, False])
def test_norm_keeps_its_statistics(name, train):
    make, shape = NORMS[name]
    check(make().train(train), tensor(*shape), calls=3, backward=True, others=[(tensor(*shape, seed=3),)], all_graphs=1)


def test_pooling_without_a_stride():
    def fn(x):
        return F.max_pool2d(x, 2), F.max_pool1d(x[0], 2), F.max_pool2d(x, 2, return_indices=True)

    check(fn, tensor(2, 3, 8, 8))


def test_batch_norm_without_momentum():
    # Its average is by a number of steps that is kept in a tensor.
    check(nn.BatchNorm1d(3, momentum=None), tensor(4, 3), calls=3, graphs=2, breaks=(1, 4), recompiles=True)


def test_batch_norm_switched_between_train_and_eval():
    def build():
        m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        seeded(m)

        def program(x, train):
            m.train(train)
            return call(x)

        def call(x):
            return m(x)

        return program

    x = tensor(4, 3)
    check(build, x, True, build=True, graphs=None, others=[(x, False), (x, True), (x, False)])


def test_batch_norm_whose_statistics_are_reset():
    def build():
        m = nn.BatchNorm1d(3)

        def program(x, reset):
            if reset:
                m.reset_running_stats()
            return call(x), m.running_mean.clone(), m.num_batches_tracked.clone()

        def call(x):
            return m(x)

        return program

    x = tensor(4, 3)
    check(build, x, False, build=True, graphs=None, others=[(x, True), (x, False)])


@pytest.mark.parametrize("train", [True, False])
def test_embedding_bag(train):
    m = seeded(nn.EmbeddingBag(6, 3, mode="mean"))
    check(m.train(train), ints(2, 4, high=6), backward=True)


def test_embedding_bag_with_offsets_and_weights():
    m = seeded(nn.EmbeddingBag(6, 3, mode="sum", include_last_offset=True))
    offsets = torch.tensor([0, 2, 5])
    check(m, ints(5, high=6), offsets, tensor(5), backward=True)


def test_embedding_with_padding_and_largest_norm():
    m = seeded(nn.Embedding(6, 3, padding_idx=0, max_norm=0.5), 1.0)
    check(m, ints(2, 4, high=6), graphs=(0, 1), breaks=None)


def test_bilinear_and_distances():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.bilinear = nn.Bilinear(3, 2, 4)
            self.cosine = nn.CosineSimilarity(dim=1)
            self.distance = nn.PairwiseDistance(2)

        def forward(self, x, y):
            z = self.bilinear(x, y)
            return z, self.cosine(z, z + 1), self.distance(z, z * 2)

    check(seeded(M()), tensor(2, 3), tensor(2, 2, seed=1), backward=True)


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
    check(seeded(RECURRENT[name]()).train(train), tensor(2, 5, 3), backward=True)


def test_lstm_with_a_state_carried_on():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4, batch_first=True)

        def forward(self, x, state=None):
            out, state = self.lstm(x, state)
            out2, (h, c) = self.lstm(out[..., :3], state)
            return out2, h.detach(), c.detach()

    state = (tensor(1, 2, 4, seed=1), tensor(1, 2, 4, seed=2))
    check(seeded(Model()), tensor(2, 5, 3), operators=(6, 12), others=[(tensor(2, 5, 3), state)], all_graphs=2)


def test_cells_in_a_loop():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.gru, self.rnn = nn.LSTMCell(3, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 2)

        def forward(self, xs):
            state, h, outs = None, None, []
            for x in xs:
                state = self.lstm(x, state)
                h = self.gru(state[0], h)
                outs.append(self.rnn(h))
            return torch.stack(outs), state

    check(seeded(Model()), tensor(3, 2, 3), backward=True)


def test_packed_sequence():
    def fn(m, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = m(packed)
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)

    m = seeded(nn.GRU(3, 4, batch_first=True))
    check(fn, m, tensor(2, 5, 3), torch.tensor([3, 5]), graphs=None)


def test_packed_sequence_as_an_argument():
    packed = nn.utils.rnn.pack_sequence([tensor(4, 3), tensor(2, 3)])
    m = seeded(nn.LSTM(3, 4))
    check(lambda m, p: m(p)[0].data, m, packed, graphs=None)


def test_sequences_padded():
    def fn(a, b):
        return nn.utils.rnn.pad_sequence([a, b], batch_first=True, padding_value=-1.0)

    check(fn, tensor(4, 3), tensor(2, 3), graphs=(0, 1), breaks=None)


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

    check(seeded(Model()).train(train), tensor(2, 5, 8), backward=True)


def test_multi_head_attention_in_eval_without_gradients():
    m = seeded(nn.MultiheadAttention(8, 2, batch_first=True)).eval()

    def fn(m, x):
        with torch.no_grad():
            return m(x, x, x)

    check(fn, m, tensor(2, 5, 8), exact=False)


def test_multi_head_attention_with_masks():
    m = seeded(nn.MultiheadAttention(8, 2, kdim=6, vdim=4, add_bias_kv=True))
    mask = torch.triu(torch.ones(5, 3, dtype=torch.bool), 2)

    def fn(m, q, k, v, padding):
        return m(q, k, v, key_padding_mask=padding, attn_mask=mask)

    padding = torch.tensor([[False, False, True], [False, False, False]])
    check(fn, m, tensor(5, 2, 8), tensor(3, 2, 6), tensor(3, 2, 4), padding, backward=True)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_encoder(train, norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu")
    m = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    check(seeded(m).train(train), tensor(2, 5, 8), backward=True)


def test_transformer_encoder_fast_path():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    m = seeded(nn.TransformerEncoder(layer, 2)).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    def fn(m, x, padding):
        with torch.no_grad():
            return m(x, src_key_padding_mask=padding)

    check(fn, m, tensor(2, 5, 8), padding, graphs=None, exact=False)


def test_transformer_encoder_causal():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    m = seeded(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))

    def fn(m, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return m(x, mask=mask, is_causal=True)

    check(fn, m, tensor(2, 5, 8), backward=True)


@pytest.mark.parametrize("train", [True, False])
def test_whole_transformer(train):
    m = nn.Transformer(8, 2, 1, 2, 16, batch_first=True)

    def fn(m, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return m(source, target, tgt_mask=mask, tgt_is_causal=True)

    check(fn, seeded(m).train(train), tensor(2, 5, 8), tensor(2, 3, 8, seed=1), backward=True)


def test_whole_transformer_that_looks_into_its_mask():
    m = seeded(nn.Transformer(8, 2, 1, 1, 16, batch_first=True))
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    check(m, tensor(2, 5, 8), tensor(2, 3, 8, seed=1), kwargs={"tgt_mask": mask}, graphs=None, backward=True)


def test_transformer_decoder():
    m = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)
    check(seeded(m), tensor(3, 2, 8), tensor(5, 2, 8, seed=1), backward=True)


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
    check(REGRESSION[name], tensor(4, 3, grad=True), tensor(4, 3, seed=1), backward=True)


CLASSIFICATION = {
    "cross_entropy": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1, ignore_index=1),
    "nll": nn.NLLLoss(),
    "multi_margin": nn.MultiMarginLoss(),
}


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_loss_of_classes(name):
    check(CLASSIFICATION[name], tensor(4, 3, grad=True), torch.tensor([0, 2, 1, 0]), backward=True)


def test_losses_of_three():
    def fn(a, p, n, y):
        triplet = nn.TripletMarginLoss()(a, p, n) + nn.TripletMarginWithDistanceLoss()(a, p, n)
        ranking = nn.MarginRankingLoss(margin=0.1)(a[:, 0], p[:, 0], y)
        cosine = nn.CosineEmbeddingLoss()(a, p, y)
        gaussian = nn.GaussianNLLLoss()(a, p, n.abs() + 1)
        return triplet + ranking + cosine + gaussian

    y = torch.tensor([1.0, -1.0, 1.0, 1.0])
    check(fn, tensor(4, 3, grad=True), tensor(4, 3, seed=1), tensor(4, 3, seed=2), y, graphs=(1, 3), backward=True)


def test_losses_of_multiple_labels():
    def fn(x, y):
        return (
            nn.MultiLabelSoftMarginLoss()(x, y) + nn.MultiLabelMarginLoss()(x, y.long()) + nn.BCELoss()(x.sigmoid(), y)
        )

    check(fn, tensor(2, 3, grad=True), torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), backward=True)


def test_connectionist_loss():
    def fn(x, targets):
        return nn.CTCLoss()(x.log_softmax(-1), targets, (5, 5), (2, 2))

    check(fn, tensor(5, 2, 4, grad=True), torch.tensor([[1, 2], [3, 1]]), graphs=(1, 2), backward=True)


def test_adaptive_softmax():
    m = seeded(nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6]))
    check(lambda m, x, y: m(x, y).loss, m, tensor(6, 4), torch.tensor([0, 4, 8, 1, 5, 9]), graphs=None)
