"""Programs as researchers write them: models in plain torch, and the loops around them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from architectures import Model, gpt2
from torch import Tensor, nn


class LanguageModel(nn.Module):
    """An LSTM with tied weights, variational dropout of the embedding, and its loss."""

    def __init__(self, words: int = 50, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, words)
        self.head.weight = self.embed.weight

    def initial(self, rows: int) -> tuple[Tensor, Tensor]:
        weight = next(self.parameters())
        zeros = weight.new_zeros(self.lstm.num_layers, rows, self.lstm.hidden_size)
        return zeros, zeros.clone()

    def forward(self, ids: Tensor, state: tuple[Tensor, Tensor] | None = None) -> dict[str, Any]:
        if state is None:
            state = self.initial(ids.shape[0])
        hidden = F.dropout(self.embed(ids), 0.1, self.training)
        hidden, state = self.lstm(hidden, tuple(s.detach() for s in state))
        logits = self.head(hidden)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        return {"loss": loss, "logits": logits, "state": state}


class Down(nn.Module):
    def __init__(self, given: int, width: int, time: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(given, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(2, width), nn.GroupNorm(2, width)
        self.time = nn.Linear(time, width)
        self.skip = nn.Conv2d(given, width, 1) if given != width else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = F.silu(self.norm1(self.conv1(x))) + self.time(F.silu(t))[:, :, None, None]
        return F.silu(self.norm2(self.conv2(h))) + self.skip(x)


class UNet(nn.Module):
    """Down, across and up again, with skip connections and an embedding of time."""

    def __init__(self, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.width = width
        widths = [width * 2**level for level in range(depth + 1)]
        self.time = nn.Sequential(nn.Linear(width, width * 4), nn.SiLU(), nn.Linear(width * 4, width * 4))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(Down(a, b, width * 4) for a, b in zip(widths, widths[1:]))
        self.middle = nn.ModuleList([Down(widths[-1], widths[-1], width * 4)])
        self.up = nn.ModuleList(Down(2 * b, a, width * 4) for a, b in reversed(list(zip(widths, widths[1:]))))
        self.last = nn.Conv2d(width, 3, 1)

    def embed_time(self, t: Tensor) -> Tensor:
        half = self.width // 2
        frequencies = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
        angles = t[:, None].float() * frequencies[None]
        return self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        time = self.embed_time(t)
        h = self.first(x)
        skips: list[Tensor] = []
        for block in self.down:
            h = block(h, time)
            skips.append(h)
            h = F.avg_pool2d(h, 2)
        for block in self.middle:
            h = block(h, time)
        for block in self.up:
            h = F.interpolate(h, scale_factor=2, mode="nearest")
            h = block(torch.cat([h, skips.pop()], dim=1), time)
        return self.last(h)


class Diffusion(nn.Module):
    """A denoising model: its loss in training, a few steps of its sampler in eval mode."""

    def __init__(self, steps: int = 8) -> None:
        super().__init__()
        self.model = UNet()
        self.steps = steps
        betas = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("betas", betas)
        self.register_buffer("alphas", torch.cumprod(1 - betas, 0), persistent=False)

    def loss(self, x: Tensor) -> Tensor:
        t = torch.randint(0, self.steps, (x.shape[0],), device=x.device)
        noise = torch.randn_like(x)
        level = self.alphas[t].view(-1, 1, 1, 1)
        return F.mse_loss(self.model(level.sqrt() * x + (1 - level).sqrt() * noise, t), noise)

    @torch.no_grad()
    def sample(self, x: Tensor, steps: int = 3) -> Tensor:
        for step in reversed(range(steps)):
            x = self.step(x, step)
        return x.clamp(-1, 1)

    def step(self, x: Tensor, step: int) -> Tensor:
        t = torch.full((x.shape[0],), step, dtype=torch.long)
        beta, level = self.betas[step], self.alphas[step]
        mean = (x - beta / (1 - level).sqrt() * self.model(x, t)) / (1 - beta).sqrt()
        return mean if step == 0 else mean + beta.sqrt() * torch.randn_like(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) if self.training else self.sample(x)


class GraphLayer(nn.Module):
    """Messages along edges, gathered and averaged by scatter."""

    def __init__(self, given: int, width: int) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * given, width), nn.ReLU())
        self.update = nn.GRUCell(width, given)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        messages = self.message(torch.cat([nodes[source], nodes[target]], dim=-1))
        index = target.unsqueeze(-1).expand_as(messages)
        total = torch.zeros(nodes.size(0), messages.size(-1)).scatter_add_(0, index, messages)
        degree = torch.zeros(nodes.size(0)).index_add_(0, target, torch.ones_like(target, dtype=nodes.dtype))
        return self.update(total / degree.clamp(min=1).unsqueeze(-1), nodes)


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GraphLayer(8, 12) for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, nodes: Tensor, edges: Tensor, batch: Tensor) -> Tensor:
        for layer in self.layers:
            nodes = layer(nodes, edges)
        pooled = nodes.new_zeros(int(batch.shape[0] // 5), nodes.shape[1])
        return self.head(pooled.scatter_reduce(0, batch[:, None].expand_as(nodes), nodes, "mean", include_self=False))


class Walk:
    """An environment: a number line with an end on either side."""

    def __init__(self) -> None:
        self.place = 0

    def observe(self) -> Tensor:
        return torch.tensor([float(self.place), 1.0])

    def step(self, action: int) -> tuple[Tensor, float, bool]:
        self.place += 1 if action else -1
        return self.observe(), float(self.place == 3), abs(self.place) >= 3


class Rollout(nn.Module):
    """A policy plays an episode by ``.item()``; the loss is REINFORCE with a baseline."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, limit: int = 6) -> Tensor:
        walk = Walk()
        seen, chances, values, rewards = walk.observe(), [], [], []
        for _ in range(limit):
            hidden = self.body(seen)
            choice = torch.distributions.Categorical(logits=self.policy(hidden))
            action = choice.sample()
            seen, reward, over = walk.step(action.item())
            chances.append(choice.log_prob(action))
            values.append(self.value(hidden).squeeze())
            rewards.append(reward)
            if over:
                break
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.9 * total
            returns.insert(0, total)
        advantage = torch.tensor(returns) - torch.stack(values)
        return -(torch.stack(chances) * advantage.detach()).sum() + advantage.pow(2).mean()


