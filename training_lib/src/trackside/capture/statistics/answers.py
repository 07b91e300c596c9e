"""Answers of a language model with their rewards: how groups fared, and those to show to the user.

A group is the answers to one prompt. One whose rewards are all equal has no gradient, and two opposite reasons: all are
right, or none is. They are told apart by the highest and the lowest reward that any answer of the run has had.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from trackside.contracts.run.answers import MOST_CHARACTERS, MOST_OF_A_STEP, KeptAnswer

_SAME = 1e-6  # of the largest reward
_WORDS_OF_A_SEQUENCE = 4
_MOST_ANSWERS, _MOST_WORDS = 16, 512  # of a step, and of each of these, that are read for repeated words
_MOST_PROMPTS = 4096  # that are remembered
_NAMES = ("answers", "rewards", "prompts")  # arguments of `trackside.log`


@dataclass(frozen=True)
class Answers:
    """The answers of one step.

    Attributes:
        answers: Texts, or tokens.
        rewards: Of each.
        prompts: Of each, or nothing.
        group_size: Answers to one prompt, which follow one another; 0: as far as equal prompts go.
    """

    answers: Sequence[Any]
    rewards: Sequence[float]
    prompts: Sequence[Any] = ()
    group_size: int = 0

    def groups(self) -> Iterator[range]:
        """Yield the places of the answers of each group of two or more."""
        ends = [0]
        if self.group_size > 1:
            ends = list(range(0, len(self.rewards) + 1, self.group_size))
        elif self.prompts:
            ends += [k for k in range(1, len(self.prompts)) if self.prompts[k] != self.prompts[k - 1]]
            ends.append(len(self.prompts))
        for first, end in pairwise(ends):
            if end - first > 1:
                yield range(first, end)

    def to_keep(self) -> tuple[KeptAnswer, ...]:
        """Return the answers with the least and those with the highest rewards, the least first; each text once."""
        texts = [(_text(answer), reward, place) for place, (answer, reward) in enumerate(self._pairs())]
        once = list({(text, reward): (text, reward, place) for text, reward, place in reversed(texts)}.values())
        once.sort(key=lambda each: (each[1], each[2]))
        some = once if len(once) <= 2 * MOST_OF_A_STEP else [*once[:MOST_OF_A_STEP], *once[-MOST_OF_A_STEP:]]
        return tuple(
            KeptAnswer(
                _text(self.prompts[place])[-MOST_CHARACTERS:] if self.prompts else "", text[:MOST_CHARACTERS], reward
            )
            for text, reward, place in some
        )

    def _pairs(self) -> Iterator[tuple[Any, float]]:
        for answer, reward in zip(self.answers, self.rewards, strict=True):
            if math.isfinite(reward):
                yield answer, reward


class Outcomes:
    """The outcomes of groups and of prompts, over a run."""

    def __init__(self) -> None:
        self._high, self._low = -math.inf, math.inf
        self._prompts: dict[int, tuple[int, float]] = {}  # by hash: steps with answers, and their best reward

    def numbers_of(self, given: Answers, *, is_whole: bool) -> dict[str, float]:
        """Return numbers of the answers of a step, by our names.

        Args:
            given: The answers.
            is_whole: Nobody else logs the reward, its spread, and the share of equal groups.
        """
        rewards = [reward for reward in given.rewards if math.isfinite(reward)]
        if not rewards:
            return {}
        self._high, self._low = max(self._high, *rewards), min(self._low, *rewards)
        found = {"reward": math.fsum(rewards) / len(rewards)} if is_whole else {}
        found |= _repeated(given.answers) | self._never_solved(given)
        groups = list(given.groups())
        if not groups:
            return found
        near = _SAME * max(abs(self._high), abs(self._low), 1.0)
        spreads, solved, unsolved, equal, distinct = [], 0, 0, 0, 0
        for places in groups:
            own = [given.rewards[place] for place in places if math.isfinite(given.rewards[place])]
            spreads.append(_deviation(own))
            distinct += len({_text(given.answers[place]) for place in places})
            if len(own) == len(places) and max(own) - min(own) <= near:
                equal += 1
                is_best = own[0] >= self._high - near and (self._high - self._low > near or own[0] > 0)
                solved += is_best
                unsolved += not is_best and own[0] <= self._low + near
        count = len(groups)
        if is_whole:
            found |= {"reward_spread": math.fsum(spreads) / count, "equal_groups": equal / count}
        return {
            **found,
            "solved_groups": solved / count,
            "unsolved_groups": unsolved / count,
            "distinct_share": distinct / sum(map(len, groups)),
        }

    def _never_solved(self, given: Answers) -> dict[str, float]:
        """Return the share of the prompts with answers at several steps of which none got the highest reward."""
        best: dict[int, float] = {}
        for prompt, reward in zip(given.prompts, given.rewards, strict=False):
            if math.isfinite(reward):
                key = hash(_text(prompt))
                best[key] = max(reward, best.get(key, -math.inf))
        for key, reward in best.items():
            steps, known = self._prompts.get(key, (0, -math.inf))
            if steps or len(self._prompts) < _MOST_PROMPTS:
                self._prompts[key] = steps + 1, max(known, reward)
        again = [reward for steps, reward in self._prompts.values() if steps > 1]
        near = _SAME * max(abs(self._high), abs(self._low), 1.0)
        is_known = bool(again) and self._high - self._low > near
        return {"never_solved": sum(reward < self._high - near for reward in again) / len(again)} if is_known else {}


def repeated_share(answer: str) -> float | None:
    """Return the share of sequences of four words that stand earlier in an answer; None for less than two of them.

    Args:
        answer: Its text, of which the first words are read.
    """
    words = answer.split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]
    count = len(words) - _WORDS_OF_A_SEQUENCE + 1
    if count < 2:
        return None
    return 1 - len({tuple(words[k : k + _WORDS_OF_A_SEQUENCE]) for k in range(count)}) / count


def _repeated(answers: Sequence[Any]) -> dict[str, float]:
    every = max(1, len(answers) // _MOST_ANSWERS)
    shares = [share for each in answers[::every] if (share := repeated_share(_text(each))) is not None]
    return {"repeated_share": math.fsum(shares) / len(shares)} if shares else {}


def answers_in(values: Mapping[str, Any]) -> Answers | None:
    """Return the answers among what a script logs; None without any, or without a reward for each.

    Args:
        values: What it logs, by name: `answers`, `rewards` and perhaps `prompts`.
    """
    if not {"answers", "rewards"} <= values.keys():
        return None
    answers, rewards, prompts = (_listed(values.get(name)) for name in _NAMES)
    if len(answers) != len(rewards) or len(prompts) not in (0, len(answers)):
        return None
    return Answers(answers, [float(reward) for reward in rewards], prompts)


def other_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a script logs beside answers.

    Args:
        values: What it logs, by name.
    """
    return {name: value for name, value in values.items() if name not in _NAMES}


