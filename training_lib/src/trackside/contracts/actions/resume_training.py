"""Stop the training job, and let another one go on in its place from a good checkpoint."""

from __future__ import annotations

from trackside.contracts.action_unit import ActionUnit

UNIT = ActionUnit(
    word="ResumeTraining",
    name="resume_training",
    description="Stops the training job, and lets another one go on from its last good checkpoint.",
    in_aws="a stop as `StopTraining`, then [another job goes on](rescue.md#in-aws), where the deployment allows it",
    locally="as `StopTraining`; [`--rescue`](rescue.md) goes back before that",
    carried_out_by="stop_training",  # its checks are those of a stop, and each must be made once
    stops=True,
)
