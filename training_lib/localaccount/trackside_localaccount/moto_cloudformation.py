"""Repairs of moto's CloudFormation, so that real `cdk bootstrap`, `deploy` and `destroy` work on the local account.

Each repair says what stock moto (5.2.5) does wrong, and has a test that tells when upstream no longer needs it. They
change moto's classes in this process, so moto's version is pinned. `apply` does them all, once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

from moto.awslambda.models import EventSourceMapping, LambdaFunction, LayerVersion, lambda_backends
from moto.cloudformation import models as cloudformation_models
from moto.cloudformation import parsing
from moto.cloudformation import responses as cloudformation_responses
from moto.cloudformation.exceptions import CloudFormationError, ValidationError
from moto.cloudformation.models import ChangeSet, CloudFormationBackend, Stack
from moto.cloudformation.parsing import OutputMap, get_model_list, get_model_map, get_name_type_map
from moto.core.responses import ActionResult
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.table import Table
from moto.ecr.models import Repository, ecr_backends
from moto.events.models import Archive, EventBus, Rule, events_backends
from moto.iam.access_control import IAMPolicy
from moto.iam.models import Role, iam_backends
from moto.kms.models import Key
from moto.logs.models import LogGroup
from moto.s3.models import FakeBucket, s3_backends
from moto.sns.models import Topic, sns_backends
from moto.ssm.models import Parameter

from trackside_localaccount import cross_stack
from trackside_localaccount.names_in_use import NameInUseError, refuse_names_in_use
from trackside_localaccount.strict.templates import longest_name

_LONGEST_NAME = 64  # of functions and rules, and shorter than what other services take


@dataclass(frozen=True)
class Repair:
    """One repair: its name, what stock moto does wrong, and what mends it in this process."""

    name: str
    stock_moto: str
    mend: Callable[[], None]


_applied: list[str] = []


def apply() -> None:
    """Mend moto in this process. A second call does nothing."""
    for repair in REPAIRS:
        if repair.name not in _applied:
            repair.mend()
            _applied.append(repair.name)
    for cached in (get_model_list, get_model_map, get_name_type_map):
        cached.cache_clear()  # new resource types are found among CloudFormationModel's subclasses


def _replace(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


# Resources that moto creates, but not as the template says -----------------------------------------------------------


def _prepare(model: type[Any], prepare: Callable[[dict[str, Any]], None]) -> None:
    """Let `prepare` change the template's properties before moto creates the resource."""
    original = model.create_from_cloudformation_json

    def create(resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **more: Any) -> Any:
        prepare(cloudformation_json["Properties"])
        return original(resource_name, cloudformation_json, account_id, region_name, **more)

    _replace(model, "create_from_cloudformation_json", staticmethod(create))


def _complete(model: type[Any], complete: Callable[[Any, Mapping[str, Any], str, str], None]) -> None:
    """Let `complete(resource, properties, account, region)` add what moto left out of the new resource."""
    original = model.create_from_cloudformation_json

    def create(resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **more: Any) -> Any:
        resource = original(resource_name, cloudformation_json, account_id, region_name, **more)
        complete(resource, cloudformation_json["Properties"], account_id, region_name)
        return resource

    _replace(model, "create_from_cloudformation_json", staticmethod(create))


def _mend_kms_key() -> None:
    def prepare(properties: dict[str, Any]) -> None:
        properties["Tags"] = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in properties.get("Tags", ())]
        properties["KeyPolicy"] = json.dumps(properties["KeyPolicy"])

    _prepare(Key, prepare)


def _mend_event_bus() -> None:
    def complete(bus: Any, properties: Mapping[str, Any], account: str, region: str) -> None:
        if properties.get("Tags"):
            tags = {tag["Key"]: tag["Value"] for tag in properties["Tags"]}
            events_backends[account][region].tag_resource(bus.arn, tags)

    _replace(EventBus, "physical_resource_id", property(lambda bus: bus.name))
    _complete(EventBus, complete)


