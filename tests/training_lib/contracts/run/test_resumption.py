"""The run that a job continues, by its tags: never one that nobody named."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from trackside.contracts.run.resumption import place_after, run_continued_by

BEFORE = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits@1795220000"


def tags(run: str, *, before: str = BEFORE) -> Mapping[str, str]:
    return {"trackside:run": run, **({"trackside:resumed-from": before} if before else {})}


@pytest.mark.parametrize(
    ("given", "run"),
    [
        pytest.param(tags("s3://b/digits/resumed-1"), "s3://b/digits", id="the second of a row"),
        pytest.param(tags("s3://b/digits/resumed-12/"), "s3://b/digits", id="a later one: the first"),
        pytest.param(tags("s3://b/jobs/@job"), "s3://b/jobs/digits", id="each job has a run of its own"),
        pytest.param(tags("s3://b/resumed-1/resumed-1"), "s3://b/resumed-1", id="a name like ours, of a person"),
        pytest.param(tags("s3://b/digits/resumed-1", before=""), "", id="a place like ours, of a person"),
        pytest.param(tags("s3://b/digits"), "", id="a run elsewhere"),
        pytest.param(tags("s3://b/digits/resumed-x"), "", id="no number"),
        pytest.param(tags("resumed-1"), "", id="nothing before it"),
        pytest.param({"trackside:resumed-from": BEFORE}, "", id="no run"),
        pytest.param({}, "", id="no tags"),
    ],
)
def test_the_run_before(given: Mapping[str, str], run: str) -> None:
    assert run_continued_by(given) == run


@pytest.mark.parametrize("run", ["s3://b/digits", "s3://b/digits/", "s3://b/a/resumed-1"])
def test_each_job_of_a_row_leads_to_the_first_run(run: str) -> None:
    place = run
    for number in (1, 2, 3):
        place = place_after(place, number)
        assert run_continued_by(tags(place)) == run.rstrip("/")
