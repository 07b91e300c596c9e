"""Writes docs/permissions.md: who may do what in a deployment, and why, from its synthesized templates.

python -m docs.permissions     synthesizes the largest deployment, if none lies ready, and writes the page

tests/stacks/test_permissions.py says if the page is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from stacks.assembly import assembly
from stacks.permissions import Permission, read_permissions

PAGE = Path(__file__).resolve().parent / "permissions.md"
COMMAND = "python -m docs.permissions"
# Beside cdk.json's settings: all that a deployment may have.
LARGEST: Mapping[str, str] = {
    "trackside:custom_rules_from": "s3://rules-bucket/approved",
    "trackside:dashboard": "true",
    "trackside:drills": "true",
    "trackside:questions": "true",
    "trackside:team_dashboard_host": "runs.example.com",
    "trackside:team_dashboard_certificate_arn": "arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222",
    "trackside:evaluator_mode": "fleet",
    "trackside:watched_jobs": "nightly-*",
    "trackside:watch_by_environment": "true",
    "trackside:report_link_hours": "12",
    "trackside:slack_channel": "C0123456789",
    "trackside:slack_secret": "trackside/slack",
    "trackside:teams_secret": "trackside/teams",
    "trackside:webhook_url": "https://hooks.example.com/trackside",
    "trackside:webhook_secret": "trackside/webhook",
    "trackside:owner_emails": "owner@example.com",
    "trackside:owner_phones": "+14155550100",
    "trackside:resume_roles": "arn:aws:iam::123456789012:role/training",
}


def page(permissions: Iterable[Permission]) -> str:
    """The page's text."""
    known = list(permissions)
    roles = [each for each in known if each.is_of_role]
    others = [each for each in known if not each.is_of_role]
    return "\n".join(
        [
            f"<!-- Written by `{COMMAND}` from the synthesized templates: change the stacks, not this page. -->\n",
            "# Who may do what, and why",
            "",
            "Every statement of every policy of a deployment, with `custom_rules_from=s3://rules-bucket/approved`,",
            "`drills=true`, `evaluator_mode=fleet`, `watch_by_environment`, `resume_roles`, `team_dashboard_host` and",
            "webhooks (without them there are fewer). Things are called by the paths of their constructs; region and",
            "account, where an ARN names them, are the deployment's own. No action is `*`, but for refusals and for",
            "the account's hold on its key. With `StopTraining` among `default_actions`, stop_training may stop jobs",
            "without a tag, too, for those of SageMaker Debugger carry none. Tests walk all of it",
            "(`tests/stacks/test_permissions.py`, `test_policies.py`), and hold it against the calls that the code",
            "makes: nothing is missing, and nothing is unused but what a service does in a role's name",
            "(`test_calls_of_roles.py`).",
            "",
            "## What each role may do",
            "",
            *_roles(roles),
            "## Whom each resource lets in",
            "",
            "| resource | | who | what | if | why |",
            "|---|---|---|---|---|---|",
            *(_resource_row(each) for each in others),
            "",
        ]
    )


def _roles(permissions: Iterable[Permission]) -> Iterator[str]:
    for holder, group in groupby(permissions, key=lambda each: each.holder):
        yield f"### {holder}"
        yield ""
        yield "| may | on | if | why |"
        yield "|---|---|---|---|"
        for each in group:
            cells = (_codes(each.actions), _codes(each.resources), _code(each.condition), _cell(each.why))
            yield f"| {' | '.join(cells)} |"
        yield ""


def _resource_row(each: Permission) -> str:
    may = "may" if each.effect == "Allow" else "**may not**"
    who = "everybody" if each.who == "*" else _code(each.who)
    cells = (_code(each.holder), may, who, _codes(each.actions), _code(each.condition), _cell(each.why))
    return f"| {' | '.join(cells)} |"


def _codes(values: Iterable[str]) -> str:
    return "<br>".join(map(_code, values))


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(read_permissions(assembly(LARGEST))), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
