"""Layers over steps: all of them can be reached, and those that findings name stand first."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.work import bytecodes
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.trial.trial import Trial
from trackside.views.report.charts.heatmap import MOST_ROWS
from trackside.views.report.layers import LAYER_MAPS, LayerChoice, heatmap_of

GRADIENTS = LAYER_MAPS[0]
LAYERS = 2 * MOST_ROWS + 3


def run_of(layers: int, *, saved: int = 0) -> Trial:
    tensors, statistics = MemoryStore(), MemoryStore()
    write_collections(tensors)
    names = [f"gradient/{place:04d}.weight" for place in range(layers)]
    write_tensors(tensors, 0, {"Loss_output_0": 1.0, **{f"gradient/saved{place}": 2.0 for place in range(saved)}})
    write_statistics(statistics, {name: {"l2": {0: 1.0, 1: 2.0}} for name in names})
    end_run(tensors)
    trial = Trial(tensors, statistics=statistics)
    trial.refresh()
    return trial


def rows(trial: Trial, choice: LayerChoice, named: frozenset[str] = frozenset()) -> tuple[list[str], str]:
    found = heatmap_of(trial, GRADIENTS, (0, 1), named=named, choice=choice)
    return ([], "") if found is None else ([name[9:13] for name in found.tensors], found.rows_shown)


@pytest.mark.parametrize(
    ("choice", "first", "last", "words"),
    [
        pytest.param(LayerChoice(), "0000", "0199", "rows 1 to 200 of 403", id="first"),
        pytest.param(LayerChoice(page=2), "0200", "0399", "rows 201 to 400 of 403", id="second"),
        pytest.param(LayerChoice(page=3), "0400", "0402", "rows 401 to 403 of 403", id="last"),
        pytest.param(LayerChoice(page=9), "0400", "0402", "rows 401 to 403 of 403", id="beyond-the-last"),
        pytest.param(LayerChoice("040"), "0040", "0402", "", id="by-name"),
        pytest.param(LayerChoice("GRADIENT/0300"), "0300", "0300", "", id="in-any-case"),
    ],
)
def test_every_layer_is_on_a_page(choice: LayerChoice, first: str, last: str, words: str) -> None:
    names, shown = rows(run_of(LAYERS), choice)
    assert (names[0], names[-1], shown) == (first, last, words)


def test_those_that_findings_name_stand_first() -> None:
    """A fault in layer 400 was outside of the picture."""
    names, _ = rows(run_of(LAYERS), LayerChoice(), frozenset({"gradient/0400.weight", "gradient/0390.weight"}))
    assert names[:3] == ["0390", "0400", "0000"]
    assert len(names) == MOST_ROWS


def test_none_with_such_a_name() -> None:
    assert rows(run_of(3), LayerChoice("attention")) == ([], "")


def test_tensors_that_were_saved_and_not_recorded_are_layers_too() -> None:
    assert len(rows(run_of(2, saved=3), LayerChoice())[0]) == 5


def test_other_pages_are_not_read() -> None:
    short, long = run_of(MOST_ROWS), run_of(3 * MOST_ROWS)
    work_of_short = bytecodes(lambda: heatmap_of(short, GRADIENTS, (0, 1)))
    assert bytecodes(lambda: heatmap_of(long, GRADIENTS, (0, 1))) < 2 * work_of_short


@pytest.mark.parametrize(
    ("query", "choice"),
    [
        pytest.param({}, LayerChoice(), id="nothing"),
        pytest.param({"layer": " fc ", "page": "7"}, LayerChoice("fc", 7), id="both"),
        pytest.param({"page": "0"}, LayerChoice(), id="before-the-first"),
        pytest.param({"page": "-1"}, LayerChoice(), id="no-number"),
        pytest.param({"page": "9" * 5000}, LayerChoice(), id="endless"),
    ],
)
def test_the_choice_of_an_address(query: Mapping[str, str], choice: LayerChoice) -> None:
    assert LayerChoice.of(query) == choice
    assert LayerChoice.of(choice.query) == choice
