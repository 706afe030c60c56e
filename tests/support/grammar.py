"""Grammar-made programs, as source text: a function ``fn`` with the classes and globals it uses.

Programs end, and do the same on each run. Names have a kind (tensors ``a b c``, ints ``n m``, lists ``items other``, a
dict ``table``, a set ``seen``, a ``text``, objects ``thing twin``, functions ``f``, iterators ``g``) and are bound at
the start, so that any statement may use any name and a failing program stays one when statements are taken out of it.
Programs that raise are welcome.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

PARAMETERS = ("a", "b", "n", "items", "table", "thing")
BOUND_FIRST = {
    "c": "c = a * 2",
    "m": "m = n + 1",
    "other": "other = items",
    "seen": "seen = {n, 7}",
    "twin": "twin = Thing(b, n)",
    "f": "f = lambda v: v + n",
    "g": "g = (v * 2 for v in items)",
    "text": "text = f'{n}ab'",
}
"""Statements that bind the other names, for those that a program uses."""

MODULE = {
    "LOG": "LOG = []",
    "COUNT": "COUNT = 0",
    "STATE": "STATE = torch.ones(2, 2)",
    "Trouble": "class Trouble(Exception):\n    pass",
    "Thing": """\
class Thing:
    kind = "thing"

    def __init__(self, value, count=0):
        self.value = value
        self.count = count

    def __repr__(self):
        return f"Thing({self.count})"

    def bump(self, by=1):
        self.count += by
        return self

    def scale(self, v):
        return v * self.count

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, v):
        self.value = v / 2

    def __call__(self, v):
        return v + self.value

    def __len__(self):
        return 2

    def __getitem__(self, at):
        return (self.value, self.count)[at]

    def __eq__(self, other):
        return isinstance(other, Thing) and self.count == other.count

    def __add__(self, v):
        return self.value + v

    __radd__ = __add__

    def __iadd__(self, by):
        self.count += 1
        self.value = self.value + by
        return self""",
    "Child": """\
class Child(Thing):
    def __init__(self, value, count=0):
        super().__init__(value * 2, count)
        self.extra = []

    def bump(self, by=1):
        self.extra.append(by)
        return super().bump(by + 1)

    def __getattr__(self, name):
        if name == "missing":
            return len(self.extra)
        raise AttributeError(name)""",
    "Manager": """\
class Manager:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append("exit" if kind is None else kind.__name__)
        return self.swallow""",
    "managed": """\
@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield len(log)
    finally:
        log.append("out")""",
    "count_to": """\
def count_to(k, v):
    for i in range(k):
        got = yield v + i
        if got is not None:
            v = v + got
    return v""",
    "relay": """\
def relay(k, v):
    last = yield from count_to(k, v)
    yield last""",
    "noisy": """\
def noisy(v):
    print("noisy")
    return v + 1""",
    "broken": """\
