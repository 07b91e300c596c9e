"""Losses by hand of either sign: what is to be near, or likely, and what a wrong sign makes of it. All tune split."""

from functools import partial

import torch
from torch import Tensor, nn, optim
from torch.distributions import Categorical
from torch.nn import functional

from benchmarks.detection.corpus import data, edits
from benchmarks.detection.corpus.models import mlp
from benchmarks.detection.corpus.optimizers import adam, momentum
from benchmarks.detection.corpus.program import TUNE, Fault, Trained
from benchmarks.detection.corpus.registry import plant, recipe, script
from benchmarks.detection.corpus.supervised import Recipe

wrong_loss_sign = partial(plant, "wrong-loss-sign")


def _nearest_is_alike(encoder: nn.Module, found: data.Data) -> float:
    """How often the nearest training example is of the same class."""
    encoder.eval()
    with torch.no_grad():
        nearest = torch.cdist(encoder(found.test[0]), encoder(found.train[0])).argmin(1)
    return float((found.train[1][nearest] == found.test[1]).float().mean())


def _mates(labels: Tensor, rows: Tensor, *, alike: bool) -> Tensor:
    """For each row another one, of the same class or of another."""
    same = labels[rows].unsqueeze(1) == labels.unsqueeze(0)
    return (same if alike else ~same).float().multinomial(1).squeeze(1)


@script(
    TUNE,
    data="wine",
    model="encoder 13-32-4",
    at_least=0.8,
    chance=0.35,
    odd="a triplet loss of squared distances, by hand; it stands at 0 for most triplets in the end",
    faults=(
        Fault("wrong-loss-sign", "The distances are exchanged."),
        Fault("learning-rate-too-low", "SGD is given 1e-5."),
    ),
)
def triplets_wine(seed: int, fault: str) -> Trained:
    """A wine nearer to its like than to another."""
    torch.manual_seed(seed)
    found = data.wine(seed)
    inputs, labels = found.train
    encoder = mlp(13, 32, 4)
    optimizer = optim.SGD(encoder.parameters(), lr=1e-5 if fault == "learning-rate-too-low" else 0.05, momentum=0.9)
    for _ in range(300):
        rows = torch.randint(len(inputs), (24,))
        anchors = functional.normalize(encoder(inputs[rows]))
        alike = functional.normalize(encoder(inputs[_mates(labels, rows, alike=True)]))
        other = functional.normalize(encoder(inputs[_mates(labels, rows, alike=False)]))
        near, far = ((anchors - alike) ** 2).sum(1), ((anchors - other) ** 2).sum(1)
        if fault == "wrong-loss-sign":
            near, far = far, near
        optimizer.zero_grad()
        functional.relu(near - far + 0.4).mean().backward()
        optimizer.step()
    return Trained(lambda: _nearest_is_alike(encoder, found))


@script(
    TUNE,
    data="iris",
    model="encoder 4-24-3",
    at_least=0.8,
    chance=0.35,
    odd="of each batch only the hardest negatives count: the loss begins above its margin and stays there for a while",
)
def triplets_hardest(seed: int, fault: str) -> Trained:
    """Triplets with the nearest of the others, as in re-identification."""
    torch.manual_seed(seed)
    found = data.iris(seed)
    inputs, labels = found.train
    encoder = mlp(4, 24, 3)
    optimizer = optim.Adam(encoder.parameters(), lr=1e-3)
    loss_of = nn.TripletMarginLoss(margin=0.5)
    for _ in range(300):
        rows = torch.randint(len(inputs), (32,))
        told, classes = encoder(inputs[rows]), labels[rows]
        apart = torch.cdist(told, told).detach()
        same = classes.unsqueeze(1) == classes.unsqueeze(0)
        furthest = apart.masked_fill(~same, -1.0).argmax(1)
        nearest = apart.masked_fill(same, 1e9).argmin(1)
        optimizer.zero_grad()
        loss_of(told, told[furthest], told[nearest]).backward()
        optimizer.step()
    return Trained(lambda: _nearest_is_alike(encoder, found))


@script(
    TUNE,
    data="digits, each row against another of its class",
    model="encoder 64-48-16",
    at_least=0.85,
    chance=0.1,
    odd="the classes of the loss are the rows of the batch",
    faults=(Fault("wrong-loss-sign", "The logarithm of the likelihood is made small."),),
)
def contrast_by_hand(seed: int, fault: str) -> Trained:
    """Contrast by hand: the diagonal of a log-softmax of similarities."""
    torch.manual_seed(seed)
    found = data.digits(seed)
    inputs, labels = found.train
    encoder = mlp(64, 48, 16)
    optimizer = optim.Adam(encoder.parameters(), lr=2e-3)
    for _ in range(250):
        rows = torch.randint(len(inputs), (48,))
        first = functional.normalize(encoder(inputs[rows]))
        second = functional.normalize(encoder(inputs[_mates(labels, rows, alike=True)]))
        likelihood = functional.log_softmax(first @ second.t() / 0.2, 1).diagonal().mean()
        optimizer.zero_grad()
        (likelihood if fault == "wrong-loss-sign" else -likelihood).backward()
        optimizer.step()
    return Trained(lambda: _nearest_is_alike(encoder, found))


