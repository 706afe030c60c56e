"""Tensor subclasses with __torch_function__ or __torch_dispatch__, modes, other layouts."""

from __future__ import annotations

import pytest
import torch
import torch.utils.checkpoint

import dynamo_lite as dl
from modes import Noted
from programs import approximate, check, checked, ints, tensor, with_gradients

CALLS: list[str] = []


class Copied(torch.Tensor):
    """A subclass whose copy is a plain tensor's copy, regardless of its operators."""

    def __deepcopy__(self, memo):
        with torch._C.DisableTorchFunctionSubclass():
            return memo.setdefault(id(self), torch.Tensor.clone(self).as_subclass(type(self)))


class Plain(Copied):
    pass


class Tagged(Copied):
    """A subclass whose results carry its tag."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(found, cls):
            found.tag = "made by " + getattr(func, "__name__", "?")
        return found


class Logged(Copied):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        CALLS.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Swapped(Copied):
    """A subclass whose multiplication adds."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.mul, torch.Tensor.mul, torch.Tensor.__mul__):
            func = torch.add
        return super().__torch_function__(func, types, args, kwargs or {})


class Disabled(Copied):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Handled(Copied):
    """A subclass with a table of the functions that it implements."""

    TABLE: dict = {}

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in cls.TABLE:
            return cls.TABLE[func](*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


Handled.TABLE[torch.sum] = lambda x: x.as_subclass(torch.Tensor).sum() * 10


class Unwraps(Copied):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class WithMethods(Copied):
    def total(self):
        return self.sum() * 2

    @property
    def twice(self):
        return self * 2

    @classmethod
    def make(cls, x):
        return x.as_subclass(cls)


class Duck:
    """Not a tensor, but has a ``__torch_function__``."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [each.value if isinstance(each, Duck) else each for each in args]
        return Duck(func(*plain, **(kwargs or {})))


class Wrapper(torch.Tensor):
    """A wrapper subclass with ``__torch_dispatch__``."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [each.inner if isinstance(each, cls) else each for each in args]
        found = func(*plain, **(kwargs or {}))
        return cls(found * 2) if isinstance(found, torch.Tensor) else found


def made(cls, *shape, seed=0):
    return tensor(*shape, seed=seed).as_subclass(cls)


@pytest.mark.parametrize("cls", [Plain, Tagged, Swapped, Disabled])
def test_operators_of_a_subclass(cls):
    def fn(x, y):
        z = x * 2 + y
        w = torch.relu(z).sum() - 1
        return z, w, type(z), type(w), x.shape, z.dtype

    disabled = cls is Disabled  # whose results are no instances of it
    check(fn, made(cls, 3), tensor(3, seed=1), graphs=None if disabled else 1, breaks=None if disabled else 0)


@checked(made(Logged, 3))
def test_subclass_whose_torch_function_logs(x):
    CALLS.clear()
    y = x + 1
    return y.sin(), y.shape[0], list(CALLS)


@checked(tensor(3))
def test_subclass_instance_created_in_tracing(x):
    y = x.as_subclass(Tagged)
    z = y * 2
    return z, z.tag, x + 1


@checked(made(Tagged, 3), tensor(3))
def test_subclass_among_other_arguments(x, y):
    return torch.add(y, x), torch.cat([y, x]), torch.cat([x, x]), torch.where(y > 0, x, y), [y, x][1] @ y


@checked(made(Swapped, 3), others=[(tensor(3),)], all_graphs=2)
@checked(tensor(3), others=[(made(Swapped, 3),), (tensor(3),)], all_graphs=2)
def test_subclass_and_plain_tensor_in_turn(x):
    return x * 3


@checked(made(Swapped, 3))
def test_subclass_left_out_by_disabling(x):
    with torch._C.DisableTorchFunctionSubclass():
        y = x * 3
    return y, type(y), x * 3


@checked(made(Handled, 3))
def test_subclass_that_handles_some_functions_itself(x):
    return torch.sum(x), x.sum(), x + 1


@checked(made(Unwraps, 3))
def test_subclass_that_unwraps(x):
    return torch.sum(x), x.sin(), x + 1, x[0], x.shape


@checked(made(WithMethods, 3), tensor(3))
def test_methods_and_properties_of_a_subclass(x, y):
    return x.total(), x.twice, WithMethods.make(y).twice, x.make(y), isinstance(x, torch.Tensor)


@checked(made(Tagged, 3))
def test_functions_with_several_results_of_a_subclass(x):
    a, b = torch.split(x, [1, 2])
    return a, b, x.max(0), x.unbind(), [*x], len(x), torch.stack([x, x]).shape, x.topk(2).values


@checked(made(Plain, 3), torch.tensor([0, 2]))
def test_operators_and_indexing_of_a_subclass(x, i):
    return x > 0, x == x, -x, ~(x > 0), 2 - x, abs(x), x @ x, x[i], x[[0, 1]], x[1:, None], x.T.shape, x**2


@checked(made(Tagged, 3), made(Tagged, 3, seed=1))
def test_writing_into_a_subclass(x, y):
    x.add_(1)
    x[0] = 5
    z = x[1:]
    z *= 2
    y.copy_(x)
    torch.mul(x, 2, out=y)
    return x, z, y


@checked(made(Tagged, 3).requires_grad_(), tensor(3, 3, grad=True))
@with_gradients
def test_gradients_of_a_subclass(x, w):
    return (x * 2 @ w).sum()


def test_modules_of_a_subclass():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.LayerNorm(3), torch.nn.Dropout(0.5))

    def fn(m, x):
        return m(x), torch.nn.functional.softmax(x, -1), torch.nn.functional.gelu(x)

    check(fn, net, made(Tagged, 2, 3))