def _mend_log_group() -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-logs-loggroup.html"""
    stock = LogGroup.get_cfn_attribute
    _replace(LogGroup, "get_cfn_attribute", lambda group, name: f"{stock(group, name)}:*")


def _mend_role() -> None:
    def complete(role: Any, properties: Mapping[str, Any], account: str, region: str) -> None:
        for arn in properties.get("ManagedPolicyArns") or ():
            iam_backends[account]["aws"].attach_role_policy(arn, role.name)

    _complete(Role, complete)


def _mend_archive() -> None:
    def prepare(properties: dict[str, Any]) -> None:
        if isinstance(properties.get("EventPattern"), Mapping):
            properties["EventPattern"] = json.dumps(properties["EventPattern"])

    _replace(Archive, "physical_resource_id", property(lambda archive: archive.name))
    _prepare(Archive, prepare)


def _mend_archive_update() -> None:
    """AWS::Events::Archive: all but the name and the source can change without another archive."""
    original = Archive.update_from_cloudformation_json

    def update(*, original_resource: Any, cloudformation_json: Any, **more: Any) -> Any:
        properties = cloudformation_json["Properties"]
        if "ArchiveName" in properties or properties.get("SourceArn") != original_resource.source_arn:
            return original(original_resource=original_resource, cloudformation_json=cloudformation_json, **more)
        pattern = properties.get("EventPattern")
        text = json.dumps(pattern) if isinstance(pattern, Mapping) else pattern
        original_resource.update(properties.get("Description"), text, properties.get("RetentionDays"))
        return original_resource

    _replace(Archive, "update_from_cloudformation_json", staticmethod(update))


def _mend_rule_update() -> None:
    """AWS::Events::Rule: all but the name and the bus can change, and the ARN, the state and others' targets stay."""
    original = Rule.update_from_cloudformation_json

    def update(
        *, original_resource: Any, cloudformation_json: Any, account_id: str, region_name: str, **more: Any
    ) -> Any:
        properties = cloudformation_json["Properties"]
        bus = str(properties.get("EventBusName") or "default").rpartition("/")[2]
        if (
            properties.get("Name", original_resource.name) != original_resource.name
            or bus != original_resource.event_bus_name
        ):
            places = {"account_id": account_id, "region_name": region_name}
            return original(
                original_resource=original_resource, cloudformation_json=cloudformation_json, **places, **more
            )
        properties.setdefault("State", original_resource.state)
        targets = {target["Id"] for target in properties.get("Targets", [])}
        before = set(getattr(original_resource, "deployed_targets", targets))
        original_resource.remove_targets(sorted(before - targets))
        made = Rule.create_from_cloudformation_json(
            original_resource.name, cloudformation_json, account_id, region_name
        )
        made.created_by = original_resource.created_by
        return made

    def complete(rule: Any, properties: Mapping[str, Any], account: str, region: str) -> None:
        rule.deployed_targets = [target["Id"] for target in properties.get("Targets", [])]

    _complete(Rule, complete)
    _replace(Rule, "update_from_cloudformation_json", staticmethod(update))


