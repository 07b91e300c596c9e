"""Permission to send events to another account's bus: EventBusPolicy, which moto's CloudFormation lacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from moto.core.common_models import CloudFormationModel
from moto.core.exceptions import JsonRESTError
from moto.events.models import events_backends

from trackside_localaccount.moto_resources import Resource


class EventBusPolicy(Resource, CloudFormationModel):
    """Registered by its import, like the types of `moto_resources`."""

    TYPE = "AWS::Events::EventBusPolicy"

    @classmethod
    def create(cls, name: str, properties: Mapping[str, Any], account: str, region: str) -> str:
        backend, bus = events_backends[account][region], str(properties["EventBusName"])
        statements = json.loads(backend.describe_event_bus(bus).policy or "{}").get("Statement", [])
        policy = {"Version": "2012-10-17", "Statement": [*statements, properties["Statement"]]}
        backend.put_permission(bus, "", "", "", {}, json.dumps(policy))
        return f"{bus}|{properties['StatementId']}"

    def delete(self, account_id: str, region_name: str) -> None:
        bus, statement_id = self.physical_resource_id.split("|")
        with suppress(JsonRESTError):  # moto deletes in any order; the policy went with its bus
            events_backends[account_id][region_name].remove_permission(bus, statement_id, False)
