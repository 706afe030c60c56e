"""Internal names of torch that differ between its versions. Others import them from here."""

from __future__ import annotations

from collections.abc import Callable

from torch._library import opaque_object

try:
    from torch._custom_class_base import CustomClassBase, CustomClassBaseMeta
except ModuleNotFoundError:  # before torch 2.14
    from torch._opaque_base import OpaqueBase as CustomClassBase
    from torch._opaque_base import OpaqueBaseMeta as CustomClassBaseMeta

__all__ = ["CustomClassBase", "CustomClassBaseMeta", "is_custom_class"]

# The older name writes a warning to stderr where both exist.
_NAME = "is_custom_class" if hasattr(opaque_object, "is_custom_class") else "is_opaque_type"
is_custom_class: Callable[[type], bool] = getattr(opaque_object, _NAME, lambda cls: False)
"""Whether a class is registered with torch as one whose objects operators may be given, as a mesh is."""
