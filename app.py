"""Composition of the deployment. `cdk synth` needs no credentials and no network."""

from __future__ import annotations

import sys

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from stacks.action_stack import ActionStack
from stacks.deployment_settings import DeploymentSettings, cost_tags
from stacks.evaluation_stack import EvaluationStack
from stacks.hub_stack import HubStack
from stacks.landing_zone import fit_in
from stacks.monitoring_stack import MonitoringStack
from stacks.record_stack import RecordStack
from stacks.spoke_stack import SpokeStack
from stacks.storage_stack import StorageStack
from trackside.contracts.errors import ConfigurationError


def compose(app: cdk.App, settings: DeploymentSettings) -> None:
    """Create all stacks of one deployment; for a spoke, only its own."""
    if settings.accounts.hub_account:
        SpokeStack(app, "TracksideSpoke", settings=settings)
    else:
        _compose_whole(app, settings)
    for name, value in cost_tags(settings):
        cdk.Tags.of(app).add(name, value)
    fit_in(app, settings)


def _compose_whole(app: cdk.App, settings: DeploymentSettings) -> None:
    storage = StorageStack(app, "TracksideStorage", settings=settings)
    action = ActionStack(
        app, "TracksideAction", settings=settings, key=storage.key, run_table=storage.table, runs=storage.runs
    )
    evaluation = EvaluationStack(
        app,
        "TracksideEvaluation",
        settings=settings,
        runs=storage.runs,
        key=storage.key,
        bus=action.bus,
        notify_owner=action.reactions["notify_owner"],
    )
    record = RecordStack(
        app,
        "TracksideRecord",
        settings=settings,
        table=storage.table,
        runs=storage.runs,
        start_queue=evaluation.reactions["start_evaluation"].queue,
        fleet=evaluation.fleet,
    )
    reactions = {**evaluation.reactions, **action.reactions, **record.reactions}
    MonitoringStack(
        app,
        "TracksideMonitoring",
        settings=settings,
        key=storage.key,
        reactions=reactions,
        failed_evaluations=evaluation.failed_evaluations,
        fleet=evaluation.fleet,
        webhooks=action.webhooks,
    )
    if settings.accounts.spoke_accounts:
        HubStack(app, "TracksideHub", settings=settings, stop_training=action.reactions["stop_training"].function)


def main() -> None:
    app = cdk.App()
    try:
        settings = DeploymentSettings.from_context(app.node.get_all_context())
    except ConfigurationError as error:
        sys.exit(str(error))
    compose(app, settings)
    # A finding that no construct acknowledges with its reason fails the synthesis.
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    app.synth()


if __name__ == "__main__":
    main()
