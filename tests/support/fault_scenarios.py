"""What is run while calls fail: each a program that the extension takes part in, and what it gives in CPython.

A scenario makes its objects and returns what is called, what that is to give, and the objects whose references are
counted."""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import dynamo_lite as dl
from dynamo_lite import _C
from frames import By, define, owned


class Scenario(NamedTuple):
    run: Callable[[], Any]
    gives: Any
    inputs: list[Any]


class Box:
    shared = (1, "shared")

    def __init__(self, **items: Any) -> None:
        self.__dict__.update(items)


def sum_of(x: Any, box: Any) -> Any:
    return x.shape[0] + box.number


def sum_of_as_well(x: Any, box: Any) -> Any:
    return box.number + x.shape[0]


def inputs() -> tuple[torch.Tensor, Box]:
    x = torch.ones(3, requires_grad=True)
    x.grad = torch.zeros(3)
    return x, Box(number=10**20, text="a text", items={"k": [1.5], 7: (1, 2)}, kinds={1, "a"}, queue=deque([10**19]))


def many_guards(code: Any, x: torch.Tensor, box: Box) -> _C.GuardTree:
    """Creates a tree with checks and accessors of most kinds, all of which hold."""
    made = _C.GuardTree(code)
    made.check(0, "global_state", _C.GlobalState(), "torch")
    tensor = made.child(0, "local", "x")
    made.check(tensor, "type", torch.Tensor, "x")
    made.check(tensor, "tensor", x, "x")
    made.check(made.child(tensor, "c_attr", "grad"), "tensor", x.grad, "x.grad")
    made.check(made.child(tensor, "c_attr", "is_leaf"), "id", True, "x.is_leaf")
    made.check(tensor, "symbolic", ((tensor,), [("size", 0, 0), ("const", 3), ("eq",)]), "x.shape[0] == 3")
    given = made.child(0, "local", "box")
    kind = made.child(given, "type")
    made.check(kind, "id", Box, "box")
    made.check(made.child(kind, "type_attr", "shared"), "equals", Box.shared, "Box.shared")
    made.check(kind, "type_lacks", "nothing", "Box")
    made.check(given, "lacks_instance_dict_item", "other", "box")
    own = made.child(given, "instance_dict")
    number = made.child(own, "dict_item", "number")
    made.check(number, "equals", box.number + 0, "box.number")
    made.check(made.child(own, "dict_item", "text"), "equals", "".join(["a ", "text"]), "box.text")
    items = made.child(own, "dict_item", "items")
    made.check(items, "dict_keys", ("k", 7), "box.items")
    made.check(items, "dict_lacks", (1, 2), "box.items")
    made.check(made.child(made.child(items, "dict_item", "k"), "list_item", 0), "equals", 1.5, "box.items['k'][0]")
    made.check(made.child(own, "dict_item", "kinds"), "set_items", frozenset(box.kinds), "box.kinds")
    queued = made.child(made.child(own, "dict_item", "queue"), "deque_item", 0)
    made.check(queued, "equals", 10**19, "box.queue[0]")
    made.check(0, "distinct", [tensor, given], "different")
    made.check(0, "storages_distinct", [tensor], "apart")
    made.capture(number)
    made.capture(made.child(0, "const", Box))
    return made


def of_hits(times: int) -> Scenario:
    x, box = inputs()
    owner, _ = owned(
        {sum_of: By(lambda view: (many_guards(view.code, x, box), sum_of_as_well.__code__))}, otherwise=_C.PASS
    )
    call = _C.Wrapped(sum_of, owner)
    for _ in range(times):
        call(x, box)
    return Scenario(lambda: call(x, box), 10**20 + 3, [x, box, box.number, Box])


def a_first_call() -> Scenario:
    """There is no entry yet, so the callback creates one."""
    return of_hits(0)


def a_second_call() -> Scenario:
    return of_hits(1)


def a_replayed_hit() -> Scenario:
    return of_hits(6)


def a_miss() -> Scenario:
    """The argument is another box, so the entry doesn't hold and a second one is added."""
    x, box = inputs()
    other = Box(**{**vars(box), "number": 5})
    owner, _ = owned(
        {sum_of: By(lambda view: (many_guards(view.code, x, view.locals["box"]), sum_of_as_well.__code__))}
    )
    call = _C.Wrapped(sum_of, owner)
    call(x, box)
    return Scenario(lambda: (call(x, other), call(x, box)), (8, 10**20 + 3), [x, box, other])


