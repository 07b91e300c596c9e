"""Verdicts on a run's speed as a document: the output of `trackside profile --json`, and a file of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from trackside.contracts.run_layout import PERFORMANCE_KEY
from trackside.records.machine.performance_facts import PerformanceFacts
from trackside.speed.performance.details import Detail
from trackside.speed.performance.measured import Measured
from trackside.speed.performance.verdict import PerformanceVerdict, judged_workers
from trackside.storage.store import Store


def speed_document(
    uri: str, workers: Mapping[str, Measured], details: Sequence[Detail] = (), *, price: float | None = None
) -> dict[str, Any]:
    """Return the verdict on each worker of a run, the slowest first.

    Args:
        uri: The run.
        workers: The measurements by worker.
        details: The profiles of its windows.
        price: Price of an hour of the run, in any currency; None if it is not known.
    """
    judged = [_worker(name, workers[name], verdict, price) for name, verdict in judged_workers(workers)]
    return {"run": uri, "workers": judged, "details": [asdict(detail) for detail in details]}


def write_speed(store: Store, document: Mapping[str, Any]) -> None:
    """Store the document with the verdicts of the rules.

    Args:
        store: The store of rule output.
        document: Result of `speed_document`.

    Raises:
        StorageError: The store failed.
    """
    store.put(PERFORMANCE_KEY, json.dumps(document, allow_nan=False).encode("ascii"))


def _worker(name: str, measured: Measured, verdict: PerformanceVerdict, price: float | None) -> dict[str, Any]:
    facts = measured.facts or PerformanceFacts()
    return {
        "worker": name,
        "bottleneck": verdict.bottleneck.value,
        "headline": verdict.headline,
        "can_win_back": verdict.can_win_back,
        "steps": verdict.steps,
        "seconds": verdict.seconds,
        "step_seconds": verdict.step_seconds,
        "phases": [asdict(phase) for phase in verdict.phases],
        "causes": [
            {
                **asdict(cause),
                "lines": [asdict(line) for line in cause.lines],
                "price_an_hour": None if price is None else cause.share * price,
            }
            for cause in verdict.causes
        ],
        "missing": list(verdict.missing),
        "notes": list(verdict.notes),
        "loaders": [asdict(loader) for loader in facts.loaders],
        "queues": [asdict(queue) for queue in facts.queues],
        "batches_ready": measured.batches_ready,
        "pin_seconds": facts.pin_seconds if facts.pins else None,
        "sampled_steps": facts.sampled_steps,
        "modules": [asdict(module) for module in facts.modules],
        "exchanges": [asdict(exchange) for exchange in facts.exchanges],
        "machine": {key: value for key, value in asdict(measured.machine).items() if key != "memory_series"},
    }
