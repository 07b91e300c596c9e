"""What watching a run costs on S3, in requests: opening, minutes of nothing new, a step, the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import boto3
import numpy as np
import pytest
from moto import mock_aws

from tests.training_lib.marked_run import Content, Place, Process
from tests.training_lib.trial.test_s3_requests import GET, LIST, PUT, Requests
from trackside.capture.statistics.statistics_log import LogLimits
from trackside.capture.writing.watermark import SIGN_OF_LIFE_SECONDS
from trackside.storage.s3 import S3Store
from trackside.trial.steps.watermarks import QUIET_SECONDS
from trackside.trial.trial import Trial

LOSS = "Loss_output_0"
MINUTES = 5  # all later ones cost the same
RECORDED = Content(row={(LOSS, "max"): 1.0})
SAVED = Content(row={(LOSS, "max"): 1.0}, tensors={LOSS: np.ones(1, np.float32)})


class World:
    """A run of a few workers on S3, a reader of it, its requests, and a clock that only we move."""

    def __init__(self, client: object, workers: int) -> None:
        self.place, self.requests, self.now = Place(workers, limits=LogLimits()), Requests(client), 0.0
        stores = [S3Store("runs", f"a/{name}", client=client) for name in ("debug-output", "statistics", "watermarks")]
        self.place.to_tensors, self.place.to_statistics, self.place.to_marks = stores
        self.processes = [Process(self.place, rank) for rank in range(workers)]
        self.train(SAVED, RECORDED)
        self.trial = Trial(*stores, clock=lambda: self.now)
        self.requests.taken()

    def train(self, *contents: Content) -> None:
        for process in self.processes:
            for content in contents:
                process.train(content)
                process.store()
            self.place.clock.now += 1.0
            process.flush()

    def look(self, *, after: float = 1.0) -> dict[str, int]:
        """The requests of one look, with what a rule asks at the newest step."""
        self.now += after
        self.requests.taken()
        self.trial.refresh()
        for step in self.trial.new_complete_steps(-1)[-1:]:
            self.trial.window(step, now=0.0).statistic(LOSS, "max")
        return dict(self.requests.taken())


@pytest.fixture(params=[1, 8], ids=["one-worker", "eight-workers"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.session.Session().client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="runs")
        yield World(client, request.param)


def newest(world: World) -> Sequence[int]:
    return world.trial.new_complete_steps(-1)[-1:]


def test_opening(world: World) -> None:
    workers = len(world.processes)
    taken = world.look()
    # Of each worker: watermark, collections, packed index or the one step, the rows. LISTs: packed index, index and
    # collections twice at most, statistics.
    assert taken[LIST] <= 5
    assert taken[GET] <= 5 * workers
    assert set(taken) == {LIST, GET}
    assert newest(world) == [1]
    assert world.look() == {GET: 1}


def test_minutes_of_nothing_new(world: World) -> None:
    world.look()
    looks = 0
    total: dict[str, int] = {}
    for second in range(1, 60 * MINUTES + 1):
        if second % SIGN_OF_LIFE_SECONDS == 0:
            world.place.clock.now += SIGN_OF_LIFE_SECONDS
            for process in world.processes:
                process.flush()
        taken = world.look()
        looks += 1
        for operation, count in taken.items():
            total[operation] = total.get(operation, 0) + count
    signs = 60 * MINUTES / SIGN_OF_LIFE_SECONDS * (len(world.processes) + 1)
    asks_for_the_end = 60 * MINUTES / QUIET_SECONDS
    assert set(total) == {GET}, "no LIST"
    assert looks <= total[GET] <= looks + signs + asks_for_the_end


def test_a_step_with_rows_only(world: World) -> None:
    workers = len(world.processes)
    world.look()
    for _ in range(3):
        world.train(RECORDED)
        assert world.look() == {GET: 2 * workers}  # of each its watermark, and its rows
    assert newest(world) == [4]


def test_a_step_with_tensors(world: World) -> None:
    workers = len(world.processes)
    world.look()
    world.train(SAVED)
    assert world.look() == {GET: 3 * workers, LIST: 1}
    world.trial.columns(LOSS, "mean", last_step=2, mode="TRAIN")
    assert world.requests.taken() == {GET: 2 * workers}, "the tensors themselves, where a rule asks for them"
    assert newest(world) == [2]


def test_many_steps_at_once_cost_as_much_as_one(world: World) -> None:
    workers = len(world.processes)
    world.look()
    world.train(*[RECORDED] * 100)
    assert world.look() == {GET: 2 * workers}
    assert newest(world) == [101]


def test_the_end(world: World) -> None:
    world.look()
    for process in reversed(world.processes):
        process.end()
    taken = world.look()
    assert world.trial.has_ended
    # The index twice: what came while it was listed the first time; collections; statistics, once merged.
    assert taken[LIST] <= 4
    assert taken[GET] <= 4 * len(world.processes) + 1
    assert world.look() == {}


def test_what_the_watermarks_cost_a_training(world: World) -> None:
    """One PUT a flush that has anything new, and one for each sign of life."""
    process = world.processes[-1]
    process.train(RECORDED)
    world.requests.taken()
    process.flush()
    assert world.requests.taken()[PUT] == 2
    process.flush()
    assert not world.requests.taken()
    world.place.clock.now += SIGN_OF_LIFE_SECONDS
    process.flush()
    assert world.requests.taken() == {PUT: 1}
