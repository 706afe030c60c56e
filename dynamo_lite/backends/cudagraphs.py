"""CUDA graphs of AOTAutograd's graphs, by Inductor's trees of them: the kernels are eager's, launched all at once."""

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

from .aot import aot, run_aten

Boxed = Callable[[list[Any]], Any]


class CudaGraphs:
    """Forward and backward are recorded and replayed where that can be done: all of a graph is on one CUDA device, it
    writes into no input but parameters and buffers, and no operator synchronises. Others run as with ``aot_eager``;
    the log ``torch._inductor.cudagraphs`` says why."""

    __name__ = "cudagraphs"
    carries_integers = False
    frees_at_once = True

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        tell_static_inputs(gm)
        recorder = _Recorder(len(example_inputs))
        compiled = aot(
            gm,
            example_inputs,
            fw_compiler=recorder.forward,
            bw_compiler=recorder.backward,
            inference_compiler=functools.partial(recorder.forward, is_inference=True),
            keep_inference_input_mutations=False,
        )
        return in_steps(compiled) if recorder.device is not None else compiled

    def records_graphs(self) -> bool:
        """Whether there is a device to record on: an input that is elsewhere would prevent it."""
        return torch.cuda.is_available()

    def reset(self) -> None:
        """Free what was recorded."""
        forget_recorded()


cudagraphs = CudaGraphs()

_TREES = "torch._inductor.cudagraph_trees"


def _trees() -> ModuleType:
    return importlib.import_module(_TREES)


def forget_recorded() -> None:
    """Free all CUDA graphs of this thread's trees, if there are any."""
    if _TREES in sys.modules:
        _trees().reset_cudagraph_trees()


def tell_static_inputs(gm: torch.fx.GraphModule) -> None:
    """Let AOTAutograd know that the parameters and buffers among a captured graph's inputs stay where they are: they
    are noted at their placeholders, which it looks at where a graph says that it was captured."""
    if "dynamo_compile_id" in gm.meta or any(True for _ in (*gm.parameters(), *gm.buffers())):
        return  # it says so already; or it was made by hand, of a module
    gm.meta["dynamo_compile_id"] = None
    gm._param_name_to_source = {}  # type: ignore[assignment]
    for node in gm.graph.find_nodes(op="placeholder"):
        node._dynamo_source = None  # type: ignore[attr-defined]


_steps = threading.local()
"""``seen``: the number of the outermost call in which this thread ran CUDA graphs last."""


def in_steps(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The same code, which begins a new step with each outermost call of compiled code: what CUDA graphs left in their
    memory in the step before may be written over, unless a backward is still to come."""

    def call(*inputs: Any) -> Any:
        now = _C.outermost_calls()
        if getattr(_steps, "seen", None) != now:
            _steps.seen = now
            trees = _trees()
            for container in trees.get_obj(trees.local, "tree_manager_containers").values():
                if container.tree_manager is not None:
                    container.tree_manager.current_gen = None  # none: what comes next is of another
        return compiled(*inputs)

    return call


class _Recorder:
    """What the two halves of one graph share."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.facts = importlib.import_module("torch._inductor.cudagraph_utils")
        self.graphs = importlib.import_module("torch._inductor.utils")
        self.device: int | None = None
        """Where the forward was recorded; None: it wasn't."""

    def forward(self, gm: torch.fx.GraphModule, example_inputs: list[Any], is_inference: bool = False) -> Boxed:
        fixed = range(self.graphs.num_fw_fixed_arguments(self.inputs, len(example_inputs)))
        run = run_aten(gm, example_inputs)
        if self._is_skipped(gm, fixed):
            return run
        self.device = next(iter(_devices(gm))).index
        return self._record(gm, run, example_inputs, fixed, is_inference=is_inference)

    def backward(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Boxed:
        fixed = range(self.graphs.count_tangents(gm))  # what the forward saved, at addresses of its own
        run = run_aten(gm, example_inputs)
        if self.device is None:
            return run
        if self._is_skipped(gm, fixed):
            return self._tell_of_backward(run)
        return self._record(gm, run, example_inputs, fixed, is_backward=True)

    def _is_skipped(self, gm: torch.fx.GraphModule, fixed: Sequence[int]) -> bool:
        why = self._why_not(gm, fixed)
        if why is not None:
            self.facts.log_cudagraph_skip_and_bump_counter(why)
        return why is not None

    def _why_not(self, gm: torch.fx.GraphModule, fixed: Sequence[int]) -> str | None:
        written = mutated_inputs(gm.graph) - set(fixed)
        if written:
            found: str = self.facts.get_mutation_stack_trace(self.facts.get_placeholder_info(gm.graph), written)
            return found
        several: str | None = self.facts.check_multiple_devices_or_any_cpu_nodes(_devices(gm))
        if several is not None:
            return several
        node = self.graphs.get_first_incompatible_cudagraph_node(gm)
        return None if node is None else str(self.facts.format_default_skip_message(f"incompatible op ({node.name})"))

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
        results = self.graphs.output_node(gm).args[0]
        recorded = _trees().cudagraphify_impl(
            run,
            example_inputs,
            fixed,
            device_index=self.device,
            is_backward=is_backward,
            is_inference=is_inference,
            stack_traces=[each.stack_trace if isinstance(each, torch.fx.Node) else None for each in results],
            placeholders=self.facts.get_placeholder_info(gm.graph),
            mutated_input_idxs=mutated_inputs(gm.graph),
        )
        recorded._boxed_call = True
        return recorded  # type: ignore[no-any-return]

    def _tell_of_backward(self, run: Boxed) -> Boxed:
        """A backward that isn't recorded after a forward that was: what that one keeps for it is free now."""
        manager = _trees().get_manager(self.device, create_if_none_exists=False)

        def call(inputs: list[Any]) -> Any:
            manager.set_to_running_backward()
            return run(inputs)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


def _devices(gm: torch.fx.GraphModule) -> dict[torch.device, torch.fx.Node]:
    """The devices of a graph's tensors, each with a node that makes one there."""
    found: dict[torch.device, torch.fx.Node] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            found.setdefault(value.device, node)
    return found


def mutated_inputs(graph: torch.fx.Graph) -> set[int]:
    """Positions of the inputs into whose memory an aten graph's operators write."""
    owners: dict[int, set[int]] = {}
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for at, node in enumerate(placeholders):
        if isinstance(node.meta.get("val"), torch.Tensor):
            owners.setdefault(node.meta["val"].untyped_storage()._cdata, set()).add(at)
    found: set[int] = set()
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        for at, argument in enumerate(node.target._schema.arguments):
            if argument.is_write:
                given = node.args[at] if at < len(node.args) else node.kwargs.get(argument.name)
                for written in given if isinstance(given, (list, tuple)) else [given]:
                    if isinstance(written, torch.fx.Node) and isinstance(written.meta.get("val"), torch.Tensor):
                        found |= owners.get(written.meta["val"].untyped_storage()._cdata, set())
    return found
