"""Processing jobs run where the deployment says, and are asked for nothing that it does not say."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from lambdas.start_evaluation.placement import cluster_of, network_of
from lambdas.start_evaluation.settings import StartEvaluationSettings
from tests.lambda_settings import made

PLAIN = {"InstanceCount": 1, "InstanceType": "ml.t3.medium", "VolumeSizeInGB": 10}
KEY = "arn:aws:kms:us-east-1:123456789012:key/abc"
ENCRYPTED = {"EnableInterContainerTrafficEncryption": True}
TWO = {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}


def settings(**given: Any) -> StartEvaluationSettings:
    return made(
        StartEvaluationSettings, image_uri="image", role_arn="role", run_bucket="runs", event_bus="trackside", **given
    )


@pytest.mark.parametrize(
    ("given", "cluster", "network"),
    [
        pytest.param({}, PLAIN, {}, id="nothing asked for"),
        pytest.param({"volume_key_arn": KEY}, {**PLAIN, "VolumeKmsKeyId": KEY}, {}, id="a key"),
        pytest.param({"encrypt_traffic": True}, PLAIN, {"NetworkConfig": ENCRYPTED}, id="encrypted traffic"),
        pytest.param(
            {"subnets": ("subnet-1", "subnet-2"), "security_groups": ("sg-1",)},
            PLAIN,
            {"NetworkConfig": {"VpcConfig": TWO}},
            id="a VPC",
        ),
        pytest.param(
            {"subnets": ("subnet-1", "subnet-2"), "security_groups": ("sg-1",), "encrypt_traffic": True},
            PLAIN,
            {"NetworkConfig": {**ENCRYPTED, "VpcConfig": TWO}},
            id="both",
        ),
    ],
)
def test_places_a_job(given: dict[str, Any], cluster: dict[str, Any], network: dict[str, Any]) -> None:
    assert cluster_of(settings(**given)) == cluster
    assert network_of(settings(**given)) == network
    request = {
        "ProcessingJobName": "trackside-x",
        "AppSpecification": {"ImageUri": "image"},
        "RoleArn": "arn:aws:iam::123456789012:role/x",
        "ProcessingResources": {"ClusterConfig": cluster},
        **network,
    }
    sagemaker = boto3.client("sagemaker")
    with Stubber(sagemaker) as stub:  # botocore checks the request against SageMaker's service model
        stub.add_response(
            "create_processing_job",
            {"ProcessingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:processing-job/x"},
            request,
        )
        sagemaker.create_processing_job(**request)
