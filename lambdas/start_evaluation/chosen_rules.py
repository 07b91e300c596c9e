"""The rules that a job chose, put into its run before an evaluator reads them.

The evaluator reads one place, `<run>/rule-request.json`. An existing request is the job owner's own and is never
replaced. A wrong choice is judged by the deployment's default and not left unjudged: a job with chosen rules should be
watched, and a misspelled name must not cost a night of training. The bus carries a message to the owner.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.runs import account_of, split_uri
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.action import Action
from trackside.contracts.deployment.shared_places import SHARED, may_read
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.event import (
    DETAIL_TYPE,
    MOST_STATUS_DETAILS,
    SOURCE,
    RuleEvaluation,
    RuleEvaluationStatus,
    TrainingJob,
)
from trackside.contracts.fields import to_json
from trackside.contracts.job_choice import (
    CHOICE_NAME,
    JobChoice,
    S3Reference,
    chosen_by_document,
    chosen_by_words,
    is_reference,
    read_reference,
)
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import MOST_BYTES, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY, RunLocation
from trackside.contracts.verdict import Severity

ReadDocument = Callable[[str], bytes]


@dataclass(frozen=True)
class Chosen:
    """The rules that judge, and the mistake in the choice ("": none)."""

    request: RuleRequest
    complaint: str = ""


def chosen_rules(choice: JobChoice, *, default: str, read_document: ReadDocument) -> Chosen | None:
    """Return the rules that judge; None if neither the job nor the deployment chose any.

    For None the evaluator's own default holds. `read_document` returns the content of a reference. A
    `ConfigurationError` is never raised; errors of AWS are.
    """
    if not choice.rules and not choice.actions and not default:
        return None
    complaints: list[str] = []
    for rules, actions in _attempts(choice, default):
        try:
            return Chosen(_read(rules, actions, read_document), " ".join(complaints))
        except ConfigurationError as error:
            complaints.append(str(error))
    return Chosen(chosen_by_words("", "", catalogue=built_in_catalogue()), " ".join(complaints))


def _attempts(choice: JobChoice, default: str) -> list[tuple[str, str]]:
    """Return the choices to try, in turn: the job's, then the deployment's default without the job's actions."""
    own = (choice.rules or default, choice.actions)
    return [own] if own == (default, "") or not default else [own, (default, "")]


def _read(rules: str, actions: str, read_document: ReadDocument) -> RuleRequest:
    catalogue = built_in_catalogue()
    if is_reference(rules):
        return chosen_by_document(read_document(rules), actions, catalogue=catalogue)
    return chosen_by_words(rules, actions, catalogue=catalogue)


