"""Held-out rows that lie among rows of the training: windows of one series, and what only looks like them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from trackside.contracts.run.recorded_names import EVALUATED_ROWS_OVERLAP
from trackside.frameworks.pytorch.data.overlapping_rows import MOST_KEPT, Ends, OverlappingRows
from trackside.rules.data.evaluation_on_training_data import EvaluationOnTrainingData
from trackside.trial.trial import Trial

torch.set_num_threads(1)
Rows = torch.Tensor
Split = tuple[Rows, Rows]


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def series(steps: int, channels: int = 1, *, seed: int = 0) -> Rows:
    """A random walk, shape (steps, channels)."""
    return torch.randn(steps, channels, generator=drawn(seed)).cumsum(0)


def windows(values: Rows, length: int, *, stride: int = 1) -> Rows:
    """The windows of a series, shape (windows, length, channels), or without the last axis for one channel."""
    found = values.unfold(0, length, stride).transpose(1, 2)
    return found[..., 0].contiguous() if found.shape[2] == 1 else found.contiguous()


def at_random(rows: Rows) -> Split:
    order, most = torch.randperm(len(rows), generator=drawn(2)), len(rows) * 4 // 5
    return rows[order[:most]], rows[order[most:]]


def in_time(rows: Rows) -> Split:
    most = len(rows) * 4 // 5
    return rows[:most], rows[most:]


def share(split: Split, *, batch: int = 32) -> float | None:
    """Return the share of held-out rows that overlap with those of the training."""
    training, held_out = split
    rows, ends = OverlappingRows(), Ends.of_axes()
    for some in training[torch.randperm(len(training), generator=drawn(1))].split(batch):
        rows.remember([some])
    for some in held_out.split(batch):
        rows.evaluate(ends, [some], most=32)
    return rows.share(ends)


def looked_up(entries: int, rows: int, width: int) -> Rows:
    """Rows of a table that come again and again, shape (rows, width)."""
    table = torch.randn(entries, width, generator=drawn(entries))
    return table[torch.randint(entries, (rows,), generator=drawn(rows))]


def with_grid(rows: int) -> Rows:
    """Rows between two channels that are the same in all of them."""
    grid = torch.linspace(0, 1, 32).expand(rows, 32)
    return torch.stack([grid, torch.randn(rows, 32, generator=drawn(5)), grid], 1)


OF_SUBJECTS = [windows(series(120, 3, seed=seed), 20) for seed in range(10)]
DAILY = torch.sin(torch.arange(900) * 2 * torch.pi / 24)[:, None]
SENTENCES = looked_up(60, 6000, 16).view(600, 10, 16)


@pytest.mark.parametrize(
    ("rows", "least"),
    [
        pytest.param(windows(series(900), 7), 0.7, id="short windows"),
        pytest.param(windows(series(900), 48), 0.9, id="long windows"),
        pytest.param(windows(series(900, 4), 24), 0.9, id="several channels"),
        pytest.param(windows(series(900, 4), 24).transpose(1, 2), 0.9, id="channels before steps"),
        pytest.param(windows(series(9000, 3), 40, stride=20), 0.6, id="windows that overlap by half"),
        pytest.param(windows((series(900) * 100).round() / 100, 24), 0.9, id="two digits"),
        pytest.param(windows(torch.cat([series(900), DAILY], 1), 24), 0.9, id="with the hour of the day"),
        pytest.param(windows(series(900), 24).double(), 0.9, id="in double precision"),
    ],
)
def test_windows_split_at_random_overlap_and_later_ones_do_not(rows: Rows, least: float) -> None:
    found = share(at_random(rows))
    assert found is not None
    assert found > least
    later = share(in_time(rows))
    assert later is not None
    assert later < 0.1


@pytest.mark.parametrize(
    "split",
    [
        pytest.param(at_random(torch.randn(600, 20, generator=drawn(3))), id="rows of a table"),
        pytest.param(at_random(torch.cat([looked_up(30, 600, 12), looked_up(40, 601, 12)[:600]], 1)), id="pairs"),
        pytest.param(at_random(SENTENCES), id="vectors of words"),
        pytest.param((torch.cat(OF_SUBJECTS[:8]), torch.cat(OF_SUBJECTS[8:])), id="other subjects"),
        pytest.param(in_time(windows(series(400), 300)), id="fewer later windows than steps of one"),
        pytest.param(at_random(with_grid(500)), id="a grid beside the values"),
        pytest.param(
            at_random(windows(torch.randint(0, 4, (900, 1), generator=drawn(4)).float(), 24)), id="few values"
        ),
        pytest.param(at_random(torch.zeros(400, 24)), id="nothing"),
        pytest.param(at_random(windows(series(900), 6)), id="windows too short to judge"),
        pytest.param(at_random(windows(series(900), 24).bool()), id="no numbers"),
        pytest.param(at_random(torch.rand(200, 1, 12, 12, generator=drawn(6))), id="pictures"),
        pytest.param((windows(series(300), 24), windows(series(300), 24)[:12]), id="few rows"),
    ],
)
def test_other_rows_do_not_overlap(split: Split) -> None:
    assert (share(split) or 0.0) < 0.1


def test_a_sample_of_many_runs_is_enough() -> None:
    rows = windows(series(2 * MOST_KEPT), 64, stride=8)
    found, later = share(at_random(rows), batch=256), share(in_time(rows), batch=256)
    assert found is not None
    assert found > 0.9
    assert later is not None
    assert later < 0.1


def shares(capturing: Any, training: Rows, evaluated: list[Rows], *, batch: int = 32) -> tuple[list[float], bool]:
    """Return the number of each evaluation but the last, and whether the rule fires by it at the end."""
    torch.manual_seed(0)
    length = training.shape[1]
    loaders = [DataLoader(TensorDataset(rows), batch_size=32) for rows in evaluated]
    batches = DataLoader(TensorDataset(training), batch_size=batch, shuffle=True)
    with capturing(losses=100) as store:
        net = nn.Linear(length, 1)
        optimizer = torch.optim.SGD(net.parameters(), 1e-5)
        for _ in range(3):
            net.train()
            for (rows,) in batches:
                optimizer.zero_grad()
                functional.mse_loss(net(rows), rows[:, -1:]).backward()
                optimizer.step()
            net.eval()
            for loader in loaders:
                for (rows,) in loader:
                    with torch.no_grad():
                        net(rows)
    trial = Trial(store, store)
    trial.refresh()
    columns = trial.columns(EVALUATED_ROWS_OVERLAP, "mean", last_step=10_000, mode="TRAIN")
    window = trial.window(200, now=0.0, newest_step_at=0.0)
    return [value for column in columns for value in column.values], bool(
        list(EvaluationOnTrainingData(share=1.0).check(window))
    )


OF_ONE = windows(series(600), 24)
RANDOM, LATER = at_random(OF_ONE), in_time(OF_ONE)


@pytest.mark.parametrize(
    ("training", "evaluated", "fires"),
    [
        pytest.param(RANDOM[0], [RANDOM[1]], True, id="at random"),
        pytest.param(RANDOM[0], [RANDOM[0][:200], RANDOM[1]], True, id="at random, beside training rows"),
        pytest.param(LATER[0], [LATER[1]], False, id="in time"),
        pytest.param(LATER[0], [LATER[0][:200], LATER[1]], False, id="in time, beside training rows"),
        pytest.param(RANDOM[0], [RANDOM[1], LATER[1] + 1], False, id="at random, and other data"),
    ],
)
def test_evaluations_of_windows(capturing: Any, training: Rows, evaluated: list[Rows], fires: bool) -> None:
    found, is_found = shares(capturing, training, evaluated)
    assert len(found) == 2
    assert is_found is fires


@pytest.mark.parametrize(
    ("training", "evaluated", "batch"),
    [
        pytest.param(RANDOM[0], [RANDOM[0][:200]], 32, id="training rows alone"),
        pytest.param(OF_ONE.repeat(3, 1), [RANDOM[1]], 2048, id="batches of more rows than are remembered"),
    ],
)
def test_rows_that_may_be_of_the_training_are_not_judged(
    capturing: Any, training: Rows, evaluated: list[Rows], batch: int
) -> None:
    assert shares(capturing, training, evaluated, batch=batch)[0] == []
