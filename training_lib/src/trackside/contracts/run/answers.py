"""Answers of a language model that a run keeps as text, where its user has allowed it (`--show-samples`)."""

from __future__ import annotations

from dataclasses import dataclass

MOST_CHARACTERS = 500  # of a prompt, and of an answer
MOST_OF_A_STEP = 3  # answers with the least rewards, and as many with the highest
MOST_STEPS = 64  # with answers, in one run


@dataclass(frozen=True)
class KeptAnswer:
    """One answer.

    prompt   its end, where it is long; "" if unknown
    answer   its beginning, where it is long
    reward   what it got
    """

    prompt: str
    answer: str
    reward: float


@dataclass(frozen=True)
class KeptAnswers:
    """The answers of one step, those with the least reward first."""

    step: int
    answers: tuple[KeptAnswer, ...]
