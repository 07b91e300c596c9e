"""How the deployment's settings are read, as `-c` or JSON gives them, and which values are refused.

All raise `ValueError` with what would work, as the end of a sentence that begins with the setting's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.errors import did_you_mean

MOST_COST_TAGS = 20
MOST_PLACE_CHARACTERS = 256  # it travels in a variable of a processing job

# What CloudWatch Logs offers, up to two years.
LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731)

# A function's variables have 4,096 characters in all (docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html);
# these lists travel in them, beside names and addresses of at most 2,000.
MOST_VARIABLE_CHARACTERS = 2_000
TRAVELLING = (
    ("cost_tags", "watched_jobs", "unwatched_jobs", "spoke_accounts", "vpc_subnets", "vpc_security_groups"),
    ("instance_prices", "spoke_accounts"),
)


def read_text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("it must be a text")
    return given


def read_whole(given: Any) -> int:
    if isinstance(given, bool) or not re.fullmatch(r"\d+", str(given)):
        raise ValueError("it must be a whole number")
    return int(given)


def read_boolean(given: Any) -> bool:
    if str(given).lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return str(given).lower() == "true"


def read_texts(given: Any) -> tuple[str, ...]:
    items = [item.strip() for item in given.split(",") if item.strip()] if isinstance(given, str) else given
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("it must be a list of texts")
    return tuple(items)


def read_actions(given: Any) -> tuple[Action, ...]:
    words = read_texts(given)
    known = {action.value: action for action in Action}
    for word in words:
        if word not in known:
            raise ValueError(f"{word!r} is not an action. {did_you_mean(word, known)}")
    return tuple(dict.fromkeys(known[word] for word in words))


READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: read_text,
    int: read_whole,
    bool: read_boolean,
    tuple[str, ...]: read_texts,
    tuple[Action, ...]: read_actions,
}


def accept(value: Any) -> None:
    """Any value of the right type will do."""


def between(least: int, most: int) -> Callable[[int], None]:
    def check(value: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"it must be {least} to {most}")

    return check


def matching(pattern: str, example: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"it must look like {example}")

    return check


def too_long_for_variables(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(the longest setting, what is wrong with it beside the others): else the deployment fails half-way."""
    for names in TRAVELLING:
        lengths = {name: len(",".join(values.get(name, ()))) for name in names}
        if sum(lengths.values()) > MOST_VARIABLE_CHARACTERS:
            others = ", ".join(name for name in names if lengths[name])
            why = (
                f"is too long: a function's variables hold {MOST_VARIABLE_CHARACTERS} characters of {others} together."
            )
            yield max(lengths, key=lambda name: lengths[name]), why


def check_log_retention(value: int) -> None:
    if value not in LOG_RETENTION_DAYS:
        raise ValueError(f"CloudWatch offers {', '.join(map(str, LOG_RETENTION_DAYS))}")


def check_emails(value: tuple[str, ...]) -> None:
    wrong = [address for address in value if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", address)]
    if wrong:
        raise ValueError(f"not an e-mail address: {', '.join(wrong)}")


def check_prices(value: tuple[str, ...]) -> None:
    wrong = [entry for entry in value if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9-]+=\d+(\.\d+)?", entry)]
    if wrong:
        raise ValueError(f"not like 'ml.m5.large=0.12': {', '.join(wrong)}")


def check_cost_tags(value: tuple[str, ...]) -> None:
    """Names and values as both CloudFormation and SageMaker take them; a comma divides one from the next. Tags that we
    give a meaning to are ours alone."""
    wrong = [
        tag for tag in value if not re.fullmatch(r"(?!(?i:aws|trackside):)[\w.:/+@-]{1,128}=[\w .:/+@-]{0,256}", tag)
    ]
    if wrong:
        raise ValueError(f"not like 'cost-center=42': {', '.join(wrong)}")
    if len({tag.split("=")[0] for tag in value}) < len(value):
        raise ValueError("a name stands there twice")
    if len(value) > MOST_COST_TAGS:
        raise ValueError(f"at most {MOST_COST_TAGS} tags")


def check_rules_place(value: str) -> None:
    """No blank, asterisk, question mark or dollar sign, all of which would mean more in a policy."""
    place = re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?P<prefix>(/[\w.=@+-]+)*)", value)
    if value and (place is None or {".", ".."} & set(place["prefix"].split("/")) or len(value) > MOST_PLACE_CHARACTERS):
        raise ValueError(
            f"it must look like 's3://our-rules/approved', with at most {MOST_PLACE_CHARACTERS} characters"
        )
