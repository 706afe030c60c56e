"""Classes that derive from ``property``, such as the lazy properties of distributions."""

from __future__ import annotations

import pytest
import torch

from collector import Programs
from programs import check, checked, tensor, with_gradients

programs = Programs()


class Tagged(property):
    """Counts."""

    def __init__(self, getter, setter=None, tag=None):
        super().__init__(getter, setter)
        self.tag = tag

    def __get__(self, obj, cls=None):
        if obj is None:
            return self
        return super().__get__(obj, cls) + 1


class Refusing(property):
    def __set__(self, obj, value):
        obj.refused = value

    def __delete__(self, obj):
        obj.refused = "deleted"


class Plain(property):
    pass


class Own:
    def __init__(self, value):
        self.value = value

    @Tagged
    def twice(self):
        """Doc of it."""
        return self.value * 2

    @Refusing
    def kept(self):
        return self.value * 3

    @kept.setter
    def kept(self, value):
        self.value = value

    @Plain
    def plain(self):
        return self.value * 5

    @plain.setter
    def plain(self, value):
        self.value = value * 2

    @plain.deleter
    def plain(self):
        self.value = 0


@programs(tensor(2))
def read(x):
    own = Own(x)
    return own.twice, own.kept, own.plain, Own.twice.tag, Own.twice is Own.twice, isinstance(Own.plain, property)


@programs(tensor(2))
def written(x):
    own = Own(x)
    own.plain = 4
    first = own.value
    own.kept = 7
    del own.kept
    second = own.value, own.refused
    del own.plain
    return x + 1, first, second, own.value


@programs(tensor(2))
def functions_of_one(x):
    made = Own.twice
    return made.fget(Own(x)), made.fset, Own.plain.fset is not None, type(made)


@programs(tensor(2), graphs=(0, 2))
def made_inside(x):
    made = Tagged(lambda own: own.value * 4, tag=x)
    return made.__get__(Own(x), Own), made.fget(Own(x)), made.tag, made.fset, isinstance(made, property)


class Hiding:
    def __init__(self, value):
        self.__dict__["size"] = value

    @property
    def size(self):
        return self.__dict__["size"] * 2


@programs(tensor(2))
def hidden_by_the_instance(x):
    made = Hiding(x)
    again = Hiding(x)
    again.__dict__["size"] = x + 1
    return made, made.size, again, again.size


@programs(tensor(2), Hiding(3))
def hidden_in_one_that_was_there(x, hiding):
    hiding.__dict__["size"] = 5
    return x * hiding.size


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("name", ["Categorical", "Bernoulli", "OneHotCategorical", "Geometric"])
def test_distributions_with_lazy_parameters(name, logits):
    def fn(x):
        kind = getattr(torch.distributions, name)
        made = kind(logits=x) if logits else kind(probs=x.softmax(-1))
        value = made.probs if name == "Geometric" else made.mode if name != "Bernoulli" else made.mean
        return made.entropy(), made.probs, made.logits, value

    check(fn, tensor(3, 4), graphs=1)


@checked(tensor(3, 4, grad=True), torch.tensor([0, 3, 1]), graphs=1)
@with_gradients
def test_log_prob_of_a_policy(x, actions):
    policy = torch.distributions.Categorical(logits=x)
    return policy.log_prob(actions).sum() + policy.entropy().mean()


test_properties = programs.test()
