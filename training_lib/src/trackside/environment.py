"""The only module of the library that reads environment variables: it holds every name and its default."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.run_layout import run_of_job

PROFILER_CONFIG = "/opt/ml/input/config/profilerconfig.json"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SHOW_SAMPLES = "TRACKSIDE_SHOW_SAMPLES"
LEAVE_OUT, RESUME_FROM = "TRACKSIDE_LEAVE_OUT", "TRACKSIDE_RESUME_FROM"
FLEET_PREFIX = "TRACKSIDE_FLEET_"  # of a worker's settings, which its evaluators do not get

_READ_BY_BOTOCORE = frozenset({"BOTO_CONFIG", "HOME", "REQUESTS_CA_BUNDLE"})
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_AWS_FILES = (("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), ("AWS_CONFIG_FILE", "~/.aws/config"))


def _environ(given: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if given is None else given  # noqa: TID251


@dataclass(frozen=True)
class CaptureEnvironment:
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

    run_uri: str
    capture_request: str
    rank: int
    world_size: int
    is_sagemaker_job: bool = False
    ended_by: str = ""
    local_rank: int | None = None
    machine: str = ""
    profiler_config: str = ""
    shows_samples: bool = False
    local_world_size: int = 0

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> CaptureEnvironment:
        """Return the settings in the process's environment, or in `environ`."""
        env = _environ(environ)
        return cls(
            run_uri=run_of_job(env.get("TRACKSIDE_RUN", ""), env.get("TRAINING_JOB_NAME", "")),
            capture_request=env.get("TRACKSIDE_CAPTURE_REQUEST", ""),
            rank=_whole(env.get("RANK"), 0),
            world_size=_whole(env.get("WORLD_SIZE"), 1),
            is_sagemaker_job="TRAINING_JOB_NAME" in env,
            ended_by=env.get("TRACKSIDE_ENDED_BY", ""),
            local_rank=_whole(env["LOCAL_RANK"], 0) if "LOCAL_RANK" in env else None,
            machine=env.get("SM_CURRENT_HOST", ""),
            profiler_config=env.get("SMPROFILER_CONFIG_PATH", "")
            or (PROFILER_CONFIG if "TRAINING_JOB_NAME" in env else ""),
            shows_samples=env.get(SHOW_SAMPLES, "") == "1",
            local_world_size=_whole(env.get("LOCAL_WORLD_SIZE"), 0),
        )


@dataclass(frozen=True)
class RehearsalEnvironment:
    """Settings of a training process that `trackside check` has started, beside `CaptureEnvironment`.

    TRACKSIDE_CHECK_STEPS    number of optimizer steps before the probes; 0 or unset: this is no rehearsal
    TRACKSIDE_CHECK_SECONDS  time after the first step at which the probes begin all the same (default 120)
    TRACKSIDE_PROBE_SECONDS  time that all probes together may take (default 90)
    """

    steps: int = 0
    seconds: float = 120.0
    probe_seconds: float = 90.0

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> RehearsalEnvironment:
        """Return the settings in the process's environment, or in `environ`."""
        env = _environ(environ)
        return cls(
            steps=_whole(env.get("TRACKSIDE_CHECK_STEPS"), 0),
            seconds=_positive(env.get("TRACKSIDE_CHECK_SECONDS"), cls.seconds),
            probe_seconds=_positive(env.get("TRACKSIDE_PROBE_SECONDS"), cls.probe_seconds),
        )

    def variables(self) -> dict[str, str]:
        """Return the variables that `read` reads."""
        return {
            "TRACKSIDE_CHECK_STEPS": str(self.steps),
            "TRACKSIDE_CHECK_SECONDS": repr(self.seconds),
            "TRACKSIDE_PROBE_SECONDS": repr(self.probe_seconds),
        }


