"""Once the model is known, the rules that have nothing to judge in it are told of, once."""

from __future__ import annotations

import pytest

from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts, ParameterFacts
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import model_facts_key
from trackside.local.first_facts import FirstFacts, what_turned_out
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import write_facts

TANH = ModelFacts(modules=(ModuleFacts("act", "Tanh", "activation", "tanh"),))
REQUEST = RuleRequest((RuleConfiguration("dead-relu", "dead"), RuleConfiguration("overfit")))
NOTES = ("dead has nothing to judge: no activation of the model is a ReLU.",)


def test_it_is_told_once_and_as_soon_as_it_is_known() -> None:
    store = MemoryStore()
    facts = FirstFacts(store, REQUEST)
    assert facts.news() == ()
    write_facts(store, TANH)
    assert facts.news() == NOTES
    assert facts.news() == ()


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(RuleRequest(()), id="none-chosen"),
        pytest.param(RuleRequest((RuleConfiguration("overfit"),)), id="nothing-to-tell"),
        pytest.param(RuleRequest((RuleConfiguration("Mine", source="mine.py"),)), id="a-rule-of-ones-own-is-not-run"),
        pytest.param(RuleRequest((RuleConfiguration("no-such-rule"),)), id="the-evaluator-says-what-is-wrong"),
    ],
)
def test_nothing_is_told(request_: RuleRequest) -> None:
    store = MemoryStore()
    write_facts(store, TANH)
    assert FirstFacts(store, request_).news() == ()


def test_a_damaged_file_is_left_to_the_evaluator() -> None:
    store = MemoryStore()
    store.put(model_facts_key("worker_0"), b"{")
    facts = FirstFacts(store, REQUEST)
    assert facts.news() == ()
    write_facts(store, TANH)
    assert facts.news() == ()


def test_a_model_that_tells_of_no_module_is_no_model_without_relu() -> None:
    assert what_turned_out(REQUEST, ModelFacts()) == ()


WEIGHT = ParameterFacts("Net_fc.weight", "fc", (2, 2), "float32")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        pytest.param(
            ModelFacts(parameters=(WEIGHT,)),
            ("overfit has seen no loss so far: `backward` was called on no scalar.",),
            id="no-loss",
        ),
        pytest.param(ModelFacts(parameters=(WEIGHT,), losses=(LossFacts("Loss_output_0"),)), (), id="a-loss"),
        pytest.param(ModelFacts(), (), id="nothing-told"),
    ],
)
def test_whether_a_loss_is_seen(facts: ModelFacts, said: tuple[str, ...]) -> None:
    assert what_turned_out(REQUEST, facts) == said