class Attention(nn.Module):
    """Causal attention with a cache that is handed around."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    """A small transformer by hand."""

    def __init__(self, words: int = 40, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(64, width)
        self.attend = nn.ModuleList(Attention(width, 4) for _ in range(layers))
        self.think = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))

    def forward(self, ids: Tensor, caches: list[dict[str, Tensor]] | None = None) -> Tensor:
        start = caches[0]["k"].shape[2] if caches and "k" in caches[0] else 0
        x = self.embed(ids) + self.place(torch.arange(start, start + ids.shape[1]))
        for index, (attend, think) in enumerate(zip(self.attend, self.think)):
            x = x + attend(self.norms[2 * index](x), None if caches is None else caches[index])
            x = x + think(self.norms[2 * index + 1](x))
        return self.norms[-1](x) @ self.embed.weight.T


class CachedDecoding(nn.Module):
    """Greedy decoding by a cache of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Decoder()

    def forward(self, ids: Tensor, count: int = 4) -> Tensor:
        caches: list[dict[str, Tensor]] = [{} for _ in self.model.attend]
        given = ids
        for _ in range(count):
            logits = self.model(given, caches)
            given = logits[:, -1:].argmax(-1)
            ids = torch.cat([ids, given], dim=1)
        return ids


class BeamSearch(nn.Module):
    """The best of a few sequences, until all have ended."""

    def __init__(self, beams: int = 3, end: int = 7) -> None:
        super().__init__()
        self.model = Decoder()
        self.beams = beams
        self.end = end

    def forward(self, ids: Tensor, limit: int = 5) -> tuple[list[int], Tensor]:
        scores = torch.tensor([0.0] + [-1e9] * (self.beams - 1))
        rows = ids.expand(self.beams, -1)
        finished: list[tuple[float, list[int]]] = []
        for _ in range(limit):
            chances = F.log_softmax(self.model(rows)[:, -1], dim=-1)
            total = (scores[:, None] + chances).flatten()
            scores, picked = total.topk(self.beams)
            beam, word = picked // chances.shape[-1], picked % chances.shape[-1]
            rows = torch.cat([rows[beam], word[:, None]], dim=1)
            ended = word == self.end
            if ended.any():
                for at in ended.nonzero().flatten().tolist():
                    finished.append((scores[at].item() / rows.shape[1], rows[at].tolist()))
                scores = scores.masked_fill(ended, -1e9)
            if len(finished) >= self.beams:
                break
        best = max(finished)[1] if finished else rows[scores.argmax()].tolist()
        return best, scores


