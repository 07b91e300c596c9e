"""Numbers that a script or its trainer logs, recorded at the training step that they belong to.

A number that is logged after an optimizer's step, and before the next backward pass, is of that step. At rest, and
before the first step has ended, numbers wait for the next step that is recorded; of one name it gets their mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from trackside.capture.ground.guard import Guard
from trackside.capture.statistics.always_on import AlwaysOn
from trackside.capture.statistics.answers import Answers, Outcomes, answers_in, answers_of_trainer, other_values
from trackside.capture.statistics.budget import ThreadMeter
from trackside.capture.statistics.step_numbers import NumberSampler
from trackside.contracts.run.recorded_names import LOGGED

MOST_WAITING = 64  # names that wait for a run
WAIT_SECONDS = 0.05  # for a thread that is making rows
Key = tuple[str, str]


class Recorded(Protocol):
    """The statistics of a session, as `StepStatistics` has them."""

    is_on: bool
    recorder: AlwaysOn
    meter: ThreadMeter
    samplers: list[NumberSampler]


class Waiting:
    """Numbers that wait for their step: by name their sum and count."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, values: Mapping[str, float]) -> None:
        """Add numbers.

        Args:
            values: Numbers by our names.
        """
        for name, value in values.items():
            if name in self._sums or len(self._sums) < MOST_WAITING:
                total, count = self._sums.get(name, (0.0, 0))
                self._sums[name] = total + value, count + 1

    def take(self) -> dict[str, float]:
        """Return the means, and forget them."""
        sums, self._sums = self._sums, {}
        return {name: total / count for name, (total, count) in sums.items()}


class LoggedNumbers:
    """The receiver of the numbers that are logged during one run.

    Attributes:
        is_step_open: Returns True if what is logged now belongs to the open step; else it is of the one before.
        keep_answers: Called with a step and its answers; None where the user has not allowed to keep them.

    Args:
        statistics: The session's statistics.
        guard: Keeps errors of ours from the training.
    """

    def __init__(self, statistics: Recorded, guard: Guard) -> None:
        self._statistics, self._guard = statistics, guard
        self.is_step_open: Callable[[], bool] = lambda: True
        self.keep_answers: Callable[[int, Answers], None] | None = None
        self._outcomes = Outcomes()
        self._waiting, self._has_warned = Waiting(), False
        statistics.samplers.append(self._sample)

    def take(self, values: Mapping[str, Any], *, is_of_trainer: bool = False) -> None:
        """Record numbers. Those without a name of ours, and values that are no number, are left out.

        A warning says so once, unless they stand in the log of a trainer, which logs much else.

        Args:
            values: Numbers by the tool's names; anything that `float` takes.
            is_of_trainer: They stand in the log of a trainer.
        """

        def record() -> None:
            numbers = named(values, is_of_trainer=is_of_trainer)
            self._take(numbers)
            if not is_of_trainer and not self._has_warned and len(numbers) < len(values):
                self._warn_of(values)

        self._guard.attempt("recording logged numbers", record)

    def take_answers(self, given: Answers, *, is_whole: bool) -> None:
        """Record what groups of answers got, and keep some of the answers, if that is allowed.

        Args:
            given: The answers of a step.
            is_whole: Nobody else logs their rewards.
        """

        def record() -> None:
            self._take(self._outcomes.numbers_of(given, is_whole=is_whole))
            newest = self._statistics.recorder.newest
            if self.keep_answers is not None and newest is not None:
                self.keep_answers(newest.marks["step"], given)

        self._guard.attempt("recording answers", record)

    def take_of_trainer(self, trainer: Any) -> None:
        """Record the answers that a trainer is about to log, if it generates any.

        Args:
            trainer: A trainer of transformers or TRL.
        """

        def record() -> None:
            if (given := answers_of_trainer(trainer)) is not None:
                self.take_answers(given, is_whole=False)

        if self._statistics.is_on:
            self._guard.attempt("reading a trainer's answers", record)

    def begin(self) -> None:
        """Receive what is logged from now on, and what was logged before the first step."""
        _Receivers.now = self
        if early := _Receivers.early.take():
            self._waiting.add(early)

    def end(self) -> None:
        """Record what still waits with the newest step, and receive nothing more."""
        if _Receivers.now is self:
            _Receivers.now = None
        if self._waiting:
            self._guard.attempt("recording logged numbers", lambda: self._note(self._waiting.take()))

    def _take(self, numbers: Mapping[str, float]) -> None:
        if not numbers or not self._statistics.is_on or self._guard.is_off:
            return
        if self.is_step_open() or self._statistics.recorder.newest is None:
            self._waiting.add(numbers)
        else:
            self._note(numbers)

    def _warn_of(self, values: Mapping[str, Any]) -> None:
        from trackside.contracts.errors import did_you_mean
        from trackside.contracts.run.language_numbers import LANGUAGE_NUMBERS, OF_TRAINERS, names_of

        known = names_of([str(key) for key in values])
        for key, value in values.items():
            if value is None or (key in known and _number(value) is not None):
                continue
            self._has_warned = True
            ours = [number.name for number in LANGUAGE_NUMBERS if number.name not in OF_TRAINERS]
            why = (
                "its value is no number." if key in known else f"no rule knows the name. {did_you_mean(str(key), ours)}"
            )
            self._guard.warn_once("logged numbers", "trackside.log does not record %r: %s", str(key), why)
            return

    def _note(self, numbers: Mapping[str, float]) -> None:
        meter = self._statistics.meter
        is_metered = meter.is_on
        if is_metered:
            meter.enter()
        self._statistics.recorder.note(_keyed(numbers), wait_seconds=WAIT_SECONDS)
        if is_metered:
            meter.leave()

    def _sample(self, found: dict[Key, Any]) -> None:
        if self._waiting:
            found.update(_keyed(self._waiting.take()))


