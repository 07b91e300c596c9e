"""The loop of a rule over a run."""

from __future__ import annotations

import itertools

from smdebug import not_offered
from smdebug.analysis.utils import logger
from smdebug.exceptions import (
    NoMoreProfilerData,
    RuleEvaluationConditionMet,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from smdebug.rules.rule import Rule


def invoke_rule(
    rule_obj: Rule, start_step: int | None = 0, end_step: int | None = None, raise_eval_cond: bool = False
) -> None:
    """Judge every step in [start_step, end_step). Steps that lack data for the rule are skipped.

    Raises:
        NoMoreData: The run has ended: the normal end without `end_step`.
        RuleEvaluationConditionMet: The rule fires, with `raise_eval_cond`.
    """
    name = type(rule_obj).__name__
    first = start_step or 0
    for step in itertools.count(first) if end_step is None else range(first, end_step):
        try:
            rule_obj.invoke(step)
        except (TensorUnavailableForStep, StepUnavailable, TensorUnavailable) as passed:
            logger.debug(str(passed))
        except RuleEvaluationConditionMet as met:
            if raise_eval_cond:
                raise
            logger.info(str(met))
            if met.end_of_rule:
                break
        except NoMoreProfilerData as end:
            logger.info(f"{name}: {end}")
            break


__getattr__ = not_offered.attribute_of(__name__)
