"""A stopped training job, as SageMaker describes it, and the finding that stopped it, for tests of what follows."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from lambdas.stop_training.settings import StopTrainingSettings
from tests.lambda_settings import made
from trackside.contracts.action import Action
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"
ROLE = "arn:aws:iam::123456789012:role/training"
CREATED_AT = 1_795_220_000
CHECKPOINT = "/opt/ml/checkpoints/checkpoint-500"
TAGS = {"trackside:run": "s3://runs-bucket/digits-01", "trackside:rules": "loss-spike", "team": "vision"}
FOUND = RuleEvaluation(
    job=TrainingJob("digits-01", ARN, CREATED_AT),
    configuration_name="loss-spike",
    rule_id="loss-spike",
    status=RuleEvaluationStatus.ISSUES_FOUND,
    details="The loss rose to 40 times its usual value.",
    actions=(Action.RESUME_TRAINING, Action.NOTIFY),
    modified_at=CREATED_AT + 3600.0,
    evidence=Evidence(step=640, since_step=620, checkpoint=CHECKPOINT, checkpoint_step=499),
)
SETTINGS = made(
    StopTrainingSettings,
    idempotency_table="done",
    run_table="runs",
    queue_url="queue",
    topic_arn="topic",
    dry_run_parameter="switch",
    resume_roles=(ROLE,),
)


def described(**changes: Any) -> dict[str, Any]:
    """DescribeTrainingJob's answer about the job. A change to None takes a field away."""
    answer = {
        "TrainingJobName": "digits-01",
        "TrainingJobArn": ARN,
        "TrainingJobStatus": "Stopped",
        "SecondaryStatus": "Stopped",
        "CreationTime": datetime.fromtimestamp(CREATED_AT, tz=timezone.utc),
        "ModelArtifacts": {"S3ModelArtifacts": "s3://runs-bucket/model"},
        "BillableTimeInSeconds": 7200,
        "RoleArn": ROLE,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "HyperParameters": {"lr": "0.1"},
        "DebugRuleConfigurations": [],
        "OutputDataConfig": {"S3OutputPath": "s3://anywhere"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 2,
            "VolumeSizeInGB": 30,
            "KeepAlivePeriodInSeconds": 600,
        },
        "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
        "StoppingCondition": {"MaxRuntimeInSeconds": 36_000, "MaxWaitTimeInSeconds": 72_000},
        "EnableManagedSpotTraining": True,
        "EnableNetworkIsolation": False,
        "CheckpointConfig": {"S3Uri": "s3://runs-bucket/checkpoints/digits-01"},
        "Environment": {"TRACKSIDE_RUN": "s3://runs-bucket/digits-01", "SEED": "7"},
        **changes,
    }
    return {name: value for name, value in answer.items() if value is not None}
