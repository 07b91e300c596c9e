"""The rule request that lies in a run."""

from __future__ import annotations

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.rules.catalogue import default_request
from trackside.storage.store import Store

MOST_REQUEST_BYTES = 4 << 20  # what is larger is cut there, and so is no JSON


def read_rule_request(store: Store) -> RuleRequest:
    """What was asked for in the run at `store`; where nothing was, every built-in rule, with nothing stopped unasked.

    Errors: `ConfigurationError` with every problem of the file; those of the store.
    """
    try:
        text = store.get(RULE_REQUEST_KEY, length=MOST_REQUEST_BYTES)
    except KeyNotFoundError:
        return default_request()
    return RuleRequest.from_json(text)