@dataclass(frozen=True)
class RescueEnvironment:
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

    is_on: bool = False
    copies: int = 3
    tries: int = 5
    place_tries: int = 2
    memory_mb: int | None = None
    folder: str = ""
    restarts: bool = False
    leave_out: str = ""

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> RescueEnvironment:
        """Return the settings in the process's environment, or in `environ`."""
        env = _environ(environ)
        return cls(
            is_on=env.get("TRACKSIDE_RESCUE", "") == "1",
            copies=max(2, _whole(env.get("TRACKSIDE_RESCUE_COPIES"), cls.copies)),
            tries=_whole(env.get("TRACKSIDE_RESCUE_TRIES"), cls.tries),
            place_tries=max(1, _whole(env.get("TRACKSIDE_RESCUE_PLACE_TRIES"), cls.place_tries)),
            memory_mb=int(memory) if (memory := env.get("TRACKSIDE_RESCUE_MEMORY_MB", "")).isdigit() else None,
            folder=env.get("TRACKSIDE_RESCUE_FOLDER", ""),
            restarts=env.get("TRACKSIDE_RESCUE_MODE", "") == "restart",
            leave_out=env.get(LEAVE_OUT, ""),
        )

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
class EvaluatorEnvironment:
    """Settings of an evaluator.

    TRACKSIDE_RUN                address of the run
    TRACKSIDE_EVENT_BUS          name or ARN of the event bus; empty: verdicts go to the run's verdicts.jsonl only
    TRACKSIDE_POLL_SECONDS       time between two looks for new steps (default 1)
    TRAINING_JOB_NAME, TRAINING_JOB_ARN   the job that is judged
    TRAINING_JOB_CREATED_AT      the second of its creation, since the epoch: its name may be used again; 0: not known
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

    run_uri: str
    event_bus: str
    poll_seconds: float
    training_job_name: str
    training_job_arn: str
    ml_root: Path
    custom_rules_from: str = ""
    rule_configuration: str = ""
    stop_file: str = ""
    stop_grace_seconds: float = 60.0
    rules_after: int = 0
    max_runtime_seconds: float = 0.0
    has_worker_lease: bool = False
    training_job_created_at: int = 0
    link: int = 1
    run_as: int = 0

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> EvaluatorEnvironment:
        """Return the settings in the process's environment, or in `environ`."""
        env = _environ(environ)
        return cls(
            run_uri=env.get("TRACKSIDE_RUN", ""),
            event_bus=env.get("TRACKSIDE_EVENT_BUS", ""),
            poll_seconds=_positive(env.get("TRACKSIDE_POLL_SECONDS"), 1.0),
            training_job_name=env.get("TRAINING_JOB_NAME", ""),
            training_job_arn=env.get("TRAINING_JOB_ARN", ""),
            ml_root=Path(env.get("TRACKSIDE_ML_ROOT") or "/opt/ml"),
            custom_rules_from=env.get("TRACKSIDE_CUSTOM_RULES_FROM", "").strip(),
            rule_configuration=env.get("TRACKSIDE_RULE_CONFIGURATION", ""),
            stop_file=env.get("SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE", ""),
            stop_grace_seconds=_positive(env.get("rule_stop_grace_time_secs"), 60.0),
            rules_after=_whole(env.get("TRACKSIDE_RULES_AFTER"), 0),
            max_runtime_seconds=_positive(env.get("TRACKSIDE_MAX_RUNTIME_SECONDS"), 0.0),
            has_worker_lease=bool(env.get("TRACKSIDE_LIFELINE")),
            training_job_created_at=_whole(env.get("TRAINING_JOB_CREATED_AT"), 0),
            link=max(1, _whole(env.get("TRACKSIDE_LINK"), 1)),
            run_as=_whole(env.get("TRACKSIDE_RUN_AS"), 0),
        )


