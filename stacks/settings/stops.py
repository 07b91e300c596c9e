"""Settings of stops: when a training job may be stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stacks.settings.setting import between, each_matching, setting


def _check_prices(value: tuple[str, ...]) -> None:
    wrong = [entry for entry in value if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9-]+=\d+(\.\d+)?", entry)]
    if wrong:
        raise ValueError(f"not like 'ml.m5.large=0.12': {', '.join(wrong)}")


@dataclass(frozen=True)
class StopSettings:
    """Stops of training jobs.

    dry_run            `true`: stops are recorded and not made; the first value of [a switch](actions.md#the-switch)
                       that a person may turn later
    stops_per_hour     training jobs that may be stopped in a clock hour; 0: any number
    made_at_once       calls of `stop_training` to SageMaker at a time (2 to 1000): [at scale](scale.md#what-to-set)
    cool_down_minutes  time after a stop or a veto in which the same job is not stopped; 0: none
    veto_minutes       time between the announcement of a stop and the stop, for [a veto](actions.md#veto-a-stop); 0:
                       stopped at once
    after_findings     findings of a job that must ask for its stop
    after_rules        rules whose issue stands that must ask for it
    instance_prices    `ml.m5.large=0.12,…`, an hour, for the money that a stop spared at most
    resume_roles       `arn:aws:iam::…:role/training,…`: roles of training jobs in whose place another job
                       [may go on](rescue.md#in-aws), with that role; none: no job is ever created
    resumes_per_job    jobs that may go on one after the other in the place of one (1 to 10)
    """

    dry_run: bool = setting(False)
    # Their ARNs, 130 bytes each, stand in one item of at most 400 KB.
    stops_per_hour: int = setting(20, between(0, 3_000))
    made_at_once: int = setting(2, between(2, 1_000), key="stops_made_at_once")
    cool_down_minutes: int = setting(60, between(0, 10_080), key="stop_cool_down_minutes")
    veto_minutes: int = setting(0, between(0, 10_080))
    after_findings: int = setting(1, between(1, 100), key="stop_after_findings")
    after_rules: int = setting(1, between(1, 100), key="stop_after_rules")
    instance_prices: tuple[str, ...] = setting((), _check_prices)
    resume_roles: tuple[str, ...] = setting(
        (),
        each_matching(
            r"(?a:arn:aws[a-z-]*:iam::\d{12}:role/[\w+=.@/-]{1,128})",
            "roles",
            "arn:aws:iam::123456789012:role/training",
            most=10,
        ),
    )
    resumes_per_job: int = setting(2, between(1, 10))