class Residual(nn.Module):
    """Convolutions with batch norm around a shortcut."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(given, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if stride != 1 or given != width:
            self.shortcut = nn.Sequential(nn.Conv2d(given, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        out += self.shortcut(x)
        return F.relu(out, inplace=True)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 1))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1).flatten(1))


class Autoencoder(nn.Module):
    """Variational, with the reparametrised sample of a distribution."""

    def __init__(self, given: int = 12, width: int = 4) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(given, 16), nn.ReLU(), nn.Linear(16, 2 * width))
        self.decode = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, given))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        mean, spread = self.encode(x).chunk(2, dim=-1)
        deviation = torch.exp(0.5 * spread)
        hidden = mean + deviation * torch.randn_like(deviation) if self.training else mean
        seen = self.decode(hidden)
        divergence = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(-1).mean()
        likelihood = F.binary_cross_entropy_with_logits(seen, x, reduction="none").sum(-1).mean()
        return {"loss": likelihood + divergence, "seen": seen.sigmoid(), "hidden": hidden}


class Distributions(nn.Module):
    """The same by ``torch.distributions``."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.spread = nn.Linear(6, 4), nn.Linear(6, 4)
        self.decode = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        posterior = torch.distributions.Normal(self.mean(x), F.softplus(self.spread(x)))
        prior = torch.distributions.Normal(torch.zeros(4), torch.ones(4))
        hidden = posterior.rsample()
        seen = torch.distributions.Normal(self.decode(hidden), 1.0)
        divergence = torch.distributions.kl_divergence(posterior, prior).sum(-1)
        return (divergence - seen.log_prob(x).sum(-1)).mean()


