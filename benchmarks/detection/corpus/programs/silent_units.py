"""Right networks in which many units are silent, many gradients zero or weights odd at first. All of the tune split."""

import math
from collections import deque
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from benchmarks.detection.corpus import checkpoints, data, edits
from benchmarks.detection.corpus.data import Data
from benchmarks.detection.corpus.models import Places, Transformer, mlp
from benchmarks.detection.corpus.optimizers import adam, adamw, momentum, sgd
from benchmarks.detection.corpus.program import TUNE, Fault, Trained
from benchmarks.detection.corpus.registry import plant, recipe, script
from benchmarks.detection.corpus.supervised import Recipe, accuracy, regression

learning_rate_too_high = partial(plant, "learning-rate-too-high")
learning_rate_too_low = partial(plant, "learning-rate-too-low")

_of_digits = partial(recipe, TUNE, data="digits", chance=0.1)


@torch.no_grad()
def _mostly_negative(model: nn.Sequential) -> nn.Sequential:
    for layer in model:
        if isinstance(layer, nn.Linear) and layer.out_features > 10:
            layer.bias.uniform_(-4.0, 0.4)
    return model


@_of_digits(model="MLP 64-512-512-10", at_least=0.85, odd="nine units of ten are dead at the start")
def digits_mostly_silent() -> Recipe:
    """Wide layers most of whose units never answer, for their biases are far below zero: the rest are plenty."""
    return Recipe(data.digits, lambda: _mostly_negative(mlp(64, 512, 512, 10)), adam, 2e-3, 8)


class _TopK(nn.Module):
    """The largest k of each row; the rest is 0."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, rows: Tensor) -> Tensor:
        kept = rows.topk(self.k, dim=-1)
        return torch.zeros_like(rows).scatter(-1, kept.indices, functional.relu(kept.values))


@recipe(
    TUNE,
    data="digits",
    model="autoencoder 64-256-64, eight codes at a time",
    at_least=0.3,
    odd="a sparse code: of 256 units a handful answers",
)
def autoencoder_top_codes() -> Recipe:
    """A sparse autoencoder that keeps the eight largest codes of 256, with small batches."""
    return regression(
        data=data.reconstruction(data.digits),
        model=lambda: nn.Sequential(nn.Linear(64, 256), nn.ReLU(), _TopK(8), nn.Linear(256, 64)),
        optimizer=adam,
        rate=2e-3,
        epochs=8,
        batch_size=16,
    )


class _Experts(nn.Module):
    """Small networks of which each row goes to one."""

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(64, experts)
        self.experts = nn.ModuleList(mlp(64, 32, 10) for _ in range(experts))

    def forward(self, rows: Tensor) -> Any:
        shares = self.router(rows).softmax(-1)
        best = shares.argmax(-1)
        found = torch.stack([expert(rows) for expert in self.experts], 1)
        chosen = torch.arange(len(rows))
        return found[chosen, best] * shares[chosen, best].unsqueeze(1)


@_of_digits(model="mixture of 12 experts, one for each row", at_least=0.8, odd="experts that nobody asks get zeros")
def digits_twelve_experts() -> Recipe:
    """A mixture of experts; an expert that no row of a batch is sent to gets gradients of nothing but zeros."""
    return Recipe(data.digits, lambda: _Experts(12), adam, 5e-3, 9)


class _Squeeze(nn.Module):
    """Channels are weighed by what is in all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.down, self.up = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.output = nn.Linear(16 * 16, 10)

    def forward(self, images: Tensor) -> Any:
        values = functional.relu6(self.conv1(images))
        weights = self.up(functional.relu(self.down(values.mean((2, 3), keepdim=True)))).sigmoid()
        values = functional.relu6(self.conv2(values * weights))
        return self.output(functional.max_pool2d(values, 2).flatten(1))


@recipe(
    TUNE,
    data="digit images",
    model="CNN with squeeze and excitation, ReLU6",
    at_least=0.85,
    chance=0.1,
    odd="a bottleneck of four units beside the main way",
)
def cnn_squeezed() -> Recipe:
    """Squeeze and excitation with four units, and ReLU6."""
    return Recipe(data.digit_images, _Squeeze, adam, 3e-3, 6)


