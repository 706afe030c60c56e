"""Polyfills of ``torch.distributed``: ``is_initialized`` reads the variable that torch keeps, so that it is guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed
from torch.distributed import distributed_c10d


def is_initialized() -> bool:
    return distributed_c10d._world._default_pg is not None


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {torch.distributed.is_initialized: is_initialized}
