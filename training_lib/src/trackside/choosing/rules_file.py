"""A user's file of rules: JSON or YAML, in the terms of Trackside or of CreateTrainingJob."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trackside.choosing.rule_choice import NO_WORDS, WORDS, Layer, layer_of_document
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.fields import parse_json
from trackside.contracts.rule_catalogue import SAVED_TOO, built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.extras import pip_install
from trackside.products import SAGEMAKERS_REQUESTS, product

MOST_BYTES = 4 << 20
YAML_ENDINGS = (".yaml", ".yml")
_OF_A_REQUEST = ("rules", "version")
_SAGEMAKERS = frozenset({"DebugRuleConfigurations", "ProfilerRuleConfigurations"})


@dataclass(frozen=True)
class RulesFile:
    """The rules of a file, and notes for the user.

    rules          the rules of a request, which judge in place of all others
    words          the words `rule`, `only`, `set` and `skip` of the file
    notes          sentences about them
    capture        tensors to save beside those that the rules need; None if the file names none
    capture_notes  sentences about `capture`, of no interest for a run that is recorded already
    """

    rules: tuple[RuleConfiguration, ...]
    notes: tuple[str, ...] = ()
    capture: CaptureRequest | None = None
    capture_notes: tuple[str, ...] = ()
    words: Layer = NO_WORDS


def read_rules_file(path: Path) -> RulesFile:
    """Return the rules of a `.json`, `.yaml` or `.yml` file.

    The file holds a rule request, or only a list of rules, each an object or a name; or the input of CreateTrainingJob
    with `DebugRuleConfigurations`; or an object with the words `rule`, `only`, `set` and `skip`, as on the command
    line. Errors: `ConfigurationError` with every problem at once.
    """
    subject = f"The rules file {path}"
    try:
        document = _parsed(path, _content(path), subject=subject)
        found = _read(document, path)
    except ConfigurationError as error:
        raise ConfigurationError([_at_home(problem, path) for problem in error.problems], subject=subject) from error
    if not found.rules and not found.words:
        fix = "For all rules with their defaults, leave the file out."
        more = [Problem("note", note) for note in found.notes]
        raise ConfigurationError([Problem("rules", "names no rule that can judge.", fix), *more], subject=subject)
    return found


def _at_home(problem: Problem, path: Path) -> Problem:
    """Return the problem with the file's path, if it concerns the whole text, and an example of a right file."""
    if problem.where != "text":
        return problem
    return Problem(str(path), problem.what, problem.fix or 'It may hold: ["vanishing-gradient", "overfit"]')


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError([Problem(str(path), f"cannot be read: {error.strerror}.")]) from error
    if len(content) > MOST_BYTES:
        raise ConfigurationError([Problem(str(path), f"is larger than {MOST_BYTES >> 20} MiB.")])
    return content


def _parsed(path: Path, content: bytes, *, subject: str) -> Any:
    if path.suffix.lower() not in YAML_ENDINGS:
        return parse_json(content, subject=subject)
    try:
        import yaml  # no dependency of Trackside's
    except ImportError as error:
        fix = f"{pip_install()} pyyaml, or write the file as JSON."
        raise ConfigurationError([Problem(str(path), "is YAML, which needs PyYAML.", fix)]) from error
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        what = " ".join(f"is not YAML: {error}".split())
        raise ConfigurationError([Problem(str(path), f"{what}.")]) from error


def _read(document: Any, path: Path) -> RulesFile:
    if isinstance(document, Mapping) and not set(WORDS).isdisjoint(document):
        return _with_words(document, path)
    if isinstance(document, Mapping) and not _SAGEMAKERS.isdisjoint(document):
        return _of_sagemaker(document)
    if isinstance(document, list):
        document = {"rules": document}
    if isinstance(document, Mapping) and isinstance(document.get("rules"), list):
        named = [_with_id({"rule": each} if isinstance(each, str) else each) for each in document["rules"]]
        document = {**document, "rules": named}
    return RulesFile(RuleRequest.from_json(json.dumps(document, default=str)).rules)  # YAML knows dates


def _with_id(rule: Any) -> Any:
    """Return an item of a rule request with the id of a rule that it names by its short code."""
    name = rule.get("rule") if isinstance(rule, Mapping) else None
    return {**rule, "rule": built_in_catalogue().id_of(name)} if isinstance(name, str) else rule


def _with_words(document: Mapping[str, Any], path: Path) -> RulesFile:
    problems: list[Problem] = []
    words = layer_of_document(document, where=path.name, problems=problems)
    rest = {key: value for key, value in document.items() if key not in WORDS}
    if unknown := [str(key) for key in rest if key not in _OF_A_REQUEST]:
        problems += [Problem(key, "is not known.", did_you_mean(key, [*WORDS, *_OF_A_REQUEST])) for key in unknown]
    if problems:
        raise ConfigurationError(problems)
    found = _read(rest, path) if "rules" in rest else RulesFile(())
    return replace(found, words=words)


def _of_sagemaker(document: Mapping[str, Any]) -> RulesFile:
    requests = product(SAGEMAKERS_REQUESTS)
    translation = requests.read_training_job(document)
    about_capture = tuple([note for note in translation.notes if note.startswith(SAVED_TOO)])
    notes = tuple([note for note in translation.notes if note not in about_capture])
    if requests.TENSORBOARD in document:
        about_capture += (f"{requests.TENSORBOARD} was read and has no effect here.",)
    if requests.HOOK not in document:
        return RulesFile(translation.request.rules, notes, capture_notes=about_capture)
    capture = replace(translation.capture, tensorboard="")
    names = ", ".join(collection.name for collection in capture.collections)
    about_capture = (f"Saved as {requests.HOOK} says, in the run's own folder: {names}.", *about_capture)
    return RulesFile(translation.request.rules, notes, capture, about_capture)
