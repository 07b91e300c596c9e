"""The facts as the trial reads them: none, growing ones, damaged ones, and how often the store is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trackside.contracts.model_facts import ModelFacts, ModuleFacts
from trackside.contracts.run_layout import model_facts_key
from trackside.records.model_facts import encode_facts
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import fake_trial, write_facts
from trackside.testing.rule_case import RuleCase
from trackside.trial.trial import Trial

FACTS = ModelFacts(0, (ModuleFacts("Net", "Net"),))
LATER = replace(FACTS, from_step=10, modules=(ModuleFacts("Net", "Net", is_training=False),))


class Counting(MemoryStore):
    """Counts the bytes that are read."""

    bytes_read = 0

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        data = super().get(key, start=start, length=length)
        self.bytes_read += len(data)
        return data


def test_a_run_that_tells_nothing() -> None:
    trial = fake_trial({"loss": {0: 1.0}})
    assert trial.model_facts is None
    assert trial.facts_at(0) is None
    assert trial.window(0, now=0.0).facts is None
    assert trial.parts.facts.revisions("worker_0") == ()


def test_the_window_shows_what_held_at_its_step() -> None:
    trial = fake_trial({"loss": {0: 1.0, 9: 1.0, 10: 1.0}}, facts=[FACTS, LATER])
    shown = [trial.window(step, now=0.0).facts for step in (0, 9, 10)]
    assert shown == [FACTS, FACTS, LATER]
    assert trial.model_facts == LATER


@pytest.mark.parametrize(
    ("is_last", "newest"), [pytest.param(False, 0, id="the-run-goes-on"), pytest.param(True, 1, id="the-run-has-ended")]
)
def test_the_last_step_shows_what_was_seen_after_it(*, is_last: bool, newest: int) -> None:
    after = replace(FACTS, from_step=9, modules=(ModuleFacts("late", "Linear", "other", is_training=False),))
    trial = fake_trial({"loss": {3: 1.0}}, facts=[replace(FACTS, from_step=0), after])
    facts = replace(trial.window(3, now=0.0), is_last=is_last).facts
    assert facts is not None
    assert facts.modules == (FACTS, after)[newest].modules
    assert facts.from_step <= 3


def test_a_case_of_a_rule_has_facts() -> None:
    assert RuleCase("facts", {"loss": {3: 1.0}}, facts=FACTS).window.facts == FACTS
    assert RuleCase("no facts", {"loss": {3: 1.0}}).window.facts is None


def test_news_are_read_after_a_refresh() -> None:
    store = MemoryStore()
    trial = Trial(store)
    trial.refresh()
    assert trial.model_facts is None
    write_facts(store, FACTS)
    assert trial.model_facts is None  # one frozen moment
    trial.refresh()
    assert trial.model_facts == FACTS
    write_facts(store, [FACTS, LATER])
    trial.refresh()
    assert trial.model_facts == LATER


def test_what_has_not_changed_is_not_read_again() -> None:
    store = Counting()
    write_facts(store, replace(FACTS, modules=FACTS.modules * 1000))
    trial = Trial(store)
    trial.refresh()
    assert trial.model_facts is not None
    before = store.bytes_read
    for _ in range(10):
        trial.refresh()
        assert trial.facts_at(5) is not None
        assert trial.facts_at(6) is not None
    assert store.bytes_read - before == 10 * 64


def test_the_first_worker_stands_for_all() -> None:
    store = MemoryStore()
    write_facts(store, LATER, worker="worker_1")
    trial = Trial(store)
    trial.refresh()
    assert trial.model_facts == LATER
    write_facts(store, FACTS, worker="worker_0")
    trial.refresh()
    assert trial.model_facts == FACTS
    assert trial.parts.facts.revisions("worker_1") == (LATER,)


@pytest.mark.parametrize("data", [b"", b"[1]", b'{"version": 7}', b"\xff\xfe"])
def test_a_damaged_file_is_reported_and_hides_nothing(data: bytes) -> None:
    store = MemoryStore()
    store.put(model_facts_key("worker_0"), data)
    trial = Trial(store)
    trial.refresh()
    assert trial.model_facts is None
    assert [error.key for error in trial.damaged] == ["model-facts/worker_0.json"]


def test_what_was_read_before_the_damage_still_holds() -> None:
    store = MemoryStore()
    store.put(model_facts_key("worker_0"), encode_facts([FACTS]))
    trial = Trial(store)
    trial.refresh()
    assert trial.model_facts == FACTS
    store.put(model_facts_key("worker_0"), b"{")
    trial.refresh()
    assert trial.model_facts == FACTS
    assert trial.damaged
