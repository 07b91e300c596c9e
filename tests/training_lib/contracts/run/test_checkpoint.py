"""The checkpoint to go back to."""

from __future__ import annotations

import pytest

from trackside.contracts.run.checkpoint import Checkpoint, newest_before

OF_9, OF_19, OF_29 = (Checkpoint(step, f"/out/{step}.pt") for step in (9, 19, 29))
WHOLE = (
    Checkpoint(19, "/out/checkpoint-20/model.safetensors"),
    Checkpoint(19, "/out/checkpoint-20/optimizer.pt", has_model=False),
)


@pytest.mark.parametrize(
    ("since", "known", "chosen"),
    [
        pytest.param(25, (OF_9, OF_19, OF_29), OF_19, id="newest-before"),
        pytest.param(25, (OF_29, OF_19, OF_9), OF_19, id="in-any-order"),
        pytest.param(19, (OF_9, OF_19), OF_9, id="not-of-the-step-itself"),
        pytest.param(9, (OF_9, OF_19), None, id="none-before"),
        pytest.param(99, (), None, id="none"),
        pytest.param(99, (Checkpoint(9, "/out/optimizer.pt", has_model=False),), None, id="no-weights"),
        pytest.param(99, WHOLE, Checkpoint(19, "/out/checkpoint-20"), id="files-of-one-moment-are-their-folder"),
        pytest.param(99, WHOLE[:1], WHOLE[0], id="one-file-is-itself"),
        pytest.param(99, (*WHOLE, Checkpoint(9, "/out/checkpoint-20/old.pt")), WHOLE[0], id="a-folder-of-two-moments"),
        pytest.param(99, (OF_9, *WHOLE), Checkpoint(19, "/out/checkpoint-20"), id="another-folder-beside-it"),
        pytest.param(
            99,
            (Checkpoint(3, "s3://bucket/a/model.pt"), Checkpoint(3, "s3://bucket/a/rest.pt", has_model=False)),
            Checkpoint(3, "s3://bucket/a"),
            id="in-a-bucket",
        ),
    ],
)
def test_the_one_to_go_back_to(since: int, known: tuple[Checkpoint, ...], chosen: Checkpoint | None) -> None:
    assert newest_before(since, known) == chosen
