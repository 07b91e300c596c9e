"""The data that rules see of each step, and the choice of steps for each rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trackside.evaluation.other_runs import OtherRuns
from trackside.evaluation.results.judging import StepData, StepToJudge, sees_saved_steps_only
from trackside.evaluation.saved_source import SavedSource
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.rule import is_paced_step
from trackside.trial.trial import Trial
from trackside.trial.window import Window


class StepsToJudge:
    """The run as rules see it, step by step.

    Args:
        trial: The run.
        others: Runs that rules compare it with.
        is_cut: Returns True if the training would go on behind the last step.
    """

    def __init__(self, trial: Trial, others: OtherRuns, *, is_cut: Callable[[], bool] = lambda: False) -> None:
        self._trial, self._others, self._is_cut = trial, others, is_cut
        self._saved = SavedSource(trial)
        self._data: dict[tuple[bool, frozenset[str], frozenset[str]], StepData] = {}

    def at(self, step: int, now: float, *, is_last: bool) -> StepToJudge:
        """Return one step as rules see it. `now` is in seconds since the epoch."""
        trial = self._trial
        window = trial.window(step, now=now)
        return StepToJudge(
            window=replace(window, is_last=True) if is_last and not self._is_cut() else window,
            data=self._data_at(step),
            is_last=is_last,
        )

    def visible_to(self, configured: ConfiguredRule, window: Window) -> Window:
        """Return the window with the runs that the rule compares with.

        A rule of an Amazon preset gets saved steps only.
        """
        if configured.rule.other_runs:
            window = replace(window, others=self._others.of(configured.rule))
        return replace(window, source=self._saved) if sees_saved_steps_only(configured) else window

    def _data_at(self, step: int) -> StepData:
        steps = self._trial.parts.steps
        held = steps.is_saved(step), steps.saved_collections_at(step), steps.measured_collections_at(step)
        data = self._data.get(held)
        if data is None:
            is_saved, saved, measured = held
            data = self._data[held] = StepData(is_saved=is_saved, saved=saved, all=saved | measured)
        return data


def must_judge(configured: ConfiguredRule, judged_through: int, pending_step: StepToJudge) -> bool:
    """Return True if the rule is to judge this step, which it has not judged yet.

    A paced rule judges only some steps, and the last one.
    """
    step = pending_step.window.step
    if step <= judged_through:
        return False
    return not configured.rule.paced or pending_step.is_last or is_paced_step(step, judged_through)
