"""SageMaker training and processing jobs, as real processes that change state and send events."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException, ResourceInUseException

from trackside_localaccount.job_process import CannotStartError, Ending, Image, JobProcess
from trackside_localaccount.job_record import (
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    MOST_FAILURE_REASON,
    STOPPED,
    STOPPING,
    TERMINAL,
    TRAINING,
    Job,
    JobKind,
    new_transition,
)
from trackside_localaccount.job_stream import JobStream
from trackside_localaccount.journal import Journal
from trackside_localaccount.orphans import OrphanKiller
from trackside_localaccount.rights.accesses import Access
from trackside_localaccount.rights.rights import Rights

_REGISTRY = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[^.]+)\.amazonaws\.com/(?P<repository>[^:@]+)")
_PULL = ("BatchCheckLayerAvailability", "GetDownloadUrlForLayer", "BatchGetImage")
_CLOSING_SECONDS = 10.0
_CHANGEABLE = ("ProfilerConfig", "ProfilerRuleConfigurations", "RemoteDebugConfig")


@dataclass(frozen=True)
class JobSettings:
    """Where jobs live: their files below `folder`; SIGKILL comes `stop_grace_seconds` after SIGTERM (AWS: 120)."""

    folder: Path
    stop_grace_seconds: float
    environment: Mapping[str, str]


class Jobs:
    """All jobs of the account. `send_event(detail_type, arn, detail)` puts an event of aws.sagemaker onto the bus."""

    def __init__(
        self,
        settings: JobSettings,
        *,
        send_event: Callable[[str, str, Mapping[str, Any]], None],
        journal: Journal,
        orphans: OrphanKiller,
        rights: Rights,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rights = rights
        self._settings = settings
        self._send_event = send_event
        self._journal = journal
        self._orphans = orphans
        self._clock = clock
        self._lock = threading.RLock()
        self._jobs: dict[tuple[str, str], Job] = {}
        self._images: dict[str, Image] = {}
        self._processes: dict[tuple[str, str], JobProcess] = {}
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def register_image(self, name: str, image: Image) -> None:
        """Register the stand-in of an image: `name` is a repository, with or without registry and tag."""
        self._images[name] = image

    # The API --------------------------------------------------------------------------------------------------------

    def create(self, kind: JobKind, request: Mapping[str, Any], *, arn_prefix: str) -> Job:
        """Start the job and answer at once. Errors: `ResourceInUse`; `ValidationException` without a role."""
        name, role = request[f"{kind.name}JobName"], request["RoleArn"]
        if not self._rights.can_assume(role, "sagemaker"):
            raise AWSValidationException(
                f"Could not assume role {role}. Please ensure that the role exists and allows principal "
                "'sagemaker.amazonaws.com' to assume the role."
            )
        with self._lock:
            if (kind.name, name) in self._jobs:
                raise ResourceInUseException(
                    f"{kind.name} job names must be unique within an AWS account and region, and a {kind.noun} with "
                    f"this name already exists ({self._jobs[kind.name, name].arn})"
                )
            job = self._add(kind, name, request, arn=f"{arn_prefix}:{kind.resource}/{name}")
            self._notify(job)
            thread = threading.Thread(target=self._live, args=(job,), name=f"job {name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return job

    # `requested_in`: the account of whoever asks; another account's jobs are not known to it.

    def describe(self, kind: JobKind, name: str, *, requested_in: str = "") -> dict[str, Any]:
        """Return the description of a job. Errors: `ValidationException` for an unknown one, as AWS."""
        with self._lock:
            return self._get(kind, name, requested_in).describe()

    def summaries(self, kind: JobKind, request: Mapping[str, Any], *, requested_in: str = "") -> dict[str, Any]:
        """ListTrainingJobs, ListProcessingJobs: filters, order and pages. Errors: `ValidationException`."""
        with self._lock:
            jobs = [
                job
                for (kind_name, _), job in self._jobs.items()
                if kind_name == kind.name and _is_known_in(requested_in, job)
            ]
            chosen = _sort([job for job in jobs if _is_wanted(job, request)], request)
            start, size = _start_of_page(request), int(request.get("MaxResults") or 10)
            page = [job.summary() for job in chosen[start : start + size]]
        more = {"NextToken": str(start + size)} if start + size < len(chosen) else {}
        return {f"{kind.name}JobSummaries": page, **more}

    def stop(self, kind: JobKind, name: str, *, requested_in: str = "") -> None:
        """SIGTERM now, SIGKILL after the grace. Errors: `ValidationException` if the job is not InProgress."""
        with self._lock:
            job = self._get(kind, name, requested_in)
            if job.status != IN_PROGRESS:
                raise AWSValidationException(
                    f"The request was rejected because the {kind.noun} is in status {job.status}."
                )
            self._change(job, STOPPING, "Stopping")
            process = self._processes.get((kind.name, name))
            if process:
                process.stop(grace_seconds=self._settings.stop_grace_seconds)

    def delete(self, kind: JobKind, name: str, *, requested_in: str = "") -> None:
        """Forget an ended job: its name may be used again. Errors: `ResourceInUse` for one that has not ended.

        https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteTrainingJob.html
        """
        with self._lock:
            job = self._get(kind, name, requested_in)
            if job.status not in TERMINAL:
                raise ResourceInUseException(f"The {kind.noun} {name} is in status {job.status}: it cannot be deleted.")
            self._journal.write("job-deleted", kind=kind.name, job=name)
            del self._jobs[kind.name, name]

    def update_training_job(self, request: Mapping[str, Any]) -> str:
        """Take over what may change while a job runs. Return its ARN. Errors: `ValidationException` if it does not run.

        https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateTrainingJob.html
        """
        with self._lock:
            job = self._get(TRAINING, request["TrainingJobName"])
            if job.status != IN_PROGRESS:
                raise AWSValidationException(
                    f"The request was rejected because the {TRAINING.noun} is in status {job.status}."
                )
            changed = {name: value for name, value in request.items() if name in _CHANGEABLE}
            job.request = {**job.request, **changed}
            job.modified_at = self._clock()
            return job.arn

    def tags_of(self, arn: str) -> Mapping[str, str]:
        """Return the tags of the job with that ARN; of none, none."""
        name = arn.rpartition("/")[2]
        found = (job for (_, known), job in list(self._jobs.items()) if known == name and job.arn == arn)
        return {tag["Key"]: tag["Value"] for job in found for tag in job.tags}

    # What a person in front of the account can see and do -------------------------------------------------------------

    def log(self, name: str) -> str:
        """Return the output of the job's process so far. Errors: `LookupError`."""
        file = self._by_name(name).log_file
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""

    def pid(self, name: str) -> int | None:
        """The id of the job's running process; None before it starts and after it ended. Errors: `LookupError`."""
        job = self._by_name(name)
        with self._lock:  # a process that has just begun may print before it is listed
            process = self._processes.get((job.kind.name, name))
        return process.pid if process else None

    def emit_official_rule_status(self, name: str, statuses: Iterable[tuple[str, str, str]]) -> None:
        """Send the event of SageMaker Debugger: the training job's event with DebugRuleEvaluationStatuses.

        `statuses`: (rule configuration name, status, details). Later events of the job repeat them, as AWS's do.
        """
        with self._lock:
            job = self._get(TRAINING, name)
            moment = datetime.fromtimestamp(self._clock()).astimezone()
            job.rule_statuses = [
                {
                    "RuleConfigurationName": rule,
                    "RuleEvaluationJobArn": job.arn.replace("training-job/", "processing-job/") + f"-{rule}",
                    "RuleEvaluationStatus": status,
                    "StatusDetails": details,
                    "LastModifiedTime": moment,
                }
                for rule, status, details in statuses
            ]
            self._notify(job)

    def close(self) -> None:
        """End every process with SIGKILL, and wait until all are gone."""
        with self._lock:
            self._is_closed = True
            for process in self._processes.values():
                process.kill()
        for thread in self._threads:
            thread.join(_CLOSING_SECONDS)

    # One job's life -------------------------------------------------------------------------------------------------

    def _live(self, job: Job) -> None:
        try:
            process = self._start(job)
        except CannotStartError as error:
            self._end(job, Ending(1, problem=f"ClientError: {error}"))
            return
        if process is None:  # stopped, or the account closed, before it began
            self._end(job, Ending(0))
            return
        limit = self._limit(job, process)
        stream = JobStream(job, clock=self._clock) if self._may_log(job) else None
        ending = process.wait()
        self._orphans.remove(process.pid)
        if stream:
            stream.close()  # all that was printed is there before the job has ended
        if limit:
            limit.cancel()
        self._end(job, ending)

    def _start(self, job: Job) -> JobProcess | None:
        with self._lock:
            if self._is_closed or job.status != IN_PROGRESS:
                return None
            image = self._image_of(job)
            self._pull(job)
            role = self._rights.environment_of(job.request["RoleArn"], "SageMaker")
            process = JobProcess(job, image=image, account_environment={**self._settings.environment, **role})
            self._processes[job.kind.name, job.name] = process
            self._orphans.add(process.pid)
            job.started_at = self._clock()
            self._change(job, IN_PROGRESS, "Training")
            self._journal.write("job-process", kind=job.kind.name, job=job.name, pid=process.pid)
            return process

    def _limit(self, job: Job, process: JobProcess) -> threading.Timer | None:
        seconds = job.request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds")
        if not seconds:
            return None

        def stop() -> None:
            with self._lock:
                if job.status == IN_PROGRESS:
                    job.secondary_status = "MaxRuntimeExceeded"
                    self._change(job, STOPPING, "MaxRuntimeExceeded")
                    process.stop(grace_seconds=self._settings.stop_grace_seconds)

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        return timer

    def _end(self, job: Job, ending: Ending) -> None:
        with self._lock:
            self._processes.pop((job.kind.name, job.name), None)
            job.ended_at = self._clock()
            job.exit_message = ending.message
            if job.status == STOPPING:
                late = job.secondary_status == "MaxRuntimeExceeded"
                self._change(job, STOPPED, "MaxRuntimeExceeded" if late else STOPPED)
            elif ending.succeeded:
                self._change(job, COMPLETED, COMPLETED)
            else:
                job.failure_reason = ending.problem[:MOST_FAILURE_REASON]
                self._change(job, FAILED, FAILED)

    def _change(self, job: Job, status: str, secondary_status: str) -> None:
        now = self._clock()
        if job.transitions and job.transitions[-1]["Status"] != secondary_status:
            begun = new_transition(secondary_status, now)
            job.transitions[-1]["EndTime"] = begun["StartTime"]
            job.transitions.append(begun)
        job.status, job.secondary_status, job.modified_at = status, secondary_status, now
        if status in TERMINAL and job.transitions:
            job.transitions[-1]["EndTime"] = job.transitions[-1]["StartTime"]
        self._notify(job)

    def _notify(self, job: Job) -> None:
        self._journal.write(
            "job-state", kind=job.kind.name, job=job.name, status=job.status, secondary_status=job.secondary_status
        )
        if not self._is_closed:
            self._send_event(job.kind.event_source_type, job.arn, job.event_detail())

    # Finding --------------------------------------------------------------------------------------------------------

    def _add(self, kind: JobKind, name: str, request: Mapping[str, Any], *, arn: str) -> Job:
        now = self._clock()
        folder = self._settings.folder / f"{kind.resource}-{name}"
        while folder.exists():  # of a deleted job of that name
            folder = folder.with_name(f"{folder.name}+")
        folder.mkdir(parents=True)
        tags = list(request.get("Tags", ()))
        job = Job(kind, name, arn, request, folder, created_at=now, modified_at=now, tags=tags)
        if kind is TRAINING:
            job.transitions.append(new_transition("Starting", now))
        self._jobs[kind.name, name] = job
        return job

    def _get(self, kind: JobKind, name: str, requested_in: str = "") -> Job:
        job = self._jobs.get((kind.name, name))
        if job is not None and _is_known_in(requested_in, job):
            return job
        if kind is TRAINING:
            raise AWSValidationException("Requested resource not found.")
        raise AWSValidationException(f"Could not find requested job with name: {name}")

    def _by_name(self, name: str) -> Job:
        for (_, known), job in list(self._jobs.items()):
            if known == name:
                return job
        raise LookupError(f"No job is called {name!r}. Known: {', '.join(known for _, known in self._jobs) or 'none'}.")

    def _pull(self, job: Job) -> None:
        """SageMaker pulls an image of the account's own registry as the job's role. Errors: `CannotStartError`."""
        account, registry = job.arn.split(":")[4], _REGISTRY.match(_uri_of(job))
        if registry is None or registry["account"] != account:
            return
        repository = f"arn:aws:ecr:{registry['region']}:{account}:repository/{registry['repository']}"
        pull = [Access(f"ecr:{action}", repository) for action in _PULL]
        accesses = [Access("ecr:GetAuthorizationToken", "*"), *pull]
        if refusal := self._rights.role_refusal(job.request["RoleArn"], "SageMaker", *accesses):
            raise CannotStartError(f"Cannot pull algorithm container. {refusal}")

    def _may_log(self, job: Job) -> bool:
        region, account = job.arn.split(":")[3:5]
        group = f"arn:aws:logs:{region}:{account}:log-group:/aws/sagemaker/{job.kind.name}Jobs"
        stream = f"{group}:log-stream:{job.name}/algo-1"
        accesses = [Access("logs:CreateLogStream", stream), Access("logs:PutLogEvents", stream)]
        return not self._rights.role_refusal(job.request["RoleArn"], "SageMaker", *accesses)

    def _image_of(self, job: Job) -> Image:
        uri = _uri_of(job)
        repository = re.sub(r"(@sha256:.*|:[^/]*)$", "", uri)
        for name in (uri, repository, repository.partition("/")[2], repository.rpartition("/")[2]):
            if name and name in self._images:
                return self._images[name]
        return Image()


