"""Checks of a run: its end, its packed index, and its damaged files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from trackside.cli.health.capture_pace import pace_of
from trackside.cli.health.installation import Check, State
from trackside.contracts.errors import KeyNotFoundError, RecordError, StorageError, TracksideError
from trackside.contracts.run_layout import EVENTS_PREFIX, PACKED_INDEX_PREFIX, parse_event_key, parse_packed_index_key
from trackside.records.step_file import fetch_records
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import Trial

MOST_NAMED = 5


def check_run(
    run: str, *, open_run: Callable[[str], Trial], read: Callable[[Sequence[str]], Iterable[str]] | None = None
) -> tuple[Check, ...]:
    """Return every check of the run that `open_run` finds.

    With `read`, which yields the keys of its event files, each of these is read to its end. Without, only damage found
    on opening the run is reported.
    """
    try:
        trial = open_run(run)
    except TracksideError as error:
        return (Check("run", State.PROBLEM, str(error), "Name a run: `trackside runs` lists those of this folder."),)
    steps = trial.steps()
    span = f"{len(steps)} steps, {steps[0]} to {steps[-1]}" if steps else "no complete step"
    workers = len(trial.workers)
    found = f"{trial.uri}: {span}, of {workers} worker{'' if workers == 1 else 's'}"
    store = open_store(trial.uri)
    return (
        Check("run", State.OK, found),
        _end(trial),
        _packed_index(store),
        Check("always-on statistics", State.OK, pace_of(trial)),
        _lost(trial),
        _damage(trial, store, read),
    )


def _end(trial: Trial) -> Check:
    if trial.has_ended:
        return Check("end", State.OK, "ended: the end marker is there")
    fix = "If its training runs no more, it was killed: what is there stays readable."
    return Check("end", State.NOTE, "no end marker: it is running, or was cut off", fix)


def _packed_index(store: Store) -> Check:
    named = (parse_packed_index_key(key) for key in store.list(PACKED_INDEX_PREFIX))
    files = [found for found in named if found]
    if not files:
        return Check("packed index", State.OK, "none: every index file is read when the run is opened")
    workers = len({worker for worker, _, _ in files})
    return Check("packed index", State.OK, f"{len(files)} file(s) of {workers} worker(s)")


def _lost(trial: Trial) -> Check:
    reports = trial.lost_steps()
    if not reports:
        return Check("lost steps", State.OK, "none: capture has saved all requested data")
    count = sum(report.lost_steps for report in reports.values())
    total = count + sum(report.saved_steps for report in reports.values())
    reasons = Counter(lost.why for report in reports.values() for lost in report.lost)
    why = "; ".join(reason for reason, _ in reasons.most_common(MOST_NAMED))
    workers = ", ".join(sorted(reports)[:MOST_NAMED])
    more = f" and {len(reports) - MOST_NAMED} more" if len(reports) > MOST_NAMED else ""
    found = f"{count} of {total} could not be saved, by {workers}{more}: {why}"
    return Check("lost steps", State.PROBLEM, found, "Save less often, or reductions instead of tensors; or mend that.")


def _damage(trial: Trial, store: Store, read: Callable[[Sequence[str]], Iterable[str]] | None) -> Check:
    damaged = {error.key: error for error in trial.damaged}
    looked = "among the files that opening it reads"
    if read is not None:
        keys = sorted(key for key in store.list(EVENTS_PREFIX) if parse_event_key(key))
        damaged |= {error.key: error for error in _damaged_files(store, read(keys))}
        looked = f"among all its files, {len(keys)} event files included"
    if not damaged:
        return Check("damaged files", State.OK, f"none {looked}")
    named = "; ".join(str(error) for error in list(damaged.values())[:MOST_NAMED])
    more = f"; and {len(damaged) - MOST_NAMED} more" if len(damaged) > MOST_NAMED else ""
    fix = "The rest of the run stays readable. Look whether the disk was full while it was written."
    return Check("damaged files", State.PROBLEM, f"{len(damaged)} {looked}: {named}{more}", fix)


def _damaged_files(store: Store, keys: Iterable[str]) -> Iterator[RecordError]:
    for key in keys:
        try:
            for _ in fetch_records(store, key):
                pass
        except RecordError as error:
            yield error
        except KeyNotFoundError:
            continue  # gone since it was listed
        except StorageError as error:
            yield RecordError(key, 0, f"cannot be read: {error}")
