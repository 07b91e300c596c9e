"""Runs are private, encrypted and deleted in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


@pytest.fixture(scope="session")
def buckets(templates: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    found = {name: body for name, body in templates["TracksideStorage"].items() if body["Type"] == "AWS::S3::Bucket"}
    assert len(found) == 2
    return found


def test_no_bucket_is_public(buckets: Mapping[str, Any]) -> None:
    for bucket in buckets.values():
        assert set(bucket["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
        assert bucket["Properties"]["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


def test_runs_are_encrypted_with_our_key_and_their_accesses_logged(buckets: Mapping[str, Any]) -> None:
    (runs,) = [body["Properties"] for name, body in buckets.items() if name.startswith("Runs")]
    (encryption,) = runs["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert encryption["BucketKeyEnabled"] is True
    assert "AccessLogs" in str(runs["LoggingConfiguration"])


def test_everything_in_a_bucket_ends(buckets: Mapping[str, Any]) -> None:
    for bucket in buckets.values():
        rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
        assert any(rule.get("ExpirationInDays") == 90 for rule in rules)
        assert any("AbortIncompleteMultipartUpload" in rule for rule in rules)


def test_what_cannot_be_made_again_outlives_the_stack(templates: Mapping[str, Mapping[str, Any]]) -> None:
    kept = {body["Type"] for body in templates["TracksideStorage"].values() if body.get("DeletionPolicy") == "Retain"}
    assert kept == {"AWS::S3::Bucket", "AWS::KMS::Key", "AWS::DynamoDB::Table"}


def test_the_key_rotates(templates: Mapping[str, Mapping[str, Any]]) -> None:
    (key,) = [body for body in templates["TracksideStorage"].values() if body["Type"] == "AWS::KMS::Key"]
    assert key["Properties"]["EnableKeyRotation"] is True


def test_the_table_of_runs_is_encrypted_with_our_key_and_can_be_restored_to_any_second(
    templates: Mapping[str, Mapping[str, Any]],
) -> None:
    (table,) = [
        body["Properties"] for body in templates["TracksideStorage"].values() if body["Type"] == "AWS::DynamoDB::Table"
    ]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["SSESpecification"]["SSEType"] == "KMS"
    assert "Key" in str(table["SSESpecification"]["KMSMasterKeyId"])
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "shelves"
