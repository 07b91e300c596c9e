"""The translation of the SDK's objects, ours or the original's, into a rule request and a capture request.

Objects are recognised by their attributes, and `sagemaker` is never imported: objects of its versions 2 and 3 work
alike, and so do entries of a request in plain dictionaries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from trackside.contracts.capture_request import CaptureRequest, capture_environment
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.job_choice import MOST_VARIABLE_CHARACTERS
from trackside.contracts.rule_catalogue import RuleCatalogue
from trackside.contracts.rule_request import AWS_SDK, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.documents.actions import PREFIX
from trackside.documents.hook import collection_documents
from trackside.documents.requests import Translation
from trackside.documents.requests import translate as translate_inputs
from trackside.documents.rules import RuleInput, rule_input

logger = logging.getLogger(__name__)


_PLACE = {
    "RuleEvaluatorImage": "image_uri",
    "InstanceType": "instance_type",
    "VolumeSizeInGB": "volume_size_in_gb",
    "LocalPath": "container_local_output_path",
    "S3OutputPath": "s3_output_path",
}


def translate(
    rules: Iterable[Any] | None = (),
    *,
    debugger_hook_config: Any = None,
    profiler_config: Any = None,
    tensorboard_output_config: Any = None,
    preset: str = "",
    catalogue: RuleCatalogue | None = None,
) -> Translation:
    """Translate an Estimator's arguments of these names.

    Rules judge with the SDK's defaults (`aws-sdk`), unless `preset` or a rule's own parameter `preset` is set.

    Args:
        rules: Rules, profiler rules, or entries of a request.
        debugger_hook_config: The hook. None or True: losses are saved every 500 steps. False: only the collections that
            the rules need are saved.
        profiler_config: A `ProfilerConfig`, which is only checked.
        tensorboard_output_config: The output of files for TensorBoard.
        preset: Preset of rules without a parameter `preset`.
        catalogue: The rules to choose from; None: the built-in ones.

    Raises:
        ConfigurationError: The arguments are wrong. Lists every problem at once.
    """
    problems: list[Problem] = []
    inputs = [each for k, rule in enumerate(rules or ()) for each in _rule_input(rule, f"rules[{k}]", problems)]
    return translate_inputs(
        inputs,
        hook=_hook_document(debugger_hook_config),
        profiler=_document(profiler_config),
        tensorboard=_document(tensorboard_output_config),
        source_preset=AWS_SDK,
        preset=preset,
        catalogue=catalogue,
        problems=problems,
    )


def to_rule_request(rules: Iterable[Any], *, preset: str = "") -> RuleRequest:
    """Return the rules that will be judged.

    Settings without a counterpart are logged as warnings; `translate` returns them.

    Args:
        rules: Rules, profiler rules, or entries of a request.
        preset: Preset of rules without a parameter `preset`.
    """
    return log_notes(translate(rules, preset=preset)).request


def to_capture_request(
    debugger_hook_config: Any = None, rules: Iterable[Any] = (), *, preset: str = ""
) -> CaptureRequest:
    """Return the collections of the hook and of the rules. Settings without a counterpart are logged as warnings.

    Args:
        debugger_hook_config: The hook, as for `translate`.
        rules: Rules, profiler rules, or entries of a request.
        preset: Preset of rules without a parameter `preset`.
    """
    return log_notes(translate(rules, debugger_hook_config=debugger_hook_config, preset=preset)).capture


def to_environment(
    run: str, debugger_hook_config: Any = None, rules: Iterable[Any] = (), *, preset: str = ""
) -> Mapping[str, str]:
    """Return the variables that switch capture on in a training job.

    Args:
        run: Location of the job's run.
        debugger_hook_config: The hook, as for `translate`.
        rules: Rules, profiler rules, or entries of a request.
        preset: Preset of rules without a parameter `preset`.

    Raises:
        ConfigurationError: The arguments are wrong, or a variable is longer than a training job of Amazon's takes.
    """
    return capture_variables(run, to_capture_request(debugger_hook_config, rules, preset=preset))


def capture_variables(run: str, capture: CaptureRequest) -> Mapping[str, str]:
    """Return the variables that switch capture on in a training job.

    Raises:
        ConfigurationError: A variable is longer than a training job takes.
    """
    environment = capture_environment(RunLocation(run).uri, capture)
    problems = [
        Problem(
            name,
            f"has {len(value)} characters; a training job takes {MOST_VARIABLE_CHARACTERS}.",
            "Save fewer collections.",
        )
        for name, value in environment.items()
        if run.startswith("s3://") and len(value) > MOST_VARIABLE_CHARACTERS
    ]
    if problems:
        raise ConfigurationError(problems, subject="The environment")
    return environment


def log_notes(translation: Translation) -> Translation:
    """Log each note of a translation as a warning, and return the translation."""
    for note in translation.notes:
        logger.warning("trackside: %s", note)
    return translation


def _rule_input(rule: Any, where: str, problems: list[Problem]) -> list[RuleInput]:
    if isinstance(rule, Mapping):
        given = rule_input(rule, where=where, problems=problems)
        return [given] if given else []
    if not isinstance(getattr(rule, "rule_parameters", None), Mapping):
        fix = "Write, for example, Rule.sagemaker(rule_configs.vanishing_gradient())."
        problems.append(Problem(where, f"must be a Rule or a ProfilerRule, but is {rule!r}.", fix))
        return []
    collections = getattr(rule, "collection_configs", None)
    return [
        RuleInput(
            where,
            getattr(rule, "name", None) or "",
            rule.rule_parameters,
            actions=_actions(getattr(rule, "actions", None), f"{where}.actions", problems),
            collections=collection_documents(collections or ()),
            place={key: getattr(rule, name, None) for key, name in _PLACE.items()},
            of_profiler=not hasattr(rule, "collection_configs"),
        )
    ]


def _actions(actions: Any, where: str, problems: list[Problem]) -> list[Any] | None:
    """Return the entries of the actions; None if none are given: then the parameter `action_json` counts, if set."""
    if actions is None:
        return None
    listed = getattr(actions, "actions", None)
    if listed is None:
        listed = actions if isinstance(actions, (list, tuple)) else [actions]
    found = [_action_parameters(action) for action in listed]
    if any(parameters is None for parameters in found):
        fix = "Write, for example, rule_configs.ActionList(rule_configs.StopTraining())."
        problems.append(Problem(where, f"must be an action or an ActionList, but is {actions!r}.", fix))
        return []
    return found


def _action_parameters(action: Any) -> Any:
    """Return the entry of an action, or None if it is no action.

    The prefix that the SDK itself fills in when the job starts is left out.
    """
    parameters = getattr(action, "action_parameters", None)
    if isinstance(parameters, Mapping) and getattr(action, "use_default_training_job_prefix", False):
        return {name: value for name, value in parameters.items() if name != PREFIX}
    return parameters


def _hook_document(config: Any) -> Any:
    if config is None or config is False or isinstance(config, Mapping):
        return config
    if config is True:  # the SDK's word for "its default"
        return None
    if not hasattr(config, "collection_configs"):
        return config  # no such object: the reader reports it
    document: dict[str, Any] = {"S3OutputPath": config.s3_output_path}
    if config.container_local_output_path is not None:
        document["LocalPath"] = config.container_local_output_path
    if config.hook_parameters is not None:
        document["HookParameters"] = config.hook_parameters
    if config.collection_configs is not None:
        document["CollectionConfigurations"] = collection_documents(config.collection_configs)
    return document


def _document(config: Any) -> Any:
    """Return the request that the object makes of itself, as objects of both SDKs and ours do."""
    make = getattr(config, "_to_request_dict", None)
    return _set_only(make()) if make else config


def _set_only(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without unset values."""
    return {key: value for key, value in document.items() if value is not None}
