"""Texts of sizes that differ from call to call: they are made after the graph, and specialize nothing until they are
read."""

from __future__ import annotations

import types

import pytest
import torch

import dynamo_lite as dl
from equality import Pairing
from programs import Recorder, tensor
from sweeps import sweep, swept

SIZES = (3, 4, 5, 6)


def check(is_met, text):
    if not is_met:
        raise ValueError(text)


class Box:
    def __init__(self, size):
        self.size = size
        self.label = None

    def __repr__(self):
        return f"Box({self.size})"


def asserted(x):
    assert x.dim() == 2, f"got {x.shape}"
    return x * 2


def raised_by_others(x):
    if x.shape[1] > 100:
        raise ValueError(f"got {x.shape}, {tuple(x.shape)}")
    return x * 2


def caught(x):
    try:
        raise ValueError(f"got {x.shape}", x.shape[0])
    except ValueError as error:
        return x * 2, str(error), repr(error), error.args


UNREAD = {
    "an argument": lambda x: (check(x.dim() >= 1, f"got {x.shape}"), x * 2)[1],
    "of a check": lambda x: (torch._check(x.shape[0] > 0, lambda: f"got {x.shape}"), x * 2)[1],
    "of an assertion": asserted,
    "of an error": raised_by_others,
    "percent": lambda x: (x * 2, "%s" % (x.shape,))[0],
    "str": lambda x: (x * 2, str(x.shape))[0],
    "repr": lambda x: (x * 2, repr(x.shape))[0],
    "format": lambda x: (x * 2, "{}".format(x.shape))[0],
    "f-string of repr": lambda x: (x * 2, f"{x.shape!r}")[0],
    "f-string of a tuple": lambda x: (x * 2, f"{tuple(x.shape)}")[0],
    "f-string of sizes": lambda x: (x * 2, f"{x.shape[0]}x{x.shape[1]}")[0],
}

RETURNED = {
    "sizes": lambda x: (
        x * 2,
        str(x.shape),
        repr(x.size()),
        f"{x.shape}",
        f"{x.shape!r:>40}",
        f"{tuple(x.shape)!s:^9}",
    ),
    "percent": lambda x: (x * 2, "%s of %5d%%, %-4r|%x|%05.1f" % (x.shape, *x.shape, x.shape[0], x.shape[0])),
    "format": lambda x: (x * 2, "{} {:>3}".format(*x.shape), "{0} {a!r:>30}{0:02}".format(x.shape[0], a=x.shape)),
    "of a float": lambda x: (x * 2, "%.2f|%8.1e" % (x.shape[0] / 3, x.shape[0] / 7), f"{x.shape[0] / 3:.1f}"),
    "containers": lambda x: (x * 2, str([x.shape[0], (x.shape[0],), {"a": x.shape, 2: f"{x.shape[0]}"}])),
    "joined": lambda x: (
        x * 2,
        "x".join(str(n) for n in x.shape),
        ",".join(map(str, x.shape)),
        "-".join(["a", str(x.shape)]),
    ),
    "objects": lambda x: (x * 2, f"{Box(x.shape[0])} {[Box(x.shape)]}", repr(types.SimpleNamespace(a=x.shape))),
    "errors": lambda x: (x * 2, str(ValueError(f"got {x.shape}")), repr(KeyError(str(x.shape), x.shape[0]))),
    "sums": lambda x: (x * 2, "got " + str(x.shape) + "!", str(str(x.shape)), f"{f'{x.shape[0]}':>5}"),
    "tensors": lambda x: (x * 2, str([x[0, 0] * 0, x.shape[0]])),
    "caught": caught,
}

READ = {
    "compared": lambda x: x * (2 if f"{x.shape[0]}" == "4" else 3),
    "compared with": lambda x: (
        x * (2 if "4" == f"{x.shape[0]}" else 3),
        str(x.shape[0]) in ("5", "6"),
        "4" < "%d" % len(x),
    ),
    "a key": lambda x: x * len({str(x.shape): 1, "torch.Size([4, 2])": 2}),
    "its length": lambda x: x * len("%s" % (x.shape,)),
    "items": lambda x: (x * 2, str(x.shape)[12], [*f"{x.shape[0]}"], "4" in str(x.shape), str(x.shape).upper()),
    "cut off": lambda x: (x * 2, f"{str(x.shape):.13}", "%.13s" % (x.shape,), "%.0s" % (x.shape,) or "none"),
    "a number of it": lambda x: x * int(str(x.shape[0])),
    "as a character": lambda x: (x * 2, "%c" % x.shape[0], f"{x.shape[0] + 60:c}"),
    "hashed": lambda x: x * (hash(str(x.shape)) % 7),
    "sorted": lambda x: (x * 2, sorted([str(x.shape[0]), "4", "45"])),
}


def calls():
    return [(tensor(n, 2),) for n in SIZES]


@pytest.mark.parametrize("name", UNREAD)
def test_no_more_graphs_than_torch_compile(name):
    torch._dynamo.reset()
    theirs = Recorder()
    reference = torch.compile(UNREAD[name], backend=theirs)
    for args in calls():
        reference(*args)
    assert len(theirs.graphs) >= 2 or theirs.runs < len(SIZES)  # it gives frames up that break
    sweep(UNREAD[name], calls(), graphs=2)


@pytest.mark.parametrize("name", RETURNED)
def test_texts_that_are_returned(name):
    sweep(RETURNED[name], calls(), graphs=2)
    sweep(RETURNED[name], calls(), graphs=1, dynamic=True)


@pytest.mark.parametrize("name", READ)
def test_sizes_read_from_a_text_are_specialized(name):
    """Each call has the right result. There are as many graphs as without symbolic sizes."""
    sweep(READ[name], calls(), graphs=len(SIZES))


def test_texts_of_sizes_leave_the_frame_in_many_ways():
    box, seen = Box(0), []

    def fn(x):
        box.label = f"last {x.shape}"
        seen.append("%s" % (x.shape,))
        text = f"{x.shape[0]} rows"
        dl.graph_break()
        return x * 2, text, {"shape": [text]}

    compiled = dl.compile(fn, backend="eager")
    for n in SIZES:
        found, text, table = compiled(tensor(n, 2))
        assert box.label == f"last torch.Size([{n}, 2])" and seen[-1] == f"torch.Size([{n}, 2])"
        assert text == f"{n} rows" and table == {"shape": [text]} and found.shape == (n, 2)
    assert len(seen) == len(SIZES) and dl.counters.graphs == 2


def test_text_of_an_exception_contains_the_sizes():
    def fn(x):
        y = x * 2
        if x.shape[0] > 3:
            raise ValueError(f"got {x.shape}", "%d rows" % x.shape[0])
        return y

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for n in SIZES[1:]:
        with pytest.raises(ValueError) as raised:
            compiled(tensor(n, 2))
        assert raised.value.args == (f"got torch.Size([{n}, 2])", f"{n} rows")
    Pairing().compare(fn(tensor(3, 2)), compiled(tensor(3, 2)), "result")


@swept(calls(), graphs=4)
def test_templates_that_raise(x):
    found = []
    for template, values in (
        ("%d %d", (x.shape[0],)),
        ("%d", (x.shape[0], 2)),
        ("%d %y", (x.shape[0], 2)),
        ("%d %", (x.shape[0],)),
        ("%s %d", (x.shape, "a")),
        ("rows", x.shape[0]),
        ("rows", [x.shape[0]]),
    ):
        try:
            found.append(template % values)
        except (TypeError, ValueError) as error:
            found.append((type(error), str(error)))
    return x * 2, found
