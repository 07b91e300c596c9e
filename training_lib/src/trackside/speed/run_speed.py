"""Storing of a run's speed: its verdict and the numbers of a profiler report, once the run is judged."""

from __future__ import annotations

import logging
from collections.abc import Callable

from trackside.contracts.run_layout import RunLocation
from trackside.speed.performance.details import read_details
from trackside.speed.performance.document import speed_document, write_speed
from trackside.speed.performance.reading import measured_workers
from trackside.speed.profiler_report import profiler_report, store_profiler_report
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import open_trial

_logger = logging.getLogger(__name__)


def store_speed(run: RunLocation, rule_output: Store, *, clock: Callable[[], float]) -> None:
    """Store the verdict on a run's speed, and the numbers of a profiler report.

    A failure is logged only: the rules' verdicts are worth having without it.

    Args:
        run: The run.
        rule_output: The store of its rule output.
        clock: Returns seconds since the epoch.
    """
    try:
        trial = open_trial(run.uri)
        write_speed(rule_output, speed_document(run.uri, measured_workers(run.uri, trial)))
        details = read_details(open_store(run.profiles))
        store_profiler_report(rule_output, profiler_report(trial, run=run.uri, now=clock(), details=details))
    except Exception as error:
        _logger.warning("The speed of the run was not judged: %s: %s", type(error).__name__, error, exc_info=error)
