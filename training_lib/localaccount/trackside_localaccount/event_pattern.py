"""EventBridge's pattern language: which events a rule's pattern matches.

Semantics after https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html,
https://github.com/aws/event-ruler (array consistency), and the 155 answers of the service that LocalStack published on
15 October 2025 (tests/aws/services/events/event_pattern_templates, commit 8b9a79f): all of them agree.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trackside.contracts.deployment.wildcards import LEAST_REFUSED, wildcard_complexity

Path = tuple[str, ...]

_NUMERIC: Mapping[str, Callable[[float, float], bool]] = {
    "=": lambda value, bound: value == bound,
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    ">=": lambda value, bound: value >= bound,
}
_TEXT_OPERATORS = ("prefix", "suffix", "equals-ignore-case", "wildcard")
_OPERATORS = (*_TEXT_OPERATORS, "anything-but", "numeric", "cidr", "exists")


TOO_COMPLEX = (
    "Rule is too complex - try using fewer wildcard characters or fewer repeating character sequences after a wildcard "
    "character"
)


class PatternError(ValueError):
    """A pattern that EventBridge refuses; the message names the place and the reason."""


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Return True if the event matches. The pattern must be valid (`check_pattern`)."""
    pattern, event = _without_dots(pattern), _without_dots(event)
    return _matches_object(pattern, event, path=(), leaves=frozenset(_leaves(event, ())))


def check_pattern(pattern: Any) -> None:
    """Raise `PatternError` for a pattern that EventBridge refuses."""
    if not isinstance(pattern, dict) or not pattern:
        raise PatternError("Event pattern must be a JSON object with at least one field.")
    _check_object(pattern, where="")


