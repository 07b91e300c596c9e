"""Every function can be traced, and calls itself in its metrics what the alarms call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Resources = Mapping[str, Any]


def functions(resources: Resources) -> list[Mapping[str, Any]]:
    return [body["Properties"] for body in resources.values() if body["Type"] == "AWS::Lambda::Function"]


def test_every_function_sends_traces(resources: Resources) -> None:
    found = functions(resources)
    assert len(found) > 6
    assert [each["Handler"] for each in found if each["TracingConfig"] != {"Mode": "Active"}] == []


def test_every_function_is_called_in_its_metrics_what_the_alarms_call_it(resources: Resources) -> None:
    """Powertools writes the variable as the dimension `service`: tests/journeys/test_trackside_drill.py sees it."""
    services = {}
    for each in functions(resources):
        services[each["Handler"].split(".")[1]] = each["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
    assert all(folder == service for folder, service in services.items())
    watched = {
        dimension["Value"]
        for body in resources.values()
        if body["Type"] == "AWS::CloudWatch::Alarm" and body["Properties"]["Namespace"] == "Trackside/Reactions"
        for dimension in body["Properties"]["Dimensions"]
        if dimension["Name"] == "service"
    }
    assert watched <= set(services)
    assert len(watched) > 1
