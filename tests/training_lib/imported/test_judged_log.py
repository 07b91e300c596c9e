"""Logs judged: what a person would say of the curve, and nothing that a log cannot show."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

from trackside.choosing.rule_choice import NO_WORDS, choose_rules, layer_of_options
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.verdict import Severity
from trackside.imported.finding import LeftOut, find_logs
from trackside.imported.judged_log import COMMAND, JudgedLog, judge_log, log_document
from trackside.records.tensorboard_file import encode_histogram, encode_scalar, encode_version, histogram_of
from trackside.runs.rule_state import RuleState

NOISE = np.random.default_rng(0)
Row = dict[str, float]


def falling(count: int, *, to: float = 0.2, noise: float = 0.02) -> list[float]:
    """Return losses of a training that learns."""
    steps = np.arange(count)
    return [float(x) for x in to + 2 * np.exp(-steps * 6 / count) + NOISE.normal(0, noise, count)]


def rows(
    losses: Iterable[float],
    *,
    every: int = 10,
    named: Mapping[str, Callable[[int, float], float]] | None = None,
    **others: Callable[[int, float], float],
) -> list[Row]:
    """Return rows with a loss each, and numbers that are made of the row's number and its loss.

    `named` has those whose names are no identifiers.
    """
    makers = {**others, **(named or {})}
    return [
        {"step": every * k, "loss": x, **{name: make(k, x) for name, make in makers.items()}}
        for k, x in enumerate(losses, 1)
    ]


def judged(folder: Path, found: list[Row], name: str = "log.jsonl", *, only: str = "", into: str = "") -> JudgedLog:
    """Return the judged log of these rows."""
    text = json.dumps({"global_step": 1, "log_history": found}) if name == "trainer_state.json" else ""
    (folder / name).write_text(text or "".join(json.dumps(row) + "\n" for row in found))
    (log,) = find_logs(str(folder / name), {}, LeftOut())
    words = layer_of_options(only=[only] if only else []) if only else NO_WORDS
    chosen = choose_rules([words], catalogue=built_in_catalogue(), preset=None)
    return judge_log(log, chosen, clock=lambda: 1.7e9, into=into)


def found_in(one: JudgedLog) -> dict[str, Severity]:
    """Return the severity of each issue that stands, by rule."""
    return {g.lead.rule_id: g.severity for g in one.recorded.groups if g.standing} | {
        verdict.rule_id: verdict.severity for g in one.recorded.groups if g.standing for verdict in g.symptoms
    }


def memorised(k: int, _: float) -> float:
    return 1.0 + abs(k - 40) / 40


# The log, and the rules with an issue.
TABLE: dict[str, tuple[list[Row], set[str]]] = {
    "learns": (rows(falling(200)), set()),
    "learns, seldom logged": (rows(falling(60), every=500), set()),
    "learns, with evaluations": (rows(falling(120), eval_loss=lambda k, x: x + 0.1), set()),
    "learns slowly": (rows([2 - k / 1000 + float(NOISE.normal(0, 0.05)) for k in range(400)], every=50), set()),
    "too few rows to say": (rows([2.3] * 15, every=100), set()),
    "a schedule to zero": (rows(falling(150), lr=lambda k, x: 1e-3 * (151 - k) / 151), set()),
    "one odd row": (rows([*falling(100), 5.0, *falling(100)[80:]]), set()),
    "breaks": (rows([*falling(80), *[math.nan] * 5]), {"exploding-tensor", "loss-spike"}),
    "never moves": (rows([2.303 + float(NOISE.normal(0, 0.01)) for _ in range(150)]), {"loss-not-decreasing"}),
    "never moves, seldom logged": (rows([2.303] * 50, every=500), {"loss-not-decreasing"}),
    "rises for good": (
        rows([*falling(100), *[9.0 + k / 10 for k in range(60)]]),
        {"loss-not-decreasing", "loss-spike"},
    ),
    "learnt by heart": (rows(falling(120, noise=0.001), eval_loss=memorised), {"overfit"}),
    "the rate collapses": (rows(falling(150), lr=lambda k, x: 1e-3 if k < 30 else 1e-9), {"learning-rate-collapsed"}),
    "the reward falls": (
        rows([0.0] * 80, named={"critic/score/mean": lambda k, x: 0.8 - k / 150 + 0.01 * math.sin(k * k)}),
        {"reward-without-progress"},
    ),
    "the reward rises, the answers end": (
        rows(
            [0.0] * 80,
            named={
                "reward": lambda k, x: k / 100 + 0.01 * math.sin(k * k),
                "completions/clipped_ratio": lambda k, x: 0.1,
                "entropy": lambda k, x: 2 / k,
            },
        ),
        set(),
    ),
    "no answer ends": (
        rows([0.0] * 80, reward=lambda k, x: k / 100, named={"completions/clipped_ratio": lambda k, x: 1.0}),
        {"unended-answers"},
    ),
    "gradients explode": (rows(falling(60), grad_norm=lambda k, x: 1.0 if k < 55 else 1e6), {"exploding-gradient"}),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_verdict(case: str, tmp_path: Path) -> None:
    found, expected = TABLE[case]
    one = judged(tmp_path, found)
    assert found_in(one).keys() == expected
    assert not one.crashed


def test_a_log_of_epochs_is_judged_by_epochs(tmp_path: Path) -> None:
    stuck = [{"epoch": k, "loss": 2.3 + float(NOISE.normal(0, 0.001)), "val_loss": 2.3} for k in range(45)]
    one = judged(tmp_path, stuck)
    assert found_in(one).keys() == {"loss-not-decreasing"}
    assert one.reservations == ('The log has epochs in place of steps, and "step" means one of them.',)


def test_nothing_is_claimed_of_what_a_log_does_not_hold(tmp_path: Path) -> None:
    one = judged(tmp_path, rows([*falling(80), *[math.nan] * 5]))
    assert "as usual up to step" not in str(one.recorded.groups)
    assert {"vanishing-gradient", "dead-relu", "unlike-gradients"} <= set(one.unanswerable)
    assert log_document(one)["to_ask_them"] == COMMAND


def test_transformers_may_hide_a_nan(tmp_path: Path) -> None:
    one = judged(tmp_path, rows(falling(80)), "trainer_state.json")
    (state,) = [rule for rule in one.recorded.rules if rule.rule_id == "exploding-tensor"]
    assert (state.state, "logging_nan_inf_filter" in state.detail) == (RuleState.NOT_ENOUGH_DATA, True)
    shown = judged(
        tmp_path, rows(falling(80), grad_norm=lambda k, x: math.nan if k > 60 else 1.0), "trainer_state.json"
    )
    assert found_in(shown) == {"exploding-tensor": Severity.CRITICAL}


def test_losses_that_need_not_fall_are_only_asked_for_finite_numbers(tmp_path: Path) -> None:
    rising = [0.1 + k / 50 for k in range(120)]
    one = judged(tmp_path, rows(rising, reward=lambda k, x: k))
    assert found_in(one) == {}
    assert {rule.rule_id for rule in one.recorded.rules} == {"exploding-tensor", "reward-without-progress"}
    assert "loss-not-decreasing" in found_in(judged(tmp_path, rows(rising)))


def test_a_rule_of_choice_judges_whatever_the_log_has(tmp_path: Path) -> None:
    one = judged(tmp_path, rows(falling(80)), only="vanishing-gradient")
    assert [(rule.rule_id, rule.state) for rule in one.recorded.rules] == [
        ("vanishing-gradient", RuleState.NOT_ENOUGH_DATA)
    ]
    assert one.unanswerable == ()


def test_a_long_log_is_judged_by_means(tmp_path: Path) -> None:
    one = judged(tmp_path, rows(falling(5000), every=1))
    assert (one.run.merged, one.run.rows) == (5, 1000)
    assert one.reservations == ("The log is long: each judged number is the mean of 5 logged ones.",)
    assert found_in(one) == {}


def test_a_log_that_begins_again(tmp_path: Path) -> None:
    one = judged(tmp_path, [*rows([2.3] * 60), *rows(falling(60))])
    assert one.run.rows == 60
    assert one.reservations == ("It begins again: 60 losses that a later part repeats are left out.",)


def test_a_run_is_kept_for_the_other_commands(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    one = judged(tmp_path, rows([*falling(80), *[math.nan] * 5]), into=str(kept))
    assert found_in(one).keys() == {"exploding-tensor", "loss-spike"}
    assert (kept / "log.jsonl" / "rule-output" / "verdicts.jsonl").is_file()
    with pytest.raises(ConfigurationError, match="holds files already"):
        judged(tmp_path, rows(falling(80)), into=str(kept))


def _healthy(layer: int, step: int, noise: np.random.Generator) -> np.ndarray:
    return noise.normal(0, 0.01 * (1 + layer) * np.exp(-step / 500), 256)


def _vanishing(layer: int, step: int, noise: np.random.Generator) -> np.ndarray:
    return noise.normal(0, 1e-12 * 30.0**layer, 256)


@pytest.mark.parametrize(
    ("gradient", "loss", "expected"),
    [
        pytest.param(_healthy, lambda step: 2 * math.exp(-step / 100) + 0.1, {}, id="gradients-that-reach-all-layers"),
        pytest.param(_healthy, None, {"loss-not-decreasing"}, id="a-stuck-loss-of-another-cause"),
        pytest.param(_vanishing, None, {"loss-not-decreasing", "vanishing-gradient"}, id="vanishing"),
    ],
)
def test_histograms_of_tensorboard_are_judged(
    tmp_path: Path,
    gradient: Callable[[int, int, np.random.Generator], np.ndarray],
    loss: Callable[[int], float] | None,
    expected: Iterable[str],
) -> None:
    noise, layers = np.random.default_rng(0), 8
    parts = [encode_version(1.7e9)]
    for step in range(600):
        value = loss(step) if loss else 0.693 + float(noise.normal(0, 0.001))
        parts.append(encode_scalar("train/loss", value, step=step, wall_time=1.7e9 + step))
        if step % 30 == 29:
            for layer in range(layers):
                for tag, values in (
                    (f"{layer}.weight", noise.normal(0, 0.1, 256)),
                    (f"{layer}.weight.grad", gradient(layer, step, noise)),
                    (f"activations/{layer}", np.zeros(9)),
                ):
                    histogram = histogram_of(values)
                    assert histogram is not None
                    parts.append(encode_histogram(tag, histogram, step=step // 30, wall_time=1.7e9 + step))
    (tmp_path / "events.out.tfevents.1700000000.host").write_bytes(b"".join(parts))
    (log,) = find_logs(str(tmp_path), {}, LeftOut())
    chosen = choose_rules([NO_WORDS], catalogue=built_in_catalogue(), preset=None)
    one = judge_log(log, chosen, clock=lambda: 1.7e9)
    assert found_in(one).keys() == set(expected)
    assert {"vanishing-gradient", "exploding-gradient", "shrunken-weights"}.isdisjoint(one.unanswerable)
