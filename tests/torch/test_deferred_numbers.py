"""Numbers that ``item()`` reads from tensors. If they are only passed on, they are read after the graph. If the
program needs one, the graph breaks at ``item()``.
"""

from __future__ import annotations

import json
import math
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

import dynamo_lite as dl
from dynamo_lite.compiler.frame_compiler import FrameCompiler
from programs import approximate, check, checked, ints, recompiling, tensor, watching, with_gradients, without_breaks


class Meter:
    def __init__(self):
        self.last = 0.0
        self.values = []

    def update(self, value, n=1):
        self.last = value
        self.values.append((value, n))
        return self


METER = Meter()


def returned(x):
    y = x * 2
    kinds = {"all": (y > -9).all().item(), "count": (y > 0).sum().item(), "half": y.mean().half().item()}
    return y + 1, y.sum().item(), [y.max().item(), kinds], y[0].view(1, 1).item()


def stored(x):
    METER.update(x.sum().item()).update(x.max().item(), 3)
    return x * 2


def in_texts(x):
    loss = x.mean().item()
    return x * 2, f"loss {loss:.3f}", "%.2f|%5d" % (loss, (x > 0).sum().item()), str(loss), "{:>9.2e}".format(loss)


def of_an_argument(x):
    first = x[0].item()
    return x + 1, None if first is None else first


def dropped(x):
    x.sum().item()
    return x + 1


def in_a_loop(x):
    losses = []
    for scale in range(3):
        x = x * (scale + 1)
        losses.append(x.sum().item())
    return x, losses


PASSED_ON = [returned, stored, in_texts, of_an_argument, dropped, in_a_loop]


@pytest.mark.parametrize("fn", PASSED_ON, ids=lambda fn: fn.__name__)
def test_passed_on_numbers_are_read_after_the_graph(fn):
    """There is one graph, for all values of the numbers."""
    others = [(tensor(3, seed=seed),) for seed in (1, 2)]
    check(watching((METER, "last"), (METER, "values"))(without_breaks(fn)), tensor(3), others=others, all_graphs=1)


def test_best_of_numbers():
    """Minima and maxima of numbers of one type are read after the graph."""

    def fn(x, best):
        loss, count = x.mean().item(), (x > 0).sum().item()
        losses = max(best, loss), min([loss, best, 0.5]), max(loss, x.max().item())
        return x + 1, losses, min(count, len(x)), max(count, 2)

    others = [(tensor(3, seed=seed), best) for seed, best in ((1, 0.1), (2, -9.0), (3, math.nan))]
    check(without_breaks(fn), tensor(3), math.inf, graphs=1, others=others, all_graphs=2)


def divided(x, scale):
    losses = x.mean().item() * len(x)
    return x + 1, losses / max(len(x), 1), losses / scale


# The size and the scale change in different calls, so each is symbolic in a version of its own at first.
@pytest.mark.parametrize("scales", [(2.0, 0.5, 0.25), (2, 3, 4)], ids=["floats", "ints"])
def test_numbers_divided_by_symbolic_ones(scales):
    others = [(tensor(n), scale) for n, scale in zip((4, 5, 6), scales, strict=True)]
    check(divided, tensor(3), scales[0], graphs=1, breaks=0, others=others, all_graphs=3)


def test_a_number_divided_by_zero_raises_where_it_is_divided():
    check(divided, tensor(3), 2.0, others=[(tensor(3), 3.0), (tensor(3), 4.0), (tensor(3), 0.0)])


def test_best_of_a_number_and_one_of_another_type():
    """The result has the type of one of the two, so the graph breaks where the number is read."""

    def fn(x):
        return x + 1, max(0, x.mean().item())

    check(fn, tensor(3), others=[(-tensor(3),)], graphs=1, breaks=1)


def computed_with(x):
    total = x.sum().item()
    y = x + 1
    return y * total


def branched_on(x):
    total = x.sum().item()
    y = x + 1
    return y * 2 if total > -100.0 else y


