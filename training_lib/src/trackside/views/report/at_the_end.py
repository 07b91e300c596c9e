"""The report that an evaluator leaves in a run once the run has ended."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from trackside.contracts.run_layout import (
    OLD_REPORTS_PREFIX,
    REPORT_JSON_KEY,
    REPORT_JUNIT_KEY,
    REPORT_KEY,
    REPORT_MARKDOWN_KEY,
    XGBOOST_REPORT_KEY,
    RunLocation,
    notebook_beside,
    old_page_key,
)
from trackside.storage.store import Store
from trackside.trial.trial import open_trial
from trackside.views.report.gathered import gather
from trackside.views.report.json_document import VERSION, report_document
from trackside.views.report.markdown import markdown_of
from trackside.views.report.notebook import notebook_of
from trackside.views.report.other_tools import text_for
from trackside.views.report.page import page_of

_logger = logging.getLogger(__name__)


def store_report(run: RunLocation, *, clock: Callable[[], float], stores: Callable[[str], Store]) -> None:
    """Write the report of an ended run beside its verdicts, and at the original's keys that the run has.

    A failure is logged only: the verdicts are out by then.

    Args:
        run: The run.
        clock: Returns seconds since the epoch.
        stores: Opens the store of a location.
    """
    try:
        data = gather(run.uri, open_trial(run.uri), clock=clock, stores=stores)
        page = page_of(data).encode()
        output = stores(run.rule_output)
        output.put(REPORT_KEY, page)
        output.put(REPORT_MARKDOWN_KEY, markdown_of(data).encode())
        output.put(REPORT_JUNIT_KEY, text_for(data.recorded, "junit").encode())
        output.put(
            REPORT_JSON_KEY, json.dumps({"schema_version": VERSION, **report_document(data)}, allow_nan=False).encode()
        )
        old = {old for key in output.list(OLD_REPORTS_PREFIX) if (old := old_page_key(key)) is not None}
        book = notebook_of(data).encode()
        for key in sorted({*old, XGBOOST_REPORT_KEY} if data.is_boosted else old):
            output.put(key, page)
            output.put(notebook_beside(key), book)
    except Exception as error:  # noqa: BLE001 - a picture must not fail the job that judged
        _logger.warning("%s was not written: %s", REPORT_KEY, error)
