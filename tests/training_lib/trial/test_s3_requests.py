"""What opening and following a run costs on S3, in requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import boto3
import numpy as np
import pytest
from moto import mock_aws

from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.run_files import RunFiles
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.run_layout import index_key
from trackside.records.step_file import encode_step
from trackside.storage.s3 import S3Store
from trackside.trial.steps.step_index import StepIndex
from trackside.trial.trial import Trial, open_trial

LIST, GET, PUT = "ListObjectsV2", "GetObject", "PutObject"
REQUEST = CaptureRequest((CollectionRequest("losses", Schedule(1)),))


class Requests:
    """The requests that a client has sent: the operation, and the key that it was about."""

    def __init__(self, client: object) -> None:
        self._sent: list[tuple[str, str]] = []
        client.meta.events.register("provide-client-params.s3", self._note)  # type: ignore[attr-defined]

    def _note(self, params: dict[str, str], model: object, **_: object) -> None:
        about = params.get("Key") or params.get("Prefix", "")
        self._sent.append((model.name, about))  # type: ignore[attr-defined]

    def taken(self) -> Counter[str]:
        """How many of each since the last time."""
        sent, self._sent = self._sent, []
        return Counter(operation for operation, _ in sent)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[S3Store, Requests]]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.session.Session().client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="runs")
        yield S3Store("runs", "a/debug-output", client=client), Requests(client)


def writer(store: S3Store, *, rank: int = 0, workers: int = 1, at: float = 1000.0) -> RunFiles:
    return RunFiles(
        lambda: store,
        request=REQUEST,
        worker=f"worker_{rank}",
        num_workers=workers,
        ends_run=rank == 0,
        clock=lambda: at,
    )


def step(number: int) -> StepTensors:
    return StepTensors(number, "TRAIN", number, 7.0, (("MSELoss_output_0", np.ones(1, np.float32)),))


def save(files: RunFiles, first: int, end: int) -> None:
    for number in range(first, end):
        files.save(step(number))


def save_index_only(store: S3Store, numbers: range, *, worker: str = "worker_0") -> None:
    """The indexes of steps as the original writes them; their event files are not asked for here."""
    for number in numbers:
        files = encode_step(
            step(number).tensors, step=number, mode="TRAIN", mode_step=number, worker=worker, wall_time=7.0
        )
        store.put(index_key(number, worker), files.index_bytes)


def index_of(store: S3Store) -> StepIndex:
    index = StepIndex(store, report=lambda error: pytest.fail(str(error)))
    index.refresh()
    return index


def test_saving_costs_two_puts_a_step_and_one_for_every_sixteen(bucket: tuple[S3Store, Requests]) -> None:
    store, requests = bucket
    files = writer(store)
    save(files, 0, 64)
    # Beside them: is the run one that has ended, is the worker's part new, and one file of collections.
    assert requests.taken() == {PUT: 64 * 2 + 64 // 16 + 1, GET: 1, LIST: 1}
    files.finish()
    assert requests.taken() == {PUT: 1}


def test_a_finished_run(bucket: tuple[S3Store, Requests]) -> None:
    store, requests = bucket
    files = writer(store)
    save(files, 0, 200)
    files.finish()
    requests.taken()
    index = index_of(store)
    assert (index.steps, index.has_ended) == ([*range(200)], True)
    # LIST of the packed index (and the end), of the collections, of the rest of the index.
    assert requests.taken() == {LIST: 3, GET: 1 + 1}
    index.refresh()
    assert requests.taken() == {}


@pytest.mark.parametrize("open_it", [Trial, open_trial], ids=["Trial", "open_trial"])
def test_a_trial_opens_with_a_handful_of_requests(
    bucket: tuple[S3Store, Requests], open_it: Callable[[S3Store], Trial]
) -> None:
    store, requests = bucket
    files = writer(store)
    save(files, 0, 100)
    files.finish()
    requests.taken()
    trial = open_it(store)
    trial.refresh()
    assert trial.steps() == tuple(range(100))
    taken = requests.taken()
    assert set(taken) == {LIST, GET}
    assert taken.total() <= 9


@pytest.mark.parametrize("steps", [40, 200])
def test_however_many_steps_open_with_at_most_twenty_requests(bucket: tuple[S3Store, Requests], steps: int) -> None:
    store, requests = bucket
    files = writer(store)
    save(files, 0, steps)
    requests.taken()
    index = index_of(store)
    assert index.steps == [*range(steps)]
    taken = requests.taken()
    # 40 = 2 * 16 + 8, 200 = 12 * 16 + 8: the last eight are not packed yet.
    assert taken == {LIST: 3, GET: 1 + 1 + 8}
    assert taken.total() <= 20


def test_a_live_run(bucket: tuple[S3Store, Requests]) -> None:
    store, requests = bucket
    files = writer(store)
    save(files, 0, 40)
    requests.taken()
    index = index_of(store)
    assert requests.taken() == {LIST: 3, GET: 1 + 1 + 8}
    for _ in range(3):
        assert not index.refresh()
    assert requests.taken() == {LIST: 3}
    save(files, 40, 43)
    requests.taken()
    assert index.refresh()
    assert requests.taken() == {LIST: 1, GET: 3}
    save(files, 43, 300)
    requests.taken()
    assert index.refresh()
    assert requests.taken() == {LIST: 1, GET: 1 + 300 % 16}  # one of them is the packed index, read again
    files.finish()
    requests.taken()
    assert index.refresh()
    assert index.has_ended
    assert requests.taken() == {LIST: 2}  # the second for what was written while the first went on
    assert not index.refresh()
    assert requests.taken() == {}
    assert index.steps == [*range(300)]


@pytest.mark.parametrize("workers", [2, 4])
def test_several_workers(bucket: tuple[S3Store, Requests], workers: int) -> None:
    store, requests = bucket
    files = [writer(store, rank=rank, workers=workers) for rank in range(workers)]
    for each in files:
        save(each, 0, 50)
    requests.taken()
    index = index_of(store)
    assert index.steps == [*range(50)]
    assert index.last_complete == 49
    # For each worker: a packed file, a file of collections, and the two steps that are not packed yet.
    assert requests.taken() == {LIST: 3, GET: workers * (1 + 1 + 2)}
    assert not index.refresh()
    assert requests.taken() == {LIST: 1}
    for each in files:
        save(each, 50, 51)
    requests.taken()
    index.refresh()
    assert requests.taken() == {LIST: 1, GET: workers}
    for each in reversed(files):
        each.finish()
    requests.taken()
    assert index_of(store).has_ended
    assert requests.taken() == {LIST: 3, GET: workers * (1 + 1)}


def test_an_old_run_without_a_packed_index(bucket: tuple[S3Store, Requests]) -> None:
    store, requests = bucket
    save_index_only(store, range(120))
    requests.taken()
    index = index_of(store)
    assert index.steps == [*range(120)]
    assert requests.taken() == {LIST: 2, GET: 120}
    index.expect_workers(1)
    assert not index.refresh()
    assert requests.taken() == {LIST: 1}
    save_index_only(store, range(120, 122))
    requests.taken()
    index.refresh()
    assert requests.taken() == {LIST: 1, GET: 2}


def test_a_late_worker(bucket: tuple[S3Store, Requests]) -> None:
    store, requests = bucket
    first, late = (writer(store, rank=rank, workers=2) for rank in range(2))
    save(first, 0, 32)
    requests.taken()
    index = index_of(store)
    # The other worker's collections are not there, so nobody can say that its steps are not: the index is listed whole.
    assert requests.taken() == {LIST: 3, GET: 1 + 1}
    assert not index.refresh()
    assert requests.taken() == {LIST: 1}
    save(late, 0, 10)
    requests.taken()
    index.refresh()
    assert index.last_complete == 9
    assert requests.taken() == {LIST: 1, GET: 10}
    assert not index.refresh()
    assert requests.taken() == {LIST: 1}


def test_a_run_that_was_continued_is_listed_whole_but_not_read(bucket: tuple[S3Store, Requests]) -> None:
    store, requests = bucket
    save(writer(store), 0, 20)
    save(writer(store, at=2000.0), 16, 48)
    requests.taken()
    index = index_of(store)
    assert index.steps == [*range(48)]
    assert requests.taken() == {LIST: 3, GET: 2 + 1}
    assert not index.refresh()
    assert requests.taken() == {LIST: 1}


def test_what_lies_between_the_index_and_the_end_costs_no_request(bucket: tuple[S3Store, Requests]) -> None:
    store, requests = bucket
    files = writer(store)
    save(files, 0, 16)
    store.put("tensorboard/TRAIN/000000000000_1_host.tfevents", b"")
    requests.taken()
    index = index_of(store)
    requests.taken()
    assert not index.refresh()
    assert requests.taken() == {LIST: 1}
    files.finish()
    requests.taken()
    index.refresh()
    assert index.has_ended
    assert requests.taken() == {LIST: 2}
