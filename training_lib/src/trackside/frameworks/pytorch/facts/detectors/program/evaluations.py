"""Evaluations in a wrong mode, or of another model: a copy that is stale or stands still, or one without training."""

from __future__ import annotations

from trackside.contracts.observations import (
    EVALUATION_LINE,
    RANDOM_EVALUATIONS,
    RANDOM_LINE,
    STALE_COPY_EVALUATIONS,
    STALE_COPY_LINE,
    STILL_COPY_EVALUATIONS,
    STILL_COPY_LINE,
    TRAINING_MODE_EVALUATIONS,
    UNTRAINED_EVALUATIONS,
    UNTRAINED_LINE,
)
from trackside.frameworks.pytorch.facts.detector import Counter, InScript, Watch
from trackside.frameworks.shared.detectors import watches


@watches(TRAINING_MODE_EVALUATIONS, EVALUATION_LINE)
class InTrainingMode:
    """Evaluations in training mode, and the line of the latest."""

    def __init__(self, watch: Watch) -> None:
        self._counter = watch.in_training_mode

    def of(self, watch: Watch) -> tuple[int, InScript | str]:
        """Return their number and line."""
        return _seen(self._counter)


@watches(RANDOM_EVALUATIONS, RANDOM_LINE)
class WithLiveDropout:
    """Evaluations with a live dropout, and the line on the way to it."""

    def __init__(self, watch: Watch) -> None:
        self._counter = watch.random

    def of(self, watch: Watch) -> tuple[int, InScript | str]:
        """Return their number and line."""
        return _seen(self._counter)


@watches(STALE_COPY_EVALUATIONS, STALE_COPY_LINE)
class OfStaleCopies:
    """Evaluations of copies with the statistics that they began with, and the line of the newest."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def look_begins(self) -> None:
        """Look for copies of the models, once these are known."""
        if self._watch.is_first_look() and self._watch.copies is not None:
            self._watch.copies.look(self._watch.names)

    def of(self, watch: Watch) -> tuple[int, InScript | str]:
        """Return their number and line."""
        return _seen(self._watch.copies)


@watches(STILL_COPY_EVALUATIONS, STILL_COPY_LINE)
class OfStillCopies:
    """Evaluations of copies that never change, and the line of the newest."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def look_begins(self) -> None:
        """Look for copies of the models, once these are known."""
        if self._watch.is_first_look() and self._watch.still is not None:
            self._watch.still.look(self._watch.names)

    def of(self, watch: Watch) -> tuple[int, InScript | str]:
        """Return their number and line."""
        return _seen(self._watch.still)


@watches(UNTRAINED_EVALUATIONS, UNTRAINED_LINE)
class OfUntrainedModels:
    """Evaluations of models that nothing has trained, and the line of the newest."""

    def __init__(self, watch: Watch) -> None:
        self._counter = watch.untrained

    def of(self, watch: Watch) -> tuple[int, InScript | str]:
        """Return their number and line."""
        return _seen(self._counter)


def _seen(counter: Counter | None) -> tuple[int, InScript | str]:
    if counter is None:
        return 0, ""
    return counter.count, "" if counter.place is None else InScript(counter.place)
