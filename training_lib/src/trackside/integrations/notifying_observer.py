"""Messages about the problems of a run, sent while it goes on.

A thread sends them, each within a time limit, so that no receiver delays a training.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import urllib.error
from collections.abc import Sequence

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.verdict import Severity
from trackside.integrations import notification
from trackside.integrations.issue_text import issue_card, issue_title
from trackside.integrations.notification import Message, Receiver
from trackside.local.passing_observer import PassingObserver
from trackside.local.run import Observer


class NotifyingObserver(PassingObserver):
    """An observer that also sends each problem to every receiver, and again if it becomes graver.

    observer   shows everything to the user, the first failure of each receiver too
    receivers  the receivers
    run        name of the run
    """

    def __init__(self, observer: Observer, receivers: Sequence[Receiver], *, run: str) -> None:
        super().__init__(observer)
        self._receivers, self._run = receivers, run
        self._sent: dict[str, Severity] = {}  # by the problem, the gravest severity that was sent
        self._failed: set[str] = set()
        self._waiting: queue.Queue[tuple[Receiver, Message] | None] = queue.Queue()
        self._thread: threading.Thread | None = None

    def issue(self, group: IssueGroup) -> None:
        """Show a problem, and send its message in the background if it is new or graver than before."""
        super().issue(group)
        before = self._sent.get(group.group)
        if before is not None and group.severity.rank <= before.rank:
            return
        self._sent[group.group] = group.severity
        message = Message(f"Trackside, {self._run}: {issue_title(group)}", group.lead.message, issue_card(group))
        for receiver in self._receivers:
            self._waiting.put((receiver, message))
        if self._thread is None and self._receivers:
            self._thread = threading.Thread(target=self._send_all, name="trackside notification", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Wait until all messages are sent, at most `SEND_SECONDS`."""
        if self._thread is None:
            return
        self._waiting.put(None)
        self._thread.join(notification.SEND_SECONDS)
        if self._thread.is_alive():
            self.note("Not waiting any longer for a notification to be sent.")

    def _send_all(self) -> None:
        while (entry := self._waiting.get()) is not None:
            receiver, message = entry
            try:
                receiver.send(message)
            except Exception as error:  # noqa: BLE001 - the next message may pass
                if receiver.name not in self._failed:
                    self._failed.add(receiver.name)
                    self.note(f"No notification was sent to {receiver.name}: {_reason(error)}. The training goes on.")


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it answered {error.code}"
    if isinstance(error, TimeoutError | subprocess.TimeoutExpired):
        return f"no answer within {notification.SEND_SECONDS:g} s"
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}"
    reason = getattr(error, "reason", error)
    return f"no answer within {notification.SEND_SECONDS:g} s" if isinstance(reason, TimeoutError) else str(reason)
