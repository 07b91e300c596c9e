"""The calls of `fit` and `partial_fit` of all estimators: the outermost one that learns to predict is captured.

A pipeline or a search hands its `score` on to the estimator within, so that one is the training. What any other
estimator fits in its own `fit`, such as the trees of a forest, is part of it. Every program that uses scikit-learn at
all imports this module, with `sklearn.base`: it imports nothing else of it before the first such call.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

from trackside.adapters.sklearn.trainers import is_beside_trainer
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace

if TYPE_CHECKING:
    from trackside.adapters.sklearn.fits import FitAdapter

_METHODS = ("fit", "partial_fit")
_PREDICT = ("predict", "fit_predict")
_PASS_ON = frozenset({"Pipeline", "BaseSearchCV"})
_SUBCLASSED = "__init_subclass__"


class FitCalls:
    """The calls of one process.

    Args:
        make: Makes the adapter, installed and registered; None if another one has the run of this process.
    """

    def __init__(self, make: Callable[[], FitAdapter | None]) -> None:
        self._make = make
        self._adapter: FitAdapter | None = None
        self._is_made = False
        self._calls: set[object] = set()  # under way, of all threads: an ensemble may fit its parts in others

    def listen(self) -> Undo:
        """Listen to the estimators that are known, and to those that are defined later."""
        undo = [self._wrap(each) for each in (BaseEstimator, *_below(BaseEstimator))]
        own = vars(BaseEstimator).get(_SUBCLASSED)

        def subclassed(estimator: Any, /, **kwargs: Any) -> None:
            if own is not None:
                own.__get__(None, estimator)(**kwargs)
            else:
                super(BaseEstimator, estimator).__init_subclass__(**kwargs)
            undo.append(self._wrap(estimator))

        setattr(BaseEstimator, _SUBCLASSED, classmethod(subclassed))

        def stop() -> None:
            if own is not None:
                setattr(BaseEstimator, _SUBCLASSED, own)
            else:
                delattr(BaseEstimator, _SUBCLASSED)
            for each in undo:
                each()

        return stop

    def _wrap(self, estimator: type) -> Undo:
        places = [(estimator, name) for name in _METHODS if inspect.isfunction(vars(estimator).get(name))]
        return replace(places, self._wrapped)

    def _wrapped(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fit)
        def fitted(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            if any(kind.__name__ in _PASS_ON for kind in type(estimator).__mro__):
                return fit(estimator, *args, **kwargs)
            adapter = None if self._calls else self._adapter_for(estimator)
            call = object()
            self._calls.add(call)
            try:
                if adapter is None:
                    return fit(estimator, *args, **kwargs)
                with adapter.looking_at(fit, estimator, args, kwargs):
                    return fit(estimator, *args, **kwargs)
            finally:
                self._calls.discard(call)

        return fitted

    def _adapter_for(self, estimator: Any) -> FitAdapter | None:
        """Return the adapter for an estimator that learns to predict; None for another one."""
        if is_beside_trainer() or not any(hasattr(type(estimator), name) for name in _PREDICT):
            return None
        if not self._is_made:
            self._is_made, self._adapter = True, self._make()
        return self._adapter


def attach() -> None:
    """Switch capture on if the environment names a run. Called once `sklearn.base` has been imported."""
    if not CaptureEnvironment.read().run_uri:
        return
    undo: list[Undo] = []

    def make() -> FitAdapter | None:
        from trackside.adapters.sklearn.fits import FitAdapter

        made: list[FitAdapter] = []

        def noted(environment: CaptureEnvironment) -> FitAdapter:
            made.append(FitAdapter(environment, leave=undo[0]))
            return made[0]

        try:
            in_charge.attach_new(noted)
        except Exception as error:  # noqa: BLE001 - the script goes on
            sys.stderr.write(f"trackside: sklearn is not captured, training goes on: {error}\n")
        return made[0] if made else None

    undo.append(FitCalls(make).listen())


def _below(estimator: type) -> Iterator[type]:
    subclasses: list[type] = estimator.__subclasses__()
    for each in subclasses:
        yield each
        yield from _below(each)
