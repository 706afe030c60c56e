"""Objects whose ``__class__`` is a property, as those of lazy proxies: tracing doesn't read it."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl

CALLS: list[str] = []


class Proxy:
    """Its ``__class__`` is a property."""

    @property
    def __class__(self):
        CALLS.append("__class__")
        return dict


class EqualProxy(Proxy):
    def __hash__(self):
        return 3

    def __eq__(self, other):
        return self is other


@pytest.mark.parametrize("kind", [Proxy, EqualProxy])
@pytest.mark.parametrize(
    "program",
    [
        lambda proxy, proxies: len(proxies),
        lambda proxy, proxies: proxy in proxies,
        lambda proxy, proxies: proxies | {1},
        lambda proxy, proxies: len({proxy, 1}),
        lambda proxy, proxies: set([proxy]) == proxies,
        lambda proxy, proxies: {proxy: 1}[proxy],
        lambda proxy, proxies: hash(proxy) == hash(proxy),
    ],
)
def test_a_class_property_of_set_items_does_not_run(kind, program):
    def step(x, proxy, proxies):
        return x + 1, program(proxy, proxies)

    proxy = kind()
    proxies = {proxy}
    CALLS.clear()
    wanted = step(torch.ones(2), proxy, proxies)
    assert dl.compile(step, backend="eager")(torch.ones(2), proxy, proxies)[1] == wanted[1]
    assert not CALLS
