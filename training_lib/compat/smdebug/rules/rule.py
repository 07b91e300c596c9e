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
    """A rule judges one step of the run after the other: `invoke_at_step` returns True where it finds something.

    `set_required_tensors` may say what it needs; that is waited for first. `action_str` may be left out; its actions
    are not carried out (see `not_offered`).
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
        """True if the rule finds something at this step of the run."""

    def set_required_tensors(self, step: int) -> None:  # noqa: B027 - may be left as it is
        """Says with `self.req_tensors.add` what judging this step needs."""

    def invoke(self, step: int) -> None:
        """Waits for the step and judges it.

        Errors: `RuleEvaluationConditionMet` if the rule finds something; those of `Trial.wait_for_steps` and
        `Tensor.value`; whatever the rule raises.
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
