"""Values of a series for agents: thinned, with the extremes and the first number that is not finite."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.for_each import for_each
from tests.training_lib.agents.asked import call, refused, run
from tests.training_lib.views.dashboard.runs import LOSS
from trackside.agents.series import thinned
from trackside.agents.text import shown_name

WAVE = np.sin(np.arange(1000) / 50.0)
SPIKED = np.where(np.arange(1000) == 777, 99.0, WAVE)
DIPPED = np.where(np.arange(1000) == 3, -99.0, WAVE)
BROKEN = np.where(np.arange(1000) == 500, np.nan, WAVE)
CASES = {
    "nothing": (np.empty(0), 20, ()),
    "one": (np.ones(1), 20, (0,)),
    "few enough": (WAVE[:20], 20, tuple(range(20))),
    "a wave": (WAVE, 20, (0, 999)),
    "a spike": (SPIKED, 20, (0, 777, 999)),
    "a dip": (DIPPED, 20, (0, 3, 999)),
    "not a number at one step": (BROKEN, 20, (0, 500, 999)),
    "no number at all": (np.full(1000, np.nan), 20, (0, 999)),
    "as few as may be": (SPIKED, 5, (0, 777, 999)),
}


@for_each(CASES)
def test_what_stays_of_many_numbers(numbers: np.ndarray, most: int, stay: tuple[int, ...]) -> None:
    kept = thinned(numbers, most)
    assert set(stay) <= set(kept)
    assert len(kept) <= most
    assert kept == sorted(set(kept))


@pytest.fixture
def where(tmp_path: Path) -> Path:
    run(tmp_path, "digits", tensors=("gradient/fc.bias", "gradient/\x1b[2Jbad\nname"))
    return tmp_path


def test_the_loss_comes_first(where: Path) -> None:
    page = call(where, "list_series", run="digits")
    assert page["series"][0] == {"name": LOSS, "statistic": "mean", "steps": 400, "last": pytest.approx(1.0025)}
    assert page["total"] == len(page["series"])
    assert [each["name"] for each in call(where, "list_series", run="digits", contains="FC.B")["series"]] == [
        "gradient/fc.bias"
    ]


def test_a_name_that_is_no_plain_text_is_shown_and_found(where: Path) -> None:
    shown = shown_name("gradient/\x1b[2Jbad\nname")
    names = [each["name"] for each in call(where, "list_series", run="digits")["series"]]
    assert shown in names
    assert all(name.isprintable() for name in names)
    assert call(where, "read_values", run="digits", name=shown)["recorded"] == 100


def test_values_of_some_steps(where: Path) -> None:
    answer = call(where, "read_values", run="digits", first_step=100, last_step=199, most=10)
    assert (answer["name"], answer["recorded"], answer["first_step"], answer["last_step"]) == (LOSS, 100, 100, 199)
    assert answer["thinned"]
    assert [123, "NaN"] in answer["points"]
    assert len(answer["points"]) <= 10
    assert (answer["least"], answer["most"]) == (pytest.approx(1.5025), pytest.approx(1.75))


def test_no_step_is_no_error(where: Path) -> None:
    answer = call(where, "read_values", run="digits", first_step=10_000)
    assert (answer["recorded"], answer["points"], answer["least"]) == (0, [], None)


WRONG = {
    "a series": ({"name": "gradient/fc.bais"}, "Did you mean 'gradient/fc.bias'?"),
    "a statistic": ({"statistic": "median"}, "statistic: Unknown: 'median'"),
    "a process": ({"worker": "worker_9"}, "worker: Unknown: 'worker_9'. Did you mean 'worker_0'?"),
    "too few points": ({"most": 1}, "greater than or equal to 5"),
    "too many points": ({"most": 10_000}, "less than or equal to 100"),
}


def test_what_is_unknown_is_named(where: Path) -> None:
    @for_each(WRONG)
    def check(arguments: dict[str, object], text: str) -> None:
        assert text in refused(where, "read_values", run="digits", **arguments)

    check()


def test_numbers_that_are_not_finite_are_words(where: Path) -> None:
    folder = run(where, "nan", broken_at=399)
    assert folder.exists()
    last = call(where, "list_series", run="nan")["series"][0]["last"]
    assert last == "NaN"
    assert not isinstance(last, float) or math.isfinite(last)
