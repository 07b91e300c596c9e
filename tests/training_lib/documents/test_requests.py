"""Requests of CreateTrainingJob, both ways; the environment of a rule container; what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training_lib.sagemaker.catalogues import CATALOGUE
from trackside.contracts.action import Action
from trackside.contracts.capture_request import (
    ALL,
    BUILT_IN_COLLECTIONS,
    MODES,
    REDUCTIONS,
    CaptureRequest,
    CollectionRequest,
    Schedule,
    StatisticsRequest,
)
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.recipient import Recipient
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.profiling_request import ProfilingRequest, Window
from trackside.documents.hook import COLLECTION_KEYS, HOOK_KEYS, HookReading, hook_document
from trackside.documents.requests import read_environment, read_training_job, training_job_document
from trackside.documents.rules import DEFAULT_IMAGE
from trackside.documents.values import as_text

REQUEST = {
    "TrainingJobName": "digits",
    "DebugHookConfig": {
        "S3OutputPath": "s3://bucket/out",
        "HookParameters": {"save_interval": "50"},
        "CollectionConfigurations": [{"CollectionName": "gradients"}],
    },
    "DebugRuleConfigurations": [
        {
            "RuleConfigurationName": "Gone",
            "RuleEvaluatorImage": "503895931360.dkr.ecr.us-east-1.amazonaws.com/sagemaker-debugger-rules:latest",
            "RuleParameters": {
                "rule_to_invoke": "VanishingGradient",
                "threshold": "0.5",
                "action_json": '[{\\"name\\": \\"stoptraining\\", \\"training_job_prefix\\": \\"Digits-1\\"}]',
            },
        }
    ],
    "ProfilerRuleConfigurations": [
        {
            "RuleConfigurationName": "Report",
            "RuleEvaluatorImage": "x",
            "RuleParameters": {"rule_to_invoke": "ProfilerReport", "cpubottleneck_threshold": "90"},
        }
    ],
    "ProfilerConfig": {"ProfilingIntervalInMilliseconds": 500, "DisableProfiler": False},
    "DebugRuleEvaluationStatuses": [],
    "ProfilerRuleEvaluationStatuses": [],
    "ProfilingStatus": "Enabled",
}


def with_rule(**parameters: str) -> dict[str, Any]:
    return {"DebugRuleConfigurations": [{"RuleConfigurationName": "R", "RuleParameters": parameters}]}


def test_a_request_or_what_describes_the_job() -> None:
    found = read_training_job(REQUEST, catalogue=CATALOGUE)
    wanted = RuleConfiguration(
        "vanishing-gradient", "Gone", {"threshold": "0.5"}, (Action.STOP_TRAINING,), preset="aws-docs"
    )
    assert found.request.rules == (wanted,)
    assert found.capture == CaptureRequest(
        (CollectionRequest("gradients", Schedule(50)), CollectionRequest("losses", Schedule(50))),
        include_workers="one",
        machine_interval_ms=500,
    )
    assert [rule.rule_id for rule in found.not_judged] == ["profiler-report"]
    assert found.s3_output_path == "s3://bucket/out"
    for said in ("'Digits-1' is not used", "RuleEvaluatorImage x is not used", "Never an issue"):
        assert sum(said in note for note in found.notes) == 1, (said, found.notes)
    assert len(found.notes) == 3


@pytest.mark.parametrize(
    ("profiler", "interval"),
    [
        pytest.param(None, 0, id="none"),
        pytest.param({}, 500, id="the-default-of-SageMaker"),
        pytest.param({"S3OutputPath": "s3://bucket"}, 500, id="without-an-interval"),
        pytest.param({"ProfilingIntervalInMilliseconds": 100}, 100, id="an-interval"),
        pytest.param({"ProfilingIntervalInMilliseconds": 100, "DisableProfiler": True}, 0, id="disabled"),
    ],
)
def test_a_profiler_configuration_has_the_machine_sampled(profiler: dict[str, Any] | None, interval: int) -> None:
    document = {"ProfilerConfig": profiler} if profiler is not None else {}
    capture = read_training_job({**with_rule(rule_to_invoke="DeadRelu"), **document}, catalogue=CATALOGUE).capture
    assert capture.machine_interval_ms == interval
    assert CaptureRequest.from_json(capture.to_json()) == capture


def test_steps_to_profile_are_part_of_the_capture() -> None:
    parameters = {
        "DetailedProfilingConfig": '{"StartStep": 5, "NumSteps": 1, }',
        "PythonProfilingConfig": '{"StartStep": 9, "NumSteps": 3, "cProfileTimer": "cpu_time"}',
        "DataloaderProfilingConfig": '{"StartStep": 7, "NumSteps": 1, "MetricsRegex": ".*"}',
    }
    found = read_training_job({"ProfilerConfig": {"ProfilingParameters": parameters}}, catalogue=CATALOGUE)
    assert found.capture.profiling == ProfilingRequest(Window(5), Window(9, 3), timer="cpu_time")
    assert CaptureRequest.from_json(found.capture.to_json()) == found.capture
    (note,) = found.notes
    assert "DataloaderProfilingConfig: no effect" in note
    disabled = {"ProfilerConfig": {"ProfilingParameters": parameters, "DisableProfiler": True}}
    assert read_training_job(disabled, catalogue=CATALOGUE).capture == CaptureRequest()
    wrong = {"DetailedProfilingConfig": '{"NumSteps": 0}'}
    with pytest.raises(ConfigurationError, match=r"ProfilingParameters\.DetailedProfilingConfig\.NumSteps: must be"):
        read_training_job({"ProfilerConfig": {"ProfilingParameters": wrong}}, catalogue=CATALOGUE)


def test_nothing_asked_is_losses_and_no_rule() -> None:
    found = read_training_job({"TrainingJobName": "x"}, catalogue=CATALOGUE)
    assert found.request == RuleRequest(())
    assert found.capture == CaptureRequest()
    assert found.notes == ()


@pytest.mark.parametrize(
    ("document", "where", "said"),
    [
        pytest.param([], "the whole of it", "must be an object", id="a-list"),
        pytest.param(
            {"DebugRuleConfiguration": []}, "DebugRuleConfiguration", "DebugRuleConfigurations", id="misspelled"
        ),
        pytest.param({"DebugRuleConfigurations": {"a": 1}}, "DebugRuleConfigurations", "must be a list", id="no-list"),
        pytest.param(
            {"DebugRuleConfigurations": [5]}, "DebugRuleConfigurations[0]", "must be an object", id="no-object"
        ),
        pytest.param(
            {"DebugRuleConfigurations": [{"RuleParameters": {"rule_to_invoke": "AllZero"}}]},
            "[0].RuleConfigurationName",
            "must be a text",
            id="no-name",
        ),
        pytest.param(
            {"DebugRuleConfigurations": [{"RuleConfigurationName": "R", "RuleParameters": [1]}]},
            "[0] (R)",
            "parameters in an object",
            id="no-parameters",
        ),
        pytest.param(with_rule(rule_to_invoke="WeightUpdates"), "(R)", "WeightUpdate", id="unknown-rule"),
        pytest.param(with_rule(rule_to_invoke="Mine"), "(R)", "source_s3_uri", id="a-custom-rule-without-its-file"),
        pytest.param(
            with_rule(rule_to_invoke="AllZero", action_json="stop"),
            "action_json",
            "is no JSON of actions",
            id="actions",
        ),
        pytest.param(
            with_rule(rule_to_invoke="AllZero", action_json='{"name": "stop-training"}'),
            "action_json[0]",
            "Did you mean 'stoptraining'?",
            id="unknown-action",
        ),
        pytest.param(
            with_rule(rule_to_invoke="AllZero", action_json='{"name": "email", "endpoint": "me"}'),
            "action_json[0].endpoint",
            "no e-mail address",
            id="address",
        ),
        pytest.param(
            with_rule(rule_to_invoke="StalledTrainingRule", stop_training_on_fire="perhaps"),
            "stop_training_on_fire",
            "true or false",
            id="stop-on-fire",
        ),
        pytest.param(
            with_rule(rule_to_invoke="LowGPUUtilization", threshold="1", threshold_p95="2"),
            "(R)",
            "mean the same",
            id="two-names-for-one-thing",
        ),
        pytest.param(with_rule(rule_to_invoke="OverallSystemUsage", x="1"), "(R)", "no parameter 'x'", id="profiler"),
        pytest.param({"DebugHookConfig": 5}, "DebugHookConfig", "must be an object", id="hook"),
        pytest.param(
            {"DebugHookConfig": {"CollectionConfigurations": {}, "HookParameter": {}}},
            "DebugHookConfig",
            "HookParameters",
            id="hook-key",
        ),
        pytest.param(
            {"DebugHookConfig": {"CollectionConfigurations": "losses"}}, "Configurations", "a list", id="text"
        ),
        pytest.param(
            {"DebugHookConfig": {"CollectionConfigurations": [{}]}}, "[0]", "no CollectionName", id="nameless"
        ),
        pytest.param(
            {"DebugHookConfig": {"HookParameters": {"export_tensorboard": "true"}}},
            "export",
            "nothing of where",
            id="tb",
        ),
        pytest.param(
            {"DebugHookConfig": {"HookParameters": {"save_all": "all"}}}, "save_all", "true or false", id="all"
        ),
        pytest.param(
            {"ProfilerConfig": {"ProfilingIntervalInMilliseconds": 300}},
            "InMilliseconds",
            "one of 100, 200",
            id="interval",
        ),
        pytest.param({"ProfilerConfig": {"Interval": 3}}, "ProfilerConfig", "'Interval'", id="profiler-key"),
        pytest.param({"TensorBoardOutputConfig": {}}, "S3OutputPath", "must be a text", id="tensorboard"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(document: Any, where: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_training_job(document, catalogue=CATALOGUE)
    assert any(where in p.where and said in f"{p.what} {p.fix}" for p in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param("VanishingGradient", "vanishing-gradient", id="class"),
        pytest.param("vanishinggradient", "vanishing-gradient", id="whatever-the-case"),
        pytest.param("vanishing_gradient", "vanishing-gradient", id="function"),
        pytest.param("vanishing-gradient", "vanishing-gradient", id="ours"),
        pytest.param("StalledTrainingRule", "stalled-training", id="rule"),
        pytest.param("StalledTraining", "stalled-training", id="alias"),
        pytest.param("WeightUpdate", "weight-update-ratio", id="blogs-name"),
    ],
)
def test_names_of_rules(name: str, wanted: str) -> None:
    found = read_training_job(with_rule(rule_to_invoke=name), catalogue=CATALOGUE)
    assert [rule.rule_id for rule in (*found.request.rules, *found.not_judged)] == [wanted]


def test_a_rule_of_ours_that_amazon_never_had_is_known_by_its_id() -> None:
    found = read_training_job(with_rule(rule_to_invoke="gradient-clipping", share="0.5"), catalogue=CATALOGUE)
    assert found.request.rules[0].parameters == {"share": "0.5"}


CONTAINER = {
    "PATH": "/usr/bin",
    "AWS_REGION": "us-east-1",
    "https_proxy": "http://proxy",
    "TRAINING_JOB_ARN": "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits",
    "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE": "/opt/ml/processing/input/profiler/signals/Gone",
}


def test_the_environment_of_a_rule_container() -> None:
    environment = {**CONTAINER, "rule_to_invoke": "VanishingGradient", "threshold": "0.5", "tresholt": "1", "cc": "gcc"}
    found = read_environment(environment, catalogue=CATALOGUE)
    assert found.request.rules == (
        RuleConfiguration("vanishing-gradient", "Gone", {"threshold": "0.5"}, preset="aws-docs"),
    )
    assert [note for note in found.notes if "variable" in note] == [
        "The variable 'cc' is no parameter of VanishingGradient and is not used.",
        "The variable 'tresholt' is no parameter of VanishingGradient and is not used. Did you mean 'threshold'?",
    ]


def test_the_environment_of_a_profiler_rules_container() -> None:
    environment = {**CONTAINER, "rule_to_invoke": "LowGPUUtilization", "threshold": "60", "window": "5"}
    (rule,) = read_environment(environment, catalogue=CATALOGUE).request.rules
    assert rule.parameters == {"threshold_p95": "60", "window": "5"}


def test_none_as_the_sdk_writes_it_is_not_set() -> None:
    parameters = {"rule_to_invoke": "StepOutlier", "mode": "None", "stddev": "4"}
    (rule,) = read_training_job(with_rule(**parameters), catalogue=CATALOGUE).request.rules
    assert rule.parameters == {"stddev": "4"}


def test_the_environment_of_a_custom_rules_container() -> None:
    environment = {**CONTAINER, "rule_to_invoke": "Large", "source_s3_uri": "s3://b/a.py", "limit": "3"}
    (rule,) = read_environment(environment, catalogue=CATALOGUE).request.rules
    assert (rule.rule_id, rule.source, rule.parameters) == ("Large", "s3://b/a.py", {"limit": "3"})


def test_an_environment_that_names_no_rule_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no rule_to_invoke"):
        read_environment(CONTAINER, catalogue=CATALOGUE)


SCHEDULES = st.builds(
    Schedule,
    st.integers(1, 1000),
    st.integers(0, 50),
    st.none() | st.integers(0, 5000),
    st.lists(st.integers(0, 5000), max_size=4, unique=True).map(tuple),
)
WORDS = st.from_regex(r"[a-z_.*]{1,12}", fullmatch=True).filter(
    lambda word: not word.startswith("*") and "**" not in word
)


@st.composite
def collections(draw: st.DrawFn) -> CollectionRequest:
    is_own = draw(st.booleans())
    name = (
        f"mine_{draw(st.integers(0, 99))}"
        if is_own
        else draw(st.sampled_from(sorted(set(BUILT_IN_COLLECTIONS) - {"losses", "metrics", "scalars"})))
    )
    usual = draw(SCHEDULES)
    others = [(mode, draw(SCHEDULES)) for mode in MODES[1:] if draw(st.booleans())]
    reductions = tuple(draw(st.lists(st.sampled_from(REDUCTIONS), max_size=3, unique=True)))
    raw = draw(st.sampled_from([None, bool(reductions)]))
    return CollectionRequest(
        name,
        usual,
        include_regex=tuple(draw(st.lists(WORDS, min_size=int(is_own), max_size=2, unique=True))),
        mode_schedules=tuple((mode, each) for mode, each in others if each != usual),
        reductions=reductions,
        save_raw_tensor=raw,
        save_shape=draw(st.booleans()),
        save_histogram=draw(st.booleans()),
    )


def saves_the_same(a: CollectionRequest, b: CollectionRequest) -> bool:
    schedules = all(
        a.schedule_for(mode).is_due(step) == b.schedule_for(mode).is_due(step)
        for mode in MODES
        for step in (*range(60), 499, 500, 1000, 4999, 5000)
    )
    plain = [
        (c.name, c.include_regex, c.reductions, c.saves_raw_tensor, c.save_shape, c.save_histogram) for c in (a, b)
    ]
    return schedules and plain[0] == plain[1]


@settings(max_examples=60, deadline=None)
@given(st.lists(collections(), max_size=4, unique_by=lambda c: c.name), st.sampled_from(["one", "all"]))
def test_a_capture_request_survives_the_hooks_words(asked: list[CollectionRequest], workers: str) -> None:
    capture = CaptureRequest((CollectionRequest("losses"), *asked), include_workers=workers)
    document, notes = hook_document(capture, s3_output_path="s3://b")
    found = read_training_job({"DebugHookConfig": document}, catalogue=CATALOGUE).capture
    assert notes == []
    assert found.include_workers == workers
    assert len(found.collections) == len(capture.collections)
    assert all(map(saves_the_same, found.collections, capture.collections))


RULES = st.builds(
    RuleConfiguration,
    st.sampled_from(["vanishing-gradient", "exploding-tensor"]),
    st.from_regex(r"[A-Za-z]{1,12}", fullmatch=True),
    st.just({}),
    st.sampled_from([(), (Action.STOP_TRAINING,), (Action.NOTIFY,), (Action.STOP_TRAINING, Action.NOTIFY)]),
    preset=st.sampled_from(["", "aws-docs", "aws-sdk"]),
) | st.builds(
    RuleConfiguration,
    st.from_regex(r"[A-Z][A-Za-z]{1,12}", fullmatch=True),
    st.from_regex(r"[A-Za-z]{1,12}", fullmatch=True),
    st.dictionaries(st.sampled_from(["limit", "of"]), st.text(min_size=1, max_size=20).filter(lambda t: t != "None")),
    source=st.just("s3://b/a.py"),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(RULES, max_size=4, unique_by=lambda rule: rule.name))
def test_a_rule_request_survives_amazons_words(rules: list[RuleConfiguration]) -> None:
    request = RuleRequest(tuple(rules))
    told = (Recipient("email", "me@example.com"), Recipient("sms", "+14155550100"))
    document, notes = training_job_document(request, CaptureRequest(), s3_output_path="s3://b", recipients=told)
    found = read_training_job(document, catalogue=CATALOGUE)
    assert notes == ()
    assert found.request == request
    asked = any(Action.NOTIFY in rule.actions for rule in rules)
    assert found.recipients == (told if asked else ())


def test_what_amazons_words_cannot_say_is_said() -> None:
    rule = RuleConfiguration("vanishing-gradient", actions=(Action.PUBLISH_METRIC, Action.NOTIFY))
    capture = CaptureRequest(
        (CollectionRequest(ALL), CollectionRequest("weights", tensor_names=("w",))),
        statistics=StatisticsRequest(enabled=False),
        compiled="params_only",
        tensorboard="s3://b/tb",
    )
    document, notes = training_job_document(RuleRequest((rule,)), capture, s3_output_path="s3://b", image="mine")
    assert document["DebugHookConfig"]["HookParameters"] == {
        "include_workers": "all",
        "save_all": "true",
        "tensorboard_dir": "s3://b/tb",
    }
    assert document["DebugRuleConfigurations"][0]["RuleEvaluatorImage"] == "mine"
    for word in ("statistics", "compiled", "tensor_names", "PublishMetric", "Notify"):
        assert any(word in note for note in notes), word
    assert len(notes) == 5


def test_profiler_rules_go_into_their_own_list() -> None:
    rule = RuleConfiguration("cpu-bottleneck", "CPUBottleneck", {"threshold": "5"}, preset="aws-docs")
    document, _ = training_job_document(RuleRequest((rule,)), CaptureRequest(), s3_output_path="s3://b")
    assert document["ProfilerRuleConfigurations"] == [
        {
            "RuleConfigurationName": "CPUBottleneck",
            "RuleEvaluatorImage": DEFAULT_IMAGE,
            "RuleParameters": {"threshold": "5", "rule_to_invoke": "CPUBottleneck"},
        }
    ]


def test_what_amazon_would_refuse_is_refused_at_once() -> None:
    rules = [RuleConfiguration("vanishing-gradient", f"R{k}", {"threshold": "1" * 300}) for k in range(21)]
    capture = CaptureRequest(tuple(CollectionRequest(f"c{k}", include_regex=("x",)) for k in range(21)))
    with pytest.raises(ConfigurationError) as caught:
        training_job_document(RuleRequest(tuple(rules)), capture, s3_output_path="s3://b")
    told = [str(problem) for problem in caught.value.problems]
    assert sum("300 characters; Amazon takes 256" in each for each in told) == 21
    assert any("has 21 rules; Amazon takes 20" in each for each in told)
    assert any("more than 20 collections" in each for each in told)


@pytest.mark.parametrize(
    ("parameters", "collection", "wanted"),
    [
        pytest.param({}, {}, Schedule(), id="built-in"),
        pytest.param({"save_interval": "5"}, {}, Schedule(5), id="hook"),
        pytest.param({"save_interval": "5"}, {"save_interval": "7"}, Schedule(7), id="collection-before-hook"),
        pytest.param({"train.save_interval": "5", "save_interval": "3"}, {}, Schedule(5), id="mode-before-hook"),
        pytest.param({"train.save_interval": "5"}, {"save_interval": "7"}, Schedule(7), id="collection-before-mode"),
        pytest.param({}, {"train.save_interval": "5", "save_interval": "7"}, Schedule(5), id="mode-of-a-collection"),
        pytest.param({"save_steps": "1, 2,"}, {"end_step": "9"}, Schedule(500, 0, 9, (1, 2)), id="each-key-by-itself"),
        pytest.param({"start_step": 3}, {"end_step": None}, Schedule(500, 3), id="numbers-and-nothing"),
    ],
)
def test_levels_of_a_schedule(parameters: dict[str, Any], collection: dict[str, Any], wanted: Schedule) -> None:
    entry = {"CollectionName": "weights", "CollectionParameters": collection}
    document = {"HookParameters": parameters, "CollectionConfigurations": [entry]}
    found = read_training_job({"DebugHookConfig": document}, catalogue=CATALOGUE).capture.collection("weights")
    assert found is not None
    assert found.schedule == wanted


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("layers", "TensorFlow 1", id="tensorflow"),
        pytest.param("tree", "Did you mean 'trees'?", id="the-documentations-own-mistake"),
        pytest.param("mine", "has no include_regex", id="of-ones-own"),
        pytest.param("default", "always saved", id="default"),
    ],
)
def test_a_collection_that_can_hold_nothing_is_left_out_and_said(name: str, said: str) -> None:
    found = read_training_job({"DebugHookConfig": {"CollectionConfigurations": [{"CollectionName": name}]}})
    assert [each.name for each in found.capture.collections] == ["losses"]
    assert said in "".join(found.notes)


def test_reductions_of_the_hook_hold_but_for_losses() -> None:
    hook = {"reductions": "mean,abs_l2,l1_norm", "save_raw_tensor": "True"}
    entries = [{"CollectionName": "weights"}, {"CollectionName": "losses"}]
    document = {"HookParameters": hook, "CollectionConfigurations": entries}
    found = read_training_job({"DebugHookConfig": document}, catalogue=CATALOGUE).capture
    weights, losses = found.collections
    assert weights.reductions == ("mean", "abs_l2_norm", "l1_norm")
    assert weights.saves_raw_tensor
    assert losses == CollectionRequest("losses")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "CollectionName",
                        "CollectionParameters",
                        "HookParameters",
                        "CollectionConfigurations",
                        *HOOK_KEYS[:4],
                        *COLLECTION_KEYS[:4],
                    ]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_stands_there_is_a_request_or_told(document: Any) -> None:
    problems: list[Any] = []
    notes: list[str] = []
    reading = HookReading(problems, notes)
    reading.read(document)
    asked = reading.request()
    if not problems:
        assert CaptureRequest.from_json(asked.to_json()) == asked


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param("", "", id="empty"),
        pytest.param([], "", id="empty-list"),
        pytest.param([None, "a"], "a", id="list-with-nothing"),
        pytest.param(Action.NOTIFY, "Notify", id="enumeration"),
        pytest.param(1e-7, "1e-07", id="number"),
    ],
)
def test_as_text(value: object, text: str | None) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize("value", [b"x", {"a": 1}, object(), [object()]])
def test_what_has_no_text_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="cannot be known here"):
        as_text(value)
