"""The SDK's classes for rules: `Rule.sagemaker`, `Rule.custom`, `ProfilerRule`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_request import CLASS_PARAMETER, SOURCE_PARAMETER
from trackside.documents.actions import ACTION_PARAMETER
from trackside.documents.rule_names import PARAMETER_ALIASES, known_rule
from trackside.documents.rules import DEFAULT_IMAGE, PRESET_PARAMETER
from trackside.documents.sdk.hook import CollectionConfig
from trackside.documents.sdk.parameter_texts import settled, texts


class RuleBase:
    """One rule as it was configured. The attributes are those of the SDK's objects."""

    def __init__(  # noqa: PLR0917 - the SDK's signature
        self,
        name: str,
        image_uri: str | None,
        instance_type: str | None,
        container_local_output_path: str | None,
        s3_output_path: str | None,
        volume_size_in_gb: int | None,
        rule_parameters: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.image_uri = image_uri
        self.instance_type = instance_type
        self.container_local_output_path = container_local_output_path
        self.s3_output_path = s3_output_path
        self.volume_size_in_gb = volume_size_in_gb
        self.rule_parameters = settled(rule_parameters)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.rule_parameters!r})"

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"RuleConfigurationName": self.name, "RuleEvaluatorImage": self.image_uri}
        more = {
            "InstanceType": self.instance_type,
            "VolumeSizeInGB": self.volume_size_in_gb,
            "LocalPath": self.container_local_output_path,
            "S3OutputPath": self.s3_output_path,
        }
        document |= {key: value for key, value in more.items() if value is not None}
        return {**document, "RuleParameters": texts(self.rule_parameters)}


