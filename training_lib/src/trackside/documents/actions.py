"""The actions of SageMaker Debugger in `action_json`, translated into Trackside's.

The original writes them as JSON with quotes that are escaped once more, and lower-cases the whole before it reads it,
so that no job name with a capital is ever found. Here both spellings are read, and only the names of the actions are
lower-cased.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.errors import Problem, did_you_mean
from trackside.contracts.recipient import Recipient, email_problem, phone_problem

ACTION_PARAMETER = "action_json"
STOP, EMAIL, SMS = "stoptraining", "email", "sms"
PREFIX, ENDPOINT = "training_job_prefix", "endpoint"
DEBUGGERS = (Action.STOP_TRAINING, Action.NOTIFY)
"""The actions that SageMaker Debugger has, too."""

_JOB_PREFIX = re.compile(r"[A-Za-z0-9-]+", re.ASCII)


@dataclass(frozen=True)
class RequestedActions:
    """The actions that one rule requests.

    actions     actions to carry out on an issue
    recipients  addresses for notifications
    job_prefix  prefix of the names of jobs to stop; "" if none is given
    """

    actions: tuple[Action, ...] = ()
    recipients: tuple[Recipient, ...] = ()
    job_prefix: str = ""


def job_prefix_problem(prefix: object) -> str:
    """Return the fault of a prefix for training jobs' names as a clause, "" for a good one."""
    if not isinstance(prefix, str):
        return f"must be a text, but is {prefix!r}."
    return "" if _JOB_PREFIX.fullmatch(prefix) else f"{prefix!r} must hold letters, digits and hyphens only."


def serialise(entries: Iterable[Mapping[str, str]], *, one: bool = False) -> str:
    """Return the text of `action_json` as the SDK writes it: a list, or a single object if `one` is set."""
    plain = [dict(entry) for entry in entries]
    return json.dumps(plain[0] if one else plain).replace('"', '\\"')


def entries_of(requested: RequestedActions) -> list[dict[str, str]]:
    """Return the entries that `read_actions` reads as `requested`. Actions that the original lacks are left out."""
    entries = []
    if Action.STOP_TRAINING in requested.actions:
        entries.append({"name": STOP, **({PREFIX: requested.job_prefix} if requested.job_prefix else {})})
    return entries + [{"name": each.protocol, ENDPOINT: each.endpoint} for each in requested.recipients]


def parse_action_json(text: str, *, where: str, problems: list[Problem]) -> list[Any]:
    """Return the entries of an `action_json`. Text that is not JSON is noted in `problems`."""
    for candidate in (text, text.replace('\\"', '"')):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, (list, dict)):
            return value if isinstance(value, list) else [value]
    fix = 'Write, for example, {"name": "stoptraining"}.'
    problems.append(Problem(where, f"is no JSON of actions: {text[:60]!r}.", fix))
    return []


def read_actions(entries: Iterable[Any], *, where: str, problems: list[Problem]) -> RequestedActions:
    """Return the actions that the entries request. Mistakes are noted in `problems`."""
    actions: dict[Action, None] = {}
    recipients: dict[Recipient, None] = {}
    prefix = ""
    for k, entry in enumerate(entries):
        place = f"{where}[{k}]"
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(name, str):
            problems.append(Problem(place, f"must be an object with a `name`, but is {entry!r}."))
        elif name.lower() == STOP:
            actions[Action.STOP_TRAINING] = None
            prefix = entry.get(PREFIX, "")
            if prefix and (wrong := job_prefix_problem(prefix)):
                problems.append(Problem(f"{place}.{PREFIX}", wrong))
        elif name.lower() in {EMAIL, SMS}:
            actions[Action.NOTIFY] = None
            endpoint = entry.get(ENDPOINT)
            wrong = (email_problem if name.lower() == EMAIL else phone_problem)(endpoint)
            if wrong:
                problems.append(Problem(f"{place}.{ENDPOINT}", wrong))
            recipients[Recipient(name.lower(), str(endpoint))] = None
        else:
            fix = did_you_mean(name, (STOP, EMAIL, SMS))
            problems.append(Problem(place, f"Unknown action {name!r}.", fix))
    return RequestedActions(tuple(actions), tuple(recipients), str(prefix))
