"""EventBridge's connections and API destinations, which stock moto's CloudFormation skips. Importing registers them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from moto.core.common_models import CloudFormationModel
from moto.events.models import events_backends
from moto.secretsmanager.models import secretsmanager_backends

from trackside_localaccount.moto_resources import Resource

_SECRET = re.compile(r"\{\{resolve:secretsmanager:(?P<name>[^:}]+(:[^:}]+)*?):SecretString:(?P<key>[^:}]*)[^}]*\}\}")


class Connection(Resource, CloudFormationModel):
    TYPE = "AWS::Events::Connection"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        resolved = json.loads(_resolve(json.dumps(properties["AuthParameters"]), account, region))
        name = properties.get("Name", name)
        events_backends[account][region].create_connection(
            name, properties.get("Description", ""), properties["AuthorizationType"], resolved
        )
        return name

    def delete(self, account_id: str, region_name: str) -> None:
        events_backends[account_id][region_name].delete_connection(self.physical_resource_id)

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr in ("Arn", "SecretArn")

    def get_cfn_attribute(self, attribute_name: str) -> str:
        connection = _found("connections", self.physical_resource_id)
        return str(connection.arn if attribute_name == "Arn" else connection.secret_arn)


class ApiDestination(Resource, CloudFormationModel):
    TYPE = "AWS::Events::ApiDestination"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        name = properties.get("Name", name)
        events_backends[account][region].create_api_destination(
            name,
            properties.get("Description", ""),
            properties["ConnectionArn"],
            properties["InvocationEndpoint"],
            str(properties.get("InvocationRateLimitPerSecond", 300)),
            properties["HttpMethod"],
        )
        return name

    def delete(self, account_id: str, region_name: str) -> None:
        events_backends[account_id][region_name].delete_api_destination(self.physical_resource_id)

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr == "Arn"

    def get_cfn_attribute(self, attribute_name: str) -> str:
        return str(_found("destinations", self.physical_resource_id).arn)


def _resolve(text: str, account: str, region: str) -> str:
    """Put a secret's value where CloudFormation's dynamic reference to it stands."""

    def value_of(reference: re.Match[str]) -> str:
        backend = secretsmanager_backends[account][region]
        secret = str(backend.get_secret_value(reference["name"], "", "")["SecretString"])
        value = json.loads(secret)[reference["key"]] if reference["key"] else secret
        return json.dumps(value)[1:-1]

    return _SECRET.sub(value_of, text)


def _found(kind: str, name: str) -> Any:
    for backends in list(events_backends.values()):
        for backend in list(backends.values()):
            if name in getattr(backend, kind):
                return getattr(backend, kind)[name]
    raise LookupError(f"{name} is not among the {kind}.")
