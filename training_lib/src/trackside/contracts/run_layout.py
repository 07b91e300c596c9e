"""The keys of everything in a run. No other module spells a storage key.

A run is one folder or S3 prefix:

    <run>/rule-request.json                rules and actions (RuleRequest)
    <run>/capture-request.json             collections to save, if too long for a variable (CaptureRequest)
    <run>/debug-output/...                 tensors, in smdebug's own layout (contracts: smdebug 1.0.34)
        collections/000000000/<worker>_collections.json
        events/<step:012>/<step:012>_<worker>.tfevents
        index/<step // 1000:09>/<step:012>_<worker>.json
        packed-index/<worker>/<started:013>-<first:012>.tpi   our own: docs/formats/packed-index.md
        capture-report/<worker>.json   our own, only if a step was lost: records/capture_report.py
        model-facts/<worker>.json      our own: facts about the training program (docs/formats/model-facts.md)
        checkpoints/<worker>.json      our own: where the script wrote its checkpoints (records/checkpoints_file.py)
        state/<worker>.json            our own: the point at which a restarted process goes on (records/state_file.py)
        state/<worker>.lock            our own: held by the process that writes, in a folder (worker_lock.py)
        state/<worker>.end             our own: this worker, of several, has stored all it has (worker_ends.py)
        training_job_end.ts
    <run>/statistics/<worker>/...          always-on statistics: docs/formats/statistics-segment.md
    <run>/watermarks/<worker>.json         last step through which all is stored: docs/formats/watermark.md
    <run>/profiler-output/...              as SageMaker Debugger lays profiles out; `RunLocation.profiles`
        system/incremental/<YYYYMMDDHH>/<second>.<node>.json   metrics of the machine
        performance/<worker>.json   our own: DataLoaders and stack samples (records/machine/performance_facts.py)
    <run>/check/<worker>.json              answers of the probes of `trackside check` (ProcessReport)
    <run>/uncaptured/<process>.json        local: a process that captured nothing (UncapturedProcess)
    <run>/answers/<worker>.json            with --show-samples: answers of a language model (records/answers_file.py)
    <run>/rescue/<worker>.json             returns of the training to earlier moments (RescueRecord)
    <run>/rescue/restarts.json             starts from checkpoints (RescueRecord)
    <run>/restart/                         messages about such starts: `contracts.run.restart`
    <run>/rescue/standing-issues.json      local: critical issues that stand, for the process that rescues
    <run>/rule-output/verdicts.jsonl       one verdict a line
    <run>/rule-output/<configuration>/verdicts.jsonl   of a rule that a container of its own judged
    <run>/rule-output/metrics.jsonl        local: one issue a line, for rules with the action PublishMetric
    <run>/rule-output/performance.json     the verdict on the run's speed (speed/performance/document.py)
    <run>/rule-output/profiler-report.json the numbers of SageMaker Debugger's ProfilerReport
    <run>/rule-output/ProfilerReport-<second>/profiler-output/profiler-report/<Rule>.json   the same, as the original's
    <run>/rule-output/report.html          the report, once the run has ended
    <run>/rule-output/pictures/<configuration>-<since step>.png   in AWS: an issue (views/report/charts)
    <run>/rule-output/ProfilerReport-<second>/profiler-output/profiler-report.html   the report, at the original's key
    <run>/rule-output/CreateXgboostReport/xgboost_report.html   the same of an XGBoost run, at the original's key
    <run>/rule-output/.../profiler-report.ipynb, xgboost_report.ipynb   a notebook beside each of the two
    <run>/rule-output/progress.json        progress of the evaluator
    <run>/rule-output/ending.json          the end of the last evaluator in AWS (`EvaluatorEnding`)
    <run>/rule-output/training-job.txt     `TrainingJob.identity` of the one that is judged here (in AWS)

Keys below `debug-output` are relative to it, because a run of the original is that folder alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

TENSORS = "debug-output"
STATISTICS = "statistics"
WATERMARKS = "watermarks"
RULE_OUTPUT = "rule-output"
CHECK = "check"
PROFILES = "profiler-output"
UNCAPTURED = "uncaptured"
ANSWERS = "answers"
RESCUE = "rescue"
RESTARTS_KEY = "restarts.json"
STANDING_ISSUES_KEY = "standing-issues.json"
RULE_REQUEST_KEY = "rule-request.json"
CAPTURE_REQUEST_KEY = "capture-request.json"
VERDICTS_KEY = "verdicts.jsonl"
SKIP_LIST_KEY = "skip_batches.json"
RESCUE_KEY = "rescue.json"
METRICS_KEY = "metrics.jsonl"
REPORT_KEY = "report.html"
REPORT_JSON_KEY, REPORT_MARKDOWN_KEY, REPORT_JUNIT_KEY = "report.json", "report.md", "report.xml"
PICTURES_PREFIX = "pictures/"
OLD_REPORTS_PREFIX, _OLD_REPORTS = "ProfilerReport-", "profiler-output/profiler-report"
XGBOOST_REPORT_KEY = "CreateXgboostReport/xgboost_report.html"
PERFORMANCE_KEY = "performance.json"
LEARNING_KEY = "learning.json"
PROFILER_REPORT_KEY = "profiler-report.json"
PROGRESS_KEY = "progress.json"
ENDING_KEY = "ending.json"
TRAINING_JOB_KEY = "training-job.txt"

END_MARKER_KEY = "training_job_end.ts"
_LOCK_ENDING = ".lock"
CLAIM_KEY = "claim.smd"
INDEX_PREFIX = "index/"
EVENTS_PREFIX = "events/"
COLLECTIONS_PREFIX = "collections/000000000/"
COLLECTIONS_SUFFIX = "_collections.json"
PACKED_INDEX_PREFIX = "packed-index/"
CAPTURE_REPORT_PREFIX = "capture-report/"
MODEL_FACTS_PREFIX = "model-facts/"
CHECKPOINTS_PREFIX = "checkpoints/"
STATE_PREFIX = "state/"
SYSTEM_PREFIX = "system/incremental/"
PERFORMANCE_PREFIX = "performance/"
PROFILER_CONFIG_KEY = "profilerconfig.json"
OPEN_SUFFIX = ".open"  # of a file of system metrics that still grows; ".tmp" is of files that no reader may see

JOB_PLACE = "@job"  # last part of an address that many jobs share; stands for the job's own name

_INDEX_KEY = re.compile(r"index/[0-9]{9,16}/(?P<step>[0-9]{12,19})_(?P<worker>[^/]+)\.json")
_EVENT_KEY = re.compile(r"events/[0-9]{12,19}/(?P<step>[0-9]{12,19})_(?P<worker>[^/]+)\.tfevents")
_PACKED_INDEX_KEY = re.compile(r"packed-index/(?P<worker>[^/]+)/(?P<started>[0-9]{13,16})-(?P<step>[0-9]{12,19})\.tpi")
_SEGMENT_KEY = re.compile(
    r"(?P<worker>[^/]+)/(?P<started>[0-9]{13,16})-(?P<first>[0-9]{9,16})-(?P<last>[0-9]{9,16}|open)\.tss"
)


@dataclass(frozen=True)
class RunLocation:
    """The location of a run: a folder or `s3://bucket/prefix`, without a slash at the end."""

    uri: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", self.uri.rstrip("/"))

    @property
    def name(self) -> str:
        """The run's name: the last part of its location."""
        return self.uri.rsplit("/", 1)[-1]

    @property
    def tensors(self) -> str:
        """The location of the tensors; the path that smdebug's `create_trial` takes."""
        return f"{self.uri}/{TENSORS}"

    @property
    def statistics(self) -> str:
        """The location of the always-on statistics, beside the tensors: old readers know only the tensors."""
        return f"{self.uri}/{STATISTICS}"

    @property
    def watermarks(self) -> str:
        """The location of the workers' watermarks."""
        return f"{self.uri}/{WATERMARKS}"

    @property
    def profiles(self) -> str:
        """The location of profiles; the path that smdebug's readers of metrics take."""
        return f"{self.uri}/{PROFILES}"

    @property
    def rule_output(self) -> str:
        """The location of verdicts and of the evaluator's progress."""
        return f"{self.uri}/{RULE_OUTPUT}"


