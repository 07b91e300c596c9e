"""Judging of a run by rules chosen afterwards. Earlier verdicts on it do not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trackside.contracts.rule_request import RuleConfiguration
from trackside.evaluation.backtest import Backtest, backtest
from trackside.runs.judged_part import judged_part
from trackside.runs.recorded_run import RecordedRun, read_run
from trackside.runs.rule_state import rule_statuses
from trackside.runs.run_folder import RunState
from trackside.storage.open_store import open_store
from trackside.storage.store import Store


@dataclass(frozen=True)
class JudgedRun:
    """A run as if these rules had judged it.

    recorded  the run with their verdicts
    found     the steps of their issues, and the steps a stop would have saved
    """

    recorded: RecordedRun
    found: Backtest


def judge_now(
    uri: str,
    rules: Sequence[RuleConfiguration],
    *,
    clock: Callable[[], float],
    stores: Callable[[str], Store] = open_store,
) -> JudgedRun:
    """Judge the recorded steps of a run. `clock` returns seconds since the epoch.

    Errors: `ConfigurationError` for the rules; `RunNotFoundError` if no run is at the location, and the stores'.
    """
    recorded = read_run(uri, stores=stores)
    found = backtest(uri, rules, clock=clock, stores=stores)
    statuses = rule_statuses(rules, found.verdicts, progress=found.progress, is_running=not found.has_ended)
    state = RunState.ENDED if found.has_ended else RunState.OPEN
    learning = found.learning and replace(found.learning, faults=recorded.judged.learning.faults)  # of no rule
    part = judged_part(statuses, state=state, run=uri, learning=learning)
    judged = replace(recorded, has_ended=found.has_ended, verdicts=found.verdicts, rules=statuses, judged=part)
    return JudgedRun(judged, found)
