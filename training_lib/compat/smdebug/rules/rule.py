"""The base of custom rules in smdebug's protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from smdebug import not_offered
from smdebug.analysis.utils import logger, no_refresh
from smdebug.exceptions import RuleEvaluationConditionMet
from smdebug.rules.req_tensors import RequiredTensors
from smdebug.trials.trial import Trial


class Rule(ABC):
    """A rule that judges one step of the run after the other: `invoke_at_step` returns True if it finds something.

    `set_required_tensors` may declare the tensors that it needs; they are waited for first. `action_str` may be left
    out; its actions are not carried out (see `not_offered`).
    """

    def __init__(
        self, base_trial: Trial, action_str: str | None = None, other_trials: Iterable[Trial] | None = None
    ) -> None:
        self.base_trial = base_trial
        self.other_trials = other_trials if other_trials is None else list(other_trials)
        self.trials = [base_trial, *(self.other_trials or ())]
        self.req_tensors = RequiredTensors(base_trial, self.other_trials)
        self.logger = logger
        self.rule_name = type(self).__name__
        self.report: dict[str, Any] = {
            "RuleTriggered": 0,
            "Violations": 0,
            "Details": {},
            "Datapoints": 0,
            "RuleParameters": "",
        }
        if action_str and action_str.strip():
            self.logger.warning(f"{self.rule_name} is judged without its actions: {not_offered.ACTIONS}")

    @abstractmethod
    def invoke_at_step(self, step: int) -> Any:
        """Return True if the rule finds something at this step of the run."""

    def set_required_tensors(self, step: int) -> None:  # noqa: B027 - may be left as it is
        """Declare with `self.req_tensors.add` the tensors that judging this step needs."""

    def invoke(self, step: int) -> None:
        """Wait for the step and judge it.

        Raises:
            RuleEvaluationConditionMet: The rule finds something.
            Exception: Any error of `Trial.wait_for_steps`, of `Tensor.value`, or of the rule.
        """
        self.base_trial.wait_for_steps([step])
        with no_refresh(self.trials):
            self.req_tensors.clear()
            self.set_required_tensors(step)
            self.req_tensors.fetch()
            found = self.invoke_at_step(step)
        if found:
            raise RuleEvaluationConditionMet(self.rule_name, step)


__getattr__ = not_offered.attribute_of(__name__)
