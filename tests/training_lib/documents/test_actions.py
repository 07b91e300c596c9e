"""Addresses that are right and wrong; what stands in `action_json`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.action import Action
from trackside.contracts.errors import Problem
from trackside.contracts.recipient import Recipient, email_problem, phone_problem
from trackside.documents.actions import (
    RequestedActions,
    entries_of,
    job_prefix_problem,
    parse_action_json,
    read_actions,
    serialise,
)


@pytest.mark.parametrize(
    "address",
    [
        "me@example.com",
        "first.last@example.com",
        "First.Last+tag@mail.example.co.uk",
        "team-ml_1@my-company.museum",
        "o'neil@example.ie",
        "a@1x.io",
        "x@xn--bcher-kva.example",
        f"{'a' * 64}@example.com",
    ],
)
def test_addresses_that_mail_servers_take(address: str) -> None:
    assert email_problem(address) == ""


@pytest.mark.parametrize(
    "address",
    [
        "",
        "me",
        "me@",
        "@example.com",
        "me@example",
        "me@@example.com",
        "me you@example.com",
        ".me@example.com",
        "me.@example.com",
        "a..b@example.com",
        "me@-example.com",
        "me@example-.com",
        "me@example..com",
        "me@10.0.0.1",
        "me@example.com\n",
        f"{'a' * 65}@example.com",
        f"me@{'a' * 250}.com",
        5,
        None,
    ],
)
def test_what_is_no_address(address: object) -> None:
    assert email_problem(address)


@pytest.mark.parametrize("number", ["+14155550100", "+491711234567", "+12"])
def test_phone_numbers(number: str) -> None:
    assert phone_problem(number) == ""


@pytest.mark.parametrize("number", ["", "14155550100", "+0171123", "+1415555010012345", "+1 415", "+١٢٣", "+1\n", 1415])
def test_what_is_no_phone_number(number: object) -> None:
    assert phone_problem(number)


@pytest.mark.parametrize(
    ("prefix", "good"), [("My-Job-1", True), ("", False), ("my_job", False), ("a b", False), (5, False)]
)
def test_prefixes_of_jobs(prefix: object, good: bool) -> None:
    assert (job_prefix_problem(prefix) == "") is good


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"name": "stoptraining", "training_job_prefix": "My-Job"}', id="json"),
        pytest.param(
            '{\\"name\\": \\"stoptraining\\", \\"training_job_prefix\\": \\"My-Job\\"}', id="as-the-sdk-escapes-it"
        ),
        pytest.param('[{"name": "StopTraining", "training_job_prefix": "My-Job"}]', id="a-list"),
    ],
)
def test_spellings_of_action_json(text: str) -> None:
    problems: list[Problem] = []
    asked = read_actions(parse_action_json(text, where="x", problems=problems), where="x", problems=problems)
    assert asked == RequestedActions((Action.STOP_TRAINING,), job_prefix="My-Job")
    assert problems == []


@pytest.mark.parametrize("text", ["", "stop", "5", '"stop"', "[" * 100_000, "{'name': 'stoptraining'}"])
def test_what_is_no_action_json(text: str) -> None:
    problems: list[Problem] = []
    assert parse_action_json(text, where="x", problems=problems) == []
    assert len(problems) == 1


@pytest.mark.parametrize(
    "entry", [5, {}, {"name": 5}, {"name": "fax"}, {"name": "email"}, {"name": "sms", "endpoint": "1"}]
)
def test_what_is_no_action(entry: object) -> None:
    problems: list[Problem] = []
    read_actions([entry], where="x", problems=problems)
    assert [problem.where.startswith("x[0]") for problem in problems] == [True]


def test_a_list_of_one_is_no_single_action() -> None:
    entry = {"name": "stoptraining"}
    assert serialise([entry]).startswith("[")
    assert json.loads(serialise([entry], one=True).replace('\\"', '"')) == entry


@given(
    st.lists(st.sampled_from([Recipient("email", "me@example.com"), Recipient("sms", "+14155550100")]), unique=True),
    st.booleans(),
    st.sampled_from(["", "My-Job"]),
)
def test_actions_survive_their_json(told: list[Recipient], stops: bool, prefix: str) -> None:
    actions = ((Action.STOP_TRAINING,) if stops else ()) + ((Action.NOTIFY,) if told else ())
    asked = RequestedActions(actions, tuple(told), prefix if stops else "")
    problems: list[Problem] = []
    entries = parse_action_json(serialise(entries_of(asked)), where="x", problems=problems)
    assert read_actions(entries, where="x", problems=problems) == asked
    assert problems == []
