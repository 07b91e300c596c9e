"""A sink that keeps the batches of loss spikes in the run: `rule-output/skip_batches.json`, numbers in a list.

The form is that of the file that SpikeDetection of Lightning writes. Numbers are added to those that the file has, so
that a run that was resumed, and spikes again, keeps the batches of before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from trackside.contracts.errors import KeyNotFoundError, StorageError
from trackside.contracts.run_layout import SKIP_LIST_KEY
from trackside.contracts.verdict import Outcome, Severity, Verdict
from trackside.evaluation.sinks.sink import UndeliveredError
from trackside.storage.store import Store

FIRST, LAST = "first_batch", "last_batch"  # statistics of a finding
MOST_BATCHES = 1000  # of one finding: a longer spike is no matter of its batches
MOST_BYTES = 16 << 20


class SkipListSink:
    """Adds the batches that findings name to the run's skip list. `store` is rooted at the run's `rule-output`."""

    name = "skip-list"

    def __init__(self, store: Store) -> None:
        self._store = store

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Add the batches of new issues. Errors: `UndeliveredError`; then the file is unchanged."""
        named = {number for verdict in verdicts for number in batches_of(verdict)}
        if not named:
            return
        try:
            known = self._read()
            if not named <= known:
                listed = json.dumps(sorted(known | named), indent=4)
                self._store.put(SKIP_LIST_KEY, listed.encode())
        except StorageError as error:
            raise UndeliveredError(str(error), verdicts) from error

    def _read(self) -> set[int]:
        try:
            listed = json.loads(self._store.get(SKIP_LIST_KEY, length=MOST_BYTES))
        except KeyNotFoundError:
            return set()
        except ValueError:  # cut off, or written by hand: begun anew
            return set()
        return {number for number in listed if type(number) is int} if isinstance(listed, list) else set()


def batches_of(verdict: Verdict) -> range:
    """Return the numbers of the batches that an issue's first finding names; none for a remark.

    Args:
        verdict: Any verdict.
    """
    lead = verdict.lead
    if verdict.outcome is not Outcome.ISSUE_FOUND or verdict.severity is Severity.INFO or lead is None:
        return range(0)
    if not {FIRST, LAST} <= lead.statistics.keys():
        return range(0)
    first, last = int(lead.statistics[FIRST]), int(lead.statistics[LAST])
    return range(first, last + 1) if 0 <= last - first < MOST_BATCHES else range(0)
