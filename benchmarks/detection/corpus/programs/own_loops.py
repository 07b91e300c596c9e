"""Trainings with loops of their own: by pairs, by closures, by derivatives, with state from batch to batch."""

import copy

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.data import CHARACTERS, WORDS
from benchmarks.detection.corpus.models import mlp
from benchmarks.detection.corpus.program import REPORT, TUNE, Evaluation, Fault, Trained
from benchmarks.detection.corpus.registry import script


def _neighbour_accuracy(encoder: nn.Module, found: data.Data) -> float:
    """The share of test rows whose nearest training row, as encoded, has the same label."""
    encoder.eval()
    with torch.no_grad():
        known, asked = (functional.normalize(encoder(rows), dim=1) for rows in (found.train[0], found.test[0]))
    nearest = (asked @ known.t()).argmax(1)
    return float((found.train[1][nearest] == found.test[1]).float().mean())


def _seen(rows: Tensor) -> Tensor:
    """The rows as they might look another time."""
    return (rows + 0.2 * torch.randn_like(rows)) * (torch.rand_like(rows) > 0.2)


@script(
    REPORT,
    data="digits",
    model="encoder 64-64-24, InfoNCE",
    at_least=0.8,
    chance=0.1,
    odd="contrastive: the classes of the loss are the rows of the batch; it stays far above 0",
    faults=(Fault("learning-rate-too-high", "SGD is given 500."),),
)
def contrastive_digits(seed: int, fault: str) -> Trained:
    """Two views of a digit are to be found among those of others."""
    torch.manual_seed(seed)
    found = data.digits(seed)
    encoder = mlp(64, 64, 24)
    optimizer = optim.SGD(encoder.parameters(), lr=500.0 if fault == "learning-rate-too-high" else 0.1, momentum=0.9)
    for _ in range(12):
        encoder.train()
        for rows in found.train[0][torch.randperm(len(found.train[0]))].split(48):
            optimizer.zero_grad()
            first, second = (functional.normalize(encoder(_seen(rows)), dim=1) for _ in range(2))
            functional.cross_entropy(first @ second.t() / 0.2, torch.arange(len(rows))).backward()
            optimizer.step()
    return Trained(lambda: _neighbour_accuracy(encoder, found))


@script(
    TUNE,
    data="digits",
    model="encoder 64-48-12, triplets",
    at_least=0.85,
    chance=0.1,
    odd="the loss is exactly 0 for most triplets in the end",
    faults=(Fault("wrong-loss-sign", "Near and far are exchanged."),),
)
def triplets_digits(seed: int, fault: str) -> Trained:
    """A digit nearer to its like than to another."""
    torch.manual_seed(seed)
    rows, labels = data.digits(seed).train
    encoder = mlp(64, 48, 12)
    optimizer = optim.Adam(encoder.parameters(), lr=2e-3)
    loss = nn.TripletMarginLoss(margin=1.0)
    by_label = [torch.nonzero(labels == label)[:, 0] for label in range(10)]
    for _ in range(8):
        for batch in torch.randperm(len(rows)).split(32):
            others = (labels[batch] + torch.randint(1, 10, batch.shape)) % 10
            alike, unlike = (
                torch.stack([by_label[label][torch.randint(len(by_label[label]), ())] for label in chosen])
                for chosen in (labels[batch].tolist(), others.tolist())
            )
            if fault == "wrong-loss-sign":
                alike, unlike = unlike, alike
            optimizer.zero_grad()
            loss(encoder(rows[batch]), encoder(rows[alike]), encoder(rows[unlike])).backward()
            optimizer.step()
    return Trained(lambda: _neighbour_accuracy(encoder, data.digits(seed)))


@script(
    REPORT,
    data="digits",
    model="encoder 64-64-32 and its slow copy",
    at_least=0.75,
    chance=0.1,
    odd="no negatives: a loss from -1 up; half of the network has no gradient on purpose",
)
def self_taught_digits(seed: int, fault: str) -> Trained:
    """Bootstrap your own latent: a predictor is to say what a slow copy of the encoder sees."""
    assert not fault
    torch.manual_seed(seed)
    found = data.digits(seed)
    encoder, predictor = mlp(64, 64, 32, norm=nn.BatchNorm1d), mlp(32, 32, 32, norm=nn.BatchNorm1d)
    slow = copy.deepcopy(encoder).requires_grad_(False)
    optimizer = optim.Adam([*encoder.parameters(), *predictor.parameters()], lr=1e-3)
    for _ in range(6):
        for rows in found.train[0][torch.randperm(len(found.train[0]))].split(48):
            optimizer.zero_grad()
            told, seen = predictor(encoder(_seen(rows))), slow(_seen(rows))
            (-functional.cosine_similarity(told, seen.detach()).mean()).backward()
            optimizer.step()
            with torch.no_grad():
                for kept, now in zip(slow.parameters(), encoder.parameters(), strict=True):
                    kept.lerp_(now, 0.05)
    return Trained(lambda: _neighbour_accuracy(encoder, found))


