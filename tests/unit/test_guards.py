"""Guards, kind by kind: a change of a guarded fact recompiles, another change doesn't, and results stay right."""

from __future__ import annotations

import contextlib
import functools
import types
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import dynamo_lite as dl
from equality import Pairing
from programs import Recorder, decorator_for, ints, tensor


class Compiled:
    """A compiled function without symbolic numbers. It reports for each call whether it was compiled again."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.recorder = Recorder()
        self.compiled = dl.compile(fn, backend=self.recorder, dynamic=False)

    def __call__(self, *args: Any, **kwargs: Any) -> int:
        """Calls both functions, compares, and returns how many graphs are new."""
        before = len(self.recorder.graphs)
        Pairing().compare(self.fn(*args, **kwargs), self.compiled(*args, **kwargs), "result")
        return len(self.recorder.graphs) - before


def anew(
    fn: Callable[..., Any], first: tuple[Any, ...], *changed: tuple[Any, ...], same: list[tuple[Any, ...]]
) -> None:
    """``fn`` compiles once for ``first`` and each of ``same``, again for each of ``changed``, then never again."""
    call = Compiled(fn)
    assert call(*first) == 1
    assert call(*first) == 0, "the same arguments again"
    for args in same:
        assert call(*args) == 0, f"{args} is no change"
    for args in changed:
        assert call(*args) == 1, f"{args} is a change"
    for args in (first, *same, *changed):
        assert call(*args) == 0, f"{args} was seen before"


def anew_beside_a_tensor(fn: Callable[..., Any], first: Any, *changed: Any, same: Sequence[Any]) -> None:
    """Does the same as ``anew`` for a program with a constant tensor and these arguments."""
    anew(fn, *((tensor(2), each) for each in (first, *changed)), same=[(tensor(2), each) for each in same])


guarded = decorator_for(anew_beside_a_tensor)


class Thing:
    limit = 3

    def __init__(self, **values):
        self.__dict__.update(values)


class Other(Thing):
    limit = 9


class Slots:
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n


class Items(list):
    pass


COMPLEX = torch.ones(2, dtype=torch.complex64)


def add_one(x):
    return x + 1


@pytest.mark.parametrize(
    ("first", "changed", "same"),
    [
        pytest.param(tensor(3), [tensor(4), tensor(3, 1)], [tensor(3, seed=1)], id="shape"),
        pytest.param(tensor(3), [tensor(3).double(), ints(3)], [tensor(3) * 2], id="dtype"),
        pytest.param(tensor(3, 4), [tensor(4, 3).t()], [tensor(4, 4)[1:]], id="strides"),
        pytest.param(tensor(3), [tensor(3, grad=True)], [tensor(3, grad=True).detach()], id="requires_grad"),
        pytest.param(tensor(3, grad=True), [], [tensor(3, grad=True) * 2], id="leaf or not is no matter"),
        pytest.param(tensor(3, grad=True), [torch.nn.Parameter(tensor(3))], [], id="class"),
        pytest.param(COMPLEX, [COMPLEX.conj()], [COMPLEX * 2], id="conjugate bit"),
    ],
)
def test_facts_of_a_tensor(first, changed, same):
    anew(add_one, (first,), *((each,) for each in changed), same=[(each,) for each in same])


def test_none_for_a_tensor():
    def fn(x, y):
        return x + 1 if y is None else x + y

    anew(fn, (tensor(3), None), (tensor(3), tensor(3)), (tensor(3), 2), same=[(tensor(3, seed=1), None)])


def test_aliasing_of_arguments():
    def fn(x, y):
        return x * 2 + y

    x = tensor(3)
    anew(fn, (x, tensor(3)), (x, x), same=[(tensor(3), tensor(3))])


@pytest.mark.parametrize(
    "values",
    [
        (1, 2, 1.0, True, "1", None, (1,)),
        (0, 0.0, -0.0, False, None, ""),
        (0.0, -0.0, 0, float("nan")),
        (float("nan"), 1.0, float("inf")),
        ("a", "b", b"a", "A"),
        ((1, 2), (1, 2.0), (1, 2, 3), (1, (2,))),
        (torch.float32, torch.float64),
        (torch.device("cpu"), torch.device("meta")),
        (slice(0, 1), slice(0, 2)),
        (1j, 1.0 + 1j, complex(-0.0, 1)),
        (10**30, 10**30 + 1),
        (frozenset({1}), frozenset({2})),
    ],
    ids=lambda values: repr(values[0]),
)
def test_constants_are_told_apart(values):
    def fn(x, n):
        return x + 1, repr(n)

    first, *others = values
    anew(fn, (tensor(2), first), *[(tensor(2), other) for other in others], same=[(tensor(3)[:2], first)])


def test_equal_constants_that_are_different_objects():
    def fn(x, s, n):
        return x + n, s

    anew(fn, (tensor(2), "ab", 10**20 % 10**9), same=[(tensor(2), "".join(["a", "b"]), int("0"))])


def test_arguments_that_nobody_reads_are_not_guarded():
    def fn(x, unused, passed):
        return x + 1, passed, [passed]

    others = [(tensor(2), "two", object()), (tensor(2), tensor(5), None), (tensor(2), [1], {})]
    anew(fn, (tensor(2), 1, 1), same=others)


@guarded([3], (3,), Items([3]), {0: 3}, same=[])
def test_type_of_a_container(x, items):
    return x * items[0], type(items).__name__


@guarded({"a": 1}, {"b": 1}, {"a": 1, "b": 2}, {"a": 2}, {True: 1}, same=[{"a": 1}])
def test_keys_of_a_dictionary(x, table):
    return [x + v for v in table.values()], list(table)


@guarded({}, {"flag": 1}, same=[{}])
def test_presence_of_a_key(x, table):
    return x + 1 if "flag" in table else x - 1


@guarded({1, 2}, {1, 3}, same=[{2, 1}])
def test_items_of_a_set(x, items):
    return x + (3 in items)


@guarded(Thing(n=1), Thing(n=2), same=[Thing(n=1, other=5)])
def test_attributes_of_objects(x, thing):
    return x * thing.n


@guarded(Thing(), Thing(n=1), Thing(limit=8), same=[Thing(other=1)])
def test_presence_of_an_attribute(x, thing):
    return x * thing.n if hasattr(thing, "n") else x + thing.limit


@guarded(Thing(), Other(), same=[Thing()])
def test_class_of_an_object(x, thing):
    return x + thing.limit


@guarded(Slots(1), Slots(2), same=[Slots(1)])
def test_slots(x, thing):
    return x + thing.n


def test_code_and_defaults_and_closure_of_a_function_argument():
    def make(n, default):
        def times(v, by=default):
            return v * n * by

        return times

    def fn(x, f):
        return f(x)

    first = (tensor(2), make(2, 3))
    same = [(tensor(2), make(2, 3))]
    anew(fn, first, (tensor(2), make(4, 3)), (tensor(2), make(2, 5)), (tensor(2), lambda v: v - 1), same=same)


def test_partials():
    def times(v, n, k=0):
        return v * n + k

    def fn(x, f):
        return f(x)

    first = functools.partial(times, n=2)
    changes = [functools.partial(times, n=3), functools.partial(times, n=2, k=1)]
    anew(fn, (tensor(2), first), *[(tensor(2), c) for c in changes], same=[(tensor(2), functools.partial(times, n=2))])


def test_cells_of_the_program():
    n = 2

    def fn(x):
        return x * n

    call = Compiled(fn)
    assert [call(tensor(2)), call(tensor(2))] == [1, 0]
    n = 3
    assert [call(tensor(2)), call(tensor(2))] == [1, 0]
    n = 2
    assert call(tensor(2)) == 0


def test_module_globals():
    scope = {"N": 2, "M": 5}
    exec("def fn(x):\n    return x * N", scope)
    call = Compiled(scope["fn"])
    assert [call(tensor(2)), call(tensor(2))] == [1, 0]
    scope["M"] = 6
    assert call(tensor(2)) == 0, "another global changed"
    scope["N"] = 3
    assert [call(tensor(2)), call(tensor(2))] == [1, 0]
    scope["len"] = lambda v: 3
    assert call(tensor(2)) == 0, "a global that the program does not read"


def test_builtin_hidden_later_by_a_global():
    scope = {}
    exec("def fn(x):\n    return x * len([1, 2])", scope)
    call = Compiled(scope["fn"])
    assert call(tensor(2)) == 1
    scope["len"] = lambda v: 7
    assert [call(tensor(2)), call(tensor(2))] == [1, 0]


def test_attribute_of_an_imported_module():
    space = types.ModuleType("space")
    space.n = 2

    def fn(x):
        return x * space.n

    call = Compiled(fn)
    assert call(tensor(2)) == 1
    space.n = 3
    assert [call(tensor(2)), call(tensor(2))] == [1, 0]
    space.other = 1
    assert call(tensor(2)) == 0


def test_inference_mode():
    call = Compiled(add_one)
    assert call(tensor(2)) == 1
    with torch.inference_mode():
        call(tensor(2))
    assert call(tensor(2)) == 0


def test_dtype_of_autocast():
    call = Compiled(lambda x: x @ x)
    x = tensor(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert call(x) == 1
        with torch.autocast("cpu", dtype=torch.float16):
            assert [call(x), call(x)] == [1, 0]
        assert call(x) == 0


def test_default_device():
    call = Compiled(lambda x: (x + 1, torch.ones(2).device.type))
    x = tensor(2)
    assert call(x) == 1
    with torch.device("meta"):
        assert call.compiled(x)[1] == "meta"
    assert call(x) == 0


@contextlib.contextmanager
def setting(write, value, before):
    write(value)
    try:
        yield
    finally:
        write(before)


@pytest.mark.parametrize(
    "enter",
    [
        torch.no_grad,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
        lambda: setting(torch.use_deterministic_algorithms, True, False),
        lambda: setting(torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
    ],
    ids=["no_grad", "autocast", "default dtype", "deterministic algorithms", "threads"],
)
def test_state_of_torch(enter):
    call = Compiled(lambda x: x @ x + torch.ones(2))
    x = tensor(2, 2, grad=True)
    assert call(x) == 1
    with enter():
        assert [call(x), call(x)] == [1, 0]
    assert call(x) == 0


def test_torch_function_mode():
    class Plain(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func in (torch.Tensor.add, torch.Tensor.__add__):
                return "intercepted"
            return func(*args, **(kwargs or {}))

    compiled = dl.compile(add_one, backend=Recorder())
    compiled(tensor(2))
    with Plain():
        assert compiled(tensor(2)) == "intercepted"
    assert torch.equal(compiled(tensor(2)), tensor(2) + 1)


def test_parameter_replaced_in_a_module():
    m = torch.nn.Linear(2, 2)
    call = Compiled(m)
    assert call(tensor(2)) == 1
    with torch.no_grad():
        m.weight.add_(1)
    assert call(tensor(2)) == 0, "a new value in the same parameter"
    m.weight.requires_grad_(False)
    assert call(tensor(2)) == 1
    m.weight = torch.nn.Parameter(torch.ones(3, 2))
    m.bias = None
    assert [call(tensor(2)), call(tensor(2))] == [1, 0]


def test_hook_added_to_a_module():
    m = torch.nn.Linear(2, 2)

    def fn(x):
        return m(x)

    call = Compiled(fn)
    assert call(tensor(2)) == 1
    handle = m.register_forward_hook(lambda module, args, out: out * 2)
    assert call(tensor(2)) == 1
    handle.remove()
    assert call(tensor(2)) == 0
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 3)
    try:
        assert call(tensor(2)) >= 0
    finally:
        handle.remove()


def test_identity_of_two_objects():
    def fn(x, a, b):
        return x + 1 if a is b else x - 1

    one, other = Thing(), Thing()
    anew(fn, (tensor(2), one, one), (tensor(2), one, other), same=[(tensor(2), other, other)])


def test_entries_that_fail_in_another_place_each_time():
    def fn(x, thing, table):
        return x * thing.n + table["n"] + (thing.extra if hasattr(thing, "extra") else 0)

    call = Compiled(fn)
    things = [Thing(n=1), Thing(n=2), Thing(n=1, extra=5)]
    tables = [{"n": 1}, {"n": 2}]
    order = [(thing, table) for thing in things for table in tables]
    assert sum(call(tensor(2), thing, table) for thing, table in order) == 6
    for at in range(60):
        thing, table = order[(at * at + at // 7) % 6]
        assert call(tensor(2), thing, table) == 0
    things[0].n = 2  # what failed there before holds now
    tables[1]["n"] = 1
    assert [call(tensor(2), thing, table) for thing, table in order] == [0] * 6


def test_recompile_limit_warns_once_and_names_the_guards():
    def fn(x, number):
        return x + number

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, dynamic=False)
    with dl.config.patch(recompile_limit=3), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(8):
            assert torch.equal(compiled(tensor(2), n), tensor(2) + n)
    assert len(recorder.graphs) == 3
    ours = [str(w.message) for w in caught if "recompile_limit" in str(w.message)]
    assert len(ours) == 1, ours
    assert "number" in ours[0] and "fn" in ours[0] and "== 0" in ours[0], ours[0]
    runs = recorder.runs
    compiled(tensor(2), 1)
    assert recorder.runs == runs + 1, "the entries there are still serve"
    assert len(recorder.graphs) == 3


def test_limit_of_nothing_runs_everything_eager():
    recorder = Recorder()
    compiled = dl.compile(lambda x: x + 1, backend=recorder)
    with dl.config.patch(recompile_limit=0), pytest.warns(RuntimeWarning, match="has 0 compiled versions"):
        assert torch.equal(compiled(tensor(2)), tensor(2) + 1)
    assert not recorder.graphs


def test_limit_does_not_set_the_callees_compiling():
    def inner(x):
        return x * 2

    def fn(x, n):
        return inner(x) + n

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    with dl.config.patch(recompile_limit=2), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(6):
            compiled(tensor(2), n)
    assert len(recorder.graphs) == 2


def test_two_compiles_of_one_function_have_limits_of_their_own():
    def fn(x, n):
        return x + n

    one, other = Compiled(fn), Compiled(fn)
    for n in range(8):
        assert one(tensor(2), n) == 1
        assert other(tensor(2), n) == 1
    assert one(tensor(2), 3) == other(tensor(2), 3) == 0


def test_many_layers_of_one_class_do_not_use_up_the_limit():
    m = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(30)])

    def fn(x):
        for layer in m:
            x = layer(x)
            dl.graph_break()
        return x

    compiled = dl.compile(fn, backend=Recorder())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert torch.equal(compiled(tensor(2)), m(tensor(2)))


def test_counters_count_recompiles():
    call = Compiled(lambda x, n: x + n)
    for n in range(3):
        call(tensor(2), n)
    call(tensor(2), 1)
    assert dl.counters.recompiles == 2
    assert dl.counters.graphs == 3
    assert dl.counters.operators == 3


def test_guards_keep_nothing_alive():
    m = torch.nn.Linear(2, 2)
    thing = Thing(n=2)

    def fn(x, module, thing):
        return module(x) * thing.n

    compiled = dl.compile(fn, backend=Recorder())
    compiled(tensor(2), m, thing)
    refs = [weakref.ref(m), weakref.ref(m.weight), weakref.ref(thing)]
    del m, thing
    import gc

    gc.collect()
    assert [ref() for ref in refs] == [None] * 3
    other = torch.nn.Linear(2, 2)
    assert torch.equal(compiled(tensor(2), other, Thing(n=5)), other(tensor(2)) * 5)