@dataclass(frozen=True)
class FleetEnvironment:
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

    table: str = ""
    queue_url: str = ""
    failed_queue_url: str = ""
    runs: int = 8
    lease_seconds: float = 60.0
    look_seconds: float = 20.0
    news_seconds: float = 0.0
    slow_poll_seconds: float = 10.0  # of a run without notifications from S3
    grace_seconds: float = 90.0
    event_bus: str = ""
    silent_seconds: float = 900.0
    memory_mb: int = 0

    @property
    def most_memory_bytes(self) -> int:
        """The memory of all evaluators, in bytes; 0: no limit."""
        return self.memory_mb << 20

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> FleetEnvironment:
        """Return the settings in the process's environment, or in `environ`."""
        env = _environ(environ)
        return cls(
            table=env.get(f"{FLEET_PREFIX}TABLE", ""),
            queue_url=env.get(f"{FLEET_PREFIX}QUEUE_URL", ""),
            failed_queue_url=env.get(f"{FLEET_PREFIX}FAILED_QUEUE_URL", ""),
            runs=max(1, _whole(env.get(f"{FLEET_PREFIX}RUNS"), cls.runs)),
            lease_seconds=_positive(env.get(f"{FLEET_PREFIX}LEASE_SECONDS"), cls.lease_seconds),
            look_seconds=_positive(env.get(f"{FLEET_PREFIX}LOOK_SECONDS"), cls.look_seconds),
            news_seconds=_positive(env.get(f"{FLEET_PREFIX}NEWS_SECONDS"), 0.0),
            slow_poll_seconds=_positive(env.get(f"{FLEET_PREFIX}SLOW_POLL_SECONDS"), cls.slow_poll_seconds),
            grace_seconds=_positive(env.get(f"{FLEET_PREFIX}GRACE_SECONDS"), cls.grace_seconds),
            event_bus=env.get("TRACKSIDE_EVENT_BUS", ""),
            silent_seconds=_positive(env.get(f"{FLEET_PREFIX}SILENT_SECONDS"), cls.silent_seconds),
            memory_mb=_whole(env.get(f"{FLEET_PREFIX}MEMORY_MB"), 0),
        )


@dataclass(frozen=True)
class OldReaderEnvironment:
    """Settings of scripts written for smdebug, as they read a run.

    SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW     number of newer steps that a step waits for a missing worker (default 1000)
    SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT  number of further looks for a missing event file (100)
    """

    incomplete_step_window: int
    missing_file_tries: int

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> OldReaderEnvironment:
        """Return the settings in the process's environment, or in `environ`."""
        env = _environ(environ)
        return cls(
            incomplete_step_window=max(1, _whole(env.get("SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW"), 1000)),
            missing_file_tries=_whole(env.get("SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT"), 100),
        )


@dataclass(frozen=True)
class OldNamesEnvironment:
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

    is_sagemaker_job: bool
    region: str | None
    hook_configuration: str
    checkpoint_configuration: str
    tensorboard_configuration: str
    profiler_configuration: str
    hyperparameters: str
    horovod_timeline: str
    is_smdebug_used: bool
    rule_stop_file: str
    rule_stop_grace_seconds: float
    log_level: str
    time_buffer_microseconds: float

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> OldNamesEnvironment:
        """Return the settings in the process's environment, or in `environ`."""
        env = _environ(environ)
        ml_configuration = "/opt/ml/input/config"
        return cls(
            is_sagemaker_job="TRAINING_JOB_NAME" in env,
            region=aws_region(env),
            hook_configuration=env.get("SMDEBUG_CONFIG_FILE_PATH", f"{ml_configuration}/debughookconfig.json"),
            checkpoint_configuration=env.get(
                "CHECKPOINT_CONFIG_FILE_PATH", f"{ml_configuration}/checkpointconfig.json"
            ),
            tensorboard_configuration=env.get(
                "TENSORBOARD_CONFIG_FILE_PATH", f"{ml_configuration}/tensorboardoutputconfig.json"
            ),
            profiler_configuration=env.get("SMPROFILER_CONFIG_PATH", PROFILER_CONFIG),
            hyperparameters=env.get("SM_HPS", ""),
            horovod_timeline=env.get("HOROVOD_TIMELINE", ""),
            is_smdebug_used=env.get("USE_SMDEBUG", "").strip().lower() not in {"false", "0", "no", "off", "n", "f"},
            rule_stop_file=env.get("SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE", ""),
            rule_stop_grace_seconds=_positive(env.get("rule_stop_grace_time_secs"), 60.0),
            log_level=env.get("SMDEBUG_LOG_LEVEL", "info").strip().lower(),
            time_buffer_microseconds=_positive(env.get("TIME_BUFFER_MICROSECONDS"), 180e6),
        )


@dataclass(frozen=True)
class CloudEnvironment:
    """Settings of commands about a deployment.

    TRACKSIDE_TABLE  name of the table of runs; unset: the deployment's own, by the output of its stack
    """

    run_table: str

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> CloudEnvironment:
        """Return the settings in the process's environment, or in `environ`."""
        return cls(run_table=_environ(environ).get("TRACKSIDE_TABLE", "").strip())


