"""The attachment that makes a training job of SageMaker a watched one: variables, tags, and objects in S3.

    attachment = plan_attachment("s3://runs/digits-01", [Rule.sagemaker(rule_configs.vanishing_gradient())])
    put_objects(attachment)
    sagemaker.create_training_job(**attach_to_request(request, attachment))

A value that is too long for a tag (256 characters of a small alphabet) or a variable (512) becomes an object, and the
tag or the variable its address. One attachment serves many jobs if the run's address ends with `/@job`: the training
jobs of a hyperparameter-tuning job, for example.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.job_choice import (
    ACTIONS_TAG,
    CAPTURE_VARIABLE,
    MOST_TAG_CHARACTERS,
    MOST_VARIABLE_CHARACTERS,
    NO_ACTION,
    RULES_TAG,
    RUN_TAG,
    RUN_VARIABLE,
    STATUS_ONLY,
    TAG_PREFIX,
    WATCH_TAG,
    chosen_by_words,
    is_tag_value,
    words_of,
)
from trackside.contracts.rule_catalogue import RuleCatalogue, built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import (
    CAPTURE_REQUEST_KEY,
    JOB_PLACE,
    RULE_REQUEST_KEY,
    RunLocation,
    is_shared,
    shared_place,
)
from trackside.documents.requests import Translation
from trackside.documents.sdk.translation import translate

MOST_TAGS = 50  # API_CreateTrainingJob: Tags
MOST_VARIABLES = 100  # API_CreateTrainingJob: Environment
MOST_TUNING_VARIABLES = 48  # API_HyperParameterTrainingJobDefinition: Environment

TUNING_NAME, TRAINING_NAME = "HyperParameterTuningJobName", "TrainingJobName"
ONE_DEFINITION, DEFINITIONS = "TrainingJobDefinition", "TrainingJobDefinitions"


@dataclass(frozen=True)
class Attachment:
    """The additions to a training job.

    run          location of the run
    environment  variables by name
    tags         tags by name
    objects      s3:// address -> text, to be stored before the job starts
    notes        a sentence for each setting without a counterpart
    """

    run: str
    environment: Mapping[str, str]
    tags: Mapping[str, str]
    objects: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def tag_list(self) -> list[dict[str, str]]:
        """The tags in the API's form."""
        return [{"Key": key, "Value": value} for key, value in self.tags.items()]


def plan_attachment(
    run: str,
    rules: Iterable[Any] | RuleRequest | str | None = None,
    *,
    actions: Iterable[Action] | None = None,
    capture: CaptureRequest | None = None,
    debugger_hook_config: Any = None,
    profiler_config: Any = None,
    tensorboard_output_config: Any = None,
    preset: str = "",
    catalogue: RuleCatalogue | None = None,
) -> Attachment:
    """Return the attachment of a job. Nothing is stored yet.

    Args:
        run: The run's s3:// address; one that ends with `/@job` has a run for each job.
        rules: Rule configurations of ours; objects and dictionaries of the SDK, as for `translate`; a whole
            `RuleRequest`; the words of a tag ("vanishing-gradient overfit:patience_evaluations=3"); None: the
            deployment decides.
        actions: Actions of rules that name none; None: the default ones.
        capture: Collections to save; None: those of `debugger_hook_config` and of the rules.
        debugger_hook_config: As an Estimator takes it.
        profiler_config: As an Estimator takes it.
        tensorboard_output_config: As an Estimator takes it.
        preset: Preset of rules without one of their own.
        catalogue: The rules to choose from; None: the built-in ones.

    Raises:
        ConfigurationError: The arguments are wrong. Lists every problem at once.
    """
    catalogue = catalogue or built_in_catalogue()
    place = _checked_place(run)
    found = _translated(
        rules,
        catalogue,
        debugger_hook_config=debugger_hook_config,
        profiler_config=profiler_config,
        tensorboard_output_config=tensorboard_output_config,
        preset=preset,
    )
    requested = None if actions is None else tuple(actions)
    request = None if rules is None else _with_actions(found.request, requested)
    if request is not None:
        catalogue.check(request)
    saved = capture if capture is not None else found.capture
    objects: dict[str, str] = {}
    tags = {RUN_TAG: place, **_choice_tags(request, requested, place, objects, catalogue)}
    environment = {RUN_VARIABLE: place, CAPTURE_VARIABLE: _variable(saved.to_json(), place, objects)}
    return Attachment(place, environment, tags, objects, found.notes)


