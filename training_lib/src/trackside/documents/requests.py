"""The translation of a CreateTrainingJob request for SageMaker Debugger into a rule request and a capture request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.recipient import Recipient
from trackside.contracts.rule_catalogue import RuleCatalogue, built_in_catalogue
from trackside.contracts.rule_request import AWS_DOCS, PRESETS, RuleConfiguration, RuleRequest
from trackside.contracts.run.profiling_request import ProfilingRequest, read_profiling_request
from trackside.documents.actions import DEBUGGERS
from trackside.documents.hook import MOST_COLLECTIONS, HookReading, hook_document
from trackside.documents.rule_names import RULE_IDS, known_rule
from trackside.documents.rules import (
    MOST_RULES,
    RuleInput,
    RuleReading,
    environment_input,
    rule_document,
    rule_inputs,
)
from trackside.documents.values import note_unknown

RULES, HOOK = "DebugRuleConfigurations", "DebugHookConfig"
PROFILER_RULES, PROFILER = "ProfilerRuleConfigurations", "ProfilerConfig"
TENSORBOARD = "TensorBoardOutputConfig"
DEBUGGER_KEYS = (RULES, HOOK, PROFILER_RULES, PROFILER, TENSORBOARD)
_ALWAYS_TIMED = ("DataloaderProfilingConfig", "HorovodProfilingConfig", "SMDataParallelProfilingConfig")
_INTERVALS = (100, 200, 500, 1000, 5000, 60_000)
DEFAULT_INTERVAL_MS = 500  # of SageMaker Debugger
_PROFILER_KEYS = ("S3OutputPath", "ProfilingIntervalInMilliseconds", "ProfilingParameters", "DisableProfiler")


@dataclass(frozen=True)
class Translation:
    """The requests that a configuration for SageMaker Debugger amounts to.

    request         rules that will be judged
    capture         collections to save
    not_judged      rules that were checked and are not judged yet
    recipients      addresses for e-mail or SMS; subscribe them to the deployment's topic, which notifies its
                    subscribers
    notes           a sentence for each setting without a counterpart
    s3_output_path  the hook's output path; "" if none is given
    """

    request: RuleRequest
    capture: CaptureRequest
    not_judged: tuple[RuleConfiguration, ...] = ()
    recipients: tuple[Recipient, ...] = ()
    notes: tuple[str, ...] = ()
    s3_output_path: str = ""


def read_training_job(document: Any, *, preset: str = "", catalogue: RuleCatalogue | None = None) -> Translation:
    """Translate a request of CreateTrainingJob, an answer of DescribeTrainingJob, or a part with the five keys.

    Args:
        document: The request as plain JSON values.
        preset: Preset of the rules without a parameter `preset`; "": the documentation's (`aws-docs`).
        catalogue: The rules to choose from; None: the built-in ones.

    Raises:
        ConfigurationError: The request is wrong. Lists every problem at once.
    """
    problems: list[Problem] = []
    if not isinstance(document, Mapping):
        problems.append(Problem("the whole of it", f"must be an object, but is {document!r}."))
        document = {}
    _note_misspelled(document, problems)
    inputs = [
        each
        for key in (RULES, PROFILER_RULES)
        for each in rule_inputs(document.get(key) or [], where=key, problems=problems)
    ]
    return translate(
        inputs,
        hook=document.get(HOOK),
        profiler=document.get(PROFILER),
        tensorboard=document.get(TENSORBOARD),
        source_preset=AWS_DOCS,
        preset=preset,
        catalogue=catalogue,
        problems=problems,
    )


def read_environment(
    environment: Mapping[str, str], *, preset: str = "", catalogue: RuleCatalogue | None = None
) -> Translation:
    """Translate the environment of a managed rule container, which runs one rule.

    Args:
        environment: The container's variables.
        preset: Preset of the rule, unless it has a parameter `preset`; "": the documentation's (`aws-docs`).
        catalogue: The rules to choose from; None: the built-in ones.

    Raises:
        ConfigurationError: The variables are wrong. Lists every problem at once.
    """
    catalogue = catalogue or built_in_catalogue()
    notes: list[str] = []
    given = environment_input(environment, catalogue=catalogue, notes=notes)
    return translate([given], hook=None, source_preset=AWS_DOCS, preset=preset, catalogue=catalogue, notes=notes)


def translate(
    inputs: Sequence[RuleInput],
    *,
    hook: Any,
    source_preset: str,
    profiler: Any = None,
    tensorboard: Any = None,
    preset: str = "",
    catalogue: RuleCatalogue | None = None,
    problems: list[Problem] | None = None,
    notes: list[str] | None = None,
) -> Translation:
    """Translate rules, hook, profiler and TensorBoard settings from any source.

    Args:
        inputs: The rules.
        hook: A `DebugHookConfig`. None: as in the original, losses are saved every 500 steps. False: only the
            collections that the rules need are saved.
        source_preset: Preset of rules from this source, where no other is given.
        profiler: A `ProfilerConfig`.
        tensorboard: A `TensorBoardOutputConfig`.
        preset: Preset of rules without a parameter `preset`; "": `source_preset`.
        catalogue: The rules to choose from; None: the built-in ones.
        problems: Problems found before.
        notes: Notes made before.

    Raises:
        ConfigurationError: The settings are wrong. Lists `problems` and every further one at once.
    """
    catalogue = catalogue or built_in_catalogue()
    problems = [] if problems is None else problems
    notes = [] if notes is None else notes
    if preset and preset not in PRESETS:
        problems.append(Problem("preset", f"{preset!r} is not known.", did_you_mean(preset, PRESETS)))
        preset = ""
    hooked = HookReading(problems, notes)
    if hook is not False:
        hooked.read(hook or {})
    reading = RuleReading(catalogue, source_preset, preset, problems, notes)
    for given in inputs:
        reading.read(given, hook=hooked)
        hooked.read_collections(given.collections or (), where=f"{given.where} ({given.name}).collections")
    machine_interval_ms, profiling = _read_profiler(profiler, problems, notes)
    capture = hooked.request()
    to_tensorboard = _read_tensorboard(tensorboard, problems, notes)
    if problems:
        unique = list(dict.fromkeys(problems))
        raise ConfigurationError(unique, subject="The configuration for SageMaker Debugger")
    if hook in (None, False):
        capture = replace(capture, include_workers=CaptureRequest().include_workers)
    capture = replace(capture, machine_interval_ms=machine_interval_ms, profiling=profiling)
    capture = catalogue.with_needs(capture, reading.rules, notes)
    _note_what_is_not_judged(reading, notes)
    return Translation(
        RuleRequest(tuple(reading.rules)),
        replace(capture, tensorboard=to_tensorboard) if to_tensorboard else capture,
        not_judged=tuple(reading.not_judged),
        recipients=tuple(reading.recipients),
        notes=tuple(dict.fromkeys(notes)),
        s3_output_path=hooked.s3_output_path,
    )


def training_job_document(
    request: RuleRequest,
    capture: CaptureRequest,
    *,
    s3_output_path: str,
    recipients: Iterable[Recipient] = (),
    image: str | None = None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the part of a CreateTrainingJob request for SageMaker Debugger, and notes on settings it lacks.

    Args:
        request: The rules.
        capture: The collections to save.
        s3_output_path: The hook's output path.
        recipients: Addresses for the action Notify.
        image: URI of the rules' container, which Amazon requires for each rule.

    Raises:
        ConfigurationError: Amazon would refuse the request. Lists every reason.
    """
    hook, notes = hook_document(capture, s3_output_path=s3_output_path)
    problems: list[Problem] = []
    found: dict[str, list[Any]] = {RULES: [], PROFILER_RULES: []}
    addresses = tuple(recipients)
    for rule in request.rules:
        document, wrong = rule_document(rule, recipients=addresses, **({"image": image} if image else {}))
        problems += wrong
        known = known_rule(RULE_IDS.get(rule.rule_id, rule.rule_id))
        found[PROFILER_RULES if known and known.is_profiler_rule and not rule.custom else RULES].append(document)
        foreign = [action.value for action in rule.actions if action not in DEBUGGERS]
        notes += [f"{rule.name}: {word} is no action of SageMaker Debugger." for word in foreign]
        if Action.NOTIFY in rule.actions and not addresses:
            notes.append(f"{rule.name}: Notify needs the recipients' addresses, and none is given.")
    for key, documents in found.items():
        if len(documents) > MOST_RULES:
            problems.append(Problem(key, f"has {len(documents)} rules; Amazon takes {MOST_RULES}."))
    if len(hook["CollectionConfigurations"]) > MOST_COLLECTIONS:
        problems.append(Problem(HOOK, f"has more than {MOST_COLLECTIONS} collections, which is what Amazon takes."))
    if problems:
        raise ConfigurationError(problems, subject="The request of CreateTrainingJob")
    return {HOOK: hook, **{key: each for key, each in found.items() if each}}, tuple(dict.fromkeys(notes))


