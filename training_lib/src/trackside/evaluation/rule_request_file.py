"""Which rules judge a run: the request that lies in it, or the one rule that a rule container's environment names."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError, Problem
from trackside.contracts.rule_request import CLASS_PARAMETER, SOURCE_PARAMETER, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.rules.catalogue import default_request
from trackside.storage.store import Store

MOST_REQUEST_BYTES = 4 << 20  # what is larger is cut there, and so is no JSON

_logger = logging.getLogger(__name__)


def read_rule_request(store: Store) -> RuleRequest:
    """What was asked for in the run at `store`; where nothing was, every built-in rule, with nothing stopped unasked.

    Errors: `ConfigurationError` with every problem of the file; those of the store.
    """
    try:
        text = store.get(RULE_REQUEST_KEY, length=MOST_REQUEST_BYTES)
    except KeyNotFoundError:
        return default_request()
    return RuleRequest.from_json(text)


def names_a_rule(environment: Mapping[str, str]) -> bool:
    """True for the environment of a container that was started for one rule, as SageMaker Debugger starts its own."""
    return bool(environment.get(CLASS_PARAMETER, "").strip() or environment.get(SOURCE_PARAMETER, "").strip())


def rule_of_environment(environment: Mapping[str, str]) -> RuleRequest:
    """The request for the one rule that `names_a_rule` found; each of its parameters is a variable of its own.

    Errors: `ConfigurationError` with every problem, also for a rule that is known and not judged yet.
    """
    from trackside.documents.requests import read_environment  # much to import for what few need

    translation = read_environment(environment)
    for note in translation.notes:
        _logger.warning("%s", note)
    if not translation.request.rules:
        name = environment.get(CLASS_PARAMETER, "")
        problem = Problem("environment", f"{name} is not judged yet.", "Choose another rule: `trackside rules list`.")
        raise ConfigurationError([problem], subject="The configuration for SageMaker Debugger")
    return translation.request
