"""C++ callables that replace a function, a graph or an instance."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import weakref

import pytest

from dynamo_lite import _C
from frames import on_thread, owned


def plain(x=1):
    """Adds one."""
    return x + 1


# -- GraphCall -----------------------------------------------------------------------------------------------------


def test_graph_call_disables_compilation_and_restores_the_owner():
    owner, asked = owned()

    def graph(*args):
        return plain(args[0]), _C.current_owner()

    call = _C.GraphCall(graph)
    assert _C.Wrapped(lambda: (call(1), _C.current_owner()), owner)() == ((2, _C.OFF), owner)
    assert asked.seen == ["<lambda>"]

    def fails():
        raise KeyError(1)

    with on_thread(owner):
        with pytest.raises(KeyError):
            _C.GraphCall(fails)()
        assert _C.current_owner() is owner


@pytest.mark.parametrize("count", [0, 1, 3, 63, 64, 65, 200])
def test_captured_inputs_are_passed_before_the_rest(count):
    class Graph:
        def forward(self, *args):
            return args

    captured, rest = tuple(object() for _ in range(count)), (object(), object())
    for fn in (lambda *args: args, Graph().forward):
        call = _C.GraphCall(fn, captured=count)
        assert call.fn is fn and call.captured == count
        assert call(*([captured] if count else []), *rest) == captured + rest
    if count:
        for wrong in ((), ([*captured],), (captured[1:],)):
            with pytest.raises(TypeError, match="takes their tuple as its first argument"):
                call(*wrong)


def test_invalid_arguments_of_graph_calls_are_refused():
    for wrong in ((3,), (plain, -1)):
        with pytest.raises((TypeError, ValueError)):
            _C.GraphCall(*wrong)


# -- Wrapped and InstanceCall --------------------------------------------------------------------------------------


WRAPPED = _C.Wrapped(plain, _C.OFF)


def test_wrapped_looks_like_the_function():
    assert WRAPPED.__wrapped__ is plain and WRAPPED.owner is _C.OFF
    assert (WRAPPED.__name__, WRAPPED.__qualname__) == ("plain", "plain")
    assert (WRAPPED.__doc__, WRAPPED.__module__) == ("Adds one.", __name__)
    assert WRAPPED.__defaults__ == (1,) and WRAPPED.__code__ is plain.__code__
    assert inspect.signature(WRAPPED) == inspect.signature(plain)
    assert inspect.unwrap(WRAPPED) is plain and callable(WRAPPED)
    assert "plain" in repr(WRAPPED)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = WRAPPED.nothing_like_it


def test_wrapped_has_its_own_attributes_and_those_of_the_function():
    call = _C.Wrapped(plain, _C.OFF)
    call.note = 1
    call.__name__, call.__doc__ = "renamed", "Explained."
    assert (call.note, call.__name__, call.__doc__, plain.__name__) == (1, "renamed", "Explained.", "plain")
    del call.__name__
    assert call.__name__ == "plain" and functools.wraps(call)(lambda x: x).__doc__ == "Explained."
    assert weakref.ref(call)() is call and hash(call) == hash(call)
    assert copy.copy(call) is call and copy.deepcopy([call])[0] is call


def test_wrapped_is_pickled_by_name():
    found = pickle.loads(pickle.dumps(_C.Wrapped(plain, _C.OFF)))
    assert found.__wrapped__ is plain and found.owner is _C.OFF
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(_C.Wrapped(lambda x: x, _C.OFF))
    assert pickle.loads(pickle.dumps(WRAPPED_BY_NAME)) is WRAPPED_BY_NAME


WRAPPED_BY_NAME = _C.Wrapped(plain, _C.OFF)
WRAPPED_BY_NAME.__qualname__ = "WRAPPED_BY_NAME"


def test_wrapped_binds_like_the_callable_that_it_wraps():
    def wrap(fn):
        return _C.Wrapped(fn, _C.OFF)

    class Thing:
        method = wrap(lambda self, x: (self, x))
        static = wrap(staticmethod(lambda x: x))
        builtin = wrap(len)
        twice = wrap(wrap(lambda self: self))
        bound = wrap([1].count)

    thing = Thing()
    assert thing.method(1) == (thing, 1) and Thing.method(thing, 2) == (thing, 2)
    assert thing.static(1) == Thing.static(1) == 1
    assert thing.builtin([1, 2]) == 2 and thing.twice() is thing and thing.bound(1) == 1
    assert isinstance(thing.static, _C.Wrapped)


def test_wrapped_in_a_cycle_is_collected():
    def make():
        def fn():
            return call

        call = _C.Wrapped(fn, owned()[0])
        call.me = call
        return weakref.ref(call), weakref.ref(fn), weakref.ref(call.owner)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_instance_call_calls_the_slot_of_the_instance():
    class Slotted:
        __slots__ = ("held",)

    Slotted.__call__ = _C.InstanceCall(
        Slotted.__dict__["held"], lambda self, *args, **kwargs: self.held(*args, **kwargs)
    )
    thing = Slotted()
    thing.held = lambda *args, **kwargs: (args, kwargs)
    assert thing(1, 2, k=3) == ((1, 2), {"k": 3}) and thing() == ((), {})
    assert thing.__call__(5) == Slotted.__call__(thing, 5) == ((5,), {})
    del thing.held
    with pytest.raises(AttributeError):
        thing()
    with pytest.raises(TypeError, match="needs an instance"):
        Slotted.__dict__["__call__"]()
    with pytest.raises(TypeError, match="is not a descriptor with __get__"):
        _C.InstanceCall(3, plain)


# -- Sequence ------------------------------------------------------------------------------------------------------


def test_sequence_passes_values_between_steps():
    steps = [(lambda a, b: (a + b, a * b), [0, 1], 2), (lambda: [7], [], 1), (lambda *each: (each,), [3, 2, 0], 1)]
    assert _C.Sequence(2, steps, [5, 0, 4])(2, 5) == ((10, 7, 2), 2, 7)
    assert _C.Sequence(1, [], [0, 0])(3) == (3, 3)


def test_a_sequence_drops_values_after_their_last_use():
    class Value:
        pass

    alive = weakref.WeakSet()

    def make(*given):
        gc.collect()
        counts.append(len(alive))
        made = Value(), Value()
        alive.update(made)
        return made

    counts = []
    sequence = _C.Sequence(0, [(make, [], 2), (make, [0, 0], 2), (make, [3, 0], 2)], [4])
    (result,) = sequence()
    assert counts == [0, 1, 2] and list(alive) == [result]


def test_exception_of_a_step_ends_its_sequence():
    log = []
    steps = [(log.append, [0], 1), (lambda *_: log.append("never") or (), [1], 0)]
    with pytest.raises(TypeError, match="^a step returned None instead of 1 values$"):
        _C.Sequence(1, steps, [])(3)
    with pytest.raises(ZeroDivisionError):
        _C.Sequence(1, [(lambda x: (1 / x,), [0], 1), *steps], [])(0)
    assert log == [3]


def test_invalid_arguments_of_sequences_are_refused():
    with pytest.raises(ValueError, match="value 1 is used before it is produced"):
        _C.Sequence(1, [(print, [1], 1)], [])
    with pytest.raises(ValueError, match="value 2 is used before it is produced"):
        _C.Sequence(1, [(print, [0], 1)], [2])
    with pytest.raises(TypeError, match="int can't be called"):
        _C.Sequence(1, [(3, [0], 1)], [])
    with pytest.raises(TypeError, match="expected 1 inputs, got 2"):
        _C.Sequence(1, [], [])(1, 2)
    with pytest.raises(TypeError, match="takes no keyword arguments"):
        _C.Sequence(0, [], [])(x=2)


def test_a_sequence_in_a_cycle_is_freed():
    class Step:
        def __call__(self):
            return ()

    step = Step()
    step.of = _C.Sequence(0, [(step, [], 0)], [])
    found = weakref.ref(step)
    del step
    gc.collect()
    assert found() is None