def taken_by_an_operator(x):
    total = x.sum().item()
    y = x + 1
    return torch.full_like(y, total)


def compared_by_identity(x):
    is_positive = (x > 100).any().item()
    return x + 1, is_positive is False, (x * 2).sum()


def a_key(x):
    count = (x > -100).sum().item()
    y = x + 1
    return y * {3: 2}[count]


def converted(x):
    total = x.sum().item()
    y = x + 1
    return y, int(total), max(total, -1000.0), bool(total), round(total, 2)


def formatted_and_read(x):
    text = f"{(x > -100).sum().item()}"
    y = x + 1
    return y * len(text), text


def read_by_an_operator(x):
    count = (x > -100).sum().item()
    y = x + 1
    return torch.full((count,), 2.0) + y


def written_after(x):
    total = x.sum()
    before = total.item()
    total.add_(1)
    return total * 2, before


def an_argument_written_after(x):
    before = x[0].item()
    x.mul_(2)
    return x + 1, before


NEEDED = [
    *(computed_with, branched_on, compared_by_identity, a_key, converted, formatted_and_read, read_by_an_operator),
    *(written_after, an_argument_written_after),
]


@pytest.mark.parametrize("fn", NEEDED, ids=lambda fn: fn.__name__)
def test_needed_numbers_break_the_graph_at_item(fn):
    """The code after ``item()`` is in another graph."""
    check(fn, tensor(3), graphs=2, breaks=1)


DECIDES = {branched_on: "DL0301", compared_by_identity: "DL0301"}
DECIDES |= {converted: "DL0302", a_key: "DL0302", formatted_and_read: "DL0302"}


@pytest.mark.parametrize("fn", NEEDED, ids=lambda fn: fn.__name__)
def test_needed_numbers_are_captured_under_fullgraph(fn):
    """They are captured unless the program branches on one or rounds it."""
    if fn not in DECIDES:
        check(without_breaks(fn), tensor(3))
        return
    with pytest.raises(dl.exc.Unsupported, match=DECIDES[fn]):
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))


def test_break_at_a_needed_number_does_not_name_its_symbol():
    with pytest.raises(dl.exc.Unsupported, match="the use of a float that was read from a tensor needs"):
        dl.compile(converted, backend="eager", fullgraph=True)(tensor(3))


def test_needed_numbers_are_remembered_by_later_compilations(monkeypatch):
    attempts = []
    monkeypatch.setattr(FrameCompiler, "prepare", lambda compiler, attempt: attempts.append(attempt))
    compiled = dl.compile(taken_by_an_operator, backend="eager", dynamic=False)
    made = []
    for size in (3, 4, 5):
        assert torch.equal(compiled(tensor(size)), taken_by_an_operator(tensor(size)))
        made.append(len(attempts) - sum(made))
    assert made[1:] == [made[0] - 1] * 2  # the first finds out that the number is needed


@checked(tensor(3), graphs=2, breaks=1)
def test_break_for_another_reason_reads_deferred_numbers(x):
    total, count = x.sum().item(), (x > 0).sum().item()
    y = x + 1
    dl.graph_break()
    return y * count, total


def test_breaks_unrelated_to_deferred_numbers():
    def fn(x, log):
        log.append(x.sum().item())
        y = x * 2
        return sys.getsizeof(y) + y.numpy().astype("U3").size, y + 1

    with pytest.raises(dl.exc.Unsupported) as raised:
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3), [])
    assert "item" not in str(raised.value.reason)
    check(fn, tensor(3), [], graphs=(1, 3))


@checked(tensor(3), graphs=(1, 3))
def test_instructions_that_need_the_value_of_a_number(x):
    text = json.dumps({"loss": x.sum().item(), "rows": [x.max().item()]})
    return x + 1, text


