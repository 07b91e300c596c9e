"""Pictures of issues: stored beside the verdicts, and never in their way."""

from __future__ import annotations

import pytest

from trackside.containers.issue_picture import IssuePictureSink
from trackside.contracts.action import Action
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.verdict import Finding, Outcome, Severity, State, Verdict
from trackside.storage.memory import MemoryStore


def verdict(
    *,
    outcome: Outcome = Outcome.ISSUE_FOUND,
    actions: tuple[Action, ...] = (Action.NOTIFY,),
    name: str = "loss-spike",
    state: State = State.OPENED,
) -> Verdict:
    finding = Finding("loss", 9, 7, "training loss", 9.0, ">", 1.0)
    return Verdict(
        "run", "r", name, outcome, Severity.WARNING, 9, "Rose.", 0.0, findings=(finding,), actions=actions, state=state
    )


@pytest.mark.parametrize(
    ("verdicts", "keys"),
    [
        pytest.param([verdict()], ["pictures/loss-spike-000000000007.png"], id="an-issue"),
        pytest.param(
            [verdict(), verdict(name="b"), verdict()],
            ["pictures/b-000000000007.png", "pictures/loss-spike-000000000007.png"],
            id="two-and-one-again",
        ),
        pytest.param(
            [verdict(name="../../a b.png")], ["pictures/-a-b-png-96b7813f6a-000000000007.png"], id="a-hostile-name"
        ),
        pytest.param([verdict(outcome=Outcome.CLEAN)], [], id="clean"),
        pytest.param([verdict(outcome=Outcome.NOT_EVALUATED)], [], id="not-evaluated"),
        pytest.param([verdict(actions=(Action.PUBLISH_METRIC,))], [], id="nobody-is-told"),
        pytest.param([verdict(outcome=Outcome.CLEAN, state=State.RECOVERED)], [], id="recovered"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_what_is_stored(verdicts: list[Verdict], keys: list[str]) -> None:
    store = MemoryStore()
    IssuePictureSink(store, lambda _: b"\x89PNG").emit(verdicts)
    assert sorted(store.list()) == keys


def test_a_run_without_a_loss_has_no_picture() -> None:
    store = MemoryStore()
    IssuePictureSink(store, lambda _: None).emit([verdict()])
    assert list(store.list()) == []


def test_a_failure_is_logged_and_the_next_picture_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()

    def draw(issue: Verdict) -> bytes:
        if issue.configuration_name == "bad":
            raise StorageUnavailableError("the bucket is away")
        return b"\x89PNG"

    IssuePictureSink(store, draw).emit([verdict(name="bad"), verdict()])
    assert list(store.list()) == ["pictures/loss-spike-000000000007.png"]
    assert [message for message in caplog.messages if "the bucket is away" in message]
