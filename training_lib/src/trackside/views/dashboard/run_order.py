"""The order of a list of runs, as an address has it: `sort=loss&order=descending`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from trackside.contracts.errors import TracksideError
from trackside.contracts.run.last_losses import LastLoss
from trackside.contracts.verdict import Severity
from trackside.runs.run_summary import RunSummary
from trackside.views.dashboard.run_list import RunList
from trackside.views.dashboard.run_time import moment_of_start, trained_seconds

ASCENDING, DESCENDING = "ascending", "descending"  # as `aria-sort` has them
# What a column is sorted by, and the order in which one wants it first.
FIRST_ORDER = {
    "run": ASCENDING,
    "worst": DESCENDING,
    "started": DESCENDING,
    "trained": DESCENDING,
    "storage": DESCENDING,
    "loss": ASCENDING,
    "evaluation": ASCENDING,
}
Key = float | str | None


@dataclass(frozen=True)
class RunOrder:
    """The order of a list of runs.

    by      one of `FIRST_ORDER`; "" for the newest first, as runs are listed
    order   `ASCENDING` or `DESCENDING`; "" without `by`
    """

    by: str = ""
    order: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> RunOrder:
        """Return the order of an address; without a column that exists, the usual one."""
        by, order = query.get("sort", ""), query.get("order", "")
        if by not in FIRST_ORDER:
            return cls()
        return cls(by, order if order in {ASCENDING, DESCENDING} else FIRST_ORDER[by])

    @property
    def query(self) -> dict[str, str]:
        """The order as an address has it."""
        return {"sort": self.by, "order": self.order}

    def chosen(self, by: str) -> RunOrder:
        """Return the order after a column's head was chosen: the other way round for the one that is sorted by."""
        if by != self.by:
            return RunOrder(by, FIRST_ORDER[by])
        return RunOrder(by, ASCENDING if self.order == DESCENDING else DESCENDING)


def in_order(runs: RunList, names: Sequence[str], order: RunOrder) -> Sequence[str]:
    """Return names of runs in an order; those without a number stand last, as they are listed.

    Args:
        runs: All runs.
        names: Those to sort, the newest first.
        order: The order. But for the usual one and that by name, each run is read.

    Errors: those of `RunList.summaries`.
    """
    if not order.by:
        return names
    keys = _keys(runs, names, order.by)
    known = [name for name in names if not _is_missing(keys.get(name))]
    ranked = sorted(known, key=lambda name: keys[name], reverse=order.order == DESCENDING)  # type: ignore[arg-type, return-value]
    return [*ranked, *(name for name in names if _is_missing(keys.get(name)))]


def _is_missing(key: Key) -> bool:
    return key is None or (isinstance(key, float) and math.isnan(key))


def _keys(runs: RunList, names: Sequence[str], by: str) -> dict[str, Key]:
    if by == "run":
        return {name: name for name in names}
    read = [one for _, one in runs.summaries(names) if not isinstance(one, TracksideError)]
    key = _KEYS[by](runs, read)
    return {run.name: key(run) for run in read}


def _by_worst(_: RunList, __: Sequence[RunSummary]) -> Callable[[RunSummary], Key]:
    """Return the rank of the gravest issue; a run that was not judged has none."""
    ranks = {severity: float(severity.rank) for severity in Severity}
    none = min(ranks.values()) - 1
    return lambda run: ranks[run.worst_severity] if run.worst_severity else none if run.judged.is_enough else None


def _by_start(runs: RunList, read: Sequence[RunSummary]) -> Callable[[RunSummary], Key]:
    storage = runs.storage(read)
    return lambda run: moment_of_start(run, storage.get(run.name))


def _by_time(runs: RunList, read: Sequence[RunSummary]) -> Callable[[RunSummary], Key]:
    storage, now = runs.storage(read), time.time()

    def seconds(run: RunSummary) -> Key:
        known = trained_seconds(run, storage.get(run.name), now=now)
        return known[0] if known else None

    return seconds


def _by_room(runs: RunList, read: Sequence[RunSummary]) -> Callable[[RunSummary], Key]:
    storage = runs.storage(read)
    return lambda run: float(storage[run.name].size_bytes) if run.name in storage else None


def _by_loss(runs: RunList, read: Sequence[RunSummary], *, which: str) -> Callable[[RunSummary], Key]:
    losses = runs.losses(read)

    def last(run: RunSummary) -> Key:
        found: LastLoss | None = getattr(losses[run.name], which, None)
        return found.last if found else None

    return last


_KEYS: Mapping[str, Callable[[RunList, Sequence[RunSummary]], Callable[[RunSummary], Key]]] = {
    "worst": _by_worst,
    "started": _by_start,
    "trained": _by_time,
    "storage": _by_room,
    "loss": partial(_by_loss, which="training"),
    "evaluation": partial(_by_loss, which="evaluation"),
}