@checked(tensor(3), [], graphs=2, breaks=1)
def test_one_break_reads_several_numbers(x, seen):
    a, b = x.sum().item(), x.mean().item()
    y = x * 2
    print(a, b, end="")
    seen.append(a + b)
    return y + 1


@checked(tensor(3), graphs=None)
def test_tensors_of_several_items_raise(x):
    y = x + 1
    try:
        return y, x.item()
    except RuntimeError as error:
        return y, str(error)


@checked(tensor(3), graphs=None)
def test_item_under_transforms_is_not_deferred(x):
    return torch.func.grad(lambda y: y.sum() * y.detach().sum().item())(x)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

    def get_action_and_value(self, x, action):
        probs = Categorical(logits=self.actor(x))
        return probs.log_prob(action), probs.entropy(), self.critic(x)


def ppo_loss(agent, obs, actions, logprobs, advantages, returns, values, clip=0.2):
    """Returns the loss of one minibatch of proximal policy optimization, with the numbers that training scripts log."""
    newlogprob, entropy, newvalue = agent.get_action_and_value(obs, actions)
    logratio = newlogprob - logprobs
    ratio = logratio.exp()
    with torch.no_grad():
        old_approx_kl = (-logratio).mean()
        approx_kl = ((ratio - 1) - logratio).mean()
        clipfrac = ((ratio - 1.0).abs() > clip).float().mean().item()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    policy_loss = torch.max(-advantages * ratio, -advantages * ratio.clamp(1 - clip, 1 + clip)).mean()
    newvalue = newvalue.view(-1)
    clipped = values + torch.clamp(newvalue - values, -clip, clip)
    value_loss = 0.5 * torch.max((newvalue - returns) ** 2, (clipped - returns) ** 2).mean()
    loss = policy_loss - 0.01 * entropy.mean() + 0.5 * value_loss + 0 * F.mse_loss(newvalue, returns)
    log = {"losses/policy": policy_loss.item(), "losses/value": value_loss.item(), "losses/kl": approx_kl.item()}
    return loss, log, old_approx_kl.item(), clipfrac


def minibatch(seed):
    five = [tensor(8, seed=seed + at) for at in range(4)]
    return tensor(8, 4, seed=seed), ints(8, high=3, seed=seed), *five


def test_logged_losses_keep_one_graph():
    """torch.compile breaks at each number."""
    torch.manual_seed(0)
    agent = Agent()
    check(with_gradients(approximate(ppo_loss)), agent, *minibatch(0), others=[(agent, *minibatch(1))], all_graphs=1)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.compile(ppo_loss, backend="eager")(agent, *minibatch(0))
    assert sum(torch._dynamo.utils.counters["graph_break"].values()) > 0


# -- lists, conversions and arithmetic --------------------------------------------------------------------------------


def as_lists(x):
    y = x * 2
    return y + 1, y.tolist(), [y.argmax().tolist(), {"mask": (y > 0).tolist(), "rows": y[None].half().tolist()}]


def one_list_twice(x):
    values = (x * 2).tolist()
    return x + 1, values, [values]


def by_conversion(x):
    y = x.detach() * 2  # torch warns, once a process, of conversions of tensors that require gradients
    count = (y > 0).sum()
    return x * y, float(y.sum()), int(count), float(count), float(count.item()), int(count.item()), int((y > 0).any())


def by_arithmetic(x):
    loss, count = (x * 2).sum().item(), (x > 0).sum().item()
    return (
        x + 1,
        loss * 2,
        1 - loss,
        loss / 3,
        loss - float(x.detach().max()),
        count * 2.5,
        count + count,
        -loss,
        abs(count),
    )


def with_sizes(x):
    loss = (x * 2).mean().item()
    return x + 1, loss * x.shape[0], x.shape[0] - loss, loss + len(x) * 2


class Average:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += value * n
        self.count += n


AVERAGE = Average()


def averaged(x):
    loss = x.square().mean()
    AVERAGE.update(loss.item(), x.shape[0])
    return loss * 2


