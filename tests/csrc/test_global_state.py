"""GlobalState: it distinguishes and names each of torch's switches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynamo_lite import _C
from guard_probe import Probe, probed


def test_global_state_differences_are_named() -> None:
    torch.set_float32_matmul_precision("highest")  # what that sets is not set at the start
    before = _C.GlobalState()
    assert before.difference(_C.GlobalState()) == ""
    with torch.no_grad():
        assert before.difference(_C.GlobalState()) == "grad mode is off, was on"
        assert before.difference(_C.GlobalState()) != ""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "autocast on cpu is on, was off" in before.difference(_C.GlobalState())
    with torch.inference_mode():
        assert "inference mode is on" in before.difference(_C.GlobalState())
    with torch.device("meta"):
        assert "depth of the torch function mode stack is 1, was 0" in before.difference(_C.GlobalState())
    with torch._C.DisableTorchFunctionSubclass():
        assert "torch function is off for subclasses, was on" in before.difference(_C.GlobalState())
    torch.set_default_dtype(torch.float64)
    assert before.difference(_C.GlobalState()) == "default dtype is Double, was Float"
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(True)
    assert "deterministic algorithms is on" in before.difference(_C.GlobalState())
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert "warn only is on" in before.difference(_C.GlobalState())
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("high")
    found = before.difference(_C.GlobalState())
    assert "float32 matmul precision is high, was highest" in found
    torch.set_float32_matmul_precision("highest")
    torch.backends.mkldnn.conv.fp32_precision = "bf16"
    assert "float32 precision of mkldnn conv is bf16, was unset" in before.difference(_C.GlobalState())
    torch.backends.mkldnn.conv.fp32_precision = "none"
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    assert f"number of threads is {threads + 1}, was {threads}" in before.difference(_C.GlobalState())
    torch.set_num_threads(threads)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert "flash attention is off, was on" in before.difference(_C.GlobalState())
    assert before.difference(_C.GlobalState()) == ""
    with pytest.raises(TypeError):
        before.difference(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _C.GlobalState(3)  # type: ignore[call-arg]


def test_global_state_tells_levels_of_functorch() -> None:
    states: list[_C.GlobalState] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        states.append(_C.GlobalState())
        return x.sum()

    outside = _C.GlobalState()
    torch.func.vmap(note)(torch.ones(2, 2))
    torch.func.grad(note)(torch.ones(2))
    torch.func.vmap(torch.func.vmap(note))(torch.ones(2, 2, 2))
    torch.func.vmap(note)(torch.ones(2, 2))
    vmap, grad, twice, again = states
    assert "functorch" in outside.difference(vmap)
    assert vmap.difference(grad) and vmap.difference(twice) and not vmap.difference(again)


def test_global_state_tells_saved_tensor_hooks() -> None:
    before = _C.GlobalState()
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved):
        assert before.difference(_C.GlobalState()) == "hooks on what autograd saves is on, was off"
        with torch.autograd.graph.save_on_cpu():
            assert before.difference(_C.GlobalState()) == ""
        assert before.difference(_C.GlobalState()) != ""
    with torch.autograd.graph.saved_tensors_hooks(len, len):
        assert before.difference(_C.GlobalState()) != ""
    assert before.difference(_C.GlobalState()) == ""


def test_global_state_tells_the_modes_on_the_stack() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    one, other = Mode(), Mode()
    with one:
        state = _C.GlobalState()
        assert state.difference(_C.GlobalState()) == ""
    with other:
        assert "other modes" in state.difference(_C.GlobalState())
    with one:
        assert state.difference(_C.GlobalState()) == ""
    with torch.device("meta"):
        state = _C.GlobalState()
    with torch.device("meta"):
        assert state.difference(_C.GlobalState()) == ""
    with torch.device("cpu"):
        assert state.difference(_C.GlobalState()) != ""


@probed(1)
def test_global_state_check_fails_after_a_change(p: Probe, _: int) -> None:
    p.tree.check(0, "global_state", _C.GlobalState(), "state")
    assert p.holds()
    with torch.no_grad():
        failure = p.failure()
        assert failure.reason == "state" and failure.kind == "global_state"
        assert failure.found == "grad mode is off, was on"
    assert p.holds()
    with torch.device("cpu"):
        assert not p.holds()
