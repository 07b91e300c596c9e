"""How long runs trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trackside.runs.run_folder import RunState
from trackside.runs.run_storage import RunStorage
from trackside.runs.run_summary import RunSummary


@dataclass(frozen=True)
class Hours:
    """Time that runs trained, in seconds: all of it, that of failed runs, and that after their failure was found.

    runs   number of the runs of which it is known
    """

    runs: int
    all: float
    failed: float
    after: float


def trained_seconds(run: RunSummary, stored: RunStorage | None, *, now: float) -> tuple[float, float] | None:
    """Return how long a run trained, and how long after its first critical issue was found; None if it is not known.

    Without a record of `trackside run` the start is that of its statistics, the end the moment at which it was stored.

    Args:
        run: The run.
        stored: What a listing shows of it; None without one.
        now: Seconds since the epoch.
    """
    begin = moment_of_start(run, stored)
    end = run.ended_at if run.ended_at is not None or stored is None else stored.ended_at
    if end is None and run.state is RunState.RUNNING:
        end = now
    if begin is None or end is None or end < begin:
        return None
    found = end if run.failed_at is None else min(end, max(begin, run.failed_at))
    return end - begin, end - found


def hours_of(runs: Sequence[RunSummary], storage: Mapping[str, RunStorage], *, now: float) -> Hours:
    """Return how long runs trained, of those with a known start and end.

    Args:
        runs: The runs.
        storage: What a listing shows of them, by their names; not of all.
        now: Seconds since the epoch.
    """
    known = [(run, both) for run in runs if (both := trained_seconds(run, storage.get(run.name), now=now)) is not None]
    return Hours(
        len(known),
        sum(seconds for _, (seconds, _) in known),
        sum(seconds for run, (seconds, _) in known if run.failed_at is not None),
        sum(after for _, (_, after) in known),
    )


def moment_of_start(run: RunSummary, stored: RunStorage | None) -> float | None:
    """Return when a run started, in seconds since the epoch: as recorded, or as a listing shows it."""
    return run.started_at if run.started_at is not None or stored is None else stored.started_at