def test_attributes_of_a_subclass():
    def fn(x):
        y = x * 2
        y.note = x.note + "!"
        x.count = 3
        return y, y.tag, hasattr(y, "note"), hasattr(x, "missing"), getattr(x, "missing", 1)

    def around(x):
        x.note = "given"
        return fn(x)

    check(around, made(Tagged, 3), graphs=(1, 2), breaks=None)


@checked(made(Tagged, 3), graphs=2, breaks=1)
def test_subclass_and_a_break(x):
    y = x * 2
    print("between")
    return y + 1, y.tag


def test_two_subclasses_meet():
    class Derived(Tagged):
        pass

    check(lambda x, y: (x + y, y + x, torch.cat([x, y])), made(Derived, 3), made(Tagged, 3))


def test_torch_function_replaced_between_calls():
    class Changing(Copied):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    original = Changing.__dict__["__torch_function__"]

    def other(cls, func, types, args=(), kwargs=None):
        return torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs or {}) if func is None else 7

    def fn(x):
        return x * 3

    def around(x, replace):
        Changing.__torch_function__ = classmethod(other) if replace else original
        return fn(x)

    check(around, made(Changing, 3), False, others=[(made(Changing, 3), True), (made(Changing, 3), False)], graphs=None)


@checked(made(Tagged, 3), graphs=None, breaks=None)
def test_transforms_and_checkpoint_of_a_subclass(x):
    y = torch.utils.checkpoint.checkpoint(lambda a: a * 2, x, use_reentrant=False)
    return y, torch.func.vmap(lambda a: a * 3)(x)


@checked(Duck(tensor(3)), tensor(3, seed=1), graphs=None, breaks=None)
def test_object_with_torch_function(d, x):
    return torch.add(d, x).value, torch.sin(d).value, x + 1


@checked(tensor(3), tensor(3, seed=1), graphs=None, breaks=None)
def test_wrapper_by_torch_dispatch(x, y):
    z = Wrapper(x) + y
    return z.inner + 1, y * 2


@checked(tensor(3), Noted(), graphs=None, breaks=None)
def test_dispatch_mode_as_an_argument(x, mode):
    y = x + 1
    with mode:
        y = y * 2
    return y - 1, len(mode.seen)


# -- layouts -----------------------------------------------------------------------------------------------------------


def test_sparse_tensor_created_in_tracing():
    def fn(x):
        s = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), torch.ones(2), (3, 3))
        return torch.sparse.mm(s, x), s.to_dense() + x

    fn(tensor(3, 3))  # what torch warns of once is said
    check(fn, tensor(3, 3), graphs=None, breaks=None)


@checked(tensor(3, 3).relu().to_sparse(), tensor(3, 3), graphs=None, breaks=None)
def test_sparse_tensor_as_an_argument(s, x):
    return s @ x, s.coalesce().values() * 2, x + 1, s.is_sparse