def _mend_generated_names() -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-name.html: the name that
    CloudFormation makes is as short as its service wants it."""
    original = parsing.generate_resource_name

    def generate_resource_name(resource_type: str, stack_name: str, logical_id: str) -> str:
        name = original(resource_type, stack_name, logical_id)
        known = longest_name(resource_type, get_name_type_map().get(resource_type, ""))
        most = known or _LONGEST_NAME
        kept, _, random = name.rpartition("-")
        return name if len(name) <= most else f"{kept[: most - len(random) - 1].rstrip('-')}-{random}"

    _replace(parsing, "generate_resource_name", generate_resource_name)


def _mend_layer_version() -> None:
    def complete(layer: Any, properties: Mapping[str, Any], account: str, region: str) -> None:
        layer.compatible_architectures = properties.get("CompatibleArchitectures", [])

    def delete(layer: Any, account: str, region: str) -> None:
        lambda_backends[account][region].delete_layer_version(layer.name, str(layer.version))

    _replace(LayerVersion, "physical_resource_id", property(lambda layer: layer.arn))
    _replace(LayerVersion, "delete", delete)
    _complete(LayerVersion, complete)


def _mend_layer_version_update() -> None:
    """AWS::Lambda::LayerVersion: whatever changes, another version takes its place."""

    def update(
        *, original_resource: Any, new_resource_name: str, account_id: str, region_name: str, **more: Any
    ) -> Any:
        made = LayerVersion.create_from_cloudformation_json(
            new_resource_name, account_id=account_id, region_name=region_name, **more
        )
        original_resource.delete(account_id, region_name)
        return made

    _replace(LayerVersion, "update_from_cloudformation_json", staticmethod(update))


def _mend_function() -> None:
    def complete(function: Any, properties: Mapping[str, Any], account: str, region: str) -> None:
        function.layers = function._get_layers_data(properties.get("Layers", []))
        function.architectures = properties.get("Architectures", ["x86_64"])
        function.tracing_config = properties.get("TracingConfig", {"Mode": "PassThrough"})
        function.tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}
        log_group = properties.get("LoggingConfig", {}).get("LogGroup")
        function.logs_group_name = log_group or function.logs_group_name

    _complete(LambdaFunction, complete)


def _mend_event_source_mapping() -> None:
    def prepare(properties: dict[str, Any]) -> None:
        properties["Tags"] = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}

    _prepare(EventSourceMapping, prepare)


def _mend_bucket() -> None:
    def complete(bucket: Any, properties: Mapping[str, Any], account: str, region: str) -> None:
        backend = s3_backends[account]["aws"]
        for rule in properties.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", ()):
            bucket.encryption["Rule"]["BucketKeyEnabled"] = str(rule.get("BucketKeyEnabled", False)).lower()
        if block := properties.get("PublicAccessBlockConfiguration"):
            backend.put_public_access_block(bucket.name, {name: str(value).lower() for name, value in block.items()})
        for rule in properties.get("OwnershipControls", {}).get("Rules", ()):
            backend.put_bucket_ownership_controls(bucket.name, rule["ObjectOwnership"])
        if rules := properties.get("LifecycleConfiguration", {}).get("Rules"):
            backend.put_bucket_lifecycle_configuration(bucket.name, [_lifecycle_rule(rule) for rule in rules])
        if logging := properties.get("LoggingConfiguration"):
            # Not by put_bucket_logging: it looks for a permission that the template may give later.
            bucket.logging = {
                "TargetBucket": logging.get("DestinationBucketName", bucket.name),
                "TargetPrefix": logging.get("LogFilePrefix", ""),
            }

    _complete(FakeBucket, complete)


def _lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A rule as S3's API spells it."""
    translated: dict[str, Any] = {"ID": rule.get("Id", ""), "Status": rule["Status"], "Filter": {"Prefix": ""}}
    if "ExpirationInDays" in rule:
        translated["Expiration"] = {"Days": rule["ExpirationInDays"]}
    if abort := rule.get("AbortIncompleteMultipartUpload"):
        translated["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": abort["DaysAfterInitiation"]}
    return translated


def _mend_bucket_deletion() -> None:
    def delete(resource_name: str, cloudformation_json: Any, account_id: str, region_name: str) -> None:
        backend = s3_backends[account_id]["aws"]
        if backend.delete_bucket(resource_name) is None:
            raise BucketNotEmptyError(f"The bucket {resource_name} you tried to delete is not empty")

    _replace(FakeBucket, "delete_from_cloudformation_json", staticmethod(delete))