def status_only_attachment(run: str) -> Attachment:
    """Return the attachment of a job with a container that cannot hold the library.

    Its states are recorded, and no rule judges it.

    Args:
        run: The run's s3:// address.
    """
    place = _checked_place(run)
    return Attachment(place, {}, {RUN_TAG: place, WATCH_TAG: STATUS_ONLY})


def put_objects(attachment: Attachment) -> None:
    """Store the attachment's objects. Raises the errors of the store.

    Args:
        attachment: The attachment.
    """
    from trackside.storage.open_store import open_store  # brings NumPy, which is not needed otherwise

    for address, text in attachment.objects.items():
        folder, _, name = address.rpartition("/")
        open_store(folder).put(name, text.encode())


def attach_to_request(request: Mapping[str, Any], attachment: Attachment) -> dict[str, Any]:
    """Return a copy of a request with the attachment added. Equal settings in the request are accepted.

    Args:
        request: A request of CreateTrainingJob or CreateHyperParameterTuningJob.
        attachment: The attachment.

    Raises:
        ConfigurationError: Settings conflict, or limits are exceeded. Lists every problem at once.
    """
    problems: list[Problem] = []
    made = copy.deepcopy(dict(request))
    made["Tags"] = _merged_tags(made.get("Tags"), attachment.tags, problems)
    if is_tuning_request(made):
        if not is_shared(attachment.run):
            what = f"is {attachment.run!r}, but all training jobs of a tuning job would write there."
            problems.append(Problem("the run", what, f"End it with /{JOB_PLACE}, which stands for a job's name."))
        for where, definition in definitions_of(made, problems):
            definition["Environment"] = _merged_environment(
                definition.get("Environment"),
                attachment.environment,
                f"{where}.Environment",
                problems,
                most=MOST_TUNING_VARIABLES,
            )
    else:
        if TRAINING_NAME not in made:
            fix = "A request of CreateTrainingJob or CreateHyperParameterTuningJob is meant."
            problems.append(Problem(TRAINING_NAME, "is missing.", fix))
        made["Environment"] = _merged_environment(
            made.get("Environment"), attachment.environment, "Environment", problems, most=MOST_VARIABLES
        )
    if problems:
        raise ConfigurationError(problems, subject="The request")
    if "Environment" in made and not made["Environment"]:
        del made["Environment"]
    return made


def is_tuning_request(request: Mapping[str, Any]) -> bool:
    """Return True for a request of CreateHyperParameterTuningJob."""
    return TUNING_NAME in request or ONE_DEFINITION in request or DEFINITIONS in request


def definitions_of(request: Mapping[str, Any], problems: list[Problem]) -> list[tuple[str, dict[str, Any]]]:
    """Return (place, definition) of each definition of a tuning job's training jobs."""
    given: Sequence[Any] = request.get(DEFINITIONS) or ()
    found: list[tuple[str, Any]] = [(f"{DEFINITIONS}[{k}]", each) for k, each in enumerate(given)]
    if ONE_DEFINITION in request:
        found.append((ONE_DEFINITION, request[ONE_DEFINITION]))
    if not found:
        problems.append(Problem(ONE_DEFINITION, "is missing."))
    problems += [
        Problem(where, f"must be an object, but is a {type(each).__name__}.")  # it may hold what nobody should read
        for where, each in found
        if not isinstance(each, dict)
    ]
    return [(where, each) for where, each in found if isinstance(each, dict)]


def _checked_place(run: str) -> str:
    place = RunLocation(run.strip()).uri
    problems = []
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    if not place.startswith("s3://") or not bucket or not shared_place(place).removeprefix(f"s3://{bucket}").strip("/"):
        fix = "Write s3://<the deployment's RunBucketName>/<a prefix of its own>."
        problems.append(Problem("the run", f"{run!r} is no place in S3.", fix))
    elif not is_tag_value(place) or any(c in prefix for c in " ?#"):
        fix = f"A tag holds at most {MOST_TAG_CHARACTERS} letters, digits and . : / = + - @ _."
        problems.append(Problem("the run", f"{run!r} fits into no tag.", fix))
    if problems:
        raise ConfigurationError(problems, subject="The attachment")
    return place


