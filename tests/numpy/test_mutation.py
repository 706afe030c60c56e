"""numpy: writes into arrays that are arguments, or that share memory with others."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from arrays import counted
from collector import Programs
from programs import checked, recompiling, tensor, watching

np = pytest.importorskip("numpy")
programs = Programs()

KEPT = np.arange(4.0)


@programs(tensor(2), counted(6), graphs=1)
def items_of_an_array_that_was_given(x, a):
    a[1:3] = 7
    a[0] = a[-1]
    a[-1] = a[0] + 1
    a[::2] += a[1::2]
    a[...] = a * 2
    return x + 1, a


@programs(counted(3, 4), graphs=1)
def rows_and_columns(a):
    a[0] += 1
    a[:, 1] *= 2
    a[1, 2] = 50
    a[2:, 2:] = 0
    a[..., -1] = a[..., 0]
    a[1] = [1, 2, 3, 4] if len(a) < 3 else a[2]
    return a, a.T[0]


@programs(counted(6), graphs=None)
def operators_and_functions_that_write(a):
    same = a
    a += 1
    a *= 2
    out = np.add(a, 2, out=a)
    np.multiply(a, a[0], out=a)
    np.copyto(a[:2], a[2:4])
    a[3:].fill(4)
    a[:3].sort()
    return out is a, same is a


@programs(counted(6, dtype="int64"), counted(6, dtype="float32"), graphs=1)
def numbers_of_other_types(counts, single):
    counts[0] = np.int32(9)
    counts[1] = True
    single[:] = counts
    single[0] = 2
    single[1] = np.float64(0.1)
    single += counts * 0.5
    return single.dtype


@programs(counted(6), graphs=1)
def views_see_what_is_written(a):
    b, c = a[1:4], a.reshape(2, 3)
    a += 1
    b *= 2
    c[0, 0] = 100
    flat, copied = c.ravel(), c.T.ravel()
    flat[5] = -1
    copied[5] = -2
    return b, c, flat, copied, torch.from_numpy(a)


@programs(graphs=None)
def arrays_made_inside():
    a, counts = np.zeros(6), np.arange(4)
    b = a[2:4]
    a[2:] = counts
    a[0] = 3
    b += 1
    counts[1:] = counts[:-1]
    np.multiply(a, 2, out=a)
    return a, b, counts


@programs(counted(4), graphs=1)
def scalars_stay_what_they_were(a):
    first, last = a[0], a[-1]
    a += 10
    a[0] = last
    a[-1] = first
    return first, last, a


@programs(counted(4), graphs=1)
def masks(a):
    b = a * 1
    b[b > 2] = 0
    a[a < 2] = 0.5
    return b


@programs(counted(6), graphs=1)
def numbers_at_listed_items(a):
    a[[0, -1]] = 7
    a[np.array([1, 2])] = a[0]
    made = np.zeros((2, 3), dtype=np.float32)
    made[[0, 1], 1] = a[3]
    for at in range(3):
        made[0, at] += at
    return a, made


@programs(counted(3, 2), graphs=None)
def a_loop_that_breaks(a):
    found = []
    for row in a:
        found.append(float(row.sum()))
        row += 1
    return found, a


@programs(counted(6), graphs=1)
def tensors_that_share_the_memory(a):
    t = torch.from_numpy(a)
    t.add_(1)
    a[0] = 3
    s = t * 2
    a[1] = 4
    return t, s


@programs(counted(6), graphs=None)
def what_the_array_can_not_hold(a):
    counts, errors = np.arange(3), []
    for value in (2.5, 1j, [1, 2, 3], "a", None):
        try:
            counts[0] = value
        except (TypeError, ValueError) as error:
            errors.append(type(error).__name__)
    try:
        counts += 0.5
    except TypeError as error:
        errors.append(type(error).__name__)
    half = np.ones(2, np.float16)
    try:
        half *= 1j
    except TypeError as error:
        errors.append(type(error).__name__)
    try:
        a[7] = 1
    except IndexError as error:
        errors.append(str(error))
    try:
        a[:3] = a[:2]
    except ValueError as error:
        errors.append(str(error))
    a[[0, 1, 0]] = [5, 6, 7]
    a[::-1] = a
    return counts, errors


@programs(tensor(3), graphs=None)
def an_array_that_is_a_tensors(x):
    a = x.numpy()
    before = x._version
    a[0] = 5
    return x * 2, x._version - before


@programs(counted(3), np.array([0, 2]), graphs=None, others=[(counted(3), np.array([0, 5]))] * 2)
def a_handler_of_what_may_be_out_of_range(a, at):
    a += 1
    try:
        return a[at]
    except IndexError:
        return a * 2


@pytest.mark.parametrize("case", programs.parameters())
def test_numpy_writes(case):
    case.run()


@checked(tensor(2), graphs=None, breaks=None)
@watching("KEPT")
def test_array_of_a_module(x):
    KEPT[0] = KEPT[0] + 1
    KEPT[1:] *= 2
    return x + 1, KEPT * 1


def test_writes_into_arrays_bump_no_version():
    def fn(w, a):
        t = torch.from_numpy(a)
        y = w * t
        a += 1
        return y

    w = tensor(3, grad=True)
    for each in (fn, dl.compile(fn, backend="eager")):
        (found,) = torch.autograd.grad(each(w, np.ones(3, np.float32)).sum(), w)
        assert torch.equal(found, torch.full((3,), 2.0))


def whole():
    a = counted(6)
    return a, a


def half():
    a = counted(6)
    return a[:4], a[2:]


def apart():
    return counted(4), counted(4) * 2


def between():
    a = counted(8)
    return a[::2], a[1::2]


def read_only():
    a = counted(4)
    a.flags.writeable = False
    return a, counted(4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_arrays_that_may_share_memory(backend):
    def fn(x, a, b):
        a += 1
        b[1:] *= 2
        return x + torch.from_numpy(a).sum(), a[0] + b[-1]

    compiled = dl.compile(fn, backend=backend)
    for make in (apart, whole, half, between, apart, whole):
        found, expected = make(), make()
        for one, other in zip(compiled(torch.ones(2), *found), fn(torch.ones(2), *expected)):
            assert type(one) is type(other) and (one == other).all(), make.__name__
        for one, other in zip(found, expected):
            assert np.array_equal(one, other), make.__name__
    with pytest.raises(ValueError, match="read-only"):
        compiled(torch.ones(2), *read_only())


def test_array_and_a_tensor_of_its_memory():
    def fn(x, a):
        y = x * 2
        a += 1
        return y, x * 3

    compiled = dl.compile(fn, backend="eager")
    for shared in (False, True, False, True):
        given = []
        for each in (fn, compiled):
            a = counted(4)
            given.append((each(torch.from_numpy(a) if shared else torch.arange(4.0), a), a))
        (expected, one), (found, other) = given
        assert np.array_equal(one, other) and all(torch.equal(*pair) for pair in zip(expected, found)), shared


@checked(counted(4), others=[(counted(5),), (counted(7),), (counted(9),)], graphs=None, breaks=None)
@recompiling
def test_arrays_of_other_sizes(a):
    b = a[1:]
    b += a[0]
    a[:2] = 5
    return b, a * 2
