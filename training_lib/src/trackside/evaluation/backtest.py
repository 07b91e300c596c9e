"""Judging of a recorded run by chosen rules. Nothing is written, and nobody is notified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.learning import Learning
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.evaluation.cut_run import is_cut
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile, RuleProgress
from trackside.evaluation.rule_processes.rule_limits import NO_LIMITS
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import trial_of


@dataclass(frozen=True)
class Backtest:
    """The verdicts that rules give on a recorded run.

    run        the run's name
    last_step  the newest step; -1 if the run has none
    verdicts   in the order in which they would have been sent
    judged     the number of judged steps, by configuration
    has_ended  False for a run that may still grow; its rules have no final verdict yet
    crashed    configurations with a rule that raised
    progress   the progress of each configuration
    learning   what the run has learned by its end; None before
    """

    run: str
    last_step: int
    verdicts: tuple[Verdict, ...]
    judged: dict[str, int]
    has_ended: bool = True
    crashed: tuple[str, ...] = ()
    progress: Mapping[str, RuleProgress] = field(default_factory=dict)
    learning: Learning | None = None

    @property
    def issues(self) -> tuple[Verdict, ...]:
        """The issues that the rules would have opened."""
        return tuple([v for v in self.verdicts if v.outcome is Outcome.ISSUE_FOUND and v.state is State.OPENED])

    @property
    def stop_step(self) -> int | None:
        """The step of the first critical issue, which would have stopped the run; None without a critical issue."""
        return min((v.step for v in self.issues if v.severity is Severity.CRITICAL), default=None)

    @property
    def saved_steps(self) -> int:
        """The number of steps that a stop would have saved."""
        return 0 if self.stop_step is None else self.last_step - self.stop_step


def backtest(
    uri: str,
    rules: Sequence[RuleConfiguration],
    *,
    clock: Callable[[], float],
    stores: Callable[[str], Store] = open_store,
) -> Backtest:
    """Judge the recorded steps of a run. `clock` returns seconds since the epoch.

    Errors: `ConfigurationError` for the rules; `StorageError` if the run cannot be read.
    """
    location = RunLocation(uri)
    progress_file = ProgressFile(MemoryStore())
    trial = trial_of(location, stores, will_grow=False)
    evaluator = Evaluator(
        trial,
        build_rules(RuleRequest(tuple(rules))),
        (),
        progress_file,
        run=location.name,
        clock=clock,
        stores=stores,
        limits=NO_LIMITS,
        is_cut=lambda: is_cut(stores(location.uri)),
    )
    evaluator.poll()
    summary = evaluator.summary()
    steps = trial.steps()
    return Backtest(
        run=location.name,
        last_step=max([trial.recorded_through, *steps[-1:]]),
        verdicts=summary.verdicts,
        judged=dict(summary.judged),
        has_ended=trial.has_ended,
        crashed=summary.crashed,
        progress=progress_file.load().rules,
        learning=summary.learning,
    )