def _translated(
    rules: Iterable[Any] | RuleRequest | str | None, catalogue: RuleCatalogue, **configuration: Any
) -> Translation:
    """Return the translation of rules in any form.

    Our own configurations need no translation, but their collections must be saved. Without a choice the deployment
    decides, and by default that means the usual rules.
    """
    if rules is None:
        rules = RuleRequest(tuple(RuleConfiguration(rule_id) for rule_id in catalogue.usual))
    if isinstance(rules, str):
        rules = chosen_by_words(rules, NO_ACTION, catalogue=catalogue)
    if isinstance(rules, RuleRequest):
        rules = rules.rules
    given = list(rules or ())
    ours = [each for each in given if isinstance(each, RuleConfiguration)]
    if ours and len(ours) < len(given):
        what = "mixes configurations of ours with objects of the SDK."
        raise ConfigurationError([Problem("rules", what, "Give either the ones or the others.")])
    if not ours:
        return translate(given, catalogue=catalogue, **configuration)
    request = RuleRequest(tuple(ours))
    catalogue.check(request)
    translation = translate((), catalogue=catalogue, **configuration)
    return replace(
        translation, request=request, capture=translation.capture.merged_with(catalogue.capture_request(request))
    )


def _with_actions(request: RuleRequest, actions: tuple[Action, ...] | None) -> RuleRequest:
    chosen = DEFAULT_ACTIONS if actions is None else actions
    return RuleRequest(tuple(rule if rule.actions else replace(rule, actions=chosen) for rule in request.rules))


def _choice_tags(
    request: RuleRequest | None,
    actions: tuple[Action, ...] | None,
    place: str,
    objects: dict[str, str],
    catalogue: RuleCatalogue,
) -> dict[str, str]:
    """Return the tags for the choice of rules.

    They are words if words suffice. Otherwise an object holds the request, and a tag holds its address if the job's run
    lies elsewhere.
    """
    if request is None:
        return {ACTIONS_TAG: " ".join(action.value for action in actions) or NO_ACTION} if actions is not None else {}
    words = words_of(request, catalogue=catalogue)
    if words is not None:
        return {tag: text for tag, text in zip((RULES_TAG, ACTIONS_TAG), words, strict=True) if text}
    address = f"{shared_place(place)}/{RULE_REQUEST_KEY}"
    objects[address] = request.to_json()
    return {RULES_TAG: _short(address, RULES_TAG)} if is_shared(place) else {}


def _variable(text: str, place: str, objects: dict[str, str]) -> str:
    if len(text) <= MOST_VARIABLE_CHARACTERS:
        return text
    address = f"{shared_place(place)}/{CAPTURE_REQUEST_KEY}"
    objects[address] = text
    return address


def _short(address: str, where: str) -> str:
    if not is_tag_value(address):
        what = f"{address!r} has {len(address)} characters, and a tag holds {MOST_TAG_CHARACTERS}."
        raise ConfigurationError([Problem(where, what, "Choose a shorter place for the run.")], subject="The tags")
    return address


def _merged_tags(given: Any, added: Mapping[str, str], problems: list[Problem]) -> list[dict[str, str]]:
    tags = list(given or ())
    known: dict[str, str] = {}
    for k, tag in enumerate(tags):
        if not isinstance(tag, Mapping) or not isinstance(tag.get("Key"), str):
            problems.append(Problem(f"Tags[{k}]", f'must be {{"Key": ..., "Value": ...}}, but is {tag!r}.'))
            continue
        known[tag["Key"]] = str(tag.get("Value", ""))
    for key, value in known.items():
        if key in added and added[key] != value:
            problems.append(Problem(f"Tags.{key}", f"is {value!r} already, and would be {added[key]!r}.", "Drop one."))
        elif key.startswith(TAG_PREFIX) and key not in added:
            problems.append(Problem(f"Tags.{key}", f"is {value!r} already.", "Set it in one place: drop the tag."))
    tags += [{"Key": key, "Value": value} for key, value in added.items() if key not in known]
    if len(tags) > MOST_TAGS:
        problems.append(Problem("Tags", f"would be {len(tags)}; a job takes {MOST_TAGS}."))
    return tags


def _merged_environment(
    given: Any, added: Mapping[str, str], where: str, problems: list[Problem], *, most: int
) -> dict[str, str]:
    if given is not None and not isinstance(given, Mapping):
        problems.append(Problem(where, f"must be an object, but is a {type(given).__name__}."))
        return {}
    merged = {**(given or {}), **added}
    for name, value in (given or {}).items():
        if name in added and added[name] != value:
            what = f"is {value!r} already, and would be {added[name]!r}."
            problems.append(Problem(f"{where}.{name}", what, "Drop one."))
    if len(merged) > most:
        problems.append(Problem(where, f"would have {len(merged)} variables; a job takes {most}."))
    return merged
