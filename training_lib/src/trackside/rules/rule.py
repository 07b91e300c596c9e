"""What a rule is: a frozen dataclass of its parameters plus one pure method."""

from __future__ import annotations

import dataclasses
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar, TypeGuard, cast, get_args, get_origin, get_type_hints

from trackside.contracts.capture_request import ALL, CollectionRequest
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.rule_catalogue import LifeCycle, ParameterDescription, RuleDescription
from trackside.contracts.rule_request import CALIBRATED
from trackside.contracts.verdict import Finding, Severity
from trackside.trial.window import Window

_KINDS: dict[Any, str] = {float: "number", int: "integer", bool: "boolean", str: "text"}
_KINDS |= {kind.__name__: word for kind, word in _KINDS.items()}
_PACES = ((500, 10), (2_000, 20))  # (up to this step, judge at every so many); every `_SLOWEST_PACE` from there on
_SLOWEST_PACE = 50


def parameter(default: Any, help: str, *, minimum: float | None = None, maximum: float | None = None) -> Any:  # noqa: A002
    """Declares a parameter of a rule, once: parsing, validation, CLI help, docs and schema come from here."""
    return dataclasses.field(default=default, metadata={"help": help, "minimum": minimum, "maximum": maximum})


@dataclass(frozen=True)
class Rule(ABC):
    """A question about a run. Subclasses are frozen dataclasses; see `vanishing_gradient.py` for the shape.

    Facts are class attributes: `rule_id` names the problem; `watches` names the collections it reads, and it judges
    each step at which one of them was saved; `save_interval` is how often they should be saved when the user says
    nothing; `since` is the release that it came with; `patience` is how many judged steps in a row must show a finding
    before the evaluator says so.
    `judges_every_step` is for a rule that must be shown every complete step in order, whatever was saved at it.

    A rule that reads columns, and so sees at one step what happened at those before, is `paced`: it is asked at every
    10th step, of a long run at every 20th or 50th, and at the last, whatever was saved there. `needs` says what must be
    saved where `watches` at `save_interval` does not: `()` for a rule to which the always-on statistics are enough.

    `judges_waiting` is for a rule that must be asked about the newest step again while no other comes.
    `judges_until_found` is for a rule that ends with its first issue, as Amazon's do; others go on, and an issue that
    has gone has recovered.

    `is_asked_for` is for a rule that judges only where somebody chose it: it needs to be told what to look at.
    `life_cycle` is `preview` for a new rule, which is off by default, `stable`, or `deprecated`.

    `other_runs` names the parameter that lists runs to compare with (paths or s3:// URIs, separated by commas); they
    are found in `window.others`.

    `likely_causes` lead from what was found to what may be wrong; `presets` names in whose sense the class judges.
    """

    rule_id: ClassVar[str]
    watches: ClassVar[tuple[str, ...]]
    save_interval: ClassVar[int] = 500
    severity: ClassVar[Severity] = Severity.WARNING
    since: ClassVar[str] = ""
    what_to_do: ClassVar[tuple[str, ...]] = ()
    patience: ClassVar[int] = 1
    judges_every_step: ClassVar[bool] = False
    judges_until_found: ClassVar[bool] = False
    paced: ClassVar[bool] = False
    judges_waiting: ClassVar[bool] = False
    needs: ClassVar[tuple[CollectionRequest, ...] | None] = None
    likely_causes: ClassVar[tuple[Cause, ...]] = ()
    presets: ClassVar[tuple[str, ...]] = (CALIBRATED,)
    is_asked_for: ClassVar[bool] = False
    life_cycle: ClassVar[LifeCycle] = LifeCycle.STABLE
    other_runs: ClassVar[str] = ""
    preset_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # by preset, where it is not the class's own

    @classmethod
    def is_watching(cls, collections: Set[str]) -> bool:
        """True if it judges a step at which something of these collections was saved; `all` watches whatever is."""
        return ALL in cls.watches or not collections.isdisjoint(cls.watches)

    @property
    def findings_in_a_row(self) -> int:
        """How many judged steps in a row must show a finding; 1 for a rule whose parameter is named `patience`."""
        return 1 if "patience" in {field.name for field in dataclasses.fields(self)} else self.patience

    @abstractmethod
    def check(self, window: Window) -> Iterable[Finding]:
        """What is wrong at `window.step`; nothing if all is well. Pure: no clock, disk, network or randomness."""

    def lacks(self, window: Window) -> str:
        """What is still missing before finding nothing at this step means that all is well; empty: nothing is.

        A clause for a user: `two windows of 500 steps; the run has 320`. A run that ends while something is missing is
        neither clean nor at fault: it could not be evaluated.
        """
        return ""

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Why a program like this one has nothing that the rule judges; empty: it may have.

        A clause for a user: `no module of the model is a ReLU`. Asked at the first step, and at the end where nothing
        was found. What follows from the collections that it watches need not be said here.
        """
        return ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """The verdict's message, worst finding first, where the rule knows better words; empty: it does not."""
        return ""

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """What is likely behind these findings, likeliest first; a rule that can tell causes apart says by what."""
        return tuple([Suspicion(cause) for cause in self.likely_causes])

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """How bad these findings are; a rule may be less sure of some than of others."""
        return self.severity

    @classmethod
    def describe(cls, preset: str = CALIBRATED) -> RuleDescription:
        """The facts and parameters of this rule, as they stand in the catalogue."""
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
        )

    @classmethod
    def parameters(cls, preset: str = CALIBRATED) -> tuple[ParameterDescription, ...]:
        """Every declared parameter, in order, with the defaults of that preset."""
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
        """The rule with these parameters, given as texts. Errors: `ConfigurationError` with every problem at once."""
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
    """A rule that must remember what it saw: its state is handed to it, and stored with the evaluator's progress.

    The state is a frozen dataclass whose fields are numbers, texts, truth values, tuples of these, and mappings from
    texts to these. It is the same however often the evaluator is restarted.
    """

    @abstractmethod
    def start(self) -> Any:
        """The state before the first step."""

    @abstractmethod
    def fold(self, state: Any, window: Window) -> tuple[Any, Iterable[Finding]]:
        """The state after `window.step`, and what is wrong there. Pure, as `check` is."""

    def check(self, window: Window) -> Iterable[Finding]:
        """What is wrong at a step, seen without any step before it."""
        return self.fold(self.start(), window)[1]

    def dump(self, state: Any) -> str:
        """The state as text."""
        return json.dumps(dataclasses.asdict(state))

    def load(self, text: str) -> Any:
        """The state that `dump` wrote; that of the start where it is of another kind. Never raises."""
        start = self.start()
        try:
            values = {name: _frozen(value) for name, value in json.loads(text).items()}
            kinds = _field_types(start.__class__)
            fits = all(_fits(value, kinds.get(name)) for name, value in values.items())
            return dataclasses.replace(start, **values) if fits else start
        except (ValueError, TypeError, AttributeError, RecursionError):  # an older state: starting anew is always safe
            return start


