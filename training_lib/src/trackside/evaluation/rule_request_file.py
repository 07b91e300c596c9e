"""The rules that judge a run: from the request in the run, or from the environment of a container for one rule."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError, Problem
from trackside.contracts.rule_request import CLASS_PARAMETER, MOST_BYTES, SOURCE_PARAMETER, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.products import SAGEMAKERS_REQUESTS, product
from trackside.rules.catalogue import default_request
from trackside.storage.store import Store

_logger = logging.getLogger(__name__)


def read_rule_request(store: Store) -> RuleRequest:
    """Return the rule request of the run at `store`.

    Without one: every built-in rule, with no action that stops the run.

    Errors: `ConfigurationError` with every problem of the file; those of the store.
    """
    try:
        text = store.get(RULE_REQUEST_KEY, length=MOST_BYTES + 1)
    except KeyNotFoundError:
        return default_request()
    return RuleRequest.from_json(text)


def names_a_rule(environment: Mapping[str, str]) -> bool:
    """Return True for the environment of a container that was started for one rule, as by SageMaker Debugger."""
    return bool(environment.get(CLASS_PARAMETER, "").strip() or environment.get(SOURCE_PARAMETER, "").strip())


def rule_of_environment(environment: Mapping[str, str]) -> RuleRequest:
    """Return the request for the one rule that `names_a_rule` found. Each parameter is a variable of its own.

    Errors: `ConfigurationError` with every problem, also for a rule that is known but not supported yet.
    """
    translation = product(SAGEMAKERS_REQUESTS).read_environment(environment)
    for note in translation.notes:
        _logger.warning("%s", note)
    if not translation.request.rules:
        name = environment.get(CLASS_PARAMETER, "")
        problem = Problem("environment", f"{name} is not judged yet.", "Choose another rule: `trackside rules list`.")
        raise ConfigurationError([problem], subject="The configuration for SageMaker Debugger")
    found: RuleRequest = translation.request
    return found