def broken(v, log):
    log.append(1)
    dl.graph_break()
    return v * 3""",
}
"""What a program may refer to of its module."""

USES = {"relay": ("count_to",), "Child": ("Thing",)}


@dataclass
class Block:
    """The kind of block in which a statement is placed."""

    depth: int = 0
    loop: bool = False
    returns: bool = True
    nested: int = 0
    handler: bool = False
    generator: bool = False

    def inner(self, **changes: Any) -> Block:
        return Block(**{**self.__dict__, "depth": self.depth + 1, **changes})


@dataclass
class Writer:
    """Draws the parts of a program."""

    draw: Any
    statements: int = 0
    counter: int = 0
    helpers: list[str] = field(default_factory=list)

    def pick(self, *choices: Any) -> Any:
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    def flip(self) -> bool:
        return self.draw(st.booleans())

    def fresh(self, name: str) -> str:
        self.counter += 1
        return f"{name}{self.counter}"

    # -- expressions -----------------------------------------------------------------------------------------------

    def tensor(self, depth: int = 2) -> str:
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            return self.pick("a", "b", "c")
        form = self.pick(*TENSORS)
        return form(self, depth - 1)

    def number(self, depth: int = 1) -> str:
        if depth == 0 or self.flip():
            return self.pick("1", "n", "m", "0", "2", "-1")
        return self.pick(*NUMBERS)(self, depth - 1)

    def truth(self, depth: int = 1) -> str:
        return self.pick(*TRUTHS)(self, depth)

    def sequence(self) -> str:
        return self.pick(*SEQUENCES)(self)

    def value(self) -> str:
        return self.pick(self.tensor, self.number, self.tensor)(1)

    def any_value(self) -> str:
        return self.pick(self.value, self.value, self.sequence, lambda: self.pick(*OBJECTS))()

    def key(self) -> str:
        return self.pick("'k'", "'a'", "n", "'b'", "(n, 1)")

    # -- statements ------------------------------------------------------------------------------------------------

    def block(self, block: Block, most: int = 3) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, most))):
            lines += self.statement(block)
        return lines or ["pass"]

    def statement(self, block: Block) -> list[str]:
        self.statements += 1
        if self.statements > 30 or block.depth >= 4 or self.draw(st.integers(0, 2)):
            return self.pick(*SIMPLE)(self)
        return self.pick(*COMPOUND)(self, block)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


TENSORS = (
    lambda w, d: f"({w.tensor(d)} + {w.tensor(d)})",
    lambda w, d: f"({w.tensor(d)} * {w.number(d)})",
    lambda w, d: f"{w.tensor(d)}.sin()",
    lambda w, d: f"torch.relu({w.tensor(d)})",
    lambda w, d: f"({w.tensor(d)} - {w.tensor(d)}.sum())",
    lambda w, d: f"{w.tensor(d)}[{w.pick('0', ':1', '..., 0', 'None', '-1')}]",
    lambda w, d: f"{w.tensor(d)}.t()",
    lambda w, d: f"{w.tensor(d)}.view(-1)[:2]",
    lambda w, d: f"({w.tensor(d)} @ {w.tensor(d)})",
    lambda w, d: f"{w.tensor(d)}.clone()",
    lambda w, d: f"{w.tensor(d)}.detach()",
    lambda w, d: f"torch.where({w.tensor(d)} > 0, {w.tensor(d)}, {w.number(d)})",
    lambda w, d: f"torch.stack([{w.tensor(d)}, {w.tensor(d)}])[{w.number(d)}]",
    lambda w, d: f"({w.tensor(d)} if {w.truth(d)} else {w.tensor(d)})",
    lambda w, d: f"torch.full((2,), {w.number(d)} * 1.5)",
    lambda w, d: "torch.rand(2)",
    lambda w, d: "STATE",
    lambda w, d: f"{w.pick('thing', 'twin')}.{w.pick('value', 'double', 'missing', 'extra')}",
    lambda w, d: f"{w.pick('thing', 'twin')}.scale({w.tensor(d)})",
    lambda w, d: f"{w.pick('thing', 'twin', 'f')}({w.tensor(d)})",
    lambda w, d: f"{w.pick('items', 'other')}[{w.pick('0', '-1', 'n', '1')}]",
    lambda w, d: f"table[{w.key()}]",
    lambda w, d: f"table.get({w.key()}, {w.tensor(d)})",
    lambda w, d: f"noisy({w.tensor(d)})",
    lambda w, d: f"broken({w.tensor(d)}, {w.pick('items', 'LOG', 'other')})",
    lambda w, d: f"sum([{w.tensor(d)}, {w.tensor(d)}])",
    lambda w, d: f"sum(v for v in [{w.tensor(d)}, {w.number(d)}])",
    lambda w, d: f"(lambda v, k={w.number(d)}: v * k)({w.tensor(d)})",
    lambda w, d: f"next(g, {w.tensor(d)})",
    lambda w, d: f"({w.pick('a', 'b', 'c')} := {w.tensor(d)})",
    lambda w, d: f"({w.pick('thing', 'twin')} + {w.tensor(d)})",
    lambda w, d: f"{w.tensor(d)}.{w.pick('add_', 'mul_', 'sub_')}({w.number(d)})",
    lambda w, d: f"{w.tensor(d)}.data",
    lambda w, d: f"getattr({w.pick('thing', 'twin')}, {w.pick(repr('value'), repr('absent'))}, {w.tensor(d)})",
)

NUMBERS = (
    lambda w, d: f"({w.number(d)} + {w.number(d)})",
    lambda w, d: f"({w.number(d)} * 2)",
    lambda w, d: f"({w.number(d)} % 3)",
    lambda w, d: f"{w.tensor(d)}.dim()",
    lambda w, d: f"{w.tensor(d)}.shape[0]",
    lambda w, d: f"len({w.pick('items', 'table', 'seen', 'thing', 'LOG', 'other')})",
    lambda w, d: f"{w.pick('thing', 'twin')}.count",
    lambda w, d: "COUNT",
    lambda w, d: f"int({w.tensor(d)}.sum() > 0)",
    lambda w, d: f"round({w.tensor(d)}.sum().item(), 2)",
    lambda w, d: f"({w.number(d)} or {w.number(d)})",
    lambda w, d: f"({w.pick('n', 'm')} := {w.number(d)})",
    lambda w, d: f"max({w.number(d)}, {w.number(d)})",
    lambda w, d: f"len([v for v in {w.pick('items', 'other', 'seen')} if {w.truth(0)}])",
    lambda w, d: f"len(f'{{{w.number(0)}}}ab')",
    lambda w, d: f"{w.pick('thing.__dict__', 'vars(twin)')}.get('count', {w.number(0)})",
    lambda w, d: "globals()['COUNT']",
    lambda w, d: f"len({w.pick('thing', 'twin')}.extra)",
    lambda w, d: f"({w.number(d)} * {w.pick('1000', '0.5', '1j.imag')})",
)

TRUTHS = (
    lambda w, d: f"{w.number(d)} > {w.number(d)}",
    lambda w, d: f"{w.tensor(d)}.sum() > {w.number(0)}",
    lambda w, d: w.pick("items", "not items", "seen", "table", "thing", "not LOG"),
    lambda w, d: f"{w.key()} in table",
    lambda w, d: f"{w.pick('a', 'b', 'c')} is {w.pick('b', 'a', 'c', 'None')}",
    lambda w, d: f"{w.pick('items', 'thing', 'thing')} {w.pick('is', 'is not', '==')} {w.pick('other', 'twin')}",
    lambda w, d: f"isinstance({w.pick('thing', 'twin', 'a', 'n')}, {w.pick('Thing', 'Child', 'torch.Tensor')})",
    lambda w, d: f"0 <= {w.number(d)} < 3",
    lambda w, d: f"any(v is a for v in {w.pick('items', 'other')})",
    lambda w, d: f"{w.number(0)} in seen",
    lambda w, d: f"hasattr(thing, {w.pick(repr('value'), repr('absent'))})",
    lambda w, d: f"({w.truth(d - 1)} {w.pick('and', 'or')} {w.truth(d - 1)})" if d > 0 else "n",
    lambda w, d: "torch.is_grad_enabled()",
    lambda w, d: f"{w.tensor(d)}.requires_grad",
    # No `is` of equal texts or numbers: whether two are one object is not promised.
    lambda w, d: f"f'{{n}}ab' {w.pick('==', '!=')} {w.pick('text', repr('3ab'))}",
    lambda w, d: f"{w.pick('n', 'm')} {w.pick('== m', '== n', '!= m * 1000', 'is None', 'is not None')}",
    lambda w, d: f"{w.pick('thing', 'twin')}.extra is {w.pick('items', 'other')}",
)

SEQUENCES = (
    lambda w: f"[{w.value()}, {w.value()}]",
    lambda w: f"{w.pick('items', 'other')}[{w.pick('1:', ':2', '::-1', ':')}]",
    lambda w: f"({w.value()}, {w.value()})",
    lambda w: f"[v * 2 for v in {w.pick('items', 'other')}[:3]]",
    lambda w: f"[{w.value()} for k in range({w.pick('2', 'n % 3')})]",
    lambda w: f"list({w.pick('table', 'table.values()', 'table.items()', 'items')})",
    lambda w: f"[*{w.pick('items', 'other')}[:2], {w.value()}]",
    lambda w: f"list({w.pick('count_to', 'relay')}({w.pick('2', 'n % 3')}, {w.value()}))",
    lambda w: f"list(zip({w.pick('items', 'other')}, ({w.value()}, {w.value()})))",
    lambda w: f"[v for v in {w.pick('items', 'other')}[:4] if {w.truth()}]",
    lambda w: f"[(lambda v=v: {w.pick('v', 'n', 'a')}) for v in {w.pick('items', 'range(2)')}]",
    lambda w: f"[(lambda: {w.pick('v', 'k', 'n')}) for k, v in enumerate({w.pick('items', 'other')})]",
    lambda w: f"sorted([{w.number()}, {w.number()}], reverse={w.flip()})",
    lambda w: f"list(map(f, {w.pick('items', 'other')}[:3]))",
    lambda w: "list(g)",
)

OBJECTS = ("thing", "twin", "items", "other", "table", "f", "seen", "None", "'text'", "g", "Thing", "text", "n * 1000")

SIMPLE = (
    lambda w: [f"{w.pick('a', 'b', 'c')} = {w.tensor()}"],
    lambda w: [f"{w.pick('n', 'm')} = {w.number()}"],
    lambda w: [f"{w.pick('a', 'b', 'c')} {w.pick('+=', '*=', '-=')} {w.value()}"],
    lambda w: [f"{w.pick('n', 'm')} {w.pick('+=', '-=')} {w.number()}"],
    lambda w: [f"{w.tensor(1)}.{w.pick('add_', 'mul_', 'copy_', 'sub_')}({w.pick('n', '2', 'a', 'b', '1.5')})"],
    lambda w: [f"{w.pick('a', 'b', 'c')}[{w.pick('0', ':', '..., 1', 'n')}] {w.pick('=', '+=')} {w.value()}"],
    lambda w: [f"a, b = {w.pick('b, a', 'c, a', w.sequence())}"],
    lambda w: [f"{w.pick('a', 'items[0]')}, *{w.pick('other', 'items')} = {w.sequence()}"],
    lambda w: [f"{w.pick('a', 'b')} = {w.pick('c', 'items[0]', 'thing.value')} = {w.tensor()}"],
    lambda w: [f"{w.pick('items', 'other')}.append({w.any_value()})"],
    lambda w: [f"{w.pick('items', 'other')}.{w.pick('pop()', 'pop(0)', 'reverse()', 'clear()')}"],
    lambda w: [f"{w.pick('items', 'other')}.insert({w.number()}, {w.value()})"],
    lambda w: [f"{w.pick('items', 'other')} = {w.pick(w.sequence(), 'items', 'other', '[]', 'LOG')}"],
    lambda w: [f"{w.pick('items', 'other', 'LOG')} += {w.sequence()}[:2]"],
    lambda w: [f"{w.pick('items', 'other')}[{w.pick('0', '-1', 'n')}] {w.pick('=', '+=')} {w.value()}"],
    lambda w: [f"{w.pick('items', 'other')}[{w.pick(':1', '1:', '::2')}] = {w.sequence()}"],
    lambda w: [f"table[{w.key()}] {w.pick('=', '=', '+=')} {w.any_value()}"],
    lambda w: [f"table.{w.pick('pop', 'setdefault')}({w.key()}, {w.value()})"],
    lambda w: [f"table.update(k={w.value()}, z={w.number()})"],
    lambda w: [f"table = {{{w.key()}: {w.value()}, **table}}"],
    lambda w: [f"table = {{k: v for k, v in table.items() if {w.truth()}}}"],
    lambda w: [f"seen.{w.pick('add', 'discard', 'remove')}({w.number()})"],
    lambda w: [f"seen {w.pick('|=', '-=', '&=')} {{{w.number()}, 3}}"],
    lambda w: [f"thing.{w.pick('value', 'double', 'extra')} {w.pick('=', '+=')} {w.value()}"],
    lambda w: [f"{w.pick('thing', 'twin')}.count {w.pick('=', '+=')} {w.number()}"],
    lambda w: [f"{w.pick('thing', 'twin')}.bump({w.pick('', 'n', '2')}){w.pick('', '.bump()', '.fresh')}"],
    lambda w: [f"{w.pick('thing', 'twin')} = {w.pick('thing', 'twin', f'Thing({w.any_value()}, {w.number()})')}"],
    lambda w: [f"{w.pick('thing', 'twin')} = Child({w.tensor()}, {w.number()})"],
    lambda w: [f"{w.pick('thing', 'twin')} += {w.value()}"],
    lambda w: [f"setattr(thing, {w.pick(repr('value'), repr('made'))}, {w.any_value()})"],
    lambda w: [f"del {w.pick('thing.value', 'items[0]', 'table[n]', 'thing.count', 'items[1:]', 'COUNT')}"],
    lambda w: [f"LOG.append({w.any_value()})"],
    lambda w: ["COUNT += 1"],
    lambda w: [f"COUNT = {w.number()}"],
    lambda w: [f"STATE.{w.pick('add_(1)', 'mul_(n)', 'zero_()')}"],
    lambda w: [f"STATE = {w.tensor()}"],
    lambda w: [f"print({w.pick('n', 'len(items)', w.value(), 'sorted(map(str, table))')})"],
    lambda w: ["dl.graph_break()"],
    lambda w: [f"m = {w.pick('a', 'b')}.sum().item()"],
    lambda w: [f"assert {w.truth()}, {w.number()}"],
    lambda w: [f"g = {w.pick('count_to', 'relay')}({w.pick('3', 'n % 4')}, {w.value()})"],
    lambda w: [f"g = ({w.pick('v', 'v * n', 'a')} for v in {w.pick('items', 'other', 'g')} if {w.truth()})"],
    lambda w: [f"g = iter({w.pick('items', 'other', 'table.values()', 'range(3)')})"],
    lambda w: [f"other.append(next(g{w.pick('', ', n')}))"],
    lambda w: [f"items.append(g.{w.pick(f'send({w.value()})', 'throw(Trouble(1))', 'close()', 'send(None)')})"],
    lambda w: [f"f = lambda v{w.pick('', ', k=n', ', *rest')}: {w.pick('v * n', 'v + a', 'v + COUNT', '(v, m)[0]')}"],
    lambda w: [f"f = {w.pick('thing.scale', 'thing', 'thing.bump', 'torch.sin', 'noisy', 'list')}"],
    lambda w: [f"{w.pick('other', 'items')}.append(f)"],
    lambda w: [f"f = functools.partial(f, {w.value()})"],
    lambda w: [f"g = iter({w.pick(repr('abé'), 'seen', 'b' + repr('ab'), '{301, 302}')})"],
    lambda w: [f"g = {w.pick('map(f, items[:3])', 'filter(None, [n, m])', 'reversed(items)', 'zip(items, text)')}"],
    lambda w: [f"text = {w.pick(repr('3ab'), 'f' + repr('{n}ab'), 'text + ' + repr('c'), 'text[:2]', 'str(n)')}"],
    lambda w: [f"{w.pick('thing', 'twin')}.extra.append({w.any_value()})"],
    lambda w: [f"{w.pick('thing', 'twin')}.extra = {w.pick('items', 'other', '[n]')}"],
    lambda w: [f"{w.pick('thing.__dict__', 'vars(twin)')}['count'] {w.pick('=', '+=')} {w.number()}"],
    lambda w: [f"globals()['COUNT'] = {w.number()}"],
    lambda w: ["table = thing.__dict__"],
    lambda w: [f"a.requires_grad_({w.pick('', 'False')})"],
    lambda w: [f"torch.manual_seed({w.number()})"],
)


def _if(w: Writer, block: Block) -> list[str]:
    lines = [f"if {w.truth()}:", *indented(w.block(block.inner()))]
    if w.flip():
        lines += [f"elif {w.truth()}:", *indented(w.block(block.inner()))]
    if w.flip():
        lines += ["else:", *indented(w.block(block.inner()))]
    return lines


def _leave(w: Writer, block: Block) -> list[str]:
    """Draws a statement that leaves the block, if one is allowed."""
    choices = ["raise ValueError(n)", f"raise Trouble({w.value()})", "raise KeyError('k') from None", "raise Trouble"]
    if block.loop:
        choices += ["break", "continue", "break", "continue"]
    if block.handler:
        choices += ["raise", "raise Trouble(1) from error"]
    if block.returns:
        choices += [f"return {w.any_value()}"] * 2
    if block.generator:
        choices += [f"yield {w.value()}"] * 4
    chosen = w.pick(*choices)
    return [f"if {w.truth()}:", "    " + chosen] if w.flip() else [chosen]


def _for(w: Writer, block: Block) -> list[str]:
    over, target = w.pick(
        ("range(3)", "k"),
        ("items", "v"),
        ("other[:3]", "v"),
        ("enumerate(items[:3])", "k, v"),
        ("zip(items[:3], [1, 2, 3])", "v, k"),
        ("table.items()", "k, v"),
        ("list(table)", "k"),
        ("reversed(items)", "v"),
        ("(a, b, c)", "v"),
        ("count_to(3, a)", "a"),
        ("relay(2, n)", "n"),
        ("g", "v"),
        ("a", "b"),
        ("range(n % 3)", "n"),
        ("seen", "n"),
        ("'abé'", "text"),
        ("b'ab'", "n"),
        ("{301, 302}", "m"),
        ("map(f, items[:2])", "v"),
        ("vars(thing)", "text"),
    )
    number = w.fresh("turn")
    head = [f"{number} = 0"] if over in ("items", "g", "reversed(items)") else []
    body = [f"{number} += 1", f"if {number} > 4:", "    break"] if head else []
    body += w.block(block.inner(loop=True))
    if w.flip():
        body += [w.pick("c = c + a", "other.append(a)", "n += 1", "print(n)", "dl.graph_break()")]
    lines = [*head, f"for {target} in {over}:", *indented(body)]
    if w.draw(st.integers(0, 3)) == 3:
        lines += ["else:", *indented(w.block(block.inner()))]
    return lines


def _while(w: Writer, block: Block) -> list[str]:
    number = w.fresh("turn")
    body = [f"{number} += 1", *w.block(block.inner(loop=True))]
    extra = w.pick("", "", f" and ({w.truth()})")
    lines = [f"{number} = 0", f"while {number} < {w.pick('3', '2')}{extra}:", *indented(body)]
    if w.draw(st.integers(0, 3)) == 3:
        lines += ["else:", *indented(w.block(block.inner()))]
    return lines


def _try(w: Writer, block: Block) -> list[str]:
    lines = ["try:", *indented(w.block(block.inner()))]
    handled = w.draw(st.integers(0, 4)) < 4
    if handled:
        for _ in range(w.draw(st.integers(1, 2))):
            kinds = w.pick("Exception", "ValueError", "(KeyError, IndexError)", "Trouble", "RuntimeError", "TypeError")
            body = w.block(block.inner(handler=True), 2)
            if w.flip():
                body += [w.pick("LOG.append(type(error))", "other.append(error.args)", "print(type(error))")]
            lines += [f"except {kinds} as error:", *indented(body)]
        if w.flip():
            lines += ["else:", *indented(w.block(block.inner(), 2))]
    if not handled or w.flip():
        lines += ["finally:", *indented(w.block(block.inner(), 2))]
    return lines


def _with(w: Writer, block: Block) -> list[str]:
    manager = w.pick(
        "Manager(LOG)",
        "Manager(items, True)",
        "torch.no_grad()",
        "managed(LOG) as n",
        "contextlib.suppress(Trouble, TypeError)",
        "torch.enable_grad()",
        "Manager(other) as twin",
        "contextlib.nullcontext(a) as b",
        "torch.set_grad_enabled(n > 1)",
        "torch.autocast('cpu', dtype=torch.bfloat16)",
        "torch.inference_mode()",
        "Manager(LOG), torch.no_grad()",
        "contextlib.ExitStack() as stack",
    )
    body = w.block(block.inner())
    if manager.endswith("stack"):
        body = [f"stack.enter_context({w.pick('Manager(LOG)', 'managed(LOG)')})", *body]
    return [f"with {manager}:", *indented(body)]


def _match(w: Writer, block: Block) -> list[str]:
    lines = [f"match {w.pick('n', 'items', 'table', 'thing', '(n, a)')}:"]
    for _ in range(w.draw(st.integers(1, 2))):
        case = w.pick("0 | 1", "[a, *other]", "{'a': b, **rest}", "Thing(count=n)", "(int(), b)", "[_, _]", "int(m)")
        guard = w.pick("", "", f" if {w.truth()}")
        lines += indented([f"case {case}{guard}:", *indented(w.block(block.inner(), 2))])
    return [*lines, *indented(["case _:", *indented(w.block(block.inner(), 2))])]


NAMES = (*PARAMETERS, *BOUND_FIRST)


def stored(lines: list[str]) -> list[str]:
    """Returns the names of the grammar that these statements bind, except in nested functions."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.Lambda)):
                continue
            if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
                found.add(child.id)
            if isinstance(child, (ast.MatchStar, ast.MatchAs)) and child.name:
                found.add(child.name)
            visit(child)

    visit(ast.parse("def _():\n" + "\n".join(indented(lines))).body[0])
    return [name for name in (*NAMES, "COUNT", "STATE", "LOG") if name in found]


