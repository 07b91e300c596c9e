"""A run in memory for tests of rules: real records in a real store, read by the real trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.run_layout import END_MARKER_KEY, collections_key, model_facts_key, watermark_key
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.model_facts import encode_facts
from trackside.records.step_file import encode_step, write_step
from trackside.records.watermark import Watermark, encode_watermark
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.trial.steps.membership import DEFAULT_REGEXES
from trackside.trial.trial import Trial

WALL_TIME = 1_700_000_000.0


def fake_trial(
    tensors: Mapping[str, Mapping[int, Any]],
    *,
    modes: Mapping[int, str] | None = None,
    worker: str = "worker_0",
    collections: Mapping[str, Iterable[str]] | None = None,
    ended: bool = True,
    facts: ModelFacts | Sequence[ModelFacts] | None = None,
) -> Trial:
    """Return a run of one worker with these tensors, refreshed once.

    Args:
        tensors: Values by name and step, arrays or numbers: `{"gradient/Net_fc1.weight": {0: array, 10: array}}`.
        modes: Mode of each step that is not TRAIN.
        worker: Name of the worker.
        collections: Regexes of further collections, beside losses, weights, biases and gradients.
        ended: True for a run with an end marker.
        facts: Model facts, or their revisions, oldest first.
    """
    store = MemoryStore()
    write_facts(store, facts, worker=worker)
    write_collections(store, extra=collections or {}, workers=(worker,))
    for step in sorted({step for series in tensors.values() for step in series}):
        values = {name: series[step] for name, series in tensors.items() if step in series}
        write_tensors(store, step, values, mode=(modes or {}).get(step, "TRAIN"), worker=worker)
    if ended:
        end_run(store)
    trial = Trial(store)
    trial.refresh()
    return trial


def write_tensors(
    store: Store, step: int, tensors: Mapping[str, Any], *, mode: str = "TRAIN", worker: str = "worker_0"
) -> None:
    """Save one step of one worker, as capture does.

    Args:
        store: Store rooted at a run's `debug-output`.
        step: Number of the step.
        tensors: Values by name, arrays or numbers.
        mode: Mode of the step.
        worker: Name of the worker.
    """
    pairs = [(name, np.atleast_1d(np.asarray(value))) for name, value in tensors.items()]
    write_step(store, encode_step(pairs, step=step, mode=mode, mode_step=step, worker=worker, wall_time=WALL_TIME))


def write_collections(
    store: Store, *, extra: Mapping[str, Iterable[str]] | None = None, workers: Iterable[str] = ("worker_0",)
) -> None:
    """Write the collections file of each worker, as capture does with its first step.

    Args:
        store: Store rooted at a run's `debug-output`.
        extra: Regexes of further collections, beside the usual ones.
        workers: Names of the workers.
    """
    names = tuple(workers)
    regexes = {**DEFAULT_REGEXES, **{name: tuple(texts) for name, texts in (extra or {}).items()}}
    records = [CollectionRecord(name, include_regex=tuple(texts)) for name, texts in regexes.items()]
    content = encode_collections(records, num_workers=len(names))
    for worker in names:
        store.put(collections_key(worker), content)


def write_facts(store: Store, facts: ModelFacts | Sequence[ModelFacts] | None, *, worker: str = "worker_0") -> None:
    """Write the model facts of a worker, as capture does with its first step.

    Args:
        store: Store rooted at a run's `debug-output`.
        facts: Model facts, or their revisions, oldest first; None writes nothing.
        worker: Name of the worker.
    """
    revisions = [facts] if isinstance(facts, ModelFacts) else facts
    if revisions:
        store.put(model_facts_key(worker), encode_facts(revisions))


def write_statistics(
    store: Store, recorded: Mapping[str, Mapping[str, Mapping[int, Any]]], *, mode: str = "TRAIN"
) -> None:
    """Write always-on statistics, as capture does.

    Args:
        store: Store rooted at a run's `statistics`.
        recorded: Numbers by tensor, statistic and step: `{"Net_fc.weight": {"l2": {0: 1.0, 10: 1.1}}}`. A mapping in
            place of a number holds one number per worker; a plain number is of `worker_0`.
        mode: Mode of all steps.
    """
    rows: dict[str, dict[int, dict[tuple[str, str], float]]] = {}
    for tensor, statistics in recorded.items():
        for statistic, values in statistics.items():
            for step, value in values.items():
                for worker, number in (value if isinstance(value, Mapping) else {"worker_0": value}).items():
                    rows.setdefault(worker, {}).setdefault(step, {})[tensor, statistic] = float(number)
    for worker, by_step in rows.items():
        # Logs of one worker are told apart by when they began.
        log = StatisticsLog(store, worker=worker, started_ms=int(WALL_TIME * 1000) + sum(map(ord, mode)))
        for step, row in sorted(by_step.items()):
            log.record(row, step=step, mode=mode, mode_step=step, wall_time=WALL_TIME + step)
        log.flush()


def write_watermark(store: Store, mark: Watermark) -> None:
    """Replace the watermark of a worker, as capture does with each flush.

    A reader looks only for differences from the watermark before: `saved_steps`, `collections`, `model_facts`.

    Args:
        store: Store rooted at a run's `watermarks`.
        mark: The watermark; it names its worker.
    """
    store.put(watermark_key(mark.worker), encode_watermark(mark))


def end_run(store: Store) -> None:
    """Put the marker of a run's end.

    Args:
        store: Store rooted at a run's `debug-output`.
    """
    store.put(END_MARKER_KEY, b"")
