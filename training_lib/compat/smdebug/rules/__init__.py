"""Custom rules in smdebug's protocol."""

from smdebug import not_offered
from smdebug.rules.req_tensors import RequiredTensors, RequiredTensorsForTrial
from smdebug.rules.rule import Rule
from smdebug.rules.rule_invoker import invoke_rule

__all__ = ["RequiredTensors", "RequiredTensorsForTrial", "Rule", "invoke_rule"]

__getattr__ = not_offered.attribute_of(__name__)
