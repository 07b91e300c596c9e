"""The training of a drill: it trains well until something judges it, then goes wrong for good."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

from trackside import open_trial
from trackside.cloud.drill_training import FAULT_KEY, GRADIENT, LOSS, WEIGHT, Training, main, steps
from trackside.contracts.run_layout import RULE_OUTPUT, TENSORS, TRAINING_JOB_KEY


class Ticking:
    """A clock that passes only while somebody sleeps; after `at` seconds something claims the run."""

    def __init__(self, run: Path, *, claim_at: float = math.inf) -> None:
        self.now, self._run, self._claim_at = 1000.0, run, claim_at

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= 1000 + self._claim_at:
            claim = self._run / RULE_OUTPUT / TRAINING_JOB_KEY
            claim.parent.mkdir(parents=True, exist_ok=True)
            claim.write_text("arn")


def trained(
    run: Path, clock: Ticking, *, healthy_steps: int = 5, most_seconds: float = 60, patience: float = 40
) -> None:
    Training(
        str(run),
        healthy_steps=healthy_steps,
        step_seconds=1,
        patience_seconds=patience,
        most_seconds=most_seconds,
        clock=clock,
        sleep=clock.sleep,
    ).train()


def test_converges_as_long_as_nothing_is_wrong() -> None:
    made = list(itertools.islice(steps(lambda: False), 3000))
    assert made[-1][LOSS] < made[0][LOSS] / 50
    assert abs(made[-1][WEIGHT] - 3) < 0.2
    assert made[-1][GRADIENT] != 0, "else a wrong learning rate would change nothing"


def test_diverges_soon_once_it_goes_wrong() -> None:
    wrong = itertools.chain(itertools.repeat(False, 1000), itertools.repeat(True))
    made = list(itertools.islice(steps(lambda: next(wrong)), 1060))
    assert all(math.isfinite(step[LOSS]) for step in made[:1000])
    assert not math.isfinite(made[-1][LOSS])
    assert not math.isfinite(made[-1][WEIGHT])


@pytest.mark.parametrize(
    ("claim_at", "healthy_steps", "patience", "fault"),
    [
        pytest.param(10, 5, 40, 10, id="as soon as something judges it"),
        pytest.param(2, 8, 40, 8, id="not before it trained well for a while"),
        pytest.param(math.inf, 5, 20, 20, id="though nothing ever judges it, in the end"),
    ],
)
def test_goes_wrong(tmp_path: Path, claim_at: float, healthy_steps: int, patience: float, fault: int) -> None:
    clock = Ticking(tmp_path, claim_at=claim_at)
    trained(tmp_path, clock, healthy_steps=healthy_steps, patience=patience)
    said = json.loads((tmp_path / FAULT_KEY).read_text())
    assert abs(said["step"] - fault) <= 1
    assert abs(said["at"] - 1000 - fault) <= 1
    trial = open_trial(str(tmp_path / TENSORS))
    losses = {step: float(trial.tensor(LOSS).value(step)[0]) for step in trial.steps()}
    assert all(math.isfinite(loss) for step, loss in losses.items() if step < said["step"])
    assert not math.isfinite(losses[max(losses)])


def test_never_goes_wrong_if_its_time_is_over_before(tmp_path: Path) -> None:
    clock = Ticking(tmp_path)
    trained(tmp_path, clock, most_seconds=10)
    assert not (tmp_path / FAULT_KEY).exists()
    assert clock.now == 1010


def test_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACKSIDE_RUN", raising=False)
    with pytest.raises(SystemExit, match="TRACKSIDE_RUN is not set"):
        main([])