class Rule(RuleBase):
    """A rule on tensors. It also accepts a profiler rule's configuration, as in many blogs."""

    def __init__(  # noqa: PLR0917 - the SDK's signature
        self,
        name: str,
        image_uri: str | None,
        instance_type: str | None,
        container_local_output_path: str | None,
        s3_output_path: str | None,
        volume_size_in_gb: int | None,
        rule_parameters: Mapping[str, Any],
        collections_to_save: Iterable[CollectionConfig] | None,
        actions: Any = None,
    ) -> None:
        super().__init__(
            name,
            image_uri,
            instance_type,
            container_local_output_path,
            s3_output_path,
            volume_size_in_gb,
            rule_parameters,
        )
        self.collection_configs = list(collections_to_save or ())
        self.actions = actions

    @classmethod
    def sagemaker(  # noqa: PLR0917 - the SDK's signature
        cls,
        base_config: Any,
        name: str | None = None,
        container_local_output_path: str | None = None,
        s3_output_path: str | None = None,
        other_trials_s3_input_paths: Sequence[str] | None = None,
        rule_parameters: Mapping[str, Any] | None = None,
        collections_to_save: Iterable[CollectionConfig] | None = None,
        actions: Any = None,
        *,
        preset: str | None = None,
    ) -> Rule:
        """Return a built-in rule.

        Args:
            base_config: The value of a function of `rule_configs`.
            name: Name of the configuration; None: the rule's.
            container_local_output_path: Read, and not used.
            s3_output_path: Read, and not used.
            other_trials_s3_input_paths: Locations of other runs to compare with.
            rule_parameters: Parameters in place of the configuration's.
            collections_to_save: Collections in place of the rule's default ones.
            actions: An action or an `ActionList`.
            preset: Definition of the rule: `calibrated`, `aws-docs` or `aws-sdk`.

        Raises:
            ConfigurationError: `base_config` is no such value, or a parameter names another class.
        """
        rule_name, parameters, collections = _base(base_config)
        given = dict(rule_parameters or {})
        if preset is not None:
            given[PRESET_PARAMETER] = preset
        return cls(
            name=name or rule_name,
            image_uri=DEFAULT_IMAGE,
            instance_type=None,
            container_local_output_path=container_local_output_path,
            s3_output_path=s3_output_path,
            volume_size_in_gb=None,
            rule_parameters={
                **_other_trials(other_trials_s3_input_paths),
                **_with_aliases(rule_name, parameters, given),
            },
            collections_to_save=collections_to_save or collections,
            actions=actions,
        )

    @classmethod
    def custom(  # noqa: PLR0917 - the SDK's signature
        cls,
        name: str,
        image_uri: str | None = None,
        instance_type: str | None = None,
        volume_size_in_gb: int | None = None,
        source: str | None = None,
        rule_to_invoke: str | None = None,
        container_local_output_path: str | None = None,
        s3_output_path: str | None = None,
        other_trials_s3_input_paths: Sequence[str] | None = None,
        rule_parameters: Mapping[str, Any] | None = None,
        collections_to_save: Iterable[CollectionConfig] | None = None,
        actions: Any = None,
    ) -> Rule:
        """Return a rule of your own: a class of a Python file.

        Image, instance, volume and output paths may be left out: Trackside judges where it is deployed.

        Args:
            name: Name of the configuration.
            image_uri: Read, and not used.
            instance_type: Read, and not used.
            volume_size_in_gb: Read, and not used.
            source: Python file of the rule, a path or an s3:// URI.
            rule_to_invoke: Name of its class.
            container_local_output_path: Read, and not used.
            s3_output_path: Read, and not used.
            other_trials_s3_input_paths: Locations of other runs to compare with.
            rule_parameters: Arguments of the class by name.
            collections_to_save: Collections that the rule reads.
            actions: An action or an `ActionList`.

        Raises:
            ConfigurationError: Only one of `source` and `rule_to_invoke` is given.
        """
        return cls(
            name=name,
            image_uri=image_uri,
            instance_type=instance_type,
            container_local_output_path=container_local_output_path,
            s3_output_path=s3_output_path,
            volume_size_in_gb=volume_size_in_gb,
            rule_parameters={
                **_other_trials(other_trials_s3_input_paths),
                **_own_file(source, rule_to_invoke),
                **(rule_parameters or {}),
            },
            collections_to_save=collections_to_save,
            actions=actions,
        )

    def prepare_actions(self, training_job_name: str) -> None:
        """Write the actions into the parameters, as the SDK does when a job starts.

        Args:
            training_job_name: Name of the job, for actions that stop it.
        """
        if self.actions is None:
            self.rule_parameters.pop(ACTION_PARAMETER, None)
            return
        self.actions.update_training_job_prefix_if_not_specified(training_job_name)
        self.rule_parameters[ACTION_PARAMETER] = self.actions.serialize()

    def to_debugger_rule_config_dict(self) -> dict[str, Any]:
        """Return the entry of `DebugRuleConfigurations`."""
        return self._document()


class ProfilerRule(RuleBase):
    """A rule on measurements of the machine. It is checked, and not judged yet."""

    @classmethod
    def sagemaker(  # noqa: PLR0917 - the SDK's signature
        cls,
        base_config: Any,
        name: str | None = None,
        container_local_output_path: str | None = None,
        s3_output_path: str | None = None,
        instance_type: str | None = None,
        volume_size_in_gb: int | None = None,
        *,
        rule_parameters: Mapping[str, Any] | None = None,
    ) -> ProfilerRule:
        """Return a built-in rule.

        Args:
            base_config: A class of `rule_configs`, or an object of it.
            name: Name of the configuration; None: the rule's.
            container_local_output_path: Read, and not used.
            s3_output_path: Read, and not used.
            instance_type: Read, and not used.
            volume_size_in_gb: Read, and not used.
            rule_parameters: Parameters in place of the configuration's.

        Raises:
            ConfigurationError: `base_config` is no such value, or a parameter names another class.
        """
        rule_name, parameters, _ = _base(base_config)
        return cls(
            name=name or rule_name,
            image_uri=DEFAULT_IMAGE,
            instance_type=instance_type,
            container_local_output_path=container_local_output_path,
            s3_output_path=s3_output_path,
            volume_size_in_gb=volume_size_in_gb,
            rule_parameters=_with_aliases(rule_name, parameters, rule_parameters or {}),
        )

    @classmethod
    def custom(  # noqa: PLR0917 - the SDK's signature
        cls,
        name: str,
        image_uri: str | None = None,
        instance_type: str | None = None,
        volume_size_in_gb: int | None = None,
        source: str | None = None,
        rule_to_invoke: str | None = None,
        container_local_output_path: str | None = None,
        s3_output_path: str | None = None,
        rule_parameters: Mapping[str, Any] | None = None,
    ) -> ProfilerRule:
        """Return a rule of your own: a class of a Python file.

        Args:
            name: Name of the configuration.
            image_uri: Read, and not used.
            instance_type: Read, and not used.
            volume_size_in_gb: Read, and not used.
            source: Python file of the rule, a path or an s3:// URI.
            rule_to_invoke: Name of its class.
            container_local_output_path: Read, and not used.
            s3_output_path: Read, and not used.
            rule_parameters: Arguments of the class by name.

        Raises:
            ConfigurationError: Only one of `source` and `rule_to_invoke` is given.
        """
        return cls(
            name=name,
            image_uri=image_uri,
            instance_type=instance_type,
            container_local_output_path=container_local_output_path,
            s3_output_path=s3_output_path,
            volume_size_in_gb=volume_size_in_gb,
            rule_parameters={**_own_file(source, rule_to_invoke), **(rule_parameters or {})},
        )

    def to_profiler_rule_config_dict(self) -> dict[str, Any]:
        """Return the entry of `ProfilerRuleConfigurations`."""
        return self._document()


