"""A policy of a few thousand weights, trained by reinforcement learning in a loop by hand that logs what it sees.

The task: answer a number with it and the two after it, and end. Each kind of mistake is one field of `Settings`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import trackside

END, PAD, FIRST, WORDS = 0, 1, 2, 16
RIGHT_LENGTH = 3


@dataclass(frozen=True)
class Settings:
    """The settings of one training.

    Attributes:
        steps: Updates of the policy, but for `inner`.
        rate: Learning rate of Adam.
        prompts: Prompts of a step.
        answers: Answers to each prompt.
        longest: Tokens after which an answer is cut off.
        ends: False: the sampler never draws the end.
        penalty: Weight of the divergence from the reference.
        inner: Updates on the rollouts of a step.
        bonus: Weight of the entropy in the objective.
        temperature: Of the sampler alone; the loss knows nothing of it.
        noise: Deviation of the noise on the sampler's weights, over that of the weights.
        stale: Steps between two copies of the policy to the sampler.
        sign: -1: the objective is turned around.
        shifted: The log-probabilities are those of the tokens one place later.
        baseline: "group", "batch" or "" for none.
        swapped: The rewards are those of other answers.
        frozen: The optimizer has the weights of a copy.
        greedy: The sampler takes the likeliest token.
        taught: Supervised steps before the training.
        held_out: The true reward of held-out prompts is logged.
        distinct: The share of different answers is logged.
        names: Names of the log: "ours", "TRL", "verl" or "prime-rl".
        every: Steps between two logs.
        reward: Returns the reward of answers, by prompts, answers and lengths; None for the true one.
        rewarded_from: Step from which `reward` holds.
        rate_from: Step from which the rate is `rate_then`.
        rate_then: The rate from then on.
    """

    steps: int = 160
    rate: float = 0.01
    prompts: int = 8
    answers: int = 8
    longest: int = 6
    ends: bool = True
    penalty: float = 0.01
    inner: int = 1
    bonus: float = 0.0
    temperature: float = 1.0
    noise: float = 0.0
    stale: int = 1
    sign: float = 1.0
    shifted: bool = False
    baseline: str = "group"
    swapped: bool = False
    frozen: bool = False
    greedy: bool = False
    taught: int = 40
    held_out: bool = False
    distinct: bool = False
    names: str = "ours"
    every: int = 1
    reward: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    rewarded_from: int = 0
    rate_from: int = -1
    rate_then: float = 0.0


NAMES: dict[str, dict[str, str]] = {
    "ours": {},
    "TRL": {
        "reward_spread": "reward_std",
        "clipped_share": "clip_ratio/region_mean",
        "answer_length": "completions/mean_length",
        "cut_share": "completions/clipped_ratio",
        "equal_groups": "frac_reward_zero_std",
        "sampler_gap": "sampling/sampling_logp_difference/mean",
        "held_out_reward": "eval_reward",
        "staleness": "sample/staleness_mean",
    },
    "verl": {
        "reward": "critic/score/mean",
        "entropy": "actor/entropy",
        "kl": "actor/kl_loss",
        "clipped_share": "actor/pg_clipfrac",
        "answer_length": "response_length/mean",
        "cut_share": "response_length/clip_ratio",
        "held_out_reward": "val-core/own/acc/mean@1",
    },
    "prime-rl": {
        "reward": "reward/all/mean",
        "entropy": "entropy/mean",
        "sampler_kl": "mismatch_kl/mean",
        "answer_length": "seq_len/all/mean",
        "cut_share": "is_truncated/all/mean",
        "staleness": "off_policy_level/all/mean",
    },
}


class Policy(nn.Module):
    """An embedding, a recurrent layer and scores of words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32)
        self.recurrent = nn.GRU(32, 48, batch_first=True)
        self.head = nn.Linear(48, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores, shape (rows, tokens, words)."""
        scores: Tensor = self.head(self.recurrent(self.embedding(tokens))[0])
        return scores


def true_reward(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    """Return the share of the right tokens, and of the end at the right place."""
    wanted = torch.stack([_following(prompts, k) for k in range(RIGHT_LENGTH)], 1)
    right = (answers[:, :RIGHT_LENGTH] == wanted).float().sum(1)
    return (right + (lengths == RIGHT_LENGTH + 1).float()) / (RIGHT_LENGTH + 1)


def _following(prompts: Tensor, count: int) -> Tensor:
    return FIRST + (prompts - FIRST + count) % (WORDS - FIRST)


def sample(policy: Policy, prompts: Tensor, settings: Settings) -> tuple[Tensor, Tensor, Tensor]:
    """Return answers of shape (rows, longest), their lengths with the end, and log-probabilities of the sampler."""
    tokens, logs = prompts[:, None], []
    alive = torch.ones(len(prompts), dtype=torch.bool)
    state, last, answers, lengths = None, tokens, [], torch.zeros(len(prompts))
    with torch.no_grad():
        for _ in range(settings.longest):
            output, state = policy.recurrent(policy.embedding(last), state)
            scores = policy.head(output[:, 0])
            if not settings.ends:
                scores[:, END] = -torch.inf
            scores[:, PAD] = -torch.inf
            log = torch.log_softmax(scores / settings.temperature, -1)
            drawn = log.argmax(-1) if settings.greedy else torch.multinomial(log.exp(), 1)[:, 0]
            drawn = torch.where(alive, drawn, PAD)
            answers.append(drawn)
            logs.append(torch.where(alive, log.gather(1, drawn.clamp(0)[:, None])[:, 0], 0.0))
            lengths += alive
            alive = alive & (drawn != END)
            last = drawn[:, None]
    return torch.stack(answers, 1), lengths, torch.stack(logs, 1)


def train(settings: Settings, seed: int) -> float:  # noqa: PLR0915 - a loop as people write it
    """Train, and return the true reward of the policy at the end."""
    torch.manual_seed(seed)
    policy = Policy()
    _teach(policy, settings.taught)
    reference, sampler = copy.deepcopy(policy).eval(), copy.deepcopy(policy)
    trained = copy.deepcopy(policy) if settings.frozen else policy
    optimizer = torch.optim.Adam(trained.parameters(), settings.rate)
    updated = 0
    for step in range(settings.steps):
        if step == settings.rate_from:
            optimizer.param_groups[0]["lr"] = settings.rate_then
        if step % settings.stale == 0:
            _copy(policy, sampler, settings.noise)
            updated = step
        chosen = torch.randint(FIRST, WORDS, (settings.prompts,))
        prompts = chosen.repeat_interleave(settings.answers)
        answers, lengths, sampled = sample(sampler, prompts, settings)
        mask = (torch.arange(settings.longest) < lengths[:, None]).float()
        judge = settings.reward if settings.reward and step >= settings.rewarded_from else true_reward
        rewards = judge(prompts, answers, lengths)
        if settings.swapped:
            rewards = rewards[torch.randperm(len(rewards))]
        advantages = _advantages(rewards, settings)
        old = None
        for _ in range(settings.inner):
            scores = policy(torch.cat([prompts[:, None], answers[:, :-1]], 1))
            scores = torch.cat([scores[:, :, :PAD], scores[:, :, PAD + 1 :].clone()], -1)  # padding is no word
            places = torch.where(answers > PAD, answers - 1, 0)
            logs = torch.log_softmax(scores, -1)
            taken = logs.roll(1, 1) if settings.shifted else logs
            own = taken.gather(2, places[:, :, None])[:, :, 0]
            old = own.detach() if old is None else old
            ratio = (own - old).exp()
            clipped = ratio.clamp(0.8, 1.2)
            gain = torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
            with torch.no_grad():
                base = reference(torch.cat([prompts[:, None], answers[:, :-1]], 1))
                base = torch.cat([base[:, :, :PAD], base[:, :, PAD + 1 :]], -1)
                known = torch.log_softmax(base, -1).gather(2, places[:, :, None])[:, :, 0]
            distance = (known - own).exp() - (known - own) - 1
            entropy = _mean(-(logs.exp() * logs).sum(-1), mask)
            loss = (
                -settings.sign * _mean(gain, mask) + settings.penalty * _mean(distance, mask) - settings.bonus * entropy
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % settings.every == 0:
            groups = rewards.reshape(settings.prompts, settings.answers)
            numbers = {
                "reward": rewards.mean(),
                "reward_spread": groups.std(1).mean() if settings.answers > 1 else rewards.std(),
                "entropy": entropy.detach(),
                "kl": _mean(distance, mask),
                "clipped_share": _mean(((ratio - clipped).abs() > 0).float().detach(), mask),
                "answer_length": lengths.mean(),
                "cut_share": (answers != END).all(1).float().mean(),
                "sampler_gap": _mean((sampled - (old if old is not None else own)).abs(), mask),
                "sampler_kl": _mean(sampled - (old if old is not None else own), mask),
                "staleness": float(step - updated),
            }
            if settings.answers > 1:
                numbers["equal_groups"] = (groups.std(1) == 0).float().mean()
            if settings.distinct:
                numbers["distinct_share"] = _distinct(answers, settings)
            if settings.held_out and step % (10 * settings.every) == 0:
                numbers["held_out_reward"] = _held_out(policy, settings)
            _log(numbers, settings.names)
    return _held_out(policy, Settings())


def _log(numbers: dict[str, Any], names: str) -> None:
    known = NAMES[names]
    shared = {"reward", "entropy", "kl"} if names == "TRL" else set()
    kept = {
        known.get(name, name): float(x) for name, x in numbers.items() if not known or name in known or name in shared
    }
    trackside.log(kept)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum()


def _advantages(rewards: Tensor, settings: Settings) -> Tensor:
    if settings.baseline == "group" and settings.answers > 1:
        groups = rewards.reshape(settings.prompts, settings.answers)
        return ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).reshape(-1)
    return rewards - rewards.mean() if settings.baseline else rewards


def _distinct(answers: Tensor, settings: Settings) -> float:
    groups = answers.reshape(settings.prompts, settings.answers, -1)
    return sum(len(group.unique(dim=0)) for group in groups) / len(answers)


def _held_out(policy: Policy, settings: Settings) -> float:
    prompts = torch.arange(FIRST, WORDS).repeat_interleave(8)
    state = torch.get_rng_state()
    answers, lengths, _ = sample(policy, prompts, Settings(longest=settings.longest))
    torch.set_rng_state(state)
    return float(true_reward(prompts, answers, lengths).mean())


def _copy(policy: Policy, sampler: Policy, noise: float) -> None:
    with torch.no_grad():
        for mine, its in zip(policy.parameters(), sampler.parameters(), strict=True):
            its.copy_(mine + noise * mine.std() * torch.randn_like(mine) if noise else mine)


def _teach(policy: Policy, steps: int) -> None:
    """Train on right answers, in plain PyTorch calls that no run belongs to."""
    for _ in range(steps):
        prompts = torch.randint(FIRST, WORDS, (64,))
        wanted = torch.stack([*[_following(prompts, k) for k in range(RIGHT_LENGTH)], torch.zeros_like(prompts)], 1)
        scores = policy(torch.cat([prompts[:, None], wanted[:, :-1]], 1))
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())
        gradients = torch.autograd.grad(loss, list(policy.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(policy.parameters(), gradients, strict=True):
                parameter.sub_(0.5 * gradient)
