"""The lengths of the answers in a batch of preferences: of chosen and rejected ones, as TRL's collators lay them out.

Newer ones stack all chosen rows above all rejected ones and mark the answers by `completion_mask`; others have a tensor
for each side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from trackside.contracts.run.recorded_names import CHOSEN_LENGTH, LONGER_CHOSEN, REJECTED_LENGTH, SHORTER_CHOSEN
from trackside.frameworks.pytorch.ground.memory import has_memory

_STACKED = "completion_mask"
_SIDES = {"labels": -100, "attention_mask": 0}  # ends of names, and the number at places that do not count
MOST_NUMBERS = 1 << 16  # of a tensor that is looked at

Lengths = tuple[torch.Tensor, torch.Tensor]  # tokens of each chosen and of each rejected answer


def pairs_in(batch: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield names and values of the lengths of a batch of preferences; nothing for another batch.

    Args:
        batch: Tensors by name.
    """
    lengths = _stacked(batch) or _of_sides(batch)
    if lengths is None:
        return
    chosen, rejected = lengths
    yield CHOSEN_LENGTH, float(chosen.float().mean())
    yield REJECTED_LENGTH, float(rejected.float().mean())
    yield LONGER_CHOSEN, float((chosen > rejected).float().mean())
    yield SHORTER_CHOSEN, float((chosen < rejected).float().mean())


def _stacked(batch: Mapping[str, Any]) -> Lengths | None:
    answers, tokens = _table(batch, _STACKED), _table(batch, "input_ids")
    if answers is None or tokens is None or answers.shape != tokens.shape or len(tokens) % 2:
        return None
    half = len(tokens) // 2
    begins = answers.long().argmax(1)
    same = int(torch.minimum(begins[:half], begins[half:]).min())
    is_paired = torch.equal(begins[:half], begins[half:]) and torch.equal(tokens[:half, :same], tokens[half:, :same])
    return (answers[:half].sum(1), answers[half:].sum(1)) if is_paired else None


def _of_sides(batch: Mapping[str, Any]) -> Lengths | None:
    for ending, nothing in _SIDES.items():
        chosen, rejected = (_table(batch, f"{side}_{ending}") for side in ("chosen", "rejected"))
        if chosen is not None and rejected is not None and len(chosen) == len(rejected):
            return (chosen != nothing).sum(1), (rejected != nothing).sum(1)
    return None


def _table(batch: Mapping[str, Any], name: str) -> torch.Tensor | None:
    found = batch.get(name)
    if not isinstance(found, torch.Tensor) or found.ndim != 2 or not 0 < found.numel() <= MOST_NUMBERS:
        return None
    return found if found.device.type == "cpu" and has_memory(found) else None
