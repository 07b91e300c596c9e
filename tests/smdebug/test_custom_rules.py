"""Custom rules written for smdebug: the same steps fire under the real package, the drop-in and our evaluator."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from smdebug.evaluated_rule import EvaluatedRule
from smdebug.trials import create_trial

from tests.patience import HANGS_SECONDS, wait_until
from tests.smdebug import custom_rules
from tests.smdebug.conftest import run_or_fail
from trackside.contracts.errors import ConfigurationError, StorageUnavailableError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY, RunLocation
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.environment import inherited
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.results.summary import Summary
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.rules.rule_file import ADAPTERS, load_rule
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import open_trial

FILE = Path(custom_rules.__file__)
LOSS, WEIGHT, GRADIENT = "CrossEntropyLoss_output_0", "Net_fc1.weight", "gradient/Net_fc1.weight"
REDUCED = "smdebug/reductions/abs_max/Net_fc2.weight"
WORKERS = ("worker_0", "worker_1")

LOSSES = {0: 3.0, 2: 2.0, 3: 2.0, 5: 2.0, 8: 1.5, 13: 1.5, 21: 1.5, 34: 1.5, 35: 1.6, 36: 1.7, 37: 1.8}
EVALUATED = {35, 36, 37, 5}
STEPS = tuple(sorted(LOSSES))


def tensors_at(step: int, worker: str) -> dict[str, Any]:
    found: dict[str, Any] = {LOSS: LOSSES[step]}
    if step % 2 == 0:  # other collections are saved at other steps
        found[GRADIENT] = np.full((2, 3), -1.0 * step, "f4")
    if step % 3 == 0:
        found[WEIGHT] = np.full((3,), step if worker == "worker_1" and step in {21, 36} else 0.0, "f4")
    if step % 5 == 0:
        found[REDUCED] = np.array(step / 5.0, "f4")
    return found


def write_steps(folder: Path, steps: tuple[int, ...] = STEPS, *, workers: tuple[str, ...] = WORKERS) -> None:
    store = LocalStore(folder)
    write_collections(store, workers=WORKERS)
    for step in steps:
        for worker in workers:
            mode = "EVAL" if step in EVALUATED else "TRAIN"
            write_tensors(store, step, tensors_at(step, worker), mode=mode, worker=worker)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two workers, and beside it in `other` one whose loss is 1.9 throughout."""
    folder = tmp_path_factory.mktemp("run")
    write_steps(folder / "debug-output")
    end_run(LocalStore(folder / "debug-output"))
    other = LocalStore(folder / "other")
    write_collections(other)
    for step in STEPS[:5]:
        write_tensors(other, step, {LOSS: 1.9})
    end_run(other)
    return folder


def rules(run: Path) -> list[tuple[str, dict[str, str], list[str]]]:
    """Class, parameters as SageMaker gives them, other runs."""
    return [
        ("LargeGradients", {"threshold": "9.5"}, []),
        ("LargeGradients", {"threshold": "1e9"}, []),
        ("StuckLoss", {"patience": "2"}, []),
        ("StuckLoss", {"patience": "3", "action_str": ""}, []),
        ("StuckLoss", {"loss": "nobody_saved_this"}, []),
        ("WorkersDisagree", {"action_str": "", "tolerance": "0.1"}, []),
        ("WorkersDisagree", {"action_str": "", "tolerance": "30"}, []),
        ("WorseThanBefore", {"margin": "0.05"}, [str(run / "other")]),
        ("WorseThanBefore", {"margin": "9"}, [str(run / "other")]),
        ("LargeReduction", {}, []),
        ("LargeReduction", {"limit": "0.5"}, []),
        ("EvaluationLossRises", {}, []),
    ]


FIRED = [[34, 36], [], [5, 21, 34], [34], [], [21, 36], [36], [0, 2, 3, 5], [], [35], [5, 35], [37]]


