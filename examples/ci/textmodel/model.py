"""The model: embeddings, a mixing layer, a pooled vector, scores."""

from torch import nn


class Pool(nn.Module):
    """The mean over a text's tokens, without its padding."""

    def forward(self, x, mask):
        kept = mask.unsqueeze(-1).to(x.dtype)
        return (x * kept).sum(1) / kept.sum(1).clamp(min=1)


class Classifier(nn.Module):
    def __init__(self, tokens=100, width=16, classes=3):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.pool = Pool()
        self.score = nn.Linear(width, classes)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.mix(x)
        return self.score(self.pool(x, tokens != 0))
