"""Answers with rewards: groups all right and all wrong, the ones to keep, those of TRL's trainers."""

from __future__ import annotations

import math
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trackside.capture.statistics.answers import (
    Answers,
    Outcomes,
    answers_in,
    answers_of_trainer,
    other_values,
    repeated_share,
)
from trackside.contracts.run.answers import MOST_CHARACTERS, MOST_OF_A_STEP


def batch(*groups: list[float], size: int = 0) -> Answers:
    rewards = [reward for group in groups for reward in group]
    prompts = [f"prompt {number}" for number, group in enumerate(groups) for _ in group]
    return Answers([f"answer {k}" for k in range(len(rewards))], rewards, () if size else prompts, size)


OUTCOMES: dict[str, tuple[list[Answers], tuple[float, float, float] | None]] = {  # solved, unsolved, equal of the last
    "right and wrong": ([batch([1, 0], [0, 1])], (0, 0, 0)),
    "one solved, one not, one open": ([batch([1, 1], [0, 0], [1, 0], [0, 1])], (0.25, 0.25, 0.5)),
    "all right from the start": ([batch([1, 1], [1, 1])], (1, 0, 1)),
    "all wrong from the start": ([batch([0, 0], [0, 0])], (0, 1, 1)),
    "all wrong, below zero": ([batch([-1, -1])], (0, 1, 1)),
    "all right, as known from before": ([batch([1, 0]), batch([1, 1])], (1, 0, 1)),
    "equal in between": ([batch([2, 0]), batch([1, 1])], (0, 0, 1)),
    "groups by their size": ([batch([1, 1], [0, 0], size=2)], (0.5, 0.5, 1)),
    "uneven groups by their prompts": ([batch([1, 1, 1], [0, 0])], (0.5, 0.5, 1)),
    "a reward that is not given": ([batch([1, math.nan], [0, 0])], (0, 0.5, 0.5)),
    "one answer to each prompt": ([batch([1], [0])], None),
    "no rewards": ([Answers([], [])], None),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_groups_that_are_solved_are_told_from_those_that_are_not(name: str) -> None:
    steps, wanted = OUTCOMES[name]
    outcomes = Outcomes()
    found = [outcomes.numbers_of(one, is_whole=True) for one in steps][-1]
    keys = ("solved_groups", "unsolved_groups", "equal_groups")
    assert tuple(found.get(key) for key in keys) == (wanted or (None, None, None))


def test_what_a_trainer_logs_is_not_logged_twice() -> None:
    names = {"solved_groups", "unsolved_groups", "distinct_share"}
    given = Answers(["a", "a", "b", "c"], [1.0, 0.0, 0.5, 0.5], ["p", "p", "q", "q"])
    assert set(Outcomes().numbers_of(given, is_whole=False)) == names
    whole = Outcomes().numbers_of(given, is_whole=True)
    assert set(whole) == names | {"reward", "reward_spread", "equal_groups"}
    assert (whole["reward"], whole["distinct_share"]) == (0.5, 0.75)


def test_the_least_and_the_highest_rewards_are_kept_and_texts_are_cut() -> None:
    given = Answers(["y" * 2000, *"abcdefgh", "h"], [0.9, *(k / 10 for k in range(8)), 0.7], ["x" * 600 + "end"] * 10)
    kept = given.to_keep()
    assert [one.reward for one in kept] == [0.0, 0.1, 0.2, 0.6, 0.7, 0.9]
    assert [one.answer[:3] for one in kept] == ["a", "b", "c", "g", "h", "yyy"]
    assert len(kept) == 2 * MOST_OF_A_STEP
    assert {len(one.prompt) for one in kept} == {MOST_CHARACTERS} == {len(kept[-1].answer)}
    assert kept[0].prompt.endswith("end")
    messages = Answers([[{"role": "assistant", "content": "four"}], [5, 6]], [1.0, math.nan], [])
    assert [one.answer for one in messages.to_keep()] == ["four"]


LOGGED: dict[str, tuple[dict[str, Any], int | None]] = {
    "lists": ({"answers": ["a", "b"], "rewards": [0, 1], "prompts": ["p", "p"]}, 2),
    "tensors": ({"answers": torch.ones(2, 3).long(), "rewards": torch.tensor([0.0, 1.0])}, 2),
    "no rewards": ({"answers": ["a"]}, None),
    "too few rewards": ({"answers": ["a", "b"], "rewards": [1.0]}, None),
    "too few prompts": ({"answers": ["a", "b"], "rewards": [1.0, 0.0], "prompts": ["p"]}, None),
    "a word": ({"answers": "no", "rewards": [1.0, 0.0]}, None),
}


def test_answers_among_what_is_logged() -> None:
    for name, (values, count) in LOGGED.items():
        found = answers_in({**values, "kl": 0.1})
        assert (None if found is None else len(found.rewards)) == count, name
        assert other_values({**values, "kl": 0.1}) == {"kl": 0.1}


def test_answers_of_a_trainer() -> None:
    rewards = {"right": deque([1.0, 0.0, 1.0, None]), "short": deque([1.0, 1.0, math.nan, math.nan])}
    logs = {"prompt": deque("ppqq"), "completion": deque("abcd"), "rewards": rewards}
    trainer = SimpleNamespace(_logs=logs, num_generations=2, reward_weights=torch.tensor([1.0, 0.5]))
    found = answers_of_trainer(trainer)
    assert found is not None
    assert list(found.rewards[:3]) == [1.5, 0.5, 1.0]
    assert math.isnan(found.rewards[3])
    assert (list(found.groups()), found.prompts[2]) == ([range(2), range(2, 4)], "q")
    for other in (
        SimpleNamespace(),
        SimpleNamespace(_logs={}),
        SimpleNamespace(_logs={"rewards": {}, "completion": "ab"}),
    ):
        assert answers_of_trainer(other) is None


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("a b c d e f g h", 0.0),
        ("a b c d a b c d", 0.2),
        ("no " * 20, 16 / 17),
        ("the end the end the end the end", 0.6),
        ("four words are one", None),
        ("", None),
    ],
)
def test_repeated_words_of_an_answer(answer: str, wanted: float | None) -> None:
    assert repeated_share(answer) == (wanted if wanted is None else pytest.approx(wanted))


def test_long_answers_are_read_in_part() -> None:
    words = " ".join(map(str, range(512)))
    assert repeated_share(f"{words} {'no ' * 5000}") == 0


def test_a_step_has_the_mean_of_its_answers() -> None:
    given = Answers(["a b c d e", "no no no no no"], [1.0, 0.0], ["p", "p"])
    assert Outcomes().numbers_of(given, is_whole=False)["repeated_share"] == pytest.approx(0.25)


NEVER: dict[str, tuple[list[Answers], float | None]] = {
    "one of two": ([batch([0, 0], [1, 0]), batch([0, 0], [0, 0])], 0.5),
    "solved later": ([batch([0, 0], [1, 0]), batch([0, 1], [1, 0])], 0.0),
    "each prompt once": ([batch([0, 0], [1, 0])], None),
    "nothing is known of the highest reward": ([batch([0, 0]), batch([0, 0])], None),
    "no prompts": ([batch([0, 1], size=2), batch([0, 1], size=2)], None),
}


@pytest.mark.parametrize("name", NEVER)
def test_prompts_that_are_never_solved(name: str) -> None:
    steps, wanted = NEVER[name]
    outcomes = Outcomes()
    assert [outcomes.numbers_of(one, is_whole=True) for one in steps][-1].get("never_solved") == wanted
