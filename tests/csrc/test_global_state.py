"""GlobalState: it distinguishes and names each of torch's switches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynamo_lite import _C
from guard_probe import Probe, probed


def changed_since(state: _C.GlobalState) -> dict[str, tuple[Any, Any]]:
    """Name of what differs -> what it is now, and what it was."""
    return {what: (now, was) for what, now, was in state.differences(_C.GlobalState())}


def test_global_state_differences_are_named() -> None:
    torch.set_float32_matmul_precision("highest")  # what that sets is not set at the start
    before = _C.GlobalState()
    assert not changed_since(before)
    with torch.no_grad():
        assert changed_since(before) == {"grad mode": ("off", "on")}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert changed_since(before)["autocast on cpu"] == ("on", "off")
    with torch.inference_mode():
        assert changed_since(before)["inference mode"] == ("on", "off")
    with torch.device("meta"):
        assert changed_since(before)["depth of the torch function mode stack"] == ("1", "0")
    with torch._C.DisableTorchFunctionSubclass():
        assert changed_since(before)["torch function"] == ("off for subclasses", "on")
    torch.set_default_dtype(torch.float64)
    assert changed_since(before) == {"default dtype": ("Double", "Float")}
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(True)
    assert changed_since(before)["deterministic algorithms"] == ("on", "off")
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert changed_since(before)["deterministic algorithms, warn only"] == ("on", "off")
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("high")
    assert changed_since(before)["float32 matmul precision"] == ("high", "highest")
    torch.set_float32_matmul_precision("highest")
    torch.backends.mkldnn.conv.fp32_precision = "bf16"
    assert changed_since(before)["float32 precision of mkldnn conv"] == ("bf16", "unset")
    torch.backends.mkldnn.conv.fp32_precision = "none"
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    assert changed_since(before)["number of threads"] == (f"{threads + 1}", f"{threads}")
    torch.set_num_threads(threads)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert changed_since(before)["flash attention"] == ("off", "on")
    assert not changed_since(before)
    with pytest.raises(TypeError):
        before.differences(3)  # type: ignore[arg-type]
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
    assert any("functorch" in what for what, *_ in outside.differences(vmap))
    assert vmap.differences(grad) and vmap.differences(twice) and not vmap.differences(again)


def test_global_state_tells_saved_tensor_hooks() -> None:
    before = _C.GlobalState()
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved):
        assert changed_since(before) == {"hooks on what autograd saves": ("on", "off")}
        with torch.autograd.graph.save_on_cpu():
            assert not changed_since(before)
        assert changed_since(before)
    with torch.autograd.graph.saved_tensors_hooks(len, len):
        assert changed_since(before)
    assert not changed_since(before)


def test_global_state_tells_the_modes_on_the_stack() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    one, other = Mode(), Mode()
    with one:
        state = _C.GlobalState()
        assert not changed_since(state)
    with other:
        assert changed_since(state) == {"the stack of torch function modes": ("another [Mode]", "[Mode]")}
    with one:
        assert not changed_since(state)
    with torch.device("meta"):
        state = _C.GlobalState()
    with torch.device("meta"):
        assert not changed_since(state)
    with torch.device("cpu"):
        assert changed_since(state)


@probed(1)
def test_global_state_check_fails_after_a_change(p: Probe, _: int) -> None:
    p.tree.check(0, "global_state", _C.GlobalState(), "state")
    assert p.holds()
    with torch.no_grad():
        failure = p.failure()
        assert failure.reason == "state" and failure.kind == "global_state"
        assert failure.differences == (("grad mode", "off", "on"),)
    assert p.holds()
    with torch.device("cpu"):
        assert not p.holds()
