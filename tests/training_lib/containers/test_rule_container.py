"""How a rule container is told what to do: by the run's request, or by the variables of SageMaker Debugger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trackside.containers.rule_container import (
    START_SECONDS,
    FirstVerdict,
    Job,
    message_of,
    patiently,
    read_job,
    run_container,
)
from trackside.contracts.action import Action
from trackside.contracts.errors import AccessDeniedError, ConfigurationError, StorageError, StorageUnavailableError
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Outcome, Severity, Verdict
from trackside.environment import CaptureEnvironment, inherited
from trackside.evaluation.results.summary import Summary
from trackside.evaluation.rule_request_file import names_a_rule, rule_of_environment
from trackside.storage.local import LocalStore

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits"
SIGNAL = "/opt/ml/processing/input/profiler/signals/"
MANAGED = {
    "rule_to_invoke": "VanishingGradient",
    "threshold": "0.5",
    "TRAINING_JOB_ARN": ARN,
    "TRAINING_IMAGE": "training",
    "SAGEMAKER_START_TIMESTAMP_OF_RULE": "1700000000",
    "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE": f"{SIGNAL}Gone",
    "PATH": "/usr/bin",
    "http_proxy": "http://proxy",
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in inherited():
        monkeypatch.delenv(name)


def give(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        pytest.param(MANAGED, True, id="managed"),
        pytest.param({"source_s3_uri": "s3://b/mine.py"}, True, id="half of a custom rule: it is said what lacks"),
        pytest.param({"TRACKSIDE_RUN": "s3://runs/digits"}, False, id="a deployment's"),
        pytest.param({"rule_to_invoke": " "}, False, id="blank"),
        pytest.param({}, False, id="none"),
    ],
)
def test_which_environment_names_a_rule(environment: dict[str, str], names: bool) -> None:
    assert names_a_rule(environment) is names


@pytest.mark.parametrize(
    ("environment", "rule"),
    [
        pytest.param(
            MANAGED,
            RuleConfiguration("vanishing-gradient", "Gone", {"threshold": "0.5"}, preset="aws-docs"),
            id="a rule of the original, in its sense",
        ),
        pytest.param(
            {
                "rule_to_invoke": "VanishingGradient",
                "preset": "calibrated",
                "action_json": '[{"name": "stoptraining"}]',
            },
            RuleConfiguration("vanishing-gradient", "VanishingGradient", {}, (Action.STOP_TRAINING,)),
            id="in our sense, with an action",
        ),
        pytest.param(
            {"rule_to_invoke": "vanishing-gradient"},
            RuleConfiguration("vanishing-gradient", "vanishing-gradient", {}, preset="aws-docs"),
            id="by our name",
        ),
        pytest.param(
            {"rule_to_invoke": "Mine", "source_s3_uri": "s3://b/mine.py", "limit": "3", "TRACKSIDE_RUN": "s3://r/x"},
            RuleConfiguration("Mine", "Mine", {"limit": "3"}, source="s3://b/mine.py"),
            id="a rule from a file, whose parameters have a small letter",
        ),
    ],
)
def test_the_rule_that_an_environment_names(environment: dict[str, str], rule: RuleConfiguration) -> None:
    assert rule_of_environment(environment).rules == (rule,)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        pytest.param({"rule_to_invoke": "VanishinGradient"}, ["Did you mean"], id="misspelled"),
        pytest.param({"rule_to_invoke": "VanishingGradient", "threshold": "much"}, ["threshold"], id="no number"),
        pytest.param({"source_s3_uri": "s3://b/mine.py"}, ["rule_to_invoke"], id="a file without a class"),
        pytest.param({"rule_to_invoke": "ProfilerReport"}, ["not judged yet"], id="a report"),
        pytest.param(
            {"rule_to_invoke": "VanishingGradient", "threshold": "much", "TRACKSIDE_EVENT_BUS": "b"},
            ["threshold", "TRAINING_JOB_ARN"],
            id="all at once",
        ),
    ],
)
def test_what_is_wrong_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: dict[str, str], said: list[str]
) -> None:
    give(monkeypatch, **environment)
    with pytest.raises(ConfigurationError) as raised:
        read_job(tmp_path)
    for words in said:
        assert words in str(raised.value)


def test_a_managed_container_reads_and_writes_where_sagemaker_copies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    give(monkeypatch, **MANAGED)
    job = read_job(tmp_path)
    assert job.run.name == "digits"
    assert (job.origin.job.name, job.origin.job.arn) == ("digits", ARN)
    assert job.open_store(job.run.tensors).uri == LocalStore(tmp_path / "processing" / "input" / "tensors").uri
    assert job.open_store(job.run.rule_output).uri == LocalStore(tmp_path / "processing" / "output" / "rule").uri


def test_with_a_run_the_rule_writes_beside_the_other_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "digits"
    stop = {"SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE": f"{SIGNAL}My Rule"}
    give(monkeypatch, **{**MANAGED, **stop, "TRACKSIDE_RUN": str(run)})
    job = read_job(tmp_path)
    assert job.open_store(job.run.tensors).uri == LocalStore(run / "debug-output").uri
    assert job.open_store(job.run.rule_output).uri == LocalStore(run / "rule-output" / "My-Rule-89d68bd118").uri


def test_without_a_rule_the_runs_own_request_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {"TRACKSIDE_RUN": "s3://runs/digits", "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE": "/nowhere"}
    (tmp_path / "config").mkdir()
    configuration = {"Environment": given, "ProcessingJobArn": "arn:p"}
    (tmp_path / "config" / "processingjobconfig.json").write_text(json.dumps(configuration), encoding="utf-8")
    job = read_job(tmp_path)
    assert job.request is None
    assert job.run.uri == "s3://runs/digits"
    assert job.processing_job_arn == "arn:p"
    assert not job.must_end(1e12)


@pytest.mark.parametrize(
    ("said", "now", "ends"),
    [
        pytest.param(None, 1e12, False, id="no file"),
        pytest.param("1700000000", 1700000059.0, False, id="within the grace"),
        pytest.param("1700000000", 1700000061.0, True, id="after it"),
        pytest.param("", 0.0, True, id="nothing in it"),
        pytest.param("soon", 0.0, True, id="no time in it"),
    ],
)
def test_the_stop_signal_of_sagemaker_debugger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str | None, now: float, ends: bool
) -> None:
    file = tmp_path / "Gone"
    if said is not None:
        file.write_text(said, encoding="utf-8")
    give(monkeypatch, **{**MANAGED, "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE": str(file)})
    assert read_job(tmp_path).must_end(now) is ends


def verdict(outcome: Outcome) -> Verdict:
    return Verdict("r", "rule", "mine", outcome, Severity.CRITICAL, 7, "Said.", 1.5)


def test_the_first_word_is_remembered_over_a_restart(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    word = FirstVerdict(store)
    assert not word.has_come
    word.emit([])
    assert not word.has_come
    word.emit([verdict(Outcome.NOT_EVALUATED)])
    assert word.has_come
    store.put("verdicts.jsonl", b"{}\n")
    assert FirstVerdict(store).has_come


def test_a_rule_that_crashed_before_the_end_was_not_stopped_on_request() -> None:
    crashed = Summary((verdict(Outcome.NOT_EVALUATED),), {"mine": 3}, 7, has_ended=False, crashed=("mine",))
    assert message_of(crashed) == "No rule could judge this run. Not evaluated: mine. Said."


def test_the_severity_is_said_where_it_is_asked_for() -> None:
    found = Summary((verdict(Outcome.ISSUE_FOUND),), {"mine": 3}, 7, has_ended=False)
    assert message_of(found, with_severity=True).endswith("being met. Severity: critical. Said.")
    assert message_of(found).endswith("being met. Said.")


NOTHING = Summary((), {}, -1, has_ended=True)


class Outage:
    """A way to judge that AWS allows after so many refusals."""

    def __init__(self, refusals: int, error: Exception) -> None:
        self.refusals, self.error = refusals, error

    def __call__(self) -> str:
        self.refusals -= 1
        if self.refusals >= 0:
            raise self.error
        return "read"


def test_an_outage_before_the_first_look_is_waited_out() -> None:
    slept: list[float] = []
    assert patiently(Outage(3, StorageUnavailableError("down")), sleep=slept.append, clock=lambda: sum(slept)) == "read"
    assert len(slept) == 3


@pytest.mark.parametrize(
    ("error", "most"),
    [
        pytest.param(StorageUnavailableError("down"), START_SECONDS, id="an outage, for a while"),
        pytest.param(AccessDeniedError("no"), 0.0, id="what is refused, at once"),
    ],
)
def test_what_does_not_pass_is_an_error(error: StorageError, most: float) -> None:
    slept: list[float] = []
    with pytest.raises(type(error)):
        patiently(Outage(10**6, error), sleep=slept.append, clock=lambda: sum(slept))
    assert sum(slept) <= most + 60
    assert bool(slept) is bool(most)


def test_a_mistake_of_ours_stands_in_the_exit_message_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    give(monkeypatch, TRACKSIDE_RUN=str(tmp_path), TRACKSIDE_ML_ROOT=str(tmp_path / "ml"))

    def judge(job: Job) -> Summary:
        raise ZeroDivisionError("division by zero")

    assert run_container(judge, message_of=lambda summary: "") == 1
    assert (tmp_path / "ml" / "output" / "message").read_text() == (
        "The evaluator broke off: ZeroDivisionError: division by zero"
    )
    assert "Traceback" in caplog.text


def test_a_rule_that_imports_a_framework_is_not_captured_as_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, TRACKSIDE_RUN=str(tmp_path), TRACKSIDE_ML_ROOT=str(tmp_path / "ml"))
    told: list[str] = []

    def judge(job: Job) -> Summary:
        told.extend([job.run.uri, CaptureEnvironment.read().run_uri])
        return NOTHING

    run_container(judge, message_of=lambda summary: "")
    assert told == [str(tmp_path), ""]
