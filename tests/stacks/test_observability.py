"""Every function can be traced, and calls itself in its metrics what the alarms of its own deployment call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stacks.assembly import assembly
from tests.stacks.test_landing_zone import read
from tests.stacks.variants import HUB_OF_STAGING

Resources = Mapping[str, Any]


def functions(resources: Resources) -> list[Mapping[str, Any]]:
    return [body["Properties"] for body in resources.values() if body["Type"] == "AWS::Lambda::Function"]


def test_every_function_sends_traces(resources: Resources) -> None:
    found = functions(resources)
    assert len(found) >= 7
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


@pytest.fixture(scope="session")
def staging() -> Resources:
    return read(assembly(HUB_OF_STAGING))


def test_no_alarm_hears_of_another_deployment_in_the_account(resources: Resources, staging: Resources) -> None:
    """Else a sweep of `staging` would hide that there is none of the other, and its issues would raise both alarms."""
    ours, others = watched(resources), watched(staging)
    assert len(ours) == len(others) > 3
    assert ours.isdisjoint(others)


def test_every_function_of_an_environment_counts_where_its_alarms_look(staging: Resources) -> None:
    services = {each["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for each in functions(staging)}
    looked_at = {dict(dimensions)["service"] for _, _, dimensions in watched(staging) if "service" in dict(dimensions)}
    assert looked_at == {"staging-reconcile", "staging-record_verdict"}
    assert looked_at <= services
    (counting,) = [each for each in functions(staging) if "notify_owner" in each["Handler"]]
    namespace = counting["Environment"]["Variables"]["TRACKSIDE_NAMESPACE"]
    assert namespace in {of_metric for of_metric, _, _ in watched(staging)}


def watched(resources: Resources) -> set[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Namespace, name and dimensions of each metric of ours that an alarm looks at."""
    alarms = [body["Properties"] for body in resources.values() if body["Type"] == "AWS::CloudWatch::Alarm"]
    return {
        (
            alarm["Namespace"],
            alarm["MetricName"],
            tuple(sorted((each["Name"], str(each["Value"])) for each in alarm.get("Dimensions", ()))),
        )
        for alarm in alarms
        if alarm["Namespace"].split("/")[0] == "Trackside" and alarm["Namespace"] != "Trackside/Fleet"
    }
