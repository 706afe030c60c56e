"""Functions of ours that graphs call: torch's contexts as calls, and higher-order functions with traced bodies.

On real tensors they do what torch does in eager. While a compiler traces the graph, those for which torch has a
higher-order operator call that instead.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.fx
from torch.autograd.profiler import record_function
from torch.nn import attention
from torch.utils import _pytree as pytree
from torch.utils import checkpoint as torch_checkpoint

from dynamo_lite import _C

from .later_calls import LaterCall, being_traced, is_plain
from .traced_functions import FunctionFacts, traced_function

Tensors = tuple[torch.Tensor, ...]
Body = Callable[..., Tensors]
"""A traced function: a graph module that takes and returns tensors. Tensors that it reads from outside of itself, its
``extras``, are arguments after the others."""


def plain_tensor(value: torch.Tensor) -> torch.Tensor:
    """An alias of type ``torch.Tensor``, without a call of the subclass's ``__torch_function__``. It requires gradients
    if the tensor does, also with grad mode off: the program may compute with it where the mode is on."""
    with torch._C.DisableTorchFunctionSubclass():
        if torch.is_grad_enabled() or not value.requires_grad:
            return value.as_subclass(torch.Tensor)
        with torch.enable_grad():
            return value.as_subclass(torch.Tensor)


def call_by_names(function: Any, args: Any, names: Any, values: Any) -> Any:
    """A call with keyword arguments whose names aren't identifiers. ``function``: a name is a method's."""
    if isinstance(function, str):
        function, args = getattr(args[0], function), args[1:]
    return function(*args, **dict(zip(names, values, strict=True)))


def thawed(tensor: torch.Tensor) -> torch.Tensor:
    """Make a leaf require gradients; return it."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.requires_grad_()


def frozen(tensor: torch.Tensor) -> torch.Tensor:
    """Make a leaf require no gradients; return it."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.requires_grad_(False)


def from_numpy_written(array: object, writes: int) -> torch.Tensor:
    """``torch.from_numpy`` with the version counter set to the number of mutations so far."""
    tensor = torch.from_numpy(array)
    torch._C._autograd._unsafe_set_version_counter((tensor,), (writes,))
    return tensor


def enter_sdpa_kernel(backends: Sequence[int], set_priority: bool) -> tuple[Any, bool]:
    """Enter ``torch.nn.attention.sdpa_kernel``. Returns the argument of `exit_sdpa_kernel`."""
    previous = attention._cur_sdpa_kernel_backends(with_priority=set_priority)
    attention._sdpa_kernel([attention.SDPBackend(each) for each in backends], set_priority)
    return previous, set_priority


def exit_sdpa_kernel(entered: tuple[Any, bool]) -> None:
    """Exit ``torch.nn.attention.sdpa_kernel``."""
    attention._sdpa_kernel(*entered)


def enter_inference_mode(mode: bool) -> _C.InferenceBlock | bool:
    """Enter ``torch.inference_mode``. Returns the argument of `exit_inference_mode`. Torch's own function returns an
    object that exits when it is deallocated: after the graph failed, and inside of any other mode.

    While a compiler traces the graph, only the grad mode changes: compilers make ordinary tensors, and AOTAutograd's
    views of inputs would fail."""
    if not being_traced():
        return _C.InferenceBlock(mode)
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(not mode)
    return before


def exit_inference_mode(entered: _C.InferenceBlock | bool) -> None:
    """Exit ``torch.inference_mode``."""
    if isinstance(entered, bool):
        torch._C._set_grad_enabled(entered)
    else:
        entered.exit()


def enter_record_function(name: str, args: str | None) -> record_function | None:
    """Enter a ``record_function``. Returns the argument of `exit_record_function`. Does nothing while a compiler traces
    the graph, as the operators that it generates are others."""
    if being_traced():
        return None
    made = record_function(name, args)
    made.__enter__()
    return made


def exit_record_function(entered: record_function | None) -> None:
    """Exit a ``record_function``."""
    if entered is not None:
        entered.__exit__(None, None, None)


def nvtx(name: str, *message: str) -> None:
    """A function of ``torch.cuda.nvtx``, by its name; nothing while a compiler traces the graph."""
    if not being_traced():
        getattr(torch.cuda.nvtx, name)(*message)


def without_torch_function(kind: str, target: Any) -> Callable[..., Any]:
    """A function, or the method of a name, called without ``__torch_function__`` of its arguments' classes."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return getattr(args[0], target)(*args[1:], **kwargs) if kind == "call_method" else target(*args, **kwargs)

    run.__module__ = f"{__name__}.without_torch_function"  # caches on disk identify functions by module and name
    run.__name__ = target if kind == "call_method" else getattr(target, "__name__", "run")
    return run