def answers_of_trainer(trainer: Any) -> Answers | None:
    """Return the newest answers that a trainer of TRL has logged; None for another one, or without any.

    Args:
        trainer: It keeps texts, and rewards by the name of their function.
    """
    logs = getattr(trainer, "_logs", None)
    logs = logs if isinstance(logs, Mapping) else getattr(trainer, "_textual_logs", None)
    parts = logs.get("rewards") if isinstance(logs, Mapping) else None
    if not isinstance(parts, Mapping) or not parts or not logs.get("completion"):  # type: ignore[union-attr] # parts
        return None
    answers, prompts = _listed(logs["completion"]), _listed(logs.get("prompt"))  # type: ignore[index,union-attr]
    of_each = [_listed(part) for part in parts.values()]
    if any(len(part) != len(answers) for part in of_each):
        return None
    weights = [float(weight) for weight in _listed(getattr(trainer, "reward_weights", None))]
    weights = weights if len(weights) == len(of_each) else [1.0] * len(of_each)
    rewards = [_weighted(row, weights) for row in zip(*of_each, strict=True)]
    size = getattr(trainer, "num_generations", 0)
    is_paired = len(prompts) == len(answers)
    return Answers(answers, rewards, prompts if is_paired else (), size if isinstance(size, int) else 0)


def _weighted(row: Sequence[Any], weights: Sequence[float]) -> float:
    """Return the sum of the rewards of an answer; those that are not given count as none."""
    known = [
        float(reward) * weight
        for reward, weight in zip(row, weights, strict=True)
        if reward is not None and not math.isnan(float(reward))
    ]
    return math.fsum(known) if known else math.nan


def _deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _listed(values: Any) -> list[Any]:
    if values is None or isinstance(values, str):
        return []
    tolist = getattr(values, "tolist", None)
    return list(tolist() if callable(tolist) else values)


def _text(value: Any) -> str:
    """Return a text: of messages the content of the last one, of tokens their numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _text(value.get("content", ""))
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[-1], Mapping):
            return _text(value[-1])
        return " ".join(map(str, value))
    return str(value)
