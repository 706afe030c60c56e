"""``warnings.catch_warnings`` in compiled functions: filters, recording, operators that warn."""

from __future__ import annotations

import warnings

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, tensor


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported():
    """Compiles once, because the imports of the first compilation add filters."""
    dl.compile(lambda x: x.sin(), backend="aot_eager")(torch.ones(3))


class Told(UserWarning):
    def __init__(self, text):
        super().__init__(f"<{text}>")
        self.length = len(text)


@pytest.fixture(autouse=True)
def _filters():
    """Restores the filters after each test."""
    before = list(warnings.filters)
    yield
    assert warnings.filters == before


IGNORING = (
    lambda: warnings.simplefilter("ignore"),
    lambda: warnings.simplefilter("ignore", category=UserWarning),
    lambda: warnings.filterwarnings("ignore", message="abc.*", category=FutureWarning, append=True),
    lambda: warnings.filterwarnings("ignore", "abc", DeprecationWarning, "mod", 3),
    lambda: warnings.filterwarnings("ignore", category=Told),
)
SHOWING_OR_RAISING = (
    lambda: warnings.filterwarnings("error", "abc", DeprecationWarning, "mod", 3),
    lambda: warnings.simplefilter("always"),
    lambda: warnings.resetwarnings(),
)


@pytest.mark.parametrize("act", [*IGNORING, *SHOWING_OR_RAISING])
def test_filters(act):
    def fn(x):
        with warnings.catch_warnings():
            act()
            y = x * 2
        return y + 1, len(warnings.filters)

    counts = dict(operators=2, graphs=1) if act in IGNORING else dict(graphs=None)
    check(fn, tensor(3), breaks=None, **counts)


def test_a_break_has_a_name_and_a_hint():
    def fn(x):
        with warnings.catch_warnings(record=True):
            return x * 2

    with pytest.raises(dl.exc.Unsupported, match="record=True.* lets the program observe warnings"):
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))


@checked(tensor(3), graphs=None, breaks=None)
def test_entered_twice(x):
    manager = warnings.catch_warnings()
    with manager:
        y = x * 2
    try:
        with manager:
            y = y + 1
    except RuntimeError as error:
        return y, str(error)
    return y


