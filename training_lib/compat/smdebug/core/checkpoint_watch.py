"""Storing of a training's progress, each time that its checkpoints have changed.

SageMaker carries the folder of checkpoints to the instance that continues after a spot interruption, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from smdebug import not_offered
from smdebug.core.configured_hook import logger
from smdebug.core.state_store import StateStore

_SHARE = 50  # one part in so many of the time may go into looking; a look costs a walk through the folder


class CheckpointWatch:
    """A watch over the checkpoints, between steps. It takes a fiftieth of the time, whatever the number of checkpoints.

    If the folder cannot be written to, that is logged once, and training goes on.
    """

    def __init__(self, store: StateStore, *, monotonic: Callable[[], float] = time.perf_counter) -> None:
        self._store, self._monotonic = store, monotonic
        self._next_look = float("-inf")
        self._was_logged = False

    def step_ends(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Check the checkpoints if it is time. `state` returns the state to store, under its old names."""
        started = self._monotonic()
        if started >= self._next_look:
            self.look(state)
            ended = self._monotonic()
            self._next_look = ended + _SHARE * (ended - started)

    def look(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Check the checkpoints now, and store the state if they have changed."""
        try:
            if self._store.is_checkpoint_updated():
                self._store.update_state(state())
        except OSError as error:
            if not self._was_logged:
                self._was_logged = True
                logger.warning("trackside: how far training has come could not be left by its checkpoints: %s.", error)


__getattr__ = not_offered.attribute_of(__name__)
