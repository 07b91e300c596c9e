"""The translation of rules for SageMaker Debugger into rules of Trackside.

Three sources exist: `DebugRuleConfigurations` and `ProfilerRuleConfigurations` of CreateTrainingJob, the SDK's
objects (`trackside.sagemaker`), and the environment of the managed rule container. Settings without a counterpart are
listed in `notes`, and mistakes in `problems`: nothing is dropped in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.capture_request import CollectionRequest
from trackside.contracts.errors import Problem, did_you_mean
from trackside.contracts.recipient import Recipient
from trackside.contracts.rule_catalogue import RuleCatalogue
from trackside.contracts.rule_request import (
    AWS_DOCS,
    AWS_SDK,
    CALIBRATED,
    CLASS_PARAMETER,
    PRESETS,
    SOURCE_PARAMETER,
    RuleConfiguration,
)
from trackside.contracts.run_layout import REPORT_KEY, RULE_OUTPUT, XGBOOST_REPORT_KEY
from trackside.documents.actions import (
    ACTION_PARAMETER,
    RequestedActions,
    entries_of,
    parse_action_json,
    read_actions,
    serialise,
)
from trackside.documents.hook import HookReading
from trackside.documents.profiler_rules import SCAN_INTERVAL, default_parameters, parameter_problems
from trackside.documents.rule_names import (
    DOCUMENTED_PARAMETERS,
    PARAMETER_ALIASES,
    RULE_IDS,
    KnownRule,
    known_rule,
    suggest_rule,
)
from trackside.documents.values import as_text, is_unset, note_unknown, read_boolean

PRESET_PARAMETER = "preset"
DEFAULT_IMAGE = "DEFAULT_RULE_EVALUATOR_IMAGE"
MOST_RULES, MOST_PARAMETERS, LONGEST_VALUE = 20, 100, 256  # what CreateTrainingJob takes

_AMAZONS_IMAGE = re.compile(r"(^|/)(sagemaker-debugger-rule|detailed-profiler-processing)")
_OTHER_TRIAL = re.compile(r"other_trial_(\d+)")
_RULE_KEYS = (
    "RuleConfigurationName",
    "RuleEvaluatorImage",
    "LocalPath",
    "S3OutputPath",
    "InstanceType",
    "VolumeSizeInGB",
    "RuleParameters",
)
_PLACE_KEYS = ("RuleEvaluatorImage", "LocalPath", "S3OutputPath", "InstanceType", "VolumeSizeInGB")
# In the rule container's environment beside the rule's parameters.
_ENVIRONMENT_NAME = re.compile(r"(?i)[a-z]*_proxy|_|terminfo")
_STOP_SIGNAL_FILE = "SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE"
# What the original's evaluator itself takes, whichever rule it runs.
_EVALUATOR_PARAMETERS = {
    "base_trial": "the run that is judged is the one that the request lies in",
    "start_step": "every step is judged",
    "end_step": "every step is judged",
    "rule_stop_grace_time_secs": "a rule ends when it has judged the last step",
}


@dataclass(frozen=True)
class RuleInput:
    """One rule as a source gives it.

    where        its place in the source, for problems
    name         name of its configuration
    parameters   values by name, of any type
    actions      entries of its actions; None: those in the parameter `action_json`
    collections  documents of its collections; None: not given
    place        image, instance and paths with which the original was to judge it
    of_profiler  True: from the list of profiler rules
    """

    where: str
    name: str
    parameters: Mapping[str, Any]
    actions: Sequence[Any] | None = None
    collections: Sequence[Any] | None = None
    place: Mapping[str, Any] = field(default_factory=dict)
    of_profiler: bool = False


@dataclass
class RuleReading:
    """The rules of one source during reading.

    catalogue      the rules to choose from
    source_preset  the source's preset
    preset         preset of rules without a parameter `preset`; "": `source_preset`
    problems       mistakes found so far
    notes          sentences about settings without a counterpart
    rules          rules that will be judged
    not_judged     rules that were checked and are not judged yet
    recipients     addresses for notifications
    """

    catalogue: RuleCatalogue
    source_preset: str
    preset: str
    problems: list[Problem]
    notes: list[str]
    rules: list[RuleConfiguration] = field(default_factory=list)
    not_judged: list[RuleConfiguration] = field(default_factory=list)
    recipients: dict[Recipient, None] = field(default_factory=dict)

    def read(self, given: RuleInput, *, hook: HookReading) -> None:
        """Read one rule. For a custom rule `hook` reads the collections: their schedules build on the hook's."""
        where = f"{given.where} ({given.name})" if given.name else given.where
        self._note_place(given)
        parameters = self._texts(given.parameters, where)
        requested = self._actions(given, parameters, where)
        source = parameters.pop(SOURCE_PARAMETER, "").strip()
        class_name = parameters.pop(CLASS_PARAMETER, "").strip()
        if not class_name:
            what = f"has no {CLASS_PARAMETER}, which names the rule."
            self.problems.append(Problem(where, what, "Name a rule such as 'VanishingGradient'."))
            return
        configuration = RuleConfiguration(
            class_name,
            name=self._own_name(given.name or class_name),
            parameters=parameters,
            actions=requested.actions,
            source=source,
        )
        self.recipients |= dict.fromkeys(requested.recipients)
        if requested.job_prefix:
            self.notes.append(
                f"{configuration.name}: the prefix {requested.job_prefix!r} is not used. StopTraining stops the job "
                "that the rule judges, by its exact ARN."
            )
        if source:
            self._keep_custom(configuration, given, hook, where)
        else:
            self._keep_built_in(configuration, where)

    def _keep_custom(self, configuration: RuleConfiguration, given: RuleInput, hook: HookReading, where: str) -> None:
        if given.of_profiler:
            self.not_judged.append(configuration)
            return
        collections: list[CollectionRequest] = []
        for k, entry in enumerate(given.collections or ()):
            collections += hook.collection(entry, where=f"{where}.collections[{k}]")
        self.rules.append(replace(configuration, collections=tuple(collections)))

    def _keep_built_in(self, configuration: RuleConfiguration, where: str) -> None:
        class_name = configuration.rule_id
        known = known_rule(class_name)
        if known is None and class_name not in self.catalogue.rules:
            fix = suggest_rule(class_name)
            if fix.startswith("Known"):
                fix = f"{fix} A rule of your own needs its file, as {SOURCE_PARAMETER}."
            self.problems.append(Problem(where, f"Unknown rule {class_name!r}.", fix))
            return
        rule_id = known.rule_id if known else class_name
        parameters = dict(configuration.parameters)
        preset = self._preset(parameters, where)
        self._resolve_aliases(rule_id, parameters, where)
        configuration = replace(configuration, rule_id=rule_id, parameters=parameters)
        if known and known.is_profiler_rule:
            self._keep_profiler_rule(configuration, preset or self.source_preset, where)
        elif known and known.is_report:
            self.notes.append(
                f"{configuration.name} is no rule here: at the end of each XGBoost run its report is written, as "
                f"{RULE_OUTPUT}/{REPORT_KEY} and as {RULE_OUTPUT}/{XGBOOST_REPORT_KEY}."
            )
            self.not_judged.append(configuration)
        elif rule_id not in self.catalogue.rules:
            self._keep_missing(configuration, where)
        else:
            self._keep_judged(configuration, preset, known, where)

    def _keep_missing(self, configuration: RuleConfiguration, where: str) -> None:
        """Keep a rule that the original has and this Trackside lacks. Only the names of its parameters are checked."""
        known = (*DOCUMENTED_PARAMETERS.get(configuration.rule_id, ()), *_EVALUATOR_PARAMETERS)
        self.problems += [
            _unknown_parameter(name, configuration.rule_id, known, where)
            for name in configuration.parameters
            if name not in known and not _OTHER_TRIAL.fullmatch(name)
        ]
        self.notes.append(
            f"{configuration.name} will not be judged: this Trackside has no rule {configuration.rule_id!r} yet."
        )
        self.not_judged.append(configuration)

    def _keep_profiler_rule(self, configuration: RuleConfiguration, preset: str, where: str) -> None:
        given = {name: text for name, text in configuration.parameters.items() if not is_unset(text)}
        self.problems += parameter_problems(configuration.rule_id, given, where=where)
        if configuration.rule_id not in self.catalogue.rules:  # a report
            self.not_judged.append(replace(configuration, parameters=given, preset=preset))
            return
        usual = as_text(default_parameters(configuration.rule_id, preset=preset).get(SCAN_INTERVAL))
        if given.pop(SCAN_INTERVAL, usual) != usual:
            self.notes.append(f"{configuration.name}: {SCAN_INTERVAL} is not used: samples are judged as they come.")
        spelled = "" if preset == CALIBRATED else preset
        self.rules.append(replace(configuration, parameters=given, preset=spelled))

    def _keep_judged(self, configuration: RuleConfiguration, preset: str, known: KnownRule | None, where: str) -> None:
        rule = self.catalogue.rules[configuration.rule_id]
        if not preset:
            senses = (each for each in (self.source_preset, AWS_DOCS) if rule.in_sense_of(each) is not None)
            preset = next(senses, CALIBRATED)
            if preset == CALIBRATED:
                self.notes.append(f"{configuration.name} judges in Trackside's own sense, for it has no other.")
        described = rule.in_sense_of(preset)
        names = {parameter.name for parameter in described.parameters} if described else set()
        parameters = dict(configuration.parameters)
        actions = self._stops_on_fire(configuration, parameters, names, where)
        self._join_other_trials(parameters, names)
        for name, why in _EVALUATOR_PARAMETERS.items():
            if name not in names and parameters.pop(name, None) is not None:
                self.notes.append(f"{configuration.name}: {name} is not used: {why}.")
        for name in DOCUMENTED_PARAMETERS.get(configuration.rule_id, ()):
            if described and name not in names and parameters.pop(name, None) is not None:
                self.notes.append(f"{configuration.name}: {name} is not used: Trackside's rule does without it.")
        spelled = "" if preset == CALIBRATED else preset
        settled = replace(configuration, parameters=parameters, actions=actions, preset=spelled)
        self.problems += [_located(p, settled, where) for p in self.catalogue.problems(settled)]
        self.rules.append(settled)

    def _stops_on_fire(
        self, configuration: RuleConfiguration, parameters: dict[str, str], names: set[str], where: str
    ) -> tuple[Action, ...]:
        """Return the actions, with StopTraining if `stop_training_on_fire` is set.

        With that parameter the original's StalledTrainingRule stopped jobs itself.
        """
        key, prefix_key = "stop_training_on_fire", "training_job_name_prefix"
        if configuration.rule_id != "stalled-training":
            return configuration.actions
        if prefix_key not in names and parameters.pop(prefix_key, None) is not None:
            self.notes.append(
                f"{configuration.name}: {prefix_key} is not used: the job that the rule judges is stopped."
            )
        if key in names or key not in parameters:
            return configuration.actions
        stops = read_boolean(parameters[key])
        if stops is None:
            self.problems.append(Problem(f"{where}.{key}", f"must be true or false, but is {parameters[key]!r}."))
        del parameters[key]
        return tuple(dict.fromkeys((*configuration.actions, Action.STOP_TRAINING))) if stops else configuration.actions

    def _join_other_trials(self, parameters: dict[str, str], names: set[str]) -> None:
        """Join `other_trial_0`, `other_trial_1`, ... into `other_trials`, if the rule has only that."""
        numbered = {int(m[1]): name for name in parameters if (m := _OTHER_TRIAL.fullmatch(name)) and name not in names}
        if numbered and "other_trials" in names:
            runs = [parameters.pop(numbered[k]) for k in sorted(numbered)]
            parameters["other_trials"] = ",".join(filter(None, (parameters.get("other_trials"), *runs)))

    def _preset(self, parameters: dict[str, str], where: str) -> str:
        preset = (parameters.pop(PRESET_PARAMETER, "") or self.preset).strip()
        if preset and preset not in PRESETS:
            self.problems.append(
                Problem(f"{where}.{PRESET_PARAMETER}", f"{preset!r} is not known.", did_you_mean(preset, PRESETS))
            )
            return CALIBRATED
        return preset

    def _resolve_aliases(self, rule_id: str, parameters: dict[str, str], where: str) -> None:
        for alias, name in PARAMETER_ALIASES.get(rule_id, {}).items():
            if alias not in parameters:
                continue
            text = parameters.pop(alias)
            default = as_text(default_parameters(rule_id, preset=AWS_SDK)[name])
            if parameters.get(name, default) not in {default, text}:
                what = f"{alias!r} and {name!r} mean the same and differ: {text} and {parameters[name]}."
                self.problems.append(Problem(where, what, f"Give {name!r} alone."))
            parameters[name] = text

    def _actions(self, given: RuleInput, parameters: dict[str, str], where: str) -> RequestedActions:
        text = parameters.pop(ACTION_PARAMETER, None)
        if given.actions is not None:  # as in the SDK, they replace what stands in the parameters
            return read_actions(given.actions, where=f"{where}.actions", problems=self.problems)
        if text is None:
            return RequestedActions()
        place = f"{where}.{ACTION_PARAMETER}"
        entries = parse_action_json(text, where=place, problems=self.problems)
        return read_actions(entries, where=place, problems=self.problems)

    def _texts(self, raw: Any, where: str) -> dict[str, str]:
        if not isinstance(raw, Mapping):
            self.problems.append(Problem(where, f"must have its parameters in an object, but has {raw!r}."))
            return {}
        found = {}
        for name, value in raw.items():
            try:
                text = as_text(value)
            except ValueError as error:
                self.problems.append(Problem(f"{where}.{name}", str(error)))
                continue
            if text is not None:
                found[str(name)] = text
        return found

    def _note_place(self, given: RuleInput) -> None:
        used = {key: value for key, value in given.place.items() if value}
        image = str(used.get("RuleEvaluatorImage", ""))
        if image == DEFAULT_IMAGE or _AMAZONS_IMAGE.search(image):
            del used["RuleEvaluatorImage"]
        if used:
            places = ", ".join(f"{key} {value}" for key, value in used.items())
            self.notes.append(f"{given.name}: {places} is not used: rules are judged where Trackside is deployed.")

    def _own_name(self, name: str) -> str:
        """Return a unique name: the second `Name` becomes `Name-2`. Amazon refuses two rules of one name."""
        taken = {rule.name for rule in (*self.rules, *self.not_judged)}
        own, number = name, 1
        while own in taken:
            number += 1
            own = f"{name}-{number}"
        if own != name:
            self.notes.append(f"Two rules are named {name!r}: one is called {own!r} here.")
        return own


