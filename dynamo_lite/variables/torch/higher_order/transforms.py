"""Operators over functions: checkpoint, and the transforms of ``torch.func``."""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models, models_closures_of, models_raw
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import SequenceVariable, TupleVariable
from dynamo_lite.variables.torch.tensors.fake_calls import compute
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record, result

from .bodies import (
    BodyVariable,
    NodesVariable,
    NodeVariable,
    PlainVariable,
    alike,
    all_tensors,
    element,
    given,
    leaves,
    refuse,
    replaced,
    trace_body,
    with_results,
)

# -- checkpoint --------------------------------------------------------------------------------------------------------

_CHECKPOINT_OPTIONS = ("use_reentrant", "preserve_rng_state", "determinism_check", "context_fn", "debug", "early_stop")


@models(torch_checkpoint.checkpoint)
def _checkpoint(tx: Translator, function: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> Any:
    options = {name: tx.python_value(kwargs.pop(name)) for name in _CHECKPOINT_OPTIONS if name in kwargs}
    reentrant = options.get("use_reentrant")
    if not isinstance(reentrant, bool) or (reentrant and (kwargs or "determinism_check" in options)):
        refuse("checkpoint()", "it warns of how it is called, or raises")
    if set(options) - {"use_reentrant", "preserve_rng_state", "determinism_check"}:
        refuse("checkpoint()", "of its options only preserve_rng_state and determinism_check are modelled")
    if reentrant and not tx.graph.read_grad_mode():
        return _as_of_function(tx, tx.call(function, list(args), {}), args)
    if reentrant and not any(isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in args):
        refuse("checkpoint()", "it warns that there are no gradients")
    body = trace_body(tx, lambda: tx.call(function, list(args), kwargs), [function, *args, *kwargs.values()])
    if reentrant:
        _as_of_function(tx, body.output, args)
    settings = [
        ConstantVariable(options.get("preserve_rng_state", True)),
        ConstantVariable(options.get("determinism_check", "default")),
    ]
    return _call_on_lifted(tx, graph_functions.checkpoint, body, settings)


def _as_of_function(tx: Translator, output: VariableTracker, args: Any) -> VariableTracker:
    """With ``use_reentrant=True`` the function runs in a ``torch.autograd.Function``: the same comes of it where it
    returns new tensors, each with a gradient if there are any."""
    output = output.realize()
    results = [each.realize() for each in output.items] if isinstance(output, TupleVariable) else [output]
    memory = {arg.fake.untyped_storage()._cdata for arg in args if isinstance(arg, TensorVariable)}
    if not all(_is_of_function(each, memory) for each in results):
        refuse("checkpoint()", "with use_reentrant=True its function returns more than new tensors with gradients")
    return output


def _is_of_function(result: VariableTracker, memory: set[int]) -> bool:
    if not isinstance(result, TensorVariable):
        return isinstance(result, ConstantVariable)
    fake = result.fake
    could_have = torch.is_grad_enabled() and (fake.is_floating_point() or fake.is_complex())
    return fake.untyped_storage()._cdata not in memory and fake.requires_grad >= could_have


def _call_on_lifted(tx: Translator, target: Any, body: BodyVariable, settings: Args) -> VariableTracker:
    """Record ``target(body, *settings, *what the body uses)``; what the program's function returned, of its results."""
    inputs: Args = [NodeVariable(node) for node in body.lifted]
    return with_results(tx, body.output, record(tx, "call_function", target, [body, *settings, *inputs], {}))


# -- torch.func --------------------------------------------------------------------------------------------------------


class TransformVariable(VariableTracker):
    """``torch.func.vmap(f)`` and its like: a function whose call runs a traced ``f``."""

    __slots__ = ("transform", "function", "options", "model")

    def __init__(self, transform: Any, function: VariableTracker, options: dict[str, Any], model: Any) -> None:
        self.source = None
        self.transform = transform
        self.function = function
        self.options = options
        self.model = model

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"torch.func.{self.transform.__name__} of {self.function.describe()}"

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.model(tx, self, [arg.realize() for arg in args], kwargs)

    def reconstruct(self, cg: Codegen) -> None:
        options = {name: functools.partial(cg.load_const, value) for name, value in self.options.items()}
        cg.call_named(self.transform, [lambda: cg.load(self.function)], options)


def _transform(transform: Any, model: Callable[..., VariableTracker]) -> None:
    signature = inspect.signature(transform)

    def make(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            refuse(f"torch.func.{transform.__name__}()", "it does not take these arguments")
        function, *_ = bound.arguments.values()
        named = {name: tx.python_value(value) for name, value in list(bound.arguments.items())[1:]}
        defaults = {
            name: parameter.default
            for name, parameter in list(signature.parameters.items())[1:]
            if parameter.default is not inspect.Parameter.empty
        }
        return TransformVariable(transform, function, {**defaults, **named}, model)

    def call_found(made: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call one that the program had made: what it was made of is in its cells."""
        held = dict(zip(made.code.co_freevars, made.cells(tx), strict=True))
        function = held["func"].load().realize()
        options = {
            name: tx.python_value(held[name].load()) for name in signature.parameters.keys() & held.keys() - {"func"}
        }
        return TransformVariable(transform, function, options, model).call(tx, args, kwargs)

    models_raw(transform, make)
    if transform is not torch.func.hessian:  # one of two others
        models_closures_of(lambda: transform(lambda x: x), call_found)


def _vmap(tx: Translator, transform: TransformVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    options = transform.options
    in_dims = options["in_dims"]
    per_argument = [in_dims] * len(args) if isinstance(in_dims, int) else in_dims
    if not isinstance(in_dims, (int, tuple)) or len(per_argument) != len(args):
        refuse(transform.describe(), "its in_dims do not fit its arguments one by one")
    passed: list[tuple[VariableTracker, list[tuple[TensorVariable, int | None]]]] = []
    for arg, dims in zip(args, per_argument):
        passed.append((arg, [] if dims is None else _dims_of_leaves(tx, transform, arg, dims)))
    pairs = [(leaf, dim) for _, found in passed for leaf, dim in found if dim is not None]
    mapped: Args = [leaf for leaf, _ in pairs]
    dims = [dim for _, dim in pairs]
    _check_dims(transform, mapped, dims)

    def run() -> VariableTracker:
        inside = iter(given(tx, [(None, element(leaf.as_fx()[1], dim)) for leaf, dim in pairs]))
        new = [
            replaced(tx, arg, iter([leaf if dim is None else next(inside) for leaf, dim in found])) if found else arg
            for arg, found in passed
        ]
        return tx.call(transform.function, new, kwargs)  # what is given by name is not mapped over

    body = trace_body(tx, run, [transform.function, *args, *kwargs.values()], transform="vmap")
    if not all_tensors(tx, body.output) or not _out_dims_fit(options["out_dims"], body.output):
        refuse(transform.describe(), "its function returns more than tensors, or what out_dims does not fit")
    settings = (tuple(dims), options["out_dims"], options["randomness"], options["chunk_size"])
    return _run(tx, graph_functions.vmap, body, PlainVariable(settings), mapped)


def _dims_of_leaves(
    tx: Translator, transform: TransformVariable, arg: VariableTracker, dims: Any
) -> list[tuple[TensorVariable, int | None]]:
    """The tensors of an argument, in the order of `leaves`, each with its dimension in ``dims``: one for all below it,
    or a structure like the argument's."""
    arg = arg.realize()
    if dims is None or isinstance(dims, int):
        if dims is not None and not all_tensors(tx, arg):
            refuse(transform.describe(), "its in_dims are given for what is no tensor")
        return [(leaf, dims) for leaf in leaves(tx, arg)]
    below: Any = None
    if type(dims) is arg.python_type():
        if isinstance(arg, SequenceVariable) and len(arg.items) == len(dims):
            below = zip(arg.items, dims)
        elif isinstance(arg, DictVariable) and list(arg.items) == list(dims):
            below = zip(arg.items.values(), dims.values())
    if below is None:
        refuse(transform.describe(), "its in_dims are not of an argument's structure")
    return [pair for item, each in below for pair in _dims_of_leaves(tx, transform, item, each)]


def _check_dims(transform: TransformVariable, mapped: Any, dims: list[int]) -> None:
    sizes: list[int] = []
    for tensor, dim in zip(mapped, dims):
        if not -tensor.fake.ndim <= dim < tensor.fake.ndim:
            refuse(transform.describe(), "an in_dim is out of range")
        sizes.append(tensor.fake.shape[dim])
    if not sizes or any(size != sizes[0] for size in sizes):
        refuse(transform.describe(), "the sizes that it maps over are none or not the same")


def _out_dims_fit(out_dims: Any, output: VariableTracker) -> bool:
    if isinstance(out_dims, int):
        return True
    fits = isinstance(out_dims, tuple) and isinstance(output, TupleVariable) and len(out_dims) == len(output.items)
    return fits and all(isinstance(each.realize(), TensorVariable) for each in output.items)  # type: ignore[attr-defined]


def _run(tx: Translator, target: Any, body: BodyVariable, settings: VariableTracker, inputs: Args) -> VariableTracker:
    found = record(tx, "call_function", target, [body, NodesVariable(body.lifted), settings, *inputs], {})
    return with_results(tx, body.output, found)


def _differentiated(tx: Translator, transform: TransformVariable, args: Args) -> tuple[list[int], Any]:
    """Numbers of the arguments that it differentiates by, and the structure of those."""
    argnums = transform.options["argnums"]
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    if not all(-len(args) <= each < len(args) for each in numbers) or len(set(numbers)) < len(numbers):
        refuse(transform.describe(), "its argnums do not fit its arguments")
    numbers = [each % len(args) for each in numbers]
    chosen: Args = [args[each] for each in numbers]
    if not all(all_tensors(tx, each) for each in chosen):
        refuse(transform.describe(), "it differentiates by what is no tensor")
    return numbers, chosen[0] if isinstance(argnums, int) else TupleVariable(chosen)


def _trace_differentiated(
    tx: Translator, transform: TransformVariable, args: Args, kwargs: Kwargs, numbers: list[int]
) -> tuple[BodyVariable, Args]:
    """The function with new parameters in the place of the tensors of some arguments."""
    inputs: Args = [leaf for number in numbers for leaf in leaves(tx, args[number])]
    for around in tx.graph.bodies:
        around.differentiates = True

    def run() -> VariableTracker:
        fakes = [one.as_fx()[1].detach().clone() for one in inputs]
        for fake in fakes:
            if fake.dtype.is_floating_point or fake.dtype.is_complex:
                fake.requires_grad_()
        inside = iter(given(tx, [(None, fake) for fake in fakes]))
        passed = list(args)
        for number in numbers:
            passed[number] = replaced(tx, args[number], inside)
        return tx.call(transform.function, passed, kwargs)

    outside = [transform.function, *args, *kwargs.values()]
    return trace_body(tx, run, outside, grad_mode=True, transform=transform.transform.__name__), inputs


def _value_and_aux(
    transform: TransformVariable, output: Any, has_aux: bool
) -> tuple[VariableTracker, VariableTracker | None]:
    """What a function returns, and beside it with ``has_aux``."""
    if not has_aux:
        return output, None
    if not isinstance(output, TupleVariable) or len(output.items) != 2:
        refuse(transform.describe(), "its function does not return two values, with has_aux")
    value, aux = output.items
    return value.realize(), aux.realize()


def _gradient(tx: Translator, transform: TransformVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    numbers, structure = _differentiated(tx, transform, args)
    body, inputs = _trace_differentiated(tx, transform, args, kwargs, numbers)
    has_aux = bool(transform.options["has_aux"])
    output = body.output
    if not isinstance(_value_and_aux(transform, output, has_aux)[0], TensorVariable):
        refuse(transform.describe(), "its function does not return a tensor (and aux, with has_aux)")
    settings = PlainVariable(tuple(range(len(inputs))))
    arguments = [body, NodesVariable(body.lifted), settings, *inputs]
    found = leaves(tx, record(tx, "call_function", graph_functions.grad, arguments, {}))
    gradients = replaced(tx, structure, iter(found[: len(inputs)]))
    values = replaced(tx, output, iter(found[len(inputs) :]))
    if transform.transform is torch.func.grad_and_value:
        return TupleVariable([gradients, values])
    return TupleVariable([gradients, values.getitem(tx, ConstantVariable(1))]) if has_aux else gradients


def _jacobian(tx: Translator, transform: TransformVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if any(transform.options.get(name) for name in ("chunk_size", "_preallocate_and_copy")) or kwargs:
        refuse(transform.describe(), "only argnums and has_aux are modelled, and no keyword arguments")
    numbers, structure = _differentiated(tx, transform, args)
    body, inputs = _trace_differentiated(tx, transform, args, kwargs, numbers)
    has_aux = bool(transform.options.get("has_aux"))
    value, aux = _value_and_aux(transform, body.output, has_aux)
    if not leaves(tx, value) or not all_tensors(tx, body.output):
        refuse(transform.describe(), "its function returns more than tensors (and tensors as aux, with has_aux)")
    name, count = transform.transform.__name__, len(leaves(tx, value))
    settings = [ConstantVariable(name), ConstantVariable(count), ConstantVariable(has_aux)]
    arguments = [body, NodesVariable(body.lifted), *settings, *inputs]
    found = iter(leaves(tx, record(tx, "call_function", graph_functions.jacobian, arguments, {})))

    def by_inputs(parts: Iterator[VariableTracker]) -> VariableTracker:
        return replaced(tx, structure, parts)

    twice = name == "hessian"
    rows = (by_inputs(map(by_inputs, itertools.repeat(found)) if twice else found) for _ in range(count))
    jacobians = replaced(tx, value, rows)
    return TupleVariable([jacobians, replaced(tx, aux, found)]) if aux is not None else jacobians


@models(torch.func.jvp)
def _jvp(
    tx: Translator,
    func: VariableTracker,
    primals: VariableTracker,
    tangents: VariableTracker,
    *,
    strict: VariableTracker | None = None,
    has_aux: VariableTracker | None = None,
) -> VariableTracker:
    if any(each is not None and tx.truth(each) for each in (strict, has_aux)):
        refuse("torch.func.jvp()", "strict and has_aux are not modelled")
    pair = [list(each.elements(tx)) for each in (primals, tangents)]
    if len(pair[0]) != len(pair[1]) or not all(isinstance(each, TensorVariable) for each in (*pair[0], *pair[1])):
        refuse("torch.func.jvp()", "its primals and tangents are not as many plain tensors")
    options = {"argnums": tuple(range(len(pair[0])))}
    transform = TransformVariable(torch.func.jvp, func, options, None)
    body, inputs = _trace_differentiated(tx, transform, pair[0], {}, list(range(len(pair[0]))))
    if not all_tensors(tx, body.output):
        refuse("torch.func.jvp()", "its function returns more than tensors")
    settings = ConstantVariable(len(inputs))
    arguments = [body, NodesVariable(body.lifted), settings, *inputs, *pair[1]]
    found = leaves(tx, record(tx, "call_function", graph_functions.jvp, arguments, {}))
    half = len(found) // 2
    return TupleVariable([replaced(tx, body.output, iter(part)) for part in (found[:half], found[half:])])


class PullBackVariable(VariableTracker):
    """The function of cotangents that ``torch.func.vjp`` returns."""

    __slots__ = ("node", "output", "primals")

    def __init__(self, tx: Translator, node: Any, output: VariableTracker, primals: VariableTracker) -> None:
        self.source = None
        self.node = node
        self.output = output
        self.primals = primals
        tx.attempt.provenance.created(self)

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return "the function that torch.func.vjp returned"

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if kwargs or len(args) != 1 or not alike(tx, args[0].realize(), self.output):
            refuse(self.describe(), "it is not called with one cotangent for each result")
        given_args: Args = [NodeVariable(self.node), *leaves(tx, args[0])]
        found = record(tx, "call_function", graph_functions.pull_back, given_args, {})
        return replaced(tx, self.primals, iter(leaves(tx, found)))

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant(self.describe())


@models(torch.func.vjp)
def _vjp(
    tx: Translator, func: VariableTracker, *primals: VariableTracker, has_aux: VariableTracker | None = None
) -> VariableTracker:
    given_args: Args = [each.realize() for each in primals]
    if not given_args or not all(all_tensors(tx, each) for each in given_args):
        refuse("torch.func.vjp()", "its primals are not all tensors")
    with_aux = has_aux is not None and tx.truth(has_aux)
    transform = TransformVariable(torch.func.vjp, func, {}, None)
    body, inputs = _trace_differentiated(tx, transform, given_args, {}, list(range(len(given_args))))
    output = body.output
    value, _ = _value_and_aux(transform, output, with_aux)
    if not all_tensors(tx, output) or not leaves(tx, value):
        refuse("torch.func.vjp()", "its function does not return tensors (and aux, with has_aux)")
    operands = [body, NodesVariable(body.lifted), ConstantVariable(len(leaves(tx, value))), *inputs]
    nodes, fakes = zip(*(each.as_fx() for each in operands), strict=True)
    known = compute("call_function", graph_functions.vjp, list(fakes), {})
    node = tx.graph.call("call_function", graph_functions.vjp, nodes, {}, known)
    results = result(tx, tx.graph.item(node, 0, known[0]), known[0])
    whole = with_results(tx, output, results)
    pull = PullBackVariable(tx, node, value, TupleVariable(given_args))
    if not with_aux:
        return TupleVariable([whole, pull])
    return TupleVariable([whole.items[0], pull, whole.items[1]])  # type: ignore[attr-defined]


_transform(torch.func.vmap, _vmap)
for _each in (torch.func.grad, torch.func.grad_and_value):
    _transform(_each, _gradient)
for _each in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
    _transform(_each, _jacobian)
