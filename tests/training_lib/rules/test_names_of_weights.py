"""The same training is judged the same, whatever its parameters are called (issue 41)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import trackside
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest

RULES = ["weight-update-ratio", "shrunken-weights", "weights-set-back", "loss-spike", "loss-not-decreasing"]
REQUEST = CaptureRequest(
    (CollectionRequest("losses", Schedule(1)), CollectionRequest("weights", Schedule(100))),
    statistics=StatisticsRequest(budget=1.0),  # the same steps are measured on every machine
)
STEPS, ROWS = 400, 60


class Factors(torch.nn.Module):
    """A matrix as the product of two, held directly."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for letter in "UV":
            start = 0.3 * torch.randn(ROWS, 8, generator=generator)
            self.register_parameter(f"{letter}{ending}", torch.nn.Parameter(start))

    def forward(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        left, right = self.parameters()
        return (left[rows] * right[columns]).sum(1)


def train(run: Path, *, ending: str, rate: float = 0.01, shrink: float = 1.0, set_back_at: int = -1) -> None:
    generator = torch.Generator().manual_seed(0)
    true = torch.randn(ROWS, 4, generator=generator) @ torch.randn(4, ROWS, generator=generator)
    model = Factors(ending)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    with trackside.Hook(str(run), save=REQUEST) as hook:
        hook.watch(model)
        for step in range(STEPS):
            rows, columns = torch.randint(0, ROWS, (2, 128), generator=generator)
            loss = torch.nn.functional.mse_loss(model(rows, columns), true[rows, columns])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(shrink)
            if step == set_back_at:
                model.load_state_dict(first)


def findings(run: Path, ending: str) -> list[tuple[str, str, list[str]]]:
    judged = trackside.judge(str(run), rules=RULES)
    return [
        (
            verdict.configuration_name,
            (verdict.lead.subject if verdict.lead else "").removesuffix(ending),
            [suspicion.cause.value for suspicion in verdict.suspicions],
        )
        for verdict in judged.findings
    ]


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        pytest.param({}, "", id="sound"),
        pytest.param({"rate": 1.0}, "learning-rate-too-high", id="rate a hundred times too high"),
        pytest.param({"shrink": 0.9}, "shrunken-weights", id="weights shrunk at each step"),
        pytest.param({"set_back_at": 200}, "loss-spike", id="weights set back, which nothing shows"),
    ],
)
def test_the_same_findings_for_any_name(fault: dict[str, float], named: str, tmp_path: Path) -> None:
    found = {}
    for ending in ("", "_weight"):
        run = tmp_path / f"run{ending}"
        train(run, ending=ending, **fault)  # type: ignore[arg-type] # one table for all
        found[ending] = findings(run, ending)
        saved = trackside.open_trial(str(run)).tensor_names(collection="weights")
        assert [name.removesuffix(ending) for name in saved] == ["Factors_U", "Factors_V"]
    assert found[""] == found["_weight"]
    told = {word for rule, _, suspected in found[""] for word in (rule, *suspected)}
    assert named in told if named else not told
