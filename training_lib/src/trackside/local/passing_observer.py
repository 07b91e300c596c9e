"""An observer that passes all on to another: what also writes, sends or counts begins with it."""

from __future__ import annotations

from trackside.contracts.issue_group import IssueGroup
from trackside.local.run import Observer
from trackside.local.run_now import RunNow


class PassingObserver:
    """Passes all on.

    observer  shows everything to the user
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    @property
    def shows_progress(self) -> bool:
        """True if `progress` is to be called."""
        return self._observer.shows_progress

    def note(self, text: str) -> None:
        """Show one line."""
        self._observer.note(text)

    def hint(self, text: str) -> None:
        """Show one line, unless the user wants to read of problems only."""
        self._observer.hint(text)

    def detail(self, text: str) -> None:
        """Show one line, if the user wants to read everything."""
        self._observer.detail(text)

    def progress(self, now: RunNow) -> None:
        """Show the present state of the run."""
        self._observer.progress(now)

    def issue(self, group: IssueGroup) -> None:
        """Show a problem."""
        self._observer.issue(group)
