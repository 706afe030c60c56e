"""Builds the exported graph module around a captured graph: placeholders, attributes for state, and the result."""

from __future__ import annotations

import ast
import inspect
import operator
import re
import textwrap
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
import torch.fx
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph_module import _assign_attr
from torch.fx.proxy import GraphAppendingTracer, Proxy, TraceError

from dynamo_lite import _C
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.compiler.code_ahead import items_of
from dynamo_lite.compiler.translation import Translation
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import NotExportable
from dynamo_lite.runtime.graph_functions import from_numpy_written
from dynamo_lite.shapes.number_guards import SymbolicGuard
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.class_lookup import is_immutable
from dynamo_lite.variables.python.objects.user_object import unmodeled_c_base

from .example_call import Program
from .exported_program import (
    ACCESSORS,
    CHECKED_KINDS,
    SIGNATURE_NAME,
    ArgumentPath,
    CheckedSignature,
    ExportedModule,
    GradModeGuard,
    Guard,
    IdentityGuard,
    NumberGuard,
    TensorMetadata,
    ValueGuard,
    rebuild,
)

Module = torch.nn.Module
_LITERALS = frozenset(
    {type(None), bool, int, float, complex, str, type(...), torch.dtype, torch.device, torch.layout}
    | {torch.memory_format, range}
)
"""Types of values that are literals in a graph."""
_ASSERTION_MESSAGE = "a condition on the data, at which the program raises, is not as it was when this was exported"
_ATTRIBUTES = {"cell_contents": "cell_contents", "instance_dict": "__dict__"}
"""Kind of accessor that takes no argument -> the attribute that it reads."""


def _aten(inner: torch.fx.GraphModule, attempt: Attempt) -> torch.fx.GraphModule:
    """The graph as ATen operators."""
    before_autograd = attempt.graph.changes_state  # only a trace above autograd's dispatch records changes of grad mode
    trace = make_fx(inner, tracing_mode="real", pre_dispatch=before_autograd, _allow_non_fake_inputs=True)
    with attempt.graph.fake_mode, enable_python_dispatcher():
        return trace(*(each.fake for each in attempt.graph.inputs))


