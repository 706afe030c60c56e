"""The package ``torch.distributed``: whether there is a process group is read, and guarded, where torch keeps it."""

from __future__ import annotations

from typing import Any

import torch.distributed
from torch.distributed import distributed_c10d


def is_initialized() -> bool:
    return distributed_c10d._world._default_pg is not None


TABLE: dict[Any, Any] = {torch.distributed.is_initialized: is_initialized}
