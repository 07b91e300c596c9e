"""The adapter that lets Trackside's evaluator judge a rule written for smdebug.

Such a rule has hidden state: it gets every step from the first one on, in order, and all of them again after a restart
of the evaluator. The evaluator does not repeat earlier findings.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, cast

from smdebug import not_offered
from smdebug.core.tensor import StepState
from smdebug.exceptions import (
    MissingCollectionFiles,
    NoMoreData,
    NoMoreProfilerData,
    RuleEvaluationConditionMet,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from smdebug.rules.rule import Rule as SmdebugRule
from smdebug.trials.trial import Trial
from smdebug.trials.utils import create_trial
from trackside.contracts.errors import ConfigurationError, Problem, RecordError, StorageError, did_you_mean
from trackside.contracts.rule_catalogue import ParameterDescription
from trackside.contracts.rule_request import CALIBRATED
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule
from trackside.trial.window import Window

START, END = "start_step", "end_step"  # SageMaker restricts the trial to these steps
OTHER_TRIALS = "other_trials"
OTHER_TRIAL_PREFIX = "other_trial_"  # as SageMaker's SDK numbers their locations
ACTIONS = ("action_str", "action_json", "actions")
NO_DATA = (TensorUnavailableForStep, StepUnavailable, TensorUnavailable, NoMoreData, NoMoreProfilerData)

_logger = logging.getLogger(__name__)


class SmdebugAdapter:
    """The adapter that `trackside.rules.rule_file` uses to recognise and convert rules of smdebug."""

    def adapts(self, candidate: type) -> bool:
        """Return True for a class that inherits `smdebug.rules.Rule` and defines `invoke_at_step`."""
        return issubclass(candidate, SmdebugRule) and not inspect.isabstract(candidate)

    def adapt(self, candidate: type, *, watches: tuple[str, ...]) -> type[Rule]:
        """Return a rule of ours that runs a rule of class `candidate`."""
        file = inspect.getmodule(candidate)
        where = f"{candidate.__name__}.invoke_at_step" + (f" in {file.__file__}" if file and file.__file__ else "")
        facts = {
            "__doc__": inspect.cleandoc(vars(candidate).get("__doc__") or "")
            or f"The custom rule {candidate.__name__}.",
            "rule_id": candidate.__name__,
            "watches": watches,
            "candidate": candidate,
            "what_to_do": (f"See what {where} looks for, and what it logged in the evaluator's log.",),
        }
        return type(candidate.__name__, (EvaluatedRule,), facts)


adapter = SmdebugAdapter()


@dataclass(frozen=True)
class Fired:
    """One firing of a rule.

    step    the step
    worker  the worker with the file to look at
    reason  the last line that the rule logged, if any
    """

    step: int
    worker: str
    reason: str


@dataclass(frozen=True, eq=False)
class EvaluatedRule(Rule):
    """A custom rule written for smdebug. Made by `SmdebugAdapter.adapt`, one class for each class of the user's.

    Its severity is critical, so that the stop that its author requests is carried out.
    """

    save_interval = 100
    severity = Severity.CRITICAL
    since = ""  # only its author could set it
    judges_every_step = True
    candidate: ClassVar[type]

    arguments: Arguments
    replay: Replay
    _fired: dict[int, Fired] = field(default_factory=dict)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return the rule's finding up to this step. Raises the rule's own errors, and `StorageError`."""
        location = getattr(window.source, "uri", "")  # of a trial, or of what shares one between threads
        if not location:
            raise TypeError(f"A rule of smdebug judges stored runs only, not a {type(window.source).__name__}.")
        fired = self.replay.judge(location, window.step)
        if fired is None:
            return ()
        self._fired[fired.step] = fired
        numbers = {name: number for name, text in self.arguments.texts.items() if (number := _number(text)) is not None}
        finding = Finding(
            subject=self.rule_id,
            worker=fired.worker,
            step=fired.step,
            since_step=fired.step,
            measure="condition met",
            observed=1.0,
            relation=">",
            threshold=0.0,
            statistics=numbers,
        )
        return (finding,)

    def lacks(self, window: Window) -> str:
        """Return the missing data that kept the rule from judging this step; "" if it judged."""
        return self.replay.lacks

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return a sentence with the step of the firing and the rule's own reason."""
        fired = self._fired[findings[0].step]
        reason = f": {fired.reason.rstrip('.')}" if fired.reason else ""
        return f"The custom rule {self.rule_id} fired at step {fired.step}{reason}."

    @classmethod
    def parameters(cls, preset: str = CALIBRATED) -> tuple[ParameterDescription, ...]:
        """Return the parameters of its constructor beside the trials; all are texts."""
        taken = _taken(cls.candidate).values()
        return tuple(
            ParameterDescription(p.name, "text", "" if p.default in {p.empty, None} else str(p.default), _help(p))
            for p in taken
            if p.kind is not p.VAR_KEYWORD and p.name not in (*ACTIONS, OTHER_TRIALS)
        )

    @classmethod
    def from_parameters(cls, texts: Mapping[str, str], *, preset: str = CALIBRATED) -> EvaluatedRule:
        """Return the rule with these parameters.

        Raises:
            ConfigurationError: Its constructor does not take them.
        """
        arguments = _arguments(cls.candidate, texts)
        return cls(arguments, Replay(cls.candidate, arguments))


