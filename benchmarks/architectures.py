"""Real architectures at sizes that a two-core CPU runs in a blink, with random weights and inputs.

A row of a table says which class, with which configuration, called with which inputs. The tables are in
`transformers_text`, `transformers_other` and `research`; the few that stand for all of them are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

Inputs = dict[str, Any]


@dataclass
class Model:
    """A module, the keyword arguments it is called with, and its name. ``trains``: a loss of its output is of use."""

    name: str
    module: torch.nn.Module
    inputs: Inputs
    trains: bool = True

    def loss(self, output: Any) -> torch.Tensor:
        """A scalar that depends on every tensor of the output."""
        found = [value for value in tensors_of(output) if value.is_floating_point() and value.requires_grad]
        return torch.stack([value.float().pow(2).mean() for value in found]).sum()


def tensors_of(output: Any) -> Iterator[torch.Tensor]:
    """The tensors in tuples, lists and dicts, in order."""
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, (tuple, list, dict)):
        for value in output.values() if isinstance(output, dict) else output:
            yield from tensors_of(value)


def leaves_of(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Tensors and plain values in containers and in the attributes of objects, in order."""
    seen = set() if seen is None else seen
    if isinstance(value, (torch.Tensor, int, float, str, type(None))):
        yield value
    elif id(value) not in seen and not isinstance(value, (type, torch.nn.Module)):
        seen.add(id(value))
        if isinstance(value, dict):
            yield from leaves_of([*value.keys(), *value.values()], seen)
        elif isinstance(value, (tuple, list)):
            for item in value:
                yield from leaves_of(item, seen)
        elif hasattr(value, "__dict__") and not callable(value):
            yield from leaves_of(value.__dict__, seen)


@dataclass(frozen=True)
class Row:
    """A model of transformers. ``config``: arguments of its configuration; a dict in it configures a part."""

    key: str
    cls: str
    config: dict[str, Any]
    inputs: Callable[[], Inputs]

    def __call__(self) -> Model:
        import transformers

        cls = getattr(transformers, self.cls)
        config = cls.config_class(**self.config)
        return Model(self.key, cls(config), self.inputs())


def tokens(rows: int = 2, length: int = 32, vocabulary: int = 1000) -> Callable[[], Inputs]:
    return lambda: {"input_ids": _tokens(rows, length, vocabulary)}


def two_sequences(length: int = 32, decoded: int = 16, vocabulary: int = 1000) -> Callable[[], Inputs]:
    """What an encoder and what a decoder reads."""
    return lambda: {
        "input_ids": _tokens(2, length, vocabulary),
        "decoder_input_ids": _tokens(2, decoded, vocabulary),
    }


def pixels(size: int = 64, rows: int = 2) -> Callable[[], Inputs]:
    return lambda: {"pixel_values": torch.randn(rows, 3, size, size)}


def _tokens(rows: int, length: int, vocabulary: int) -> torch.Tensor:
    return torch.randint(10, vocabulary, (rows, length))


def _gpt2(layers: int, width: int) -> Row:
    config = {"n_layer": layers, "n_head": 4, "n_embd": width, "vocab_size": 1000, "n_positions": 128}
    return Row("GPT-2", "GPT2LMHeadModel", config | {"bos_token_id": 0, "eos_token_id": 0}, tokens())


def gpt2(layers: int = 4, width: int = 128) -> Model:
    return _gpt2(layers, width)()


_BASE = {
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "hidden_size": 128,
    "intermediate_size": 256,
}
_TEXT = _BASE | {"vocab_size": 1000}
_T5 = {"num_layers": 2, "num_heads": 4, "d_model": 128, "d_kv": 32, "d_ff": 256, "vocab_size": 1000}
_WHISPER = {
    **{"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
    **{"d_model": 128, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "vocab_size": 1000, "num_mel_bins": 16},
    **{"max_source_positions": 64, "max_target_positions": 64, "pad_token_id": 0, "bos_token_id": 1},
    **{"eos_token_id": 2, "decoder_start_token_id": 1},
}


def _whisper_inputs() -> Inputs:
    return {"input_features": torch.randn(2, 16, 128), "decoder_input_ids": _tokens(2, 16, 1000)}


MODELS: dict[str, Callable[[], Model]] = {
    "gpt2": _gpt2(4, 128),
    "bert": Row("BERT", "BertForMaskedLM", _TEXT, tokens()),
    "llama": Row("Llama", "LlamaForCausalLM", _TEXT | {"num_key_value_heads": 2}, tokens()),
    "t5": Row("T5", "T5ForConditionalGeneration", _T5 | {"decoder_start_token_id": 0}, two_sequences()),
    "vit": Row("ViT", "ViTForImageClassification", _BASE | {"image_size": 64, "patch_size": 8}, pixels()),
    "whisper": Row("Whisper", "WhisperForConditionalGeneration", _WHISPER, _whisper_inputs),
}
"""One of each kind."""