def get_rule_container_image_uri(name: str | None, region: str) -> str:
    """Return a placeholder: Trackside judges in its own container, so the image of a rule is read and not used.

    Args:
        name: Not used.
        region: Not used.
    """
    return DEFAULT_IMAGE


def _base(base_config: Any) -> tuple[str, dict[str, Any], list[CollectionConfig]]:
    """Return (name, parameters, collections) of a configuration by `rule_configs`, ours or the original's."""
    if isinstance(base_config, type):  # rule_configs.LowGPUUtilization without the brackets
        base_config = base_config()
    if hasattr(base_config, "rule_name"):
        return base_config.rule_name, dict(base_config.rule_parameters), []
    if isinstance(base_config, Mapping) and "DebugRuleConfiguration" in base_config:
        rule = base_config["DebugRuleConfiguration"]
        collections = [
            CollectionConfig(each["CollectionName"], each.get("CollectionParameters"))
            for each in base_config.get("CollectionConfigurations", ())
        ]
        return rule["RuleConfigurationName"], dict(rule.get("RuleParameters", {})), collections
    what = f"must be what a function of rule_configs returns, but is {base_config!r}."
    fix = "Write, for example, rule_configs.vanishing_gradient()."
    raise ConfigurationError([Problem("base_config", what, fix)], subject="The rule")


def _with_aliases(rule_name: str, parameters: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration's parameters, replaced by the given ones, under either of two names."""
    if CLASS_PARAMETER in given:
        what = f"{CLASS_PARAMETER!r} cannot be set for a built-in rule."
        raise ConfigurationError(
            [Problem(rule_name, what, "Use Rule.custom for a rule of your own.")], subject="The rule"
        )
    known = known_rule(rule_name)
    aliases = PARAMETER_ALIASES.get(known.rule_id, {}) if known else {}
    replaced = {aliases[name] for name in given if name in aliases and aliases[name] not in given}
    return {**{name: value for name, value in parameters.items() if name not in replaced}, **given}


def _other_trials(paths: Sequence[str] | None) -> dict[str, str]:
    return {f"other_trial_{k}": path for k, path in enumerate(paths or ())}


def _own_file(source: str | None, rule_to_invoke: str | None) -> dict[str, str]:
    if bool(source) != bool(rule_to_invoke):
        what = "`source` and `rule_to_invoke` must be given together."
        fix = "Name the Python file by the one and the rule's class in it by the other."
        raise ConfigurationError([Problem("Rule.custom", what, fix)], subject="The rule")
    return {SOURCE_PARAMETER: source, CLASS_PARAMETER: rule_to_invoke} if source and rule_to_invoke else {}
