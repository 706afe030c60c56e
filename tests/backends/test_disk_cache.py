"""Inductor's caches on disk: a second process compiles from the entries of the first."""

from __future__ import annotations

import json

import pytest
import torch

import dynamo_lite as dl
from processes import run_program

PROGRAM = """
import json, os, time

os.environ["TORCHINDUCTOR_CACHE_DIR"] = "{directory}"
import torch
import dynamo_lite as dl
from dynamo_lite import _C
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

reports = {}


def report(subject, **more):
    aot, inductor = counters["aot_autograd"], counters["inductor"]
    names = {"hits": "fxgraph_cache_hit", "misses": "fxgraph_cache_miss", "bypasses": "fxgraph_cache_bypass"}
    found = {name: inductor[key] for name, key in names.items()}
    found |= {f"aot {name}": aot[f"autograd_cache_{name}"] for name in ("hit", "miss", "bypass")}
    reports[subject] = found | more
    counters.clear()


torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
x = torch.randn(5, 8)


def halves(x):
    x = torch.softmax(x * 2, -1)
    dl.graph_break()
    return x.cumsum(0) + 1


began = time.perf_counter()
compiled = dl.compile(module)
for _ in range(2):
    compiled(x).square().sum().backward()
with torch.no_grad():
    result = dl.compile(halves)(x)
seconds = time.perf_counter() - began
gradients = [p.grad.clone() for p in module.parameters()]
module.zero_grad()
for _ in range(2):
    module(x).square().sum().backward()
for found, parameter in zip(gradients, module.parameters()):
    torch.testing.assert_close(found, parameter.grad)
torch.testing.assert_close(result, halves(x))
report("model", seconds=round(seconds, 2), result=float(result.sum()))

for settings in ({}, {"options": {"max_fusion_size": 3}}, {"mode": "max-autotune-no-cudagraphs"}):
    dl.compile(lambda x: x.sin() + x.cos(), **settings)(torch.ones(8))
report("options")


def checkpointed(x, number):
    return checkpoint(lambda v: v.sin() * number, x, use_reentrant=False)


def mapped(x, number):
    return torch.vmap(lambda v: v.sin() * number)(x)


def differentiated(x, number):
    return torch.func.grad(lambda v: (v.sin() * number).sum())(x)


for fn in (checkpointed, mapped, differentiated):
    x = torch.linspace(0, 1, 8).view(2, 4).requires_grad_(fn is checkpointed)
    for number in (2, 3):
        expected = fn(x, number)
        found = dl.compile(fn, fullgraph=True)(x, number)
        torch.testing.assert_close(found, expected)
        if found.requires_grad:
            gradients = [torch.autograd.grad(each.sum(), x)[0] for each in (found, expected)]
            torch.testing.assert_close(*gradients)
report("functions within")


PLUS = {number}


def plus(x):
    return x + PLUS


dl.allow_in_graph(plus)
fn = lambda x: checkpoint(lambda v: plus(v.sin()), x, use_reentrant=False)
x = torch.ones(3, requires_grad=True)
torch.testing.assert_close(dl.compile(fn, fullgraph=True)(x), fn(x))
report("functions that may change")

made = []


def backend(gm, example_inputs):
    made.append(dl.lookup_backend("inductor")(gm, example_inputs))
    return made[-1]


direct = dl.compile(lambda x: x.sin() * 2 + 1, backend=backend)
aliased = dl.compile(lambda x: (x[1:], x.sin() * 2 + 1), backend=backend)
x = torch.arange(4.0)
with torch.no_grad():
    for _ in range(3):
        assert torch.allclose(direct(x), x.sin() * 2 + 1)
        view, _ = aliased(x)
        assert view.data_ptr() == x[1:].data_ptr()
report("launched", launches=[isinstance(each, _C.Launch) for each in made])
print(json.dumps(reports))
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Returns the reports of two processes that share a cache and run one after the other. Each takes long to start."""
    directory, found = tmp_path_factory.mktemp("cache"), []
    for number in "12":
        done = run_program(PROGRAM.replace("{directory}", str(directory)).replace("{number}", number))
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return found


def test_second_process_compiles_from_the_cache_of_the_first(reports):
    first, second = (each["model"] for each in reports)
    assert (first["misses"], first["hits"], first["aot miss"], first["aot hit"]) == (4, 0, 3, 0)
    assert (second["misses"], second["hits"], second["aot miss"], second["aot hit"]) == (0, 4, 0, 3)
    assert first["bypasses"] == second["bypasses"] == first["aot bypass"] == second["aot bypass"] == 0
    assert first["result"] == second["result"] and second["seconds"] < first["seconds"]
    # Options are part of the key.
    first, second = (each["options"] for each in reports)
    assert (first["misses"], first["hits"]) == (3, 0) and (second["misses"], second["hits"]) == (0, 3)
    # So are functions that operators run: the programs differ in a number inside of one.
    first, second = (each["functions within"] for each in reports)
    assert first["hits"] + first["aot hit"] == 0 and first["misses"] == 8
    assert second["misses"] + second["aot miss"] + second["aot bypass"] == 0
    assert second["aot hit"] == 6 and second["hits"] == 8
    # What a program puts into graphs under its own name is known by that alone, so such a graph isn't kept.
    for found in (each["functions that may change"] for each in reports):
        assert found["aot hit"] == 0 and found["aot bypass"] == 1
    first, second = (each["launched"] for each in reports)
    assert first["launches"] == second["launches"] == [True, False]
    assert (first["aot hit"], second["aot hit"]) == (0, 2)


def test_cached_graph_is_guarded_on_its_assumptions_about_sizes():
    """The two graphs look alike, but make different assumptions about their sizes."""

    def fn(x):
        return x[:, : x.size(1) // 2 * 2] * 2

    compiled = dl.compile(fn, backend="inductor", dynamic=True)
    for shape in ((3, 4), (5, 7), (2, 9), (6, 3), (4, 8)):
        x = torch.randn(*shape)
        assert torch.equal(compiled(x), fn(x))
