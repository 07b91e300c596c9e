"""The intervals of the always-on statistics, as capture last set them to stay within its share of a step's time."""

from __future__ import annotations

from trackside.contracts.english import every
from trackside.contracts.run.recorded_names import DEAR_INTERVAL, NORMS_INTERVAL
from trackside.runs.live_run import rested_steps
from trackside.trial.trial import Trial


def pace_of(trial: Trial) -> str:
    """Return a sentence about the newest intervals. Errors: those of the store.

    Args:
        trial: The run.
    """
    if rested := rested_steps(trial):
        steps = trial.parts.steps.training_steps([max(0, trial.recorded_through)])[0] + 1
        return f"{steps - rested:,} of {steps:,} training steps were watched, in bursts, to keep to the budget"
    norms, dear = _newest(trial, NORMS_INTERVAL), _newest(trial, DEAR_INTERVAL)
    if norms is None or dear is None:
        return "losses, learning rates and gradient norms of every step, as requested"
    return (
        f"losses and learning rates of every step, gradient norms of {every(norms)} step, statistics of weights of "
        f"{every(dear)}: denser ones would take more of a step's time than they may"
    )


def _newest(trial: Trial, name: str) -> int | None:
    columns = trial.columns(name, "mean", last_step=trial.recorded_through, mode=None)
    return max((int(column.values[-1]) for column in columns if len(column.values)), default=None)