def checkpoint(
    body: Body,
    reentrant: bool,
    is_argument: Sequence[bool],
    preserve_rng_state: bool,
    determinism_check: str,
    others: Sequence[tuple[str, Any]],
    *tensors: torch.Tensor,
) -> Tensors:
    """``torch.utils.checkpoint.checkpoint``.

    Args:
        is_argument: for each tensor whether the program passes it as an argument, which torch saves for the backward;
            others the function reads from outside.
        others: more of its options; perhaps the `LaterCall` of the function.
    """
    more = dict(others)
    later: LaterCall | None = more.pop("later", None)
    if being_traced():
        if "context_fn" in more:
            cast(torch.fx.GraphModule, body).meta["_checkpoint_context_fn"] = more["context_fn"]
        operator = torch.ops.higher_order.tag_activation_checkpoint
        return operator(body, *tensors, use_reentrant=False, preserve_rng_state=preserve_rng_state)
    checked = body if later is None else _checked(body, later)

    def run(*args: torch.Tensor) -> Tensors:
        following = iter(args)
        return checked(*(next(following) if is_given else each for each, is_given in zip(tensors, is_argument)))

    given = [each for each, is_given in zip(tensors, is_argument) if is_given]
    if not reentrant:
        more["determinism_check"] = determinism_check
    return torch_checkpoint.checkpoint(
        run, *given, use_reentrant=reentrant, preserve_rng_state=preserve_rng_state, **more
    )


def _checked(body: Body, later: LaterCall) -> Body:
    """A traced function that a checkpoint calls now, and again to recompute its results."""
    programs_function, state = later.programs_function(), None

    def run(*tensors: torch.Tensor) -> Tensors:
        nonlocal state
        with torch.enable_grad():  # a reentrant checkpoint calls it without gradients first
            now = _C.GlobalState()
        is_first, is_same = state is None, state is None or not now.differences(state)
        state = state or now
        own = None if is_first else programs_function(is_same)
        return body(*tensors) if own is None else own(tensors)

    return run


def lstm(*args: Any, **kwargs: Any) -> Any:
    """``torch.lstm``, compiled without oneDNN: some outputs of its kernel are None, which compilers can't save for
    backward."""
    enabled = torch._C._get_mkldnn_enabled()
    compiled = torch._C._len_torch_dispatch_stack() > 1  # a mode besides that of fake tensors
    if not enabled or not compiled or not torch.is_grad_enabled():
        return torch.lstm(*args, **kwargs)
    torch._C._set_mkldnn_enabled(False)
    try:
        return torch.lstm(*args, **kwargs)
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def autograd_function(
    name: str, bodies: Sequence[Body], extras: Sequence[torch.Tensor], facts: FunctionFacts, once: bool, *inputs: object
) -> Tensors:
    """``Function.apply`` of a user's class.

    Args:
        name: of the class.
        bodies: the forward, then backwards.
        once: whether the backward is ``once_differentiable``.
        inputs: the tensors among the arguments.
    """
    return traced_function(name, once).apply(tuple(bodies), tuple(extras), facts, *inputs)


def gradients(
    outputs: Tensors, inputs: Tensors, grad_outputs: Sequence[torch.Tensor | None], options: Any
) -> tuple[torch.Tensor | None, ...]:
    """``torch.autograd.grad``. While it is traced, it runs in this thread only, which has the tracer's modes."""
    threads = torch.autograd.set_multithreading_enabled(False) if being_traced() else contextlib.nullcontext()
    with threads:
        return torch.autograd.grad(outputs, inputs, grad_outputs or None, **options)


