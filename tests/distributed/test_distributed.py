"""Two processes: data parallel and fully sharded training, with compiled modules inside and around."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import dynamo_lite as dl
import ranks
from dynamo_lite.backends.pieces import operators_of, pieces_between
from dynamo_lite.compiler.ddp_stages import cut
from programs import Recorder

STEPS = 3


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [part for _ in range(4) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU(inplace=True))]
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), *layers, torch.nn.Linear(64, 1))


def losses(model: torch.nn.Module, rank: int, batches: tuple[int, ...] = (8,) * STEPS) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step, batch in enumerate(batches):
        torch.manual_seed(10 * step + rank)
        loss = model(torch.randn(batch, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def data_parallel(module: torch.nn.Module) -> DistributedDataParallel:
    return DistributedDataParallel(module, bucket_cap_mb=0.02)


def sharded(module: torch.nn.Module) -> torch.nn.Module:
    for layer in module:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    return fully_shard(module)


def around_data_parallel(rank: int) -> None:
    recorder = Recorder()
    assert losses(dl.compile(data_parallel(net()), backend=recorder), rank) == losses(data_parallel(net()), rank)
    assert len(recorder.graphs) > 2, "one graph, compiled in stages"
    assert dl.counters.graphs == 1


def inside_data_parallel(rank: int) -> None:
    recorder = Recorder()
    assert losses(data_parallel(dl.compile(net(), backend=recorder)), rank) == losses(data_parallel(net()), rank)
    assert len(recorder.graphs) > 2


def stages_through_aot(rank: int) -> None:
    found = losses(dl.compile(data_parallel(net()), backend="aot_eager"), rank)
    assert found == pytest.approx(losses(data_parallel(net()), rank), rel=1e-5)


def stages_through_inductor(rank: int) -> None:
    found = losses(dl.compile(data_parallel(net()), backend="inductor"), rank)
    assert found == pytest.approx(losses(data_parallel(net()), rank), rel=1e-4)


def a_rank_that_recompiles_alone(rank: int) -> None:
    """One rank sees other batch sizes: it compiles while the other waits in the reducer, which does not mind."""
    batches = (8, 9, 11, 13) if rank else (8, 8, 8, 8)
    recorder = Recorder()
    found = losses(dl.compile(data_parallel(net()), backend=recorder), rank, batches)
    assert found == losses(data_parallel(net()), rank, batches)
    assert dl.counters.graphs == (2 if rank else 1)


class Block(torch.nn.Module):
    """Attention with rotary positions, and a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.mixing, self.out, self.norm = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)

    def forward(self, x, cos, sin):
        y = self.mixing(self.norm(x))
        y = y * cos + torch.cat([-y[..., 32:], y[..., :32]], -1) * sin
        return x + self.out(torch.nn.functional.gelu(y))