class OuterGraph:
    """The graph module under construction. The captured graph becomes one part of it."""

    def __init__(self, program: Program, attempt: Attempt) -> None:
        self.program = program
        self.attempt = attempt
        self.graph = torch.fx.Graph()
        self.tracer = GraphAppendingTracer(self.graph)
        self.root = torch.nn.Module()
        self.names: dict[int, str] = {}
        """Id of a value -> name of the attribute of the root that holds it."""
        self.nodes: dict[str, torch.fx.Node] = {}
        """Name of an attribute -> the node that reads it."""
        self.reached: dict[Source, torch.fx.Node] = {}
        """Source among the arguments -> the node that reads it."""
        self.persists = True
        """Whether the state dict contains captured tensors that aren't parameters or buffers of the user's module."""
        ordered = sorted(program.parameters, key=lambda each: each.kind is each.VAR_POSITIONAL)
        self.parameters = {each.name: self._placeholder(each) for each in ordered}
        """Name of a parameter -> its placeholder. That of ``*args`` is last, see `CheckedSignature.process_inputs`."""
        self._adopt_state(program.fn if isinstance(program.fn, Module) else getattr(program.fn, "__self__", None))

    def _placeholder(self, parameter: inspect.Parameter) -> torch.fx.Node:
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        has_default = type(parameter.default) in _LITERALS
        return self.graph.placeholder(
            star + parameter.name, default_value=parameter.default if has_default else parameter.empty
        )

    # -- state -----------------------------------------------------------------------------------------------------

    def _adopt_state(self, module: object) -> None:
        """Add all parameters and buffers of the exported module."""
        if not isinstance(module, Module):
            return
        self.persists = False
        self.root.training = module.training
        saved = set(module.state_dict(keep_vars=True))
        for name, parameter in module.named_parameters(remove_duplicate=False):
            self._put(name, parameter, True)
        for name, buffer in module.named_buffers(remove_duplicate=False):
            self._put(name, buffer, name in saved)

    def _put(self, name: str, value: object, persistent: bool) -> None:
        """Add an attribute of a dotted name."""
        _assign_attr(value, self.root, name)
        if not persistent:
            path, _, last = name.rpartition(".")
            self.root.get_submodule(path)._non_persistent_buffers_set.add(last)
        self.names.setdefault(id(value), name)

    def attribute(self, value: object, hint: str, persistent: bool = False) -> torch.fx.Node:
        """The node that reads a value from the graph module, which gets an attribute for it."""
        name = self.names.get(id(value))
        if name is None:
            name = self._free_name(hint)
            self._put(name, value, persistent)
        if name not in self.nodes:
            self.nodes[name] = self.graph.get_attr(name)
        return self.nodes[name]

    def _free_name(self, hint: str) -> str:
        """An unused dotted name like ``hint`` for an attribute."""
        parts = [part for part in re.split(r"\W+", hint) if part] or ["value"]
        if not parts[0].isidentifier() or hasattr(ExportedModule, parts[0]):
            parts[0] = "_" + parts[0]
        used = set(self.names.values())
        found = ".".join(parts)
        while found in used or any(each.startswith(found + ".") or found.startswith(each + ".") for each in used):
            found += "_"
        return found

    # -- values ----------------------------------------------------------------------------------------------------

    def _argument_at(self, source: Source) -> torch.fx.Node:
        """The node that reads a source among the arguments."""
        if source not in self.reached:
            self.reached[source] = self._create_node(source)
        return self.reached[source]

    def _create_node(self, source: Source) -> torch.fx.Node:
        parent = source.parent
        if source.kind == "local":
            return self.parameters[source.arg]
        assert parent is not None
        if parent.kind == "instance_dict" and source.kind == "dict_item" and parent.parent is not None:
            return self.graph.call_function(getattr, (self._argument_at(parent.parent), source.arg))
        if source.kind in ("tuple_item", "list_item", "deque_item", "dict_item"):
            return self.graph.call_function(operator.getitem, (self._argument_at(parent), source.arg))
        if source.kind in ("slot", "c_attr", "cell_contents", "instance_dict"):
            name = source.arg.__name__ if source.kind == "slot" else source.arg or _ATTRIBUTES[source.kind]
            return self.graph.call_function(getattr, (self._argument_at(parent), name))
        raise Unsupported(NotExportable(str(source), "a graph can't reach it from the arguments"))

    def _captured(self, source: Source, values: Mapping[Source, object]) -> object:
        """What the generated code gets for a value captured by the guards: the value itself or a proxy of it."""
        value = values[source]
        if source.local_rooted:
            return self.tracer.proxy(self._argument_at(source))
        if not isinstance(value, torch.Tensor):
            return value
        if source.kind == "c_attr":
            raise Unsupported(NotExportable(str(source), "it belongs to a tensor of the graph module's"))
        return self.tracer.proxy(self.attribute(value, _attribute_name(source, values), self.persists))

    def _embed(self, inner: torch.fx.GraphModule, truths: list[bool], *inputs: Proxy) -> list[Proxy]:
        """Copy the captured graph's nodes into the outer graph; return proxies of its outputs.

        ``truths``: the expected values of its runtime assertions, whose conditions are its last outputs."""
        placeholders = inner.graph.find_nodes(op="placeholder")
        mapped = {node: each.node for node, each in zip(placeholders, inputs, strict=True)}
        for node in inner.graph.find_nodes(op="get_attr"):
            mapped[node] = self.attribute(_as_exported(operator.attrgetter(node.target)(inner)), node.target)
        results: Any = self.graph.graph_copy(inner.graph, mapped)
        count = len(results) - len(truths)
        for condition, truth in zip(results[count:], truths):
            if not truth:
                condition = self.graph.call_function(torch.logical_not, (condition,))
            self.graph.call_function(torch._assert_async, (condition, _ASSERTION_MESSAGE))
        return [self.tracer.proxy(node) for node in results[:count]]

    def embedded_call(self, translation: Translation, aten_graph: bool) -> _C.GraphCall | None:
        """The call that generated code makes: it embeds the graph instead of running it. None if the graph is empty."""
        graph, expected = self.attempt.graph, self.attempt.runtime_assertions
        if not graph.operators:
            return None
        outputs = [*translation.outputs, *(each.tensor.node for each in expected)]
        inner = graph.finish(outputs)
        if aten_graph:
            inner = _aten(inner, self.attempt)
        for each in graph.inputs:
            if each.convert is not None:
                each.convert = partial(self._record_call, each.convert)
            if each.is_thawed:
                raise Unsupported(NotExportable(str(each.source), "its `requires_grad` is set"))
        truths = [each.truth for each in expected]
        return _C.GraphCall(partial(self._embed, inner, truths), sum(each.captured for each in graph.inputs))

    def _record_call(self, function: Callable[..., Any], *given: Proxy) -> Any:
        """Record the call of a function, or of the function in a ``partial``, which has a name."""
        call = partial(function)
        return self.tracer.proxy(self.graph.call_function(call.func, (*call.args, *(each.node for each in given))))

    # -- the whole -------------------------------------------------------------------------------------------------

    def run(self, after: types.CodeType, values: Mapping[Source, object]) -> None:
        """Run the generated code on proxies, which records the captured graph and the result as nodes. ``values``: what
        lies at each guarded source."""
        found = tuple(self._captured(source, values) for source in self.attempt.guards.captured)
        given = [self.tracer.proxy(self.parameters[name]) for name in self.program.given]
        after = after.replace(co_consts=tuple(map(_for_nodes, after.co_consts)))
        try:
            result = types.FunctionType(after, {})(*given, found)
        except (TraceError, TypeError) as error:
            raise Unsupported(NotExportable("what is made of the graph's results", str(error))) from error
        builder = _ResultBuilder(self, [*found, *after.co_consts])
        self.graph.output(builder.argument(result))

    def build(self) -> ExportedModule:
        """Finish the graph module."""
        guards = [*self._guards(), *map(self._number_guard, self.attempt.graph.symbols.guards())]
        signature = CheckedSignature(self.program.name, self.program.parameters, self.program.given, guards)
        self.graph.set_codegen(signature)
        self._refuse_names()
        made = ExportedModule(
            self.root, self.graph, self.program.name.replace(".", "_").replace("<", "").replace(">", "")
        )
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            made.__dict__[table] = self.root.__dict__[table]
        return made

    def _refuse_names(self) -> None:
        """Break the graph if its code uses a parameter's name for another variable. FX renames the nodes of
        such parameters, except for one named like the signature, which FX doesn't know."""
        text = textwrap.dedent(self.graph.python_code("self").src)
        counts = Counter(node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
        for name, node in self.parameters.items():
            is_reused = node.name != name and counts[name] > 2  # once passed to the check, once assigned to the node
            if is_reused or name == SIGNATURE_NAME:
                raise Unsupported(NotExportable(f"the name of the parameter {name}", "its code uses it: rename it"))

    # -- guards -----------------------------------------------------------------------------------------------------

    def _place(self, source: Source) -> ArgumentPath | None:
        """The path of a source among the arguments; None if it is elsewhere, or reached through a class."""
        way = source.way()
        if not way or way[0].kind != "local" or any(at.kind not in ACCESSORS for at in way[1:]):
            return None
        parameter = next(index for index, each in enumerate(self.program.parameters) if each.name == way[0].arg)
        steps = tuple((at.kind, at.arg.__name__ if at.kind == "slot" else at.arg) for at in way[1:])
        return ArgumentPath(str(source), parameter, steps)

    def _guards(self) -> Iterator[Guard]:
        """The guards on the arguments, parents first."""
        if any(node.target is torch._C._set_grad_enabled for node in self.graph.nodes):
            yield GradModeGuard(self.attempt.torch_state.initial_grad_mode)
        for index, each in enumerate(self.program.parameters):
            if each.name not in self.program.given:
                default = () if each.kind is each.VAR_POSITIONAL else each.default
                yield ValueGuard(ArgumentPath(each.name, index), "default", default)
        guards = self.attempt.guards
        for source in guards.root.walk():
            place = self._place(source)
            if place is None:
                continue
            kinds = dict(source.checks.values())
            if "tensor" in kinds:
                kinds["tensor"] = TensorMetadata.of(kinds["tensor"])
            if "tensor_of_any_size" in kinds:
                kinds["tensor"] = TensorMetadata.of(*kinds.pop("tensor_of_any_size"))
            if "tensor" in kinds and kinds["type"] in (torch.Tensor, torch.nn.Parameter):
                del kinds["type"]  # compilers pass subclasses
            for kind, arg in kinds.items():
                if kind not in CHECKED_KINDS:
                    raise Unsupported(NotExportable(place.name, f"a guard of kind {kind!r} can't be checked"))
                yield ValueGuard(place, kind, arg)
        yield from self._identities()

    def _number_guard(self, guard: SymbolicGuard) -> NumberGuard:
        places = [self._place(source) for source in guard.sources]
        if None in places:
            raise Unsupported(NotExportable(guard.text, "it is a condition on a value that isn't an argument"))
        return NumberGuard(tuple(place for place in places if place is not None), tuple(guard.program), guard.text)

    def _identities(self) -> Iterator[IdentityGuard]:
        for one, other in self.attempt.guards.same_places:
            places = self._place(one), self._place(other)
            if places[0] is not None and places[1] is not None:
                yield IdentityGuard((places[0], places[1]), True)
            elif places[0] is not None or places[1] is not None:
                raise Unsupported(NotExportable(str(one), f"it is the same object as {other}"))
        found = [self._place(source) for source in self.attempt.guards.distinct_places]
        distinct = tuple(place for place in found if place is not None)
        if len(distinct) > 1:
            yield IdentityGuard(distinct, False)


def _as_exported(value: Any) -> Any:
    """A subgraph as an `ExportedModule`, so that it is copied and pickled like the whole. Other values unchanged."""
    if type(value).__mro__[1] is not torch.fx.GraphModule:
        return value
    for name, child in list(value.named_children()):
        setattr(value, name, _as_exported(child))
    return ExportedModule(value, value.graph, type(value).__name__)


class _Size(tuple):
    """A ``torch.Size`` whose items may be proxies."""


def _for_nodes(constant: Any) -> Any:
    """A constant of the generated code. Functions that don't accept proxies are replaced by ones that do."""
    if any(constant is each for each in _TAKE_NO_PROXIES):
        return lambda given, *args: given.tracer.create_proxy("call_function", constant, (given, *args), {})
    if constant is torch.Size:
        return _Size
    if isinstance(constant, types.MethodDescriptorType) and issubclass(torch.Tensor, constant.__objclass__):
        return lambda tensor, *args: getattr(tensor, constant.__name__)(*args)
    return constant


_TAKE_NO_PROXIES = (torch.from_numpy, from_numpy_written)
_TABLES = ("_parameters", "_buffers", "_modules")


def _attribute_name(source: Source, values: Mapping[Source, Any]) -> str:
    """A dotted name for the tensor at a source, made of the variables, attributes and items on its path."""
    parts: list[str] = []
    at: Source | None = source
    while at is not None:
        parent = at.parent
        if parent is not None and parent.kind == "c_attr" and parent.arg == "__closure__" and parent.parent is not None:
            parts.append(values[parent.parent].__code__.co_freevars[at.arg])
            break
        if at.kind == "const" and not isinstance(at.arg, types.ModuleType):
            parts.append(getattr(at.arg, "__name__", type(at.arg).__name__))
        elif at.kind in ("dict_item", "tuple_item", "list_item", "deque_item", "c_attr", "type_attr"):
            if not (at.kind == "dict_item" and at.arg in _TABLES):
                parts.append(str(at.arg))
        elif at.kind == "slot":
            parts.append(at.arg.__name__)
        at = parent
    return ".".join(reversed(parts)).removeprefix("self.")


class _ResultBuilder:
    """Converts what the program returns to the argument of the output node.

    Pre-existing objects are returned themselves; objects created during tracing are created again in each call.
    """

    def __init__(self, outer: OuterGraph, existing: list[Any]) -> None:
        self.outer = outer
        self.graph = outer.graph
        self.existing = {id(each) for each in existing}
        self.counts: Counter[int] = Counter()
        """Id of an object -> number of its occurrences in the result."""
        self.made: dict[int, torch.fx.Node] = {}

    def argument(self, result: Any) -> Any:
        """The argument of the output node."""
        self._count(result, ())
        return self._argument(result)

    def _is_leaf(self, value: object) -> bool:
        """Whether the graph refers to a value as a whole, without looking at what it contains."""
        kind = type(value)
        return kind in _LITERALS or issubclass(kind, (Proxy, torch.Tensor, type)) or id(value) in self.existing

    def _count(self, value: object, inside: tuple[int, ...]) -> None:
        """Count the occurrences of a value and of all that it contains. ``inside``: ids of what contains it."""
        if self._is_leaf(value):
            return
        if id(value) in inside:
            raise Unsupported(NotExportable(f"a {type(value).__name__} that contains itself", "a graph has no cycles"))
        self.counts[id(value)] += 1
        if self.counts[id(value)] == 1:
            for part in _parts(value):
                self._count(part, (*inside, id(value)))

    def _argument(self, value: Any) -> Any:
        kind = type(value)
        if issubclass(kind, Proxy):
            return value.node
        if kind in _LITERALS:
            return value
        if issubclass(kind, torch.Tensor):
            return self.outer.attribute(value, "tensor")
        if self._is_leaf(value):
            return self.constant(value)
        shared = self.counts[id(value)] > 1 and kind is not tuple
        if kind in _PLAIN and not shared and (kind is not dict or all(type(key) in _LITERALS for key in value)):
            return _PLAIN[kind](value, self._argument)
        if id(value) not in self.made:
            self.made[id(value)] = self._node(value)
        return self.made[id(value)]

    def _node(self, value: Any) -> torch.fx.Node:
        kind = type(value)
        call = self.graph.call_function
        if kind is _Size:
            return call(torch.Size, ([self._argument(each) for each in value],))
        if kind in (list, set, frozenset, torch.Size) or hasattr(kind, "n_sequence_fields"):
            return call(kind, ([self._argument(each) for each in value],))
        if kind in (dict, OrderedDict, defaultdict):
            pairs = [(self._argument(key), self._argument(each)) for key, each in value.items()]
            factory = (self._argument(value.default_factory),) if kind is defaultdict else ()
            return call(kind, (*factory, pairs))
        if kind is deque:
            return call(deque, ([self._argument(each) for each in value], value.maxlen))
        if _is_plain_object(kind):
            items, attributes = _state_of(value)
            arguments = [self._argument(each) for each in items]
            named = {name: self._argument(each) for name, each in attributes.items()}
            return call(rebuild, (self.constant(kind), arguments, named))
        raise Unsupported(NotExportable(f"a {kind.__name__} that the program makes and returns", "a graph makes none"))

    def constant(self, value: object) -> torch.fx.Node:
        """The node that reads a pre-existing object."""
        if isinstance(value, Module):
            raise Unsupported(NotExportable(f"a {type(value).__name__} module", "it would be returned"))
        return self.outer.attribute(value, getattr(value, "__name__", type(value).__name__))


_PLAIN: dict[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    tuple: lambda value, argument: tuple(map(argument, value)),
    list: lambda value, argument: list(map(argument, value)),
    dict: lambda value, argument: {key: argument(each) for key, each in value.items()},
    slice: lambda value, argument: slice(argument(value.start), argument(value.stop), argument(value.step)),
}
"""Containers that graphs have as literals."""


def _is_plain_object(kind: type) -> bool:
    """Whether the state of an instance consists of nothing but items and attributes."""
    in_c = next(base for base in kind.__mro__ if is_immutable(base))
    return unmodeled_c_base(kind) is None and kind is not in_c and in_c in (object, OrderedDict, dict, list, tuple)


def _state_of(value: Any) -> tuple[list[Any], dict[str, Any]]:
    """The items (pairs if it is a mapping) and the attributes of a plain object."""
    items = list(dict.items(value) if isinstance(value, dict) else items_of(value))
    attributes = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        for name, raw in vars(cls).items():
            if isinstance(raw, types.MemberDescriptorType) and hasattr(value, name):
                attributes[name] = raw.__get__(value)
    return items, attributes


def _parts(value: Any) -> Iterable[Any]:
    """The values that an object contains."""
    kind = type(value)
    if kind is slice:
        return value.start, value.stop, value.step
    if kind in (dict, OrderedDict, defaultdict):
        return [*value.keys(), *value.values()]
    if kind in (tuple, list, set, frozenset, deque, torch.Size, _Size) or hasattr(kind, "n_sequence_fields"):
        return list(value)
    if _is_plain_object(kind):
        items, attributes = _state_of(value)
        return [*items, *attributes.values()]
    return ()
