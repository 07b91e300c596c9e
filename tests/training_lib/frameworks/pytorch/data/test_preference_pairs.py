"""Lengths of pairs of answers, in the batches of TRL's collators."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trackside.contracts.run.recorded_names import CHOSEN_LENGTH, LONGER_CHOSEN, REJECTED_LENGTH, SHORTER_CHOSEN
from trackside.frameworks.pytorch.data.preference_pairs import pairs_in


def stacked(*lengths: tuple[int, int], prompt: int = 2, other_prompt: bool = False) -> dict[str, torch.Tensor]:
    """Return a batch of pairs with answers of these lengths, chosen rows above rejected ones."""
    rows = [*[chosen for chosen, _ in lengths], *[rejected for _, rejected in lengths]]
    width = prompt + max(rows)
    tokens, answers = torch.zeros(len(rows), width).long(), torch.zeros(len(rows), width).long()
    for place, length in enumerate(rows):
        tokens[place, :prompt] = 7 + place % len(lengths)
        tokens[place, prompt : prompt + length] = 3
        answers[place, prompt : prompt + length] = 1
    if other_prompt:
        tokens[-1, 0] = 29
    return {"input_ids": tokens, "completion_mask": answers}


def sides(chosen: list[list[int]], rejected: list[list[int]], ending: str) -> dict[str, torch.Tensor]:
    return {f"chosen_{ending}": torch.tensor(chosen), f"rejected_{ending}": torch.tensor(rejected)}


LABELS = sides([[-100, 5, 6]], [[-100, 5, -100]], "labels")
MASKS = sides([[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 0]], "attention_mask")
TABLE: dict[str, tuple[dict[str, torch.Tensor], tuple[float, float, float, float]]] = {
    "chosen ones are longer": (stacked((5, 2), (4, 2)), (4.5, 2, 1, 0)),
    "one of each, and one alike": (stacked((5, 2), (1, 3), (2, 2), (2, 2)), (2.5, 2.25, 0.25, 0.25)),
    "two tensors of labels": (LABELS, (2, 1, 1, 0)),
    "two tensors of masks": (MASKS, (1.5, 2.5, 0, 1)),
}
NOTHING: dict[str, dict[str, Any]] = {
    "no answers marked": {"input_ids": torch.ones(4, 3).long()},
    "rows that are no pairs": stacked((5, 2), (4, 2), other_prompt=True),
    "an odd number of rows": {key: value[:3] for key, value in stacked((5, 2), (4, 2)).items()},
    "lists": {key: value.tolist() for key, value in LABELS.items()},
    "one side": {"chosen_labels": LABELS["chosen_labels"]},
}


@pytest.mark.parametrize("name", TABLE)
def test_the_lengths_of_a_batch(name: str) -> None:
    given, expected = TABLE[name]
    names = (CHOSEN_LENGTH, REJECTED_LENGTH, LONGER_CHOSEN, SHORTER_CHOSEN)
    assert dict(pairs_in(given)) == pytest.approx(dict(zip(names, expected, strict=True)))


@pytest.mark.parametrize("name", NOTHING)
def test_other_batches_have_none(name: str) -> None:
    assert dict(pairs_in(NOTHING[name])) == {}