class BucketNotEmptyError(Exception):
    """A refusal of AWS: CloudFormation deletes empty buckets only."""


def _mend_bucket_policy_enforcement() -> None:
    original = FakeBucket.get_permission

    def get_permission(bucket: Any, action: str, resource: str) -> Any:
        if bucket.policy is None:
            return original(bucket, action, resource)
        policy = json.loads(bucket.policy.decode())
        applying = [statement for statement in policy["Statement"] if not _is_about_plain_http(statement)]
        return IAMPolicy(json.dumps({**policy, "Statement": applying})).is_action_permitted(action, resource)

    _replace(FakeBucket, "get_permission", get_permission)


def _is_about_plain_http(statement: Mapping[str, Any]) -> bool:
    """True for what only holds where TLS is not used: the local account's loopback stands for a TLS connection."""
    wanted = statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport")
    return str(wanted).lower() == "false"


def _mend_topic() -> None:
    def complete(topic: Any, properties: Mapping[str, Any], account: str, region: str) -> None:
        tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}
        sns_backends[account][region].tag_resource(topic.arn, tags)

    _complete(Topic, complete)


def _mend_topic_update() -> None:
    """AWS::SNS::Topic: all but the name and the kind can change without another topic."""
    original = Topic.update_from_cloudformation_json

    def update(*, original_resource: Any, cloudformation_json: Any, **more: Any) -> Any:
        properties, topic = cloudformation_json["Properties"], original_resource
        kept = {"TopicName": topic.name, "FifoTopic": topic.fifo_topic}
        if any(properties.get(name, value) != value for name, value in kept.items()):
            return original(original_resource=topic, cloudformation_json=cloudformation_json, **more)
        topic.display_name = properties.get("DisplayName", "")
        topic.kms_master_key_id = properties.get("KmsMasterKeyId", "")
        topic._tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}
        return topic

    _replace(Topic, "update_from_cloudformation_json", staticmethod(update))


def _mend_table() -> None:
    def complete(table: Any, properties: Mapping[str, Any], account: str, region: str) -> None:
        if "TimeToLiveSpecification" in properties:
            dynamodb_backends[account][region].update_time_to_live(table.name, properties["TimeToLiveSpecification"])

    _complete(Table, complete)


def _mend_parameter() -> None:
    def prepare(properties: dict[str, Any]) -> None:
        if isinstance(properties.get("Tags"), Mapping):  # for this type, and hardly another, they are no list
            properties["Tags"] = [{"Key": key, "Value": value} for key, value in properties["Tags"].items()]

    _prepare(Parameter, prepare)


def _mend_repository() -> None:
    original = Repository.create_from_cloudformation_json

    def create(resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **more: Any) -> Any:
        name = resource_name.lower()  # a generated name holds the logical id, capitals and all
        scanning = cloudformation_json["Properties"].get("ImageScanningConfiguration", {})
        if "ScanOnPush" in scanning:
            scanning["scanOnPush"] = str(scanning.pop("ScanOnPush")).lower() == "true"
        repository = original(name, cloudformation_json, account_id, region_name, **more)
        text = cloudformation_json["Properties"].get("LifecyclePolicy", {}).get("LifecyclePolicyText")
        if text:
            ecr_backends[account_id][region_name].put_lifecycle_policy(account_id, repository.name, text)
        return repository

    _replace(Repository, "create_from_cloudformation_json", staticmethod(create))


# Resources that moto skips, and the machinery itself -----------------------------------------------------------------


def _mend_skipped_types() -> None:
    from trackside_localaccount import (
        bus_policy,  # noqa: F401  importing it registers the types
        moto_api_destinations,  # noqa: F401  likewise
        moto_resources,  # noqa: F401  likewise
    )


