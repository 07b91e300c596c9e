"""Settings that say which training jobs are watched, and by which rules: how each is checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from stacks.setting_checks import matching
from trackside.contracts.job_choice import MOST_TAG_CHARACTERS, chosen_by_words, is_reference
from trackside.contracts.rule_catalogue import built_in_catalogue

MOST_NAME_PATTERNS = 20  # a pattern of EventBridge has at most 2,048 characters


def _check_job_names(value: tuple[str, ...]) -> None:
    """What a name of a training job can be, with asterisks, none beside another, as EventBridge takes them."""
    wrong = [name for name in value if "**" in name or not re.fullmatch(r"[A-Za-z0-9*-]{1,63}", name)]
    if wrong:
        raise ValueError(f"not like 'nightly-*': {', '.join(wrong)}")
    if len(value) > MOST_NAME_PATTERNS:
        raise ValueError(f"at most {MOST_NAME_PATTERNS} patterns")


def _check_default_rules(value: str) -> None:
    if len(value) > MOST_TAG_CHARACTERS:
        raise ValueError(
            f"at most {MOST_TAG_CHARACTERS} characters; a longer one lies in an object, and its address here"
        )
    if value and not is_reference(value):
        chosen_by_words(value, "", catalogue=built_in_catalogue())


WATCHING_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "watched_jobs": _check_job_names,
    "unwatched_jobs": _check_job_names,
    "untagged_runs": matching(r"[\w.=-]{1,50}(/[\w.=-]{1,50}){0,2}", "'jobs'"),
    "default_rules": _check_default_rules,
}
