"""Rules from files, each in a process of its own: a loop in C, a full memory or a crash ends one rule and no other."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import Pipe
from types import TracebackType
from typing import Any, ClassVar, cast

from trackside.contracts.cause import Suspicion
from trackside.contracts.errors import ConfigurationError, Problem, RuleEvaluationError
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.rule_catalogue import RuleDescription
from trackside.contracts.rule_request import CALIBRATED, RuleConfiguration
from trackside.contracts.verdict import Finding, Severity
from trackside.environment import inherited
from trackside.evaluation.rule_processes.rule_limits import RuleLimits
from trackside.evaluation.rule_processes.rule_messages import (
    PROFILE,
    Answer,
    Load,
    Question,
    Raised,
    Read,
    RuleFacts,
    SeenStep,
)
from trackside.rules.rule import FoldingRule, Rule
from trackside.rules.rule_file import load_rule
from trackside.trial.window import ProfileSource, TensorSource, Window

Source = TensorSource | ProfileSource

LOAD_SECONDS = 60.0  # until a file that is still being run is given up
QUESTION_SECONDS = 5.0  # for a question that the evaluator itself waits for
_END_SECONDS = 5.0  # until a killed process is gone
# The path as it is here: an option `-m` would put the working folder before it.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; from trackside.evaluation.rule_processes.rule_server import serve; "
    "serve(int(sys.argv[1]), int(sys.argv[2]))"
)


class RuleProcessEndedError(RuleEvaluationError):
    """The process of a rule ended, or did not answer in time."""


class _EndedOnPurposeError(BaseException):
    """Raised in the thread of a rule that `end` has ended. No `Exception`: the rule has not crashed."""


class RuleProcesses:
    """The processes of the rules of one evaluator. A context, which ends them all."""

    def __init__(self, limits: RuleLimits) -> None:
        self._limits = limits
        self._processes: list[RuleProcess] = []

    def __enter__(self) -> RuleProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.end()

    def load(self, configuration: RuleConfiguration) -> Rule:
        """Return the rule of a configuration with a file, judged in a process of its own.

        Errors: those of `load_rule`, and `ConfigurationError` for a file that ends its process or does not end.
        """
        if os.name != "posix":  # no descriptor can be handed to the process
            return load_rule(configuration)
        process = RuleProcess(configuration, memory_bytes=self._limits.memory_bytes)
        self._processes.append(process)
        return _remote_rule(process, process.facts)


class RuleProcess:
    """The process of one rule from a file.

    configuration  the rule's configuration, with a file
    memory_bytes   the most memory that the process may take

    Errors: as `RuleProcesses.load`.
    """

    def __init__(self, configuration: RuleConfiguration, *, memory_bytes: int) -> None:
        self._lock, self._is_ended = threading.Lock(), False
        self._connection, theirs = Pipe()
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(descriptor), str(os.getpid()), *sys.path],
                env={name: text for name, text in inherited().items() if name != "TRACKSIDE_RUN"},  # it is no training
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard output belongs to the evaluator
                pass_fds=[descriptor],
            )
        try:
            self.facts = cast("RuleFacts", self._exchange(Load(configuration, memory_bytes), {}, LOAD_SECONDS))
        except RuleProcessEndedError as error:
            source = configuration.custom.source if configuration.custom else configuration.name
            fix = "Look in it for a loop, or for something large, outside of its functions."
            raise ConfigurationError([Problem(source, f"cannot be loaded: {error}", fix)]) from error
        except ConfigurationError:
            self.end()
            raise

    def call(
        self, method: str, *arguments: Any, sources: Mapping[str, Source] | None = None, seconds: float = -1
    ) -> Any:
        """Return the rule's answer. Meanwhile the rule reads `sources`.

        seconds  the most to wait; below 0: until it answers or `end` is called

        Errors: those of the rule, under their names; `RuleProcessEndedError`.
        """
        return self._exchange(Question(method, arguments), sources or {}, seconds)

    def end(self) -> None:
        """End the process at once, wherever it is. Safe from any thread, and more than once."""
        self._is_ended = True
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)

    def _exchange(self, question: Load | Question, sources: Mapping[str, Source], seconds: float) -> Any:
        if not self._lock.acquire(timeout=seconds):
            raise RuleProcessEndedError("the rule is busy")
        try:
            self._connection.send(question)
            while True:
                if seconds >= 0 and not self._connection.poll(seconds):
                    self.end()
                    raise RuleProcessEndedError(f"it did not answer within {seconds:g} seconds")
                message = self._connection.recv()
                if not isinstance(message, Read):
                    break
                self._connection.send(_read(sources, message))
        except (EOFError, OSError) as error:
            if self._is_ended and seconds < 0:
                raise _EndedOnPurposeError from error
            raise RuleProcessEndedError(f"its process {self._how_it_ended()}") from error
        finally:
            self._lock.release()
        if isinstance(message, Raised):
            raise message.error()
        return cast("Answer", message).value

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            return "closed its connection"
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"


def _read(sources: Mapping[str, Source], read: Read) -> Answer | Raised:
    try:
        return Answer(getattr(sources[read.run], read.method)(*read.arguments, **read.named))
    except Exception as error:  # noqa: BLE001  it is raised in the rule, which may handle it
        return Raised.of(error)


class _RemoteRule(Rule):
    """A rule that runs in another process. One class for each rule, with the rule's own facts."""

    facts: ClassVar[RuleFacts]

    def __init__(self, process: RuleProcess) -> None:
        self.process = process
        vars(self).update(self.facts.parameters)

    @property
    def findings_in_a_row(self) -> int:
        return self.facts.findings_in_a_row

    @classmethod
    def describe(cls, preset: str = CALIBRATED) -> RuleDescription:
        return cls.facts.description

    def check(self, window: Window) -> Iterable[Finding]:
        return cast("tuple[Finding, ...]", self._call("check", window=window))

    def lacks(self, window: Window) -> str:
        return str(self._call("lacks", window=window)) if "lacks" in self.facts.answers else ""

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        if "nothing_to_judge" not in self.facts.answers:
            return ""
        return str(self.process.call("nothing_to_judge", facts, seconds=QUESTION_SECONDS))

    def sentence(self, findings: Sequence[Finding]) -> str:
        return str(self._call("sentence", tuple(findings))) if "sentence" in self.facts.answers else ""

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        if "suspicions" not in self.facts.answers:
            return super().suspicions(findings, window)
        return cast("tuple[Suspicion, ...]", self._call("suspicions", tuple(findings), window=window))

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        if "severity_of" not in self.facts.answers:
            return super().severity_of(findings)
        return cast("Severity", self._call("severity_of", tuple(findings)))

    def advice(self, facts: ModelFacts | None) -> tuple[str, ...]:
        if "advice" not in self.facts.answers:
            return super().advice(facts)
        return cast("tuple[str, ...]", self._call("advice", facts))

    def _call(self, method: str, *arguments: Any, window: Window | None = None) -> Any:
        if window is None:
            return self.process.call(method, *arguments)
        uri = getattr(window.source, "uri", "")
        seen = SeenStep(
            window.step, window.mode, window.now, window.newest_step_at, window.is_last, uri, tuple(window.others)
        )
        return self.process.call(
            method, *arguments, seen, sources={**window.others, "": window.source, PROFILE: window.profile}
        )


class _RemoteFoldingRule(_RemoteRule, FoldingRule):
    """A rule with a memory that runs in another process. The state is the text that the rule writes of it."""

    def start(self) -> str:
        return ""

    def fold(self, state: str, window: Window) -> tuple[str, Iterable[Finding]]:
        return cast("tuple[str, tuple[Finding, ...]]", self._call("fold", state, window=window))

    def check(self, window: Window) -> Iterable[Finding]:
        return self.fold("", window)[1]

    def dump(self, state: str) -> str:
        return state

    def load(self, text: str) -> str:
        return text


def _remote_rule(process: RuleProcess, facts: RuleFacts) -> Rule:
    base = _RemoteFoldingRule if facts.is_folding else _RemoteRule
    # Its module is this one: it does not ship with Trackside, so nothing learned about our rules applies to it.
    about = {**facts.attributes, "facts": facts, "__doc__": facts.description.summary, "__module__": __name__}
    kind: type[_RemoteRule] = type(facts.name, (base,), about)
    return kind(process)


def process_of(rule: Rule) -> RuleProcess | None:
    """Return the process of a rule; None for a rule that is judged in this one."""
    return rule.process if isinstance(rule, _RemoteRule) else None
