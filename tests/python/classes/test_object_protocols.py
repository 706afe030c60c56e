"""Programs about protocols of classes, modules and code objects."""

from __future__ import annotations

import builtins
import collections
import copy
import enum
import functools
import operator
import sys
import types
import typing

import pytest
import torch

import dynamo_lite as dl
from outcomes import outcomes
from programs import Program, check, checked, tensor

LOG: list[str] = []


class Watched:
    """Logs every read of its attributes."""

    __slots__ = ("x",)

    def __getattribute__(self, name):
        LOG.append(name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        LOG.append(f"missing {name}")
        raise AttributeError(name)


def quiet(fn, *args):
    """Returns what a compiled call makes the argument log."""
    LOG.clear()
    dl.compile(fn, backend="eager")(*args)
    return [name for name in LOG if name != "__class__"], LOG.count("__class__")


@pytest.mark.parametrize(
    "wrap", [lambda each: each, lambda each: [each], lambda each: {"k": each}], ids=["alone", "list", "dict"]
)
def test_passed_along_objects_are_not_inspected(wrap):
    assert quiet(lambda x, each: (x + 1, each), tensor(2), wrap(Watched())) == ([], 0)


def test_slot_that_is_bound_while_traced():
    def fn(x, each):
        each.x = x + 1
        return each.x

    assert quiet(fn, tensor(2), Watched()) == (["x"], 0)


def test_getattribute_that_is_a_descriptor():
    class Counts:
        count = 0

        def __get__(self, owner, cls):
            Counts.count += 1
            return lambda name: name

    class Owner:
        __getattribute__ = Counts()

    dl.compile(lambda x, owner: (x + 1, owner), backend="eager")(tensor(2), Owner())
    assert Counts.count == 0


def test_getattr_of_a_module_is_not_called_while_tracing(monkeypatch):
    made = types.ModuleType("asked")
    asked = []
    made.__getattr__ = lambda name: asked.append(name) or 3
    monkeypatch.setitem(globals(), "ASKED", made)

    def fn(x):
        return x * ASKED.some  # noqa: F821

    assert torch.equal(dl.compile(fn, backend="eager")(torch.ones(2)), torch.full((2,), 3.0))
    assert asked == ["some"]


class Module(types.ModuleType):
    def __getattribute__(self, name):
        if name == "__name__":
            raise AttributeError("no name")
        return types.ModuleType.__getattribute__(self, name)


def test_module_that_finds_its_attributes_another_way():
    def fn(x, module):
        module.y = x + 1
        return module.y * 2

    assert torch.equal(dl.compile(fn, backend="eager")(torch.ones(2), Module("m")), torch.full((2,), 4.0))


@pytest.mark.parametrize("update", [False, True])
def test_keyword_that_is_called_self(update):
    def fn(x, update):
        table = dict(self=x + 1, tx=2)
        if update:
            table.update(self=x * 2, others=3)
        return table

    check(fn, tensor(2), update)


def test_keywords_of_a_constructor_that_our_models_use_too():
    class Thing:
        def __init__(self, **named):
            self.__dict__.update(named)

    def fn(x):
        thing = Thing(cls=x, tx=1, obj=2, args=3)
        named = functools.partial(dict, function=x + 1, tx=thing.tx)(factory=2)
        return thing.__dict__, named, collections.defaultdict(list, factory=x)

    check(fn, tensor(2), graphs=None)


def test_super_of_an_object_with_an_overridden_class():
    class Base:
        def go(self, x):
            return x + 1

    class Child(Base):
        def go(self, x):
            return super().go(x) * 2

    class Proxy:
        def __init__(self, of):
            self.of = of

        @property
        def __class__(self):
            return Child

        def __getattr__(self, name):
            return getattr(self.of, name)

    found = dl.compile(lambda x, proxy: Child.go(proxy, x), backend="eager")(torch.ones(2), Proxy(Child()))
    assert torch.equal(found, torch.full((2,), 4.0))


def test_super_without_its_arguments():
    class Thing:
        def bare():
            super()

        def gone(self):
            del self
            super()

    def fn(x, name):
        try:
            getattr(Thing, name)(*([x] if name == "gone" else []))
        except RuntimeError as error:
            return x + 1, str(error)

    check(fn, tensor(2), "bare", others=[(tensor(2), "gone")], graphs=None)


def test_method_called_while_its_class_is_created():
    with dl.enable("eager"):

        class Meta(type):
            def mro(cls):
                assert cls.__mro__ is None or cls in cls.__mro__
                return type.mro(cls)

        class Made(metaclass=Meta):
            pass

    assert Made.__mro__ == (Made, object)


def foreign(x, y):
    return x[y]


def test_code_with_the_positions_of_other_code():
    def longer(x, y):
        try:
            z = x[y]
            z = z + 1
        except IndexError:
            return None
        return z

    made = types.FunctionType(foreign.__code__.replace(co_code=longer.__code__.co_code * 1), globals())
    given = {"co_consts", "co_names", "co_varnames", "co_nlocals", "co_stacksize", "co_exceptiontable"}
    made.__code__ = made.__code__.replace(**{name: getattr(longer.__code__, name) for name in given})
    found = dl.compile(made, backend="eager")([torch.ones(2)], 0)
    assert torch.equal(found, torch.full((2,), 2.0))


@pytest.mark.parametrize("name", ["len", "isinstance", "iter"])
def test_builtins_replaced_by_the_program(name):
    def fn(x, items):
        return x + len(items)

    compiled = dl.compile(fn, backend="eager")
    before = getattr(builtins, name)
    try:
        if name == "len":
            builtins.len = lambda items: 7
        else:
            delattr(builtins, name)
        found = compiled(torch.ones(2), [1])
    finally:
        setattr(builtins, name, before)
    assert torch.equal(found, torch.ones(2) + (7 if name == "len" else 1))
    assert torch.equal(compiled(torch.ones(2), [1]), torch.full((2,), 2.0))


@pytest.mark.parametrize("is_deleted", [False, True], ids=["replaced", "deleted"])
def test_every_builtin_replaced_by_the_program(is_deleted):
    """The compiler must not call the replacement itself."""

    def replacement(*args, **kwargs):
        return "replaced"

    def call(compiled, x, namespace, name):
        before = namespace[name]
        try:
            if is_deleted:
                del namespace[name]
            else:
                namespace[name] = replacement
            return compiled(x)
        finally:
            namespace[name] = before

    for name, value in list(vars(builtins).items()):
        is_used = type(value) in (type, types.BuiltinFunctionType)
        if is_used and name not in ("print", "open", "input", "breakpoint", "__import__"):
            compiled = dl.compile(lambda x: replacement(x + 1), backend="eager")
            assert call(compiled, torch.ones(2), vars(builtins), name) == "replaced", name
    assert dl.counters.graphs == 0


def test_call_after_sys_getframe_was_deleted():
    def fn(x):
        return x + 1

    compiled = dl.compile(fn, backend="eager")
    before = sys._getframe
    del sys._getframe
    try:
        found = compiled(torch.ones(2))
    finally:
        sys._getframe = before
    assert torch.equal(found, torch.full((2,), 2.0))


def test_deeper_than_the_recursion_limit():
    def down(x, n):
        return down(x, n + 1) if n < sys.maxsize else x

    compiled = dl.compile(down, backend="eager")
    with pytest.raises(RecursionError):
        compiled(torch.ones(2), 0)
    assert operator.eq(sys.exc_info()[0], None)


class Counted(collections.OrderedDict):
    """An OrderedDict that moves read keys to its end, and logs its calls."""

    def __getitem__(self, key):
        LOG.append("getitem")
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value

    def __iter__(self):
        LOG.append("iter")
        return super().__iter__()


def test_dict_that_is_read_by_its_own_methods_alone():
    LOG.clear()
    table = Counted(a=1, b=2, c=3)
    dl.compile(lambda x, table: (x + len(table), table), backend="eager")(tensor(2), table)
    assert LOG == []
    assert list(collections.OrderedDict.keys(table)) == ["a", "b", "c"]


class Pair(collections.namedtuple("Pair", "a b")):
    def __iter__(self):
        LOG.append("iter")
        return iter(())


def test_namedtuple_that_is_read_by_its_own_methods_alone():
    LOG.clear()
    dl.compile(lambda x, pair: x + pair.a, backend="eager")(tensor(2), Pair(1, 2))
    assert LOG == []


def test_namespaces_computed_by_metaclasses():
    class Meta(type):
        @property
        def __dict__(cls):
            return None

    class Made(metaclass=Meta):
        factor = 3

        @property
        def __dict__(self):
            LOG.append("dict")
            return {}

    LOG.clear()
    fn = dl.compile(lambda x, made: x * made.factor, backend="eager")
    assert torch.equal(fn(torch.ones(2), Made()), torch.full((2,), 3.0))
    assert LOG == []


USES = [
    ("__len__", lambda self: 0, lambda thing: 1 if thing else 2),
    ("__call__", lambda self: 3, lambda thing: callable(thing)),
    ("__getitem__", lambda self, at: "ab"[at], lambda thing: list(thing)),
    ("__iter__", lambda self: iter([1]), lambda thing: 1 in thing),
    ("__index__", lambda self: 2, lambda thing: [1] * thing),
    ("__reversed__", lambda self: iter([1]), lambda thing: list(reversed(thing))),
    ("__enter__", lambda self: self, lambda thing: enter(thing)),
    ("__length_hint__", lambda self: 3, lambda thing: operator.length_hint(thing, 7)),
    ("__hash__", lambda self: 1, lambda thing: len({thing, thing})),
    ("__init__", lambda self: setattr(self, "made", 1), lambda thing: hasattr(type(thing)(), "made")),
    ("__copy__", lambda self: 5, lambda thing: copy.copy(thing) == 5),
    ("__deepcopy__", lambda self, memo: 5, lambda thing: copy.deepcopy(thing) == 5),
]


def enter(thing):
    with thing:
        return 1


@pytest.mark.parametrize("name, method, use", USES, ids=[row[0] for row in USES])
def test_class_is_given_a_method_between_calls(name, method, use):
    class Thing:
        pass

    def fn(x, thing):
        try:
            return x + 1, use(thing)
        except TypeError as error:
            return x - 1, str(error)

    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        found, expected = compiled(tensor(2), Thing()), fn(tensor(2), Thing())
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]
        setattr(Thing, name, method)