@torch.fx.node.has_side_effect
def hook(body: Body, later: LaterCall | None, tensor: torch.Tensor, *extras: torch.Tensor) -> None:
    """``tensor.register_hook`` with a traced hook."""
    programs_function = None if later is None else later.programs_function()

    def run(gradient: torch.Tensor) -> torch.Tensor | None:
        own = None if programs_function is None else programs_function(is_plain(gradient))
        if own is not None:
            result: torch.Tensor | None = own(extras, gradient)
            return result
        found = body(gradient, *extras)
        return found[0] if found else None

    tensor.register_hook(run)


def vmap(body: Body, extras: Sequence[torch.Tensor], options: Any, *inputs: torch.Tensor) -> Tensors:
    """``torch.func.vmap``."""
    in_dims, out_dims, randomness, chunk_size = options
    mapped = torch.func.vmap(
        lambda *args: body(*args, *extras), in_dims, out_dims, randomness=randomness, chunk_size=chunk_size
    )
    return mapped(*inputs)


def grad(body: Body, extras: Sequence[torch.Tensor], argnums: Sequence[int], *inputs: torch.Tensor) -> Tensors:
    """``torch.func.grad_and_value``: gradients, then the body's results."""

    def function(*args: torch.Tensor) -> Any:
        value, *rest = body(*args, *extras)
        return value, tuple(rest)

    results: Any = torch.func.grad_and_value(function, tuple(argnums), has_aux=True)(*inputs)
    gradients, (value, rest) = results
    return (*gradients, value, *rest)


def vjp(body: Body, extras: Sequence[torch.Tensor], count: int, *inputs: torch.Tensor) -> tuple[Tensors, Any]:
    """``torch.func.vjp``: the body's results, and the function of cotangents of its first ``count`` results."""

    def function(*args: torch.Tensor) -> tuple[Tensors, Tensors]:
        results = body(*args, *extras)
        return tuple(results[:count]), tuple(results[count:])

    values, pull, rest = cast(Any, torch.func.vjp)(function, *inputs, has_aux=True)
    return (*values, *rest), pull


def pull_back(pulled: tuple[Tensors, Any], *cotangents: torch.Tensor) -> Tensors:
    """Call the function that `vjp` returned."""
    return pulled[1](cotangents)


def jvp(body: Body, extras: Sequence[torch.Tensor], facts: tuple[int, int, bool], *inputs: torch.Tensor) -> Tensors:
    """``torch.func.jvp``: values, their tangents, then the body's other results. ``facts``: the number of primals,
    which the inputs begin with, their tangents following; the number of values; ``strict``."""
    primals, values, strict = facts

    def function(*args: torch.Tensor) -> tuple[Tensors, Tensors]:
        found = tuple(body(*args, *extras))
        return found[:values], found[values:]

    run: Any = torch.func.jvp
    results = run(function, inputs[:primals], inputs[primals:], strict=strict, has_aux=True)
    return tuple(itertools.chain.from_iterable(results))


def jacobian(
    body: Body,
    extras: Sequence[torch.Tensor],
    kind: str,
    count: int,
    has_aux: bool,
    options: Sequence[tuple[str, Any]],
    *inputs: torch.Tensor,
) -> Tensors:
    """``torch.func.jacrev``, ``jacfwd`` or ``hessian`` (``kind``) of the body's first ``count`` results, by all inputs,
    as a flat tuple. With ``has_aux``, the other results follow."""

    def function(*args: torch.Tensor) -> Any:
        found = tuple(body(*args, *extras))
        return (found[:count], found[count:]) if has_aux else found

    given = dict(options, has_aux=True) if has_aux else dict(options)
    found = getattr(torch.func, kind)(function, tuple(range(len(inputs))), **given)(*inputs)
    return tuple(pytree.tree_leaves(found))


