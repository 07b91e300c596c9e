"""A rule as a user writes it, on the command line or in Python: `exploding-tensor:threshold=10`, `mine.py:Large`."""

from __future__ import annotations

from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration

HOW_TO_WRITE = "Write ID or FILE.py:CLASS, then :NAME=VALUE,NAME=VALUE if you like."


def parse_rule(text: str) -> RuleConfiguration:
    """Return the configuration in `exploding-tensor:threshold=10,patience=2`, or `FILE.py:CLASS:threshold=10`.

    A short code stands for the id of its rule: `TS203`.

    Raises `ValueError` with a cure.
    """
    source, rule_id, rest = split_rule(text)
    parameters = {}
    for pair in rest.split(",") if rest else ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{pair!r} is not NAME=VALUE.")
        if name.strip() in parameters:
            raise ValueError(f"{name.strip()!r} is set twice.")
        parameters[name.strip()] = value.strip()
    if not rule_id.strip():
        raise ValueError("names no rule.")
    if not source and rule_id.strip().endswith(".py"):
        raise ValueError("names a file, and no class in it.")
    name = rule_id.strip()
    return RuleConfiguration(name if source else built_in_catalogue().id_of(name), parameters=parameters, source=source)


def split_rule(text: str) -> tuple[str, str, str]:
    """Return (file, rule or class, the rest) of `s3://b/mine.py:Large:limit=3`.

    The file is "" for a rule without one.
    """
    file, py, after = text.partition(".py:")
    if not py or "=" in file:  # then it stands within a parameter
        return "", *text.partition(":")[::2]
    return f"{file}.py", *after.partition(":")[::2]