def an_explanation() -> Scenario:
    x, box = inputs()
    changes: list[Callable[[Box], Any]] = [
        lambda box: box.items.pop("k"),
        lambda box: box.kinds.add(2),
        lambda box: setattr(box, "number", "a number"),
        lambda box: setattr(box, "other", None),
        lambda box: box.queue.clear(),
        lambda box: setattr(box, "text", sum_of),
        lambda box: delattr(box, "text"),
    ]
    made = many_guards(sum_of.__code__, x, box)
    assert made.test((x, box)) is None
    others = [inputs()[1] for _ in changes]
    for change, other in zip(changes, others):
        change(other)
    tensors = [torch.ones(4), torch.ones(3, dtype=torch.int64), object(), torch.ones(3, requires_grad=True)]

    def run() -> Any:
        told = [made.test((x, other)) for other in others] + [made.test((tensor, box)) for tensor in tensors]
        return [failure.reason for failure in told] + [len(made.checks())]

    reasons = ["box.items", "box.kinds", "box.number", "box", "box.queue[0]", "box.text", "box.text"]
    return Scenario(run, [*reasons, "x", "x", "x", "x.grad", 19], [x, box, *others, *tensors])


def views_of_a_frame() -> Scenario:
    """What a callback asks: the misses of other entries, the locals, the count of entries."""
    x, box = inputs()
    seen: list[Any] = []

    p = define("def fn(x, box): return x.shape[0] + box.number")

    def look(view: _C.FrameView) -> Any:
        made = _C.GuardTree(view.code)
        made.check(made.child(0, "local", "x"), "id", view.locals["x"], "x")
        missed = len(view.misses()) == view.entries
        seen.append((missed, sorted(view.locals), view.closure, view.owner is owner))
        return made, sum_of_as_well.__code__

    owner, _ = owned({p.fn: By(look)})
    call = _C.Wrapped(p.fn, owner)
    call(x, box)
    others = [torch.ones(3), torch.ones(4)]

    def run() -> Any:
        seen.clear()
        owner.reset()
        result = [call(other, box) for other in others]
        return result, list(seen)

    views = [(True, ["box", "x"], (), True)] * 2
    return Scenario(run, ([10**20 + 3, 10**20 + 4], views), [x, box, *others])


def entries_that_go() -> Scenario:
    """Entries are dropped: by their owner, and since an object of their guards was deallocated."""
    owner, _ = owned({sum_of: By(lambda view: (of_id(view), sum_of_as_well.__code__))}, otherwise=_C.PASS)
    call = _C.Wrapped(sum_of, owner)

    def of_id(view: _C.FrameView) -> _C.GuardTree:
        made = _C.GuardTree(view.code)
        made.check(made.child(0, "local", "box"), "id", view.locals["box"], "box")
        return made

    x = torch.ones(3)

    def run() -> Any:
        found = []
        for _ in range(3):
            box = Box(number=1)
            gone = weakref.ref(box)
            found.append(call(x, box))
            del box
            found.append(gone())
        owner.reset()
        return found

    return Scenario(run, [4, None] * 3, [x])


def an_entry_of_the_family() -> Scenario:
    x, box = inputs()

    def answer(view: _C.FrameView) -> Any:
        return _C.RETRY if view.adopt() else (many_guards(view.code, x, box), sum_of_as_well.__code__)

    family = object()
    first, second = (_C.Owner(By(answer).answer, "one", family) for _ in range(2))
    one, two = (_C.Wrapped(sum_of, owner) for owner in (first, second))
    one(x, box)

    def run() -> Any:
        second.reset()
        return two(x, box)

    return Scenario(run, 10**20 + 3, [x, box, family])


def continuations() -> Scenario:
    p = define(
        """
def fn(x, n): return [x, n]
def new(x, n): return RESUME(None, x, n)
def rest(x, n): return [x, n]
"""
    )
    p.fn.__globals__["RESUME"] = _C.Resume(p.rest.__code__)
    call = _C.Wrapped(p.fn, owned({p.fn: p.new}, otherwise=_C.PASS)[0])
    token = object()
    call(token, 1)
    return Scenario(lambda: call(token, 1)[1:], [1], [token])


