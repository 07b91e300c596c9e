"""Settings of watching: the training jobs that are watched, and the rules that judge them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stacks.settings.setting import matching, setting
from trackside.contracts.deployment.wildcards import MOST_COMPLEX, wildcard_complexity
from trackside.contracts.job_choice import MOST_TAG_CHARACTERS, chosen_by_words, is_reference
from trackside.contracts.rule_catalogue import built_in_catalogue

MOST_NAME_PATTERNS = 20  # a pattern of EventBridge has at most 2,048 characters


def _check_job_names(value: tuple[str, ...]) -> None:
    """Check patterns of training job names, with asterisks, none beside another, as EventBridge takes them."""
    wrong = [name for name in value if "**" in name or not re.fullmatch(r"[A-Za-z0-9*-]{1,63}", name)]
    if wrong:
        raise ValueError(f"not like 'nightly-*': {', '.join(wrong)}")
    if len(value) > MOST_NAME_PATTERNS:
        raise ValueError(f"at most {MOST_NAME_PATTERNS} patterns")


def _check_watched_jobs(value: tuple[str, ...]) -> None:
    """Check names also by what EventBridge takes in a rule of its own."""
    _check_job_names(value)
    wrong = [name for name in value if wildcard_complexity([name]) > MOST_COMPLEX]
    if wrong:
        raise ValueError(f"too many asterisks for EventBridge: {', '.join(wrong)}")


def _check_default_rules(value: str) -> None:
    if len(value) > MOST_TAG_CHARACTERS:
        raise ValueError(
            f"at most {MOST_TAG_CHARACTERS} characters; a longer one lies in an object, and its address here"
        )
    if value and not is_reference(value):
        chosen_by_words(value, "", catalogue=built_in_catalogue())


@dataclass(frozen=True)
class WatchingSettings:
    """The training jobs that are watched.

    watched_jobs          `nightly-*,…`: jobs that are [watched without a tag](watching.md)
    unwatched_jobs        jobs that are not, unless they carry it
    untagged_runs         prefix in the bucket of the runs of `watched_jobs`, each by the name of its job
    watch_by_environment  `true`: jobs without a tag are watched, too, that name their run in `TRACKSIDE_RUN`
    default_rules         rules of jobs that [choose none](watching.md#which-rules), in the words of a tag, or an
                          address; none: all usual ones
    """

    watched_jobs: tuple[str, ...] = setting((), _check_watched_jobs)
    unwatched_jobs: tuple[str, ...] = setting((), _check_job_names)
    untagged_runs: str = setting("jobs", matching(r"[\w.=-]{1,50}(/[\w.=-]{1,50}){0,2}", "'jobs'"))
    watch_by_environment: bool = setting(False)
    default_rules: str = setting("", _check_default_rules)
