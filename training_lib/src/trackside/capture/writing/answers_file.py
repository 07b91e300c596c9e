"""The answers of a language model that a run keeps as text, as a part of the writer thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.retried_part import RetriedPart
from trackside.contracts.errors import RecordError
from trackside.contracts.run.answers import MOST_STEPS, KeptAnswer, KeptAnswers
from trackside.contracts.run_layout import answers_key
from trackside.records.answers_file import encode_answers, read_answers
from trackside.storage.store import Store


class AnswersFile(RetriedPart):
    """Collects answers and stores them. Of many steps each second of the older half is dropped.

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
        super().__init__(monotonic)
        self._open_store, self._worker, self._start = open_store, worker, start
        self._kept: list[KeptAnswers] | None = None  # None: not read yet what an earlier process stored
        self._added: deque[tuple[int, tuple[KeptAnswer, ...]]] = deque(maxlen=MOST_STEPS)  # by the training thread
        self._taken: list[tuple[int, tuple[KeptAnswer, ...]]] = []  # of these, by the writer
        self._newest: tuple[KeptAnswer, ...] = ()

    def add(self, step: int, answers: tuple[KeptAnswer, ...]) -> None:
        """Add the answers of a step, unless they are those of the step before. Called on the training thread."""
        if answers and answers != self._newest:
            self._newest = answers
            self._added.append((step, answers))

    @property
    def has_news(self) -> bool:
        """True if any answers are to be stored; see `RetriedPart`."""
        return bool(self._added or self._taken)

    def flush(self) -> None:
        """Store new answers; see `BackgroundPart`."""
        with suppress(IndexError):
            while True:
                self._taken.append(self._added.popleft())
        if not self._taken:
            return
        del self._taken[:-MOST_STEPS]  # where the store has failed for long
        store, start = self._open_store(), self._start().step
        if self._kept is None:
            self._kept = self._stored(store)
        steps = [*self._kept, *(KeptAnswers(step + start, answers) for step, answers in self._taken)]
        while len(steps) > MOST_STEPS:
            half = len(steps) // 2
            steps = [*steps[:half:2], *steps[half:]]
        store.put(answers_key(self._worker), encode_answers(steps))
        self._kept, self._taken = steps, []

    def _stored(self, store: Store) -> list[KeptAnswers]:
        try:
            return list(read_answers(store, self._worker))
        except RecordError:  # it was damaged before: its content is lost already
            return []
