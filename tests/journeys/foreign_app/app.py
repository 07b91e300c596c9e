"""An app of another team: its own modules, its own bucket, key, bus and topic, none of Trackside's settings."""

import sys

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from trackside_cdk import (
    Action,
    DeploymentSettings,
    StopSettings,
    TracksideMonitoring,
)

from stacks.team_stack import TEAM  # type: ignore[import-not-found]  # Trackside's checkout has a package stacks, too

app = cdk.App(outdir=sys.argv[1])
stack = cdk.Stack(app, "MachineLearning")
key = kms.Key(stack, "Key")
monitoring = TracksideMonitoring(
    stack,
    "Trackside",
    settings=DeploymentSettings(default_actions=(Action.NOTIFY,), stops=StopSettings(stops_per_hour=5)),
    bucket=s3.Bucket(stack, "Runs", encryption_key=key),
    key=key,
    bus=events.EventBus(stack, "Team", event_bus_name=TEAM),
    owner_topic=sns.Topic(stack, "Pager"),
)
cdk.CfnOutput(stack, "TopicOfStops", value=monitoring.owner_topic.topic_arn)
app.synth()
