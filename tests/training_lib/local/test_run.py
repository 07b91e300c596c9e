"""The loop with real processes; the evaluator is a script that says what the test wants said."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS, ends_early
from tests.training_lib.local.jobs.test_link import Recorder, nothing, raising
from tests.training_lib.local.verdicts import issue
from trackside.contracts.action import Action
from trackside.contracts.action_terms import NO_TERMS, ActionTerms
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.exit_code import NOT_JUDGED
from trackside.contracts.run.learning import Learning
from trackside.contracts.run.profiling_request import ProfilingRequest, Window, read_profiling_request
from trackside.contracts.verdict import Severity, Verdict
from trackside.environment import inherited
from trackside.evaluation.results.verdicts import Moment, recovered
from trackside.local.jobs.scheduler import JobError, JobLeave, Scheduler
from trackside.local.process_table import living_processes
from trackside.local.run import LocalRun, LocalRunResult, run_locally
from trackside.local.run_now import RunNow
from trackside.runs.capture_check import nothing_captured_yet
from trackside.runs.rule_state import RuleState
from trackside.runs.run_folder import RunRecord, RunState, read_record, run_state

STOP, NOTIFY = (Action.STOP_TRAINING, Action.NOTIFY), (Action.NOTIFY,)

# Says the verdicts given, once the training has written its first line; then waits for the end of the run.
EVALUATOR = f"""
import pathlib, sys, time
run = pathlib.Path(sys.argv[sys.argv.index("--run") + 1])
deadline = time.monotonic() + {HANGS_SECONDS}
def wait_for(path):
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
wait_for(run / "started")
(run / "rule-output").mkdir(exist_ok=True)
(run / "rule-output" / "verdicts.jsonl").write_text(sys.argv[1])
wait_for(run / "debug-output" / "training_job_end.ts")
"""

STARTED = "import os, pathlib, signal, sys, time; (pathlib.Path(os.environ['TRACKSIDE_RUN']) / 'started').touch();"
FOREVER = "time.sleep(3600)"
WAIT_FOR_THE_VERDICT = (
    "p = pathlib.Path(os.environ['TRACKSIDE_RUN']) / 'rule-output' / 'verdicts.jsonl'\n"
    "while not p.exists(): time.sleep(0.02)\n"
    "time.sleep(0.5)\n"  # longer than it takes to notice the verdict and to send a signal
)


@dataclass
class Ear:
    """An observer that remembers, and does something when it hears a word."""

    notes: list[str] = field(default_factory=list)
    issues: list[Verdict] = field(default_factory=list)
    groups: list[IssueGroup] = field(default_factory=list)
    states: list[RunNow] = field(default_factory=list)
    shows_progress: bool = True
    on_note: Mapping[str, Callable[[], None]] = field(default_factory=dict)

    def note(self, text: str) -> None:
        self.notes.append(text)
        for word, act in self.on_note.items():
            if word in text:
                act()

    def hint(self, text: str) -> None:
        self.note(text)

    def detail(self, text: str) -> None:
        self.note(text)

    def progress(self, now: RunNow) -> None:
        self.states.append(now)

    def issue(self, group: IssueGroup) -> None:
        self.groups.append(group)
        self.issues.append(group.lead)


@dataclass(frozen=True)
class Notes:
    result: LocalRunResult
    ear: Ear


@pytest.fixture
def run_it(tmp_path: Path) -> Callable[..., Notes]:
    def run(
        code: str,
        *,
        said: Sequence[Verdict] = (),
        actions: tuple[Action, ...] = NOTIFY,
        terms: ActionTerms = NO_TERMS,
        grace_seconds: float = 10.0,
        ear: Ear | None = None,
        evaluator: str = EVALUATOR,
        profile_steps: int = 0,
        earlier: RunRecord | None = None,
        scheduler: Scheduler | None = None,
        leave: JobLeave = JobLeave.NONE,
    ) -> Notes:
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=earlier is not None)
        notes = ear or Ear()
        lines = "".join(f"{verdict.to_json()}\n" for verdict in said)
        local_run = LocalRun(
            command=(sys.executable, "-c", STARTED + code),
            folder=folder,
            request=RuleRequest((RuleConfiguration("vanishing-gradient", actions=actions, terms=terms),)),
            capture=CaptureRequest(()),
            environment=inherited(),
            grace_seconds=grace_seconds,
            issue_profile_steps=profile_steps,
            earlier=earlier,
            scheduler=scheduler,
            job_leave=leave,
        )
        result = run_locally(local_run, observer=notes, evaluator=(sys.executable, "-c", evaluator, lines))
        assert (folder / "debug-output" / "training_job_end.ts").exists()
        _assert_nothing_is_left(folder)
        return Notes(result, notes)

    return run


def _assert_nothing_is_left(folder: Path) -> None:
    """No process of this test still runs: none below us was started with the run's folder."""
    below = [process.pid for process in living_processes().values() if process.parent == os.getpid()]
    for pid in below:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        assert str(folder).encode() not in command


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [
        pytest.param("sys.exit(0)", 0, 0, id="fine"),
        pytest.param("sys.exit(7)", 7, 7, id="its-own-code"),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", -9, 137, id="sigkill"),
        pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", -11, 139, id="crash"),
    ],
)
def test_the_code_of_the_command_is_passed_through(
    run_it: Callable[..., Notes], code: str, status: int, exit_code: int
) -> None:
    result = run_it(code).result
    assert result.status == status
    assert result.exit_code(Severity.CRITICAL) == exit_code
    assert run_state(result.folder) is (RunState.FAILED if status else RunState.FINISHED)