def _mend_template_url() -> None:
    original = vars(cloudformation_responses)["get_stack_from_s3_url"]

    def get_stack_from_s3_url(template_url: str, account_id: str, partition: str) -> str:
        parts = urlparse(template_url)
        if parts.hostname == "127.0.0.1":  # the SDK writes the bucket into the path for it, as for localhost
            template_url = f"http://localhost{parts.path}"
        return str(original(template_url, account_id=account_id, partition=partition))

    _replace(cloudformation_responses, "get_stack_from_s3_url", get_stack_from_s3_url)


def _mend_change_set_imports() -> None:
    original = CloudFormationBackend.create_change_set

    def create_change_set(backend: Any, stack_name: str, *args: Any, **more: Any) -> Any:
        answer = original(backend, stack_name, *args, **more)
        for stack in backend.stacks.values():
            if stack.name == stack_name:
                stack.cross_stack_resources = backend.exports
                stack.resource_map.cross_stack_resources = backend.exports
        return answer

    _replace(CloudFormationBackend, "create_change_set", create_change_set)


def _mend_stack_in_review() -> None:
    original = CloudFormationBackend.create_change_set

    def create_change_set(backend: Any, stack_name: str, *args: Any, **more: Any) -> Any:
        # As `cdk deploy` leaves it when nobody agrees: the next attempt must find it, not make another beside it.
        reviewed = [
            stack
            for stack in backend.stacks.values()
            if stack.name == stack_name and stack.status == "REVIEW_IN_PROGRESS"
        ]
        if more.get("change_set_type") != "CREATE" or not reviewed:
            return original(backend, stack_name, *args, **more)
        for stack in reviewed:
            del backend.stacks[stack.stack_id]
        change_set_id, stack_id = original(backend, stack_name, *args, **more)
        backend.stacks[stack_id].enable_termination_protection = reviewed[0].enable_termination_protection
        return change_set_id, stack_id

    _replace(CloudFormationBackend, "create_change_set", create_change_set)


def _mend_change_set_execution() -> None:
    def apply_change_set(change_set: Any) -> None:
        stack = change_set.stack
        backend = cloudformation_models.cloudformation_backends[stack.account_id][stack.region_name]
        outdated = [export.name for export in stack.exports]
        parameters = _with_names_of_ssm(change_set.parameters, change_set.template_dict)
        stack.resource_map.update(change_set.template_dict, parameters)
        stack.template = change_set.template
        stack.parameters = parameters
        stack._parse_template()
        stack.output_map = stack._create_output_map()
        for name in outdated:
            backend.exports.pop(name, None)
        backend.exports.update({export.name: export for export in stack.exports})

    _replace(ChangeSet, "apply", apply_change_set)


class _ChangeSetNotFoundError(CloudFormationError):
    """Under the name by which the CDK command line knows that it is gone."""

    code = "ChangeSetNotFoundException"


def _mend_missing_change_set() -> None:
    delete, describe = CloudFormationBackend.delete_change_set, CloudFormationBackend.describe_change_set

    def is_known(backend: Any, name: str) -> bool:
        return any(name in (key, one.change_set_name) for key, one in backend.change_sets.items())

    def delete_change_set(backend: Any, change_set_name: str) -> None:
        # moto forgets whose it is: of one name are all, and the command line waits until none is left.
        while is_known(backend, change_set_name):
            delete(backend, change_set_name)

    def describe_change_set(backend: Any, change_set_name: str) -> Any:
        if not is_known(backend, change_set_name):
            raise _ChangeSetNotFoundError(f"ChangeSet [{change_set_name}] does not exist")
        return describe(backend, change_set_name)

    _replace(CloudFormationBackend, "delete_change_set", delete_change_set)
    _replace(CloudFormationBackend, "describe_change_set", describe_change_set)


