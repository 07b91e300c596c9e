"""The packed index of a worker, written beside smdebug's, so that a run opens with a handful of requests.

It only saves time, so failures are silent: a failed store is tried again later, and readers find everything in
smdebug's index meanwhile. It adds one PUT to every 16 saved steps; at most one a second where steps share event files,
which is only done where a file costs little to read.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable

from trackside.capture.steps.step_tensors import StepTensors
from trackside.contracts.run_layout import INDEX_PREFIX, event_key, packed_index_key, parse_index_key
from trackside.records.packed_index import NOTHING_BEFORE, PackedFile, PackedLayout
from trackside.records.step_file import StepFiles
from trackside.storage.store import Store

STORE_EVERY_STEPS = 16
STORE_EVERY_SECONDS = 1.0  # the whole file is stored each time: of quick steps that would be half of the writer's work
MOST_STEPS = 8192  # in one file
MOST_BYTES = 1 << 20  # the same, for runs of which every step lies differently: the whole file is stored each time
MOST_SHARED_BYTES = 1 << 17  # the same where steps share event files, which is only done where a file costs little
KEYS_LOOKED_AT = 1000  # one page of S3


class PackedIndexWriter:
    """The packed index of one worker, as this process continues it.

    Call `before_step` and `after_step` around the storing of each step, `step_failed` after a failure, and `finish` at
    the end, all on one thread. Nothing here raises.

    The promise to readers: the consecutive files of a worker, back to one without a predecessor, list every step that
    the worker has saved up to the last row. A process that cannot promise it (an earlier one has saved steps, or a
    failed step may have been stored) records that before it saves anything.
    """

    def __init__(self, worker: str, *, clock: Callable[[], float] = time.time) -> None:
        self._worker = worker
        self._clock = clock
        self._started_ms = -1
        self._follows: str | None = None
        self._has_begun = False
        self._is_sure = True
        self._last_step = -1
        self._key = ""
        self._file: PackedFile | None = None
        self._layouts: dict[bytes, PackedLayout] = {}
        self._stored_rows = 0
        self._tried_rows = 0
        self._tried_at = -math.inf
        self._most_bytes = MOST_BYTES
        self._is_off = False

    def needs_no_look(self, step: int) -> bool:
        """Return True if `before_step` has nothing to do for this step and those after it."""
        # A step that is saved again looks like one that an earlier process saved.
        return self._is_off or (self._has_begun and self._is_sure and step > self._last_step)

    def before_step(self, store: Store, step: int) -> None:
        """Check, before the first step, for steps that an earlier process saved."""
        if self.needs_no_look(step):
            return
        is_first = not self._has_begun and self._is_first(store)
        self._has_begun = self._is_sure = True
        self._started_ms = max(int(self._clock() * 1000), self._started_ms + 1)
        self._follows = NOTHING_BEFORE if is_first else None
        self._begin_file(step)
        if not is_first:
            self._store(store)

    def after_step(self, store: Store, step: StepTensors, files: StepFiles) -> None:
        """Add a step that has been stored."""
        if self._is_off or not files.index_bytes:
            return
        self._last_step = step.step
        file = self._file or self._begin_file(step.step)
        try:
            file.add(step.step, mode=step.mode, mode_step=step.mode_step, layout=self._layout(step.step, files))
        except ValueError:  # more than such a file can hold: it ends here, and readers find the rest in smdebug's index
            self._is_off, self._file = True, None
            return
        shares = files.event_start > 0  # an event file with other steps
        self._most_bytes = MOST_SHARED_BYTES if shares else MOST_BYTES
        is_time = not shares or self._is_time() or self._is_full(file)
        if file.row_count >= self._tried_rows + STORE_EVERY_STEPS and is_time:
            self._store(store)

    def step_failed(self) -> None:
        """Note that storing a step failed. On S3 the step may have arrived all the same."""
        self._is_sure = False

    def finish(self, store: Store) -> None:
        """Store the rows that are not stored yet."""
        if self._file is not None and self._file.row_count > self._stored_rows:
            self._store(store)

    def _is_time(self) -> bool:
        return not 0 <= self._clock() - self._tried_at < STORE_EVERY_SECONDS  # also after the clock was put back

    def _is_full(self, file: PackedFile) -> bool:
        return file.row_count >= MOST_STEPS or file.size_bytes >= self._most_bytes

    def _is_first(self, store: Store) -> bool:
        """Return True if this worker has certainly saved nothing yet."""
        with contextlib.suppress(OSError):
            keys = list(itertools.islice(store.list(INDEX_PREFIX), KEYS_LOOKED_AT))
            own = [key for key in keys if (found := parse_index_key(key)) and found[1] == self._worker]
            return len(keys) < KEYS_LOOKED_AT and not own
        return False

    def _begin_file(self, first_step: int) -> PackedFile:
        self._key = packed_index_key(self._worker, started_ms=self._started_ms, first_step=first_step)
        self._file = PackedFile(self._worker, follows=self._follows)
        self._layouts = {}
        self._stored_rows = self._tried_rows = 0
        return self._file

    def _layout(self, step: int, files: StepFiles) -> PackedLayout:
        index = files.index
        if index.event_key not in {None, event_key(step, self._worker)}:
            return PackedLayout(index.entries, index.shapes, index.event_key)
        # From here on the index has the same bytes for all steps with the same layout of tensors.
        where = files.index_bytes[files.index_bytes.find(b'"tensor_payload"') :]
        layout = self._layouts.get(where)
        if layout is None:
            layout = PackedLayout(index.entries, index.shapes, None if index.event_key else "")
            self._layouts[where] = layout
        return layout

    def _store(self, store: Store) -> None:
        file = self._file
        if file is None:
            return
        self._tried_rows, self._tried_at = file.row_count, self._clock()
        try:
            store.put(self._key, file.encode())
        except OSError:  # the run is whole without it; the next store brings all of it again
            return
        self._stored_rows = file.row_count
        if self._is_full(file):
            self._follows, self._file = self._key, None
