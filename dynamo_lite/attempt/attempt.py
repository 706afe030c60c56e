"""One attempt to translate a frame: the records shared by all its translators, the root's and the inlined frames'."""

from __future__ import annotations

from types import CodeType
from typing import Protocol, TypeVar

from dynamo_lite import config
from dynamo_lite.attempt.provenance import Provenance
from dynamo_lite.attempt.side_effects import SideEffects
from dynamo_lite.insight.site import Site
from dynamo_lite.records.calls_before_graph import BeforeGraph
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.guards import Guards
from dynamo_lite.records.node_origin import NodeOrigin
from dynamo_lite.records.restart_facts import RestartFacts
from dynamo_lite.records.runtime_assertions import RuntimeAssertion
from dynamo_lite.records.surroundings import BackendTraits, Surroundings
from dynamo_lite.runtime.precomputed_calls import PrecomputedCalls
from dynamo_lite.shapes.policy import TranslationShapes
from dynamo_lite.sources.source import PlaceKey
from dynamo_lite.variables.core.base import Translator, VariableTracker
from dynamo_lite.variables.core.interfaces import Clearable
from dynamo_lite.variables.torch.tensors.specialize import specialize

from .known_values import KnownValues
from .room_states import RoomStates
from .torch_state import TorchState

_Kept = TypeVar("_Kept", bound=Clearable)


class TracedFrame(Translator, Protocol):
    """A frame that is being traced: says where it is, and drops its values when the attempt ends."""

    def node_origin(self) -> NodeOrigin: ...
    def close(self) -> None: ...


class Attempt:
    """The records of one attempt. An attempt that is given up is dropped as a whole: nothing is rolled back."""

    def __init__(
        self,
        namespace: dict[str, object],
        builtins_namespace: dict[str, object],
        traits: BackendTraits,
        surroundings: Surroundings,
        shapes: TranslationShapes,
        ahead: PrecomputedCalls,
        restart_facts: RestartFacts,
    ) -> None:
        self.traits = traits
        self.surroundings = surroundings
        self.guards = Guards()
        self.graph = GraphBuilder(surroundings.captures_data)
        self.graph.origin = self._node_origin
        self.shapes = shapes
        self.effects = SideEffects(self.guards)
        self.values = KnownValues(self, namespace, builtins_namespace)
        self.torch_state = TorchState()
        self.provenance = Provenance()
        self.before_graph = BeforeGraph()
        self.restart_facts = restart_facts
        self.deferred_reads: set[Site] = set()
        """Where the program read numbers from tensors that it has only passed on so far."""
        self.varying: dict[CodeType, set[tuple[PlaceKey, int]]] = {}
        """Code of resume functions -> numbers that they get and that vary, as in `ShapePolicy.expect_changes`."""
        self.runtime_assertions: list[RuntimeAssertion] = []
        """Conditions on tensor data. If one fails at run time, the frame runs again in eager."""
        self.ahead = ahead
        """Calls made while tracing, by this and earlier attempts at the frame."""
        self.innermost: TracedFrame | None = None
        """The translator of the innermost active frame."""
        self.steps = 0
        """How many instructions all translators interpreted."""
        self.pauses_at = self._next_pause()
        """The step count at which tracing stops at the limit, or specializes numbers."""
        self.specialized_at: dict[int, Site] = {}
        """The steps before which this attempt specialized numbers, and the instruction at each."""
        self._states = RoomStates()
        self.reprs: list[VariableTracker] = []
        """Containers whose ``repr`` is being computed, to detect recursion."""
        self.has_handlers = False
        """Whether traced code has exception handlers."""
        self.cell_frames: list[TracedFrame] = []
        """Frames that create cells. Their cells refer back to them."""
        self.errors_on_break = config.torch_errors_on_break()
        """Whether a graph break is an error here, by ``torch._dynamo.error_on_graph_break``."""
        self.has_wrappers = False
        """Whether the graph has wrapper subclasses."""
        self.has_masked_writes = False
        """Whether the graph writes values that require gradients through masks."""
        self.has_asked_compiling = False
        """Whether the program was told that it is compiled."""

    @property
    def are_failures_observable(self) -> bool:
        """Whether the program (or its traceback) can tell an error of the graph from one that an operator raises at its
        own line. The frame then runs again in eager, provided that the graph writes into no input, or that those
        writes can be undone, and that it doesn't communicate."""
        graph = self.graph
        if graph.communicates:
            return False
        if graph.written:
            return graph.fails_handled
        return self.has_handlers or not self.effects.empty or graph.may_fail

    def __enter__(self) -> Attempt:
        self.torch_state.enter()
        self.graph.enter()
        return self

    def __exit__(self, *error: object) -> None:
        """Restore torch's state."""
        self.torch_state.leave()
        self.graph.leave()

    def close(self) -> None:
        """Drop the references to user objects: the records are in reference cycles and would keep them alive."""
        self.innermost = None
        del self.graph.origin  # a cycle
        for frame in (*self.cell_frames, *(generator.frame for generator in self.provenance.generators)):
            frame.close()
        self.cell_frames.clear()
        self.runtime_assertions.clear()
        self.varying.clear()
        for record in (
            *(self.values, self.provenance, self.before_graph, self.torch_state, self.effects),
            *(self.graph.symbols, self.guards),
        ):
            record.close()
        for state in self._states.values():
            state.clear()
        self.graph.inputs.clear()
        del self.shapes  # it refers to the frame's variables

    def state(self, kind: type[_Kept]) -> _Kept:
        """The one instance of a class that a room keeps for this attempt."""
        found: _Kept = self._states[kind]
        return found

    def _node_origin(self) -> NodeOrigin | None:
        return None if self.innermost is None else self.innermost.node_origin()

    def _next_pause(self) -> int:
        specialized = self.restart_facts.numbers.first_after(self.steps)
        return config.unroll_limit + 1 if specialized is None else specialized

    def specialize_operands(self, operands: list[VariableTracker], site: Site) -> None:
        """Specialize, before this step, the symbolic numbers that its instruction takes."""
        numbers = self.restart_facts.numbers
        if self.steps in numbers.steps:
            self.specialized_at[self.steps] = site
        if numbers.is_at(self.steps, site):
            specialize(self.graph.symbols, operands, set())
        self.note_guards()
        self.pauses_at = self._next_pause()

    def note_guards(self) -> None:
        """Attribute the guards that torch's ``ShapeEnv`` added since the last call to the current place."""
        self.graph.symbols.note_guards(self.innermost)
