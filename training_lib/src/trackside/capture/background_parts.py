"""Tasks of the writer's thread between steps: logs and watermarks that are flushed now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trackside.capture.guard import Guard, describe
from trackside.capture.writer_parts import BackgroundPart


class BackgroundParts:
    """The background parts of one writer. One that is broken is dropped without the others and the steps.

    Attributes:
        processor_seconds: Processor time that they have taken so far.
    """

    def __init__(self, parts: Sequence[BackgroundPart], *, guard: Guard) -> None:
        self._parts = tuple(parts)
        self._guard = guard
        self.processor_seconds = 0.0

    def __bool__(self) -> bool:
        """False if no part is left."""
        return bool(self._parts)

    def due_in_seconds(self) -> float | None:
        """Return the time until the first part is due; None without any part."""
        return min((part.due_in_seconds for part in self._parts), default=None)

    def flush_if_due(self, *, is_outage_known: bool) -> None:
        """Flush the parts that are due. With `is_outage_known`, a failure of the store is logged already."""
        self._tend(lambda part: part.flush_if_due(), is_outage_known)

    def flush(self, *, is_outage_known: bool) -> None:
        """Flush all parts. `is_outage_known`: as for `flush_if_due`."""
        self._tend(lambda part: part.flush(), is_outage_known)

    def close(self, *, is_outage_known: bool) -> None:
        """Close all parts. `is_outage_known`: as for `flush_if_due`."""
        self._tend(lambda part: part.close(), is_outage_known)

    def _tend(self, tend: Callable[[BackgroundPart], object], is_outage_known: bool) -> None:
        """Run each background part.

        One that cannot store tries again; one that fails otherwise is dropped without the steps.
        """
        started = time.thread_time()
        for part in self._parts:
            try:
                tend(part)
            except OSError as error:
                if is_outage_known:  # the outage of the steps, which is logged
                    continue
                message = "%s cannot store its data: %s. Training goes on; it is tried again now and then."
                # Not in the class of the steps' failures: a lost step is logged all the same.
                self._guard.warn_once(
                    f"background/{type(error).__name__}", message, type(part).__name__, describe(error)
                )
            except Exception as error:  # noqa: BLE001 - what is broken is switched off, and nothing else
                self._parts = tuple(other for other in self._parts if other is not part)
                self._guard.warn_once("background", "%s is switched off: %s.", type(part).__name__, describe(error))
        self.processor_seconds += time.thread_time() - started
