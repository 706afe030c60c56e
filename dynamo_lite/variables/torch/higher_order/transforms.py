"""Operators that call a body: ``torch.utils.checkpoint`` and the transforms of ``torch.func``."""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import torch
from torch.utils import checkpoint as torch_checkpoint

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import BackwardReads, CheckpointCall, HigherOrderOperator
from dynamo_lite.plan.rows import Value
from dynamo_lite.records.subgraphs import Runs
from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.shared_memory import memory_of
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models, models_closures_of, models_raw
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import SequenceVariable, TupleVariable
from dynamo_lite.variables.torch.tensors.fake_computation import compute
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record, result

from .bodies import (
    BodyVariable,
    NodeVariable,
    all_tensors,
    become_results,
    body_parameters,
    mapped_element,
    replace_tensors,
    results_anywhere,
    same_structure,
    tensor_leaves,
    trace_body,
    tuple_of_nodes,
    with_results,
)
from .later_calls import LaterFunction, is_checked_later, lift_tensors
from .selective_checkpoints import CheckpointOptions, traced_context_fn

# -- checkpoint --------------------------------------------------------------------------------------------------------

_CHECKPOINT_OPTIONS = ["use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop"]
if "respect_saved_tensors_hooks" in inspect.signature(torch_checkpoint.checkpoint).parameters:  # torch 2.14
    _CHECKPOINT_OPTIONS.append("respect_saved_tensors_hooks")


