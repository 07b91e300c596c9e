"""The progress of each configuration: its judged steps, its verdicts, and whether it is finished or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Verdict
from trackside.evaluation.results import verdicts
from trackside.evaluation.results.judging import Judgement
from trackside.evaluation.results.outbox import Outbox
from trackside.evaluation.results.progress import ProgressFile, RuleProgress, keep_only
from trackside.evaluation.results.verdicts import Moment
from trackside.evaluation.sinks.sink import Sink
from trackside.rules.catalogue import ConfiguredRule

REFUSED = "not run here"  # the progress's error for code that may not run here; another evaluator may run it


class RunProgress:
    """The progress of the judged and the refused configurations, continued from an earlier evaluator of the run.

    rules    judged rules, by configuration name
    refused  configurations that may not run here, by name
    outbox   the way that verdicts are sent
    """

    def __init__(
        self,
        rules: Mapping[str, ConfiguredRule],
        refused: Sequence[RuleConfiguration],
        progress_file: ProgressFile,
        sinks: Sequence[Sink],
        *,
        run: str,
    ) -> None:
        self.rules = rules
        self.refused = {configuration.name: configuration for configuration in refused}
        self._run = run
        by_name = {sink.name: sink for sink in sinks}
        self.progress = keep_only(progress_file.load(), configurations=(*rules, *self.refused), sinks=by_name)
        self._forget_refusals()
        self.outbox = Outbox(self.progress, progress_file, by_name)

    def of(self, name: str) -> RuleProgress:
        """Return the progress of a configuration."""
        return self.progress.rules[name]

    @property
    def judged_through(self) -> int:
        """The newest step that any configuration has judged; -1 before the first."""
        return max((rule.judged_through for rule in self.progress.rules.values()), default=-1)

    def open(self) -> tuple[str, ...]:
        """Return the configurations without a final verdict."""
        return tuple(name for name in self.rules if not self.progress.rules[name].has_concluded)

    def crashed(self) -> tuple[str, ...]:
        """Return the configurations with a rule that raised."""
        return tuple(name for name, rule in self.progress.rules.items() if rule.error and name not in self.refused)

    def note(self, name: str, judgement: Judgement) -> Verdict | None:
        """Store the progress of a judgement. Return the verdict to send: an issue, a recovery, or None."""
        new, old = judgement.progress, self.progress.rules[name]
        if new is not old and (new.judged_through != old.judged_through or new != old):
            self.progress.rules[name], self.outbox.has_moved = new, True
        opened = self.outbox.last_issue(name) if judgement.recovered is not None else None
        if judgement.recovered is not None and opened is not None:
            return verdicts.recovered(opened, judgement.recovered)
        return judgement.verdict

    def pass_over(self, progress: RuleProgress, step: int) -> None:
        """Store in a rule's progress that the steps up to `step` hold nothing for the rule."""
        progress.judged_through, self.outbox.has_moved = step, True

    def conclude(self, name: str) -> None:
        """Mark a configuration as finished. Its final verdict is sent, or about to be."""
        self.progress.rules[name].has_concluded = self.outbox.is_unsaved = True

    def refuse(self, now: float) -> None:
        """Send the verdict "not judged here" once for each refused configuration."""
        answered = {verdict.configuration_name for verdict in self.progress.verdicts}
        unanswered = [one for name, one in self.refused.items() if name not in answered]
        for configuration in unanswered:
            self.progress.rules[configuration.name].error = REFUSED
            self.progress.rules[configuration.name].has_concluded = True
        self.outbox.send([verdicts.refused(one, Moment(self._run, 0, now)) for one in unanswered])

    def _forget_refusals(self) -> None:
        """Reset the configurations that an earlier evaluator refused and this one judges."""
        rules = self.progress.rules
        again = {name for name in self.rules if rules[name].error == REFUSED}
        rules.update({name: RuleProgress() for name in again})
        self.progress.deliveries = [
            delivery for delivery in self.progress.deliveries if delivery.verdict.configuration_name not in again
        ]
