"""A sink that keeps a picture of each issue that owners hear of: `rule-output/pictures/`. Messages show it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from trackside.contracts.action import Action
from trackside.contracts.run_layout import picture_key
from trackside.contracts.verdict import Outcome, Verdict
from trackside.storage.store import Store

_logger = logging.getLogger(__name__)


class IssuePictureSink:
    """Stores the picture of each issue. Stands before the sink that sends events, so that a message finds it.

    A verdict matters more than its picture: a failure is logged, and the verdict counts as delivered.

    Args:
        store: Rooted at the run's `rule-output`.
        draw: Returns the picture of an issue; None if there is nothing to draw.
    """

    name = "issue-picture"

    def __init__(self, store: Store, draw: Callable[[Verdict], bytes | None]) -> None:
        self._store, self._draw = store, draw

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Store the pictures of new issues. Raises nothing."""
        for verdict in verdicts:
            if verdict.outcome is Outcome.ISSUE_FOUND and Action.NOTIFY in verdict.actions:
                try:
                    image = self._draw(verdict)
                    if image is not None:
                        self._store.put(picture_key(verdict.configuration_name, verdict.since_step), image)
                except Exception as error:  # noqa: BLE001 - the message goes without its picture
                    _logger.warning("The picture of %s was not written: %s", verdict.verdict_id, error)
