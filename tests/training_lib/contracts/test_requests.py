"""Capture and rule requests: what is good round-trips, what is bad says everything that is wrong at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.action import Action
from trackside.contracts.capture_request import (
    MODES,
    REDUCTIONS,
    CaptureRequest,
    CollectionRequest,
    Schedule,
    StatisticsRequest,
    capture_environment,
)
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import (
    CUSTOM_RULE_CAPTURE,
    RuleCatalogue,
    built_in_catalogue,
    parse_catalogue,
)
from trackside.contracts.rule_request import SOURCE_PARAMETER, CustomRule, RuleConfiguration, RuleRequest

SCHEDULES = st.builds(
    Schedule,
    save_interval=st.integers(1, 10_000),
    start_step=st.integers(0, 10_000),
    end_step=st.none() | st.integers(0, 10_000),
    save_steps=st.lists(st.integers(0, 10_000), max_size=5).map(tuple),
    save_seconds=st.none() | st.floats(0.001, 1e6),
)
MODE_SCHEDULES = st.dictionaries(st.sampled_from(MODES), SCHEDULES, max_size=2).map(
    lambda schedules: tuple((mode, schedules[mode]) for mode in MODES if mode in schedules)
)
COLLECTIONS = st.builds(
    CollectionRequest,
    name=st.sampled_from(["losses", "weights", "gradients"]),
    schedule=SCHEDULES,
    include_regex=st.lists(st.sampled_from([".*", "^a", "loss"]), max_size=2, unique=True).map(tuple),
    mode_schedules=MODE_SCHEDULES,
    tensor_names=st.lists(st.sampled_from(["a", "b/c"]), max_size=2, unique=True).map(tuple),
    reductions=st.lists(st.sampled_from(REDUCTIONS), max_size=3, unique=True).map(tuple),
    save_raw_tensor=st.none() | st.booleans(),
    save_shape=st.booleans(),
    save_histogram=st.booleans(),
)
STATISTICS = st.builds(
    StatisticsRequest,
    enabled=st.booleans(),
    budget=st.floats(0.001, 1),
    dear_interval=st.integers(1, 1000),
    dense_start_steps=st.integers(0, 1000),
    dense_after_steps=st.integers(0, 1000),
)
CAPTURES = st.builds(
    CaptureRequest,
    collections=st.lists(COLLECTIONS, max_size=3, unique_by=lambda c: c.name).map(tuple),
    statistics=STATISTICS,
    include_workers=st.sampled_from(["all", "one"]),
    compiled=st.sampled_from(["eager_step", "params_only"]),
    tensorboard=st.sampled_from(["", "s3://bucket/tensorboard"]),
)
TEXTS = st.text(max_size=30)
RULES = st.builds(
    RuleConfiguration,
    rule_id=TEXTS.filter(bool),
    name=TEXTS,
    parameters=st.dictionaries(TEXTS, TEXTS, max_size=3),
    actions=st.lists(st.sampled_from(list(Action)), unique=True).map(tuple),
    source=TEXTS,
    collections=st.lists(COLLECTIONS, max_size=2).map(tuple),
).filter(lambda rule: not (rule.source and SOURCE_PARAMETER in rule.parameters))  # refused: a file is named once
REQUESTS = st.lists(RULES, max_size=3, unique_by=lambda r: r.name).map(lambda r: RuleRequest(tuple(r)))


@given(CAPTURES)
def test_a_capture_request_survives_json(request: CaptureRequest) -> None:
    assert CaptureRequest.from_json(request.to_json()) == request


@given(REQUESTS)
def test_a_rule_request_survives_json(request: RuleRequest) -> None:
    assert RuleRequest.from_json(request.to_json()) == request


@given(CAPTURES, CAPTURES, st.integers(0, 3000))
def test_a_merged_request_saves_all_that_either_asks_for_on_its_interval_from_zero(
    ours: CaptureRequest, theirs: CaptureRequest, step: int
) -> None:
    merged = ours.merged_with(theirs)
    for request in (ours, theirs):
        for collection in request.collections:
            both = merged.collection(collection.name)
            assert both is not None
            assert both.schedule.save_interval <= collection.schedule.save_interval
            assert set(collection.include_regex) <= set(both.include_regex)
            assert step not in collection.schedule.save_steps or both.schedule.is_due(step)
            assert set(collection.reductions) <= set(both.reductions)
            assert both.saves_raw_tensor >= collection.saves_raw_tensor
            assert both.save_shape >= collection.save_shape
            for mode in MODES:
                asked, merged_schedule = collection.schedule_for(mode), both.schedule_for(mode)
                assert merged_schedule.save_interval <= asked.save_interval
                if asked.save_seconds is not None:
                    assert merged_schedule.save_seconds is not None
                    assert merged_schedule.save_seconds <= asked.save_seconds


@pytest.mark.parametrize("is_ours_first", [True, False])
def test_a_merged_request_keeps_the_setting_that_is_not_the_default(is_ours_first: bool) -> None:
    set_up = CaptureRequest(
        (), statistics=StatisticsRequest(budget=0.5), include_workers="one", compiled="params_only", tensorboard="tb"
    )
    pair = (set_up, CaptureRequest(())) if is_ours_first else (CaptureRequest(()), set_up)
    assert pair[0].merged_with(pair[1]) == set_up


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        pytest.param(Schedule(10), [0, 10, 20], id="interval"),
        pytest.param(Schedule(10, start_step=5), [10, 20], id="start"),
        pytest.param(Schedule(10, end_step=20), [0, 10], id="end-is-exclusive"),
        pytest.param(Schedule(500, save_steps=(3, 7)), [0, 3, 7], id="steps-add-to-the-interval"),
        pytest.param(Schedule(10, start_step=30), [], id="not-yet"),
        pytest.param(Schedule(10, end_step=0), [], id="never"),
    ],
)
def test_a_schedule_is_smdebugs(schedule: Schedule, due: list[int]) -> None:
    assert [step for step in range(25) if schedule.is_due(step)] == due


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{", ["is not JSON"], id="not-json"),
        pytest.param("9" * 5000, ["is not JSON"], id="endless-digits"),
        pytest.param("[]", ["must be an object"], id="not-an-object"),
        pytest.param("{}", ["collections: is missing"], id="nothing"),
        pytest.param(
            '{"collections":[{"name":"losses","save_interval":0},{"name":"mine"},{"save_intervall":1}]}',
            [
                "collections[0].save_interval: must be at least 1",
                "collections[1].include_regex: is missing",
                "collections[2].name: is missing",
                "Did you mean 'save_interval'?",
            ],
            id="everything-at-once",
        ),
        pytest.param(
            '{"collections":[{"name":"mine","include_regex":["("]}]}', ["is no regular expression"], id="regex"
        ),
        pytest.param(
            '{"collections":[{"name":"losses","save_interval":true}]}', ["a whole number"], id="bool-is-no-int"
        ),
        pytest.param('{"collections":[{"name":"losses","save_steps":[-1]}]}', ["at least 0"], id="negative-step"),
        pytest.param(
            '{"collections":[{"name":"weights","save_seconds":0,"reductions":["median","abs_l1"],'
            '"modes":{"EVALL":{},"TRAIN":{"save_interval":0,"start":1}}}],'
            '"include_workers":"two","compiled":"no","statistics":{"budget":2,"buget":1}}',
            [
                "collections[0].save_seconds: must be a number of seconds above 0",
                "collections[0].reductions: 'median' is not known.",
                "'abs_l1' is not known. Did you mean 'abs_l1_norm'?",
                "collections[0].modes.EVALL: is not a known name. Did you mean 'EVAL'?",
                "collections[0].modes.TRAIN.save_interval: must be at least 1",
                "collections[0].modes.TRAIN.start: is not a known name",
                "include_workers: must be one of all, one",
                "compiled: must be one of eager_step, params_only",
                "statistics.budget: must be a share",
                "statistics.buget: is not a known name. Did you mean 'budget'?",
            ],
            id="everything-new-at-once",
        ),
        pytest.param('{"collections":[{"name":"a","tensor_names":1}]}', ["a list of texts"], id="names"),
        pytest.param('{"collections":[{"name":"losses","modes":[]}]}', ["modes: must be an object"], id="modes"),
        pytest.param('{"collections":[{"name":"losses","save_seconds":"NaN"}]}', ["above 0"], id="nan-seconds"),
    ],
)
def test_a_bad_capture_request_says_all_that_is_wrong(text: str, said: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        CaptureRequest.from_json(text)
    for part in said:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("collection", "expected"),
    [
        pytest.param({"name": "all"}, CollectionRequest("all"), id="all-needs-no-regex"),
        pytest.param({"name": "default"}, CollectionRequest("default"), id="default-needs-none-either"),
        pytest.param({"name": "outputs"}, CollectionRequest("outputs"), id="a-kind"),
        pytest.param(
            {"name": "mine", "tensor_names": ["a"]}, CollectionRequest("mine", tensor_names=("a",)), id="names-suffice"
        ),
        pytest.param(
            {"name": "losses", "save_seconds": 2.5},
            CollectionRequest("losses", Schedule.by_seconds(2.5)),
            id="seconds-take-the-place-of-the-interval",
        ),
        pytest.param(
            {"name": "losses", "save_seconds": 2, "save_interval": 7},
            CollectionRequest("losses", Schedule(7, save_seconds=2.0)),
            id="seconds-beside-an-interval",
        ),
        pytest.param(
            {"name": "losses", "modes": {"EVAL": {"save_interval": 2}, "TRAIN": {"end_step": 0}}},
            CollectionRequest("losses", mode_schedules=(("TRAIN", Schedule(end_step=0)), ("EVAL", Schedule(2)))),
            id="modes",
        ),
        pytest.param(
            {"name": "weights", "reductions": ["mean", "abs_max", "mean"]},
            CollectionRequest("weights", reductions=("mean", "abs_max")),
            id="reductions",
        ),
    ],
)
def test_a_collection_as_it_is_written(collection: object, expected: CollectionRequest) -> None:
    assert CaptureRequest.from_json(json.dumps({"collections": [collection]})).collections == (expected,)


@pytest.mark.parametrize(
    ("collection", "is_raw"),
    [
        pytest.param(CollectionRequest("w"), True, id="raw-unless-told-otherwise"),
        pytest.param(CollectionRequest("w", reductions=("mean",)), False, id="reductions-instead"),
        pytest.param(CollectionRequest("w", reductions=("mean",), save_raw_tensor=True), True, id="beside"),
        pytest.param(CollectionRequest("w", save_raw_tensor=False, save_shape=True), False, id="shapes-only"),
    ],
)
def test_whether_tensors_are_saved_whole(collection: CollectionRequest, is_raw: bool) -> None:
    assert collection.saves_raw_tensor == is_raw


@pytest.mark.parametrize(
    ("workers", "rank", "saves"), [("all", 0, True), ("all", 3, True), ("one", 0, True), ("one", 3, False)]
)
def test_which_ranks_save(workers: str, rank: int, saves: bool) -> None:
    assert CaptureRequest(include_workers=workers).saves_tensors(rank) == saves


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        pytest.param([{"rule": "vanishing-gradiant"}], ["Did you mean 'vanishing-gradient'?"], id="unknown-rule"),
        pytest.param(
            [{"rule": "vanishing-gradient", "parameters": {"treshold": 1}}],
            ["Did you mean 'threshold'?"],
            id="unknown-parameter",
        ),
        pytest.param(
            [{"rule": "vanishing-gradient", "parameters": {"threshold": "tiny"}}],
            ["vanishing-gradient.threshold", "must be a number"],
            id="wrong-type",
        ),
        pytest.param(
            [{"rule": "vanishing-gradient", "parameters": {"threshold": "nan"}}], ["must be a finite number"], id="nan"
        ),
        pytest.param(
            [{"rule": "no-such"}, {"rule": "vanishing-gradient", "parameters": {"threshold": "x", "y": "1"}}],
            ["3 problems", "no-such", "'y'", "must be a number"],
            id="everything-at-once",
        ),
    ],
)
def test_the_catalogue_refuses_with_every_problem(rules: list[object], said: list[str]) -> None:
    request = RuleRequest.from_json(json.dumps({"rules": rules}))
    with pytest.raises(ConfigurationError) as caught:
        built_in_catalogue().check(request)
    for part in said:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([], id="no-rules"),
        pytest.param([{"rule": "vanishing-gradient"}], id="defaults"),
        pytest.param([{"rule": "vanishing-gradient", "parameters": {"threshold": 1e-5}}], id="a-number"),
        pytest.param([{"rule": "vanishing-gradient", "parameters": {"threshold": " 1e-5 "}}], id="a-text"),
        pytest.param([{"rule": "vanishing-gradient"}, {"rule": "vanishing-gradient", "name": "b"}], id="twice-named"),
    ],
)
def test_the_catalogue_passes_good_requests(rules: list[object]) -> None:
    built_in_catalogue().check(RuleRequest.from_json(json.dumps({"rules": rules})))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(json.dumps({"rules": [{"rule": "a", "name": "n" * 257}]}), "has 257 characters", id="long-name"),
        pytest.param('{"rules":[{"rule":"a"},{"rule":"a"}]}', "two configurations are named 'a'", id="same-name"),
        pytest.param('{"rules":[{"rule":"a","actions":["StopTrainin"]}]}', "'StopTraining'", id="unknown-action"),
        pytest.param('{"rule":[]}', "Did you mean 'rules'?", id="misspelt"),
        pytest.param('{"version":2,"rules":[]}', "version: is 2; this Trackside reads up to 1", id="from-the-future"),
        pytest.param("[]", "the whole of it: must be an object", id="not-an-object"),
        pytest.param("[" * 200_000, "is nested too deeply", id="nested-too-deeply"),
    ],
)
def test_a_bad_rule_request_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said.replace("?", r"\?")):
        RuleRequest.from_json(text)


def test_values_of_any_type_become_texts() -> None:
    request = RuleRequest.from_json('{"rules":[{"rule":"a","parameters":{"x":10,"y":true,"z":0.5}}]}')
    assert request.rules[0].parameters == {"x": "10", "y": "true", "z": "0.5"}


def test_choosing_rules_switches_on_what_they_need() -> None:
    catalogue = parse_catalogue(
        json.dumps(
            {
                "rules": [
                    {
                        "rule": name,
                        "summary": "",
                        "watches": watches,
                        "save_interval": interval,
                        "severity": "warning",
                        "since": "0.1",
                        "parameters": [],
                    }
                    for name, watches, interval in [("a", ["gradients"], 100), ("b", ["gradients", "losses"], 10)]
                ]
            }
        )
    )
    assert isinstance(catalogue, RuleCatalogue)
    needed = catalogue.capture_request(RuleRequest((RuleConfiguration("a"), RuleConfiguration("b"))))
    assert {c.name: c.schedule.save_interval for c in needed.collections} == {"gradients": 10, "losses": 10}


def test_the_capture_environment_fits_into_a_training_job() -> None:
    request = CaptureRequest(tuple(CollectionRequest(n) for n in ("losses", "weights", "biases", "gradients")))
    environment = capture_environment("s3://bucket/job", request)
    # API_CreateTrainingJob: a value of Environment has at most 512 characters.
    assert all(len(value) <= 512 for value in environment.values())
    assert CaptureRequest.from_json(environment["TRACKSIDE_CAPTURE_REQUEST"]) == request


SAGEMAKERS = {"source_s3_uri": "s3://b/mine.py", "rule_to_invoke": "Mine", "threshold": "3"}


@pytest.mark.parametrize(
    ("document", "rule_id", "name"),
    [
        pytest.param(
            {"rule": "Mine", "source": "s3://b/mine.py", "parameters": {"threshold": 3}}, "Mine", "Mine", id="ours"
        ),
        pytest.param({"parameters": SAGEMAKERS}, "Mine", "Mine", id="as SageMaker, unnamed"),
        pytest.param({"name": "a", "parameters": SAGEMAKERS}, "Mine", "a", id="as SageMaker, named"),
        pytest.param({"rule": "b", "parameters": SAGEMAKERS}, "b", "b", id="as SageMaker, with a rule"),
    ],
)
def test_a_rule_of_the_users_own_is_named_by_file_and_class(document: object, rule_id: str, name: str) -> None:
    (rule,) = RuleRequest.from_json(json.dumps({"rules": [document]})).rules
    assert (rule.rule_id, rule.name) == (rule_id, name)
    assert rule.custom == CustomRule("s3://b/mine.py", "Mine", {"threshold": "3"})
    built_in_catalogue().check(RuleRequest((rule,)))
    assert RuleRequest.from_json(RuleRequest((rule,)).to_json()).rules == (rule,)


def test_a_rule_of_the_catalogue_is_no_custom_rule_and_its_json_names_no_file() -> None:
    request = RuleRequest((RuleConfiguration("exploding-tensor"),))
    assert request.rules[0].custom is None
    assert set(json.loads(request.to_json())["rules"][0]) == {"rule", "name", "parameters", "actions"}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        pytest.param({"parameters": {"source_s3_uri": "a.py"}, "rule": "x"}, "must be given together", id="no class"),
        pytest.param({"parameters": {**SAGEMAKERS, "source_s3_uri": ""}}, "must be given together", id="no file"),
        pytest.param({"parameters": {"rule_to_invoke": "Mine"}}, "rule: is missing", id="class alone, no rule"),
        pytest.param(
            {"rule": "exploding-tensor", "parameters": {"rule_to_invoke": "Mine"}},
            "Unknown parameter 'rule_to_invoke'",
            id="class alone",
        ),
        pytest.param({"rule": "Mine", "source": "a.py", "parameters": SAGEMAKERS}, "file once", id="twice"),
        pytest.param(
            {"rule": "exploding-tensor", "collections": [{"name": "losses"}]}, "rule of your own", id="collections"
        ),
        pytest.param(
            {"rule": "Mine", "source": "a.py", "collections": [{"name": "mine"}]}, "include_regex", id="whose tensors?"
        ),
    ],
)
def test_a_custom_rule_that_is_half_named_is_refused(rule: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        built_in_catalogue().check(RuleRequest.from_json(json.dumps({"rules": [rule]})))


def test_what_is_saved_for_a_custom_rule_is_said_by_its_configuration_or_is_everything_known() -> None:
    catalogue = built_in_catalogue()
    own = (CollectionRequest("relus", Schedule(3), ("relu",)),)
    assert catalogue.needs(RuleConfiguration("Mine", source="a.py", collections=own)) == CaptureRequest(own)
    assert catalogue.needs(RuleConfiguration("Mine", source="a.py")) == CUSTOM_RULE_CAPTURE
    intervals = {c.name: c.schedule.save_interval for c in CUSTOM_RULE_CAPTURE.collections}
    assert intervals == {"losses": 10, "weights": 100, "biases": 100, "gradients": 100}


def test_a_rule_is_named_by_one_file() -> None:
    rule = {"rule": "Mine", "source": "mine.py", "parameters": {"source_s3_uri": "s3://bucket/mine.py"}}
    with pytest.raises(ConfigurationError, match="stands beside the parameter 'source_s3_uri'"):
        RuleRequest.from_json(json.dumps({"rules": [rule]}))
