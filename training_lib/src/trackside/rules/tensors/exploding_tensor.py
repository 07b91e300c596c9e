"""exploding-tensor: numbers have left the range a computer can hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding, FindingKind, Severity
from trackside.evidence.causes import BREAKS
from trackside.rules.advice import Advice, Concerns
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.skipped_steps import is_gradient, steps_skipped_by, workers_that_skipped
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class ExplodingTensor(Rule):
    """A loss, weight or gradient holds NaN or infinity.

    Why it matters:
        A single NaN spreads: one step later it is in every weight it touches, and from then on the job computes nothing
        at full price. Most scripts do not notice, because comparing with NaN raises no error.

    How it decides:
        At each step at which the always-on statistics measured a tensor of `collection_names`, or at which one was
        saved, for each tensor and worker:

        1. Count the elements that are not finite (NaN, infinity, minus infinity); with `only_nan`, those that are NaN.
           The always-on statistics count them where the tensors lie; nothing needs to be saved. Where the run has but
           reductions, the mean is counted as one element. Gradients of a step that a gradient scaler, or the
           optimizer itself, skipped were used by nothing, and are not looked at.
        2. count > 0 is a finding, at once: there is no such thing as a harmless infinity in these collections.
        3. Once the run has ended, and where passes go on without steps, the weights are measured once more, as the last
           step left them: what broke at a step that was not measured, and ended the stepping, shows there.
        4. The first step at which the tensor broke is the step since which the finding holds. The tensor that broke
           first leads; among those of the same step, the order of `collection_names` decides, then the name.

        Amazon's ExplodingTensor judges every saved tensor unless it is given `collection_names` or `tensor_regex`. Ours
        looks at the three collections that mean something for any network: an activation may be infinite on purpose (an
        attention mask is).

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.exploding_tensor import first_broken

        steps = np.array([0, 10, 20, 30])
        assert first_broken(steps, np.array([0.0, 0.0, 2.0, 640.0])) == 20
        assert first_broken(steps, np.array([0.0, 0.0, 0.0, 0.0])) is None
        ```

    References:
        - Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks (2013): clip by norm.
        - IEEE 754-2019, section 6: arithmetic with infinity and NaN.
        - Amazon SageMaker Debugger, built-in rule ExplodingTensor: `only_nan` and `collection_names`.
    """

    rule_id = "exploding-tensor"
    code = "TS104"
    watches = ("losses", "weights", "gradients")
    save_interval = 100
    needs = ()
    judges_the_end = True
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.NON_FINITE_DATA)
    suspects = BREAKS
    what_to_do = (
        "Lower the learning rate by a factor of ten, or warm it up over the first steps.",
        Advice("Clip the gradient by its norm before the optimizer step.", Concerns.UNCLIPPED_LOOPS),
        "Look at the samples of the first broken step: a missing value or a zero under a logarithm or a division.",
    )

    collection_names: str = parameter(
        "losses,weights,gradients", "collections to look at, separated by commas or spaces"
    )
    only_nan: bool = parameter(False, "true: infinity is allowed, only NaN is an issue")

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per tensor and worker with non-finite values at this step, the first broken first."""
        collections = dict.fromkeys(self.collection_names.replace(",", " ").split())
        broken = {name for collection in collections for name in self._broken(window, window.tensors(collection))}
        if not broken:
            return []
        skipping = workers_that_skipped(window)
        tensors = dict.fromkeys(name for collection in collections for name in window.tensors(collection))
        findings = [finding for name in tensors if name in broken for finding in self._judge(window, name)]
        findings = [f for f in findings if not (is_gradient(f.subject) and f.worker in skipping)]
        return sorted(findings, key=lambda finding: finding.since_step)  # stable: keeps the order of collections

    def _broken(self, window: Window, names: tuple[str, ...]) -> Iterable[str]:
        """Return the tensors with values that some worker measured as not finite at this step."""
        counts = window.at_step(names, "nan_count" if self.only_nan else "nonfinite_count")
        is_broken = counts.values > 0
        found = []
        if np.count_nonzero(is_broken):  # quicker than `any`, and asked for at each step
            found = [counts.tensors[place] for place in np.flatnonzero(is_broken).tolist()]
        if counts.unknown:
            means = window.at_step(counts.unknown, "mean")
            is_broken = np.isnan(means.values) if self.only_nan else ~np.isfinite(means.values)
            found += [means.tensors[place] for place in np.flatnonzero(is_broken).tolist()]
        return found

    def _judge(self, window: Window, name: str) -> Iterable[Finding]:
        for column in _counts(window, name, only_nan=self.only_nan):
            count = float(column.values[-1])
            if column.steps[-1] != window.step or not count > 0:
                continue
            is_made = _is_made(window, column)
            since = first_broken(column.steps[is_made], column.values[is_made])
            yield finding_of(
                window,
                name,
                "NaN values" if self.only_nan else "non-finite values",
                count,
                above=0.0,
                since=window.step if since is None else since,
                worker=column.worker,
                series=column.series,
                statistics=_statistics(window, column),
                kind=FindingKind.NOT_FINITE,
            )


def _is_made(window: Window, column: Column) -> NDArray[np.bool_]:
    """Return False for each step with gradients that no optimizer used; shape of the column."""
    if not is_gradient(column.tensor):
        return np.ones(len(column.steps), np.bool_)
    is_made: NDArray[np.bool_] = ~np.isin(column.steps, steps_skipped_by(window, column.worker))
    is_made[-1] = True  # the step that is judged, which others than these have skipped
    return is_made


def first_broken(steps: NDArray[np.int64], counts: NDArray[np.float64]) -> int | None:
    """Return the first step of the newest streak of steps with a count above zero; None if the newest count is 0."""
    if not counts[-1] > 0:
        return None
    sound = np.flatnonzero(~(counts > 0))
    return int(steps[sound[-1] + 1 if sound.size else 0])


def _counts(window: Window, name: str, *, only_nan: bool) -> tuple[Column, ...]:
    columns = window.statistic(name, "nan_count" if only_nan else "nonfinite_count")
    if columns:
        return columns
    broken = np.isnan if only_nan else (lambda values: ~np.isfinite(values))
    return tuple(
        Column(c.tensor, c.worker, c.steps, broken(c.values).astype(np.float64)) for c in window.statistic(name, "mean")
    )


def _statistics(window: Window, column: Column) -> dict[str, float]:
    for nans in window.statistic(column.tensor, "nan_count", last=1):
        if nans.worker == column.worker and nans.steps[-1] == window.step:
            return {"nan_count": float(nans.values[-1])}
    return {}
