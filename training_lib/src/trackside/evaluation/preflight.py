"""Before a run starts: which rule will have nothing to see?"""

from __future__ import annotations

from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import Problem
from trackside.contracts.rule_request import RuleRequest
from trackside.rules.catalogue import build_rules


def preflight(request: RuleRequest, capture: CaptureRequest) -> tuple[Problem, ...]:
    """One problem for each rule none of whose collections will be saved, and how to mend it.

    A rule that watches several collections judges with those that are there. Errors: `ConfigurationError` for the
    request itself.
    """
    problems = []
    for configured in build_rules(request):
        rule = configured.rule
        if any(capture.collection(name) is not None for name in rule.watches):
            continue
        problems.append(
            Problem(
                where=configured.configuration.name,
                what=f"watches {' and '.join(rule.watches)}, which this run will not save: it could not judge a step.",
                fix=f"Add the collection {rule.watches[0]!r} to the capture request, every {rule.save_interval} steps.",
            )
        )
    return tuple(problems)