def _note_misspelled(document: Mapping[str, Any], problems: list[Problem]) -> None:
    """Note a problem for each key that resembles one of Debugger's. The request's other keys are ignored."""
    for key in document:
        hint = did_you_mean(str(key), DEBUGGER_KEYS)
        if key not in DEBUGGER_KEYS and hint.startswith("Did") and str(key)[:5].lower() in {"debug", "profi", "tenso"}:
            if str(key).endswith(("EvaluationStatuses", "Status")):  # what DescribeTrainingJob answers beside
                continue
            problems.append(Problem(str(key), "is not a known name.", hint))


def _note_what_is_not_judged(reading: RuleReading, notes: list[str]) -> None:
    custom = [rule.name for rule in reading.not_judged if rule.source]
    if custom:
        notes.append(f"Not judged yet: {', '.join(custom)}, profiler rules of your own.")
    reports = [
        rule.name for rule in reading.not_judged if (known := known_rule(rule.rule_id)) and known.is_profiler_rule
    ]
    if reports:
        notes.append(
            f"Never an issue, as in SageMaker Debugger: {', '.join(reports)}. Each run has these numbers in "
            "rule-output/profiler-report.json, and `trackside profile` shows its speed."
        )
    of_speed = [rule.name for rule in reading.rules if (known := known_rule(rule.rule_id)) and known.is_profiler_rule]
    if of_speed:
        notes.append(
            f"Judged by samples of the machine and times of steps: {', '.join(of_speed)}. Only `trackside run` takes "
            "such samples yet: in a job of SageMaker, rules about GPUs, processors, memory or disks lack data."
        )
    if reading.not_judged and not reading.rules:
        notes.append("No rule will judge this run.")
    if reading.recipients:
        addresses = ", ".join(f"{each.endpoint} ({each.protocol})" for each in reading.recipients)
        notes.append(
            f"Subscribe to the topic of your deployment, to which Notify publishes: {addresses}. "
            "E-mail addresses can be given as its setting owner_emails."
        )


