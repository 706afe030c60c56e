"""What `dynamo-lite check` runs: a callable and its inputs each."""

import torch
from textmodel.model import Classifier


def classifier():
    return Classifier(), (torch.randint(1, 100, (2, 7)),)


def lengths():
    """Texts of several lengths: one graph for all of them, with --dynamic."""
    return Classifier(), [(torch.randint(1, 100, (2, length)),) for length in (5, 8, 13)]
