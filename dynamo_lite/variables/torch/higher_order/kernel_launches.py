"""The node of a launched kernel, and what it writes into.

In eager a kernel writes into the memory of its arguments. A compiler of graphs lets it write into copies, and then
copies these back. The results are the same unless two arguments overlap and one of them is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import OverlappingWrite
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.runtime import triton_kernels
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.torch.tensors.mutated_arguments import check_mutated
from dynamo_lite.variables.torch.tensors.runtime_failures import check_failure, check_write

_IN_GRAPH = (torch.fx.Node, int, float, bool, str)
"""Types of arguments that nodes of a graph take. Other constants are kept with the launch."""


def record_launch(
    tx: Translator,
    name: str,
    kernel: triton_kernels.Kernel,
    grids: Sequence[Sequence[VariableTracker]],
    arguments: dict[str, VariableTracker],
    block_shapes: dict[str, Sequence[int]],
) -> None:
    """Record torch's operator that launches a kernel.

    Args:
        kernel: a function under ``triton.jit``, or an autotuner of one.
        grids: three integers, for each of the autotuner's configurations.
        arguments: by parameter, but for those that a configuration gives.
        block_shapes: of the tensors that tensor descriptors describe, by parameter.
    """
    all_pairs = {key: each.as_fx() for key, each in arguments.items()}
    pairs = {key: pair for key, pair in all_pairs.items() if type(pair[0]) in _IN_GRAPH}
    sizes = [[each.as_fx() for each in grid] for grid in grids]
    launch = triton_kernels.Launch(
        kernel,
        [(x[1], y[1], z[1]) for x, y, z in sizes],
        {key: pair[1] for key, pair in pairs.items()},
        {key: pair[1] for key, pair in all_pairs.items() if key not in pairs},
        block_shapes,
    )
    operands = launch.arguments()
    mutated = launch.mutated(operands)
    _check(tx, name, launch.values, mutated)
    fakes = [launch.values[key] for key in mutated]
    operands["grid"] = [tuple(size[0] for size in grid) for grid in sizes]
    operands["kwargs"] = {key: pair[0] for key, pair in pairs.items()}
    tx.graph.call("call_function", launch.operator, (), operands, None)
    tx.graph.note_writes(fakes, hidden=True)
    for fake in fakes:
        _forget_constant(tx.graph, fake)


def _check(tx: Translator, name: str, values: dict[str, Any], mutated: Iterable[str]) -> None:
    """Break the graph before a launch that can't be recorded."""
    fakes = [values[key] for key in mutated]
    check_mutated(tx, name, fakes)
    tensors = {key: value for key, value in values.items() if isinstance(value, torch.Tensor)}
    for one, other in itertools.combinations(tensors, 2):
        written = [key for key in (one, other) if key in mutated]
        pair = tensors[one], tensors[other]
        if written and share_memory(*pair) and not _are_disjoint(*pair) and not _is_in_place(*pair, written):
            unsupported(OverlappingWrite(f"the Triton kernel {name}", f"its argument {other} has, too"))
    tx.attempt.note_guards()
    check_failure(tx, name)
    check_write(tx.graph, name, fakes)


def _is_in_place(one: torch.Tensor, other: torch.Tensor, written: Sequence[str]) -> bool:
    """Whether one of two arguments is written into, and the other is the very same elements."""
    layouts = [(each.shape, each.stride(), each.storage_offset()) for each in (one, other)]
    return len(written) == 1 and layouts[0] == layouts[1]


def _are_disjoint(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two views of one memory are known to have no element in common, as two slices of a tensor along one
    dimension have none.

    The distance between them is written as steps of each stride. If the steps of a dimension, of both views, stay
    within the next larger stride, an address has only one set of indices.
    """
    if one.dtype is not other.dtype or one.stride() != other.stride():
        return False
    if other.storage_offset() < one.storage_offset():
        one, other = other, one
    rest = other.storage_offset() - one.storage_offset()
    dims = zip(one.stride(), one.shape, other.shape)
    room, is_apart = None, False
    for stride, size, other_size in sorted((each for each in dims if each[1:] != (1, 1)), reverse=True):
        if stride == 0:
            return False
        steps, rest = rest // stride, rest % stride
        if room is not None and max(size, steps + other_size) * stride > room:
            return False
        room, is_apart = stride, is_apart or bool(steps >= size)
    return bool(is_apart or rest > 0)


def _forget_constant(graph: GraphBuilder, fake: torch.Tensor) -> None:
    """The values of a small tensor that was made of constants are known while tracing, until it is written into."""
    constant = getattr(fake, "constant", None)
    if constant is not None:
        graph.fake_mode.fake_tensor_converter.invalidate_constant_aliases(constant)