def _located(problem: Problem, rule: RuleConfiguration, where: str) -> Problem:
    """Return the catalogue's problem with the place in the user's document."""
    parameter = problem.where.removeprefix(rule.rule_id).removeprefix(rule.name)
    return replace(problem, where=f"{where}{parameter}" if parameter.startswith(".") else where)


def _unknown_parameter(name: str, rule_id: str, known: Iterable[str], where: str) -> Problem:
    return Problem(where, f"{RULE_IDS[rule_id]} has no parameter {name!r}.", did_you_mean(name, known))


def rule_inputs(documents: Any, *, where: str, problems: list[Problem]) -> list[RuleInput]:
    """Return the entries of `DebugRuleConfigurations` or `ProfilerRuleConfigurations`. Other values become problems."""
    if not isinstance(documents, (list, tuple)):
        problems.append(Problem(where, f"must be a list, but is {documents!r}."))
        return []
    of_profiler = where.startswith("Profiler")
    found = (
        rule_input(document, where=f"{where}[{k}]", problems=problems, of_profiler=of_profiler)
        for k, document in enumerate(documents)
    )
    return [each for each in found if each is not None]


def rule_input(document: Any, *, where: str, problems: list[Problem], of_profiler: bool = False) -> RuleInput | None:
    """Return one such entry, or None and a problem if it is none."""
    if not isinstance(document, Mapping):
        problems.append(Problem(where, f"must be an object, but is {document!r}."))
        return None
    note_unknown(document, _RULE_KEYS, where=where, problems=problems)
    name = document.get("RuleConfigurationName")
    if not isinstance(name, str) or not name:
        problems.append(Problem(f"{where}.RuleConfigurationName", f"must be a text, but is {name!r}."))
        name = ""
    parameters = document.get("RuleParameters")
    return RuleInput(
        where,
        name,
        {} if parameters is None else parameters,
        place={key: document.get(key) for key in _PLACE_KEYS},
        of_profiler=of_profiler,
    )