class Rotary(torch.nn.Module):
    """Layers over positions that are computed without gradients and without autocast."""

    def __init__(self, checkpointed: bool = False, autocast: bool = False, shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(16, 64), torch.nn.Linear(64, 1)
        blocks = [Block() for _ in range(4)]
        self.blocks = torch.nn.ModuleList([blocks[0]] * 4 if shared else blocks)
        self.register_buffer("rates", torch.arange(64) / 64)
        self.checkpointed, self.autocast = checkpointed, autocast

    def positions(self, x):
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            angles = torch.arange(x.size(0)).float()[:, None] * self.rates
            return angles.cos(), angles.sin()

    def layers(self, x):
        x = self.first(x)
        for block in self.blocks:
            where = self.positions(x)
            if self.checkpointed:
                x = torch.utils.checkpoint.checkpoint(block, x, *where, use_reentrant=False)
            else:
                x = block(x, *where)
        return self.last(x).float()

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            return self.layers(x)


def gradients(model: torch.nn.Module, rank: int) -> list[torch.Tensor]:
    torch.manual_seed(rank)
    model(torch.randn(8, 16)).square().mean().backward()
    return [each.grad for each in model.parameters()]


def _in_stages_as_eager(stages: int, rank: int, **options: bool) -> None:
    """Checks that losses and gradients are bitwise eager's, and that one graph is compiled in so many stages."""
    recorder = Recorder()
    compiled = dl.compile(data_parallel(Rotary(**options)), backend=recorder)
    eager = data_parallel(Rotary(**options))
    assert all(map(torch.equal, gradients(compiled, rank), gradients(eager, rank)))
    assert losses(compiled, rank) == losses(eager, rank)
    assert dl.counters.graphs == 1 and len(recorder.graphs) == stages, (dl.counters.graphs, len(recorder.graphs))


def stages_between_changes_of_state(rank: int) -> None:
    _in_stages_as_eager(5, rank)


def stages_under_autocast(rank: int) -> None:
    _in_stages_as_eager(5, rank, autocast=True)


def stages_of_checkpointed_layers_under_autocast(rank: int) -> None:
    _in_stages_as_eager(5, rank, autocast=True, checkpointed=True)


def stages_with_changes_of_state_through_aot(rank: int) -> None:
    for options in ({}, {"checkpointed": True}, {"autocast": True}):
        dl.counters.reset()
        compiled = dl.compile(data_parallel(Rotary(**options)), backend="aot_eager")
        wanted = losses(data_parallel(Rotary(**options)), rank)
        assert losses(compiled, rank) == pytest.approx(wanted, rel=1e-2 if options.get("autocast") else 1e-5)
        assert dl.counters.graphs == 1


def around_fully_sharded(rank: int) -> None:
    found = losses(dl.compile(sharded(net()), backend=Recorder()), rank)
    assert found == losses(sharded(net()), rank)
    assert dl.counters.graphs > 2


def inside_fully_sharded(rank: int) -> None:
    recorder = Recorder()
    model = torch.nn.Sequential(*(dl.compile(layer, backend=recorder) for layer in net()))
    for layer in model:
        fully_shard(layer)
    assert losses(fully_shard(model), rank) == losses(sharded(net()), rank)
    assert recorder.graphs


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        return x + self.norm(self.linear(x)).relu()


def deep(compiled: object = None) -> torch.nn.Module:
    """Creates twelve layers. Each is sharded, and compiled if a backend is given."""
    torch.manual_seed(0)
    layers = [Layer() for _ in range(12)]
    if compiled is not None:
        layers = [dl.compile(layer, backend=compiled) for layer in layers]
    return fully_shard(torch.nn.Sequential(*(fully_shard(layer) for layer in layers), torch.nn.Linear(16, 1)))


def around_more_shards_than_a_frame_has_versions(rank: int) -> None:
    """Hooks run between the layers. The computation of each layer is one graph, which serves all of them."""
    recorder = Recorder()
    model = deep()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*recompile_limit")
        found = losses(dl.compile(model, backend=recorder), rank)
    assert found == losses(deep(), rank)
    of_layers = [gm for gm in recorder.graphs if any("layer_norm" in str(node.target) for node in gm.graph.nodes)]
    assert 0 < len(of_layers) <= 2 and recorder.runs >= 13 * STEPS, (len(of_layers), recorder.runs)


PROGRAMS = (
    around_data_parallel,
    inside_data_parallel,
    stages_through_aot,
    stages_through_inductor,
    a_rank_that_recompiles_alone,
    stages_between_changes_of_state,
    stages_under_autocast,
    stages_of_checkpointed_layers_under_autocast,
    stages_with_changes_of_state_through_aot,
    around_fully_sharded,
    inside_fully_sharded,
    around_more_shards_than_a_frame_has_versions,
)


@pytest.mark.timeout(600)
def test_two_processes(tmp_path):
    assert not (raised := ranks.failures(__file__, PROGRAMS, tmp_path)), raised


# -- where graphs are cut ----------------------------------------------------------------------------------------------


def graph_of(module: torch.nn.Module, *inputs: torch.Tensor):
    kept = []

    def keep(gm, example_inputs):
        kept.append((gm, example_inputs))
        return gm.forward

    dl.compile(module, backend=keep)(*inputs)
    return kept[0]


def stage_of(gm: torch.fx.GraphModule, inputs: list[Any], first: int, cap: int) -> dict[torch.fx.Node, int]:
    pieces = pieces_between(operators_of(gm), cut(gm, inputs, first, cap))
    return {node: at for at, piece in enumerate(pieces) for node in piece.nodes}


def stages(module: torch.nn.Module, first: int, cap: int) -> list[int]:
    gm, inputs = graph_of(module, torch.randn(8, 16))
    found = stage_of(gm, inputs, first, cap)
    return [found[node] for node in gm.graph.nodes if node in found]


def test_stages_follow_each_other():
    found = stages(net(), 1000, 20000)
    assert found == sorted(found) and set(found) == set(range(max(found) + 1)) and max(found) == 2


def test_all_in_one_bucket():
    assert set(stages(net(), 10**9, 10**9)) == {0}


def test_the_last_bucket_is_small():
    assert stages(net(), 1, 10**9)[-1] == 1


def test_writes_stay_with_what_they_write_into():
    module = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 8))
    gm, inputs = graph_of(module, torch.randn(8, 16))
    found = stage_of(gm, inputs, 1, 1)
    linear, relu, last = (node for node in gm.graph.nodes if node in found)
    assert found[linear] == found[relu] == 0 and found[last] == 1