class Hooked(type):
    def __getattribute__(cls, name):
        return "hooked" if name == "extra" else super().__getattribute__(name)


class OfHooked(metaclass=Hooked):
    extra = 1
    other = 2


@checked(tensor(2), graphs=None)
def test_metaclass_computes_attributes_of_its_classes(x):
    return x + 1, OfHooked.extra, OfHooked.other


@pytest.mark.parametrize("name, value", [("missing", 2), ("__getattr__", lambda cls, name: 3)])
def test_metaclass_is_given_an_attribute_between_calls(name, value):
    meta = type("Meta", (type,), {})
    cls = meta("Class", (), {})

    def fn(x):
        return x + getattr(cls, "missing", 1)

    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(tensor(2)), fn(tensor(2)))
        setattr(meta, name, value)


@typing.runtime_checkable
class HasData(typing.Protocol):
    name: str


@typing.runtime_checkable
class HasMethod(typing.Protocol):
    def method(self): ...


class Members:
    def __init__(self):
        self.name = "a"
        self.method = len


class WithMethod:
    def method(self):
        return 1


@pytest.mark.parametrize("protocol", [HasData, HasMethod])
@pytest.mark.parametrize("kind", [Members, WithMethod])
def test_instance_of_a_protocol(kind, protocol):
    def fn(x, kind, protocol):
        return x + 1, isinstance(kind(), protocol)

    check(fn, tensor(2), kind, protocol, graphs=None, breaks=None)


