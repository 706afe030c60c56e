"""What is known of a backend before its first graph, and from its last one."""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import replace

from dynamo_lite.backends.registry import Backend
from dynamo_lite.records.surroundings import BackendTraits

_ON_AOTAUTOGRAD = weakref.WeakValueDictionary[int, Backend]()
"""Backends of users that call AOTAutograd, by id."""


def traits_of(backend: Backend) -> BackendTraits:
    """Read from the backend's attributes, or known from its last graph."""
    frees_at_once = getattr(backend, "frees_at_once", False) or id(backend) in _ON_AOTAUTOGRAD
    return BackendTraits(
        masked_writes=not frees_at_once,
        frees_at_once=frees_at_once,
        generates_kernels=getattr(backend, "generates_kernels", False),
        records_graphs=getattr(backend, "records_graphs", None),
    )


def traits_on_aotautograd(backend: Backend, traits: BackendTraits) -> BackendTraits:
    """Those of a user's backend that turned out to call AOTAutograd."""
    with contextlib.suppress(TypeError):  # not all objects can be referred to weakly
        _ON_AOTAUTOGRAD[id(backend)] = backend
    return replace(traits, frees_at_once=True, masked_writes=False)