class Launching(torch.nn.Module):
    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.kernel = kernel
        self.first, self.last = torch.nn.Linear(16, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        y = self.last(x)
        self.kernel[(4,)](x, 2, x.numel())
        return y + x


def test_kernels_stay_with_what_they_write_into():
    pytest.importorskip("triton", reason="Triton isn't installed")
    kernels = pytest.importorskip("users_kernels", exc_type=ImportError)
    device = "cuda" if torch.cuda.is_available() else "cpu"  # kernels that Python runs need no GPU
    gm, inputs = graph_of(Launching(kernels.scale_).to(device), torch.randn(8, 16, device=device))
    found = stage_of(gm, inputs, 1, 1)
    assert len(found) == 4 and set(found.values()) == {0}


def test_frozen_parameters_are_not_counted():
    module = net().requires_grad_(False)
    assert set(stages(module, 1, 1)) == {0}


def states_at_ends(gm: torch.fx.GraphModule, found: dict[torch.fx.Node, int]) -> set[tuple[bool, bool]]:
    """Returns whether gradients and autocast are on where one stage ends and the next begins."""
    grad, autocast, seen, before = True, 0, set(), None
    for node in gm.graph.nodes:
        if before is not None and found.get(node, before) != before:
            seen.add((grad, autocast > 0))
        before = found.get(node, before)
        if node.target is torch._C._set_grad_enabled:
            grad = node.args[0]
        autocast += {torch.amp.autocast_mode._enter_autocast: 1, torch.amp.autocast_mode._exit_autocast: -1}.get(
            node.target, 0
        )
    return seen


@pytest.mark.parametrize("autocast", [False, True])
def test_no_cut_in_another_grad_mode(autocast):
    gm, inputs = graph_of(Rotary(autocast=autocast), torch.randn(8, 16))
    found = stage_of(gm, inputs, 1, 1)
    assert max(found.values()) > 8 and states_at_ends(gm, found) == {(True, True)}


def test_a_parameter_that_autocast_converts_stays_in_one_stage():
    gm, inputs = graph_of(Rotary(autocast=True, shared=True), torch.randn(8, 16))
    found = stage_of(gm, inputs, 1, 1)
    for node in gm.graph.find_nodes(op="placeholder"):
        converting = {found[user] for user in node.users if user.target is torch.nn.functional.linear}
        assert len(converting) <= 1, node
    assert max(found.values()) == 2


def test_an_operator_stays_with_the_function_that_it_runs():
    gm, inputs = graph_of(Rotary(checkpointed=True), torch.randn(8, 16))
    found = stage_of(gm, inputs, 1, 1)
    bodies = [node for node in gm.graph.find_nodes(op="get_attr") if node.target.startswith("body")]
    assert len(bodies) == 4 and all(found[user] == found[body] for body in bodies for user in body.users)
    assert len({found[body] for body in bodies}) == 4
