"""A fuse for one source: its exceptions never reach the script, and switch off that source alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from trackside.capture.ground.guard import Guard, describe

logger = logging.getLogger(__name__)


class Fuse:
    """A guard of one source.

    - `doing` completes the sentence "... failed and is no longer done", for the message
    - `when_blown` removes the source's hooks
    """

    def __init__(self, guard: Guard, doing: str) -> None:
        self.is_blown = False
        self.when_blown: Callable[[], None] = lambda: None
        self._guard = guard
        self._doing = doing

    def protect(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return `function` made harmless, and skipped once any function of this fuse has raised."""

        def protected(*args: Any) -> None:
            if self.is_blown or self._guard.is_off:
                return
            try:
                function(*args)
            except Exception as error:
                self.is_blown = True
                message = "%s failed and is no longer done, all else goes on: %s."
                self._guard.warn_once(self._doing, message, self._doing, describe(error))
                logger.debug("Where %s failed", self._doing, exc_info=error)
                self._guard.attempt(f"taking back {self._doing}", self.when_blown)

        return protected