def summed_in_a_loop(x):
    total = 0.0
    for _ in range(3):
        x = x * 2
        total += x.sum().item()
    return x, total / 3, f"{total / 3:.3f}"


DEFERRED = [as_lists, one_list_twice, by_conversion, by_arithmetic, with_sizes, summed_in_a_loop]


@pytest.mark.parametrize("fn", DEFERRED, ids=lambda fn: fn.__name__)
def test_unused_numbers(fn):
    others = [(tensor(size, seed=size, grad=size % 2 == 0),) for size in (3, 4, 5, 6)]
    check(without_breaks(fn), tensor(3), others=others, all_graphs=(1, 4))


@pytest.mark.parametrize("fn", DEFERRED, ids=lambda fn: fn.__name__)
def test_gradients_beside_deferred_numbers(fn):
    check(with_gradients(fn), tensor(3, grad=True), others=[(tensor(3, seed=2, grad=True),)], all_graphs=1)


def test_a_running_average():
    others = [(tensor(3, seed=seed),) for seed in range(4)]
    check(watching((AVERAGE, "total"), (AVERAGE, "count"))(recompiling(averaged)), tensor(3), others=others, breaks=0)


def a_list_in_a_loop(x):
    found, y = [], x + 1
    for value in x.exp().tolist():
        found.append(value)
    return y * 2, found


def a_list_that_is_mutated(x):
    values = (x * 2).tolist()
    y = x + 1
    values.append(3.0)
    return y * 2, values


def a_list_that_is_joined(x):
    values = (x * 2).tolist()
    y = x + 1
    return y * 2, [1.0] + values, values * 2, len(values)


def a_list_in_a_text(x):
    values = (x * 2).tolist()
    y = x + 1
    return y * 2, f"{values}", str(values)


def a_list_for_an_operator(x):
    values = (x * 2).tolist()
    y = x + 1
    return y * 2 + torch.tensor(values)


def divided_by(x):
    total = x.sum().item()
    y = x + 1
    return y * 2, 1.0 / total


def a_power(x):
    total = x.sum().item()
    y = x + 1
    return y * 2, total**2, total // 2


def a_rounded_float(x):
    total = int(x.sum())
    return (x + 1) * 2, total


def arithmetic_of_what_is_written(x):
    total = x.sum()
    number = total.item()
    total.add_(1)
    return total * 2, number + 1


NEEDED_AFTER_ALL = [
    *(a_list_in_a_loop, a_list_that_is_mutated, a_list_that_is_joined, a_list_in_a_text, a_list_for_an_operator),
    *(divided_by, a_power, a_rounded_float, arithmetic_of_what_is_written),
]


@pytest.mark.parametrize("fn", NEEDED_AFTER_ALL, ids=lambda fn: fn.__name__)
def test_numbers_and_lists_that_are_needed(fn):
    check(fn, tensor(3), graphs=2, breaks=1)


@checked(tensor(3), 1, graphs=None, others=[(tensor(3), 2)])
def test_a_division_by_zero_and_an_overflow_raise_where_they_do(x, n):
    total = (x > 9).sum().item()
    y = x + 1
    try:
        return y, n / total, total + 10.0**400 if n > 1 else None
    except (ZeroDivisionError, OverflowError) as error:
        return y, str(error)


@checked(tensor(3), graphs=None)
def test_a_large_integer_beside_a_float(x):
    total = x.sum().item()
    y = x + 1
    try:
        return y, total + 10**400
    except OverflowError as error:
        return y, str(error)


@pytest.mark.parametrize("to_float", [float, lambda n: n + 1.5, lambda n: n / 2], ids=["float", "add", "divide"])
def test_a_product_that_is_too_large_for_a_float(to_float):
    def fn(x):
        n = x.item()
        for _ in range(5):
            n = n * n
        try:
            return x + 1, to_float(n)
        except OverflowError:
            return x - 1

    check(fn, torch.tensor(2**62), others=[(torch.tensor(3),)], graphs=None)
