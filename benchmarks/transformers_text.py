"""Architectures of transformers that read text: encoders, decoders, mixtures of experts, state-space, both halves."""

from __future__ import annotations

from typing import Any

import torch
from architectures import Inputs, Row, tokens, two_sequences

_WIDTHS: dict[str, Any] = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
    "vocab_size": 1000,
}
_ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_CAUSAL = _WIDTHS | _ENDS | {"num_key_value_heads": 2}
_HEAD_DIM = _CAUSAL | {"head_dim": 16}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
_GPT = {"n_layer": 2, "n_head": 4, "n_embd": 64, "vocab_size": 1000, "n_positions": 128} | _ENDS
_BOTH = {
    **{"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
    **{"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 1000},
    **{"max_position_embeddings": 128, "decoder_start_token_id": 1, "forced_eos_token_id": None},
} | _ENDS
_T5 = {
    **{"num_layers": 2, "num_heads": 4, "d_model": 64, "d_kv": 16, "d_ff": 128, "vocab_size": 1000},
    **{"decoder_start_token_id": 0},
}
_LATENT = {
    **{"q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16},
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1},
    **{"moe_intermediate_size": 64, "num_key_value_heads": 4},
}
_FUNNEL = {"vocab_size": 1000, "d_model": 64, "n_head": 4, "d_head": 16, "block_sizes": [1, 1, 1], "d_inner": 128}


def _masked() -> Inputs:
    """With the mask that the model makes itself only where nobody compiles it."""
    return two_sequences()() | {"attention_mask": torch.ones(2, 32)}


ENCODERS = [
    Row("bert", "BertForMaskedLM", _WIDTHS, tokens()),
    Row("roberta", "RobertaForMaskedLM", _WIDTHS | _ENDS, tokens()),
    Row("distilbert", "DistilBertForMaskedLM", {"n_layers": 2, "n_heads": 4, "dim": 64, "hidden_dim": 128}, tokens()),
    Row("albert", "AlbertForMaskedLM", _WIDTHS | {"embedding_size": 32}, tokens()),
    Row("electra", "ElectraForMaskedLM", _WIDTHS | {"embedding_size": 32}, tokens()),
    Row(
        "deberta-v2",
        "DebertaV2ForMaskedLM",
        _WIDTHS | {"relative_attention": True, "position_buckets": 16, "pos_att_type": ["c2p", "p2c"]},
        tokens(),
    ),
    Row("mpnet", "MPNetForMaskedLM", _WIDTHS, tokens()),
    Row("modernbert", "ModernBertForMaskedLM", _WIDTHS | _ENDS | {"cls_token_id": 3, "sep_token_id": 4}, tokens()),
    Row("esm", "EsmForMaskedLM", _WIDTHS | {"pad_token_id": 0, "mask_token_id": 3}, tokens()),
    Row("roformer", "RoFormerForMaskedLM", _WIDTHS | {"embedding_size": 32}, tokens()),
    Row("xlnet", "XLNetLMHeadModel", {"vocab_size": 1000, "d_model": 64, "n_layer": 2, "n_head": 4}, tokens()),
    Row("convbert", "ConvBertForMaskedLM", _WIDTHS | {"embedding_size": 32}, tokens()),
    Row("fnet", "FNetForMaskedLM", _WIDTHS, tokens()),
    Row("funnel", "FunnelForMaskedLM", _FUNNEL, tokens()),
    Row("longformer", "LongformerForMaskedLM", _WIDTHS | {"attention_window": 8, "pad_token_id": 1}, tokens()),
]

DECODERS = [
    Row("gpt2", "GPT2LMHeadModel", _GPT, tokens()),
    Row(
        "gpt-neo",
        "GPTNeoForCausalLM",
        {"num_layers": 2, "num_heads": 4, "hidden_size": 64, "vocab_size": 1000}
        | {"attention_types": [[["global", "local"], 1]], "max_position_embeddings": 128},
        tokens(),
    ),
    Row("gpt-neox", "GPTNeoXForCausalLM", _WIDTHS, tokens()),
    Row("gpt-j", "GPTJForCausalLM", _GPT | {"rotary_dim": 8}, tokens()),
    Row(
        "opt",
        "OPTForCausalLM",
        _ENDS
        | {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "ffn_dim": 128, "vocab_size": 1000}
        | {"word_embed_proj_dim": 64, "max_position_embeddings": 128},
        tokens(),
    ),
    Row("bloom", "BloomForCausalLM", {"vocab_size": 1000, "hidden_size": 64, "n_layer": 2, "n_head": 4}, tokens()),
    Row("mpt", "MptForCausalLM", {"vocab_size": 1000, "d_model": 64, "n_layers": 2, "n_heads": 4}, tokens()),
    Row("llama", "LlamaForCausalLM", _CAUSAL, tokens()),
    Row("mistral", "MistralForCausalLM", _CAUSAL | {"sliding_window": 16}, tokens()),
    Row("qwen2", "Qwen2ForCausalLM", _CAUSAL, tokens()),
    Row("qwen3", "Qwen3ForCausalLM", _HEAD_DIM, tokens()),
    Row("gemma", "GemmaForCausalLM", _HEAD_DIM, tokens()),
    Row("gemma2", "Gemma2ForCausalLM", _HEAD_DIM | {"sliding_window": 16}, tokens()),
    Row("gemma3", "Gemma3ForCausalLM", _HEAD_DIM | {"sliding_window": 16}, tokens()),
    Row("phi", "PhiForCausalLM", _CAUSAL, tokens()),
    Row("phi3", "Phi3ForCausalLM", _CAUSAL, tokens()),
    Row("falcon", "FalconForCausalLM", _WIDTHS | _ENDS, tokens()),
    Row("stablelm", "StableLmForCausalLM", _CAUSAL, tokens()),
    Row("olmo2", "Olmo2ForCausalLM", _CAUSAL, tokens()),
    Row("cohere", "CohereForCausalLM", _CAUSAL, tokens()),
    Row("smollm3", "SmolLM3ForCausalLM", _CAUSAL, tokens()),
]

EXPERTS = [
    Row("mixtral", "MixtralForCausalLM", _CAUSAL | {"num_local_experts": 4}, tokens()),
    Row("qwen2-moe", "Qwen2MoeForCausalLM", _CAUSAL | _EXPERTS | {"shared_expert_intermediate_size": 64}, tokens()),
    Row("qwen3-moe", "Qwen3MoeForCausalLM", _HEAD_DIM | _EXPERTS, tokens()),
    Row("olmoe", "OlmoeForCausalLM", _CAUSAL | _EXPERTS, tokens()),
    Row("deepseek-v3", "DeepseekV3ForCausalLM", _CAUSAL | _LATENT, tokens()),
    Row("gpt-oss", "GptOssForCausalLM", _HEAD_DIM | {"num_local_experts": 4, "sliding_window": 16}, tokens()),
    Row("granite-moe", "GraniteMoeForCausalLM", _CAUSAL | {"num_local_experts": 4}, tokens()),
]

STATE_SPACES = [
    Row("mamba", "MambaForCausalLM", _ENDS | {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2}, tokens()),
    Row(
        "mamba2",
        "Mamba2ForCausalLM",
        _ENDS
        | {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 16}
        | {"state_size": 16, "n_groups": 2, "chunk_size": 8},
        tokens(),
    ),
    Row(
        "falcon-mamba",
        "FalconMambaForCausalLM",
        _ENDS | {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2},
        tokens(),
    ),
    Row("lfm2", "Lfm2ForCausalLM", _CAUSAL | {"full_attn_idxs": [1]}, tokens()),
    Row(
        "bamba",
        "BambaForCausalLM",
        _CAUSAL
        | {
            "mamba_n_heads": 8,
            "mamba_d_head": 16,
            "mamba_d_state": 16,
            "mamba_chunk_size": 8,
            "attn_layer_indices": [1],
        },
        tokens(),
    ),
]

BOTH = [
    Row("t5", "T5ForConditionalGeneration", _T5, two_sequences()),
    Row("bart", "BartForConditionalGeneration", _BOTH, two_sequences()),
    Row("mbart", "MBartForConditionalGeneration", _BOTH, two_sequences()),
    Row("pegasus", "PegasusForConditionalGeneration", _BOTH, two_sequences()),
    Row("marian", "MarianMTModel", _BOTH, two_sequences()),
    Row("m2m-100", "M2M100ForConditionalGeneration", _BOTH, two_sequences()),
    Row("blenderbot", "BlenderbotForConditionalGeneration", _BOTH, two_sequences()),
    Row("switch", "SwitchTransformersForConditionalGeneration", _T5 | {"num_experts": 4}, _masked),
]

ROWS = [*ENCODERS, *DECODERS, *EXPERTS, *STATE_SPACES, *BOTH]
