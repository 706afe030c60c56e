import pytest
import torch
from textmodel.model import Classifier


@pytest.mark.fullgraph(dynamic=True)
def test_scores_ignore_padding():
    model = Classifier()
    text = torch.randint(1, 100, (1, 5))
    padded = torch.cat([text, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    torch.testing.assert_close(model(padded), model(text))


@pytest.mark.fullgraph(train=True)
def test_training_step():
    model = Classifier()
    model(torch.randint(1, 100, (2, 7))).sum().backward()
    assert model.score.weight.grad is not None