def configuration(rule: str, parameters: dict[str, str], others: list[str], **more: Any) -> RuleConfiguration:
    others_by_name = {f"other_trial_{number}": other for number, other in enumerate(others)}
    return RuleConfiguration(rule, parameters={**parameters, **others_by_name}, source=str(FILE), **more)


def fired_under_the_evaluator(asked: RuleConfiguration, run: Path) -> list[int]:
    """Every firing of the adapted rule, where the evaluator would stop at the first."""
    rule, trial = load_rule(asked), open_trial(str(run / "debug-output"))
    found = [finding for step in trial.steps() for finding in rule.check(trial.window(step, now=0.0))]
    return [finding.step for finding in found]


def judge(run: Path, *asked: RuleConfiguration, **more: Any) -> Summary:
    location = RunLocation(str(run))
    stores: Callable[[str], Store] = more.pop("stores", open_store)
    return evaluate(
        location,
        RuleRequest(asked),
        [JsonLinesSink(stores(location.rule_output))],
        poll_seconds=1,
        clock=lambda: 1e9,
        sleep=lambda seconds: None,
        should_stop=more.pop("should_stop", lambda: False),
        stores=stores,
    )


def said(run: Path) -> list[Verdict]:
    lines = (run / "rule-output" / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    return [Verdict.from_json(line) for line in lines]


# The same steps, whoever judges


def test_the_same_steps_fire_under_the_real_smdebug_the_drop_in_and_the_evaluator(
    run: Path, smdebug_python: Path, tmp_path: Path
) -> None:
    answer = tmp_path / "answer.json"
    run_or_fail(
        [smdebug_python, "-W", "ignore", FILE.with_name("judge_under_smdebug.py"), answer],
        stdin=json.dumps({"folder": str(run / "debug-output"), "rules": rules(run)}),
        env={**inherited(), "SMDEBUG_TRAINING_END_DELAY_REFRESH": "0", "SMDEBUG_LOG_LEVEL": "error"},
        timeout=HANGS_SECONDS,
    )
    theirs = json.loads(answer.read_text())
    invoked, evaluated = [], []
    for name, parameters, others in rules(run):
        more = {"other_trials": [create_trial(other) for other in others]} if others else {}
        rule = getattr(custom_rules, name)(create_trial(str(run / "debug-output")), **parameters, **more)
        invoked.append(custom_rules.fired_steps(rule))
        evaluated.append(fired_under_the_evaluator(configuration(name, parameters, others), run))
    assert theirs == FIRED
    assert invoked == theirs
    assert evaluated == theirs


def test_the_evaluator_says_the_first_firing_of_each(run: Path, tmp_path: Path) -> None:
    asked = [configuration(*rule, name=f"{number}") for number, rule in enumerate(rules(run))]
    (tmp_path / "debug-output").symlink_to(run / "debug-output")
    summary = judge(tmp_path, *asked)
    found = {verdict.configuration_name: verdict.step for verdict in summary.issues}
    assert found == {str(number): steps[0] for number, steps in enumerate(FIRED) if steps}
    assert summary.crashed == ()
    others = {v.configuration_name: v for v in summary.verdicts if v.configuration_name not in found}
    assert {name: verdict.outcome for name, verdict in others.items()} == {
        "1": Outcome.CLEAN,
        "4": Outcome.NOT_EVALUATED,  # its tensor was never there: that is not clean
        "8": Outcome.CLEAN,
    }
    assert "Tensor nobody_saved_this was not saved." in others["4"].message


def test_the_verdict_says_which_rule_fired_where_and_in_its_own_words_why(run: Path, tmp_path: Path) -> None:
    (tmp_path / "debug-output").symlink_to(run / "debug-output")
    summary = judge(tmp_path, configuration("LargeGradients", {"threshold": "9.5"}, [], name="large"))
    (verdict,) = summary.issues
    assert verdict.message == (
        "The custom rule LargeGradients fired at step 34: gradient/Net_fc1.weight: mean 34.0 is above 9.5."
    )
    assert (verdict.rule_id, verdict.step, verdict.severity) == ("LargeGradients", 34, Severity.CRITICAL)
    assert verdict.findings[0].subject == "LargeGradients"
    assert verdict.findings[0].statistics == {"threshold": 9.5}
    assert verdict.tensor_key == "debug-output/events/000000000034/000000000034_worker_0.tfevents"
    assert "LargeGradients.invoke_at_step" in verdict.what_to_do[0]
    assert str(FILE) in verdict.what_to_do[0]


def test_what_others_log_is_not_taken_for_the_rules_reason(run: Path, tmp_path: Path) -> None:
    (tmp_path / "debug-output").symlink_to(run / "debug-output")
    summary = judge(tmp_path, configuration("WorkersDisagree", {"tolerance": "0.1"}, []))
    assert [verdict.message for verdict in summary.issues] == ["The custom rule WorkersDisagree fired at step 21."]


def test_a_rule_of_smdebug_is_asked_for_as_sagemaker_does(run: Path, tmp_path: Path) -> None:
    parameters = {"source_s3_uri": str(FILE), "rule_to_invoke": "StuckLoss", "patience": "3"}
    document = {"rules": [{"name": "stuck", "parameters": parameters}]}
    (tmp_path / "debug-output").symlink_to(run / "debug-output")
    summary = judge(tmp_path, *RuleRequest.from_json(json.dumps(document)).rules)
    assert [(v.rule_id, v.configuration_name, v.step) for v in summary.issues] == [("StuckLoss", "stuck", 34)]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param({"start_step": "3"}, [21, 34], id="from"),
        pytest.param({"end_step": "22"}, [5, 21], id="up to"),
        pytest.param({"start_step": "5", "end_step": "34"}, [21], id="both"),
        pytest.param({"start_step": "9000"}, [], id="none of them"),
    ],
)
def test_start_and_end_step_restrict_what_the_rule_sees(run: Path, bounds: dict[str, str], expected: list[int]) -> None:
    asked = configuration("StuckLoss", {"patience": "2", **bounds}, [])
    assert fired_under_the_evaluator(asked, run) == expected


