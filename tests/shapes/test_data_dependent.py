"""Numbers and sizes that depend on tensors' data: symbols of the graph where torch has them, else breaks."""

import pytest
import torch

import dynamo_lite as dl
from equality import Pairing
from programs import Recorder, decorator_for, tensor

NUMBERS = (3, 5, 2, 7)


def sweep(fn, *, graphs=1, breaks=0, backend=None, exact=True):
    """Compares ``fn(x, n)`` for numbers ``n`` in a tensor, compiled with capture of such numbers."""
    recorder = Recorder()
    with dl.config.patch(capture_scalar_outputs=True):
        compiled = dl.compile(fn, backend=backend or recorder)
        before = dl.counters.graphs, dl.counters.graph_breaks
        for number in NUMBERS:
            x, n = tensor(8), torch.tensor(number)
            if exact:
                Pairing().compare(fn(x, n), compiled(x, n), f"result of {number}")
            else:
                torch.testing.assert_close(compiled(x, n), fn(x, n))
    if graphs is not None:
        assert (dl.counters.graphs - before[0], dl.counters.graph_breaks - before[1]) == (graphs, breaks)
    return recorder


swept = decorator_for(sweep)


def scaled(x, n):
    k = n.item()
    return x * k, k + 1, k * 2 - 3


@swept()
def test_greatest_and_least(x, n):
    k = n.item()
    kept = x[x > 0]
    least = min(k, 4, x.shape[0])
    return x * max(k, 4), kept.sum() / max(kept.numel(), 1), least, max([k, k + 1, 2])


@pytest.mark.parametrize(
    "operation", ["truth > True", "truth + 1", "2 * truth", "-truth", "truth == True", "max(1, truth)"]
)
def test_arithmetic_of_truths(operation):
    scope = {}
    exec(f"def fn(x, n):\n    truth = n.item() > 3\n    return x + ({operation})", scope)
    sweep(scope["fn"], graphs=None, breaks=None)


@swept(graphs=None, breaks=None)
def test_greatest_of_floats(x, n):
    return x * max((n / 3).item(), 1.5)


def test_item_breaks_the_graph_by_default():
    recorder = Recorder()
    dl.compile(scaled, backend=recorder)(tensor(8), torch.tensor(3))
    assert len(recorder.graphs) == 1
    (found,) = dl.explain(scaled)(tensor(8), torch.tensor(3)).breaks
    assert "capture_scalar_outputs" in found.hint


# -- fullgraph=True ----------------------------------------------------------------------------------------------------


MASKS = [(0, 1, 1, 0, 1), (1, 1, 0, 0, 1), (0, 0, 0, 1, 0), (0, 0, 0, 0, 0), (1, 1, 1, 1, 1)]


def whole(fn, backend="eager"):
    """Checks that ``fn(x, mask, i)`` is one graph under ``fullgraph=True`` for masks with any count."""
    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    before = dl.counters.graphs
    for bits in MASKS:
        mask = torch.tensor(bits, dtype=torch.bool)
        i = torch.tensor([2, 0, 2, 4, 1]) * mask
        Pairing().compare(fn(tensor(5, 3), mask, i), compiled(tensor(5, 3), mask, i), f"result of {bits}")
    assert dl.counters.graphs - before <= 1


