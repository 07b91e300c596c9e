"""A sink into the run of a tracker: the live one at the time of each finding, or one that was opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from trackside.contracts.issue_group import IssueGroup


class TrackerSink(ABC):
    """Sends findings to one run, the first that is live; nothing without one.

    Args:
        run: The run, as the tracker has it; None for the live one of this process.
    """

    def __init__(self, run: Any = None) -> None:
        self._run = run

    def issue(self, group: IssueGroup) -> None:
        """Send a problem; see `IssueSink`."""
        if run := self._live():
            self._send(run, group)

    def finish(self, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Send the result; see `IssueSink`."""
        if run := self._live():
            self._conclude(run, groups, location)

    def send_all(self, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Send all problems and the result, of a recorded run.

        Args:
            groups: The problems.
            location: Folder of the run of Trackside.
        """
        for group in groups:
            self.issue(group)
        self.finish(groups, location)

    @abstractmethod
    def _live_run(self) -> Any:
        """Return the live run; None or "" without one."""

    @abstractmethod
    def _send(self, run: Any, group: IssueGroup) -> None:
        """Send a problem to a run."""

    @abstractmethod
    def _conclude(self, run: Any, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Send the numbers of problems to a run."""

    def _live(self) -> Any:
        self._run = self._run or self._live_run()
        return self._run