def _mend_termination_protection() -> None:
    original = CloudFormationBackend.delete_stack

    def update_termination_protection(response: Any) -> Any:
        name = response._get_param("StackName")
        stack = response.cloudformation_backend.get_stack(name)
        stack.enable_termination_protection = str(response._get_param("EnableTerminationProtection")).lower() == "true"
        return ActionResult({"StackId": stack.stack_id})

    def delete_stack(backend: Any, name_or_stack_id: str) -> None:
        for stack_id, stack in backend.stacks.items():
            is_meant = name_or_stack_id in (stack_id, stack.name)
            if is_meant and getattr(stack, "enable_termination_protection", False):
                raise ValidationError(
                    message=f"Stack [{stack.name}] cannot be deleted while TerminationProtection is on"
                )
        original(backend, name_or_stack_id)

    responses: Any = cloudformation_responses.CloudFormationResponse  # which has no such method
    responses.update_termination_protection = update_termination_protection
    _replace(CloudFormationBackend, "delete_stack", delete_stack)


def _with_names_of_ssm(parameters: Any, template: Any) -> dict[str, Any]:
    """The previous value of a parameter of SSM is its name; moto remembers the value, and looks for that."""
    declared = template.get("Parameters", {})
    return {
        name: declared[name]["Default"]
        if str(declared.get(name, {}).get("Type", "")).startswith("AWS::SSM::Parameter::Value")
        and "Default" in declared[name]
        else value
        for name, value in (parameters or {}).items()
    }


def _mend_failed_execution() -> None:
    original = CloudFormationBackend.execute_change_set

    def execute_change_set(backend: Any, change_set_name: str, stack_name: str | None = None) -> None:
        change_set = backend.describe_change_set(change_set_name)
        stack = backend.stacks[change_set.stack_id]
        try:
            original(backend, change_set_name, stack_name)
        except Exception as error:  # noqa: BLE001  any failure of a resource fails the stack, as on AWS
            _roll_back(stack, change_set.change_set_type, error)
            change_set.execution_status = "EXECUTE_FAILED"

    _replace(CloudFormationBackend, "execute_change_set", execute_change_set)


def _mend_failed_creation() -> None:
    original = CloudFormationBackend.create_stack

    def create_stack(backend: Any, name: str, *args: Any, **more: Any) -> Any:
        before = set(backend.stacks)
        try:
            return original(backend, name, *args, **more)
        except Exception as error:
            begun = [stack for stack_id, stack in backend.stacks.items() if stack_id not in before]
            if not begun:
                raise  # the template itself was refused: AWS too says so at once
            _roll_back(begun[0], "CREATE", error)
            return begun[0]

    _replace(CloudFormationBackend, "create_stack", create_stack)


def _mend_failed_deletion() -> None:
    original = CloudFormationBackend.delete_stack

    def delete_stack(backend: Any, name_or_stack_id: str) -> None:
        concerned = {
            stack_id: stack for stack_id, stack in backend.stacks.items() if name_or_stack_id in (stack_id, stack.name)
        }
        try:
            original(backend, name_or_stack_id)
        except Exception as error:  # noqa: BLE001  any failure of a resource keeps the stack, as on AWS
            for stack in concerned.values():
                stack._add_stack_event("DELETE_FAILED", resource_status_reason=f"{type(error).__name__}: {error}")
                stack.status = "DELETE_FAILED"
            backend.stacks.update(concerned)

    _replace(CloudFormationBackend, "delete_stack", delete_stack)


def _mend_deleted_stack() -> None:
    original = Stack.delete

    def delete(stack: Any) -> None:
        original(stack)
        # Both maps make a resource when they are asked for one that is not there.
        stack.resource_map._resource_json_map = {}
        stack.output_map = OutputMap(stack.resource_map, {}, stack.stack_id)

    _replace(Stack, "delete", delete)


