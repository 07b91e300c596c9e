"""From a notebook to the requests: what each thing becomes, what is said of the rest, and all errors at once."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training_lib.sagemaker.catalogues import CATALOGUE
from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.recipient import Recipient
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Severity
from trackside.documents.requests import Translation
from trackside.rules.catalogue import build_rules
from trackside.sagemaker import (
    ActionList,
    CollectionConfig,
    DebuggerHookConfig,
    Email,
    ProfilerRule,
    Rule,
    StopTraining,
    TensorBoardOutputConfig,
    prepare_run,
    rule_configs,
    to_capture_request,
    to_environment,
    to_rule_request,
    translate,
)


def translated(*rules: Any, **more: Any) -> Translation:
    return translate(rules, catalogue=CATALOGUE, **more)


def only(found: Translation) -> RuleConfiguration:
    (rule,) = found.request.rules
    return rule


def saved(found: Translation) -> dict[str, int]:
    return {each.name: each.schedule.save_interval for each in found.capture.collections}


VANISHING = rule_configs.vanishing_gradient


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0.0000001, "1e-07", id="number"),
        pytest.param(10, "10", id="whole-number"),
        pytest.param("3.5", "3.5", id="text"),
        pytest.param(np.float32(0.5), "0.5", id="numpy-scalar"),
        pytest.param(np.array(2), "2", id="numpy-array-of-no-dimension"),
        pytest.param(True, "True", id="true"),
        pytest.param(False, "False", id="false"),
        pytest.param(["a", "b", 3], "a,b,3", id="list"),
        pytest.param({"b", "a"}, "a,b", id="set"),
        pytest.param(StopTraining().use_default_training_job_prefix, "True", id="a-property"),
    ],
)
def test_values_of_any_type_become_texts(value: object, text: str) -> None:
    rule = Rule.sagemaker(VANISHING(), rule_parameters={"threshold": value})
    assert rule.rule_parameters["threshold"] == text
    assert rule.to_debugger_rule_config_dict()["RuleParameters"]["threshold"] == text


def test_none_means_the_default() -> None:
    assert only(translated(Rule.sagemaker(VANISHING(), rule_parameters={"threshold": None}))).parameters == {}


def test_a_value_that_is_not_known_yet_is_a_problem() -> None:
    class PipelineVariable:
        def __str__(self) -> str:
            raise TypeError("known when the pipeline runs")

    with pytest.raises(ConfigurationError, match=r"threshold: is a PipelineVariable, whose value cannot be known"):
        translated(Rule.sagemaker(VANISHING(), rule_parameters={"threshold": PipelineVariable()}))


@pytest.mark.parametrize(
    ("given", "preset"),
    [
        pytest.param({}, "aws-sdk", id="the-sdks-own"),
        pytest.param({"rule_parameters": {"preset": "calibrated"}}, "", id="by-parameter"),
        pytest.param({"preset": "aws-docs"}, "aws-docs", id="by-argument"),
    ],
)
def test_the_preset_of_a_rule(given: dict[str, Any], preset: str) -> None:
    assert only(translated(Rule.sagemaker(VANISHING(), **given))).preset == preset


def test_a_preset_for_all_yields_to_that_of_a_rule() -> None:
    rules = [Rule.sagemaker(VANISHING(), name="a"), Rule.sagemaker(VANISHING(), name="b", preset="aws-docs")]
    assert [rule.preset for rule in translated(*rules, preset="calibrated").request.rules] == ["", "aws-docs"]


def test_a_rule_that_amazon_has_not_judges_in_our_sense_and_that_is_said() -> None:
    found = translated(Rule.sagemaker(rule_configs.gradient_clipping()))
    assert only(found).preset == ""
    assert "GradientClipping judges in Trackside's own sense, for it has no other." in found.notes


@pytest.mark.parametrize(
    ("actions", "wanted", "recipients"),
    [
        pytest.param(None, (), (), id="none"),
        pytest.param(StopTraining(), (Action.STOP_TRAINING,), (), id="stop"),
        pytest.param(Email("a.b+c@sub.example.museum"), (Action.NOTIFY,), ("a.b+c@sub.example.museum",), id="email"),
        pytest.param(
            ActionList(StopTraining("My-Job"), Email("me@example.com"), rule_configs.SMS("+14155550100")),
            (Action.STOP_TRAINING, Action.NOTIFY),
            ("me@example.com", "+14155550100"),
            id="all-three",
        ),
        pytest.param([StopTraining(), StopTraining()], (Action.STOP_TRAINING,), (), id="a-plain-list-and-twice"),
    ],
)
def test_actions(actions: Any, wanted: tuple[Action, ...], recipients: Sequence[str]) -> None:
    found = translated(Rule.sagemaker(VANISHING(), actions=actions))
    assert only(found).actions == wanted
    assert [each.endpoint for each in found.recipients] == list(recipients)
    for each in recipients:
        assert any(each in note for note in found.notes)


def test_the_prefix_of_a_job_is_not_used_and_that_is_said() -> None:
    assert any(
        "'My-Job' is not used" in n
        for n in translated(Rule.sagemaker(VANISHING(), actions=StopTraining("My-Job"))).notes
    )
    assert translated(Rule.sagemaker(VANISHING(), actions=StopTraining())).notes == ()


def test_the_prefix_that_the_sdk_fills_in_when_a_job_starts_is_none_of_the_users() -> None:
    rule = Rule.sagemaker(VANISHING(), actions=StopTraining())
    rule.prepare_actions("My-Job-2026")
    assert translated(rule).notes == ()


def test_actions_in_the_parameters_of_a_started_job_are_read_where_no_object_is() -> None:
    rule = Rule.sagemaker(VANISHING(), actions=ActionList(StopTraining(), Email("me@example.com")))
    rule.prepare_actions("My-Job-2026")
    rule.actions = None
    found = translated(rule)
    assert only(found).actions == (Action.STOP_TRAINING, Action.NOTIFY)
    assert only(found).parameters == {}
    assert found.recipients == (Recipient("email", "me@example.com"),)


def test_stop_training_on_fire_is_the_action() -> None:
    parameters = {"stop_training_on_fire": "True", "training_job_name_prefix": "my-job", "threshold": 60}
    found = translated(Rule.sagemaker(rule_configs.stalled_training_rule(), rule_parameters=parameters))
    assert only(found).actions == (Action.STOP_TRAINING,)
    assert only(found).parameters == {"threshold": "60"}
    assert any("training_job_name_prefix is not used" in note for note in found.notes)


def test_other_trials_are_joined() -> None:
    rule = Rule.sagemaker(rule_configs.similar_across_runs(), other_trials_s3_input_paths=["s3://b/1", "s3://b/2"])
    assert only(translated(rule)).parameters == {"other_trials": "s3://b/1,s3://b/2"}


def test_a_custom_rule_keeps_its_file_its_class_and_its_collections() -> None:
    rule = Rule.custom(
        "Mine",
        source="rules/mine.py",
        rule_to_invoke="Large",
        rule_parameters={"limit": 3, "start_step": 5},
        collections_to_save=[CollectionConfig("gradients", {"save_interval": 7})],
    )
    found = translated(rule)
    wanted = RuleConfiguration(
        "Large",
        "Mine",
        {"limit": "3", "start_step": "5"},
        source="rules/mine.py",
        collections=(CollectionRequest("gradients", Schedule(7)),),
    )
    assert found.request.rules == (wanted,)
    assert saved(found) == {"losses": 500, "gradients": 7}


@pytest.mark.parametrize(
    ("rule", "parameters"),
    [
        pytest.param(
            Rule.sagemaker(rule_configs.low_gpu_utilization(), rule_parameters={"threshold": 60, "patience": 5}),
            {"threshold_p95": "60", "patience": "5"},
            id="as-in-blogs",
        ),
        pytest.param(
            ProfilerRule.sagemaker(rule_configs.LowGPUUtilization(threshold_p95=60)),
            {"threshold_p95": "60", "patience": "1000"},
            id="as-in-the-sdk",
        ),
        pytest.param(
            Rule.sagemaker(rule_configs.low_gpu_utilization, rule_parameters={"threshold": 60}),
            {"threshold_p95": "60"},
            id="without-the-brackets",
        ),
        pytest.param(
            Rule.sagemaker(rule_configs.LowGPUUtilization(threshold_p95=30), rule_parameters={"threshold": 60}),
            {"threshold_p95": "60"},
            id="what-is-given-last-holds",
        ),
        pytest.param(
            {"RuleConfigurationName": "x", "RuleParameters": {"rule_to_invoke": "LowGPUUtilization", "threshold": 1}},
            {"threshold_p95": "1"},
            id="as-a-request",
        ),
    ],
)
def test_profiler_rules_are_judged(rule: Any, parameters: dict[str, str]) -> None:
    found = translated(rule)
    judged = only(found)
    assert (judged.rule_id, found.not_judged) == ("low-gpu-utilization", ())
    assert parameters.items() <= judged.parameters.items()
    assert not {"threshold", "scan_interval_us"} & set(judged.parameters)
    assert judged.preset in {"aws-sdk", "aws-docs"}
    (built,) = build_rules(found.request)
    assert built.rule.severity_of([]) is Severity.CRITICAL, "the original's actions are for every issue"
    assert not any("scan_interval" in note or note.startswith("Not judged") for note in found.notes)


def test_another_interval_between_looks_is_noted() -> None:
    found = translated(ProfilerRule.sagemaker(rule_configs.LowGPUUtilization(scan_interval_us=10**6)))
    assert any("scan_interval_us is not used" in note for note in found.notes)


@pytest.mark.parametrize("name", ["ProfilerReport", "OverallSystemUsage"])
def test_reports_are_never_an_issue(name: str) -> None:
    found = translated(ProfilerRule.sagemaker(getattr(rule_configs, name)()))
    assert found.request.rules == ()
    assert len(found.not_judged) == 1
    assert any("profiler-report.json" in note for note in found.notes)


def test_a_rule_that_is_not_there_yet_is_checked_by_name_and_said() -> None:
    found = translated(Rule.sagemaker(rule_configs.tree_depth(), rule_parameters={"depth": 4}))
    assert found.request.rules == ()
    assert [rule.rule_id for rule in found.not_judged] == ["tree-depth"]
    assert any("TreeDepth will not be judged" in note for note in found.notes)
    with pytest.raises(ConfigurationError, match="Did you mean 'depth'"):
        translated(Rule.sagemaker(rule_configs.tree_depth(), rule_parameters={"dept": 4}))


def test_a_documented_parameter_that_our_rule_lacks_is_left_out_and_said() -> None:
    parameters = {"num_steps": 10, "use_losses_collection": True}
    found = translated(Rule.sagemaker(rule_configs.loss_not_decreasing(), rule_parameters=parameters))
    assert only(found).parameters == {"num_steps": "10"}
    assert any("use_losses_collection is not used" in note for note in found.notes)


def test_what_only_the_evaluator_of_the_original_took_is_said() -> None:
    found = translated(Rule.sagemaker(VANISHING(), rule_parameters={"start_step": 5, "base_trial": "s3://b"}))
    assert only(found).parameters == {}
    assert sum("is not used" in note for note in found.notes) == 2


def test_two_rules_of_one_name_get_names_of_their_own() -> None:
    found = translated(Rule.sagemaker(VANISHING()), Rule.sagemaker(VANISHING()))
    assert [rule.name for rule in found.request.rules] == ["VanishingGradient", "VanishingGradient-2"]
    assert RuleRequest.from_json(found.request.to_json()) == found.request


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({}, {"losses": 500, "gradients": 500}, id="the-sdks-default"),
        pytest.param({"preset": "calibrated"}, {"losses": 500, "gradients": 20}, id="ours-gets-the-steps-it-needs"),
        pytest.param(
            {"collections_to_save": [CollectionConfig("gradients", {"save_interval": 700})]},
            {"losses": 500, "gradients": 700},
            id="the-users-own-however-rare",
        ),
        pytest.param(
            {"collections_to_save": [CollectionConfig("gradients", {"save_interval": 700})], "preset": "calibrated"},
            {"losses": 500, "gradients": 20},
            id="ours-sees-more-than-the-user-asked-for",
        ),
        pytest.param(
            {"collections_to_save": [CollectionConfig("weights")]},
            {"losses": 500, "weights": 500, "gradients": 500},
            id="what-the-rule-watches-is-saved-all-the-same",
        ),
    ],
)
def test_what_is_saved_for_a_rule(given: dict[str, Any], wanted: dict[str, int]) -> None:
    assert saved(translated(Rule.sagemaker(VANISHING(), **given))) == wanted


def test_what_hook_and_rules_ask_for_is_one() -> None:
    hook = DebuggerHookConfig(
        collection_configs=[CollectionConfig("gradients", {"save_interval": 100, "save_steps": 1})]
    )
    rule = Rule.sagemaker(VANISHING(), collections_to_save=[CollectionConfig("gradients", {"save_interval": 30})])
    found = translated(rule, debugger_hook_config=hook)
    assert found.capture.collection("gradients") == CollectionRequest("gradients", Schedule(30, save_steps=(1,)))


@pytest.mark.parametrize(
    ("hook", "wanted"),
    [
        pytest.param(None, {"losses": 500}, id="nothing-said"),
        pytest.param(True, {"losses": 500}, id="true"),
        pytest.param(False, {}, id="false"),
        pytest.param({"HookParameters": {"save_interval": 5}}, {"losses": 5}, id="a-request"),
    ],
)
def test_hooks(hook: Any, wanted: dict[str, int]) -> None:
    assert saved(translated(debugger_hook_config=hook)) == wanted


def test_tensorboard() -> None:
    assert translated(tensorboard_output_config=TensorBoardOutputConfig("s3://b/tb")).capture.tensorboard == "s3://b/tb"


def test_every_error_is_told_at_once_and_where_it_is() -> None:
    hook = DebuggerHookConfig(
        hook_parameters={"save_intervall": 5, "include_workers": "some"},
        collection_configs=[
            CollectionConfig("weights", {"save_interval": 0, "reductions": "meen", "include_regex": "("})
        ],
    )
    rules = [
        Rule.sagemaker(VANISHING(), name="first", rule_parameters={"treshold": 1}),
        Rule.sagemaker(VANISHING(), rule_parameters={"threshold": "much"}, preset="aws-doc"),
        Rule.sagemaker(rule_configs.cpu_bottleneck(), rule_parameters={"patiens": 5, "threshold": 101}),
        {"RuleConfigurationName": "typo", "RuleParameters": {"rule_to_invoke": "VanishingGradiant"}},
        {"RuleConfigurationName": "empty", "RuleParameters": {}},
        "vanishing_gradient",
        Rule.sagemaker(VANISHING(), actions="stop"),
    ]
    with pytest.raises(ConfigurationError) as caught:
        translated(*rules, debugger_hook_config=hook)
    told = [(problem.where, problem.what, problem.fix) for problem in caught.value.problems]
    for where, what, fix in [
        ("DebugHookConfig.HookParameters", "'save_intervall'", "Did you mean 'save_interval'?"),
        ("include_workers", "one or all", ""),
        ("(weights).save_interval", "from 1 on", ""),
        ("(weights).reductions", "'meen'", "Did you mean 'mean'?"),
        ("(weights).include_regex", "is no regular expression", ""),
        ("rules[0] (first)", "'treshold'", "Did you mean 'threshold'?"),
        ("rules[1] (VanishingGradient).preset", "'aws-doc'", "Did you mean 'aws-docs'?"),
        ("rules[1] (VanishingGradient).threshold", "must be a number", ""),
        ("rules[2] (CPUBottleneck)", "'patiens'", "Did you mean 'patience'?"),
        ("rules[2] (CPUBottleneck).threshold", "at most 100", ""),
        ("rules[3] (typo)", "'VanishingGradiant'", "Did you mean 'VanishingGradient'?"),
        ("rules[4] (empty)", "has no rule_to_invoke", ""),
        ("rules[5]", "must be a Rule", "Rule.sagemaker"),
        ("rules[6].actions", "must be an action", ""),
    ]:
        assert any(where in w and what in t and fix in f for w, t, f in told), (where, what, told)
    assert len(told) == 14


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(lambda: Email("me@example"), "is no e-mail address", id="email"),
        pytest.param(lambda: rule_configs.SMS("0171 1234"), "is no phone number", id="phone"),
        pytest.param(lambda: StopTraining("my job"), "letters, digits and hyphens", id="prefix"),
        pytest.param(lambda: rule_configs.CPUBottleneck(threshold=101), "at most 100", id="percent"),
        pytest.param(lambda: rule_configs.CPUBottleneck(treshold=1), "Did you mean 'threshold'", id="name"),
        pytest.param(lambda: rule_configs.ProfilerReport(CPUBottleneck_x=1), "no parameter", id="report"),
        pytest.param(lambda: Rule.custom("x", source="a.py"), "must be given together", id="half-a-custom-rule"),
        pytest.param(lambda: Rule.sagemaker({}), "must be what a function", id="no-configuration"),
        pytest.param(
            lambda: Rule.sagemaker(VANISHING(), rule_parameters={"rule_to_invoke": "Other"}),
            "cannot be set for a built-in rule",
            id="another-class",
        ),
    ],
)
def test_what_can_be_told_where_it_is_written_is_told_there(make: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make()


def test_an_action_list_takes_actions_only() -> None:
    with pytest.raises(TypeError, match="takes actions"):
        ActionList("stop")  # type: ignore[arg-type]  # the mistake that is tested


def test_the_short_ways_say_in_the_log_what_has_no_counterpart(caplog: pytest.LogCaptureFixture) -> None:
    rules = [Rule.sagemaker(rule_configs.vanishing_gradient()), Rule.sagemaker(rule_configs.profiler_report())]
    with caplog.at_level(logging.WARNING, logger="trackside.documents.sdk.translation"):
        assert [rule.rule_id for rule in to_rule_request(rules).rules] == ["vanishing-gradient"]
        assert to_capture_request(None, rules).collection("gradients") is not None
        environment = to_environment("runs/one", None, rules)
    assert CaptureRequest.from_json(environment["TRACKSIDE_CAPTURE_REQUEST"]).collection("gradients") is not None
    assert sum("Never an issue" in message for message in caplog.messages) == 3


def test_a_variable_that_a_training_job_would_not_take_is_refused() -> None:
    hook = DebuggerHookConfig(
        collection_configs=[CollectionConfig(f"mine{k}", {"include_regex": "x" * 90}) for k in range(6)]
    )
    assert to_environment("runs/one", hook)
    with pytest.raises(ConfigurationError, match="takes 512"):
        to_environment("s3://bucket/one", hook)


def test_a_prepared_run_holds_the_rules(tmp_path: Path) -> None:
    run = str(tmp_path / "one")
    prepared = prepare_run(run, [Rule.sagemaker(VANISHING(), actions=StopTraining())])
    request = RuleRequest.from_json((tmp_path / "one" / "rule-request.json").read_bytes())
    assert request == prepared.translation.request
    assert prepared.environment["TRACKSIDE_RUN"] == run
    assert prepared.tags == ({"Key": "trackside:run", "Value": run},)


def test_nothing_is_written_for_a_wrong_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        prepare_run(str(tmp_path / "one"), ["no rule"])
    assert not (tmp_path / "one").exists()


def test_our_objects_send_what_the_sdk_would() -> None:
    rule = Rule.custom("Mine", "image", "ml.t3.medium", 30, source="s3://b/a.py", rule_to_invoke="A")
    assert json.loads(json.dumps(rule.to_debugger_rule_config_dict())) == {
        "RuleConfigurationName": "Mine",
        "RuleEvaluatorImage": "image",
        "InstanceType": "ml.t3.medium",
        "VolumeSizeInGB": 30,
        "RuleParameters": {"source_s3_uri": "s3://b/a.py", "rule_to_invoke": "A"},
    }