def test_a_critical_issue_stops_a_run_that_asked_for_it(run_it: Callable[..., Notes]) -> None:
    notes = run_it(FOREVER, said=[issue()], actions=STOP)
    assert notes.result.status == -signal.SIGTERM
    assert notes.result.stopped_for == issue()
    assert notes.ear.issues == [issue()]
    assert notes.result.exit_code(None) == 1
    assert run_state(notes.result.folder) is RunState.STOPPED
    assert notes.result.rules[0].state is RuleState.ISSUE


def test_a_request_stops_a_run_without_a_verdict(run_it: Callable[..., Notes]) -> None:
    asks = "(pathlib.Path(os.environ['TRACKSIDE_RUN']) / 'stop-request.json').write_text('{\"reason\": \"late\"}')\n"
    notes = run_it(f"{asks}{FOREVER}")
    assert (notes.result.status, notes.result.stopped_for) == (-signal.SIGTERM, None)
    assert "Stopping the training, as requested: late." in notes.ear.notes
    assert notes.result.exit_code(None) == 1
    assert run_state(notes.result.folder) is RunState.STOPPED


def test_a_request_to_an_earlier_part_of_a_run_stops_nothing(run_it: Callable[..., Notes], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stop-request.json").write_text('{"reason": "it diverged"}')
    notes = run_it("time.sleep(0.5)", earlier=RunRecord(("python",), 1.0))
    assert (notes.result.status, notes.result.was_stopped) == (0, False)


@pytest.mark.parametrize(
    ("verdict", "actions", "cards"),
    [
        pytest.param(issue(severity=Severity.WARNING), STOP, 1, id="a-warning-never-stops"),
        pytest.param(issue(), NOTIFY, 1, id="notify"),
        pytest.param(issue(), (), 0, id="nothing"),
        pytest.param(issue("not-asked-for"), STOP, 0, id="a-rule-that-nobody-asked-for"),
    ],
)
def test_other_issues_do_not_stop_it(
    run_it: Callable[..., Notes], verdict: Verdict, actions: tuple[Action, ...], cards: int
) -> None:
    notes = run_it(WAIT_FOR_THE_VERDICT, said=[verdict], actions=actions)
    assert notes.result.status == 0
    assert notes.result.stopped_for is None
    assert len(notes.ear.issues) == cards
    assert notes.result.verdicts == (verdict,)


@pytest.mark.parametrize(
    ("occurrence", "is_stopped"), [pytest.param(1, False, id="too-few"), pytest.param(2, True, id="enough")]
)
def test_a_stop_waits_for_the_number_of_findings_in_its_terms(
    run_it: Callable[..., Notes], occurrence: int, is_stopped: bool
) -> None:
    terms = ActionTerms(((Action.STOP_TRAINING, "after_findings", 2),))
    verdict = replace(issue(), occurrence=occurrence, terms=terms)
    notes = run_it(FOREVER if is_stopped else WAIT_FOR_THE_VERDICT, said=[verdict], actions=STOP, terms=terms)
    assert notes.result.stopped_for == (verdict if is_stopped else None)


@pytest.mark.parametrize(("steps", "said"), [(3, [issue()]), (0, [issue()]), (3, [])])
def test_the_first_issue_has_steps_profiled(run_it: Callable[..., Notes], steps: int, said: list[Verdict]) -> None:
    notes = run_it(WAIT_FOR_THE_VERDICT, said=said, profile_steps=steps)
    request = notes.result.folder / "profiler-output" / "profilerconfig.json"
    assert request.exists() == bool(steps and said)
    if steps and said:
        window = Window(None, 3)
        assert read_profiling_request(request.read_text()) == (ProfilingRequest(window, window), [])


def test_a_veto_is_refused_before_the_training_starts(run_it: Callable[..., Notes], tmp_path: Path) -> None:
    terms = ActionTerms(((Action.STOP_TRAINING, "veto_minutes", 15),))
    with pytest.raises(ConfigurationError, match=r"StopTraining\.veto_minutes: is 15, but only a deployment in AWS"):
        run_it("sys.exit(0)", actions=STOP, terms=terms)
    assert not (tmp_path / "run" / "started").exists()


def test_no_veto_is_no_reason_to_refuse_a_run(run_it: Callable[..., Notes]) -> None:
    terms = ActionTerms(((Action.STOP_TRAINING, "veto_minutes", 0),))
    assert run_it("sys.exit(0)", actions=STOP, terms=terms).result.status == 0


def test_an_issue_is_counted_in_the_metrics_of_a_run_that_asked_for_it(run_it: Callable[..., Notes]) -> None:
    notes = run_it(WAIT_FOR_THE_VERDICT, said=[issue()], actions=(Action.PUBLISH_METRIC,))
    lines = (notes.result.folder / "rule-output" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "version": 1,
            "namespace": "Trackside",
            "metric": "IssuesFound",
            "value": 1,
            "timestamp": 1_000_000.0,
            "dimensions": {"TrainingJobName": "digits", "RuleName": "vanishing-gradient", "Status": "IssuesFound"},
        }
    ]
    assert notes.ear.issues == []


