"""The reaction that notifies owners, and counts issues."""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_lambda as lambda_

from lambdas.notify_owner.settings import NotifyOwnerSettings
from stacks.constructs.acknowledge import accept_wildcard, name_in_findings
from stacks.constructs.action_reaction import ActionParts, create_reaction, let_publish
from stacks.constructs.allow import allow
from stacks.constructs.queue_backed_function import QueueBackedFunction
from stacks.event_patterns import custom_rule_failed, nothing_judged, wrong_choice
from stacks.webhooks import let_publish_to_webhooks
from trackside.contracts.action import Action
from trackside.contracts.deployment.metrics import issue_namespace
from trackside.contracts.run_layout import PICTURES_PREFIX, REPORT_KEY, RULE_OUTPUT


def create(action: Action, parts: ActionParts) -> QueueBackedFunction:
    """Create the reaction, which also reports wrong choices of rules and runs that nothing judged."""
    reaction = create_reaction(
        action,
        parts,
        settings=lambda queue: NotifyOwnerSettings.of(
            parts.settings,
            parts.settings.notices,
            topic_arn=parts.topic.topic_arn,
            idempotency_table=parts.table.table_name,
            queue_url=queue.queue_url,
            namespace=issue_namespace(parts.settings.environment),
            event_bus=parts.bus.event_bus_name if parts.has_webhooks else "",
            run_bucket=parts.runs.bucket_name,
            dashboard_url=f"https://{parts.settings.team_dashboard.host}" if parts.settings.team_dashboard.host else "",
            dashboard_runs=parts.settings.team_dashboard.place(parts.runs.bucket_name),
            slack_header_from=parts.settings.notices.slack_secret,
            teams_address_from=parts.settings.notices.teams_secret,
        ),
    )
    about = "What a job says of its rules cannot be done"
    reaction.react_to("WrongChoice", wrong_choice(), event_bus=parts.bus, description=about)
    function, queue = reaction.function, reaction.queue.queue_arn
    let_publish(function, parts, why="Its purpose: notifies subscribers of an issue.")
    why = "What a rule finds while it is quiet waits in the queue."
    allow(function, "TellLater", ["sqs:SendMessage"], [queue], why=why)
    if parts.has_webhooks:
        let_publish_to_webhooks(function, parts.bus)
    if parts.settings.notices.slack_channel:
        why = "Posts the messages of owners to Slack, and reads its answer."
        _let_read_secret(function, "ReadTheTokenOfSlack", parts.settings.notices.slack_secret, why=why)
    if parts.settings.notices.teams_secret:
        why = "Posts the messages of owners to Teams, whose address is a secret."
        _let_read_secret(function, "ReadTheAddressOfTeams", parts.settings.notices.teams_secret, why=why)
    if parts.settings.notices.report_link_hours:
        _let_open_reports(function, parts)
    about = "A processing job that judges by a rule from a file failed: its owner must know"
    reaction.react_to("CustomRuleFailed", custom_rule_failed(parts.runs.bucket_name), description=about)
    about = "No rule could judge a run: its owner must know"
    reaction.react_to("NothingJudged", nothing_judged(parts.runs.bucket_name), description=about)
    return reaction


def _let_open_reports(function: lambda_.Function, parts: ActionParts) -> None:
    """Let the links that the function signs open reports: a link may do what its signer may."""
    opened = [f"*/{RULE_OUTPUT}/{REPORT_KEY}"]
    if parts.settings.notices.slack_channel:
        opened.append(f"*/{RULE_OUTPUT}/{PICTURES_PREFIX}*.png")
    why = "Whoever opens a link of a message reads the report, or the picture, in the name of this function."
    allow(function, "OpenReports", ["s3:GetObject"], [parts.runs.arn_for_objects(each) for each in opened], why=why)
    through_s3 = {"StringEquals": {"kms:ViaService": f"s3.{Stack.of(function).region}.amazonaws.com"}}
    why = "Reports are encrypted with this key."
    allow(function, "DecryptReports", ["kms:Decrypt"], [parts.key.key_arn], conditions=through_s3, why=why)
    for each in opened:
        where = f"{name_in_findings(parts.runs)}/{each}"
        accept_wildcard(function, where, reason="A run lies where its job's tag says; only reports are opened.")


def _let_read_secret(function: lambda_.Function, statement: str, secret_name: str, *, why: str) -> None:
    """Let the function read a secret of that name: Secrets Manager adds six signs to the name."""
    name = f"{secret_name}-??????"
    secret = Stack.of(function).format_arn(
        service="secretsmanager", resource="secret", resource_name=name, arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    allow(function, statement, ["secretsmanager:GetSecretValue"], [secret], why=why)
    where = f"arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:{name}"
    accept_wildcard(function, where, reason="Secrets Manager adds six signs to the name of a secret.")
