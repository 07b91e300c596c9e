"""The adapter of estimators that keep a value of each step in which they learned.

Where the process has imported a framework that trains by itself, nothing is captured here: an estimator beside it is a
baseline, and a run holds one training. Of a search that fits its best candidate again, that fit is the training: the
candidates are tried to be thrown away, and some of them are bad on purpose.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import sklearn
from sklearn.base import ClassifierMixin, RegressorMixin

from trackside.adapters.shared.rounds import History, HistoryReader, Learning, RoundsAdapter
from trackside.adapters.sklearn.evaluations import Evaluations
from trackside.adapters.sklearn.given_rows import GivenRows
from trackside.adapters.sklearn.trainers import is_beside_trainer
from trackside.capture.session import CLOSE_SECONDS
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace

NOTE_SECONDS = 1.0  # how long the end of a run waits for another thread that records


class EstimatorAdapter(RoundsAdapter):
    """An adapter of estimators; see `adapters/shared/rounds.py`. An inheriting class listens to their steps.

    Attributes:
        kinds: The classes of its estimators.
    """

    kinds: tuple[type, ...] = ()

    def __init__(self, environment: CaptureEnvironment) -> None:
        super().__init__(environment)
        self._reader = HistoryReader(self)
        self._evaluations = Evaluations()
        self._evaluated = self.session.guard.protect("looking at an evaluation", self._note_evaluation)
        self._measured = self.session.guard.protect("looking at a metric", self._evaluations.measure)
        self.read = self.session.guard.protect("capturing steps", self._read)
        self.fit_ended = self.session.guard.protect("ending a training", self._fit_ended)
        self.given_to = self.session.guard.protect("looking at the arguments of fit", self._given_to)

    def _read(
        self,
        estimator: Any,
        history: Callable[[Any, GivenRows], History],
        given: GivenRows | None,
        *,
        same_loss: Callable[[Any], str] = lambda _: "",
        network: str = "",
    ) -> None:
        if given is None or is_beside_trainer():
            return
        loss = str(getattr(estimator, "loss", ""))

        def learning() -> Learning:
            return Learning(
                "scikit-learn",
                sklearn.__version__,
                loss=loss,
                same_loss=same_loss(estimator),
                is_weighted=given.is_weighted,
                classes=self.session.guard.attempt("counting classes", given.classes) or (),
                network=network,
            )

        # The same object for as long as the estimator lives, which it does not keep alive.
        self._reader.read(weakref.ref(estimator), history(estimator, given), learning)

    def _given_to(
        self, fit: Callable[..., Any], estimator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> GivenRows | None:
        """Return the training set of a call of `fit`.

        None for a candidate of a search, and for a wrong call, which scikit-learn shows better.
        """
        self._evaluations.pause(estimator)
        try:
            given = inspect.signature(fit).bind(estimator, *args, **kwargs).arguments
        except TypeError:
            return None
        if "X" not in given or is_candidate():
            return None
        return GivenRows(estimator, given["X"], given.get("y"), given.get("sample_weight"))

    def listen(self) -> Undo:
        """Listen to the steps, and to what is evaluated after them."""
        undo = [
            self.listen_to_steps(),
            replace([(ClassifierMixin, "score"), (RegressorMixin, "score")], self._scoring),
            replace(dict.fromkeys(owner_of(kind, "predict") for kind in self.kinds), self._predicting),
            replace(_checks_of_metrics(), self._measuring),
        ]
        return lambda: [each() for each in reversed(undo)]

    def listen_to_steps(self) -> Undo:
        """Listen to the steps."""
        raise NotImplementedError

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run. Never raises."""
        if self.has_begun:
            self.waiting.flush()
            self.session.guard.attempt("recording evaluations", self.note_evaluations)
        super().close(timeout_seconds, is_interrupted=is_interrupted)

    def _scoring(self, score: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(score)
        def scored(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._evaluations.are_of(estimator):
                return score(estimator, *args, **kwargs)
            with self._evaluations.scoring():
                found = score(estimator, *args, **kwargs)
            self._evaluated(score, estimator, args, kwargs, found)
            return found

        return scored

    def _predicting(self, predict: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(predict)
        def predicted(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            found = predict(estimator, *args, **kwargs)
            if self._evaluations.are_of(estimator):
                self._evaluated(predict, estimator, args, kwargs, found)
            return found

        return predicted

    def _measuring(self, check: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(check)
        def checked(labels: Any, predictions: Any, *args: Any, **kwargs: Any) -> Any:
            third = kwargs.get("sample_weight", args[0] if args else None)  # of older versions another argument: a text
            self._measured(labels, predictions, None if isinstance(third, str) else third)
            return check(labels, predictions, *args, **kwargs)

        return checked

    def _note_evaluation(
        self, call: Callable[..., Any], estimator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], found: Any
    ) -> None:
        given = inspect.signature(call).bind(estimator, *args, **kwargs).arguments
        if "y" in given:
            is_weighted = given.get("sample_weight") is not None
            self._evaluations.score(given["X"], given["y"], float(found), is_weighted=is_weighted)
        else:
            self._evaluations.predict(given["X"], found)

    def note_evaluations(self) -> None:
        """Record beside the last step what is known of the evaluations."""
        if self.session.statistics.is_on and (numbers := self._evaluations.numbers()):
            self.session.statistics.recorder.note(numbers, wait_seconds=NOTE_SECONDS)

    def _fit_ended(self, estimator: Any, given: GivenRows | None, *, may_go_on: bool, ran_out: int = 0) -> None:
        training = weakref.ref(estimator)
        if given is not None and training is self._training:
            self._evaluations.train(estimator, given.rows, ran_out=ran_out)
        if not may_go_on:
            self.training_ended(training)


def owner_of(estimator: type, method: str) -> tuple[type, str]:
    """Return the class that defines a method of an estimator, and the name of the method."""
    return next(each for each in estimator.__mro__ if method in vars(each)), method


def place_of(estimator: Any, method: str) -> tuple[tuple[Any, str], ...]:
    """Return the object and the attribute that hold the function of a method; none for an estimator without it.

    Of a method that only some of its estimators have, a descriptor of scikit-learn holds it.
    """
    if not hasattr(estimator, method):
        return ()
    owner, name = owner_of(type(estimator), method)
    held = vars(owner)[name]
    return ((owner, name),) if inspect.isfunction(held) else ((held, "fn"),) if "fn" in vars(held) else ()


def is_candidate() -> bool:
    """Return True within a search, but for its last fit: that of the best candidate."""
    tried = _trial()
    if tried is None:
        return False
    search = tried.f_back
    while search is not None:
        of: Any = search.f_locals.get("self") if search.f_code.co_name == "fit" else None
        if any(kind.__name__ == "BaseSearchCV" for kind in type(of).__mro__):
            return bool(of.refit)
        search = search.f_back
    return tried.f_locals.get("parameters") is not None  # the search waits in another thread or process


def is_tried() -> bool:
    """Return True for one of several trainings of one estimator, as in a search or a cross-validation."""
    return _trial() is not None


def _trial() -> FrameType | None:
    """Return the call of scikit-learn's function that fits and scores one of several."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_fit_and_score":
        frame = frame.f_back
    return frame


def _checks_of_metrics() -> tuple[tuple[Any, str], ...]:
    """Return the functions through which metrics take labels and predictions, where this version has them."""
    from sklearn.metrics import _classification, _regression

    places = ((_classification, "_check_targets"), (_regression, "_check_reg_targets"))
    return tuple([place for place in places if hasattr(*place)])
