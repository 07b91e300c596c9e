"""What reading a run costs on S3, counted in requests."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import numpy as np
import pytest
from moto import mock_aws

from trackside.contracts.errors import LocationNotFoundError
from trackside.storage.s3 import S3Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial


class Counter:
    """Operations that a client has sent."""

    def __init__(self, client: object) -> None:
        self.sent: list[str] = []
        client.meta.events.register("before-call.s3", self._note)  # type: ignore[attr-defined]

    def _note(self, model: object, **_: object) -> None:
        self.sent.append(model.name)  # type: ignore[attr-defined]

    def taken(self) -> list[str]:
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[S3Store, Counter]]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.session.Session().client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="runs")
        yield S3Store("runs", "a/debug-output", client=client), Counter(client)


def test_requests_of_a_growing_run(bucket: tuple[S3Store, Counter]) -> None:
    store, counter = bucket
    write_collections(store)
    for step in range(20):
        write_tensors(store, step, {f"gradient/Net_fc{i}.weight": np.ones(4) for i in range(6)})
    counter.taken()
    trial = Trial(store)
    trial.refresh()
    opening = counter.taken()
    assert opening.count("ListObjectsV2") == 2  # the index, and the collections
    assert opening.count("GetObject") == 20 + 1
    trial.refresh()
    assert counter.taken() == ["ListObjectsV2"]
    for step in trial.steps():
        window = trial.window(step, now=0)
        for name in window.tensors("gradients"):
            assert window.statistic(name, "abs_mean")[0].steps[-1] == step
    assert counter.taken() == ["GetObject"] * 20  # one a step: neighbours together, nothing twice, nothing listed
    end_run(store)
    counter.taken()
    trial.refresh()
    assert trial.has_ended
    assert counter.taken() == ["ListObjectsV2"] * 2
    trial.refresh()
    assert counter.taken() == []


def test_a_missing_bucket_is_said(bucket: tuple[S3Store, Counter]) -> None:
    _, _ = bucket
    client = boto3.session.Session().client("s3", region_name="us-east-1")
    with pytest.raises(LocationNotFoundError, match="no bucket 'elsewhere'"):
        Trial(S3Store("elsewhere", "run", client=client)).refresh()