@dataclass(frozen=True)
class Arguments:
    """The arguments of the rule and of its trials.

    texts        for the constructor
    others       locations of other runs
    range_steps  (begin, end) of the trial; None: all steps
    """

    texts: Mapping[str, str]
    others: tuple[str, ...] = ()
    range_steps: tuple[int | None, int | None] | None = None

    def covers(self, step: int) -> bool:
        """Return False for a step outside `range_steps`."""
        begin, end = self.range_steps or (None, None)
        return (begin is None or begin <= step) and (end is None or step < end)


class Replay:
    """A replay that gives a rule each step of a run once and in order, and starts over if necessary."""

    def __init__(self, rule_class: type, arguments: Arguments) -> None:
        self._class, self._arguments = rule_class, arguments
        self._rule: SmdebugRule | None = None
        self._trial: Trial | None = None
        self._pending: deque[int] = deque()
        self._reported: set[int] = set()
        self.lacks = ""

    def judge(self, location: str, step: int) -> Fired | None:
        """Give the rule all steps up to this one that it has not seen; stop at the first at which it fires.

        If it could judge none of them, `lacks` holds the reason. Nothing waits. Raises the rule's own errors, and
        `StorageError`, after which the same step may be judged again.
        """
        self.lacks = ""
        if not self._arguments.covers(step):
            self.lacks = f"steps within {START} and {END}"
            return None
        try:
            rule = self._rule or self._start(location, step)
            if not self._pending or self._pending[-1] < step:
                self._pending.append(step)
            return self._show(rule, cast("Trial", self._trial))
        except _WouldWait as wait:
            self._rule = None  # it was interrupted in the middle of something: begin anew
            self.lacks = str(wait)
        except (MissingCollectionFiles, RecordError) as error:
            self.lacks = f"the collections files of all workers: {error}"
        except StorageError:
            self._rule = None
            raise
        return None

    def _start(self, location: str, step: int) -> SmdebugRule:
        with _waiting_for("the collections files of all workers"):
            trial = self._open(location)
            others = [self._open(other) for other in self._arguments.others]
        self._pending = deque(seen for seen in trial.steps() if seen < step)
        more = {OTHER_TRIALS: others} if others else {}
        with _waiting_for("steps that its constructor waits for"):
            rule = self._class(trial, **self._arguments.texts, **more)
        self._rule, self._trial = cast("SmdebugRule", rule), trial
        return self._rule

    def _open(self, location: str) -> Trial:
        return create_trial(location, range_steps=self._arguments.range_steps, sleep=_do_not_wait)

    def _show(self, rule: SmdebugRule, trial: Trial) -> Fired | None:
        judged, missed = False, ""
        while self._pending:
            step = self._pending[0]
            if trial.has_passed_step(step) is StepState.NOT_YET_AVAILABLE:
                missed = missed or f"step {step} of every worker"
                break
            reason = None
            try:
                reason = _invoke(rule, step)
                judged = True
            except NO_DATA as error:
                missed = f"what it reads to be saved; at step {step}: {error}"
            self._pending.popleft()
            if reason is not None and step not in self._reported:
                self._reported.add(step)
                return Fired(step, min(trial.workers_for_global_step[step]), reason)
        self.lacks = "" if judged else missed
        return None


def _invoke(rule: SmdebugRule, step: int) -> str | None:
    """Return None if all is well; if the rule fires, the last line that its own file logged, or ""."""
    with _words_of(rule) as words, _waiting_for("steps that the run has not reached"):
        try:
            rule.invoke(step)
        except RuleEvaluationConditionMet:
            return words.last
    return None


class _WouldWait(BaseException):
    """Raised in place of the original's sleep. No `Exception`: a rule's own handlers must not swallow it."""