def _uri_of(job: Job) -> str:
    specification = job.request.get("AlgorithmSpecification") or job.request.get("AppSpecification") or {}
    return str(specification.get("TrainingImage") or specification.get("ImageUri") or "")


def _start_of_page(request: Mapping[str, Any]) -> int:
    token = request.get("NextToken") or "0"
    if not (token.isascii() and token.isdigit()):
        raise AWSValidationException("Invalid NextToken.")
    return int(token)


def _is_known_in(account: str, job: Job) -> bool:
    return not account or job.arn.split(":")[4] == account


def _is_wanted(job: Job, request: Mapping[str, Any]) -> bool:
    created, modified = job.created_at, job.modified_at
    return all(
        (
            request.get("NameContains", "") in job.name,
            request.get("StatusEquals", job.status) == job.status,
            created > _seconds(request.get("CreationTimeAfter"), float("-inf")),
            created < _seconds(request.get("CreationTimeBefore"), float("inf")),
            modified > _seconds(request.get("LastModifiedTimeAfter"), float("-inf")),
            modified < _seconds(request.get("LastModifiedTimeBefore"), float("inf")),
        )
    )


def _seconds(moment: Any, default: float) -> float:
    if moment is None:
        return default
    return float(moment) if isinstance(moment, (int, float)) else datetime.fromisoformat(str(moment)).timestamp()


def _sort(jobs: list[Job], request: Mapping[str, Any]) -> list[Job]:
    keys: Mapping[str, Callable[[Job], Any]] = {
        "Name": lambda job: job.name,
        "Status": lambda job: job.status,
        "CreationTime": lambda job: job.created_at,
    }
    key = keys[request.get("SortBy", "CreationTime")]
    return sorted(jobs, key=key, reverse=request.get("SortOrder", "Descending") == "Descending")
