"""The outbox of verdicts. They are grouped, stored, then delivered, so that a kill at any point loses none."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from trackside.contracts.errors import StorageError
from trackside.contracts.verdict import Outcome, Verdict
from trackside.evaluation.results import verdicts
from trackside.evaluation.results.progress import Delivery, Progress, ProgressFile
from trackside.evaluation.sinks.sink import Sink, UndeliveredError

_logger = logging.getLogger(__name__)


class Outbox:
    """Sends verdicts to the sinks, and stores the progress that they belong to.

    is_unsaved  set it when the progress must be stored
    has_moved   set it when the progress has only advanced: after a kill the same steps give the same verdicts again
    """

    def __init__(self, progress: Progress, file: ProgressFile, sinks: Mapping[str, Sink]) -> None:
        self._progress, self._file, self._sinks = progress, file, sinks
        self.is_unsaved = self.has_moved = False
        self._warnings: set[str] = set()

    def send(self, found: Sequence[Verdict]) -> None:
        """Store the verdicts, then deliver them. In this order a kill at any moment loses none."""
        if not found:
            return
        for verdict in found:
            _logger.info("%s: %s", verdict.configuration_name, verdict.message)
            self._progress.deliveries.append(Delivery(self._grouped(verdict), tuple(self._sinks)))
        self.is_unsaved = True
        self.deliver()

    def deliver(self) -> None:
        """Store unsaved progress, and hand undelivered verdicts to their sinks."""
        self._save()
        for name, sink in self._sinks.items():
            waiting = [delivery for delivery in self._progress.outbox if name in delivery.undelivered]
            if waiting:
                self._emit(name, sink, waiting)
        self._save()

    def warn_once(self, warning: str) -> None:
        """Log a warning once per distinct message."""
        if warning not in self._warnings:
            self._warnings.add(warning)
            _logger.warning("%s", warning)

    def last_issue(self, name: str) -> Verdict | None:
        """Return the newest issue of a configuration; None if it has none."""
        return next((v for v in reversed(self._issues()) if v.configuration_name == name), None)

    def _emit(self, name: str, sink: Sink, waiting: Sequence[Delivery]) -> None:
        kept: set[str] = set()
        try:
            sink.emit([delivery.verdict for delivery in waiting])
        except UndeliveredError as error:
            kept = {verdict.verdict_id for verdict in error.undelivered}
            self.warn_once(f"Not delivered to {name}, trying again at each poll: {error}")
        for delivery in waiting:
            if delivery.verdict.verdict_id not in kept:
                delivery.undelivered = tuple(sink for sink in delivery.undelivered if sink != name)
                self.is_unsaved = True

    def _save(self) -> None:
        if not self.is_unsaved:
            return
        try:
            self._file.save(self._progress)
            self.is_unsaved = self.has_moved = False
        except StorageError as error:
            # An alarm sent twice after a restart is better than one not sent while the disk is full.
            self.warn_once(f"How far the rules have come cannot be stored, trying again at each poll: {error}")

    def _issues(self) -> tuple[Verdict, ...]:
        return tuple([v for v in self._progress.verdicts if v.outcome is Outcome.ISSUE_FOUND])

    def _grouped(self, verdict: Verdict) -> Verdict:
        """Return the verdict with its group. Of several issues opened at one step, the first leads the group.

        Where a rule is slow, the others continue without it: then the leader may differ between a run judged live and
        the same run judged afterwards. The findings do not differ.
        """
        if verdict.outcome is not Outcome.ISSUE_FOUND:
            return verdict
        own = [issue for issue in self._issues() if issue.configuration_name == verdict.configuration_name]
        return verdicts.grouped(
            verdict, self._open_issues_of_others(verdict.configuration_name), before=own[-1] if own else None
        )

    def _open_issues_of_others(self, configuration: str) -> tuple[Verdict, ...]:
        """Return the open issues of other rules, oldest first.

        A recovered issue is left out, so its return is notified anew.
        """
        standing = {name for name, rule in self._progress.rules.items() if rule.is_open and name != configuration}
        newest = {issue.configuration_name: issue for issue in self._issues()}
        return tuple(
            [
                issue
                for issue in self._issues()
                if issue is newest[issue.configuration_name] and issue.configuration_name in standing
            ]
        )