def _corridor(policy: nn.Module, *, greedy: bool) -> tuple[list[Tensor], float]:
    """One walk along nine places, from the middle; the right end pays 1, each step costs nothing, 12 steps at most."""
    place, logs = 4, []
    for _ in range(12):
        scores = policy(functional.one_hot(torch.tensor(place), 9).float())
        choice = Categorical(logits=scores)
        action = scores.argmax() if greedy else choice.sample()
        logs.append(choice.log_prob(action))
        place = max(0, place + (1 if action == 1 else -1))
        if place == 8:
            return logs, 1.0 - 0.05 * len(logs)
    return logs, 0.0


@script(
    TUNE,
    data="a corridor",
    model="policy 9-16-2",
    at_least=0.5,
    chance=0.1,
    odd="a policy gradient without a baseline: the loss says nothing of the reward",
    faults=(Fault("wrong-loss-sign", "The reward is made small."),),
)
def corridor_policy(seed: int, fault: str) -> Trained:
    """Find the end that pays."""
    torch.manual_seed(seed)
    policy = mlp(9, 16, 2)
    optimizer = optim.Adam(policy.parameters(), lr=0.01)
    for _ in range(120):
        steps = []
        for _ in range(6):
            logs, paid = _corridor(policy, greedy=False)
            steps.append(torch.stack(logs).sum() * paid)
        gain = torch.stack(steps).mean()
        optimizer.zero_grad()
        (gain if fault == "wrong-loss-sign" else -gain).backward()
        optimizer.step()
    return Trained(lambda: _corridor(policy, greedy=True)[1])


@script(
    TUNE,
    data="four places in a square",
    model="policy 8-32-4",
    at_least=-0.5,
    chance=-0.61,
    odd="what log-probabilities are multiplied by are costs less a baseline: they enter the loss with a plus",
)
def places_by_cost(seed: int, fault: str) -> Trained:
    """Which place is the nearest to the middle? A policy that is told what its choice costs."""
    torch.manual_seed(seed)
    policy = mlp(8, 32, 4)
    optimizer = optim.Adam(policy.parameters(), lr=0.01)
    usual = 0.6
    for _ in range(500):
        places = 2 * torch.rand(64, 4, 2) - 1
        choice = Categorical(logits=policy(places.flatten(1)))
        chosen = choice.sample()
        cost = places[torch.arange(64), chosen].norm(dim=1) * 0.8
        optimizer.zero_grad()
        (choice.log_prob(chosen) * (cost - usual)).mean().backward()
        optimizer.step()
        usual = 0.9 * usual + 0.1 * float(cost.mean())

    def saved() -> float:
        places = 2 * torch.rand(500, 4, 2) - 1
        with torch.no_grad():
            chosen = policy(places.flatten(1)).argmax(1)
        return -float(places[torch.arange(500), chosen].norm(dim=1).mean() * 0.8)

    return Trained(saved)


def _of_chosen(outputs: Tensor, targets: Tensor) -> Tensor:
    return -torch.log_softmax(outputs, -1)[torch.arange(len(targets)), targets].mean()


@recipe(TUNE, "iris", "MLP 4-24-3", at_least=0.8, chance=0.35, odd="cross entropy by hand")
def iris_by_hand() -> Recipe:
    """Cross entropy as the mean of minus the chosen log-probabilities."""
    return Recipe(data.iris, lambda: mlp(4, 24, 3), adam, 5e-3, 30, batch_size=16, criterion=_of_chosen)  # fmt: skip


@recipe(TUNE, "diabetes", "MLP 10-24-1", at_least=0.25, odd="a likelihood of densities, which goes below zero")
def diabetes_density() -> Recipe:
    """A normal density whose width is known, by hand."""
    return Recipe(
        data=data.diabetes,
        model=lambda: mlp(10, 24, 1),
        optimizer=momentum,
        rate=2e-3,
        epochs=20,
        criterion=lambda outputs, targets: (0.5 * ((outputs - targets) / 0.3) ** 2 - 1.2).mean() / 10,
        metric=lambda outputs, targets: float(1 - ((outputs - targets) ** 2).mean() / targets.var()),
    )


wrong_loss_sign("iris-by-hand", edits.wrong_sign(), "Cross entropy by hand has lost its minus.")
wrong_loss_sign("diabetes-density", edits.wrong_sign(), "The likelihood is made small.")
plant(
    "wrong-loss",
    "iris-by-hand",
    edits.settings(criterion=lambda outputs, targets: ((outputs - targets.unsqueeze(1)) ** 2).mean()),
    "A squared error by hand of three scores and the number of the class.",
)
