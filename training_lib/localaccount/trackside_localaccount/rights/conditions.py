"""Conditions of policy statements.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

Context = Mapping[str, tuple[str, ...]]  # keys in lower case

# Keys that a request may lack. Of any other that a request does not bring, nothing here knows whether AWS would.
_MAY_BE_ABSENT = re.compile(
    r"aws:(sourcearn|sourceaccount|sourceowner|principal(arn|account|type|orgid|tag/.*)|(request|resource)tag/.*|tagkeys|calledvia.*|"
    r"viaawsservice|sourcevpce?|vpcsourceip|multifactorauth.*|referer|federatedprovider|username|principalservicename)|"
    r"events:(source|detail-type|creatoraccount)|s3:(prefix|delimiter|max-keys|x-amz-acl)|cloudwatch:namespace|"
    r"iam:passedtoservice|sagemaker:taggingaction|kms:(viaservice|calleraccount)|sns:(protocol|endpoint)|sts:(externalid|rolesessionname)"
)
_VARIABLE = re.compile(r"\$\{\s*(?P<name>[^},]+?)\s*(?:,\s*'(?P<default>[^']*)'\s*)?\}")
_LITERALS = {"*": "[*]", "?": "[?]", "$": "$"}
_ARN_PARTS = 6


class UnknownConditionError(Exception):
    """A condition's operator or key that nothing here knows: its answer would be a guess."""


def conditions_hold(conditions: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    """Return whether a request meets all conditions of a statement.

    Args:
        conditions: Operator -> key -> value or values, as in a policy.
        context: Values of the request: key in lower case -> values.

    Raises:
        UnknownConditionError: An operator or a key that is not known here.
    """
    return all(
        _holds(operator, values_of(wanted), _given(key, context), context)
        for operator, keys in conditions.items()
        for key, wanted in keys.items()
    )


def values_of(value: Any) -> tuple[str, ...]:
    """Return the values of a policy's element, which may stand alone or in a list."""
    if isinstance(value, (list, tuple)):
        return tuple(_text(each) for each in value)
    return (_text(value),)


def matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """Return whether `text` fits `pattern`, in which `*` stands for any text and `?` for any character."""
    return _compiled(pattern, ignore_case).fullmatch(text) is not None


def arn_matches(pattern: str, arn: str) -> bool:
    """Return whether an ARN fits `pattern`, part by part. Missing parts at the end may be anything."""
    parts = pattern.split(":", _ARN_PARTS - 1)
    parts += ["*"] * (_ARN_PARTS - len(parts))
    given = arn.split(":", _ARN_PARTS - 1)
    return len(given) == _ARN_PARTS and all(map(matches, parts, given))


def fill_in(text: str, context: Context) -> str | None:
    """Return a policy's value with its variables replaced; None if one has no value.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
    """
    missing = False

    def value(found: re.Match[str]) -> str:
        nonlocal missing
        name = found["name"]
        if name in _LITERALS:
            return _LITERALS[name]
        values = context.get(name.lower(), ())
        if len(values) != 1 and found["default"] is None:
            missing = True
            return ""
        return values[0] if len(values) == 1 else str(found["default"])

    filled = _VARIABLE.sub(value, text)
    return None if missing else filled


def _given(key: str, context: Context) -> tuple[str, ...] | None:
    name = key.lower()
    if name not in context and not _MAY_BE_ABSENT.fullmatch(name):
        raise UnknownConditionError(f"the condition key {key}")
    return context.get(name)


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


@lru_cache(maxsize=4096)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    pieces = {"*": ".*", "?": ".", "[*]": r"\*", "[?]": r"\?"}
    found = re.split(r"(\[\*\]|\[\?\]|\*|\?)", pattern)
    expression = "".join(pieces.get(piece, re.escape(piece)) for piece in found)
    return re.compile(expression, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _number(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    return lambda wanted, given: compare(float(given), float(wanted))


def _moment(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    return lambda wanted, given: compare(_seconds(given), _seconds(wanted))


def _seconds(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _is_in_network(wanted: str, given: str) -> bool:
    return ipaddress.ip_address(given) in ipaddress.ip_network(wanted, strict=False)


_COMPARE: Mapping[str, Callable[[str, str], bool]] = {
    "stringequals": lambda wanted, given: wanted == given,
    "stringequalsignorecase": lambda wanted, given: wanted.lower() == given.lower(),
    "stringlike": matches,
    "arnequals": arn_matches,
    "arnlike": arn_matches,
    "binaryequals": lambda wanted, given: wanted == given,
    "bool": lambda wanted, given: wanted.lower() == given.lower(),
    "ipaddress": _is_in_network,
    "numericequals": _number(lambda given, wanted: given == wanted),
    "numericlessthan": _number(lambda given, wanted: given < wanted),
    "numericlessthanequals": _number(lambda given, wanted: given <= wanted),
    "numericgreaterthan": _number(lambda given, wanted: given > wanted),
    "numericgreaterthanequals": _number(lambda given, wanted: given >= wanted),
    "dateequals": _moment(lambda given, wanted: given == wanted),
    "datelessthan": _moment(lambda given, wanted: given < wanted),
    "datelessthanequals": _moment(lambda given, wanted: given <= wanted),
    "dategreaterthan": _moment(lambda given, wanted: given > wanted),
    "dategreaterthanequals": _moment(lambda given, wanted: given >= wanted),
}
_NEGATED = {
    "stringnotequals": "stringequals",
    "stringnotequalsignorecase": "stringequalsignorecase",
    "stringnotlike": "stringlike",
    "arnnotequals": "arnequals",
    "arnnotlike": "arnlike",
    "notipaddress": "ipaddress",
    "numericnotequals": "numericequals",
    "datenotequals": "dateequals",
}


def _holds(operator: str, wanted: Sequence[str], given: tuple[str, ...] | None, context: Context) -> bool:
    quantifier, _, name = operator.lower().rpartition(":")
    if name == "null":
        return (wanted[0].lower() == "true") == (not given)
    if_exists = name.endswith("ifexists")
    name = name.removesuffix("ifexists")
    is_negated = name in _NEGATED
    compare = _COMPARE.get(_NEGATED.get(name, name))
    if compare is None or quantifier not in {"", "forallvalues", "foranyvalue"}:
        raise UnknownConditionError(f"the condition operator {operator}")
    if not given:
        return _holds_without_value(quantifier, is_optional=if_exists, is_negated=is_negated)
    patterns = [filled for each in wanted if (filled := fill_in(each, context)) is not None]
    met = (_is_one_of(compare, patterns, value) != is_negated for value in given)
    every = quantifier == "forallvalues" or (is_negated and not quantifier)
    return all(met) if every else any(met)


def _holds_without_value(quantifier: str, *, is_optional: bool, is_negated: bool) -> bool:
    if quantifier == "foranyvalue":
        return False
    return quantifier == "forallvalues" or is_optional or is_negated


def _is_one_of(compare: Callable[[str, str], bool], patterns: Iterable[str], value: str) -> bool:
    for pattern in patterns:
        try:
            if compare(pattern, value):
                return True
        except ValueError:  # no number, time or address: it equals nothing
            continue
    return False