def log(values: Mapping[str, Any] | None = None, /, **named_values: Any) -> None:
    """Record numbers of the training step that the script is in: its reward, KL, entropy, lengths.

    A number that is logged after an optimizer's step, and before the next backward pass, is of that step. Names are
    ours (`reward`, `kl`, `entropy`, `answer_length`, `held_out_reward`, ...), or those under which TRL, verl, OpenRLHF
    and prime-rl log the same; the page "Watch a fine-tuning" lists them. Others are left out, and a warning names the
    first. Without a run nothing happens. Never raises.

    Args:
        values: Numbers by name, for names that are no identifiers: `{"completions/mean_length": 212.0}`.
        **named_values: Numbers by name: `reward=0.4, kl=0.02`. Of answers, `answers`, `rewards` and `prompts` are lists
            of one length, the answers to one prompt in a row: their reward and the shares of solved and unsolved groups
            follow from them, and `trackside run --show-samples` shows the worst.
    """
    receiver = _Receivers.now
    try:
        logged = {**(values or {}), **named_values}
        numbers, answers = other_values(logged), answers_in(logged)
        if receiver is not None and answers is not None:
            receiver.take_answers(answers, is_whole="reward" not in numbers)
        if receiver is not None:
            receiver.take(numbers)
        else:
            _Receivers.early.add(named(numbers))
    except Exception:  # noqa: BLE001 - a script's mapping may raise anything, and its training goes on
        return


def named(values: Mapping[str, Any], *, is_of_trainer: bool = False) -> dict[str, float]:
    """Return the numbers with a name of ours, by it.

    Args:
        values: Values by the tool's names.
        is_of_trainer: They stand in the log of a trainer.
    """
    from trackside.contracts.run.language_numbers import names_of  # a training that logs nothing does without its table

    found = {}
    for key, name in names_of([str(key) for key in values], is_of_trainer=is_of_trainer).items():
        number = _number(values.get(key))
        if number is not None:
            found[name] = number
    return found


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        detach = getattr(value, "detach", None)  # a tensor within a graph warns
        return float(detach() if callable(detach) else value)
    except Exception:  # noqa: BLE001 - an array of several numbers, or whatever a script's object raises
        return None


def _keyed(numbers: Mapping[str, float]) -> dict[Key, float]:
    """Return numbers with the keys of a row, and the count of those that are not finite, as of a loss."""
    found: dict[Key, float] = {}
    for name, value in numbers.items():
        found[LOGGED + name, "mean"] = value
        if not math.isfinite(value):
            found[LOGGED + name, "nonfinite_count"] = 1.0
    return found


class _Receivers:
    """The receiver of this process, and the numbers that were logged before it began."""

    now: LoggedNumbers | None = None
    early = Waiting()