def run_of_job(uri: str, job_name: str) -> str:
    """Return the location of a job's run: `s3://bucket/tuning-7/@job` -> `s3://bucket/tuning-7/<job name>`.

    Any other address is returned unchanged, without a slash at its end.
    """
    place, slash, last = RunLocation(uri).uri.rpartition("/")
    return f"{place}/{job_name}" if slash and last == JOB_PLACE and job_name else RunLocation(uri).uri


def is_shared(uri: str) -> bool:
    """Return True if each job with this address has a run of its own below it."""
    return RunLocation(uri).uri.endswith(f"/{JOB_PLACE}")


def shared_place(uri: str) -> str:
    """Return the location for objects that must exist before the run's job starts.

    It is the run itself or, if many jobs share the address, the folder above their runs.
    """
    return RunLocation(uri).uri.removesuffix(f"/{JOB_PLACE}")


def verdicts_key_of(configuration: str) -> str:
    """Return the key, within `rule-output`, of the verdicts of one rule that a container of its own judges."""
    return f"{_plain_name(configuration)}/{VERDICTS_KEY}"


def picture_key(configuration: str, since_step: int) -> str:
    """Return the key, within `rule-output`, of the picture of an issue.

    Args:
        configuration: Name of the rule's configuration.
        since_step: First step at which the issue held.
    """
    return f"{PICTURES_PREFIX}{_plain_name(configuration)}-{since_step:012d}.png"