def _declared(lines: list[str], as_nonlocal: bool) -> tuple[list[str], list[str]]:
    """Declarations for a function body, and the names that are to be its parameters instead."""
    names = stored(lines)
    shared = [name for name in names if name.isupper()]
    own = [name for name in names if not name.isupper()]
    heads = [f"global {', '.join(shared)}"] if shared else []
    if own and as_nonlocal:
        heads.append(f"nonlocal {', '.join(own)}")
    return heads, [] if as_nonlocal else own


def _closure(w: Writer, block: Block) -> list[str]:
    if block.nested >= 2:
        return w.pick(*SIMPLE)(w)
    name = w.fresh("inner")
    body = w.block(Block(depth=block.depth + 1, nested=block.nested + 1))
    heads, own = _declared(body, w.flip())
    parameters = ", ".join(["v", *(f"{each}={each}" for each in own if each != "v")])
    lines = [f"def {name}({parameters}):", *indented([*heads, *body, f"return {w.value()}"])]
    uses = (
        f"c = {name}({w.value()})",
        f"f = {name}",
        f"items.append({name}(n))",
        f"other.append({name})",
        f"{name}(a)",
    )
    return [*lines, w.pick(*uses)]


def _generator(w: Writer, block: Block) -> list[str]:
    if block.nested >= 2:
        return w.pick(*SIMPLE)(w)
    name = w.fresh("produce")
    body = w.block(Block(depth=block.depth + 1, nested=block.nested + 1, generator=True))
    body.insert(w.draw(st.integers(0, 1)) * len(body), f"yield {w.value()}")
    heads, own = _declared(body, w.flip())
    parameters = ", ".join(f"{each}={each}" for each in own)
    lines = [f"def {name}({parameters}):", *indented([*heads, *body])]
    uses = (f"g = {name}()", f"items.extend({name}())", f"for v in {name}():\n    c = c + v", f"a, *other = {name}()")
    return [*lines, *w.pick(*uses).split("\n")]


