"""The rounds of every boosting in this process, from the one object that `train`, `cv` and the estimators share.

`xgboost.callback.CallbackContainer` calls the callbacks of a boosting, and gets the data sets beside them, which a
callback does not. Its methods are replaced once, and call the script's callbacks first.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import xgboost
from xgboost.callback import CallbackContainer

from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace


class Round(NamedTuple):
    """A boosting round that has ended.

    boosting  the container of the boosting's callbacks
    model     the `Booster`; the models of all folds for `cv`
    number    the number of the round, from 0
    training  the training set
    sets      the data sets that are evaluated, with their names; none for `cv`
    """

    boosting: CallbackContainer
    model: Any
    number: int
    training: Any
    sets: Sequence[tuple[Any, str]]


class Listener(Protocol):
    """A receiver of rounds. Its methods never raise."""

    def round_ended(self, ended: Round) -> None:
        """Handle the end of a round."""

    def boosting_ended(self, boosting: CallbackContainer) -> None:
        """Handle the end of a boosting."""

    def objective_given(self, model: Any, objective: Any) -> Any:
        """Return the script's own objective of a round that begins, perhaps watched."""


_listeners: list[Listener] = []
_originals: dict[str, Any] = {}
_undo: list[Undo] = []


def listen(listener: Listener) -> Undo:
    """Call the listener at each round from now on. Return the function that undoes it."""
    if not _listeners:
        _install()
    _listeners.append(listener)

    def undo() -> None:
        if listener in _listeners:
            _listeners.remove(listener)
            if not _listeners:
                _remove()

    return undo


def _install() -> None:
    after_iteration, after_training = CallbackContainer.after_iteration, CallbackContainer.after_training
    _originals.update(after_iteration=after_iteration, after_training=after_training)

    @functools.wraps(after_iteration)
    def iterated(self: CallbackContainer, model: Any, epoch: int, dtrain: Any, evals: Any, *args: Any) -> Any:
        ends = after_iteration(self, model, epoch, dtrain, evals, *args)
        for listener in tuple(_listeners):
            listener.round_ended(Round(self, model, epoch, dtrain, evals or ()))
        return ends

    @functools.wraps(after_training)
    def trained(self: CallbackContainer, model: Any) -> Any:
        model = after_training(self, model)
        for listener in tuple(_listeners):
            listener.boosting_ended(self)
        return model

    for name, method in (("after_iteration", iterated), ("after_training", trained)):
        setattr(CallbackContainer, name, method)
    _undo.append(replace([(xgboost.Booster, "update")], _with_objective))


def _with_objective(update: Any) -> Any:
    @functools.wraps(update)
    def updated(self: Any, dtrain: Any, iteration: int, fobj: Any = None) -> Any:
        if inspect.isroutine(fobj):  # no objective of a class of XGBoost's
            for listener in tuple(_listeners):
                fobj = listener.objective_given(self, fobj)
        return update(self, dtrain, iteration, fobj)

    return updated


def _remove() -> None:
    for name, original in _originals.items():
        setattr(CallbackContainer, name, original)
    _originals.clear()
    while _undo:
        _undo.pop()()
