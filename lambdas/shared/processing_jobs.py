"""The names of processing jobs that judge a training job."""

from __future__ import annotations

import hashlib
import re

from trackside.contracts.deployment.evaluators import JOB_NAME_PREFIX
from trackside.contracts.event import TrainingJob

JOB_CHARACTERS = 8  # of the moment of a job's creation, until the year 2106
MOST_NAME_CHARACTERS = 63  # API_CreateProcessingJob: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}
HASH_CHARACTERS = 10
RULE_HASH_CHARACTERS = 6


def processing_job_name(job: TrainingJob, configuration: str = "") -> str:
    """Return `trackside-<training job>-<hash of its ARN and the rule>`, at most 63 characters.

    The name is the same for every delivery of an event, and different for every other job and rule, however long and
    alike their names are. `configuration` is the rule from a file that the job judges; "" for the evaluator.
    """
    of_rule = f"\0{configuration}" if configuration else ""
    return _name(job, _digest(f"{job.arn}{of_rule}", HASH_CHARACTERS))


def name_of_later_job(name: str, job: TrainingJob) -> str:
    """Return the name that replaces `name`, which an earlier training job of the name of `job` has; "" for none.

    It holds the second of the job's creation. The first training job of a name does without: so an evaluator that a
    former release started is recognized.
    """
    if not job.created_at:
        return ""
    ending = f"-{job.created_at:0{JOB_CHARACTERS}x}"
    mark, rest = _mark_and_rest(name, job)
    ending = f"-{mark}{ending}{rest}"
    readable = name[: len(name) - len(mark) - len(rest)][: MOST_NAME_CHARACTERS - len(ending)]
    return f"{readable.rstrip('-')}{ending}"


def evaluator_name(job: TrainingJob, *, configuration: str = "", link: int = 1) -> str:
    """Return the name of one evaluator of a chain: `processing_job_name`, then `-2` for the second link.

    The name of one that judges a single configuration also holds its hash, behind the training job's.
    """
    parts = [evaluator_mark(job)]
    parts += [_digest(configuration, RULE_HASH_CHARACTERS)] if configuration else []
    parts += [str(link)] if link > 1 else []
    return _name(job, "-".join(parts))


def evaluator_mark(job: TrainingJob) -> str:
    """Return the part that the names of all evaluators of a training job hold, and of other jobs of its name."""
    return _digest(job.arn, HASH_CHARACTERS)


def chain_of(name: str, job: TrainingJob) -> str:
    """Return the name of an evaluator of the training job without its place in the chain."""
    _, mark, rest = name.rpartition(evaluator_mark(job))
    # What follows the mark: the moment of the job's creation, a rule's hash, and the number of the link, or some of it.
    rules = [part for part in rest.split("-") if len(part) == RULE_HASH_CHARACTERS]
    return "-".join([mark, *rules])


def _name(job: TrainingJob, ending: str) -> str:
    room = MOST_NAME_CHARACTERS - len(JOB_NAME_PREFIX) - len(ending) - 1
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", job.name)[:room].strip("-")
    return f"{JOB_NAME_PREFIX}{readable}-{ending}" if readable else f"{JOB_NAME_PREFIX}{ending}"


def _mark_and_rest(name: str, job: TrainingJob) -> tuple[str, str]:
    """Return the hash in the name of a processing job, and the parts behind it."""
    _, mark, rest = name.rpartition(evaluator_mark(job))
    return (mark, rest) if mark else (name.rpartition("-")[2], "")


def _digest(text: str, characters: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:characters]