def environment_input(environment: Mapping[str, str], *, catalogue: RuleCatalogue, notes: list[str]) -> RuleInput:
    """Return the rule in the environment of a managed rule container: each parameter is a variable of its own.

    For a built-in rule, its parameters count. For a custom rule all variables with a small letter count, because the
    container's own variables have none.
    """
    class_name = environment.get(CLASS_PARAMETER, "").strip()
    small = {
        name: value
        for name, value in environment.items()
        if any(letter.islower() for letter in name) and not _ENVIRONMENT_NAME.fullmatch(name)
    }
    if class_name and not environment.get(SOURCE_PARAMETER):
        names = _parameter_names(class_name, catalogue)
        for name in sorted(set(small) - names) if names else ():
            hint = did_you_mean(name, names)
            near = f" {hint}" if hint.startswith("Did") else ""
            notes.append(f"The variable {name!r} is no parameter of {class_name} and is not used.{near}")
            del small[name]
    name = environment.get(_STOP_SIGNAL_FILE, "").rpartition("/")[2] or class_name
    return RuleInput("environment", name, small)


def _parameter_names(class_name: str, catalogue: RuleCatalogue) -> set[str]:
    """Return the names of a rule's parameters; empty if they are unknown."""
    known = known_rule(class_name)
    rule_id = known.rule_id if known else class_name
    generic = {CLASS_PARAMETER, ACTION_PARAMETER, PRESET_PARAMETER, *_EVALUATOR_PARAMETERS}
    generic |= {"stop_training_on_fire", "training_job_name_prefix"} if rule_id == "stalled-training" else set()
    if known and known.is_profiler_rule:
        own = set(default_parameters(rule_id, preset=AWS_DOCS)) | set(PARAMETER_ALIASES.get(rule_id, ()))
        return own | generic if rule_id != "profiler-report" else set()
    rule = catalogue.rules.get(rule_id)
    if rule is None:
        return set()
    described = (rule, *rule.presets.values())
    return {parameter.name for each in described for parameter in each.parameters} | generic


