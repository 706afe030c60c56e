"""Breaks inside blocks (``try``, ``with``) of inlined callees: they cost one more graph, as elsewhere."""

from __future__ import annotations

import contextlib
import sys
import traceback

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import dynamo_lite as dl
from programs import built, check, recompiling, tensor, with_gradients


def lines(error):
    """Where it came through, as the program itself sees it."""
    return [(each.name, each.lineno) for each in traceback.extract_tb(error.__traceback__)]


@dl.disable
def fail(kind):
    if kind is not None:
        raise kind("failed")


CONTEXTS = (
    torch.inference_mode,
    torch.enable_grad,
    lambda: torch.set_grad_enabled(False),
    lambda: torch.autocast("cpu", torch.bfloat16),
    lambda: sdpa_kernel(SDPBackend.MATH),
    lambda: torch.profiler.record_function("part"),
    contextlib.nullcontext,
    lambda: contextlib.suppress(ValueError),
)


@pytest.mark.parametrize("outer", range(len(CONTEXTS)))
@pytest.mark.parametrize("kind", [None, ValueError, KeyError])
def test_contexts_of_all_frames(outer, kind):
    def state():
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")

    def inner(x):
        with CONTEXTS[outer]():
            y = x @ x
            fail(kind)
            y = y @ x.to(y.dtype)
        return y, state()

    def middle(x):
        with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
            found = inner(x)
            found += (state(),)
        return found

    def fn(x):
        known = []
        try:
            with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
                known.append(middle(x + 1))
                known.append(torch.backends.cuda.flash_sdp_enabled())
        except (KeyError, ValueError, NameError) as error:
            known.append((type(error).__name__, lines(error)))
        return known, state(), torch.backends.cuda.flash_sdp_enabled(), x @ x

    wanted = None if kind else 2
    check(with_gradients(fn), tensor(3, 3, grad=True), graphs=wanted, breaks=None)


@pytest.mark.parametrize("where", ["inner", "middle", "root", "nowhere"])
def test_who_handles_it(where):
    def handles(name):
        return ValueError if where == name else KeyError

    def inner(x, kind):
        y = x * 2
        try:
            z = y.sin()
            fail(kind)
            z = z.cos()
        except handles("inner") as error:
            return y - 1, lines(error), str(error), sys.exc_info()[0]
        finally:
            y = y + 1
        return z + y, [], "", None

    def middle(x, kind):
        y = x + 1
        try:
            found = inner(y, kind)
        except handles("middle") as error:
            found = y - 2, lines(error), repr(error), sys.exc_info()[0]
        return found, y * 2

    def fn(x, kind):
        try:
            found = middle(x.exp(), kind)
        except handles("root") as error:
            found = x - 3, lines(error), type(error.__context__).__name__
        return found, x * 3, sys.exc_info()[0]

    check(fn, tensor(3), None, graphs=2, breaks=1, others=[(tensor(3), ValueError), (tensor(3), RuntimeError)])
    check(fn, tensor(3), ValueError, graphs=None, breaks=None)


def test_raised_again_and_from():
    def inner(x, kind):
        try:
            y = x * 2
            fail(kind)
        except ValueError:
            raise
        except KeyError as error:
            raise RuntimeError("of another") from error
        return y

    def fn(x, kind):
        try:
            return inner(x + 1, kind)
        except (ValueError, RuntimeError) as error:
            cause = error.__cause__
            return x - 1, lines(error), type(cause).__name__, lines(cause) if cause else None

    for kind in (None, ValueError, KeyError):
        check(fn, tensor(3), kind, graphs=None, breaks=None)


def test_blocks_of_the_programs():
    class Scope:
        names: list = []

        def __init__(self, name, swallows=False):
            self.name, self.swallows = name, swallows

        def __enter__(self):
            self.names.append(self.name)
            return self

        def __exit__(self, kind, error, trace):
            self.names.append((self.name, kind, [each.name for each in traceback.extract_tb(trace)]))
            return self.swallows

    @contextlib.contextmanager
    def scope(names, name):
        names.append(name)
        try:
            yield name
        except ValueError:
            names.append("seen")
            raise
        finally:
            names.append("left")

    def program():
        Scope.names = []

        def inner(x, kind):
            with Scope("inner") as entered:
                y = x * 2
                fail(kind)
                y = y + len(entered.names)
            return y

        def middle(x, kind):
            y = x
            with Scope("middle", swallows=True), scope(Scope.names, "generator"):
                y = inner(x.sin(), kind)
            return y * 2

        def fn(x, kind):
            y = middle(x + 1, kind)
            return y, list(Scope.names)

        return fn

    for kind in (None, ValueError, KeyError):
        check(built(recompiling(program)), tensor(3), kind, graphs=None, breaks=None)


