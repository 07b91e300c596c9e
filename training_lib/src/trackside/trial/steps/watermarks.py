"""The progress of a run's workers, from their watermarks, with as few requests as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.errors import KeyNotFoundError, NotAFileError, RecordError
from trackside.contracts.run_layout import SegmentName, parse_watermark_key, watermark_key, worker_name
from trackside.records.watermark import MOST_BYTES, NOTHING_YET, Watermark, decode_watermark
from trackside.storage.store import Store, get_if_changed
from trackside.trial.parallel import is_remote

GONE_SECONDS = 60.0  # three signs of life (`capture.watermark.SIGN_OF_LIFE_SECONDS`)
# Ranks keep step with one another. One that lives, and is so far behind, does not train along with the others: its
# steps are not theirs. The original waits for as many (SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW).
MOST_STEPS_BEHIND = 1000
QUIET_SECONDS = 10.0  # without news, after which a reader asks whether the run has ended, and so often then

_FIRST = worker_name(0)


@dataclass
class _Seen:
    """The last watermark read of one worker, its tag, and the reader's time of reading."""

    mark: Watermark
    tag: str
    at: float


class Watermarks:
    """The watermarks of a growing run.

    A look reads the watermark that holds the others back, and another only if that one has advanced: one conditional
    GET while nothing is new, however many workers the run has. A worker is not waited for if its watermark has not
    changed for `GONE_SECONDS` (it is gone), if it has stored its final watermark, or if it is `MOST_STEPS_BEHIND`
    behind.

    store   rooted at the run's watermarks
    report  called with each damaged watermark
    clock   returns seconds

    Not to be shared between threads.
    """

    def __init__(self, store: Store, *, report: Callable[[RecordError], None], clock: Callable[[], float]) -> None:
        self._store, self._report, self._clock = store, report, clock
        self._seen: dict[str, _Seen] = {}
        self._missing_since: dict[str, float] = {}
        self._gone: set[str] = set()
        self._quiet_since = clock()
        self.through = NOTHING_YET  # this step and all before it are stored completely

    @property
    def were_found(self) -> bool:
        """True once a watermark was found."""
        return bool(self._seen)

    @property
    def marks(self) -> Mapping[str, Watermark]:
        """The newest watermark read of each worker."""
        return {worker: seen.mark for worker, seen in self._seen.items()}

    @property
    def gone(self) -> frozenset[str]:
        """The workers without a sign of life."""
        return frozenset(self._gone)

    @property
    def segments(self) -> Sequence[SegmentName]:
        """The newest statistics segments of all workers."""
        return [name for seen in self._seen.values() for name in seen.mark.segments]

    def is_end_marker_due(self) -> bool:
        """Return True if a request for the end marker is worth its cost, and note the time.

        It is if the watermarks of all workers are final, or if nothing was new for `QUIET_SECONDS`; always in a folder.
        """
        if not is_remote(self._store):
            return True
        if self._clock() - self._quiet_since >= QUIET_SECONDS:
            self._quiet_since = self._clock()
            return True
        return all(self._seen[w].mark.is_final if w in self._seen else w in self._gone for w in self._workers())

    def find(self) -> bool:
        """Look for the watermarks of all workers with one LIST. Return True if any exists.

        Errors: those of the store.
        """
        for worker in filter(None, map(parse_watermark_key, self._store.list())):
            self._look(worker)
        self._move_on()
        return self.were_found

    def refresh(self) -> bool:
        """Read new watermarks. Return True if one has changed. Errors: those of the store."""
        looked: set[str] = set()
        has_news = False
        while (worker := self._next_to_look_at()) not in looked:
            looked.add(worker)
            has_news |= self._look(worker)
            if not self._seen:
                return False
        if has_news:
            for worker in self._not_waited_for().difference(looked):  # a later process may have taken its place
                self._look(worker)
        self._move_on()
        return has_news

    def _workers(self) -> Sequence[str]:
        count = max((seen.mark.workers for seen in self._seen.values()), default=0)
        return [*self._seen, *(w for number in range(count) if (w := worker_name(number)) not in self._seen)]

    def _not_waited_for(self) -> set[str]:
        furthest = max(map(self._through_of, self._seen), default=NOTHING_YET)
        return {
            worker
            for worker in self._workers()
            if worker in self._gone
            or furthest - self._through_of(worker) > MOST_STEPS_BEHIND
            or (worker in self._seen and self._seen[worker].mark.is_final)
        }

    def _next_to_look_at(self) -> str:
        """Return the worker that the others wait for; the first one if nobody is waited for."""
        workers = self._workers()
        awaited = [worker for worker in workers if worker not in self._not_waited_for()]
        return min(awaited or workers[:1] or [_FIRST], key=self._through_of)

    def _through_of(self, worker: str) -> int:
        return self._seen[worker].mark.through if worker in self._seen else NOTHING_YET

    def _move_on(self) -> None:
        left_alone = self._not_waited_for()
        awaited = [self._through_of(worker) for worker in self._workers() if worker not in left_alone]
        through = min(awaited) if awaited else max(map(self._through_of, left_alone), default=NOTHING_YET)
        self.through = max(self.through, through)

    def _look(self, worker: str) -> bool:
        """Read one watermark, if it has changed. Return True if it has."""
        now, key, seen = self._clock(), watermark_key(worker), self._seen.get(worker)
        try:
            found = get_if_changed(self._store, key, tag=seen.tag if seen else "", length=MOST_BYTES + 1)
            mark = None if found is None else decode_watermark(found.data, key=key, worker=worker)
        except KeyNotFoundError as error:
            if isinstance(error, NotAFileError):
                self._report(RecordError(key, 0, str(error)))
            found = mark = None
        except RecordError as error:  # it is replaced with the next flush
            self._report(error)
            found = mark = None
        if found is None or mark is None:
            self._note_silence(worker, now, since=seen.at if seen else None)
            return False
        self._seen[worker] = _Seen(mark, found.tag, now)
        self._gone.discard(worker)
        self._quiet_since = now
        return True

    def _note_silence(self, worker: str, now: float, *, since: float | None) -> None:
        """Count a worker as gone after `GONE_SECONDS` without a new watermark.

        An unchanged watermark is at least as old as our copy of it.
        """
        if since is None:
            since = self._missing_since.setdefault(worker, now)
        if now - since >= GONE_SECONDS and self._seen:
            self._gone.add(worker)