@lru_cache(maxsize=64)  # all paced rules of a run are asked the same
def is_paced_step(step: int, judged_through: int) -> bool:
    """Whether a paced rule that was asked up to `judged_through` (-1: never) is asked at this step.

    A question of step numbers alone, so that a run is judged alike while it grows and afterwards.
    """
    pace = next((every for limit, every in _PACES if step <= limit), _SLOWEST_PACE)
    return step // pace > judged_through // pace


def _kind_of(rule: type[Rule], field: dataclasses.Field[Any]) -> str:
    """The word for a parameter's type: mostly one of these as it is written, which need not be resolved."""
    return _KINDS.get(field.type) or _KINDS[get_type_hints(rule)[field.name]]


@cache
def _field_types(state: type) -> Mapping[str, Any]:
    """The types of its fields; none where they cannot be told."""
    try:
        return get_type_hints(state)
    except (NameError, TypeError):  # a stranger's annotation that only a type checker can read
        return {}


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value as JSON gives it is of the type; of a type that is none of a state's, nothing is said."""
    if kind in {int, float}:
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if kind in {bool, str}:
        return isinstance(value, kind)
    arguments, origin = get_args(kind), get_origin(kind)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = arguments[:1] * len(value) if arguments[-1:] == (...,) else arguments
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if origin in {Mapping, dict} and len(arguments) == 2:
        return isinstance(value, dict) and all(_fits(one, arguments[1]) for one in value.values())
    return True


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_frozen(one) for one in value])
    return {name: _frozen(one) for name, one in value.items()} if isinstance(value, dict) else value


def is_rule(member: object) -> TypeGuard[type[Rule]]:
    """True for a class that can be built and asked."""
    # `isinstance(member, type)` holds for `list[float]` on Python 3.10, and `issubclass` then refuses it.
    if not issubclass(type(member), type):
        return False
    return issubclass(cast("type", member), Rule) and not inspect.isabstract(member)
