"""Trainings whose parts have their turn later, whose loss falls late, or that begin anew; and parts left out."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.program import TUNE, Fault, Trained
from benchmarks.detection.corpus.registry import script

BATCH = 32
LEFT_OUT, FROZEN, VANISHING = "parameters-not-in-optimizer", "frozen-layers", "vanishing-gradients"


class BodyAndHead(nn.Module):
    """Three hidden layers and an output layer, for digits."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])
        self.head = nn.Linear(64, 10)

    def forward(self, rows: Tensor) -> Tensor:
        for layer in self.body:
            rows = functional.relu(layer(rows))
        return self.head(rows)


def _train(
    model: nn.Module, found: data.Data, epochs: int, *, optimizer_of: Callable[[int], optim.Optimizer]
) -> Trained:
    """Train with the optimizer of each epoch, and evaluate after it."""
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        optimizer = optimizer_of(epoch)
        model.train()
        for rows in torch.randperm(len(found.train[0])).split(BATCH):
            optimizer.zero_grad()
            criterion(model(found.train[0][rows]), found.train[1][rows]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            criterion(model(found.valid[0]), found.valid[1]).item()
    return Trained(lambda: _accuracy(model, found.test))


def _accuracy(model: nn.Module, part: data.Part) -> float:
    model.eval()
    with torch.no_grad():
        return float((model(part[0]).argmax(1) == part[1]).float().mean())


@script(
    TUNE,
    data="digits",
    model="MLP 64-64-64-64-10",
    at_least=0.8,
    chance=0.1,
    odd="layers are frozen at first, and thawed one by one in later epochs",
    faults=(Fault(FROZEN, "The layers are never thawed.", layers=("body.0", "body.1", "body.2")),),
)
def digits_thawed(seed: int, fault: str) -> Trained:
    """Gradual unfreezing: the output layer first, then one layer more every second epoch."""
    torch.manual_seed(seed)
    model = BodyAndHead()
    model.body.requires_grad_(False)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)

    def thaw(epoch: int) -> optim.Optimizer:
        if epoch >= 1 and not fault:
            for layer in list(model.body)[-((epoch + 1) // 2) :]:
                layer.requires_grad_(True)
        return optimizer

    return _train(model, data.digits(seed), 10, optimizer_of=thaw)


@script(
    TUNE,
    data="digits",
    model="MLP 64-64-64-64-10, Xavier",
    at_least=0.8,
    chance=0.1,
    odd="layers join the optimizer in later epochs",
    faults=(Fault(FROZEN, "The layers never join it.", layers=("body.0", "body.1", "body.2")),),
)
def digits_joining(seed: int, fault: str) -> Trained:
    """Unfreezing by parameter groups, from normally distributed weights."""
    torch.manual_seed(seed)
    model = BodyAndHead()
    for layer in model.body:
        nn.init.xavier_normal_(layer.weight)
    model.body.requires_grad_(False)
    optimizer = optim.SGD(model.head.parameters(), lr=0.1)

    def join(epoch: int) -> optim.Optimizer:
        if epoch in {1, 2, 3} and not fault:
            layer = model.body[3 - epoch].requires_grad_(True)
            optimizer.add_param_group({"params": list(layer.parameters())})
        return optimizer

    return _train(model, data.digits(seed), 10, optimizer_of=join)


@script(
    TUNE,
    data="digits",
    model="MLP 64-64-64-64-10",
    at_least=0.8,
    chance=0.1,
    odd="the output layer begins anew twice, with a new optimizer",
    faults=(Fault(LEFT_OUT, "The layers are replaced after the optimizer was built.", layers=("body",)),),
)
def digits_new_head(seed: int, fault: str) -> Trained:
    """The output layer is drawn anew after the fourth and the eighth epoch."""
    torch.manual_seed(seed)
    model = BodyAndHead()
    optimizer: optim.Optimizer = optim.Adam(model.parameters(), lr=2e-3)
    if fault:
        model.body = BodyAndHead().body

    def renew(epoch: int) -> optim.Optimizer:
        nonlocal optimizer
        if epoch in {4, 8} and not fault:
            model.head.reset_parameters()
            optimizer = optim.Adam(model.parameters(), lr=2e-3)
        return optimizer

    return _train(model, data.digits(seed), 12, optimizer_of=renew)


@script(
    TUNE,
    data="digits",
    model="encoder 64-64-64 and a linear classifier, two models",
    at_least=0.8,
    chance=0.1,
    odd="an optimizer for each model, one loss",
    faults=(Fault(LEFT_OUT, "The encoder has no optimizer.", layers=("0", "2")),),
)
def digits_two_models(seed: int, fault: str) -> Trained:
    """An encoder and a classifier that are trained together."""
    torch.manual_seed(seed)
    found = data.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    classifier = nn.Linear(64, 10)
    optimizers: list[optim.Optimizer] = [optim.Adam(classifier.parameters(), lr=2e-3)]
    if not fault:
        optimizers.append(optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9))
    for _ in range(8):
        for rows in torch.randperm(len(found.train[0])).split(BATCH):
            for optimizer in optimizers:
                optimizer.zero_grad()
            functional.cross_entropy(classifier(encoder(found.train[0][rows])), found.train[1][rows]).backward()
            for optimizer in optimizers:
                optimizer.step()
    return Trained(lambda: _accuracy(nn.Sequential(encoder, classifier), found.test))


class NarrowBlock(nn.Module):
    """Attention and two linear layers, each with a residual and normalised after it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, hidden: Tensor) -> Tensor:
        query, key, value = (
            layer(hidden).unflatten(-1, (2, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        hidden = self.first(hidden + self.output(seen))
        return self.second(hidden + self.narrow(functional.gelu(self.wide(hidden))))


class NarrowTransformer(nn.Module):
    """A transformer with weights of deviation 0.02, as in BERT, that reads the first place."""

    def __init__(self, symbols: int, length: int, width: int, blocks: int) -> None:
        super().__init__()
        self.symbols, self.places = nn.Embedding(symbols, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*[NarrowBlock(width) for _ in range(blocks)])
        self.pool, self.classes = nn.Linear(width, width), nn.Linear(width, 2)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, symbols: Tensor) -> Tensor:
        hidden = self.blocks(self.norm(self.symbols(symbols) + self.places.weight))
        return self.classes(torch.tanh(self.pool(hidden[:, 0])))


@script(
    TUNE,
    data="sequences of 60 symbols, is the first a small one",
    model="transformer, width 32, 5 blocks, as BERT is initialised",
    at_least=0.9,
    chance=0.5,
    odd="attention logits, and with them the gradients of queries and keys, begin near zero",
)
def narrow_transformer(seed: int, fault: str) -> Trained:
    """A narrow transformer with AdamW."""
    assert not fault
    torch.manual_seed(seed)
    symbols = torch.randint(0, 60, (512, 12))
    found = data.parts(symbols, (symbols[:, 0] < 30).long(), seed)
    model = NarrowTransformer(60, 12, 32, 5)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    return _train(model, found, 12, optimizer_of=lambda _: optimizer)


@script(
    TUNE,
    data="12 signs, the product of three",
    model="MLP 12-128-2",
    at_least=0.9,
    chance=0.5,
    odd="the loss stands at that of guessing for 200 steps, then falls",
)
def parity_late(seed: int, fault: str) -> Trained:
    """A parity, which shows nothing of itself to those who know a part of it."""
    assert not fault
    torch.manual_seed(seed)
    signs = (torch.randint(0, 2, (2048, 12)) * 2 - 1).float()
    found = data.parts(signs, (signs[:, :3].prod(1) > 0).long(), seed)
    model = nn.Sequential(nn.Linear(12, 128), nn.ReLU(), nn.Linear(128, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    return _train(model, found, 20, optimizer_of=lambda _: optimizer)


@script(
    TUNE,
    data="digits",
    model="MLP 64-64-10",
    at_least=0.6,
    chance=0.1,
    odd="the rows become noisier, and the loss higher, in four steps",
)
def digits_ever_noisier(seed: int, fault: str) -> Trained:
    """A curriculum from clear digits to noisy ones."""
    assert not fault
    torch.manual_seed(seed)
    found = data.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    for noise in (0.0, 0.5, 1.0, 1.5):
        rows = found.train[0] + noise * torch.randn_like(found.train[0])
        _train(model, data.Data((rows, found.train[1]), found.valid, found.test), 4, optimizer_of=lambda _: optimizer)
    return Trained(lambda: _accuracy(model, found.test))


@script(
    TUNE,
    data="digits",
    model="MLP of 8 hidden layers of 32, tanh, normalised weights of deviation 0.18",
    at_least=0.5,
    chance=0.1,
    faults=(Fault(VANISHING, "The weights are drawn with a deviation of 0.035.", layers=("0", "2", "4")),),
)
def digits_deep_tanh(seed: int, fault: str) -> Trained:
    """A deep network of tanh by plain gradient descent."""
    torch.manual_seed(seed)
    sizes = [64, *[32] * 8]
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(32, 10))
    for module in model:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.035 if fault else 0.18)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    return _train(model, data.digits(seed), 12, optimizer_of=lambda _: optimizer)
