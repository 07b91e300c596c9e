"""What each configuration has judged and said so far: how far it has come, whether it is done, what it may not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Verdict
from trackside.evaluation import verdicts
from trackside.evaluation.asking import Answer
from trackside.evaluation.outbox import Outbox
from trackside.evaluation.progress import ProgressFile, RuleProgress, keep_only
from trackside.evaluation.sinks.sink import Sink
from trackside.evaluation.verdicts import Moment
from trackside.rules.catalogue import ConfiguredRule

REFUSED = "not run here"  # what the progress of a configuration says whose code another evaluator may run


class Ledger:
    """The progress of the rules and of those that are refused, as an earlier evaluator of the run left it.

    `rules` are by the names of their configurations. What is to be said goes through `outbox`.
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
        """How far a configuration has come."""
        return self.progress.rules[name]

    @property
    def judged_through(self) -> int:
        """The newest step that any has judged; -1 if there is none."""
        return max((rule.judged_through for rule in self.progress.rules.values()), default=-1)

    def open(self) -> tuple[str, ...]:
        """Configurations that have not said their last word yet."""
        return tuple(name for name in self.rules if not self.progress.rules[name].has_concluded)

    def crashed(self) -> tuple[str, ...]:
        """Configurations whose rule raised."""
        return tuple(name for name, rule in self.progress.rules.items() if rule.error and name not in self.refused)

    def note(self, name: str, answer: Answer) -> Verdict | None:
        """How far a rule has come, and what it said."""
        if answer.progress != self.progress.rules[name]:
            self.progress.rules[name], self.outbox.has_moved = answer.progress, True
        opened = self.outbox.last_issue(name) if answer.recovered is not None else None
        if answer.recovered is not None and opened is not None:
            return verdicts.recovered(opened, answer.recovered)
        return answer.verdict

    def pass_over(self, name: str, step: int) -> None:
        """A rule has nothing to look at up to that step."""
        self.progress.rules[name].judged_through, self.outbox.has_moved = step, True

    def conclude(self, name: str) -> None:
        """It has said its last word, or is about to."""
        self.progress.rules[name].has_concluded = self.outbox.is_unsaved = True

    def refuse(self, now: float) -> None:
        """Once for each configuration, whatever the run holds."""
        answered = {verdict.configuration_name for verdict in self.progress.verdicts}
        unanswered = [one for name, one in self.refused.items() if name not in answered]
        for configuration in unanswered:
            self.progress.rules[configuration.name].error = REFUSED
            self.progress.rules[configuration.name].has_concluded = True
        self.outbox.say([verdicts.refused(one, Moment(self._run, 0, now)) for one in unanswered])

    def _forget_refusals(self) -> None:
        """What an earlier evaluator would not run, this one judges from the start."""
        rules = self.progress.rules
        again = {name for name in self.rules if rules[name].error == REFUSED}
        rules.update({name: RuleProgress() for name in again})
        self.progress.said = [said for said in self.progress.said if said.verdict.configuration_name not in again]
