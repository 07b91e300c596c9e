"""What turns out once the model is known: which of the rules that were chosen have nothing to judge in it."""

from __future__ import annotations

from trackside.contracts.errors import ConfigurationError, RecordError
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.rule_request import RuleRequest
from trackside.records.model_facts import facts_workers, read_facts
from trackside.storage.store import Store


class FirstFacts:
    """Waits for the run to tell what its model is, which it does when the first step has ended; then answers once.

    `tensors` is rooted at `<run>/debug-output`.
    """

    def __init__(self, tensors: Store, request: RuleRequest) -> None:
        self._tensors = tensors
        # Those of the user's own are judged in the evaluator's process only, where it cannot hurt if they hang.
        self._waiting = RuleRequest(tuple([rule for rule in request.rules if not rule.custom]))

    def news(self) -> tuple[str, ...]:
        """Sentences, once; () before and afterwards. Errors: the store's."""
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
            except RecordError:  # the evaluator tells of damage
                self._waiting = RuleRequest(())
        return None


def what_turned_out(request: RuleRequest, facts: ModelFacts) -> tuple[str, ...]:
    """A sentence for each rule that has nothing to judge in such a program, or not yet."""
    from trackside.evaluation.without_inputs import nothing_to_judge, sees_no_loss  # both bring NumPy
    from trackside.rules.catalogue import build_rules

    try:
        configured = build_rules(request)
    except ConfigurationError:  # the evaluator says what is wrong with it
        return ()
    found = []
    for one in configured:
        if reason := nothing_to_judge(one.rule, facts):
            found.append(f"{one.configuration.name} has nothing to judge: {reason}.")
        elif sees_no_loss(one.rule, facts):
            found.append(f"{one.configuration.name} has seen no loss so far: `backward` was called on no scalar.")
    return tuple(found)
