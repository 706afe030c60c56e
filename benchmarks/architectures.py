"""Real architectures at sizes that a two-core CPU runs in a blink, with random weights and inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Model:
    """A module, the keyword arguments it is called with, and its name."""

    name: str
    module: torch.nn.Module
    inputs: dict[str, torch.Tensor]

    def loss(self, output: Any) -> torch.Tensor:
        """A scalar that depends on every tensor of the output."""
        tensors = [value for value in output.values() if isinstance(value, torch.Tensor) and value.is_floating_point()]
        return torch.stack([value.float().pow(2).mean() for value in tensors]).sum()


def _tokens(rows: int, length: int, vocabulary: int) -> torch.Tensor:
    return torch.randint(1, vocabulary, (rows, length))


def gpt2(layers: int = 4, width: int = 128) -> Model:
    import transformers

    config = transformers.GPT2Config(
        n_layer=layers, n_head=4, n_embd=width, vocab_size=1000, n_positions=128, bos_token_id=0, eos_token_id=0
    )
    return Model("GPT-2", transformers.GPT2LMHeadModel(config), {"input_ids": _tokens(2, 32, 1000)})


def bert() -> Model:
    import transformers

    config = transformers.BertConfig(
        num_hidden_layers=4, num_attention_heads=4, hidden_size=128, intermediate_size=256, vocab_size=1000
    )
    return Model("BERT", transformers.BertForMaskedLM(config), {"input_ids": _tokens(2, 32, 1000)})


def llama() -> Model:
    import transformers

    config = transformers.LlamaConfig(
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=128,
        intermediate_size=256,
        vocab_size=1000,
    )
    return Model("Llama", transformers.LlamaForCausalLM(config), {"input_ids": _tokens(2, 32, 1000)})


def t5() -> Model:
    import transformers

    config = transformers.T5Config(
        num_layers=2, num_heads=4, d_model=128, d_kv=32, d_ff=256, vocab_size=1000, decoder_start_token_id=0
    )
    inputs = {"input_ids": _tokens(2, 32, 1000), "decoder_input_ids": _tokens(2, 16, 1000)}
    return Model("T5", transformers.T5ForConditionalGeneration(config), inputs)


def vit() -> Model:
    import transformers

    config = transformers.ViTConfig(
        num_hidden_layers=4, num_attention_heads=4, hidden_size=128, intermediate_size=256, image_size=64, patch_size=8
    )
    return Model("ViT", transformers.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 64, 64)})


def whisper() -> Model:
    import transformers

    config = transformers.WhisperConfig(
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        d_model=128,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        vocab_size=1000,
        num_mel_bins=16,
        max_source_positions=64,
        max_target_positions=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    inputs = {"input_features": torch.randn(2, 16, 128), "decoder_input_ids": _tokens(2, 16, 1000)}
    return Model("Whisper", transformers.WhisperForConditionalGeneration(config), inputs)


MODELS: dict[str, Callable[[], Model]] = {
    "gpt2": gpt2,
    "bert": bert,
    "llama": llama,
    "t5": t5,
    "vit": vit,
    "whisper": whisper,
}
