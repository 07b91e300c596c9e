"""A saved step of one worker, and the places of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.records.index_file import ShapeEntry


@dataclass(frozen=True, eq=False)
class Layout:
    """The places of tensors in an event file. Steps that are alike share one layout.

    records  name -> (start, length) in bytes
    shapes   shapes that were saved by themselves, by tensor
    """

    records: Mapping[str, tuple[int, int]]
    shapes: Mapping[str, ShapeEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedStep:
    """The file of one worker at one step. `mode_step` counts only the steps of its mode."""

    step: int
    worker: str
    mode: str
    event_key: str
    layout: Layout
    mode_step: int = 0
