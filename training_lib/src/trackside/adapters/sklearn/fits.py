"""Captures estimators that keep no value of their steps: what `fit` was given, and what is evaluated after it.

A `fit` is three steps, each with other rows of its training set, so that rules see whether what they found is there
again. They are recorded at the end of the process, and only if nothing else of it is a training with losses: an
estimator that the script fits first may be a part of what it prepares.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sklearn

from trackside.adapters.shared.rounds import Ended, Evaluated, Learning, Named, Source, settings
from trackside.adapters.sklearn.estimators import EstimatorAdapter, is_tried, place_of
from trackside.adapters.sklearn.given_rows import GivenRows
from trackside.adapters.sklearn.traits import (
    ConvergenceWarnings,
    are_single,
    is_pairwise,
    reads_scales,
    steps_at_limit,
)
from trackside.capture.session import CLOSE_SECONDS
from trackside.contracts.run.recorded_names import HELD_OUT_SCORE, RAN_OUT
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace as put_in

SAMPLES = 3  # of the rows of one `fit`: as many steps without a finding are "no issue"
_MAY_START_THREADS_AT_EXIT = not (3, 12) <= sys.version_info < (3, 12, 2)

Sample = Mapping[str, Sequence[tuple[str, Any]]]


@dataclass(frozen=True)
class KeptFit:
    """A training that has ended and is not recorded yet.

    estimator  a reference to the estimator
    learning   the facts
    samples    data by collection, of each step
    is_tried   it is one of several that are tried, such as the folds of a validation
    """

    estimator: weakref.ref[Any]
    learning: Learning
    samples: tuple[Sample, ...]
    is_tried: bool

    def facts(self) -> Learning:
        """Return the facts."""
        return self.learning


class FitAdapter(EstimatorAdapter):
    """The adapter of all estimators without an adapter of their own.

    Args:
        environment: Address of the run, and the capture request.
        leave: Leaves the classes of scikit-learn as they were.
    """

    def __init__(self, environment: CaptureEnvironment, *, leave: Undo) -> None:
        super().__init__(environment)
        self._leave = leave
        self._warnings = ConvergenceWarnings()
        self._kept: KeptFit | None = None
        self._process = 0  # that records the training as it ends: not a child of it
        self._predict: Undo = lambda: None
        guard = self.session.guard
        self._given = guard.protect("looking at the arguments of fit", self._given_to_fit)
        self._over = guard.protect("looking at a fit", self._fit_over)

    def listen_to_steps(self) -> Undo:
        """Listen to nothing more: see `fit_calls.py`."""
        return self._leave_all

    @contextlib.contextmanager
    def looking_at(
        self, fit: Callable[..., Any], estimator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Iterator[None]:
        """Look at a call of `fit` or `partial_fit`, which is made meanwhile."""
        given = self._given(fit, estimator, args, kwargs)
        if given is None:
            yield
            return
        with self._warnings.counted():
            yield
        self._over(estimator, given, warned=self._warnings.count > 0, is_whole=fit.__name__ == "fit")

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """Record the training, and end the run. Never raises."""
        if self._kept is not None:
            self.session.guard.attempt("capturing a fit", self._record_fit)
        super().close(timeout_seconds, is_interrupted=is_interrupted)

    def uninstall(self) -> None:
        """Leave scikit-learn as it was. A training that is not recorded yet never is."""
        self._kept = None
        atexit.unregister(self._at_exit)
        super().uninstall()

    def note_evaluations(self) -> None:
        """Record nothing beside the last step: what is known of the evaluations was recorded with it."""

    def _leave_all(self) -> None:
        self._predict()
        self._leave()

    def _given_to_fit(
        self, fit: Callable[..., Any], estimator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> GivenRows | None:
        """Return the training set of a call; None for one that cannot be the training of the run."""
        if self.has_begun or not in_charge.is_free():
            return None
        if multiprocessing.current_process().name != "MainProcess":  # it ends without an end of our own
            return None
        given = self._given_to(fit, estimator, args, kwargs)
        if given is None or not self._may_take(estimator):
            return None
        return replace(given, rows=None) if is_pairwise(estimator) or are_single(given.rows) else given

    def _may_take(self, estimator: Any) -> bool:
        kept = self._kept
        if kept is None or kept.estimator() is estimator or (kept.is_tried and not is_tried()):
            return True
        self.session.guard.warn_once("further", self.further)
        return False

    def _fit_over(self, estimator: Any, given: GivenRows, *, warned: bool, is_whole: bool) -> None:
        if not in_charge.is_free():  # another adapter has captured it
            self._kept = None
            return
        earlier = self._kept if self._kept is not None and self._kept.estimator() is estimator else None
        if earlier is not None and is_whole and not getattr(estimator, "warm_start", False):
            self.session.guard.warn_once("further", self.further)
            return
        self._keep(estimator, given, earlier)
        ran_out = steps_at_limit(estimator) * is_whole
        self._evaluations.train(estimator, given.rows, ran_out=ran_out, has_warned=warned and is_whole)

    def _keep(self, estimator: Any, given: GivenRows, earlier: KeptFit | None) -> None:
        """Keep samples of a training set; of a later part of the same training one, in the place of the newest."""
        network = type(estimator).__name__ if reads_scales(estimator) else ""
        attempt = self.session.guard.attempt
        learning = Learning(
            "scikit-learn",
            sklearn.__version__,
            is_weighted=given.is_weighted,
            classes=attempt("counting classes", given.classes) or (),
            network=network,
        )
        before = () if earlier is None else earlier.samples[: SAMPLES - 1]
        looks = [functools.partial(_sample, given, number, network) for number in range(len(before), SAMPLES)]
        samples = (*before, *[attempt("looking at rows", look) or {} for look in looks])
        if earlier is None:
            self._predict()
            self._predict = put_in(place_of(estimator, "predict"), self._predicting)
        self._kept = KeptFit(weakref.ref(estimator), learning, samples, is_tried())
        if not self._process:
            self._process = os.getpid()
            atexit.register(self._at_exit)
        if not _MAY_START_THREADS_AT_EXIT:
            self._record_fit()

    def _at_exit(self) -> None:
        if os.getpid() == self._process:
            self.close()

    def _record_fit(self) -> None:
        """Record the training, if it has the run of this process."""
        kept, self._kept = self._kept, None
        if kept is None or not in_charge.is_free() or not self.is_ours(kept.estimator):
            return
        numbers = self._evaluations.numbers()
        signs = {key: value for key, value in numbers.items() if key[0] in {HELD_OUT_SCORE, RAN_OUT}}
        with contextlib.suppress(SystemExit):  # of a rehearsal, whose script has ended by itself
            for number, sample in enumerate(kept.samples):
                is_newest = number == len(kept.samples) - 1
                self.session.statistics.recorder.numbers.added.update(numbers if is_newest else signs)
                self.end_round(Ended(_no_metric, functools.partial(_sources, sample), is_last=True), kept.facts)
        self.training_ended(kept.estimator)


def _sample(given: GivenRows, number: int, network: str) -> Sample:
    kind, name = ("model_inputs", f"{network}_input_0") if network else ("rows", "inputs")
    found = {collection: list(source()) for collection, source in given.sources(number, kind=kind, name=name).items()}
    return {**found, "hyperparameters": list(settings(given.estimator.get_params(deep=False)))}


def _sources(sample: Sample) -> dict[str, Source]:
    return {kind: functools.partial(_itself, named) for kind, named in sample.items()}


def _itself(named: Named) -> Named:
    return named


def _no_metric() -> Evaluated:
    return Evaluated(())
