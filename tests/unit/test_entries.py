"""What is cached for a compiled function, and how compiled functions and modules describe themselves."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl


def scaled(x, n):
    return x * n


class Noisy(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        print("now")
        return y.relu()


def test_each_entry_has_guards_hits_and_code():
    compiled = dl.compile(scaled, backend="aot_eager")
    for n in ("first", "second", "third"):
        compiled(torch.ones(2), {"first": True, "second": True, "third": False}[n])
    last, first = compiled.entries()
    assert (last.hits, first.hits) == (1, 2)
    assert "n == True" in first.guards and "n == False" in last.guards
    assert first.function == "scaled" and first.lineno == scaled.__code__.co_firstlineno
    assert "RETURN_VALUE" in first.code_text()


def test_the_graph_is_there_while_the_backend_keeps_it():
    kept = []

    def keeps(gm, example_inputs):
        kept.append(gm)
        return lambda *args: gm.forward(*args)

    compiled = dl.compile(scaled, backend=keeps)
    compiled(torch.ones(2), 2)
    (entry,) = dl.entries(compiled)
    assert entry.graph is kept[0]
    assert "1 hit," in str(entry) and "3 nodes" in str(entry)


def test_at_a_prompt_each_is_one_line():
    compiled = dl.compile(scaled, backend="eager")
    compiled(torch.ones(2), 2)
    (entry,) = compiled.entries()
    place = f"scaled ({__file__}:{scaled.__code__.co_firstlineno})"
    assert repr(entry) == f"<{place}: 1 hit, {len(entry.guards)} guards, 3 nodes>"


def test_a_module_has_the_entries_of_its_frames(capsys):
    compiled = dl.compile(Noisy(), backend="eager")
    assert dl.entries(compiled) == []
    compiled(torch.ones(2))
    found = compiled.entries()
    assert len(found) == 2 and any(each.guards and "y is a " in "\n".join(each.guards) for each in found)


def test_an_attribute_of_that_name_is_the_programs():
    class Book(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.entries = torch.nn.ModuleList([torch.nn.Linear(2, 2)])

        def forward(self, x):
            return self.entries[0](x)

    book = Book()
    compiled = dl.compile(book, backend="eager")
    compiled(torch.ones(2))
    assert compiled.entries is book.entries and len(dl.entries(compiled)) == 1


def test_entries_takes_what_is_compiled():
    with pytest.raises(TypeError, match="takes what dl.compile returned, not function"):
        dl.entries(scaled)


def test_repr_of_compiled_callables():
    assert repr(dl.compile(scaled, backend="eager")) == f"<compiled {scaled!r}, backend 'eager'>"
    assert repr(dl.disable(scaled)) == f"<disabled {scaled!r}>"
    assert repr(dl.compile(torch.nn.ReLU(), backend="eager")) == "compiled ReLU()"
