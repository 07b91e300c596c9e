"""Templates that CloudFormation refuses before it changes anything: types, properties, values, capabilities.

By the schemas of the resource types, as cfn-lint publishes them. A value that only the deployment knows (`Ref`,
`Fn::...`) is not judged.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any

import yaml
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from moto.cloudformation.utils import yaml_tag_constructor

from trackside_localaccount.strict.violations import whole_match

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]

# https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html, Capabilities
_NAMES_IN_IAM = {
    "AWS::IAM::AccessKey": "",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Policy": "",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::UserToGroupAddition": "",
}
_WITHOUT_SCHEMA = ("AWS::CDK::Metadata", "AWS::CloudFormation::CustomResource", "Custom::")
_MOST_ERRORS = 10


class RefusedTemplateError(Exception):
    """A template that CloudFormation does not take. `code` is AWS's."""

    def __init__(self, message: str, code: str = "ValidationError") -> None:
        super().__init__(message)
        self.code = code


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of intrinsic functions, such as `!Ref`."""


_Loader.add_multi_constructor("", yaml_tag_constructor)


def parsed_template(text: str) -> Mapping[str, Any]:
    """Return a template, JSON or YAML.

    Args:
        text: The text of the template.

    Raises:
        RefusedTemplateError: It is neither, or no map with resources.
    """
    try:
        template = json.loads(text)
    except ValueError:
        try:
            template = yaml.load(text, Loader=_Loader)  # noqa: S506 - of SafeLoader, and CloudFormation's own tags
        except yaml.YAMLError as error:
            raise RefusedTemplateError(f"Template format error: YAML not well-formed. {error}") from error
    if not isinstance(template, dict) or not isinstance(template.get("Resources"), dict):
        raise RefusedTemplateError("Template format error: At least one Resources member must be defined.")
    for name, resource in template["Resources"].items():
        if not isinstance(resource, dict) or not isinstance(resource.get("Type"), str):
            raise RefusedTemplateError(f"Template format error: [/Resources/{name}] every resource needs a Type.")
    return template


def check_template(template: Mapping[str, Any], *, capabilities: list[str], region: str) -> None:
    """Refuse what CloudFormation refuses.

    Args:
        template: The template, parsed.
        capabilities: What the request acknowledges, such as `CAPABILITY_IAM`.
        region: Region of the stack.

    Raises:
        RefusedTemplateError: An unknown type or property, a value that its schema forbids, or a missing capability.
    """
    resources = template.get("Resources") or {}
    if unknown := sorted({str(one.get("Type")) for one in resources.values()} - set(_known(resources, region))):
        raise RefusedTemplateError(f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]")
    if "Transform" in template:
        return  # what a macro makes of it is not known
    _check_capabilities(resources, capabilities)
    for name, resource in resources.items():
        schema = _schema(resource["Type"], region)
        properties = resource.get("Properties") or {}
        if schema is None or _is_intrinsic(properties):
            continue
        if errors := list(_errors(schema, properties)):
            raise RefusedTemplateError(
                f"Properties validation failed for resource {name} with message: " + "; ".join(errors[:_MOST_ERRORS])
            )


def longest_name(kind: str, name_property: str, *, region: str = "us-east-1") -> int | None:
    """Return how long the name of a resource may be; None if its schema has no limit.

    Args:
        kind: Type of the resource.
        name_property: The property that has the name.
        region: Region whose schema is asked.
    """
    schema = _schema(kind, region) if kind in _types(region) else None
    most: int | None = ((schema or {}).get("properties") or {}).get(name_property, {}).get("maxLength")
    return most


def _known(resources: Mapping[str, Any], region: str) -> Iterator[str]:
    for resource in resources.values():
        kind = str(resource.get("Type"))
        if kind.startswith(_WITHOUT_SCHEMA) or kind in _types(region):
            yield kind


def _check_capabilities(resources: Mapping[str, Any], capabilities: list[str]) -> None:
    found = [one for one in resources.values() if one["Type"] in _NAMES_IN_IAM]
    named = any(_NAMES_IN_IAM[one["Type"]] in (one.get("Properties") or {}) for one in found)
    needed = "CAPABILITY_NAMED_IAM" if named else "CAPABILITY_IAM"
    if found and not {needed, "CAPABILITY_NAMED_IAM"} & set(capabilities):
        raise RefusedTemplateError(f"Requires capabilities : [{needed}]", "InsufficientCapabilitiesException")


def _errors(schema: Mapping[str, Any], properties: Any) -> Iterator[str]:
    for error in _Validator(schema).iter_errors(properties):
        place = "/".join(map(str, error.absolute_path))
        yield f"#/{place}: {error.message[:300]}" if place else f"#: {error.message[:300]}"


@functools.cache
def _types(region: str) -> Mapping[str, str]:
    data = files("cfnlint.data.schemas")
    found: dict[str, str] = json.loads((data / "providers" / f"{region}.json").read_text(encoding="utf-8"))
    return found


@functools.cache
def _schema(kind: str, region: str) -> Mapping[str, Any] | None:
    if kind.startswith(_WITHOUT_SCHEMA):
        return None
    data = files("cfnlint.data.schemas")
    text = (data / "resources" / f"{_types(region)[kind]}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return {key: value for key, value in schema.items() if key not in ("$id", "$schema")}


# How CloudFormation reads values: numbers and booleans may be texts, and functions stand for any value ----------------


def _is_intrinsic(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref", "Condition"))


def _unless_intrinsic(keyword: Keyword) -> Keyword:
    def check(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        if not _is_intrinsic(value):
            yield from keyword(validator, wanted, value, schema) or ()

    return check


def _type(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    if not any(_is_of(kind, value) for kind in kinds):
        yield ValidationError(f"expected type: {', '.join(kinds)}, found: {type(value).__name__}")


def _is_of(kind: str, value: Any) -> bool:
    if kind in ("object", "array"):
        return isinstance(value, dict if kind == "object" else list)
    if isinstance(value, (dict, list)):
        return False
    if kind == "boolean":
        return str(value).lower() in ("true", "false")
    if kind in ("integer", "number"):
        return _number(value) is not None
    return kind == "string"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _enum(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if str(value) not in map(str, wanted):
        yield ValidationError(f"{value} is not a valid enum value")


def _minimum(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if (number := _number(value)) is not None and number < wanted:
        yield ValidationError(f"{value} is not greater or equal to {wanted}")


def _maximum(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if (number := _number(value)) is not None and number > wanted:
        yield ValidationError(f"{value} is not less or equal to {wanted}")


def _pattern(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _searching(wanted)(value):
        yield ValidationError(f"failed validation constraint for keyword [pattern]: {wanted}")


@functools.cache
def _searching(pattern: str) -> Callable[[Any], bool]:
    return whole_match(pattern, anywhere=True)


def _additional(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if wanted is False and isinstance(value, Mapping) and not schema.get("patternProperties"):
        for extra in value.keys() - (schema.get("properties") or {}).keys():
            yield ValidationError(f"extraneous key [{extra}] is not permitted")
    elif wanted is not False:
        yield from Draft7Validator.VALIDATORS["additionalProperties"](validator, wanted, value, schema) or ()


def _pattern_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, Mapping):
        for pattern, inner in wanted.items():
            for name, each in value.items():
                if _searching(pattern)(name):
                    yield from validator.descend(each, inner, path=name, schema_path=pattern)


_OURS: Mapping[str, Keyword] = {
    "type": _type,
    "enum": _enum,
    "minimum": _minimum,
    "maximum": _maximum,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
}
_Validator: Any = extend(
    Draft7Validator,
    {
        name: _unless_intrinsic(_OURS.get(name, stock))
        for name, stock in Draft7Validator.VALIDATORS.items()
        if name != "$ref"
    },
)