@script(
    REPORT,
    data="breast cancer",
    model="MLP 30-8-1, L-BFGS",
    at_least=0.9,
    chance=0.6,
    odd="a closure: forward and backward up to 8 times within a step; 30 steps in all",
    faults=(Fault("missing-zero-grad", "The closure does not clear gradients."),),
)
def cancer_lbfgs(seed: int, fault: str) -> Trained:
    """L-BFGS on all data at once."""
    torch.manual_seed(seed)
    found = data.breast_cancer_binary(seed)
    model = mlp(30, 8, 1, activation=nn.Tanh)
    optimizer = optim.LBFGS(model.parameters(), lr=0.3, max_iter=8)
    inputs, targets = found.train

    def closure() -> Tensor:
        if fault != "missing-zero-grad":
            optimizer.zero_grad()
        penalty = sum((weight**2).sum() for weight in model.parameters())
        loss: Tensor = functional.binary_cross_entropy_with_logits(model(inputs), targets) + 2e-3 * penalty
        loss.backward()
        return loss

    history = []
    for step in range(30):
        model.train()
        loss = optimizer.step(closure).item()
        model.eval()
        with torch.no_grad():
            valid = functional.binary_cross_entropy_with_logits(model(found.valid[0]), found.valid[1])
        history.append(Evaluation(step + 1, loss, valid.item()))

    def accuracy() -> float:
        with torch.no_grad():
            return float(((model(found.test[0]) > 0).float() == found.test[1]).float().mean())

    return Trained(accuracy, tuple(history))


@script(
    TUNE,
    data="diabetes",
    model="MLP 10-16-1, ranking",
    at_least=0.65,
    chance=0.5,
    odd="a margin ranking loss that sees pairs only",
    faults=(Fault("wrong-loss-sign", "Who ranks higher is told the wrong way round."),),
)
def diabetes_ranking(seed: int, fault: str) -> Trained:
    """Which of two patients fares worse?"""
    torch.manual_seed(seed)
    found = data.diabetes(seed)
    inputs, targets = found.train
    model = mlp(10, 16, 1)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    loss_of = nn.MarginRankingLoss(margin=0.5)
    for _ in range(250):
        first, second = torch.randint(len(inputs), (2, 32))
        order = torch.sign(targets[first] - targets[second] + 1e-9)
        optimizer.zero_grad()
        loss_of(model(inputs[first]), model(inputs[second]), -order if fault == "wrong-loss-sign" else order).backward()
        optimizer.step()

    def share_ordered() -> float:
        with torch.no_grad():
            told = model(found.test[0])
        agree = torch.sign(told - told.t()) == torch.sign(found.test[1] - found.test[1].t())
        return float(agree[~torch.eye(len(told), dtype=torch.bool)].float().mean())

    return Trained(share_ordered)


class Factors(nn.Module):
    """A vector for each user and each thing; how much one likes the other is their product."""

    def __init__(self, users: int, things: int, width: int = 6) -> None:
        super().__init__()
        self.users = nn.Embedding(users, width, sparse=True)
        self.things = nn.Embedding(things, width, sparse=True)
        for table in (self.users, self.things):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, pairs: Tensor) -> Tensor:
        liked: Tensor = (self.users(pairs[:, 0]) * self.things(pairs[:, 1])).sum(1)
        return liked


@script(
    REPORT,
    data="made-up likings",
    model="matrix factorisation",
    at_least=0.5,
    odd="sparse gradients: most rows do not change at a step",
    faults=(
        Fault("learning-rate-too-low", "SparseAdam is given 1e-7."),
        Fault("symmetric-initialisation", "Both tables start at zero.", layers=("users", "things")),
    ),
)
def likings_factors(seed: int, fault: str) -> Trained:
    """Who likes what, from one rating in five."""
    torch.manual_seed(seed)
    users, things = torch.randn(80, 3), torch.randn(60, 3)
    likings = users @ things.t() / 3**0.5
    pairs = torch.cartesian_prod(torch.arange(80), torch.arange(60))[torch.randperm(4800)]
    known, asked = pairs[:2400], pairs[2400:]
    model = Factors(80, 60)
    if fault == "symmetric-initialisation":
        nn.init.zeros_(model.users.weight)
        nn.init.zeros_(model.things.weight)
    optimizer = optim.SparseAdam(list(model.parameters()), lr=1e-7 if fault == "learning-rate-too-low" else 0.03)
    for _ in range(10):
        for batch in known[torch.randperm(len(known))].split(64):
            optimizer.zero_grad()
            functional.mse_loss(model(batch), likings[batch[:, 0], batch[:, 1]]).backward()
            optimizer.step()

    def explained() -> float:
        truth = likings[asked[:, 0], asked[:, 1]]
        with torch.no_grad():
            return float(1 - ((model(asked) - truth) ** 2).mean() / truth.var())

    return Trained(explained)


