"""Backends of other packages: installed distributions name them as entry points, in our group or in torch's."""

from __future__ import annotations

import sys

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.backends import registry

MODULE = """
import sys
loaded = sys.modules.setdefault("loads of the test's backends", [])
loaded.append(__name__)

def negating(gm, example_inputs):
    return lambda *inputs: [-result for result in gm.forward(*inputs)]

def doubling(gm, example_inputs, *, options=None):
    factor = (options or {}).get("factor", 2)
    return lambda *inputs: [factor * result for result in gm.forward(*inputs)]

no_backend = 3
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make the path hold an installed distribution with these entry points: text of its ``entry_points.txt``."""

    def installed(entry_points):
        (tmp_path / "their_backends.py").write_text(MODULE)
        info = tmp_path / "their_backends-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-backends\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(tmp_path)
        registry._entry_points.cache_clear()

    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    yield installed
    registry._entry_points.cache_clear()
    sys.modules.pop("their_backends", None)
    sys.modules.pop("loads of the test's backends", None)


def loads():
    return sys.modules.get("loads of the test's backends", [])


def program(x):
    return x + 1


@pytest.mark.parametrize("group", ["dynamo_lite.backends", "torch_dynamo_backends"])
def test_entry_point_is_found_by_name_and_loaded_on_use(install, group):
    install(f"[{group}]\nnegating = their_backends:negating\ndoubling = their_backends:doubling\n")
    assert {"negating", "doubling", "inductor"} <= set(dl.list_backends())
    assert loads() == []
    assert dl.compile(program, backend="negating")(torch.ones(1)) == -2
    assert dl.compile(program, backend="doubling")(torch.ones(1)) == 4
    assert dl.compile(program, backend="doubling", options={"factor": 3})(torch.ones(1)) == 6
    assert loads() == ["their_backends"]
    assert dl.lookup_backend("negating") is sys.modules["their_backends"].negating


def test_builtin_backends_precede_our_entry_points_and_torchs(install):
    install(
        "[torch_dynamo_backends]\nname = their_backends:negating\neager = their_backends:negating\n"
        "[dynamo_lite.backends]\nname = their_backends:doubling\n"
    )
    assert dl.compile(program, backend="name")(torch.ones(1)) == 4
    assert dl.compile(program, backend="eager")(torch.ones(1)) == 2


def test_what_torchs_own_compiler_is_given_by_that_name_is_the_same(install):
    install("[torch_dynamo_backends]\nnegating = their_backends:negating\n")
    from torch._dynamo.backends import registry as theirs

    theirs._discover_entrypoint_backends.cache_clear()
    theirs._discover_entrypoint_backends()
    try:
        assert theirs.lookup_backend("negating") is dl.lookup_backend("negating")
        assert torch.compile(program, backend="negating")(torch.ones(1)) == -2
    finally:
        for names in (theirs._BACKENDS, theirs._COMPILER_FNS):
            names.pop("negating", None)


def test_entry_point_that_fails_to_load_raises_one_error(install):
    install(
        "[torch_dynamo_backends]\ngone = their_other_backends:fn\nnameless = their_backends:fn\n"
        "number = their_backends:no_backend\n"
    )
    with pytest.raises(
        dl.exc.InvalidBackend, match="'gone' is their_other_backends:fn of a package that can't load it"
    ):
        dl.compile(program, backend="gone")
    with pytest.raises(dl.exc.InvalidBackend, match="'nameless' is their_backends:fn"):
        dl.compile(program, backend="nameless")
    with pytest.raises(dl.exc.InvalidBackend, match="of type int, which can't be called"):
        dl.compile(program, backend="number")