@dataclass(frozen=True)
class SlurmEnvironment:
    """The variables of a job of Slurm. No SLURM_JOB_ID: no such job.

    SLURM_JOB_ID, SLURM_JOB_NAME, SLURM_JOB_USER  number, name and owner of the job
    SLURM_ARRAY_JOB_ID, SLURM_ARRAY_TASK_ID       number and index in an array of jobs
    SLURM_JOB_NODELIST, SLURMD_NODENAME           machines of the job; this machine
    SLURM_RESTART_COUNT                           how often the job was requeued
    SLURM_STEP_ID                                 the step of this process, if `srun` started it
    """

    job_id: str
    job_name: str
    user: str
    array_job_id: str
    array_index: int | None
    nodes: str
    restarts: int
    step_id: str

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> SlurmEnvironment:
        """Return the variables of the process's environment, or of `environ`."""
        env = _environ(environ)
        return cls(
            job_id=env.get("SLURM_JOB_ID", ""),
            job_name=env.get("SLURM_JOB_NAME", ""),
            user=env.get("SLURM_JOB_USER", ""),
            array_job_id=env.get("SLURM_ARRAY_JOB_ID", ""),
            array_index=_index(env.get("SLURM_ARRAY_TASK_ID")),
            nodes=env.get("SLURM_JOB_NODELIST", "") or env.get("SLURMD_NODENAME", ""),
            restarts=_whole(env.get("SLURM_RESTART_COUNT"), 0),
            step_id=env.get("SLURM_STEP_ID", ""),
        )


@dataclass(frozen=True)
class KubernetesEnvironment:
    """The variables of a pod. No KUBERNETES_SERVICE_HOST: no pod.

    KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT  address of the API server
    POD_NAME                  name of the pod, from the downward API (default: HOSTNAME, which is another name in an
                              indexed Job)
    TRACKSIDE_SERVICE_ACCOUNT folder with token, ca.crt and namespace (default: where Kubernetes mounts it)
    """

    host: str
    port: int
    pod: str
    service_account: Path

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> KubernetesEnvironment:
        """Return the variables of the process's environment, or of `environ`."""
        env = _environ(environ)
        return cls(
            host=env.get("KUBERNETES_SERVICE_HOST", ""),
            port=_whole(env.get("KUBERNETES_SERVICE_PORT"), 443),
            pod=env.get("POD_NAME", "") or env.get("HOSTNAME", ""),
            service_account=Path(env.get("TRACKSIDE_SERVICE_ACCOUNT", "") or SERVICE_ACCOUNT),
        )


@dataclass(frozen=True)
class BatchEnvironment:
    """The variables of a job of AWS Batch. No AWS_BATCH_JOB_ID: no such job.

    AWS_BATCH_JOB_ID, AWS_BATCH_JQ_NAME   id of the job, and the name of its queue
    AWS_BATCH_JOB_ARRAY_INDEX             index in an array of jobs
    AWS_BATCH_JOB_ATTEMPT                 1 for the first attempt
    """

    job_id: str
    queue: str
    array_index: int | None
    attempt: int

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> BatchEnvironment:
        """Return the variables of the process's environment, or of `environ`."""
        env = _environ(environ)
        return cls(
            job_id=env.get("AWS_BATCH_JOB_ID", ""),
            queue=env.get("AWS_BATCH_JQ_NAME", ""),
            array_index=_index(env.get("AWS_BATCH_JOB_ARRAY_INDEX")),
            attempt=_whole(env.get("AWS_BATCH_JOB_ATTEMPT"), 1),
        )


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
    return _whole(_environ(environ).get("MXNET_PROFILER_AUTOSTART"), 0) != 0


def inherited() -> dict[str, str]:
    """Return a copy of this process's environment, for a child process."""
    return dict(os.environ)  # noqa: TID251


def forget_run() -> None:
    """Remove TRACKSIDE_RUN, so that an evaluator is not captured as a training if a rule imports a framework."""
    os.environ.pop("TRACKSIDE_RUN", None)  # noqa: TID251


def _state_of_file(path: str) -> tuple[int, int] | None:
    try:
        state = Path(path).expanduser().stat()
    except (OSError, RuntimeError):  # no such file, or an unknown user's home
        return None
    return state.st_mtime_ns, state.st_size


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isdigit() else default


def _index(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _positive(text: str | None, default: float) -> float:
    try:
        value = float(text or default)
    except ValueError:
        return default
    return value if value > 0 else default
