"""The container for one rule from a file, in a process of its own, against a local S3."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.patience import wait_until
from tests.rule_containers.as_nobody import AS_NOBODY, root_owned_folder, run_as
from tests.rule_containers.local_environment import local_environment
from tests.warm_python import WarmProcess, WarmPython
from trackside.contracts.deployment.custom_rule_job import CustomRuleJob, read_ending
from trackside.contracts.event import RuleEvaluationStatus, TrainingJob
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Severity
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

ENTRY_POINT = Path(__file__).parents[3] / "rule_containers" / "custom_rule" / "entrypoint.py"
JOB = TrainingJob("digits", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits")
PLACE = "s3://rules/approved"

OURS = '''
from dataclasses import dataclass

from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter


@dataclass(frozen=True)
class LargeLoss(Rule):
    """The loss is too large."""

    rule_id = "large-loss"
    watches = ("losses",)
    save_interval = 1
    patience = 1
    severity = Severity.WARNING
    since = "1.0"
    what_to_do = ("Lower the learning rate.",)

    limit: float = parameter(2.0, "the largest loss allowed", minimum=0)

    def check(self, window):
        for name in window.tensors("losses"):
            for column in window.statistic(name, "mean", last=1):
                value = float(column.values[-1])
                if value > self.limit:
                    yield Finding(name, window.step, window.step, "loss", value, ">", self.limit, worker=column.worker)
'''

OLD = """
from smdebug.rules import Rule


class LargeLoss(Rule):
    def __init__(self, base_trial, limit=2.0):
        super().__init__(base_trial)
        self.limit = float(limit)

    def set_required_tensors(self, step):
        self.req_tensors.add(name=".*Loss", steps=[step], should_match_regex=True)

    def invoke_at_step(self, step):
        for tensor in self.req_tensors.get():
            if tensor.reduction_value(step, "mean") > self.limit:
                self.logger.warning("the loss is too large")
                return True
        return False