@pytest.mark.parametrize(
    "operation",
    [
        "x * i.sum().item()",
        "x * float(x.sum()), x + int(i.sum())",
        "x[mask], x[x > 0].sum(), x[:, mask[:3]]",
        "mask.nonzero(), torch.nonzero(mask, as_tuple=True), torch.where(mask), torch.argwhere(mask)",
        "x.masked_select(mask[:, None]), torch.masked_select(x, x > 0)",
        "torch.unique(i), i.unique(return_inverse=True, return_counts=True), i.reshape(-1, 1).unique(dim=0)",
        "torch.unique_consecutive(i), i.unique_consecutive(return_counts=True)",
        "torch.bincount(i), i.bincount(minlength=9), torch.bincount(i, weights=x[:, 0])",
        "torch.combinations(i), torch.combinations(i, r=3, with_replacement=True)",
        "torch.tensor_split(x, torch.tensor([1, 3])), x.tensor_split(i[:2].sort()[0])",
        "torch.repeat_interleave(i), torch.zeros(mask.sum().item()), torch.arange(mask.sum())",
        "x[i[0]], x[i[0] :], x[: mask.sum()], x[i[1], 0], x[-1, i[0] - 3]",
        "x[mask].squeeze(0), x[mask][None].squeeze().ndim, torch.squeeze(x[mask], (0, 1)).shape",
        "torch.nn.functional.pad(x, (0, mask.sum().item()))",
        "round(x.sum().item(), 2), f'{x.sum().item():.3f}', i.tolist(), mask.any().item(), bool(mask.all())",
        "x[mask].mean(0), x[mask].numel() + 1, x[mask].shape, len(x[mask]), torch.cat([x[mask], x[~mask]])",
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_fullgraph_captures_data_without_a_setting(operation, backend):
    scope = {"torch": torch}
    exec(f"def fn(x, mask, i):\n    return {operation}", scope)
    whole(scope["fn"], backend)


def test_fullgraph_captures_writes_at_indices_of_tensors():
    def fn(x, mask, i):
        y = x.clone()
        y[i[0]] = 1.0
        y[:, i[0]] += 2
        y[mask] = y[mask] * 3
        y[i[1] :] = 0
        return y

    whole(fn)


def test_fullgraph_captures_experts():
    def fn(x, mask, i):
        out = torch.zeros_like(x)
        for expert in range(5):
            rows = torch.where(i == expert)[0]
            out.index_add_(0, rows, x[rows] * (expert + 1))
        return out

    whole(fn)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_of_data_that_operators_took_for_equal_may_differ(backend):
    def fn(x, mask, i):
        one, other = x[mask], x[i == 0]
        both = one + other
        return both, len(both), both.shape, len(one) * 2

    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    for bits in ((1, 0, 1, 0, 1), (1, 0, 0, 0, 0), (1, 1, 0, 0, 0)):
        mask, i = torch.tensor(bits, dtype=torch.bool), torch.tensor([0, 0, 0, 1, 1])
        for args in ((mask, 1 - mask.long()), (mask, i)):
            try:
                expected = fn(tensor(5, 3), *args)
            except RuntimeError:
                with pytest.raises(RuntimeError, match="must match"):
                    compiled(tensor(5, 3), *args)
            else:
                Pairing().compare(expected, compiled(tensor(5, 3), *args), f"result of {bits}")


def test_takeover_captures_data_under_fullgraph():
    def fn(x):
        return x[x > 0] * x.sum().item()

    compiled = torch.compile(fn, backend="eager", fullgraph=True)
    with dl.takeover():
        for scale in (1.0, -1.0, 0.0):
            torch.testing.assert_close(compiled(tensor(5) * scale), fn(tensor(5) * scale))


@pytest.mark.filterwarnings("ignore:_check_is_size:FutureWarning")
def test_check_is_size():
    def fn(x, n):
        k = n.item()
        torch._check_is_size(k, max=8)
        return x[:k], torch.zeros(k)

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for number in (3, 5):
        Pairing().compare(fn(tensor(8), torch.tensor(number)), compiled(tensor(8), torch.tensor(number)), "result")
    with pytest.raises(RuntimeError, match="Expected"):
        compiled(tensor(8), torch.tensor(9))


# -- under the setting -------------------------------------------------------------------------------------------------


def test_numbers_are_plain_outside():
    with dl.config.patch(capture_scalar_outputs=True):
        found = dl.compile(scaled, backend="eager")(tensor(8), torch.tensor(3))
    assert type(found[1]) is int


def sliced(x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.size(0))
    return x[:k], torch.zeros(k), torch.arange(k), k


def test_failing_torch_check_raises_as_in_eager():
    with dl.config.patch(capture_scalar_outputs=True):
        compiled = dl.compile(sliced, backend="eager")
        compiled(tensor(8), torch.tensor(3))
        with pytest.raises(RuntimeError):
            compiled(tensor(8), torch.tensor(9))


def test_checks_that_leave_one_number():
    def fn(x, n):
        k = n.item()
        torch._check(k == 3)
        torch._check(3 * k == 9)
        return x + k, k

    with dl.config.patch(capture_scalar_outputs=True):
        compiled = dl.compile(fn, backend="eager", fullgraph=True)
        for number in (3, 3):
            Pairing().compare(fn(tensor(8), torch.tensor(number)), compiled(tensor(8), torch.tensor(number)), "result")
        with pytest.raises(RuntimeError):
            compiled(tensor(8), torch.tensor(4))


def read_by_operators(x, n):
    scale = n * 0.5
    found = torch._foreach_addcmul([x], [x], [x], value=1 - scale), torch._foreach_add([x], scale)
    k = scale.item()
    return found, x * k, k, torch._foreach_mul([x], scale), scale.item() + 1


def listed(x, n):
    sizes = torch.stack([n, 8 - n])
    first, second = sizes.tolist()
    parts = torch.split(x, sizes.tolist())
    nested = torch.stack([x[:2], x[2:4]]).tolist()
    return parts, first + 1, second, nested, n.tolist(), x[:0].tolist(), (x > 0).tolist(), torch.zeros([first, 2])


@swept()
def test_truths_that_nothing_branches_on(x, n):
    found = (x > 0).any(), n == 3
    return (
        [each.item() for each in found],
        bool(n),
        bool(n - 3),
        bool(x[0]),
        bool(found[1]),
        n.item() > 4,
        bool(n.item()),
    )


@swept(graphs=None, breaks=None)
def test_truths_that_something_branches_on(x, n):
    y = x + 1
    if bool(n == 3):
        y = y * 2
    return y, not n.item() - 3


def selected(x, n):
    places = x.nonzero()
    return places * 2, places.size(0), x[x > 0].sum(), x.masked_select(x < n)


@swept()
def test_floats(x, n):
    total = x.sum().item()
    return x * total, total, total + 1


def test_conversions():
    sweep(lambda x, n: (x * int(n), x + float(n), torch.arange(int(n))))


@swept(graphs=3, breaks=1)
def test_branches_on_such_a_number_break(x, n):
    k = n.item()
    if k > 3:
        return x + k
    return x - k


@swept(graphs=3, breaks=1)
def test_truth_of_data_breaks(x, n):
    if n > 3:
        return x + 1
    return x + (n > 2).item()


def test_long_lists_break():
    sweep(lambda x, n: (x + 1, x.repeat(200).tolist()), breaks=1)


@pytest.mark.parametrize("fn", [scaled, sliced, selected, read_by_operators, listed])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_backends_take_them(fn, backend):
    exact = backend is None or fn in (read_by_operators, listed)
    sweep(fn, backend=backend, exact=exact)


def test_inductor_takes_them():
    sweep(sliced, backend="inductor", exact=False)


@pytest.mark.parametrize("index", [lambda x, n: x[n], lambda x, n: x[:, n], lambda x, n: x[None, n, n]])
def test_an_index_out_of_range_is_an_indexs_error(index):
    def fn(x, n):
        return index(x, n.item()) + 1

    x = tensor(4, 4)
    with dl.config.patch(capture_scalar_outputs=True):
        compiled = dl.compile(fn, backend="eager")
        assert torch.equal(compiled(x, torch.tensor(-2)), fn(x, torch.tensor(-2)))
        for number in (7, -5):
            with pytest.raises(IndexError, match=f"index {number} is out of bounds for dimension . with size 4"):
                compiled(x, torch.tensor(number))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_gradient_of_what_a_mask_writes_has_a_size_of_data(backend):
    def fn(x, mask, y):
        x = x.clone()
        x[mask] = y
        return x.sin()

    x, y = tensor(4, grad=True), torch.tensor(0.5, requires_grad=True)
    with dl.config.patch(capture_scalar_outputs=True):
        compiled = dl.compile(fn, backend=backend, fullgraph=True)
        for mask in (x > 0, x < 0, x < 0.5):
            found = torch.autograd.grad(compiled(x, mask, y).sum(), [x, y])
            torch.testing.assert_close(found, torch.autograd.grad(fn(x, mask, y).sum(), [x, y]))


def test_a_list_of_as_many_items_as_data_decide_breaks_the_graph():
    """As in a switch transformer, which lists the experts that tokens are routed to. Their number is bounded."""

    def fn(x):
        routed = torch.nn.functional.one_hot(x.argmax(-1), 4).sum(0)
        for expert in torch.nonzero(routed, as_tuple=True)[0].tolist():
            x = x * (expert + 2)
        return x

    x = tensor(3, 4)
    with pytest.raises(dl.exc.Unsupported, match="DL0302"):
        dl.compile(fn, backend="eager", fullgraph=True)(x)
    with dl.config.patch(capture_scalar_outputs=True):
        assert torch.equal(dl.compile(fn, backend="eager")(x), fn(x))
