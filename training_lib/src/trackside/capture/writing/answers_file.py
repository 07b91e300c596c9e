"""The answers of a language model that a run keeps as text, as a part of the writer thread."""

from __future__ import annotations

import time
from collections.abc import Callable

from trackside.capture.steps.step_engine import Position
from trackside.contracts.errors import RecordError
from trackside.contracts.run.answers import MOST_STEPS, KeptAnswer, KeptAnswers
from trackside.contracts.run_layout import answers_key
from trackside.records.answers_file import encode_answers, read_answers
from trackside.storage.store import Store

_IDLE_SECONDS = 60.0
_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 5.0


class AnswersFile:
    """Collects answers and stores them: a `BackgroundPart`. Of many steps each second of the older half is dropped.

    Args:
        open_store: Opens the store of the run's answers.
        worker: Name of this worker.
        start: Returns the position to add to the numbers of steps.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        worker: str,
        start: Callable[[], Position],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_store, self._worker, self._start, self._monotonic = open_store, worker, start, monotonic
        self._kept: list[KeptAnswers] | None = None  # None: not read yet what an earlier process stored
        self._added: list[tuple[int, tuple[KeptAnswer, ...]]] = []
        self._newest: tuple[KeptAnswer, ...] = ()
        self._retry_at = 0.0

    def add(self, step: int, answers: tuple[KeptAnswer, ...]) -> None:
        """Add the answers of a step, unless they are those of the step before. Called on the training thread."""
        if answers and answers != self._newest:
            self._newest = answers
            self._added = [*self._added[1 - MOST_STEPS :], (step, answers)]

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the next flush or attempt; see `BackgroundPart`."""
        return max(_WAIT_SECONDS, self._retry_at - self._monotonic()) if self._added else _IDLE_SECONDS

    def flush_if_due(self) -> bool:
        """Store new answers, if it is time; see `BackgroundPart`."""
        if not self._added or self._monotonic() < self._retry_at:
            return False
        self._retry_at = self._monotonic() + _RETRY_SECONDS  # unless it succeeds
        self.flush()
        self._retry_at = 0.0
        return True

    def flush(self) -> None:
        """Store new answers; see `BackgroundPart`."""
        added = self._added
        if not added:
            return
        store, start = self._open_store(), self._start().step
        if self._kept is None:
            self._kept = self._stored(store)
        steps = [*self._kept, *(KeptAnswers(step + start, answers) for step, answers in added)]
        while len(steps) > MOST_STEPS:
            half = len(steps) // 2
            steps = [*steps[:half:2], *steps[half:]]
        store.put(answers_key(self._worker), encode_answers(steps))
        self._kept = steps
        self._added = [each for each in self._added if each not in added]

    def close(self) -> None:
        """Store the rest; see `BackgroundPart`."""
        self.flush()

    def _stored(self, store: Store) -> list[KeptAnswers]:
        try:
            return list(read_answers(store, self._worker))
        except RecordError:  # it was damaged before: its content is lost already
            return []
