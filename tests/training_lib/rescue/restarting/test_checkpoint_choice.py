"""The checkpoint to go back to, and the later files that the script must not find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trackside.contracts.run.checkpoint import Checkpoint
from trackside.rescue.restarting.checkpoint_choice import Choice, choose, place_aside, place_before, with_newest

FOLDERS = tuple(
    Checkpoint(step - 1, f"/out/checkpoint-{step}/{name}", has_model=name.startswith("model"))
    for step in (100, 200, 300, 1000)
    for name in ("model.safetensors", "optimizer.pt")
)
FILES = tuple(Checkpoint(step - 1, f"/ck/step_{step}.pt") for step in (100, 200, 300))
LAST = Checkpoint(299, "/ck/last.pt")
OPTIMIZERS = (Checkpoint(149, "/ck/adam_150.pt", has_model=False), Checkpoint(249, "/ck/adam_250.pt", has_model=False))
SHARDED = tuple(Checkpoint(step - 1, f"/ck/{step}") for step in (100, 200))
ONE = (Checkpoint(99, "/ck/model.pt"),)


def nothing(_step: int) -> bool:
    return False


def chosen(
    known: tuple[Checkpoint, ...],
    before: int,
    *,
    tries: dict[str, int] | None = None,
    is_contradicted: Callable[[int], bool] = nothing,
) -> Choice | str:
    return choose(known, before, is_contradicted=is_contradicted, tries=tries or {}, most_tries=2)


_CHOICES = {
    "folders": (FOLDERS, 250, Choice("/out/checkpoint-200", 199, ("/out/checkpoint-300", "/out/checkpoint-1000"))),
    "files": (FILES, 250, Choice("/ck/step_200.pt", 199, ("/ck/step_300.pt",))),
    "the newest is good": (FILES, 900, Choice("/ck/step_300.pt", 299)),
    "a checkpoint of the broken step itself": (FILES, 199, Choice("/ck/step_100.pt", 99, tuple(
        f"/ck/step_{step}.pt" for step in (200, 300)
    ))),
    "whole folders of shards": (SHARDED, 150, Choice("/ck/100", 99, ("/ck/200",))),
    "one file, written over no more": (ONE, 150, Choice("/ck/model.pt", 99)),
    "a copy of the newest": (
        (*FILES, LAST), 250, Choice("/ck/step_200.pt", 199, ("/ck/step_300.pt", "/ck/last.pt"), ("/ck/last.pt",)),
    ),
    "an optimizer in files of its own": (
        (*FILES, *OPTIMIZERS), 220, Choice("/ck/step_200.pt", 199, ("/ck/step_300.pt", "/ck/adam_250.pt")),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("known", "before", "expected"), _CHOICES.values(), ids=_CHOICES)
def test_the_newest_sound_one_is_chosen(known: tuple[Checkpoint, ...], before: int, expected: Choice) -> None:
    assert chosen(known, before) == expected


_NONE = {
    "none written": ((), 250, "no checkpoint"),
    "all written since": (FILES, 50, "no checkpoint"),
    "no weights before": (OPTIMIZERS, 200, "no checkpoint"),
    "another name written over since": ((*FILES, Checkpoint(260, "/ck/last.pt")), 250, "/ck/last.pt was written over"),
    "the only file is too new": ((Checkpoint(260, "/ck/model.pt"),), 250, "no checkpoint"),
}


@pytest.mark.parametrize(("known", "before", "words"), _NONE.values(), ids=_NONE)
def test_nothing_is_chosen_without_a_place_that_the_script_finds(
    known: tuple[Checkpoint, ...], before: int, words: str
) -> None:
    found = chosen(known, before)
    assert isinstance(found, str)
    assert words in found


def test_a_place_that_failed_twice_and_one_that_rules_contradict_are_left() -> None:
    once, twice = {"/ck/step_200.pt": 1}, {"/ck/step_200.pt": 2}
    assert chosen(FILES, 250, tries=once) == chosen(FILES, 250)
    for found in (chosen(FILES, 250, tries=twice), chosen(FILES, 250, is_contradicted=lambda step: step >= 150)):
        assert isinstance(found, Choice)
        assert found.good == "/ck/step_100.pt"
        assert found.later == ("/ck/step_200.pt", "/ck/step_300.pt")
    all_tried = {f"/ck/step_{step}.pt": 2 for step in (100, 200)}
    assert chosen(FILES, 250, tries=all_tried) == "the fault came again each time"


def test_what_is_written_while_the_training_ends_is_added() -> None:
    found = chosen(FILES, 250)
    assert isinstance(found, Choice)
    more = (*FILES, Checkpoint(399, "/ck/step_400.pt"), Checkpoint(399, "/ck/result.pt"))
    assert with_newest(found, more).later == ("/ck/step_300.pt", "/ck/step_400.pt")


def test_a_series_within_a_folder_counts_more_than_numbered_folders() -> None:
    known = (
        Checkpoint(99, "/logs/version_0/step_100.pt"),
        Checkpoint(199, "/logs/version_1/step_200.pt"),
        Checkpoint(299, "/logs/version_1/step_300.pt"),
    )
    assert chosen(known, 250) == Choice("/logs/version_1/step_200.pt", 199, ("/logs/version_1/step_300.pt",))


def test_places_aside_are_hidden_and_lead_back() -> None:
    aside = place_aside("/out/checkpoint-300", "run-1")
    assert aside == "/out/.trackside-set-aside/run-1/checkpoint-300"
    assert place_before(aside) == "/out/checkpoint-300"
