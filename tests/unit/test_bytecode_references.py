"""Names that code loads, with the attributes that it reads of each."""

from __future__ import annotations

from dynamo_lite.bytecode import decode, references, references_after
from dynamo_lite.bytecode.references import Path


def sample(x, y):
    first = x.data
    print("here")
    import json.decoder

    z = [json.loads(each) for each in y.items()]
    return isinstance(z, decode.kind) + first


def test_of_a_function():
    found = references(sample.__code__)
    assert {Path(("x", "data"), False), Path(("y", "items"), True)} <= found.variables
    assert {Path(("print",), True), Path(("isinstance",), True), Path(("decode", "kind"), False)} <= found.globals
    assert found.imports == {"json.decoder"}
    assert {"data", "items", "loads", "kind"} <= found.attributes
    assert found.computes and found.operates


def test_after_an_instruction():
    code = sample.__code__
    call = next(each for each in decode(code) if each.opname == "CALL")
    found = references_after(decode(code), call.index)
    assert Path(("x", "data"), False) not in found.variables and Path(("print",), True) not in found.globals
    assert Path(("y", "items"), True) in found.variables and found.imports == {"json.decoder"}


def test_of_functions_inside():
    def outer(scale, x):
        def inner(own):
            return other(own) * scale

        return inner

    def other(value):
        return value

    found = references(outer.__code__)
    assert found.operates and not any(path.names[0] == "own" for path in found.variables)
    assert any(path.names == ("other",) for path in found.variables)


def test_names_that_are_only_passed_on():
    found = references((lambda x: x).__code__)
    assert not found.computes and not found.operates
    assert references((lambda x: x[0]).__code__).computes
