"""Keys are smdebug's own, and reading a key undoes writing it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts import run_layout
from trackside.contracts.run_layout import RunLocation

WORKERS = st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="_-"), min_size=1)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param(
            run_layout.event_key(1234, "worker_0"), "events/000000001234/000000001234_worker_0.tfevents", id="event"
        ),
        pytest.param(run_layout.index_key(1234, "worker_0"), "index/000000001/000000001234_worker_0.json", id="index"),
        pytest.param(
            run_layout.collections_key("worker_3"), "collections/000000000/worker_3_collections.json", id="collections"
        ),
        pytest.param(
            run_layout.event_key(10**12, "w"),
            "events/1000000000000/1000000000000_w.tfevents",
            id="wider-than-12-digits",
        ),
    ],
)
def test_keys_are_those_of_smdebug(key: str, expected: str) -> None:
    assert key == expected


@given(step=st.integers(0, 10**14), worker=WORKERS)
def test_reading_an_index_key_undoes_writing_it(step: int, worker: str) -> None:
    assert run_layout.parse_index_key(run_layout.index_key(step, worker)) == (step, worker)


@given(worker=WORKERS)
def test_reading_a_collections_key_undoes_writing_it(worker: str) -> None:
    assert run_layout.parse_collections_key(run_layout.collections_key(worker)) == worker


@pytest.mark.parametrize(
    "key",
    [
        "index/000000001/000000001234_worker_0.json.tmp",
        "index/1/000000001234_worker_0.json",
        "index/000000001/12_worker_0.json",
        "index/000000001/000000001234_a/b.json",
        "events/000000001234/000000001234_worker_0.tfevents",
        "x/index/000000001/000000001234_worker_0.json",
        "",
    ],
)
def test_other_keys_are_no_index_keys(key: str) -> None:
    assert run_layout.parse_index_key(key) is None


@pytest.mark.parametrize("key", ["collections/000000000/_collections.json", "collections/1/w_collections.json", "w"])
def test_other_keys_are_no_collections_keys(key: str) -> None:
    assert run_layout.parse_collections_key(key) is None


def test_a_run_knows_its_parts() -> None:
    run = RunLocation("s3://bucket/team/job-7/")
    assert (run.uri, run.name) == ("s3://bucket/team/job-7", "job-7")
    assert (run.tensors, run.rule_output) == (
        "s3://bucket/team/job-7/debug-output",
        "s3://bucket/team/job-7/rule-output",
    )


@pytest.mark.parametrize(
    ("configuration", "key"),
    [
        pytest.param("large-gradients", "large-gradients/verdicts.jsonl", id="a name like ours"),
        pytest.param("LargeGradients_2", "LargeGradients_2/verdicts.jsonl", id="a class"),
        pytest.param("../../x", "-x-", id="a path"),
        pytest.param("verdicts.jsonl", "verdicts-jsonl-", id="the name of a file"),
    ],
)
def test_the_folder_of_a_rule_that_a_container_of_its_own_judges(configuration: str, key: str) -> None:
    assert run_layout.verdicts_key_of(configuration).startswith(key)


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_two_rules_have_two_folders_and_none_leads_elsewhere(one: str, other: str) -> None:
    keys = {run_layout.verdicts_key_of(name) for name in (one, other)}
    assert len(keys) == len({one, other})
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,111}/verdicts\.jsonl", key) for key in keys)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        pytest.param("s3://b/tuning/@job", "s3://b/tuning/digits-01", id="shared"),
        pytest.param("s3://b/tuning/@job/", "s3://b/tuning/digits-01", id="a slash at its end"),
        pytest.param("/runs/@job", "/runs/digits-01", id="a folder"),
        pytest.param("s3://b/@job/x", "s3://b/@job/x", id="in the middle it is a name like any other"),
        pytest.param("s3://b/my@job", "s3://b/my@job", id="part of a name"),
        pytest.param("@job", "@job", id="alone"),
        pytest.param("s3://b/x/", "s3://b/x", id="one run"),
        pytest.param("", "", id="none"),
    ],
)
def test_an_address_that_many_jobs_share_means_a_run_of_each(uri: str, expected: str) -> None:
    assert run_layout.run_of_job(uri, "digits-01") == expected


def test_without_a_jobs_name_a_shared_address_is_left_as_it_is() -> None:
    assert run_layout.run_of_job("s3://b/tuning/@job", "") == "s3://b/tuning/@job"
    assert run_layout.is_shared("s3://b/tuning/@job/")
    assert not run_layout.is_shared("s3://b/tuning")
    assert (
        run_layout.shared_place("s3://b/tuning/@job/") == "s3://b/tuning" == run_layout.shared_place("s3://b/tuning/")
    )
