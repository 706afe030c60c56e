"""Blocks that repeat in a graph are compiled once: which blocks are found, and that results equal those of the whole
graph.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint

import dynamo_lite as dl
from dynamo_lite.backends.aot import aot_eager
from dynamo_lite.backends.inductor import inductor
from dynamo_lite.backends.regions import InRegions
from dynamo_lite.compiler.backend_traits import traits_of
from dynamo_lite.insight.regions import Regions

Kept = list[torch.fx.GraphModule]


def keeping() -> tuple[Kept, Callable[..., Any]]:
    """Returns a backend and the list of the graphs that it is given."""
    kept: Kept = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        kept.append(gm)
        return gm.forward

    return kept, backend


class Block(torch.nn.Module):
    def __init__(self, width: int = 8, scale: float = 1.0) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(self.norm(x))
        h = torch.nn.functional.gelu(h) * torch.sigmoid(h)
        return x + self.down(h) * self.scale


def blocks(count: int = 6, *others: Block) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(5, 8), *(Block() for _ in range(count)), *others, torch.nn.Linear(8, 3))


def check(module: torch.nn.Module, *inputs: torch.Tensor, calls: int = 2) -> Kept:
    """Compares results and gradients with eager. Returns the graphs that were compiled."""
    kept, backend = keeping()
    compiled = dl.compile(module, backend=backend, regions="only", fullgraph=True)
    for _ in range(calls):
        found = []
        for each in (module, compiled):
            module.zero_grad()
            torch.manual_seed(0)
            result = each(*inputs)
            result.square().sum().backward()
            found.append([result, *(parameter.grad for parameter in module.parameters())])
        torch.testing.assert_close(*found, rtol=0, atol=0)
    return kept


def size(gm: torch.fx.GraphModule) -> int:
    return len([node for node in gm.graph.nodes if node.op not in ("placeholder", "output")])


def test_layers_are_compiled_once():
    kept = check(blocks(), torch.randn(4, 5))
    assert [size(gm) for gm in kept] == [1, 8, 1]


def test_graphs_without_repeats_stay_whole():
    assert len(check(blocks(1), torch.randn(4, 5))) == 1


def test_small_blocks_stay_whole():
    assert len(check(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(5))), torch.randn(2, 4))) == 1


def test_repeats_of_functions_are_found():
    kept, backend = keeping()

    def step(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x) * by
        z = torch.cos(y) - x
        return x + torch.tanh(y * z) / (1 + z.square())

    def program(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        for weight in weights:
            x = step(x, weight)
        return x.sum()

    x, weights = torch.randn(4), [torch.randn(4) for _ in range(7)]
    compiled = dl.compile(program, backend=backend, regions="only")
    assert torch.equal(compiled(x, weights), program(x, weights)) and len(kept) == 2


def test_blocks_with_another_constant_are_compiled_apart():
    kept = check(blocks(5, Block(scale=0.5)), torch.randn(4, 5))
    assert len(kept) == 3


def test_blocks_of_other_sizes_are_compiled_apart():
    wide, narrow = (Block(8) for _ in range(4)), (Block(6) for _ in range(4))
    module = torch.nn.Sequential(torch.nn.Linear(5, 8), *wide, torch.nn.Linear(8, 6), *narrow)
    assert [size(gm) for gm in check(module, torch.randn(4, 5))] == [1, 8, 1, 8]


def test_blocks_that_require_no_gradients_are_compiled_apart():
    module = blocks(8)
    for block in list(module)[1:5]:
        block.requires_grad_(False)
    kept = check_with_frozen(module)
    assert len(kept) > 3


def check_with_frozen(module: torch.nn.Module) -> Kept:
    kept, backend = keeping()
    compiled = dl.compile(module, backend=backend, regions="only")
    x = torch.randn(4, 5)
    module(x).sum().backward()
    wanted = [parameter.grad for parameter in module.parameters()]
    module.zero_grad()
    compiled(x).sum().backward()
    torch.testing.assert_close([parameter.grad for parameter in module.parameters()], wanted, rtol=0, atol=0)
    return kept


class Tied(torch.nn.Module):
    """Blocks with two weights. In some blocks both are the same parameter."""

    def __init__(self) -> None:
        super().__init__()
        first, second = torch.nn.Parameter(torch.randn(4, 4)), torch.nn.Parameter(torch.randn(4, 4))
        self.weights = torch.nn.ParameterList([first, second])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for left, right in ((0, 0), (0, 1), (0, 1), (1, 1), (1, 0), (0, 1)):
            y = torch.tanh(x @ self.weights[left]) * torch.sigmoid(x)
            x = x + torch.relu(y @ self.weights[right]).cos() * 0.1
        return x


def test_weights_that_are_one_are_told_from_two():
    check(Tied(), torch.randn(3, 4))


class Writing(torch.nn.Module):
    """Blocks that write: into the value handed on, into a buffer and into a cache made before."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(6))
        self.register_buffer("seen", torch.zeros(6, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cache = torch.zeros(6, 3, 4)
        for at, layer in enumerate(self.layers):
            y = torch.tanh(layer(x)) + cache.sum(0)
            self.seen[at] += y.detach().sum(0)
            cache[at].copy_(y.detach() * 2)
            x = x + y.sin() * torch.sigmoid(y)
        return x + cache.mean(0) + self.seen.sum()


def test_writes_into_memory_that_blocks_share():
    module = Writing()
    twin = Writing()
    twin.load_state_dict(module.state_dict())
    x = torch.randn(3, 4)
    for _ in range(2):
        wanted = twin(x)
        found = dl.compile(module, backend="aot_eager", regions="only")(x)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(module.seen, twin.seen)


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_training_with_aot(backend, dynamic):
    module = blocks()
    compiled = dl.compile(module, backend=backend, dynamic=dynamic, regions="only")
    for rows in (4, 7, 9):
        x = torch.randn(rows, 5, requires_grad=True)
        results = []
        for each in (module, compiled):
            module.zero_grad()
            x.grad = None
            each(x).square().sum().backward()
            results.append([x.grad, *(parameter.grad for parameter in module.parameters())])
        torch.testing.assert_close(*results)


def test_blocks_in_autocast():
    module = blocks()
    kept, backend = keeping()

    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return module(x)

    x = torch.randn(4, 5)
    assert torch.equal(dl.compile(program, backend=backend, regions="only")(x), program(x))
    assert len(kept) == 3


def test_blocks_without_gradients_in_a_graph_with_them():
    module = blocks()

    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = module(x)
        return (y * x.sum()).sum()

    x = torch.randn(4, 5, requires_grad=True)
    kept, backend = keeping()
    compiled = dl.compile(program, backend=backend, regions="only")
    wanted, found = torch.autograd.grad(program(x), x), torch.autograd.grad(compiled(x), x)
    assert torch.equal(*wanted, *found) and all(parameter.grad is None for parameter in module.parameters())


def test_random_numbers_of_blocks_differ():
    module = torch.nn.Sequential(*(torch.nn.Sequential(Block(), torch.nn.Dropout(0.5)) for _ in range(6)))
    assert len(check(module, torch.randn(4, 8))) <= 3


def test_values_are_dropped_after_their_last_use():
    alive: list[weakref.ref[torch.Tensor]] = []
    most = 0

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            nonlocal most
            gc.collect()
            most = max(most, sum(each() is not None for each in alive))
            results = gm(*inputs)
            alive.extend(weakref.ref(each) for each in results)
            return results

        return call

    module = blocks(8)
    with torch.no_grad():
        dl.compile(module, backend=backend, regions="only")(torch.randn(4, 5))
    assert len(alive) == 10 and most == 1


def test_attributes_of_the_backend_are_kept():
    assert traits_of(InRegions(inductor)) == traits_of(inductor)


def test_other_ways_are_refused():
    with pytest.raises(ValueError, match=r"^regions must be 'auto', 'never' or 'only', not 'always'$"):
        dl.compile(blocks(), regions="always")


class Checkpointed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
            x = x + torch.sin(x) * torch.cos(x) - torch.tanh(x)
        return x


def test_graphs_are_cut_around_checkpoints():
    module, graphs = Checkpointed(), []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        return aot_eager(gm, example_inputs)

    backend.frees_at_once = True
    compiled = dl.compile(module, backend=backend, regions="only")
    x, found = torch.randn(4, 8, requires_grad=True), []
    for each in (module, compiled):
        module.zero_grad()
        x.grad = None
        each(x).square().sum().backward()
        found.append([x.grad, *(parameter.grad for parameter in module.parameters())])
    torch.testing.assert_close(*found)
    assert len(graphs) == 3  # the first, which takes the input, the last, and what is between


def test_auto_cuts_large_graphs_only():
    kept, backend = keeping()
    backend.compiles_regions = True
    dl.compile(blocks(6), backend=backend, regions="auto")(torch.randn(4, 5))
    assert len(kept) == 1
    kept.clear()
    dl.compile(blocks(20), backend=backend, regions="auto")(torch.randn(4, 5))
    assert [size(gm) for gm in kept] == [1, 8, 1]


def test_what_is_said_of_regions():
    found = dl.explain(blocks(20))(torch.randn(4, 5))
    assert found.regions == [Regions(pieces=22, distinct=3, operators=162, compiled_operators=10)]
    assert "with regions='auto' in 22 pieces, of which 3 are compiled: 10 of 162 operators" in str(found)
    assert dl.explain(blocks(2))(torch.randn(4, 5)).regions == [None]
