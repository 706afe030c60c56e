"""Sizes and numbers that change from call to call: one recompilation, and right results in each call."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from equality import Pairing
from programs import Recorder, tensor
from sweeps import both, sweep, swept, swept_both

SHAPES = [(4, 5), (6, 7), (9, 3), (2, 8), (16, 11)]


def matrices(*shapes, **options):
    return [(tensor(*shape, **options),) for shape in shapes or SHAPES]


# -- sizes in operators ------------------------------------------------------------------------------------------------


def test_only_changed_sizes_become_symbolic():
    recorder = sweep(lambda x: x + 1, [(tensor(n, 3),) for n in (2, 5, 9)])
    shape = recorder.graphs[1].graph.find_nodes(op="placeholder")[0].meta["example_value"].shape
    assert isinstance(shape[0], torch.SymInt) and shape[1] == 3


def test_sizes_changed_one_after_another():
    """There are as many graphs as under torch.compile: at a change it can't be known that another will follow."""
    shapes = [(4, 5), (6, 5), (7, 5), (7, 6), (8, 9), (3, 2)]
    sweep(lambda x: x + 1, [(tensor(*shape),) for shape in shapes], graphs=3)
    sweep(lambda x, y: x.sum() + y.sum(), [(tensor(one), tensor(other)) for one, other in shapes], graphs=3)
    sweep(lambda x: x + 1, [(tensor(*shape),) for shape in [(4, 5), (6, 7), *shapes]], graphs=2)


def test_alternating_ranks_share_symbolic_graphs():
    """After a change of rank all sizes are symbolic. There are as many graphs as under torch.compile."""
    shapes = [(10,), (2, 3), (12,), (4, 5), (14,), (5, 6), (7, 3), (2, 3, 4), (5, 4, 3)]
    sweep(lambda x: x + 1, [(tensor(*shape),) for shape in shapes[:6]], graphs=3, fullgraph=True)
    sweep(lambda x: x + 1, [(tensor(*shape),) for shape in shapes], graphs=4, fullgraph=True)
    sweep(lambda d: d["x"] + 1, [({"x": tensor(*shape)},) for shape in shapes], graphs=4, fullgraph=True)


def test_strides_of_ranks_that_alternate():
    steps = [(2, 3), (3, 4), (4, 5)]
    calls = [call for a, b in steps for call in [(tensor(20)[::a],), (tensor(6, 20)[:, ::b],)]]
    sweep(lambda x: x + 1, calls, graphs=3)


@pytest.mark.parametrize("place", [lambda y: y, lambda y: [y], lambda y: {"y": y}], ids=["argument", "list", "dict"])
def test_a_tensor_or_a_number_in_turn(place):
    def fn(x, held):
        y = held[0] if isinstance(held, list) else held["y"] if isinstance(held, dict) else held
        return x + y

    ints = [(tensor(n), place(tensor(n) if n % 2 else n)) for n in range(3, 11)]
    floats = [(tensor(n), place(tensor(n) if n % 2 else n / 8)) for n in range(3, 11)]
    sweep(fn, ints, graphs=3, fullgraph=True)
    sweep(fn, floats, graphs=3, fullgraph=True)
    mixed = [2, 0.5, 3, 1.5, 7, 2.5]
    sweep(fn, [(tensor(3), place(n)) for n in mixed], graphs=3, fullgraph=True)


def test_dynamic_false_keeps_sizes_static():
    sweep(lambda x: x + 1, matrices(), graphs=5, dynamic=False)


def test_view_and_reshape():
    both(
        lambda x: (x.view(-1), x.reshape(x.size(1), x.size(0)), x.view(x.shape[0] * x.shape[1], 1)),
        matrices((4, 5), (6, 7), (7, 9)),
    )


@swept_both(matrices())
def test_sizes_as_arguments(x):
    b, s = x.shape
    return torch.zeros(b, s * 2), torch.arange(s), torch.full((s,), 3.0), x.new_ones(b + 1), torch.eye(b)


@swept_both(matrices((4, 8), (6, 10), (9, 6), (3, 12)))
def test_slices_and_indices(x):
    half = x.size(1) // 2
    return x[:, :half], x[:, half:], x[-1], x[:, -half:], x[..., None], x[torch.arange(x.size(0)), 0]


@swept_both(matrices())
def test_expand_cat_and_stack(x):
    one = torch.arange(x.size(1)).unsqueeze(0).expand(x.size(0), -1)
    return one, torch.cat([x, x.new_zeros(x.size(0), 2)], 1), torch.stack([x, x]), x[None].expand(3, -1, -1)