class _ScaledCosine(nn.Module):
    """Logits that are angles, times 30."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(64, 64, 32)
        self.classes = nn.Parameter(torch.randn(10, 32))

    def forward(self, rows: Tensor) -> Any:
        return 30 * functional.linear(functional.normalize(self.body(rows)), functional.normalize(self.classes))


@_of_digits(model="MLP with scaled cosines", at_least=0.85, odd="logits times 30: the first loss is far above chance")
def digits_cosine() -> Recipe:
    """A face recogniser's head: cosines times thirty."""
    return Recipe(data.digits, _ScaledCosine, adam, 3e-3, 8)


class _LowRank(nn.Module):
    """A frozen layer and a correction of low rank that begins at zero."""

    def __init__(self, layer: nn.Linear, *, rank: int = 8) -> None:
        super().__init__()
        self.frozen = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, rows: Tensor) -> Any:
        return self.frozen(rows) + self.up(self.down(rows))


class _GatedBlocks(nn.Module):
    """Residual blocks, each behind a gate that begins at zero."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.embed = nn.Linear(64, 48)
        self.blocks = nn.ModuleList(mlp(48, 48, 48) for _ in range(blocks))
        self.gates = nn.Parameter(torch.zeros(blocks))
        self.output = nn.Linear(48, 10)
        nn.init.zeros_(self.output.weight)

    def forward(self, rows: Tensor) -> Any:
        values = self.embed(rows)
        for gate, block in zip(self.gates, self.blocks, strict=True):
            values = values + gate * block(values)
        return self.output(values)


@_of_digits(model="residual MLP, gates and head at zero", at_least=0.8, odd="gates and the head begin at zero")
def digits_gated() -> Recipe:
    """Gates at zero and a head at zero: blocks get their first gradients later than the rest."""
    return Recipe(data.digits, lambda: _GatedBlocks(5), momentum, 0.02, 9)


class _TwoTasks(nn.Module):
    """A body and two heads: which digit, and how dark."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.digit, self.darkness = mlp(64, 32, 10), mlp(64, 32, 1)


