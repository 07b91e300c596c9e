"""The capture of a training in rounds that end with metrics: boosted trees, or the epochs of an estimator.

The adapters of libraries without a network that can be seen share it. A run holds one training, the first that ends a
round; it costs the others of the process (a search for settings, the folds of a validation) nothing.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from trackside.adapters.shared.listening import ListeningAdapter
from trackside.adapters.shared.waiting_rounds import WaitingRounds
from trackside.capture.session import CLOSE_SECONDS, SIGTERM_SECONDS, Owner, Rank, SessionOptions
from trackside.capture.statistics.always_on import Moment
from trackside.capture.steps.schedule import NOTHING_DUE
from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts, ProgramFacts
from trackside.contracts.observations import ROUNDS_BEFORE, without_defaults
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared import in_charge

METRICS = frozenset({"metrics"})
MOST_LABELS, MOST_CLASSES = 100_000, 20  # whose classes are counted; more classes are unequal by nature
FURTHER = "a further training of this process is not captured: a run holds one training, and the first one has it."

Named = Iterable[tuple[str, Any]]
Source = Callable[[], Named]


class Metric(NamedTuple):
    """The newest value of one metric of one data set. Over the folds of a validation it is the mean."""

    of_set: str
    name: str
    value: float
    collections: frozenset[str] = METRICS

    @property
    def tensor_name(self) -> str:
        """The name of the original: `validation-rmse`."""
        return f"{self.of_set}-{self.name}"


@dataclass(frozen=True)
class Learning:
    """The facts about a training, looked up once.

    framework, version   "lightgbm", "4.7.0"
    loss         the metric that counts as the loss; "" without one
    same_loss    PyTorch's class for the same loss, where there is one; ""
    is_weighted  the loss has weights of classes or samples
    classes      number of samples of each class in the training set; () if unknown
    first_step   the number that the library gives the first round of this training
    rounds_before  number of rounds that the model had before this training
    network      the class of a network, which reads its inputs as they are; "" for trees, which read their order
    rank         the number of this worker; None for that of the environment
    """

    framework: str
    version: str
    loss: str = ""
    same_loss: str = ""
    is_weighted: bool = False
    classes: tuple[int, ...] = ()
    first_step: int = 0
    rounds_before: int = 0
    network: str = ""
    rank: Rank | None = None

    def facts(self, rank: Rank) -> ModelFacts:
        """Return the facts as rules read them."""
        losses: tuple[LossFacts, ...] = ()
        if self.loss or self.classes or self.is_weighted:  # a loss that is not shown has no name
            reduction = "mean" if self.same_loss else ""
            name = f"{loss_name(self.loss)}_output_0" if self.loss else ""
            loss = LossFacts(
                name,
                self.same_loss,
                reduction=reduction,
                class_count=len(self.classes) or None,
                is_weighted=self.is_weighted,
                classes=self.classes,
            )
            losses = (loss,)
        modules = (ModuleFacts(self.network, self.network),) if self.network else ()
        program = ProgramFacts(
            framework=self.framework,
            framework_version=self.version,
            world_size=rank.of,
            observed=without_defaults({ROUNDS_BEFORE: self.rounds_before}),
        )
        return ModelFacts(0, modules, (), (), losses, program)


class Evaluated(NamedTuple):
    """The findings of a library about a round.

    - `metrics`: the values of its metrics
    - `trained_on`: name of the set that is trained on; "" if it is not evaluated
    """

    metrics: Sequence[Metric]
    trained_on: str = ""


@dataclass(frozen=True)
class Ended:
    """A round that has ended.

    evaluated    returns the metrics of this round; called a moment later, by any thread
    sources      returns data of the model by collection; called right at the end of the round, if they may be due
    numbers      further numbers of the round, by their recorded names
    is_last      True if the model is whole: what is requested of it is saved, due or not
    wall_time    when it ended, in seconds since the epoch
    """

    evaluated: Callable[[], Evaluated]
    sources: Callable[[], Mapping[str, Source]] = dict
    is_last: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)
    wall_time: float = field(default_factory=time.time)


class RoundsAdapter(ListeningAdapter):
    """An adapter with rounds for steps; see `frameworks/shared/adapter.py`. An inheriting class listens to its library.

    Attributes:
        further: Logged once if a further training is left out.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        owner: Flushed and closed at the end of the process, in the place of this adapter.
    """

    further = FURTHER
    saves_losses = True  # as tensors of their own, beside the metrics

    def __init__(
        self, environment: CaptureEnvironment, *, options: SessionOptions | None = None, owner: Owner | None = None
    ) -> None:
        super().__init__(environment, options=options, owner=owner)
        self._training: object = None
        self._has_ended = False
        self._loss = ""
        self.waiting = WaitingRounds[Ended](self.session, self.detailed.windows, self._record_waiting)
        self.speed_parts = lambda rank: (self.waiting,)

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Store the rounds that have ended."""
        self.waiting.flush()
        super().flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run. Never raises."""
        self.waiting.flush()
        super().close(timeout_seconds, is_interrupted=is_interrupted)

    def training_ended(self, training: object) -> None:
        """Record all rounds, and leave the run without a holder: a further training is not captured."""
        self.waiting.flush()
        if training is self._training:
            self._training, self._has_ended = None, True

    def is_ours(self, training: object) -> bool:
        """Return True if the run holds this training, or may begin with it."""
        if training is self._training:
            return True
        if in_charge.is_others(self):
            return False
        if self._training is not None or self._has_ended:
            self.session.guard.warn_once("further", self.further)
            return False
        self._training = training
        return True

    def end_round(self, ended: Ended, learning: Callable[[], Learning]) -> None:
        """Capture a round of the training that is ours.

        Args:
            ended: The round.
            learning: Returns the facts about the training; called at the first round.
        """
        is_usual = self.session.has_begun and not ended.is_last
        if is_usual and self._may_lag and self.waiting.take(ended):
            return
        with self.waiting.alone() as may_record, self.session.statistics.budget.together(1) as overhead:
            if may_record:
                self._capture(ended, learning, overhead)
            else:
                self.waiting.add(ended)

    @property
    def _may_lag(self) -> bool:
        """True if nobody needs to know of a round right at its end: neither the script nor a rehearsal."""
        return self.progressed is None and self.rehearsed is None

    def _record_waiting(self, rounds: deque[Ended]) -> None:
        """Record rounds in which nothing is due."""
        with self.session.statistics.budget.together(len(rounds)) as overhead:
            while rounds:
                ended = rounds.popleft()
                self.session.guard.attempt("capturing a round", functools.partial(self._record, ended, overhead))

    def _record(self, ended: Ended, overhead: float | None) -> None:
        self._add_losses(ended, overhead)
        self.end_step(Moment(ended.wall_time, overhead))

    def _begin(self, found: Learning) -> None:
        session, environment = self.session, self.session.environment
        session.read_request()
        rank = found.rank or Rank(environment.rank, environment.world_size)
        self._loss = found.loss
        self.begin_run(rank, found.facts(rank), first_step=found.first_step)

    def _capture(self, ended: Ended, learning: Callable[[], Learning], overhead: float | None) -> None:
        session, engine = self.session, self.session.engine
        if not session.has_begun:
            self._begin(learning())
        self._add_losses(ended, overhead)
        kinds = self._requested() if ended.is_last else engine.due.kinds
        for kind, source in ended.sources().items() if kinds else ():
            if kind in kinds:
                add = functools.partial(self._add, kind, source, is_due=ended.is_last)
                session.guard.attempt(f"saving the collection {kind}", add)
        self.end_step(Moment(ended.wall_time, overhead))
        self.note_progress()  # the script's own callbacks have run, and saved the model of this round

    def _add_losses(self, ended: Ended, overhead: float | None) -> None:
        """Add the metrics that the open step saves, and the losses; record those of the other sets.

        Of a training without a metric that falls, as most rankings are, every metric is recorded in their place.
        """
        engine, statistics = self.session.engine, self.session.statistics
        metrics, trained_on = ended.evaluated()
        for name, number in ended.numbers.items():
            statistics.recorder.numbers.added[name, "mean"] = number
        self._save_metrics(metrics, trained_on)
        has_evaluation = False
        for metric in metrics:
            if metric.name == self._loss:
                is_training = metric.of_set == trained_on
                statistics.add_loss(loss_name(metric.name), metric.value, mode="TRAIN" if is_training else "EVAL")
                has_evaluation = has_evaluation or not is_training
            elif not self._loss:
                statistics.recorder.numbers.added[metric.tensor_name, "mean"] = metric.value
        if has_evaluation and statistics.is_on:  # of the same round, whose model it measures
            moment = Moment(ended.wall_time, overhead)
            statistics.recorder.end_step(step=engine.step, mode="EVAL", mode_step=engine.step, ended=moment)

    def _save_metrics(self, metrics: Sequence[Metric], trained_on: str) -> None:
        engine = self.session.engine
        open_step, due = engine.open_step, engine.due
        for metric in metrics if due is not NOTHING_DUE else ():
            if open_step.wants(metric.tensor_name, collections=metric.collections):
                open_step.add(metric.tensor_name, np.array([metric.value]), collections=metric.collections)
            if metric.name == self._loss and metric.of_set == trained_on and due.losses and self.saves_losses:
                open_step.add_loss(loss_name(metric.name), np.array(metric.value, np.float64))

    def _requested(self) -> frozenset[str]:
        return frozenset(collection.name for collection in self.session.request.collections)

    def _add(self, kind: str, source: Source, *, is_due: bool) -> None:
        collections, open_step = frozenset({kind}), self.session.engine.open_step
        for name, array in source():
            if is_due or open_step.wants(name, collections=collections):
                open_step.add(name, np.array(array), collections=collections)


class HistoryReader:
    """Captures the rounds of a training that keeps every value of its metrics.

    Args:
        adapter: The adapter with the run.
    """

    def __init__(self, adapter: RoundsAdapter) -> None:
        self._adapter = adapter
        self._count = 0  # of rounds that are captured

    def read(self, training: object, found: History, learning: Callable[[], Learning]) -> None:
        """Capture the rounds that have ended since the last call.

        Args:
            training: The training; ignored if the run holds another one.
            found: The values so far.
            learning: Returns the facts about the training.
        """
        if not self._adapter.is_ours(training):
            return
        count = found.rounds
        if count < self._count:  # trained anew
            self._adapter.training_ended(training)
            self._adapter.is_ours(training)  # logs that it is left out
            return
        for number in range(self._count, count - found.holds_newest):
            metrics = [
                Metric(of_set, name, float(values[number]))
                for of_set, own in found.values.items()
                for name, values in own.items()
                if number < len(values)
            ]
            is_last = found.is_over and number == count - 1
            has_sources = is_last or not found.is_over  # rounds in between are not those of the whole model
            sources = functools.partial(found.sources_of, number, is_whole=has_sources)
            evaluated = functools.partial(Evaluated, metrics, found.trained_on)
            self._adapter.end_round(Ended(evaluated, sources, is_last), learning)
            self._count = number + 1


@dataclass(frozen=True)
class History:
    """All values of the metrics of a training so far.

    values        by set and metric
    trained_on    name of the set that is trained on
    sources       data of the model by collection
    data          returns data of the training set by collection, for the number of a round
    is_over       the training has ended, and the model is whole
    holds_newest  the newest round waits for the next call, since more of the model is known at the end
    """

    values: Mapping[str, Mapping[str, Sequence[float]]]
    trained_on: str
    sources: Mapping[str, Source] = field(default_factory=dict)
    data: Callable[[int], Mapping[str, Source]] = lambda number: {}
    is_over: bool = False
    holds_newest: bool = False

    def sources_of(self, number: int, *, is_whole: bool) -> Mapping[str, Source]:
        """Return the data of a round by collection.

        Args:
            number: The number of the round.
            is_whole: Those of the model are among them.
        """
        return {**self.data(number), **(self.sources if is_whole else {})}

    @property
    def rounds(self) -> int:
        """The number of rounds that have ended."""
        return max((len(values) for own in self.values.values() for values in own.values()), default=0)


def loss_name(metric: str) -> str:
    """Return the name of a loss as the rules find it: it ends with "loss"."""
    return metric if metric.lower().endswith("loss") else f"{metric}_loss"


def classes_among(labels: Any) -> tuple[int, ...]:
    """Return the number of labels of each class, by some that lie evenly apart among many.

    Nothing of labels that are not the first whole numbers, and of more than 20 classes.

    Args:
        labels: Of shape (rows,); None without any.
    """
    numbers = np.zeros(0) if labels is None else np.asarray(labels)
    numbers = numbers[:: 1 + len(numbers) // MOST_LABELS]
    if not numbers.size or numbers.min() < 0 or numbers.max() >= MOST_CLASSES or (numbers != np.floor(numbers)).any():
        return ()
    return tuple(np.bincount(numbers.astype(np.int64)).tolist())


def settings(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield `hyperparameters/<name>`, each as an array of one number or text, or of the items of a list."""
    for name, value in given.items():
        array = np.array(_number_or_text(value))
        yield f"hyperparameters/{name}", array.reshape(1) if array.ndim == 0 else array


def importances(kind: str, scores: Mapping[str, float]) -> Iterator[tuple[str, Any]]:
    """Yield `feature_importance/<kind>/<feature>`, with the sum 1."""
    total = sum(scores.values())
    for feature, score in scores.items():
        yield f"feature_importance/{kind}/{feature}", np.array([score / total if total else 0.0])


def _number_or_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value if isinstance(value, (bool, int, float)) else str(value)
    try:
        return float(value)
    except ValueError:
        return value