def test_an_action_that_fails_holds_up_no_other(run_it: Callable[..., Notes]) -> None:
    code = (
        "(pathlib.Path(os.environ['TRACKSIDE_RUN']) / 'rule-output' / 'metrics.jsonl').mkdir(parents=True);" + FOREVER
    )
    notes = run_it(code, said=[issue()], actions=tuple(Action))
    assert notes.result.stopped_for == issue()
    assert notes.ear.issues == [issue()]
    assert sum("PublishMetric failed (IsADirectoryError" in note for note in notes.ear.notes) == 1


def test_an_action_without_a_local_twin_is_refused_before_the_training_starts(
    run_it: Callable[..., Notes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Action.NOTIFY, "unit", replace(Action.NOTIFY.unit, name="send_pigeon"))
    with pytest.raises(ConfigurationError, match=r"actions\.Notify: cannot be carried out on one machine"):
        run_it("sys.exit(0)")
    assert not (tmp_path / "run" / "started").exists()


@pytest.mark.parametrize(
    ("severity", "fail_on", "exit_code"),
    [
        pytest.param(Severity.CRITICAL, Severity.CRITICAL, 1, id="critical-at-critical"),
        pytest.param(Severity.CRITICAL, Severity.WARNING, 1, id="critical-at-warning"),
        pytest.param(Severity.WARNING, Severity.WARNING, 1, id="warning-at-warning"),
        pytest.param(Severity.WARNING, Severity.CRITICAL, 7, id="warning-at-critical"),
        pytest.param(Severity.INFO, Severity.WARNING, 7, id="info-at-warning"),
        pytest.param(Severity.CRITICAL, None, 7, id="never"),
    ],
)
def test_findings_at_the_threshold_exit_with_1(severity: Severity, fail_on: Severity | None, exit_code: int) -> None:
    result = LocalRunResult(
        folder=Path("run"),
        status=7,
        stopped_for=None,
        verdicts=(issue(severity=severity),),
        rules=(),
        steps=(),
        evaluator_problem="",
        capture_problem="",
    )
    assert result.exit_code(fail_on) == exit_code


@pytest.mark.parametrize(
    ("status", "problem", "was_not_awaited", "exit_code"),
    [
        pytest.param(0, "", False, 0, id="judged"),
        pytest.param(0, "exit code 70: ImportError", False, NOT_JUDGED, id="the-evaluator-died"),
        pytest.param(3, "exit code 70: ImportError", False, 3, id="its-own-code-comes-first"),
        pytest.param(-11, "exit code 70: ImportError", False, 139, id="so-does-its-signal"),
        pytest.param(0, "ended before every step", True, 0, id="the-user-did-not-wait"),
    ],
)
@pytest.mark.parametrize("fail_on", [None, Severity.CRITICAL], ids=["never", "critical"])
def test_a_run_that_was_not_judged_to_its_end_is_no_success(
    status: int, problem: str, was_not_awaited: bool, exit_code: int, fail_on: Severity | None
) -> None:
    result = LocalRunResult(Path("run"), status, None, (), (), (), problem, "", was_not_awaited=was_not_awaited)
    assert result.exit_code(fail_on) == exit_code


def test_an_issue_comes_before_the_death_of_the_evaluator() -> None:
    result = LocalRunResult(Path("run"), 0, None, (issue(),), (), (), "exit code 70", "")
    assert result.exit_code(Severity.CRITICAL) == 1
    assert result.judged.not_judged.startswith("not judged")


def test_an_evaluator_that_dies_each_time_leaves_its_mark(run_it: Callable[..., Notes], tmp_path: Path) -> None:
    given_up = tmp_path / "given-up"
    code = f"\nwhile not pathlib.Path({str(given_up)!r}).exists(): time.sleep(0.02)"
    ear = Ear(on_note={"judge no further": given_up.touch})
    evaluator = "import sys; sys.stderr.write('ImportError: no Self'); raise SystemExit(70)"
    notes = run_it(code, evaluator=evaluator, ear=ear)
    assert notes.result.status == 0
    assert notes.result.exit_code(Severity.CRITICAL) == NOT_JUDGED
    assert "ImportError: no Self" in notes.result.judged.not_judged
    record = read_record(notes.result.folder)
    assert record is not None
    assert "ImportError: no Self" in record.judging_problem


@pytest.mark.parametrize("leave", list(JobLeave))
@pytest.mark.parametrize("fails", [False, True], ids=["it-answers", "it-fails"])
def test_a_stop_reaches_the_job_that_gave_leave(run_it: Callable[..., Notes], leave: JobLeave, fails: bool) -> None:
    """A scheduler that fails changes no end of a training, and each kind of failure is noted once."""
    scheduler = Recorder(raising(JobError("no such job.")) if fails else nothing)
    notes = run_it(FOREVER, said=[issue()], actions=STOP, scheduler=scheduler, leave=leave)
    asked = {JobLeave.NONE: [], JobLeave.REPORT: ["report vanishing-gradient"]}
    wanted = asked.get(leave, ["report vanishing-gradient", "withhold", "end"])
    assert [one for one in scheduler.asked if one not in {"TERM", "KILL"}] == wanted
    assert notes.result.status == -signal.SIGTERM
    assert notes.ear.notes.count("The job: no such job.") == fails
    record = read_record(notes.result.folder)
    assert record is not None
    assert (record.job, record.stopped_by_trackside) == (scheduler.job, True)


def test_a_training_without_a_stop_ends_no_job(run_it: Callable[..., Notes]) -> None:
    scheduler = Recorder()
    notes = run_it("sys.exit(3)", scheduler=scheduler, leave=JobLeave.STOP)
    assert (notes.result.status, scheduler.asked) == (3, [])


def test_the_time_limit_of_a_run_ends_no_job(run_it: Callable[..., Notes], tmp_path: Path) -> None:
    """It is not a verdict: a command that has run for long enough is no fault of the training."""
    scheduler = Recorder()
    folder = tmp_path / "run"
    folder.mkdir()
    run = LocalRun(
        command=(sys.executable, "-c", STARTED + FOREVER),
        folder=folder,
        request=RuleRequest(()),
        capture=CaptureRequest(()),
        environment=inherited(),
        limit_seconds=0.5,
        scheduler=scheduler,
        job_leave=JobLeave.STOP,
    )
    result = run_locally(run, observer=Ear(), evaluator=(sys.executable, "-c", EVALUATOR, ""))
    assert result.status == -signal.SIGTERM
    assert {*scheduler.asked} <= {"TERM", "KILL"}


def test_a_stop_is_recorded_before_the_training_ends(run_it: Callable[..., Notes], tmp_path: Path) -> None:
    """Who kills `trackside run` in the grace, and starts it again, must not have it train on."""
    code = (
        "signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(os.environ['TRACKSIDE_RUN'], 'seen').write_bytes("
        "pathlib.Path(os.environ['TRACKSIDE_RUN'], 'local-run.json').read_bytes()), sys.exit(5)))\n"
    )
    notes = run_it(code + FOREVER, said=[issue()], actions=STOP)
    seen = RunRecord.from_json((notes.result.folder / "seen").read_bytes())
    assert (seen.stopped_by_trackside, seen.ended_at) == (True, None)


def test_a_requeued_run_goes_on(run_it: Callable[..., Notes], tmp_path: Path) -> None:
    """Its old issues are not acted on again, and its first start stays the start of the run."""
    first = run_it("sys.exit(1)", said=[issue()])
    record = read_record(first.result.folder)
    assert record is not None
    again = run_it("sys.exit(1)", said=[issue(), issue("exploding-tensor")], earlier=record)
    assert [verdict.configuration_name for verdict in first.ear.issues] == ["vanishing-gradient"]
    assert again.ear.issues == []  # of a rule that notifies nobody
    assert [verdict.configuration_name for verdict in again.result.verdicts] == [
        "vanishing-gradient",
        "exploding-tensor",
    ]
    now = read_record(first.result.folder)
    assert now is not None
    assert now.started_at == record.started_at


HURT = replace(issue(severity=Severity.CRITICAL), harm="the loss is 4.2, and guessing costs 0.685")
GUESSES = Learning(level="the loss ended at 1.8, and a constant answer costs 0.685")


@pytest.mark.parametrize(
    ("found", "learning", "fail_on", "exit_code"),
    [
        pytest.param(HURT, GUESSES, Severity.CRITICAL, 1, id="hurt-and-no-better-than-guessing"),
        pytest.param(HURT, Learning(), Severity.CRITICAL, 0, id="hurt-and-better-now"),
        pytest.param(issue(severity=Severity.WARNING), GUESSES, Severity.CRITICAL, 0, id="never-critical"),
        pytest.param(HURT, GUESSES, None, 0, id="never-to-fail"),
    ],
)
def test_a_ruined_run_fails_though_its_issue_recovered(
    found: Verdict, learning: Learning, fail_on: Severity | None, exit_code: int
) -> None:
    result = LocalRunResult(
        folder=Path("run"),
        status=0,
        stopped_for=None,
        verdicts=(found, recovered(found, Moment("digits", 60, 0.0))),
        rules=(),
        steps=(),
        evaluator_problem="",
        capture_problem="",
        learning=learning,
    )
    assert result.exit_code(fail_on) == exit_code


def test_one_that_ignores_sigterm_is_killed_after_the_grace(run_it: Callable[..., Notes]) -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN);" + FOREVER
    notes = run_it(code, said=[issue()], actions=STOP, grace_seconds=0.3)
    assert notes.result.status == -signal.SIGKILL
    assert notes.result.exit_code(None) == 1
    assert any("SIGKILL sent" in note for note in notes.ear.notes)