class Experts(nn.Module):
    """A mixture of experts, each of which sees the rows that chose it."""

    def __init__(self, count: int = 4, width: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width)) for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = F.softmax(self.gate(x), dim=-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            weight = (weights * (chosen == index)).sum(-1, keepdim=True)
            out = out + weight * expert(x)
        return out


class Field(nn.Module):
    """A radiance field: encoding of places, and colours composed along rays."""

    def __init__(self, frequencies: int = 4) -> None:
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(frequencies))
        self.net = nn.Sequential(nn.Linear(3 * 2 * frequencies, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, origins: Tensor, directions: Tensor, samples: int = 8) -> Tensor:
        depths = torch.linspace(0.1, 1.0, samples)
        places = origins[:, None] + depths[None, :, None] * directions[:, None]
        angles = (places[..., None] * self.bands).flatten(-2)
        colour, density = self.net(torch.cat([angles.sin(), angles.cos()], -1)).split([3, 1], dim=-1)
        opaque = 1 - torch.exp(-F.relu(density[..., 0]) * (depths[1] - depths[0]))
        through = torch.cumprod(torch.cat([torch.ones_like(opaque[:, :1]), 1 - opaque + 1e-10], -1), -1)[:, :-1]
        return ((opaque * through)[..., None] * colour.sigmoid()).sum(1)


class Contrast(nn.Module):
    """Two towers and the symmetric loss of their similarities, with a teacher that follows by moving average."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(12, 8), nn.Linear(6, 8)
        self.teacher = nn.Linear(12, 8).requires_grad_(False)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    @torch.no_grad()
    def follow(self, rate: float = 0.9) -> None:
        for mine, theirs in zip(self.teacher.parameters(), self.image.parameters()):
            mine.mul_(rate).add_(theirs, alpha=1 - rate)

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        self.follow()
        one = F.normalize(self.image(image) + self.teacher(image), dim=-1)
        logits = self.scale.exp() * one @ F.normalize(self.text(text), dim=-1).T
        labels = torch.arange(logits.shape[0], device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


class Generates(nn.Module):
    """``generate()`` of a model of transformers, with its cache."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model = model
        self.options = options

    def forward(self, input_ids: Tensor) -> Tensor:
        mask = torch.ones_like(input_ids)
        return self.model.generate(input_ids, attention_mask=mask, max_new_tokens=4, pad_token_id=0, **self.options)


def _generation(name: str, **options: Any) -> Model:
    model = gpt2(layers=2, width=32)
    return Model(
        name, Generates(model.module, **options), {"input_ids": model.inputs["input_ids"][:, :6]}, trains=False
    )


def _of_timm(name: str, **options: Any) -> Model:
    import timm

    module = timm.create_model(name, pretrained=False, num_classes=7, **options)
    return Model(name, module, {"x": torch.randn(2, 3, 64, 64)})


def _ids(rows: int, length: int, words: int = 40) -> Tensor:
    return torch.randint(0, words, (rows, length))


def _graph() -> Model:
    batch = torch.arange(10) // 5
    return Model("graph-net", GraphNet(), {"nodes": torch.randn(10, 8), "edges": _ids(2, 24, 10), "batch": batch})


def _field() -> Model:
    return Model("field", Field(), {"origins": torch.randn(6, 3), "directions": F.normalize(torch.randn(6, 3), dim=-1)})


def _unet() -> Model:
    return Model("u-net", UNet(), {"x": torch.randn(2, 3, 16, 16), "t": _ids(1, 2, 8)[0]})


PROGRAMS: dict[str, Callable[[], Model]] = {
    "lstm": lambda: Model("lstm", LanguageModel(), {"ids": _ids(2, 12)}),
    "u-net": _unet,
    "diffusion": lambda: Model("diffusion", Diffusion(), {"x": torch.randn(2, 3, 16, 16)}),
    "graph-net": _graph,
    "rollout": lambda: Model("rollout", Rollout(), {}),
    "decoder": lambda: Model("decoder", Decoder(), {"ids": _ids(2, 9)}),
    "cached-decoding": lambda: Model("cached-decoding", CachedDecoding(), {"ids": _ids(2, 5)}, trains=False),
    "beam-search": lambda: Model("beam-search", BeamSearch(), {"ids": _ids(1, 3)}, trains=False),
    "gpt2-generate": lambda: _generation("gpt2-generate", do_sample=False),
    "gpt2-sample": lambda: _generation("gpt2-sample", do_sample=True, top_k=5, temperature=0.8),
    "resnet": lambda: Model("resnet", ResNet(), {"x": torch.randn(2, 3, 16, 16)}),
    "autoencoder": lambda: Model("autoencoder", Autoencoder(), {"x": torch.rand(3, 12)}),
    "distributions": lambda: Model("distributions", Distributions(), {"x": torch.randn(3, 6)}),
    "experts": lambda: Model("experts", Experts(), {"x": torch.randn(5, 8)}),
    "field": _field,
    "contrast": lambda: Model("contrast", Contrast(), {"image": torch.randn(4, 12), "text": torch.randn(4, 6)}),
    "timm-resnet18": lambda: _of_timm("resnet18"),
    "timm-vit-tiny": lambda: _of_timm("vit_tiny_patch16_224", img_size=64, depth=2),
}
