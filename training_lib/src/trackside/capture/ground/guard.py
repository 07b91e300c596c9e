"""A guard around our code: an exception is logged once and switches capture off; training goes on."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from trackside.contracts.errors import RunTakenError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class Guard:
    """A barrier between the user's training and our code.

    Only `Exception` is held back. `KeyboardInterrupt`, `SystemExit` and every other `BaseException` belong to the user
    and pass through untouched.
    """

    def __init__(self) -> None:
        self.is_off = False
        self._logged: set[str] = set()

    def protect(self, doing: str, function: Callable[P, R]) -> Callable[P, R | None]:
        """Return `function` made harmless: its first exception is logged and switches capture off.

        Later calls are skipped. `doing` completes the sentence "... failed", for the message.
        """

        def protected(*args: P.args, **kwargs: P.kwargs) -> R | None:
            if self.is_off:
                return None
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the purpose of this class
                self.switch_off(doing, error)
                return None

        return protected

    def attempt(self, doing: str, function: Callable[[], R]) -> R | None:
        """Call `function` even when capture is off, since queued steps must still be written. Only log a failure."""
        try:
            return function()
        except Exception as error:  # noqa: BLE001 - the purpose of this class
            self.warn_once(f"{doing}/{type(error).__name__}", "%s failed: %s.", doing, describe(error))
            return None

    def switch_off(self, doing: str, error: Exception) -> None:
        """Switch capture off in this process, and log the reason in one line."""
        self.is_off = True
        if isinstance(error, RunTakenError):
            message = (
                "process %d trains uncaptured: process %s already records this run; "
                "a run holds one training, with all its ranks."
            )
            self.warn_once("off", message, os.getpid(), error.process)
            return
        self.warn_once("off", "capture is switched off, training goes on: %s failed: %s.", doing, describe(error))
        logger.debug("Where capture failed", exc_info=error)

    def switch_off_silently(self) -> None:
        """Switch capture off without a message, as in a forked child that is not the run."""
        self.is_off = True

    def warn_once(self, failure_class: str, message: str, *args: object) -> None:
        """Log a one-line warning once per failure class."""
        if failure_class in self._logged:
            return
        self._logged.add(failure_class)
        logger.warning("trackside: " + message, *args)


def describe(error: BaseException) -> str:
    """Return the type and text of the error as one line."""
    text = " ".join(str(error).split()).rstrip(".")
    name = type(error).__name__
    return f"{name}: {text}" if text else name
