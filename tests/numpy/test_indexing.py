"""numpy: writes into the items that arrays of integers, lists and masks select: one number is written in the graph. Of
several that go to one place numpy keeps the last and torch any: the graph breaks where there are several."""

from __future__ import annotations

import pytest

from arrays import counted
from collector import Programs
from programs import check, checked, compiled_by, recompiling

np = pytest.importorskip("numpy")
programs = Programs()


ALL = [np.array(each) for each in ([0, 2, 1], [-1, 0, 1], [1, 1, 1], [0, 2, 0], [2, 0, -3], [0, 3, 1], [-4, 0, 1])]


def indices(*arrays):
    """Returns the arrays with indices that differ, that repeat, and that are out of range."""
    return [(*arrays, at) for at in ALL]


@programs(counted(3), ALL[0], graphs=None, others=indices(counted(3)))
def numbers_at_indices(a, at):
    a[at] = 7
    return a, a * 2


@programs(counted(3), ALL[0], graphs=None, others=indices(counted(3)))
@recompiling
def values_at_indices(a, at):
    b = a * 2
    b[at] = a
    a[at] += b
    return b


@programs(counted(3, 4), ALL[0], graphs=None, others=indices(counted(3, 4)))
@recompiling
def rows_and_columns(a, at):
    b = np.zeros((3, 4))
    b[at] = a[0]
    b[:, at] = at
    b[1:, at] -= 1
    b[0, at] = a[0, :3]
    b[at, at] = at * 2
    b[at, 1] = -1
    b[..., at[:2]] = 5
    b[at[0], 1] = 30
    b[at[1]] = a[at[2], 0]
    return b


@programs(counted(5, dtype="int64"), counted(5, dtype="complex128"), graphs=None)
@recompiling
def lists(a, z):
    a[[0, -2]] = 9
    a[[1, 2]] = [5, 6]
    a[[0, 0, 1]] = a[:3]
    a[1:3] = [7, 8]
    z[[3, 1]] = a[:2]
    z[[0, 1, 0]] += 1j
    return a, z


@programs(counted(5), ALL[0], graphs=None, others=indices(counted(5)))
@recompiling
def put(a, at):
    np.put(a, at, a[:3] * 3)
    np.put(a, [0, 1], 4)
    a.put(at, 2)
    return a


MASKED = [np.array(each) for each in ([4.0, 0, 5, 0], [0, 0, 0, 0.5], [0.0] * 4, [9.0, 8, 7, 0], [1.0, 0, 0, 6])]


@programs(MASKED[0], graphs=None, others=[(each,) for each in MASKED])
@recompiling
def masks(a):
    b = a * 2
    b[a > 0] = np.arange(2.0) + 50
    b[a > 4] = [1.5]
    return b


@programs(counted(3), ALL[0], graphs=None, others=indices(counted(3)))
@recompiling
def a_handler(a, at):
    seen = []
    try:
        a[at] = 7
    except IndexError as error:
        seen.append(str(error))
    a += 1
    return seen


@pytest.mark.parametrize("case", programs.parameters())
def test_numpy_indices(case):
    with np.errstate(all="ignore"):
        case.run()


@checked(counted(3, 3), ALL[0], others=indices(counted(3, 3)), graphs=None)
@recompiling
@compiled_by("aot_eager")
def test_indices_in_a_compiler(a, at):
    b = a + 1
    b[at] = a * 2
    a[::-1, at] += 1
    b[b > 4] = a[0, 0]
    return b


def test_indices_of_arrays_of_other_sizes():
    def fn(a, at):
        a[at] = at
        a[[0, 3]] = [5, 6]
        return a * 2

    sizes = [(5, [0, 4, 1]), (6, [5, 1]), (9, [8, 8, 8, 8]), (4, [3, 0]), (3, [1, 2]), (7, [7, 1])]
    others = [(counted(size), np.array(at)) for size, at in sizes]
    check(recompiling(fn), counted(4), np.array([1, 2, 0]), others=others, graphs=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_reads_out_of_range_raise(backend):
    def fn(a, at):
        a += 1
        return a[at], a[:1, at], a * 2

    check(recompiling(compiled_by(backend)(fn)), counted(3, 3), ALL[0], others=indices(counted(3, 3)), graphs=None)


def test_an_array_that_is_its_own_index():
    def fn(a, b):
        a[a] = a * 2
        b[b[::-1]] = b
        return a, b

    others = [(np.array(one), np.array(other)) for one, other in (([0, 0, 1], [2, 1, 0]), ([2, 2, 2], [1, 1, 1]))]
    check(recompiling(fn), np.array([1, 2, 0]), np.array([0, 2, 1]), others=others, graphs=None)
