"""The first facts about the model: the chosen rules with nothing to judge in it."""

from __future__ import annotations

from trackside.contracts.errors import ConfigurationError, RecordError
from trackside.contracts.model_facts import BOOSTED, ESTIMATORS, ModelFacts
from trackside.contracts.rule_request import RuleRequest
from trackside.records.model_facts import facts_workers, read_facts
from trackside.storage.store import Store


class FirstFacts:
    """Waits for the facts about the model, which capture records at the end of the first step, then answers once.

    tensors  rooted at `<run>/debug-output`
    request  the chosen rules
    """

    def __init__(self, tensors: Store, request: RuleRequest) -> None:
        self._tensors = tensors
        # The user's own rules run in the evaluator's process only: one that hangs does no harm in it.
        self._waiting = RuleRequest(tuple([rule for rule in request.rules if not rule.custom]))

    def news(self) -> tuple[str, ...]:
        """Return sentences once, after the first facts; () before and afterwards. Errors: the store's."""
        if not self._waiting.rules:
            return ()
        facts = self._facts()
        if facts is None:
            return ()
        request, self._waiting = self._waiting, RuleRequest(())
        return what_turned_out(request, facts)

    def _facts(self) -> ModelFacts | None:
        for worker in facts_workers(self._tensors)[:1]:
            try:
                return next(iter(read_facts(self._tensors, worker)), None)
            except RecordError:  # the evaluator reports damage
                self._waiting = RuleRequest(())
        return None


def what_turned_out(request: RuleRequest, facts: ModelFacts) -> tuple[str, ...]:
    """Return a sentence for each rule that has nothing to judge in such a program, or not yet."""
    from trackside.evaluation.results.missing_inputs import nothing_to_judge, sees_no_loss  # both bring NumPy
    from trackside.rules.catalogue import build_rules

    try:
        configured = build_rules(request)
    except ConfigurationError:  # the evaluator reports the problems
        return ()
    found, is_by_rounds = [], facts.program.framework in BOOSTED | ESTIMATORS
    for one in configured:
        if reason := nothing_to_judge(one.rule, facts):
            found.append(f"{one.configuration.name} has nothing to judge: {reason}.")
        elif sees_no_loss(one.rule, facts):
            why = (
                "the training evaluates no metric that falls" if is_by_rounds else "`backward` was called on no scalar"
            )
            found.append(f"{one.configuration.name} has seen no loss so far: {why}.")
    return tuple(found)
