"""Inductor's caches on disk: a second process compiles from what the first one left there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import torch

import dynamo_lite as dl

PRELUDE = """
import json, sys, time
import torch
import dynamo_lite as dl
from torch._dynamo.utils import counters

def report(**more):
    aot, inductor = counters["aot_autograd"], counters["inductor"]
    names = {"hits": "fxgraph_cache_hit", "misses": "fxgraph_cache_miss", "bypasses": "fxgraph_cache_bypass"}
    found = {name: inductor[key] for name, key in names.items()}
    found |= {f"aot {name}": aot[f"autograd_cache_{name}"] for name in ("hit", "miss", "bypass")}
    print(json.dumps(found | more))

torch.manual_seed(0)
"""


def processes(program, directory, count=2):
    """What ``count`` processes one after the other report that share a cache."""
    found = []
    for _ in range(count):
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(program)],
            capture_output=True,
            text=True,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(directory)},
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return found


def test_a_model_trained_and_a_function_without_gradients(tmp_path):
    first, second = processes(
        """
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
        report(seconds=round(seconds, 2), result=float(result.sum()))
        """,
        tmp_path,
    )
    print(f"compiled in {first['seconds']} s, from the cache in {second['seconds']} s")
    assert (first["misses"], first["hits"], first["aot miss"], first["aot hit"]) == (4, 0, 3, 0)
    assert (second["misses"], second["hits"], second["aot miss"], second["aot hit"]) == (0, 4, 0, 3)
    assert first["bypasses"] == second["bypasses"] == first["aot bypass"] == second["aot bypass"] == 0
    assert first["result"] == second["result"] and second["seconds"] < first["seconds"]


def test_options_are_part_of_the_key(tmp_path):
    first, second = processes(
        """
        for settings in ({}, {"options": {"max_fusion_size": 3}}, {"mode": "max-autotune-no-cudagraphs"}):
            dl.compile(lambda x: x.sin() + x.cos(), **settings)(torch.ones(8))
        report()
        """,
        tmp_path,
    )
    assert (first["misses"], first["hits"]) == (3, 0) and (second["misses"], second["hits"]) == (0, 3)


def test_functions_within_the_graph_are_part_of_the_key(tmp_path):
    """Programs that differ in a number inside of a function which an operator runs."""
    first, second = processes(
        """
        from torch.utils.checkpoint import checkpoint

        def checkpointed(x, number):
            return checkpoint(lambda v: v.sin() * number, x, use_reentrant=False)

        def mapped(x, number):
            return torch.vmap(lambda v: v.sin() * number)(x)

        def differentiated(x, number):
            return torch.func.grad(lambda v: (v.sin() * number).sum())(x)

        x = torch.linspace(0, 1, 8).view(2, 4).requires_grad_()
        for fn in (checkpointed, mapped, differentiated):
            for number in (2, 3):
                expected = fn(x, number)
                (gradient,) = torch.autograd.grad(expected.sum(), x)
                found = dl.compile(fn, fullgraph=True)(x, number)
                torch.testing.assert_close(found, expected)
                torch.testing.assert_close(torch.autograd.grad(found.sum(), x)[0], gradient)
        report()
        """,
        tmp_path,
    )
    assert first["hits"] + first["aot hit"] == 0 and first["misses"] == 12
    assert second["misses"] + second["aot miss"] + second["aot bypass"] == 0
    assert second["aot hit"] == 6 and second["hits"] == 12


def test_functions_that_may_change_are_not_kept(tmp_path):
    """What a program puts into graphs under its own name is known by that alone."""
    program = """
        from torch.utils.checkpoint import checkpoint

        def plus(x):
            return x + {number}

        dl.allow_in_graph(plus)
        fn = lambda x: checkpoint(lambda v: plus(v.sin()), x, use_reentrant=False)
        x = torch.ones(3, requires_grad=True)
        torch.testing.assert_close(dl.compile(fn, fullgraph=True)(x), fn(x))
        report()
    """
    for number in "12":
        (found,) = processes(program.replace("{number}", number), tmp_path, count=1)
        assert found["aot hit"] == 0 and found["aot bypass"] == 1


def test_what_is_found_holds_of_the_sizes():
    """Two graphs that look alike, under other assumptions of their sizes."""

    def fn(x):
        return x[:, : x.size(1) // 2 * 2] * 2

    compiled = dl.compile(fn, backend="inductor", dynamic=True)
    for shape in ((3, 4), (5, 7), (2, 9), (6, 3), (4, 8)):
        x = torch.randn(*shape)
        assert torch.equal(compiled(x), fn(x))
