"""A checkpoint that a training script wrote, and the choice of the one to go back to."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Checkpoint:
    """A file of a checkpoint.

    step        the last step that had ended when it was written, counted over all modes
    path        the file, or the folder of a sharded one
    has_model   it holds weights; else the state of an optimizer alone
    """

    step: int
    path: str
    has_model: bool = True


def newest_before(step: int, checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the newest checkpoint with weights that was written before a step; None if none was.

    Files of one moment in one folder are one checkpoint, named by the folder, unless the folder has files of other
    moments too.

    Args:
        step: The step at which an issue began.
        checkpoints: All files known.
    """
    known = list(checkpoints)
    newest = max((one for one in known if one.has_model and one.step < step), key=lambda one: one.step, default=None)
    if newest is None:
        return None
    folder = posixpath.dirname(newest.path)
    beside = {one.step for one in known if posixpath.dirname(one.path) == folder}
    is_whole = beside == {newest.step} and sum(posixpath.dirname(one.path) == folder for one in known) > 1
    return Checkpoint(newest.step, folder) if is_whole else newest
