"""What of torch's state a compiler's results depend on, for another process to compile under the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

_CONFIGS = ("torch._inductor.config", "torch._functorch.config")


class _Setting(NamedTuple):
    read: Callable[[], Any]
    assign: Callable[[Any], object]


def _precision(*of: str) -> _Setting:
    """How exactly float32 is computed with: of a backend, for an operation."""
    assign: Any = torch._C._set_fp32_precision_setter
    return _Setting(lambda: torch._C._get_fp32_precision_getter(*of), lambda value: assign(*of, value))


_SETTINGS: dict[str, _Setting] = {
    "grad mode": _Setting(torch.is_grad_enabled, torch._C._set_grad_enabled),
    "default dtype": _Setting(torch.get_default_dtype, torch.set_default_dtype),
    "threads": _Setting(torch.get_num_threads, torch.set_num_threads),
    "matmul precision": _Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "cuDNN": _Setting(torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
    "cuDNN's benchmarks": _Setting(torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
    "cuDNN's determinism": _Setting(torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic),
    "flash attention": _Setting(torch._C._get_flash_sdp_enabled, torch._C._set_sdp_use_flash),
    "efficient attention": _Setting(torch._C._get_mem_efficient_sdp_enabled, torch._C._set_sdp_use_mem_efficient),
    "attention of operators": _Setting(torch._C._get_math_sdp_enabled, torch._C._set_sdp_use_math),
    "cuDNN's attention": _Setting(torch._C._get_cudnn_sdp_enabled, torch._C._set_sdp_use_cudnn),
    "float32 in cuBLAS": _precision("cuda", "matmul"),
    "float32 in cuDNN": _precision("cuda", "conv"),
    "float32 in oneDNN": _precision("mkldnn", "matmul"),
    "autocast's cache": _Setting(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
}


def _read(setting: _Setting) -> Any:
    """A setting's value; None where torch doesn't say: of a precision that the program has set in the old and the new
    way."""
    try:
        return setting.read()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class TorchSettings:
    """A snapshot. Two are equal if a compiler finds the same in both."""

    values: dict[str, Any]
    autocast: dict[str, torch.dtype]
    """Device type -> the type that autocast computes in, where it is on."""
    configs: dict[str, dict[str, Any]]
    device: int | None
    """The index of the GPU in use."""

    @classmethod
    def now(cls) -> TorchSettings:
        """This thread's."""
        devices = torch._C._autocast_supported_devices()
        return cls(
            {name: _read(setting) for name, setting in _SETTINGS.items()},
            {each: torch.get_autocast_dtype(each) for each in devices if torch.is_autocast_enabled(each)},
            {name: _portable(importlib.import_module(name)) for name in _CONFIGS},
            torch.cuda.current_device() if torch.cuda.is_initialized() else None,
        )

    def apply(self) -> None:
        """Make them this process's."""
        for name, value in self.values.items():
            if _read(_SETTINGS[name]) != value:  # torch tells a setting that was made from one that wasn't
                _SETTINGS[name].assign(value)
        for device, dtype in self.autocast.items():
            torch.set_autocast_enabled(device, True)
            torch.set_autocast_dtype(device, dtype)
        for name, settings in self.configs.items():
            importlib.import_module(name).load_config(settings)
        if self.device is not None:
            torch.cuda.set_device(self.device)


def _portable(config: Any) -> dict[str, Any]:
    settings = config.save_config_portable()
    return dict(settings)