def test_parts_of_nested_tensors():
    n = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])

    def fn(x):
        parts = n.unbind()
        dl.graph_break()
        return [each + x for each in parts], x * 2

    check(fn, tensor(1), graphs=None, breaks=None)


@checked(tensor(3, 3), tensor(3, 3, seed=1))
def test_complex_arithmetic(x, y):
    z = torch.complex(x, y)
    w = z * z.conj() + 1j
    return w, w.abs(), w.angle(), w.real, w.imag, torch.view_as_real(w), z.is_complex(), w.H if w.ndim == 2 else w


@checked(tensor(3, dtype=torch.complex64))
def test_conjugate_and_negative_views(z):
    c = z.conj()
    n = c.imag
    return c, c.is_conj(), n, n.is_neg(), c.resolve_conj(), n.resolve_neg(), c.mul(2)


def test_conjugate_view_and_plain_tensor_in_turn():
    z = tensor(3, dtype=torch.complex64)
    check(lambda z: (z * 2, z.is_conj()), z.conj(), others=[(z,)])


@checked(tensor(2, 8))
@approximate
def test_fourier_transforms(x):
    spectrum = torch.fft.rfft(x)
    spectrum[..., 1:] = 0
    return torch.fft.irfft(spectrum, n=x.shape[-1]), torch.fft.fftshift(torch.fft.fftfreq(4))


def test_quantized_tensors():
    def fn(x):
        q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        return q.dequantize(), x + 1, q.q_scale()

    fn(tensor(3))
    check(fn, tensor(3), graphs=None, breaks=None)


@checked(tensor(3, 4), ints(3, 4) > 3)
def test_masked_tensors_functions(x, m):
    by_rows = torch.masked.sum(x, 1, mask=m), torch.masked.softmax(x, 1, mask=m), torch.masked.mean(x, 0, mask=m)
    return *by_rows, torch.masked.logsumexp(x, 1), torch.masked.var(x, 1, mask=m), torch.masked.argmax(x, 1)


@checked(tensor(2, 3), graphs=None, breaks=None)
def test_named_tensors(x):
    y = x.refine_names("a", "b")
    return y.sum("a").rename(None), x.names


def test_compiled_function_inside_of_a_transform():
    def fn(x):
        return x.sin() * 2

    compiled = dl.compile(fn, backend="eager")

    def around(x):
        return torch.func.vmap(compiled)(x), torch.func.grad(lambda a: compiled(a).sum())(x)

    check(around, tensor(3, 2), graphs=None, breaks=None)


class Scaled:
    """Not a tensor, but an operand of torch's functions."""

    def __init__(self, value, scale=2):
        self.value = value
        self.scale = scale

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        given = [each.value * each.scale if isinstance(each, cls) else each for each in args]
        if isinstance(given[0], (list, tuple)):
            given[0] = [each.value if isinstance(each, cls) else each for each in given[0]]
        return func.__name__, kwargs, types[0] is cls and len(types), func(*given, **(kwargs or {}))

    def __radd__(self, other):
        return "never called"

    def __eq__(self, other):
        return "never called"

    def softmax(self, dim):
        return "never called"

    def numel(self):
        return "never called"

    __rmul__ = __rmatmul__ = __radd__


@checked(tensor(3), Scaled(tensor(3, seed=1)), breaks=0)
def test_operators_call_torch_function_of_other_objects(x, scaled):
    y = x.clone()
    y += scaled
    made = Scaled(x, 3)
    return x + scaled, x * made, x == scaled, x @ scaled, x < made, made - 1 if hasattr(made, "__sub__") else 0, y


@checked(tensor(3), Scaled(tensor(3, seed=1)), breaks=0)
def test_functions_call_torch_function_of_other_objects(x, scaled):
    sums = torch.add(x, scaled), torch.sub(x, scaled, alpha=2), x.add(scaled), torch.cat([scaled, x])
    functional = torch.nn.functional.softmax(scaled, dim=0), torch.nn.functional.relu(Scaled(x))
    return sums, functional, torch.stack([Scaled(x), x]), torch.numel(scaled), torch.is_tensor(scaled)


