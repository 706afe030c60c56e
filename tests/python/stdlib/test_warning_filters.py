"""Warnings of the program and of torch's operators: at the program's line, as often as its filters say."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import check, tensor
from scenarios import scenario

HERE = Path(__file__).parent


def softmax_of_some_dimension(x):
    y = x + 1
    z = F.softmax(y)
    return z * 2


def targets_of_another_shape(x, y):
    return F.mse_loss(x * 2, y) + 1


def tensor_of_a_tensor(x):
    return torch.tensor(x + 1) * 2


def out_of_another_shape(x, out):
    torch.mul(x, 2, out=out)
    return out + 1


WARN = {
    "softmax": (softmax_of_some_dimension, tensor(3, 2)),
    "mse_loss": (targets_of_another_shape, tensor(3, 1), tensor(3)),
    "tensor": (tensor_of_a_tensor, tensor(3)),
    "new_tensor": (lambda x: x.new_tensor(x) + 1, tensor(3)),
    "range": (lambda x: torch.range(0, 3) + x, tensor(1)),
    "upsample": (lambda x: F.upsample(x, scale_factor=2) + 1, tensor(1, 1, 4, 4)),
    "old reduction": (lambda x, y: F.l1_loss(x, y, size_average=False) + 1, tensor(3), tensor(3)),
}


@pytest.mark.parametrize("name", WARN)
def test_operators_that_warn(name):
    fn, *args = WARN[name]
    check(fn, *args, graphs=None)


@pytest.mark.parametrize("module", ["__main__", __name__])
def test_filters_of_an_interpreters_start_are_plain_text(module):
    fn, *args = WARN["upsample"]
    heard = []
    for each in (fn, dl.compile(fn, backend="eager")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filters.insert(0, ("ignore", None, UserWarning, module, 0))
            each(*args)
        heard.append([str(warning.message) for warning in caught])
    assert heard[0] == heard[1]


def test_a_result_that_is_resized_in_a_later_call():
    check(
        out_of_another_shape,
        tensor(3),
        torch.zeros(3),
        others=[(tensor(3), torch.zeros(2)), (tensor(4), torch.zeros(2)), (tensor(5), torch.zeros(5))],
    )


def test_warning_breaks_the_graph_at_its_operator():
    recorder = check(softmax_of_some_dimension, tensor(3, 2), graphs=2, breaks=1)
    assert [recorder.targets(0), recorder.targets(1)] == [["add"], ["mul"]]
    assert any("softmax warns: Implicit dimension" in reason for reason in dl.counters.break_reasons)


def test_a_warning_that_is_ignored_is_no_break():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert dl.explain(softmax_of_some_dimension)(tensor(3, 2)).graph_count == 1


@scenario
def test_filters_that_change(compiled, seen):
    def handles(x):
        y = x + 1
        try:
            return F.softmax(y)
        except UserWarning as warning:
            return y, str(warning)[:8]

    handles, plain = compiled(handles), compiled(softmax_of_some_dimension)
    for action in ("always", "error", "default", "always"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.resetwarnings()
            warnings.simplefilter(action)
            for fn in (handles, plain, handles, plain):
                seen.call(fn, tensor(3, 2))
        seen.note([(each.lineno, str(each.message)) for each in caught])


@scenario
def test_warning_is_given_once_per_line(compiled, seen):
    """This holds even if tracing took several attempts and gradients were computed."""

    def fn(x, leaf):
        warnings.warn("careful", stacklevel=1)
        return x * leaf

    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        fn = compiled(fn)
        for size in (2, 3, 4):
            leaf = tensor(size, grad=True) * 1
            seen.call(lambda x: fn(x, leaf).detach(), tensor(size))
    seen.note(len([each for each in caught if str(each.message) == "careful"]))


def deprecated_once(x):
    y = x + 1
    return y.T * 2


def deprecated_once_in_torch(x):
    return torch.meshgrid(x[0, 0], x[0, 0])[0] + 1


ONCE = """
import json, sys, warnings
import torch
import dynamo_lite as dl
from test_warning_filters import deprecated_once, deprecated_once_in_torch
fns = [deprecated_once, deprecated_once_in_torch]
if sys.argv[1] != "as it is":
    fns = [dl.compile(fn, backend=sys.argv[1], fullgraph=True) for fn in fns]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for size in (4, 4, 5):
        for fn in fns:
            fn(torch.ones(2, 3, size))
print(json.dumps([(each.filename, each.lineno, str(each.message)) for each in caught]))
"""


def test_torch_warnings_given_once_per_process():
    def warned(how):
        ran = subprocess.run([sys.executable, "-c", ONCE, how], cwd=HERE, check=True, capture_output=True, text=True)
        return json.loads(ran.stdout)

    eager = warned("as it is")
    assert [name.rpartition("/")[2] for name, _, _ in eager] == ["test_warning_filters.py", "functional.py"]
    assert warned("aot_eager") == eager


def many_times(x, n):
    for _ in range(n):
        x = x + 1
    return x


def test_warnings_of_another_thread_meet_its_own_filters():
    """The warnings come while an operator runs on fakes in this thread."""
    stop, shown = threading.Event(), []

    def warn():
        while not stop.is_set():
            warnings.warn("not to be seen", UserWarning, stacklevel=1)
            with contextlib.suppress(DeprecationWarning):
                warnings.warn("to be raised", DeprecationWarning, stacklevel=1)
                shown.append("not raised")

    other = threading.Thread(target=warn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", DeprecationWarning)
        warnings.showwarning = lambda message, *rest: shown.append(str(message))
        other.start()
        for n in range(1, 12):
            dl.reset()
            dl.compile(many_times, backend="eager")(torch.ones(2), n * 20)
        stop.set()
        other.join()
    assert shown == []


def test_filters_that_another_thread_changes_meanwhile():
    stop, shown = threading.Event(), []

    def change():
        while not stop.is_set():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                time.sleep(0.0001)

    before = list(warnings.filters)
    other = threading.Thread(target=change)
    other.start()
    for n in range(1, 8):
        dl.reset()
        dl.compile(many_times, backend="eager")(torch.ones(2), n * 20)
    stop.set()
    other.join()
    dl.reset()
    dl.compile(many_times, backend="eager")(torch.ones(2), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *rest: shown.append(str(message))
        warnings.warn("seen", UserWarning, stacklevel=1)
    assert shown == ["seen"]
    assert [each for each in warnings.filters if each in before] == before