class Assigned:
    def __init__(self, **members):
        self.__dict__.update(members)


class Blocked:
    method = None


class Computed:
    @property
    def method(self):
        raise AttributeError


@typing.runtime_checkable
class HasForward(typing.Protocol):
    def forward(self, x): ...


def test_instances_of_protocols_with_methods_only():
    def fn(x, values):
        return x + 1, [(isinstance(each, HasMethod), isinstance(each, HasForward)) for each in values]

    module = torch.nn.Linear(2, 2)
    module.method = len
    values = [Members(), WithMethod(), Assigned(), Assigned(method=None), Assigned(method=1), Blocked(), module]
    check(fn, tensor(2), [*values, 3, "a", [1], tensor(2), torch.nn.Linear(2, 2)])


def test_instance_of_a_protocol_that_reads_a_property():
    def fn(x, value):
        return x + 1, isinstance(value, HasMethod)

    check(fn, tensor(2), Computed())


def test_instance_of_a_protocol_changes():
    def fn(x, value):
        return x + isinstance(value, HasMethod)

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    value = Assigned()
    for change in (lambda: None, lambda: setattr(value, "method", len), lambda: delattr(value, "method")):
        change()
        assert torch.equal(compiled(tensor(2), value), fn(tensor(2), value))
    late = type("Late", (), {})()
    assert torch.equal(compiled(tensor(2), late), fn(tensor(2), late))
    HasMethod.register(type(late))
    assert torch.equal(compiled(tensor(2), late), fn(tensor(2), late))


