"""Texts of tensors' values, and checks of them. The values are unknown during tracing and rarely needed."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, ints, tensor

# -- texts -------------------------------------------------------------------------------------------------------------


@checked(tensor(3), others=[(tensor(4),)])
def test_unused_text_of_a_tensor(x):
    count = (x > 0).sum()
    message = f"there are {count}, {x.mean():.3f} at the mean of {x!r}"
    if x.shape[0] == 100:
        raise ValueError(message)
    return x * count


@checked(tensor(3), others=[(torch.nn.Parameter(tensor(3).abs()),)])
def test_texts_of_tensors_are_returned(x):
    count = (x > 0).sum()
    text = f"there are {count}"
    again = f"{text}: {text} of {x.shape}"
    return x * count, text, str(count), f"{count!r}>{x.sum():8.2f}", format(x.relu()), again, [text, text]


@pytest.mark.parametrize("spec", ["", "5", "d", ".2f", "x", "%", "e", "n", "s", ">10", "c", ",", "5.1"])
def test_specs_of_scalars(spec):
    def fn(x):
        try:
            return x + 1, format(x.sum(), spec)
        except ValueError as error:
            return x + 1, error.args

    for x in (tensor(3), ints(3), tensor(3) > 0, torch.complex(tensor(3), tensor(3))):
        check(fn, x, graphs=None, breaks=None)


@checked(tensor(3), graphs=None, breaks=None)
def test_spec_for_more_than_a_scalar(x):
    try:
        return f"{x:.3f}"
    except TypeError as error:
        return x + 1, error.args


@checked(tensor(3), graphs=2, breaks=1)
def test_text_of_a_tensor_mutated_later(x):
    y = x * 2
    text = f"{y}"
    y.add_(1)
    return y, text


@checked(tensor(3), graphs=1, breaks=1)
def test_text_of_an_input_mutated_later(x):
    text = f"{x}"
    x.add_(1)
    return x + 1, text


@checked(tensor(3), graphs=2, breaks=1)
def test_text_across_a_break(x):
    text = f"{x.sum()}"
    y = x + 1
    dl.graph_break()
    return y * 2, text


@checked(tensor(3), graphs=None, breaks=None)
def test_text_of_an_error_that_is_raised(x):
    if x.shape[0] == 3:
        raise ValueError(f"got {x.sum()}")
    return x + 1


USES = {
    "length": lambda text: len(text),
    "equality": lambda text: (text == "a", text != "b", text in ("a", "b")),
    "order": lambda text: (text < "b", "b" <= text),
    "key": lambda text: {text: 1},
    "hash": lambda text: hash(text) == hash(text),
    "sum": lambda text: (text + "b", "c" + text, text * 2),
    "methods": lambda text: (text.upper(), text.split("."), "".join([text, "b"])),
    "items": lambda text: (text[0], text[-2:], list(text), sorted(text)),
    "templates": lambda text: ("%s!" % text, "{}".format(text), f"{text:>30}", f"{text!r}"),  # noqa: UP031, UP032
    "facts": lambda text: (bool(text), isinstance(text, str), callable(text), type(text), text is text),
    "error": lambda text: (str(ValueError(text)), repr(KeyError(text, 1)), ValueError(text).args),
    "number": lambda text: float(text[1:]),
    "print": lambda text: print(text),
}


@pytest.mark.parametrize("ask", USES.values(), ids=USES)
def test_operations_on_a_text_break(ask):
    check(lambda x: (x + 1, ask(f"0{x.abs().sum()}")), tensor(3), graphs=None, breaks=None)


# -- checks ------------------------------------------------------------------------------------------------------------


@checked(tensor(3).abs() - 2, others=[(tensor(3).abs(),)])
@checked(tensor(3).abs(), others=[(tensor(3).abs() - 2,)])
def test_check_of_values(x):
    y = x + 1
    torch._check_tensor_all(y > 0, lambda: f"bad: {y.sum()}")
    return y * 2


def test_check_beside_a_write():
    def before(x):
        torch._check_tensor_all_with(ValueError, x > 0, lambda: f"bad: {x.sum()}")
        return x.add_(1) * 2

    def after(x):
        x.add_(1)
        torch._check_tensor_all_with(ValueError, x > 0, lambda: f"bad: {x.sum()}")
        return x * 2

    for fn in (before, after):
        check(fn, tensor(3).abs(), others=[(-tensor(3).abs() - 2,)], graphs=None, breaks=None)


@checked(tensor(3), graphs=None, breaks=None)
def test_check_of_a_tensor_that_is_not_boolean(x):
    torch._check_tensor_all(x + 1)
    return x


def test_check_behind_a_compiler():
    @dl.compile(backend="aot_eager")
    def fn(x):
        torch._check_tensor_all(x > 0, lambda: f"bad: {x.sum()}")
        return x * 2

    x = torch.ones(3, requires_grad=True)
    fn(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="bad: -3.0"):
        fn(-torch.ones(3, requires_grad=True))