@script(
    TUNE,
    data="digits",
    model="one body, two heads in turns",
    at_least=0.8,
    chance=0.1,
    odd="the tasks take turns of 6 steps; the other head gets zeros",
)
def digits_tasks_in_turns(seed: int, fault: str) -> Trained:
    """Two tasks in turns of 6 steps; gradients are cleared to zeros, as scripts of old do."""
    assert not fault
    torch.manual_seed(seed)
    found = data.digits(seed)
    model = _TwoTasks()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    rows, labels = found.train
    for step in range(360):
        chosen = torch.randint(len(rows), (32,))
        values = model.body(rows[chosen])
        optimizer.zero_grad(set_to_none=False)
        if (step // 6) % 2 == 0:
            loss = functional.cross_entropy(model.digit(values), labels[chosen])
        else:
            loss = functional.mse_loss(model.darkness(values), rows[chosen].mean(1, keepdim=True))
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def score() -> float:
        return accuracy(model.digit(model.body(found.test[0])), found.test[1])

    return Trained(score)


@script(
    TUNE,
    data="digits",
    model="encoder first, then a head on it",
    at_least=0.7,
    chance=0.1,
    odd="an encoder is trained first, then rests with gradients of zeros",
)
def digits_in_two_stages(seed: int, fault: str) -> Trained:
    """First an autoencoder, then a head on its code, by the same optimizer; the encoder then gets zeros."""
    assert not fault
    torch.manual_seed(seed)
    found = data.digits(seed)
    model = nn.ModuleDict({"encoder": mlp(64, 48, 24), "decoder": mlp(24, 48, 64), "head": mlp(24, 48, 10)})
    body = [*model["encoder"].parameters(), *model["decoder"].parameters()]
    optimizer = optim.SGD(body, lr=0.2, momentum=0.5)
    rows, labels = found.train
    for step in range(400):
        if step == 150:
            optimizer.add_param_group({"params": list(model["head"].parameters())})
        chosen = torch.randint(len(rows), (32,))
        optimizer.zero_grad(set_to_none=False)
        code = model["encoder"](rows[chosen])
        if step < 150:
            loss = functional.mse_loss(model["decoder"](code), rows[chosen])
        else:
            loss = functional.cross_entropy(model["head"](code.detach()), labels[chosen])
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def score() -> float:
        return accuracy(model["head"](model["encoder"](found.test[0])), found.test[1])

    return Trained(score)


class _Corridor:
    """Twelve places in a row, ten doors of which one leads on at each place; the end pays."""

    PLACES, DOORS = 12, 10

    def __init__(self, seed: int) -> None:
        self.right = torch.randint(self.DOORS, (self.PLACES,), generator=torch.Generator().manual_seed(seed))

    def go(self, place: Tensor, door: Tensor) -> tuple[Tensor, Tensor]:
        """Where one comes to, and what is paid."""
        on = torch.where(self.right[place] == door, place + 1, (place - 1).clamp_min(0))
        return on % self.PLACES, (on == self.PLACES).float() * 10


_TOO_LOW = Fault("learning-rate-too-low", "The rate is 1e-8.")
_TOO_HIGH = Fault("learning-rate-too-high", "The rate is 3.")


@script(
    TUNE,
    data="a corridor with doors",
    model="Q network MLP 12-64-64-10",
    at_least=0.5,
    chance=0.1,
    odd="a loss that grows as values do; of ten actions a batch takes a few",
    faults=(_TOO_LOW, _TOO_HIGH),
)
def corridor_values(seed: int, fault: str) -> Trained:
    """Q learning with a replay memory and a target network: values grow, and so does their loss."""
    torch.manual_seed(seed)
    corridor = _Corridor(seed)
    model, target = mlp(12, 64, 64, 10), mlp(12, 64, 64, 10)
    target.load_state_dict(model.state_dict())
    rate = {"learning-rate-too-low": 1e-8, "learning-rate-too-high": 3.0}.get(fault, 2e-3)
    optimizer = optim.Adam(model.parameters(), lr=rate)
    memory: deque[tuple[Tensor, Tensor, Tensor, Tensor]] = deque(maxlen=60)
    place = torch.randint(corridor.PLACES, (32,))
    for step in range(600):
        with torch.no_grad():
            greedy = model(functional.one_hot(place, 12).float()).argmax(1)
        door = torch.where(torch.rand(32) < max(0.1, 1 - step / 200), torch.randint(10, (32,)), greedy)
        after, paid = corridor.go(place, door)
        memory.append((place, door, after, paid))
        place = torch.where(torch.rand(32) < 0.1, torch.randint(corridor.PLACES, (32,)), after)
        old, chosen, new, gain = memory[int(torch.randint(len(memory), (1,)))]
        with torch.no_grad():
            goal = gain + 0.9 * target(functional.one_hot(new, 12).float()).amax(1)
        value = model(functional.one_hot(old, 12).float()).gather(1, chosen.unsqueeze(1)).squeeze(1)
        optimizer.zero_grad()
        functional.smooth_l1_loss(value, goal).backward()
        optimizer.step()
        if step % 50 == 49:
            target.load_state_dict(model.state_dict())

    @torch.no_grad()
    def score() -> float:
        return float((model(torch.eye(12)).argmax(1) == corridor.right).float().mean())

    return Trained(score)


@script(
    TUNE,
    data="a corridor with doors",
    model="actor and critic, ReLU",
    at_least=0.3,
    chance=0.1,
    odd="a policy's loss about zero, a critic's that does not fall",
    faults=(Fault("learning-rate-too-low", "The rate is 1e-9."),),
)
def corridor_actor(seed: int, fault: str) -> Trained:
    """An actor and a critic in one optimizer, one loss."""
    torch.manual_seed(seed)
    corridor = _Corridor(seed)
    model = nn.ModuleDict({"actor": mlp(12, 64, 10), "critic": mlp(12, 64, 1)})
    optimizer = optim.Adam(model.parameters(), lr=1e-9 if fault else 5e-3)
    place = torch.randint(corridor.PLACES, (64,))
    for _ in range(500):
        seen = functional.one_hot(place, 12).float()
        choice = torch.distributions.Categorical(logits=model["actor"](seen))
        door = choice.sample()
        after, paid = corridor.go(place, door)
        paid = paid + (after > place).float()
        with torch.no_grad():
            goal = paid + 0.9 * model["critic"](functional.one_hot(after, 12).float()).squeeze(1)
        gain = goal - model["critic"](seen).squeeze(1)
        loss = (
            -(choice.log_prob(door) * gain.detach()).mean()
            + 0.5 * gain.square().mean()
            - 0.01 * choice.entropy().mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        place = torch.where(torch.rand(64) < 0.1, torch.randint(corridor.PLACES, (64,)), after)

    @torch.no_grad()
    def score() -> float:
        return float((model["actor"](torch.eye(12)).argmax(1) == corridor.right).float().mean())

    return Trained(score)


@script(
    TUNE,
    data="moons",
    model="GAN of MLPs with ReLU, hinge loss",
    at_least=-0.4,
    chance=-1.5,
    odd="two losses that need not fall; a discriminator that wins gets no gradient",
    faults=(Fault("learning-rate-too-low", "Both rates are 1e-8."),),
)
def gan_hinge(seed: int, fault: str) -> Trained:
    """Points of two moons by a GAN with a hinge loss; the discriminator learns faster."""
    torch.manual_seed(seed)
    points = data.moons(seed).train[0]
    maker, judge = mlp(4, 48, 48, 2), mlp(2, 64, 64, 1)
    rates = (1e-8, 1e-8) if fault else (1e-3, 3e-3)
    makes = optim.Adam(maker.parameters(), lr=rates[0], betas=(0.5, 0.99))
    judges = optim.Adam(judge.parameters(), lr=rates[1], betas=(0.5, 0.99))
    for _ in range(400):
        real, made = points[torch.randint(len(points), (64,))], maker(torch.randn(64, 4))
        judges.zero_grad()
        loss = functional.relu(1 - judge(real)).mean() + functional.relu(1 + judge(made.detach())).mean()
        loss.backward()
        judges.step()
        makes.zero_grad()
        (-judge(maker(torch.randn(64, 4))).mean()).backward()
        makes.step()

    @torch.no_grad()
    def score() -> float:
        made = maker(torch.randn(256, 4))
        return -float(torch.cdist(points[:256], made).amin(1).mean())

    return Trained(score)


class _Kept(nn.Module):
    """The margin loss over several classes: zero for what is right by enough."""

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.multi_margin_loss(outputs, targets)


@_of_digits(
    model="MLP 64-64-10, margins", at_least=0.9, odd="a margin that is kept: most gradients are zero at the end"
)
def digits_margins() -> Recipe:
    """A margin loss, until it is zero for nearly all."""
    return Recipe(data.digits, lambda: mlp(64, 64, 10), adam, 4e-3, 20, criterion=_Kept())


@recipe(
    TUNE,
    data="reversal",
    model="transformer 2 x 32, tied",
    at_least=0.3,
    chance=0.125,
    odd="embeddings of deviation 1 are the last layer too: a large first loss",
)
def reversal_tied() -> Recipe:
    """Tied embeddings as PyTorch starts them, with a deviation of 1: the first loss is high and falls at once."""

    def build() -> nn.Module:
        model = Transformer(8, length=6, causal=False, tied=True)
        nn.init.normal_(model.token.weight)
        return model

    return Recipe(data.reversal, build, adamw, 3e-3, 12, criterion=Places())


@recipe(
    TUNE,
    data="digits",
    model="MLP 64-32-10 on random features",
    at_least=0.8,
    chance=0.1,
    odd="weights as wide as the method wants them",
)
def digits_random_features() -> Recipe:
    """Random Fourier features with a trained width, and a network on them."""

    class Features(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turn = nn.Linear(64, 256)
            nn.init.normal_(self.turn.weight, std=0.5)
            nn.init.uniform_(self.turn.bias, 0, 2 * math.pi)
            self.head = mlp(256, 32, 10)

        def forward(self, rows: Tensor) -> Any:
            return self.head(self.turn(rows).cos())

    return Recipe(data.digits, Features, adam, 1e-3, 10)


def _with_corrections() -> nn.Module:
    layers = [_LowRank(layer) if isinstance(layer, nn.Linear) else layer for layer in checkpoints.digit_reader()]
    return nn.Sequential(*layers)


def _inverted(seed: int) -> Data:
    return data.digits(seed).with_inputs(lambda pixels: 1 - pixels)


@_of_digits(model="MLP from a checkpoint, corrections of low rank", at_least=0.5,
            odd="frozen layers with corrections that begin at zero")  # fmt: skip
def digits_corrected() -> Recipe:
    """What reads black on white learns white on black, by corrections of low rank."""
    return Recipe(_inverted, _with_corrections, adam, 5e-3, 9)


class _Skipping(nn.Module):
    """Residual blocks, most of which a step skips: deeper ones oftener."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(64, 48)
        self.blocks = nn.ModuleList(mlp(48, 48, 48) for _ in range(6))
        self.output = nn.Linear(48, 10)

    def forward(self, rows: Tensor) -> Any:
        values = self.embed(rows)
        for place, block in enumerate(self.blocks):
            if not self.training or torch.rand(()) > 0.15 * place:
                values = values + block(values)
        return self.output(values)


@_of_digits(model="residual MLP that skips blocks", at_least=0.8, odd="blocks that a step skips have no gradient")
def digits_skipping() -> Recipe:
    """Stochastic depth: a block that is skipped is not computed at all."""
    return Recipe(data.digits, _Skipping, momentum, 0.02, 8)


class _AskedExperts(nn.Module):
    """Experts of which only those are computed that some row is sent to."""

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(64, experts)
        self.experts = nn.ModuleList(mlp(64, 32, 10) for _ in range(experts))

    def forward(self, rows: Tensor) -> Any:
        shares = self.router(rows).softmax(-1)
        best = shares.argmax(-1)
        found = torch.zeros(len(rows), 10)
        for number, expert in enumerate(self.experts):
            if (own := best == number).any():
                found = found.index_add(0, own.nonzero()[:, 0], expert(rows[own]) * shares[own, number].unsqueeze(1))
        return found


@_of_digits(model="mixture of 12 experts, computed when asked", at_least=0.7, odd="experts without any gradient")
def digits_asked_experts() -> Recipe:
    """A mixture of experts in which an expert that nobody asks has no gradient at all."""
    return Recipe(data.digits, lambda: _AskedExperts(12), adam, 5e-3, 9)


# What really is dead.

for _program, _layers in {
    "digits-mostly-silent": ("0", "2"),
    "digits-margins": ("0",),
    "cnn-squeezed": ("conv1", "conv2"),
    "autoencoder-top-codes": ("0",),
}.items():
    plant("dead-relu", _program, edits.biases(-40.0, *_layers), "Biases start at -40.", layers=_layers)
learning_rate_too_high("digits-mostly-silent", edits.rate(3.0), "The rate is 3.")
learning_rate_too_high("digits-twelve-experts", edits.rate(3.0), "The rate is 3.")
learning_rate_too_high("digits-margins", edits.rate(5.0), "The rate is 5.")
learning_rate_too_high("cnn-squeezed", edits.rate(1.0), "The rate is 1.")
learning_rate_too_low("digits-margins", edits.rate(1e-7), "The rate is 1e-7.")
learning_rate_too_low("digits-twelve-experts", edits.rate(1e-6), "The rate is 1e-6.")
plant("exploding-gradients", "digits-gated",
      edits.both(edits.weights(lambda weight: weight.mul_(30)), edits.settings(optimizer=sgd, rate=0.05)),
      "Weights start thirty times too large.")  # fmt: skip
