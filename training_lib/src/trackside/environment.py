"""The only module of the library that reads environment variables: it holds every name and its default."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from trackside.contracts.run_layout import run_of_job

_CONFIGURATION = "/opt/ml/input/config"
PROFILER_CONFIG = f"{_CONFIGURATION}/profilerconfig.json"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SHOW_SAMPLES = "TRACKSIDE_SHOW_SAMPLES"
LEAVE_OUT, RESUME_FROM = "TRACKSIDE_LEAVE_OUT", "TRACKSIDE_RESUME_FROM"
FLEET_PREFIX = "TRACKSIDE_FLEET_"  # of a worker's settings, which its evaluators do not get

_READ_BY_BOTOCORE = frozenset({"BOTO_CONFIG", "HOME", "REQUESTS_CA_BUNDLE"})
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_Kind = TypeVar("_Kind", bound="_Settings")
_AWS_FILES = (("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), ("AWS_CONFIG_FILE", "~/.aws/config"))


def _environ(given: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if given is None else given  # noqa: TID251


def _read(default: Any, read: Callable[[Mapping[str, str]], Any]) -> Any:
    """Declare a setting: its value in a constructor that leaves it out, and how it is read from variables."""
    return field(default=default, metadata={"read": read})


def _text(name: str, default: str = "") -> Any:
    return _read(default, lambda env: env.get(name, default))


def _whole(name: str, default: int, *, least: int = 0) -> Any:
    return _read(default, lambda env: max(least, _number(env.get(name), default)))


def _positive(name: str, default: float) -> Any:
    return _read(default, lambda env: _positive_number(env.get(name), default))


def _index(name: str) -> Any:
    return _read(None, lambda env: int(text) if (text := env.get(name, "")).isdigit() else None)


class _Settings:
    """Base of settings that variables give: each field is declared with the way it is read."""

    @classmethod
    def read(cls: type[_Kind], environ: Mapping[str, str] | None = None) -> _Kind:
        """Return the settings in the process's environment, or in `environ`."""
        env = _environ(environ)
        return cls(**{each.name: each.metadata["read"](env) for each in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class CaptureEnvironment(_Settings):
    """Settings of a training process.

    TRACKSIDE_RUN              address of the run: a folder or s3://bucket/prefix; unset means: do nothing at all. A
                               last part `@job` stands for the name of the training job
    TRACKSIDE_CAPTURE_REQUEST  the capture request as JSON, or the address of a file with it (default: losses every 500
                               steps, as smdebug)
    RANK, WORLD_SIZE           as torchrun sets them
    LOCAL_RANK                 number of this process on its machine, as torchrun sets it
    LOCAL_WORLD_SIZE           number of processes on its machine, as torchrun sets it; 0: not known
    SM_CURRENT_HOST            name of this machine in a SageMaker training job: algo-1
    TRAINING_JOB_NAME          set in a SageMaker training job, which may be interrupted and started again
    TRACKSIDE_ENDED_BY         set where another process marks the end of the run: "trackside-run", its command being
                               one that may train more than once
    SMPROFILER_CONFIG_PATH     file of a SageMaker training job that asks for profiles while it runs (default there:
                               /opt/ml/input/config/profilerconfig.json)
    TRACKSIDE_SHOW_SAMPLES     1: keep a few answers of a language model as text in the run; unset: none
    """

    run_uri: str = _read("", lambda env: run_of_job(env.get("TRACKSIDE_RUN", ""), env.get("TRAINING_JOB_NAME", "")))
    capture_request: str = _text("TRACKSIDE_CAPTURE_REQUEST")
    rank: int = _whole("RANK", 0)
    world_size: int = _whole("WORLD_SIZE", 1)
    is_sagemaker_job: bool = _read(False, lambda env: "TRAINING_JOB_NAME" in env)
    ended_by: str = _text("TRACKSIDE_ENDED_BY")
    local_rank: int | None = _read(None, lambda env: _number(env["LOCAL_RANK"], 0) if "LOCAL_RANK" in env else None)
    machine: str = _text("SM_CURRENT_HOST")
    profiler_config: str = _read(
        "", lambda env: env.get("SMPROFILER_CONFIG_PATH") or (PROFILER_CONFIG if "TRAINING_JOB_NAME" in env else "")
    )
    shows_samples: bool = _read(False, lambda env: env.get(SHOW_SAMPLES) == "1")
    local_world_size: int = _whole("LOCAL_WORLD_SIZE", 0)


@dataclass(frozen=True)
class RehearsalEnvironment(_Settings):
    """Settings of a training process that `trackside check` has started, beside `CaptureEnvironment`.

    TRACKSIDE_CHECK_STEPS    number of optimizer steps before the probes; 0 or unset: this is no rehearsal
    TRACKSIDE_CHECK_SECONDS  time after the first step at which the probes begin all the same (default 120)
    TRACKSIDE_PROBE_SECONDS  time that all probes together may take (default 90)
    """

    steps: int = _whole("TRACKSIDE_CHECK_STEPS", 0)
    seconds: float = _positive("TRACKSIDE_CHECK_SECONDS", 120.0)
    probe_seconds: float = _positive("TRACKSIDE_PROBE_SECONDS", 90.0)

    def variables(self) -> dict[str, str]:
        """Return the variables that `read` reads."""
        return {
            "TRACKSIDE_CHECK_STEPS": str(self.steps),
            "TRACKSIDE_CHECK_SECONDS": repr(self.seconds),
            "TRACKSIDE_PROBE_SECONDS": repr(self.probe_seconds),
        }


@dataclass(frozen=True)
class RescueEnvironment(_Settings):
    """Settings of a training process that goes back when its numbers break, beside `CaptureEnvironment`.

    TRACKSIDE_RESCUE              1: go back; unset: this process never does
    TRACKSIDE_RESCUE_COPIES       earlier moments that are kept in memory, at least 2 (default 3)
    TRACKSIDE_RESCUE_TRIES        returns in one training (default 5)
    TRACKSIDE_RESCUE_PLACE_TRIES  returns to one moment (default 2)
    TRACKSIDE_RESCUE_MEMORY_MB    most memory for them in MiB; files hold the rest (default: that of one, or 256)
    TRACKSIDE_RESCUE_FOLDER       folder of those files (default: that of temporary files)
    TRACKSIDE_RESCUE_MODE         restart: report faults only, for a start from a checkpoint (default: go back in place)
    TRACKSIDE_RESUME_FROM         in a process that was started again: the checkpoint that is good
    TRACKSIDE_LEAVE_OUT           in such a process: the file of what to leave out (`contracts.run.restart.Order`)
    """

    is_on: bool = _read(False, lambda env: env.get("TRACKSIDE_RESCUE") == "1")
    copies: int = _whole("TRACKSIDE_RESCUE_COPIES", 3, least=2)
    tries: int = _whole("TRACKSIDE_RESCUE_TRIES", 5)
    place_tries: int = _whole("TRACKSIDE_RESCUE_PLACE_TRIES", 2, least=1)
    memory_mb: int | None = _index("TRACKSIDE_RESCUE_MEMORY_MB")
    folder: str = _text("TRACKSIDE_RESCUE_FOLDER")
    restarts: bool = _read(False, lambda env: env.get("TRACKSIDE_RESCUE_MODE") == "restart")
    leave_out: str = _text(LEAVE_OUT)

    def variables(self) -> dict[str, str]:
        """Return the variables that `read` reads; none if it is off."""
        if not self.is_on:
            return {}
        return {
            "TRACKSIDE_RESCUE": "1",
            "TRACKSIDE_RESCUE_COPIES": str(self.copies),
            "TRACKSIDE_RESCUE_TRIES": str(self.tries),
            "TRACKSIDE_RESCUE_PLACE_TRIES": str(self.place_tries),
            **({"TRACKSIDE_RESCUE_MEMORY_MB": str(self.memory_mb)} if self.memory_mb is not None else {}),
            **({"TRACKSIDE_RESCUE_FOLDER": self.folder} if self.folder else {}),
            **({"TRACKSIDE_RESCUE_MODE": "restart"} if self.restarts else {}),
        }


@dataclass(frozen=True)
class ResumedJobEnvironment(_Settings):
    """Settings of a training job that goes on in the place of a stopped one, in AWS.

    TRACKSIDE_RESUMED      what it was created for (`contracts.run.resumption.Resumption`); unset: it is no such job
    TRACKSIDE_RESUMED_RUN  address of the run of the job before
    TRACKSIDE_RESUME_FROM  the checkpoint that is good
    TRAINING_JOB_NAME      its name
    TRACKSIDE_ML_ROOT      folder of the container's file contract, /opt/ml except in the local account
    """

    order: str = _text("TRACKSIDE_RESUMED")
    earlier_run: str = _text("TRACKSIDE_RESUMED_RUN")
    checkpoint: str = _text(RESUME_FROM)
    job_name: str = _text("TRAINING_JOB_NAME")
    ml_root: Path = _read(Path("/opt/ml"), lambda env: Path(env.get("TRACKSIDE_ML_ROOT") or "/opt/ml"))  # noqa: RUF009


@dataclass(frozen=True)
class EvaluatorEnvironment(_Settings):
    """Settings of an evaluator.

    TRACKSIDE_RUN                address of the run
    TRACKSIDE_EVENT_BUS          name or ARN of the event bus; empty: verdicts go to the run's verdicts.jsonl only
    TRACKSIDE_POLL_SECONDS       time between two looks for new steps (default 1)
    TRAINING_JOB_NAME, TRAINING_JOB_ARN   the job that is judged
    TRAINING_JOB_CREATED_AT      the second of its creation, since the epoch: its name may be used again; 0: not known
    TRAINING_JOB_CONTINUES       identity of the stopped job that it continues; empty: none
    TRACKSIDE_ML_ROOT            folder of the container's file contract, /opt/ml except in the local account
    TRACKSIDE_CUSTOM_RULES_FROM  the s3:// prefix of rule files that jobs of their own judge; empty: no such files
    TRACKSIDE_RULE_CONFIGURATION the one configuration of the run's request that such a job judges, or, in the mode
                                 "per-rule", an evaluator
    TRACKSIDE_RULES_AFTER        an evaluator judges the configurations of the request from this one on (counted from 0)
    TRACKSIDE_MAX_RUNTIME_SECONDS   SageMaker ends the evaluator then; shortly before it hands over. 0: it does not
    TRACKSIDE_LIFELINE           set where a worker of the fleet holds the other end of the standard input
    TRACKSIDE_LINK               the number of the evaluator in its chain (default 1)
    TRACKSIDE_RUN_AS             number of the user that a container becomes which starts as root (default 0: none)
    SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE, rule_stop_grace_time_secs   as in `OldNamesEnvironment`; none by default
    """

    run_uri: str = _text("TRACKSIDE_RUN")
    event_bus: str = _text("TRACKSIDE_EVENT_BUS")
    poll_seconds: float = _positive("TRACKSIDE_POLL_SECONDS", 1.0)
    training_job_name: str = _text("TRAINING_JOB_NAME")
    training_job_arn: str = _text("TRAINING_JOB_ARN")
    ml_root: Path = _read(Path("/opt/ml"), lambda env: Path(env.get("TRACKSIDE_ML_ROOT") or "/opt/ml"))  # noqa: RUF009
    custom_rules_from: str = _read("", lambda env: env.get("TRACKSIDE_CUSTOM_RULES_FROM", "").strip())
    rule_configuration: str = _text("TRACKSIDE_RULE_CONFIGURATION")
    stop_file: str = _text("SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE")
    stop_grace_seconds: float = _positive("rule_stop_grace_time_secs", 60.0)
    rules_after: int = _whole("TRACKSIDE_RULES_AFTER", 0)
    max_runtime_seconds: float = _positive("TRACKSIDE_MAX_RUNTIME_SECONDS", 0.0)
    has_worker_lease: bool = _read(False, lambda env: bool(env.get("TRACKSIDE_LIFELINE")))
    training_job_created_at: int = _whole("TRAINING_JOB_CREATED_AT", 0)
    training_job_continues: str = _text("TRAINING_JOB_CONTINUES")
    link: int = _whole("TRACKSIDE_LINK", 1, least=1)
    run_as: int = _whole("TRACKSIDE_RUN_AS", 0)


@dataclass(frozen=True)
class FleetEnvironment(_Settings):
    """Settings of a worker of the fleet. Its evaluators have an `EvaluatorEnvironment`.

    TRACKSIDE_FLEET_TABLE            name of the table of leases; unset: this is no worker
    TRACKSIDE_FLEET_QUEUE_URL        queue in which runs are announced; unset: the worker reads the table only
    TRACKSIDE_FLEET_FAILED_QUEUE_URL queue for runs that cannot be judged; unset: the log only
    TRACKSIDE_FLEET_RUNS             number of runs that it judges at once (default 8)
    TRACKSIDE_FLEET_LEASE_SECONDS    time that a lease holds without renewal (default 60)
    TRACKSIDE_FLEET_LOOK_SECONDS     time between two looks into the table for runs without a worker (default 20)
    TRACKSIDE_FLEET_NEWS_SECONDS     time between two looks for news of its runs (default 5); set only with
                                     notifications: then evaluators look by themselves only every
                                     TRACKSIDE_FLEET_SLOW_POLL_SECONDS (default 10)
    TRACKSIDE_FLEET_GRACE_SECONDS    time that evaluators may take to leave off (default 90)
    TRACKSIDE_FLEET_SILENT_SECONDS   time without progress after which an evaluator hangs, and is ended (default 900)
    TRACKSIDE_FLEET_MEMORY_MB        memory that all its evaluators may take together; 0 or unset: no limit
    TRACKSIDE_EVENT_BUS              the bus of its evaluators; it names the fleet in its metrics
    """

    table: str = _text(f"{FLEET_PREFIX}TABLE")
    queue_url: str = _text(f"{FLEET_PREFIX}QUEUE_URL")
    failed_queue_url: str = _text(f"{FLEET_PREFIX}FAILED_QUEUE_URL")
    runs: int = _whole(f"{FLEET_PREFIX}RUNS", 8, least=1)
    lease_seconds: float = _positive(f"{FLEET_PREFIX}LEASE_SECONDS", 60.0)
    look_seconds: float = _positive(f"{FLEET_PREFIX}LOOK_SECONDS", 20.0)
    news_seconds: float = _positive(f"{FLEET_PREFIX}NEWS_SECONDS", 0.0)
    # Of a run without notifications from S3.
    slow_poll_seconds: float = _positive(f"{FLEET_PREFIX}SLOW_POLL_SECONDS", 10.0)
    grace_seconds: float = _positive(f"{FLEET_PREFIX}GRACE_SECONDS", 90.0)
    event_bus: str = _text("TRACKSIDE_EVENT_BUS")
    silent_seconds: float = _positive(f"{FLEET_PREFIX}SILENT_SECONDS", 900.0)
    memory_mb: int = _whole(f"{FLEET_PREFIX}MEMORY_MB", 0)

    @property
    def most_memory_bytes(self) -> int:
        """The memory of all evaluators, in bytes; 0: no limit."""
        return self.memory_mb << 20


@dataclass(frozen=True)
class OldReaderEnvironment(_Settings):
    """Settings of scripts written for smdebug, as they read a run.

    SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW     number of newer steps that a step waits for a missing worker (default 1000)
    SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT  number of further looks for a missing event file (100)
    """

    incomplete_step_window: int = _whole("SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW", 1000, least=1)
    missing_file_tries: int = _whole("SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT", 100)


@dataclass(frozen=True)
class OldNamesEnvironment(_Settings):
    """Settings of the old names of smdebug, from SageMaker or a user, besides `OldReaderEnvironment`.

    TRAINING_JOB_NAME                    set, to any value, in a SageMaker training job
    AWS_REGION                           the region of S3; blank means boto3's own
    SMDEBUG_CONFIG_FILE_PATH             file of the hook's configuration
    TENSORBOARD_CONFIG_FILE_PATH         file with the folder of a SageMaker job's TensorBoard files
    USE_SMDEBUG                          false for no hook from `get_hook`
    CHECKPOINT_CONFIG_FILE_PATH          file with the folder of checkpoints, for a job on spot capacity
    SMPROFILER_CONFIG_PATH               file of the profiler's configuration
    SM_HPS                               hyperparameters of a SageMaker training job, as JSON
    HOROVOD_TIMELINE                     file that Horovod writes its timeline to; "" for none
    SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE  a file in the run that asks a rule to stop, by the time in it; "" for none
    rule_stop_grace_time_secs            time that the rule may go on after that (default 60)
    SMDEBUG_LOG_LEVEL                    "info" by default, "off" for silence
    TIME_BUFFER_MICROSECONDS             lateness of the profiler's files that readers allow for (default 3 minutes)
    """

    is_sagemaker_job: bool = _read(False, lambda env: "TRAINING_JOB_NAME" in env)
    region: str | None = _read(None, lambda env: aws_region(env))  # noqa: PLW0108 - defined below
    hook_configuration: str = _text("SMDEBUG_CONFIG_FILE_PATH", f"{_CONFIGURATION}/debughookconfig.json")
    checkpoint_configuration: str = _text("CHECKPOINT_CONFIG_FILE_PATH", f"{_CONFIGURATION}/checkpointconfig.json")
    tensorboard_configuration: str = _text(
        "TENSORBOARD_CONFIG_FILE_PATH", f"{_CONFIGURATION}/tensorboardoutputconfig.json"
    )
    profiler_configuration: str = _text("SMPROFILER_CONFIG_PATH", PROFILER_CONFIG)
    hyperparameters: str = _text("SM_HPS")
    horovod_timeline: str = _text("HOROVOD_TIMELINE")
    is_smdebug_used: bool = _read(
        True, lambda env: env.get("USE_SMDEBUG", "").strip().lower() not in {"false", "0", "no", "off", "n", "f"}
    )
    rule_stop_file: str = _text("SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE")
    rule_stop_grace_seconds: float = _positive("rule_stop_grace_time_secs", 60.0)
    log_level: str = _read("info", lambda env: env.get("SMDEBUG_LOG_LEVEL", "info").strip().lower())
    time_buffer_microseconds: float = _positive("TIME_BUFFER_MICROSECONDS", 180e6)


@dataclass(frozen=True)
class CloudEnvironment(_Settings):
    """Settings of commands about a deployment.

    TRACKSIDE_TABLE  name of the table of runs; unset: the deployment's own, by the output of its stack
    """

    run_table: str = _read("", lambda env: env.get("TRACKSIDE_TABLE", "").strip())


@dataclass(frozen=True)
class SlurmEnvironment(_Settings):
    """The variables of a job of Slurm. No SLURM_JOB_ID: no such job.

    SLURM_JOB_ID, SLURM_JOB_NAME, SLURM_JOB_USER  number, name and owner of the job
    SLURM_ARRAY_JOB_ID, SLURM_ARRAY_TASK_ID       number and index in an array of jobs
    SLURM_JOB_NODELIST, SLURMD_NODENAME           machines of the job; this machine
    SLURM_RESTART_COUNT                           how often the job was requeued
    SLURM_STEP_ID                                 the step of this process, if `srun` started it
    """

    job_id: str = _text("SLURM_JOB_ID")
    job_name: str = _text("SLURM_JOB_NAME")
    user: str = _text("SLURM_JOB_USER")
    array_job_id: str = _text("SLURM_ARRAY_JOB_ID")
    array_index: int | None = _index("SLURM_ARRAY_TASK_ID")
    nodes: str = _read("", lambda env: env.get("SLURM_JOB_NODELIST", "") or env.get("SLURMD_NODENAME", ""))
    restarts: int = _whole("SLURM_RESTART_COUNT", 0)
    step_id: str = _text("SLURM_STEP_ID")


@dataclass(frozen=True)
class KubernetesEnvironment(_Settings):
    """The variables of a pod. No KUBERNETES_SERVICE_HOST: no pod.

    KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT  address of the API server
    POD_NAME                  name of the pod, from the downward API (default: HOSTNAME, which is another name in an
                              indexed Job)
    TRACKSIDE_SERVICE_ACCOUNT folder with token, ca.crt and namespace (default: where Kubernetes mounts it)
    """

    host: str = _text("KUBERNETES_SERVICE_HOST")
    port: int = _whole("KUBERNETES_SERVICE_PORT", 443)
    pod: str = _read("", lambda env: env.get("POD_NAME", "") or env.get("HOSTNAME", ""))
    service_account: Path = _read(  # noqa: RUF009 - a declaration
        Path(SERVICE_ACCOUNT), lambda env: Path(env.get("TRACKSIDE_SERVICE_ACCOUNT", "") or SERVICE_ACCOUNT)
    )


@dataclass(frozen=True)
class BatchEnvironment(_Settings):
    """The variables of a job of AWS Batch. No AWS_BATCH_JOB_ID: no such job.

    AWS_BATCH_JOB_ID, AWS_BATCH_JQ_NAME   id of the job, and the name of its queue
    AWS_BATCH_JOB_ARRAY_INDEX             index in an array of jobs
    AWS_BATCH_JOB_ATTEMPT                 1 for the first attempt
    """

    job_id: str = _text("AWS_BATCH_JOB_ID")
    queue: str = _text("AWS_BATCH_JQ_NAME")
    array_index: int | None = _index("AWS_BATCH_JOB_ARRAY_INDEX")
    attempt: int = _whole("AWS_BATCH_JOB_ATTEMPT", 1)


def project_variable(key: str) -> str:
    """Return the name of the variable with a setting of a project: TRACKSIDE_FAIL_ON of `fail-on`."""
    return f"TRACKSIDE_{key.upper().replace('-', '_')}"


def project_variables(keys: Iterable[str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings of a project that variables give, as texts.

    TRACKSIDE_RULE, TRACKSIDE_ONLY, TRACKSIDE_SKIP   rules, with spaces between them
    TRACKSIDE_SET                                    RULE.NAME=VALUE, with spaces between them
    TRACKSIDE_RULES_FILE                             path of a rules file
    others                                           as the options of `trackside run`

    Args:
        keys: The settings, by their keys in a settings file.
        environ: The variables; None for those of the process.
    """
    env = _environ(environ)
    found = {key: env.get(project_variable(key), "").strip() for key in keys}
    return {key: text for key, text in found.items() if text}


def aws_region(environ: Mapping[str, str] | None = None) -> str | None:
    """Return AWS_REGION, which the CDK and other SDKs of AWS use and boto3 does not; None for boto3's own choice."""
    return _environ(environ).get("AWS_REGION", "").strip() or None


def aws_settings() -> tuple[object, ...]:
    """Return the settings that a client of AWS is made from: botocore's variables, and the state of AWS's own files."""
    env = os.environ  # noqa: TID251
    read = {n: v for n, v in env.items() if n.startswith("AWS_") or n in _READ_BY_BOTOCORE or n.lower() in _PROXIES}
    files = [env.get(name) or default for name, default in _AWS_FILES]
    return (*sorted(read.items()), *map(_state_of_file, files))


def mxnet_profiles_from_start(environ: Mapping[str, str] | None = None) -> bool:
    """Return True if MXNet's profiler is at work from the beginning of this process."""
    return _number(_environ(environ).get("MXNET_PROFILER_AUTOSTART"), 0) != 0


def inherited() -> dict[str, str]:
    """Return a copy of this process's environment, for a child process."""
    return dict(os.environ)  # noqa: TID251


def go_on_from(checkpoint: str, order_path: str) -> None:
    """Set what a process that was started again reads, for this process and its children.

    Args:
        checkpoint: The good one.
        order_path: The file of what to leave out.
    """
    os.environ.update({RESUME_FROM: checkpoint, LEAVE_OUT: order_path})  # noqa: TID251


def forget_run() -> None:
    """Remove TRACKSIDE_RUN, so that an evaluator is not captured as a training if a rule imports a framework."""
    os.environ.pop("TRACKSIDE_RUN", None)  # noqa: TID251


def _state_of_file(path: str) -> tuple[int, int] | None:
    try:
        state = Path(path).expanduser().stat()
    except (OSError, RuntimeError):  # no such file, or an unknown user's home
        return None
    return state.st_mtime_ns, state.st_size


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isdigit() else default


def _positive_number(text: str | None, default: float) -> float:
    try:
        value = float(text or default)
    except ValueError:
        return default
    return value if value > 0 else default
