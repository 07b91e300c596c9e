"""A run in AWS: its own job ends it, and its rules read no run that the job could not."""

from __future__ import annotations

import pytest

from trackside.containers.run_boundary import OwnEndStore, check_readable
from trackside.contracts.errors import AccessDeniedError
from trackside.contracts.event import TrainingJob
from trackside.contracts.rule_request import AWS_DOCS, RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import END_MARKER_KEY, RunLocation
from trackside.contracts.verdict import Outcome
from trackside.evaluation.evaluator import evaluate
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits"
JOB = TrainingJob("digits", ARN, 1_795_226_600)
LOSS = "MSELoss_output_0"


@pytest.mark.parametrize(
    ("marker", "has_ended"),
    [
        pytest.param(b"", True, id="the program's own"),
        pytest.param(b"by the job", True, id="any other text"),
        pytest.param(f"{ARN}@1795226600".encode(), True, id="its job's"),
        pytest.param(ARN.encode(), True, id="its job's, without a moment"),
        pytest.param(f"{ARN}@1700000000".encode(), False, id="that of an earlier job of the name"),
        pytest.param(f"{ARN}-2@1795226600".encode(), False, id="another job's"),
        pytest.param(None, False, id="none"),
    ],
)
def test_only_its_own_job_ends_a_run(marker: bytes | None, has_ended: bool) -> None:
    store = MemoryStore()
    write_collections(store)
    if marker is not None:
        store.put(END_MARKER_KEY, marker)
    own = OwnEndStore(store, JOB)
    assert own.exists(END_MARKER_KEY) is has_ended
    assert (END_MARKER_KEY in own.list()) is has_ended
    assert set(own.list()) - {END_MARKER_KEY} == set(store.list()) - {END_MARKER_KEY}


def test_a_run_that_another_job_ended_is_judged_on(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    write_collections(store)
    write_tensors(store, 0, {LOSS: 1.0})
    store.put(END_MARKER_KEY, f"{ARN}-2".encode())
    polls = 0

    def stop_after_three() -> bool:
        """The job writes on, and its own marker replaces the other one."""
        nonlocal polls
        polls += 1
        if polls == 2:
            write_tensors(store, 1, {LOSS: float("nan")})
            store.put(END_MARKER_KEY, JOB.identity.encode())
        return polls > 9

    summary = evaluate(
        RunLocation("mem://run"),
        RuleRequest((RuleConfiguration("exploding-tensor", preset=AWS_DOCS),)),
        (),
        poll_seconds=0,
        clock=lambda: 0.0,
        sleep=lambda seconds: None,
        should_stop=stop_after_three,
        stores=lambda uri: OwnEndStore(store, JOB) if uri.endswith("debug-output") else MemoryStore(),
    )
    assert summary.has_ended
    assert [verdict.step for verdict in summary.issues] == [1]
    assert sum("is ignored" in line for line in caplog.messages) == 1


@pytest.mark.parametrize(
    ("place", "is_read"),
    [("s3://runs/team/base", True), ("s3://runs/victim/run-1", False), ("/etc", False), ("s3://other/team/x", False)],
)
def test_a_rule_reads_other_runs_of_its_folder_only(place: str, is_read: bool) -> None:
    """With a tolerance of zero the verdict would print the other run's numbers."""
    own, others = MemoryStore(), MemoryStore()
    for store, loss in ((own, 0.0), (others, 0.123457)):
        write_collections(store)
        write_tensors(store, 0, {LOSS: loss})
        end_run(store)

    def stores(uri: str) -> Store:
        if uri.startswith("s3://runs/team/run-1/"):
            return own if uri.endswith("debug-output") else MemoryStore()
        check_readable(RunLocation("s3://runs/team/run-1"), JOB, uri)
        return others

    parameters = {"other_trials": place, "rtol": "0", "atol": "1e-6"}
    rule = RuleConfiguration("similar-across-runs", parameters=parameters, preset=AWS_DOCS)
    summary = evaluate(
        RunLocation("s3://runs/team/run-1"),
        RuleRequest((rule,)),
        (),
        poll_seconds=0,
        clock=lambda: 0.0,
        sleep=lambda seconds: None,
        should_stop=lambda: False,
        stores=stores,
    )
    (verdict,) = summary.verdicts
    assert (verdict.outcome is Outcome.ISSUE_FOUND) is is_read
    if not is_read:
        assert verdict.outcome is Outcome.NOT_EVALUATED
        assert "1.235" not in verdict.to_json()
        with pytest.raises(AccessDeniedError, match="same folder"):
            check_readable(RunLocation("s3://runs/team/run-1"), JOB, place)
