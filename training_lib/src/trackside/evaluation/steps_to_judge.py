"""The steps that rules are asked about: when each was seen, what there is at it, and whether a rule is asked now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trackside.evaluation.asking import StepToJudge, sees_only_what_was_saved
from trackside.evaluation.other_runs import OtherRuns
from trackside.evaluation.saved_source import SavedSource
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import is_paced_step
from trackside.trial.trial import Trial
from trackside.trial.window import Window

# A paced rule waits for the statistics of a saved step, which are stored a little later: the writer flushes them every
# second, and a trial that has seen none so far looks again after 5 seconds (`trial.recorded.SECONDS_BETWEEN_LOOKS`).
# Waiting no longer than that, a rule could judge a moment before the first rows are seen.
SECONDS_FOR_ROWS = 10.0


class StepsToJudge:
    """The run as rules are shown it, step by step."""

    def __init__(self, trial: Trial, others: OtherRuns) -> None:
        self._trial, self._others = trial, others
        self._saved = SavedSource(trial)
        self._seen_at: dict[int, float] = {}  # of steps that are young
        self._seen_through = -1

    def note_when_seen(self, steps: Sequence[int], now: float) -> None:
        """When a step was seen first, for as long as it matters."""
        self._seen_at = {step: at for step, at in self._seen_at.items() if now - at < SECONDS_FOR_ROWS}
        self._seen_at.update({step: now for step in steps if step > self._seen_through})
        self._seen_through = max([self._seen_through, *steps[-1:]])

    def at(self, step: int, now: float, *, is_last: bool) -> StepToJudge:
        """What there is at a step."""
        trial = self._trial
        return StepToJudge(
            window=trial.window(step, now=now),
            is_saved=trial.is_saved(step),
            saved=trial.saved_collections_at(step),
            all=trial.collections_at(step),
            is_last=is_last,
            is_settled=trial.has_ended or trial.recorded_through >= step or step not in self._seen_at,
        )

    def as_seen_by(self, configured: ConfiguredRule, window: Window) -> Window:
        """The window with what the rule compares with; in Amazon's sense, of what was saved alone."""
        if configured.rule.other_runs:
            window = replace(window, others=self._others.of(configured.rule))
        return replace(window, source=self._saved) if sees_only_what_was_saved(configured) else window


def is_asked(configured: ConfiguredRule, judged_through: int, there: StepToJudge) -> bool:
    """Whether a rule is asked about a step now; it may be later, or never."""
    rule, step = configured.rule, there.window.step
    if step <= judged_through:
        return False
    if rule.paced:
        return there.is_settled and (there.is_last or is_paced_step(step, judged_through))
    is_always_ready = rule.judges_every_step or rule.judges_waiting or sees_only_what_was_saved(configured)
    if there.is_settled or is_always_ready:
        return True
    # Else a step at which only something else was saved would pass for judged, and so would those before it, before
    # what was recorded of them has come. A rule that has nothing saved lives on what is recorded, and sees all of it.
    return rule.needs != () and there.is_saved and rule.is_watching(there.saved)
