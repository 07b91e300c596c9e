"""The runs that a dashboard shows: what lies right below one folder or prefix, and nothing else."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.errors import RunNotFoundError, TracksideError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.last_losses import LastLosses
from trackside.contracts.verdict import Severity
from trackside.runs.first_failure import FirstFailure
from trackside.runs.judged_part import CLEAN, NOT_JUDGED, worst_word
from trackside.runs.read_losses import read_losses
from trackside.runs.recorded_run import state_of
from trackside.runs.run_folder import RunState, read_record, started_at
from trackside.runs.run_listing import runs_in, stores_in
from trackside.runs.run_stamp import Stamp, summary_stamp
from trackside.runs.run_storage import RunStorage, run_storage
from trackside.runs.run_summary import RunSummary, summarize
from trackside.trial.parallel import in_parallel

LISTED_SECONDS = 2.0  # a listing is as old as this at most; in S3 as `REMOTE_SECONDS`
REMOTE_SECONDS = 15.0
# Age of the room that a run takes and of its loss, while it grows and after its end.
GROWING_SECONDS, ENDED_SECONDS = 30.0, 900.0

WORST = (*(severity.value for severity in sorted(Severity, key=lambda one: -one.rank)), CLEAN, NOT_JUDGED)
GROWS = frozenset({RunState.RUNNING, RunState.OPEN, RunState.LOST})  # lost: perhaps not started by `trackside run`
FoundLosses = LastLosses | TracksideError
STATES = tuple(state.value for state in RunState)


@dataclass(frozen=True)
class RunFilter:
    """The runs to list; "" in a field chooses all.

    name   text that the name holds, in any case
    state  one of `STATES`
    worst  one of `WORST`: the gravest issue that stands
    rule   name, id or code of a rule with an issue, standing or recovered
    alike  what went wrong first, as `alike_word` has it
    """

    name: str = ""
    state: str = ""
    worst: str = ""
    rule: str = ""
    alike: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> RunFilter:
        """Return the filter of an address; a state or a severity that does not exist chooses all."""
        state, worst = query.get("state", ""), query.get("worst", "")
        return cls(
            query.get("q", ""),
            state if state in STATES else "",
            worst if worst in WORST else "",
            query.get("rule", "").strip(),
            query.get("alike", ""),
        )

    @property
    def query(self) -> dict[str, str]:
        """The filter as an address has it."""
        return {"q": self.name, "state": self.state, "worst": self.worst, "rule": self.rule, "alike": self.alike}

    @property
    def reads_runs(self) -> bool:
        """True if names alone do not decide."""
        return bool(self.state or self.worst or self.rule or self.alike)

    def chooses(self, run: RunSummary) -> bool:
        """Return True for a run of this state, with this gravest issue, on which this rule fired."""
        return (
            self.state in {"", run.state.value}
            and self.worst in {"", worst_word(run.worst_severity, run.judged)}
            and (not self.rule or built_in_catalogue().id_of(self.rule) in run.fired)
            and self.alike in {"", alike_word(run.first)}
        )


def alike_word(first: FirstFailure | None) -> str:
    """Return what runs that failed alike share, as an address has it; "-" for a run that did not fail."""
    return " ".join(first.kind) if first else "-"


@dataclass(frozen=True)
class AlikeRuns:
    """Runs that failed alike.

    first   what went wrong first, in that of them in which it began earliest
    runs    names of the runs, the newest first
    """

    first: FirstFailure
    runs: tuple[str, ...]


def failed_alike(read: Sequence[tuple[str, RunSummary]]) -> tuple[AlikeRuns, ...]:
    """Return the runs that failed, each kind of failure once, the most frequent first, then by its words.

    Args:
        read: Names and summaries, the newest first.
    """
    kinds: dict[tuple[str, str, str], list[tuple[str, FirstFailure]]] = {}
    for name, run in read:
        if run.first is not None:
            kinds.setdefault(run.first.kind, []).append((name, run.first))
    found = [
        AlikeRuns(min((first for _, first in some), key=_since), tuple(name for name, _ in some))
        for some in kinds.values()
    ]
    return tuple(sorted(found, key=lambda one: (-len(one.runs), one.first.kind)))


def _since(first: FirstFailure) -> int:
    return first.since_step


def name_of(uri: str) -> str:
    """Return the name of the run at a location."""
    return uri.rstrip("/").rpartition("/")[2]


class RunList:
    """Lists runs, and finds one by its name. Safe for several threads.

    Args:
        where: A folder that holds runs, or `s3://bucket/prefix`; None: the runs of `trackside run`.
        clock: Returns seconds that only grow.
    """

    def __init__(self, where: str | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.where = where
        self.is_remote = where is not None and "://" in where
        self.stores = stores_in(where)
        self._clock = clock
        self._lock = threading.Lock()
        self._places: dict[str, str] = {}
        self._starts: dict[str, tuple[int, float]] = {}  # by location: number of the folder, start
        self._read_at: float | None = None
        self._summaries: dict[str, tuple[float, RunSummary | TracksideError]] = {}
        self._stamped: dict[str, tuple[Stamp, RunSummary]] = {}  # by location, of runs of this machine
        self._storage: dict[str, tuple[float, RunStorage | None]] = {}
        self._losses: dict[str, tuple[float, RunSummary, FoundLosses]] = {}

    @property
    def age_seconds(self) -> float:
        """The age from which on something is read again."""
        return REMOTE_SECONDS if self.is_remote else LISTED_SECONDS

    def names(self) -> tuple[str, ...]:
        """Return the names of the runs, the newest first; in S3 by name, the last one first.

        Without a record the start of a run is taken from its folder.

        Errors: those of `runs_in`.
        """
        with self._lock:
            now = self._clock()
            if self._read_at is None or now - self._read_at >= self.age_seconds:
                found = sorted(runs_in(self.where), key=self._moment, reverse=True)
                self._places = {name_of(uri): uri for uri in found}
                self._read_at = now
            return tuple(self._places)

    def _moment(self, uri: str) -> tuple[float, str]:
        """Return the start and the name of a run. The start of a run with a record is read once for each folder."""
        try:
            folder = 0 if self.is_remote else os.stat(uri).st_ino
        except OSError:  # it was removed since it was listed
            folder = 0
        if not folder:
            return 0.0, name_of(uri)
        known = self._starts.get(uri)
        if known is None or known[0] != folder:
            record = read_record(Path(uri))
            if record is None:
                return started_at(Path(uri)), name_of(uri)
            known = self._starts[uri] = folder, record.started_at
        return known[1], name_of(uri)

    def place(self, name: str) -> str:
        """Return the location of a run.

        A name is looked up among those that were listed, so that no text from a browser becomes a path.

        Errors: `RunNotFoundError`, and those of `names`.
        """
        if name not in self.names():
            raise RunNotFoundError(f"There is no run {name!r} here.")
        return self._places[name]

    def summaries(self, names: Sequence[str]) -> list[tuple[str, RunSummary | TracksideError]]:
        """Return each of these runs with its summary, or why it has none; a prefix in S3 without a run is left out."""
        places = {name: self.place(name) for name in names}
        now = self._clock()
        old = [name for name in names if now - self._summaries.get(name, (-1e9, None))[0] >= self.age_seconds]
        if old:
            found = in_parallel(self.stores(places[old[0]]), lambda name: self._summary(places[name]), old)
            self._summaries.update({name: (now, one) for name, one in zip(old, found, strict=True)})
        shown = ((name, self._summaries[name][1]) for name in names)
        return [(name, one) for name, one in shown if not isinstance(one, RunNotFoundError)]

    def storage(self, runs: Sequence[RunSummary]) -> dict[str, RunStorage]:
        """Return the room that each of these runs takes, by its name. A store that lists keys alone has none."""
        now = self._clock()
        old = [run for run in runs if now >= self._storage.get(run.name, (-1e9, None))[0]]
        if old:
            found = in_parallel(self.stores(old[0].uri), lambda run: self._stored(run.uri), old)
            for run, one in zip(old, found, strict=True):
                self._storage[run.name] = now + (GROWING_SECONDS if run.state in GROWS else ENDED_SECONDS), one
        return {run.name: one for run in runs if (one := self._storage[run.name][1]) is not None}

    def losses(self, runs: Sequence[RunSummary]) -> dict[str, FoundLosses]:
        """Return the losses of each of these runs, by its name: those that are stored with it, else read.

        They are read again where the summary is another one, and while the run grows.
        """
        now = self._clock()
        stored = {run.name: losses for run in runs if (losses := run.judged.learning.losses) is not None}
        old = [run for run in runs if run.name not in stored and self._has_old_losses(run, now)]
        if old:
            found = in_parallel(self.stores(old[0].uri), lambda run: read_losses(run.uri), old)
            self._losses.update({run.name: (now, run, one) for run, one in zip(old, found, strict=True)})
        return {run.name: stored.get(run.name) or self._losses[run.name][2] for run in runs}

    def _has_old_losses(self, run: RunSummary, now: float) -> bool:
        read_at, before, _ = self._losses.get(run.name, (0.0, None, None))
        return run != before if run.state not in GROWS else before is None or now - read_at >= GROWING_SECONDS

    def _stored(self, uri: str) -> RunStorage | None:
        try:
            return run_storage(self.stores(uri))
        except TracksideError:
            return None

    def _summary(self, uri: str) -> RunSummary | TracksideError:
        """Return the summary of a run; of one in a folder that has not changed, the one that is known."""
        stamp = None if self.is_remote else summary_stamp(Path(uri), now=time.time())
        known, summary = self._stamped.get(uri, (None, None))
        if summary is not None and stamp == known and summary.state is state_of(uri, has_ended=False)[0]:
            return summary
        try:
            found = summarize(uri, stores=self.stores)
        except TracksideError as error:
            return error
        if stamp is not None:
            self._stamped[uri] = stamp, found
        return found