def _do_not_wait(seconds: float) -> NoReturn:
    raise _WouldWait


@contextmanager
def _waiting_for(what: str) -> Iterator[None]:
    try:
        yield
    except _WouldWait:
        raise _WouldWait(what) from None


class _Words(logging.Handler):
    """A log handler that remembers the last line of one file."""

    def __init__(self, file: str) -> None:
        super().__init__(logging.INFO)
        self._file, self._thread, self.last = file, threading.get_ident(), ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.pathname == self._file and record.thread in {
            self._thread,
            None,
        }:  # other rules may run in other threads
            self.last = " ".join(record.getMessage().split())[:500]


@contextmanager
def _words_of(rule: SmdebugRule) -> Iterator[_Words]:
    """Yield a handler that remembers the last line that the rule's file logs, by any logger."""
    words = _Words(inspect.getfile(type(rule)))
    root = logging.getLogger()
    root.addHandler(words)
    try:
        yield words
    finally:
        root.removeHandler(words)


def _arguments(rule_class: type, texts: Mapping[str, str]) -> Arguments:
    taken = _taken(rule_class)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    others = sorted((n for n in texts if _is_other_trial(n)), key=lambda n: int(n.removeprefix(OTHER_TRIAL_PREFIX)))
    known = {n: p for n, p in taken.items() if p.kind is not p.VAR_KEYWORD}
    spare = [name for name in texts if name not in known and name not in (*others, START, END, *ACTIONS)]
    missing = [n for n, p in known.items() if p.default is p.empty and n not in texts and n not in ACTIONS]
    problems: list[Problem] = [] if takes_all else [_unknown(rule_class, name, known) for name in spare]
    problems += [_missing(rule_class, name) for name in missing if name != OTHER_TRIALS or not others]
    steps = _range_steps(rule_class, texts, problems)
    if problems:
        raise ConfigurationError(problems, subject="The rule request")
    if any(texts.get(name, "").strip() for name in ACTIONS):
        _logger.warning("%s is judged without its own actions: %s", rule_class.__name__, not_offered.ACTIONS)
    given = {name: text for name, text in texts.items() if name in known or name in spare}
    silenced = {n: "" for n, p in known.items() if n in ACTIONS and (n in texts or p.default is p.empty)}
    return Arguments({**given, **silenced}, tuple(texts[name] for name in others), steps)


def _unknown(rule_class: type, name: str, known: Iterable[str]) -> Problem:
    offered = [each for each in known if each not in ACTIONS]
    hint = did_you_mean(name, offered) if offered else "It takes none."
    return Problem(rule_class.__name__, f"Unknown parameter {name!r}.", hint)


def _missing(rule_class: type, name: str) -> Problem:
    if name != OTHER_TRIALS:
        return Problem(rule_class.__name__, f"The parameter {name!r} is missing.", "Give it a value.")
    fix = f"Give {OTHER_TRIAL_PREFIX}0=LOCATION, {OTHER_TRIAL_PREFIX}1=LOCATION, and so on."
    return Problem(rule_class.__name__, "It compares with other runs, and none is given.", fix)


def _range_steps(
    rule_class: type, texts: Mapping[str, str], problems: list[Problem]
) -> tuple[int | None, int | None] | None:
    bounds: list[int | None] = []
    for name in (START, END):
        text = texts.get(name, "").strip()
        if text and not text.isdecimal():
            what = f"must be a whole number from 0, but is {text!r}."
            problems.append(Problem(f"{rule_class.__name__}.{name}", what))
        bounds.append(int(text) if text.isdecimal() else None)
    begin, end = bounds
    if begin is not None and end is not None and begin >= end:
        problems.append(Problem(f"{rule_class.__name__}.{END}", f"must lie above {START}, which is {begin}."))
    return None if begin is None and end is None else (begin, end)


def _taken(rule_class: type) -> dict[str, inspect.Parameter]:
    """Return the parameters of the constructor after itself and the trial."""
    parameters = list(inspect.signature(rule_class).parameters.values())
    return {p.name: p for p in parameters[1:] if p.kind is not p.VAR_POSITIONAL}


def _is_other_trial(name: str) -> bool:
    return name.startswith(OTHER_TRIAL_PREFIX) and name.removeprefix(OTHER_TRIAL_PREFIX).isdecimal()


def _help(parameter: inspect.Parameter) -> str:
    return "of the constructor; must be given" if parameter.default is parameter.empty else "of the constructor"


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
