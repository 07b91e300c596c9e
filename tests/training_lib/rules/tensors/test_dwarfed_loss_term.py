"""dwarfed-loss-term: one term of a summed loss outweighs another, which learns nothing beyond a guess."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.training_lib.frameworks.pytorch.statistics.test_readings import capturing, opened
from tests.training_lib.rules.columns import falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.capture_request import StatisticsRequest
from trackside.contracts.run.recorded_names import (
    LARGE_TARGET_ERROR,
    SMALL_TARGET_ERROR,
    TARGET_SCALE,
    loss_term,
    loss_term_guess,
)
from trackside.rules.tensors.dwarfed_loss_term import DwarfedLossTerm
from trackside.testing.rule_case import RuleCase, Statistics
from trackside.trial.window import Window

COUNT = 14
Column = dict[int, float]


def flat(value: float) -> Column:
    return steady(value, COUNT, every=20)


def down(first: float, last: float) -> Column:
    return falling(first, last, COUNT, every=20)


def terms(
    own: Column, other: Column, *, value: Column, guess: Column, learned: tuple[Column, Column] | None = None
) -> Statistics:
    recorded: dict[str, dict[str, Column]] = {
        loss_term(0): {"l2": own, "mean": value},
        loss_term_guess(0): {"mean": guess},
        loss_term(1): {"l2": other},
    }
    if learned is not None:
        recorded[loss_term(1)]["mean"] = learned[0]
        recorded[loss_term_guess(1)] = {"mean": learned[1]}
    return recorded


def penalty(
    gradient: Column, *, value: Column, guess: Column, looks: int = COUNT, own_value: Column | None = None
) -> Statistics:
    """A penalty on weights alone beside a term that sends a gradient of 0.01."""
    beside: dict[str, Column] = {"l2": gradient} | ({} if own_value is None else {"mean": own_value})
    recorded = {
        **terms(flat(0.01), gradient, value=value, guess=guess),
        loss_term(1): beside,
        loss_term_guess(1): {"mean": flat(0.0)},
    }
    return {n: {s: dict([*c.items()][:looks]) for s, c in each.items()} for n, each in recorded.items()}


def columns(scale: Column, small: Column, large: Column) -> Statistics:
    return {TARGET_SCALE: {"mean": scale}, SMALL_TARGET_ERROR: {"mean": small}, LARGE_TARGET_ERROR: {"mean": large}}


DWARFED = (loss_term(0),)
AT_REST = {20 * look: value for look, value in enumerate([0.03, 0.02, 0.014, 0.011, *[0.005] * 4, *[0.002] * 6])}
GUESS, STALLED = flat(0.07), down(0.3, 0.072)
CASES = [
    RuleCase("a sum", recorded=terms(down(0.01, 0.001), down(2, 0.1), value=STALLED, guess=GUESS), fires=DWARFED),
    RuleCase("a penalty", recorded=terms(flat(0.1), down(400, 1.5), value=flat(2.3), guess=flat(2.25)), fires=DWARFED),
    RuleCase("satisfied at once", recorded=terms(flat(0.1), down(9, 1.1), value=STALLED, guess=GUESS), fires=DWARFED),
    RuleCase("at rest", recorded=terms(flat(0.003), AT_REST, value=STALLED, guess=GUESS), fires=DWARFED),
    RuleCase("at rest and learning", recorded=terms(flat(0.003), AT_REST, value=down(0.3, 0.02), guess=GUESS)),
    RuleCase("never dwarfed, and at rest", recorded=terms(flat(0.009), AT_REST, value=STALLED, guess=GUESS)),
    RuleCase("in balance", recorded=terms(flat(0.1), down(0.5, 0.01), value=STALLED, guess=GUESS)),
    RuleCase("dwarfed and learning", recorded=terms(flat(0.01), down(2, 0.2), value=down(0.3, 0.02), guess=GUESS)),
    RuleCase("both on their way", recorded=terms(flat(0.01), flat(2), value=STALLED, guess=GUESS)),
    RuleCase("balance comes", recorded=terms(flat(0.1), down(9, 0.1), value=STALLED, guess=GUESS)),
    RuleCase("targets all alike", recorded=terms(flat(0.01), down(2, 0.2), value=STALLED, guess=flat(0))),
    RuleCase(
        "a main loss that learns",
        recorded=terms(flat(1e-4), down(1, 0.1), value=STALLED, guess=GUESS, learned=(down(2, 0.1), flat(2.3))),
    ),
    RuleCase("a penalty on weights", recorded=penalty(flat(2), value=STALLED, guess=GUESS), fires=DWARFED),
    RuleCase(
        "a penalty, few looks", recorded=penalty(flat(2), value=flat(0.7), guess=flat(0.7), looks=6), fires=DWARFED
    ),
    RuleCase("a penalty, too few looks", recorded=penalty(flat(2), value=flat(0.7), guess=flat(0.7), looks=5)),
    RuleCase("a penalty beside a loss that learns", recorded=penalty(flat(2), value=down(0.3, 0.02), guess=GUESS)),
    RuleCase("a weak penalty", recorded=penalty(flat(0.09), value=STALLED, guess=GUESS)),
    RuleCase(
        "targets of the other all alike", recorded=penalty(flat(2), value=STALLED, guess=GUESS, own_value=flat(0.1))
    ),
    RuleCase("a drowned column", recorded=columns(flat(5e3), flat(40), down(1, 0.02)), fires=(TARGET_SCALE,)),
    RuleCase("a small column that learns", recorded=columns(flat(5e3), down(40, 0.3), down(1, 0.02))),
    RuleCase("no column is learned", recorded=columns(flat(5e3), flat(40), flat(0.9))),
    RuleCase("columns of like size", recorded=columns(flat(20), flat(1.1), down(1, 0.02))),
    RuleCase("a drowned column, too few looks", recorded=columns(steady(5e3, 8), steady(40, 8), steady(0.02, 8))),
]

test_cases = every_case(DwarfedLossTerm(), CASES)


class Autoencoder(nn.Module):
    """A variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.mean, self.spread = nn.Linear(32, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.encoder(x).relu()
        mean, spread = self.mean(hidden), self.spread(hidden)
        divergence = -0.5 * (1 + spread - mean**2 - spread.exp())
        return self.decoder(mean + torch.randn_like(mean) * (0.5 * spread).exp()), divergence


Balance = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], torch.Tensor]


