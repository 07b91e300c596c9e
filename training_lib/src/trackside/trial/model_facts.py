"""Reads what the training program is made of: see `records.model_facts`."""

from __future__ import annotations

from collections.abc import Callable

from trackside.contracts.errors import KeyNotFoundError, NotAFileError, RecordError
from trackside.contracts.model_facts import ModelFacts, Revisions, at_step
from trackside.contracts.run_layout import model_facts_key
from trackside.records.model_facts import HEAD_BYTES, facts_workers, read_facts
from trackside.storage.store import Store

_FIRST = "worker_0"


class ModelFactsReader:
    """The facts of a run, by worker: read when they are asked for, and again only if they have changed.

    After a `refresh` the next question costs one small GET; before there are any facts, one LIST.
    """

    def __init__(self, store: Store, *, report: Callable[[RecordError], None]) -> None:
        self._store = store
        self._report = report
        self._known: dict[str, tuple[bytes, Revisions]] = {}  # with the head of the file that they were read from
        self._looked: set[str] = set()  # since the last refresh
        self._first = ""

    def refresh(self) -> None:
        """Says that there may be news."""
        self._looked.clear()

    def newest(self) -> ModelFacts | None:
        """The newest revision of the first worker that has any; None if there is none."""
        revisions = self._of_first()
        return revisions[-1] if revisions else None

    def at(self, step: int) -> ModelFacts | None:
        """The revision of the first worker that has any which holds at `step`."""
        return at_step(self._of_first(), step)

    def revisions(self, worker: str) -> Revisions:
        """All revisions of that worker, oldest first; () if there are none."""
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