def _without_dots(value: Any) -> Any:
    """Return the value with each key `a.b` as `b` in `a`: to EventBridge they are the same."""
    if isinstance(value, list):
        return [_without_dots(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for key, inner in value.items():
        first, dot, rest = key.partition(".")
        _add(found, first if dot and rest else key, _without_dots({rest: inner} if dot and rest else inner))
    return found


def _add(fields: dict[str, Any], key: str, value: Any) -> None:
    before = fields.get(key)
    if isinstance(before, dict) and isinstance(value, Mapping):
        for name, inner in value.items():
            _add(before, name, inner)
    else:
        fields[key] = value


def _leaves(value: Any, path: Path) -> Iterator[Path]:
    """The paths of all values that are neither object nor list; lists add nothing to a path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for element in value:
            yield from _leaves(element, path)
    else:
        yield path


def _matches_object(pattern: Mapping[str, Any], value: Any, *, path: Path, leaves: frozenset[Path]) -> bool:
    if isinstance(value, list) and value:  # all fields of the pattern must hold in one and the same element
        return any(_matches_object(pattern, element, path=path, leaves=leaves) for element in value)
    fields = value if isinstance(value, Mapping) else {}
    for key, wanted in pattern.items():
        if key == "$or" and _is_alternatives(wanted):
            if not any(_matches_object(each, value, path=path, leaves=leaves) for each in wanted):
                return False
            continue
        inner, inner_path = fields.get(key, _ABSENT), (*path, key)
        if isinstance(wanted, Mapping):
            if not _matches_object(wanted, inner, path=inner_path, leaves=leaves):
                return False
        elif not any(_matches_leaf(matcher, inner, path=inner_path, leaves=leaves) for matcher in wanted):
            return False
    return True


_ABSENT = object()


def _matches_leaf(matcher: Any, value: Any, *, path: Path, leaves: frozenset[Path]) -> bool:
    if isinstance(matcher, Mapping) and "exists" in matcher:
        return (path in leaves) is bool(matcher["exists"])
    if value is _ABSENT or isinstance(value, Mapping):
        return False
    if isinstance(value, list):
        return any(_matches_leaf(matcher, element, path=path, leaves=leaves) for element in value)
    if isinstance(matcher, Mapping):
        ((operator, operand),) = matcher.items()
        return _holds(operator, operand, value)
    return _is_same(matcher, value)


def _is_same(wanted: Any, value: Any) -> bool:
    """Return True for equal values of one type; 300 is 300.0, but true is not 1."""
    if _is_number(wanted):
        return _is_number(value) and bool(wanted == value)
    return type(wanted) is type(value) and bool(wanted == value)


def _holds(operator: str, operand: Any, value: Any) -> bool:
    if operator in _TEXT_OPERATORS:
        return isinstance(value, str) and _text_holds(operator, operand, value)
    if operator == "anything-but":
        return _is_anything_but(operand, value)
    if operator == "numeric":
        return _is_number(value) and all(
            _NUMERIC[sign](value, bound) for sign, bound in zip(operand[::2], operand[1::2], strict=True)
        )
    return operator == "cidr" and isinstance(value, str) and _is_in_network(value, operand)


def _text_holds(operator: str, operand: Any, value: str) -> bool:
    if isinstance(operand, list):
        return any(_text_holds(operator, each, value) for each in operand)
    if isinstance(operand, Mapping):  # {"prefix": {"equals-ignore-case": ...}}
        return _text_holds(operator, operand["equals-ignore-case"].casefold(), value.casefold())
    if operator == "prefix":
        return value.startswith(str(operand))
    if operator == "suffix":
        return value.endswith(str(operand))
    if operator == "equals-ignore-case":
        return value.casefold() == str(operand).casefold()
    return _wildcard(operand).fullmatch(value) is not None


def _wildcard(text: str) -> re.Pattern[str]:
    r"""`*` stands for any characters, `\*` and `\\` for themselves."""
    parts = re.findall(r"\\[*\\]|\*|[^*]", text, flags=re.DOTALL)
    return re.compile("".join(".*" if part == "*" else re.escape(part[-1]) for part in parts), flags=re.DOTALL)


def _is_anything_but(operand: Any, value: Any) -> bool:
    if isinstance(operand, Mapping):
        ((operator, excluded),) = operand.items()
        return not (isinstance(value, str) and _text_holds(operator, excluded, value))
    excluded = operand if isinstance(operand, list) else [operand]
    return not any(_is_same(each, value) for each in excluded)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_in_network(value: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _is_alternatives(wanted: Any) -> bool:
    return isinstance(wanted, list) and all(isinstance(each, Mapping) for each in wanted)


# What EventBridge refuses ---------------------------------------------------------------------------------------------


def _check_object(pattern: Mapping[str, Any], *, where: str) -> None:
    for key, wanted in pattern.items():
        here = f"{where}.{key}" if where else key
        if key == "$or" and _is_alternatives(wanted) and not _are_matchers(wanted):
            if len(wanted) < 2:
                raise PatternError(f"{here!r} must list at least two alternatives.")
            for alternative in wanted:
                _check_object(alternative, where=where)
        elif isinstance(wanted, Mapping):
            if not wanted:
                raise PatternError(f"Empty objects are not allowed at {here!r}.")
            _check_object(wanted, where=here)
        elif not isinstance(wanted, list):
            raise PatternError(f"{here!r} must be an object or an array.")
        elif not wanted:
            raise PatternError(f"Empty arrays are not allowed at {here!r}.")
        else:
            for matcher in wanted:
                _check_matcher(matcher, where=here)
            if wildcard_complexity(_wildcards(wanted)) >= LEAST_REFUSED:
                raise PatternError(TOO_COMPLEX)


def _wildcards(matchers: list[Any]) -> Iterator[str]:
    """Yield the wildcard patterns of one field, also those of `anything-but`."""
    for matcher in matchers:
        operands = matcher.get("anything-but", matcher) if isinstance(matcher, Mapping) else None
        texts = operands.get("wildcard", ()) if isinstance(operands, Mapping) else ()
        yield from [texts] if isinstance(texts, str) else texts


def _are_matchers(wanted: list[Mapping[str, Any]]) -> bool:
    """A field that happens to be called `$or`: every entry is a matcher such as {"prefix": "x"}."""
    return all(len(each) == 1 and next(iter(each)) in _OPERATORS for each in wanted)


def _check_matcher(matcher: Any, *, where: str) -> None:
    if isinstance(matcher, list):
        raise PatternError(f"Match value must be String, number, true, false, or null at {where!r}.")
    if not isinstance(matcher, Mapping):
        return
    if len(matcher) != 1:
        raise PatternError(f"Only one key allowed in match expression at {where!r}: {json.dumps(matcher)}.")
    ((operator, operand),) = matcher.items()
    if operator not in _OPERATORS:
        raise PatternError(f"Unrecognized match type {operator} at {where!r}. Known: {', '.join(_OPERATORS)}.")
    if not _CHECKS[operator](operand):
        raise PatternError(f"{operator} at {where!r} cannot take {json.dumps(operand)}.")


def _is_text(operand: Any) -> bool:
    return isinstance(operand, str)


def _is_text_or_caseless(operand: Any) -> bool:
    return _is_text(operand) or (
        isinstance(operand, Mapping) and list(operand) == ["equals-ignore-case"] and _is_text(*operand.values())
    )


def _is_wildcard(operand: Any) -> bool:
    return _is_text(operand) and re.search(r"(?<!\\)(?:\\\\)*\*\*", operand) is None  # no two stars in a row


def _is_excludable(operand: Any) -> bool:
    if isinstance(operand, Mapping):
        if len(operand) != 1 or next(iter(operand)) not in _TEXT_OPERATORS:
            return False
        ((operator, excluded),) = operand.items()
        each = excluded if isinstance(excluded, list) else [excluded]
        if operator in ("prefix", "suffix"):  # here they take neither an empty text nor another operator
            return bool(each) and all(_is_text(text) and text for text in each)
        return bool(each) and all(_CHECKS[operator](text) for text in each)
    each = operand if isinstance(operand, list) else [operand]
    return bool(each) and all(isinstance(value, str) or _is_number(value) for value in each)


def _is_range(operand: Any) -> bool:
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        return False
    signs, bounds = operand[::2], operand[1::2]
    if not all(isinstance(sign, str) and sign in _NUMERIC for sign in signs) or not all(map(_is_number, bounds)):
        return False
    return len(signs) == 1 or (signs[0] in (">", ">=") and signs[1] in ("<", "<=") and bounds[0] < bounds[1])


def _is_network(operand: Any) -> bool:
    try:
        ipaddress.ip_network(operand, strict=False)
    except ValueError:
        return False
    return isinstance(operand, str)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "prefix": _is_text_or_caseless,
    "suffix": _is_text_or_caseless,
    "equals-ignore-case": _is_text,
    "wildcard": _is_wildcard,
    "anything-but": _is_excludable,
    "numeric": _is_range,
    "cidr": _is_network,
    "exists": lambda operand: isinstance(operand, bool),
}
