"""Programs that assign attributes of classes: counters, caches, flags."""

from __future__ import annotations

import abc
import types

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl
from outcomes import outcome
from programs import tensor


def classes():
    """New classes, so that each run starts with the same attributes."""

    class Base:
        count, cache, flag, items = 0, None, False, ()

        def __init__(self):
            type(self).count += 1

        @classmethod
        def add(cls, number):
            cls.count += number
            return cls.count

        def get(self):
            return self.count

    class Derived(Base):
        pass

    class Shadowing(Derived):
        count = 100

    class ByStart(Derived):
        def get(self):
            return super().get() + super().count

    class Abstract(abc.ABC):
        steps = 0

        @abc.abstractmethod
        def step(self): ...

    class Concrete(Abstract):
        def step(self):
            type(self).steps += 1
            return self.steps

    class Layer(nn.Module):
        calls, last = 0, None

        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x):
            type(self).calls += 1
            Layer.last = x * 2
            return self.inner(x) + self.calls + self.last

    class Slots:
        __slots__ = ("other",)
        size = 1

    class Meta(type):
        def __setattr__(cls, name, value):
            super().__setattr__(name, value * 2)

    class WithMeta(metaclass=Meta):
        size = 1

    class Computed:
        @property
        def size(self):
            return 1

    kinds = (Base, Derived, Shadowing, ByStart, Abstract, Concrete, Layer, Slots, WithMeta, Computed)
    made = {each.__name__: each for each in kinds}
    return types.SimpleNamespace(**made, layer=Layer(), instance=object.__new__(Derived), all=kinds, shown=vars(Base))


def counter(c, x):
    c.Base.count += 1
    return x + c.Base.count


def inherited(c, x):
    c.Base.count += 1
    return x + c.Derived.count + c.instance.count + c.Shadowing.count + c.ByStart.count


def in_init(c, x):
    made = c.Derived(), c.Base(), c.Derived()
    return x + c.Base.count, [each.count for each in made]


def by_classmethod(c, x):
    return x + c.Derived.add(2) + c.Base.add(1) + c.Derived.count


def by_super(c, x):
    c.Base.count = 4
    return x + object.__new__(c.ByStart).get()


def lazy_cache(c, x):
    if c.Base.cache is None:
        c.Base.cache = x * 3
    return x + c.Base.cache


def new_attribute(c, x):
    if not hasattr(c.Base, "table"):
        c.Base.table = {"x": x}
    c.Derived.table["y"] = x + 1
    return x + len(c.instance.table) + c.Base.table["y"]


def behind_instance(c, x):
    c.Base.count = 5
    c.instance.count = 7
    before = c.instance.count
    c.Base.count = 8
    return x + before + c.instance.count + c.Derived.count


def module(c, x):
    return c.layer(x) + c.Layer.calls + c.layer.calls


def abstract(c, x):
    made = c.Concrete()
    return x + made.step() + made.step() + c.Abstract.steps


def restored(c, x):
    before = c.Base.flag
    c.Base.flag = True
    try:
        return x + c.Base.flag
    finally:
        c.Base.flag = before


def by_name(c, x):
    setattr(c.Base, "count", getattr(c.Derived, "count") + 1)  # noqa: B010, B009
    return x + c.ByStart.count


def in_slots_class(c, x):
    c.Slots.size = 3
    try:
        object.__new__(c.Slots).size = 4
    except AttributeError as error:
        return x + c.Slots.size, str(error)


def shadowed_by_derived(c, x):
    c.Derived.count = 1
    found = c.ByStart.count + c.Shadowing.count
    c.Base.count = 50
    return x + found + c.Derived.count + c.Base.count


def tensors(c, x):
    c.Base.cache = x
    x.add_(1)
    c.Base.items = (x, 1)
    return c.instance.cache + x, c.Base.cache is x, len(c.Derived.items)


