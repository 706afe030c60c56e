"""The loggers, one a subject: ``logging.getLogger("dynamo_lite.breaks").setLevel("INFO")`` shows graph breaks."""

from __future__ import annotations

import logging

breaks = logging.getLogger("dynamo_lite.breaks")
"""INFO: each graph break with its reason and place."""
guards = logging.getLogger("dynamo_lite.guards")
"""INFO: the guards of each new entry."""
recompiles = logging.getLogger("dynamo_lite.recompiles")
"""INFO: the guards that failed before a frame is translated again."""
code = logging.getLogger("dynamo_lite.code")
"""DEBUG: the bytecode and graph of each new entry."""
