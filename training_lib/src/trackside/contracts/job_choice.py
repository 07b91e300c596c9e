"""The settings of one training job in its tags or its environment: run, rules, and actions.

AWS's events carry tags and no environment, so tags are read first. Both are short (256 and 512 characters), and a tag
allows few signs besides letters and digits: no comma, quote, brace or asterisk. So short choices are written as words,
and longer ones as a reference to an object:

    trackside:run      s3://bucket/digits-01             the location of the run
                       s3://bucket/tuning-7/@job         each job with this value has a run of its own, by its name
    trackside:rules    vanishing-gradient:threshold=1e-8:relative_threshold=0.1 dead-relu@aws-docs
                       (`all`: the usual rules)
                       s3://bucket/any/rule-request.json, or ssm:/trackside/trackside/rules/strict
    trackside:actions  StopTraining Notify               for each rule that names no action itself (`none`: nothing)
    trackside:watch    no: never; status: only the job's states are recorded, and no rule judges it

Limits: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html and API_CreateTrainingJob.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.rule_catalogue import RuleCatalogue
from trackside.contracts.rule_request import CALIBRATED, PRESETS, RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY

TAG_PREFIX = "trackside:"
RUN_TAG, RULES_TAG, ACTIONS_TAG, WATCH_TAG = (f"{TAG_PREFIX}{name}" for name in ("run", "rules", "actions", "watch"))
RUN_VARIABLE, RULES_VARIABLE, ACTIONS_VARIABLE, WATCH_VARIABLE = (
    f"TRACKSIDE_{name}" for name in ("RUN", "RULES", "ACTIONS", "WATCH")
)
CAPTURE_VARIABLE = "TRACKSIDE_CAPTURE_REQUEST"
RESUMED_FROM_TAG = f"{TAG_PREFIX}resumed-from"  # of a job that we created: identity of the job that it continues

MOST_TAG_CHARACTERS = 256
MOST_VARIABLE_CHARACTERS = 512

CHOICE_NAME = "choice-of-rules"  # rule name in events about a wrong choice of a job; no rule has it
ALL_RULES, NO_ACTION = "all", "none"
STATUS_ONLY, UNWATCHED = "status", "no"

SSM_SCHEME = "ssm:"
_TAG_VALUE = re.compile(r"[\w .:/=+\-@]*")  # API_Tag: letters, blanks, numbers and these
_S3_REFERENCE = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<key>[^\s?#]+)")
_SSM_REFERENCE = re.compile(r"ssm:(?P<name>(/[A-Za-z0-9_.-]+){1,15})")  # API_PutParameter: at most fifteen levels
_RULE_WORD = re.compile(r"(?P<rule>[^\s:,@=]+)(@(?P<preset>[^\s:,@=]*))?(:(?P<pairs>.*))?", re.DOTALL)


@dataclass(frozen=True)
class JobChoice:
    """The settings of one job, as written; "" where a setting is absent.

    run      location of the run
    rules    words for rules, or a reference to a rule request
    actions  words for actions
    watch    "no" or "status"
    """

    run: str = ""
    rules: str = ""
    actions: str = ""
    watch: str = ""

    @property
    def is_judged(self) -> bool:
        """True if rules judge the run."""
        return bool(self.run) and self.watch not in (STATUS_ONLY, UNWATCHED)

    def filled_up(self, other: JobChoice) -> JobChoice:
        """Return these settings, with empty ones taken from `other`."""
        return JobChoice(**{name: value or getattr(other, name) for name, value in vars(self).items()})


def choice_in_tags(tags: Mapping[str, str]) -> JobChoice:
    """Return the settings in the tags of a training job."""
    return _choice(tags, RUN_TAG, RULES_TAG, ACTIONS_TAG, WATCH_TAG)


def choice_in_environment(environment: Mapping[str, str]) -> JobChoice:
    """Return the settings in the Environment of a training job."""
    return _choice(environment, RUN_VARIABLE, RULES_VARIABLE, ACTIONS_VARIABLE, WATCH_VARIABLE)


def _choice(given: Mapping[str, str], *names: str) -> JobChoice:
    return JobChoice(*[str(given.get(name, "")).strip() for name in names])


def is_tag_value(text: str) -> bool:
    """Return True if SageMaker accepts `text` as the value of a tag."""
    return len(text) <= MOST_TAG_CHARACTERS and _TAG_VALUE.fullmatch(text) is not None


@dataclass(frozen=True)
class S3Reference:
    """The S3 object of a rule request."""

    bucket: str
    key: str


@dataclass(frozen=True)
class ParameterReference:
    """The SSM parameter of a rule request."""

    name: str


def is_reference(text: str) -> bool:
    """Return True if `text` is an address in place of words, valid or not."""
    return text.startswith(SSM_SCHEME) or "://" in text


def read_reference(text: str, *, bucket: str, parameters_below: str) -> S3Reference | ParameterReference:
    """Return the object or parameter that `text` refers to.

    Args:
        text: The reference, `s3://...` or `ssm:...`.
        bucket: The bucket of permitted objects; they must be called rule-request.json.
        parameters_below: The path of permitted parameters.

    Raises:
        ConfigurationError: The deployment may not read it, or it is malformed.
    """
    if text.startswith(SSM_SCHEME):
        match = _SSM_REFERENCE.fullmatch(text)
        if match is None or not match["name"].startswith(f"{parameters_below.rstrip('/')}/"):
            fix = f"Parameters are read below {parameters_below}: {SSM_SCHEME}{parameters_below}/strict, for example."
            raise _refused(f"{text!r} is no parameter that this deployment reads.", fix)
        return ParameterReference(match["name"])
    match = _S3_REFERENCE.fullmatch(text)
    if match is None or match["bucket"] != bucket or not f"/{match['key']}".endswith(f"/{RULE_REQUEST_KEY}"):
        fix = f"Objects are read at s3://{bucket}/<any prefix>/{RULE_REQUEST_KEY}."
        raise _refused(f"{text!r} is no object that this deployment reads.", fix)
    return S3Reference(match["bucket"], match["key"])


def _refused(what: str, fix: str) -> ConfigurationError:
    return ConfigurationError([Problem(RULES_TAG, what, fix)], subject="The job's choice of rules")


def chosen_by_words(rules: str, actions: str, *, catalogue: RuleCatalogue) -> RuleRequest:
    """Return the request for the rules and actions that the words name. Without words, the usual rules.

    Raises:
        ConfigurationError: The words are wrong. Lists every problem of both texts at once.
    """
    problems: list[Problem] = []
    found = _read_rules(rules, catalogue, problems)
    requested_actions = _read_actions(actions, problems)
    for rule in found:
        problems += catalogue.problems(rule)
    _finish(problems)
    return RuleRequest(
        tuple(
            replace(rule, actions=DEFAULT_ACTIONS if requested_actions is None else requested_actions) for rule in found
        )
    )


def chosen_by_document(text: str | bytes, actions: str, *, catalogue: RuleCatalogue) -> RuleRequest:
    """Return the rules of a rule request. Rules without actions get those that the words name.

    Raises:
        ConfigurationError: The request or the words are wrong. Lists every problem at once.
    """
    problems: list[Problem] = []
    requested_actions = _read_actions(actions, problems)
    try:
        request = RuleRequest.from_json(text)
    except ConfigurationError as error:
        problems += error.problems
        request = RuleRequest(())
    else:
        if not request.rules:
            problems.append(Problem("rules", "is empty.", "Name at least one rule."))
    for rule in request.rules:
        problems += catalogue.problems(rule)
    _finish(problems)
    return RuleRequest(
        tuple(rule if rule.actions else replace(rule, actions=requested_actions or ()) for rule in request.rules)
    )


def read_actions(words: str) -> tuple[Action, ...] | None:
    """Return the actions that the words name, or None for no words.

    Raises:
        ConfigurationError: A word is unknown.
    """
    problems: list[Problem] = []
    found = _read_actions(words, problems)
    _finish(problems)
    return found


def words_of(request: RuleRequest, *, catalogue: RuleCatalogue) -> tuple[str, str] | None:
    """Return the (rules, actions) words that `chosen_by_words` reads as `request`; None if no tag can hold them."""
    if not request.rules or len({rule.actions for rule in request.rules}) != 1:
        return None
    words = (" ".join(_word(rule) for rule in request.rules), _actions_word(request.rules[0].actions))
    if not all(is_tag_value(text) for text in words):
        return None
    try:
        return words if chosen_by_words(*words, catalogue=catalogue) == request else None
    except ConfigurationError:
        return None


def _finish(problems: Iterable[Problem]) -> None:
    found = list(dict.fromkeys(problems))
    if found:
        raise ConfigurationError(found, subject="The job's choice of rules")


def _read_rules(text: str, catalogue: RuleCatalogue, problems: list[Problem]) -> list[RuleConfiguration]:
    found: dict[str, RuleConfiguration] = {}
    for word in text.split() or [ALL_RULES]:
        for rule in _read_word(word, catalogue, problems):
            if rule.name in found:
                fix = f"One with other parameters and a name of its own needs a reference to {RULE_REQUEST_KEY}."
                problems.append(Problem(RULES_TAG, f"{rule.name!r} stands there twice.", fix))
            found[rule.name] = rule
    return list(found.values())


def _read_word(word: str, catalogue: RuleCatalogue, problems: list[Problem]) -> Iterable[RuleConfiguration]:
    match = _RULE_WORD.fullmatch(word)
    if match is None:
        fix = "Write RULE[@PRESET][:NAME=VALUE]..., for example vanishing-gradient:threshold=1e-8."
        problems.append(Problem(RULES_TAG, f"{word!r} is no rule.", fix))
        return []
    preset = match["preset"] or ""
    if preset and preset not in PRESETS:
        problems.append(Problem(RULES_TAG, f"{word!r}: {preset!r} is no preset.", did_you_mean(preset, PRESETS)))
        return []
    parameters = _read_pairs(word, match["pairs"], problems)
    if match["rule"] != ALL_RULES:
        return [RuleConfiguration(catalogue.id_of(match["rule"]), parameters=parameters, preset=preset)]
    if parameters:
        problems.append(Problem(RULES_TAG, f"{word!r}: {ALL_RULES!r} takes no parameters."))
    return _usual(catalogue, preset)


def _usual(catalogue: RuleCatalogue, preset: str) -> list[RuleConfiguration]:
    offered = [rule for rule in catalogue.usual if catalogue.rules[rule].in_sense_of(preset) is not None]
    return [RuleConfiguration(rule, preset=preset) for rule in offered]


def _read_pairs(word: str, pairs: str | None, problems: list[Problem]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in re.split("[:,]", pairs) if pairs is not None else ():
        name, equals, value = pair.partition("=")
        if not equals or not name or name in found:
            what = "is set twice" if name in found else "is not NAME=VALUE"
            problems.append(Problem(RULES_TAG, f"{word!r}: {pair!r} {what}."))
        found[name] = value
    return found


def _read_actions(text: str, problems: list[Problem]) -> tuple[Action, ...] | None:
    words = text.replace(",", " ").split()
    if not words:
        return None
    if words == [NO_ACTION]:
        return ()
    known = {action.value: action for action in Action}
    for word in words:
        if word not in known:
            fix = did_you_mean(word, (*known, NO_ACTION))
            problems.append(Problem(ACTIONS_TAG, f"{word!r} is no action.", fix))
    return tuple(dict.fromkeys(known[word] for word in words if word in known))


def _word(rule: RuleConfiguration) -> str:
    preset = f"@{rule.preset}" if rule.preset and rule.preset != CALIBRATED else ""
    return rule.rule_id + preset + "".join(f":{name}={value}" for name, value in rule.parameters.items())


def _actions_word(actions: tuple[Action, ...]) -> str:
    if actions == DEFAULT_ACTIONS:
        return ""
    return " ".join(action.value for action in actions) or NO_ACTION
