"""Collects instructions of a frame's new code."""

from __future__ import annotations

from collections.abc import Iterable

from dynamo_lite.bytecode import Instruction, emit
from dynamo_lite.plan.rows import Call, Constant, Value

from .emitter import load


class Writer:
    """The instructions so far, and methods that add more."""

    def __init__(self, body: Iterable[Instruction] = ()) -> None:
        self.body = [*body]

    def add(self, *instructions: Instruction) -> None:
        self.body.extend(instructions)

    def load(self, value: Value) -> None:
        """Push a value."""
        self.body += load(value)

    def store(self, name: str) -> None:
        """Pop the top into a local."""
        self.add(emit.store_fast(name))

    def store_copy(self, name: str) -> None:
        """Store the top of the stack, which stays there."""
        self.add(emit.copy_top(), emit.store_fast(name))

    def take(self, name: str) -> None:
        """Push a local and unbind it."""
        self.add(*emit.take_fast(name))

    def call(self, function: object, *args: Value) -> None:
        """Push the result of a constant function."""
        self.load(Call(Constant(function), args))

    def suspend_top(self) -> None:
        """Pop the bound ``__exit__`` of a context, and exit that for the time of a break."""
        self.add(emit.load_attr("suspend"), *emit.top_as_callee(), *emit.call(0), emit.pop_top())

    def unbind(self, names: Iterable[str]) -> None:
        """Unbind locals, of which some may be unbound already, by a branch."""
        for name in names:
            self.add(emit.load_const(None), emit.store_fast(name), emit.delete_fast(name))
