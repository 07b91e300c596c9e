"""What the processing jobs that judge a training job are called."""

from __future__ import annotations

import hashlib
import re

from trackside.contracts.event import TrainingJob

NAME_PREFIX = "trackside-"  # of every processing job that judges a training job
MOST_NAME_CHARACTERS = 63  # API_CreateProcessingJob: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}
HASH_CHARACTERS = 10


def processing_job_name(job: TrainingJob, configuration: str = "") -> str:
    """`trackside-<training job>-<hash of its ARN and the rule>`, at most 63 characters: the same for every delivery of
    an event, and another for every other job and rule, however long and alike their names are. `configuration` is the
    rule from a file that the job judges; "": it is the evaluator."""
    of_rule = f"\0{configuration}" if configuration else ""
    digest = hashlib.sha256(f"{job.arn}{of_rule}".encode()).hexdigest()[:HASH_CHARACTERS]
    room = MOST_NAME_CHARACTERS - len(NAME_PREFIX) - HASH_CHARACTERS - 1
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", job.name)[:room].strip("-")
    return f"{NAME_PREFIX}{readable}-{digest}" if readable else f"{NAME_PREFIX}{digest}"
