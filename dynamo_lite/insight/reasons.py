"""Why a graph broke: one class a message, with what happened and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class BreakReason:
    """Base of all reasons. ``what`` and ``hint`` are sentences for the user."""

    may_be_of_numbers: ClassVar[bool] = True
    """Whether it might not be if a number that may differ from call to call were known."""
    breaks_inside: ClassVar[bool] = False
    """Whether a callee is broken there though nothing is gained: by itself it would not know of it."""

    def what(self) -> str:
        raise NotImplementedError

    def hint(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.what()


@dataclass(frozen=True)
class UserGraphBreak(BreakReason):
    may_be_of_numbers = False
    message: str = ""

    def what(self) -> str:
        return "dl.graph_break() was called" + (f": {self.message}" if self.message else "")

    def hint(self) -> str:
        return "remove the call where one graph is wanted"


@dataclass(frozen=True)
class OutputCall(BreakReason):
    may_be_of_numbers = False
    callee: str

    def what(self) -> str:
        return f"{self.callee}() has an effect outside the program's data"

    def hint(self) -> str:
        return "move it out of the compiled function, or put it under `if not dl.is_compiling():`"


@dataclass(frozen=True)
class OperatorWarns(BreakReason):
    operator: str
    warning: str

    def what(self) -> str:
        return f"{self.operator} warns: {self.warning}"

    def hint(self) -> str:
        return "do as the warning says, or ignore it by a filter before the function is compiled"


@dataclass(frozen=True)
class KernelWarns(OperatorWarns):
    breaks_inside = True


@dataclass(frozen=True)
class MayWarn(BreakReason):
    breaks_inside = True
    operator: str
    why: str

    def what(self) -> str:
        return f"{self.operator} may warn where the program would see it, and can't be tried: {self.why}"

    def hint(self) -> str:
        return "keep it outside of the `with catch_warnings()`, or ignore all warnings there"


@dataclass(frozen=True)
class UnknownCall(BreakReason):
    may_be_of_numbers = False
    callee: str
    because: str = "it is C code, or excluded, and nothing is known of its effects"

    def what(self) -> str:
        return f"the call of {self.callee} can't be traced: {self.because}"

    def hint(self) -> str:
        return "dl.allow_in_graph puts a pure tensor function into the graph as it is; otherwise keep the call outside"


@dataclass(frozen=True)
class DisabledCall(BreakReason):
    may_be_of_numbers = False
    callee: str

    def what(self) -> str:
        return f"{self.callee} is marked to be left out of graphs"

    def hint(self) -> str:
        return "remove dl.disable (or disallow_in_graph) from it where one graph is wanted"


@dataclass(frozen=True)
class DataDependentBranch(BreakReason):
    may_be_of_numbers = False

    def what(self) -> str:
        return "the program branches on a tensor's value, which is not known while tracing"

    def hint(self) -> str:
        return "use torch.where (or torch.cond) to choose by data, or branch on shapes and constants"


@dataclass(frozen=True)
class UnmetCondition(BreakReason):
    may_be_of_numbers = False

    def what(self) -> str:
        return "what this expects of its data was not so several times in a row"

    def hint(self) -> str:
        return "keep what is out of the ordinary (an error, a warning of numpy's, zeros of either sign) out of the data"


@dataclass(frozen=True)
class DataDependentValue(BreakReason):
    may_be_of_numbers = False
    operation: str

    def what(self) -> str:
        return f"{self.operation} needs a tensor's value, which is not known while tracing"

    def hint(self) -> str:
        return "keep the value in a tensor, or read it outside of the compiled function"


@dataclass(frozen=True)
class RandomValue(BreakReason):
    may_be_of_numbers = False
    number: str

    def what(self) -> str:
        return f"what the program does hangs on the random number {self.number}, which is another in each call"

    def hint(self) -> str:
        return "choose by random numbers outside of the compiled function, or in tensors with torch.where"


@dataclass(frozen=True)
class OperatorFailed(BreakReason):
    operator: str
    error: str
    over_operands: bool = False
    """It might do with tensors of other shapes, types or devices."""

    def what(self) -> str:
        return f"{self.operator} could not be computed on fake tensors: {self.error}"

    def hint(self) -> str:
        return "if it fails in eager too, mend the call; otherwise keep it outside of the compiled function"


@dataclass(frozen=True)
class FailureAndWrite(BreakReason):
    may_be_of_numbers = False
    operator: str

    def what(self) -> str:
        return f"{self.operator} can't share a graph with what was before: one writes into an input, one may fail"

    def hint(self) -> str:
        return "move the write into the input out of the `try` or `with`, or make it a new tensor"


@dataclass(frozen=True)
class UnsupportedOpcode(BreakReason):
    opname: str
    why: str

    def what(self) -> str:
        return f"the bytecode {self.opname} is not traced: {self.why}"

    def hint(self) -> str:
        return "move that statement out of the compiled function"


@dataclass(frozen=True)
class UnsupportedAttribute(BreakReason):
    owner: str
    name: str
    why: str = "its meaning is not modelled"

    def what(self) -> str:
        return f"attribute {self.name!r} of {self.owner} can't be traced: {self.why}"

    def hint(self) -> str:
        return "read or write it outside of the compiled function"


@dataclass(frozen=True)
class UnsupportedOperation(BreakReason):
    operation: str
    operands: str

    def what(self) -> str:
        return f"{self.operation} of {self.operands} can't be traced"

    def hint(self) -> str:
        return "move that expression out of the compiled function, or write it with tensors and built-in containers"


@dataclass(frozen=True)
class UnsupportedValue(BreakReason):
    value: str
    why: str

    def what(self) -> str:
        return f"{self.value} can't be used in a graph: {self.why}"

    def hint(self) -> str:
        return "make it outside of the compiled function, or pass its data as tensors and constants"


@dataclass(frozen=True)
class EffectOfExport(BreakReason):
    written: str

    def what(self) -> str:
        return f"the program writes into {self.written}, which outlives the call; a graph module can't do that"

    def hint(self) -> str:
        return "return the new value, and write it after the call"


@dataclass(frozen=True)
class NotExportable(BreakReason):
    value: str
    why: str

    def what(self) -> str:
        return f"{self.value} can't be in an exported graph: {self.why}"

    def hint(self) -> str:
        return "pass and return tensors, constants, and containers and objects of them"


@dataclass(frozen=True)
class UncaughtException(BreakReason):
    error: str

    def what(self) -> str:
        return f"the traced program raises {self.error}"

    def hint(self) -> str:
        return "nothing to do where that is meant: the exception is raised by the program itself, as in eager"


@dataclass(frozen=True)
class InlineLimit(BreakReason):
    may_be_of_numbers = False
    callee: str
    depth: int

    def what(self) -> str:
        return f"the call of {self.callee} is nested more than {self.depth} deep"

    def hint(self) -> str:
        return "raise dl.config.inline_limit, or make the recursion a loop"


@dataclass(frozen=True)
class NestedTooDeep(BreakReason):
    may_be_of_numbers = False
    steps: int

    def what(self) -> str:
        return f"a value lies more than {self.steps} steps away from the function's arguments and globals"

    def hint(self) -> str:
        return "pass what it is in as an argument of a function of its own"


@dataclass(frozen=True)
class UnsupportedContext(BreakReason):
    manager: str

    def what(self) -> str:
        return f"the context manager {self.manager} is not traced"

    def hint(self) -> str:
        return "enter it outside of the compiled function"


@dataclass(frozen=True)
class UnreconstructableValue(BreakReason):
    value: str

    def what(self) -> str:
        return f"{self.value} is alive at a graph break and can't be made outside of the trace"

    def hint(self) -> str:
        return "use it up before the break (for example: list(generator))"


@dataclass(frozen=True)
class SharedMemory(BreakReason):
    def what(self) -> str:
        return "one graph would write into memory that another of its inputs has too"

    def hint(self) -> str:
        return "give it one of the tensors, and make the views of it inside"


@dataclass(frozen=True)
class FreedTogether(BreakReason):
    def what(self) -> str:
        return "the backward of what comes before would free what is here too, were they one compiled graph"

    def hint(self) -> str:
        return "compute what does not hang on it after `backward()`"


@dataclass(frozen=True)
class DroppedGenerator(BreakReason):
    value: str

    def what(self) -> str:
        return f"{self.value} is dropped while it waits inside of a block, which CPython leaves when the generator dies"

    def hint(self) -> str:
        return "use it up, or close() it"


@dataclass(frozen=True)
class FrameLeftAlone(BreakReason):
    name: str
    because: str
    cause: BreakReason | None = None

    def what(self) -> str:
        told = f"{self.name} runs as it is, without a graph: {self.because}"
        return told if self.cause is None else f"{told} (it broke there: {self.cause.what()})"

    def hint(self) -> str:
        return "call the part that computes with tensors as a function of its own" + (
            "" if self.cause is None else f", or mend the break: {self.cause.hint()}"
        )