def rule_document(
    rule: RuleConfiguration, *, recipients: Iterable[Recipient] = (), image: str = DEFAULT_IMAGE
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the `DebugRuleConfiguration` for `rule`, and the reasons for which Amazon would refuse it.

    `Notify` becomes one entry for each of `recipients`; actions that the original lacks are left out.
    """
    custom = rule.custom
    parameters = dict(custom.parameters if custom else rule.parameters)
    if custom:
        parameters |= {SOURCE_PARAMETER: custom.source, CLASS_PARAMETER: custom.class_name}
    else:
        parameters[CLASS_PARAMETER] = RULE_IDS.get(rule.rule_id, rule.rule_id)
        if (rule.preset or CALIBRATED) != AWS_DOCS:
            parameters[PRESET_PARAMETER] = rule.preset or CALIBRATED
    addresses = tuple(recipients) if Action.NOTIFY in rule.actions else ()
    if entries := entries_of(RequestedActions(rule.actions, addresses)):
        parameters[ACTION_PARAMETER] = serialise(entries)
    too_long = [name for name, text in parameters.items() if len(text) > LONGEST_VALUE]
    problems = [
        Problem(f"{rule.name}.{name}", f"has {len(parameters[name])} characters; Amazon takes {LONGEST_VALUE}.")
        for name in too_long
    ]
    if len(parameters) > MOST_PARAMETERS:
        problems.append(Problem(rule.name, f"has {len(parameters)} parameters; Amazon takes {MOST_PARAMETERS}."))
    document = {"RuleConfigurationName": rule.name, "RuleEvaluatorImage": image, "RuleParameters": parameters}
    return document, problems
