"""The file of facts about a program that do not change during its training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trackside.capture.steps.step_engine import Position
from trackside.contracts.errors import RecordError
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run_layout import model_facts_key
from trackside.records.model_facts import encode_facts, read_facts
from trackside.storage.store import Store

_RETRY_SECONDS = 5.0


class ProgramFactsFile:
    """One revision of facts, stored once: a `FactsPart` of the writer thread.

    Attributes:
        facts: The facts; set them before the run begins.
        stored_revisions: The number of revisions in the stored file.

    Args:
        facts: The facts.
        open_store: Opens the store of the run's tensors.
        worker: Name of this worker.
        start: Returns the position to add to the numbers of steps.
    """

    def __init__(
        self, facts: ModelFacts, open_store: Callable[[], Store], *, worker: str, start: Callable[[], Position]
    ) -> None:
        self.facts = facts
        self.stored_revisions = 0
        self._open_store, self._worker, self._start = open_store, worker, start

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the next attempt; see `BackgroundPart`."""
        return 3600.0 if self.stored_revisions else _RETRY_SECONDS

    def flush_if_due(self) -> bool:
        """Store the facts unless they are stored; see `BackgroundPart`."""
        if self.stored_revisions:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Store the facts unless they are stored; see `BackgroundPart`."""
        if self.stored_revisions:
            return
        store = self._open_store()
        try:
            revisions = list(read_facts(store, self._worker))
        except RecordError:  # it was damaged before: its content is lost already
            revisions = []
        step = self._start().step
        resumed_at = step if revisions else 0
        program = replace(self.facts.program, resumed_at=resumed_at)
        revisions = [earlier for earlier in revisions if earlier.from_step < step]
        revisions.append(replace(self.facts, from_step=step, program=program))
        store.put(model_facts_key(self._worker), encode_facts(revisions, revision_count=len(revisions)))
        self.stored_revisions = len(revisions)

    def close(self) -> None:
        """Store the facts unless they are stored; see `BackgroundPart`."""
        self.flush()
