"""What one deployment may choose: the `trackside:` entries of cdk.json's context, or `-c trackside:name=value`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import trackside
from trackside.contracts.action import Action
from trackside.contracts.action_documents import phone_problem
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean

PREFIX = "trackside:"
MOST_COST_TAGS = 20
MOST_PLACE_CHARACTERS = 256  # it travels in a variable of a processing job

# What CloudWatch Logs offers, up to two years.
LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731)


@dataclasses.dataclass(frozen=True)
class DeploymentSettings:
    """One deployment.

    event_bus_name                name of the bus that verdicts travel on
    evaluator_repository          name of the ECR repository of the rule container
    evaluator_image_tag           tag in it (default: this version)
    evaluator_instance_type       of the processing jobs that judge runs
    evaluator_volume_gb           of their disk
    evaluator_max_runtime_seconds at most 777,600 (9 days); AWS stops the job then
    evaluations_started_at_once   how many start_evaluation functions call SageMaker at a time (2 to 1,000)
    control_calls_per_second      how often stop_training and start_evaluation each call SageMaker (1 to 100)
    custom_rules_from             s3:// prefix below which rule files lie that may judge runs ("": none may). Whoever
                                  may write there may read every run
    custom_rule_repository        name of the ECR repository of the container that runs them
    custom_rule_image_tag         tag in it (default: this version)
    default_actions               for events of the original, which name no action
    dry_run                       true: stop_training says what it would stop and stops nothing. Only what the switch
                                  (an SSM parameter) says at first: a person may change it without a deployment
    stops_per_hour                how many training jobs may be stopped in an hour (0: any number)
    stop_cool_down_minutes        how long after a stop or a veto the same job is not stopped (0: not at all)
    veto_minutes                  how long before a stop people are told of it, and may forbid it (0: made at once)
    stop_after_findings           how many findings of a job must ask for its stop
    stop_after_rules              of how many rules, whose issue still stands
    instance_prices               what an instance costs an hour, as `ml.m5.large=0.12`; to tell what a stop spared
    owner_emails                  who is told of issues and of dead letters; each address confirms once
    owner_phones                  who gets an SMS of issues (`+14155550100`)
    notify_quiet_minutes          after a rule was told of, what it finds anew in the same job is told so much later, as
                                  one message (0: each at once)
    slack_channel                 the channel of Slack that is told what owners are told ("": none)
    slack_secret                  name of the Secrets Manager secret that holds `Bearer xoxb-...`, a bot's token
    webhook_url                   an https:// endpoint that is sent what owners are told, as JSON ("": none)
    webhook_secret                name of the secret that holds the value of its header Authorization
    webhook_calls_per_second      at most so many calls of it
    run_retention_days            when runs are deleted (0: never)
    reconcile_minutes             how often it is looked for what events missed
    record_retention_days         when what is known of a run is forgotten, in the table of runs (0: never)
    archive_retention_days        how long events can be replayed
    log_retention_days            of the functions' logs
    evaluator_silence_minutes     an evaluator that gives no sign of life for so long raises an alarm
    detection_latency_seconds     a verdict that takes so long to its record raises an alarm
    oldest_message_minutes        a message that waits so long for its function raises an alarm
    cost_tags                     `name=value` on all that this deployment makes, and on the processing jobs it starts
    keep_data                     false: `cdk destroy` also deletes the table of runs, the bucket, if it is empty, and
                                  their key
    """

    event_bus_name: str = "trackside"
    evaluator_repository: str = "trackside-evaluator"
    evaluator_image_tag: str = trackside.__version__
    evaluator_instance_type: str = "ml.t3.medium"
    evaluator_volume_gb: int = 10
    evaluator_max_runtime_seconds: int = 432_000
    evaluations_started_at_once: int = 2
    control_calls_per_second: int = 2
    custom_rules_from: str = ""
    custom_rule_repository: str = "trackside-custom-rule"
    custom_rule_image_tag: str = trackside.__version__
    default_actions: tuple[Action, ...] = (Action.NOTIFY, Action.PUBLISH_METRIC)
    dry_run: bool = False
    stops_per_hour: int = 20
    stop_cool_down_minutes: int = 60
    veto_minutes: int = 0
    stop_after_findings: int = 1
    stop_after_rules: int = 1
    instance_prices: tuple[str, ...] = ()
    owner_emails: tuple[str, ...] = ()
    owner_phones: tuple[str, ...] = ()
    notify_quiet_minutes: int = 60
    slack_channel: str = ""
    slack_secret: str = ""
    webhook_url: str = ""
    webhook_secret: str = ""
    webhook_calls_per_second: int = 10
    run_retention_days: int = 90
    reconcile_minutes: int = 5
    record_retention_days: int = 365
    archive_retention_days: int = 30
    log_retention_days: int = 30
    evaluator_silence_minutes: int = 30
    detection_latency_seconds: int = 300
    oldest_message_minutes: int = 30
    cost_tags: tuple[str, ...] = ()
    keep_data: bool = True

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> DeploymentSettings:
        """Reads the `trackside:` entries of a CDK context; texts, as `-c` gives them, are understood too.

        Errors: `ConfigurationError` with every problem at once.
        """
        types = get_type_hints(cls)
        problems: list[Problem] = []
        values: dict[str, Any] = {}
        for key, given in context.items():
            name = key.removeprefix(PREFIX)
            if name == key:
                continue
            if name not in types:
                problems.append(Problem(key, "is not a setting.", did_you_mean(name, types)))
                continue
            try:
                values[name] = _READERS[types[name]](given)
                _CHECKS.get(name, _accept)(values[name])
            except ValueError as error:
                problems.append(Problem(key, f"is {given!r}: {error}."))
        problems += _missing_secrets(values)
        if problems:
            raise ConfigurationError(problems, subject="The deployment's settings (cdk.json, -c)")
        return cls(**values)


def cost_tags(settings: DeploymentSettings) -> tuple[tuple[str, str], ...]:
    """Name and value of every tag that all of a deployment carries: its own, and `project` if it is not among them."""
    given = dict(tag.split("=", 1) for tag in settings.cost_tags)
    return tuple({"project": "trackside", **given}.items())


def _missing_secrets(values: Mapping[str, Any]) -> list[Problem]:
    """Nobody is told anything without proof of who tells it."""
    pairs = {"slack_channel": "slack_secret", "webhook_url": "webhook_secret"}
    return [
        Problem(PREFIX + secret, f"is needed with {PREFIX + name}.", "Name a secret of Secrets Manager.")
        for name, secret in pairs.items()
        if values.get(name) and not values.get(secret)
    ]


def _read_text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("it must be a text")
    return given


def _read_whole(given: Any) -> int:
    if isinstance(given, bool) or not re.fullmatch(r"\d+", str(given)):
        raise ValueError("it must be a whole number")
    return int(given)


def _read_boolean(given: Any) -> bool:
    if str(given).lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return str(given).lower() == "true"


def _read_texts(given: Any) -> tuple[str, ...]:
    items = [item.strip() for item in given.split(",") if item.strip()] if isinstance(given, str) else given
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("it must be a list of texts")
    return tuple(items)


def _read_actions(given: Any) -> tuple[Action, ...]:
    words = _read_texts(given)
    known = {action.value: action for action in Action}
    for word in words:
        if word not in known:
            raise ValueError(f"{word!r} is not an action. {did_you_mean(word, known)}")
    return tuple(dict.fromkeys(known[word] for word in words))


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: _read_text,
    int: _read_whole,
    bool: _read_boolean,
    tuple[str, ...]: _read_texts,
    tuple[Action, ...]: _read_actions,
}


def _accept(value: Any) -> None:
    """Any value of the right type will do."""


def _between(least: int, most: int) -> Callable[[int], None]:
    def check(value: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"it must be {least} to {most}")

    return check


def _matching(pattern: str, example: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"it must look like {example}")

    return check


def _check_log_retention(value: int) -> None:
    if value not in LOG_RETENTION_DAYS:
        raise ValueError(f"CloudWatch offers {', '.join(map(str, LOG_RETENTION_DAYS))}")


def _check_emails(value: tuple[str, ...]) -> None:
    wrong = [address for address in value if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", address)]
    if wrong:
        raise ValueError(f"not an e-mail address: {', '.join(wrong)}")


def _check_phones(value: tuple[str, ...]) -> None:
    problems = [problem for number in value if (problem := phone_problem(number))]
    if problems:
        raise ValueError(" ".join(problems).rstrip("."))


def _check_webhook_url(value: str) -> None:
    """The address stands in the template: one that is itself a secret must not be it."""
    if not value:
        return
    if not re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?(/[\w.~%/+-]*)?", value):
        raise ValueError("it must look like 'https://hooks.example.com/trackside', without a query")
    if re.match(r"https://(hooks\.slack\.com|[^/]*\.webhook\.office\.com)", value):
        raise ValueError("this address is a secret itself, and would stand in the template: use slack_channel")


def _check_prices(value: tuple[str, ...]) -> None:
    wrong = [entry for entry in value if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9-]+=\d+(\.\d+)?", entry)]
    if wrong:
        raise ValueError(f"not like 'ml.m5.large=0.12': {', '.join(wrong)}")


def _check_cost_tags(value: tuple[str, ...]) -> None:
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


def _check_rules_place(value: str) -> None:
    """No blank, asterisk, question mark or dollar sign, all of which would mean more in a policy."""
    place = re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?P<prefix>(/[\w.=@+-]+)*)", value)
    if value and (place is None or {".", ".."} & set(place["prefix"].split("/")) or len(value) > MOST_PLACE_CHARACTERS):
        raise ValueError(
            f"it must look like 's3://our-rules/approved', with at most {MOST_PLACE_CHARACTERS} characters"
        )


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "event_bus_name": _matching(r"(?!aws\.)[\w.-]{1,64}", "'trackside'"),
    "evaluator_repository": _matching(r"[a-z0-9]+([._/-][a-z0-9]+)*", "'trackside-evaluator'"),
    "evaluator_image_tag": _matching(r"\w[\w.-]{0,127}", "'0.1.0'"),
    "evaluator_instance_type": _matching(r"ml\.[a-z0-9-]+\.[a-z0-9-]+", "'ml.t3.medium'"),
    "evaluator_volume_gb": _between(1, 16_384),
    "evaluator_max_runtime_seconds": _between(1, 777_600),
    "evaluations_started_at_once": _between(2, 1_000),
    "control_calls_per_second": _between(1, 100),
    "custom_rules_from": _check_rules_place,
    "custom_rule_repository": _matching(r"[a-z0-9]+([._/-][a-z0-9]+)*", "'trackside-custom-rule'"),
    "custom_rule_image_tag": _matching(r"\w[\w.-]{0,127}", "'0.1.0'"),
    "stops_per_hour": _between(0, 10_000),
    "stop_cool_down_minutes": _between(0, 10_080),
    "veto_minutes": _between(0, 10_080),
    "stop_after_findings": _between(1, 100),
    "stop_after_rules": _between(1, 100),
    "instance_prices": _check_prices,
    "owner_emails": _check_emails,
    "owner_phones": _check_phones,
    "notify_quiet_minutes": _between(0, 10_080),
    "slack_channel": _matching(r"|[#\w-]{1,80}", "'C0123456789'"),
    "slack_secret": _matching(r"|[\w/+=.@-]{1,512}", "'trackside/slack'"),
    "webhook_url": _check_webhook_url,
    "webhook_secret": _matching(r"|[\w/+=.@-]{1,512}", "'trackside/webhook'"),
    "webhook_calls_per_second": _between(1, 300),
    "run_retention_days": _between(0, 36_500),
    "reconcile_minutes": _between(1, 1_440),
    "record_retention_days": _between(0, 36_500),
    "archive_retention_days": _between(1, 36_500),
    "log_retention_days": _check_log_retention,
    "evaluator_silence_minutes": _between(10, 1_440),
    "detection_latency_seconds": _between(10, 86_400),
    "oldest_message_minutes": _between(20, 1_440),  # a stop that waits for its veto lies there for up to 15
    "cost_tags": _check_cost_tags,
}
