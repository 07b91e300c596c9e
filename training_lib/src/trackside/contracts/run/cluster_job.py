"""The job that a run is part of, in the words of its scheduler: Slurm, Kubernetes or AWS Batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from trackside.contracts.stored_fields import COUNT, TEXT, nullable, stored

SLURM, KUBERNETES, BATCH = "slurm", "kubernetes", "aws-batch"


@dataclass(frozen=True)
class ClusterJob:
    """A job of a scheduler. Runs of one job with one command are parts of one training."""

    scheduler: str = field(default="", metadata=stored(TEXT, "`slurm`, `kubernetes` or `aws-batch`; empty for none."))
    id: str = field(default="", metadata=stored(TEXT, "Its id: `4711`, `4711_7` in an array; `namespace/Kind/name`."))
    name: str = field(default="", metadata=stored(TEXT, "The name that its owner gave it."))
    node: str = field(default="", metadata=stored(TEXT, "The machines, as the scheduler lists them."))
    user: str = field(default="", metadata=stored(TEXT, "The user, or the service account."))
    array_index: int | None = field(default=None, metadata=stored(nullable(COUNT), "Its index in an array of jobs."))
    uid: str = field(default="", metadata=stored(TEXT, "Its unique id, where a later job may have the same name."))
    restarts: int = field(default=0, metadata=stored(COUNT, "How often the scheduler has started it again."))

    def __bool__(self) -> bool:
        """Return True for a run that is part of a job."""
        return bool(self.scheduler)

    def is_same(self, other: ClusterJob) -> bool:
        """Return True for the same job, whichever machine it runs on, and however often it was started again."""
        mine, others = ((one.scheduler, one.id, one.uid, one.array_index) for one in (self, other))
        return bool(self) and mine == others


NO_JOB = ClusterJob()
