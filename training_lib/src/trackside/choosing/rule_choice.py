"""The choice of the rules for a run, by four words: add (`rule`), replace (`only`), tune (`set`), leave out (`skip`).

The words mean the same on the command line, in a rules file, in a configuration file and in an environment variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trackside.choosing.rule_text import HOW_TO_WRITE, parse_rule, split_rule
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.rule_catalogue import RuleCatalogue
from trackside.contracts.rule_request import PRESETS, RuleConfiguration

RULE, ONLY, SET, SKIP = WORDS = ("rule", "only", "set", "skip")
HOW_TO_WRITE_A_SETTING = "Write for example: --set vanishing-gradient.threshold=1e-8"
MOST_NAMED = 4


@dataclass(frozen=True)
class Word:
    """A text of the user, and its place in messages: `--skip overfit`, or a key of a file."""

    text: str
    where: str


@dataclass(frozen=True)
class Setting:
    """A value for a parameter. `rule` is "" where the user named none, which is clear if one rule was named."""

    rule: str
    parameter: str
    value: str
    where: str


@dataclass(frozen=True)
class Layer:
    """The rule words of one source. A later layer counts more than an earlier one.

    add       rules that judge beside the others
    only      rules that judge in place of all others
    settings  values of parameters
    skip      rules that do not judge
    requests  rules of a rule request, which replace all others; `requested_in` is its place
    """

    add: tuple[Word, ...] = ()
    only: tuple[Word, ...] = ()
    settings: tuple[Setting, ...] = ()
    skip: tuple[Word, ...] = ()
    requests: tuple[RuleConfiguration, ...] = ()
    requested_in: str = ""

    def __bool__(self) -> bool:
        return bool(self.add or self.only or self.settings or self.skip or self.requests)


NO_WORDS = Layer()


@dataclass(frozen=True)
class Chosen:
    """The chosen rules.

    rules        their configurations, with unique names
    is_default   True: the default rules judge, perhaps with other parameters, fewer or more of them
    difference   the difference from the default rules in one line; "" for none
    """

    rules: tuple[RuleConfiguration, ...]
    is_default: bool
    difference: str


@dataclass
class _Entry:
    rule: RuleConfiguration
    level: int
    where: str
    is_usual: bool = False
    tuned: dict[str, str] = field(default_factory=dict)


def layer_of_options(
    *, add: Sequence[str] = (), only: Sequence[str] = (), settings: Sequence[str] = (), skip: Sequence[str] = ()
) -> Layer:
    """Return the layer of the options of a command line.

    Raises:
        ConfigurationError: A `--set` is not RULE.PARAMETER=VALUE.
    """
    problems: list[Problem] = []
    read = [setting for text in settings if (setting := _setting(text, f"--set {text}", problems)) is not None]
    if problems:
        raise ConfigurationError(problems, subject="The command line")
    return Layer(_words("--rule", add), _words("--only", only), tuple(read), _words("--skip", skip))


def layer_of_document(
    document: Mapping[str, Any], *, where: str, problems: list[Problem], variables: bool = False
) -> Layer:
    """Return the layer of the words in a file's object: `rule`, `only` and `skip` are lists of texts, `set` an object.

    Args:
        document: The object; other keys are left alone.
        where: Place of the object, as in "pyproject.toml, tool.trackside".
        problems: Receives the problems found.
        variables: True: lists are texts with spaces between the words, as in environment variables.
    """
    lists: dict[str, tuple[Word, ...]] = {}
    for name in (RULE, ONLY, SKIP):
        place = _place(where, name, variables=variables)
        value = document.get(name, [])
        texts = value.split() if variables and isinstance(value, str) else value
        if isinstance(texts, str):
            texts = [texts]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            problems.append(Problem(place, "must be a list of texts.", f'For example: {name} = ["overfit"]'))
            continue
        lists[name] = tuple([Word(text, place) for text in texts])
    return Layer(
        lists.get(RULE, ()),
        lists.get(ONLY, ()),
        tuple(_settings(document.get(SET, {}), _place(where, SET, variables=variables), problems)),
        lists.get(SKIP, ()),
    )


def choose_rules(layers: Sequence[Layer], *, catalogue: RuleCatalogue, preset: str | None = None) -> Chosen:
    """Return the rules that the layers choose, the least important layer first.

    Args:
        layers: The words of each source.
        catalogue: The rules that exist.
        preset: Sense of all rules of the catalogue; None: each its own.

    Raises:
        ConfigurationError: Words are wrong. Lists every problem at once.
    """
    from trackside.choosing.preflight import with_names_of_their_own  # the command line reads words without it

    problems: list[Problem] = []
    usual = [rule for rule in catalogue.usual if catalogue.rules[rule].in_sense_of(preset or "") is not None]
    entries = [_Entry(RuleConfiguration(rule_id), 0, "", is_usual=True) for rule_id in usual]
    is_default = True
    for level, layer in enumerate(layers, 1):
        if layer.only or layer.requests:
            entries, is_default = [], False
        entries += [_Entry(rule, level, layer.requested_in) for rule in layer.requests]
        for word in (*layer.only, *layer.add):
            _add(entries, word, level, problems)
        for word in layer.skip:
            entries = _without(entries, word, catalogue, problems)
    if preset is not None:
        for one in entries:
            one.rule = _in_sense_of(preset, one.rule)
    for level, layer in enumerate(layers, 1):
        for setting in layer.settings:
            _set(entries, setting, level, catalogue, problems, is_newest=level == len(layers))
    problems += [problem for one in entries for problem in _problems(one, catalogue)]
    if not entries and not problems:
        problems.append(Problem("rules", "No rule is left to judge.", "Leave out a --skip."))
    if problems:
        raise ConfigurationError(problems, subject="The choice of rules")
    rules = with_names_of_their_own([one.rule for one in entries])
    return Chosen(rules, is_default, _difference(usual, entries, is_default=is_default))


def _words(option: str, texts: Sequence[str]) -> tuple[Word, ...]:
    return tuple([Word(text, f"{option} {text}") for text in texts])


def key_place(where: str, key: str) -> str:
    """Return the place of a key in messages: "trackside.toml, skip", "pyproject.toml, tool.trackside.skip"."""
    return f"{where}.{key}" if "," in where else f"{where}, {key}"


def _place(where: str, name: str, *, variables: bool) -> str:
    return f"{where}{name.upper()}" if variables else key_place(where, name)


def _setting(text: str, where: str, problems: list[Problem]) -> Setting | None:
    """Return the setting in RULE.PARAMETER=VALUE, or in PARAMETER=VALUE."""
    target, equals, value = text.partition("=")
    rule, _, parameter = target.strip().rpartition(".")
    if not equals or not parameter:
        problems.append(Problem(where, "is not RULE.NAME=VALUE.", HOW_TO_WRITE_A_SETTING))
        return None
    return Setting(rule, parameter, value.strip(), where)


def _settings(value: object, where: str, problems: list[Problem]) -> Iterator[Setting]:
    """Yield the settings of `{"overfit": {"patience": 3}}`, of `{"overfit.patience": 3}`, or of a text."""
    if isinstance(value, str):
        found = [_setting(text, where, problems) for text in value.split()]
        yield from [setting for setting in found if setting is not None]
        return
    if not isinstance(value, Mapping):
        problems.append(Problem(where, "must hold values by rule and parameter.", "For example: overfit.patience = 3"))
        return
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from [Setting(str(name), str(key), _text(one), f"{where}.{name}.{key}") for key, one in inner.items()]
            continue
        rule, _, parameter = str(name).rpartition(".")
        if rule:
            yield Setting(rule, parameter, _text(inner), f"{where}.{name}")
        else:
            problems.append(Problem(f"{where}.{name}", "names no rule.", "For example: overfit.patience = 3"))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _add(entries: list[_Entry], word: Word, level: int, problems: list[Problem]) -> None:
    """Add the rule of a word; a rule of an earlier layer gets its parameters instead."""
    try:
        rule = parse_rule(word.text)
    except ValueError as error:
        problems.append(Problem(word.where, str(error), HOW_TO_WRITE))
        return
    for one in entries:
        if one.level < level and (one.rule.rule_id, one.rule.source) == (rule.rule_id, rule.source):
            one.rule = replace(one.rule, parameters={**one.rule.parameters, **rule.parameters})
            one.level, one.where = level, word.where
            one.tuned.update(rule.parameters)
            return
    entries.append(_Entry(rule, level, word.where))


def _without(entries: list[_Entry], word: Word, catalogue: RuleCatalogue, problems: list[Problem]) -> list[_Entry]:
    wanted = catalogue.id_of(split_rule(word.text)[1].strip())
    names = {name for one in entries for name in (one.rule.rule_id, one.rule.name)}
    if wanted not in names and wanted not in catalogue.rules:
        fix = did_you_mean(wanted, {*catalogue.rules, *names})
        problems.append(Problem(word.where, f"Unknown rule {wanted!r}.", _short(fix)))
    return [one for one in entries if wanted not in {one.rule.rule_id, one.rule.name}]


def _set(
    entries: Sequence[_Entry],
    setting: Setting,
    level: int,
    catalogue: RuleCatalogue,
    problems: list[Problem],
    *,
    is_newest: bool,
) -> None:
    """Set a parameter of a rule. A parameter that a later layer gave with the rule itself stays."""
    rule = catalogue.id_of(setting.rule)
    meant = [one for one in entries if rule in {one.rule.rule_id, one.rule.name}]
    if not rule:
        meant = [one for one in entries if one.level == level]
        if len(meant) != 1:
            what = "needs one --rule whose parameter it sets."
            problems.append(Problem(setting.where, what, f"Write --set RULE.{setting.parameter}={setting.value}"))
            return
    if not meant and rule not in catalogue.rules:
        fix = did_you_mean(rule, {*catalogue.rules, *(one.rule.name for one in entries)})
        problems.append(Problem(setting.where, f"Unknown rule {rule!r}.", _short(fix)))
    elif not meant and is_newest:
        what = f"{rule!r} does not judge, so that nothing can be set."
        problems.append(Problem(setting.where, what, f"Add it: --rule {rule}:{setting.parameter}={setting.value}"))
    elif not meant:  # a project's setting for a rule that is not judged this time
        unused = RuleConfiguration(rule, parameters={setting.parameter: setting.value})
        problems += [replace(problem, where=setting.where) for problem in catalogue.problems(unused)]
    for one in meant:
        if one.level > level and setting.parameter in one.rule.parameters:
            continue
        parameters = {**one.rule.parameters, setting.parameter: setting.value}
        alone = replace(one.rule, parameters={setting.parameter: setting.value})
        found = catalogue.problems(alone)
        problems += [replace(problem, where=setting.where) for problem in found]
        if not found:
            one.rule = replace(one.rule, parameters=parameters)
            one.tuned[setting.parameter] = setting.value


def _problems(one: _Entry, catalogue: RuleCatalogue) -> Iterable[Problem]:
    for problem in catalogue.problems(one.rule):
        yield replace(problem, where=one.where) if one.where else problem


def _in_sense_of(preset: str, rule: RuleConfiguration) -> RuleConfiguration:
    return rule if rule.custom else replace(rule, preset="" if preset == PRESETS[0] else preset)


def _short(fix: str) -> str:
    """Return the hint, without the list of all rules."""
    return fix if fix.startswith("Did") else "`trackside rules list` shows them all."


def _difference(usual: Sequence[str], entries: Sequence[_Entry], *, is_default: bool) -> str:
    names = [one.rule.name for one in entries]
    tuned = [f"{one.rule.name}.{name}={value}" for one in entries for name, value in one.tuned.items()]
    setting = f"; set: {_few(tuned)}" if tuned else ""
    if not is_default:
        return f"{_few(names)} only{setting}"
    added = [one.rule.name for one in entries if not one.is_usual]
    left_out = [rule for rule in usual if rule not in {one.rule.rule_id for one in entries}]
    if not (added or left_out or tuned):
        return ""
    parts = [f"without {_few(left_out)}" if left_out else "", f"with {_few(added)} added" if added else ""]
    return ", ".join([f"the {len(usual)} default rules", *filter(None, parts)]) + setting


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
