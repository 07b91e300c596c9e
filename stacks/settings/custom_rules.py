"""Settings of custom rules: the rules from files."""

from __future__ import annotations

import re
from dataclasses import dataclass

import trackside
from stacks.settings.setting import IMAGE_TAG, REPOSITORY, matching, setting

MOST_PLACE_CHARACTERS = 256  # it travels in a variable of a processing job


def _check_rules_place(value: str) -> None:
    """Refuse a blank, asterisk, question mark or dollar sign, all of which have a meaning in a policy."""
    place = re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?P<prefix>(/[\w.=@+-]+)*)", value)
    if value and (place is None or {".", ".."} & set(place["prefix"].split("/")) or len(value) > MOST_PLACE_CHARACTERS):
        raise ValueError(
            f"it must look like 's3://our-rules/approved', with at most {MOST_PLACE_CHARACTERS} characters"
        )


@dataclass(frozen=True)
class CustomRuleSettings:
    """Custom rules.

    rules_from  `s3://bucket/prefix` of the rule files that may judge runs: [custom rules](custom-rules-in-aws.md). Who
                may write below it may read every run
    repository  name of the ECR repository of the container that runs them
    image_tag   tag of its image
    """

    rules_from: str = setting("", _check_rules_place, key="custom_rules_from")
    repository: str = setting(
        "trackside-custom-rule", matching(REPOSITORY, "'trackside-custom-rule'"), key="custom_rule_repository"
    )
    image_tag: str = setting(trackside.__version__, IMAGE_TAG, key="custom_rule_image_tag")
