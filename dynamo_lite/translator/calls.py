"""Opcodes that call, make functions, and import."""

from __future__ import annotations

from importlib.machinery import PathFinder
from types import ModuleType

from dynamo_lite.bytecode import Instruction
from dynamo_lite.bytecode.instructions import CALLABLE_FIRST
from dynamo_lite.insight.break_reasons import FailsInPython, MissingNameInModule
from dynamo_lite.resume.graph_break import is_call_of_broken_callee
from dynamo_lite.variables.core.base import ObservedException, UnpackedKwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.null import NULL
from dynamo_lite.variables.python.classes.classes import ModuleVariable
from dynamo_lite.variables.python.classes.imports import imported_module, loaded_module
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.functions.function import CellVariable, NestedFunctionVariable

from .opcodes import opcode
from .stack import load_builtin, pop_tuple
from .stack_machine import StackMachine


@opcode("KW_NAMES")
def kw_names(tx: StackMachine, instruction: Instruction) -> None:
    tx.kw_names = instruction.argval


@opcode("CALL")
def call(tx: StackMachine, instruction: Instruction) -> None:
    args = tx.popn(instruction.arg)
    second, first = tx.stack.pop(), tx.stack.pop()
    beside, other = (second, first) if CALLABLE_FIRST else (first, second)
    if beside is NULL:
        function = other.realize()
    else:
        function = first.realize()
        args.insert(0, second.realize())
    names, tx.kw_names = tx.kw_names, ()
    kwargs: dict[str, VariableTracker] = {}
    if names:
        kwargs = dict(zip(names, args[-len(names) :]))
        del args[-len(names) :]
    tx.stack.append(tx.call_from_instruction(function, args, kwargs))


@opcode("CALL_FUNCTION_EX")
def call_function_ex(tx: StackMachine, instruction: Instruction) -> None:
    kwargs: dict[str, VariableTracker] = {}
    if instruction.arg & 1:
        kwargs, named = UnpackedKwargs(), tx.pop().mapping_items(tx)
        assert named is not None  # DICT_MERGE made it
        for key, value in named.items.items():
            if type(key) is not str:
                tx.raise_error(TypeError, "keywords must be strings")
            kwargs[key] = value.realize()
    unpacked = tx.pop()
    if CALLABLE_FIRST:
        tx.stack.pop()  # NULL
    function = tx.pop()
    if not tx.is_iterable(unpacked):
        unsupported(FailsInPython(f"`*` of {unpacked.describe()}", "it is no iterable"))
    if isinstance(unpacked, TupleVariable) and is_call_of_broken_callee(tx):
        args = list(unpacked.items)  # not realized: the callee may only keep them bound
    else:
        args = list(unpacked.each_for_tuple(tx))
    if not CALLABLE_FIRST and tx.stack and tx.stack[-1] is NULL:
        tx.stack.pop()
    tx.stack.append(tx.call_from_instruction(function, args, kwargs))


@opcode("MAKE_FUNCTION")
def make_function(tx: StackMachine, instruction: Instruction) -> None:
    code = tx.pop().as_constant()
    flags = instruction.arg
    cells = [_as_cell(each) for each in pop_tuple(tx).items] if flags & 8 else []
    annotate = tx.pop() if flags & 16 else None
    annotations = pop_tuple(tx) if flags & 4 else None
    keyword_defaults = tx.pop() if flags & 2 else None
    assert keyword_defaults is None or isinstance(keyword_defaults, DictVariable)
    defaults = pop_tuple(tx) if flags & 1 else None
    function = NestedFunctionVariable(code, tx.scope, cells, defaults, keyword_defaults, annotations, tx.graph.scope)
    if annotate is not None:
        function.members["__annotate__"] = annotate
    tx.stack.append(function)


def _as_cell(variable: VariableTracker) -> CellVariable:
    assert isinstance(variable, CellVariable)
    return variable


@opcode("LOAD_BUILD_CLASS")
def load_build_class(tx: StackMachine, instruction: Instruction) -> None:
    tx.stack.append(load_builtin(tx, "__build_class__"))


@opcode("IMPORT_NAME")
def import_name(tx: StackMachine, instruction: Instruction) -> None:
    fromlist, level = tx.pop(), tx.pop()
    name = _absolute_name(tx, instruction.argval, level.as_constant())
    found = imported_module(tx, name)
    for each in tx.python_value(fromlist) or ():
        _import_submodule(tx, found, each)
    tx.stack.append(found if tx.truth(fromlist) else imported_module(tx, name.partition(".")[0]))


def _import_submodule(tx: StackMachine, package: VariableTracker, name: str) -> None:
    """Import ``package.name``, if that is a submodule, for ``from package import name``."""
    if not isinstance(package, ModuleVariable) or type(package.value) is not ModuleType:
        return  # its class may load attributes when they are read
    namespace = package.value.__dict__
    if name in namespace or "__path__" not in namespace or "__getattr__" in namespace:
        return
    submodule = f"{package.name}.{name}"
    if PathFinder.find_spec(submodule, namespace["__path__"]) is not None:
        imported_module(tx, submodule)


def _absolute_name(tx: StackMachine, name: str, level: int) -> str:
    if level == 0:
        return name
    package = tx.scope.namespace.get("__package__") or tx.scope.namespace.get("__name__", "").rpartition(".")[0]
    base = package.rsplit(".", level - 1)[0] if level > 1 else package
    return f"{base}.{name}" if name else base


@opcode("IMPORT_FROM")
def import_from(tx: StackMachine, instruction: Instruction) -> None:
    module = tx.peek()
    name = instruction.argval
    if not isinstance(module, ModuleVariable):
        tx.stack.append(module.getattr(tx, name))
        return
    try:
        found = module.getattr(tx, name)
    except ObservedException as observed:
        if not issubclass(observed.error.python_type(), AttributeError):
            raise
        submodule = f"{module.name}.{name}"
        loaded = loaded_module(tx, submodule)
        if loaded is None:  # IMPORT_NAME would have imported it: CPython raises ImportError here
            unsupported(MissingNameInModule(str(module.name), name))
        found = loaded
    tx.stack.append(found)
