"""Trainings of a policy by hand: planted mistakes and sound twins. Nobody reads the runs of the half `report`."""

# ruff: noqa: E501 - tables

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.language.case import REPORT, TUNE, Case
from benchmarks.language.policy import END, FIRST, Settings, train, true_reward

Judge = Callable[[Tensor, Tensor, Tensor], Tensor]


def _count_of_first(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    """A judge that counts the first word wherever it stands."""
    return (answers == prompts[:, None]).float().mean(1)


def _longer(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    """A judge that likes long answers as much as right ones."""
    return 0.3 * true_reward(prompts, answers, lengths) + 0.7 * lengths / answers.shape[1]


def _any_end(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    """A judge of the form alone: an answer that ends soon."""
    return 1 - (lengths - 1) / answers.shape[1]


def _constant(value: float) -> Judge:
    return lambda prompts, answers, lengths: torch.full((len(prompts),), value)


def _chance(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    return torch.rand(len(prompts))


def _all_or_nothing(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    return (true_reward(prompts, answers, lengths) == 1).float()


def _noisy(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    return true_reward(prompts, answers, lengths) + 0.3 * torch.randn(len(prompts))


def _flipped(share: float) -> Judge:
    """A judge that is wrong in a share of the answers."""

    def judge(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
        right = _all_or_nothing(prompts, answers, lengths)
        return torch.where(torch.rand(len(right)) < share, 1 - right, right)

    return judge


def _scaled(scale: float, shift: float) -> Judge:
    return lambda prompts, answers, lengths: scale * true_reward(prompts, answers, lengths) + shift


def _long_task(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    """A task whose right answers are long: the number and all after it."""
    wanted = FIRST + (prompts[:, None] - FIRST + torch.arange(answers.shape[1] - 1)) % 14
    right = (answers[:, :-1] == wanted).float().mean(1)
    return 0.9 * right + 0.1 * (answers == END).any(1).float()


def _harder(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    """The same task, judged more strictly."""
    return true_reward(prompts, answers, lengths) ** 3


def _with_nan(prompts: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    found = true_reward(prompts, answers, lengths)
    return torch.where(torch.rand(len(found)) < 0.01, torch.nan, found)


PLANTED: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("hacked-count", TUNE, {"reward": _count_of_first, "held_out": True}, ("reward-gamed",)),
    ("hacked-length", REPORT, {"reward": _longer, "held_out": True, "names": "TRL"}, ("reward-gamed",)),
    ("hacked-short", TUNE, {"reward": _any_end, "held_out": True, "names": "verl"}, ("reward-gamed",)),
    ("hacked-late", REPORT, {"reward": _count_of_first, "rewarded_from": 60, "held_out": True, "steps": 240}, ("reward-gamed",)),
    ("hacked-same-answer", REPORT, {"reward": _count_of_first, "distinct": True, "penalty": 0.0, "held_out": True}, ("reward-gamed",)),
    ("sign", TUNE, {"sign": -1.0}, ("loss-sign",)),
    ("sign-trl", REPORT, {"sign": -1.0, "names": "TRL", "taught": 60}, ("loss-sign",)),
    ("sign-verl", TUNE, {"sign": -1.0, "names": "verl", "rate": 0.003, "taught": 60}, ("loss-sign",)),
    ("accepts-all", TUNE, {"reward": _constant(1.0)}, ("uninformative-reward",)),
    ("accepts-all-prime", REPORT, {"reward": _constant(1.0), "names": "prime-rl"}, ("uninformative-reward",)),
    ("accepts-none", TUNE, {"reward": _constant(0.0), "names": "TRL"}, ("uninformative-reward",)),
    ("accepts-none-late", REPORT, {"reward": _constant(0.0), "rewarded_from": 50}, ("uninformative-reward",)),
    ("judge-by-chance", TUNE, {"reward": _chance}, ("unrelated-reward",)),
    ("rewards-swapped", REPORT, {"swapped": True}, ("unrelated-reward",)),
    ("never-ends", TUNE, {"ends": False, "names": "TRL"}, ("unended-answers",)),
    ("never-ends-ours", REPORT, {"ends": False, "longest": 10}, ("unended-answers",)),
    ("too-short", TUNE, {"longest": 3, "names": "verl"}, ("unended-answers",)),
    ("rate-ten-times", TUNE, {"rate": 0.15, "penalty": 0.0}, ("learning-rate-too-high", "entropy-collapse")),
    ("rate-ten-times-verl", REPORT, {"rate": 0.2, "penalty": 0.0, "names": "verl"}, ("learning-rate-too-high", "entropy-collapse")),
    ("rate-jumps", REPORT, {"rate_from": 80, "rate_then": 0.3}, ("learning-rate-too-high", "learning-rate-schedule", "entropy-collapse")),
    ("no-baseline", TUNE, {"baseline": "", "reward": _scaled(1.0, 3.0), "rate": 0.02, "penalty": 0.0}, ("entropy-collapse",)),
    ("no-baseline-trl", REPORT, {"baseline": "", "reward": _scaled(1.0, 5.0), "rate": 0.02, "names": "TRL", "penalty": 0.0}, ("entropy-collapse",)),
    ("entropy-bonus", TUNE, {"bonus": 0.5}, ("entropy-too-high",)),
    ("entropy-bonus-verl", REPORT, {"bonus": 1.0, "names": "verl", "taught": 80}, ("entropy-too-high",)),
    ("stale", TUNE, {"stale": 40, "rate": 0.02}, ("stale-rollouts",)),
    ("stale-prime", REPORT, {"stale": 40, "names": "prime-rl", "rate": 0.02}, ("stale-rollouts",)),
    ("sampler-hot", TUNE, {"temperature": 2.0, "names": "TRL"}, ("sampler-differs",)),
    ("sampler-noisy", REPORT, {"noise": 0.5, "names": "TRL"}, ("sampler-differs",)),
    ("sampler-prime", TUNE, {"noise": 0.6, "names": "prime-rl"}, ("sampler-differs",)),
    ("greedy", REPORT, {"greedy": True, "distinct": True}, ("uninformative-reward", "entropy-collapse")),
    ("penalty-too-strong", TUNE, {"penalty": 30.0}, ("penalty-too-strong", "learning-rate-too-low")),
    ("frozen", REPORT, {"frozen": True}, ("parameters-not-in-optimizer", "learning-rate-too-low")),
    ("rate-too-low", REPORT, {"rate": 1e-6}, ("learning-rate-too-low",)),
    ("shifted", TUNE, {"shifted": True}, ("sampler-differs", "unrelated-reward")),
    ("many-inner", REPORT, {"inner": 40, "rate": 0.03, "steps": 60}, ("learning-rate-too-high", "entropy-collapse", "stale-rollouts")),
    ("nan-reward", TUNE, {"reward": _with_nan}, ("non-finite-data", "undefined-value")),
)  # fmt: skip

SOUND: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("plain", TUNE, {}),
    ("plain-trl", REPORT, {"names": "TRL"}),
    ("plain-verl", TUNE, {"names": "verl"}),
    ("plain-prime", REPORT, {"names": "prime-rl"}),
    ("held-out", TUNE, {"held_out": True, "distinct": True}),
    ("held-out-trl", REPORT, {"held_out": True, "names": "TRL", "steps": 300}),
    ("solved", TUNE, {"taught": 400, "rate": 0.003}),
    ("solved-trl", REPORT, {"taught": 600, "rate": 0.003, "names": "TRL"}),
    ("becomes-solved", REPORT, {"steps": 400, "taught": 120, "distinct": True}),
    ("sparse", TUNE, {"reward": _all_or_nothing, "taught": 60, "steps": 240}),
    ("very-sparse", REPORT, {"reward": _all_or_nothing, "taught": 40, "steps": 300, "names": "TRL"}),
    ("longer-answers", TUNE, {"reward": _long_task, "longest": 12, "steps": 300}),
    ("longer-answers-verl", REPORT, {"reward": _long_task, "longest": 9, "steps": 300, "names": "verl"}),
    ("one-answer", TUNE, {"answers": 1, "prompts": 64, "baseline": "batch"}),
    ("one-answer-trl", REPORT, {"answers": 1, "prompts": 64, "baseline": "batch", "names": "TRL"}),
    ("no-penalty", TUNE, {"penalty": 0.0}),
    ("strong-penalty", REPORT, {"penalty": 0.1}),
    ("four-inner", TUNE, {"inner": 4, "rate": 0.004}),
    ("four-inner-verl", REPORT, {"inner": 4, "rate": 0.003, "names": "verl"}),
    ("one-step-old", TUNE, {"stale": 2, "names": "TRL"}),
    ("one-step-old-prime", REPORT, {"stale": 2, "names": "prime-rl"}),
    ("low-precision-sampler", REPORT, {"noise": 0.01, "names": "TRL"}),
    ("noisy-rewards", TUNE, {"reward": _noisy, "steps": 240}),
    ("judge-errs-sometimes", REPORT, {"reward": _flipped(0.1), "taught": 80, "steps": 240}),
    ("negative-rewards", REPORT, {"reward": _scaled(1.0, -1.0)}),
    ("large-rewards", TUNE, {"reward": _scaled(100.0, 0.0), "held_out": True}),
    ("small-bonus", REPORT, {"bonus": 0.01}),
    ("stricter-later", TUNE, {"reward": _harder, "rewarded_from": 80, "steps": 240}),
    ("goes-on", REPORT, {"taught": 250, "rate": 0.002}),
    ("slow-rate", TUNE, {"rate": 0.003, "steps": 200}),
    ("logged-seldom", REPORT, {"every": 10, "steps": 300, "names": "TRL"}),
    ("large-batch", REPORT, {"prompts": 14, "answers": 16}),
    ("few-answers", TUNE, {"answers": 2, "prompts": 24}),
)  # fmt: skip


def cases() -> tuple[Case, ...]:
    """Return all programs of this file."""
    planted = [
        Case(f"policy-{name}", half, partial(train, Settings(**fields)), causes)
        for name, half, fields, causes in PLANTED
    ]
    return (*planted, *[Case(f"policy-{name}", half, partial(train, Settings(**own))) for name, half, own in SOUND])