def indexed(tensor: torch.Tensor, index: Sequence[torch.Tensor | int]) -> torch.Tensor:
    """``tensor[index]`` that doesn't read 0-dimensional index tensors as numbers. A mode of torch's that does the same
    takes precedence, as its derivative is faster."""
    if torch._C._len_torch_function_stack():
        return tensor[tuple(index)]
    indices = [each if isinstance(each, torch.Tensor) else torch.tensor(each, device=tensor.device) for each in index]
    return torch.ops.aten.index(tensor, indices)


Index = Sequence[Any]


def getitem_mapped(tensor: torch.Tensor, index: Index) -> torch.Tensor:
    """``tensor[index]`` in a function that ``vmap`` runs, where an index without dimensions is mapped over. On fake
    tensors that index would be read."""
    return tensor[tuple(index)] if _is_transformed(index) else torch.ops.aten.index(*_view_and_indices(tensor, index))


def setitem_mapped(tensor: torch.Tensor, index: Index, value: Any) -> None:
    """``tensor[index] = value`` under the same conditions."""
    if _is_transformed(index):
        tensor[tuple(index)] = value
    else:
        values = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=tensor.dtype)
        torch.ops.aten.index_put_(*_view_and_indices(tensor, index), values.to(tensor.device))


def _is_transformed(index: Index) -> bool:
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return any(isinstance(each, torch.Tensor) and wrapped(each) for each in index)


def _view_and_indices(tensor: torch.Tensor, index: Index) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """The view by the ints and slices of an index, and the tensors among the indices, by dimension of the view."""
    rest = tensor.dim() - sum(each is not None and each is not ... for each in index)
    at = next((at for at, each in enumerate(index) if each is ...), len(index))
    items = [*index[:at], *[slice(None)] * rest, *index[at + 1 :]]
    view = tensor[tuple(slice(None) if isinstance(each, torch.Tensor) else each for each in items)]
    return view, [each if isinstance(each, torch.Tensor) else None for each in items if type(each) is not int]


def flex_attention(
    score: Body,
    mask: Body,
    score_extras: Tensors,
    mask_extras: Tensors,
    block_mask: tuple[object, ...],
    scale: float | None,
    options: Sequence[tuple[str, Any]],
    *inputs: torch.Tensor,
) -> Tensors:
    """The operator that ``torch.nn.attention.flex_attention`` calls. ``block_mask`` lacks its last item, the mask."""
    block_mask = (*block_mask, lambda *args: mask(*args)[0])
    operator = torch.ops.higher_order.flex_attention
    return operator(*inputs, lambda *args: score(*args)[0], block_mask, scale, dict(options), score_extras, mask_extras)


def _of(body: Body, which: Sequence[int], start: int = 0) -> Body:
    """A body of all operands that passes on some: its first ``start`` arguments, and ``which`` of the rest."""
    return lambda *args: body(*args[:start], *(args[start + at] for at in which))


def cond(
    predicate: torch.Tensor,
    true_body: Body,
    false_body: Body,
    true_uses: Sequence[int],
    false_uses: Sequence[int],
    operands: Sequence[torch.Tensor | int],
) -> Tensors:
    """``torch.cond``."""
    branches = _of(true_body, true_uses), _of(false_body, false_uses)
    has_history = torch.is_grad_enabled() and any(getattr(each, "requires_grad", False) for each in operands)
    if being_traced() or has_history or torch._C._functorch.is_functorch_wrapped_tensor(predicate):
        return torch.ops.higher_order.cond(predicate, *branches, tuple(operands))
    return branches[not predicate](*operands)


def while_loop(
    test: Body,
    body: Body,
    test_uses: Sequence[int],
    body_uses: Sequence[int],
    carried: Sequence[torch.Tensor],
    extras: Sequence[torch.Tensor],
) -> Tensors:
    """``torch.while_loop``."""
    condition, step = _of(test, test_uses, len(carried)), _of(body, body_uses, len(carried))
    # The operator rejects a tensor that is both carried and an extra.
    twice = [isinstance(each, torch.Tensor) and any(each is other for other in extras) for each in carried]
    values = tuple(each.clone() if again else each for each, again in zip(carried, twice))
    operator = torch.ops.higher_order.while_loop
    return operator(lambda *args: condition(*args)[0], step, values, tuple(extras))