def _roll_back(stack: Any, kind: str, error: Exception) -> None:
    is_refusal = isinstance(error, (cross_stack.ExportInUseError, NameInUseError))
    reason = str(error) if is_refusal else f"{type(error).__name__}: {error}"
    stack._add_stack_event(f"{kind}_FAILED", resource_status_reason=reason)
    stack.status = "ROLLBACK_COMPLETE" if kind == "CREATE" else "UPDATE_ROLLBACK_COMPLETE"
    stack.stack_status_reason = reason
    if kind == "CREATE":
        with suppress(Exception):  # what never came up cannot always be taken down
            stack.resource_map.delete()
    stack._add_stack_event(stack.status, resource_status_reason=reason)


REPAIRS: tuple[Repair, ...] = (
    Repair("kms-key", "a key with tags raises KeyError, and its policy is not JSON", _mend_kms_key),
    Repair("event-bus", "Ref gives a Python object instead of the name, and tags are dropped", _mend_event_bus),
    Repair("log-group", "its ARN does not end with the streams", _mend_log_group),
    Repair("role", "managed policies are dropped", _mend_role),
    Repair("archive", "an event pattern raises, and Ref gives a Python object", _mend_archive),
    Repair("archive-update", "another pattern makes another archive, without what was kept", _mend_archive_update),
    Repair("rule-update", "another pattern makes another rule, with another ARN", _mend_rule_update),
    Repair("generated-names", "names that CloudFormation makes are too long for services", _mend_generated_names),
    Repair("layer-version", "Ref gives a Python object; architectures are dropped; it stays", _mend_layer_version),
    Repair("layer-version-update", "a stack with another version of it fails", _mend_layer_version_update),
    Repair("function", "layers, architecture, tracing, log group and tags are dropped", _mend_function),
    Repair("event-source-mapping", "tags stay a list, which the API cannot answer", _mend_event_source_mapping),
    Repair("bucket", "bucket key, public access block, ownership, lifecycle, logging are dropped", _mend_bucket),
    Repair("bucket-deletion", "a bucket that is not empty stays, and its stack is gone", _mend_bucket_deletion),
    Repair("bucket-policy-enforcement", "a denial of plain HTTP denies everything", _mend_bucket_policy_enforcement),
    Repair("topic", "tags are dropped", _mend_topic),
    Repair("topic-update", "another display name or key makes another topic", _mend_topic_update),
    Repair("table", "the time to live is dropped", _mend_table),
    Repair("parameter", "tags, which are an object here, raise", _mend_parameter),
    Repair("repository", "a generated name has capitals; scanning and lifecycle are dropped", _mend_repository),
    Repair(
        "skipped-types",
        "policies of buckets, queues, topics; subscriptions; alarms; API destinations",
        _mend_skipped_types,
    ),
    Repair("template-url", "a template on 127.0.0.1 is sought in a bucket called 127", _mend_template_url),
    Repair("change-set-imports", "Fn::ImportValue finds nothing in a change set", _mend_change_set_imports),
    Repair("stack-in-review", "a second change set that creates it makes a second stack", _mend_stack_in_review),
    Repair("change-set-execution", "outputs and exports stay as they were", _mend_change_set_execution),
    Repair(
        "missing-change-set",
        "to delete it fails, and to ask for it says that a stack is missing",
        _mend_missing_change_set,
    ),
    Repair("failed-execution", "a stack whose change set failed is COMPLETE", _mend_failed_execution),
    Repair("failed-creation", "a stack whose resource failed stays CREATE_IN_PROGRESS", _mend_failed_creation),
    Repair("failed-deletion", "a stack whose resource stayed is gone, and its exports stay", _mend_failed_deletion),
    Repair("termination-protection", "it does not exist", _mend_termination_protection),
    Repair("deleted-stack", "asking for a deleted stack makes its exported resources again", _mend_deleted_stack),
    Repair("stack-outputs", "Fn::GetStackOutput is passed on as it is", cross_stack.read_stack_outputs),
    Repair("names-in-use", "a name that the account has already is taken again", refuse_names_in_use),
    Repair("exports-in-use", "they are deleted and changed", cross_stack.refuse_exports_in_use),
)