@models(torch_checkpoint.checkpoint)
def _checkpoint(
    tx: Translator, function: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    options = {name: tx.python_value(kwargs.pop(name)) for name in _CHECKPOINT_OPTIONS if name in kwargs}
    context_fn = traced_context_fn(tx, kwargs.pop("context_fn")) if "context_fn" in kwargs else None
    reentrant = options.get("use_reentrant")
    respects_hooks = options.get("respect_saved_tensors_hooks")
    has_others = bool(kwargs or context_fn or options.get("debug") or respects_hooks is not None)
    if not isinstance(reentrant, bool) or (reentrant and has_others):
        unsupported(CheckpointCall("torch warns of its arguments, or refuses them"))
    if options.get("debug"):
        unsupported(CheckpointCall("it has the option debug"))
    if respects_hooks and context_fn:
        unsupported(CheckpointCall("it has the option respect_saved_tensors_hooks"))
    if reentrant and not tx.graph.read_grad_mode():
        return _check_reentrant(tx.call(function, list(args), {}), args)
    if reentrant and not any(isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in args):
        unsupported(CheckpointCall("with use_reentrant=True, torch warns that no argument requires gradients"))
    body = _trace_checkpointed(tx, reentrant, function, args, kwargs)
    if reentrant:
        _check_reentrant(body.output, args)
    given = {tx.graph.here(arg.node) for arg in args if isinstance(arg, TensorVariable)}
    more = [] if reentrant else [("early_stop", options.get("early_stop", True)), ("context_fn", context_fn)]
    more.append(("later", LaterFunction(tx, body, _reaches, function, list(args), kwargs).later))
    settings: Args = [
        ConstantVariable(reentrant),
        InvariantVariable(tuple(node in given for node in body.lifted)),
        ConstantVariable(options.get("preserve_rng_state", True)),
        ConstantVariable(options.get("determinism_check", "default")),
        CheckpointOptions(tuple(each for each in more if each[1] is not None)),
    ]
    lifted: Args = [NodeVariable(node) for node in body.lifted]
    become_results(tx, body, record(tx, graph_functions.checkpoint, [body, *settings, *lifted], {}))
    return body.output


def _call_of_checkpointed(
    tx: Translator,
    function: VariableTracker,
    args: VariableTracker,
    kwargs: VariableTracker,
    **options: VariableTracker,
) -> VariableTracker:
    """A call of what ``checkpoint(use_reentrant=False)``, without a function, makes of one."""
    positional, named = args.realize(), kwargs.realize()
    assert isinstance(positional, TupleVariable) and isinstance(named, DictVariable)
    keywords = {str(name): value for name, value in named.items.items()}
    return _checkpoint(tx, function, *positional.elements(tx), **keywords, **options)


if hasattr(torch_checkpoint, "_checkpoint_impl"):  # torch 2.14
    models(torch_checkpoint._checkpoint_impl)(_call_of_checkpointed)


def _reaches(what: str) -> CheckpointCall:
    return CheckpointCall(f"its function reaches {what}, and is called again in the backward")


def _trace_checkpointed(
    tx: Translator, reentrant: bool, function: VariableTracker, args: Sequence[VariableTracker], kwargs: Kwargs
) -> BodyVariable:
    runs: Runs = "reentrant" if reentrant else "recomputed"
    outside = [function, *args, *kwargs.values()]

    is_checked = is_checked_later(tx)

    def run() -> VariableTracker:
        if is_checked:
            lift_tensors(tx.graph, outside)
        return tx.call(function, list(args), kwargs)

    try:
        return trace_body(tx, run, outside, partial(results_anywhere, tx), runs=runs)
    except Unsupported as error:
        if isinstance(error.reason, BackwardReads):
            unsupported(CheckpointCall(f"its function reads {error.reason.place}, and is called again in the backward"))
        raise


def _check_reentrant(output: VariableTracker, args: Sequence[VariableTracker]) -> VariableTracker:
    """Break the graph unless reentrant checkpointing gives the same results as non-reentrant.

    With ``use_reentrant=True`` the function runs in a ``torch.autograd.Function``. The results are the same if they are
    new tensors, each of which requires gradients if it can.
    """
    output = output.realize()
    results = [each.realize() for each in output.items] if isinstance(output, TupleVariable) else [output]
    taken = {memory_of(arg.fake) for arg in args if isinstance(arg, TensorVariable)}
    if not all(_is_new_result(each, taken) for each in results):
        unsupported(
            CheckpointCall("with use_reentrant=True, its function must return new tensors that require gradients")
        )
    return output


def _is_new_result(result: VariableTracker, taken: set[int]) -> bool:
    if not isinstance(result, TensorVariable):
        return isinstance(result, ConstantVariable)
    fake = result.fake
    can_require_grad = torch.is_grad_enabled() and (fake.is_floating_point() or fake.is_complex())
    return memory_of(fake) not in taken and fake.requires_grad >= can_require_grad


# -- torch.func --------------------------------------------------------------------------------------------------------


class TransformVariable(VariableTracker):
    """``torch.func.vmap(f)`` and the like: a function whose call runs a traced ``f``.

    ``model`` traces the call, given this tracker and the arguments.
    """

    __slots__ = ("transform", "function", "options", "model")

    def __init__(
        self,
        transform: Callable[..., Any],
        function: VariableTracker,
        options: dict[str, Any],
        model: TransformModel | None = None,
    ) -> None:
        self.source = None
        self.transform = transform
        self.function = function
        self.options = options
        self.model = model

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"torch.func.{self.transform.__name__} of {self.function.describe()}"

    def refuse(self, why: str) -> NoReturn:
        unsupported(HigherOrderOperator(self.describe(), why))

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        assert self.model is not None
        return self.model(tx, self, [arg.realize() for arg in args], kwargs)

    def construct(self, plan: Planner) -> Value:
        options = {name: plan.constant(value) for name, value in self.options.items()}
        return plan.call(self.transform, self.function, **options)


TransformModel = Callable[[Translator, TransformVariable, Args, Kwargs], VariableTracker]


def _model_transform(transform: Callable[..., Any], model: TransformModel) -> None:
    """Model calls of a transform (``torch.func.vmap``), and calls of pre-existing functions that it returned."""
    signature = inspect.signature(transform)
    defaults = {name: each.default for name, each in signature.parameters.items() if each.default is not each.empty}

    def make(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            unsupported(HigherOrderOperator(f"torch.func.{transform.__name__}()", "torch refuses its arguments"))
        (_, function), *given = bound.arguments.items()
        options = {name: tx.python_value(value) for name, value in given}
        return TransformVariable(transform, function, {**defaults, **options}, model)

    def call_existing(closure: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call a pre-existing transformed function. Its cells hold the arguments of the transform."""
        cells = dict(zip(closure.code.co_freevars, closure.cells(tx), strict=True))
        function = cells["func"].load().realize()
        names = signature.parameters.keys() & cells.keys() - {"func"}
        options = {name: tx.python_value(cells[name].load()) for name in names}
        return TransformVariable(transform, function, options, model).call(tx, args, kwargs)

    models_raw(transform, make)
    if transform is not torch.func.hessian:  # it returns a closure of jacfwd
        models_closures_of(lambda: transform(lambda x: x), call_existing)


def _vmap(tx: Translator, transform: TransformVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    options = transform.options
    in_dims = options["in_dims"]
    per_argument = [in_dims] * len(args) if isinstance(in_dims, int) else in_dims
    if not isinstance(in_dims, (int, tuple)) or len(per_argument) != len(args):
        transform.refuse("in_dims must be an int, or a tuple with an item for each argument")
    dims_by_arg = [
        [] if dims is None else _dims_of_leaves(transform, arg, dims) for arg, dims in zip(args, per_argument)
    ]
    mapped = [(leaf, dim) for pairs in dims_by_arg for leaf, dim in pairs if dim is not None]
    _check_dims(transform, mapped)

    def run() -> VariableTracker:
        elements = iter(body_parameters(tx, [mapped_element(leaf.fake, dim) for leaf, dim in mapped]))
        new_args = []
        for arg, pairs in zip(args, dims_by_arg):
            tensors = [leaf if dim is None else next(elements) for leaf, dim in pairs]
            new_args.append(replace_tensors(tx, arg, iter(tensors)) if pairs else arg)
        return tx.call(transform.function, new_args, kwargs)  # keyword arguments are not mapped over

    outside = [transform.function, *args, *kwargs.values()]
    body = trace_body(tx, run, outside, transform="vmap", runs_once=options["chunk_size"] is None)
    in_dims, out_dims = tuple(dim for _, dim in mapped), _out_dims(transform, body.output)
    settings = InvariantVariable((in_dims, out_dims, options["randomness"], options["chunk_size"]))
    arguments: Args = [body, tuple_of_nodes(body.lifted), settings, *(leaf for leaf, _ in mapped)]
    return with_results(tx, body.output, record(tx, graph_functions.vmap, arguments, {}))


def _dims_of_leaves(
    transform: TransformVariable, arg: VariableTracker, dims: Any
) -> list[tuple[TensorVariable, int | None]]:
    """The tensors of an argument or result in order, each with its mapped dimension.

    ``dims`` is one dimension for all of them, or a structure like the argument's.
    """
    arg = arg.realize()
    if dims is None or isinstance(dims, int):
        if dims is not None and not all_tensors(arg):
            transform.refuse("in_dims or out_dims has a dimension for a value that is no tensor")
        return [(leaf, dims) for leaf in tensor_leaves(arg)]
    has_same_type, items = arg.python_type() is type(dims), arg.builtin_part()
    if has_same_type and isinstance(arg, SequenceVariable) and len(arg.items) == len(dims):
        pairs = zip(arg.items, dims)
    elif has_same_type and isinstance(items, DictVariable) and list(items.items) == list(dims):
        pairs = zip(items.items.values(), dims.values())
    else:
        transform.refuse("in_dims or out_dims has another structure than the arguments or results")
    return [pair for item, each in pairs for pair in _dims_of_leaves(transform, item, each)]


def _check_dims(transform: TransformVariable, mapped: Sequence[tuple[TensorVariable, int]]) -> None:
    sizes: list[int] = []
    for tensor, dim in mapped:
        if not -tensor.fake.ndim <= dim < tensor.fake.ndim:
            transform.refuse("an in_dim is out of range")
        sizes.append(tensor.fake.shape[dim])
    if not sizes or any(size != sizes[0] for size in sizes):
        transform.refuse("it maps over no tensor, or over dimensions of different sizes")


def _out_dims(transform: TransformVariable, output: VariableTracker) -> tuple[int | None, ...]:
    """The dimensions of the results' tensors, in order."""
    dims = transform.options["out_dims"]
    if isinstance(output, TensorVariable) and isinstance(dims, tuple) and len(dims) == 1:
        (dims,) = dims
    found = tuple(dim for _, dim in _dims_of_leaves(transform, output, dims))
    return found or transform.refuse("its function returns no tensor")


def _differentiated(transform: TransformVariable, args: Args) -> tuple[list[int], VariableTracker]:
    """The indices of the arguments to differentiate by, and these arguments in the structure of ``argnums``."""
    argnums = transform.options["argnums"]
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    if not all(-len(args) <= each < len(args) for each in numbers) or len(set(numbers)) < len(numbers):
        transform.refuse("argnums is out of range, or names an argument twice")
    numbers = [each % len(args) for each in numbers]
    chosen: Args = [args[each] for each in numbers]
    if not all(all_tensors(each) for each in chosen):
        transform.refuse("an argument that it differentiates by is no tensor")
    return numbers, chosen[0] if isinstance(argnums, int) else TupleVariable(chosen)


def _trace_differentiated(
    tx: Translator, transform: TransformVariable, args: Args, kwargs: Kwargs, numbers: list[int]
) -> tuple[BodyVariable, Args]:
    """Trace the function with body parameters as the tensors of the arguments to differentiate by."""
    inputs: Args = [leaf for number in numbers for leaf in tensor_leaves(args[number])]
    for around in tx.graph.scope.nesting:
        around.differentiates = True

    def run() -> VariableTracker:
        fakes = [one.as_fx()[1].detach().clone() for one in inputs]
        for fake in fakes:
            if fake.dtype.is_floating_point or fake.dtype.is_complex:
                fake.requires_grad_()
        parameters = iter(body_parameters(tx, fakes))
        passed = list(args)
        for number in numbers:
            passed[number] = replace_tensors(tx, args[number], parameters)
        return tx.call(transform.function, passed, kwargs)

    outside = [transform.function, *args, *kwargs.values()]
    name = transform.transform.__name__
    return trace_body(tx, run, outside, grad_mode=True, transform=name, runs_once=True), inputs


def _value_and_aux(
    transform: TransformVariable, output: VariableTracker, has_aux: bool
) -> tuple[VariableTracker, VariableTracker | None]:
    """The output to differentiate and, with ``has_aux``, the auxiliary one."""
    if not has_aux:
        return output, None
    if not isinstance(output, TupleVariable) or len(output.items) != 2:
        transform.refuse("with has_aux, its function must return a pair")
    value, aux = output.items
    return value.realize(), aux.realize()


def _gradient(tx: Translator, transform: TransformVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    numbers, structure = _differentiated(transform, args)
    body, inputs = _trace_differentiated(tx, transform, args, kwargs, numbers)
    has_aux = bool(transform.options["has_aux"])
    output = body.output
    if not isinstance(_value_and_aux(transform, output, has_aux)[0], TensorVariable) or not all_tensors(output):
        transform.refuse("its function must return a tensor (with has_aux, a pair of a tensor and tensors)")
    settings = InvariantVariable(tuple(range(len(inputs))))
    arguments = [body, tuple_of_nodes(body.lifted), settings, *inputs]
    results = tensor_leaves(record(tx, graph_functions.grad, arguments, {}))
    gradients = replace_tensors(tx, structure, iter(results[: len(inputs)]))
    values = replace_tensors(tx, output, iter(results[len(inputs) :]))
    if transform.transform is torch.func.grad_and_value:
        return TupleVariable([gradients, values])
    return TupleVariable([gradients, values.getitem(tx, ConstantVariable(1))]) if has_aux else gradients


def _jacobian(tx: Translator, transform: TransformVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if kwargs:
        transform.refuse("it has keyword arguments")
    numbers, structure = _differentiated(transform, args)
    body, inputs = _trace_differentiated(tx, transform, args, kwargs, numbers)
    has_aux = bool(transform.options.get("has_aux"))
    value, aux = _value_and_aux(transform, body.output, has_aux)
    if not tensor_leaves(value) or not all_tensors(body.output):
        transform.refuse("its function returns a value that is no tensor")
    name, count = transform.transform.__name__, len(tensor_leaves(value))
    options = [(each, value) for each, value in transform.options.items() if each not in ("argnums", "has_aux")]
    settings = [ConstantVariable(name), ConstantVariable(count), ConstantVariable(has_aux), InvariantVariable(options)]
    arguments = [body, tuple_of_nodes(body.lifted), *settings, *inputs]
    results = iter(tensor_leaves(record(tx, graph_functions.jacobian, arguments, {})))

    def by_inputs(tensors: Iterator[VariableTracker]) -> VariableTracker:
        return replace_tensors(tx, structure, tensors)

    twice = name == "hessian"
    rows = (by_inputs(map(by_inputs, itertools.repeat(results)) if twice else results) for _ in range(count))
    jacobians = replace_tensors(tx, value, rows)
    return TupleVariable([jacobians, replace_tensors(tx, aux, results)]) if aux is not None else jacobians


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
    transform = TransformVariable(torch.func.jvp, func, {})
    is_strict, with_aux = (each is not None and tx.truth(each) for each in (strict, has_aux))
    points, directions = primals.realize(), tangents.realize()
    is_tuple = points.python_type() is tuple and bool(tensor_leaves(points))
    if not is_tuple or not all_tensors(points) or not same_structure(points, directions, compares_metadata=False):
        transform.refuse("its primals and tangents must be tuples with the same structure of tensors")
    args = list(points.elements(tx))
    body, inputs = _trace_differentiated(tx, transform, args, {}, list(range(len(args))))
    value, aux = _value_and_aux(transform, body.output, with_aux)
    if not all_tensors(body.output) or not tensor_leaves(value):
        transform.refuse("its function returns a value that is no tensor")
    settings = InvariantVariable((len(inputs), len(tensor_leaves(value)), is_strict))
    arguments = [body, tuple_of_nodes(body.lifted), settings, *inputs, *tensor_leaves(directions)]
    results = iter(tensor_leaves(record(tx, graph_functions.jvp, arguments, {})))
    found = [replace_tensors(tx, each, results) for each in (value, value, aux) if each is not None]
    return TupleVariable(found)


class PullBackVariable(VariableTracker):
    """The function that ``torch.func.vjp`` returns. It maps cotangents of the output to gradients of the primals."""

    __slots__ = ("node", "output", "primals")

    def __init__(self, tx: Translator, node: torch.fx.Node, output: VariableTracker, primals: VariableTracker) -> None:
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
        if kwargs or len(args) != 1 or not same_structure(args[0].realize(), self.output):
            unsupported(
                HigherOrderOperator(
                    self.describe(), "it must be called with cotangents like the results, and without options"
                )
            )
        operands: Args = [NodeVariable(self.node), *tensor_leaves(args[0])]
        gradients = record(tx, graph_functions.pull_back, operands, {})
        return with_results(tx, self.primals, gradients)

    def construct(self, plan: Planner) -> Value:
        raise NotConstant(self.describe())


@models(torch.func.vjp)
def _vjp(
    tx: Translator, func: VariableTracker, *primals: VariableTracker, has_aux: VariableTracker | None = None
) -> VariableTracker:
    transform = TransformVariable(torch.func.vjp, func, {})
    primal_args: Args = [each.realize() for each in primals]
    if not primal_args or not all(all_tensors(each) for each in primal_args):
        transform.refuse("a primal is no tensor")
    with_aux = has_aux is not None and tx.truth(has_aux)
    body, inputs = _trace_differentiated(tx, transform, primal_args, {}, list(range(len(primal_args))))
    output = body.output
    value, _ = _value_and_aux(transform, output, with_aux)
    if not all_tensors(output) or not tensor_leaves(value):
        transform.refuse("its function returns a value that is no tensor")
    operands = [body, tuple_of_nodes(body.lifted), ConstantVariable(len(tensor_leaves(value))), *inputs]
    nodes, fakes = zip(*(each.as_fx() for each in operands), strict=True)
    fake = compute("call_function", graph_functions.vjp, list(fakes), {})
    node = tx.graph.call("call_function", graph_functions.vjp, nodes, {}, fake)
    results = result(tx, tx.graph.item(node, 0, fake[0]), fake[0])
    outputs = with_results(tx, output, results)
    pull = PullBackVariable(tx, node, value, TupleVariable(primal_args))
    if not with_aux:
        return TupleVariable([outputs, pull])
    value, aux = outputs.elements(tx)
    return TupleVariable([value, pull, aux])


_model_transform(torch.func.vmap, _vmap)
_model_transform(torch.func.grad, _gradient)
_model_transform(torch.func.grad_and_value, _gradient)
_model_transform(torch.func.jacrev, _jacobian)
_model_transform(torch.func.jacfwd, _jacobian)
_model_transform(torch.func.hessian, _jacobian)