class RuleChoice:
    """The choice of rules of a job. Errors of its methods: `ClientError`; the message comes again."""

    def __init__(self, settings: StartEvaluationSettings) -> None:
        self._settings = settings

    def settle(self, job: TrainingJob, run: RunLocation, choice: JobChoice) -> Done | Nothing:
        """Put the chosen rules into the run, unless it has a request."""
        bucket, prefix = split_uri(run)
        key = f"{prefix}/{RULE_REQUEST_KEY}"
        if _exists(bucket, key):
            return Nothing(f"{run.uri} has its rule request.")
        read = partial(self._read_document, job, run)
        chosen = chosen_rules(choice, default=self._settings.default_rules, read_document=read)
        if chosen is None:
            return Nothing(f"{job.name} chose no rules.")
        if chosen.complaint:
            self.complain(job, run, f"{chosen.complaint} The deployment's default judges instead.")
        if not _put_new(bucket, key, chosen.request.to_json().encode()):
            return Nothing(f"{run.uri} has its rule request by now.")
        names = ", ".join(rule.name for rule in chosen.request.rules)
        return Done(f"{job.name} is judged by {names}" + (", not by its own choice." if chosen.complaint else "."))

    def take_over(self, job: TrainingJob, run: RunLocation, earlier: RunLocation) -> Done | Nothing:
        """Let the rules that judged the run before judge this one, which continues it, wherever they came from."""
        if not may_read(run.uri, earlier.uri, account=account_of(job.arn)):
            return Nothing(f"{earlier.uri} is not read for {run.uri}, which continues it.", surprising=True)
        (bucket, prefix), (before, folder) = split_uri(run), split_uri(earlier)
        try:
            body = client("s3").get_object(Bucket=before, Key=f"{folder}/{RULE_REQUEST_KEY}")["Body"].read()
        except ClientError as error:
            if code_of(error) != "NoSuchKey":
                raise
            return Nothing(f"{earlier.uri} has no rule request.")
        if not _put_new(bucket, f"{prefix}/{RULE_REQUEST_KEY}", body):
            return Nothing(f"{run.uri} has its rule request.")
        return Done(f"{job.name} is judged by the rules of {earlier.uri}, which it continues.")

    def complain(self, job: TrainingJob, run: RunLocation | None, reason: str) -> Nothing:
        """Report on the bus that a choice is wrong: it is recorded, shown and mailed."""
        evaluation = RuleEvaluation(
            job=job,
            configuration_name=CHOICE_NAME,
            status=RuleEvaluationStatus.ERROR,
            details=" ".join(reason.split())[:MOST_STATUS_DETAILS],
            severity=Severity.WARNING,
            actions=(Action.NOTIFY,),
            run_uri=run.uri if run else "",
            modified_at=time.time(),
        )
        answer = client("events").put_events(
            Entries=[
                {
                    "Source": SOURCE,
                    "DetailType": DETAIL_TYPE,
                    "Detail": to_json(evaluation.to_detail()),
                    "EventBusName": self._settings.event_bus,
                    "Resources": [job.arn],
                }
            ]
        )
        if answer["FailedEntryCount"]:
            raise OSError(f"The bus did not take the report of the wrong choice of {job.name}: {answer['Entries']}.")
        return Nothing(reason, surprising=True)

    def _read_document(self, job: TrainingJob, run: RunLocation, address: str) -> bytes:
        below = self._settings.rule_parameters_below
        reference = read_reference(address, bucket=self._settings.run_bucket, parameters_below=below)
        folder, is_own = address.rpartition("/")[0], address != self._settings.default_rules
        if is_own and isinstance(reference, S3Reference) and not may_read(run.uri, folder, account=account_of(job.arn)):
            fix = f"Put it into the folder of the job's run, or into s3://{reference.bucket}/{SHARED}/."
            problem = Problem(address, f"lies in a folder that is not read for {run.uri}.", fix)
            raise ConfigurationError([problem], subject="The job's choice of rules")
        try:
            if isinstance(reference, S3Reference):
                body: bytes = (
                    client("s3").get_object(Bucket=reference.bucket, Key=reference.key)["Body"].read(MOST_BYTES + 1)
                )
                return body
            value = client("ssm").get_parameter(Name=reference.name)["Parameter"]["Value"]
        except ClientError as error:
            if code_of(error) not in {"NoSuchKey", "ParameterNotFound", "AccessDenied", "AccessDeniedException"}:
                raise
            problem = Problem(address, f"cannot be read: {code_of(error)}.", "Put it there before the job starts.")
            raise ConfigurationError([problem], subject="The job's choice of rules") from error
        return str(value).encode()


def _put_new(bucket: str, key: str, body: bytes) -> bool:
    """Put an object, and return False if one is in its place. Errors: `ClientError`."""
    try:
        client("s3").put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
    except ClientError as error:
        if code_of(error) not in {"PreconditionFailed", "ConditionalRequestConflict"}:
            raise
        return False
    return True


def _exists(bucket: str, key: str) -> bool:
    try:
        client("s3").head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if code_of(error) not in {"404", "NoSuchKey", "NotFound"}:
            raise
        return False
    return True
