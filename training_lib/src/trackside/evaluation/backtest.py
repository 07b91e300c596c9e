"""What rules would have said about a run that was recorded before: nothing is written, nobody is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.progress import ProgressFile, RuleProgress
from trackside.evaluation.rule_limits import AT_LEISURE
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import trial_of


@dataclass(frozen=True)
class Backtest:
    """What rules would have said: `verdicts` as they would have come; `last_step` is the newest of the run (-1: none).

    `judged` counts the steps that each configuration judged, `crashed` names those whose rule raised, and `progress`
    is how far each has come. A run that has not `has_ended` may still grow: then no rule has said its last word.
    """

    run: str
    last_step: int
    verdicts: tuple[Verdict, ...]
    judged: dict[str, int]
    has_ended: bool = True
    crashed: tuple[str, ...] = ()
    progress: Mapping[str, RuleProgress] = field(default_factory=dict)

    @property
    def issues(self) -> tuple[Verdict, ...]:
        """The issues that would have been opened."""
        return tuple([v for v in self.verdicts if v.outcome is Outcome.ISSUE_FOUND and v.state is State.OPENED])

    @property
    def stop_step(self) -> int | None:
        """The step at which the first critical issue would have stopped the run; None if there is none."""
        return min((v.step for v in self.issues if v.severity is Severity.CRITICAL), default=None)

    @property
    def saved_steps(self) -> int:
        """How many steps would not have been made."""
        return 0 if self.stop_step is None else self.last_step - self.stop_step


def backtest(
    uri: str,
    rules: Sequence[RuleConfiguration],
    *,
    clock: Callable[[], float],
    stores: Callable[[str], Store] = open_store,
) -> Backtest:
    """Judges a recorded run, as far as it is there. `clock` is in seconds since the epoch.

    Errors: `ConfigurationError` for the rules; `StorageError` where the run cannot be read.
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
        limits=AT_LEISURE,
    )
    evaluator.sweep()
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
    )
