"""The base class of rules: a frozen dataclass of parameters plus one pure method."""

from __future__ import annotations

import dataclasses
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Any, ClassVar, TypeGuard, cast, get_args, get_origin, get_type_hints

from trackside.contracts.capture_request import ALL, CollectionRequest
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.rule_catalogue import LifeCycle, ParameterDescription, RuleDescription
from trackside.contracts.rule_request import CALIBRATED
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.suspects import Suspects, suspected
from trackside.rules.advice import Advice
from trackside.situation.constants import PACES, SLOWEST_PACE
from trackside.trial.window import Window

_KINDS: dict[Any, str] = {float: "number", int: "integer", bool: "boolean", str: "text"}
_KINDS |= {kind.__name__: word for kind, word in _KINDS.items()}


def parameter(default: Any, help: str, *, minimum: float | None = None, maximum: float | None = None) -> Any:  # noqa: A002
    """Declare a parameter of a rule, once: parsing, validation, CLI help, docs and schema come from here.

    Args:
        default: The default value.
        help: One sentence for the user.
        minimum: The least value allowed; None for no limit.
        maximum: The largest value allowed; None for no limit.
    """
    return dataclasses.field(default=default, metadata={"help": help, "minimum": minimum, "maximum": maximum})


@dataclass(frozen=True)
class Rule(ABC):
    """A question about a run. Subclasses are frozen dataclasses; see `vanishing_gradient.py` for the shape.

    The facts about a rule are class attributes:

    rule_id              the name of the problem
    code                 short name that never changes and is never reused: `TS101`
    watches              collections it reads; it judges each step at which a tensor of them was saved
    save_interval        steps between saves of these collections, unless the user sets another interval
    severity             severity of its findings
    since                the release that it came with
    what_to_do           advice to the user, one sentence each; an `Advice` for some programs only
    patience             judged steps in a row with a finding before the evaluator opens an issue
    judges_every_step    True: it must judge every complete step in order, whatever was saved at it
    paced                True: it reads columns, and so sees earlier steps too. It judges every 10th step, of a long
                         run every 20th or 50th, and the last one, whatever was saved at them
    needs                collections to save instead of `watches` at `save_interval`; () if the always-on statistics
                         are enough
    judges_waiting       True: it judges the newest step again while no newer one comes
    judges_the_end       True: it judges the newest step again once the run has ended, for what was measured after it
    judges_speed         True: it reads the machine's metrics and the seconds of steps (`speed/speed_rule.py`)
    judges_until_found   True: it ends with its first issue, as Amazon's rules do. Other rules go on, and an issue
                         without further findings recovers
    escalates            True: an open issue whose findings become more severe is opened once more
    is_asked_for         True: it judges only if the user chooses it, since it needs settings
    is_of_networks       True: it judges layers, weights, gradients or optimizer steps, which a boosted model has not
    only_of              frameworks whose adapters record what it reads, as in `ProgramFacts.framework`; () for all
    numbers              names of recorded numbers: a run without any of them has nothing to judge; () for any run
    life_cycle           `preview` (new, off by default), `stable` or `deprecated`
    other_runs           name of the parameter that lists runs to compare with (paths or s3:// URIs, separated by
                         commas); `window.others` holds them
    likely_causes        possible causes of its findings
    suspects             what shows each cause (`trackside.evidence.suspects`); None: all of them, without evidence
    shows_its_cause      True: a finding is the first of them, observed in the program; no other cause is ranked
    presets              the presets that the class implements
    preset_defaults      parameter defaults by preset, if they differ from the class's own
    """

    rule_id: ClassVar[str]
    code: ClassVar[str] = ""
    watches: ClassVar[tuple[str, ...]]
    save_interval: ClassVar[int] = 500
    severity: ClassVar[Severity] = Severity.WARNING
    since: ClassVar[str] = ""
    what_to_do: ClassVar[tuple[str | Advice, ...]] = ()
    patience: ClassVar[int] = 1
    judges_every_step: ClassVar[bool] = False
    judges_the_end: ClassVar[bool] = False
    judges_speed: ClassVar[bool] = False
    judges_until_found: ClassVar[bool] = False
    paced: ClassVar[bool] = False
    judges_waiting: ClassVar[bool] = False
    needs: ClassVar[tuple[CollectionRequest, ...] | None] = None
    likely_causes: ClassVar[tuple[Cause, ...]] = ()
    suspects: ClassVar[Suspects | None] = None
    shows_its_cause: ClassVar[bool] = False
    presets: ClassVar[tuple[str, ...]] = (CALIBRATED,)
    is_asked_for: ClassVar[bool] = False
    is_of_networks: ClassVar[bool] = False
    only_of: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[tuple[str, ...]] = ()
    escalates: ClassVar[bool] = False
    life_cycle: ClassVar[LifeCycle] = LifeCycle.STABLE
    other_runs: ClassVar[str] = ""
    preset_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # by preset, where it is not the class's own

    @classmethod
    def is_watching(cls, collections: Set[str]) -> bool:
        """Return True if the rule judges a step with data in these collections. A rule that watches `all` judges any.

        Args:
            collections: Names of collections with data at the step.
        """
        return ALL in cls.watches or not collections.isdisjoint(cls.watches)

    @property
    def findings_in_a_row(self) -> int:
        """Judged steps in a row with a finding that open an issue; 1 for a rule with a parameter `patience`."""
        return 1 if "patience" in {field.name for field in dataclasses.fields(self)} else self.patience

    @abstractmethod
    def check(self, window: Window) -> Iterable[Finding]:
        """Return the findings at `window.step`; none if all is well. Pure: no clock, disk, network or randomness.

        Args:
            window: The run up to the step to judge.
        """

    def observes(self, findings: Sequence[Finding]) -> bool:
        """Return True if these findings are their first cause itself; see `shows_its_cause`.

        Args:
            findings: The findings of an issue, worst first.
        """
        return self.shows_its_cause

    def advice(self, facts: ModelFacts | None) -> tuple[str, ...]:
        """Return `what_to_do` without the advice that is not for a program like this one.

        Args:
            facts: The facts about the program; None if they are unknown.
        """
        program = facts.program if facts is not None else ProgramFacts()
        return tuple([str(one) for one in self.what_to_do if isinstance(one, str) or one.fits(program)])

    def lacks(self, window: Window) -> str:
        """Return the input that is still missing for an answer at this step; "" if none is.

        While input is missing, no finding does not mean that all is well. The text is a clause for a user: `two windows
        of 500 steps; the run has 320`. A run that ends with input missing is neither clean nor at fault: it could not
        be evaluated.

        Args:
            window: The run up to the step to judge.
        """
        return ""

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return why a program like this one has nothing that the rule judges; "" if it may have.

        A clause for a user: `no module of the model is a ReLU`. Called at the first step, and at the end of a run
        without a finding. Reasons that follow from the watched collections are added by the evaluator.

        Args:
            facts: The facts about the program.
        """
        return ""

    def is_over(self, opened: Finding, window: Window) -> bool:
        """Return True if an issue may be over, now that nothing is found.

        Args:
            opened: The leading finding of the issue, as it was when the issue opened.
            window: The run up to the judged step.
        """
        return True

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the verdict's message, if the rule has a better one than the evaluator; "" if not.

        Args:
            findings: The findings, worst first.
        """
        return ""

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return possible causes of these findings, likeliest first, with evidence if the rule can distinguish causes.

        Args:
            findings: The findings, worst first.
            window: The run up to the judged step.
        """
        if self.suspects is None:
            return tuple([Suspicion(cause) for cause in self.likely_causes])
        return suspected(self.suspects, findings, window)

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return the severity of these findings: the gravest of their grades, or the rule's if they have none.

        A rule whose severity follows from all findings together overrides it.

        Args:
            findings: The findings, worst first.
        """
        grades = [finding.grade for finding in findings if finding.grade is not None]
        return max(grades, key=lambda grade: grade.rank, default=self.severity)

    @classmethod
    def describe(cls, preset: str = CALIBRATED) -> RuleDescription:
        """Return the facts and parameters of this rule, as in the catalogue.

        Args:
            preset: The preset of the defaults.
        """
        return RuleDescription(
            rule_id=cls.rule_id,
            summary=(inspect.getdoc(cls) or "").split("\n", 1)[0],
            watches=cls.watches,
            save_interval=cls.save_interval,
            severity=cls.severity,
            since=cls.since,
            parameters=cls.parameters(preset),
            needs=cls.needs,
            is_asked_for=cls.is_asked_for,
            life_cycle=cls.life_cycle,
            code=cls.code,
        )

    @classmethod
    def parameters(cls, preset: str = CALIBRATED) -> tuple[ParameterDescription, ...]:
        """Return every declared parameter, in order.

        Args:
            preset: The preset of the defaults.
        """
        defaults = cls.preset_defaults.get(preset, {})
        return tuple(
            ParameterDescription(
                name=field.name,
                kind=_kind_of(cls, field),
                default=cast("float", defaults.get(field.name, field.default)),  # `parameter` always gives one
                help=field.metadata["help"],
                minimum=field.metadata["minimum"],
                maximum=field.metadata["maximum"],
            )
            for field in dataclasses.fields(cls)
        )

    @classmethod
    def from_parameters(cls, texts: Mapping[str, str], *, preset: str = CALIBRATED) -> Rule:
        """Return the rule with these parameters.

        Args:
            texts: Values by parameter name, as texts.
            preset: The preset of the defaults.

        Raises:
            ConfigurationError: Parameters are unknown or wrong; it lists every problem at once.
        """
        known = {description.name: description for description in cls.parameters()}
        values: dict[str, Any] = dict(cls.preset_defaults.get(preset, {}))
        problems = []
        for name, text in texts.items():
            if name not in known:
                what = f"Unknown parameter {name!r}."
                problems.append(Problem(where=cls.rule_id, what=what, fix=did_you_mean(name, known)))
                continue
            try:
                values[name] = known[name].parse(text)
            except ValueError as error:
                problems.append(Problem(where=f"{cls.rule_id}.{name}", what=str(error)))
        if problems:
            raise ConfigurationError(problems, subject="The rule request")
        return cls(**values)