def _plain_name(configuration: str) -> str:
    """Return a name for files: two configurations never share one, and none has a dot."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", configuration)[:100]
    if name != configuration:
        name = f"{name}-{hashlib.sha256(configuration.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
    return name


def event_key(step: int, worker: str) -> str:
    """Return the key of the event file that holds all tensors of one step and worker."""
    return f"events/{step:012d}/{step:012d}_{worker}.tfevents"


def index_key(step: int, worker: str) -> str:
    """Return the key of the index of one step and worker.

    An index is written after its event file, so it promises that file.
    """
    return f"{index_prefix(step)}{step:012d}_{worker}.json"


def index_prefix(step: int) -> str:
    """Return the folder of the indexes of this step and its thousand."""
    return f"{INDEX_PREFIX}{step // 1000:09d}/"


def packed_index_key(worker: str, *, started_ms: int, first_step: int) -> str:
    """Return the key of one file of a worker's packed index.

    Args:
        worker: The worker.
        started_ms: Start of the writing process, in milliseconds since the epoch: of two rows for one step, that of the
            later process holds.
        first_step: First step in the file.
    """
    return f"{PACKED_INDEX_PREFIX}{worker}/{started_ms:013d}-{first_step:012d}.tpi"


def parse_packed_index_key(key: str) -> tuple[str, int, int] | None:
    """Return (worker, started_ms, first_step) of a packed index file's key, or None for another key."""
    match = _PACKED_INDEX_KEY.fullmatch(key)
    return (match["worker"], int(match["started"]), int(match["step"])) if match else None


@dataclass(frozen=True, order=True)
class SegmentName:
    """The key of a statistics segment, relative to `<run>/statistics`.

    A process that starts writing opens a log; its blocks are numbered from 0. A segment holds the blocks `first` to
    `last` of one log. One segment may replace several small ones, so a reader may find a block twice, with the same
    number.

    worker      the worker
    started_ms  start of the log, in milliseconds since the epoch
    first       number of the first block
    last        number of the last block; None for a file that is appended to
    """

    worker: str
    started_ms: int
    first: int
    last: int | None

    @property
    def key(self) -> str:
        """`worker_0/1763700000000-000000000-000000063.tss`; `...-000000000-open.tss` for one that grows."""
        last = "open" if self.last is None else f"{self.last:09d}"
        return f"{self.worker}/{self.started_ms:013d}-{self.first:09d}-{last}.tss"

    @classmethod
    def parse(cls, key: str) -> SegmentName | None:
        """Return the name in a key, or None for another key."""
        match = _SEGMENT_KEY.fullmatch(key)
        if match is None:
            return None
        last = None if match["last"] == "open" else int(match["last"])
        name = cls(match["worker"], int(match["started"]), int(match["first"]), last)
        return name if last is None or name.first <= last else None


def watermark_key(worker: str) -> str:
    """Return the key of a worker's watermark, relative to `<run>/watermarks`."""
    return f"{worker}.json"


def parse_watermark_key(key: str) -> str | None:
    """Return the worker of a watermark's key, or None for another key."""
    worker = key.removesuffix(".json")
    return worker if worker and worker != key and "/" not in key else None


def worker_name(number: int) -> str:
    """Return the name of the worker with this rank."""
    return f"worker_{number}"


def system_metrics_key(second: int, *, hour: str, node: str, suffix: str = ".json") -> str:
    """Return the key, below a run's profiles, of a file of system metrics.

    Args:
        second: Its first sample's second since the epoch.
        hour: The hour of that second in UTC, as YYYYMMDDHH.
        node: Name of the machine.
        suffix: What names the format: ".json" is SageMaker Debugger's.
    """
    return f"{SYSTEM_PREFIX}{hour}/{second:010d}.{node}{suffix}"


def old_report_key(rule: str, *, started_at: int) -> str:
    """Return the key, within `rule-output`, of the report of one profiler rule, as SageMaker Debugger has it.

    Args:
        rule: Class name of the rule: `LowGPUUtilization`.
        started_at: Start of the run, in seconds since the epoch.
    """
    return f"{OLD_REPORTS_PREFIX}{started_at:010d}/{_OLD_REPORTS}/{rule}.json"


def old_page_key(key: str) -> str | None:
    """Return the key of the page that SageMaker Debugger has beside the report of a profiler rule.

    Args:
        key: A key within `rule-output`: that of `old_report_key`; None is returned for another.
    """
    folder, found, _ = key.partition(f"/{_OLD_REPORTS}/")
    return f"{folder}/{_OLD_REPORTS}.html" if found and folder.startswith(OLD_REPORTS_PREFIX) else None