# Nothing waits, everything is replayed


def test_a_step_that_a_worker_still_lacks_is_judged_when_it_is_there(tmp_path: Path) -> None:
    tensors = tmp_path / "debug-output"
    write_steps(tensors, (0, 2, 3))
    write_steps(tensors, (5,), workers=("worker_0",))
    polls: list[int] = []

    def should_stop() -> bool:
        polls.append(len(polls))
        if len(polls) == 3:
            write_steps(tensors, (5,), workers=("worker_1",))
        return len(polls) > 6

    summary = judge(tmp_path, configuration("StuckLoss", {"patience": "2"}, []), should_stop=should_stop)
    assert [(v.step, v.message.rpartition("seen ")[2]) for v in summary.issues] == [(5, "[0, 2, 3, 5].")]


LOOKS_AHEAD = """
from smdebug.rules import Rule
class LooksAhead(Rule):
    shown = []
    def __init__(self, base_trial):
        super().__init__(base_trial)
        self.mine = []
    def invoke_at_step(self, step):
        self.mine.append(step)
        try:
            self.base_trial.wait_for_steps([step + 1])
        except Exception:
            raise
        LooksAhead.shown.append((step, tuple(self.mine)))
        return step == 2
"""


def test_a_rule_that_waits_for_later_steps_does_not_hold_up_the_evaluator(tmp_path: Path) -> None:
    """The original sleeps within `wait_for_steps`; here the rule starts over with what it knew before."""
    tensors, file = tmp_path / "debug-output", tmp_path / "ahead.py"
    file.write_text(LOOKS_AHEAD)
    rule = load_rule(RuleConfiguration("LooksAhead", source=str(file)))
    fired = []
    store = LocalStore(tensors)
    write_collections(store)
    for step in range(5):
        write_tensors(store, step, {LOSS: 1.0})
        trial = open_trial(str(tensors))
        window = trial.window(step, now=0.0)
        fired += [(step, finding.step) for finding in rule.check(window)]
        if step == 0:
            assert rule.lacks(window) == "steps that the run has not reached"
    assert fired == [(3, 2)]
    shown = rule.candidate.shown  # type: ignore[attr-defined]  # of the test's own class
    assert all(mine == tuple(range(step + 1)) for step, mine in shown), "never half-asked twice"


