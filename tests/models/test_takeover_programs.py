"""Programs that call torch.compile, under ``dl.takeover``: eager's results, and torch's compiler never runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM

import dynamo_lite as dl
from programs import ints, tensor
from weights import seeded

torch._dynamo = pytest.importorskip("torch._dynamo")


@pytest.fixture(autouse=True)
def torch_compiled_nothing():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 0
    assert dl.counters.graphs > 0


def small_llama():
    torch.manual_seed(0)
    sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, max_position_embeddings=64)
    heads = dict(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads)).eval()


def compiling(backend):
    """Makes ``generate`` compile the step for one token, on a CPU as on a GPU."""
    found = CompileConfig(backend=backend, mode=None)
    found._compile_all_devices = True
    return found


def test_generate_with_a_compiled_static_cache():
    model, given = small_llama(), ints(2, 5, high=64)
    settings = dict(do_sample=False, max_new_tokens=8, pad_token_id=0)
    expected = model.generate(given, **settings)
    with dl.takeover() as taken:
        for _ in range(2):
            found = model.generate(
                given, cache_implementation="static", compile_config=compiling("aot_eager"), **settings
            )
            assert torch.equal(found, expected)
    assert taken.called == 1 and dl.counters.graph_breaks == 0


def test_generate_of_a_model_whose_forward_is_compiled():
    model, given = small_llama(), ints(1, 4, high=64)
    settings = dict(do_sample=False, max_new_tokens=6, pad_token_id=0, cache_implementation="static")
    expected = model.generate(given, **settings)
    model.forward = torch.compile(model.forward, backend="eager", fullgraph=True)
    with dl.takeover():
        assert torch.equal(model.generate(given, **settings), expected)


class Attention(nn.Module):
    """One head with a cache that it writes into."""

    def __init__(self, size, longest):
        super().__init__()
        self.project = nn.Linear(size, 3 * size)
        self.register_buffer("keys", torch.zeros(longest, size))
        self.register_buffer("values", torch.zeros(longest, size))

    def forward(self, x, at):
        query, key, value = self.project(x).chunk(3, -1)
        self.keys[at], self.values[at] = key, value
        seen = torch.arange(len(self.keys)) <= at[:, None]
        return nn.functional.scaled_dot_product_attention(query, self.keys, self.values, seen)


def test_a_decoding_loop_with_a_function_for_the_prompt_and_one_for_a_token():
    """Small inference programs compile two functions of one model, each with its own settings."""
    model = seeded(nn.ModuleDict({"attention": Attention(8, 16), "head": nn.Linear(8, 20)})).eval()
    table = tensor(20, 8)

    def step(tokens, at):
        return model["head"](model["attention"](table[tokens], at))

    def decode(prompt, prefill, decode_one_token):
        for buffer in model.buffers():
            buffer.zero_()
        tokens, at = prompt, torch.arange(len(prompt))
        chosen = prefill(tokens, at)[-1:].argmax(-1)
        found = [chosen]
        for _ in range(5):
            at = at[-1:] + 1
            chosen = decode_one_token(chosen, at).argmax(-1)
            found.append(chosen)
        return torch.cat(found)

    compiled = (
        torch.compile(step, backend="aot_eager", dynamic=True),
        torch.compile(step, backend="eager", fullgraph=True, dynamic=False),
    )
    with torch.no_grad():
        prompts = [ints(size, high=20) for size in (4, 6, 7)]
        expected = [decode(prompt, step, step) for prompt in prompts]
        with dl.takeover() as taken:
            for prompt, wanted in zip(prompts, expected):
                assert torch.equal(decode(prompt, *compiled), wanted)
    assert taken.called == 2 and dl.counters.graphs == 2


@pytest.mark.parametrize("settings", [dict(mode="reduce-overhead"), dict(options={"epilogue_fusion": False})], ids=str)
def test_inductor_with_modes_and_options(settings):
    def program(x):
        return (x.sin() * 2 + 1).sum(-1)

    compiled = torch.compile(program, **settings)
    with dl.takeover():
        torch.testing.assert_close(compiled(tensor(8, 4)), program(tensor(8, 4)))
