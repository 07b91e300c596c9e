"""How far the workers of a run are, as their watermarks say: read with as few requests as can be."""

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
    """The watermark of one worker as it was last read, and when that was by the reader's clock."""

    mark: Watermark
    tag: str
    at: float


class Watermarks:
    """The watermarks of a growing run.

    A look asks for the watermark that holds the others back, and for another only if that one has moved on: one
    conditional GET while nothing is new, however many workers there are. A worker whose watermark has not changed for
    `GONE_SECONDS` is gone, and nobody waits for it any longer; nor for one that has stored its final watermark, or is
    `MOST_STEPS_BEHIND` behind.

    `store` is rooted at the run's watermarks. `clock` counts seconds. Not to be shared between threads.
    """

    def __init__(self, store: Store, *, report: Callable[[RecordError], None], clock: Callable[[], float]) -> None:
        self._store, self._report, self._clock = store, report, clock
        self._seen: dict[str, _Seen] = {}
        self._missing_since: dict[str, float] = {}
        self._gone: set[str] = set()
        self._quiet_since = clock()
        self.through = NOTHING_YET  # all that there will ever be of this step, and of those before it, is stored

    @property
    def are_there(self) -> bool:
        """True once a watermark was found."""
        return bool(self._seen)

    @property
    def marks(self) -> Mapping[str, Watermark]:
        """The newest watermark read of each worker."""
        return {worker: seen.mark for worker, seen in self._seen.items()}

    @property
    def gone(self) -> frozenset[str]:
        """The workers that give no sign of life."""
        return frozenset(self._gone)

    @property
    def segments(self) -> Sequence[SegmentName]:
        """The newest statistics segments of all workers."""
        return [name for seen in self._seen.values() for name in seen.mark.segments]

    def should_ask_for_the_end(self) -> bool:
        """True if it is worth a request: all workers say so, or nothing was new for a while. It is taken for asked."""
        if not is_remote(self._store):
            return True
        if self._clock() - self._quiet_since >= QUIET_SECONDS:
            self._quiet_since = self._clock()
            return True
        return all(self._seen[w].mark.is_final if w in self._seen else w in self._gone for w in self._workers())

    def find(self) -> bool:
        """Look for the watermarks of all workers: one LIST. True if there is any. Errors: those of the store."""
        for worker in filter(None, map(parse_watermark_key, self._store.list())):
            self._look(worker)
        self._move_on()
        return self.are_there

    def refresh(self) -> bool:
        """Look for what is new; True if a watermark has changed. Errors: those of the store."""
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
        """The worker that the others wait for; the first one where nobody is waited for."""
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
        """Read one watermark, if it has changed. True if it has."""
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
        """An unchanged watermark is at least as old as our copy of it."""
        if since is None:
            since = self._missing_since.setdefault(worker, now)
        if now - since >= GONE_SECONDS and self._seen:
            self._gone.add(worker)