@dataclass(frozen=True)
class FoldingRule(Rule):
    """A rule with a memory: it receives its state at each step, and the evaluator's progress stores it.

    The state is a frozen dataclass with fields of numbers, texts, truth values, enums, tuples of these, frozen
    dataclasses of these, and mappings from texts to any of them. It is the same however often
    the evaluator is restarted.
    """

    @abstractmethod
    def start(self) -> Any:
        """Return the state before the first step."""

    @abstractmethod
    def fold(self, state: Any, window: Window) -> tuple[Any, Iterable[Finding]]:
        """Return the state after `window.step`, and the findings at that step. Pure, like `check`.

        Args:
            state: The state before the step.
            window: The run up to the step to judge.
        """

    def check(self, window: Window) -> Iterable[Finding]:
        """Return the findings at a step, without a memory of earlier steps.

        Args:
            window: The run up to the step to judge.
        """
        return self.fold(self.start(), window)[1]

    def dump(self, state: Any) -> str:
        """Return the state as text.

        Args:
            state: The state.
        """
        return json.dumps(dataclasses.asdict(state))

    def load(self, text: str) -> Any:
        """Return the state that `dump` wrote; the first state for a text that does not fit. Never raises.

        Args:
            text: The text of a state.
        """
        start = self.start()
        try:
            kinds = _field_types(start.__class__)
            values = {name: _built(value, kinds.get(name)) for name, value in json.loads(text).items()}
            fits = all(_fits(value, kinds.get(name)) for name, value in values.items())
            return dataclasses.replace(start, **values) if fits else start
        except (ValueError, TypeError, AttributeError, RecursionError):  # an older state: starting anew is always safe
            return start


