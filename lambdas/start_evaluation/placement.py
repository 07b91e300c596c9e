"""The place of a processing job, and the encryption of its disks and its traffic."""

from __future__ import annotations

from typing import Any

from lambdas.start_evaluation.settings import StartEvaluationSettings


def cluster_of(settings: StartEvaluationSettings) -> dict[str, Any]:
    """Return CreateProcessingJob's `ClusterConfig`."""
    cluster: dict[str, Any] = {
        "InstanceCount": 1,
        "InstanceType": settings.instance_type,
        "VolumeSizeInGB": settings.volume_gb,
    }
    return {**cluster, "VolumeKmsKeyId": settings.volume_key_arn} if settings.volume_key_arn else cluster


def network_of(settings: StartEvaluationSettings) -> dict[str, Any]:
    """Return CreateProcessingJob's `NetworkConfig`, as a part of its request; nothing if the deployment sets none.

    Never isolated: a rule container reads the run and reports on the bus through the network.
    """
    network: dict[str, Any] = {}
    if settings.encrypt_traffic:
        network["EnableInterContainerTrafficEncryption"] = True
    if settings.subnets:
        subnets, groups = list(settings.subnets), list(settings.security_groups)
        network["VpcConfig"] = {"Subnets": subnets, "SecurityGroupIds": groups}
    return {"NetworkConfig": network} if network else {}