def test_collections_that_come_late_are_waited_for_without_sleeping(tmp_path: Path) -> None:
    tensors = LocalStore(tmp_path / "debug-output")
    rule = load_rule(configuration("StuckLoss", {"patience": "1"}, []))
    write_tensors(tensors, 0, {LOSS: 2.0})
    window = open_trial(tensors.uri).window(0, now=0.0)
    assert list(rule.check(window)) == []
    assert "collections files of all workers" in rule.lacks(window)
    write_collections(tensors)
    write_tensors(tensors, 1, {LOSS: 2.0})
    window = open_trial(tensors.uri).window(1, now=0.0)
    assert [finding.step for finding in rule.check(window)] == [1]


def test_an_outage_within_a_rule_is_no_crash_and_its_state_is_whole_afterwards(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = load_rule(configuration("StuckLoss", {"patience": "2"}, []))
    trial = open_trial(str(run / "debug-output"))
    fired, broken, asked = [], {3, 13}, custom_rules_class(rule).invoke_at_step

    def invoke_at_step(self: Any, step: int) -> Any:
        answer = asked(self, step)
        if step in broken:
            broken.remove(step)
            raise StorageUnavailableError("the network is away")
        return answer

    monkeypatch.setattr(custom_rules_class(rule), "invoke_at_step", invoke_at_step)
    for step in trial.steps():
        window = trial.window(step, now=0.0)
        try:
            fired += [finding.step for finding in rule.check(window)]
        except StorageUnavailableError:
            fired += [finding.step for finding in rule.check(window)]
    assert fired == [5, 21, 34]
    assert not broken


def custom_rules_class(rule: Any) -> Any:
    assert isinstance(rule, EvaluatedRule)
    return rule.candidate


class Killed(BaseException):
    """As a SIGKILL: nothing of ours may catch it."""


class DyingStore:
    """Dies before or after one of its writes."""

    def __init__(self, inner: Store, budget: list[int]) -> None:
        self._inner, self._budget = inner, budget

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put(self, key: str, data: bytes) -> None:
        self._spend()
        self._inner.put(key, data)
        self._spend()

    def append(self, *arguments: Any, **named: Any) -> Any:
        self._spend()
        found = self._inner.append(*arguments, **named)  # type: ignore[attr-defined]  # of stores that can
        self._spend()
        return found

    def _spend(self) -> None:
        self._budget[0] -= 1
        if self._budget[0] == 0:
            raise Killed


def test_killed_at_any_point_and_started_again_the_evaluator_says_the_same_once(run: Path, tmp_path: Path) -> None:
    asked = [
        configuration("StuckLoss", {"patience": "2"}, [], name="a"),
        configuration("EvaluationLossRises", {}, [], name="b"),
        configuration("StuckLoss", {"patience": "99"}, [], name="c"),
    ]
    points = 0
    for kill_at in range(1, 60, 3):  # each point starts six processes of rules
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        (folder / "debug-output").symlink_to(run / "debug-output")
        budget = [kill_at]
        try:
            judge(folder, *asked, stores=lambda uri, budget=budget: DyingStore(open_store(uri), budget))
        except Killed:
            points += 1
            judge(folder, *asked)
        expected = [("a", 5, Outcome.ISSUE_FOUND), ("b", 37, Outcome.ISSUE_FOUND), ("c", 37, Outcome.CLEAN)]
        each_once = {verdict.verdict_id: verdict for verdict in said(folder)}
        opened = [verdict for verdict in each_once.values() if verdict.state is State.OPENED]
        assert [(v.configuration_name, v.step, v.outcome) for v in opened] == expected
        assert each_once[f"{folder.name}/a/issue-found"].message.endswith("seen [0, 2, 3, 5].")
        if budget[0] > 0:
            break
    assert points > 3


def test_a_killed_process_goes_on_with_the_rules_state(tmp_path: Path) -> None:
    """A real one: SIGKILL after three steps; the fourth fires only for a rule that remembers the first three."""
    tensors = tmp_path / "debug-output"
    write_steps(tensors, (0, 2, 3))
    request = RuleRequest((configuration("StuckLoss", {"patience": "2"}, []),))
    (tmp_path / RULE_REQUEST_KEY).write_text(request.to_json())
    command = [sys.executable, "-m", "trackside.evaluation", "--run", str(tmp_path), "--poll-seconds", "0.05"]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: judged_through(tmp_path) == 3)
    finally:
        first.kill()
        first.wait()
    write_steps(tensors, (5,))
    end_run(LocalStore(tensors))
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    (verdict,) = said(tmp_path)
    assert verdict.message == "The custom rule StuckLoss fired at step 5: seen [0, 2, 3, 5]."


