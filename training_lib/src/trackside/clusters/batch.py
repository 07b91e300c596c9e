"""A job of AWS Batch: a stop terminates it, so that its retries do not start the training anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.run.cluster_job import BATCH, ClusterJob
from trackside.contracts.verdict import Verdict
from trackside.environment import BatchEnvironment
from trackside.local.jobs.scheduler import MOST_TEXT, JobDefaults, JobError


@dataclass(frozen=True)
class BatchJob(JobDefaults):
    """A job of AWS Batch, seen from its container. It has no place for a verdict but the reason of its end."""

    job: ClusterJob

    def report(self, verdict: Verdict, run: Path) -> None:
        """Leave the job as it is."""

    def withhold(self, reason: str) -> None:
        """Leave the job as it is: `end` also ends its retries."""

    def end(self, reason: str) -> None:
        """Terminate the job, with the reason that `DescribeJobs` shows. A terminated job is not tried again."""
        from trackside.aws_clients import SharedClient

        try:
            client = SharedClient("batch", read_seconds=10, attempts=3).get()
            client.terminate_job(jobId=self.job.id, reason=f"trackside: {reason}"[:MOST_TEXT])
        except Exception as error:  # botocore has no one class of errors, and its settings have errors of their own
            raise JobError(f"AWS Batch did not terminate {self.job.id}: {' '.join(str(error).split())}") from error


def batch_job(environ: Mapping[str, str]) -> BatchJob | None:
    """Return the job of AWS Batch that a process belongs to; None for none."""
    env = BatchEnvironment.read(environ)
    if not env.job_id:
        return None
    return BatchJob(
        ClusterJob(
            scheduler=BATCH,
            id=env.job_id,
            name=env.queue,
            array_index=env.array_index,
            restarts=max(0, env.attempt - 1),
        )
    )
