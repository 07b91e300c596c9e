"""A catastrophic pattern of a rule, a collections file or a capture request costs its own time, and no other's."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from tests.patience import HANGS_SECONDS
from trackside.capture.collection import Membership
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.evaluation.evaluator import evaluate
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial

HOSTILE = "(a+)+!$"
VICTIM = "a" * 40  # `re` needs hours for these


class Kept:
    name = "kept"

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        self.verdicts += verdicts


@pytest.mark.parametrize("rule", ["unchanged-tensor", "tensor-variance", "all-zero"])
def test_the_other_rules_judge_beside_a_hostile_parameter(rule: str) -> None:
    tensors = MemoryStore()
    write_collections(tensors)
    for step in range(3):
        write_tensors(tensors, step, {VICTIM: 1.0, "CrossEntropyLoss_output_0": float("nan") if step == 2 else 1.0})
    end_run(tensors)
    run, kept = RunLocation("memory://digits"), Kept()
    stores: dict[str, Store] = {run.tensors: tensors}
    request = RuleRequest(
        (
            RuleConfiguration(rule, "hostile", {"tensor_regex": HOSTILE}),
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
    assert outcomes["hostile"] is not Outcome.ISSUE_FOUND


def test_a_reader_survives_a_hostile_collections_file() -> None:
    tensors = MemoryStore()
    write_collections(tensors, extra={"mine": (HOSTILE,), "yours": ("^a",)})
    write_tensors(tensors, 0, {VICTIM: 1.0})
    trial = Trial(tensors)
    trial.refresh()
    assert trial.tensor_names(collection="mine") == ()
    assert trial.tensor_names(collection="yours") == (VICTIM,)
    assert trial.tensors(regex=HOSTILE) == ()


def test_a_hook_survives_a_hostile_capture_request() -> None:
    began = time.monotonic()
    request = CaptureRequest(collections=(CollectionRequest("mine", include_regex=(HOSTILE,)),))
    assert "mine" not in Membership(request).of(VICTIM)
    assert time.monotonic() - began < HANGS_SECONDS


def test_a_pattern_without_a_bound_is_refused_where_it_is_written() -> None:
    text = '{"collections":[{"name":"mine","include_regex":["(conv)\\\\1"]}]}'
    with pytest.raises(ConfigurationError, match=r"is refused: back-references"):
        CaptureRequest.from_json(text)
    request = RuleRequest((RuleConfiguration("tensor-variance", parameters={"tensor_regex": r"(conv)\1"}),))
    with pytest.raises(ConfigurationError, match=r"is refused: back-references"):
        built_in_catalogue().check(request)