def judged_through(run: Path) -> int:
    try:
        document = json.loads((run / "rule-output" / "progress.json").read_text())
    except (FileNotFoundError, ValueError):
        return -1
    return int(document["rules"][0]["judged_through"])


# What goes wrong


BROKEN = """
from smdebug.rules import Rule
class Crashes(Rule):
    def invoke_at_step(self, step):
        if step >= 3:
            raise ZeroDivisionError("of the rule's own")
class Careless(Rule):
    def __init__(self, base_trial, threshold):
        super().__init__(base_trial)
        self.threshold = float(threshold)
    def invoke_at_step(self, step):
        return False
class Swallows(Rule):
    def __init__(self, base_trial, **parameters):
        super().__init__(base_trial)
        self.parameters = parameters
    def invoke_at_step(self, step):
        return self.parameters == {"anything": "1"}
class NotYet(Rule):
    pass
"""


@pytest.fixture
def broken(tmp_path: Path) -> str:
    (tmp_path / "broken.py").write_text(BROKEN)
    return str(tmp_path / "broken.py")


def test_a_rule_that_crashes_ends_itself_only(run: Path, tmp_path: Path, broken: str) -> None:
    (tmp_path / "debug-output").symlink_to(run / "debug-output")
    summary = judge(
        tmp_path,
        RuleConfiguration("Crashes", source=broken),
        RuleConfiguration("Careless", source=broken, parameters={"threshold": "much"}),
        configuration("StuckLoss", {"patience": "2"}, []),
    )
    assert set(summary.crashed) == {"Crashes", "Careless"}
    assert [(v.configuration_name, v.step) for v in summary.issues] == [("StuckLoss", 5)]
    messages = {verdict.configuration_name: verdict.message for verdict in summary.verdicts}
    assert "crashed at step 3" in messages["Crashes"]
    assert "ZeroDivisionError: of the rule's own" in messages["Crashes"]
    assert "could not convert string to float: 'much'" in messages["Careless"]