def notebook_beside(page_key: str) -> str:
    """Return the key of the notebook that SageMaker Debugger has beside a page.

    Args:
        page_key: The key of the page, `.../profiler-report.html`.
    """
    return f"{page_key.removesuffix('.html')}.ipynb"


def performance_key(worker: str) -> str:
    """Return the key, below a run's profiles, of the facts about a worker's speed."""
    return f"{PERFORMANCE_PREFIX}{worker}.json"


def operators_prefix(step: int, *, framework: str, hour: str) -> str:
    """Return the prefix, below a run's profiles, of a profile of a framework's operators.

    Args:
        step: Its first step.
        framework: The framework: "pytorch", "tensorflow", "mxnet".
        hour: The hour of its start in UTC, as YYYYMMDDHH.
    """
    return f"framework/{framework}/detailed_profiling/{hour}/{step:09d}/"


def python_prefix(
    step: int, last_step: int, *, framework: str, profiler: str, worker: str, started_at: float, ended_at: float
) -> str:
    """Return the prefix, below a run's profiles, of a profile of Python functions, as SageMaker Debugger has it.

    Args:
        step: Its first step.
        last_step: Its last step.
        framework: The framework: "pytorch", "tensorflow", "mxnet"; "python" for any other.
        profiler: One of `profiling_request.PROFILERS`.
        worker: Name of the worker.
        started_at: Its start, in seconds since the epoch.
        ended_at: Its end.
    """
    start = f"train-{step}-stepstart-{1e6 * started_at:.1f}"
    node = worker.replace("_", "-")
    return f"framework/{framework}/{profiler}/{node}/{start}_train-{last_step}-stepend-{1e6 * ended_at:.1f}/"


def check_key(worker: str) -> str:
    """Return the key, within the run, of a process's report of a rehearsal."""
    return f"{CHECK}/{worker}.json"


def uncaptured_key(process: int) -> str:
    """Return the key of the report of a process that captured nothing, below the run's location."""
    return f"{UNCAPTURED}/{process}.json"


def capture_report_key(worker: str) -> str:
    """Return the key of a worker's report of losses."""
    return f"{CAPTURE_REPORT_PREFIX}{worker}.json"


def model_facts_key(worker: str) -> str:
    """Return the key of the facts about a worker's training program."""
    return f"{MODEL_FACTS_PREFIX}{worker}.json"


def answers_key(worker: str) -> str:
    """Return the key, below `ANSWERS`, of the answers that a worker kept."""
    return f"{worker}.json"


def checkpoints_key(worker: str) -> str:
    """Return the key of the list of checkpoints that a worker's script wrote."""
    return f"{CHECKPOINTS_PREFIX}{worker}.json"


def state_key(worker: str) -> str:
    """Return the key of a worker's state."""
    return f"{STATE_PREFIX}{worker}.json"


def worker_lock_key(worker: str) -> str:
    """Return the key of the file that the process which writes as this worker holds locked."""
    return f"{STATE_PREFIX}{worker}{_LOCK_ENDING}"


def workers_with_a_lock(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the workers with a lock file among these keys.

    Args:
        keys: Keys below `debug-output`.
    """
    locks = (key for key in keys if key.startswith(STATE_PREFIX) and key.endswith(_LOCK_ENDING))
    return tuple(key[len(STATE_PREFIX) : -len(_LOCK_ENDING)] for key in locks)


def worker_end_key(worker: str) -> str:
    """Return the key of the note that a worker has stored everything."""
    return f"{STATE_PREFIX}{worker}.end"


def collections_key(worker: str) -> str:
    """Return the key of a worker's collections file."""
    return f"{COLLECTIONS_PREFIX}{worker}{COLLECTIONS_SUFFIX}"


def parse_index_key(key: str) -> tuple[int, str] | None:
    """Return (step, worker) of an index key, or None for another key."""
    match = _INDEX_KEY.fullmatch(key)
    return (int(match["step"]), match["worker"]) if match else None


def parse_event_key(key: str) -> tuple[int, str] | None:
    """Return (step, worker) of an event file's key, or None for another key."""
    match = _EVENT_KEY.fullmatch(key)
    return (int(match["step"]), match["worker"]) if match else None


def parse_collections_key(key: str) -> str | None:
    """Return the worker of a collections key, or None for another key."""
    name = key.removeprefix(COLLECTIONS_PREFIX)
    if name == key or "/" in name or not name.endswith(COLLECTIONS_SUFFIX):
        return None
    return name.removesuffix(COLLECTIONS_SUFFIX) or None