@checked(tensor(3))
def test_warnings_of_operators_are_ignored_by_a_filter(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("unheard", stacklevel=2)
        warnings.warn("unheard", DeprecationWarning)  # noqa: B028
        y = x * 2
    return y + 1


def test_warnings_of_operators_are_captured():
    def fn(x, heard):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            y = x * 2
            warnings.warn("told", heard, stacklevel=1)
        return y + 1

    for heard in (UserWarning, RuntimeWarning, int):
        check(fn, tensor(3), heard, graphs=None, breaks=None)


@checked(tensor(3), graphs=None, breaks=None)
def test_filters_that_raise(x):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            y = x * 2
            warnings.warn("told", stacklevel=1)
    except UserWarning as error:
        return y, str(error)


def test_operators_that_warn():
    def fn(x, w):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = torch.nn.functional.softmax(x)
            y = y + w.to(torch.complex64).to(torch.float32)
        return y + 1

    def heard(x, w):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            y = torch.nn.functional.softmax(x)
        return y + 1 + w

    check(fn, tensor(3, 3), tensor(3, 3, seed=1), graphs=None, breaks=None)
    check(heard, tensor(3, 3), tensor(3, 3, seed=1), graphs=None, breaks=None)


@checked(tensor(3), graphs=None, breaks=None)
def test_a_break_within(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x * 2
        print("within", warnings.filters[0][0])
        warnings.warn("unheard", stacklevel=1)
        y = y + 1
    return y * 3


@checked(tensor(3))
def test_left_by_an_exception(x):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = x * 2
            raise ValueError("left")
    except ValueError as error:
        return y + 1, str(error)


@pytest.mark.fails_on_data
def test_a_failure_on_the_data():
    def fn(x, i):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x[i] * 2

    def handled(x, i):
        try:
            return fn(x, i)
        except IndexError as error:
            return str(error)[:5], [each[0] for each in warnings.filters[:1]]

    for program in (fn, handled):
        check(program, tensor(3), torch.tensor([1]), others=[(tensor(3), torch.tensor([7]))], graphs=None, breaks=None)


@checked(tensor(3), graphs=None, breaks=None)
def test_filters_without_catching_act_on_the_process(x):
    before = warnings.filters[:]
    warnings.simplefilter("ignore")
    y = x * 2
    warnings.filters[:] = before
    return y


@checked(tensor(3, 3), graphs=None, breaks=None)
def test_catch_warnings_in_functions_run_by_operators(x):
    def inner(row):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return row * 2

    return torch.vmap(inner)(x)


def test_warning_shown_once_is_shown_again_after_a_reset():
    def fn(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x * 2

    def shown(program):
        registry = {}
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("default")
            for _ in range(3):
                warnings.warn_explicit("told", UserWarning, "file", 1, "module", registry)
                program(tensor(3))
        return len(found)

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    compiled(tensor(3))
    assert shown(compiled) == shown(fn) == 3


def test_in_a_compiler():
    def fn(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (x * 2).sin()

    compiled = dl.compile(fn, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(tensor(3)), fn(tensor(3)))


def tells():
    warnings.warn("deep", DeprecationWarning, stacklevel=2)


def test_recorded_where_all_are_shown():
    def fn(x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            tells()
            warnings.warn("told", Told)  # noqa: B028
            with warnings.catch_warnings():
                warnings.warn("inner", stacklevel=1)
                x = x + 1
            y = x * len(found)
        return y, found, [(str(each.message), each.lineno, each.filename, each.category) for each in found]

    def left(x):
        found = []
        try:
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                warnings.warn("told", stacklevel=1)
                raise KeyError(len(found))
        except KeyError as error:
            return x * 2, found[0].message, error.args

    check(fn, tensor(3), graphs=None, breaks=None)
    check(left, tensor(3), graphs=None, breaks=None)


def test_the_module_itself_is_written_to():
    def shows(x):
        seen = []
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warnings.showwarning = lambda *rest: seen.append(len(rest))
            warnings.warn("told", stacklevel=1)
            y = x + 1
        return y, len(found), seen

    def filters(x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warnings.filters.insert(0, ("ignore", None, Warning, None, 0))
            warnings.warn("unheard", stacklevel=1)
            y = x + 1
        return y, len(found)

    for fn in (shows, filters):
        check(fn, tensor(3), graphs=None, breaks=None)


@torch.library.custom_op("dynamo_lite_tests::warns_of_negatives", mutates_args=())
def warns_of_negatives(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any():
        warnings.warn("negative", stacklevel=1)
    return x * 2


warns_of_negatives.register_fake(torch.empty_like)


@checked(torch.ones(3), others=[(-torch.ones(3),), (torch.ones(3),)], graphs=None, breaks=None)
def test_warnings_of_kernels_are_recorded(x):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        y = warns_of_negatives(x)
        x.add_(1)
    return y, [str(each.message) for each in found]


@pytest.mark.parametrize("catch", [{}, {"record": True}])
def test_filters_of_the_caller_apply_to_every_call(catch):
    def fn(x):
        with warnings.catch_warnings(**catch):
            warnings.warn("told", stacklevel=1)
            return x * 2

    compiled = dl.compile(fn, backend="eager")
    for action in ("ignore", "always", "error", "ignore"):
        seen = []
        for each in (fn, compiled):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter(action)
                try:
                    each(tensor(3))
                    seen.append(len(found))
                except UserWarning as warning:
                    seen.append(str(warning))
        assert seen[0] == seen[1]


def test_filters_set_on_the_way_in():
    def fn(x):
        with warnings.catch_warnings(action="ignore"):
            warnings.warn("not seen", stacklevel=1)
            y = x * 2
        with warnings.catch_warnings(action="error", category=FutureWarning, lineno=3, append=True):
            y = y - 1
        with warnings.catch_warnings(record=True, action="always") as told:
            warnings.warn("seen", stacklevel=1)
            y = y * 3
        return y + 1, len(warnings.filters), [str(each.message) for each in told]

    def ignores(x):
        with warnings.catch_warnings(action="ignore"):
            warnings.warn("not seen", stacklevel=1)
            y = x * 2
        with warnings.catch_warnings(action="ignore", category=FutureWarning, lineno=3, append=True):
            y = y - 1
        return y + 1, len(warnings.filters)

    check(fn, tensor(3), graphs=None, breaks=None)
    check(ignores, tensor(3), operators=3, graphs=1, breaks=None)


@checked(tensor(3), graphs=None)
def test_filters_set_on_the_way_in_to_a_break(x):
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        warnings.warn("not seen", stacklevel=1)
        y = x * 2
        dl.graph_break()
        warnings.warn("not seen either", stacklevel=1)
        warnings.warn("a warning", FutureWarning, stacklevel=1)
    manager = warnings.catch_warnings(action="always")
    dl.graph_break()
    with manager:
        y = y + 1
    return y, len(warnings.filters)
