"""The reader of facts about the training program: see `records.model_facts`."""

from __future__ import annotations

from collections.abc import Callable

from trackside.contracts.errors import KeyNotFoundError, NotAFileError, RecordError
from trackside.contracts.model_facts import ModelFacts, Revisions, at_step
from trackside.contracts.run_layout import model_facts_key
from trackside.records.model_facts import HEAD_BYTES, facts_workers, read_facts
from trackside.storage.store import Store

_FIRST = "worker_0"


class ModelFactsReader:
    """The facts of a run, by worker: read on request, and again only if they have changed.

    After a `refresh` the next request costs one small GET; one LIST while the run has no facts.
    """

    def __init__(self, store: Store, *, report: Callable[[RecordError], None]) -> None:
        self._store = store
        self._report = report
        self._known: dict[str, tuple[bytes, Revisions]] = {}  # with the head of the file that they were read from
        self._looked: set[str] = set()  # since the last refresh
        self._first = ""

    def refresh(self) -> None:
        """Allow the next request to look for newer facts."""
        self._looked.clear()

    def newest(self) -> ModelFacts | None:
        """Return the newest revision of the first worker with facts; None for a run without."""
        revisions = self._of_first()
        return revisions[-1] if revisions else None

    def at(self, step: int) -> ModelFacts | None:
        """Return the revision that holds at `step`, of the first worker with facts."""
        return at_step(self._of_first(), step)

    def revisions(self, worker: str) -> Revisions:
        """Return all revisions of a worker, oldest first; () for a worker without."""
        if worker not in self._looked:
            self._looked.add(worker)
            self._look(worker)
        return self._known.get(worker, (b"", ()))[1]

    def _of_first(self) -> Revisions:
        if self._first != _FIRST and "" not in self._looked:
            self._looked.add("")
            self._first = next(iter(facts_workers(self._store)), "")
        return self.revisions(self._first) if self._first else ()

    def _look(self, worker: str) -> None:
        key = model_facts_key(worker)
        try:
            head = self._store.get(key, length=HEAD_BYTES)
            if self._known.get(worker, (None,))[0] != head:
                self._known[worker] = head, read_facts(self._store, worker)
        except NotAFileError as error:
            self._report(RecordError(key, 0, str(error)))
        except KeyNotFoundError:
            return
        except RecordError as error:  # what was read before still holds
            self._report(error)
