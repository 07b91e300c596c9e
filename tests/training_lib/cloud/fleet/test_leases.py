"""Who may judge which run, and until when: against DynamoDB as moto has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws

from benchmarks.fleet_kills import create_lease_table
from trackside.cloud.fleet.leases import Leases, LeaseTerms
from trackside.contracts.deployment.lease import LeaseRecord, LeaseState, NewsRecord
from trackside.contracts.event import TrainingJob

TERMS = LeaseTerms(seconds=60, margin_seconds=15)


def record(name: str, *, free_at: float = 0.0, owner: str = "", crashes: int = 0) -> LeaseRecord:
    return LeaseRecord(TrainingJob(name, f"arn:{name}"), f"s3://runs/{name}", free_at, owner=owner, crashes=crashes)


class Table:
    def __init__(self) -> None:
        self.client: Any = boto3.client("dynamodb", region_name="us-east-1")
        create_lease_table(self.client, "leases")

    def put(self, *records: LeaseRecord) -> None:
        for each in records:
            self.client.put_item(TableName="leases", Item=each.to_item())

    def worker(self, owner: str) -> Leases:
        return Leases(self.client, "leases", owner=owner, terms=TERMS)

    def item(self, name: str) -> LeaseRecord:
        found = self.worker("nobody").look_up(f"arn:{name}")
        assert found is not None
        return found


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield Table()


def test_of_two_workers_one_gets_the_run(table: Table) -> None:
    table.put(record("digits"))
    (seen,) = table.worker("a").free(now=1, most=10)
    first, second = table.worker("a").take(seen, now=1), table.worker("b").take(seen, now=1)
    assert first is not None
    assert second is None
    assert (first.owner, first.token, first.free_at) == ("a", 1, 61)
    assert table.worker("b").free(now=60, most=10) == []


def test_a_lease_that_is_renewed_holds_and_one_that_is_not_falls_free(table: Table) -> None:
    table.put(record("digits"))
    mine = table.worker("a").take(table.item("digits"), now=0)
    assert mine is not None
    renewed = table.worker("a").renew(mine, now=50)
    assert renewed is not None
    assert table.worker("b").free(now=100, most=10) == []
    (seen,) = table.worker("b").free(now=110, most=10)
    theirs = table.worker("b").take(seen, now=110)
    assert theirs is not None
    assert theirs.token == 2
    assert theirs.crashes == 1, "its owner neither finished nor gave it back"


@pytest.mark.parametrize("act", ["renew", "give_back", "finish"])
def test_who_lost_the_lease_can_change_nothing_any_more(table: Table, act: str) -> None:
    table.put(record("digits"))
    worker = table.worker("a")
    stale = worker.take(table.item("digits"), now=0)
    assert stale is not None
    # The same worker again, as after a restart under the same name: the token tells them apart.
    assert worker.take(table.item("digits"), now=60) is not None
    before = table.item("digits")
    done = {
        "renew": lambda: worker.renew(stale, now=61),
        "give_back": lambda: worker.give_back(stale, free_at=61) or None,
        "finish": lambda: worker.finish(stale, LeaseState.DONE, reason="", now=61) or None,
    }[act]()
    assert done is None
    assert table.item("digits") == before


def test_what_is_given_back_is_free_at_once_and_no_crash(table: Table) -> None:
    table.put(record("digits"))
    mine = table.worker("a").take(table.item("digits"), now=0)
    assert mine is not None
    assert table.worker("a").give_back(mine, free_at=5)
    (seen,) = table.worker("b").free(now=5, most=10)
    theirs = table.worker("b").take(seen, now=5)
    assert theirs is not None
    assert theirs.crashes == 0


@pytest.mark.parametrize("state", [LeaseState.DONE, LeaseState.FAILED])
def test_what_is_finished_is_never_taken_again(table: Table, state: LeaseState) -> None:
    table.put(record("digits"))
    mine = table.worker("a").take(table.item("digits"), now=0)
    assert mine is not None
    assert table.worker("a").finish(mine, state, reason="so it is", now=10)
    assert table.worker("b").free(now=1000, most=10) == []
    assert table.worker("b").take(table.item("digits"), now=1000) is None
    left = table.item("digits")
    assert (left.state, left.reason, left.is_open) == (state, "so it is", False)


def test_who_ran_well_has_crashed_no_more(table: Table) -> None:
    table.put(record("digits", crashes=3))
    mine = table.worker("a").take(table.item("digits"), now=0)
    assert mine is not None
    still = table.worker("a").renew(mine, now=10)
    assert still is not None
    assert still.crashes == 3
    again = table.worker("a").renew(mine, now=600, ran_well=True)
    assert again is not None
    assert again.crashes == 0


def test_whoever_waited_longest_is_first(table: Table) -> None:
    table.put(record("late", free_at=30), record("early", free_at=10), record("not yet", free_at=50))
    assert [each.job.name for each in table.worker("a").free(now=40, most=10)] == ["early", "late"]
    assert [each.job.name for each in table.worker("a").free(now=40, most=1)] == ["early"]


def test_news_of_many_runs_at_once(table: Table) -> None:
    held = [record(f"run-{number}") for number in range(103)]
    for run, at in (("run-0", 3.0), ("run-102", 7.5), ("somebody else's", 9.0)):
        table.client.put_item(TableName="leases", Item=NewsRecord(f"s3://runs/{run}", at).to_item())
    assert table.worker("a").news(held) == {"s3://runs/run-0": 3.0, "s3://runs/run-102": 7.5}
    assert table.worker("a").free(now=100, most=10) == [], "news are no runs to be judged"


@given(uri=st.text(st.characters(exclude_categories=["Cs"])), at=st.floats(0, 1e11))
def test_an_item_says_all_of_a_runs_news(uri: str, at: float) -> None:
    assert NewsRecord.from_item(NewsRecord(uri, at).to_item()) == NewsRecord(uri, at)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(max_examples=30)
@given(
    st.builds(
        LeaseRecord,
        job=st.builds(TrainingJob, name=names, arn=names),
        run_uri=names,
        free_at=st.floats(0, 1e11),
        owner=st.text("abc-", max_size=5),
        token=st.integers(0, 10**9),
        crashes=st.integers(0, 100),
        state=st.sampled_from(LeaseState),
        reason=st.text("abc", max_size=9),
    )
)
def test_an_item_says_all_of_a_record(given_record: LeaseRecord) -> None:
    item = given_record.to_item()
    assert LeaseRecord.from_item(item) == given_record
    assert ("shelf" in item) == given_record.is_open