def test_writes_into_arguments():
    def fn(x):
        x.add_(x.size(0))
        return x.t()

    for dynamic in (None, True):
        recorder = Recorder()
        compiled = dl.compile(fn, backend=recorder, dynamic=dynamic)
        for shape in SHAPES:
            one = tensor(*shape)
            other = one.clone()
            Pairing().compare(fn(one), compiled(other), "result")
            assert torch.equal(one, other)
        assert len(recorder.graphs) == (1 if dynamic else 2)


def test_views_as_arguments():
    both(lambda x: (x * 2, x.reshape(-1)), [(tensor(s, b * 2)[:, ::2].t(),) for b, s in SHAPES])


def test_strides_that_are_no_products_of_sizes():
    calls = [(tensor(n, 10)[:, 1:9],) for n in (3, 5, 8)]
    both(lambda x: (x + 1, x.stride(), x.stride(0)), calls)


def test_changed_layout_recompiles():
    calls = [(tensor(4, 5),), (tensor(6, 7),), (tensor(7, 6).t(),), (tensor(9, 8).t(),), (tensor(9, 8),)]
    sweep(lambda x: x.contiguous().view(-1), calls, graphs=3)


def test_gradients():
    linear = torch.nn.Linear(5, 3)

    def fn(x):
        return linear(x).tanh().mean() * x.size(0)

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    for n in (4, 7, 9):
        x = tensor(n, 5).requires_grad_()
        expected = torch.autograd.grad(fn(x), [x, linear.weight])
        Pairing().compare(expected, torch.autograd.grad(compiled(x), [x, linear.weight]), "gradients")
    assert len(recorder.graphs) == 2


# -- the program looks at sizes ----------------------------------------------------------------------------------------


def test_sizes_are_plain_integers_outside():
    def fn(x):
        n = x.size(0)
        return x + 1, n, [n, n + 1], {"n": n * 2 - 1}, x.shape, tuple(x.shape), x.numel(), -n, n // 2, n % 3, n / 2

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for (x,) in matrices():
        Pairing().compare(fn(x), compiled(x), "result")
        assert all(type(each) is int for each in (*compiled(x)[2], *compiled(x)[4], compiled(x)[7]))


@swept_both(matrices((4, 5), (3, 6), (6, 7), (9, 8), (9, 3), (20, 4)), graphs=4)
def test_branches_on_sizes(x):
    if x.size(0) > 5 and x.shape[1] != 3:
        return x * 2
    return x - 1


@swept([(tensor(n, 3),) for n in (2, 3, 4)], graphs=3)
def test_loops_are_unrolled(x):
    total = x.new_zeros(())
    for row in range(x.size(0)):
        total = total + x[row].sum()
    return total


def test_smallest_and_greatest():
    both(lambda x: x * max(x.size(0), 3) + min(x.shape), matrices((4, 5), (5, 7), (6, 8)))


@swept_both(matrices((4, 6), (6, 8), (9, 10)))
def test_roots_and_rounding(x):
    n = x.size(-1)
    return x / math.sqrt(n), x * float(n), x * math.floor(n / 2), x + math.ceil(n / 3), x + int(n * 0.5)


def test_texts_and_keys_specialize_the_number():
    sweep(lambda x, table: (x + table[x.size(0)], f"{x.size(0)}"), [(tensor(n), {2: 1, 3: 5, 4: 7}) for n in (2, 3, 4)],
          graphs=3)  # fmt: skip


@swept(
    [
        (tensor(2, 3), tensor(2, 3)),
        (tensor(4, 5), tensor(4, 5)),
        (tensor(6, 7), tensor(6, 7)),
        (tensor(6, 7), tensor(5, 7)),
        (tensor(8, 9), tensor(5, 7)),
    ],
    graphs=3,
)
def test_comparing_shapes(x, y):
    return x + y if x.shape == y.shape else x.sum() * y.sum()


def test_equal_sizes_are_not_taken_to_stay_equal():
    sweep(lambda x: x + 1, matrices((3, 3), (4, 4), (5, 6), (7, 7)))


def test_matching_sizes_are_demanded():
    def fn(x, y):
        return x @ y

    recorder = sweep(fn, [(tensor(b, s), tensor(s, b)) for b, s in SHAPES])
    compiled = dl.compile(fn, backend=recorder, dynamic=True)
    compiled(tensor(2, 3), tensor(3, 4))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        compiled(tensor(2, 3), tensor(4, 5))


def test_a_closure_over_a_size():
    def fn(x):
        n = x.shape[0]

        def scaled(y):
            return y * n

        return scaled(x), scaled

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for (x,) in matrices():
        found, scaled = compiled(x)
        assert torch.equal(found, x * x.size(0)) and torch.equal(scaled(x), found)


def test_places_in_storage():
    calls = [(tensor(n, 9)[1:, 2:],) for n in (4, 5, 7)]
    both(lambda x: (x + 1, x.storage_offset(), x[1:].storage_offset()), calls, graphs=None)