"""


@dataclass
class Account:
    endpoint: str
    s3: Any
    warm_python: WarmPython

    @property
    def environment(self) -> dict[str, str]:
        return local_environment(self.endpoint)

    def put_rule(self, content: str, key: str = "approved/mine.py") -> None:
        self.s3.put_object(Bucket="rules", Key=key, Body=content.encode())

    def put_run(
        self, folder: Path, name: str, *, losses: list[float], ended: bool, request: RuleRequest | None
    ) -> None:
        store = LocalStore(folder / "debug-output")
        write_collections(store)
        for step, loss in enumerate(losses):
            write_tensors(store, step, {"CrossEntropyLoss_output_0": loss})
        if ended:
            end_run(store)
        for file in folder.rglob("*"):
            if file.is_file():
                self.s3.put_object(
                    Bucket="runs", Key=f"{name}/{file.relative_to(folder).as_posix()}", Body=file.read_bytes()
                )
        if request:
            self.s3.put_object(Bucket="runs", Key=f"{name}/rule-request.json", Body=request.to_json().encode())

    def keys(self) -> dict[str, str]:
        """Every object there is, and its digest: what a container that can write nothing leaves as it was."""
        return {
            f"{bucket}/{entry['Key']}": entry["ETag"]
            for bucket in ("runs", "rules")
            for entry in self.s3.list_objects_v2(Bucket=bucket).get("Contents", ())
        }


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def account(server: str, warm_python: WarmPython) -> Iterator[Account]:
    session = boto3.session.Session("testing", "testing", region_name="us-east-1")
    account = Account(server, session.client("s3", endpoint_url=server), warm_python)
    for bucket in ("runs", "rules"):
        account.s3.create_bucket(Bucket=bucket)
    yield account
    for bucket in ("runs", "rules"):
        for entry in account.s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
            account.s3.delete_object(Bucket=bucket, Key=entry["Key"])
        account.s3.delete_bucket(Bucket=bucket)


def mine(source: str = f"{PLACE}/mine.py", **parameters: str) -> RuleRequest:
    rule = RuleConfiguration("LargeLoss", name="large", source=source, parameters=parameters)
    return RuleRequest((RuleConfiguration("exploding-tensor"), rule))


def start(account: Account, ml_root: Path, environment: Mapping[str, str] | None = None) -> WarmProcess:
    return account.warm_python.start_captured(ENTRY_POINT, env=given(account, ml_root, environment))


def given(account: Account, ml_root: Path, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """By default what start_evaluation gives."""
    by_default = CustomRuleJob(JOB, "s3://runs/digits", "large", "LargeLoss", place=PLACE).to_environment()
    return {
        **account.environment,
        "TRACKSIDE_ML_ROOT": str(ml_root),
        "TRACKSIDE_POLL_SECONDS": "0.1",
        **(by_default if environment is None else environment),
    }


def finish(process: WarmProcess) -> tuple[int, str]:
    done = process.finish()
    return done.returncode, done.stderr


def message(ml_root: Path) -> str:
    return (ml_root / "output" / "message").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "severity"),
    [pytest.param(OURS, "warning", id="our protocol"), pytest.param(OLD, "critical", id="smdebug's")],
)
def test_it_ends_with_the_first_issue_and_writes_nothing(
    account: Account, tmp_path: Path, content: str, severity: str
) -> None:
    account.put_rule(content)
    account.put_run(tmp_path / "run", "digits", losses=[1.0, 1.5, 3.0, 4.0], ended=False, request=mine(limit="2.5"))
    before = account.keys()
    command, environment = [sys.executable, str(ENTRY_POINT)], given(account, tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert message(tmp_path).startswith(
        "RuleEvaluationConditionMet: Evaluation of the rule large at step 2 resulted in the condition being met."
    )
    ending = read_ending(
        job_status="Completed", exit_message=message(tmp_path), failure_reason="", configuration="large"
    )
    assert ending is not None
    assert (ending.step, ending.severity.value) == (2, severity)
    assert '"configuration":"large"' in done.stderr  # the whole verdict, in the log
    assert account.keys() == before


@pytest.mark.parametrize(
    ("limit", "status", "severity"),
    [
        pytest.param("2.5", RuleEvaluationStatus.ISSUES_FOUND, Severity.WARNING, id="an issue"),
        pytest.param("9.0", RuleEvaluationStatus.NO_ISSUES_FOUND, Severity.INFO, id="no issue"),
    ],
)
def test_the_outcome_is_told_where_the_message_cannot_be_written(
    account: Account, tmp_path: Path, *, limit: str, status: RuleEvaluationStatus, severity: Severity
) -> None:
    """Its role can write nothing, so the exit code holds what the message would have said."""
    account.put_rule(OURS)
    account.put_run(tmp_path / "run", "digits", losses=[1.0, 1.5, 3.0], ended=True, request=mine(limit=limit))
    with root_owned_folder() as folder:
        environment = {**given(account, folder), "HOME": "/nonexistent"}
        done = run_as(AS_NOBODY, [sys.executable, str(ENTRY_POINT)], environment)
        assert list((folder / "output").iterdir()) == []
    reason = f"AlgorithmError: , exit code: {done.returncode}"
    ending = read_ending(job_status="Failed", exit_message="", failure_reason=reason, configuration="large")
    assert ending is not None, done.stderr
    assert (ending.status, ending.severity) == (status, severity)
    assert "log of its processing job" in ending.details


def test_a_run_without_the_issue_is_judged_to_its_end(account: Account, tmp_path: Path) -> None:
    account.put_rule(OURS)
    account.put_run(tmp_path / "run", "digits", losses=[1.0, 1.5], ended=True, request=mine())
    code, stderr = finish(start(account, tmp_path))
    assert code == 0, stderr
    assert message(tmp_path) == "No issue found by 1 of 1 rules up to step 1."


def test_sigterm_ends_it_cleanly(account: Account, tmp_path: Path) -> None:
    mark = tmp_path / "judged"
    account.put_rule(
        OURS.replace("def check(self, window):", f"def check(self, window):\n        open({str(mark)!r}, 'w')")
    )
    account.put_run(tmp_path / "run", "digits", losses=[1.0, 1.5], ended=False, request=mine())
    process = start(account, tmp_path)
    wait_until(mark.exists)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0
    assert message(tmp_path).startswith("Stopped on request after step ")


@pytest.mark.parametrize(
    ("request_", "content", "ends"),
    [
        pytest.param(mine(), None, (2, "mine.py: cannot be read"), id="missing"),
        pytest.param(mine(), "class LargeLoss(:", (2, "line 1: is not Python"), id="syntax-error"),
        pytest.param(mine(), "import nowhere_to_be_found", (2, "nowhere_to_be_found"), id="missing-module"),
        pytest.param(mine(), "raise SystemExit(0)", (2, "line 1: raised SystemExit: 0"), id="ends-the-process"),
        pytest.param(mine(), "class Other: pass", (2, "LargeLoss"), id="no-such-class"),
        pytest.param(mine(limt="3"), OURS, (2, "Did you mean 'limit'?"), id="unknown-parameter"),
        pytest.param(
            mine(), OURS.replace("for name in", "1 / 0\n        for name in"), (5, "ZeroDivisionError"), id="crashes"
        ),
        pytest.param(
            mine("s3://runs/digits/mine.py"), OURS, (2, "does not lie below s3://rules/approved"), id="elsewhere"
        ),
        pytest.param(mine("s3://rules/approved/../mine.py"), OURS, (2, "does not lie below"), id="dots"),
        pytest.param(
            RuleRequest((RuleConfiguration("overfit", name="large"),)), OURS, (2, "names no file"), id="no-file"
        ),
        pytest.param(
            RuleRequest((RuleConfiguration("overfit"),)), OURS, (2, "no configuration 'large'"), id="not-asked-for"
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_exit_message(
    account: Account, tmp_path: Path, request_: RuleRequest, content: str | None, ends: tuple[int, str]
) -> None:
    if content is not None:
        account.put_rule(content)
        account.put_rule(content, "mine.py")
        account.s3.put_object(Bucket="runs", Key="digits/mine.py", Body=content.encode())
    account.put_run(tmp_path / "run", "digits", losses=[1.0, 3.0], ended=True, request=request_)
    code, said = ends
    returned, stderr = finish(start(account, tmp_path))
    assert returned == code, stderr
    assert said in message(tmp_path)
    assert not message(tmp_path).startswith(("RuleEvaluationConditionMet", "No issue found"))


def test_all_that_the_environment_lacks_is_said_at_once(account: Account, tmp_path: Path) -> None:
    assert finish(start(account, tmp_path, {}))[0] == 2
    assert "TRACKSIDE_RUN: is not set." in message(tmp_path)
    assert finish(start(account, tmp_path, {"TRACKSIDE_RUN": "s3://runs/digits"}))[0] == 2
    for name in ("TRACKSIDE_RULE_CONFIGURATION", "TRACKSIDE_CUSTOM_RULES_FROM"):
        assert f"{name}: is not set." in message(tmp_path)


def test_the_run_of_another_job_is_not_judged(account: Account, tmp_path: Path) -> None:
    account.put_rule(OURS)
    account.put_run(tmp_path / "run", "digits", losses=[3.0], ended=True, request=mine())
    account.s3.put_object(Bucket="runs", Key="digits/rule-output/training-job.txt", Body=f"{JOB.arn}-0".encode())
    assert finish(start(account, tmp_path))[0] == 2
    assert f"is the run of another job, {JOB.arn}-0." in message(tmp_path)


def test_a_managed_container_runs_the_file_that_its_variables_name(account: Account, tmp_path: Path) -> None:
    """As SageMaker Debugger starts it: tensors are copied in, each parameter is a variable, results are copied out."""
    account.put_rule(OLD, "elsewhere/mine.py")
    store = LocalStore(tmp_path / "processing" / "input" / "tensors")
    write_collections(store)
    for step, loss in enumerate([1.0, 3.0]):
        write_tensors(store, step, {"CrossEntropyLoss_output_0": loss})
    environment = {
        "rule_to_invoke": "LargeLoss",
        "source_s3_uri": "s3://rules/elsewhere/mine.py",
        "limit": "2.5",
        "TRAINING_JOB_ARN": JOB.arn,
        "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE": "/opt/ml/processing/input/profiler/signals/large",
    }
    code, stderr = finish(start(account, tmp_path, environment))
    assert code == 0, stderr
    assert message(tmp_path).startswith("RuleEvaluationConditionMet: Evaluation of the rule large at step 1")
    lines = (tmp_path / "processing" / "output" / "rule" / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["run"] for line in lines] == ["digits"]
