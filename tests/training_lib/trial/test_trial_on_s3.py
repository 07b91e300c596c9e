"""What reading a run costs on S3, counted in requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import boto3
import numpy as np
import pytest
from moto import mock_aws

from tests.patience import HANGS_SECONDS
from trackside.contracts.errors import LocationNotFoundError
from trackside.storage.s3 import S3Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial


class Counter:
    """Operations that a client has sent."""

    def __init__(self, client: object) -> None:
        self.client = client
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
    assert opening.count("ListObjectsV2") == 3  # the packed index, the index, the collections
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


def test_a_value_is_one_request_and_lists_nothing(bucket: tuple[S3Store, Counter]) -> None:
    store, counter = bucket
    for step in range(20):
        write_tensors(store, step, {"Loss_output_0": float(step), "Net.weight": np.full(3, step)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    loss, weight = trial.tensor("Loss_output_0"), trial.tensor("Net.weight")
    counter.taken()
    for step in (7, 7, 3):
        assert loss.value(step).tolist() == [step]
        assert counter.taken() == ["GetObject"]
    np.testing.assert_array_equal(weight.values, np.repeat(np.arange(20), 3).reshape(20, 3))
    assert counter.taken() == ["GetObject"] * 19  # step 7 was asked for twice before, and so fetched whole


def test_values_are_fetched_at_the_same_time(bucket: tuple[S3Store, Counter]) -> None:
    store, _ = bucket
    for step in range(8):
        write_tensors(store, step, {"Loss_output_0": float(step)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    together = threading.Barrier(4, timeout=HANGS_SECONDS)  # breaks unless four requests are under way at once
    get = store.get

    def waiting_get(key: str, *, start: int = 0, length: int | None = None) -> bytes:
        together.wait()
        return get(key, start=start, length=length)

    store.get = waiting_get
    assert np.ravel(trial.tensor("Loss_output_0").values).tolist() == [*range(8)]


def test_many_steps_are_fetched_once_for_all_tensors(bucket: tuple[S3Store, Counter]) -> None:
    store, counter = bucket
    for step in range(40):
        write_tensors(store, step, {f"Loss_{i}_output_0": float(step) for i in range(5)})
    end_run(store)
    trial = Trial(store)
    trial.refresh()
    counter.taken()
    for series in trial.tensors(steps="::4"):
        assert series.statistic("mean").steps.tolist() == [*range(0, 40, 4)]
    assert counter.taken() == ["GetObject"] * 10
    for series in trial.tensors():
        assert len(series.statistic("abs_max").steps) == 40
    assert counter.taken() == ["GetObject"] * 40


def test_the_statistics_of_an_old_run_that_has_none_cost_one_listing_a_look(bucket: tuple[S3Store, Counter]) -> None:
    store, counter = bucket
    write_collections(store)
    write_tensors(store, 0, {"Loss_output_0": 1.0})
    statistics = S3Store("runs", "a/statistics", client=counter.client)
    trial = Trial(store, statistics)
    trial.refresh()
    trial.refresh()
    counter.taken()
    trial.refresh()
    assert counter.taken() == ["ListObjectsV2"]  # of the index alone: nobody has asked
    assert trial.names == ("Loss_output_0",)
    assert counter.taken() == ["ListObjectsV2"]
    for _ in range(3):
        trial.refresh()
        assert trial.names == ("Loss_output_0",)
        assert counter.taken() == ["ListObjectsV2"] * 2
