"""The complexity of wildcards in an event pattern, which EventBridge limits for each rule.

EventBridge refuses a rule with too many wildcards that one text may match at a time: "Rule is too complex". By the
measure of AWS's own event-ruler (https://github.com/aws/event-ruler#wildcard-matching), answers of the service that
LocalStack recorded (tests/aws/services/events, 15 October 2025) refuse 11 and take 7. event-ruler's page names 10 as a
limit of one rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_COMPLEX = 6  # of a rule of ours: below the highest complexity that the service was recorded to take
LEAST_REFUSED = 10
MOST_STATES = 2_000  # of the search; beyond it, a set of patterns counts as too complex

_STAR = "*"
_OTHER = ""  # any character that no pattern names


def wildcard_complexity(patterns: Iterable[str]) -> int:
    """Return the most prefixes of the wildcard patterns that one text matches, at most `LEAST_REFUSED`.

    event-ruler's own measure is nearly always the same, else one or two more.

    Args:
        patterns: Patterns of one field of a rule, as `wildcard` takes them.
    """
    tokens = [_tokens(each) for each in patterns]
    alphabet = {token for each in tokens for token in each if token != _STAR} | {_OTHER}
    first = _settled({(number, 0) for number in range(len(tokens))}, tokens)
    seen, waiting, most = {first}, [first], 0
    while waiting:
        active = waiting.pop()
        most = max(most, sum(position > 0 for _, position in active))
        if most >= LEAST_REFUSED or len(seen) > MOST_STATES:
            return LEAST_REFUSED
        for character in alphabet:
            reached = _settled(set(_after(character, active, tokens)), tokens)
            if reached not in seen:
                seen.add(reached)
                waiting.append(reached)
    return most


def _tokens(pattern: str) -> list[str]:
    r"""Return the characters of a pattern; an escaped one (`\*`) keeps its backslash."""
    tokens, rest = [], pattern
    while rest:
        length = 2 if rest[0] == "\\" and len(rest) > 1 else 1
        tokens.append(rest[:length])
        rest = rest[length:]
    return tokens


def _after(
    character: str, active: Iterable[tuple[int, int]], tokens: Sequence[Sequence[str]]
) -> Iterable[tuple[int, int]]:
    for number, position in active:
        pattern = tokens[number]
        if position and pattern[position - 1] == _STAR:
            yield number, position
        if position < len(pattern) and pattern[position] == character:
            yield number, position + 1


def _settled(active: set[tuple[int, int]], tokens: Sequence[Sequence[str]]) -> frozenset[tuple[int, int]]:
    """Return the positions, with those after an asterisk that matches nothing."""
    after_star = {(n, p + 1) for n, p in active if p < len(tokens[n]) and tokens[n][p] == _STAR}
    return frozenset(active | after_star)
