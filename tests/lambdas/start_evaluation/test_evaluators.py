"""What judges a run in each mode of evaluator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambdas.shared.decisions import Nothing
from lambdas.shared.processing_jobs import evaluator_mark, evaluator_name, processing_job_name
from lambdas.start_evaluation.evaluators import OpenLease, decide_evaluators
from lambdas.start_evaluation.logic import StartEvaluation, decide
from tests.lambdas.start_evaluation.test_logic import JOB_NAME, SETTINGS, STARTED, WITH_CUSTOM_RULES
from trackside.contracts.deployment.evaluators import FLEET, PER_JOB, PER_RULE
from trackside.contracts.deployment.lease import LeaseRecord
from trackside.contracts.event import TrainingJob
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest

NOW = 1_763_700_000.0
BUILT_IN = [RuleConfiguration("exploding-tensor", name=f"rule-{number}") for number in range(30)]
MINE = RuleConfiguration("Mine", name="mine", source="s3://rules-bucket/approved/mine.py")
LONG = RuleConfiguration("exploding-tensor", name="n" * 257)


def decided(
    mode: str, request: RuleRequest | Nothing | None, *, most: int = 20
) -> list[StartEvaluation | OpenLease | Nothing]:
    chosen = replace(WITH_CUSTOM_RULES, evaluator_mode=mode, most_rule_jobs=most)
    start = decide(STARTED, chosen)
    assert isinstance(start, StartEvaluation)
    return list(decide_evaluators(start, STARTED.job, request, chosen, now=NOW))


def judged(decisions: list[StartEvaluation | OpenLease | Nothing]) -> list[str]:
    """Which configuration, or those from which on, each processing job judges."""
    found = []
    for each in decisions:
        if isinstance(each, StartEvaluation):
            assert each.request["ProcessingJobName"] == each.name
            environment = each.request["Environment"]
            assert all(len(value) <= 256 for value in environment.values())
            rest = environment.get("TRACKSIDE_RULES_AFTER")
            found.append(f"from {rest}" if rest else environment.get("TRACKSIDE_RULE_CONFIGURATION", "all"))
    return found


def test_one_for_a_job_judges_everything_and_knows_its_time() -> None:
    (start,) = decided(PER_JOB, None)
    assert isinstance(start, StartEvaluation)
    assert start.name == processing_job_name(STARTED.job)
    assert start.request["Environment"]["TRACKSIDE_MAX_RUNTIME_SECONDS"] == str(SETTINGS.max_runtime_seconds)
    assert judged([start]) == ["all"]


def test_the_fleet_gets_a_place_in_its_table() -> None:
    (lease,) = decided(FLEET, None)
    assert lease == OpenLease(LeaseRecord(STARTED.job, "s3://runs-bucket/team/digits-01", free_at=NOW))


@pytest.mark.parametrize(
    ("rules", "most", "expected"),
    [
        pytest.param(BUILT_IN[:2], 20, ["rule-0", "rule-1"], id="each its own"),
        pytest.param(BUILT_IN[:3], 3, ["rule-0", "rule-1", "rule-2"], id="as many as may be"),
        pytest.param(BUILT_IN[:4], 3, ["rule-0", "rule-1", "from 2"], id="one more: the last job has the rest"),
        pytest.param([BUILT_IN[0], MINE, BUILT_IN[1]], 20, ["rule-0", "rule-1"], id="a file has its own already"),
        pytest.param([MINE, *BUILT_IN[:4]], 3, ["rule-0", "rule-1", "from 3"], id="a file is not counted"),
        pytest.param([BUILT_IN[0], LONG, BUILT_IN[1]], 20, ["rule-0", "from 1"], id="a name that fits no variable"),
        pytest.param([LONG], 20, ["from 0"], id="only such a name"),
        pytest.param([MINE], 20, [], id="nothing but a file"),
        pytest.param(BUILT_IN[:2], 1, ["from 0"], id="one for all"),
    ],
)
def test_one_for_each_rule(rules: list[RuleConfiguration], most: int, expected: list[str]) -> None:
    decisions = decided(PER_RULE, RuleRequest(tuple(rules)), most=most)
    assert judged(decisions) == expected
    said = [each for each in decisions if isinstance(each, Nothing)]
    assert bool(said) == any(each.startswith("from") for each in expected)
    assert all(each.surprising and "share one" in each.reason for each in said)
    names = [each.name for each in decisions if isinstance(each, StartEvaluation)]
    assert len(set(names)) == len(names)


def test_without_a_request_each_of_the_usual_rules_has_its_own() -> None:
    usual = built_in_catalogue().usual
    assert judged(decided(PER_RULE, RuleRequest(()), most=len(usual))) == list(usual)


def test_a_request_that_cannot_be_read_is_left_to_one_evaluator_which_says_so() -> None:
    assert judged(decided(PER_RULE, Nothing("it is no JSON"))) == ["all"]


@given(
    st.lists(st.sampled_from([*BUILT_IN, MINE, LONG]), max_size=40, unique_by=lambda rule: rule.name),
    st.integers(1, 25),
)
def test_every_rule_is_judged_once_by_no_more_jobs_than_may_be(rules: list[RuleConfiguration], most: int) -> None:
    names = [rule.name for rule in rules if rule is not MINE]
    if not rules:
        return
    decisions = judged(decided(PER_RULE, RuleRequest(tuple(rules)), most=most))
    assert len(decisions) <= most
    alone = [each for each in decisions if not each.startswith("from ")]
    rest = [int(each.removeprefix("from ")) for each in decisions if each.startswith("from ")]
    shared = [rule.name for rule in rules[rest[0] :] if rule is not MINE] if rest else []
    assert alone + shared == names


@given(
    name=st.text(min_size=1, max_size=80),
    configuration=st.text(max_size=80),
    link=st.integers(1, 100),
    number=st.integers(0, 10**6),
)
def test_every_name_is_one_that_sagemaker_accepts(name: str, configuration: str, link: int, number: int) -> None:
    job = TrainingJob(name, f"arn:{number}")
    ours = evaluator_name(job, configuration=configuration, link=link)
    assert JOB_NAME.fullmatch(ours)
    assert evaluator_mark(job) in ours
    assert ours != evaluator_name(job, configuration=configuration, link=link + 1)
    assert ours != evaluator_name(job, configuration=f"{configuration}x", link=link)


def test_the_first_evaluator_of_all_rules_is_called_as_ever() -> None:
    assert evaluator_name(STARTED.job) == processing_job_name(STARTED.job)
