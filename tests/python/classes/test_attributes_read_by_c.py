"""Attributes that C code reads of an object: how often it reads them, and the very dict that it takes."""

from __future__ import annotations

import copy
import types
from collections import OrderedDict

from collector import Programs
from programs import tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
READ: list[str] = []


class Noting:
    """Records which attributes are read."""

    def __getattribute__(self, name):
        READ.append(name)
        return super().__getattribute__(name)


class NotingDict(Noting, dict):
    pass


class NotingOrdered(Noting, OrderedDict):
    pass


class NotingNamespace(Noting, types.SimpleNamespace):
    pass


class Own(dict):
    """A container whose items are its attributes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class WithState:
    def __init__(self):
        self.a = 1

    def __getstate__(self):
        state = super().__getstate__()
        state["saved"] = True
        return state


def read(run):
    READ.clear()
    return run(), [*READ]


@program()
def update_and_or_look_keys_up_once(x, n):
    made = NotingDict(a=1)
    found = read(lambda: [{"q": 1} | made, {}.update(made), dict(made), {**made}, OrderedDict(made)])
    return x + 1, found


@program()
def an_ordered_dict_reads_keys_of_its_argument_once(x, n):
    made = NotingDict(a=1)
    return x + 1, read(lambda: NotingOrdered(made))


@program(graphs=None)
def isinstance_reads_the_class_of_a_namespace(x, n):
    made = NotingNamespace(a=1)
    return x + 1, read(lambda: isinstance(made, (int, str)))


@program()
def deepcopy_of_a_dict_that_is_its_own_attributes(x, n):
    made = Own(a=1)
    copied = copy.deepcopy(made)
    return x + 1, dict(copied), hasattr(copied, "a"), dict(vars(copied))


@program()
def getstate_is_the_dict_of_the_object(x, n):
    made = WithState()
    copied = copy.copy(made)
    return x + 1, vars(made), vars(copied)


test_program = program.test()
