"""Whether the program could see when a value dies.

By a finalizer or the callback of a weak reference, its own or that of something which it may alone hold. It is found in
C++ (`csrc/guards/finalizers.cpp`), for guards ask it as well.
"""

from __future__ import annotations

import torch

from dynamo_lite import _C

_C.set_held_elsewhere((torch.nn.Module,))

is_seen_to_die = _C.is_seen_to_die