@script(
    REPORT,
    data="an oscillator's equation",
    model="MLP 1-32-32-1, tanh",
    at_least=0.7,
    odd="the loss is made of derivatives of the output: backward through backward",
    faults=(Fault("learning-rate-too-high", "Adam is given 3."),),
)
def oscillator_equation(seed: int, fault: str) -> Trained:
    """A physics-informed network: y'' = -4 y from y = 1 at rest, over half a turn and more."""
    torch.manual_seed(seed)
    model = mlp(1, 32, 32, 1, activation=nn.Tanh)
    optimizer = optim.Adam(model.parameters(), lr=3.0 if fault == "learning-rate-too-high" else 5e-3)
    start = torch.zeros(1, 1, requires_grad=True)

    def slope(values: Tensor, times: Tensor) -> Tensor:
        return torch.autograd.grad(values.sum(), times, create_graph=True)[0]

    for _ in range(600):
        times = (2 * torch.rand(48, 1)).requires_grad_()
        optimizer.zero_grad()
        values, first = model(times), model(start)
        bend = slope(slope(values, times), times)
        physics = ((bend + 4 * values) ** 2).mean()
        beginning = (first - 1) ** 2 + slope(first, start) ** 2
        (0.1 * physics + 3 * beginning.sum()).backward()
        optimizer.step()

    def explained() -> float:
        times = torch.linspace(0, 2, 100).unsqueeze(1)
        truth = torch.cos(2 * times)
        with torch.no_grad():
            return float(1 - ((model(times) - truth) ** 2).mean() / truth.var())

    return Trained(explained)


class Reader(nn.Module):
    """Reads characters and remembers its state from passage to passage."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, 16)
        self.recurrent = nn.GRU(16, 48, batch_first=True)
        self.output = nn.Linear(48, CHARACTERS)

    def forward(self, symbols: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        values, state = self.recurrent(self.embedding(symbols), state)
        return self.output(values), state


@script(
    REPORT,
    data="text",
    model="GRU of 48 over characters, stateful",
    at_least=0.25,
    chance=0.17,
    odd="the state goes on from batch to batch, cut off from its past; the data are in order on purpose",
    faults=(
        Fault("learning-rate-too-high", "Adam is given 1.0."),
        Fault("missing-zero-grad", "`zero_grad` is never called."),
    ),
)
def characters_stateful(seed: int, fault: str) -> Trained:
    """Truncated backpropagation through time over a long text."""
    torch.manual_seed(seed)
    codes = data.documentation()[: 16 * 5000].view(16, -1)
    model = Reader()
    optimizer = optim.Adam(model.parameters(), lr=1.0 if fault == "learning-rate-too-high" else 8e-3)
    state = None
    for place in range(0, 200 * 20, 20):
        symbols, following = codes[:, place : place + 20], codes[:, place + 1 : place + 21]
        logits, state = model(symbols, state)
        if fault != "missing-zero-grad":
            optimizer.zero_grad()
        functional.cross_entropy(logits.flatten(0, 1), following.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        state = state.detach()

    def accuracy() -> float:
        with torch.no_grad():
            logits, _ = model(codes[:, 4100:4700], None)
        return float((logits.argmax(2) == codes[:, 4101:4701]).float().mean())

    return Trained(accuracy)


@script(
    REPORT,
    data="text",
    model="two tables of words, negative sampling",
    at_least=0.55,
    chance=0.5,
    odd="two sparse tables, one of which starts at zero on purpose, as word2vec does",
    faults=(
        Fault("learning-rate-too-low", "SparseAdam is given 1e-8."),
        Fault("symmetric-initialisation", "Both tables start at zero.", layers=("words", "contexts")),
    ),
)
def words_skip_gram(seed: int, fault: str) -> Trained:
    """Skip-gram with negative sampling."""
    torch.manual_seed(seed)
    passages = data.topic_words(seed)
    words, contexts = (nn.Embedding(WORDS, 24, sparse=True) for _ in range(2))
    model = nn.ModuleDict({"words": words, "contexts": contexts})
    if fault == "symmetric-initialisation":
        nn.init.zeros_(words.weight)
    else:
        nn.init.uniform_(words.weight, -0.5 / 24, 0.5 / 24)
    nn.init.zeros_(contexts.weight)
    rate = 1e-8 if fault == "learning-rate-too-low" else 0.02
    optimizer = optim.SparseAdam(list(model.parameters()), lr=rate)

    def pairs(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        row, place = torch.randint(len(rows), (count,)), torch.randint(rows.shape[1] - 2, (count,))
        return rows[row, place], rows[row, place + 1 + torch.randint(2, (count,))]

    def match(first: Tensor, second: Tensor) -> Tensor:
        likeness: Tensor = (words(first) * contexts(second)).sum(1)
        return likeness

    for _ in range(400):
        first, second = pairs(passages.train[0], 128)
        other = torch.randint(WORDS, (128,))
        optimizer.zero_grad()
        loss = -(functional.logsigmoid(match(first, second)) + functional.logsigmoid(-match(first, other))).mean()
        loss.backward()
        optimizer.step()

    def share_told_apart() -> float:
        first, second = pairs(passages.test[0], 4000)
        with torch.no_grad():
            return float((match(first, second) > match(first, torch.randint(WORDS, (4000,)))).float().mean())

    return Trained(share_told_apart)