@lru_cache(maxsize=64)  # the same arguments come from all paced rules of a run
def is_paced_step(step: int, judged_through: int) -> bool:
    """Return True if a paced rule judges this step.

    The result depends on step numbers alone, so that a run is judged alike while it grows and afterwards.

    Args:
        step: The step.
        judged_through: The newest step that the rule has judged; -1 for none.
    """
    pace = next((every for limit, every in PACES if step <= limit), SLOWEST_PACE)
    return step // pace > judged_through // pace


def _kind_of(rule: type[Rule], field: dataclasses.Field[Any]) -> str:
    """Return the word for a parameter's type. Mostly the annotation is one of these words and need not be resolved."""
    return _KINDS.get(field.type) or _KINDS[get_type_hints(rule)[field.name]]


@cache
def _field_types(state: type) -> Mapping[str, Any]:
    """Return the types of a state's fields; none if the annotations cannot be resolved."""
    try:
        return get_type_hints(state)
    except (NameError, TypeError):  # a stranger's annotation that only a type checker can read
        return {}


def _fits(value: Any, kind: Any) -> bool:
    """Return True if a value from JSON is of the type. A type that states do not use accepts every value."""
    arguments, origin = get_args(kind), get_origin(kind)
    if origin is None:
        return not isinstance(kind, type) or _is_of(value, kind)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = arguments[:1] * len(value) if arguments[-1:] == (...,) else arguments
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if origin in {Mapping, dict} and len(arguments) == 2:
        return isinstance(value, dict) and all(_fits(one, arguments[1]) for one in value.values())
    return True


def _is_of(value: Any, kind: type) -> bool:
    if kind in {int, float}:
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if dataclasses.is_dataclass(kind):
        kinds = _field_types(kind)
        return isinstance(value, kind) and all(_fits(one, kinds.get(name)) for name, one in vars(value).items())
    return isinstance(value, kind) if kind in {bool, str} or issubclass(kind, Enum) else True


def _built(value: Any, kind: Any) -> Any:
    """Return a value from JSON as the enum or dataclass that the state holds. Raises TypeError or ValueError."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        kinds = _field_types(cast("type", kind))
        return cast("type", kind)(**{name: _built(one, kinds.get(name)) for name, one in value.items()})
    if get_origin(kind) in {Mapping, dict} and isinstance(value, dict) and len(get_args(kind)) == 2:
        return {name: _built(one, get_args(kind)[1]) for name, one in value.items()}
    return _frozen(value)


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_frozen(one) for one in value])
    return {name: _frozen(one) for name, one in value.items()} if isinstance(value, dict) else value


def ships_with_trackside(rule: Rule) -> bool:
    """Return True for a rule of Trackside's own, in any room; False for one of a file or another package.

    Where such a one is judged in a process of its own, a class of the evaluation stands for it.

    Args:
        rule: The rule.
    """
    module = type(rule).__module__
    return module.startswith("trackside.") and ".rules." in module


def is_rule(member: object) -> TypeGuard[type[Rule]]:
    """Return True for a class of rules that is not abstract.

    Args:
        member: Any object.
    """
    # `isinstance(member, type)` holds for `list[float]` on Python 3.10, and `issubclass` then refuses it.
    if not issubclass(type(member), type):
        return False
    return issubclass(cast("type", member), Rule) and not inspect.isabstract(member)
