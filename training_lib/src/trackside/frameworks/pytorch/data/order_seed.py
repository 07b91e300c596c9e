"""The seed of the order in which a pass takes the rows: with it the pass can be drawn again. Draws no random number."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils.data import DistributedSampler, RandomSampler

from trackside.frameworks.pytorch.ground.script_objects import attribute_of


class OrderSeed(NamedTuple):
    """A seed of the order of the rows.

    - `seed`: a whole number of 64 bits
    - `is_first`: a generator of the script was seeded so once, and each pass goes on where the one before ended; False
      if `torch.randperm(rows, generator=torch.Generator().manual_seed(seed))` is the order of this pass
    """

    seed: int
    is_first: bool


def order_seed(iterator: Any) -> OrderSeed | None:
    """Return the seed of the pass that an iterator of a DataLoader has begun to draw; None for other samplers.

    Args:
        iterator: The iterator, right after its first draw: a sampler's own seed stands in its frame alone.
    """
    batches = iterator._index_sampler
    sampler = attribute_of(batches, "sampler", batches)
    if type(sampler) is DistributedSampler:
        return OrderSeed(sampler.seed + sampler.epoch, is_first=False) if sampler.shuffle else None
    if type(sampler) is not RandomSampler:
        return None
    if isinstance(sampler.generator, torch.Generator):
        return OrderSeed(sampler.generator.initial_seed(), is_first=True)
    frame = getattr(iterator._sampler_iter, "gi_frame", None)
    drawing = frame.f_locals.get("sampler_iter") if frame is not None else None
    frame = getattr(drawing, "gi_frame", None)
    seed = frame.f_locals.get("seed") if frame is not None else None
    return OrderSeed(seed, is_first=False) if isinstance(seed, int) else None