@pytest.mark.on_cpu
def test_arrays_of_symbolic_shape_break():
    def fn(x):
        array = (x + 1).numpy()
        return array[0], len(array), array.shape, array.sum()

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for (x,) in matrices():
        Pairing(exact=False).compare(fn(x), compiled(x), "result")


def test_identity_of_equal_numbers():
    def fn(x, one, other):
        return x + 1 if {id(one): 1}.get(id(other)) else x - 1

    number = 10**6
    pairs = ((number, number), (number, int("1000000")), (7000, 9000))
    sweep(fn, [(tensor(2), *pair) for pair in pairs], graphs=None, dynamic=True)


def test_zero_and_one_are_specialised():
    calls = [(tensor(n, 3),) for n in (4, 5, 1, 6, 0, 7)]
    sweep(lambda x: (x.squeeze(0), x.size(0)), calls, graphs=4)


def test_sizes_across_a_break():
    def fn(x):
        n = x.size(0)
        y = x + n
        dl.graph_break()
        return y.view(-1) * n, n

    compiled = dl.compile(fn, backend="eager")
    graphs = []
    for (x,) in matrices():
        before = dl.counters.graphs
        Pairing().compare(fn(x), compiled(x), "result")
        graphs.append(dl.counters.graphs - before)
    assert graphs == [2, 2, 0, 0, 0]


# -- numbers -----------------------------------------------------------------------------------------------------------


INDICES = [
    lambda x, n: x[n],
    lambda x, n: x[:, n],
    lambda x, n: x[..., n],
    lambda x, n: x[n, ..., n],
    lambda x, n: x[None, 1:, n, None],
    lambda x, n: x[1, n, 0:1],
    lambda x, n: x[n - 7],
    lambda x, n: x[n : n + 2, n],
    lambda x, n: x.select(0, n)[n],
]


@pytest.mark.parametrize("pick", INDICES)
def test_changed_index_becomes_symbolic(pick):
    """The index selects a view, and the view is mutated."""

    def write(x, n):
        x = x.clone()
        pick(x, n).mul_(2)
        return x

    for fn in (pick, write):
        both(fn, [(tensor(7, 8, 9), n) for n in (3, 4, 2, 5)])


def write_row(x, n):
    x = x.clone()
    x[n] = x[0]
    x[:, n] = 5
    x[..., n] += 1
    return x


def test_write_by_an_index_that_changes():
    both(write_row, [(tensor(7, 8, 9), n) for n in (3, 4, 2, 5)])


def test_index_out_of_range():
    compiled = dl.compile(lambda x, n: x[n] + 1, backend="eager")
    for n in (1, 2, 3, 2):
        compiled(tensor(4), n)
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        compiled(tensor(4), 7)
    assert torch.equal(compiled(tensor(4), -1), tensor(4)[-1] + 1)


