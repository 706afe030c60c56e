"""Where programs of `backward_programs` read: a title, and a program in which ``fn`` is compiled.

``{body}`` stands for what reads of a gradient ``g`` and a tensor ``x``, and returns from what it is in; ``X`` is a
tensor.
"""

from __future__ import annotations

_FUNCTION = """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        {body}
"""
_WITH_SETUP_CONTEXT = """
class F(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        {body}
    @staticmethod
    def jvp(ctx, g):
        (x,) = ctx.saved_tensors
        {body}
"""
_WITH_RULES = f"{_WITH_SETUP_CONTEXT}    generate_vmap_rule = True\n"
_WITH_OWN_RULE = f"""{_WITH_SETUP_CONTEXT}    @staticmethod
    def vmap(info, in_dims, x):
        return F.apply(x), in_dims[0]
"""
_HOOK = """
def hook(g, x=X):
    {body}
"""
_PLACES = """
= a backward
{function}
def fn(x):
    return F.apply(x)
= a backward of a product
{function}
def fn(x):
    return F.apply(x * 1) * x
= two backwards
{function}
def fn(x):
    return F.apply(F.apply(x))
= a backward after a break
{function}
def fn(x):
    y = x.sin()
    print(end='')
    return F.apply(y)
= a backward with setup_context
{function with setup_context}
def fn(x):
    return F.apply(x)
= a backward without saved tensors
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * 2
    @staticmethod
    def backward(ctx, g):
        x = ctx.x
        {body}
def fn(x):
    return F.apply(x)
= a backward that calls another
class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        {body}
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3
    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            h = g.detach().requires_grad_()
            return torch.autograd.grad(Inner.apply(h), h, g)[0] * 3
def fn(x):
    return F.apply(x)
= once differentiable
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        {body}
def fn(x):
    return F.apply(x)
= a method
{function}
class Net(torch.nn.Module):
    def forward(self, x):
        return F.apply(x) + 1
fn = Net()
= vmap over a generated rule
{function with rules}
def fn(x):
    return torch.func.vmap(F.apply)(x) if x.dim() else F.apply(x)
= vmap over an own rule
{function with an own rule}
def fn(x):
    return torch.func.vmap(F.apply)(x) if x.dim() else F.apply(x)
= func.grad
{function with rules}
def fn(x):
    return torch.func.grad(lambda x: F.apply(x).sin().sum())(x)
= func.jvp
{function with rules}
def fn(x):
    return torch.func.jvp(lambda x: F.apply(x).sin(), (x,), (x.detach().cos(),))[1]
= func.vjp
{function with rules}
def fn(x):
    y, pull = torch.func.vjp(lambda x: F.apply(x).sin(), x)
    return pull(y.detach())[0] + y
= a tensor's hook
{hook}
def fn(x):
    y = x * 2
    y.register_hook(hook)
    return y
= a hook in a closure
def fn(x):
    y = x * 2
    def hook(g):
        {body}
    y.register_hook(hook)
    return y.view_as(y)
= a hook of an argument
{hook}
def fn(x):
    y = x * 2
    x.register_hook(hook)
    return y
= a hook of a view
{hook}
def fn(x):
    y = (x * 2).view_as(x)
    y.register_hook(hook)
    return y.sin()
= a callable object
class Hook:
    def __call__(self, g, x=X):
        {body}
HOOK = Hook()
def fn(x):
    y = x * 2
    y.register_hook(HOOK)
    return y
= a bound method
class Hook:
    def run(self, g, x=X):
        {body}
def fn(x):
    y = x * 2
    y.register_hook(Hook().run)
    return y
= a partial
{hook}
def fn(x):
    y = x * 2
    y.register_hook(functools.partial(hook, x=X))
    return y
= after accumulation
def hook(p, x=X):
    g = p.grad
    p.grad = scaled(g, x)
def scaled(g, x):
    {body}
def fn(x):
    x.register_post_accumulate_grad_hook(hook)
    return x * 2
= a node's hook
{hook}
def fn(x):
    y = x.sin()
    y.grad_fn.register_hook(lambda given, taken: (hook(given[0]),))
    return y
= a node's hook before it
{hook}
def fn(x):
    y = x * 2
    y.grad_fn.register_prehook(lambda taken: (hook(taken[0]),))
    return y
= a module's backward hook
{hook}
MODULE = torch.nn.Tanh()
MODULE.register_full_backward_hook(lambda m, given, taken: (hook(given[0]),))
def fn(x):
    return MODULE(x * 2)
= a module's hook before it
{hook}
MODULE = torch.nn.Tanh()
MODULE.register_full_backward_pre_hook(lambda m, taken: (hook(taken[0]),))
def fn(x):
    return MODULE(x * 2)
= a module's forward hook
{hook}
MODULE = torch.nn.Tanh()
def forward(m, given, y):
    y.register_hook(hook)
MODULE.register_forward_hook(forward)
def fn(x):
    return MODULE(x * 2)
= a module's forward hook on its input
{hook}
MODULE = torch.nn.Tanh()
def forward(m, given):
    given[0].register_hook(hook)
MODULE.register_forward_pre_hook(forward)
def fn(x):
    return MODULE(x * 2)
= a checkpoint
def inner(g):
    x = X
    {body}
def fn(x):
    return checkpoint(inner, x * 2, use_reentrant=False)
= a reentrant checkpoint
def inner(g):
    x = X
    {body}
def fn(x):
    return checkpoint(inner, x * 2, use_reentrant=True)
= a checkpoint of the argument
def inner(g):
    x = X
    {body}
def fn(x):
    return checkpoint(inner, x, use_reentrant=False)
= a checkpointed module
def inner(g):
    x = X
    {body}
class Block(torch.nn.Module):
    def forward(self, x):
        return inner(x)
BLOCK = Block()
def fn(x):
    return checkpoint(BLOCK, x * 2, use_reentrant=False).sin()
= checkpoint in a checkpoint
def inner(g):
    x = X
    {body}
def outer(x):
    return checkpoint(inner, x.sin(), use_reentrant=False).cos()
def fn(x):
    return checkpoint(outer, x * 2, use_reentrant=False)
= a Function in a checkpoint
{function}
def fn(x):
    return checkpoint(lambda x: F.apply(x).sin(), x * 2, use_reentrant=False)
= a Function in a reentrant checkpoint
{function}
def fn(x):
    return checkpoint(lambda x: F.apply(x).sin(), x * 2, use_reentrant=True)
= a hook in a checkpoint
{hook}
def inner(x):
    y = x * 2
    y.register_hook(hook)
    return y.sin()
def fn(x):
    return checkpoint(inner, x * 2, use_reentrant=False)
= saved tensors' hooks inside
def unpack(g, x=X):
    {body}
def fn(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x * x
    return y
= saved tensors' hooks outside
def unpack(g, x=X):
    {body}
def body(x):
    return x * x
def fn(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        return body(x)
= grad inside of a backward
{function}
def fn(x):
    h = x * 1
    (d,) = torch.autograd.grad(F.apply(h).sin().sum(), h)
    return d + h
= grad inside of a hook
{hook}
def fn(x):
    h = x * 1
    y = h * 2
    y.register_hook(hook)
    (d,) = torch.autograd.grad(y.sum(), h)
    return d + h
= second grad inside
{function}
def fn(x):
    h = x * 1
    (d,) = torch.autograd.grad(F.apply(h).sin().sum(), h, create_graph=True)
    return d + h
= a multi-grad hook
{hook}
def fn(x):
    y = x * 2
    torch.autograd.graph.register_multi_grad_hook((y, x), lambda taken: LOG.append(hook(taken[0]).max().item()))
    return y.sin()
= a custom operator
def setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
def backward(ctx, g):
    (x,) = ctx.saved_tensors
    {body}
OPERATOR.register_autograd(backward, setup_context=setup)
def fn(x):
    return OPERATOR(x)
= a Function with autocast
class F(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type='cpu')
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    @torch.amp.custom_bwd(device_type='cpu')
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        {body}
def fn(x):
    return F.apply(x)
= two outputs
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2, x * 3
    @staticmethod
    def backward(ctx, h, g):
        (x,) = ctx.saved_tensors
        {body}
def fn(x):
    return F.apply(x)[0]
"""
_PARTS = {
    "function": _FUNCTION,
    "function with setup_context": _WITH_SETUP_CONTEXT,
    "function with rules": _WITH_RULES,
    "function with an own rule": _WITH_OWN_RULE,
    "hook": _HOOK,
}
for _name, _text in _PARTS.items():
    _PLACES = _PLACES.replace(f"{{{_name}}}", _text.strip())
PLACES = dict(each.split("\n", 1) for each in _PLACES.strip().removeprefix("= ").split("\n= "))
