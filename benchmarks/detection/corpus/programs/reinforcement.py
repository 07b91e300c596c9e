"""Agents that learn by what they are paid."""

from collections import deque

import numpy as np
import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from benchmarks.detection.corpus.models import mlp
from benchmarks.detection.corpus.program import REPORT, TUNE, Fault, Trained
from benchmarks.detection.corpus.registry import script


class CartPole:
    """A pole on a cart, many at once: push left or right; 1 is paid for each moment that it stands, 60 at most."""

    LONGEST = 60

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self._random = random
        self.states = random.uniform(-0.05, 0.05, (count, 4))
        self.standing = np.ones(count, bool)

    def push(self, actions: np.ndarray) -> np.ndarray:
        """One moment; what each is paid."""
        _, speed, angle, turning = self.states.T
        force = np.where(actions == 1, 10.0, -10.0)
        pull = (force + 0.05 * turning**2 * np.sin(angle)) / 1.1
        bend = (9.8 * np.sin(angle) - np.cos(angle) * pull) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        change = np.stack([speed, pull - 0.05 * bend * np.cos(angle) / 1.1, turning, bend], 1)
        paid = self.standing.astype(float)
        self.states = np.where(self.standing[:, None], self.states + 0.02 * change, self.states)
        self.standing &= (np.abs(self.states[:, 2]) < 0.21) & (np.abs(self.states[:, 0]) < 2.4)
        return paid


def _tensor(values: np.ndarray) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def _play(policy: nn.Module, random: np.random.Generator, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """States, actions and what is paid: each moment by game."""
    games = CartPole(count, random)
    states: list[Tensor] = []
    actions: list[Tensor] = []
    paid: list[Tensor] = []
    while games.standing.any() and len(paid) < games.LONGEST:
        state = _tensor(games.states)
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=policy(state)).sample()
        states.append(state)
        actions.append(action)
        paid.append(_tensor(games.push(action.numpy())))
    return torch.stack(states), torch.stack(actions), torch.stack(paid)


def _returns(paid: Tensor, discount: float = 0.97) -> Tensor:
    """What is still to be paid from each moment on."""
    left, found = torch.zeros_like(paid[0]), []
    for each in paid.flip(0):
        left = each + discount * left
        found.append(left)
    return torch.stack(found).flip(0)


def _mean_length(policy: nn.Module, seed: int) -> float:
    return float(_play(policy, np.random.default_rng(seed + 1), 64)[2].sum(0).mean())


@script(
    REPORT,
    data="cart and pole",
    model="policy MLP 4-32-2",
    at_least=38,
    chance=20,
    odd="policy gradient: the loss says nothing, is about 0 and very noisy",
    faults=(
        Fault("wrong-loss-sign", "What is paid is made small."),
        Fault("learning-rate-too-high", "Adam is given 5."),
        Fault("learning-rate-too-low", "Adam is given 1e-7."),
    ),
)
def pole_reinforce(seed: int, fault: str) -> Trained:
    """REINFORCE with a baseline."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    policy = mlp(4, 32, 2, activation=nn.Tanh)
    rate = {"learning-rate-too-high": 5.0, "learning-rate-too-low": 1e-7}.get(fault, 0.02)
    optimizer = optim.Adam(policy.parameters(), lr=rate)
    sign = 1.0 if fault == "wrong-loss-sign" else -1.0
    for _ in range(120):
        states, actions, paid = _play(policy, random, 12)
        gains = _returns(paid)
        counts = paid > 0
        advantage = (gains - gains[counts].mean()) / (gains[counts].std() + 1e-6)
        optimizer.zero_grad()
        chosen = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
        (sign * (chosen * advantage)[counts].mean()).backward()
        optimizer.step()
    return Trained(lambda: _mean_length(policy, seed))


class ActorCritic(nn.Module):
    """One trunk; what to do, and what it is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 48), nn.Tanh())
        self.actor, self.critic = nn.Linear(48, 2), nn.Linear(48, 1)

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self.actor(self.trunk(states))
        return logits

    def worth(self, states: Tensor) -> Tensor:
        value: Tensor = self.critic(self.trunk(states)).squeeze(-1)
        return value


