"""What is remembered of runs: who writes the table."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from lambdas.record_verdict.settings import RecordVerdictSettings
from stacks.constructs.python_lambda import PowertoolsLayer
from stacks.constructs.queue_backed_function import QueueBackedFunction
from stacks.constructs.run_table import RunTable
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import official_rule_status_changed, rule_status_changed, training_changed


class RecordStack(Stack):
    """`reactions`: by name, as in lambdas/."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: DeploymentSettings,
        table: RunTable,
        bus: events.IEventBus,
    ) -> None:
        super().__init__(scope, construct_id, description="Trackside: what is remembered of runs")
        self._settings, self._table = settings, table
        layer = PowertoolsLayer(self, "Layer")
        self.reactions = {"record_verdict": self._create_record_verdict(layer, bus)}
        for name, reaction in self.reactions.items():
            title = "".join(word.capitalize() for word in name.split("_"))
            CfnOutput(self, f"{title}QueueUrl", value=reaction.queue.queue_url)
            CfnOutput(self, f"{title}DeadLettersUrl", value=reaction.dead_letters.queue_url)

    def _create_record_verdict(self, layer: lambda_.ILayerVersion, bus: events.IEventBus) -> QueueBackedFunction:
        reaction = QueueBackedFunction(
            self,
            "RecordVerdict",
            name="record_verdict",
            description="Trackside: remembers what rules said and what became of jobs",
            settings=RecordVerdictSettings(
                run_table=self._table.table_name, retention_days=self._settings.record_retention_days
            ),
            layer=layer,
            log_retention_days=self._settings.log_retention_days,
        )
        reaction.react_to(
            "RuleStatusChanged", rule_status_changed(), event_bus=bus, description="A rule said something of a job"
        )
        reaction.react_to(
            "OfficialRuleStatusChanged",
            official_rule_status_changed(),
            description="A rule of SageMaker Debugger itself may have said something",
        )
        reaction.react_to(
            "TrainingChanged", training_changed(), description="A training job that opted in is in another state"
        )
        self._table.let(reaction.function, "GetItem", "PutItem", "UpdateItem")
        return reaction
