"""``checkpoint(context_fn=)``: selective checkpoints, whose policy decides which results of operators are saved.

What a policy decides changes no value, so the graph calls the program's own ``context_fn`` when it runs. The function
is also traced, to make sure that it creates the contexts of ``create_selective_checkpoint_contexts`` and does nothing
else: other contexts may do anything.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

from dynamo_lite.bytecode import Instruction, decode, roles
from dynamo_lite.insight.break_reasons import CheckpointCall
from dynamo_lite.plan.rows import Value
from dynamo_lite.variables.core.base import NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable, NestedFunctionVariable

ContextFn = Callable[[], tuple[Any, Any]]


class ContextsVariable(VariableTracker):
    """What ``create_selective_checkpoint_contexts`` returns."""

    __slots__ = ()
    exact_type = tuple

    def describe(self) -> str:
        return "the contexts of a selective checkpoint"

    def construct(self, plan: Planner) -> Value:
        raise NotConstant(self.describe())


class CheckpointOptions(InvariantVariable):
    """Options of a checkpoint in the graph. On fake tensors it runs without them: a policy is code of the program."""

    def as_fx(self) -> tuple[Any, Any]:
        return self.value, ()


@models(torch_checkpoint.create_selective_checkpoint_contexts)
def _contexts(
    tx: Translator, policy_fn_or_list: VariableTracker, allow_cache_entry_mutation: VariableTracker | None = None
) -> VariableTracker:
    policy = policy_fn_or_list.realize()
    if policy.python_type() is list:
        operators = tx.python_value(policy)
        if not all(isinstance(each, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)) for each in operators):
            unsupported(CheckpointCall("torch refuses an item of its list of operators"))
    elif _has_effects(tx, policy):
        unsupported(CheckpointCall("its policy may have side effects, or is no Python function"))
    return ContextsVariable()


def _has_effects(tx: Translator, policy: VariableTracker) -> bool:
    """Whether a policy may have side effects that the program sees. It may write into what ``context_fn`` creates."""
    if policy.python_type() is functools.partial:
        return _has_effects(tx, policy.getattr(tx, "func").realize())
    if not isinstance(policy, (FunctionVariable, NestedFunctionVariable)):
        return True
    instructions = [*_instructions(policy.code)]
    if any(roles.writes_outside(each) or roles.loads_method(each) for each in instructions):
        return True
    namespace: Mapping[str, Any] = policy.scope(tx).namespace
    has_cells = isinstance(policy, FunctionVariable) and bool(policy.code.co_freevars)
    named = [namespace[name] for name in policy.code.co_names if name in namespace]
    may_write = has_cells or any(isinstance(each, (list, dict)) for each in named)
    return may_write and any(map(roles.stores_item, instructions))


def _instructions(code: types.CodeType) -> Iterator[Instruction]:
    """Those of a function and of the functions inside of it."""
    yield from decode(code)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _instructions(const)


def traced_context_fn(tx: Translator, context_fn: VariableTracker) -> ContextFn | None:
    """The real function for the graph to call; None for torch's default, which does nothing."""
    context_fn = context_fn.realize()
    if context_fn.value is torch_checkpoint.noop_context_fn:
        return None
    with tx.effects.forbidden(set()):
        contexts = tx.call(context_fn, [], {}).realize()
    if not isinstance(contexts, ContextsVariable):
        unsupported(CheckpointCall("its context_fn returns contexts other than those of a selective checkpoint"))
    found: ContextFn = _real(tx, context_fn)
    return found


def _real(tx: Translator, variable: VariableTracker) -> Any:
    """A real object like a traced one: a function, a partial, or a known value."""
    variable = variable.realize()
    if isinstance(variable, FunctionVariable) and variable.source is not None:
        variable.source.check("id", variable.value)
        return variable.value
    if variable.python_type() is functools.partial:
        function, args, keywords = (variable.getattr(tx, name).realize() for name in ("func", "args", "keywords"))
        assert isinstance(keywords, DictVariable)
        named = {str(name): _real(tx, value) for name, value in keywords.items.items()}
        return functools.partial(_real(tx, function), *(_real(tx, each) for each in args.elements(tx)), **named)
    if isinstance(variable, NestedFunctionVariable) and not variable.attrs:
        contents = [each.load() for each in variable.cells(tx)]
        if any(each is None or _is_created(each.realize()) for each in contents):
            unsupported(CheckpointCall("its context_fn uses a variable of an enclosing function that may change"))
        cells = tuple(types.CellType(_real(tx, each)) for each in contents if each is not None)
        made = types.FunctionType(variable.code, variable.scope(tx).namespace, None, None, cells or None)
        made.__defaults__ = tuple(_real(tx, each) for each in variable.defaults(tx)) or None
        made.__kwdefaults__ = {name: _real(tx, each) for name, each in variable.keyword_defaults(tx).items()} or None
        return made
    return tx.python_value(variable)


def _is_created(value: VariableTracker) -> bool:
    """Whether it is a mutable container that was created during tracing."""
    return value.source is None and value.python_type() in (list, dict, set) or issubclass(value.python_type(), dict)