def _helper(w: Writer, block: Block) -> list[str]:
    """Writes a function of the module with its own body."""
    if len(w.helpers) >= 2 or block.nested:
        return w.pick(*SIMPLE)(w)
    name = w.fresh("helper")
    w.helpers.append(name)
    body = w.block(Block(depth=block.depth, nested=1))
    heads, _ = _declared(body, False)
    lines = [*heads, *prologue(body), *body, f"return {w.any_value()}"]
    w.helpers[w.helpers.index(name)] = "\n".join([f"def {name}({', '.join(PARAMETERS)}):", *indented(lines)])
    target = w.pick("c", "other", "a", "n", "table")
    return [f"{target} = {name}({w.tensor(1)}, b, {w.number()}, {w.pick('items', 'other', '[a]')}, table, thing)"]


COMPOUND = (_if, _for, _while, _try, _with, _leave, _closure, _generator, _helper, _match, _if, _for, _try, _closure)


def used(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def prologue(body: list[str]) -> list[str]:
    """Binds the names that a body uses."""
    names = used("\n".join(body))
    return [line for name, line in BOUND_FIRST.items() if name in names]


@dataclass(frozen=True)
class Made:
    """A program: its source, and the parameters of its ``fn``."""

    source: str
    parameters: tuple[str, ...]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("<the program>")


def assemble(w: Writer, body: list[str]) -> Made:
    heads, _ = _declared(body, False)
    names = [name for name in NAMES if name in used("\n".join(body))]
    body = [*prologue(body), *body]
    parameters = tuple(name for name in PARAMETERS if name in used("\n".join(body))) or ("a",)
    body = [*heads, *body, f"return {', '.join(names) or 'a'},"]
    functions = [*w.helpers, "\n".join([f"def fn({', '.join(parameters)}):", *indented(body)])]
    names_used = used("\n".join(functions))
    wanted = {name for name in MODULE if name in names_used}
    wanted |= {other for name in wanted for other in USES.get(name, ())} | {"Thing"}
    module = [text for name, text in MODULE.items() if name in wanted]
    imports = ["import contextlib", "import functools", "", "import torch", "", "import dynamo_lite as dl", ""]
    return Made("\n".join(imports) + "\n" + "\n\n\n".join([*module, *functions]) + "\n", parameters)


@st.composite
def programs(draw: Any) -> Made:
    """Draws a program of a few statements."""
    writer = Writer(draw)
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 9))):
        lines += writer.statement(Block())
    made = assemble(writer, lines)
    try:
        compile(made.source, "<made>", "exec")
    except SyntaxError:  # a walrus where a comprehension forbids one
        reject()
    return made
