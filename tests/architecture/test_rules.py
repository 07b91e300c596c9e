"""What holds for all rules: walks every one of them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import trackside
from tests.for_each import for_each
from trackside.contracts.rule_catalogue import CATALOGUE_FILE, ParameterDescription, parse_catalogue
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED, PRESETS, RuleConfiguration, RuleRequest
from trackside.documents.rule_names import DOCUMENTED_PARAMETERS
from trackside.presets import rules as documented
from trackside.rules.catalogue import build_rules, built_in_rules, catalogue_json, rules_in
from trackside.rules.manual import read_manual
from trackside.rules.rule import Rule
from trackside.testing.rule_case import RuleCase, assert_case

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "training_lib" / "src"
RULES = tuple(built_in_rules().values())
# In Amazon's sense, where that is another than ours.
DOCUMENTED = tuple(
    rule
    for module in pkgutil.iter_modules(documented.__path__, f"{documented.__name__}.")
    for rule in rules_in(importlib.import_module(module.name))
)
every_rule = for_each({rule.rule_id: (rule,) for rule in RULES})
every_class = for_each({rule.__name__: (rule,) for rule in (*RULES, *DOCUMENTED)})
every_documented = for_each({rule.rule_id: (rule,) for rule in DOCUMENTED})
every_parameter = for_each(
    {
        f"{rule.__name__}.{parameter.name}": (rule, parameter)
        for rule in (*RULES, *DOCUMENTED)
        for parameter in rule.parameters()
    }
)

# What https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html gives as defaults; None: nothing.
SELECTION = {"collection_names": None, "tensor_regex": None}
LAYERS = {"threshold_inactivity": 1.0, "threshold_layer": 50.0}
AMAZONS: Mapping[str, Mapping[str, object]] = {
    "dead-relu": {"tensor_regex": ".*relu_output", **LAYERS},
    "exploding-tensor": {**SELECTION, "only_nan": False},
    "poor-weight-initialization": {
        "activation_inputs_regex": ".*relu_input",
        "threshold": 10.0,
        "distribution_range": 0.001,
        "patience": 5,
        "steps": 10.0,
    },
    "saturated-activation": {
        "collection_names": None,
        "tensor_regex": ".*tanh_input|.*sigmoid_input",
        "threshold_tanh_min": -9.4999,
        "threshold_tanh_max": 9.4999,
        "threshold_sigmoid_min": -23.0,
        "threshold_sigmoid_max": 16.99999,
        **LAYERS,
    },
    "vanishing-gradient": {"threshold": 1e-7},
    "weight-update-ratio": {"num_steps": None, "large_threshold": 10.0, "small_threshold": 1e-8, "epsilon": 1e-9},
    "all-zero": {**SELECTION, "threshold": 100.0},
    "class-imbalance": {
        "threshold_imbalance": 10.0,
        "threshold_misprediction": 0.7,
        "samples": 500,
        "argmax": False,
        "labels_regex": ".*labels",
        "predictions_regex": ".*predictions",
    },
    "loss-not-decreasing": {
        **SELECTION,
        "use_losses_collection": True,
        "num_steps": 10,
        "diff_percent": 0.1,
        "increase_threshold_percent": 5.0,
        "mode": None,
    },
    "overfit": {"tensor_regex": None, "start_step": 0, "patience": 1, "ratio_threshold": 0.1},
    "overtraining": {"patience_train": 5, "patience_validation": 10, "delta": 0.01},
    "similar-across-runs": {"other_trials": None, **SELECTION},
    "stalled-training": {"threshold": 1800},
    "tensor-variance": {**SELECTION, "max_threshold": None, "min_threshold": None},
    "unchanged-tensor": {**SELECTION, "num_steps": 3, "rtol": 1e-5, "atol": 1e-8, "equal_nan": False},
    "unnormalized-inputs": {  # CheckInputImages
        "threshold_mean": 0.2,
        "threshold_samples": 500,
        "regex": ".*hybridsequential0_input_0",
        "channel": 1,
    },
    "nlp-sequence-ratio": {
        "tensor_regex": ".*embedding0_input_0",
        "token_values": "0",
        "token_thresholds_percent": "50",
    },
    "confusion": {
        "category_no": None,
        "labels": "labels",
        "predictions": "predictions",
        "labels_collection": "labels",
        "predictions_collection": "predictions",
        "min_diag": 0.9,
        "max_off_diag": 0.1,
    },
    "feature-importance-overweight": {
        "threshold": 0.8,
        "nfeatures": 3,
        "tensor_regex": ".*feature_importance/weight",
    },
    "tree-depth": {"depth": 4},
}
every_rule_of_amazons = for_each(
    {f"{rule_id}, {preset}": (rule_id, preset) for rule_id in AMAZONS for preset in (AWS_DOCS, AWS_SDK)}
)
# Parameters of ours that Amazon's rules have not: how much two runs may differ is not documented.
OF_OUR_OWN = {"similar-across-runs": {"rtol", "atol"}, "confusion": {"first_step"}}
# Parameters that became the action StopTraining, and a report that judges nothing.
ACTIONS = {"stalled-training": {"stop_training_on_fire", "training_job_name_prefix"}}
REPORTS = {"create-xgboost-report"}


def source_of(rule: type[Rule]) -> Path:
    return Path(inspect.getfile(rule)).resolve().relative_to(LIBRARY)


def written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_there_are_rules() -> None:
    assert RULES


@every_rule
def test_the_id_names_the_problem_in_lower_case_words(rule: type[Rule]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.rule_id)
    assert not re.match(r"(check|detect|avoid|no|is)-", rule.rule_id), "a rule names the problem, it gives no order"
    assert not rule.rule_id.endswith("-rule")


@every_class
def test_file_class_and_id_bear_the_same_name(rule: type[Rule]) -> None:
    assert source_of(rule).stem == rule.rule_id.replace("-", "_")
    name = "".join(word.title() for word in rule.rule_id.split("-"))
    assert rule.__name__ == (f"Documented{name}" if rule in DOCUMENTED else name)


@every_class
def test_it_has_a_test_file(rule: type[Rule]) -> None:
    source = source_of(rule).relative_to("trackside")
    test = ROOT / "tests" / "training_lib" / source.with_name(f"test_{source.name}")
    assert test.is_file(), f"write {test.relative_to(ROOT)}"


@every_class
def test_it_is_a_frozen_dataclass_whose_parameters_are_all_it_holds(rule: type[Rule]) -> None:
    fields = [field.name for field in dataclasses.fields(rule)]
    assert fields == [parameter.name for parameter in rule.parameters()]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(rule(), [*fields, "rule_id"][0], None)


@every_class
def test_its_facts_are_stated(rule: type[Rule]) -> None:
    assert rule.watches
    assert rule.save_interval >= 1
    assert rule().findings_in_a_row >= 1
    assert rule.likely_causes, "name a `Cause` of contracts/cause.py, or add one there"
    assert set(rule.presets) <= set(PRESETS)
    assert (CALIBRATED in rule.presets) is (rule not in DOCUMENTED)
    assert re.fullmatch(r"\d+\.\d+", rule.since)
    newest = tuple(map(int, trackside.__version__.split(".")[:2]))
    assert tuple(map(int, rule.since.split("."))) <= newest
    assert rule.what_to_do
    assert all(step.endswith(".") and len(step) < 120 for step in map(str, rule.what_to_do)), (
        "sentences that fit a card"
    )


@every_rule
def test_the_manual_is_whole(rule: type[Rule]) -> None:
    manual = read_manual(rule)
    assert re.fullmatch(r"[A-Z][^\n]{10,110}\.", manual.summary), "one sentence in one line"
    assert re.search(r"^1\. ", manual.how_it_decides, re.MULTILINE), "the steps of the decision are numbered"
    undocumented = [p.name for p in rule.parameters() if f"`{p.name}`" not in manual.how_it_decides]
    assert not undocumented, "How it decides says what each parameter does"
    assert re.search(r"^- ", manual.references, re.MULTILINE), "the references are a list"


@every_rule
def test_the_example_runs(rule: type[Rule]) -> None:
    blocks = read_manual(rule).code
    assert blocks
    for block in blocks:
        assert "assert " in block, "an example that asserts nothing shows nothing"
        exec(compile(block, f"the example of {rule.rule_id}", "exec"), {})  # noqa: S102  our own docstring


@every_parameter
def test_a_parameter_has_help_and_a_default_within_its_bounds(
    rule: type[Rule], parameter: ParameterDescription
) -> None:
    assert len(parameter.help) > 10
    assert not parameter.help.endswith("."), "it stands in a table"
    assert "|" not in parameter.help.replace("|gradient|", ""), "it would end the table's cell"
    assert parameter.parse(written(parameter.default)) == parameter.default


@every_parameter
def test_a_parameter_survives_the_way_through_text(rule: type[Rule], parameter: ParameterDescription) -> None:
    built = rule.from_parameters({parameter.name: written(parameter.default)})
    assert built == rule()
    assert type(getattr(built, parameter.name)) is type(parameter.default)


@every_parameter
def test_a_number_out_of_bounds_is_refused(rule: type[Rule], parameter: ParameterDescription) -> None:
    limits = [(parameter.minimum, -1.0), (parameter.maximum, 1.0)]
    beyond = [str(limit + step) for limit, step in limits if limit is not None]
    assert beyond or parameter.kind in ("boolean", "text"), "a number has at least one bound"
    for text in beyond:
        with pytest.raises(ValueError, match=f"{rule.rule_id}.{parameter.name}: must be at"):
            rule.from_parameters({parameter.name: text})


@every_class
def test_an_empty_run_is_silent(rule: type[Rule]) -> None:
    assert_case(rule(), RuleCase("an empty run", {}))


def test_the_catalogue_file_is_current() -> None:
    assert CATALOGUE_FILE.read_text(encoding="utf-8") == catalogue_json(), "run: python docs/generate.py"


@every_documented
def test_a_documented_rule_says_what_is_documented(rule: type[Rule]) -> None:
    summary, _, text = inspect.cleandoc(rule.__doc__ or "").partition("\n\n")
    assert re.fullmatch(r"[A-Z][^\n]{10,110}\.", summary), "one sentence in one line"
    assert re.match(r"Documented(, as \w+)?: ", text), "what Amazon's documentation says, and what was chosen"
    assert rule.presets == (AWS_DOCS, AWS_SDK)
    assert rule.judges_until_found, "Amazon's rules end with their first issue"
    assert rule.rule_id in built_in_rules(), "ours goes by the same id"


@every_rule_of_amazons
def test_amazons_rules_have_amazons_defaults(rule_id: str, preset: str) -> None:
    described = parse_catalogue(catalogue_json()).rules[rule_id].in_sense_of(preset)
    assert described is not None, f"{rule_id} offers no {preset}"
    defaults = {each.name: None if each.default == "" else each.default for each in described.parameters}
    expected = {
        name: nothing_of(defaults, name) if value is None else value for name, value in AMAZONS[rule_id].items()
    }
    assert {name: value for name, value in defaults.items() if name not in OF_OUR_OWN.get(rule_id, ())} == expected


def nothing_of(defaults: Mapping[str, object], name: str) -> object:
    """None or 0, whichever stands for nothing."""
    return 0 if defaults[name] == 0 else None


@every_rule_of_amazons
def test_amazons_rules_are_built_from_a_request(rule_id: str, preset: str) -> None:
    given = {name: written(value) for name, value in AMAZONS[rule_id].items() if value is not None}
    request = RuleRequest((RuleConfiguration(rule_id, parameters=given, preset=preset),))
    (built,) = build_rules(request)
    assert preset in built.rule.presets
    assert built.rule == type(built.rule).from_parameters({}, preset=preset)


def test_every_rule_of_amazons_is_there_with_every_parameter() -> None:
    names = {rule_id: set(texts) | ACTIONS.get(rule_id, set()) for rule_id, texts in AMAZONS.items()}
    assert names == {rule_id: set(known) for rule_id, known in DOCUMENTED_PARAMETERS.items() if rule_id not in REPORTS}


def test_each_rule_has_a_code_that_never_changes_and_is_never_reused() -> None:
    """The list only grows: a rule that goes leaves its line, so that no other rule gets its code."""
    lines = Path(__file__).with_name("rule_codes.txt").read_text(encoding="utf-8").splitlines()
    codes = dict(line.split(" ", 1) for line in lines)
    assert len(codes) == len(lines) == len(set(codes.values()))
    assert all(re.fullmatch("TS[1-9][0-9]{2}", code) for code in codes)
    missing = [f"{rule.code} {rule.rule_id}" for rule in RULES if codes.get(rule.code) != rule.rule_id]
    assert not missing, (
        f"append to tests/architecture/rule_codes.txt: {missing}. A code has the hundred of the rules beside it, and "
        "the next number that no line has."
    )
