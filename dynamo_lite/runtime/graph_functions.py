"""What graphs call of ours: contexts of torch's, and what runs a traced function as torch's operator of that name does.

Called on real tensors they do what torch does in eager. While a compiler traces the graph (which shows in the modes
that are active) those for which torch has a higher-order operator hand over to that.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version
from torch.autograd.profiler import record_function
from torch.nn import attention
from torch.utils import _pytree as pytree
from torch.utils import checkpoint as torch_checkpoint
from torch.utils.hooks import BackwardHook

Tensors = tuple[torch.Tensor, ...]
Body = Callable[..., Tensors]


def plain_tensor(value: torch.Tensor) -> torch.Tensor:
    """An alias of an instance of a subclass that is a plain tensor; nobody is asked."""
    with torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(torch.Tensor)


Numbers = tuple[int, ...]


def empty_leaf(
    size: Numbers, stride: Numbers, dtype: torch.dtype, device: torch.device, requires_grad: bool
) -> torch.Tensor:
    """A tensor without data, that is no result of autograd's graph."""
    return torch.empty_strided(size, stride, dtype=dtype, device=device).requires_grad_(requires_grad)


def empty_parameter(*numbers_and_kinds: Any) -> torch.Tensor:
    """The same as a ``nn.Parameter``."""
    made = empty_leaf(*numbers_and_kinds)
    return torch.nn.Parameter(made.detach(), made.requires_grad)


def leaf_of(requires_grad: bool, tensor: torch.Tensor) -> torch.Tensor:
    """Another tensor with a tensor's memory, that is no result of autograd's graph."""
    return tensor.detach().requires_grad_(requires_grad)


def parameter_of(requires_grad: bool, tensor: torch.Tensor) -> torch.Tensor:
    """The same as a ``nn.Parameter``."""
    return torch.nn.Parameter(tensor.detach(), requires_grad)


def data_of(tensor: torch.Tensor) -> torch.Tensor:
    """Its data, which stay what they are when it gets others. Writes into them count as writes into it."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.detach()


def thawed(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf, which requires gradients from here on."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.requires_grad_()


def frozen(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf, which requires none from here on."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.requires_grad_(False)


def with_new_data(
    size: Numbers, stride: Numbers, dtype: torch.dtype, device: torch.device, cls: type, tensor: torch.Tensor
) -> torch.Tensor:
    """A tensor, to which other data belong, and perhaps another class."""
    return with_data(empty_leaf(size, stride, dtype, device, False), cls, tensor)


def with_data_of(cls: type, tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The same, to which another tensor's data belong."""
    return with_data(other, cls, tensor)


def from_numpy_written(array: Any, writes: int) -> torch.Tensor:
    """The tensor of an array that was written into so often through the tensor."""
    found = torch.from_numpy(array)
    torch._C._autograd._unsafe_set_version_counter((found,), (writes,))
    return found


def with_data(data: torch.Tensor, cls: type, tensor: torch.Tensor) -> torch.Tensor:
    """The same, to which these belong."""
    with torch._C.DisableTorchFunctionSubclass():
        tensor.data = data
        if type(tensor) is not cls:
            tensor.__class__ = cls  # type: ignore[assignment]
    return tensor


