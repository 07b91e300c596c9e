"""similar-across-runs: a tensor is not what it was in another run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, SavedValue, selected, values_at_step
from trackside.trial.window import TensorSource, Window

_ALTOGETHER = np.inf


@dataclass(frozen=True)
class SimilarAcrossRuns(Rule):
    """A tensor differs from the same tensor of another run at the same step.

    Why it matters:
        Two runs with the same seed, data and program should be the same. Where they begin to differ, and in which
        tensor first, is where the randomness is, or the change that was thought to change nothing.

    How it decides:
        For each tensor of `collection_names`, and each whose name a regex of `tensor_regex` finds (both empty: losses
        and weights), at each step at which it was saved, and for each run of `other_trials` (folders or s3:// URIs of
        runs, separated by commas) that saved it at the same step and by the same worker:

        1. d is the largest of |a - b| / (`atol` + `rtol` |b|) over all elements, with b of the other run. NaN is the
           same as NaN only. Another shape differs altogether.
        2. It fires where d > 1.

        Tensors, steps and workers that one of the runs lacks are left out. It judges only where it was chosen.

        Despite its name, Amazon's SimilarAcrossRuns fires where tensors differ: an older text of its documentation has
        it so, and the newer ones do not contradict it. The tolerance is not documented; those here are
        those of numpy.allclose for float32. It names runs by jobs (`other_trials`) or by places (`other_trial_0`, ...);
        both are places here.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.similar_across_runs import difference

        assert difference(np.ones(3), np.ones(3), rtol=1e-5, atol=1e-8) == 0
        assert difference(np.ones(3), np.full(3, 1.1), rtol=1e-5, atol=1e-8) > 1
        ```

    References:
        - PyTorch, Reproducibility: sources of nondeterminism.
        - Amazon SageMaker Debugger, built-in rule SimilarAcrossRuns.
    """

    rule_id = "similar-across-runs"
    code = "TS113"
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    is_asked_for = True
    judges_until_found = True
    other_runs = "other_trials"
    watches = EVERY_COLLECTION
    needs = (CollectionRequest("losses", Schedule(500)), CollectionRequest("weights", Schedule(500)))
    since = "0.1"
    likely_causes = (Cause.REPLICAS_DIFFER,)
    what_to_do = (
        "Look at the first tensor that differs: seeds, the order of the data, nondeterministic kernels.",
        "torch.use_deterministic_algorithms(True) names the kernels that are.",
    )

    other_trials: str = parameter("", "runs to compare with, folders or s3:// URIs, separated by commas")
    collection_names: str = parameter("", "collections to look at, separated by commas")
    tensor_regex: str = parameter("", "regexes of tensor names, separated by commas")
    rtol: float = parameter(1e-5, "relative tolerance", minimum=0)
    atol: float = parameter(1e-8, "absolute tolerance", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per tensor, worker and run."""
        return [
            found
            for saved in self._saved(window)
            for run, other in window.others.items()
            if (found := self._compare(window, saved, run, other)) is not None
        ]

    def lacks(self, window: Window) -> str:
        """Name the missing input: the other run, and a tensor that both saved at this step."""
        if not self.other_trials.strip():
            return "another run to compare with (other_trials)"
        if not window.others:
            return f"a run that can be read at {self.other_trials}"
        has_pair = any(
            _of_other(other, saved, window.step) is not None
            for saved in self._saved(window)
            for other in window.others.values()
        )
        return "" if has_pair else "a step at which both runs saved the same tensor"

    def _saved(self, window: Window) -> Iterable[SavedValue]:
        return values_at_step(
            window,
            selected(
                window,
                collection_names=self.collection_names,
                tensor_regex=self.tensor_regex,
                default=("losses", "weights"),
            ),
        )

    def _compare(self, window: Window, saved: SavedValue, run: str, other: TensorSource) -> Finding | None:
        theirs = _of_other(other, saved, window.step)
        found = None if theirs is None else difference(saved.value, theirs, rtol=self.rtol, atol=self.atol)
        if found is None or not found > 1:
            return None
        return finding_of(
            window, saved.tensor, f"largest difference to {run}, in tolerances", found, above=1.0, worker=saved.worker
        )


def difference(ours: NDArray[np.generic], theirs: NDArray[np.generic], *, rtol: float, atol: float) -> float:
    """Return the largest |a - b| / (atol + rtol |b|).

    Infinity for different shapes, and if only one value is NaN or infinite.
    """
    if ours.shape != theirs.shape:
        return _ALTOGETHER
    if not ours.size:
        return 0.0
    if ours.dtype.kind not in "fiub" or theirs.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(ours, theirs) else _ALTOGETHER
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    if is_same.all():
        return 0.0
    a, b = a[~is_same], b[~is_same]
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return _ALTOGETHER
    tolerance = np.maximum(atol + rtol * np.abs(b), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):  # 1 over the smallest number is as good as infinite
        return float((np.abs(a - b) / tolerance).max())


def _of_other(other: TensorSource, saved: SavedValue, step: int) -> NDArray[np.generic] | None:
    """Return the tensor of the same name of the other run; None if it was not saved."""
    try:
        return other.value(saved.tensor, step=step, worker=saved.worker)
    except TensorNotSavedError:
        return None
