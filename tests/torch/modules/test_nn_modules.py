"""Modules: parameters, containers, hooks, training mode, state that they keep."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from programs import check, tensor


def seeded(module: nn.Module) -> nn.Module:
    """The module with weights that don't depend on the tests before."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.3)
    return module


class Mlp(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.second = nn.Linear(width, 2, bias=False)
        self.scale = 2.0
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x, double=False):
        y = self.second(F.relu(self.first(x))) * self.scale + self.shift
        return y * 2 if double else y


def test_module_as_the_program():
    check(seeded(Mlp()), tensor(2, 3), operators=5)


def test_module_with_keyword():
    check(seeded(Mlp()), tensor(2, 3), kwargs={"double": True}, operators=6)


def test_module_as_an_argument():
    def fn(m, x):
        return m(x) + m.shift * m.scale

    check(fn, seeded(Mlp()), tensor(2, 3), operators=7)


def test_module_of_a_closure():
    m = seeded(Mlp())

    def fn(x):
        return m(x)

    check(fn, tensor(2, 3), operators=5)


def test_two_modules_of_one_class():
    def fn(a, b, x):
        return a(x) - b(x)

    check(fn, seeded(Mlp()), seeded(Mlp(5)), tensor(2, 3), operators=11)


def test_one_module_twice():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = self.a

        def forward(self, x):
            return self.b(self.a(x)), self.a is self.b, self.a.weight is self.b.weight

    check(seeded(Tied()), tensor(2, 3), operators=2, backward=True)


def test_gradients_of_parameters():
    check(seeded(Mlp()), tensor(2, 3), operators=5, backward=True)


def test_frozen_parameters():
    m = seeded(Mlp())
    m.first.requires_grad_(False)
    check(m, tensor(2, 3), operators=5, backward=True)


def test_sequential():
    m = seeded(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Identity()))
    check(m, tensor(2, 3), operators=4)


def test_sequential_is_indexed_and_sliced():
    def fn(m, x):
        return m[0](x), m[1:](m[-2](x)), len(m), [type(c).__name__ for c in m]

    check(fn, seeded(nn.Sequential(nn.ReLU(), nn.Linear(3, 3), nn.Tanh())), tensor(2, 3), operators=4)


def test_module_list():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            for i, layer in enumerate(self.layers[1:3]):
                x = layer(x) + i
            return x + len(self.layers) + (self.layers[0] in self.layers)

    check(seeded(Stack()), tensor(2, 3), operators=10)


def test_module_dictionary():
    class Choice(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()})

        def forward(self, x, name):
            for key, module in self.table.items():
                if key != name:
                    x = module(x)
            return self.table[name](x), list(self.table), "a" in self.table, [*self.table.keys()]

    check(seeded(Choice()), tensor(2, 3), "a", operators=2, others=[(tensor(2, 3), "b")], all_graphs=2)


def test_parameter_list_and_dictionary():
    class Weights(nn.Module):
        def __init__(self):
            super().__init__()
            self.items = nn.ParameterList([torch.ones(3), torch.ones(3) * 2])
            self.table = nn.ParameterDict({"w": torch.ones(3) * 3})

        def forward(self, x):
            for p in self.items:
                x = x * p
            return x + self.items[1] - self.table["w"]

    check(Weights(), tensor(2, 3), graphs=(1, 3), operators=(4, 5), backward=True)


def test_nested_modules_and_attributes():
    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.inner = Block(n - 1) if n else None
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            if self.inner is not None:
                x = self.inner(x)
            return x + self.linear(x)

    check(seeded(Block(3)), tensor(2, 3), operators=8)


def test_common_layers():
    class Zoo(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3, padding=1)
            self.pool = nn.MaxPool2d(2)
            self.norm = nn.LayerNorm(8)
            self.group = nn.GroupNorm(1, 2)
            self.emb = nn.Embedding(5, 8)
            self.gelu = nn.GELU()
            self.soft = nn.Softmax(dim=-1)
            self.flat = nn.Flatten()

        def forward(self, image, index):
            a = self.flat(self.group(self.pool(self.conv(image))))
            b = self.soft(self.norm(self.gelu(self.emb(index))))
            return a, b

    check(seeded(Zoo()), tensor(1, 1, 4, 4), torch.tensor([1, 3]), operators=8)


def test_dropout_draws_as_eager_does():
    m = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5))
    check(seeded(m), tensor(4, 3), operators=2, calls=3)
    check(seeded(m).eval(), tensor(4, 3), operators=(1, 2))


def test_batch_norm_keeps_its_running_statistics():
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    check(seeded(m), tensor(5, 3), operators=(2, 3), calls=3)
    check(seeded(m).eval(), tensor(5, 3), operators=2)


def test_training_flag():
    class Both(nn.Module):
        def forward(self, x):
            return x * 2 if self.training else x * 3

    def fn(m, x, train):
        return m(x), m.train(train) is m, m.training

    m = Both()
    check(m, tensor(2), operators=1)
    check(m.eval(), tensor(2), operators=1)
    check(fn, m, tensor(2), True, graphs=None, recompiles=True)


def test_buffer_written_each_call():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.steps += 1
            self.mean = self.mean * 0.9 + x.mean(0) * 0.1
            return x - self.mean, self.steps

    check(Counting(), tensor(2, 3), calls=3, graphs=(1, 2), operators=(6, 7), recompiles=True)


def test_attribute_written_each_call():
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = None
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x)
            if self.last is not None:
                y = y + self.last
            self.last = y.detach()
            return y

    check(seeded(Remembers()), tensor(2, 3), calls=4, graphs=1, operators=2, recompiles=True)


