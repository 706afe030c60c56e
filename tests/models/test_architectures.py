"""A sample of the benchmark's architectures, and its research programs: what eager gives, in how many graphs."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
import torch
import transformers

import dynamo_lite as dl
from programs import Recorder

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from capture import SUITES, difference, run  # noqa: E402

SAMPLE = ["deberta-v2", "gemma3", "qwen2-moe", "mamba2", "bart", "swin", "siglip", "wav2vec2"]

BROKEN = {
    "rollout": "its next step is chosen by .item()",
    "beam-search": "it ends by a tensor's value",
    "gpt2-generate": "so does generate()",
    "gpt2-sample": "so does generate()",
    "distributions": "they check their arguments",
}


def compare(suite, name, train, calls):
    """Compares eager and compiled several times. Returns the number of graphs of the first call."""
    torch.manual_seed(0)
    model = SUITES[suite][name]()
    eager, module = (copy.deepcopy(model.module).train(train) for _ in range(2))
    recorder = Recorder()
    compiled = dl.compile(module, backend=recorder)
    graphs = []
    for _ in range(calls):
        assert difference(run(model, eager, eager, train), run(model, module, compiled, train)) == ""
        graphs.append(len(recorder.graphs))
    assert graphs[-1] == graphs[0] or graphs[0] > 1
    return graphs[0]


@pytest.mark.skipif(
    tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 23),
    reason="how many graphs a model makes is a matter of how its library writes it",
)
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", SAMPLE)
def test_architecture(name, train):
    graphs = compare("transformers", name, train, calls=1)
    assert graphs == 1 and dl.counters.graph_breaks == 0, dl.counters.break_reasons


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", SUITES["research"])
def test_research_program(name, train):
    if name.startswith("timm"):
        pytest.importorskip("timm", exc_type=ImportError)
    if train and not SUITES["research"][name]().trains:
        pytest.skip("it is not trained")
    graphs = compare("research", name, train, calls=2)
    if name not in BROKEN:
        assert graphs == 1 and dl.counters.graph_breaks == 0, dl.counters.break_reasons
