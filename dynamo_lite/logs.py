"""The loggers, one a subject: ``logging.getLogger("dynamo_lite.breaks").setLevel("INFO")`` shows graph breaks."""

from __future__ import annotations

import logging

import torch.distributed as dist


def rank() -> str:
    """Begins a message where several processes communicate: ``rank 1 of 2: ``; empty otherwise. The others wait, in
    the next collective, for one that compiles."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return ""
    return f"rank {dist.get_rank()} of {dist.get_world_size()}: "


breaks = logging.getLogger("dynamo_lite.breaks")
"""INFO: each graph break with its reason and place."""
guards = logging.getLogger("dynamo_lite.guards")
"""INFO: the guards of each new entry."""
recompiles = logging.getLogger("dynamo_lite.recompiles")
"""INFO: the guards that failed before a frame is translated again; among several processes also when that is done."""
code = logging.getLogger("dynamo_lite.code")
"""DEBUG: the bytecode and graph of each new entry."""
