"""Architectures of transformers that see or hear, alone or beside text."""

from __future__ import annotations

from typing import Any

import torch
from architectures import Inputs, Row, pixels

_WIDTHS: dict[str, Any] = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
}
_PATCHES = _WIDTHS | {"image_size": 64, "patch_size": 16}
_TEXT = _WIDTHS | {"vocab_size": 1000, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_WINDOWS = {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "num_stages": 4}
_SOUND = _WIDTHS | {
    **{"conv_dim": [16, 16, 16], "conv_kernel": [10, 3, 2], "conv_stride": [5, 4, 2], "num_feat_extract_layers": 3},
    **{"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "vocab_size": 32},
    **{"mask_time_prob": 0.0, "layerdrop": 0.0},
}
_WHISPER = {
    **{"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
    **{"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 1000, "num_mel_bins": 16},
    **{"max_source_positions": 64, "max_target_positions": 64, "pad_token_id": 0, "bos_token_id": 1},
    **{"eos_token_id": 2, "decoder_start_token_id": 1},
}


def _sound() -> Inputs:
    return {"input_values": torch.randn(2, 2000)}


def _spectrum() -> Inputs:
    return {"input_features": torch.randn(2, 16, 128), "decoder_input_ids": torch.randint(10, 1000, (2, 16))}


def _text_and_image() -> Inputs:
    return {
        "input_ids": torch.randint(10, 900, (2, 16)),
        "pixel_values": torch.randn(2, 3, 64, 64),
    }


def _llava() -> Inputs:
    ids = torch.randint(10, 900, (2, 24))
    ids[:, 2:18] = 999
    return {"input_ids": ids, "pixel_values": torch.randn(2, 3, 64, 64)}


VISION = [
    Row("vit", "ViTForImageClassification", _PATCHES, pixels()),
    Row("deit", "DeiTForImageClassification", _PATCHES, pixels()),
    Row("beit", "BeitForImageClassification", _PATCHES, pixels()),
    Row("dinov2", "Dinov2ForImageClassification", _PATCHES, pixels()),
    Row("swin", "SwinForImageClassification", _WINDOWS, pixels()),
    Row("swinv2", "Swinv2ForImageClassification", _WINDOWS, pixels()),
    Row("convnext", "ConvNextForImageClassification", _STAGES, pixels()),
    Row(
        "resnet",
        "ResNetForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
        pixels(),
    ),
    Row(
        "regnet",
        "RegNetForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 4},
        pixels(),
    ),
    Row(
        "segformer",
        "SegformerForSemanticSegmentation",
        _STAGES | {"decoder_hidden_size": 16, "num_encoder_blocks": 4, "hidden_sizes": [8, 16, 24, 32]},
        pixels(),
    ),
    Row("mobilenet-v2", "MobileNetV2ForImageClassification", {"depth_multiplier": 0.25, "image_size": 64}, pixels()),
    Row(
        "mobilevit",
        "MobileViTForImageClassification",
        {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32], "image_size": 64},
        pixels(),
    ),
    Row(
        "poolformer",
        "PoolFormerForImageClassification",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
        pixels(),
    ),
    Row(
        "vit-mae",
        "ViTMAEForPreTraining",
        _PATCHES
        | {
            "decoder_hidden_size": 32,
            "decoder_num_hidden_layers": 1,
            "decoder_num_attention_heads": 4,
            "decoder_intermediate_size": 64,
        },
        pixels(),
    ),
    Row("yolos", "YolosForObjectDetection", _PATCHES | {"image_size": [64, 64], "num_detection_tokens": 8}, pixels()),
    Row(
        "levit",
        "LevitForImageClassification",
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "num_attention_heads": [2, 3, 4],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
        },
        pixels(),
    ),
]

AUDIO = [
    Row("whisper", "WhisperForConditionalGeneration", _WHISPER, _spectrum),
    Row("wav2vec2", "Wav2Vec2ForCTC", _SOUND, _sound),
    Row("hubert", "HubertForCTC", _SOUND, _sound),
    Row("wavlm", "WavLMForCTC", _SOUND, _sound),
    Row(
        "audio-spectrogram",
        "ASTForAudioClassification",
        _WIDTHS | {"num_mel_bins": 16, "max_length": 64, "patch_size": 8, "frequency_stride": 8, "time_stride": 8},
        lambda: {"input_values": torch.randn(2, 64, 16)},
    ),
]

TEXT_AND_IMAGE = [
    Row("clip", "CLIPModel", {"text_config": _TEXT, "vision_config": _PATCHES, "projection_dim": 32}, _text_and_image),
    Row("siglip", "SiglipModel", {"text_config": _TEXT, "vision_config": _PATCHES}, _text_and_image),
    Row("blip", "BlipForConditionalGeneration", {"text_config": _TEXT, "vision_config": _PATCHES}, _text_and_image),
    Row("vilt", "ViltModel", _PATCHES | {"vocab_size": 1000}, _text_and_image),
    Row("git", "GitForCausalLM", _TEXT | {"vision_config": _PATCHES}, _text_and_image),
    Row(
        "llava",
        "LlavaForConditionalGeneration",
        {
            "text_config": _TEXT | {"model_type": "llama"},
            "vision_config": _PATCHES | {"model_type": "clip_vision_model"},
            "image_token_id": 999,
            "image_token_index": 999,
        },
        _llava,
    ),
]

ROWS = [*VISION, *AUDIO, *TEXT_AND_IMAGE]