def test_a_constructor_that_takes_anything_gets_the_rules_own_parameters(run: Path, broken: str) -> None:
    asked = RuleConfiguration("Swallows", source=broken, parameters={"anything": "1", "start_step": "34"})
    assert fired_under_the_evaluator(asked, run) == [34, 35, 36, 37]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        pytest.param("StuckLoss", {"patiense": "1"}, r"'patiense'. Did you mean 'patience'\?", id="misspelt"),
        pytest.param("WorseThanBefore", {}, "other runs, and none is given. Give other_trial_0", id="no other run"),
        pytest.param("StuckLoss", {"start_step": "x"}, "start_step: must be a whole number", id="no step"),
        pytest.param("StuckLoss", {"start_step": "4", "end_step": "4"}, "end_step: must lie above", id="no steps"),
    ],
)
def test_parameters_that_the_rule_cannot_take_are_refused(name: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        load_rule(configuration(name, parameters, []))
    assert str(FILE) in str(raised.value)


def test_all_that_is_wrong_with_the_parameters_is_said_at_once(broken: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_rule(RuleConfiguration("Careless", source=broken, parameters={"treshold": "1", "end_step": "-1"}))
    assert [problem.what for problem in raised.value.problems] == [
        "Unknown parameter 'treshold'.",
        "The parameter 'threshold' is missing.",
        "must be a whole number from 0, but is '-1'.",
    ]


def test_a_rule_without_invoke_at_step_is_refused(broken: str) -> None:
    with pytest.raises(ConfigurationError, match="'NotYet' does not define invoke_at_step") as raised:
        load_rule(RuleConfiguration("NotYet", source=broken))
    assert "Known: Careless, Crashes, Swallows" in str(raised.value)


def test_the_rules_own_actions_are_not_carried_out_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    actions = '[{"name": "stoptraining", "training_job_prefix": "job"}]'
    with caplog.at_level(logging.WARNING):
        rule = load_rule(configuration("StuckLoss", {"action_str": actions, "action_json": actions}, []))
    assert isinstance(rule, EvaluatedRule)
    assert rule.arguments.texts == {"action_str": ""}
    assert [record.message for record in caplog.records if "judged without its own actions" in record.message] != []
    assert len(caplog.records) == 1


def test_the_wheel_offers_the_adapter() -> None:
    assert [point.value for point in entry_points(group=ADAPTERS)] == ["smdebug.evaluated_rule:adapter"]


# On one machine, with real processes


TRAINING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 2))
optimizer, loss_of = torch.optim.SGD(model.parameters(), lr=0.0), torch.nn.CrossEntropyLoss()
inputs, labels = torch.ones(8, 4), torch.zeros(8, dtype=torch.long)
for _ in range(30):
    optimizer.zero_grad()
    loss_of(model(inputs), labels).backward()
    optimizer.step()
"""


@pytest.fixture
def training(tmp_path: Path) -> Path:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    return script


def test_trackside_run_judges_by_a_custom_rule(training: Path, tmp_path: Path) -> None:
    request = tmp_path / "rules.json"
    steps = {"name": "losses", "save_interval": 5}
    rule = {"rule": "StuckLoss", "source": str(FILE), "parameters": {"patience": 3}, "collections": [steps]}
    request.write_text(json.dumps({"rules": [rule]}))
    asked = ["--out", str(tmp_path / "run"), "--rules-file", str(request), "--on-issue", "notify"]
    done = subprocess.run(
        [sys.executable, "-m", "trackside", "run", *asked, "--", sys.executable, str(training)],
        capture_output=True, text=True, timeout=HANGS_SECONDS, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "The custom rule StuckLoss fired at step 15: seen [0, 5, 10, 15]." in " ".join(done.stderr.split())
    assert [verdict.step for verdict in said(tmp_path / "run")] == [15]


def test_a_file_that_does_not_work_is_said_before_the_training_starts(training: Path, tmp_path: Path) -> None:
    training.write_text("open('started', 'w')")
    done = subprocess.run(
        [sys.executable, "-m", "trackside", "run", "--only", f"{FILE}:StukLoss", "--", sys.executable, str(training)],
        capture_output=True, text=True, timeout=HANGS_SECONDS, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "holds no class 'StukLoss'" in done.stderr
    assert "Did you mean 'StuckLoss'?" in done.stderr
    assert not (tmp_path / "started").exists()