def test_one_that_ends_well_within_the_grace_is_not_killed(run_it: Callable[..., Notes]) -> None:
    code = "signal.signal(signal.SIGTERM, lambda *a: sys.exit(3));" + FOREVER
    notes = run_it(code, said=[issue()], actions=STOP)
    assert notes.result.status == 3
    assert notes.result.exit_code(None) == 1
    assert not any("SIGKILL sent" in note for note in notes.ear.notes)


def test_workers_in_a_group_of_their_own_end_with_it(run_it: Callable[..., Notes], tmp_path: Path) -> None:
    """As torchrun starts them, with a parent that dies at once and workers that do not listen."""
    worker = (
        "import os, pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "(pathlib.Path(os.environ['TRACKSIDE_RUN']) / 'workers-started').touch(); time.sleep(3600)"
    )
    code = (
        f"import subprocess; w = subprocess.Popen([sys.executable, '-c', {worker!r}], start_new_session=True)\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(w.pid))\n" + FOREVER
    )
    evaluator = EVALUATOR.replace('"started"', '"workers-started"')
    notes = run_it(code, said=[issue()], actions=STOP, grace_seconds=1.0, evaluator=evaluator)
    assert notes.result.exit_code(None) == 1
    assert int((tmp_path / "pid").read_text()) not in living_processes()