def fill(leaf: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """Give a tensor that was made before the graph its data, which is no write that autograd is told of. A view of it
    that is told nothing of gradients."""
    with torch.no_grad():
        (leaf if being_traced() else leaf.data).copy_(data)
        return leaf.detach()


def count_write(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, which autograd takes to have been written to."""
    increment_version(tensor)
    return tensor


def enter_sdpa_kernel(backends: Sequence[int], set_priority: bool) -> Any:
    """The beginning of ``torch.nn.attention.sdpa_kernel``; what to give to its end."""
    previous = attention._cur_sdpa_kernel_backends(with_priority=set_priority)
    attention._sdpa_kernel([attention.SDPBackend(each) for each in backends], set_priority)
    return previous, set_priority


def exit_sdpa_kernel(entered: Any) -> None:
    """The end of ``torch.nn.attention.sdpa_kernel``."""
    attention._sdpa_kernel(*entered)


def leave_autocast(device: str, dtype: torch.dtype, enabled: bool, cache_enabled: bool) -> Any:
    """The end of a ``torch.autocast`` that began before; what to give to `return_to_autocast`."""
    now = torch.get_autocast_dtype(device), torch.is_autocast_enabled(device), torch.is_autocast_cache_enabled()
    if torch.autocast_decrement_nesting() == 0:
        torch.clear_autocast_cache()
    _set_autocast(device, dtype, enabled, cache_enabled)
    return device, *now


def return_to_autocast(left: Any) -> None:
    """As it was before `leave_autocast`."""
    torch.autocast_increment_nesting()
    _set_autocast(*left)


def _set_autocast(device: str, dtype: torch.dtype, enabled: bool, cache_enabled: bool) -> None:
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(cache_enabled)


def enter_record_function(name: str, args: str | None) -> Any:
    """The beginning of a ``record_function``, which tells a profiler; what to give to its end. A compiler that traces
    the graph makes other operators of it: it is told nothing."""
    if being_traced():
        return None
    made = record_function(name, args)
    made.__enter__()
    return made


def exit_record_function(entered: Any) -> None:
    """The end of a ``record_function``."""
    if entered is not None:
        entered.__exit__(None, None, None)


def unasked(kind: str, target: Any) -> Callable[..., Any]:
    """A function, or the method of a name, that asks no class of its arguments' what to do."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return getattr(args[0], target)(*args[1:], **kwargs) if kind == "call_method" else target(*args, **kwargs)

    run.__module__ = f"{__name__}.unasked"  # caches on disk know functions by module and name
    run.__name__ = target if kind == "call_method" else getattr(target, "__name__", "run")
    return run


def being_traced() -> bool:
    """Whether a compiler or fake tensors watch."""
    return torch._C._len_torch_dispatch_stack() > 0


def checkpoint(body: Body, preserve_rng_state: bool, determinism_check: str, *tensors: torch.Tensor) -> Tensors:
    """``torch.utils.checkpoint.checkpoint(..., use_reentrant=False)``."""
    if being_traced():
        operator = torch.ops.higher_order.tag_activation_checkpoint
        return operator(body, *tensors, use_reentrant=False, preserve_rng_state=preserve_rng_state)
    return torch_checkpoint.checkpoint(
        body,
        *tensors,
        use_reentrant=False,
        preserve_rng_state=preserve_rng_state,
        determinism_check=determinism_check,
    )


def lstm(*args: Any, **kwargs: Any) -> Any:
    """``torch.lstm``. Of oneDNN's kernel for it some results are None, which compilers can't save for backward."""
    enabled = torch._C._get_mkldnn_enabled()
    compiled = torch._C._len_torch_dispatch_stack() > 1  # there is more than fake tensors
    if not enabled or not compiled or not torch.is_grad_enabled():
        return torch.lstm(*args, **kwargs)
    torch._C._set_mkldnn_enabled(False)
    try:
        return torch.lstm(*args, **kwargs)
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def _prepare(ctx: Any, backwards: Sequence[Body], count: int, materializes: bool, ways: Any) -> None:
    """Keep what there is of each backward, by whether it is differentiated again and the gradients that it is for."""
    ctx.ways = {key: (body, *rest) for body, (key, *rest) in zip(backwards, ways)}
    ctx.all_there = (True,) * count if materializes else None
    ctx.set_materialize_grads(materializes)


def _pull(ctx: Any, gradients: Sequence[torch.Tensor | None], values: Sequence[Any]) -> list[torch.Tensor | None]:
    """The gradients of the inputs, by the backward for those of the results that there are."""
    pattern = ctx.all_there or tuple(each is not None for each in gradients)
    body, wanted, slots, raises = ctx.ways.get((torch.is_grad_enabled(), pattern)) or ctx.ways[False, pattern]
    if raises:
        raise getattr(builtins, raises[0])(*raises[1:])
    there = [each for each in gradients if each is not None]
    found = body(*there, *(values[index] for index in wanted))
    return [None if slot < 0 else found[slot] for slot in slots]


class TracedFunction(torch.autograd.Function):
    """A program's ``torch.autograd.Function``, forward and backward traced."""

    @staticmethod
    def forward(ctx: Any, bodies: Sequence[Body], extras: Tensors, facts: Any, *inputs: torch.Tensor) -> Any:
        count, non_differentiable, dirty, kept, materializes, ways = facts
        results = bodies[0](*inputs, *extras)
        outputs = results[:count]
        _prepare(ctx, bodies[1:], count, materializes, ways)
        sources = {"inputs": inputs, "extras": extras, "results": results}
        ctx.kept = [None if saved else sources[place][index] for place, index, saved in kept]
        ctx.save_for_backward(*(sources[place][index] for place, index, saved in kept if saved))
        ctx.mark_non_differentiable(*(outputs[index] for index in non_differentiable))
        ctx.mark_dirty(*(inputs[index] for index in dirty))
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        saved = iter(ctx.saved_tensors)
        values = [next(saved) if value is None else value for value in ctx.kept]
        return (None, None, None, *_pull(ctx, gradients, values))


class OnceTracedFunction(TracedFunction):
    """One whose backward can't be differentiated again."""

    backward = staticmethod(once_differentiable(TracedFunction.backward))  # type: ignore[assignment]


class TransformedFunction(torch.autograd.Function):
    """The same under transforms of ``torch.func``: what the backward takes is given or returned, for them to see it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(bodies: Sequence[Body], facts: Any, *tensors: torch.Tensor) -> Any:
        return bodies[0](*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        (_, *backwards), (ctx.count, non_differentiable, _, kept, materializes, ways, given), *tensors = inputs
        ctx.given = len(tensors)
        _prepare(ctx, backwards, ctx.count, materializes, ways)
        sources = {"inputs": tensors[:given], "extras": tensors[given:], "results": output}
        ctx.save_for_backward(*(sources[place][index] for place, index, _ in kept))
        ctx.mark_non_differentiable(*(output[index] for index in non_differentiable), *output[ctx.count :])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        found = _pull(ctx, gradients[: ctx.count], ctx.saved_tensors)
        return (None, None, *found, *[None] * (ctx.given - len(found)))


class OnceTransformedFunction(TransformedFunction):
    """One whose backward can't be differentiated again."""

    backward = staticmethod(once_differentiable(TransformedFunction.backward))  # type: ignore[assignment]


@functools.cache
def _named(kind: type[torch.autograd.Function], name: str) -> Any:
    """A Function under the name of the program's, by which errors and `grad_fn` call it."""
    return type(kind)(name, (kind,), {})


def autograd_function(
    name: str, bodies: Sequence[Body], extras: Sequence[torch.Tensor], facts: Any, once: bool, *inputs: torch.Tensor
) -> Tensors:
    """``Function.apply``. ``bodies``: the forward, then backwards. ``facts``: number of outputs, which have no
    gradient, which inputs are written to, what the backwards want of the forward (of its inputs, extras or results, and
    whether it was saved: autograd watches over that), whether they get zeros for gradients that are not there; and for
    each of them whether it is differentiated again and of which outputs it takes gradients, which of what is wanted it
    takes, for each input where its gradient is among its results, and what it raises instead."""
    if torch._C._are_functorch_transforms_active():
        transformed = OnceTransformedFunction if once else TransformedFunction
        found = _named(transformed, name).apply(tuple(bodies), (*facts, len(inputs)), *inputs, *extras)
        return found[: facts[0]]  # type: ignore[no-any-return]
    kind = OnceTracedFunction if once else TracedFunction
    return _named(kind, name).apply(tuple(bodies), tuple(extras), facts, *inputs)  # type: ignore[no-any-return]


def gradients(
    outputs: Tensors, inputs: Tensors, grad_outputs: Sequence[torch.Tensor | None], options: Any
) -> tuple[torch.Tensor | None, ...]:
    """``torch.autograd.grad``; while it is traced in this thread, whose modes are on."""
    threads = torch.autograd.set_multithreading_enabled(False) if being_traced() else contextlib.nullcontext()
    with threads:
        return torch.autograd.grad(outputs, inputs, grad_outputs or None, **options)


@torch.fx.node.has_side_effect
def hook(body: Body, tensor: torch.Tensor, *extras: torch.Tensor) -> None:
    """``tensor.register_hook`` of a function that is traced."""

    def run(gradient: torch.Tensor) -> torch.Tensor | None:
        found = body(gradient, *extras)
        return found[0] if found else None

    tensor.register_hook(run)


def module_inputs(count: int, places: Sequence[int], *tensors: torch.Tensor) -> tuple[Any, ...]:
    """What `Module.__call__` makes of arguments where there are backward hooks, behind what to give to its end.
    ``places``: where, of so many arguments, the tensors are."""
    made = BackwardHook(None, [], [])
    return made, *_passed(made.setup_input_hook, count, places, tensors)


def module_outputs(
    made: BackwardHook, hooks: Any, pre_hooks: Any, count: int, places: Sequence[int], *tensors: torch.Tensor
) -> Tensors:
    """The same of its results. ``hooks``: of each its body, what that reads of the program, which of the gradients that
    torch gives to it are there, and which of its results are the gradients to go on with; None: it changes none."""
    made.user_hooks = [_on_gradients(*each) for each in hooks]
    made.user_pre_hooks = [_on_gradients(*each) for each in pre_hooks]
    return _passed(made.setup_output_hook, count, places, tensors)


def _passed(setup: Callable[..., Any], count: int, places: Sequence[int], tensors: Tensors) -> Tensors:
    values: list[Any] = [None] * count
    for at, tensor in zip(places, tensors, strict=True):
        values[at] = tensor
    found = setup(tuple(values))
    return tuple(found[at] for at in places)


def _on_gradients(body: Body, extras: Tensors, there: Sequence[int], wanted: Sequence[int] | None) -> Any:
    def run(module: None, *groups: Sequence[torch.Tensor | None]) -> Any:
        gradients = [each for group in groups for each in group]
        found = body(*(gradients[at] for at in there), *extras)
        return None if wanted is None else tuple(None if at < 0 else found[at] for at in wanted)

    return run


def vmap(body: Body, extras: Sequence[torch.Tensor], options: Any, *inputs: torch.Tensor) -> Tensors:
    """``torch.func.vmap``."""
    in_dims, out_dims, randomness, chunk_size = options
    mapped = torch.func.vmap(
        lambda *args: body(*args, *extras), in_dims, out_dims, randomness=randomness, chunk_size=chunk_size
    )
    return mapped(*inputs)  # type: ignore[no-any-return]


def grad(body: Body, extras: Sequence[torch.Tensor], argnums: Sequence[int], *inputs: torch.Tensor) -> Tensors:
    """``torch.func.grad_and_value``: gradients, then what the body returns."""

    def function(*args: torch.Tensor) -> Any:
        value, *rest = body(*args, *extras)
        return value, tuple(rest)

    gradients, (value, rest) = torch.func.grad_and_value(function, tuple(argnums), has_aux=True)(*inputs)
    return (*gradients, value, *rest)


def vjp(body: Body, extras: Sequence[torch.Tensor], count: int, *inputs: torch.Tensor) -> tuple[Tensors, Any]:
    """``torch.func.vjp``: what the body returns, and the function of cotangents of its first ``count`` results."""

    def function(*args: torch.Tensor) -> tuple[Tensors, Tensors]:
        found = body(*args, *extras)
        return tuple(found[:count]), tuple(found[count:])

    values, pull, rest = torch.func.vjp(function, *inputs, has_aux=True)
    return (*values, *rest), pull


def pull_back(pulled: tuple[Tensors, Any], *cotangents: torch.Tensor) -> Tensors:
    """A call of the function that `vjp` returns."""
    return pulled[1](cotangents)  # type: ignore[no-any-return]


def jvp(body: Body, extras: Sequence[torch.Tensor], count: int, *inputs: torch.Tensor) -> Tensors:
    """``torch.func.jvp``: values, then tangents. ``count``: of primals, their tangents come behind them."""
    values, tangents = torch.func.jvp(lambda *args: body(*args, *extras), inputs[:count], inputs[count:])
    return (*values, *tangents)


def jacobian(
    body: Body, extras: Sequence[torch.Tensor], kind: str, count: int, has_aux: bool, *inputs: torch.Tensor
) -> Tensors:
    """``torch.func.jacrev``, ``jacfwd`` or ``hessian`` of the first ``count`` results of the body, by all its inputs,
    flat; with ``has_aux`` then the other results."""

    def function(*args: torch.Tensor) -> Any:
        found = tuple(body(*args, *extras))
        return (found[:count], found[count:]) if has_aux else found

    options = {"has_aux": True} if has_aux else {}
    found = getattr(torch.func, kind)(function, tuple(range(len(inputs))), **options)(*inputs)
    return tuple(pytree.tree_leaves(found))


def indexed(tensor: torch.Tensor, index: Sequence[torch.Tensor | int]) -> torch.Tensor:
    """``tensor[index]`` where tensors without dimensions are indices, not numbers to be read. Under a mode of torch's
    that does so too it is left to that, which knows a better derivative."""
    if torch._C._len_torch_function_stack():
        return tensor[tuple(index)]
    indices = [each if isinstance(each, torch.Tensor) else torch.tensor(each, device=tensor.device) for each in index]
    return torch.ops.aten.index(tensor, indices)


def flex_attention(
    score: Body,
    mask: Body,
    score_extras: Tensors,
    mask_extras: Tensors,
    block_mask: tuple[Any, ...],
    scale: Any,
    options: Sequence[tuple[str, Any]],
    *inputs: torch.Tensor,
) -> Tensors:
    """The operator that ``torch.nn.attention.flex_attention`` ends in. ``block_mask``: without its function."""
    block_mask = (*block_mask, lambda *args: mask(*args)[0])
    operator = torch.ops.higher_order.flex_attention
    return operator(  # type: ignore[no-any-return]
        *inputs, lambda *args: score(*args)[0], block_mask, scale, dict(options), score_extras, mask_extras
    )


def _of(body: Body, which: Sequence[int], start: int = 0) -> Body:
    """A body that takes all operands (behind the first ``start`` arguments, which are its own) and uses some."""
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
        return torch.ops.higher_order.cond(predicate, *branches, tuple(operands))  # type: ignore[no-any-return]
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
    # The operator takes no tensor in two roles.
    twice = [isinstance(each, torch.Tensor) and any(each is other for other in extras) for each in carried]
    values = tuple(each.clone() if again else each for each, again in zip(carried, twice))
    operator = torch.ops.higher_order.while_loop
    return operator(lambda *args: condition(*args)[0], step, values, tuple(extras))  # type: ignore[no-any-return]
