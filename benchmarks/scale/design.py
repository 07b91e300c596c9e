"""What is deployed, as far as it matters at scale. tests/benchmarks/test_scale.py holds it against the templates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from lambdas.reconcile.settings import ReconcileSettings
from lambdas.start_evaluation.settings import StartEvaluationSettings
from lambdas.stop_training.settings import StopTrainingSettings
from stacks.deployment_settings import DeploymentSettings, cost_tags

MODES = ("per-job", "per-rule", "fleet")
BUCKET = "runs"


@dataclass(frozen=True)
class QueueDesign:
    """A queue and its function; `most_at_once` None: as many as the account allows."""

    batch_size: int = 10
    most_at_once: int | None = 5
    timeout_seconds: float = 30.0
    attempts: int = 5

    @property
    def visibility_seconds(self) -> float:
        return 6 * self.timeout_seconds


@dataclass(frozen=True)
class FleetDesign:
    """Workers that lease runs (stacks/constructs/evaluator_fleet.py, cloud/fleet/worker.py): how many runs each judges
    at once, how loaded they shall be, how many there are. `most_workers` is not the default, 10, but enough."""

    runs_per_worker: int = 8
    target_load: float = 0.7
    least_workers: int = 1
    most_workers: int = 2_000
    poll_seconds: float = 1.0
    scale_seconds: float = 60.0
    renew_seconds: float = 20.0


@dataclass(frozen=True)
class Design:
    """`queues`: by the reaction's name, those that differ from `usual_queue`."""

    settings: DeploymentSettings = field(default_factory=DeploymentSettings)
    queues: Mapping[str, QueueDesign] = field(default_factory=dict)
    usual_queue: QueueDesign = QueueDesign()
    fleet: FleetDesign = FleetDesign()
    reconcile_most_pages: int = ReconcileSettings.most_pages
    reconcile_most_described: int = ReconcileSettings.most_described
    one_mail_an_hour: bool = True
    remembers_starts: bool = True

    def queue(self, reaction: str) -> QueueDesign:
        return self.queues.get(reaction, self.usual_queue)

    @property
    def start(self) -> StartEvaluationSettings:
        """As `EvaluationStack` sets them."""
        settings = self.settings
        return StartEvaluationSettings.of(
            settings.evaluator,
            settings.watching,
            settings.place,
            settings.accounts,
            image_uri="image",
            role_arn="role",
            run_bucket=BUCKET,
            event_bus=settings.event_bus_name,
            pause_milliseconds=0,
            cost_tags=tuple("=".join(tag) for tag in cost_tags(settings)),
            custom_rules_from=settings.custom_rules.rules_from,
            custom_rule_image_uri="",
            custom_rule_role_arn="",
            evaluator_mode=settings.evaluator.mode,
            lease_table="",
            fleet_queue_url="",
            failed_queue_url="",
            notify_queue_url="",
            untagged_runs="",
            rule_parameters_below="/trackside/trackside/rules",
        )

    @property
    def stop(self) -> StopTrainingSettings:
        """As `ActionStack` sets them."""
        settings = self.settings
        return StopTrainingSettings.of(
            settings,
            settings.stops,
            settings.accounts,
            idempotency_table="done",
            run_table="runs",
            queue_url="stop",
            topic_arn="topic",
            dry_run_parameter="dry-run",
            retention_days=settings.retention.record_days,
            pause_milliseconds=0,
            spoke_role="",
            external_id="",
        )

    @property
    def reconcile(self) -> ReconcileSettings:
        """As `RecordStack` sets them."""
        return ReconcileSettings.of(
            self.settings.monitoring,
            run_table="runs",
            start_queue_url="start",
            record_queue_url="record",
            run_bucket=BUCKET,
            dry_run_parameter="dry-run",
            retention_days=self.settings.retention.record_days,
            evaluator_mode=self.settings.evaluator.mode,
            lease_table="",
            every_minutes=self.settings.monitoring.reconcile_minutes,
            sends_untagged=False,
            most_pages=self.reconcile_most_pages,
            most_described=self.reconcile_most_described,
        )


def before() -> Design:
    """As it was before this simulation: every queue in batches of ten, and only starts held back."""
    at_once = DeploymentSettings().evaluator.started_at_once
    usual = QueueDesign(most_at_once=None, attempts=3)
    limits = {"start_evaluation": at_once, "reconcile": 2}
    return Design(
        queues={name: dataclasses.replace(usual, most_at_once=most) for name, most in limits.items()},
        usual_queue=usual,
        reconcile_most_pages=10,
        reconcile_most_described=20,
        one_mail_an_hour=False,
        remembers_starts=False,
    )


def deployed() -> Design:
    """As it is."""
    settings = DeploymentSettings()
    return Design(
        settings,
        queues={
            "start_evaluation": QueueDesign(batch_size=1, most_at_once=settings.evaluator.started_at_once),
            "stop_training": QueueDesign(batch_size=1, most_at_once=settings.stops.made_at_once),
            "reconcile": QueueDesign(batch_size=1, most_at_once=2, timeout_seconds=300.0),
        },
    )
