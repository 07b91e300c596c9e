"""The only module that spells a storage key: where everything of a run lies.

A run is one folder or S3 prefix:

    <run>/rule-request.json                what to judge and what to do (RuleRequest)
    <run>/debug-output/...                 tensors, in smdebug's own layout (contracts: smdebug 1.0.34)
        collections/000000000/<worker>_collections.json
        events/<step:012>/<step:012>_<worker>.tfevents
        index/<step // 1000:09>/<step:012>_<worker>.json
        training_job_end.ts
    <run>/rule-output/verdicts.jsonl       one verdict a line
    <run>/rule-output/progress.json        how far the evaluator has come
    <run>/rule-output/training-job.txt     ARN of the one training job that is judged here (in AWS)

Keys below `debug-output` are relative to it, because a run of the original is that folder alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TENSORS = "debug-output"
RULE_OUTPUT = "rule-output"
RULE_REQUEST_KEY = "rule-request.json"
VERDICTS_KEY = "verdicts.jsonl"
PROGRESS_KEY = "progress.json"
TRAINING_JOB_KEY = "training-job.txt"

END_MARKER_KEY = "training_job_end.ts"
INDEX_PREFIX = "index/"
EVENTS_PREFIX = "events/"
COLLECTIONS_PREFIX = "collections/000000000/"
COLLECTIONS_SUFFIX = "_collections.json"

_INDEX_KEY = re.compile(r"index/[0-9]{9,16}/(?P<step>[0-9]{12,19})_(?P<worker>[^/]+)\.json")
_EVENT_KEY = re.compile(r"events/[0-9]{12,19}/(?P<step>[0-9]{12,19})_(?P<worker>[^/]+)\.tfevents")


@dataclass(frozen=True)
class RunLocation:
    """Where a run lies: a folder or `s3://bucket/prefix`, without a slash at the end."""

    uri: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", self.uri.rstrip("/"))

    @property
    def name(self) -> str:
        """The run's name: the last part of its location."""
        return self.uri.rsplit("/", 1)[-1]

    @property
    def tensors(self) -> str:
        """Where the tensors lie; the path that smdebug's `create_trial` takes."""
        return f"{self.uri}/{TENSORS}"

    @property
    def rule_output(self) -> str:
        """Where verdicts and the evaluator's progress lie."""
        return f"{self.uri}/{RULE_OUTPUT}"


def event_key(step: int, worker: str) -> str:
    """Key of the event file that holds all tensors of one step and worker."""
    return f"events/{step:012d}/{step:012d}_{worker}.tfevents"


def index_key(step: int, worker: str) -> str:
    """Key of the index of one step and worker. It is written after the event file, so it promises that file."""
    return f"{index_prefix(step)}{step:012d}_{worker}.json"


def index_prefix(step: int) -> str:
    """The folder that holds the indexes of this step and its thousand."""
    return f"{INDEX_PREFIX}{step // 1000:09d}/"


def collections_key(worker: str) -> str:
    """Key of a worker's collections file."""
    return f"{COLLECTIONS_PREFIX}{worker}{COLLECTIONS_SUFFIX}"


def parse_index_key(key: str) -> tuple[int, str] | None:
    """(step, worker) of an index key, or None if it is none."""
    match = _INDEX_KEY.fullmatch(key)
    return (int(match["step"]), match["worker"]) if match else None


def parse_event_key(key: str) -> tuple[int, str] | None:
    """(step, worker) of an event file's key, or None if it is none."""
    match = _EVENT_KEY.fullmatch(key)
    return (int(match["step"]), match["worker"]) if match else None


def parse_collections_key(key: str) -> str | None:
    """The worker of a collections key, or None if it is none."""
    name = key.removeprefix(COLLECTIONS_PREFIX)
    if name == key or "/" in name or not name.endswith(COLLECTIONS_SUFFIX):
        return None
    return name.removesuffix(COLLECTIONS_SUFFIX) or None