def test_signals_reach_the_training(run_it: Callable[..., Notes]) -> None:
    """`kill` on us is `kill` on the training: it decides, and its own code comes out."""
    code = (
        "signal.signal(signal.SIGUSR1, lambda *a: os.kill(os.getppid(), signal.SIGTERM))\n"
        "signal.signal(signal.SIGTERM, lambda *a: sys.exit(5))\n"
        "os.kill(os.getppid(), signal.SIGUSR1)\n" + FOREVER
    )
    notes = run_it(code)
    assert notes.result.status == 5
    assert [note for note in notes.ear.notes if "passed on" in note] == [
        "SIGUSR1 passed on to the training.",
        "SIGTERM passed on to the training.",
    ]


def test_a_second_interrupt_kills_one_that_does_not_listen(run_it: Callable[..., Notes]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = "signal.signal(signal.SIGINT, signal.SIG_IGN); os.kill(os.getppid(), signal.SIGINT)\n" + FOREVER
        ear = Ear(on_note={"Ctrl-C again kills it": lambda: os.kill(os.getpid(), signal.SIGINT)})
        notes = run_it(code, ear=ear)
    finally:
        signal.signal(signal.SIGINT, before)
    assert notes.result.status == -signal.SIGKILL
    assert notes.result.exit_code(None) == 137


def test_a_failure_of_ours_is_said_once_and_the_training_goes_on(run_it: Callable[..., Notes]) -> None:
    class Broken(Ear):
        def issue(self, group: IssueGroup) -> None:
            raise ZeroDivisionError("the card cannot be drawn")

    ear = Broken()
    notes = run_it(WAIT_FOR_THE_VERDICT + "sys.exit(4)", said=[issue()], ear=ear)
    assert notes.result.status == 4
    assert [note for note in ear.notes if "Watching failed" in note] == [
        "Watching failed (ZeroDivisionError: the card cannot be drawn). The training goes on unwatched."
    ]


def test_a_command_that_captured_nothing_is_told_why(run_it: Callable[..., Notes]) -> None:
    result = run_it("sys.exit(0)").result
    assert result.steps == ()
    assert "never imported a framework" in result.capture_problem


def test_the_command_is_told_that_it_does_not_end_the_run(run_it: Callable[..., Notes]) -> None:
    """It may train twice, one after the other, or be torchrun, which starts a worker again."""
    assert run_it("sys.exit(0 if os.environ['TRACKSIDE_ENDED_BY'] == 'trackside-run' else 9)").result.status == 0


def test_the_request_lies_in_the_run_before_anything_starts(run_it: Callable[..., Notes]) -> None:
    code = "sys.exit(0 if (pathlib.Path(os.environ['TRACKSIDE_RUN']) / 'rule-request.json').exists() else 9)"
    result = run_it(code).result
    assert result.status == 0
    assert json.loads((result.folder / "rule-request.json").read_text())["rules"][0]["rule"] == "vanishing-gradient"


def test_an_evaluator_that_never_ends_is_ended(run_it: Callable[..., Notes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.local.run.FINAL_JUDGING_SECONDS", 0.3)
    monkeypatch.setattr("trackside.local.run.EVALUATOR_GRACE_SECONDS", 0.3)
    deaf = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({HANGS_SECONDS})"
    with ends_early():
        notes = run_it("time.sleep(0.5)", evaluator=deaf)
    assert notes.result.evaluator_problem == "The rules were ended before they had judged every step."
    assert notes.result.rules[0].state is RuleState.NOT_ENOUGH_DATA


def test_a_full_disk_ends_the_wait_at_once(
    run_it: Callable[..., Notes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder in the way of the probe fails as a full disk does; the evaluator would wait for ever."""
    monkeypatch.setattr("trackside.local.run.STORAGE_GRACE_SECONDS", 0.1)
    probe = tmp_path / "run" / f".probe-{os.getpid()}"
    deaf = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({HANGS_SECONDS})"
    with ends_early():
        notes = run_it(f"pathlib.Path({str(probe)!r}).mkdir()", evaluator=deaf)
    assert notes.result.status == 0
    assert "Is a directory" in notes.result.evaluator_problem
    assert notes.result.evaluator_problem == notes.result.capture_problem
    assert notes.ear.notes == []


def test_the_state_is_shown_while_it_runs_and_nothing_captured_is_said_once(
    run_it: Callable[..., Notes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trackside.local.run.PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr("trackside.local.run.UNCAPTURED_SECONDS", 0.0)
    notes = run_it(WAIT_FOR_THE_VERDICT, said=[issue()])
    assert notes.ear.notes == [nothing_captured_yet([sys.executable], environment=inherited())]
    assert {state.problems for state in notes.ear.states} == {0, 1}
    assert {(state.steps, state.loss, state.rules) for state in notes.ear.states} == {(None, None, 1)}
