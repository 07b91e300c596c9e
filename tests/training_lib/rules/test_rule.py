"""What a rule says of itself to the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import parse_catalogue
from trackside.contracts.rule_request import AWS_DOCS, RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Outcome
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.presets.rules.dead_relu import DocumentedDeadRelu
from trackside.presets.rules.overfit import DocumentedOverfit
from trackside.presets.rules.poor_weight_initialization import DocumentedPoorWeightInitialization
from trackside.rules.catalogue import build_rules, catalogue_json
from trackside.rules.rule import Rule
from trackside.rules.tensors.dead_relu import DeadRelu
from trackside.rules.tensors.vanishing_gradient import VanishingGradient
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial

OUTPUT, DEAD = "Net_act_output_0", np.zeros((4, 8))


@pytest.mark.parametrize(
    ("rule", "collections", "is_watching"),
    [
        pytest.param(VanishingGradient, {"gradients", "losses"}, True, id="one of its collections"),
        pytest.param(DocumentedDeadRelu, {"mine"}, True, id="whatever is saved, a collection of the user's own too"),
        pytest.param(DocumentedDeadRelu, set(), True, id="and what is in no collection"),
        pytest.param(VanishingGradient, {"losses"}, False, id="others"),
        pytest.param(VanishingGradient, {"mine"}, False, id="a collection of the user's own"),
        pytest.param(VanishingGradient, set(), False, id="none"),
    ],
)
def test_what_it_watches(rule: type[Rule], collections: set[str], is_watching: bool) -> None:
    assert rule.is_watching(collections) is is_watching


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        pytest.param(DeadRelu(), DeadRelu.patience, id="as the class says"),
        pytest.param(DocumentedDeadRelu(), 1, id="one, where it says nothing"),
        pytest.param(DocumentedOverfit(patience=5), 1, id="a parameter of that name is the rule's own"),
        pytest.param(DocumentedPoorWeightInitialization(), 1, id="whatever its default"),
    ],
)
def test_how_many_steps_in_a_row(rule: Rule, steps: int) -> None:
    assert rule.findings_in_a_row == steps


@pytest.mark.parametrize(
    ("rule_id", "parameters", "saved"),
    [
        pytest.param("tensor-variance", {}, {"weights"}, id="the default"),
        pytest.param("tensor-variance", {"collection_names": "losses, biases"}, {"losses", "biases"}, id="those named"),
        pytest.param(
            "tensor-variance", {"collection_names": "mine,losses"}, {"losses"}, id="the user's own is defined"
        ),
        pytest.param("all-zero", {}, set(), id="what is always recorded"),
        pytest.param("tree-depth", {"depth": "3"}, {"trees"}, id="a rule that is told no collections has its own"),
    ],
)
def test_what_is_saved_for_it(rule_id: str, parameters: dict[str, str], saved: set[str]) -> None:
    catalogue = parse_catalogue(catalogue_json())
    needed = catalogue.needs(RuleConfiguration(rule_id, parameters=parameters))
    assert {collection.name for collection in needed.collections} == saved
    intervals = {collection.name: collection.schedule.save_interval for collection in needed.collections}
    assert intervals == {name: 10 if name == "trees" else 500 for name in saved}, "boostings are a few hundred rounds"


@pytest.mark.parametrize(
    ("regex", "outcome"),
    [
        pytest.param("act_output", Outcome.ISSUE_FOUND, id="a name in a collection of the user's own"),
        pytest.param("relu9_output", Outcome.NOT_EVALUATED, id="a name that is not there"),
    ],
)
@pytest.mark.parametrize("collections", [{"mine": ("act",)}, {}], ids=["in a collection", "in none"])
def test_a_rule_is_asked_about_tensors_that_only_the_user_knows(
    regex: str, outcome: Outcome, collections: dict[str, tuple[str, ...]]
) -> None:
    store = MemoryStore()
    write_collections(store, extra=collections)
    write_tensors(store, 0, {OUTPUT: DEAD})
    end_run(store)
    rules = build_rules(
        RuleRequest((RuleConfiguration("dead-relu", parameters={"tensor_regex": regex}, preset=AWS_DOCS),))
    )
    evaluator = Evaluator(Trial(store), rules, (), ProgressFile(MemoryStore()), run="run", clock=lambda: 0.0)
    evaluator.poll()
    (verdict,) = evaluator.summary().verdicts
    assert verdict.outcome is outcome


@pytest.mark.parametrize("preset", ["", AWS_DOCS])
@pytest.mark.parametrize(
    ("rule_id", "name", "regex", "is_fine"),
    [
        pytest.param("all-zero", "tensor_regex", ".*relu_output, fc{1,2}", True, id="two"),
        pytest.param("all-zero", "tensor_regex", "", True, id="none"),
        pytest.param("all-zero", "tensor_regex", "relu(", False, id="an open bracket"),
        pytest.param("nlp-sequence-ratio", "tensor_regex", "*.relu", False, id="a star of nothing"),
    ],
)
def test_a_regex_that_is_none_is_refused_before_anything_runs(
    rule_id: str, name: str, regex: str, is_fine: bool, preset: str
) -> None:
    configuration = RuleConfiguration(rule_id, parameters={name: regex}, preset=preset)
    problems = parse_catalogue(catalogue_json()).problems(configuration)
    assert not problems if is_fine else "must be a regular expression" in problems[0].what
    if is_fine:
        build_rules(RuleRequest((configuration,)))
    else:
        with pytest.raises(ConfigurationError, match="must be a regular expression"):
            build_rules(RuleRequest((configuration,)))
