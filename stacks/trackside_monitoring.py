"""A whole deployment as one construct, for an app of our own or anybody else's."""

from __future__ import annotations

import json
from collections.abc import Callable

from aws_cdk import Tags
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.action_stack import Actions
from stacks.dashboard_stack import TeamDashboard
from stacks.deployment_settings import DeploymentSettings, cost_tags
from stacks.evaluation_stack import Evaluation
from stacks.existing_resources import ExistingResources
from stacks.landing_zone import fit_in
from stacks.monitoring_stack import Monitoring
from stacks.paths import CDK_JSON
from stacks.questions_stack import Questions
from stacks.record_stack import Records
from stacks.storage_stack import Storage


class TracksideMonitoring(Construct):
    """Evaluators of training jobs, the actions on their verdicts, the record of runs, and alarms.

    All of it is in the stack of `scope`. One stack holds one of them.

    Attributes:
        bucket: Bucket of runs.
        key: Key of runs, tables and topics.
        bus: Bus of verdicts.
        owner_topic: Topic of notices to owners.
        alarm_topic: Topic of the alarms about Trackside itself.
        reactions: Queue, dead letters and function of each reaction, by name.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: DeploymentSettings | None = None,
        bucket: s3.IBucket | None = None,
        key: kms.IKey | None = None,
        bus: events.IEventBus | None = None,
        owner_topic: sns.ITopic | None = None,
        alarm_topic: sns.ITopic | None = None,
        scope_of: Callable[[str], Construct] | None = None,
    ) -> None:
        """Create all parts.

        Args:
            scope: A stack, or a construct in one.
            construct_id: Identity within `scope`.
            settings: Settings of the deployment in groups. None: the defaults.
            bucket: Existing bucket of runs. Needs `key`, the key that it encrypts with by default.
            key: Existing key.
            bus: Existing bus of verdicts. Events of the source `trackside` are refused there from all other roles.
            owner_topic: Existing topic of notices to owners.
            alarm_topic: Existing topic of alarms. It must let `cloudwatch.amazonaws.com` publish.
            scope_of: Returns the place of `Storage`, `Action`, `Evaluation`, `Record`, `Monitoring`, `Dashboard` and
                `Questions`, for settings that were read from a context. None: all parts are in this construct.

        Raises:
            ConfigurationError: Settings that are wrong, all at once.
        """
        super().__init__(scope, construct_id)
        if scope_of is None:
            self._set_feature_flags()
            settings = (settings or DeploymentSettings()).checked(has_key=key is not None)
        settings = settings or DeploymentSettings()
        existing = ExistingResources(bucket, key, bus, owner_topic, alarm_topic)
        self._create_parts(settings, existing, scope_of or (lambda concern: Construct(self, concern)))
        if scope_of is None:
            for name, value in cost_tags(settings):
                Tags.of(self).add(name, value)
            fit_in(self, settings)

    def _set_feature_flags(self) -> None:
        """Let CDK behave below this construct as our tests know it, whatever the flags of the app are."""
        for name, value in json.loads(CDK_JSON.read_text(encoding="utf-8"))["context"].items():
            if name.startswith("@aws-cdk/"):
                self.node.set_context(name, value)

    def _create_parts(
        self, settings: DeploymentSettings, existing: ExistingResources, scope_of: Callable[[str], Construct]
    ) -> None:
        storage = Storage(scope_of("Storage"), settings=settings, existing=existing)
        action = Actions(
            scope_of("Action"),
            settings=settings,
            key=storage.key,
            run_table=storage.table,
            runs=storage.runs,
            existing=existing,
        )
        evaluation = Evaluation(
            scope_of("Evaluation"),
            settings=settings,
            runs=storage.runs,
            key=storage.key,
            bus=action.bus,
            notify_owner=action.reactions["notify_owner"],
            is_bus_shared=existing.bus is not None,
        )
        record = Records(
            scope_of("Record"),
            settings=settings,
            table=storage.table,
            runs=storage.runs,
            start_queue=evaluation.reactions["start_evaluation"].queue,
            fleet=evaluation.fleet,
            bus=existing.bus,
        )
        self.reactions = {**evaluation.reactions, **action.reactions, **record.reactions}
        monitoring = Monitoring(
            scope_of("Monitoring"),
            settings=settings,
            key=storage.key,
            reactions=self.reactions,
            failed_evaluations=evaluation.failed_evaluations,
            fleet=evaluation.fleet,
            webhooks=action.webhooks,
            existing_topic=existing.alarm_topic,
        )
        if settings.team_dashboard.host:
            TeamDashboard(scope_of("Dashboard"), settings=settings, runs=storage.runs, key=storage.key)
        if settings.questions:
            Questions(scope_of("Questions"), settings=settings, runs=storage.runs, key=storage.key)
        self.bucket, self.key, self.bus = storage.runs, storage.key, action.bus
        self.owner_topic, self.alarm_topic = action.topic, monitoring.topic
