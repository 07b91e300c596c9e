"""The job that this process belongs to."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from trackside.clusters.batch import batch_job
from trackside.clusters.slurm import slurm_job
from trackside.environment import KubernetesEnvironment
from trackside.local.jobs.scheduler import Scheduler

_logger = logging.getLogger(__name__)


def scheduler_of(environ: Mapping[str, str]) -> Scheduler | None:
    """Return the scheduler of the job that a process belongs to; None for none. Never fails.

    A job of AWS Batch on EKS is one of AWS Batch, which would start its pod anew.

    Args:
        environ: The variables of the process.
    """
    try:
        found = slurm_job(environ) or batch_job(environ) or _pod(environ)
        return found if found is not None and found.job and found.settings is not None else None  # both can be read
    except Exception as error:  # an answer of no known form must keep no training from starting
        _logger.warning("The job of this process is not recognised", exc_info=error)
        return None


def _pod(environ: Mapping[str, str]) -> Scheduler | None:
    if not KubernetesEnvironment.read(environ).host:
        return None
    from trackside.clusters.kubernetes import kubernetes_pod  # brings urllib and ssl

    return kubernetes_pod(environ)
