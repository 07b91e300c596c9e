"""The report of a run as the text of a page, for trackers that keep files beside a run."""

from __future__ import annotations

import logging
import time

from trackside.trial.trial import open_trial
from trackside.views.report.gathered import gather
from trackside.views.report.page import page_of

FILE_NAME = "report.html"
_logger = logging.getLogger(__name__)


def report_page(location: str) -> str:
    """Return the report of a run as HTML; "" if it cannot be made, which is logged.

    Args:
        location: Folder or `s3://` prefix of the run.
    """
    try:
        return page_of(gather(location, open_trial(location), clock=time.time))
    except Exception as error:  # noqa: BLE001 - a picture must not fail the training that was judged
        _logger.warning("The report of %s was not made: %s", location, error)
        return ""
