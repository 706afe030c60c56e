"""The device that the tests' programs compute on: ``DEVICE=cuda make test-fast`` runs those on a GPU that can, and
``DEVICE=cpu`` runs all under a default device, as that alone is a state of its own.

Tensors that a test doesn't place are created there. A program that can't run there in eager, because it places some of
its tensors on the CPU, is skipped. Results that differ from eager's in their last bits alone are told from wrong ones.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
import torch

DEVICE = os.environ.get("DEVICE", "cpu")
ON_CPU_ALONE = ("backends", "check", "csrc", "distributed", "export", "numpy", "report", "stress", "unit")
"""Rooms whose tests compute nothing that depends on the device, or need arrays."""

FAILS_ON_DATA = "fails_on_data"
"""The marker of tests whose operators fail on the data of tensors: on a GPU the process can't go on after that."""
ON_CPU = "on_cpu"
"""The marker of tests that place tensors on the CPU, or of which the default device changes what they count."""

PROGRAMS_FOR_CPU = (
    *("assertion_about_data", "branch_on_rank_dtype_device_and_gradient", "in_autocast_switched_off_inside"),
    *("strided_array", "tensors_made_of_tensors_of_one_number", "test_averages_of_weights"),
)
"""Programs of tables, for which the same holds as for tests with one of these markers."""

_NEEDS_CPU = (
    "on the same device",
    "device type for generator",
    "can't convert cuda",
    "only supported on CPU",
    "not implemented for 'CUDA'",
    "CUDA backend",
    "devices don't match",
    "must be on the CPU",
    "cpu tensor",
)


def use() -> None:
    """Create tensors on the device from now on."""
    if "DEVICE" in os.environ:
        torch.set_default_device(DEVICE)


def takes(item: pytest.Item, room: str) -> bool:
    """Tells whether a test can run on the device. ``room``: its first folder."""
    markers = {each.name for each in item.iter_markers()}
    if DEVICE == "cpu":
        return True
    is_for_cpu = room in ON_CPU_ALONE or any(name in item.name for name in PROGRAMS_FOR_CPU)
    return not is_for_cpu and markers.isdisjoint((FAILS_ON_DATA, ON_CPU))


def check_is_alive() -> None:
    """End the process if an operator has failed on the device: every later one would."""
    if DEVICE != "cpu":
        try:
            torch.cuda.synchronize()
        except torch.AcceleratorError:
            os._exit(3)


def skip_if_only_for_cpu(error: BaseException | None) -> None:
    """Skip the test if a program failed in eager because of where its tensors are."""
    if DEVICE != "cpu" and error is not None and any(text in str(error) for text in _NEEDS_CPU):
        pytest.skip(f"can't run on {DEVICE}: {error}")


@contextlib.contextmanager
def skips_what_is_only_for_cpu() -> Iterator[None]:
    """Skips the test if code inside the block fails because it needs a CPU."""
    try:
        yield
    except Exception as error:
        skip_if_only_for_cpu(error)
        raise


def random_state() -> bytes:
    """Returns the state of the device's own generator."""
    return b"" if DEVICE == "cpu" else torch.cuda.get_rng_state().cpu().numpy().tobytes()
