"""Queries of devices and settings of backends that a compiled function branches on."""

from __future__ import annotations

import warnings

import pytest
import torch

import dynamo_lite as dl
from programs import checked, tensor


@checked(tensor(3))
def test_what_the_build_supports(x):
    return x + len(torch.cuda.get_arch_list()) + len(torch.version.cuda or "") + torch.cuda.device_count()


@checked(tensor(3))
def test_accelerators(x):
    found = torch.accelerator.current_accelerator()
    return x + torch.accelerator.device_count(), found, torch.accelerator.is_available()


@checked(tensor(3))
def test_settings_of_cudnn(x):
    flags = torch.backends.cudnn
    return x + (flags.version() or 0), flags.benchmark, flags.deterministic, flags.allow_tf32


@checked(tensor(3))
def test_settings_of_matmul(x):
    matmul = torch.backends.cuda.matmul
    reduced = matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction
    return x + 1, reduced, matmul.allow_tf32, matmul.fp32_precision, matmul.allow_fp16_accumulation


@checked(tensor(3))
def test_modules_of_devices(x):
    return x + torch.get_device_module(x.device).device_count()


@checked(tensor(3))
def test_capturing_where_the_build_may_lack_it(x):
    try:
        capturing = torch.cuda.is_current_stream_capturing()
    except RuntimeError as error:
        return x + 1, str(error)
    return x + 2, capturing


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
@checked(tensor(3))
def test_a_device_that_is_not_there(x):
    try:
        torch.cuda.current_device()
    except (AssertionError, RuntimeError):
        return x + 1
    return x + 2


def test_a_setting_that_changes_is_guarded():
    def fn(x):
        return x * 2 if torch.backends.cuda.matmul.allow_fp16_accumulation else x + 1

    matmul = torch.backends.cuda.matmul
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    before = matmul.allow_fp16_accumulation
    try:
        for setting in (False, True, False):
            matmul.allow_fp16_accumulation = setting
            assert torch.equal(compiled(torch.ones(3)), fn(torch.ones(3)))
    finally:
        matmul.allow_fp16_accumulation = before
    assert dl.counters.graphs == 2


def test_the_old_spelling_of_autocast_warns_as_in_eager():
    def fn(x):
        with torch.cpu.amp.autocast(dtype=torch.bfloat16):
            return x @ x

    def warned(call):
        fn.__globals__.pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            found = call(tensor(3, 3))
        return found, [(each.category, str(each.message), each.filename, each.lineno) for each in given]

    expected, of_eager = warned(fn)
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        found, of_ours = warned(compiled)
        assert torch.equal(found, expected)
        assert of_ours == of_eager
    assert len(of_eager) == 1


def test_the_old_spelling_of_autocast_under_a_filter_that_raises():
    def fn(x):
        with torch.cpu.amp.autocast(dtype=torch.bfloat16):
            return x @ x

    compiled = dl.compile(fn, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (fn, compiled):
            with pytest.raises(FutureWarning, match="deprecated"):
                call(tensor(3, 3))


@checked(tensor(3, 3))
def test_the_old_spelling_of_autocast_as_a_decorator(x):
    @torch.cpu.amp.autocast(dtype=torch.bfloat16)
    def product(y):
        return y @ y

    return product(x)
