"""A sink that keeps what a rescue needs of loss spikes: `rule-output/skip_batches.json` and `rule-output/rescue.json`.

The first is a list of numbers, in the form of the file that SpikeDetection of Lightning writes. Numbers are added to
those that the file has, so that a run that was resumed, and spikes again, keeps the batches of before. The second has
an entry for each spike: its steps, its pass over the data, its batches, and the seed of the order of that pass. Once a
spike has ended, all of its batches are listed in both: up to the last one with a loss of a tenth of the largest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from trackside.contracts.errors import KeyNotFoundError, StorageError
from trackside.contracts.run.recorded_names import BATCH_NUMBER, EPOCH
from trackside.contracts.run_layout import RESCUE_KEY, SKIP_LIST_KEY, RunLocation
from trackside.contracts.verdict import Finding, Outcome, Severity, State, Verdict
from trackside.evaluation.sinks.sink import UndeliveredError
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import Trial

FIRST, LAST = "first_batch", "last_batch"  # statistics of a finding
MOST_BATCHES = 1000  # of one finding: a longer spike is no matter of its batches
MOST_BYTES = 16 << 20


Entry = dict[str, Any]


class SkipListSink:
    """Adds the batches that findings name to the run's skip list, and keeps an entry of each spike.

    Args:
        store: Rooted at the run's `rule-output`.
        run: The run, to read the batches of a spike that has ended; None: those that its finding names are all.
    """

    name = "skip-list"

    def __init__(self, store: Store, *, run: RunLocation | None = None) -> None:
        self._store, self._run = store, run

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Add the batches of new issues and of issues that recovered.

        Errors: `UndeliveredError`; then the verdicts are to be sent again, which changes nothing that was added.
        """
        concerned = [v for v in verdicts if batches_of(v) or v.state is State.RECOVERED]
        if not concerned:
            return
        try:
            entries = self._entries()
            before = json.dumps(entries)
            for verdict in concerned:
                self._note(verdict, entries)
            named = {n for e in entries for n in range(e[FIRST], e[LAST] + 1)}
            known = {number for number in self._read(SKIP_LIST_KEY) if type(number) is int}
            if not named <= known:
                self._store.put(SKIP_LIST_KEY, json.dumps(sorted(known | named), indent=4).encode())
            if json.dumps(entries) != before:
                self._store.put(RESCUE_KEY, json.dumps(entries, indent=4).encode())
        except StorageError as error:
            raise UndeliveredError(str(error), verdicts) from error

    def _note(self, verdict: Verdict, entries: list[Entry]) -> None:
        """Add the entry of a new issue, or end that of an issue that recovered."""
        batches, lead = batches_of(verdict), verdict.lead
        if batches and lead is not None:
            entry = _entry(verdict, lead, batches)
            same = [e for e in entries if all(e[key] == entry[key] for key in ("rule", "since_step", FIRST))]
            if same:  # delivered again, or graver
                same[0][LAST] = max(same[0][LAST], entry[LAST])
            else:
                entries.append(entry)
            return
        if verdict.outcome is not Outcome.CLEAN:
            return
        open_ones = [e for e in entries if e["rule"] == verdict.configuration_name and e["recovered_step"] is None]
        for entry in open_ones:
            entry["recovered_step"] = verdict.step
            entry[LAST] = max(entry[LAST], self._last_batch(entry, verdict.step))

    def _last_batch(self, entry: Entry, step: int) -> int:
        """Return the last batch of a spike that ended by a step, of the pass in which it began; -1 if unknown.

        It is the last one with a loss of a tenth of the largest: what follows is the way back.
        """
        if self._run is None:
            return -1
        trial = Trial(open_store(self._run.tensors), open_store(self._run.statistics))
        trial.refresh()
        names = (BATCH_NUMBER, EPOCH, entry["loss"])
        columns = [
            next(
                (c for c in trial.columns(n, "mean", last_step=step, mode="TRAIN") if c.worker == entry["worker"]), None
            )
            for n in names
        ]
        if None in columns:
            return -1
        numbers, epochs, losses = (dict(zip(c.steps.tolist(), c.values.tolist(), strict=True)) for c in columns if c)
        spike = {at: loss for at, loss in losses.items() if at >= entry["since_step"]}
        limit = max(spike.values(), default=math.inf) / 10
        if not math.isfinite(limit):
            return -1
        of_pass = [at for at, loss in spike.items() if loss >= limit and epochs.get(at) == entry["epoch"]]
        last = int(max((numbers[at] for at in of_pass if at in numbers), default=-1))
        return last if last - entry[FIRST] < MOST_BATCHES else -1

    def _entries(self) -> list[Entry]:
        listed = self._read(RESCUE_KEY)
        return [e for e in listed if isinstance(e, dict) and {"rule", "loss", "since_step", FIRST, LAST} <= e.keys()]

    def _read(self, key: str) -> list[Any]:
        try:
            listed = json.loads(self._store.get(key, length=MOST_BYTES))
        except KeyNotFoundError:
            return []
        except ValueError:  # cut off, or written by hand: begun anew
            return []
        return listed if isinstance(listed, list) else []


def _entry(verdict: Verdict, lead: Finding, batches: range) -> Entry:
    numbers = lead.statistics
    seed = None
    if {"order_seed_high", "order_seed_low"} <= numbers.keys():
        seed = (int(numbers["order_seed_high"]) << 32) + int(numbers["order_seed_low"])
    return {
        "rule": verdict.configuration_name,
        "worker": lead.worker,
        "loss": lead.subject,
        "since_step": lead.since_step,
        "recovered_step": None,
        "epoch": int(numbers.get("epoch", 0)),
        FIRST: batches[0],
        LAST: batches[-1],
        "order_seed": seed,
        "seed_is_of_first_pass": bool(numbers.get("order_seed_is_first", 0)) if seed is not None else None,
    }


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
