"""How far a finding gets on the ladder, what a stop spares, and what AWS's refusals mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lambdas.shared.decisions import Nothing
from lambdas.stop_training.logic import (
    Announce,
    Answer,
    FindStopper,
    Known,
    StopRun,
    Wait,
    may_be_ours,
    read_refusal,
    requested_stop,
    savings,
    weigh,
)
from lambdas.stop_training.settings import StopTrainingSettings
from tests.lambda_settings import made
from trackside.contracts.action import Action
from trackside.contracts.deployment.run_table import JobRecord, merged
from trackside.contracts.deployment.stop_record import DecisionRecord, Savings, StopOutcome, VetoRecord
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"
NOW = 1_795_226_674.0
MINUTE = 60
ISSUE = RuleEvaluation(
    job=TrainingJob("digits-01", ARN),
    configuration_name="vanishing-gradient",
    status=RuleEvaluationStatus.ISSUES_FOUND,
    details="",
    actions=(Action.STOP_TRAINING, Action.NOTIFY),
    modified_at=NOW - 5,
)
SETTINGS = made(
    StopTrainingSettings,
    idempotency_table="done",
    run_table="runs",
    queue_url="queue",
    topic_arn="topic",
    dry_run_parameter="switch",
)
JOB = JobRecord(
    ISSUE.job,
    "InProgress",
    started_at=NOW - 3600,
    max_runtime_seconds=10 * 3600,
    instance_type="ml.p4d.24xlarge",
    instance_count=2,
)
CLEAN = replace(ISSUE, status=RuleEvaluationStatus.NO_ISSUES_FOUND, modified_at=NOW - 1)
OTHER_RULE = replace(ISSUE, configuration_name="dead-relu")
CAME_BACK = replace(ISSUE, evidence=Evidence(since_step=99))
VETO = VetoRecord(ARN, NOW - 2, by="ada", reason="it is meant to")
WINDOW = replace(SETTINGS, veto_minutes=15)


def decided(outcome: StopOutcome, *, ago: float = 10, said: RuleEvaluation = ISSUE) -> DecisionRecord:
    return DecisionRecord(said, outcome, NOW - ago, "")


def known(*decisions: DecisionRecord, rules: tuple[RuleEvaluation, ...] = (), **more: object) -> Known:
    records = {one.configuration_name: merged(None, one) for one in rules}
    return replace(Known(decisions, records), **more)  # type: ignore[arg-type]


def weighed(about: Known, settings: StopTrainingSettings = SETTINGS, said: RuleEvaluation = ISSUE) -> object:
    return weigh(said, StopRun("digits-01"), about, settings, now=NOW)


@pytest.mark.parametrize(
    ("evaluation", "settings"),
    [
        pytest.param(ISSUE, SETTINGS, id="asked for by the rule"),
        pytest.param(
            replace(ISSUE, actions=None),
            replace(SETTINGS, default_actions=(Action.STOP_TRAINING,)),
            id="official event, stopping is the deployment's default",
        ),
        pytest.param(
            replace(ISSUE, job=TrainingJob("another-name", ARN)), SETTINGS, id="the ARN decides, not the name beside it"
        ),
        pytest.param(
            replace(ISSUE, job=TrainingJob("x", ARN.replace("arn:aws:", "arn:aws-us-gov:"))),
            SETTINGS,
            id="other partition",
        ),
    ],
)
def test_is_asked_to_stop_exactly_that_job(evaluation: RuleEvaluation, settings: StopTrainingSettings) -> None:
    assert requested_stop(evaluation, settings) == StopRun("digits-01")


@pytest.mark.parametrize(
    ("evaluation", "settings", "surprising"),
    [
        pytest.param(replace(ISSUE, actions=(Action.NOTIFY,)), SETTINGS, False, id="the rule asks for something else"),
        pytest.param(replace(ISSUE, actions=()), SETTINGS, False, id="the rule asks for nothing"),
        pytest.param(replace(ISSUE, actions=None), SETTINGS, False, id="official event, stopping is not the default"),
        pytest.param(
            replace(ISSUE, actions=()),
            replace(SETTINGS, default_actions=(Action.STOP_TRAINING,)),
            False,
            id="our event asks for nothing: the default is not for it",
        ),
        *(
            pytest.param(replace(ISSUE, status=status), SETTINGS, False, id=f"status {status.value}")
            for status in RuleEvaluationStatus
            if status is not RuleEvaluationStatus.ISSUES_FOUND
        ),
        pytest.param(replace(ISSUE, job=TrainingJob("digits-01", "")), SETTINGS, True, id="no ARN"),
        pytest.param(
            replace(ISSUE, job=TrainingJob("x", ARN.replace("training-job", "processing-job"))),
            SETTINGS,
            True,
            id="ARN of something else",
        ),
        pytest.param(replace(ISSUE, job=TrainingJob("x", ARN + "*")), SETTINGS, True, id="ARN with an asterisk"),
    ],
)
def test_is_not_asked_to_stop(evaluation: RuleEvaluation, settings: StopTrainingSettings, surprising: bool) -> None:
    decision = requested_stop(evaluation, settings)
    assert isinstance(decision, Nothing)
    assert decision.surprising is surprising


@pytest.mark.parametrize(
    ("about", "settings"),
    [
        pytest.param(known(), SETTINGS, id="nothing is known"),
        pytest.param(known(job=JOB), SETTINGS, id="it runs"),
        pytest.param(known(rules=(ISSUE,)), SETTINGS, id="the issue stands"),
        pytest.param(known(rules=(replace(CLEAN, modified_at=NOW - 99),)), SETTINGS, id="it was clean before"),
        pytest.param(
            known(rules=(replace(CLEAN, status=RuleEvaluationStatus.STOPPED),)),
            SETTINGS,
            id="its processing job ended after the issue",
        ),
        pytest.param(known(rules=(replace(CLEAN, configuration_name="x"),)), SETTINGS, id="another rule recovered"),
        pytest.param(
            known(decided(StopOutcome.STOPPING)), SETTINGS, id="an attempt failed between asking and the answer"
        ),
        pytest.param(known(decided(StopOutcome.OVER_BUDGET, ago=3600)), SETTINGS, id="over the last hour's budget"),
        pytest.param(
            known(decided(StopOutcome.UNCONFIRMED, said=OTHER_RULE)),
            replace(SETTINGS, after_findings=2, after_rules=2),
            id="confirmed by another rule",
        ),
        pytest.param(
            known(decided(StopOutcome.UNCONFIRMED, said=CAME_BACK)),
            replace(SETTINGS, after_findings=2),
            id="confirmed by the same rule, which found it again",
        ),
        pytest.param(
            known(veto=replace(VETO, at=NOW - 61 * MINUTE)), SETTINGS, id="a veto against what was found long before"
        ),
        pytest.param(known(decided(StopOutcome.STOPPED, ago=61 * MINUTE, said=OTHER_RULE)), SETTINGS, id="cooled down"),
        pytest.param(
            known(decided(StopOutcome.STOPPED, said=OTHER_RULE)),
            replace(SETTINGS, cool_down_minutes=0),
            id="no cool-down",
        ),
        pytest.param(known(decided(StopOutcome.ANNOUNCED, ago=15 * MINUTE)), WINDOW, id="announced, nobody objected"),
        pytest.param(
            known(decided(StopOutcome.ANNOUNCED, ago=16 * MINUTE, said=OTHER_RULE)),
            WINDOW,
            id="announced for another finding of the job",
        ),
    ],
)
def test_stops(about: Known, settings: StopTrainingSettings) -> None:
    assert weighed(about, settings) == StopRun("digits-01")


@pytest.mark.parametrize(
    ("about", "settings", "outcome"),
    [
        *(
            pytest.param(
                known(job=replace(JOB, status=status)), SETTINGS, StopOutcome.ALREADY_ENDED, id=f"job {status}"
            )
            for status in ("Stopping", "Stopped", "Completed", "Failed")
        ),
        pytest.param(known(rules=(CLEAN,)), SETTINGS, StopOutcome.RECOVERED, id="recovered since"),
        pytest.param(known(), replace(SETTINGS, after_findings=2), StopOutcome.UNCONFIRMED, id="one finding of two"),
        pytest.param(
            known(decided(StopOutcome.UNCONFIRMED)),
            replace(SETTINGS, after_findings=2),
            StopOutcome.UNCONFIRMED,
            id="its own record confirms nothing",
        ),
        pytest.param(
            known(decided(StopOutcome.UNCONFIRMED, said=CAME_BACK)),
            replace(SETTINGS, after_rules=2),
            StopOutcome.UNCONFIRMED,
            id="two findings of one rule",
        ),
        pytest.param(
            known(
                decided(StopOutcome.UNCONFIRMED, said=OTHER_RULE),
                rules=(replace(CLEAN, configuration_name="dead-relu"),),
            ),
            replace(SETTINGS, after_rules=2),
            StopOutcome.UNCONFIRMED,
            id="the other rule has recovered",
        ),
        pytest.param(known(veto=VETO), SETTINGS, StopOutcome.VETOED, id="vetoed"),
        pytest.param(
            known(decided(StopOutcome.ANNOUNCED), veto=VETO), WINDOW, StopOutcome.VETOED, id="vetoed in the window"
        ),
        pytest.param(
            known(veto=replace(VETO, at=NOW - 59 * MINUTE)), SETTINGS, StopOutcome.VETOED, id="found soon after a veto"
        ),
        pytest.param(
            known(veto=VETO),
            replace(SETTINGS, cool_down_minutes=0),
            StopOutcome.VETOED,
            id="found before the veto, no cool-down",
        ),
        pytest.param(
            known(decided(StopOutcome.STOPPED, said=OTHER_RULE)), SETTINGS, StopOutcome.COOLING_DOWN, id="cooling down"
        ),
        pytest.param(known(dry_run=True), SETTINGS, StopOutcome.WOULD_STOP, id="dry run"),
        pytest.param(known(dry_run=True), WINDOW, StopOutcome.WOULD_STOP, id="a dry run announces nothing"),
    ],
)
def test_does_not_stop(about: Known, settings: StopTrainingSettings, outcome: StopOutcome) -> None:
    answer = weighed(about, settings)
    assert isinstance(answer, Answer)
    assert answer.outcome is outcome
    assert answer.surprising is (outcome is StopOutcome.WOULD_STOP)


@pytest.mark.parametrize("status", ["Stopping", "Stopped", "Completed"])
def test_who_stopped_a_job_is_found_out_after_a_request_without_an_answer(status: str) -> None:
    decision = weighed(known(decided(StopOutcome.STOPPING), job=replace(JOB, status=status)))
    assert isinstance(decision, FindStopper)
    assert decision.ended.outcome is StopOutcome.ALREADY_ENDED
    of_another = known(decided(StopOutcome.STOPPING, said=OTHER_RULE), job=replace(JOB, status=status))
    assert isinstance(weighed(of_another), Answer), "the request was another rule's, which answers for itself"


@pytest.mark.parametrize(
    ("requested_after", "stopping_after", "is_ours"),
    [
        pytest.param([0], 0.4, True, id="at once"),
        pytest.param([0], 29, True, id="while the function may have lived"),
        pytest.param([0], -3, True, id="SageMaker's clock is behind"),
        pytest.param([0, 180], 1, True, id="by the first request, whose answer was lost, and not by the second"),
        pytest.param([0, 180], 181, True, id="by the second request"),
        pytest.param([0, 180, 360], 181, True, id="by the second of three"),
        pytest.param([0], -60, False, id="a person was faster than our request"),
        pytest.param([0], 60, False, id="the function died before it, and a person came later"),
        pytest.param([0, 180], 300, False, id="both died before it"),
        pytest.param([0, 180, 360], 100, False, id="a person came between two requests"),
        pytest.param([], 0, False, id="none was made"),
    ],
)
def test_the_time_shows_who_stopped_a_job(
    requested_after: list[float], stopping_after: float, *, is_ours: bool
) -> None:
    requests = [decided(StopOutcome.STOPPING, ago=-after) for after in requested_after]
    assert may_be_ours(requests, stopping_since=NOW + stopping_after) is is_ours


@pytest.mark.parametrize("outcome", [outcome for outcome in StopOutcome if outcome.is_final])
def test_a_finding_that_was_decided_stays_so(outcome: StopOutcome) -> None:
    """Whatever is known besides; but the same issue found again is another finding."""
    about = known(decided(outcome, ago=99 * MINUTE), dry_run=True)
    assert isinstance(weighed(about), Nothing)
    assert isinstance(weighed(about, said=CAME_BACK), Answer)


def test_a_stop_is_announced_and_then_waited_for() -> None:
    assert weighed(known(), WINDOW) == Announce(15 * MINUTE)
    waiting = weighed(known(decided(StopOutcome.ANNOUNCED, ago=100)), WINDOW)
    assert isinstance(waiting, Wait)
    assert waiting.seconds == 800
    joined = weighed(known(decided(StopOutcome.ANNOUNCED, ago=100)), WINDOW, said=OTHER_RULE)
    assert isinstance(joined, Wait), "one announcement for one job"
    over = known(decided(StopOutcome.ANNOUNCED, ago=999), decided(StopOutcome.VETOED, ago=99))
    assert weighed(over, WINDOW, said=OTHER_RULE) == Announce(15 * MINUTE), "what was vetoed announces nothing else"


@pytest.mark.parametrize(
    ("job", "prices", "spared"),
    [
        pytest.param(JOB, (), Savings(32400, "2 x ml.p4d.24xlarge"), id="no price: none is guessed"),
        pytest.param(
            JOB, ("ml.m5.large=1",), Savings(32400, "2 x ml.p4d.24xlarge"), id="the price of another instance"
        ),
        pytest.param(
            JOB,
            ("ml.m5.large=1", "ml.p4d.24xlarge=40.5"),
            Savings(32400, "2 x ml.p4d.24xlarge", 40.5, 729.0),
            id="9 hours of two instances",
        ),
        pytest.param(
            replace(JOB, started_at=NOW - 99 * 3600), (), Savings(0, "2 x ml.p4d.24xlarge"), id="beyond its limit"
        ),
        pytest.param(replace(JOB, started_at=0), (), Savings(), id="it has not begun to train"),
        pytest.param(None, ("ml.m5.large=1",), Savings(), id="nothing is known of it"),
    ],
)
def test_says_what_a_stop_spares_at_most(job: JobRecord | None, prices: tuple[str, ...], spared: Savings) -> None:
    assert savings(job, replace(SETTINGS, instance_prices=prices), now=NOW) == spared


@pytest.mark.parametrize(
    ("code", "message", "surprising"),
    [
        pytest.param(
            "ValidationException",
            "The request was rejected because the training job is in status Stopped.",
            False,
            id="stopped",
        ),
        pytest.param(
            "ValidationException",
            "The request was rejected because the training job is in status Stopping.",
            False,
            id="stopping",
        ),
        pytest.param(
            "ValidationException",
            "The request was rejected because the training job is in status Completed.",
            False,
            id="completed",
        ),
        pytest.param(
            "ValidationException", "Requested resource not found.", True, id="not found, as SageMaker says it"
        ),
        pytest.param("ResourceNotFound", "No such job", True, id="not found, as documented"),
    ],
)
def test_reads_a_refusal_that_trying_again_cannot_change(code: str, message: str, surprising: bool) -> None:
    refusal = read_refusal("digits-01", code=code, message=message)
    assert refusal is not None
    assert refusal.surprising is surprising
    assert message in refusal.reason


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("ThrottlingException", "Rate exceeded", id="throttled"),
        pytest.param("AccessDeniedException", "not authorized", id="no permission"),
        pytest.param("ValidationException", "1 validation error detected", id="another validation error"),
        pytest.param("InternalFailure", "", id="outage"),
    ],
)
def test_leaves_every_other_refusal_to_the_queue(code: str, message: str) -> None:
    assert read_refusal("digits-01", code=code, message=message) is None


HOURS = 120 * MINUTE


@pytest.mark.parametrize(
    ("about", "said", "expected"),
    [
        pytest.param(
            known(veto=VETO, found_at=NOW - 10),
            replace(ISSUE, modified_at=NOW + HOURS),
            StopOutcome.VETOED,
            id="found before the veto, by a clock that is hours ahead",
        ),
        pytest.param(
            known(veto=replace(VETO, at=NOW - 61 * MINUTE), found_at=NOW - 5),
            replace(ISSUE, modified_at=NOW - HOURS),
            None,
            id="found long after the veto, by a clock that is hours behind",
        ),
        pytest.param(
            known(rules=(replace(CLEAN, modified_at=NOW + HOURS, sequence=3),)),
            replace(ISSUE, modified_at=NOW - 5, sequence=4),
            None,
            id="came back after the recovery, by the clock of a successor that is hours behind",
        ),
        pytest.param(
            known(rules=(replace(CLEAN, modified_at=NOW - HOURS, sequence=3),)),
            replace(ISSUE, modified_at=NOW - 5, sequence=2),
            StopOutcome.RECOVERED,
            id="recovered since, by the clock of a successor that is hours behind",
        ),
    ],
)
def test_clocks_that_differ_by_hours_decide_nothing(
    about: Known, said: RuleEvaluation, expected: StopOutcome | None
) -> None:
    decision = weighed(about, said=said)
    assert decision == StopRun("digits-01") if expected is None else getattr(decision, "outcome", None) is expected
