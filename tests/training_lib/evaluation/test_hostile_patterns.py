"""A pattern is searched for in a bounded time, whether of a rule, a collections file or a capture request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from trackside.capture.steps.collection import Membership
from trackside.contracts import name_pattern as bounds
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.name_pattern import NamePattern, name_pattern
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.evaluation.evaluator import evaluate
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial

NAME = "model.layers.11.attn.q_proj.weight"


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], NamePattern]]:
    """Return a pattern's compiled form. No visit is few enough for `re`: what is searched for needs the automaton."""
    name_pattern.cache_clear()
    monkeypatch.setattr(bounds, "MOST_VISITS", 0)
    yield name_pattern
    name_pattern.cache_clear()


def is_bounded(pattern: NamePattern) -> bool:
    """Return True if the automaton was made: names were searched by it, and not by `re`."""
    return "automaton" in vars(pattern)


class Kept:
    name = "kept"

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        self.verdicts += verdicts


@pytest.mark.parametrize("rule", ["unchanged-tensor", "tensor-variance", "all-zero"])
def test_a_parameter_of_a_rule_is_bounded_and_the_others_judge_beside_it(
    rule: str, costly: Callable[[str], NamePattern]
) -> None:
    tensors = MemoryStore()
    write_collections(tensors)
    for step in range(3):
        write_tensors(tensors, step, {NAME: 1.0, "CrossEntropyLoss_output_0": float("nan") if step == 2 else 1.0})
    end_run(tensors)
    run, kept = RunLocation("memory://digits"), Kept()
    stores: dict[str, Store] = {run.tensors: tensors}
    request = RuleRequest(
        (
            RuleConfiguration(rule, "costly", {"tensor_regex": ".*layers.*nothing"}),
            RuleConfiguration("exploding-tensor", "benign", {"collection_names": "losses"}),
        )
    )
    evaluate(
        run,
        request,
        [kept],
        poll_seconds=0.01,
        clock=lambda: 1000.0,
        sleep=time.sleep,
        should_stop=lambda: False,
        stores=lambda uri: stores.setdefault(uri, MemoryStore()),
    )
    outcomes = {verdict.configuration_name: verdict.outcome for verdict in kept.verdicts}
    assert outcomes["benign"] is Outcome.ISSUE_FOUND
    assert outcomes["costly"] is not Outcome.ISSUE_FOUND
    assert is_bounded(costly(".*layers.*nothing"))


def test_patterns_of_a_collections_file_and_of_a_reader_are_bounded(costly: Callable[[str], NamePattern]) -> None:
    tensors = MemoryStore()
    write_collections(tensors, extra={"mine": (".*attn.*bias",), "yours": ("^model.*attn",)})
    write_tensors(tensors, 0, {NAME: 1.0})
    trial = Trial(tensors)
    trial.refresh()
    assert trial.tensor_names(collection="mine") == ()
    assert trial.tensor_names(collection="yours") == (NAME,)
    assert trial.tensors(regex=".*q_proj.*bias") == ()
    assert all(is_bounded(costly(each)) for each in (".*attn.*bias", "^model.*attn", ".*q_proj.*bias"))


@pytest.mark.parametrize(("pattern", "is_in"), [(".*attn.*bias", False), (".*attn.*weight", True)])
def test_a_pattern_of_a_capture_request_is_bounded(
    costly: Callable[[str], NamePattern], pattern: str, is_in: bool
) -> None:
    request = CaptureRequest(collections=(CollectionRequest("mine", include_regex=(pattern,)),))
    assert ("mine" in Membership(request).of(NAME)) is is_in
    assert is_bounded(costly(pattern))


def test_a_pattern_without_a_bound_is_refused_where_it_is_written() -> None:
    text = '{"collections":[{"name":"mine","include_regex":["(conv)\\\\1"]}]}'
    with pytest.raises(ConfigurationError, match=r"is refused: back-references"):
        CaptureRequest.from_json(text)
    request = RuleRequest((RuleConfiguration("tensor-variance", parameters={"tensor_regex": r"(conv)\1"}),))
    with pytest.raises(ConfigurationError, match=r"is refused: back-references"):
        built_in_catalogue().check(request)
