"""A rule that had nothing to look at is never called clean: it does not apply, or was told of what is not there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts, ParameterFacts
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.language_numbers import REWARD
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.rules.catalogue import ConfiguredRule, build_rules
from trackside.rules.rule import Rule
from trackside.storage.memory import MemoryStore
from trackside.testing.rule_case import recorded_trial
from trackside.trial.window import Window

W, LOSS = "Net_fc.weight", "MSELoss_output_0"
TENSORS: dict[str, dict[int, Any]] = {
    W: {step: [1.0, 2.0] for step in range(0, 50, 10)},
    LOSS: dict.fromkeys(range(0, 50, 10), 1.0),
}
LABELS = {"MSELoss_input_1": {step: [0, 1, step % 3] for step in range(0, 50, 10)}}


def facts(activation: str = "tanh") -> ModelFacts:
    return ModelFacts(
        modules=(ModuleFacts("act", activation, "activation", activation),),
        losses=(LossFacts("MSELoss_output_0", "MSELoss"),),
    )


def final_verdict(
    rules: list[ConfiguredRule], *, of: ModelFacts | None, tensors: dict[str, dict[int, Any]] | None = None
) -> Verdict:
    trial = recorded_trial(tensors or TENSORS, facts=of, collections={"labels": ["_input_1$"]})
    evaluator = Evaluator(trial, rules, (), ProgressFile(MemoryStore()), run="r", clock=lambda: 1e9)
    while not evaluator.is_done:
        evaluator.poll()
    (verdict,) = evaluator.summary().verdicts
    return verdict


def built(rule_id: str, *, preset: str = "", **parameters: str) -> list[ConfiguredRule]:
    return list(build_rules(RuleRequest((RuleConfiguration(rule_id, parameters=parameters, preset=preset),))))


@pytest.mark.parametrize(
    ("rule_id", "names", "message"),
    [
        ("entropy-collapse", (), "Nothing to judge: the run records no entropy or reward."),
        ("gamed-reward", (), "Nothing to judge: the run records no reward or held out reward."),
        ("label-mask", (), "Nothing to judge: the run records no labelled tokens."),
        ("preference-collapse", (), "Nothing to judge: the run records no preference margin."),
        ("unended-answers", (REWARD.recorded,), "Nothing to judge: the run records no cut share."),
        ("entropy-collapse", (REWARD.recorded,), "it needs 30 logs of entropy and reward"),
        ("gamed-reward", (REWARD.recorded,), "it needs 5 held-out rewards"),
    ],
)
def test_a_rule_that_reads_numbers_of_other_trainings(rule_id: str, names: tuple[str, ...], message: str) -> None:
    recorded = {name: dict.fromkeys(range(0, 50, 10), 1.0) for name in names}
    assert message in final_verdict(built(rule_id), of=facts(), tensors=TENSORS | recorded).message


@pytest.mark.parametrize(
    ("rules", "of", "message"),
    [
        pytest.param(
            built("saturated-activation"), facts("relu"),
            "Nothing to judge: no module of the model is a sigmoid or tanh.", id="collection",
        ),
        pytest.param(
            built("dead-relu"), facts("tanh"), "Nothing to judge: no activation of the model is a ReLU.", id="own-word"
        ),
        pytest.param(
            built("dead-relu", preset="aws-docs"), facts("tanh"), "Nothing to judge: no module of the model is a ReLU.",
            id="aws-docs",
        ),
        pytest.param(
            built("saturated-activation", preset="aws-docs"), facts("relu"),
            "Nothing to judge: no module of the model is a sigmoid or tanh.", id="aws-docs-saturated",
        ),
        pytest.param(
            built("class-imbalance"), facts(), "Nothing to judge: the loss separates no classes (MSELoss).",
            id="regression",
        ),
        pytest.param(
            built("replicas-differ"), facts(), "Nothing to judge: one process trains, so there is no replica.",
            id="one-process",
        ),
    ],
)  # fmt: skip
def test_a_rule_that_does_not_apply(rules: list[ConfiguredRule], of: ModelFacts, message: str) -> None:
    verdict = final_verdict(rules, of=of)
    assert (verdict.outcome, verdict.message) == (Outcome.CLEAN, message)
    assert verdict.is_not_applicable


@pytest.mark.parametrize(
    ("rules", "of"),
    [
        pytest.param(built("saturated-activation"), None, id="nobody-told"),
        pytest.param(built("saturated-activation"), facts("tanh"), id="it-has-some"),
        pytest.param(built("dead-relu"), facts("relu"), id="relu"),
        pytest.param(built("dead-relu", preset="aws-docs", tensor_regex="fc"), facts("tanh"), id="names-of-ones-own"),
        pytest.param(built("unchanged-tensor"), facts(), id="another-rule"),
        pytest.param(built("exploding-tensor"), facts(), id="found-nothing"),
    ],
)
def test_a_rule_that_may_apply(rules: list[ConfiguredRule], of: ModelFacts | None) -> None:
    assert not final_verdict(rules, of=of).is_not_applicable


def test_labels_that_the_user_saved_himself_are_judged() -> None:
    verdict = final_verdict(built("class-imbalance"), of=facts(), tensors={**TENSORS, **LABELS})
    assert not verdict.is_not_applicable


@pytest.mark.parametrize(
    ("parameters", "fix"),
    [
        pytest.param({"tensor_regex": "fc9"}, "The run has MSELoss_output_0, Net_fc.weight.", id="regex"),
        pytest.param({"collection_names": "wieghts"}, "Did you mean 'weights'?", id="collection"),
        pytest.param({"collection_names": "gradients"}, "Known: ", id="an-empty-collection"),
        pytest.param({"collection_names": "wieghts", "tensor_regex": "fc9"}, "Did you mean 'weights'?", id="both"),
    ],
)
@pytest.mark.parametrize("rule_id", ["unchanged-tensor", "all-zero", "tensor-variance"])
def test_a_rule_that_was_told_of_what_is_not_there(rule_id: str, parameters: dict[str, str], fix: str) -> None:
    verdict = final_verdict(built(rule_id, **parameters), of=None)
    assert verdict.outcome is Outcome.NOT_EVALUATED
    assert verdict.message.startswith("Nothing was judged: no tensor of the run is selected by ")
    assert fix in verdict.message
    assert all(f"{name} {text!r}" in verdict.message for name, text in parameters.items())


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({}, id="told-nothing"),
        pytest.param({"tensor_regex": "fc"}, id="regex"),
        pytest.param({"tensor_regex": "nothing,fc"}, id="one-regex-of-two"),
        pytest.param({"collection_names": "weights"}, id="collection"),
        pytest.param({"collection_names": "gradients weights"}, id="one-collection-of-two"),
        pytest.param({"collection_names": "gradients", "tensor_regex": "fc"}, id="one-of-both"),
    ],
)
def test_a_rule_that_was_told_of_what_is_there(parameters: dict[str, str]) -> None:
    assert "Nothing was judged" not in final_verdict(built("unchanged-tensor", **parameters), of=None).message


NO_LOSS = ModelFacts(parameters=(ParameterFacts(W, "fc", (2,), "float32"),))


@pytest.mark.parametrize(
    ("rule_id", "tensors", "is_told"),
    [
        pytest.param("loss-not-decreasing", {W: TENSORS[W]}, True, id="no-loss"),
        pytest.param("overfit", {W: TENSORS[W]}, True, id="another-rule-of-losses"),
        pytest.param("loss-not-decreasing", TENSORS, False, id="saved-by-the-script"),
        pytest.param("weight-update-ratio", {W: TENSORS[W]}, False, id="a-rule-of-weights"),
    ],
)
def test_a_training_that_shows_no_loss(rule_id: str, tensors: dict[str, dict[int, object]], is_told: bool) -> None:
    verdict = final_verdict(built(rule_id), of=NO_LOSS, tensors=tensors)
    assert verdict.message.startswith("No loss was seen") is is_told
    assert not is_told or verdict.outcome is Outcome.NOT_EVALUATED


@dataclass(frozen=True)
class Unsure(Rule):
    """It cannot even say whether it applies."""

    rule_id = "unsure"
    watches = ("weights",)
    save_interval = 10
    severity = Severity.WARNING
    since = "1"
    what_to_do = ()

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        raise KeyError("oh")

    def check(self, window: Window) -> Iterable[Finding]:
        return ()


def test_a_rule_that_raises_there_is_judged_by_what_it_did_before() -> None:
    verdict = final_verdict([ConfiguredRule(RuleConfiguration("unsure"), Unsure())], of=facts())
    assert (verdict.outcome, verdict.is_not_applicable) == (Outcome.CLEAN, False)