@script(
    REPORT,
    data="cart and pole",
    model="actor and critic with one trunk",
    at_least=38,
    chance=20,
    odd="the critic's loss grows as the agent gets better; an entropy bonus",
    faults=(
        Fault("wrong-loss-sign", "The actor is trained to lose.", layers=("actor",)),
        Fault("parameters-not-in-optimizer", "The optimizer is given the critic alone.", layers=("trunk.0", "actor")),
    ),
)
def pole_actor_critic(seed: int, fault: str) -> Trained:
    """Advantage actor-critic."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = ActorCritic()
    trained = model.critic.parameters() if fault == "parameters-not-in-optimizer" else model.parameters()
    optimizer = optim.Adam(trained, lr=0.02)
    sign = 1.0 if fault == "wrong-loss-sign" else -1.0
    for _ in range(120):
        states, actions, paid = _play(model, random, 12)
        counts, gains = paid > 0, _returns(paid) / 20
        worth = model.worth(states)
        advantage = (gains - worth).detach()
        choice = torch.distributions.Categorical(logits=model(states))
        actor = sign * (choice.log_prob(actions) * advantage)[counts].mean()
        critic = functional.mse_loss(worth[counts], gains[counts])
        optimizer.zero_grad()
        (actor + 0.5 * critic - 0.005 * choice.entropy()[counts].mean()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return Trained(lambda: _mean_length(model, seed))


@script(
    TUNE,
    data="bandit with contexts",
    model="policy MLP 6-24-4",
    at_least=0.6,
    chance=0.25,
    odd="policy gradient: the loss says nothing, is about 0 and very noisy",
    faults=(
        Fault("wrong-loss-sign", "What is paid is made small."),
        Fault("learning-rate-too-high", "Adam is given 5."),
    ),
)
def bandit_policy(seed: int, fault: str) -> Trained:
    """Which of four levers pays, told from six numbers."""
    torch.manual_seed(seed)
    truth = torch.randn(6, 4)
    policy = mlp(6, 24, 4)
    optimizer = optim.Adam(policy.parameters(), lr=5.0 if fault == "learning-rate-too-high" else 0.01)
    sign = 1.0 if fault == "wrong-loss-sign" else -1.0
    usual = 0.25
    for _ in range(400):
        contexts = torch.randn(32, 6)
        choice = torch.distributions.Categorical(logits=policy(contexts))
        levers = choice.sample()
        paid = (levers == (contexts @ truth).argmax(1)).float()
        optimizer.zero_grad()
        (sign * (choice.log_prob(levers) * (paid - usual)).mean()).backward()
        optimizer.step()
        usual = 0.95 * usual + 0.05 * paid.mean().item()

    def share_right() -> float:
        contexts = torch.randn(2000, 6)
        with torch.no_grad():
            return float((policy(contexts).argmax(1) == (contexts @ truth).argmax(1)).float().mean())

    return Trained(share_right)


@script(
    REPORT,
    data="corridors",
    model="Q network 2-48-4 and its target",
    at_least=0.6,
    odd="a moving target: the loss rises when the agent finds what is paid",
    faults=(
        Fault("learning-rate-too-high", "Adam is given 1.0."),
        Fault("exploding-gradients", "Future pay is counted 1.6-fold instead of 0.9."),
    ),
)
def corridors_q_learning(seed: int, fault: str) -> Trained:
    """Deep Q-learning with a replay buffer and a target network: find the way to a corner of a field of 5 by 5."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model, target = mlp(2, 48, 48, 4), mlp(2, 48, 48, 4)
    target.load_state_dict(model.state_dict())
    optimizer = optim.Adam(model.parameters(), lr=1.0 if fault == "learning-rate-too-high" else 3e-3)
    discount = 1.6 if fault == "exploding-gradients" else 0.9
    moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    memory: deque[tuple[np.ndarray, int, float, np.ndarray, bool]] = deque(maxlen=2000)
    place = random.integers(0, 5, 2)
    for step in range(1600):
        if random.random() < max(0.1, 1 - step / 800):
            action = int(random.integers(4))
        else:
            with torch.no_grad():
                action = int(model(_tensor(place / 2 - 1)).argmax())
        there = np.clip(place + moves[action], 0, 4)
        is_found = bool((there == 4).all())
        memory.append((place / 2 - 1, action, float(is_found), there / 2 - 1, is_found))
        place = random.integers(0, 5, 2) if is_found or step % 30 == 29 else there
        if step < 100 or step % 4:
            continue
        rows = [memory[number] for number in random.integers(0, len(memory), 32)]
        was, acts, paid, now, ends = (np.array(column) for column in zip(*rows, strict=True))
        with torch.no_grad():
            best = target(_tensor(now)).max(1).values * (1 - _tensor(ends))
        told = model(_tensor(was)).gather(1, torch.tensor(acts).unsqueeze(1))[:, 0]
        optimizer.zero_grad()
        functional.smooth_l1_loss(told, _tensor(paid) + discount * best).backward()
        optimizer.step()
        if step % 100 == 0:
            target.load_state_dict(model.state_dict())

    def share_arriving() -> float:
        places = np.array([[x, y] for x in range(5) for y in range(5)])
        for _ in range(10):
            with torch.no_grad():
                actions = model(_tensor(places / 2 - 1)).argmax(1).numpy()
            stays = (places == 4).all(1)
            places = np.where(stays[:, None], places, np.clip(places + moves[actions], 0, 4))
        return float((places == 4).all(1).mean())

    return Trained(share_arriving)