def test_a_value_on_the_stack_of_each_frame():
    def inner(x, kind):
        try:
            found = [x * 2, (x * 3, fail(kind)), x * 4]
        except ValueError:
            found = [x]
        return found

    def middle(x, kind):
        return [x * 5, *inner(x, kind), x * 6]

    def fn(x, kind):
        return [x + 1, middle(x + 2, kind), x + 3]

    check(fn, tensor(3), None, graphs=2, breaks=1, others=[(tensor(3), ValueError)])


def test_in_loops():
    def inner(x, n):
        for index in range(n):
            try:
                with torch.no_grad():
                    if index == 1:
                        continue
                    y = x * index
                    fail(ValueError if index == 2 else None)
                    x = x + y
                    if index == 3:
                        break
            except ValueError:
                x = x - 1
            else:
                x = x + 100
        return x

    def fn(x, n):
        return inner(x * 2, n) + 1

    check(fn, tensor(3), 5, graphs=None, breaks=None)


def test_truth_that_raises():
    class Bad:
        def __bool__(self):
            fail(ValueError)
            return True

    def inner(x, test):
        try:
            y = x * 2
            if test:
                y = y + 1
        except ValueError as error:
            return x, lines(error)[:1]
        return y, []

    def fn(x):
        return inner(x + 1, Bad())

    check(fn, tensor(3), graphs=None, breaks=None)


def test_modules():
    class Norm(nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                scale = x.float().pow(2).mean()
                if scale.item() > 1e9:
                    print("large")
                return x / scale

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(3, 3), Norm(), nn.Linear(3, 3)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            h = self.norm(self.first(x))
            with torch.no_grad():
                self.count.add_(1)
            return F.relu(self.last(h))

    check(with_gradients(Net()), tensor(2, 3), graphs=2, breaks=1)


def test_another_error_where_it_goes_on():
    """What a backend raises there is raised in the callee's block."""

    def inner(x, kind):
        try:
            y = x * 2
            fail(kind)
            return y.sin()
        except ValueError:
            return y.cos()
        finally:
            seen.append("finally")

    def fn(x, kind):
        return inner(x + 1, kind) * 3

    class Refused(Exception):
        pass

    def backend(gm, example_inputs):
        if len(calls) == 1:
            raise Refused
        calls.append(1)
        return gm.forward

    for kind in (None, ValueError):
        calls: list = []
        seen: list = []
        dl.reset()
        with pytest.raises(dl.exc.BackendCompilerFailed):
            dl.compile(fn, backend=backend)(tensor(3), kind)
        assert seen == ["finally"]


def test_while_the_root_handles_another():
    def inner(x, kind):
        y = x * 2
        try:
            with torch.no_grad():
                z = y.sin()
                fail(kind)
                z = z.cos()
        except ValueError as error:
            return y, lines(error), type(error.__context__).__name__, sys.exc_info()[0]
        return z + y, sys.exc_info()[0]

    def fn(x, kind):
        try:
            fail(KeyError)
        except KeyError as outer:
            found = inner(x + 1, kind), lines(outer), sys.exc_info()[0]
        return found, x * 3, sys.exc_info()[0]

    for kind in (None, ValueError, RuntimeError):
        check(with_gradients(fn), tensor(3, grad=True), kind, graphs=None, breaks=None)


def test_generators_in_blocks():
    def inner(x, kind):
        def rows():
            try:
                for row in x:
                    fail(kind)
                    yield row * 2
            finally:
                out.append("closed")

        out: list = []
        try:
            with torch.no_grad():
                for row in rows():
                    out.append(row)
                    print("row")
        except ValueError as error:
            out.append(lines(error))
        return out

    def fn(x, kind):
        return inner(x + 1, kind), x * 2, torch.is_grad_enabled()

    for kind in (None, ValueError):
        check(fn, tensor(2, 2), kind, graphs=None, breaks=None)
