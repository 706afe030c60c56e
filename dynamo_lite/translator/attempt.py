"""One attempt to translate a frame: the records that all its translators (the frame's and the inlined ones) share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from dynamo_lite import config
from dynamo_lite.insight.site import Site
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.guards import Guards
from dynamo_lite.records.provenance import Provenance
from dynamo_lite.records.restart import DataStay, Restart
from dynamo_lite.records.restart_facts import RestartFacts
from dynamo_lite.records.runtime_assertions import Expected
from dynamo_lite.records.side_effects import SideEffects
from dynamo_lite.runtime.precomputed_calls import PrecomputedCalls
from dynamo_lite.shapes.policy import TranslationShapes
from dynamo_lite.shapes.python_random import RandomCall
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.torch.tensors.is_compiling_results import Answers
from dynamo_lite.variables.torch.tensors.specialize import specialize

from .known_values import KnownValues
from .observable_lifetimes import ObservableLifetimes
from .torch_state import TorchState


@dataclass
class BeforeGraph:
    """What generated code does before it calls the graph."""

    draws: list[RandomCall] = field(default_factory=list)
    """Calls of Python's ``random``, in program order."""
    created: dict[VariableTracker, Any] = field(default_factory=dict)
    """Tensors created during tracing that are allocated there -> their placeholder in the graph."""

    def close(self) -> None:
        self.draws.clear()
        self.created.clear()


class Attempt:
    """The records of one attempt. Dropped whole when the attempt is given up: nothing is rolled back."""

    takes_wrappers = True
    """Whether the backend takes wrapper subclasses."""
    has_wrappers = False
    """Whether the graph has some."""
    carries_integers = True
    """Whether the backend takes loops that carry integers."""
    begins_in_block = False
    """Whether the frame goes on in a ``try`` or ``with``: what the graph raises is raised there."""
    frees_at_once = False
    """Whether a backward frees all that the backend's graph saved for backwards."""

    def __init__(
        self,
        namespace: dict[str, Any],
        builtins_namespace: dict[str, Any],
        shapes: TranslationShapes,
        ahead: PrecomputedCalls,
        restart_facts: RestartFacts | None = None,
    ) -> None:
        self.guards = Guards()
        self.graph = GraphBuilder()
        self.shapes = shapes
        self.effects = SideEffects(self.guards, VariableTracker)
        self.values = KnownValues(self, namespace, builtins_namespace)
        self.torch_state = TorchState()
        self.provenance = Provenance()
        self.before_graph = BeforeGraph()
        self.lifetimes = ObservableLifetimes()
        self.restart_facts = RestartFacts.first() if restart_facts is None else restart_facts
        self.answers = Answers(self.restart_facts.withheld)
        self.runtime_assertions: list[Expected] = []
        """Conditions on tensor data: where one does not hold the frame is run again in eager."""
        self.ahead = ahead
        """Calls that this and earlier attempts at the frame made."""
        self.innermost: Any = None
        """The translator that is at work."""
        self.steps = 0
        """How many instructions all translators came to."""
        self.pauses_at = self._next_pause()
        """The step before which there is more to be done than to take it."""
        self.settled_sizes = False
        """Whether, when that was done last, sizes of tensors were specialized."""
        self.reprs: list[VariableTracker] = []
        """Containers whose ``repr`` is being computed."""
        self.has_handlers = False
        """Whether code that was traced has exception handlers."""
        self.cell_frames: list[Any] = []
        """Frames that create cells, which refer to them."""

    def let_data_stay(self, step: int) -> NoReturn:
        """Restart with a graph break before this step, which replaces a tensor's ``.data``."""
        raise Restart(DataStay(step))

    @property
    def are_failures_observable(self) -> bool:
        """Whether the program, or a reader of the traceback, can tell a graph that raises from an operator that raises
        at its own line. The frame is then run again, which needs that the graph writes into nothing of the program's,
        or that what it wrote is put back."""
        graph = self.graph
        if graph.mutates_inputs:
            return graph.fails_handled
        return self.has_handlers or not self.effects.empty or graph.may_fail or bool(graph.replaced)

    def __enter__(self) -> Attempt:
        self.torch_state.enter()
        self.graph.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        """Put torch's state back as the attempt found it."""
        self.torch_state.leave()
        self.graph.leave()
        self.torch_state.restore_warnings()

    def close(self) -> None:
        """Drop the program's objects: what is left of an attempt refers to itself and would keep them alive."""
        self.innermost = None
        for frame in (*self.cell_frames, *(generator.frame for generator in self.provenance.generators)):
            frame.close()
        self.cell_frames.clear()
        self.runtime_assertions.clear()
        for record in (self.values, self.provenance, self.before_graph, self.lifetimes, self.answers, self.torch_state):
            record.close()
        self.graph.inputs.clear()
        self.graph.made.clear()
        self.graph.symbols.close()
        self.effects.close()
        self.guards.close()
        del self.shapes  # it has the frame's variables

    def _next_pause(self) -> int:
        specialized = self.restart_facts.numbers.first_after(self.steps)
        return config.unroll_limit + 1 if specialized is None else specialized

    def settle(self, operands: list[VariableTracker], site: Site) -> None:
        """Specialize, before this step, the symbolic numbers that its instruction takes."""
        if self.restart_facts.numbers.is_at(self.steps, site):
            self.settled_sizes = specialize(self.graph.symbols, operands, set())
        self.note_guards()
        self.pauses_at = self._next_pause()

    def note_guards(self) -> None:
        """Attribute to the current place what torch's ``ShapeEnv`` has come to assume."""
        self.graph.symbols.note_guards(self.innermost)
