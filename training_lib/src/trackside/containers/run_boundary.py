"""The limits of a run in AWS: the runs that its rules may read, and the one job that may end it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from trackside.contracts.deployment.shared_places import SHARED, may_read
from trackside.contracts.errors import AccessDeniedError, KeyNotFoundError
from trackside.contracts.event import TrainingJob, job_of_identity
from trackside.contracts.run_layout import END_MARKER_KEY, RunLocation
from trackside.storage.store import Store

MOST_MARKER_BYTES = 1024

_logger = logging.getLogger(__name__)


def check_readable(run: RunLocation, job: TrainingJob, place: str) -> None:
    """Raise `AccessDeniedError` for another run that the rules of this one may not read."""
    account = job.arn.split(":")[4] if job.arn.count(":") > 4 else ""
    if not may_read(run.uri, place, account=account):
        raise AccessDeniedError(
            f"{place} is not read for {run.uri}: only runs in the same folder of the bucket are, and those in {SHARED}/"
        )


def is_end_of(job: TrainingJob, marker: bytes) -> bool:
    """Return False for the end marker of another job, which the deployment stored when that job ended."""
    text = marker.decode("utf-8", errors="replace")
    return not text.startswith("arn:") or job_of_identity(text).is_same_as(job)


class OwnEndStore:
    """The tensors of a run, without an end marker of another job: that job names this run, and did not write it."""

    def __init__(self, store: Store, job: TrainingJob) -> None:
        self._store, self._job = store, job
        self._has_ended = self._has_warned = False

    @property
    def uri(self) -> str:
        """The location of the wrapped store."""
        return self._store.uri

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        """Implement `Store.put`."""
        self._store.put(key, data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Implement `Store.get`."""
        return self._store.get(key, start=start, length=length)

    def exists(self, key: str) -> bool:
        """Implement `Store.exists`. False for the end marker of another job."""
        return self._is_ended() if key == END_MARKER_KEY else self._store.exists(key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        """Implement `Store.list`, without the end marker of another job."""
        for key in self._store.list(prefix, start_after=start_after):
            if key != END_MARKER_KEY or self._is_ended():
                yield key

    def delete(self, key: str) -> None:
        """Implement `Store.delete`."""
        self._store.delete(key)

    def _is_ended(self) -> bool:
        if self._has_ended:
            return True
        try:
            marker = self._store.get(END_MARKER_KEY, length=MOST_MARKER_BYTES)
        except KeyNotFoundError:
            return False
        self._has_ended = is_end_of(self._job, marker)
        if not self._has_ended and not self._has_warned:
            self._has_warned = True
            _logger.warning("The end marker of %s is another job's, and is ignored: %s", self.uri, marker[:300])
        return self._has_ended
