"""The names of processing jobs that judge a training job."""

from __future__ import annotations

import hashlib
import re

from trackside.contracts.deployment.evaluators import JOB_NAME_PREFIX
from trackside.contracts.event import TrainingJob

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


def evaluator_name(job: TrainingJob, *, configuration: str = "", link: int = 1) -> str:
    """Return the name of one evaluator of a chain: `processing_job_name`, then `-2` for the second link.

    The name of one that judges a single configuration also holds its hash, behind the training job's.
    """
    parts = [evaluator_mark(job)]
    parts += [_digest(configuration, RULE_HASH_CHARACTERS)] if configuration else []
    parts += [str(link)] if link > 1 else []
    return _name(job, "-".join(parts))


def evaluator_mark(job: TrainingJob) -> str:
    """Return the part that the names of all evaluators of a training job hold, and no other names."""
    return _digest(job.arn, HASH_CHARACTERS)


def chain_of(name: str, job: TrainingJob) -> str:
    """Return the name of an evaluator of the training job without its place in the chain."""
    known, mark, rest = name.rpartition(evaluator_mark(job))
    # What follows the mark: a rule's hash, the number of the link, or one behind the other.
    parts = [part for part in rest.split("-") if part]
    is_of_rule = bool(parts) and len(parts[0]) == RULE_HASH_CHARACTERS
    return f"{known}{mark}{parts[0]}" if is_of_rule else f"{known}{mark}"


def _name(job: TrainingJob, ending: str) -> str:
    room = MOST_NAME_CHARACTERS - len(JOB_NAME_PREFIX) - len(ending) - 1
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", job.name)[:room].strip("-")
    return f"{JOB_NAME_PREFIX}{readable}-{ending}" if readable else f"{JOB_NAME_PREFIX}{ending}"


def _digest(text: str, characters: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:characters]
