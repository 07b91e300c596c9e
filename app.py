"""Composition of the deployment. `cdk synth` needs no credentials and no network."""

from __future__ import annotations

import sys

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from stacks.deployment_settings import DeploymentSettings, cost_tags
from stacks.hub_stack import HubStack
from stacks.landing_zone import fit_in
from stacks.spoke_stack import SpokeStack
from stacks.trackside_monitoring import TracksideMonitoring
from trackside.contracts.errors import ConfigurationError

# One stack for each concern: data outlives the rest.
STACKS = {
    "Storage": "Trackside: where runs lie",
    "Action": "Trackside: the actions on a verdict",
    "Evaluation": "Trackside: the evaluators of runs",
    "Record": "Trackside: the records of runs",
    "Monitoring": "Trackside: alarms",
    "Dashboard": "Trackside: the dashboard of a team",
    "Questions": "Trackside: questions about all runs",
}


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
    def stack_of(concern: str) -> cdk.Stack:
        return cdk.Stack(
            app,
            f"Trackside{concern}",
            stack_name=settings.stack_name(f"Trackside{concern}"),
            description=STACKS[concern],
            termination_protection=settings.keep_data if concern == "Storage" else None,
        )

    monitoring = TracksideMonitoring(app, "Trackside", settings=settings, scope_of=stack_of)
    if settings.accounts.spoke_accounts:
        HubStack(app, "TracksideHub", settings=settings, stop_training=monitoring.reactions["stop_training"].function)


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