def _sum(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(out, x, reduction="sum")


@pytest.mark.parametrize(
    ("balance", "fires"),
    [
        pytest.param(lambda out, x, d, _: functional.mse_loss(out, x) + d.sum(), True, id="sum-beside-a-mean"),
        pytest.param(lambda out, x, d, _: functional.mse_loss(out, x) + 1000 * d.mean(), True, id="a-thousandfold"),
        pytest.param(lambda out, x, d, _: (_sum(out, x) + d.sum()) / len(x), False, id="sums"),
        pytest.param(lambda out, x, d, _: functional.mse_loss(out, x) + 1e-4 * d.sum(), False, id="a-small-weight"),
        pytest.param(lambda out, x, d, i: (_sum(out, x) + min(1, i / 200) * d.sum()) / len(x), False, id="warm-up"),
    ],
)
def test_trainings(tmp_path: Path, balance: Balance, *, fires: bool) -> None:
    torch.manual_seed(0)
    basis = torch.randn(3, 32)
    with capturing(tmp_path, statistics=StatisticsRequest()):
        model = Autoencoder()
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for step in range(300):
            x = torch.randn(64, 3) @ basis
            out, divergence = model(x)
            optimizer.zero_grad()
            balance(out, x, divergence, step).backward()
            optimizer.step()
    assert (
        bool(list(DwarfedLossTerm().check(Window(opened(tmp_path), 299, "TRAIN", now=0.0, newest_step_at=0.0))))
        is fires
    )


def _raw(y: torch.Tensor) -> torch.Tensor:
    return y * torch.tensor([4e3, 1.0, 0.2]) + 5


def _scaled(y: torch.Tensor) -> torch.Tensor:
    return (y - y.mean(0)) / y.std(0)


@pytest.mark.parametrize(("prepare", "fires"), [(_raw, True), (_scaled, False)], ids=["raw", "scaled"])
def test_columns_of_a_target(tmp_path: Path, prepare: Callable[[torch.Tensor], torch.Tensor], *, fires: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2048, 6)
    y = prepare(torch.stack([x[:, 0] + x[:, 1], x[:, 2] - x[:, 3], x[:, 4] * 0.7 + x[:, 5]], 1))
    with capturing(tmp_path, statistics=StatisticsRequest()):
        model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
        optimizer = torch.optim.Adam(model.parameters(), 0.03)
        for step in range(900):
            rows = torch.arange(64) + 64 * (step % 32)
            optimizer.zero_grad()
            functional.mse_loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    found = list(DwarfedLossTerm().check(Window(opened(tmp_path), 899, "TRAIN", now=0.0, newest_step_at=0.0)))
    assert [finding.subject for finding in found] == ([TARGET_SCALE] if fires else [])