def a_larger_frame() -> Scenario:
    """The new code has no room in the frame: it runs beside it, wherever in the data stack that is."""
    locals_ = "\n".join(f"    v{i} = x" for i in range(300))
    p = define(f"def fn(x, *rest, k=1): return x, rest, k\ndef new(x, *rest, k=1):\n{locals_}\n    return x, rest, k")
    call = _C.Wrapped(p.fn, owned({p.fn: p.new}, otherwise=_C.PASS)[0])
    token = object()
    call(token)

    def descend(depth: int) -> Any:
        found = call(token, depth, k=2)[1:]
        return (found == ((depth,), 2)) and (depth == 0 or descend(depth - 1))

    return Scenario(lambda: descend(200), True, [token])


def an_error_inside() -> Scenario:
    p = define("def fn(x): return x\ndef raises(x, error): raise error")
    error = KeyError("raised")
    call = _C.Wrapped(p.fn, owned({p.fn: By(lambda view: (p.raises.__code__, error))})[0])

    def run() -> Any:
        try:
            call(1)
        except KeyError as found:
            return found.args
        finally:
            error.__traceback__ = error.__context__ = None

    return Scenario(run, ("raised",), [error])


def graphs() -> Scenario:
    class Graph:
        def forward(self, *values: Any) -> Any:
            return values

    def wrong(result: Any) -> Any:
        return result

    token = object()
    graph = Graph()
    calls = [
        _C.GraphCall(graph.forward),
        _C.GraphCall(graph.forward, captured=2),
        _C.GraphCall(graph.forward, captured=1, keeps_state=True, outputs=7, wrong=wrong),
        _C.Launch(lambda *values: values, lambda: lambda values: tuple(values), (0,)),
    ]
    x = torch.ones(2)

    def run() -> Any:
        found = [
            len(calls[0](token, x)),
            len(calls[1]((token, x), *range(70))),
            len(calls[2]((token,), x)),
            len(calls[3](x, token)),
            len(calls[3](x, token)),
        ]
        return found

    return Scenario(run, [2, 72, 2, 2, 2], [token, x, graph])


def attributes_of_callables() -> Scenario:
    def fn(x: Any = 1) -> Any:
        """A text."""
        return x

    class Holder:
        pass

    owner, _ = owned(otherwise=_C.PASS)
    call = _C.Wrapped(fn, owner)
    Holder.method = call
    holder = Holder()

    def run() -> Any:
        call.own = 3
        found = [call.__name__, call.__defaults__, call.own, call.__module__, repr(call)[:9]]
        call.__doc__ = None
        del call.__doc__
        return found + [call.__doc__, holder.method() is holder, call.__wrapped__ is fn, isinstance(call, type(fn))]

    gives = ["fn", (1,), 3, __name__, "<compiled", "A text.", True, True, True]
    return Scenario(run, gives, [fn, holder, owner])


def ordered_and_lacking() -> Scenario:
    ordered = OrderedDict([("one", 1), (2, "two"), (("a", 1), None)])
    ordered.move_to_end("one")
    iterator = iter(range(10**6, 10**6 + 9))

    def run() -> Any:
        made = _C.GuardTree(sum_of.__code__)
        given = made.child(0, "local", "x")
        made.check(given, "dict_keys", (2, ("a", 1), "one"), "keys")
        made.check(made.child(given, "dict_value", 1), "id", None, "second")
        made.check(given, "dict_has", ("a", 1), "has")
        number = made.child(made.child(0, "local", "box"), "next_item", 1)
        made.check(number, "equals", 10**6 + 1, "next")
        captured = made.lookup((ordered, iterator))
        failure = made.test((ordered, iterator))
        holds = failure is None or (failure.reason, failure.words) == ("next", "a value that cannot be read that way")
        return [captured in (None, ()), holds or captured is None, made.test((ordered, 1)) is not None]

    return Scenario(run, [True] * 3, [ordered, iterator])


def a_program_that_is_compiled() -> Scenario:
    p = define("def fn(x, n): return ((x + n) * CONSTANT).sum()", CONSTANT=torch.ones(3) * 2)
    call = dl.compile(p.fn, backend="eager")
    x = torch.ones(3)

    def run() -> Any:
        return [call(x, n).item() for n in (1, 1, 2.5)]

    return Scenario(run, [12.0, 12.0, 21.0], [x])


SCENARIOS = [
    a_first_call,
    a_second_call,
    a_replayed_hit,
    a_miss,
    an_explanation,
    views_of_a_frame,
    entries_that_go,
    an_entry_of_the_family,
    continuations,
    a_larger_frame,
    an_error_inside,
    graphs,
    attributes_of_callables,
    ordered_and_lacking,
    a_program_that_is_compiled,
]
