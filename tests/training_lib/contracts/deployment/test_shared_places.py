"""What a job may read beside its own run."""

from __future__ import annotations

import pytest

from trackside.contracts.deployment.shared_places import may_read

SPOKE = "210987654321"


@pytest.mark.parametrize(
    ("run", "place"),
    [
        pytest.param("s3://b/team/run-1", "s3://b/team/run-2", id="a run of the same folder"),
        pytest.param("s3://b/team/a/run-1", "s3://b/team/c/d/run-2", id="deeper in it"),
        pytest.param("s3://b/team/run-1", "s3://b/team", id="an object in the folder itself"),
        pytest.param("s3://b/team/run-1", "s3://b/shared/base", id="what is shared"),
        pytest.param("s3://b/team/run-1", "s3://b", id="an object at the top of the bucket"),
        pytest.param("s3://b/run-1", "s3://b/run-2", id="runs at the top of the bucket"),
        pytest.param("s3://b/run-1", "s3://b/run-2/debug-output/", id="its tensors"),
        pytest.param("s3://b/run-1", "s3://b/shared/x/base", id="what is shared, from the top"),
        pytest.param(f"s3://b/{SPOKE}/run-1", f"s3://b/{SPOKE}/run-2", id="a spoke's own"),
    ],
)
def test_reads(run: str, place: str) -> None:
    assert may_read(run, place, account=SPOKE)


@pytest.mark.parametrize(
    ("run", "place"),
    [
        pytest.param("s3://b/team/run-1", "s3://b/other/run-2", id="another folder"),
        pytest.param("s3://b/team/run-1", "s3://b/team-2/run-2", id="a folder that begins alike"),
        pytest.param("s3://b/team/run-1", "s3://b/run-2", id="a run at the top, from a folder"),
        pytest.param("s3://b/run-1", "s3://b/team/run-2", id="a folder, from the top"),
        pytest.param("s3://b/team/run-1", "s3://other/team/run-2", id="another bucket"),
        pytest.param("s3://b/team/run-1", "s3://b/team/../other/run-2", id="dots"),
        pytest.param("s3://b/team/run-1", "s3://b//other", id="an empty folder"),
        pytest.param("s3://b/team/run-1", "/etc", id="a folder of the container"),
        pytest.param("s3://b/team/run-1", "file:///etc", id="another scheme"),
        pytest.param(f"s3://b/{SPOKE}/run-1", "s3://b/123456789012/run-2", id="another account's"),
        pytest.param(f"s3://b/{SPOKE}/run-1", "s3://b/shared/base", id="what is shared, from a spoke"),
        pytest.param(f"s3://b/{SPOKE}/run-1", "s3://b", id="the top of the hub's bucket, from a spoke"),
    ],
)
def test_does_not_read(run: str, place: str) -> None:
    assert not may_read(run, place, account=SPOKE)
