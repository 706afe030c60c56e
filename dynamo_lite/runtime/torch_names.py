"""Internal names of torch that differ between its versions. Others import them from here."""

from __future__ import annotations

try:
    from torch._custom_class_base import CustomClassBase, CustomClassBaseMeta
except ModuleNotFoundError:  # before torch 2.14
    from torch._opaque_base import OpaqueBase as CustomClassBase
    from torch._opaque_base import OpaqueBaseMeta as CustomClassBaseMeta

__all__ = ["CustomClassBase", "CustomClassBaseMeta"]
