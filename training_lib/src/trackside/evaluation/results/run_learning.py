"""Storing and reading of what a run has learned, beside its verdicts."""

from __future__ import annotations

import logging

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError, StorageError
from trackside.contracts.run.learning import Learning
from trackside.contracts.run_layout import LEARNING_KEY
from trackside.storage.store import Store

MOST_BYTES = 1 << 16

_logger = logging.getLogger(__name__)


def store_learning(rule_output: Store, learning: Learning | None) -> None:
    """Store what a run has learned, if that is known.

    A failure is logged only: the rules' verdicts are worth having without it.

    Args:
        rule_output: The store of its rule output.
        learning: What it has learned.
    """
    if learning is None:
        return
    try:
        rule_output.put(LEARNING_KEY, learning.to_json().encode())
    except StorageError as error:
        _logger.warning("What the run has learned cannot be stored: %s", error)


def read_learning(rule_output: Store) -> Learning:
    """Return what a run has learned; an empty answer where that is not stored.

    Args:
        rule_output: The store of its rule output.

    Raises:
        StorageError: The store failed.
    """
    try:
        return Learning.from_json(rule_output.get(LEARNING_KEY, length=MOST_BYTES))
    except (KeyNotFoundError, ConfigurationError):
        return Learning()