def test_parameter_used_directly():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3) * 2)
            self.bias = None

        def forward(self, x):
            y = F.linear(x, self.weight.unsqueeze(0).expand(2, 3), self.bias)
            return y, self.weight, self.weight.shape

    check(Scale(), tensor(2, 3), operators=3, backward=True)


def test_forward_hooks():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.seen = []
            self.linear.register_forward_pre_hook(self.before)
            self.linear.register_forward_hook(self.after)

        def before(self, module, args):
            return (args[0] + 1,)

        def after(self, module, args, out):
            self.seen.append(out.shape)
            return out * 2

        def forward(self, x):
            return self.linear(x) - 1

    check(seeded(Holder()), tensor(2, 3), graphs=1, operators=4, recompiles=True)


def test_hooks_with_keywords_and_none():
    m = seeded(nn.Sequential(nn.Linear(3, 3)))
    m[0].register_forward_hook(lambda module, args, kwargs, out: None, with_kwargs=True)
    m[0].register_forward_pre_hook(lambda module, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True)
    check(m, tensor(2, 3), operators=2)


def test_hook_on_the_compiled_module_itself():
    m = seeded(Mlp())
    m.register_forward_hook(lambda module, args, out: out + 100)
    check(m, tensor(2, 3), graphs=(1, 2), operators=6)


def test_hook_added_and_removed_between_calls():
    def fn(m, x, add):
        handle = m.register_forward_hook(lambda *a: a[2] * 2) if add else None
        try:
            return inner(m, x)
        finally:
            if handle is not None:
                handle.remove()

    def inner(m, x):
        return m(x)

    check(fn, seeded(nn.Linear(3, 3)), tensor(3), False, graphs=None, calls=1)


def test_backward_hooks():
    def build():
        m = seeded(Mlp())
        log = []
        m.first.register_full_backward_hook(lambda module, gi, go: log.append("full"))

        def fn(x):
            return m(x), log

        return fn

    check(build, tensor(2, 3, grad=True), build=True, graphs=None, backward=True)


def test_calls_that_go_round_call():
    def fn(m, x):
        return m.forward(x), m.first.forward(x), nn.Module.__call__(m.first, x), m.__call__(x)

    check(fn, seeded(Mlp()), tensor(2, 3), operators=12)


def test_methods_that_are_not_forward():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def encode(self, x):
            return self.linear(x)

        @property
        def width(self):
            return self.linear.weight.shape[0]

        @staticmethod
        def double(x):
            return x * 2

        def forward(self, x):
            return self.double(self.encode(x)) + self.width

    def fn(m, x):
        return m.encode(x) + m(x)

    check(fn, seeded(Model()), tensor(2, 3), operators=5)


def test_walks_over_modules_and_parameters():
    def fn(m, x):
        total = x
        for p in m.parameters():
            total = total + p.sum()
        names = [n for n, _ in m.named_parameters()]
        kinds = [type(c).__name__ for c in m.modules()]
        shapes = {k: v.shape for k, v in m.state_dict().items()}
        return total, names, kinds, shapes, [n for n, _ in m.named_children()], sum(p.numel() for p in m.buffers())

    check(fn, seeded(Mlp()), tensor(2), graphs=(1, 4), operators=(6, 10))


def test_getattr_of_modules_by_name():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            for i in range(2):
                setattr(self, f"layer{i}", nn.Linear(3, 3))

        def forward(self, x):
            for i in range(2):
                x = getattr(self, f"layer{i}")(x)
            return x * hasattr(self, "layer1") + hasattr(self, "layer2")

    check(seeded(Model()), tensor(3), operators=4)


def test_module_made_inside():
    def fn(x):
        return nn.ReLU()(x) + nn.Identity()(x)

    check(fn, tensor(3), graphs=(1, 3), operators=2)


def test_loss_modules_and_functional():
    def fn(x, y):
        return nn.CrossEntropyLoss()(x, y) + F.cross_entropy(x, y, reduction="sum") + F.mse_loss(x, x * 2)

    check(fn, tensor(4, 3), torch.tensor([0, 1, 2, 0]), graphs=(1, 3), operators=(6, 6))


def test_user_overrides_of_call_and_getattr():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def __call__(self, x):
            return super().__call__(x) * 2

        def forward(self, x):
            return self.inner(x) + self.in_features

    check(seeded(Wrapper()), tensor(3), graphs=(1, 4), operators=3)


def test_module_with_state_in_containers():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {}
            self.count = 0

        def forward(self, x, key):
            self.count += 1
            if key not in self.cache:
                self.cache[key] = x * 2
            return self.cache[key] + 1, self.count

    check(Cache(), tensor(3), "k", calls=3, operators=2, recompiles=True)


def test_weight_changed_in_place_between_calls():
    def fn(m, x):
        y = m(x)
        with torch.no_grad():
            m.weight.mul_(2)
        return y

    check(fn, seeded(nn.Linear(3, 3)), tensor(3), operators=2, calls=3)


def test_attention():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)
            self.heads = 2

        def forward(self, x, mask=None):
            b, t, c = x.shape
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
            return y.transpose(1, 2).reshape(b, t, c)

    check(seeded(Attention()), tensor(2, 5, 8), operators=11, backward=True)


def test_modules_made_inside_after_torch_compile_has_run():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

        def forward(self, x):
            for layer in self.layers[1:3]:
                x = layer(x)
            return x

    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    check(seeded(Stack()), tensor(2, 3), operators=2)
