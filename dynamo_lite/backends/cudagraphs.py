"""The backend ``cudagraphs``: AOTAutograd's graphs with eager kernels, recorded as CUDA graphs in Inductor's trees."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

from dynamo_lite import _C
from dynamo_lite.runtime.shared_memory import memory_of

from .aot import Boxed, aot, boxed, run_aten


class CudaGraphs:
    """Records forward and backward and replays them.

    A graph is recorded if all of it is on one CUDA device, it mutates no inputs but parameters and buffers, and no
    operator synchronises. Other graphs run as with ``aot_eager``; the log ``torch._inductor.cudagraphs`` says why."""

    __name__ = "cudagraphs"
    frees_at_once = True

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        mark_static_inputs(gm)
        recorder = _GraphRecorder(len(example_inputs))
        compiled = aot(
            gm,
            example_inputs,
            fw_compiler=recorder.forward,
            bw_compiler=recorder.backward,
            inference_compiler=functools.partial(recorder.forward, is_inference=True),
            keep_inference_input_mutations=False,
        )
        return with_step_per_call(compiled) if recorder.device is not None else compiled

    def records_graphs(self) -> bool:
        """Whether CUDA is available. If so, floats are constants: as inputs on the CPU they would prevent recording."""
        return torch.cuda.is_available()

    @staticmethod
    def reset() -> None:
        """Free the CUDA graphs in this thread's trees."""
        if _TREES in sys.modules:
            _tree_module().reset_cudagraph_trees()


cudagraphs = CudaGraphs()

_TREES = "torch._inductor.cudagraph_trees"


def _tree_module() -> ModuleType:
    return importlib.import_module(_TREES)


def mark_static_inputs(gm: torch.fx.GraphModule) -> None:
    """Make AOTAutograd recognize inputs that are parameters and buffers, whose addresses don't change. It reads that
    from the placeholders of graphs that have the attributes of a graph captured by ``torch.compile``."""
    if "dynamo_compile_id" in gm.meta or any(True for _ in (*gm.parameters(), *gm.buffers())):
        return  # it is marked already, or it isn't a captured graph and has its parameters as attributes
    gm.meta["dynamo_compile_id"] = None
    captured: Any = gm
    captured._param_name_to_source = {}
    placeholders: Any = gm.graph.find_nodes(op="placeholder")
    for node in placeholders:
        node._dynamo_source = None


class _LastStep(threading.local):
    """The number of the last outermost call in which this thread ran CUDA graphs."""

    call: int | None = None


_last_step = _LastStep()


def with_step_per_call(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Start a new step of the CUDA graph trees at each outermost call of compiled code. A step may overwrite the
    outputs of the previous one, unless its backward is still to run."""

    def call(*inputs: object) -> Any:
        now = _C.outermost_calls()
        if _last_step.call != now:
            _last_step.call = now
            trees = _tree_module()
            for container in trees.get_obj(trees.local, "tree_manager_containers").values():
                if container.tree_manager is not None:
                    container.tree_manager.current_gen = None  # the next graph starts a generation
        return compiled(*inputs)

    return call


class _GraphRecorder:
    """Records the forward of one graph and, if that was recorded, its backward."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.checks = importlib.import_module("torch._inductor.cudagraph_utils")
        self.graph_queries = importlib.import_module("torch._inductor.utils")
        self.device: int | None = None
        """The index of the device on which the forward was recorded; None if it wasn't."""

    def forward(self, gm: torch.fx.GraphModule, example_inputs: list[Any], is_inference: bool = False) -> Boxed:
        fixed = range(self.graph_queries.num_fw_fixed_arguments(self.inputs, len(example_inputs)))
        run = run_aten(gm, example_inputs)
        if self._is_skipped(gm, fixed):
            return run
        self.device = next(iter(_devices(gm))).index
        return self._record(gm, run, example_inputs, fixed, is_inference=is_inference)

    def backward(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Boxed:
        fixed = range(self.graph_queries.count_tangents(gm))  # tensors that the forward saved, at fixed addresses
        run = run_aten(gm, example_inputs)
        if self.device is None:
            return run
        if self._is_skipped(gm, fixed):
            return self._run_unrecorded_backward(run)
        return self._record(gm, run, example_inputs, fixed, is_backward=True)

    def _is_skipped(self, gm: torch.fx.GraphModule, fixed: Sequence[int]) -> bool:
        why = self._skip_reason(gm, fixed)
        if why is not None:
            self.checks.log_cudagraph_skip_and_bump_counter(why)
        return why is not None

    def _skip_reason(self, gm: torch.fx.GraphModule, fixed: Sequence[int]) -> str | None:
        written = mutated_inputs(gm.graph) - set(fixed)
        if written:
            return self.checks.get_mutation_stack_trace(self.checks.get_placeholder_info(gm.graph), written)
        several = self.checks.check_multiple_devices_or_any_cpu_nodes(_devices(gm))
        if several is not None:
            return several
        node = self.graph_queries.get_first_incompatible_cudagraph_node(gm)
        return None if node is None else str(self.checks.format_default_skip_message(f"incompatible op ({node.name})"))

    def _record(
        self,
        gm: torch.fx.GraphModule,
        run: Boxed,
        example_inputs: list[Any],
        fixed: Sequence[int],
        *,
        is_backward: bool = False,
        is_inference: bool = False,
    ) -> Boxed:
        results = self.graph_queries.output_node(gm).args[0]
        recorded = _tree_module().cudagraphify_impl(
            run,
            example_inputs,
            fixed,
            device_index=self.device,
            is_backward=is_backward,
            is_inference=is_inference,
            stack_traces=[each.stack_trace if isinstance(each, torch.fx.Node) else None for each in results],
            placeholders=self.checks.get_placeholder_info(gm.graph),
            mutated_input_idxs=mutated_inputs(gm.graph),
        )
        return boxed(recorded)

    def _run_unrecorded_backward(self, run: Boxed) -> Boxed:
        """Run a backward that isn't recorded, after a forward that was. Tells the tree that the backward has begun, so
        that it frees what the forward saved."""
        manager = _tree_module().get_manager(self.device, create_if_none_exists=False)

        def call(inputs: list[Any]) -> Any:
            manager.set_to_running_backward()
            return run(inputs)

        return boxed(call)


def _devices(gm: torch.fx.GraphModule) -> dict[torch.device, torch.fx.Node]:
    """The devices of a graph's tensors, each with the first node whose result is on it."""
    found: dict[torch.device, torch.fx.Node] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            found.setdefault(value.device, node)
    return found


def mutated_inputs(graph: torch.fx.Graph) -> set[int]:
    """Positions of the inputs whose memory the operators of an ATen graph mutate."""
    owners: dict[int | None, set[int]] = {}
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for at, node in enumerate(placeholders):
        memory = memory_of(node.meta.get("val"))
        if memory is not None:
            owners.setdefault(memory, set()).add(at)
    found: set[int] = set()
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        for at, argument in enumerate(node.target._schema.arguments):
            if argument.is_write:
                given = node.args[at] if at < len(node.args) else node.kwargs.get(argument.name)
                for written in given if isinstance(given, (list, tuple)) else [given]:
                    if isinstance(written, torch.fx.Node):
                        found |= owners.get(memory_of(written.meta.get("val")), set())
    return found
