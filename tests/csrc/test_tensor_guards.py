"""Guards on autograd's facts about a tensor: whether it requires gradients, and whether it may be mutated."""

from __future__ import annotations

import torch

from dynamo_lite import _C
from guard_probe import Probe, check_fails, check_holds, probe


def test_accepts_writes_is_false_where_autograd_refuses_writes() -> None:
    leaf = torch.ones(6, requires_grad=True)
    for held in (torch.zeros(6), torch.zeros(6).view(-1), leaf * 2, (leaf * 2).view(-1), leaf.detach()):
        check_holds(held, "accepts_writes", None)
        assert _C.accepts_writes(held)
    with torch.no_grad():
        without_gradients = torch.zeros(6).view(-1)
    for refused in (leaf, leaf.view(-1), without_gradients, (leaf * 2).unbind()[0], 3):
        check_fails(refused, "accepts_writes", None)
        assert not _C.accepts_writes(refused)


def test_view_is_checked_again_after_its_base_requires_gradients() -> None:
    base = torch.zeros(6)
    view = base.view(-1)

    def look(p: Probe) -> None:
        p.demand(p.argument, "tensor", torch.zeros(6))
        for requires_grad in (False, True, False):
            base.requires_grad_(requires_grad)
            for _ in range(6):  # the later ones are replayed
                assert p.holds() != requires_grad

    probe(view, look)
