"""The container's entry point in a process of its own, against a local S3 and a local bus."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from rule_containers.evaluator.entrypoint import main
from tests.patience import HANGS_SECONDS, wait_until
from tests.rule_containers.as_nobody import AS_NOBODY, AS_ROOT_OF_A_CONTAINER, NOBODY, root_owned_folder, run_as
from tests.rule_containers.local_environment import local_environment
from tests.warm_python import WarmProcess, WarmPython
from trackside.containers.rule_container import MOST_MESSAGE_BYTES, message_of
from trackside.contracts.action import Action
from trackside.contracts.deployment.evaluator_ending import EndKind, read_ending
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.recorded_names import STEP_SECONDS
from trackside.contracts.run_layout import picture_key
from trackside.contracts.verdict import Outcome, Severity, Verdict
from trackside.evaluation.__main__ import main as judge_here
from trackside.evaluation.results.summary import Summary
from trackside.records.machine.performance_facts import PerformanceFacts
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.storage.s3 import S3Store
from trackside.storage.store import Store
from trackside.storage.subfolder import Subfolder
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.testing.rule_case import Machine, profile_store

ENTRY_POINT = Path(__file__).parents[3] / "rule_containers" / "evaluator" / "entrypoint.py"
JOB_ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits"


@dataclass
class Account:
    """A local account: an S3 bucket `runs`, a bus `trackside` and a queue behind all its events."""

    endpoint: str
    client: Callable[[str], Any]
    queue: str
    warm_python: WarmPython

    @property
    def environment(self) -> dict[str, str]:
        return local_environment(self.endpoint)

    def run(self, name: str) -> Store:
        return S3Store("runs", name, client=self.client("s3"))

    def events(self) -> list[dict[str, Any]]:
        """Details of the events that have arrived since the last call."""
        found: list[dict[str, Any]] = []
        while batch := self.client("sqs").receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages"):
            for message in batch:
                self.client("sqs").delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
                found.append(json.loads(message["Body"])["detail"])
        return found


@pytest.fixture(scope="module")
def account(warm_python: WarmPython) -> Iterator[Account]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    session = boto3.session.Session("testing", "testing", region_name="us-east-1")

    def client(name: str) -> Any:
        return session.client(name, endpoint_url=f"http://{host}:{port}")

    client("s3").create_bucket(Bucket="runs")
    queue = client("sqs").create_queue(QueueName="arrived")["QueueUrl"]
    arn = client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client("events").create_event_bus(Name="trackside")
    client("events").put_rule(Name="all", EventBusName="trackside", EventPattern='{"source": ["trackside"]}')
    client("events").put_targets(Rule="all", EventBusName="trackside", Targets=[{"Id": "q", "Arn": arn}])
    yield Account(f"http://{host}:{port}", client, queue, warm_python)
    server.stop()


def write_run(store: Store, *, faulty: bool, ended: bool = True, request: RuleRequest | None = None) -> None:
    tensors = _Tensors(store)
    write_collections(tensors)
    for step in range(4):
        gradient = float("nan") if faulty and step == 2 else 0.5
        write_tensors(tensors, step, {"CrossEntropyLoss_output_0": 2.0 - step / 4, "gradient/Net_fc1.weight": gradient})
    if ended:
        end_run(tensors)
    if request:
        store.put("rule-request.json", request.to_json().encode())


class _Tensors:
    """The `debug-output` of a run, for writing only."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.uri = store.uri

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._store.put(f"debug-output/{key}", data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        raise NotImplementedError

    def exists(self, key: str) -> bool:
        raise NotImplementedError

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        raise NotImplementedError


def start(account: Account, ml_root: Path, **environment: str) -> WarmProcess:
    return account.warm_python.start_captured(ENTRY_POINT, env=given(account, ml_root, **environment))


def given(account: Account, ml_root: Path, **environment: str) -> dict[str, str]:
    return {
        **account.environment,
        "TRACKSIDE_ML_ROOT": str(ml_root),
        "TRACKSIDE_POLL_SECONDS": "0.1",
        "TRAINING_JOB_NAME": "digits",
        "TRAINING_JOB_ARN": JOB_ARN,
        **environment,
    }


def finish(process: WarmProcess) -> tuple[int, str]:
    done = process.finish()
    return done.returncode, done.stderr


def message(ml_root: Path) -> str:
    return (ml_root / "output" / "message").read_text(encoding="utf-8")


ONLY_EXPLODING = RuleRequest((RuleConfiguration("exploding-tensor"),))
ONLY_OVERFIT = RuleRequest((RuleConfiguration("overfit"),))  # there is no validation in the runs here


def test_an_issue_reaches_the_bus_the_run_and_the_exit_message(account: Account, tmp_path: Path) -> None:
    write_run(account.run("faulty"), faulty=True)
    environment = given(account, tmp_path, TRACKSIDE_RUN="s3://runs/faulty", TRACKSIDE_EVENT_BUS="trackside")
    done = subprocess.run([sys.executable, ENTRY_POINT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert message(tmp_path).startswith(
        "RuleEvaluationConditionMet: Evaluation of the rule exploding-tensor at step 2 resulted in the condition being"
    )
    events = account.events()
    (issue,) = [event for event in events if event["RuleEvaluationStatus"] == "IssuesFound"]
    assert issue["TrainingJobArn"] == JOB_ARN
    assert issue["Rule"] == "exploding-tensor"
    assert issue["Actions"] == ["Notify", "PublishMetric"]  # nobody asked to stop
    assert issue["Evidence"]["TensorUri"].startswith("s3://runs/faulty/debug-output/events/000000000002/")
    usual = len(built_in_catalogue().usual)
    assert len(events) == usual  # every one has answered
    assert account.run("faulty").get("rule-output/verdicts.jsonl").count(b"\n") == usual
    report = account.run("faulty").get("rule-output/report.html").decode()
    assert "CRITICAL  exploding-tensor" in report
    picture = picture_key(issue["RuleConfigurationName"], issue["Evidence"]["SinceStep"])
    assert account.run("faulty").get(f"rule-output/{picture}").startswith(b"\x89PNG"), "for messages about the event"
    pictures = list(account.run("faulty").list("rule-output/pictures/"))
    assert len(pictures) == 1, "and of no other rule"


@pytest.fixture
def root_owned() -> Iterator[Path]:
    """The job's folder as SageMaker gives it: root's, and readable for all."""
    with root_owned_folder() as folder:
        yield folder


@pytest.mark.parametrize(
    ("starts_as", "kind", "is_heard"),
    [
        pytest.param(AS_ROOT_OF_A_CONTAINER, EndKind.JUDGED, True, id="as the image starts: as root, which it leaves"),
        pytest.param(AS_NOBODY, EndKind.NOTHING_JUDGED, False, id="as nobody from the start"),
    ],
)
def test_its_end_is_told_of_where_all_folders_are_roots(
    account: Account, root_owned: Path, *, starts_as: tuple[str, ...], kind: EndKind, is_heard: bool
) -> None:
    """SageMaker's job folders are: https://github.com/aws/sagemaker-python-sdk/pull/4325."""
    name = f"ends-{kind.value}"
    write_run(account.run(name), faulty=kind is EndKind.JUDGED, request=ONLY_EXPLODING if is_heard else ONLY_OVERFIT)
    more = {"TRACKSIDE_RUN_AS": str(NOBODY), "TRACKSIDE_LINK": "3", "HOME": "/nonexistent"}
    environment = given(account, root_owned, TRACKSIDE_RUN=f"s3://runs/{name}", **more)
    done = run_as(starts_as, [sys.executable, str(ENTRY_POINT)], environment)
    assert done.returncode == 0, done.stderr
    file = root_owned / "output" / "message"
    assert file.exists() is is_heard
    note = read_ending(account.run(name).get("rule-output/ending.json"))
    assert note is not None
    assert (note.kind, note.job, note.link) == (kind, JOB_ARN, 3)
    if is_heard:
        assert (file.read_text(encoding="utf-8"), file.stat().st_uid) == (note.message, NOBODY)


READ_ONLY = """
set -e
mount --make-rprivate /
for folder in "$ML_ROOT" "$TMPDIR"; do mount --bind "$folder" "$folder"; done
for place in /dev/shm /; do mount -o remount,bind,ro "$place"; done
exec "$@"
"""


def beside_a_read_only_root(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs it where nothing but $ML_ROOT and $TMPDIR can be written to, whoever it is."""
    unshare = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh"]
    return subprocess.run(
        [*unshare, *command], env=environment, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False
    )


def test_runs_beside_a_read_only_root(account: Account, tmp_path: Path) -> None:
    """SageMaker mounts /opt/ml; /tmp is what a container must have besides."""
    write_run(account.run("read-only"), faulty=True)
    environment = {
        **account.environment,
        "ML_ROOT": str(tmp_path / "ml"),
        "TMPDIR": str(tmp_path / "scratch"),
        "TRACKSIDE_ML_ROOT": str(tmp_path / "ml"),
        "TRACKSIDE_POLL_SECONDS": "0.1",
        "TRACKSIDE_RUN": "s3://runs/read-only",
        "TRAINING_JOB_NAME": "digits",
        "TRAINING_JOB_ARN": JOB_ARN,
        "HOME": "/nonexistent",  # nobody's
    }
    for name in ("ML_ROOT", "TMPDIR"):
        Path(environment[name]).mkdir()
    probe = beside_a_read_only_root(["true"], environment)
    if probe.returncode:
        pytest.skip(f"no file system can be mounted here: {probe.stderr.strip()}")
    refused = beside_a_read_only_root(["touch", str(tmp_path / "beside")], environment)
    assert "Read-only file system" in refused.stderr, "the root is not read-only"
    ran = beside_a_read_only_root([sys.executable, str(ENTRY_POINT)], environment)
    assert ran.returncode == 0, ran.stderr
    assert message(tmp_path / "ml").startswith("RuleEvaluationConditionMet")
    assert "Read-only file system" not in ran.stderr, "it tried to write elsewhere"
    assert list((tmp_path / "scratch").iterdir()) == []


def test_configuration_comes_from_the_processing_job_where_the_environment_has_none(
    account: Account, tmp_path: Path
) -> None:
    write_run(account.run("healthy"), faulty=False, request=ONLY_EXPLODING)
    configuration = {
        "ProcessingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:processing-job/judge",
        "Environment": {"TRACKSIDE_RUN": "s3://runs/healthy", "TRACKSIDE_EVENT_BUS": "trackside"},
    }
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "processingjobconfig.json").write_text(json.dumps(configuration), encoding="utf-8")
    code, stderr = finish(start(account, tmp_path))
    assert code == 0, stderr
    assert message(tmp_path).startswith("No issue found by ")
    (event,) = account.events()
    assert event["RuleEvaluationStatus"] == "NoIssuesFound"
    assert event["RuleEvaluationJobArn"].endswith("processing-job/judge")


def test_a_second_job_on_the_same_run_is_refused_and_a_restart_is_not(account: Account, tmp_path: Path) -> None:
    """Else the second job, of which nothing was captured, would be called what the first one was called."""
    write_run(account.run("shared"), faulty=False, request=ONLY_EXPLODING)
    assert finish(start(account, tmp_path, TRACKSIDE_RUN="s3://runs/shared"))[0] == 0
    said = account.run("shared").get("rule-output/verdicts.jsonl")

    assert finish(start(account, tmp_path, TRACKSIDE_RUN="s3://runs/shared/"))[0] == 0
    assert message(tmp_path).startswith("No issue found by ")

    code, stderr = finish(start(account, tmp_path, TRACKSIDE_RUN="s3://runs/shared", TRAINING_JOB_ARN=f"{JOB_ARN}-2"))
    assert code == 2, stderr
    assert f"is the run of another job, {JOB_ARN}." in message(tmp_path)
    assert "No issue found" not in message(tmp_path)
    assert account.run("shared").get("rule-output/verdicts.jsonl") == said


def test_sigterm_ends_it_cleanly(account: Account, tmp_path: Path) -> None:
    write_run(account.run("growing"), faulty=True, ended=False, request=ONLY_EXPLODING)
    process = start(account, tmp_path, TRACKSIDE_RUN="s3://runs/growing")
    wait_until(lambda: account.run("growing").exists("rule-output/verdicts.jsonl"))
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0
    assert message(tmp_path).startswith("RuleEvaluationConditionMet: ")


@pytest.mark.parametrize(
    ("environment", "code", "said"),
    [
        pytest.param({}, 2, "TRACKSIDE_RUN: is not set.", id="no-run"),
        pytest.param({"TRACKSIDE_RUN": "s3://nowhere/run"}, 3, "There is no bucket 'nowhere'.", id="no-bucket"),
        pytest.param({"TRACKSIDE_RUN": "gs://runs/run"}, 2, "scheme 'gs'", id="another-cloud"),
        pytest.param(
            {"TRACKSIDE_RUN": "s3://runs/x", "TRACKSIDE_EVENT_BUS": "b", "TRAINING_JOB_ARN": ""},
            2,
            "TRAINING_JOB_ARN: is not set.",
            id="no-job",
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_exit_message(
    account: Account, tmp_path: Path, environment: dict[str, str], code: int, said: str
) -> None:
    returned, stderr = finish(start(account, tmp_path, **environment))
    assert returned == code, stderr
    assert said in message(tmp_path)
    assert "Traceback" not in stderr


def test_no_permission_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, key: str, **_: object) -> bytes:
        from trackside.contracts.errors import AccessDeniedError

        raise AccessDeniedError(f"Cannot read {key!r}. S3 refused (AccessDenied).")

    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TRACKSIDE_ML_ROOT", str(tmp_path))
    monkeypatch.setattr(LocalStore, "get", refuse)
    assert main() == 3
    assert "AccessDenied" in message(tmp_path)


def test_a_rule_from_a_file_is_refused_once_and_the_others_judge(account: Account, tmp_path: Path) -> None:
    """Its code would run with the rights of the container, and whoever may write a run could name any."""
    ran = tmp_path / "ran"
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(ran)!r}, 'w').close()\n", encoding="utf-8")
    request = RuleRequest(
        (
            RuleConfiguration("exploding-tensor"),
            RuleConfiguration("Mine", name="mine", source=str(file), actions=(Action.STOP_TRAINING,)),
            RuleConfiguration("s", parameters={"source_s3_uri": "s3://runs/mine.py", "rule_to_invoke": "Mine"}),
        )
    )
    write_run(account.run("custom"), faulty=True, request=request)
    for _ in range(2):  # a restarted container says nothing twice
        environment = {"TRACKSIDE_RUN": "s3://runs/custom", "TRACKSIDE_EVENT_BUS": "trackside"}
        code, stderr = finish(start(account, tmp_path, **environment))
        assert code == 2, stderr
        assert message(tmp_path).startswith("RuleEvaluationConditionMet: ")
        assert f"Not evaluated: mine. The rule Mine of {file} was not judged" in message(tmp_path)
    assert not ran.exists()
    said = {event["RuleConfigurationName"]: event for event in account.events()}
    assert {name: event["RuleEvaluationStatus"] for name, event in said.items()} == {
        "exploding-tensor": "IssuesFound",
        "mine": "Error",
        "s": "Error",
    }
    assert said["mine"]["Actions"] == []
    assert account.run("custom").get("rule-output/verdicts.jsonl").count(b"\n") == 3


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        pytest.param(
            RuleRequest((RuleConfiguration("Mine", source="/nowhere/mine.py"),)), 2, id="only a rule of a file"
        ),
        pytest.param(RuleRequest((RuleConfiguration("exploding-tensor"),)), 0, id="none"),
    ],
)
def test_the_exit_code_tells_of_a_refused_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: RuleRequest, code: int
) -> None:
    write_run(LocalStore(tmp_path / "run"), faulty=False, request=request_)
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TRACKSIDE_ML_ROOT", str(tmp_path))
    assert main() == code
    assert ("was not judged" in message(tmp_path)) == (code == 2)


def test_what_the_container_refused_another_evaluator_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from trackside.rules.tensors.exploding_tensor import ExplodingTensor\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Mine(ExplodingTensor):\n"
        '    """Mine."""\n\n'
        '    rule_id = "mine"\n',
        encoding="utf-8",
    )
    run = tmp_path / "run"
    write_run(LocalStore(run), faulty=True, request=RuleRequest((RuleConfiguration("Mine", source=str(file)),)))
    monkeypatch.setenv("TRACKSIDE_RUN", str(run))
    monkeypatch.setenv("TRACKSIDE_ML_ROOT", str(tmp_path))
    assert main() == 2
    assert judge_here(["--run", str(run), "--poll-seconds", "0.1"]) == 0
    outcomes = [json.loads(line)["outcome"] for line in LocalStore(run).get("rule-output/verdicts.jsonl").splitlines()]
    assert outcomes == ["not-evaluated", "issue-found"]


PLACE = "s3://rules/approved"
SEPARATE = RuleConfiguration("Mine", name="apart", source=f"{PLACE}/mine.py")
ELSEWHERE = RuleConfiguration("Mine", name="elsewhere", source="s3://runs/mine.py")


@pytest.mark.parametrize(
    ("rules", "ends", "judged"),
    [
        pytest.param(
            (RuleConfiguration("exploding-tensor"), SEPARATE), (0, "No issue found by 1"), 1, id="beside others"
        ),
        pytest.param((SEPARATE,), (0, "No rule is left to this job"), 0, id="alone"),
        pytest.param((SEPARATE, ELSEWHERE), (2, "Not evaluated: elsewhere."), 1, id="one from elsewhere"),
    ],
)
def test_rules_from_files_that_have_jobs_of_their_own_are_left_to_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[RuleConfiguration, ...],
    ends: tuple[int, str],
    judged: int,
) -> None:
    write_run(LocalStore(tmp_path / "run"), faulty=False, request=RuleRequest(rules))
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TRACKSIDE_ML_ROOT", str(tmp_path))
    monkeypatch.setenv("TRACKSIDE_CUSTOM_RULES_FROM", PLACE)
    assert (main(), ends[1] in message(tmp_path)) == (ends[0], True)
    assert "apart" not in message(tmp_path)
    verdicts = LocalStore(tmp_path / "run" / "rule-output")
    assert (verdicts.get("verdicts.jsonl").count(b"\n") if judged else int(verdicts.exists("verdicts.jsonl"))) == judged


def test_it_stands_where_sagemaker_debugger_starts_a_container_for_one_rule(account: Account, tmp_path: Path) -> None:
    """Tensors are copied in while the job trains, the rule is a few variables, the first issue ends the container."""
    tensors = LocalStore(tmp_path / "processing" / "input" / "tensors")
    write_collections(tensors)
    for step in range(3):
        write_tensors(tensors, step, {"gradient/Net_fc1.weight": float("nan") if step == 2 else 0.5})
    environment = {
        "rule_to_invoke": "ExplodingTensor",
        "collection_names": "gradients",
        "only_nan": "True",
        "TRAINING_JOB_NAME": "",
        "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE": "/opt/ml/processing/input/profiler/signals/Exploded",
    }
    for _ in range(2):  # a restarted container ends at once
        code, stderr = finish(start(account, tmp_path, **environment))
        assert code == 0, stderr
        assert message(tmp_path).startswith("RuleEvaluationConditionMet: Evaluation of the rule Exploded at step 2")
    lines = (tmp_path / "processing" / "output" / "rule" / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["run"] for line in lines] == ["digits"]


SAMPLES: Machine = {("gpu", "gpu0", "GPUUtilization"): {float(second): 20.0 for second in range(300)}}
LOW = {"threshold_p95": "70", "patience": "100", "window": "100"}


def copied(source: Store, target: Store, folder: str) -> None:
    for key in source.list():
        target.put(f"{folder}/{key}", source.get(key))


def test_the_speed_of_a_run_in_s3_is_judged_by_rules_and_stored(account: Account, tmp_path: Path) -> None:
    rule = RuleConfiguration("low-gpu-utilization", parameters=LOW, actions=(Action.STOP_TRAINING,), preset="aws-sdk")
    run = account.run("slow")
    statistics = MemoryStore()
    write_statistics(statistics, {STEP_SECONDS: {"mean": dict.fromkeys(range(1, 200), 0.5)}})
    copied(statistics, run, "statistics")
    copied(profile_store(SAMPLES, {"worker_0": PerformanceFacts(processors=4)}), run, "profiler-output")
    write_run(run, faulty=False, request=RuleRequest((rule,)))
    code, stderr = finish(start(account, tmp_path, TRACKSIDE_RUN="s3://runs/slow"))
    assert code == 0, stderr
    (issue,) = map(json.loads, run.get("rule-output/verdicts.jsonl").splitlines())
    assert (issue["outcome"], issue["severity"], issue["actions"]) == ("issue-found", "critical", ["StopTraining"])
    assert issue["findings"][0]["subject"] == "gpu0 of algo-1"
    speed = json.loads(run.get("rule-output/performance.json"))
    assert (speed["workers"][0]["steps"], speed["workers"][0]["machine"]["gpu_percent"]) == (196, 20.0)
    report = json.loads(run.get("rule-output/profiler-report.json"))
    assert [rule["rule"] for rule in report["rules"] if rule["state"] == "found"] == ["low-gpu-utilization"]


def test_a_container_for_one_profiler_rule_reads_the_samples_that_sagemaker_copies_in(
    account: Account, tmp_path: Path
) -> None:
    inputs = LocalStore(tmp_path / "processing" / "input")
    write_run(Subfolder(inputs, "run"), faulty=False)
    copied(Subfolder(inputs, "run/debug-output"), inputs, "tensors")
    copied(profile_store(SAMPLES, {}), inputs, "profiler")
    environment = {"rule_to_invoke": "LowGPUUtilization", **LOW, "threshold": "60", "scan_interval_us": "60000000"}
    del environment["threshold_p95"]
    code, stderr = finish(start(account, tmp_path, **environment))
    assert code == 0, stderr
    assert message(tmp_path).startswith("RuleEvaluationConditionMet: Evaluation of the rule LowGPUUtilization")


def test_the_rule_of_the_environment_counts_and_not_the_runs_request(account: Account, tmp_path: Path) -> None:
    write_run(account.run("asked"), faulty=True, request=RuleRequest((RuleConfiguration("overfit"),)))
    environment = {"rule_to_invoke": "ExplodingTensor", "TRACKSIDE_RUN": "s3://runs/asked"}
    code, stderr = finish(start(account, tmp_path, **environment))
    assert code == 0, stderr
    said = account.run("asked").get("rule-output/ExplodingTensor/verdicts.jsonl")
    assert [json.loads(line)["configuration"] for line in said.splitlines()] == ["ExplodingTensor"]
    assert not account.run("asked").exists("rule-output/verdicts.jsonl")


def test_a_managed_container_does_not_call_unjudged_what_amazon_would_call_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 0 without a word of an issue is NoIssuesFound there."""
    tensors = LocalStore(tmp_path / "processing" / "input" / "tensors")
    write_collections(tensors)
    end_run(tensors)
    monkeypatch.setenv("rule_to_invoke", "ExplodingTensor")
    monkeypatch.setenv("TRACKSIDE_ML_ROOT", str(tmp_path))
    assert main() == 3
    assert message(tmp_path).startswith("No rule could judge this run.")


def test_an_unknown_rule_is_said_and_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "run")
    write_run(store, faulty=True, request=RuleRequest((RuleConfiguration("exploding-tenser"),)))
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TRACKSIDE_ML_ROOT", str(tmp_path))
    assert main() == 2
    assert "Did you mean 'exploding-tensor'?" in message(tmp_path)
    assert not store.exists("rule-output/verdicts.jsonl")


def test_a_message_that_cannot_be_written_does_not_fail_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(LocalStore(tmp_path / "run"), faulty=True)
    (tmp_path / "output").write_text("a file where a folder should be", encoding="utf-8")
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TRACKSIDE_ML_ROOT", str(tmp_path))
    assert main() == 0


def verdict(outcome: Outcome, message: str = "Said.") -> Verdict:
    return Verdict("r", "rule", "mine", outcome, Severity.INFO, 7, message, 1.5)


@pytest.mark.parametrize(
    ("summary", "begins", "holds"),
    [
        pytest.param(
            Summary((verdict(Outcome.CLEAN), verdict(Outcome.ISSUE_FOUND)), {"a": 1, "b": 1}, 7, has_ended=True),
            "RuleEvaluationConditionMet: Evaluation of the rule mine at step 7",
            "resulted in the condition being met. Said.",
            id="issue",
        ),
        pytest.param(
            Summary((verdict(Outcome.CLEAN),), {"a": 1, "b": 1}, 7, has_ended=True),
            "No issue found by 1 of 2 rules up to step 7.",
            "",
            id="clean",
        ),
        pytest.param(
            Summary((verdict(Outcome.NOT_EVALUATED, "No data."),), {"a": 0}, -1, has_ended=True),
            "No rule could judge this run. Not evaluated: mine. No data.",
            "",
            id="nothing-judged-is-not-clean",
        ),
        pytest.param(Summary((), {"a": 1}, 7, has_ended=False), "Stopped on request", "step 7", id="stopped"),
        pytest.param(
            Summary(
                (verdict(Outcome.CLEAN), verdict(Outcome.NOT_EVALUATED, "It crashed.")),
                {"a": 1, "b": 0},
                7,
                has_ended=True,
                undelivered=(verdict(Outcome.CLEAN),),
            ),
            "No issue found by 1 of 2 rules",
            "Not evaluated: mine. It crashed. 1 verdicts did not reach",
            id="trouble",
        ),
    ],
)
def test_messages(summary: Summary, begins: str, holds: str) -> None:
    assert message_of(summary).startswith(begins)
    assert holds in message_of(summary)


def test_the_message_is_cut_between_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_RUN", "gs://" + "é" * 2000)
    monkeypatch.setenv("TRACKSIDE_ML_ROOT", str(tmp_path))
    assert main() == 2
    raw = (tmp_path / "output" / "message").read_bytes()
    assert MOST_MESSAGE_BYTES - 4 < len(raw) <= MOST_MESSAGE_BYTES
    assert raw.decode("utf-8")