def _read_profiler(document: Any, problems: list[Problem], notes: list[str]) -> tuple[int, ProfilingRequest]:
    """Return the milliseconds between two samples of the machine, 0 for none, and the windows to profile in detail."""
    nothing = 0, ProfilingRequest()
    if document is None:
        return nothing
    if not isinstance(document, Mapping):
        problems.append(Problem(PROFILER, f"must be an object, but is {document!r}."))
        return nothing
    note_unknown(document, _PROFILER_KEYS, where=PROFILER, problems=problems)
    interval = document.get("ProfilingIntervalInMilliseconds")
    if interval is not None and interval not in _INTERVALS:
        what = f"must be one of {', '.join(map(str, _INTERVALS))}, but is {interval!r}."
        problems.append(Problem(f"{PROFILER}.ProfilingIntervalInMilliseconds", what))
        return nothing
    if document.get("DisableProfiler"):
        return nothing
    request, wrong = read_profiling_request(json.dumps(dict(document), default=str))
    where = f"{PROFILER}.ProfilingParameters"
    problems += [replace(problem, where=f"{where}.{problem.where}") for problem in wrong]
    always = [name for name in _ALWAYS_TIMED if name in (document.get("ProfilingParameters") or {})]
    if always:
        notes.append(f"{where}: {', '.join(always)}: no effect. Steps, phases and data loaders are always timed.")
    return int(interval or DEFAULT_INTERVAL_MS), request


def _read_tensorboard(document: Any, problems: list[Problem], notes: list[str]) -> str:
    if document is None:
        return ""
    if not isinstance(document, Mapping):
        problems.append(Problem(TENSORBOARD, f"must be an object, but is {document!r}."))
        return ""
    note_unknown(document, ("S3OutputPath", "LocalPath"), where=TENSORBOARD, problems=problems)
    path = document.get("S3OutputPath")
    if not isinstance(path, str) or not path:
        problems.append(Problem(f"{TENSORBOARD}.S3OutputPath", f"must be a text, but is {path!r}."))
        return ""
    if document.get("LocalPath"):
        notes.append(f"{TENSORBOARD}: LocalPath is not used: the files go to {path} at once.")
    return path
