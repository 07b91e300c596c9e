"""Real runs, trained once: the clean ones are silent under every rule, the faulty ones are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training_lib.rules.stored_runs import FAULTY, SILENT, STORED, unpack
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Severity
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.evaluation.rule_processes.rule_limits import NO_LIMITS
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.storage.open_store import open_store
from trackside.trial.trial import Trial


def alarms(run: RunLocation) -> set[str]:
    """Return the rules that warn, of those that judge where none were chosen."""
    rules = tuple(RuleConfiguration(rule_id) for rule_id in built_in_catalogue().usual)
    evaluator = Evaluator(
        Trial(open_store(run.tensors), open_store(run.statistics)),
        build_rules(RuleRequest(rules)),
        (),
        ProgressFile(MemoryStore()),
        run="stored",
        clock=lambda: 0.0,
        limits=NO_LIMITS,
    )
    found = evaluator.watch(poll_seconds=0, sleep=lambda _: None, should_stop=lambda: True)
    assert not found.crashed
    return {
        verdict.rule_id
        for verdict in found.verdicts
        if verdict.outcome is Outcome.ISSUE_FOUND and verdict.severity is not Severity.INFO
    }


@pytest.mark.parametrize("name", SILENT)
def test_a_clean_run_is_silent(name: str, tmp_path: Path) -> None:
    assert alarms(RunLocation(str(unpack(name, tmp_path)))) == set()


@pytest.mark.parametrize(("name", "rule"), FAULTY.items())
def test_a_faulty_run_is_found(name: str, rule: str, tmp_path: Path) -> None:
    assert rule in alarms(RunLocation(str(unpack(name, tmp_path))))


def test_each_stored_run_is_judged() -> None:
    names = {path.name.removesuffix(".tar.xz") for path in STORED.iterdir()}
    assert names == {name.replace("/", "-") for name in (*SILENT, *FAULTY)}