CAPTURED = (
    *(
        counter,
        inherited,
        in_init,
        by_classmethod,
        by_super,
        lazy_cache,
        new_attribute,
        behind_instance,
        module,
        abstract,
    ),
    *(restored, by_name, shadowed_by_derived, tensors, in_slots_class),
)


def metaclass(c, x):
    c.WithMeta.size = 3
    return x + c.WithMeta.size


def method(c, x):
    c.Base.get = lambda self: 5
    return x + c.instance.get()


def computed(c, x):
    before = c.Computed().size
    c.Computed.size = 3
    return x + before + c.Computed().size


def namespace(c, x):
    c.Base.count += 1
    return x + vars(c.Base)["count"]


def namespace_from_before(c, x):
    shown = vars(c.Base)
    before = shown["count"]
    c.Base.count += 1
    return x + before + shown["count"]


def namespace_from_outside(c, x):
    c.Base.count += 1
    return x + c.shown["count"] + c.Base.count


def deleted(c, x):
    c.Base.extra = 1
    del c.Base.extra
    return x + hasattr(c.Base, "extra")


def broken(c, x):
    c.Base.count += 1
    dl.graph_break()
    c.Base.count += 1
    return x + c.Derived.count


def recomputed(c, x):
    c.Base.count += 1
    return checkpoint(lambda x: x.sin() * c.Base.count, x, use_reentrant=False)


def written_in_checkpoint(c, x):
    def inner(x):
        c.Base.count += 1
        return x.sin()

    return checkpoint(inner, x, use_reentrant=False)


BREAKING = (
    metaclass,
    method,
    computed,
    namespace,
    namespace_from_before,
    namespace_from_outside,
    deleted,
    broken,
    recomputed,
    written_in_checkpoint,
)


def state(c):
    found = []
    for cls in c.all:
        own = {name: value for name, value in vars(cls).items() if not (name.startswith("_") or callable(value))}
        found.append([(name, repr(value)) for name, value in own.items() if not hasattr(type(value), "__get__")])
    return found, repr(vars(c.instance))


def run(program, **options):
    """Outcomes of four calls, and the classes' attributes after each."""
    c = classes()
    fn = dl.compile(program, **options) if options else program
    return [(repr(outcome(fn, c, tensor(3, grad=program is recomputed))), state(c)) for _ in range(4)]


@pytest.mark.parametrize("program", CAPTURED + BREAKING)
def test_as_in_eager(program):
    assert run(program, backend="eager") == run(program)


@pytest.mark.parametrize("program", CAPTURED)
def test_one_graph(program):
    """No call after the first has a graph of its own, but for values that change: numbers become symbolic."""
    before = dl.counters.graphs
    run(program, backend="eager", fullgraph=True)
    assert dl.counters.graphs - before <= 2


def test_a_later_backward_reads_the_attribute():
    class Scale(torch.autograd.Function):
        factor = 1

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * Scale.factor

    def fn(x):
        Scale.factor = 3
        return Scale.apply(x)

    for compiled in (fn, dl.compile(fn, backend="eager")):
        for _ in range(3):
            x = tensor(3, grad=True)
            y = compiled(x)
            Scale.factor = 5
            y.sum().backward()
            assert x.grad.tolist() == [5.0] * 3


def test_guards_on_an_attribute_that_was_assigned_elsewhere():
    c = classes()
    compiled = dl.compile(counter, backend="eager")
    for value in (0, 1, 10, 10, 3):
        c.Base.count = value
        assert torch.equal(compiled(c, tensor(3)), tensor(3) + value + 1)
        assert c.Base.count == value + 1


def test_a_class_decorator_is_compiled_once():
    """The class is another one in each call, so its identity isn't guarded."""

    def register(cls, x):
        cls.scale = x * 2
        return cls

    compiled = dl.compile(register, backend="eager")
    before = dl.counters.graphs
    for _ in range(4):
        made = compiled(type("Made", (), {}), tensor(3))
        assert torch.equal(made.scale, tensor(3) * 2)
    assert dl.counters.graphs - before == 1
