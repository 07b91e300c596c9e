"""What holds for all rules: walks every one of them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import trackside
from trackside.contracts.rule_catalogue import CATALOGUE_FILE, ParameterDescription
from trackside.rules.catalogue import built_in_rules, catalogue_json
from trackside.rules.manual import read_manual
from trackside.rules.rule import Rule
from trackside.testing.rule_case import RuleCase, assert_case

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "training_lib" / "src"
RULES = tuple(built_in_rules().values())
PARAMETERS = [
    pytest.param(rule, parameter, id=f"{rule.rule_id}.{parameter.name}")
    for rule in RULES
    for parameter in rule.parameters()
]

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rule_id)
every_parameter = pytest.mark.parametrize(("rule", "parameter"), PARAMETERS)


def source_of(rule: type[Rule]) -> Path:
    return Path(inspect.getfile(rule)).resolve().relative_to(LIBRARY)


def written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_there_are_rules() -> None:
    assert RULES


@every_rule
def test_the_id_names_the_problem_in_lower_case_words(rule: type[Rule]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", rule.rule_id)
    assert not re.match(r"(check|detect|avoid|no|is)-", rule.rule_id), "a rule names the problem, it gives no order"
    assert not rule.rule_id.endswith("-rule")


@every_rule
def test_file_class_and_id_bear_the_same_name(rule: type[Rule]) -> None:
    assert source_of(rule).stem == rule.rule_id.replace("-", "_")
    assert rule.__name__ == "".join(word.title() for word in rule.rule_id.split("-"))


@every_rule
def test_it_has_a_test_file(rule: type[Rule]) -> None:
    source = source_of(rule).relative_to("trackside")
    test = ROOT / "tests" / "training_lib" / source.with_name(f"test_{source.name}")
    assert test.is_file(), f"write {test.relative_to(ROOT)}"


@every_rule
def test_it_is_a_frozen_dataclass_whose_parameters_are_all_it_holds(rule: type[Rule]) -> None:
    fields = [field.name for field in dataclasses.fields(rule)]
    assert fields == [parameter.name for parameter in rule.parameters()]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(rule(), fields[0], None)


@every_rule
def test_its_facts_are_stated(rule: type[Rule]) -> None:
    assert rule.watches
    assert rule.save_interval >= 1
    assert rule.patience >= 1
    assert re.fullmatch(r"\d+\.\d+", rule.since)
    newest = tuple(map(int, trackside.__version__.split(".")[:2]))
    assert tuple(map(int, rule.since.split("."))) <= newest
    assert rule.what_to_do
    assert all(step.endswith(".") and len(step) < 120 for step in rule.what_to_do), "sentences that fit a card"


@every_rule
def test_the_manual_is_whole(rule: type[Rule]) -> None:
    manual = read_manual(rule)
    assert re.fullmatch(r"[A-Z][^\n]{10,90}\.", manual.summary), "one sentence in one line"
    assert re.search(r"^1\. ", manual.how_it_decides, re.MULTILINE), "the steps of the decision are numbered"
    undocumented = [p.name for p in rule.parameters() if f"`{p.name}`" not in manual.how_it_decides]
    assert not undocumented, "How it decides says what each parameter does"
    assert re.search(r"^- ", manual.references, re.MULTILINE)


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


@every_rule
def test_an_empty_run_is_silent(rule: type[Rule]) -> None:
    assert_case(rule(), RuleCase("an empty run", {}))


def test_the_catalogue_file_is_current() -> None:
    assert CATALOGUE_FILE.read_text(encoding="utf-8") == catalogue_json(), "run: python docs/generate.py"