class Silent(Scaled):
    __torch_function__ = torch._C._disabled_torch_function_impl

    def __radd__(self, other):
        return other + self.value


def test_objects_whose_torch_function_is_not_called():
    check(lambda x, silent: (x + silent, x + Silent(x * 2)), tensor(3), Silent(tensor(3, seed=1)), operators=3)

    def quiet(x, scaled):
        with torch._C.DisableTorchFunctionSubclass():
            return x + scaled, torch.add(x, scaled.value)

    check(quiet, tensor(3), Scaled(tensor(3, seed=1)), graphs=None)


class AskedByItself:
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func.__name__


def test_object_with_torch_function_as_a_method():
    def fn(x, one):
        return x + 1, torch.sin(one)

    fn(tensor(3), AskedByItself())  # torch warns of it once
    check(fn, tensor(3), AskedByItself(), graphs=None)


class Marked(torch.Tensor):
    """A wrapper of a tensor and another object."""

    @staticmethod
    def __new__(cls, data, mark=None):
        return super().__new__(cls, data)

    def __init__(self, data, mark=None):
        self.mark = mark

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Bare(torch.Tensor):
    pass


def test_instances_created_from_tensors():
    def fn(x):
        marked = Marked(x, 3)
        return (marked + 1) * marked.mark, Bare(x) * 2, torch.Tensor(x) + 1

    check(fn, tensor(3))
    for at in range(3):
        check(with_gradients(lambda x, at=at: fn(x)[at]), tensor(3, grad=True))


@checked(tensor(3))
def test_instances_share_memory_with_their_tensor(x):
    Bare(x).add_(1)
    torch.Tensor(x).mul_(2)
    return x + 1, type(Marked(x)) is Marked, isinstance(Bare(x), torch.Tensor)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("grad", [False, True])
def test_history_where_grad_mode_differs_from_the_call(backend, grad):
    def recorded(w, x):
        with torch.enable_grad():
            y = w * x
        return y * 2, y

    def written(w, x):
        with torch.no_grad():
            w.add_(x)
        return w * x

    for fn in (recorded, written):
        found = []
        for call in (fn, dl.compile(fn, backend=backend)):
            w = tensor(3).as_subclass(Plain).requires_grad_()
            with torch.set_grad_enabled(grad):
                results = call(w, tensor(3, seed=1))
            for each in results if isinstance(results, tuple) else (results,):
                if each.requires_grad:
                    each.sum().backward(retain_graph=True)
                found.append((type(each), each.detach().tolist(), each.requires_grad, each.grad_fn is None))
            found.append((None if w.grad is None else w.grad.tolist(), w.detach().tolist()))
        assert found[: len(found) // 2] == found[len(found) // 2 :]


class Strict(torch.Tensor):
    """A subclass that allows one function, and refuses even its attributes."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not torch.add:
            raise RuntimeError(f"{func.__name__} is not allowed")
        with torch._C.DisableTorchFunctionSubclass():
            return func(*(each.as_subclass(torch.Tensor) for each in args))


class Described(torch.Tensor):
    """A subclass whose metadata are of another tensor, which an instance gets after its creation."""

    def __init__(self, of):
        self.of = of

    def __new__(cls, of):
        return torch.Tensor._make_subclass(cls, of, of.requires_grad)

    @property
    def dtype(self):
        return self.of.dtype

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*(each.of if type(each) is cls else each for each in args))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("cls, graphs", [(Strict, 1), (Described, 0)])
def test_wrapping_an_instance_runs_none_of_its_code(cls, graphs, grad):
    """The alias that the graph takes has the instance for its base."""
    made = torch.ones(3, requires_grad=grad)
    instance = Described(made) if cls is Described else torch.Tensor._make_subclass(Strict, made, grad)
    compiled = dl.compile(torch.add, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(instance, torch.ones(3)), torch.full((3,), 2.0))
    assert dl.counters.graphs == graphs


def test_an_instance_without_what_its_metadata_read():
    @dl.compile(backend="eager")
    def initialize(instance, of):
        instance.of = of
        return of + 1

    made = Described.__new__(Described, torch.ones(3))
    assert torch.equal(initialize(made, torch.ones(3)), torch.full((3,), 2.0))
    assert made.dtype is torch.float32