def test_numbers_that_are_zero_and_one():
    """Unlike sizes, such numbers don't broadcast."""
    sweep(lambda x, n: (x * n + n, n // 2, n == 3), [(tensor(3), n) for n in (5, 0, 1, 2, 4, 0)], graphs=2)
    sweep(lambda x, n: x + n if n else x - 1, [(tensor(3), n) for n in (5, 0, 1, 2, 0)], graphs=3)
    sweep(lambda x, n: torch.zeros(n).sum() + x, [(tensor(3), n) for n in (5, 0, 1, 2, 4)], graphs=2)


@swept_both([(tensor(3), n) for n in (7, 9, 4, 100, -5)])
def test_integers_that_change(x, n):
    return x * n, n * 2, n // 3, n - 1


@pytest.mark.parametrize("numbers", [(5, 6, 7, 8), (0.5, 0.25, 0.125, 0.1)])
def test_numbers_in_containers_and_attributes(numbers):
    class Box:
        step = 0 * numbers[0]

    box = Box()

    def fn(x, options):
        return x * options["n"] + box.step

    compiled = dl.compile(fn, backend="eager")
    for n in numbers:
        box.step = n * 3
        assert torch.equal(compiled(tensor(2), {"n": n}), fn(tensor(2), {"n": n}))
    assert dl.counters.graphs == 2


@pytest.mark.parametrize("first, change", [(10, lambda n: n + 1), (1.0, lambda n: n * 0.9)], ids=["int", "float"])
def test_number_of_a_module_that_each_call_changes(first, change):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.number = first

        def forward(self, x):
            self.number = change(self.number)
            return x * self.number

    module, other = Counting(), Counting()
    compiled = dl.compile(module, backend="eager")
    for _ in range(6):
        assert torch.equal(compiled(tensor(2)), other(tensor(2)))
    assert module.number == other.number and type(module.number) is type(first)
    assert dl.counters.graphs == 2


def test_very_large_integers():
    numbers = (5, 7, 2**70, 2**71, 2**62, -(2**63), 11)
    both(lambda x, n: (x + 1, n * 2), [(tensor(2), n) for n in numbers])
    sweep(lambda x, n: x + 1 if n > 3 else x - 1, [(tensor(2), n) for n in numbers], graphs=5)


@swept([(tensor(2), n) for n in (5, 7, 9, 0, 3)], graphs=2)
def test_division_by_a_number_that_may_be_zero(x, n):
    try:
        return x * (100 // n)
    except ZeroDivisionError:
        return x


@swept([(tensor(size, 3), n) for size, n in ((9, 4), (13, 4), (17, 4))], graphs=3)  # it raises
@swept_both([(tensor(size, 3), n) for size, n in ((9, 2), (13, 3), (17, 5), (30, 7))])
def test_quotient_and_remainder(x, n):
    quotient, rest = divmod(x.size(0), n)
    try:
        return x[:quotient] * rest, divmod(-n, 3), divmod(x.size(0), n - 4)
    except ZeroDivisionError as error:
        return x, str(error)


def test_integers_of_a_subclass_are_known():
    class Level(int):
        pass

    sweep(lambda x, n: x * n, [(tensor(2), Level(n)) for n in (4, 5)], graphs=2)


# -- what is shown -----------------------------------------------------------------------------------------------------


@pytest.mark.on_cpu
def test_guards_in_the_users_terms():
    def fn(x, y, n):
        z = torch.cat([x, y], 1) @ torch.zeros(x.size(1) + y.size(1), 2)
        return z[: x.size(0) // 2] if x.size(0) % 2 == 0 and n > 3 else z

    texts = dl.explain(fn, dynamic=True)(tensor(4, 3), tensor(4, 5), 7).guards
    assert "x.size(0) == y.size(0)" in texts or "y.size(0) == x.size(0)" in texts, texts
    assert "n > 3" in texts and "x.size(1) >= 2" in texts, texts
    assert any("size(0) % 2) == 0" in text for text in texts), texts
    assert "x is a torch.float32 tensor on cpu of shape (any, any)" in texts


# -- backends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backends_take_symbols(backend):
    linear = torch.nn.Linear(8, 8)

    def fn(x, n):
        y = linear(x).relu().view(-1, 8) * n
        return y[: x.size(0) * 2], y.sum(), x.size(1) + n

    compiled = dl.compile(fn, backend=backend)
    for (b, s), n in zip(SHAPES, (5, 6, 7, 8, 9)):
        x = tensor(b, s, 8).requires_grad_()
        expected, found = fn(x, n), compiled(x, n)
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(each[1], [x, linear.weight]) for each in (expected, found)]
        torch.testing.assert_close(*gradients)
    assert dl.counters.graphs == 2


def test_backwards_that_compute_with_sizes():
    compiled = dl.compile(lambda x, y: F.mse_loss(x, y), backend="aot_eager_decomp_partition", dynamic=True)
    for rows in (4, 6, 9):
        x, y = tensor(rows, 5, grad=True), tensor(rows, 5, seed=1)
        losses = F.mse_loss(x, y), compiled(x, y)
        torch.testing.assert_close(*losses)
        torch.testing.assert_close(*(torch.autograd.grad(each, x) for each in losses))
    assert dl.counters.graphs == 1


def test_exponents_whose_derivatives_ask_for_them():
    def fn(x, n):
        return x**n, n**x, x ** x.size(0), torch.pow(x, n + 1), x.clone().pow_(n), torch._foreach_pow([x], n)[0]

    compiled = dl.compile(fn, backend="aot_eager")
    for n in (3, 4, 6):
        x = tensor(n, 5, grad=True)
        expected, found = fn(x, n), compiled(x, n)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*(torch.autograd.grad(sum(each).sum(), x) for each in (found, expected)))


def test_nothing_is_kept_after_reset():
    def fn(x):
        return x + 1

    compiled = dl.compile(fn, backend=Recorder())
    compiled(tensor(4))
    compiled(tensor(5))
    dl.reset()
    recorder = compiled.owner.callback.backend
    compiled(tensor(6))
    node = recorder.graphs[-1].graph.find_nodes(op="placeholder")[0]
    assert node.meta["example_value"].shape == (6,), "what changed once is forgotten"


@swept([(torch.ones(size),) for size in (2, 3, 4, 5)], graphs=None)
def test_bytes_of_a_tensor_of_any_size(x):
    return x + x.nbytes, (x + 1).nbytes


@swept(matrices((4, 6), (5, 3), (7, 9)), graphs=1, dynamic=True)
def test_deep_copies_know_no_size(x):
    kept = {"x": [x]}
    return copy.deepcopy(kept)["x"][0] * 2 + copy.deepcopy(x)