def take(*args, **named):
    return args, named


@pytest.mark.parametrize("function", [take, dict])
def test_arguments_that_can_not_be_unpacked(function):
    def fn(x, function):
        return x + 1, outcomes(
            lambda: function(*5),
            lambda: function(1, *5),
            lambda: function(**5),
            lambda: function(a=1, **5),
            lambda: function(a=1, **{"a": 2}),
            lambda: function(**{"a": 1}, **{"a": 2}),
            lambda: function(**{1: 2}),
        )

    check(fn, tensor(2), function, graphs=None)


def test_class_is_given_a_method_that_its_base_has_in_c():
    class Items(list):
        pass

    def fn(x, items):
        items.append(1)
        return x + 1

    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        found, expected = Items(), Items()
        assert torch.equal(compiled(tensor(2), found), fn(tensor(2), expected)) and found == expected
        Items.append = lambda self, item: None


class TakesAll(type):
    def __subclasscheck__(cls, other):
        LOG.append("subclass")
        return other is not str and super().__subclasscheck__(other) or other is int


class SaysYes(type):
    def __instancecheck__(cls, value):
        LOG.append("instance")
        return super().__instancecheck__(value) or value == 3


class Taking(metaclass=TakesAll):
    pass


class Yes(metaclass=SaysYes):
    pass


class Proxy:
    @property
    def __class__(self):
        return int


PROXY = Proxy()


class Level(enum.Enum):
    LOW = 1

    @property
    def value(self):
        LOG.append("asked")
        return 9


def issubclass_of_a_class_that_takes_all(x):
    return x + 1, issubclass(int, Taking), issubclass(str, Taking), isinstance(3, Taking)


def isinstance_of_a_class_that_says_yes(x):
    return x + 1, isinstance(3, Yes), isinstance(4, Yes), isinstance(Yes(), Yes)


def value_of_an_enumeration_that_computes_it(x):
    return x + Level.LOW.value, Level.LOW.name, Level.LOW._value_


@pytest.mark.parametrize(
    "program",
    [
        issubclass_of_a_class_that_takes_all,
        isinstance_of_a_class_that_says_yes,
        value_of_an_enumeration_that_computes_it,
    ],
)
def test_code_of_classes_runs_in_each_call(program):
    check(Program(program, watched=["LOG"], calls=3, recompiles=True), tensor(2), graphs=None, breaks=None)


@pytest.mark.parametrize("given", [False, True])
def test_object_that_says_that_it_is_of_another_class(given):
    def fn(x, given):
        value = PROXY if given else Proxy()
        return x + 1, isinstance(value, int), isinstance(value, (str, Proxy)), isinstance(value, (str, bytes))

    check(fn, tensor(2), given)


class Disguised:
    def __getattribute__(self, name):
        return int if name == "__class__" else object.__getattribute__(self, name)


DISGUISED = Disguised()


@checked(tensor(3))
def test_isinstance_reads_the_class_as_the_object_gives_it(x):
    return x + 1, *(isinstance(DISGUISED, cls) for cls in (int, Disguised, str))


class Countdown:
    def __init__(self):
        self.log = []

    def __len__(self):
        self.log.append("len")
        return 4

    def __getitem__(self, at):
        self.log.append(at)
        if at == 0:
            raise IndexError
        return at


@pytest.mark.parametrize("last", [0, 2])
def test_reversed_reads_an_item_when_it_is_asked_for(last):
    def fn(x, thing):
        backwards = reversed(thing)
        thing.log.append("made")
        for each in backwards:
            thing.log.append("body")
            x = x + each
            if each == last:
                break
        return x, thing.log

    check(fn, tensor(3), Countdown(), breaks=0)
