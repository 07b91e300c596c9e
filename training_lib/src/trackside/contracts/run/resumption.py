"""The order of a training job that goes on in the place of a stopped one. It travels in the job's environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.contracts.event import TrainingJob, job_of_identity
from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.job_choice import RESUMED_FROM_TAG, RUN_TAG
from trackside.contracts.run_layout import is_shared, run_of_job
from trackside.contracts.stored_fields import COUNT, TEXT, TEXTS, document_of, record_of, stored

ORDER_VARIABLE = "TRACKSIDE_RESUMED"
EARLIER_RUN_VARIABLE = "TRACKSIDE_RESUMED_RUN"
CHECKPOINT_VARIABLE = "TRACKSIDE_RESUME_FROM"
NAME_MARK = "-resumed-"  # of the names of such jobs; a deployment may create no others
_PLACE = re.compile(r"(?P<first>.+)/resumed-\d+")


def place_after(run: str, number: int) -> str:
    """Return the address of the run of the job with that number: below the first one, where the job's role may write.

    Args:
        run: Address of the run before, as its job's tag has it.
        number: 1 for the job that follows the first.
    """
    if is_shared(run):
        return run
    first = run.rstrip("/").removesuffix(f"/resumed-{number - 1}")
    return f"{first}/resumed-{number}"


def run_continued_by(tags: Mapping[str, str]) -> str:
    """Return the address of the run that a job continues, or of the first of the row; "" for a job that continues none.

    Args:
        tags: All tags of the job.
    """
    before, run = tags.get(RESUMED_FROM_TAG, ""), tags.get(RUN_TAG, "")
    if not before:
        return ""
    if is_shared(run):
        return run_of_job(run, job_of_identity(before).name)
    match = _PLACE.fullmatch(run.rstrip("/"))
    return match["first"] if match else ""


@dataclass(frozen=True)
class Resumption:
    """The place of a job in a row of jobs that each go on where the one before was stopped."""

    first: str = field(metadata=stored(TEXT, "Name of the first job of the row."))
    number: int = field(metadata=stored(COUNT, "1 for the job that follows the first."))
    after: str = field(metadata=stored(TEXT, "Identity of the job before (`TrainingJob.identity`)."))
    checkpoint_step: int = field(metadata=stored(COUNT, "Last step of its run before the checkpoint was written."))
    at_step: int = field(metadata=stored(COUNT, "Step of its run at which the fault was found."))
    folder: str = field(metadata=stored(TEXT, "Folder of checkpoints in its container, which S3 keeps."))
    rules: tuple[str, ...] = field(metadata=stored(TEXTS, "Rules for which jobs of the row were stopped."))
    billed_seconds: int = field(default=0, metadata=stored(COUNT, "Billed time of all jobs before, in seconds."))

    @property
    def job_before(self) -> TrainingJob:
        """The job that was stopped."""
        return job_of_identity(self.after)

    @property
    def undone_steps(self) -> int:
        """The number of steps that are done again."""
        return max(0, self.at_step - self.checkpoint_step)

    def to_json(self) -> str:
        """Return the value of `ORDER_VARIABLE`."""
        return to_json(document_of(self))

    @classmethod
    def from_json(cls, text: str) -> Resumption:
        """Return the order of `to_json` again. Errors: `ConfigurationError`."""
        subject = f"The variable {ORDER_VARIABLE}"
        fields = Fields(parse_json(text, subject=subject), where="")
        found = record_of(cls, fields)
        fields.finish(subject=subject)
        return found
